"""The stock Codex client with MCP servers, skills and plugins of an executor, and its shell snapshots.

Every test runs on our server and on the reference. The MCP servers are real ones, of the `mcp` package.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import mcpserver
from tests.support.appserver import TOKENS_IN_FILE, log_in
from tests.support.codex import Run, run_codex
from tests.support.machine import SECOND
from tests.support.mcpweb import guarded_server, web_server
from tests.support.model import Model, Script, exec_command, mcp_tool, modelling
from tests.support.servers import serving
from tests.support.tap import Heard, Tap, tapping

# Codex wants to be told where a server on an executor runs; `required` makes it wait for the server.
PLACED = """
[mcp_servers.place]
{what}
environment_id = "remote"
startup_timeout_sec = 60
required = true
"""


class Stage:
    """A server with a home of its own behind a tap, and a working directory that the client shares."""

    def __init__(self, kind: str, tap: Tap, root: Path) -> None:
        self.kind = kind
        self.tap = tap
        self.root = root
        self.home = root / "server"
        self.cwd = root / "work"

    def play(
        self,
        script: Callable[[], Script],
        tables: str = "",
        features: tuple[str, ...] = (),
        config: str = "",
    ) -> tuple[Run, Model]:
        args = [part for one in features for part in ("-c", f"features.{one}=true")]
        with modelling(script) as model:
            run = run_codex(
                self.root / "client",
                model=model.url,
                server=self.tap.url,
                cwd=self.cwd,
                config=config,
                tables=tables,
                args=args,
            )
        assert (run.exit_code, run.message) == (0, "done"), (run, model.outputs)
        return run, model


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def skill(name: str) -> str:
    return f"---\nname: {name}\ndescription: About {name}.\n---\nDo {name}.\n"


ENABLED = '\n[plugins."demo@shop"]\nenabled = true\n'


def plant(home: Path) -> None:
    """Skills, a plugin with an MCP server, and a startup file: before the server starts, when it may look."""
    put(home / ".codex/skills/deploy/SKILL.md", skill("deploy"))
    put(home / ".agents/skills/tidy/SKILL.md", skill("tidy"))
    plugin = home / ".codex/plugins/cache/shop/demo/1.0.0"
    put(plugin / ".codex-plugin/plugin.json", '{"name": "demo"}')
    put(plugin / "skills/wash/SKILL.md", skill("wash"))
    server = {"command": sys.executable, "args": [mcpserver.__file__], "startup_timeout_sec": 60}
    put(plugin / ".mcp.json", json.dumps({"mcpServers": {"plugged": server}}))
    put(home / ".bash_profile", "echo ran >> $HOME/runs\ngreet() { echo hello; }\n")


@pytest.fixture(params=["codex", "outfitter"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    for name in ("server", "work"):
        (tmp_path / name).mkdir()
    plant(tmp_path / "server")
    with (
        serving(request.param, tmp_path / "server", env={"SERVER_MARK": "of the executor"}) as server,
        tapping(server.port) as tap,
    ):
        yield Stage(request.param, tap, tmp_path)


def result(text: str) -> str:
    """What a tool of an MCP server has answered."""
    found: str = json.loads(text)["result"]
    return found


# MCP servers


def test_an_mcp_server_runs_on_the_executor_and_survives_a_cut_connection(stage: Stage) -> None:
    command = (
        f'command = "{sys.executable}"\nargs = ["{mcpserver.__file__}"]\ncwd = "{stage.cwd}"\n'
        'env_vars = [{ name = "SERVER_MARK", source = "remote" }]'
    )

    put(stage.cwd / "outfitter.toml", '[env]\nset = { NO_COLOR = "1" }\n')

    def has_answer(heard: Heard) -> bool:
        return heard.method == "process/output"

    def script() -> Script:
        yield [mcp_tool("place", "where", name="SERVER_MARK")]
        yield [mcp_tool("place", "where", name="NO_COLOR")]
        yield [mcp_tool("place", "echo", text="before")]
        stage.tap.cut_at(has_answer)
        yield [mcp_tool("place", "echo", text="cut")]
        yield [mcp_tool("place", "echo", text="after")]
        return "done"

    _, model = stage.play(script, PLACED.format(what=command))
    assert [result(out.text) for out in model.outputs] == [
        f"{stage.cwd} of the executor",
        f"{stage.cwd} {'1' if stage.kind == 'outfitter' else None}",  # of the project: ours alone
        "1 before",
        "2 cut",
        "3 after",
    ]
    assert stage.tap.connections == 2
    [start] = stage.tap.sent("process/start")
    assert (start["argv"], start["pipeStdin"]) == ([sys.executable, mcpserver.__file__], True)
    assert start["processId"] in {params["processId"] for params in stage.tap.sent("process/terminate")}


def test_a_person_logs_in_to_an_mcp_server_through_the_executor(stage: Stage) -> None:
    """Discovery, registration, the code and its renewal: everything but the visit of the person's browser."""

    def script() -> Script:
        yield [mcp_tool("place", "echo", text="hällo")]
        return "done"

    def visit(url: str) -> None:
        with urllib.request.urlopen(url, timeout=30 * SECOND) as page:  # follows to the client's own address
            assert page.status == 200

    def asked() -> set[tuple[str, str]]:
        sent = stage.tap.sent("http/request")
        return {(one["method"], one["url"].removeprefix(base)) for one in sent}

    with guarded_server() as (url, authority):
        base = url.removesuffix("/mcp")
        tables = PLACED.format(what=f'url = "{url}"')
        authority.lifetime = 1
        done = log_in(stage.root / "client", server=stage.tap.url, name="place", tables=tables, visit=visit)
        assert done["success"] is True
        assert authority.grants == ["registration", "code"]
        assert {("POST", "/register"), ("POST", "/token")} <= asked()
        authority.lifetime = 3600
        _, model = stage.play(script, tables, config=TOKENS_IN_FILE)
        [out] = model.outputs
        assert result(out.text) == "1 hällo"
        # The token was good for a second: it has expired, or is too short for Codex to rely on.
        assert authority.grants == ["registration", "code", "refresh"]
        sent = [
            one for one in stage.tap.sent("http/request") if one["url"] == url and one["method"] == "POST"
        ]
        assert sent and all("authorization" in {h["name"].lower() for h in one["headers"]} for one in sent)


def test_an_mcp_server_is_reached_over_http_through_the_executor(stage: Stage) -> None:
    def script() -> Script:
        yield [mcp_tool("place", "echo", text="hällo")]
        yield [mcp_tool("place", "count", upto=3)]
        return "done"

    with web_server() as url:
        _, model = stage.play(script, PLACED.format(what=f'url = "{url}"'))
    assert [result(out.text) for out in model.outputs] == ["1 hällo", "counted"]
    requests = stage.tap.sent("http/request")
    assert {params["url"] for params in requests} == {url}
    # The last one ends its session there.
    assert [params["method"] for params in requests][-1] == "DELETE"
    assert stage.tap.connections == 1


# Skills and plugins


def test_skills_and_plugins_of_the_executor_are_listed_to_the_model(stage: Stage) -> None:
    def script() -> Script:
        call = mcp_tool("plugged", "echo", text="from a plugin")
        [out] = yield [call]
        while out.raw.startswith("unsupported call"):  # the client does not wait for a plugin's server
            [out] = yield [call]
        return "done"

    _, model = stage.play(script, ENABLED, ("plugins", "executor_capability_discovery_v2"))
    told = json.dumps(model.requests[-1]["input"])
    for name in ("deploy", "tidy", "demo:wash"):
        assert f"- {name}: About {name.rpartition(':')[2]}. (executor package: skill://" in told
    assert result(model.outputs[-1].text) == "1 from a plugin"


# Shell snapshots


def test_startup_files_run_once_for_all_commands_with_a_snapshot(stage: Stage) -> None:
    def script() -> Script:
        yield [exec_command("greet")]
        yield [exec_command("greet; shopt -q login_shell || echo plain")]
        return "done"

    _, model = stage.play(script, features=("shell_snapshot_v2",))
    assert ["shellSnapshot" in start for start in stage.tap.sent("process/start")] == [True, True]
    assert [out.text for out in model.outputs] == ["hello\n", "hello\nplain\n"]
    assert (stage.home / "runs").read_text() == "ran\n"
