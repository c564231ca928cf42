"""The attempts, run inside of a sandbox: a file of its own that needs nothing but Python 3.

It reads what it should go for as JSON from its arguments, tries everything, and prints as JSON for each
attempt whether it reached its effect. Everything is harmless where it succeeds: throwaway files, loopback
listeners, bounded loops, kernel settings opened and not written.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
FACTS: dict[str, Any] = {}
X86 = os.uname().machine == "x86_64"
# x86-64, aarch64
CALLS = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "unshare": (272, 97),
    "setns": (308, 268),
    "clone3": (435, 435),
    "mount": (165, 40),
    "umount2": (166, 39),
    "io_uring_setup": (425, 425),
    "userfaultfd": (323, 282),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fchmodat2": (452, 452),
    "reboot": (169, 142),
    "kexec_load": (246, 104),
    "init_module": (175, 105),
    "swapon": (167, 224),
    "sethostname": (170, 161),
    "settimeofday": (164, 170),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
}


def call(name: str, *args: Any) -> int:
    """A system call by its number: the answer, or the negative errno."""
    ctypes.set_errno(0)
    number = CALLS[name][0 if X86 else 1]
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in args]
    done: int = LIBC.syscall(ctypes.c_long(number), *words)
    return -ctypes.get_errno() if done == -1 else done


def writes(path: str, flags: int = os.O_CREAT) -> bool:
    try:
        fd = os.open(path, os.O_WRONLY | flags, 0o644)
        os.write(fd, b"x")
        os.close(fd)
    except OSError:
        return False
    return True


def opens(path: str, flags: int = os.O_WRONLY) -> bool:
    try:
        os.close(os.open(path, flags | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def does(action: Any, *args: Any) -> bool:
    try:
        action(*args)
    except OSError:
        return False
    return True


# Files


def f01() -> bool:
    return writes(f"{FACTS['outside']}/new") or does(os.mkdir, f"{FACTS['outside']}/folder")


def f02() -> bool:
    return writes(f"{FACTS['ws']}/new")


def f03() -> bool:
    return writes(f"{FACTS['ws']}/link-file", 0)


def f04() -> bool:
    return writes(f"{FACTS['ws']}/link-folder/through")


def f05() -> bool:
    race, other = f"{FACTS['ws']}/race", f"{FACTS['ws']}/race-link"
    if not does(os.mkdir, race):
        return False
    does(os.symlink, FACTS["outside"], other)
    over = time.monotonic() + 0.3

    def swap() -> None:
        while time.monotonic() < over:
            for one, two in ((race, race + ".a"), (other, race), (race, other), (race + ".a", race)):
                does(os.rename, one, two)

    thread = threading.Thread(target=swap)
    thread.start()
    while time.monotonic() < over:
        writes(f"{race}/raced")
    thread.join()
    return os.path.exists(f"{FACTS['outside']}/raced")


def f06() -> bool:
    link = f"{FACTS['ws']}/hard-new"
    return does(os.link, f"{FACTS['outside']}/target", link) and writes(link, 0)


def f07() -> bool:
    return writes(f"{FACTS['ws']}/hard", 0)


def f08() -> bool:
    return writes(f"/proc/self/root{FACTS['outside']}/proc-self")


def f09() -> bool:
    tried = [f"/proc/{pid}/root{FACTS['outside']}/proc-{pid}" for pid in (1, os.getppid())]
    return any(writes(path) for path in tried)


def f10() -> bool:
    server = FACTS["server"]
    tried = [f"/proc/{server}/root{FACTS['outside']}/proc-server", f"/proc/{server}/cwd/proc-server"]
    return any(writes(path) for path in tried)


def f11() -> bool:
    return writes(f"{FACTS['ws']}/.git/hooks/pre-commit")


def f12() -> bool:
    return writes(f"{FACTS['ws']}/.git/config", os.O_APPEND)


def f13() -> bool:
    ws = FACTS["ws"]
    return does(os.rename, f"{ws}/.git", f"{ws}/git-away") or does(os.rmdir, f"{ws}/.codex")


def f14() -> bool:
    does(os.mkdir, f"{FACTS['ws']}/.codex")
    return writes(f"{FACTS['ws']}/.codex/config.toml")


def f15() -> bool:
    for name in (".agents", ".aws"):
        does(os.mkdir, f"{FACTS['ws']}/{name}")
    return any(writes(f"{FACTS['ws']}/{name}/entry") for name in (".agents", ".aws"))


def f16() -> bool:
    return writes(f"{FACTS['ws']}/sub/.git/hooks/pre-commit")


def f17() -> bool:
    return writes(f"{FACTS['ws']}/HEAD") and does(os.mkdir, f"{FACTS['ws']}/objects")


def f18() -> bool:
    return writes(f"{FACTS['ws']}/.bashrc")


def f19() -> bool:
    return writes(f"/tmp/{FACTS['mark']}")


def f20() -> bool:
    writes(f"/dev/shm/{FACTS['mark']}")
    return False  # its own; whether it is the host's is seen there


def f21() -> bool:
    path = f"{FACTS['ws']}/plain"
    new = f"{FACTS['ws']}/setuid"
    does(os.chmod, path, 0o4755)
    does(os.chmod, path, 0o2755)
    call("fchmodat2", -100, path.encode(), 0o6755, 0)
    try:
        os.close(os.open(new, os.O_CREAT | os.O_WRONLY, 0o4755))
    except OSError:
        pass
    does(os.mknod, new + "2", 0o104755)
    names = [path, new, new + "2"]
    return any(os.stat(name).st_mode & 0o6000 for name in names if os.path.exists(name))


def f22() -> bool:
    path = f"{FACTS['ws']}/device"
    return does(os.mknod, path, 0o60660, os.makedev(254, 0)) and opens(path, os.O_RDONLY)


def f23() -> bool:
    return any(opens(path) for path in FACTS["devices"])


def f24() -> list[str]:
    """Every setting of the kernel that can be opened for writing."""
    found = []
    for top in (
        "/proc/sys",
        "/proc/irq",
        "/proc/bus",
        "/proc/fs",
        "/proc/acpi",
        "/proc/scsi",
        "/proc/driver",
    ):
        for folder, _, files in os.walk(top):
            found += [f"{folder}/{name}" for name in files if opens(f"{folder}/{name}")]
    for name in os.listdir("/proc"):
        if not name.isdigit() and os.path.isfile(f"/proc/{name}") and opens(f"/proc/{name}"):
            found.append(f"/proc/{name}")
    for path in FACTS["settings"]:
        if opens(path):
            found.append(path)
    return found[:5]


def f25() -> bool:
    git = f"{FACTS['ws']}/.git".encode()
    remount = call("mount", b"none", git, b"none", 0x20 | 0x1000, None)
    return remount == 0 or call("umount2", git, 2) == 0 or call("umount2", b"/proc/sys", 2) == 0


def f26() -> bool:
    pid = os.fork()
    if pid == 0:
        if call("unshare", 0x10000000 | 0x20000) == 0 and f25():
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] != 0


def f27() -> bool:
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0), 136)
    mount = ctypes.c_int()
    path = f"{FACTS['outside']}/target".encode()
    if call("name_to_handle_at", -100, path, handle, ctypes.byref(mount), 0) < 0:
        return False
    where = os.open("/", os.O_RDONLY)
    fd = call("open_by_handle_at", where, handle, os.O_WRONLY)
    os.close(where)
    return fd >= 0


def f28() -> bool:
    return any(opens(path) for path in FACTS["programs"])


def f29() -> bool:
    """The server's own files: its state, its token."""
    return any(opens(path, os.O_RDONLY) for path in FACTS["own"]) or any(
        os.access(path, os.R_OK) and os.path.isdir(path) and bool(os.listdir(path)) for path in FACTS["own"]
    )


def f30() -> list[str]:
    """What is known of a file outside, and is not in it."""
    path = f"{FACTS['outside']}/target"
    attempts = {
        "mode": lambda: os.chmod(path, 0o600),
        "owner": lambda: os.chown(path, os.getuid(), os.getgid()),
        "times": lambda: os.utime(path, (1, 1)),
        "now": lambda: os.utime(path),
        "attribute": lambda: os.setxattr(path, "user.x", b"1"),
    }
    return [name for name, attempt in attempts.items() if does(attempt)]


# Processes


def _environ_of(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:
        return b""


def p01() -> bool:
    return b"VICTIM_SECRET" in _environ_of(FACTS["victim"])


def p02() -> bool:
    return any(b"SERVER_SECRET" in _environ_of(pid) for pid in (FACTS["server"], 1, os.getppid()))


def p03() -> bool:
    return "SERVER_SECRET" in os.environ


def p04() -> bool:
    for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if f"{FACTS['mark']}-victim".encode() in file.read():
                    return True
        except OSError:
            continue
    return False


def p05() -> bool:
    return does(os.kill, FACTS["victim"], signal.SIGUSR1)


def p06() -> bool:
    # Only where nothing else can be reached.
    if os.readlink("/proc/self/ns/pid") != FACTS["pid-namespace"]:
        handler = signal.signal(signal.SIGTERM, signal.SIG_IGN)
        does(os.kill, -1, signal.SIGTERM)
        signal.signal(signal.SIGTERM, handler)
        return False  # whether the victim lives is seen outside
    return True


def p07() -> bool:
    handler = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.kill(0, signal.SIGTERM)
    signal.signal(signal.SIGTERM, handler)
    return False  # the same


def p08() -> bool:
    return call("ptrace", 16, FACTS["victim"], 0, 0) == 0


def p09() -> bool:
    held = ctypes.create_string_buffer(8)
    vector = struct.pack("PN", ctypes.addressof(held), 8)
    return call("process_vm_readv", FACTS["victim"], vector, 1, vector, 1, 0) > 0


def p10() -> bool:
    fd = call("pidfd_open", FACTS["victim"], 0)
    return fd >= 0 and call("pidfd_getfd", fd, 0, 0) >= 0


def p11() -> list[str]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) > 2 and "/proc/" not in os.readlink(f"/proc/self/fd/{name}"):
                found.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            continue
    return found


def _status(field: str) -> str:
    with open("/proc/self/status", encoding="ascii") as file:
        return next(line.split()[1] for line in file if line.startswith(f"{field}:"))


def p14() -> bool:
    return _status("NoNewPrivs") != "1"


def p15() -> list[str]:
    names = ("CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd")
    return [name for name in names if int(_status(name), 16)]


def p16() -> bool:
    pid = os.fork()
    if pid == 0:
        os._exit(1 if call("unshare", 0x10000000) == 0 else 0)
    return os.waitpid(pid, 0)[1] != 0


def p17() -> bool:
    args = struct.pack("8Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0)
    done = call("clone3", ctypes.create_string_buffer(args, len(args)), len(args))
    if done == 0:
        os._exit(0)
    return done > 0


def p18() -> bool:
    return call("io_uring_setup", 4, ctypes.create_string_buffer(120)) >= 0


def p19() -> bool:
    return call("userfaultfd", 1) >= 0


def p20() -> bool:
    keyring = call("keyctl", 0, -3, 0)
    added = call("add_key", b"user", b"outfitter-test", b"x", 1, -3)
    return keyring >= 0 or added >= 0


def p21() -> bool:
    held = ctypes.create_string_buffer(struct.pack("IIII", 2, 4, 4, 1), 128)
    return call("bpf", 0, held, 128) != -errno.EPERM


def p22() -> bool:
    held = ctypes.create_string_buffer(struct.pack("IIQ", 1, 128, 1), 128)
    return call("perf_event_open", held, 0, -1, -1, 0) != -errno.EPERM


def p23() -> bool | None:
    """getpid by the numbers of the 32-bit machine: must end the process."""
    if not X86:
        return None
    pid = os.fork()
    if pid == 0:
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
        address = ctypes.addressof(ctypes.c_char.from_buffer(code))
        ctypes.CFUNCTYPE(ctypes.c_int)(address)()
        os._exit(1)
    return os.waitpid(pid, 0)[1] == 1 << 8


def p24() -> bool | None:
    if not X86:
        return None
    ctypes.set_errno(0)
    return LIBC.syscall(ctypes.c_long(41 + 0x40000000), 2, 1, 0) != -1


def p25() -> bool:
    children = []
    for _ in range(FACTS.get("forks", 0)):
        try:
            pid = os.fork()
        except OSError:
            break
        if pid == 0:
            signal.pause()
            os._exit(0)
        children.append(pid)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return len(children) >= FACTS.get("forks", 0)


def p28() -> bool:
    # Seen outside: whether it still runs.
    code = "import os, sys, time; os.setsid(); time.sleep(60)"
    subprocess.Popen(
        [sys.executable, "-c", code, f"{FACTS['mark']}-orphan"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return False


def p30() -> list[str]:
    tried = {
        "reboot": call("reboot", 1, 2, 3, None),
        "kexec_load": call("kexec_load", 0, -1, None, -1),
        "init_module": call("init_module", None, 0, b""),
        "swapon": call("swapon", b"/nowhere", 0),
        "sethostname": call("sethostname", b"x" * 100, 100),
        "settimeofday": call("settimeofday", None, -1),
        "open_tree": call("open_tree", -1, b"/nowhere", 0),
        "fsopen": call("fsopen", b"nothing", 0),
    }
    return [name for name, done in tried.items() if done != -errno.EPERM]


def p32() -> bool:
    with open(FACTS["private"], encoding="ascii") as file:
        return file.read() == "mine"


def p34() -> bool:
    with open("/proc/1/status", encoding="ascii") as file:
        said = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    return said["Seccomp"] != "2" or said["NoNewPrivs"] != "1" or int(said["CapPrm"], 16) != 0


def p35() -> bool:
    import resource

    return does(resource.prlimit, FACTS["victim"], resource.RLIMIT_CORE, (0, 0))


def p36() -> bool:
    return int(LIBC.shmget(FACTS["shared"], 0, 0)) >= 0


# What must work


def c01() -> bool:
    one, two = socket.socketpair()
    one.send(b"x")
    return two.recv(1) == b"x"


def c02() -> bool:
    import asyncio

    async def main() -> bool:
        loop, came = asyncio.get_running_loop(), asyncio.Event()
        threading.Thread(target=lambda: loop.call_soon_threadsafe(came.set)).start()
        await asyncio.wait_for(came.wait(), 10)
        return True

    return asyncio.run(main())


def c03() -> bool:
    import multiprocessing

    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(abs, [-1, -2]) == [1, 2]


def c07() -> bool:
    said = subprocess.run(["sh", "-c", "sleep 0 & wait; kill -0 $$; echo a | cat"], stdout=subprocess.PIPE)
    return said.stdout == b"a\n"


# Network


def connects(family: int, address: Any, kind: int = socket.SOCK_STREAM) -> bool:
    try:
        with socket.socket(family, kind) as one:
            one.settimeout(2)
            one.connect(address)
    except OSError:
        return False
    return True


def sends(family: int, address: Any) -> bool:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as one:
            one.sendmsg([b"attack"], [], 0, address)
    except OSError:
        return False
    return True


def n01() -> bool:
    return connects(socket.AF_INET, ("127.0.0.1", FACTS["tcp"]))


def n02() -> bool:
    return FACTS["tcp6"] is not None and connects(socket.AF_INET6, ("::1", FACTS["tcp6"]))


def n03() -> bool:
    return connects(socket.AF_INET, ("192.0.2.1", 53), socket.SOCK_DGRAM)


def n04() -> bool:
    return sends(socket.AF_INET, ("127.0.0.1", FACTS["udp"]))


def n05() -> bool:
    return connects(socket.AF_INET, ("127.0.0.53", 53), socket.SOCK_DGRAM)


def n06() -> bool:
    return connects(socket.AF_UNIX, f"\0{FACTS['mark']}")


def n07() -> bool:
    return connects(socket.AF_UNIX, f"{FACTS['outside']}/stream")


def n08() -> bool:
    return connects(socket.AF_UNIX, f"{FACTS['ws']}/stream")


def n09() -> bool:
    return sends(socket.AF_UNIX, f"{FACTS['outside']}/datagram")


def n10() -> bool:
    return sends(socket.AF_UNIX, f"\0{FACTS['mark']}-datagram")


def _creates(family: int, kind: int, protocol: int = 0) -> bool:
    try:
        socket.socket(family, kind, protocol).close()
    except OSError:
        return False
    return True


def n11() -> bool:
    return any(_creates(family, socket.SOCK_RAW) for family in (17, 16)) or _creates(38, 5)


def n12() -> bool:
    return _creates(40, socket.SOCK_STREAM)


def n13() -> bool:
    try:
        with socket.socket() as one:
            one.sendto(b"x", 0x20000000, ("127.0.0.1", FACTS["tcp"]))
    except OSError:
        return False
    return True


def n14() -> bool:
    for pid in (1, FACTS["server"], FACTS["victim"]):
        try:
            fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        except OSError:
            continue
        if call("setns", fd, 0x40000000) == 0:
            return True
    return False


def n15() -> bool:
    """One end of a pair, to which the name of somebody else is given."""
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET, socket.SOCK_STREAM):
        try:
            one, _ = socket.socketpair(socket.AF_UNIX, kind)
            one.sendmsg([b"attack"], [], 0, f"{FACTS['outside']}/datagram")
        except OSError:
            continue
    return False  # whether it came is seen outside


def main() -> None:
    FACTS.update(json.loads(sys.argv[1]))
    found: dict[str, Any] = {}
    for name, attempt in list(globals().items()):
        if len(name) == 3 and name[0] in "fpcn" and name[1:].isdigit():
            try:
                found[name.upper()] = attempt()
            except Exception as error:
                found[name.upper()] = f"failed: {error!r}"
    print(json.dumps(found))


if __name__ == "__main__":
    main()
