"""The program that confines a command by Landlock and the filter of system calls, and ends what it leaves.

It reads what to do from its fourth descriptor. It stays, outside of what it confines, as the parent of every
descendant that loses its own: when the command has ended, so do they. The command cannot signal it.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import resource
from fcntl import ioctl
from stat import S_ISDIR

from ...stdlib import SIG_DFL, SIG_IGN, signal
from ...system import LINUX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

_PLAN = 3  # its descriptor
_SIGNALS = (1, 2, 3, 15)  # HUP, INT, QUIT, TERM: they are the command's
_TIOCSCTTY = 0x540E
NEEDED = 6  # the version that keeps signals and abstract sockets inside: Linux 6.12
EXECUTE, WRITE_FILE, READ_FILE, _TRUNCATE, IOCTL = 1, 2, 4, 1 << 14, 1 << 15
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | _TRUNCATE | IOCTL  # the rest is about folders
EVERYTHING = (1 << 16) - 1
_VERSION = 1
# The same on every machine.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF, _PATH_BENEATH = 444, 445, 446, 1
_NETWORK, _SCOPES = 1 | 2, 1 | 2  # bind and connect; abstract sockets and signals
_NO_NEW_PRIVS, _SUBREAPER, _SECCOMP, _BOUND_READ, _BOUND_DROP, _AMBIENT = 38, 36, 22, 23, 24, 47
_CAPABILITIES = 64  # more than any kernel has
_OOM_SCORE = 200  # of 1000, as for every sandbox
_BAD, _NOT_EXECUTABLE, _NOT_FOUND = 125, 126, 127

_libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _Rule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("access", ctypes.c_uint64), ("path", ctypes.c_int32))


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("program", ctypes.c_void_p))


def version() -> int:
    """Of the kernel's Landlock; 0 where there is none."""
    if not LINUX:
        return 0
    return max(0, int(_libc.syscall(ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), _VERSION)))


def lack(found: int) -> str:
    """Why a version does not suffice; nothing if it does."""
    if found >= NEEDED:
        return ""
    has = (
        f"this kernel has version {found}"
        if found
        else "this kernel has none, or it is not switched on (lsm=)"
    )
    return f"Landlock {NEEDED} is needed (Linux 6.12), and {has}"


def main() -> None:
    with open(_PLAN, "rb") as file:
        rules, filter_, tty, program, argv, env = marshal.load(file)
    _called("prctl", _libc.prctl(_SUBREAPER, 1, 0, 0, 0))
    for number in _SIGNALS:
        signal(number, SIG_IGN)
    command = os.fork()
    if not command:
        _become(rules, filter_, tty, program, argv, env)
    if tty:
        # The command leads a session of its own. Else it is in our group, and gets what we get.
        for number in _SIGNALS:
            signal(number, lambda number, _: _forward(command, number))
    null = os.open("/dev/null", os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)  # whoever reads what the command writes must not wait for us
    os._exit(_wait(command))


def _forward(command: int, number: int) -> None:
    try:
        os.killpg(command, number)
    except ProcessLookupError:
        pass  # it does not lead yet, or has ended


def _become(
    rules: Sequence[tuple[str, int]],
    filter_: bytes,
    tty: bool,
    program: str,
    argv: Sequence[str],
    env: Mapping[str, str],
) -> NoReturn:
    code = _BAD
    try:
        for number in _SIGNALS:
            signal(number, SIG_DFL)
        if tty:
            os.setsid()
            ioctl(0, _TIOCSCTTY, 0)
        _soften()
        _confine(rules, filter_)
        code = _NOT_EXECUTABLE
        os.execvpe(program, list(argv), env)
    except FileNotFoundError as error:
        code, text = (_NOT_FOUND if code == _NOT_EXECUTABLE else code), str(error.strerror)
    except Exception as error:
        text = str(error)
    os.write(2, f"outfitter: {program}: {text}\n".encode("utf-8", "surrogateescape"))
    os._exit(code)


def _soften() -> None:
    """Without core files, and the first to go when memory is short."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        with open("/proc/self/oom_score_adj", "r+") as file:
            if int(file.read()) < _OOM_SCORE:
                file.write(str(_OOM_SCORE))
    except (OSError, ValueError):
        pass


def _confine(rules: Sequence[tuple[str, int]], filter_: bytes) -> None:
    """From here on all is as the command has it. Raises OSError."""
    if why := lack(version()):
        raise OSError(0, why)
    _called("prctl", _libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))
    _restrict(rules)
    _drop_capabilities()
    program = ctypes.create_string_buffer(filter_, len(filter_))
    told = _Filter(len(filter_) // 8, ctypes.cast(program, ctypes.c_void_p))
    _called("seccomp", _libc.prctl(_SECCOMP, 2, ctypes.byref(told), 0, 0))


def _restrict(rules: Sequence[tuple[str, int]]) -> None:
    wanted = _Ruleset(EVERYTHING, _NETWORK, _SCOPES)
    ruleset = _syscall(_CREATE_RULESET, ctypes.byref(wanted), ctypes.c_size_t(ctypes.sizeof(wanted)), 0)
    for path, access in rules:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # gone: then it is not allowed
        if os.readlink(f"/proc/self/fd/{fd}") != path:
            os.close(fd)
            continue  # somebody has put a link on the way meanwhile
        of_files = not S_ISDIR(os.fstat(fd).st_mode)
        rule = _Rule(access & _OF_FILES if of_files else access, fd)
        _syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
        os.close(fd)
    _syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _drop_capabilities() -> None:
    """Root without them is a user like others, who owns root's files."""
    _libc.prctl(_AMBIENT, 4, 0, 0, 0)
    for number in range(_CAPABILITIES):
        _libc.prctl(_BOUND_DROP, number, 0, 0, 0)
        if os.geteuid() == 0 and _libc.prctl(_BOUND_READ, number, 0, 0, 0) == 1:
            raise OSError(0, "root's capabilities cannot be given up: run the server as another user")
    header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    _called("capset", _libc.capset(header, none))


def _syscall(number: int, *words: object) -> int:
    return _called("landlock", int(_libc.syscall(ctypes.c_long(number), *words)))


def _called(what: str, answer: int) -> int:
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return answer


def _wait(command: int) -> int:
    """Waits for the command, then ends what it left; its exit code, as a shell says it."""
    while True:
        pid, status = os.wait()
        if pid == command:
            break
    try:
        while True:
            for child in _children():
                os.kill(child, 9)
            os.wait()
    except ChildProcessError:
        pass  # none is left
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _children() -> list[int]:
    """Ours, and those whose parents have ended."""
    found, own = [], str(os.getpid())
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = file.read().rpartition(b")")[2].split()[1].decode()
            except (OSError, IndexError):
                continue  # gone
            if parent == own:
                found.append(int(name))
    return found
