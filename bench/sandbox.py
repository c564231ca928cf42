"""What a sandbox costs: `true` and file requests confined by a server, beside the same unconfined, and `true`
confined by sandbox-runtime."""

from __future__ import annotations

import json
import os
from typing import Any, Final

from bench.arms import ROOT
from bench.client import Launch

__all__ = ["PROFILES", "contexts", "launches", "runtime"]

PROFILES: Final = {"readonly": "read-only", "workspace": "workspace-write"}
_PROTECTED: Final = (".git", ".agents", ".codex")


def launches(folder: str) -> dict[str, Launch]:
    """The command in each profile, with this folder as the workspace, and without any."""
    found = {"none": Launch("true")}
    for name, sandbox in contexts(folder).items():
        if name in PROFILES:
            found[name] = Launch("true", more={"cwd": f"file://{folder}", "sandbox": sandbox})
    return found


def contexts(folder: str) -> dict[str, Any]:
    """The profiles, and one in which little more than the folder can be seen."""
    return {
        name: {
            "permissions": {
                "type": "managed",
                "file_system": {"type": "restricted", "entries": entries},
                "network": "restricted",
            },
            "cwd": f"file://{folder}",
            "workspaceRoots": [f"file://{folder}"],
            "windowsSandboxLevel": "disabled",
        }
        for name, entries in (
            ("readonly", _READS),
            ("workspace", [*_READS, *_WRITES]),
            ("parts", [_entry("minimal", "read"), _WRITES[0]]),
        )
    }


def _entry(kind: str, access: str, **more: Any) -> dict[str, Any]:
    skips = {"missing_path_behavior": "skip"} if "subpath" in more else {}
    return {"path": {"type": "special", "value": {"kind": kind, **more}}, "access": access, **skips}


_READS: Final = [_entry("root", "read")]
_WRITES: Final = [
    _entry("project_roots", "write"),
    *[_entry("project_roots", "read", subpath=name) for name in _PROTECTED],
]


def runtime(home: str) -> list[str] | None:
    """sandbox-runtime's command line for `true` in the same profile; None where it is not installed."""
    program = os.path.join(ROOT, ".tools", "srt", "node_modules", ".bin", "srt")
    if not os.path.exists(program):
        return None
    settings = os.path.join(home, "srt.json")
    with open(settings, "w") as file:
        said = {
            "network": {"allowedDomains": [], "deniedDomains": []},
            "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []},
        }
        json.dump(said, file)
    return [program, "--settings", settings, "true"]
