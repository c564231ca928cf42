"""Launch → a child in its own session, through posix_spawn.

posix_spawn shares memory with the parent until exec, so it costs the same whatever the size of the
server; fork does not. The standard library's binding can neither change directory nor close inherited
descriptors, so the C library is called directly. A program that cannot be started is an error here, not
a child that exits with 127.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
from struct import pack

from ..core.launch import DEFAULT_PATH, MAX_FOLDERS, Launch, candidates
from ..log import warn
from ..refusals import HostUnsupported, LaunchFailed
from ..stdlib import allocate_lock
from .pipes import Pipes, let_go

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Protocol

    class Identity(Protocol):
        """Another user, whose children are: `identity.Assumed`."""

        def prepare(self, spawner: Spawner) -> None:
            """Begins the process that starts them."""

        def spawn(self, spawner: Spawner, launch: Launch, stdio: Stdio, mark: int | None) -> int:
            """Starts a child of that user."""

        def close(self) -> None:
            """Ends that process."""

        def ourselves(self) -> AbstractContextManager[None]:
            """Within it, children are our own user's."""

        environ: Mapping[str, str]  # what this process was started with
        folder: str  # and where

        def as_started(self) -> AbstractContextManager[None]:
            """Within it, this process is what it was then."""

        def as_root(self) -> AbstractContextManager[None]:
            """Within it, files are our own user's."""

    class First(Protocol):
        """Around the birth of who is the first to go when memory is short: `limits.CommandsFirst`."""

        def begin(self) -> None: ...
        def end(self) -> None: ...


_SETSIGDEF, _SETSIGMASK, _SETSID = 0x04, 0x08, 0x80
_FIRST = 3  # the place of the first descriptor after the standard ones
# posix_spawnattr_t is 336 bytes and posix_spawn_file_actions_t 80 in glibc and musl; sigset_t 128. There are
# many of the second kind, and few of the others.
_OPAQUE, _ACTIONS = 512, 128
_LONGEST_WORD = 32 * os.sysconf("SC_PAGE_SIZE")  # the kernel's MAX_ARG_STRLEN; the NUL at its end counts
_LEAST_ROOM, _MOST_ROOM = 128 << 10, 6 << 20
# Sets of descriptors and directories, 0.6 KB each; made anew when there are more. To make one takes six calls
# of the C library: with 128, a hundred commands that are started together, again and again, would take 49
# instead of 52 ms. But of commands that stay, each has a set of its own, which nobody needs again.
_REMEMBERED = 64


class Stdio:
    """Which descriptors become 0, 1 and 2; or a terminal, opened by name so that it controls."""

    # Not a record: one is made for every command.
    __slots__ = ("stderr", "stdin", "stdout", "terminal")

    def __init__(self, stdin: int = -1, stdout: int = -1, stderr: int = -1, terminal: str = "") -> None:
        self.stdin = stdin  # -1: /dev/null
        self.stdout = stdout
        self.stderr = stderr
        self.terminal = terminal


limits_are_ours = allocate_lock()
# Whose children are, if not our own user's. Set once, before the first child, by `host.identity`.
assumed: Identity | None = None


class Spawner:
    """Starts programs. One per server; not thread-safe, because marks pass through our own limits."""

    def __init__(self) -> None:
        self.pipes = Pipes()
        libc = ctypes.CDLL(None)
        try:
            self._add_chdir = libc.posix_spawn_file_actions_addchdir_np
        except AttributeError:
            raise HostUnsupported(
                "this C library cannot start a program in a given directory "
                "(posix_spawn_file_actions_addchdir_np: glibc 2.29 or newer, or musl 1.1.24)"
            ) from None
        # Older ones rely on every descriptor of ours being close-on-exec, which Python's are.
        self._add_closefrom = getattr(libc, "posix_spawn_file_actions_addclosefrom_np", None)
        self._spawn = libc.posix_spawn
        self._init = libc.posix_spawn_file_actions_init
        self._destroy = libc.posix_spawn_file_actions_destroy
        self._add_dup2 = libc.posix_spawn_file_actions_adddup2
        self._add_open = libc.posix_spawn_file_actions_addopen
        pointer, integer, text = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
        self._add_open.argtypes = [pointer, integer, text, integer, ctypes.c_uint]
        self._attributes = ctypes.create_string_buffer(_OPAQUE)
        libc.posix_spawnattr_init(self._attributes)
        # Every bit, not sigfillset: that leaves out glibc's own two signals, and posix_spawn then sets
        # them to be ignored in the child.
        every = ctypes.create_string_buffer(b"\xff" * _OPAQUE, _OPAQUE)
        libc.posix_spawnattr_setsigdefault(self._attributes, every)
        libc.posix_spawnattr_setsigmask(self._attributes, ctypes.create_string_buffer(_OPAQUE))
        libc.posix_spawnattr_setflags(self._attributes, ctypes.c_short(_SETSIGDEF | _SETSIGMASK | _SETSID))
        self._actions: dict[tuple[str | int, ...], ctypes.Array[ctypes.c_char]] = {}
        self._env: dict[str, str] = {}
        self._where = _Where()
        self._env_vector = _Vector([], "", self._where)
        self._pid = ctypes.c_int()
        self._pid_ref = ctypes.byref(self._pid)
        with limits_are_ours:
            self._rtt = resource.getrlimit(resource.RLIMIT_RTTIME)
            stack = resource.getrlimit(resource.RLIMIT_STACK)[0]
        # What the kernel takes as arguments and variables together: more is not handed over to be refused.
        self._room = min(max(stack // 4, _LEAST_ROOM), _MOST_ROOM) if stack >= 0 else _MOST_ROOM
        self.child_files: tuple[int, int] | None = None  # the limit on files of children, if not our own
        self.commands_first: First | None = None  # with --limits
        self.for_ourselves: Mapping[str, str] = {}  # what our own interpreter needs, if anything

    def raise_file_limit(self) -> None:
        """Lets this process open as many files as it may; children keep the limit we started with."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == hard:
            return
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            self.child_files = (soft, hard)
        except (OSError, ValueError):
            pass

    def spawn(self, launch: Launch, stdio: Stdio, mark: int | None = None, *, ourselves: bool = False) -> int:
        """Starts the program; returns its pid, which is also its group and session.

        `mark` is left in the child's limits and inherited by all its descendants (see `host.tree`). With
        `ourselves` the child is our own user's, whoever the others belong to. Raises LaunchFailed.
        """
        if assumed is None:
            return self._start(launch, stdio, mark)
        if not ourselves:
            return assumed.spawn(self, launch, stdio, mark)
        with assumed.ourselves():
            return self._start(launch, stdio, mark)

    def _start(self, launch: Launch, stdio: Stdio, mark: int | None) -> int:
        if sum(map(len, launch.argv)) > self._room:
            raise failure(errno.E2BIG, launch, b"")
        argv = _Vector(list(launch.argv), "nul byte found in provided data", self._where)
        env = self._environment(launch.env)
        program = find(launch)
        failed = self._run(program, launch, stdio, argv, env, mark)
        if failed == errno.EACCES and "/" not in launch.program:
            # A folder of that name can be entered, which is all that was looked at. The next may be a file.
            program = find(launch, careful=True)
            failed = self._run(program, launch, stdio, argv, env, mark)
        if failed:
            raise failure(failed, launch, program)
        return self._pid.value

    def _run(
        self, program: bytes, launch: Launch, stdio: Stdio, argv: _Vector, env: _Vector, mark: int | None
    ) -> int:
        if stdio.terminal:
            with _Above(launch.descriptors) as given:
                actions = self._made(stdio, launch.cwd, given)
                try:
                    return self._marked(program, actions, argv, env, mark)
                finally:
                    self._destroy(actions)
        if launch.descriptors:
            with _Above(launch.descriptors) as given:
                return self._marked(program, self._known(stdio, launch.cwd, given), argv, env, mark)
        return self._marked(program, self._known(stdio, launch.cwd), argv, env, mark)

    def _environment(self, env: Mapping[str, str]) -> _Vector:
        if env != self._env:
            entries = [f"{name}={value}" for name, value in env.items()]
            self._env_vector = _Vector(entries, "data provided contains a nul byte", self._where)
            self._env = dict(env)
        return self._env_vector

    def _known(self, stdio: Stdio, directory: str, given: Sequence[int] = ()) -> ctypes.Array[ctypes.c_char]:
        """Descriptors are numbered anew from below, so one command's are most often another's."""
        known: tuple[str | int, ...] = (directory, stdio.stdin, stdio.stdout, stdio.stderr, *given)
        actions = self._actions.get(known)
        if actions is None:
            if len(self._actions) >= _REMEMBERED:
                for old in self._actions.values():
                    self._destroy(old)
                self._actions.clear()
            actions = self._actions[known] = self._made(stdio, directory, given)
        return actions

    def _made(self, stdio: Stdio, directory: str, given: Sequence[int] = ()) -> ctypes.Array[ctypes.c_char]:
        """What a child does before it executes the program. The C library keeps copies of the names."""
        cwd = os.fsencode(directory)
        actions = ctypes.create_string_buffer(_ACTIONS)
        self._init(actions)
        if stdio.terminal:
            # Opening it by name in the new session makes it the controlling terminal.
            self._add_open(actions, 0, os.fsencode(stdio.terminal), os.O_RDWR, 0)
            self._add_dup2(actions, 0, 1)
            self._add_dup2(actions, 0, 2)
        else:
            if stdio.stdin >= 0:
                self._add_dup2(actions, stdio.stdin, 0)
            else:
                self._add_open(actions, 0, b"/dev/null", os.O_RDONLY, 0)
            self._add_dup2(actions, stdio.stdout, 1)
            self._add_dup2(actions, stdio.stderr, 2)
        for place, fd in enumerate(given, _FIRST):
            self._add_dup2(actions, fd, place)
        self._add_chdir(actions, cwd)
        if self._add_closefrom is not None:
            self._add_closefrom(actions, _FIRST + len(given))
        return actions

    def _marked(
        self,
        program: bytes,
        actions: ctypes.Array[ctypes.c_char],
        argv: _Vector,
        env: _Vector,
        mark: int | None,
    ) -> int:
        """posix_spawn with our limits set to what the child shall have; returns the errno."""
        # Limits belong to the process: a server on another thread waits, or its child would get our mark.
        with limits_are_ours:
            try:
                if mark is not None:
                    resource.setrlimit(resource.RLIMIT_RTTIME, (mark, self._rtt[1]))
                if self.child_files is not None:
                    resource.setrlimit(resource.RLIMIT_NOFILE, self.child_files)
                if self.commands_first is not None and mark is not None:
                    self.commands_first.begin()
                code: int = self._spawn(
                    self._pid_ref, program, actions, self._attributes, argv.pointers, env.pointers
                )
                return code
            finally:
                if mark is not None:
                    _set_back(resource.RLIMIT_RTTIME, self._rtt)
                if self.child_files is not None:
                    hard = self.child_files[1]
                    _set_back(resource.RLIMIT_NOFILE, (hard, hard))
                if self.commands_first is not None and mark is not None:
                    self.commands_first.end()


def _set_back(kind: int, limits: tuple[int, int]) -> None:
    """A child may run already, so a failure is not one of its start. The next start sets the limit again."""
    try:
        resource.setrlimit(kind, limits)
    except (OSError, ValueError):
        warn("server", "cannot set back a limit of this process after a start")


class _Above:
    """Copies of descriptors above the places that they go to: none is overwritten before its turn."""

    def __init__(self, descriptors: Sequence[int]) -> None:
        self._descriptors = descriptors
        self._copies: list[int] = []

    def __enter__(self) -> Sequence[int]:
        from fcntl import F_DUPFD_CLOEXEC, fcntl

        try:
            for fd in self._descriptors:
                self._copies.append(fcntl(fd, F_DUPFD_CLOEXEC, _FIRST + len(self._descriptors)))
        except OSError:
            self.__exit__()
            raise
        return self._copies

    def __exit__(self, *_: object) -> None:
        let_go(*self._copies)


class _Where:
    """Tells where bytes are in memory: two views of one pointer. `array` could, but takes 3 ms to load."""

    __slots__ = ("number", "text")

    def __init__(self) -> None:
        self.text = ctypes.c_char_p()
        self.number = ctypes.c_void_p.from_buffer(self.text)


class _Vector:
    """A null-terminated array of C strings in two pieces of memory: the bytes, and pointers into them.

    Converting each string by itself costs ctypes 60 us for a usual environment; this takes an eighth.
    """

    __slots__ = ("_block", "pointers")

    def __init__(self, items: list[str], complaint: str, where: _Where) -> None:
        block = "\0".join(items).encode("utf-8", "surrogateescape")  # and a NUL, as behind all bytes
        parts = block.split(b"\0") if items else []
        if len(parts) != len(items):
            raise LaunchFailed(complaint)
        where.text.value = block
        at = where.number.value or 0
        pointers = []
        for part in parts:
            pointers.append(at)
            at += len(part) + 1
        pointers.append(0)
        self._block = block  # lives as long as the pointers
        self.pointers = pack(f"{len(pointers)}Q", *pointers)


def find(launch: Launch, *, careful: bool = False) -> bytes:
    """The file to execute, looked for in the *child's* PATH. Careful, it is no folder."""
    if not launch.program:
        raise LaunchFailed(f"missing program for {'PTY' if launch.tty else 'pipe'} spawn")
    if "\0" in launch.program:
        raise LaunchFailed("nul byte found in provided data")
    if "/" in launch.program:
        return os.fsencode(launch.program)
    if launch.found and not careful:
        return os.fsencode(launch.found)
    tried = []
    for path in candidates(launch.program, launch.env):
        # The child is in its directory when it executes; we are not.
        here = path if path.startswith("/") else f"{launch.cwd}/{path}"
        if os.access(here, os.X_OK) and not (careful and os.path.isdir(here)):
            return os.fsencode(path)
        tried.append(here)
    if any(map(os.path.isfile, tried)):
        what = f"`{launch.program}` is in PATH but not executable"
        raise LaunchFailed(_text(errno.EACCES), "EACCES", what, "program")
    from ..env.lists import reaches_system

    where = "the command's PATH"
    if launch.env.get("PATH", "").count(":") >= MAX_FOLDERS:
        where = f"the first {MAX_FOLDERS} folders of {where}, and more are not looked at"
    what = f"`{launch.program}` was not found in {where}"
    if not reaches_system(launch.env.get("PATH", DEFAULT_PATH)):
        what += ", which has neither /usr/bin nor /bin: `outfitter env explain PATH` says who set it"
    if launch.tty:
        # The reference's words for terminals.
        searched = launch.env.get("PATH", "")
        text = f'Unable to spawn {launch.program} because:\nNo viable candidates found in PATH "{searched}"'
        raise LaunchFailed(text, "ENOENT", what, "program")
    raise LaunchFailed(_text(errno.ENOENT), "ENOENT", what, "program")


def check_words(launch: Launch) -> None:
    """Refuses a word that no kernel takes, before anybody reads it. Raises LaunchFailed."""
    if max(map(len, launch.argv)) >= _LONGEST_WORD:
        raise failure(errno.E2BIG, launch, b"")


def failure(code: int, launch: Launch, program: bytes) -> LaunchFailed:
    """posix_spawn gives one number for the directory, the program and its interpreter; look again."""
    subject, what = "program", None
    if not os.path.isdir(launch.cwd):
        subject, what = "cwd", "the working directory does not exist or is not a directory"
    elif not os.access(launch.cwd, os.X_OK):
        subject, what = "cwd", "the working directory may not be entered"
    elif code == errno.ENOENT and os.path.exists(os.path.join(os.fsencode(launch.cwd), program)):
        subject, what = "interpreter", "the program's interpreter does not exist"
    elif code == errno.ENOENT:
        what = "the program does not exist"
    elif code == errno.E2BIG:
        what = "arguments and environment together are larger than the system allows"
    elif code == errno.ECANCELED:
        what = "somebody stopped the command before it had begun, or its file could not be opened in time"
    elif code == errno.ENOEXEC:
        what = "the file is neither a binary of this machine nor a script with a #! line"
    return LaunchFailed(_text(code), errno.errorcode.get(code), what, subject)


def _text(code: int) -> str:
    return f"{os.strerror(code)} (os error {code})"
