"""outfitter config: show, schema, import-codex."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.cli.config import policy_lines
from outfitter.contract.config import read_file
from outfitter.contract.file import parse_settings
from outfitter.contract.schema import json_schema
from outfitter.contract.settings import PolicySettings, Source
from outfitter.record import replace
from tests.support.tools import program

from .commandline import OUTFITTER, User


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    (path / ".git").mkdir(parents=True)
    return path


def configure(user: User, text: str) -> Path:
    path = user.config / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


USER = """\
[shell]
startup = "repair"

[shell_environment_policy]
exclude = ["AWS_*"]
set = { MODE = "hush" }

[names]
secret = ["*_URL"]
"""
PROJECT = """\
[shell]
login = "strip"
startup = "report"

[shell_environment_policy]
include_only = []

[env]
set = { LEVEL = "hush" }
prepend = { PATH = ["bin"] }
"""


def test_every_setting_is_shown_with_its_place(user: User, project: Path) -> None:
    mine = configure(user, USER)
    theirs = project / "outfitter.toml"
    theirs.write_text(PROJECT)
    (project / "src").mkdir()
    done = user.run("config", "show", "--cwd", str(project / "src"))
    assert (done.returncode, done.stderr) == (0, b"")
    head, _, rest = done.stdout.decode().partition("\n\n")
    assert head.splitlines() == [f"user: {mine}", f"project: {theirs}"]
    rows, _, notes = rest.partition("\n\n")
    policy = "shell_environment_policy"
    assert [row.split() for row in rows.splitlines()] == [
        ["SETTING", "VALUE", "FROM"],
        ["shell.login", "strip", f"{theirs}:2"],
        ["shell.startup", "repair", f"{mine}:2"],
        ["shell.descendants", "flag", "default"],
        ["shell.snapshot", "none", "default"],
        ["shell.snapshot_timeout", "10.0", "default"],
        ["daemon.environment", "daemon", "default"],
        ["notices.stock", "stderr", "default"],
        ["trace.commands", "false", "default"],
        ["sandbox.setup", "off", "default"],
        ["sandbox.providers", "off", "default"],
        ["limits.total_bytes", "1048576", "default"],
        ["providers.use", "auto", "default"],
        ["providers.allow", "all", "default"],
        ["providers.required", "(none)", "default"],
        ["providers.on_failure", "warn", "default"],
        ["providers.timeout", "each", "its", "own", "default"],
        ["providers.freeze", "auto", "default"],
        ["sandbox.mode", "full-access", "default"],
        ["names.lists", "(none)", "default"],
        ["names.secret", "*_URL", f"{mine}:9"],
        ["names.allow_code_loading", "(none)", "default"],
        ["import.codex", "false", "default"],
        [f"{policy}.inherit", "all", "default"],
        [f"{policy}.ignore_default_excludes", "true", "default"],
        [f"{policy}.exclude", "AWS_*", f"{mine}:5"],
        [f"{policy}.set.MODE", "(hidden)", f"{mine}:6"],
        [f"{policy}.include_only", "(none)", "default"],
        [f"{policy}.allow_from", "(none)", "default"],
        [f"{policy}.include_only", "(none)", f"{theirs}:6"],
        ["env.set.LEVEL", "(hidden)", f"{theirs}:9"],
        ["env.prepend.PATH", f"{project}/bin", f"{theirs}:10"],
    ]
    assert notes == (
        f"{theirs}:3: shell.startup = report is ignored: a project's file cannot loosen a setting\n"
    )


def test_an_ordinary_user_is_told_what_masks_take_away(user: User) -> None:
    file = configure(user, '[shell]\ndescendants = "mask"\n')
    nobody = [program("unshare"), "--user"]  # whoever has no number there is an ordinary user
    if subprocess.run([*nobody, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this kernel gives us no user namespace")
    show = [*nobody, *OUTFITTER, "config", "show"]
    done = subprocess.run(show, capture_output=True, cwd=user.home, env=user.env(), check=True)
    told = "sudo and other programs that become another user do nothing in commands"
    assert done.stdout.decode().endswith(f"\n{file}:2: shell.descendants = mask: {told}\n")


def test_without_files_everything_is_the_default(user: User, project: Path) -> None:
    done = user.run("config", "show", "--cwd", str(project))
    head, _, rows = done.stdout.decode().partition("\n\n")
    assert head.splitlines() == [
        f"user: {user.config / 'config.toml'} (does not exist)",
        "project: no outfitter.toml",
    ]
    assert {row.split()[-1] for row in rows.splitlines()[1:]} == {"default"}


@pytest.mark.parametrize("command", [("config", "show"), ("env", "lock"), ("env", "check")])
def test_the_name_of_a_folder_does_not_steer_the_terminal(
    user: User, tmp_path: Path, command: tuple[str, ...]
) -> None:
    project = tmp_path / "pro\x1b[31mject"
    (project / ".git").mkdir(parents=True)
    (project / "outfitter.toml").write_text("[shell]\nlogin = 'reject'\n")
    assert user.run("env", "lock", "--cwd", str(project)).returncode == 0
    done = user.run(*command, "--cwd", str(project))
    assert done.returncode == 0
    assert rb"pro\x1b[31mject" in done.stdout
    assert b"\x1b" not in done.stdout


def test_json_has_the_same(user: User, project: Path) -> None:
    mine = configure(user, USER)
    theirs = project / "outfitter.toml"
    theirs.write_text(PROJECT)
    done = user.run("config", "show", "--json", "--cwd", str(project))
    assert (done.returncode, done.stderr) == (0, b"")
    told = json.loads(done.stdout)
    assert told["files"] == [
        {"path": str(mine), "kind": "user", "exists": True},
        {"path": str(theirs), "kind": "project", "exists": True},
    ]
    place = {"kind": "project", "file": str(theirs), "line": 3}
    assert told["ignored"] == [{"setting": "shell.startup", "value": "report", **place}]
    by_name = {entry["setting"]: entry for entry in told["settings"]}
    assert by_name["shell.login"] == {
        "setting": "shell.login",
        "value": "strip",
        "hidden": False,
        **place,
        "line": 2,
    }
    assert by_name["limits.total_bytes"]["value"] == 1048576
    assert by_name["env.set.LEVEL"]["value"] is None
    assert by_name["env.set.LEVEL"]["hidden"] is True


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_values_of_variables_are_shown_when_asked_for(
    user: User, project: Path, flags: tuple[str, ...]
) -> None:
    configure(user, USER)
    (project / "outfitter.toml").write_text(PROJECT)
    show = ("config", "show", "--cwd", str(project), *flags)
    assert user.run(*show).stdout.count(b"hush") == 0
    assert user.run(*show, "--values").stdout.count(b"hush") == 2


def test_every_mistake_is_named_with_its_line(user: User, project: Path) -> None:
    mine = configure(user, '[shell]\nlogin = "hush"\n')
    theirs = project / "outfitter.toml"
    theirs.write_text("[daemon]\n[env]\nsett = 1\n")
    done = user.run("config", "show", "--cwd", str(project))
    assert (done.returncode, done.stdout) == (1, b"")
    lines = [line.removeprefix("outfitter: ") for line in done.stderr.decode().splitlines()]
    assert [line.partition(": ")[0] for line in lines] == sorted([f"{mine}:2", f"{theirs}:1", f"{theirs}:3"])


def test_provider_that_does_not_exist_is_a_mistake(user: User, project: Path) -> None:
    (project / "outfitter.toml").write_text('[providers]\nrequired = ["pyhton"]\n')
    done = user.run("config", "show", "--cwd", str(project))
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"outfitter.toml:2: no provider is named `pyhton`; did you mean `python`?" in done.stderr


def test_folder_that_does_not_exist_is_a_usage_error(user: User, tmp_path: Path) -> None:
    done = user.run("config", "show", "--cwd", str(tmp_path / "gone"))
    assert (done.returncode, done.stdout) == (2, b"")


def test_schema_is_printed(user: User) -> None:
    done = user.run("config", "schema")
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout) == json_schema()


CODEX = """\
model = "some"
allow_login_shell = false
[shell_environment_policy]
inherit = "core"
filters = { "AWS_*" = "exclude", "P?" = "include" }
set = { CI = "1", "A.B" = "2", QUOTES = 'a"b\\', NAME = "é" }
"""


def test_codex_file_in_our_words(user: User) -> None:
    path = user.home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text(CODEX)
    # In a locale that has no é.
    done = user.run("config", "import-codex", env={"LC_ALL": "C", "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == (
        f"# From {path}\n"
        "allow_login_shell = false\n"
        "\n"
        "[shell_environment_policy]\n"
        'inherit = "core"\n'
        'exclude = ["AWS_*"]\n'
        'include_only = ["P?"]\n'
        "# Left out, because shells drop variables with this name: A.B\n"
        'set = { CI = "1", QUOTES = "a\\"b\\\\", NAME = "é" }\n'
    )
    ours = user.home / "ours.toml"
    ours.write_bytes(done.stdout)
    said, theirs = read_file(str(ours), "user", None), read_file(str(path), "codex", None)
    assert said is not None
    assert theirs is not None
    assert said.login == theirs.login
    assert said.policy is not None
    assert said.policy.include_only == ("P?",)


def test_codex_file_that_says_nothing(user: User) -> None:
    path = user.home / "other.toml"
    path.write_text('model = "some"\n')
    done = user.run("config", "import-codex", "other.toml")
    assert done.stdout.decode() == (
        f"# From {path}\n# The file has neither allow_login_shell nor [shell_environment_policy].\n"
    )


def test_codex_file_that_is_not_there_or_not_right(user: User) -> None:
    done = user.run("config", "import-codex", env={"CODEX_HOME": str(user.home / "codex")})
    path = user.home / "codex" / "config.toml"
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == f"outfitter: {path} does not exist: give the path of Codex's config.toml\n"
    path.parent.mkdir()
    path.write_text("allow_login_shell = 1\n[shell_environment_policy]\nexclude = 1\n")
    done = user.run("config", "import-codex", str(path))
    assert done.returncode == 1
    assert [line.split(": ")[0] for line in done.stderr.decode().splitlines()] == ["outfitter", f"{path}:3"]


_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(
    st.sampled_from(["all", "core", "none"]),
    st.booleans(),
    st.lists(_TEXT),
    st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]*", fullmatch=True), _TEXT),
)
def test_printed_policy_reads_as_it_was(
    inherit: str, flag: bool, patterns: list[str], values: dict[str, str]
) -> None:
    policy = PolicySettings(
        "/c",
        inherit=inherit,
        ignore_default_excludes=flag,
        exclude=tuple(patterns),
        set=tuple(values.items()),
        include_only=tuple(reversed(patterns)),
        rules=dict.fromkeys(
            ("inherit", "ignore_default_excludes", "exclude", "set", "include_only"), Source("/c", 1, "codex")
        ),
    )
    text = "\n".join(["[shell_environment_policy]", *policy_lines(policy)])
    tomllib.loads(text)
    again = parse_settings(text, "/u", "user", None).policy
    assert again is not None
    assert replace(again, rules={}) == replace(policy, file="/u", rules={})
