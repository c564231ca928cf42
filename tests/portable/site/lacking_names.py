"""The names that Python lacks on macOS, taken out of the modules of this process.

From CPython's documentation ("Availability") and its configure checks, for Python 3.11 on macOS 13: recorded,
not read from a Mac. `scripts/portable` has every Python of the test run import this at its start, so that
code which reaches for such a name fails here as it would there.
"""

from __future__ import annotations

import _signal
import _socket
import fcntl
import os
import posix
import resource
import select
from fnmatch import fnmatchcase

# A name that ends in * stands for all that begin so.
LACKING = {
    (os, posix): """
        pidfd_open PIDFD_* eventfd* EFD_* memfd_create MFD_* pipe2 O_PATH O_TMPFILE O_DIRECT
        O_NOATIME O_LARGEFILE O_RSYNC copy_file_range splice SPLICE_* getxattr setxattr listxattr
        removexattr XATTR_* sched_getaffinity sched_setaffinity sched_setscheduler
        sched_getscheduler sched_getparam sched_setparam sched_param sched_rr_get_interval
        SCHED_BATCH SCHED_IDLE SCHED_RESET_ON_FORK getresuid getresgid setresuid setresgid unshare
        setns CLONE_* posix_fadvise posix_fallocate POSIX_FADV_* getrandom GRND_* waitid
        waitid_result P_PIDFD P_PID P_PGID P_ALL WNOWAIT RWF_* fdatasync
    """,
    (select,): "epoll EPOLL*",
    (_signal,): """
        pidfd_send_signal sigtimedwait sigwaitinfo struct_siginfo SIGRTMIN SIGRTMAX SIGPWR SIGPOLL
        SIGSTKFLT SIGCLD
    """,
    (resource,): """
        prlimit RLIMIT_RTTIME RLIMIT_RTPRIO RLIMIT_NICE RLIMIT_SIGPENDING RLIMIT_MSGQUEUE
        RLIMIT_OFILE RUSAGE_THREAD
    """,
    (fcntl,): "F_SETPIPE_SZ F_GETPIPE_SZ F_ADD_SEALS F_GET_SEALS F_SEAL_* F_NOTIFY F_SETSIG F_GETSIG DN_*",
    (_socket,): """
        AF_NETLINK NETLINK_* AF_VSOCK VMADDR_* AF_ALG ALG_* AF_PACKET PACKET_* AF_CAN CAN_*
        SOCK_CLOEXEC SOCK_NONBLOCK SO_PEERCRED SO_PEERSEC SO_PASSCRED SO_PASSSEC SO_BINDTODEVICE
        SO_MARK SO_PROTOCOL SO_DOMAIN SO_PRIORITY SCM_CREDENTIALS TCP_QUICKACK TCP_CORK
        TCP_DEFER_ACCEPT TCP_USER_TIMEOUT TCP_SYNCNT TCP_LINGER2 TCP_WINDOW_CLAMP TCP_CONGESTION
        TCP_INFO TCP_KEEPIDLE MSG_CMSG_CLOEXEC MSG_ERRQUEUE MSG_MORE MSG_CONFIRM MSG_FASTOPEN
        MSG_NOSIGNAL
    """,
}


def take_out() -> None:
    for modules, names in LACKING.items():
        for module in modules:
            for name in names.split():
                for one in [one for one in vars(module) if fnmatchcase(one, name)]:
                    delattr(module, one)
    # A file is executed by its name alone there.
    os.supports_fd.discard(os.execve)


take_out()
