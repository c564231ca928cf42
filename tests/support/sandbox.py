"""Sandboxes for tests: profiles as clients send them, and one command run in one."""

from __future__ import annotations

import base64
import itertools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from outfitter.errors import SandboxUnavailable
from outfitter.host.sandbox.bubblewrap import Finder

from .wire import Wire, start_params

Profile = dict[str, Any]
_ids = itertools.count(1)


def special(kind: str, access: str, **more: Any) -> dict[str, Any]:
    """An entry for a place that each executor has somewhere else."""
    missing = {"missing_path_behavior": "skip"} if "subpath" in more else {}
    return {"path": {"type": "special", "value": {"kind": kind, **more}}, "access": access, **missing}


def path(where: Path | str, access: str) -> dict[str, Any]:
    return {"path": {"type": "path", "path": f"file://{where}"}, "access": access}


def managed(*entries: dict[str, Any], network: str = "restricted") -> Profile:
    return {
        "type": "managed",
        "file_system": {"type": "restricted", "entries": list(entries)},
        "network": network,
    }


READ_ONLY = managed(special("root", "read"))
# Without /tmp, in which tests have everything.
WORKSPACE = managed(
    special("root", "read"),
    special("project_roots", "write"),
    *[special("project_roots", "read", subpath=name) for name in (".git", ".agents", ".codex")],
)


def sandbox(
    profile: Profile, *roots: Path | str, cwd: Path | str | None = None, **more: Any
) -> dict[str, Any]:
    """The member of a request."""
    told = {
        "permissions": profile,
        "workspaceRoots": [f"file://{root}" for root in roots],
        "windowsSandboxLevel": "disabled",
        **more,
    }
    return told if cwd is None else {**told, "cwd": f"file://{cwd}"}


class Ran:
    """A command that has closed: what it printed, how it ended, and what the server said of its sandbox."""

    def __init__(self, started: dict[str, Any], output: dict[str, bytes], exited: dict[str, Any]) -> None:
        self.kind = started["sandboxType"]
        self.stdout = output.get("stdout", b"").decode()
        self.stderr = output.get("stderr", b"").decode()
        self.terminal = output.get("pty", b"").decode()
        self.code = exited["exitCode"]
        self.denied = exited["sandboxDenied"]

    def __repr__(self) -> str:
        return f"exit {self.code}, denied {self.denied}\n{self.stdout}\n{self.stderr}\n{self.terminal}"


def start(wire: Wire, argv: list[str], **params: Any) -> tuple[str, dict[str, Any]]:
    """Starts a command; its id and the answer."""
    process_id = f"sandboxed-{next(_ids)}"
    env: Mapping[str, str] = params.pop("env", {})
    params["cwd"] = f"file://{params.get('cwd', '/')}"
    given = {"PATH": os.environ["PATH"], "HOME": "/nowhere", **env}
    asked = start_params(process_id, argv, env=given, **params)
    return process_id, wire.call("process/start", asked)


def finish(wire: Wire, process_id: str, started: dict[str, Any]) -> Ran:
    """Waits until it has closed."""
    wire.until(lambda one: one["method"] == "process/closed" and one["params"]["processId"] == process_id)
    mine = [one for one in wire.notices if one.get("params", {}).get("processId") == process_id]
    output: dict[str, bytes] = {}
    for one in mine:
        if one["method"] == "process/output":
            stream = one["params"]["stream"]
            output[stream] = output.get(stream, b"") + base64.b64decode(one["params"]["chunk"])
    exited = next(one["params"] for one in mine if one["method"] == "process/exited")
    return Ran(started, output, exited)


def run(wire: Wire, argv: list[str], **params: Any) -> Ran:
    """Runs a command to its end."""
    return finish(wire, *start(wire, argv, **params))


def need_sandbox() -> None:
    """Skips the test where this machine cannot make a sandbox."""
    try:
        Finder().find()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
