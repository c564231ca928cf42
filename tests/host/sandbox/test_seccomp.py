"""The filter of system calls: what it answers, step by step, and what the kernel makes of it."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import struct
import subprocess
import sys

import pytest

from outfitter.host.sandbox.seccomp import (
    ENABLED,
    PROXY,
    RESTRICTED,
    VARIANTS,
    calls,
    instructions,
    known,
    program,
)

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS = 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
HIGH = 1 << 32  # a bit that the kernel ignores in an int
# Always denied, whatever the arguments.
DENIED = (
    *("ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd", "io_uring_setup"),
    *("io_uring_enter", "io_uring_register", "add_key", "request_key", "keyctl", "bpf", "perf_event_open"),
    *("userfaultfd", "fanotify_init", "mount", "umount2", "pivot_root", "chroot", "open_tree"),
    *("open_tree_attr", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "setns"),
    *("open_by_handle_at", "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module"),
    *("reboot", "swapon", "swapoff", "acct", "settimeofday", "clock_settime", "quotactl", "quotactl_fd"),
    *("vhangup", "syslog", "sethostname", "setdomainname", "move_pages", "migrate_pages"),
    *("lookup_dcookie", "nfsservctl"),
)
NETWORK = ("connect", "accept", "accept4", "bind", "listen")
NEWUSER, NEWNET, NEWTIME, THREAD = 0x10000000, 0x40000000, 0x80, 0x3D0F00
CREAT, TMPFILE = 0o100, 0o20200000
UNIX, INET, INET6, NETLINK, VSOCK, PACKET, ALG = 1, 2, 10, 16, 40, 17, 38
STREAM, DGRAM, RAW, SEQPACKET, CLOEXEC = 1, 2, 3, 5, 0o2000000

# Call, arguments, and the answer of each variant: restricted, proxy, enabled.
ROWS: list[tuple[str, tuple[int, ...], int, int, int]] = [
    *[(name, (), EPERM, EPERM, EPERM) for name in DENIED],
    ("clone3", (), ENOSYS, ENOSYS, ENOSYS),
    ("openat2", (), ENOSYS, ENOSYS, ENOSYS),
    *[(name, (), EPERM, ALLOW, ALLOW) for name in NETWORK],
    ("clone", (THREAD,), ALLOW, ALLOW, ALLOW),
    *[("clone", (1 << bit | 17,), EPERM, EPERM, EPERM) for bit in (17, 25, 26, 27, 28, 29, 30)],
    ("clone", (NEWUSER | HIGH,), EPERM, EPERM, EPERM),
    ("unshare", (0x400,), ALLOW, ALLOW, ALLOW),
    ("unshare", (NEWNET,), EPERM, EPERM, EPERM),
    ("unshare", (NEWTIME,), EPERM, EPERM, EPERM),
    *[("fchmod", (3, mode), EPERM, EPERM, EPERM) for mode in (0o4755, 0o2755, 0o6000)],
    ("fchmod", (3, 0o1777), ALLOW, ALLOW, ALLOW),
    ("fchmodat", (3, 0, 0o4755), EPERM, EPERM, EPERM),
    ("fchmodat", (3, 0, 0o755), ALLOW, ALLOW, ALLOW),
    ("fchmodat2", (3, 0, 0o2755, 0), EPERM, EPERM, EPERM),
    ("fchmodat2", (3, 0, 0o755, 0), ALLOW, ALLOW, ALLOW),
    ("mknodat", (3, 0, 0o104755), EPERM, EPERM, EPERM),
    ("mknodat", (3, 0, 0o10644), ALLOW, ALLOW, ALLOW),
    ("openat", (3, 0, CREAT, 0o4755), EPERM, EPERM, EPERM),
    ("openat", (3, 0, TMPFILE, 0o2755), EPERM, EPERM, EPERM),
    ("openat", (3, 0, CREAT, 0o644), ALLOW, ALLOW, ALLOW),
    # Without a file to be made the mode is whatever was in a register.
    ("openat", (3, 0, 0, 0o7777), ALLOW, ALLOW, ALLOW),
    ("ioctl", (0, 0x5412), EPERM, EPERM, EPERM),
    ("ioctl", (0, 0x5412 | HIGH), EPERM, EPERM, EPERM),
    ("ioctl", (0, 0x541C), EPERM, EPERM, EPERM),
    ("ioctl", (0, 0x5401), ALLOW, ALLOW, ALLOW),
    ("socket", (UNIX, STREAM, 0), EPERM, EPERM, ALLOW),
    ("socket", (INET, STREAM, 0), EPERM, ALLOW, ALLOW),
    ("socket", (INET6, DGRAM, 0), EPERM, ALLOW, ALLOW),
    ("socket", (NETLINK, RAW, 0), EPERM, EPERM, ALLOW),
    ("socket", (NETLINK, RAW, 15), EPERM, EPERM, EPERM),
    *[("socket", (family, RAW, 0), EPERM, EPERM, EPERM) for family in (VSOCK, PACKET, ALG, 0, 44)],
    ("socketpair", (UNIX, STREAM | CLOEXEC, 0), ALLOW, ALLOW, ALLOW),
    ("socketpair", (UNIX, SEQPACKET, 0), ALLOW, ALLOW, ALLOW),
    # Its ends could send to any socket that has a name; the kernel takes RAW for the same.
    ("socketpair", (UNIX, DGRAM | CLOEXEC, 0), EPERM, EPERM, ALLOW),
    ("socketpair", (UNIX, RAW, 0), EPERM, EPERM, ALLOW),
    ("socketpair", (INET, STREAM, 0), EPERM, EPERM, EPERM),
]
X86_ROWS: list[tuple[str, tuple[int, ...], int, int, int]] = [
    ("iopl", (3,), EPERM, EPERM, EPERM),
    ("ioperm", (), EPERM, EPERM, EPERM),
    ("chmod", (0, 0o4755), EPERM, EPERM, EPERM),
    ("chmod", (0, 0o755), ALLOW, ALLOW, ALLOW),
    ("creat", (0, 0o2755), EPERM, EPERM, EPERM),
    ("creat", (0, 0o644), ALLOW, ALLOW, ALLOW),
    ("mknod", (0, 0o104755), EPERM, EPERM, EPERM),
    ("mknod", (0, 0o10644), ALLOW, ALLOW, ALLOW),
    ("open", (0, CREAT, 0o4755), EPERM, EPERM, EPERM),
    ("open", (0, TMPFILE, 0o4755), EPERM, EPERM, EPERM),
    ("open", (0, 0, 0o4755), ALLOW, ALLOW, ALLOW),
]


def answer(machine: str, variant: str, number: int, args: tuple[int, ...], **more: bool) -> int:
    """What the kernel would do: the program, run by hand."""
    given = struct.pack("<iIQ6Q", number, MACHINES[machine], 0, *(*args, 0, 0, 0, 0, 0, 0)[:6])
    return run(instructions(machine, variant, **more), given)


def run(ops: list[tuple[int, int, int, int]], given: bytes) -> int:
    at = held = 0
    while True:
        code, yes, no, operand = ops[at]
        at += 1
        match code:
            case 0x20:
                (held,) = struct.unpack_from("<I", given, operand)
            case 0x54:
                held &= operand
            case 0x06:
                return operand
            case _:
                holds = {0x15: held == operand, 0x45: bool(held & operand), 0x35: held >= operand}[code]
                at += yes if holds else no


CASES = [
    (machine, variant, name, args, row[2 + place])
    for machine in MACHINES
    for row in [*ROWS, *(X86_ROWS if machine == "x86_64" else [])]
    for name, args in [row[:2]]
    for place, variant in enumerate(VARIANTS)
]


@pytest.mark.parametrize(("machine", "variant"), [(one, two) for one in MACHINES for two in VARIANTS])
def test_each_call_gets_its_answer(machine: str, variant: str) -> None:
    numbers = calls(machine)
    wrong = [
        (name, args, hex(found), hex(wanted))
        for of, which, name, args, wanted in CASES
        if (of, which) == (machine, variant)
        and (found := answer(machine, variant, numbers[name], args)) != wanted
    ]
    assert not wrong


@pytest.mark.parametrize("machine", MACHINES)
def test_every_call_that_a_filter_knows_has_a_row(machine: str) -> None:
    assert {name for of, _, name, _, _ in CASES if of == machine} == set(calls(machine))


@pytest.mark.parametrize(("machine", "variant"), [(one, two) for one in MACHINES for two in VARIANTS])
def test_other_calls_are_allowed(machine: str, variant: str) -> None:
    numbers = set(calls(machine).values())
    assert {answer(machine, variant, number, ()) for number in set(range(480)) - numbers} == {ALLOW}


@pytest.mark.parametrize("machine", MACHINES)
def test_no_two_calls_have_one_number(machine: str) -> None:
    ours = calls(machine, alone=True)
    assert len(set(ours.values())) == len(ours)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_those_of_another_table(machine: str) -> None:
    try:
        known = ctypes.CDLL("libseccomp.so.2").seccomp_syscall_resolve_name_arch
    except OSError:
        pytest.skip("libseccomp is not installed")
    ours = calls(machine, alone=True)
    theirs = {name: known(MACHINES[machine] & 0xFFFFFFFF, name.encode()) for name in ours}
    assert {name: number for name, number in ours.items() if theirs[name] not in (number, -1)} == {}
    assert len(theirs) - list(theirs.values()).count(-1) > 60  # an older one does not know the newest calls


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_by_the_numbers_of_another_machine_end_the_process(machine: str) -> None:
    for other in (0x40000003, 0x40000028, *set(MACHINES.values()) - {MACHINES[machine]}):
        given = struct.pack("<iIQ6Q", 39, other, 0, *[0] * 6)
        assert run(instructions(machine, RESTRICTED), given) == KILL


def test_x86_has_no_second_set_of_numbers() -> None:
    assert answer("x86_64", ENABLED, 0x40000000 + 41, (INET, STREAM, 0)) == ENOSYS
    assert answer("x86_64", ENABLED, 0x40000000, ()) == ENOSYS
    assert answer("x86_64", ENABLED, 521, ()) == ENOSYS  # ptrace, by its other number


def test_tracing_can_be_left_to_debuggers() -> None:
    assert answer("aarch64", RESTRICTED, calls("aarch64")["ptrace"], (), tracing=True) == ALLOW
    assert answer("aarch64", RESTRICTED, calls("aarch64")["keyctl"], (), tracing=True) == EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_without_namespaces_no_file_and_nothing_of_other_processes_is_changed(machine: str) -> None:
    more = {
        name: number
        for name, number in calls(machine, alone=True).items()
        if name not in calls(machine) or "chmod" in name
    }
    assert len(more) == (35 if machine == "x86_64" else 29)
    for name, number in more.items():
        args = (0,) if name == "prlimit64" else (3, 0, 0)
        alone, before = (answer(machine, RESTRICTED, number, args, alone=one) for one in (True, False))
        assert (alone, before) == (ALLOW if name == "prlimit64" else EPERM, ALLOW), name
    assert answer(machine, RESTRICTED, more["prlimit64"], (77,), alone=True) == EPERM
    ioctl = calls(machine)["ioctl"]
    for request in (0x40086602, 0x40046602, 0x401C5820):  # FS_IOC_SETFLAGS and its kin
        assert answer(machine, RESTRICTED, ioctl, (3, request), alone=True) == EPERM
    # All else is as it was.
    for of, variant, name, args, wanted in CASES:
        if (of, variant) == (machine, RESTRICTED) and "chmod" not in name:
            assert answer(machine, RESTRICTED, calls(machine)[name], args, alone=True) == wanted, name


def test_a_machine_without_numbers_has_no_filter() -> None:
    assert known("x86_64") and not known("riscv64")
    with pytest.raises(KeyError):
        program("riscv64", RESTRICTED)


# In a child that has loaded the filter: every row, by its number, and what the call answered. Arguments that
# a row does not name are such that the call fails anyhow.
CHILD = """
import ctypes, json, os, struct, sys
rows, filter_ = json.load(sys.stdin)
libc = ctypes.CDLL(None, use_errno=True)
code = bytes.fromhex(filter_)
held = ctypes.create_string_buffer(code, len(code))
loaded = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(held))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, loaded, 0, 0) == 0, "not loaded"
said = []
for number, args in rows:
    ctypes.set_errno(0)
    words = [ctypes.c_ulong(one) for one in (args + [2**64 - 1] * 6)[:6]]
    done = libc.syscall(ctypes.c_long(number), *words)
    said.append(ctypes.get_errno() if done == -1 else 0)
print(json.dumps(said))
"""


@pytest.mark.skipif(not known(os.uname().machine), reason="no filter for this machine")
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_kernel_refuses_what_is_denied(variant: str) -> None:
    machine = os.uname().machine
    numbers = calls(machine)
    wanted = [
        (name, args, code & 0xFFFF)
        for of, which, name, args, code in CASES
        if (of, which) == (machine, variant) and code != ALLOW
    ]
    rows = [(numbers[name], args) for name, args, _ in wanted]
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=json.dumps([rows, program(machine, variant).hex()]),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == [code for *_, code in wanted]


@pytest.mark.skipif(not known(os.uname().machine), reason="no filter for this machine")
@pytest.mark.parametrize("variant", [PROXY, ENABLED])
def test_the_kernel_lets_through_what_is_allowed(variant: str) -> None:
    code = (
        "import ctypes, socket, struct, sys, threading, subprocess\n"
        "code = bytes.fromhex(sys.argv[1])\n"
        "held = ctypes.create_string_buffer(code, len(code))\n"
        "libc = ctypes.CDLL(None)\n"
        "loaded = struct.pack('HxxxxxxP', len(code) // 8, ctypes.addressof(held))\n"
        "assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, loaded, 0, 0) == 0\n"
        "one = socket.socket(); one.bind(('127.0.0.1', 0)); one.listen()\n"
        "two = socket.create_connection(one.getsockname())\n"
        "thread = threading.Thread(target=lambda: print(subprocess.check_output(['echo', 'hi'])))\n"
        "thread.start(); thread.join()\n"
    )
    argv = [sys.executable, "-c", code, program(os.uname().machine, variant).hex()]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "b'hi\\n'\n", "")
