"""A tool of a provider, or a setup, in a sandbox. Its caller waits for it in a thread, and ends all of it."""

from __future__ import annotations

import os
import select
import time
from itertools import count

from ...core.launch import Launch
from ...core.protecting import keeping
from ...errors import LaunchFailed
from ...log import fault
from ...stdlib import allocate_lock
from ..killing import kill_group
from ..pipes import let_go
from ..tools import within
from . import seccomp
from .arguments import arguments
from .bubblewrap import Finder, check_outside, memory
from .covering import covers
from .limits import Limits
from .paths import look
from .placeholders import Placeholders, needed
from .running import TOLD_BYTES, first_process
from .sandboxes import DEFAULT, empty_files, failed, impossible, lay_out, packed, pin_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...core.permissions import Confinement

_FIRST = 3  # the number of a child's first descriptor
_HELD_SECONDS = 10.0  # until bubblewrap has made a sandbox, in 5 ms; more is a machine that does not move
_marks = count(1)  # for control groups; those of commands are above 2^62
_limiting = allocate_lock()
_limits: list[Limits] = []  # those of this process, when they were needed
_finders: list[Finder] = []  # the same


def confining(
    confinement: Confinement, state: str, own: Sequence[str] = ()
) -> Callable[[Launch, bool], ConfinedTool]:
    """What makes a launch one in a sandbox; `state` is the folder of what outlives us. That and `own` are in
    no tool's sight."""
    hidden = (state, *own)
    return lambda launch, elsewhere: ConfinedTool(launch, confinement, f"{state}/sandbox", hidden, elsewhere)


def _limited() -> Limits:
    """What limits the sandboxes of tools, in all threads."""
    with _limiting:
        if not _limits:
            _limits.append(Limits(within.allowance or DEFAULT))
            _limits[0].groups  # noqa: B018 (looks for them)
        return _limits[0]


def _finder() -> Finder:
    """Finds what confines tools, in all threads."""
    with _limiting:
        if not _finders:
            _finders.append(Finder((within.allowance or DEFAULT).program))
        return _finders[0]


class _Gate:
    """Holds a tool until its limits are set. `theirs` are bubblewrap's descriptors. Raises OSError."""

    def __init__(self) -> None:
        self._info, told = os.pipe2(os.O_CLOEXEC)
        self.theirs = [told]
        try:
            held, self._gate = os.pipe2(os.O_CLOEXEC)
        except BaseException:
            let_go(self._info, told)
            raise
        self.theirs.append(held)

    def first(self) -> int:
        """The first process inside, as soon as bubblewrap says so; 0 if there is none. Raises OSError."""
        told, until = b"", time.monotonic() + _HELD_SECONDS
        waiting = select.poll()
        waiting.register(self._info, select.POLLIN)
        while b"}" not in told:
            if not waiting.poll(max(0.0, until - time.monotonic()) * 1000):
                raise TimeoutError("bubblewrap does not say what it has started")
            data = os.read(self._info, TOLD_BYTES)
            if not data:
                return 0
            told += data
        return first_process(told)

    def open(self) -> None:
        """Raises OSError."""
        os.write(self._gate, b"\0")

    def close(self) -> None:
        let_go(self._info, self._gate)


class ConfinedTool:
    """A tool that is about to start in a sandbox, and what was made for it.

    With `elsewhere`, among other mounts than ours: what was opened here cannot be mounted there, and places
    are given by their paths. Raises LaunchFailed, SandboxUnavailable.
    """

    def __init__(
        self, launch: Launch, confinement: Confinement, folder: str, own: Sequence[str], elsewhere: bool
    ) -> None:
        finder = _finder()
        program = finder.find()
        found = look(keeping(confinement, (within.allowance or DEFAULT).protect))
        if found.refusal is not None:
            raise LaunchFailed(found.refusal.strip(), what=found.refusal.strip())
        check_outside(program, found)
        self._placeholders = Placeholders(f"{folder}/placeholders")
        wanted = needed(found)
        self._taken = self._placeholders.take(wanted)
        self._opened: list[int] = []
        self._mark = next(_marks)
        self._gate: _Gate | None = None
        # The tool's own descriptors keep their numbers; ours come after them.
        args = _FIRST + len(launch.descriptors)
        names = ("--args", "--seccomp", "--info-fd", "--block-fd")
        held: list[int] = []
        try:
            sources = empty_files(folder)  # and with them what is to be hidden
            unseen = covers(own, secret=True)
            pins = pin_all(program, found, unseen, held) if confinement.files and not elsewhere else []
            layout = lay_out(
                program,
                launch,
                found,
                files=confinement.files,
                isolated=not confinement.network,
                sources=sources,
                own=unseen,
                impossible=impossible(wanted),
                pins=[(path, args + len(names) + place) for place, (path, _) in enumerate(pins)],
            )
            self._opened.append(memory(packed(arguments(layout))))
            variant = seccomp.ENABLED if confinement.network else seccomp.RESTRICTED
            self._opened.append(memory(finder.filter(variant)))
            self._gate = _Gate()
            self._opened += self._gate.theirs
        except BaseException as error:
            self._opened += held
            self.started(0)
            self.ended()
            if isinstance(error, OSError):
                raise failed(error) from None
            raise
        self._opened += held
        words = [word for place, name in enumerate(names, args) for word in (name, str(place))]
        argv = [program.path, *words, "--", _file(launch)]
        self.launch = Launch(
            program.path,
            [*argv, *launch.argv[1:]],
            launch.cwd,
            {},
            descriptors=(*launch.descriptors, *self._opened),
        )

    def started(self, pid: int) -> None:
        """What we hold open for it is its own by now; it waits for its limits, unless nothing was started."""
        opened, self._opened = self._opened, []
        let_go(*opened)
        if not pid or self._gate is None:
            return
        try:
            inner = self._gate.first()
            if inner:
                _limited().apply_late(self._mark, inner)
                self._gate.open()
        except Exception as error:
            # It would run without what it must have. The gate stays shut until it is gone.
            fault("server", "a tool in a sandbox cannot be limited, and is ended", error)
            kill_group(pid)

    def ended(self) -> None:
        """It is gone, with everything that it started."""
        gate, self._gate = self._gate, None
        if gate is not None:
            gate.close()
        if _limits:
            _limits[0].groups.ended(self._mark)
        self._placeholders.give_back(self._taken)
        self._taken = ()


def _file(launch: Launch) -> str:
    """The program as bubblewrap finds it: with the tool's PATH, which it has after `--clearenv`."""
    return launch.found or launch.program
