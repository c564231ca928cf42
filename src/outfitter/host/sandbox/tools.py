"""A tool of a provider, or a setup, in a sandbox. Its caller waits for it in a thread, and ends all of it."""

from __future__ import annotations

import os

from ...core.launch import Launch
from ...errors import LaunchFailed
from ..pipes import let_go
from . import seccomp
from .arguments import arguments
from .bubblewrap import Finder, memory
from .paths import look
from .placeholders import Placeholders, needed
from .sandboxes import empty_files, failed, impossible, lay_out, packed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...core.permissions import Confinement

_FIRST = 3  # the number of a child's first descriptor
_finder = Finder()


def confining(confinement: Confinement, state: str) -> Callable[[Launch], ConfinedTool]:
    """What makes a launch one in a sandbox; `state` is the folder of what outlives us."""
    return lambda launch: ConfinedTool(launch, confinement, f"{state}/sandbox")


class ConfinedTool:
    """A tool that is about to start in a sandbox, and what was made for it.

    Raises LaunchFailed, SandboxUnavailable.
    """

    def __init__(self, launch: Launch, confinement: Confinement, folder: str) -> None:
        program = _finder.find()
        found = look(confinement)
        if found.refusal is not None:
            raise LaunchFailed(found.refusal.strip(), what=found.refusal.strip())
        self._placeholders = Placeholders(f"{folder}/placeholders")
        wanted = needed(found)
        self._taken = self._placeholders.take(wanted)
        self._opened: list[int] = []
        try:
            layout = lay_out(
                program,
                launch,
                found,
                files=confinement.files,
                isolated=not confinement.network,
                sources=empty_files(folder),
                own=[os.path.dirname(folder)],
                impossible=impossible(wanted),
            )
            self._opened.append(memory(packed(arguments(layout))))
            variant = seccomp.ENABLED if confinement.network else seccomp.RESTRICTED
            self._opened.append(memory(_finder.filter(variant)))
        except BaseException as error:
            self.started()
            self.ended()
            if isinstance(error, OSError):
                raise failed(error) from None
            raise
        # The tool's own descriptors keep their numbers; ours come after them.
        args = _FIRST + len(launch.descriptors)
        argv = [program.path, "--args", str(args), "--seccomp", str(args + 1), "--", _file(launch)]
        self.launch = Launch(
            program.path,
            [*argv, *launch.argv[1:]],
            launch.cwd,
            {},
            descriptors=(*launch.descriptors, *self._opened),
        )

    def started(self) -> None:
        """What we hold open for it is its own by now."""
        opened, self._opened = self._opened, []
        let_go(*opened)

    def ended(self) -> None:
        """It is gone, with everything that it started."""
        self._placeholders.give_back(self._taken)
        self._taken = ()


def _file(launch: Launch) -> str:
    """The program as bubblewrap finds it: with the tool's PATH, which it has after `--clearenv`."""
    return launch.found or launch.program
