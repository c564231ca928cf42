"""A sandbox inside a container: what works there, and what is said where it does not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from outfitter.host.sandbox import seccomp
from outfitter.host.sandbox.bubblewrap import memory
from outfitter.host.sandbox.nesting import Around, around, unmask, why
from tests.support.sandbox import need_sandbox

SAID = "bwrap: Creating new namespace failed: Operation not permitted\n"


@pytest.mark.parametrize(
    ("said", "place", "wanted", "unwanted"),
    [
        (SAID, Around(engine="docker"), "docker run --security-opt seccomp=unconfined", "podman"),
        (SAID, Around(engine="docker"), "--security-opt systempaths=unconfined", "kubernetes"),
        (SAID, Around(engine="podman"), "podman run --security-opt seccomp=unconfined", "docker"),
        (SAID, Around(engine="podman"), "--security-opt unmask=ALL", "procMount"),
        (SAID, Around(engine="kubernetes"), "procMount: Unmasked", "docker"),
        (SAID, Around(filtered=True), "podman run", "unshare"),
        (SAID, Around(), "`unshare --user true`", "sysctl"),
        (SAID, Around(off=("a.b=1", "c.d=2")), "(sysctl -w a.b=1 c.d=2)", "container"),
        ("bwrap: setting up uid map: no", Around(True, maps_root=False), "--cap-add SETFCAP", "seccomp"),
        ("bwrap: setting up uid map: no", Around(True, "docker"), "seccomp=unconfined", "SETFCAP"),
    ],
)
def test_what_to_do(said: str, place: Around, wanted: str, unwanted: str) -> None:
    text = why(said, place)
    assert wanted in text and unwanted not in text
    # Who shows it cuts it there: doctor, for one.
    problem = text.partition(": ")[0]
    assert problem.startswith("bubblewrap cannot make a sandbox here (") and problem.endswith(")")


def test_a_view_of_processes() -> None:
    assert unmask(Around(engine="podman")) == "Start the container with podman: --security-opt unmask=ALL"
    assert "systempaths=unconfined" in unmask(Around()) and "procMount" in unmask(Around())
    assert "systemd without ProtectKernelTunables=" in unmask(Around())


@pytest.mark.parametrize("uid", [0, 1000])
def test_what_surrounds_a_server(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    texts = {
        "/proc/self/status": "Name:\tx\nCapEff:\t000001ff7fffffff\nSeccomp:\t2\n",
        "/proc/sys/user/max_user_namespaces": "0\n",
        "/proc/sys/kernel/unprivileged_userns_clone": "0\n",
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "0\n",
    }
    found = around(lambda path: texts.get(path, ""))
    off = ("user.max_user_namespaces=10000",)
    assert found.off == (off if uid == 0 else (*off, "kernel.unprivileged_userns_clone=1"))
    assert (found.filtered, found.maps_root) == (True, uid != 0)
    texts["/proc/self/status"] = "CapEff:\t0000000080000000\nSeccomp:\t0\n"
    found = around(lambda path: texts.get(path, ""))
    assert (found.filtered, found.maps_root) == (False, True)


# Real ones: bubblewrap makes a container, in which a sandbox is tried.

TRY = """
from outfitter.errors import SandboxUnavailable
from outfitter.host.sandbox.bubblewrap import Finder
try:
    print("works", Finder().find().proc)
except SandboxUnavailable as error:
    print(error.why)
"""
CONTAINER = ("--die-with-parent", "--bind", "/", "/", "--dev-bind", "/dev", "/dev")
MASKED = ("--ro-bind", "/proc/sys", "/proc/sys", "--tmpfs", "/proc/fs")  # as engines do
NAMESPACES = 0x7E020000


def filter_of(*calls: str) -> bytes:
    """Refuses some calls, and clones with namespaces: what Docker's filter does."""
    numbers = {name: seccomp.calls(os.uname().machine)[name] for name in (*calls, "clone")}
    ops: list[tuple[int, int, int, int]] = [(0x20, 0, 0, 0)]
    for name in calls:
        ops += [(0x15, 0, 1, numbers[name]), (0x06, 0, 0, 0x50001)]
    ops += [(0x15, 0, 3, numbers["clone"]), (0x20, 0, 0, 16), (0x45, 0, 1, NAMESPACES), (0x06, 0, 0, 0x50001)]
    return b"".join(
        [
            op.to_bytes(2, "little") + bytes([yes, no]) + operand.to_bytes(4, "little")
            for op, yes, no, operand in [*ops, (0x06, 0, 0, 0x7FFF0000)]
        ]
    )


def in_container(
    *words: str, argv: Sequence[str], filter_: bytes = b"", home: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """A program of ours in a container that is made so."""
    need_sandbox()
    fd = memory(filter_) if filter_ else -1
    more = ["--seccomp", str(fd)] if filter_ else []
    env = {"PYTHONPATH": str(Path(__file__).parents[3] / "src"), "PATH": "/usr/bin:/bin"}
    try:
        return subprocess.run(
            ["bwrap", *CONTAINER, *words, *more, "--", sys.executable, *argv],
            env=env if home is None else {**env, "HOME": str(home)},
            pass_fds=[fd] if filter_ else [],
            capture_output=True,
            text=True,
        )
    finally:
        if filter_:
            os.close(fd)


def tried(*words: str, filter_: bytes = b"") -> str:
    done = in_container(*words, argv=["-c", TRY], filter_=filter_)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


ALL = ("--unshare-user", "--cap-add", "ALL")
AS_USER = ("--unshare-user", "--uid", "1000", "--gid", "1000")


@pytest.mark.parametrize(
    ("words", "filter_", "wanted"),
    [
        (ALL, b"", "works True"),
        (AS_USER, b"", "works True"),
        ((*ALL, *MASKED), b"", "works False"),
        ((*AS_USER, *MASKED), b"", "works False"),
        (ALL, filter_of("unshare", "mount"), "forbids namespaces or mounts"),
        (ALL, filter_of("pivot_root"), "forbids namespaces or mounts"),
        (
            (*AS_USER, "--disable-userns"),
            b"",
            "cannot make a sandbox here (Creating new namespace failed",
        ),
        (("--unshare-user", "--cap-drop", "ALL"), b"", "root lacks CAP_SETFCAP"),
    ],
    ids=["all", "user", "masked", "user-masked", "docker", "no-pivot", "no-namespaces", "no-rights"],
)
def test_in_a_container(words: tuple[str, ...], filter_: bytes, wanted: str) -> None:
    if wanted.startswith("root") and os.geteuid() != 0:
        pytest.skip("needs root, to be one without rights")
    assert wanted in tried(*words, filter_=filter_)


# The same as a person meets it. What may be seen of /proc is the sandbox's own, or nothing.
RUN = ["-m", "outfitter", "run", "--sandbox", "read-only", "--", "/bin/sh", "-c", "echo ran /proc/[0-9]*"]


@pytest.mark.parametrize(
    ("words", "said"),
    [(ALL, "ran /proc/1 /proc/2\n"), ((*ALL, *MASKED), "ran /proc/[0-9]*\n")],
    ids=["all", "masked"],
)
def test_a_command_in_a_container_is_confined(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = in_container(*words, argv=RUN, home=tmp_path)
    assert (done.returncode, done.stdout) == (0, said), done.stderr


def test_a_command_in_a_container_without_rights_is_refused(tmp_path: Path) -> None:
    done = in_container(*ALL, argv=RUN, filter_=filter_of("unshare", "mount"), home=tmp_path)
    assert (done.returncode, done.stdout) == (125, "")
    assert "bubblewrap cannot make a sandbox here" in done.stderr
    assert "Start its container with" in done.stderr
