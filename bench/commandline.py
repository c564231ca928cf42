"""What one command line costs: CPU of `outfitter` and its children, beside tools that people know.

In units of `python -c pass`, so that machines can be compared. Tools that are not installed have no row; ssh
goes to a daemon of our own, over a connection that is shared.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final

from bench.arms import ROOT, ExecArm
from bench.errors import BenchError
from bench.measure import Effort, Metric, Values, Workload
from bench.sshd import shared_ssh

__all__ = ["WORKLOAD"]

ROWS: Final = {
    "version": "`outfitter --version`",
    "run": "`outfitter run -- true`",
    "project": "the same in a project with manifests of several languages",
    "on": "`outfitter run --on URL -- true`",
    "direnv": "`direnv exec . true`",
    "uv": "`uv run true`",
    "ssh": "`ssh localhost true`, connection shared",
}


MANIFESTS: Final = {
    ".tool-versions": "nodejs 20.0.0\npython 3.11.0\n",
    ".nvmrc": "20\n",
    ".python-version": "3.11.0\n",
    "package.json": '{"name": "x", "engines": {"node": ">=18"}}\n',
    "pyproject.toml": '[project]\nname = "x"\nversion = "0"\nrequires-python = ">=3.9"\n',
    "Cargo.toml": '[workspace]\nmembers = ["c/*"]\n',
    "go.mod": "module x\n\ngo 1.22\n",
}


def _cpu(argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> float:
    """Seconds of user and system time of a command line."""
    null = os.open(os.devnull, os.O_RDWR)
    try:
        child = subprocess.Popen(argv, cwd=cwd, env=env, stdin=null, stdout=null, stderr=null)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    finally:
        os.close(null)
    if child.returncode:
        raise BenchError(f"{' '.join(argv)} ended with status {child.returncode}")
    return usage.ru_utime + usage.ru_stime


def _others(ssh: list[str] | None, path: str, python: str) -> dict[str, list[str]]:
    """The other tools that are here. uv is told its Python: a shim in the PATH would cost more than uv."""
    found: dict[str, list[str]] = {}
    if direnv := shutil.which("direnv", path=path):
        found["direnv"] = [direnv, "exec", ".", "/bin/true"]
    if uv := shutil.which("uv", path=path):
        found["uv"] = [uv, "run", "-q", "--offline", "--no-project", "--python", python, "--", "/bin/true"]
    if ssh is not None:
        found["ssh"] = [*ssh, "true"]
    return found


def _project(folder: str) -> str:
    """A repository of the kind that large projects are: nothing in it is set up, so no tool runs."""
    root = os.path.join(folder, "project")
    os.makedirs(os.path.join(root, ".git"))
    for name, text in MANIFESTS.items():
        with open(os.path.join(root, name), "w") as file:
            file.write(text)
    return root


def _command_lines(arm: ExecArm, effort: Effort) -> Values:
    if arm.name != "ours":
        return {}
    env = arm.environment
    with tempfile.TemporaryDirectory() as folder, shared_ssh(folder) as ssh:  # outside of any project
        return _measure(arm, env, folder, ssh, effort)


def _measure(
    arm: ExecArm, env: Mapping[str, str], folder: str, ssh: list[str] | None, effort: Effort
) -> Values:
    ours = os.path.dirname(arm.program)
    python = os.path.join(ours, "python")
    host, port = arm.address
    ways = {
        "python": [python, "-c", "pass"],
        "version": [arm.program, "--version"],
        "run": [arm.program, "run", "--", "true"],
        "on": [arm.program, "run", "--on", f"ws://{host}:{port}", "--", "true"],
        **_others(ssh, f"{ROOT}/.tools/bin:{env['PATH']}", python),
    }
    project = _project(folder)
    times: dict[str, list[float]] = {name: [] for name in (*ways, "project")}
    for _ in range(max(3, effort.starts)):
        for name, argv in ways.items():
            times[name].append(_cpu(argv, folder, env))
        times["project"].append(_cpu(ways["run"], project, env))
    base = median(times.pop("python"))
    values = {f"commandline.{name}": median(found) / base for name, found in times.items()}
    return {"commandline.python": base * 1e3, **values}


WORKLOAD: Final = Workload(
    "commandline",
    ("P26",),
    (
        Metric("commandline.python", "CPU of `python -c pass`", "ms"),
        *(Metric(f"commandline.{name}", f"CPU of {label}, in such", "x") for name, label in ROWS.items()),
    ),
    _command_lines,
    servers=("ours",),
)
