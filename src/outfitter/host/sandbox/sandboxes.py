"""Commands in sandboxes: a launch with a confinement becomes one of bubblewrap, and what it needs is made.

Everything goes to bubblewrap by descriptor: what it is to mount and the environment as one list of words, the
filter of system calls as it is. Its own environment is empty: what a request says has no effect outside of
the sandbox. It tells us the process inside that is the first of its namespace; when that one is gone, all
are.
"""

from __future__ import annotations

import errno
import os

from ...core.launch import Launch
from ...core.protecting import keeping
from ...core.starting import refused
from ...errors import InvalidParams, LaunchFailed, SandboxUnavailable
from ...openers import private_folder
from ..killing import kill_group
from ..pipes import let_go
from ..unix import waitpid
from . import seccomp
from .arguments import Layout, arguments, can_enter, fixed
from .bubblewrap import Bubblewrap, Finder, check_outside, memory
from .covering import covers, startup_covers
from .limits import Allowance, Limits, soften
from .paths import Matched, look
from .placeholders import REMEDY, Placeholders, needed
from .running import Running
from .sheet import Sheet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...core.permissions import Confinement
    from ...loop import Loop
    from ..spawn import Spawner, Stdio
    from .arguments import Cover
    from .paths import Found
    from .running import Hook

DEFAULT = Allowance()
_FIRST = 3  # the number of the first descriptor
_SETSID = ("/usr/bin/setsid", "/bin/setsid", "/run/current-system/sw/bin/setsid")
_BASH = ("/usr/bin/bash", "/bin/bash", "/run/current-system/sw/bin/bash")
# A name for the program that is not its file's, where bubblewrap cannot give one.
_RENAME = 'exec -a "$1" "${@:2}"'


class Sandboxes:
    """The sandboxes of one server. `state` is the folder of what outlives it; that and `own` are files and
    folders of the server, which no command may see."""

    def __init__(
        self, loop: Loop, state: str, own: Sequence[str] = (), settings: Allowance = DEFAULT
    ) -> None:
        self._loop = loop
        folder = self._folder = f"{state}/sandbox"
        self._own = (state, *own)
        self._allowance = settings
        self._limits = Limits(settings)
        self.finder = Finder(settings.program)
        self.placeholders = Placeholders(f"{folder}/placeholders")
        self.placeholders.tidy()
        self.running: dict[int, Running] = {}  # by mark
        self.by_landlock: set[int] = set()  # marks of commands without bubblewrap
        self._sources: tuple[str, str] | None = None

    def spawn(self, spawner: Spawner, launch: Launch, stdio: Stdio, limit: int | None, mark: int) -> int:
        """As `Spawner.spawn`, in a sandbox. Raises SandboxUnavailable, InvalidParams, LaunchFailed."""
        assert launch.confinement is not None
        matched = launch.matched if isinstance(launch.matched, Matched) else None
        try:
            program = self.finder.find()
        except SandboxUnavailable as error:
            if not self._allowance.landlock:
                raise
            program, why = None, error.why
        found = look(keeping(launch.confinement, self._allowance.protect), matched)
        if found.refusal is not None:
            return spawner.spawn(refused(launch, found.refusal, 1), stdio, limit)
        if program is None:
            return self._landlocked(spawner, launch, stdio, limit, mark, found, why)
        check_outside(program, found)
        opened: list[int] = []
        running: Running | None = None
        pid = 0
        try:
            sheet = Sheet()
            opened += sheet.opened
            running = Running(self._loop, self._hooks(launch))
            opened += running.theirs
            if self._sources is None:
                self._sources = empty_files(self._folder)  # and with them what is to be hidden
            own = covers(self._own, secret=True)
            pins = pin_all(program, found, own, opened) if launch.confinement.files else []
            descriptors = (*sheet.theirs, *running.theirs, *[fd for _, fd in pins])
            argv = [program.path, *sheet.words(_FIRST), *running.words(_FIRST + len(sheet.theirs))]
            argv += ["--", *command(launch, renames=program.argv0)]
            final = Launch(program.path, argv, launch.cwd, {}, descriptors=descriptors)
            pid = self._born(spawner, final, stdio, limit, mark)
            wanted = needed(found)
            running.placeholders = self.placeholders.take(wanted)
            first = _FIRST + len(descriptors) - len(pins)
            places = [(path, first + number) for number, (path, _) in enumerate(pins)]
            sheet.write(*self._told(program, launch, found, own, impossible(wanted), places))
        except BaseException as error:
            if pid:
                _end(pid)
            if running is not None:
                running.abandon()
                self.placeholders.give_back(running.placeholders)
            self._limits.groups.ended(mark)
            if isinstance(error, OSError):
                raise failed(error) from None
            raise
        finally:
            let_go(*opened)  # and bubblewrap reads
        self.running[mark] = running
        running.on_the_network = launch.confinement.network and launch.before is None
        if not running.held:
            soften(pid)  # nearly always before it has children, and no harm where it is not
        running.begin(pid)
        return pid

    def _landlocked(
        self,
        spawner: Spawner,
        launch: Launch,
        stdio: Stdio,
        limit: int | None,
        mark: int,
        found: Found,
        why: str,
    ) -> int:
        """Without bubblewrap, for the reason `why`. Raises SandboxUnavailable, LaunchFailed."""
        from . import landlock

        assert launch.confinement is not None
        try:
            unseen = (*covers(self._own, secret=True), *startup_covers(launch.masks))
            problem = landlock.obstacle(launch.confinement, found, proxied=launch.before is not None)
            rules = [] if problem else landlock.allowed(found, {one.path for one in unseen})
        except (OSError, ValueError) as error:
            problem = str(error)
        if problem:
            raise SandboxUnavailable(
                f"{why}. Landlock cannot be used instead (--sandbox-landlock): {problem}"
            )
        filter_ = self.finder.filter(seccomp.RESTRICTED, tracing=self._allowance.ptrace, alone=True)
        try:
            told = memory(landlock.plan(launch, rules, filter_))
        except OSError as error:
            raise failed(error) from None
        argv = landlock.words()
        final = Launch(argv[0], argv, launch.cwd, spawner.for_ourselves, descriptors=(told,))
        try:
            pid = self._born(spawner, final, stdio, limit, mark)
        except BaseException:
            self._limits.groups.ended(mark)
            raise
        finally:
            let_go(told)
        self.by_landlock.add(mark)
        return pid

    def _born(self, spawner: Spawner, launch: Launch, stdio: Stdio, limit: int | None, mark: int) -> int:
        """Starts it in a control group of its own. Raises LaunchFailed, OSError."""
        self._limits.groups.enter(mark)
        try:
            return spawner.spawn(launch, stdio, limit)
        finally:
            self._limits.groups.leave()

    @property
    def on_the_network(self) -> bool:
        """Whether a command inside can reach what the host can."""
        return any(one.on_the_network for one in self.running.values())

    @property
    def holds(self) -> bool:
        """Whether a command waits for us before it runs."""
        return any(one.held for one in self.running.values())

    def _hooks(self, launch: Launch) -> list[Hook]:
        """What happens before the command runs."""
        hooks: list[Hook] = [self._limits.apply] if self._limits.needed else []
        return [*hooks, launch.before] if launch.before is not None else hooks

    def killed_for_memory(self, mark: int) -> bool:
        """Whether the kernel has killed something in a sandbox whose memory is limited."""
        return mark in self.running and self._limits.groups.killed_for_memory(mark)

    def let_go(self, mark: int) -> None:
        """A command has closed: when its sandbox is empty, what was made for it goes, too."""
        running = self.running.get(mark)
        if running is not None:
            running.end(lambda: self._gone(mark))
        elif mark in self.by_landlock:
            self.by_landlock.discard(mark)
            self._limits.groups.ended(mark)

    def _gone(self, mark: int) -> None:
        running = self.running.pop(mark, None)
        if running is not None:
            self._limits.groups.ended(mark)
            self.placeholders.give_back(running.placeholders)

    def adopt(
        self,
        mark: int,
        outer: int,
        inner: int,
        info: int,
        told: str,
        placeholders: Sequence[str],
        on_the_network: bool,
    ) -> None:
        """Goes on with a sandbox that another version of this server has started."""
        running = self.running[mark] = Running.known(self._loop, outer, inner, info, told.encode())
        running.placeholders = tuple(placeholders)
        running.on_the_network = on_the_network
        if not outer:
            self.let_go(mark)

    def stopped(self) -> None:
        """The server ends, and everything was killed."""
        for mark, running in list(self.running.items()):
            running.wait()
            self._gone(mark)
        self._limits.close()

    # What bubblewrap is told

    def _told(
        self,
        program: Bubblewrap,
        launch: Launch,
        found: Found,
        own: Sequence[Cover],
        missing: frozenset[str],
        pins: Sequence[tuple[str, int]],
    ) -> tuple[bytes, bytes]:
        """The words, and the filter of system calls."""
        confinement = launch.confinement
        assert confinement is not None
        assert self._sources is not None
        variant = _variant(confinement, launch, self._allowance)
        layout = lay_out(
            program,
            launch,
            found,
            files=confinement.files,
            isolated=variant != seccomp.ENABLED,
            sources=self._sources,
            own=own,
            impossible=missing,
            pins=pins,
        )
        words = arguments(layout)
        if launch.argv[0] != launch.program and program.argv0 and not launch.tty:
            words += ["--argv0", launch.argv[0]]
        return packed(words), self.finder.filter(variant, tracing=self._allowance.ptrace)


def empty_files(folder: str) -> tuple[str, str]:
    """Two of ours: one that can be read, and one that cannot. Raises LaunchFailed."""
    empty, secret = f"{folder}/empty", f"{folder}/secret"
    try:
        for path, mode in ((empty, 0o444), (secret, 0)):
            if not os.path.exists(path):
                private_folder(folder)
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, mode))
    except OSError as error:
        raise failed(error, f"cannot write in {folder}; {REMEDY}") from None
    return empty, secret


def lay_out(
    program: Bubblewrap,
    launch: Launch,
    found: Found,
    *,
    files: bool,
    isolated: bool,
    sources: tuple[str, str],
    own: Sequence[Cover],
    impossible: frozenset[str],
    pins: Sequence[tuple[str, int]] = (),
) -> Layout:
    """What a sandbox for this launch is made of. `own` is in no command's sight. Raises LaunchFailed."""
    check_names(launch.env)
    cwd = os.path.realpath(launch.cwd)
    return Layout(
        found,
        cwd if can_enter(found, cwd, files=files) else "/",
        launch.env,
        files=files,
        isolated=isolated,
        proc=program.proc,
        empty=sources[0],
        secret=sources[1],
        startup=startup_covers(launch.masks),
        own=tuple(own),
        pins=tuple(pins),
        impossible=impossible,
    )


def impossible(wanted: Sequence[tuple[str, bool]]) -> frozenset[str]:
    """Of the placeholders that were to be made, those that are not there."""
    return frozenset([path for path, _ in wanted if not os.path.lexists(path)])


def _end(pid: int) -> None:
    """Ends a bubblewrap that waits to be told what to do."""
    kill_group(pid)
    try:
        waitpid(pid, 0)
    except ChildProcessError:
        pass  # an embedding application was quicker


def _variant(confinement: Confinement, launch: Launch, allowance: Allowance) -> str:
    if launch.before is not None:
        return seccomp.PROXY
    if confinement.network:
        return seccomp.ENABLED
    return seccomp.PROXY if allowance.loopback else seccomp.RESTRICTED


def check_names(env: Mapping[str, str]) -> None:
    """Raises LaunchFailed for a variable that bubblewrap cannot set; without it a program may have one."""
    wrong = [name for name in env if not name or "=" in name]
    if wrong:
        raise LaunchFailed(
            f"{os.strerror(errno.EINVAL)} (os error {errno.EINVAL})",
            "EINVAL",
            f"a command in a sandbox cannot have a variable with the name {wrong[0]!r}: remove it from `env`",
            "sandbox",
        )


def packed(words: Sequence[str]) -> bytes:
    """As bubblewrap reads them: each ends with a zero byte, so none may have one. Raises LaunchFailed."""
    text = "\0".join([*words, ""])
    if text.count("\0") != len(words):
        raise LaunchFailed("nul byte found in provided data")
    return text.encode("utf-8", "surrogateescape")


def pin_all(
    program: Bubblewrap, found: Found, own: Sequence[Cover], opened: list[int]
) -> list[tuple[str, int]]:
    """Writable places with a descriptor each, where bubblewrap can mount those; they are added to `opened`.
    Raises OSError."""
    pins: list[tuple[str, int]] = []
    if program.bind_fd:
        for path in (*[one.target for one in found.writable if one.target != "/"], *fixed(found, own)):
            opened.append(pinned(path))
            pins.append((path, opened[-1]))
    return pins


def pinned(path: str) -> int:
    """A descriptor of a place that is to be mounted, as it was looked at. Raises OSError."""
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if os.readlink(f"/proc/self/fd/{fd}") != path:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), path)  # replaced by a link meanwhile
    except BaseException:
        let_go(fd)
        raise
    return fd


def command(launch: Launch, *, renames: bool) -> list[str]:
    """The words of the command. On a terminal it leads a session of its own, which makes that terminal the
    one that controls it. Raises InvalidParams."""
    argv = [launch.program, *launch.argv[1:]]
    if launch.argv[0] != launch.program and (launch.tty or not renames):
        bash = next((path for path in _BASH if os.path.exists(path)), None)
        if bash is None:
            raise InvalidParams("arg0 needs bubblewrap 0.9 or newer in a sandbox, or bash: neither is here")
        argv = [bash, "--norc", "--noprofile", "-c", _RENAME, "bash", launch.argv[0], *argv]
    if launch.tty:
        setsid = next((path for path in _SETSID if os.path.exists(path)), None)
        if setsid is not None:
            argv = [setsid, "-c", "--", *argv]
    return argv


def failed(error: OSError, what: str = "") -> LaunchFailed:
    """What could not be made for a sandbox, and so its command was not started."""
    number = error.errno or 0
    return LaunchFailed(
        f"{os.strerror(number)} (os error {number})",
        errno.errorcode.get(number),
        what or f"cannot prepare the sandbox{f': {error.filename}' if error.filename else ''}",
        "sandbox",
    )
