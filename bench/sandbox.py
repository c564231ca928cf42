"""What a sandbox costs: `true` and file requests confined by a server, beside the same unconfined, and `true`
confined by sandbox-runtime."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any, Final

from bench import contract, procfs
from bench.arms import ROOT, ExecArm
from bench.client import ExecClient, Launch
from bench.measure import Effort, Metric, Values, Workload, made_file, percentile, samples

__all__ = ["COMMANDS", "FILES"]

_PROFILES: Final = {"readonly": "read-only", "workspace": "workspace-write"}
_PROTECTED: Final = (".git", ".agents", ".codex")


def _launches(folder: str) -> dict[str, Launch]:
    """The command in each profile, with this folder as the workspace, and without any."""
    found = {"none": Launch("true")}
    for name, sandbox in _contexts(folder).items():
        if name in _PROFILES:
            found[name] = Launch("true", more={"cwd": f"file://{folder}", "sandbox": sandbox})
    return found


def _contexts(folder: str) -> dict[str, Any]:
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


def _runtime(home: str) -> list[str] | None:
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


def _sandbox(arm: ExecArm, effort: Effort) -> Values:
    """A command in each profile beside one without, and what all of them took of the processors."""
    values: Values = {}
    server, address = arm.server()
    with (
        # Not in the system's temporary folder, which the reference's profile would let it write.
        tempfile.TemporaryDirectory(prefix="workspace-", dir=arm.environment["HOME"]) as folder,
        ExecClient(address, quickack=True) as client,
    ):
        ways = {name: partial(client.one_shot, launch) for name, launch in _launches(folder).items()}
        for once in ways.values():
            once()
        times = contract.interleaved(ways, effort.samples, 4 * effort.seconds)
        spent = {}
        for name, once in ways.items():
            before = procfs.cpu_of_all(server.pid)
            for _ in range(effort.samples // 4):
                once()
            spent[name] = (procfs.cpu_of_all(server.pid) - before) / (effort.samples // 4)
    for name in _PROFILES:
        more = (one - less for one, less in zip(times[name], times["none"], strict=True))
        values[f"sandbox.{name}.p50"] = percentile(times[name], 50) * 1e3
        values[f"sandbox.{name}.more"] = median(more) * 1e3
        values[f"sandbox.{name}.cpu"] = (spent[name] - spent["none"]) * 1e3
    argv = _runtime(arm.environment["HOME"]) if arm.name == "ours" else None
    if argv is not None:
        took = [arm.seconds(*argv) for _ in range(effort.starts)]
        values["sandbox.runtime"] = median(took) * 1e3
    return values


def _confined(arm: ExecArm, effort: Effort) -> Values:
    """File requests in turns, without a sandbox and in two: everything can be read, or little more than the
    folder. The reference answers the second from a helper, so it gets fewer of them."""
    values = {}
    fewer = effort if arm.name == "ours" else replace(effort, samples=max(5, effort.samples // 20))
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        ExecClient(arm.address, quickack=True) as client,
    ):
        path = made_file(folder, "read", 1 << 20)
        contexts = _contexts(folder)
        for name, kind, much in (("reads", "workspace", effort), ("parts", "parts", fewer)):
            params = {"path": path, "sandbox": contexts[kind]}
            plain, confined = [], []
            for _ in range(much.samples):
                plain.append(client.call("fs/readFile", {"path": path}))
                confined.append(client.call("fs/readFile", params))
            added = [after - before for before, after in zip(plain, confined, strict=True)]
            stats = samples(partial(client.call, "fs/getMetadata", params), much)
            values[f"confined.{name}.read"] = percentile(confined, 50) * 1e3
            values[f"confined.{name}.more"] = median(added) * 1e3
            values[f"confined.{name}.stat"] = percentile(stats, 50) * 1e3
        written = {"path": f"file://{folder}/written", "dataBase64": "", "sandbox": contexts["workspace"]}
        writes = samples(lambda: client.call("fs/writeFile", written), fewer)
        values["confined.write"] = percentile(writes, 50) * 1e3
    return values


COMMANDS: Final = Workload(
    "sandbox",
    ("P20",),
    (
        *[
            metric
            for name, profile in _PROFILES.items()
            for metric in (
                Metric(f"sandbox.{name}.p50", f"one-shot `true` in a {profile} sandbox, p50", "ms"),
                Metric(f"sandbox.{name}.more", "the same, more than without", "ms"),
                Metric(f"sandbox.{name}.cpu", "the same, processor time", "ms"),
            )
        ],
        Metric("sandbox.runtime", "`true` by sandbox-runtime's `srt`, from spawn to exit", "ms"),
    ),
    _sandbox,
)

FILES: Final = Workload(
    "confined",
    ("P20",),
    (
        *(
            metric
            for name, place in (("reads", "where all can be read"), ("parts", "where little can be read"))
            for metric in (
                Metric(f"confined.{name}.read", f"`fs/readFile` 1 MiB in a sandbox {place}, p50", "ms"),
                Metric(f"confined.{name}.more", "the same, more than without", "ms"),
                Metric(f"confined.{name}.stat", f"`fs/getMetadata` in a sandbox {place}, p50", "ms"),
            )
        ),
        Metric("confined.write", "`fs/writeFile` of nothing in a sandbox, p50", "ms"),
    ),
    _confined,
)
