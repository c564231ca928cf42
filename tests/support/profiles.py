"""Sandbox contexts, as clients send them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .wire import Message


def at(path: Path | str, access: str) -> Message:
    """What may be done at and below a path."""
    return {"path": {"type": "path", "path": Path(path).as_uri()}, "access": access}


def special(kind: str, access: str, subpath: str | None = None) -> Message:
    value = {"kind": kind} if subpath is None else {"kind": kind, "subpath": subpath}
    return {"path": {"type": "special", "value": value}, "access": access}


def hidden(pattern: str) -> Message:
    """Files that match must not be read."""
    return {"path": {"type": "glob_pattern", "pattern": pattern}, "access": "deny"}


def context(*entries: Message, cwd: Path | None = None, roots: Sequence[Path] = ()) -> Message:
    return {
        "permissions": {
            "type": "managed",
            "file_system": {"type": "restricted", "entries": list(entries)},
            "network": "restricted",
        },
        "cwd": None if cwd is None else cwd.as_uri(),
        "workspaceRoots": [root.as_uri() for root in roots],
        "windowsSandboxLevel": "disabled",
    }


def read_only(workspace: Path) -> Message:
    return context(special("root", "read"), cwd=workspace, roots=[workspace])


def workspace_write(workspace: Path, *more: Message) -> Message:
    """Without the temporary folders, in which tests have their files."""
    own = [special("project_roots", "read", name) for name in (".git", ".agents", ".codex")]
    kept = [{**entry, "missing_path_behavior": "skip"} for entry in own]
    return context(
        special("root", "read"),
        special("project_roots", "write"),
        *kept,
        *more,
        cwd=workspace,
        roots=[workspace],
    )
