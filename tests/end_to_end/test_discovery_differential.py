"""Skills, plugins and Codex's configuration: our server says what the reference says, over the same files."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from tests.support.servers import serving

ROOTS, STORE, CONFIG = "capabilityRoots/discoverV1", "capabilities/discoverV2", "environmentConfig/read"
LARGE = 1 << 20


class Asker:
    """A connection to a server, for questions one by one."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._number = 0
        self.ask("initialize", {"clientName": "test", "resumeSessionId": None})
        connection.send(json.dumps({"method": "initialized", "params": {}}))

    def ask(self, method: str, params: Any) -> Any:
        """The result, or code and text of the error."""
        self._number += 1
        self._connection.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            message = json.loads(self._connection.recv(timeout=60))
            if message.get("id") == self._number:
                if "result" in message:
                    return message["result"]
                return message["error"]["code"], message["error"]["message"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both servers have the same home."""
    home = tmp_path_factory.mktemp("home")
    plant_roots(home / "roots")
    plant_skills(home)
    plant_plugins(home / ".codex/plugins/cache")
    plant_odd_plugins(home / ".codex/plugins/cache")
    plant_config(home)
    return home


@pytest.fixture(scope="module")
def servers(home: Path) -> Iterator[tuple[Asker, Asker]]:
    """The reference, and ours."""
    with (
        serving("codex", home) as theirs,
        serving("outfitter", home) as ours,
        connect(theirs.url, max_size=None) as first,
        connect(ours.url, max_size=None) as second,
    ):
        yield Asker(first), Asker(second)


def put(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


# Roots


def plant_roots(roots: Path) -> None:
    skill = "---\nname: a\n---\n"
    put(roots / "plain/a/SKILL.md", skill)
    put(roots / "plain/a/agents/openai.yaml", "x: 1\n")
    put(roots / "plain/b/SKILL.md", b"\xff\xfe bad")
    put(roots / "plain/c/SKILL.md", "cut \u20ac".encode()[:-1])
    put(roots / "plain/.hidden/c/SKILL.md", "hidden")
    for depth in ("1/2/3/4", "1/2/3/4/5", "1/2/3/4/5/6", "1/2/3/4/5/6/7"):
        put(roots / "plain" / depth / "SKILL.md", depth)
    put(roots / "plain/5/SKILL.md", "x" * LARGE)
    put(roots / "plain/6/SKILL.md", "x" * (LARGE + 1))
    put(roots / "plain/skill.md", "lower case")
    put(roots / "plain/SKILL.md", "its own")
    (roots / "plain/linked").symlink_to(roots / "plain/a")
    put(roots / "plain/dir/SKILL.md/x", "a folder")
    put(roots / "odd name/sk ill/SKILL.md", "x")
    put(roots / "odd name/ümlaut/SKILL.md", "x")
    put(roots / "loop/a/SKILL.md", "x")
    (roots / "loop/a/up").symlink_to("..")
    (roots / "loop/nowhere").symlink_to("/nonexistent")
    (roots / "loop/SKILL.md").symlink_to(roots / "loop/a/SKILL.md")
    for number in range(18):
        put(roots / f"heavy/{number:02}/SKILL.md", "y" * LARGE)
    for number in range(2100):
        put(roots / f"many/{number:04}/SKILL.md", "x")
    manifests = {
        "inline": '{"mcpServers":{"a":{}}}',
        "above": '{"mcpServers":"../x.json","apps":"./apps.json"}',
        "broken": "not json",
        "bare": '{"mcpServers":"x.json","apps":"apps.json"}',
        "absent": '{"mcpServers":"./absent.json","apps":"./absent.json"}',
        "numbers": '{"mcpServers":5,"apps":[1]}',
        "nothing": '{"mcpServers":"./"}',
        "around": '{"mcpServers":"./a/../b.json","apps":"./a//b.json"}',
        "empty": "{}",
    }
    for name, manifest in manifests.items():
        folder = (".codex-plugin", ".claude-plugin", ".cursor-plugin")[len(name) % 3]
        put(roots / "plugins" / name / folder / "plugin.json", manifest)
        put(roots / "plugins" / name / ".mcp.json", name)
        put(roots / "plugins" / name / "apps.json", name)
        put(roots / "plugins" / name / "inner/SKILL.md", "x")
    put(roots / "plugins/two/.codex-plugin/plugin.json", "{}")
    put(roots / "plugins/two/.claude-plugin/plugin.json", "{}")
    (roots / "plugins/two/.mcp.json").mkdir()


def test_roots_hold_the_same(home: Path, servers: tuple[Asker, Asker]) -> None:
    folders = [
        *(home / "roots").iterdir(),
        *(home / "roots/plugins").iterdir(),
        home / "roots/plugins/two/.mcp.json",
    ]
    folders += [home / "roots/plugins/empty/inner", home / "absent", home / "roots/plain/SKILL.md"]
    roots = [{"id": str(path), "path": path.as_uri()} for path in folders]
    params = {"roots": roots}
    first, second = (server.ask(ROOTS, params) for server in servers)
    assert [one["id"] for one in second["roots"]] == [one["id"] for one in roots]
    for theirs, ours in zip(first["roots"], second["roots"], strict=True):
        assert ours == theirs


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"roots": []},
        {"roots": None},
        {"roots": "x"},
        {"roots": [{}]},
        {"roots": [{"id": 1, "path": "file:///x"}]},
        {"roots": [{"id": "a", "path": "/x"}]},
        {"roots": [{"id": "a", "path": "file:///C:/x"}]},
        {"roots": [{"id": "a", "path": "file:///nope"}] * 2},
        {"roots": [{"id": "a", "path": "file:///nope"}] * 128},
        {"roots": [{"id": "a", "path": "file:///nope"}] * 129},
        {"roots": [{"id": "a", "path": "file:///nope", "sandbox": {}}]},
        {"roots": [{"id": "a", "path": "file:///nope", "sandbox": None, "more": 1}]},
    ],
)
def test_odd_questions_about_roots_get_the_same_answer(params: Any, servers: tuple[Asker, Asker]) -> None:
    theirs, ours = (server.ask(ROOTS, params) for server in servers)
    assert ours == theirs


def sandbox(*entries: tuple[str, Path | None]) -> dict[str, Any]:
    """A context with these entries: access, and a path; None is the root of all."""
    listed = [
        {
            "path": {"type": "special", "value": {"kind": "root"}}
            if path is None
            else {"type": "path", "path": path.as_uri()},
            "access": access,
        }
        for access, path in entries
    ]
    files = {"type": "restricted", "entries": listed}
    profile = {"type": "managed", "file_system": files, "network": "restricted"}
    return {"permissions": profile, "windowsSandboxLevel": "disabled"}


def test_what_a_sandbox_hides_is_not_found(home: Path, servers: tuple[Asker, Asker]) -> None:
    # Ours alone: the reference's sandbox does not work for a home below the temporary folder.
    plain = home / "roots/plain"

    def found(*entries: tuple[str, Path | None]) -> tuple[list[str], str | None]:
        roots = [{"id": "a", "path": plain.as_uri(), "sandbox": sandbox(*entries)}]
        [told] = servers[1].ask(ROOTS, {"roots": roots})["roots"]
        paths = [one["instructions"]["path"].removeprefix(plain.as_uri()) for one in told["skills"]]
        return paths, told["error"]

    everything, error = found(("read", None))
    assert ("/a/SKILL.md" in everything, "/.hidden/c/SKILL.md" in everything, error) == (True, True, None)
    assert found(("read", None), ("deny", plain / "a")) == (
        [one for one in everything if "/a/" not in one],
        None,
    )
    hidden, error = found(("read", plain), ("deny", plain / ".hidden"))
    assert (hidden, error) == ([one for one in everything if "/.hidden/" not in one], None)
    skills, error = found(("read", home / "roots/loop"))
    assert skills == []
    assert error is not None and error.endswith("No such file or directory (os error 2)")


# The executor's own skills


def plant_skills(home: Path) -> None:
    fronts = {
        "one": "name: one\ndescription: The first\nmetadata:\n  short-description: short\n",
        "none": None,
        "no-description": "name: three\n",
        "no-name": "description: only\n",
        "bad": "name: [bad\n",
        "long-name": f"name: {'n' * 65}\ndescription: d\n",
        "long": f"name: {'n' * 64}\ndescription: {'d' * 1024}\n",
        "too-long": f"name: n\ndescription: {'d' * 1025}\n",
        "folded": 'name: "  sp   aced "\ndescription: >\n  folded\n  text\n',
        "number": "name: 7\ndescription: 5\n",
        "colon": "name: c\ndescription: d: with colon\n",
        "at": "name: c\ndescription: @bad\n",
        "twice": "name: a\nname: b\ndescription: d\n",
        "alias": "name: a\ndescription: &a d\nx: *a\n",
        "text-metadata": "name: a\ndescription: d\nmetadata: text\n",
        "empty": 'name: ""\ndescription: ""\n',
        "slash": "name: c:21/x\ndescription: d\n",
        "lines": "name: a\ndescription: |\n  two\n  lines\n",
    }
    for name, front in fronts.items():
        text = "no front matter\n" if front is None else f"---\n{front}---\nbody\n"
        put(home / ".codex/skills" / name / "SKILL.md", text)
    texts = {
        "late": "\n---\nname: a\ndescription: late\n---\n",
        "open": "---\nname: a\ndescription: d\n",
        "crlf": "---\r\nname: crlf\r\ndescription: d\r\n---\r\n",
        "spaces": "--- \nname: spaces\ndescription: d\n--- \n",
        "four": "----\nname: four\ndescription: d\n----\n",
        "trailing": "---\nname: t\ndescription: d\n---x\n",
    }
    for name, text in texts.items():
        put(home / ".codex/skills" / name / "SKILL.md", text)
    yamls = {
        "y1": "dependencies:\n  tools: [{type: mcp, value: x, oauth: {callback_port: 7}}]\n",
        "y2": "dependencies:\n  tools:\n    - type: mcp\n",
        "y3": "dependencies: {}\npolicy: {}\n",
        "y4": "policy:\n  allow_implicit_invocation: true\n  products: [codex, chatgpt]\n",
        "y5": "policy:\n  products: [nobody]\n",
        "y6": "policy:\n  products: codex\n",
        "y7": "dependencies:\n  tools:\n    - type: odd\n      value: '  sp  aced '\n      description: 5\n",
        "y8": "bad: [yaml\n",
    }
    for name, text in yamls.items():
        put(home / ".agents/skills" / name / "SKILL.md", f"---\nname: {name}\ndescription: d\n---\n")
        put(home / ".agents/skills" / name / "agents/openai.yaml", text)
    put(home / ".codex/skills/.system/sys/SKILL.md", "---\nname: sys\ndescription: s\n---\n")
    put(home / ".codex/skills/deep/a/b/c/SKILL.md", "---\nname: deep\ndescription: x\n---\n")
    for name, manifest in {"named": '{"name":"n"}', "unnamed": "{}", "broken": "no"}.items():
        put(home / ".codex/skills/of" / name / ".codex-plugin/plugin.json", manifest)
        put(home / ".codex/skills/of" / name / "s/SKILL.md", skill("s"))


def plant_plugins(cache: Path) -> None:
    skill = "---\nname: s\ndescription: d\n---\n"
    manifests: dict[str, Any] = {
        "plain": {"name": "plain"},
        "unnamed": {},
        "other-name": {"name": "another", "version": "3.3.3", "interface": {"displayName": " Shown"}},
        "blank": {"name": " blank ", "interface": {"displayName": "  "}},
        "paths": {"name": "paths", "skills": "./more/", "mcpServers": "./my.json", "apps": "./a.json"},
        "inline": {"name": "inline", "mcpServers": {"z": {"command": "true", "args": ["ä"]}}},
        "list": {"name": "list", "mcpServers": ["./my.json"]},
        "gone": {"name": "gone", "mcpServers": "./gone.json"},
        "wrong-paths": {"name": "wrong-paths", "mcpServers": "my.json", "apps": "my.json"},
        "number": {"name": 5},
        "apps-table": {"name": "x", "apps": {"q": 1}},
        "interface-number": {"name": "x", "interface": 5},
        "array": [],
        "a b": {"name": "space"},
    }
    for name, manifest in manifests.items():
        put(cache / "shop" / name / "1.0.0/.codex-plugin/plugin.json", json.dumps(manifest))
        put(cache / "shop" / name / "1.0.0/skills/s/SKILL.md", skill)
    for file in ("more/x/SKILL.md", "SKILL.md"):
        put(cache / "shop/paths/1.0.0" / file, skill)
    put(cache / "shop/paths/1.0.0/skills/broken/SKILL.md", "---\nname: [bad\n---\n")
    for file in ("my.json", "a.json"):
        put(cache / "shop/paths/1.0.0" / file, "{}")
    for name in ("plain", "list", "gone", "wrong-paths"):
        for file in (".mcp.json", ".app.json"):
            put(cache / "shop" / name / "1.0.0" / file, f'{{"{file}": {{}}}}')
    versions = {
        "numbers": ("1.0.0", "10.0.0", "2.0.0"),
        "local": ("1.0.0", "local", "zzz"),
        "texts": ("1.0.0", "abc", "abd"),
        "early": ("1.0.0-beta.2", "1.0.0-beta.10", "1.0.0-alpha", "0.9.9"),
        "short": ("1.2", "1.10"),
        "spaced": ("1 0",),
    }
    for name, folders in versions.items():
        for version in folders:
            put(cache / "shop" / name / version / ".claude-plugin/plugin.json", json.dumps({"name": name}))
    put(cache / "shop/no-manifest/1.0.0/skills/s/SKILL.md", skill)
    put(cache / "shop/no-version/file", "")
    put(cache / "mall/plain/1.0.0/.codex-plugin/plugin.json", "{nope")
    put(cache / "a file", "")


def skill(name: str) -> str:
    return f"---\nname: {name}\ndescription: d\n---\n"


def plant_odd_plugins(cache: Path) -> None:
    manifest, remote = ".codex-plugin/plugin.json", ".codex-remote-plugin-install.json"
    versions = {
        "semver": ["1.9.0", "1.10.0", "1.10.0-rc1"],
        "mixed": ["1.9.0", "1.10.0", "abc"],
        "local": ["9.0.0", "local"],
        "short": ["2", "10"],
        "before": ["1.0.0-a", "1.0.0-b.1", "1.0.0-2"],
        "build": ["1.0.0+a", "1.0.0+b"],
        "hidden": [".x"],
        "odd-version": ["1 2"],
        "Bad Name": ["1"],
        ".dot": ["1"],
        "d.t": ["1"],
        "x-1_Y": ["1"],
        "v+1": ["1"],
    }
    for name, found in versions.items():
        for version in found:
            put(cache / "m" / name / version / manifest, '{"name":"q"}')
    for market in ("m.m", "a b", ".h"):
        put(cache / market / "p/1" / manifest, '{"name":"q"}')
    manifests = [
        *({"name": value} for value in (5, None, "", " x ", "a b", "p" * 80)),
        *({"name": "n", "interface": value} for value in (5, None, {}, {"displayName": 5})),
        *({"name": "n", "interface": {"displayName": value}} for value in ("", "  ", " a  b ", None)),
        *({"name": "n", "interface": {key: 5}} for key in ("shortDescription", "capabilities", "logo")),
        *({"name": "n", key: 5} for key in ("version", "skills", "mcpServers", "apps", "hooks", "author")),
        {"name": "n", "mcpServers": "x.json", "apps": "./apps.json", "skills": "./other"},
        [],
        "text",
    ]
    for number, told in enumerate(manifests):
        folder = cache / f"m/f{number:02}/1"
        put(folder / manifest, json.dumps(told))
        put(folder / "apps.json", "{}")
        put(folder / ".mcp.json", "{}")
        put(folder / "skills/a/SKILL.md", skill("s"))
        put(folder / "other/b/SKILL.md", skill("n" * 48))
        put(folder / "skills/a/agents/openai.yaml", "policy:\n  allow_implicit_invocation: true\n")
    ids = [{"schema_version": 1, "remote_plugin_id": value} for value in ("r", "", " a b ", 5, "x" * 5000)]
    for number, told in enumerate([*ids, {"schema_version": 2, "remote_plugin_id": "r"}, {}, []]):
        put(cache / f"m/r{number}/1" / manifest, "{}")
        put(cache / f"m/r{number}" / remote, json.dumps(told))
    put(cache / "m/empty-one/1" / manifest, "{}")
    (cache / "m/empty-one/2").mkdir()
    put(cache / "m/inner/1" / manifest, '{"name":"outer"}')
    put(cache / "m/inner/1/skills/sub" / manifest, '{"name":"sub"}')
    put(cache / "m/inner/1/skills/sub/x/SKILL.md", skill("x"))
    put(cache / "m/inner/1/SKILL.md", skill("own"))
    put(cache / "m/bad-skill/1" / manifest, "{}")
    put(cache / "m/bad-skill/1/SKILL.md", "none")
    put(cache / "m/claude/1/.claude-plugin/plugin.json", '{"name":"c"}')
    put(cache / "m/file", "x")
    (cache / "m/linked").symlink_to("inner")
    (cache / "m/link-inside").mkdir()
    (cache / "m/link-inside/1").symlink_to("../inner/1")
    (cache / "n").symlink_to("m/inner")


@pytest.mark.parametrize("cwd", ["file:///", "file:///C:/x", "file:///nope"])
def test_executors_own_skills_are_the_same(cwd: str, servers: tuple[Asker, Asker]) -> None:
    theirs, ours = (server.ask(STORE, {"cwd": cwd}) for server in servers)
    assert [one["path"] for one in ours["skills"]] == [one["path"] for one in theirs["skills"]]
    assert [one["id"] for one in ours["plugins"]] == [one["id"] for one in theirs["plugins"]]
    for kind in ("skills", "plugins"):
        for first, second in zip(theirs[kind], ours[kind], strict=True):
            assert second == first
    assert ours == theirs


@pytest.mark.parametrize("params", [{}, {"cwd": "/x"}, {"cwd": 1}, {"cwd": "file:///", "sandbox": {}}])
def test_odd_questions_about_skills_get_the_same_answer(params: Any, servers: tuple[Asker, Asker]) -> None:
    theirs, ours = (server.ask(STORE, params) for server in servers)
    assert ours == theirs


def test_change_shows_at_once(home: Path, servers: tuple[Asker, Asker]) -> None:
    # Ours alone: the reference answers from a snapshot, for a while.
    folder = home / ".agents/skills/late"

    def names() -> list[str]:
        found = servers[1].ask(STORE, {"cwd": "file:///"})["skills"]
        return [one["name"] for one in found if "/late/" in one["path"]]

    try:
        assert (names(), names()) == ([], [])
        put(folder / "SKILL.md", skill("one"))
        assert (names(), names()) == (["one"], ["one"])
        put(folder / "SKILL.md", skill("two"))
        assert names() == ["two"]
        (folder / "SKILL.md").unlink()
        assert names() == []
    finally:
        folder.rmdir()


# Configuration

TEXTS = [
    "a'b",
    'a"b',
    "a\\b",
    'a\\"b',
    "a'\\b",
    'nl\nq"""q',
    "nl\nq'",
    "nl\\\nx",
    "cr\r\nx",
    "\ttab",
    "\nlead",
]
TEXTS += ["trail\n", "a\"'\\x", "\x7f", "é", "'''\"x", "", '"', "'", 'nl\n"', "nl\n'''\"\"\"", "\n", 'a"\'b"']
CONFIG_TEXT = """
model = "m"
num = 5
big = 1_000
floats = [1.0, 1e10, 1e300, -0.0, 1e-7, 123456789012345680.0, 0.1, nan, -inf]
when = [2026-01-02T03:04:05Z, 1979-05-27T07:32:00.5-07:00, 1979-05-27]
nested = [[1, 2], []]
mixed = [{a = 1}, {b = "x"}]
odd = [{a = 1}, 5]
"quoted key" = 1
"" = 2
"a'b" = 3
inline = { x = 1, y = { z = 2 } }
[t]
x = 1
[t.u]
y = 2
[t.u.v]
[d.e.f]
g = 1
[mcp_servers.a]
url = "http://x"
[mcp_servers."b c"]
command = "c"
env = { A = "1" }
[[aot]]
n = 1
[[aot]]
[aot.sub]
k = 1
[empty_table]
"""


def plant_config(home: Path) -> None:
    project = home / "project"
    project.mkdir()
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    lines = [f"s{number:02} = {json.dumps(text)}" for number, text in enumerate(TEXTS)]
    trust = f'[projects."{project}"]\ntrust_level = "trusted"\n'
    put(home / ".codex/config.toml", "\n".join([*lines, CONFIG_TEXT, trust]))
    put(project / ".codex/config.toml", 'model = "project"\n[mcp_servers.p]\nurl = "http://p"\n')
    put(project / "a/.codex/config.toml", "num = 7\n")
    put(project / "a/b/.codex/config.toml", 'model = "sub"\n')
    put(project / "inner/.codex/config.toml", 'model = "inner"\n')
    (project / "inner/.git").mkdir()
    put(home / "untrusted/.codex/config.toml", 'model = "untrusted"\n')
    (home / "link").symlink_to(project)


EVERY_KEY = [
    *(
        "model",
        "num",
        "big",
        "floats",
        "when",
        "nested",
        "mixed",
        "odd",
        "quoted key",
        "",
        "a'b",
        "inline",
        "t",
        "d",
    ),
    *("mcp_servers", "aot", "empty_table", "projects", *(f"s{number:02}" for number in range(len(TEXTS)))),
]


@pytest.mark.parametrize(
    ("cwd", "paths"),
    [
        ("project", [[key] for key in EVERY_KEY]),
        ("project", [[key] for key in reversed(EVERY_KEY)]),
        *(
            ("project", [[key]])
            for key in ("t", "mcp_servers", "aot", "empty_table", "mixed", "zzz", "d", "inline")
        ),
        ("project", [["t", "u"], ["mcp_servers", "a", "url"]]),
        ("project", [["t", "u", "y"], ["t", "x"]]),
        ("project", [["t"], ["t", "u"]]),
        ("project", [["model", "x"], ["nested", "0"]]),
        ("project", [["model"], ["model"]]),
        *(
            (folder, [["model"], ["num"]])
            for folder in (
                "project/a/b",
                "project/a",
                "project/inner",
                "untrusted",
                "link",
                "absent",
                "project/.git",
            )
        ),
    ],
)
def test_configuration_is_the_same(
    cwd: str, paths: list[list[str]], home: Path, servers: tuple[Asker, Asker]
) -> None:
    params = {"cwd": (home / cwd).as_uri(), "configPaths": paths, "requirementsPaths": [["model"]]}
    theirs, ours = (server.ask(CONFIG, params) for server in servers)
    assert ours == theirs


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"configPaths": [["a"]], "requirementsPaths": []},
        {"cwd": "file:///", "configPaths": [], "requirementsPaths": []},
        {"cwd": "file:///", "configPaths": [[]], "requirementsPaths": []},
        {"cwd": "file:///", "configPaths": [["a"]], "requirementsPaths": [[]]},
        {"cwd": "file:///", "configPaths": [["a"]]},
        {"cwd": "file:///", "configPaths": "x", "requirementsPaths": []},
        {"cwd": "file:///", "configPaths": ["x"], "requirementsPaths": []},
        {"cwd": "file:///", "configPaths": [["a", 1]], "requirementsPaths": []},
        {"cwd": "file:///C:/x", "configPaths": [["a"]], "requirementsPaths": []},
    ],
)
def test_odd_questions_about_configuration_get_the_same_answer(
    params: Any, servers: tuple[Asker, Asker]
) -> None:
    theirs, ours = (server.ask(CONFIG, params) for server in servers)
    assert ours == theirs


def test_file_that_is_no_toml_is_told_with_its_line(tmp_path: Path) -> None:
    put(tmp_path / ".codex/config.toml", "good = 1\nbad =\n")
    with serving("outfitter", tmp_path) as server, connect(server.url) as connection:
        params = {"cwd": "file:///", "configPaths": [["a"]], "requirementsPaths": []}
        code, text = Asker(connection).ask(CONFIG, params)
    assert code == -32603
    assert text.startswith(f"failed to load executor-local config: {tmp_path}/.codex/config.toml:2: ")
