"""What a command in a sandbox cannot do, and what it can: one run for each user and profile, one test for
each row.

`B` must not succeed, `A` must; `w` may, and says so: what no sandbox of this kind prevents.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outfitter.host.sandbox.bubblewrap import PLACES
from outfitter.host.sandbox.landlocked import lack, version
from tests.support.machine import alive, public_folder, running, wait_until
from tests.support.networks import network
from tests.support.sandbox import READ_ONLY, WORKSPACE, Profile, need_sandbox, run, sandbox
from tests.support.servers import WITHOUT_BUBBLEWRAP, end
from tests.support.users import installed
from tests.support.wire import Wire

ORDINARY = 23456  # a user that no machine has
MARK = f"outfitter-attack-{os.getpid()}"
INSIDE = Path(__file__).with_name("inside.py")
# Each with the column of what is expected, and what a request says of the network.
PROFILES: dict[str, tuple[Profile, int, dict[str, Any]]] = {
    "read-only": (READ_ONLY, 0, {}),
    "workspace-write": (WORKSPACE, 1, {}),
    "managed-network": (WORKSPACE, 2, network({"allowed.example": "allow"})),
}

# Id, attempt, and what is expected under read-only and workspace-write. The same with a managed network,
# but for datagrams: there is a loopback then, in which nobody listens. N15 says what came to the host.
ROWS = [
    ("F01", "write outside of the workspace", "BB"),
    ("F02", "write in the workspace", "BA"),
    ("F03", "write through a link to a file outside", "BB"),
    ("F04", "write through a link to a folder outside", "BB"),
    ("F05", "swap a folder and a link while writing", "BB"),
    ("F06", "hard-link a file from outside, then write it", "BB"),
    ("F07", "write through a hard link that was there before", "Bw"),
    ("F08", "write through /proc/self/root", "BB"),
    ("F09", "write through the root of the first process and of the parent", "BB"),
    ("F10", "write through the root and the directory of the server", "BB"),
    ("F11", "write a hook of git", "BB"),
    ("F12", "append to git's configuration", "BB"),
    ("F13", "rename .git away, remove the placeholder of .codex", "BB"),
    ("F14", "create a missing .codex/config.toml", "BB"),
    ("F15", "create missing .agents and .aws", "BB"),
    ("F16", "write a hook of a nested repository", "Bw"),
    ("F17", "plant the files of a bare repository", "Bw"),
    ("F18", "write a shell's startup file in the workspace", "Bw"),
    ("F19", "write to the host's /tmp", "BB"),
    ("F20", "write to the host's /dev/shm", "BB"),
    ("F21", "leave a file behind that runs as its owner", "BB"),
    ("F22", "make a block device", "BB"),
    ("F23", "open the host's devices for writing", "BB"),
    ("F24", "open settings of the kernel for writing", "BB"),
    ("F25", "remount or unmount what protects a folder", "BB"),
    ("F26", "the same in new namespaces", "BB"),
    ("F27", "open a file outside by its handle", "BB"),
    ("F28", "open the server's programs for writing", "BB"),
    ("F29", "read the server's own files", "BB"),
    ("F30", "change the mode, the owner, the times or an attribute of a file outside", "BB"),
    ("P01", "read the environment of another process of this user", "BB"),
    ("P02", "read the environment of the server", "BB"),
    ("P03", "have the server's secrets in one's own", "BB"),
    ("P04", "see the host's processes", "BB"),
    ("P05", "signal another process of this user", "BB"),
    ("P06", "signal everybody", "BB"),
    ("P07", "signal the own group, with the server in it", "BB"),
    ("P08", "trace another process", "BB"),
    ("P09", "read another process's memory", "BB"),
    ("P10", "take a descriptor of another process", "BB"),
    ("P11", "find descriptors that were left open", "BB"),
    ("P14", "gain rights by executing", "BB"),
    ("P15", "keep capabilities", "BB"),
    ("P16", "make a namespace of users", "BB"),
    ("P17", "the same by clone3", "BB"),
    ("P18", "use io_uring", "BB"),
    ("P19", "use userfaultfd", "BB"),
    ("P20", "use keyrings", "BB"),
    ("P21", "load a program into the kernel", "BB"),
    ("P22", "watch the machine's events", "BB"),
    ("P23", "call by the numbers of the 32-bit machine", "BB"),
    ("P24", "call by the numbers of x32", "BB"),
    ("P28", "outlive the command", "BB"),
    ("P30", "reboot, load modules, set the clock", "BB"),
    ("P32", "read a private file of this user", "AA"),
    ("P34", "find a first process without the filter, whose memory can be written", "BB"),
    ("P35", "change the limits of another process of this user", "BB"),
    ("P36", "find memory that other processes share", "BB"),
    ("C01", "send through a pair of sockets", "AA"),
    ("C02", "wake asyncio from a thread", "AA"),
    ("C03", "use a pool of processes", "AA"),
    ("C07", "use subprocesses, pipes and signals", "AA"),
    ("N01", "connect to the host's 127.0.0.1", "BB"),
    ("N02", "connect to the host's ::1", "BB"),
    ("N03", "have a route to another machine", "BB"),
    ("N04", "send a datagram to 127.0.0.1", "BBw"),
    ("N05", "have a route to a resolver on 127.0.0.53", "BBw"),
    ("N06", "connect to an abstract socket of the host", "BB"),
    ("N07", "connect to a socket of the host by its path", "BB"),
    ("N08", "connect to a socket in the workspace", "BB"),
    ("N09", "send a datagram to a socket of the host", "BB"),
    ("N10", "send a datagram to an abstract socket of the host", "BB"),
    ("N11", "make packet, netlink and crypto sockets", "BB"),
    ("N12", "make a socket to the hypervisor", "BB"),
    ("N13", "send with the first packet of a connection", "BB"),
    ("N14", "enter the host's network namespace", "BB"),
    ("N15", "send to a socket of the host from one end of a pair", "BB"),
]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be both users")
def test_the_program_and_the_table_have_the_same_rows() -> None:
    import re

    names = re.findall(r"^def ([fpcn]\d\d)\(", INSIDE.read_text(), re.MULTILINE)
    assert {name.upper() for name in names} - {row[0] for row in ROWS} == {"P25"}  # with limits, below


class Place:
    """A workspace, what is outside of it, and who listens there; all of one user."""

    def __init__(self, folder: Path, uid: int) -> None:
        self.folder = folder
        self.ws, self.outside, self.home = folder / "ws", folder / "outside", folder / "home"
        for one in (self.ws, self.outside, self.home):
            one.mkdir()
        for name in ("target", "hard"):
            (self.outside / name).write_text("outside")
        (self.ws / "plain").write_text("")
        (self.ws / "link-file").symlink_to(self.outside / "target")
        (self.ws / "link-folder").symlink_to(self.outside)
        (self.ws / "hard").hardlink_to(self.outside / "hard")
        for top in (self.ws, self.ws / "sub"):
            (top / ".git" / "hooks").mkdir(parents=True)
            (top / ".git" / "config").write_text("[core]\n")
        self.private = folder / "private"
        self.private.write_text("mine")
        self.private.chmod(0o600)
        self.token = self.home / "token"
        self.token.write_text("t" * 40)
        self.token.chmod(0o600)
        self.listening: list[socket.socket] = []
        self.tcp6: socket.socket | None = None
        self.tcp = self._listen(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
        self.udp = self._listen(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
        try:
            self.tcp6 = self._listen(socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0))
        except OSError:
            pass  # a machine without
        for where in (self.outside, self.ws):
            self._listen(socket.AF_UNIX, socket.SOCK_STREAM, str(where / "stream"))
        self.datagrams = [self.udp]
        for address in (str(self.outside / "datagram"), f"\0{MARK}-datagram"):
            self.datagrams.append(self._listen(socket.AF_UNIX, socket.SOCK_DGRAM, address))
        self._listen(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{MARK}")
        subprocess.run(["chown", "-Rh", f"{uid}:{uid}", folder], check=True)

    def _listen(self, family: int, kind: int, address: Any) -> socket.socket:
        one = socket.socket(family, kind)
        self.listening.append(one)
        one.bind(address)
        if kind == socket.SOCK_STREAM:
            one.listen()
        one.setblocking(False)
        return one

    def received(self) -> list[bytes]:
        """What came to the sockets of datagrams."""
        found = []
        for one in self.datagrams:
            with contextlib.suppress(BlockingIOError):
                found.append(one.recv(100))
        return found

    def close(self) -> None:
        for one in self.listening:
            one.close()

    def facts(self, server: int, victim: int) -> dict[str, Any]:
        devices = ("/dev/sda", "/dev/vda", "/dev/nvme0n1", "/dev/kvm", "/dev/mem", "/dev/fuse", "/dev/loop0")
        settings = (
            *("/sys/kernel/uevent_helper", "/sys/kernel/mm/transparent_hugepage/enabled"),
            *("/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/pids/cgroup.procs", "/sys/power/state"),
            *("/sys/fs/cgroup/unified/cgroup.procs", "/sys/fs/cgroup/devices/release_agent"),
        )
        return {
            "ws": str(self.ws),
            "outside": str(self.outside),
            "private": str(self.private),
            "own": [str(self.token), str(self.home / ".local/state/outfitter")],
            "server": server,
            "victim": victim,
            "mark": MARK,
            "pid-namespace": os.readlink("/proc/self/ns/pid"),
            "devices": devices,
            "settings": settings,
            "programs": [sys.executable, os.path.realpath(sys.executable), *PLACES],
            "tcp": self.tcp.getsockname()[1],
            "tcp6": None if self.tcp6 is None else self.tcp6.getsockname()[1],
            "udp": self.udp.getsockname()[1],
        }


@contextlib.contextmanager
def serving(uid: int, *args: str, landlock: bool = False) -> Iterator[tuple[Wire, Place, int, str]]:
    """A server of this user, and a place of the user's own. With `landlock` it finds no bubblewrap."""
    need_sandbox()
    with public_folder() as folder:
        python, site = installed()
        (folder / "place").mkdir()
        place = Place(folder / "place", uid)
        env = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(place.home),
            "PYTHONPATH": str(site),
            "SERVER_SECRET": "hush",
        }
        program = ["-c", WITHOUT_BUBBLEWRAP] if landlock else ["-m", "outfitter"]
        auth = [
            *(["--sandbox-landlock"] if landlock else []),
            "--ws-auth",
            "capability-token",
            "--ws-token-file",
            str(place.token),
        ]
        with (place.folder / "log").open("wb") as log:
            popen = subprocess.Popen(
                [python, *program, "serve", "--listen", "ws://127.0.0.1:0", *auth, *args],
                env=env,
                cwd=place.home,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                user=uid,
                group=uid,
                extra_groups=[],
            )
        try:
            assert popen.stdout is not None
            url = popen.stdout.readline().decode().strip()
            assert url, (place.folder / "log").read_text()
            with Wire(url, headers={"Authorization": f"Bearer {'t' * 40}"}) as wire:
                wire.handshake()
                yield wire, place, popen.pid, python
        finally:
            end(popen)
            place.close()
        said = (place.folder / "log").read_text()
        assert "Traceback" not in said, said


LIBC = ctypes.CDLL(None)


class Outcome:
    """What one run reached, and what is seen outside of it."""

    def __init__(self, uid: int, profile: str, *, landlock: bool = False) -> None:
        with serving(uid, landlock=landlock) as (wire, place, server, python):
            victim = subprocess.Popen(
                [python, "-c", "import time; time.sleep(600)", f"{MARK}-victim"],
                env={"VICTIM_SECRET": "hush"},
                user=uid,
                group=uid,
                extra_groups=[],
            )
            shared = 0x0F000000 | os.getpid() & 0xFFFFFF
            memory = LIBC.shmget(shared, 4096, 0o1666)
            try:
                facts = {**place.facts(server, victim.pid), "shared": shared}
                permissions, _, more = PROFILES[profile]
                ran = run(
                    wire,
                    [python, "-I", "-S", "-c", INSIDE.read_text(), json.dumps(facts)],
                    cwd=place.ws,
                    sandbox=sandbox(permissions, place.ws),
                    env={"PATH": "/usr/bin:/bin"},
                    **more,
                )
                assert ran.code == 0, ran
                self.reached: dict[str, Any] = json.loads(ran.stdout)
                self._look(place, server, victim.pid)
            finally:
                LIBC.shmctl(memory, 0, None)
                victim.kill()
                victim.wait()

    def _look(self, place: Place, server: int, victim: int) -> None:
        """What only the outside knows."""
        left = {".codex", ".agents", ".aws"}
        wait_until(lambda: not left & {one.name for one in place.ws.iterdir()}, "placeholders are gone")
        outside = sorted(one.name for one in place.outside.iterdir())
        if (
            outside != ["datagram", "hard", "stream", "target"]
            or (place.outside / "target").read_text() != "outside"
        ):
            self.reached["F01"] = f"outside is {outside}"
        if os.path.exists(f"/dev/shm/{MARK}"):
            self.reached["F20"] = True
        kept = [one for one in place.ws.rglob("*") if one.is_file() and one.stat().st_mode & 0o6000]
        if kept:
            self.reached["F21"] = f"{kept}"
        for name in ("P05", "P06", "P07"):
            self.reached[name] = self.reached[name] or not (alive(victim) and alive(server))
        if came := place.received():
            self.reached["N15"] = f"{came}"
        wait_until(lambda: not running(f"{MARK}-orphan"), "the orphan is gone")
        assert sorted(one.name for one in (place.ws / ".git").iterdir()) == ["config", "hooks"]


_outcomes: dict[tuple[int, str], Outcome | BaseException] = {}


def outcome(uid: int, profile: str) -> Outcome:
    key = (uid, profile)
    if key not in _outcomes:
        try:
            _outcomes[key] = Outcome(uid, profile)
        except BaseException as error:
            _outcomes[key] = error
    found = _outcomes[key]
    if isinstance(found, BaseException):
        raise found
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be both users")
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("uid", [0, ORDINARY], ids=["root", "ordinary"])
@pytest.mark.parametrize(
    ("name", "expected"), [(row[0], row[2]) for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_an_attempt(name: str, expected: str, uid: int, profile: str) -> None:
    reached = outcome(uid, profile).reached[name]
    match f"{expected}{expected[1]}"[PROFILES[profile][1]]:
        case "B":
            assert not reached
        case "A":
            assert reached is True
        case _:
            assert isinstance(reached, bool)


# By Landlock there are no namespaces: the host's processes are seen, with what everybody may know of them
# (P04). What else differs is what the attempts look at: signals to everybody are only tried in a namespace
# (P06), a process can be held by a descriptor, and nothing be done with it (P11), the first process is the
# host's (P34), an ordinary user keeps a bound for capabilities that it cannot have (P15). No memory is shared
# (C03).
BY_LANDLOCK = {"P04", "P06", "P11", "P34"}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be both users")
@pytest.mark.skipif(bool(lack(version())), reason="needs Landlock")
@pytest.mark.parametrize("uid", [0, ORDINARY], ids=["root", "ordinary"])
def test_by_landlock_nothing_is_reached_but_the_list_of_processes(uid: int) -> None:
    reached = Outcome(uid, "read-only", landlock=True).reached
    refused = {name for name, _, expected in ROWS if expected[0] == "B" and reached[name]}
    assert refused == BY_LANDLOCK | ({"P15"} if uid else set())
    assert {name for name, _, expected in ROWS if expected[0] == "A" and reached[name] is not True} == {"C03"}
