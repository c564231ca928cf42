"""The stock Codex client with its managed network: the same on the reference and on our server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.codex import run_codex
from tests.support.model import Script, exec_command, modelling
from tests.support.origin import origin
from tests.support.sandbox import need_sandbox
from tests.support.sandboxes import elsewhere
from tests.support.servers import serving
from tests.support.tap import Tap, tapping

# A person's own permissions, in Codex's configuration.
PERMISSIONS = """
[permissions.dev.filesystem]
":root" = "read"

[permissions.dev.network]
enabled = true
mode = "full"

[permissions.dev.network.domains]
"127.0.0.1" = "allow"
"bad.test" = "deny"

[features.network_proxy]
enabled = true
"""


@pytest.fixture(params=["codex", "outfitter"])
def stage(request: pytest.FixtureRequest) -> Iterator[tuple[Tap, Path]]:
    need_sandbox()
    with elsewhere() as root:
        for name in ("server", "client", "work"):
            (root / name).mkdir()
        with serving(request.param, root / "server") as server, tapping(server.port) as tap:
            yield tap, root


def said(stage: tuple[Tap, Path], command: str) -> str:
    """What a command prints that the model asks for."""
    tap, root = stage

    def script() -> Script:
        yield [exec_command(command)]
        return "done"

    with modelling(script) as model:
        run = run_codex(
            root / "client",
            model=model.url,
            server=tap.url,
            cwd=root / "work",
            config='default_permissions = "dev"\n',
            tables=PERMISSIONS,
            sandbox=None,
        )
    assert (run.exit_code, run.message) == (0, "done"), run
    [output] = model.outputs
    return str(output.raw).partition("Output:\n")[2]


def decided(tap: Tap) -> list[tuple[str, str]]:
    told = [one.message["params"] for one in tap.heard if one.method == "network/policyDecision"]
    return [(one["decision"], one["host"]) for one in told]


def test_a_command_reaches_what_is_allowed_and_nothing_else(stage: tuple[Tap, Path]) -> None:
    with origin() as port:
        lines = [
            f"curl -sS http://127.0.0.1:{port}/allowed",
            "curl -sS http://nope.test/",
            "curl -sS http://bad.test/",
            f"curl -s --noproxy '*' http://127.0.0.1:{port}/around || echo '{{\"around\": false}}'",
        ]
        output = said(stage, "; echo; ".join(lines))
    answers = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    assert answers[0]["path"] == "/allowed"
    assert [one["reason"] for one in answers[1:3]] == ["not_allowed", "denied"]
    assert answers[3] == {"around": False}
    assert decided(stage[0]) == [("allow", "127.0.0.1"), ("deny", "nope.test"), ("deny", "bad.test")]
    [start] = stage[0].sent("process/start")
    assert start["enforceManagedNetwork"]
