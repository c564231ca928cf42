"""What bubblewrap is told for one command: a list of words, made of what was found out before.

The order counts: a later mount stands above an earlier one.
"""

from __future__ import annotations

from ...core.permissions import covers
from ...core.visibility import parent
from ...record import KW_ONLY, record
from .paths import depth

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from .paths import Found, Hidden, Protected

# Shared memory is memory: without a size it could be all of it. Test suites and browsers use a few MiB.
SHARED_MEMORY_BYTES = 256 << 20
# The kernel's own settings: root's files, and root is who a command of a server of root is. Others below
# /proc (sysrq-trigger, irq, bus) bubblewrap makes read-only by itself, where they can be written.
_SETTINGS = "/proc/sys"
# Of the sandbox's own, with these folders in it; what else the host has there is not.
_DEVICES = "/dev"
_DEVICE_FOLDERS = ("/dev", "/dev/pts", "/dev/shm")


@record
class Cover:
    """A file or a folder that looks empty. One that is `secret` cannot be opened at all."""

    path: str
    is_dir: bool
    secret: bool = False


@record
class Layout:
    """All that a sandbox is made of. `pins` are the numbers that bubblewrap has for writable places that were
    opened before; `empty` and `secret` are files to put over others. `startup` are covered before the
    writable places are there, `own` after everything. What is `impossible` to make for the server's user is
    missing, and cannot be made by the command either."""

    found: Found
    cwd: str
    env: Mapping[str, str]
    _: KW_ONLY
    files: bool  # whether files are confined
    isolated: bool  # from the host's network
    proc: bool = True  # whether it can have processes of its own to look at
    empty: str = ""
    secret: str = ""
    startup: tuple[Cover, ...] = ()
    own: tuple[Cover, ...] = ()
    pins: tuple[tuple[str, int], ...] = ()
    impossible: frozenset[str] = frozenset()
    shared_memory: int = SHARED_MEMORY_BYTES


def arguments(layout: Layout) -> list[str]:
    """Everything but the descriptors and the command."""
    words = ["--die-with-parent", "--new-session"]
    words += ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    if layout.isolated:
        words.append("--unshare-net")
    writable = any(one.target == "/" for one in layout.found.writable)
    whole = writable or "/" in layout.found.read_roots
    words += ["--bind" if writable else "--ro-bind", "/", "/"] if whole else _parts(layout)
    words += _devices(layout) if layout.files else ["--dev-bind", _DEVICES, _DEVICES]
    words += _processes(layout, writable)
    held = fixed(layout.found, layout.own)
    late = _uncovered(layout, held) if held else []
    words += _covers([one for one in layout.startup if one not in late], layout)
    words += _mounts(layout, held)
    words += _covers(late, layout)
    words += _covers([one for one in layout.own if whole or visible(layout.found, one.path)], layout)
    # When what is mounted there is in its place; unless the host's own is.
    if layout.files and not any(one.target == _DEVICES for one in layout.found.writable):
        words += ["--remount-ro", _DEVICES]
    if not whole:
        words += ["--remount-ro", "/"]
    words += ["--cap-drop", "ALL", "--clearenv"]
    for name, value in layout.env.items():
        words += ["--setenv", name, value]
    return [*words, "--chdir", layout.cwd]


def _parts(layout: Layout) -> list[str]:
    words = ["--tmpfs", "/"]
    for link, told in layout.found.links:
        words += ["--symlink", told, link]
    for path in layout.found.read_roots:
        words += ["--ro-bind", path, path]
    return words


def _devices(layout: Layout) -> list[str]:
    size = str(layout.shared_memory)
    shared = ["--perms", "1777", "--size", size, "--tmpfs", "/dev/shm"]
    return ["--dev", _DEVICES, *shared]


def _processes(layout: Layout, writable: bool) -> list[str]:
    if not layout.proc:
        return ["--tmpfs", "/proc", "--remount-ro", "/proc"]
    words = ["--proc", "/proc", "--ro-bind", _SETTINGS, _SETTINGS]
    return [*words, "--ro-bind-try", "/sys", "/sys"] if writable else words


def _mounts(layout: Layout, held: Iterable[str]) -> list[str]:
    """What may be written, what stays read-only below it, what is hidden: the deeper, the later."""
    pins = dict(layout.pins)
    mounts: list[tuple[int, int, list[str]]] = []
    last: list[str] = []
    mounts += [(depth(path), 0, _bound(path, pins)) for path in held]
    for one in layout.found.writable:
        if one.target != "/":
            mounts.append((depth(one.target), 0, _bound(one.target, pins)))
        kept = [each for each in one.protected if each.path not in layout.impossible]
        mounts += [(depth(each.path), 1, _protected(each)) for each in kept]
    for hidden in layout.found.hidden:
        if hidden.path in layout.impossible:
            continue
        mounts.append((depth(hidden.path), 2, _hidden(hidden, layout)))
        if hidden.is_dir:
            last += ["--remount-ro", hidden.path]  # when what is in sight below it is in its place
    mounts += [(depth(path), 3, ["--ro-bind", path, path]) for path in layout.found.reopened]
    mounts.sort(key=lambda one: one[:2])
    return [word for *_, words in mounts for word in words] + last


def fixed(found: Found, own: Iterable[Cover]) -> list[str]:
    """The folders that a command could rename, and with them what is mounted below: then something else could
    be put where a rule says what is there, now or for the next command. What is a mount cannot be renamed."""
    roots = {one.target for one in found.writable}
    inner = roots | {one.path for one in found.hidden} | {one.path for one in own}
    inner.update([each.path for one in found.writable for each in one.protected])
    # The kernel's own are mounts already, and not what the host has there.
    shut = inner.union(found.read_roots, found.reopened, ("/dev", "/proc", "/sys")) - roots
    above: set[str] = set()
    for path in inner:
        while (path := parent(path)) not in above and path != "/":
            above.add(path)
    known = roots | shut
    return sorted([path for path in above - roots if _nearest(path, known) in roots])


def _uncovered(layout: Layout, held: Iterable[str]) -> list[Cover]:
    """Startup files that a mount which only keeps a folder in its place would uncover, and none that is asked
    for."""
    asked = {one.target for one in layout.found.writable} | {one.path for one in layout.found.hidden}
    return [
        one
        for one in layout.startup
        if _nearest(one.path, asked) == "/" and any(covers(folder, one.path) for folder in held)
    ]


def _nearest(path: str, several: Container[str]) -> str:
    """The first of these at or above a path, or the root."""
    while path != "/" and path not in several:
        path = parent(path)
    return path


def _deepest(roots: Iterable[str], path: str) -> int:
    """The length of the deepest of these at or above a path."""
    return max([len(root) for root in roots if covers(root, path)], default=-1)


def _bound(path: str, pins: Mapping[str, int]) -> list[str]:
    """A writable place. One that was opened before is that one, whatever has its name by now."""
    pin = pins.get(path)
    return ["--bind", path, path] if pin is None else ["--bind-fd", str(pin), path]


def _protected(one: Protected) -> list[str]:
    """A folder that is missing gets an empty one of the sandbox's own: 0.5 ms less where four are missing."""
    if one.is_dir and not one.exists:
        return _hollow(one.path, "555")
    return ["--ro-bind", one.path, one.path]


def _hidden(one: Hidden, layout: Layout) -> list[str]:
    if not one.is_dir:
        return ["--ro-bind", layout.secret, one.path]
    return ["--perms", "111" if one.has_writable_below else "000", "--tmpfs", one.path]


def _covers(covers: Iterable[Cover], layout: Layout) -> list[str]:
    words: list[str] = []
    for one in covers:
        if not one.is_dir:
            words += ["--ro-bind", layout.secret if one.secret else layout.empty, one.path]
        else:
            words += _hollow(one.path, "000" if one.secret else "555")
    return words


def _hollow(path: str, perms: str) -> list[str]:
    """An empty folder of the sandbox's own. For each mount that is bound or made read-only bubblewrap reads
    the table of all mounts: 0.1 ms where there are 20, and more with more of them. This one takes a quarter
    of that. A command that changes its mode has a folder of one page for itself, and that is all."""
    return ["--perms", perms, "--size", "4096", "--tmpfs", path]


def visible(found: Found, path: str) -> bool:
    """Whether a real path can be seen inside: the deepest mount above it says so."""
    shown = [*found.read_roots, *found.reopened, *[one.target for one in found.writable]]
    return _deepest(shown, path) > _deepest([one.path for one in found.hidden], path)


def can_enter(found: Found, path: str, *, files: bool) -> bool:
    """Whether a real folder is there inside. Where `files` are confined, the devices are not the host's."""
    if not visible(found, path):
        return False
    if not files or path in _DEVICE_FOLDERS or not covers(_DEVICES, path):
        return True
    return any(covers(_DEVICES, one.target) and covers(one.target, path) for one in found.writable)
