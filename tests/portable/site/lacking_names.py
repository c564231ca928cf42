"""The names that Python lacks on macOS, taken out of the modules of this process.

From CPython's documentation ("Availability") and its configure checks, for Python 3.11 on macOS 13: recorded,
not read from a Mac. `scripts/portable` has every Python of the test run import this at its start, so that
code which reaches for such a name fails here as it would there. `tests/test_layers.py` reads the table, too:
only the modules for Linux may name one.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# By module. A name that ends in * stands for all that begin so. Python has `waitid` there from 3.13 on, and
# `preadv` and `pwritev` from macOS 11 on, but without flags.
LACKING = {
    "os": """
        pidfd_open PIDFD_* eventfd* EFD_* timerfd_* TFD_* memfd_create MFD_* pipe2 O_PATH O_TMPFILE O_DIRECT
        O_NOATIME O_LARGEFILE O_RSYNC copy_file_range splice SPLICE_* getxattr setxattr listxattr
        removexattr XATTR_* sched_getaffinity sched_setaffinity sched_setscheduler
        sched_getscheduler sched_getparam sched_setparam sched_param sched_rr_get_interval
        SCHED_BATCH SCHED_IDLE SCHED_RESET_ON_FORK getresuid getresgid setresuid setresgid unshare
        setns CLONE_* posix_fadvise posix_fallocate POSIX_FADV_* POSIX_SPAWN_CLOSEFROM getrandom GRND_* waitid
        waitid_result P_PIDFD P_PID P_PGID P_ALL WNOWAIT RWF_* fdatasync ST_NODEV ST_NOEXEC
        ST_SYNCHRONOUS ST_MANDLOCK ST_WRITE ST_APPEND ST_NOATIME ST_NODIRATIME ST_RELATIME
    """,
    "select": "epoll EPOLL* POLLRDHUP POLLMSG",
    "signal": """
        pidfd_send_signal sigtimedwait sigwaitinfo struct_siginfo SIGRTMIN SIGRTMAX SIGPWR SIGPOLL
        SIGSTKFLT SIGCLD
    """,
    "resource": """
        prlimit RLIMIT_RTTIME RLIMIT_RTPRIO RLIMIT_NICE RLIMIT_SIGPENDING RLIMIT_MSGQUEUE
        RLIMIT_OFILE RUSAGE_THREAD
    """,
    "fcntl": """
        F_SETPIPE_SZ F_GETPIPE_SZ F_ADD_SEALS F_GET_SEALS F_SEAL_* F_NOTIFY F_SETSIG F_GETSIG F_SETLEASE
        F_GETLEASE F_SHLCK F_EXLCK DN_* LOCK_MAND LOCK_READ LOCK_WRITE LOCK_RW I_*
    """,
    "time": "CLOCK_BOOTTIME CLOCK_TAI pthread_getcpuclockid",
    "errno": """
        EADV EBADE EBADFD EBADR EBADRQC EBADSLT EBFONT ECHRNG ECOMM EDEADLOCK EDOTDOT EISNAM EKEY* EL2*
        EL3* ELIB* ELNRNG EMEDIUMTYPE ENAVAIL ENOANO ENOCSI ENOKEY ENOMEDIUM ENONET ENOPKG ENOTNAM ENOTUNIQ
        EREMCHG EREMOTEIO ERESTART ERFKILL ESRMNT ESTRPIPE EUCLEAN EUNATCH EXFULL
    """,
    "socket": """
        AF_NETLINK NETLINK_* AF_VSOCK VMADDR_* SO_VM_* AF_ALG ALG_* AF_PACKET PACKET_* AF_CAN CAN_* AF_RDS
        AF_TIPC TIPC_* AF_QIPCRTR SOCK_CLOEXEC SOCK_NONBLOCK SO_PEERCRED SO_PEERSEC SO_PASSCRED SO_PASSSEC
        SO_BINDTODEVICE SO_MARK SO_PROTOCOL SO_DOMAIN SO_PRIORITY SO_INCOMING_CPU SCM_CREDENTIALS
        TCP_QUICKACK TCP_CORK TCP_DEFER_ACCEPT TCP_USER_TIMEOUT TCP_SYNCNT TCP_LINGER2 TCP_WINDOW_CLAMP
        TCP_CONGESTION TCP_INFO TCP_KEEPIDLE TCP_ULP TCP_REPAIR* TCP_MD5SIG* IP_TRANSPARENT IP_MTU*
        IP_BIND_ADDRESS_NO_PORT IPPROTO_MPTCP IPPROTO_UDPLITE UDPLITE_* MSG_CMSG_CLOEXEC MSG_ERRQUEUE
        MSG_MORE MSG_CONFIRM MSG_FASTOPEN MSG_NOSIGNAL
    """,
}
# Written in C, where a module has its names from another.
ABOVE = {"posix": "os", "_signal": "signal", "_socket": "socket"}


_WORDS = {module: set(words.split()) for module, words in LACKING.items()}
_BEGINNINGS = {
    module: tuple(word[:-1] for word in words if word.endswith("*")) for module, words in _WORDS.items()
}


def lacks(module: str, name: str) -> bool:
    """Whether Python has no such name there, of a module that is in the table."""
    return name in _WORDS[module] or name.startswith(_BEGINNINGS[module])


def take_out_of(module: Any) -> None:
    name = ABOVE.get(module.__name__, module.__name__)
    for one in [one for one in vars(module) if lacks(name, one)]:
        delattr(module, one)
    if module.__name__ == "_socket":
        with_peers(module)
    if module.__name__ == "os":
        # A file is executed by its name alone there.
        module.supports_fd.discard(module.execve)


def with_peers(module: Any) -> None:
    """Sockets whose peer's user is told as macOS tells it (unix(4), <sys/ucred.h>): by LOCAL_PEERCRED."""

    class Socket(module.socket):  # type: ignore[misc]
        __slots__ = ()

        def getsockopt(self, level: int, option: int, size: int = 0) -> Any:
            if (level, option, self.family) != (0, 1, module.AF_UNIX):
                return super().getsockopt(level, option, size)
            said = super().getsockopt(1, 17, 12)  # Linux's: pid, uid, gid
            return (bytes(4) + said[4:8] + bytes(68))[:size]

    Socket.__name__ = Socket.__qualname__ = "socket"
    module.socket = Socket


def take_out() -> None:
    """Of what is loaded now, and of the rest when it is loaded: this may be the first that a Python does."""
    for name in (*LACKING, *ABOVE):
        if name in sys.modules:
            take_out_of(sys.modules[name])
    sys.meta_path.insert(0, Finder())  # type: ignore[arg-type]


class Finder:
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in LACKING and name not in ABOVE:
            return None
        specs = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = Loader(spec.loader)  # type: ignore[assignment]
        return spec


class Loader:
    def __init__(self, real: Any) -> None:
        self.create_module = real.create_module
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def exec_module(self, module: Any) -> None:
        self._real.exec_module(module)
        take_out_of(module)


if __name__ == "lacking_names":
    take_out()
