"""The filter of system calls for what runs in a sandbox: a program for the kernel, built here from names.

Everything is allowed that is not denied. Denied is what reaches past the sandbox whatever its files are:
other processes, keyrings, mounts, new namespaces, files that run as their owner, words typed into a terminal,
and sockets, as far as the network is. A call of another machine's numbers ends the process.

The kernel reads 32 bits of a flag, so 32 bits are compared: high bits that it ignores hide nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Check = list["Op"]  # what is done for one call, in order

# Variants, by what the network is.
RESTRICTED, PROXY, ENABLED = "restricted", "proxy", "enabled"
VARIANTS = (RESTRICTED, PROXY, ENABLED)

Op = tuple[int, int, int, int]  # code, jump if true, jump if false, operand
_LOAD, _EQUAL, _SET, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x54, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_NUMBER, _MACHINE = 0, 4  # offsets in what the kernel shows the filter
_FAR = 255  # instructions that a jump passes at most
_FEW = 4  # numbers that are compared one after the other

_MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# The numbers of another way to call an x86-64 kernel: first those that some kernels take without its mark.
_X32 = 512

# x86-64, aarch64.
_CALLS = {
    # Other processes.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    # Work that the kernel does unseen by this filter.
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # Keyrings belong to a user, not to a namespace.
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # Large parts of the kernel that have been ways out.
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    # Mounts and roots.
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "setns": (308, 268),
    "open_by_handle_at": (304, 265),
    # The machine itself.
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "vhangup": (153, 58),
    "syslog": (103, 116),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
    # Not here: callers fall back. What they ask for is behind a pointer, which no filter can follow.
    "clone3": (435, 435),
    "openat2": (437, 437),
    # By their arguments.
    "clone": (56, 220),
    "unshare": (272, 97),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "mknodat": (259, 33),
    "openat": (257, 56),
    "ioctl": (16, 29),
    # Sockets.
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "accept": (43, 202),
    "accept4": (288, 242),
    "bind": (49, 200),
    "listen": (50, 201),
}
_X86_ONLY = {"iopl": 172, "ioperm": 173, "chmod": 90, "creat": 85, "mknod": 133, "open": 2}
# Beside Landlock, which has no word for modes, owners, times and attributes of files, nor for the limits of
# other processes, and what they share: namespaces of its own would keep a command from them.
_ALONE = {
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "setxattrat": (463, 463),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    "utimensat": (280, 88),
    "prlimit64": (302, 261),
    # What processes share by a number or a name: memory, semaphores, queues.
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "semctl": (66, 191),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}
_ALONE_X86 = {"chown": 92, "lchown": 94, "utime": 132, "utimes": 235, "futimesat": 261}
_MODES = ("chmod", "fchmod", "fchmodat", "fchmodat2")
_ABSENT = ("clone3", "openat2")
_BY_ARGUMENT = (
    *("clone", "unshare", "fchmod", "fchmodat", "fchmodat2", "mknodat", "openat", "ioctl"),
    *("chmod", "creat", "mknod", "open", "socket", "socketpair"),
)
_NETWORK = ("connect", "accept", "accept4", "bind", "listen")

# Every kind of namespace; the one of clocks can only be had by unshare.
_NAMESPACES, _TIME_NAMESPACE = 0x7E020000, 0x80
_RUNS_AS_OWNER = 0o6000
_CREATES = 0o100 | 0o20000000  # O_CREAT, and the bit of O_TMPFILE that is its own
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_SET_FLAGS = (0x40086602, 0x40046602, 0x401C5820)  # FS_IOC_SETFLAGS, of 32 bits, FS_IOC_FSSETXATTR
_UNIX, _INET, _INET6, _NETLINK, _ROUTE = 1, 2, 10, 16, 0
_KIND, _STREAM, _SEQPACKET = 0xF, 1, 5


def calls(machine: str, *, alone: bool = False) -> dict[str, int]:
    """The numbers of the calls that a filter knows, on one kind of machine. Raises KeyError."""
    place = {"x86_64": 0, "aarch64": 1}[machine]
    table = {**_CALLS, **(_ALONE if alone else {})}
    found = {name: numbers[place] for name, numbers in table.items()}
    if machine == "x86_64":
        found |= {**_X86_ONLY, **(_ALONE_X86 if alone else {})}
    return found


def known(machine: str) -> bool:
    """Whether there is a filter for a kind of machine."""
    return machine in _MACHINES


def program(machine: str, variant: str, *, tracing: bool = False, alone: bool = False) -> bytes:
    """The filter as the kernel reads it. `tracing` leaves ptrace to the sandbox's own processes, for
    debuggers: what they can reach is in the same sandbox. `alone` is for a command without namespaces of its
    own. Raises KeyError for an unknown machine."""
    from struct import pack

    ops = instructions(machine, variant, tracing=tracing, alone=alone)
    return b"".join([pack("=HBBI", *op) for op in ops])


def instructions(machine: str, variant: str, *, tracing: bool = False, alone: bool = False) -> list[Op]:
    """The same, readable."""
    numbers = calls(machine, alone=alone)
    ops = [(_LOAD, 0, 0, _MACHINE), (_EQUAL, 1, 0, _MACHINES[machine]), _end(_KILL)]
    ops.append((_LOAD, 0, 0, _NUMBER))
    if machine == "x86_64":
        ops += [(_AT_LEAST, 0, 1, _X32), _end(_ERRNO | _ENOSYS)]
    spared = {*_BY_ARGUMENT, *_ABSENT, *_NETWORK, *(["ptrace"] if tracing else [])}
    checks = {numbers[name]: [_end(_ERRNO | _EPERM)] for name in numbers if name not in spared}
    if variant == RESTRICTED:
        checks |= {numbers[name]: [_end(_ERRNO | _EPERM)] for name in _NETWORK}
    checks |= {numbers[name]: [_end(_ERRNO | _ENOSYS)] for name in _ABSENT}
    checks |= {numbers[name]: check for name, check in _checks(variant).items() if name in numbers}
    if alone:
        checks |= {numbers[name]: check for name, check in _checks_alone().items() if name in numbers}
    return ops + _search(sorted(checks.items()))


def _search(checks: list[tuple[int, Check]]) -> list[Op]:
    """Finds the check of the number that is loaded, by halves. A check ends in an answer. When it loads a
    filter, the kernel tries it with every number there is: 0.11 ms instead of 0.19 for each sandbox."""
    if len(checks) > _FEW:
        half = len(checks) // 2
        low, high = _search(checks[:half]), _search(checks[half:])
        assert len(low) <= _FAR, "a jump does not reach the upper half"
        return [(_AT_LEAST, len(low), 0, checks[half][0]), *low, *high]
    ops: list[Op] = []
    for number, check in checks:
        ops += [(_EQUAL, 0, len(check), number), *check]
    return [*ops, _end(_ALLOW)]


def _checks(variant: str) -> dict[str, Check]:
    owner = _RUNS_AS_OWNER
    return {
        "clone": _without(0, _NAMESPACES),
        "unshare": _without(0, _NAMESPACES | _TIME_NAMESPACE),
        "chmod": _without(1, owner),
        "fchmod": _without(1, owner),
        "fchmodat": _without(2, owner),
        "fchmodat2": _without(2, owner),
        "creat": _without(1, owner),
        "mknod": _without(1, owner),
        "mknodat": _without(2, owner),
        "open": _unless_created(1, 2, owner),
        "openat": _unless_created(2, 3, owner),
        "ioctl": _none_of(1, (_TIOCSTI, _TIOCLINUX)),
        "socket": _socket(variant),
        "socketpair": _pair(variant),
    }


def _checks_alone() -> dict[str, Check]:
    return {
        **{name: [_end(_ERRNO | _EPERM)] for name in _MODES},
        "prlimit64": _only(0, (0,)),  # its own
        "ioctl": _none_of(1, (_TIOCSTI, _TIOCLINUX, *_SET_FLAGS)),
    }


def _without(place: int, bits: int) -> Check:
    """Denied if the argument has one of these bits."""
    return [_argument(place), (_SET, 0, 1, bits), _end(_ERRNO | _EPERM), _end(_ALLOW)]


def _unless_created(flags: int, mode: int, bits: int) -> Check:
    """Denied if a file is made, with one of these bits in its mode."""
    return [_argument(flags), (_SET, 1, 0, _CREATES), _end(_ALLOW), *_without(mode, bits)]


def _none_of(place: int, values: Iterable[int]) -> Check:
    tests = [(_EQUAL, 0, 1, value) for value in values]
    ops = [_argument(place)]
    for test in tests:
        ops += [test, _end(_ERRNO | _EPERM)]
    return [*ops, _end(_ALLOW)]


def _only(place: int, values: Iterable[int]) -> Check:
    ops = [_argument(place)]
    for value in values:
        ops += [(_EQUAL, 0, 1, value), _end(_ALLOW)]
    return [*ops, _end(_ERRNO | _EPERM)]


def _socket(variant: str) -> Check:
    if variant == RESTRICTED:
        return [_end(_ERRNO | _EPERM)]
    if variant == PROXY:
        return _only(0, (_INET, _INET6))
    # Routes and addresses may be read, as resolvers do; other uses of netlink change the machine.
    routes = [(_EQUAL, 0, 3, _NETLINK), _argument(2), (_EQUAL, 0, 1, _ROUTE), _end(_ALLOW)]
    first, *rest = _only(0, (_UNIX, _INET, _INET6))
    return [first, *rest[:-1], *routes, _end(_ERRNO | _EPERM)]


def _pair(variant: str) -> Check:
    """A pair of sockets of this machine's own. One for datagrams could be used to send to any other socket by
    its name, so there is none where the host's sockets are out of bounds."""
    family = [_argument(0), (_EQUAL, 1, 0, _UNIX), _end(_ERRNO | _EPERM)]
    if variant == ENABLED:
        return [*family, _end(_ALLOW)]
    kinds = _only(1, (_STREAM, _SEQPACKET))
    return [*family, kinds[0], (_AND, 0, 0, _KIND), *kinds[1:]]


def _argument(place: int) -> Op:
    return (_LOAD, 0, 0, 16 + 8 * place)  # its lower half: both machines store that first


def _end(answer: int) -> Op:
    return (_RETURN, 0, 0, answer)
