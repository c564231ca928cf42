"""What ends all descendants when the server itself is killed.

A shell that holds the reading end of a pipe and waits. When the server dies, however it dies, the pipe
ends, and the shell kills every process that carries this server's mark. It costs one idle process of
about a megabyte, started while the server waits for its first client; per command it costs nothing, which a
parent-death signal set in each child would (and that reaches direct children only).
"""

from __future__ import annotations

import os

from ..core.launch import Launch
from ..core.marks import Marks
from ..log import warn
from ..refusals import LaunchFailed
from .killing import kill
from .pipes import let_go
from .spawn import Stdio
from .unix import KILL_MARKED, kill_watched, usable, waitpid, watch_exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..loop import Loop
    from .spawn import Spawner

# $1 is the upper part of this server's marks, $2 its control group if it has one, $3 its process group.
# Nothing that could be missing when it counts: builtins, and where they cannot look, `ps`.
_SCRIPT = f"""
trap '' INT TERM HUP QUIT PIPE
while read -r line; do :; done
[ -z "$2" ] || echo 1 >"$2/cgroup.kill"
for round in 1 2 3 4 5 6 7 8; do
  found=
  {KILL_MARKED}
  [ "$found" ] || break
done
"""


class Watchdog:
    """Outlives the server by the time it takes to end its descendants.

    Without a `loop` it is for one command of ours, and is not replaced when somebody kills it.
    """

    def __init__(self, loop: Loop | None, spawner: Spawner, marks: Marks, group: str = "") -> None:
        self._loop = loop
        self._spawner = spawner
        self._marks = marks
        self._group = group
        self._pid = 0
        self._pidfd = -1
        self._pipe = -1

    @property
    def pid(self) -> int:
        """Its process id; 0 while it is not running."""
        return self._pid

    def ensure(self) -> None:
        """Starts it if it is not running; not where it could find nobody, without marks or a group.

        Raises OSError, LaunchFailed.
        """
        if self._pid or not (usable() or self._group):
            return
        reading, writing = os.pipe()
        try:
            null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
            try:
                about = [str(self._marks.prefix), self._group, str(os.getpgrp())]
                self._pid = self._spawner.spawn(
                    Launch("/bin/sh", ["/bin/sh", "-c", _SCRIPT, "outfitter-watchdog", *about], "/", {}),
                    Stdio(stdin=reading, stdout=null, stderr=null),
                    ourselves=True,
                )
            finally:
                let_go(null)
        except BaseException:
            let_go(writing)
            raise
        finally:
            let_go(reading)
        self._pipe = writing
        try:
            self._pidfd = watch_exit(self._pid)
            if self._loop is not None:
                self._loop.add_reader(self._pidfd, self._died)
        except BaseException:
            self.stop()  # nobody would hear of its end
            raise

    def try_to_ensure(self) -> None:
        """As `ensure`, but a command starts all the same: the next one tries again."""
        if self._pid:
            return
        try:
            self.ensure()
        except (OSError, LaunchFailed) as error:
            warn(
                "server",
                "the watchdog was not started, so a killed server would leave its commands behind; it is "
                "tried again with the next command: %s",
                error,
            )

    def _died(self) -> None:
        """Somebody killed it: another takes its place, now or with the next command."""
        self._forget()
        self.try_to_ensure()

    def stop(self) -> None:
        """Ends it without a sweep; the server has ended its processes itself."""
        if self._pid:
            if self._pidfd < 0:
                kill(self._pid)  # nobody but us can have reaped it
            else:
                kill_watched(self._pid, self._pidfd)
            self._forget()

    def _forget(self) -> None:
        if self._pidfd >= 0 and self._loop is not None:
            self._loop.remove_reader(self._pidfd)
        let_go(self._pidfd, self._pipe)
        try:
            waitpid(self._pid, 0)
        except ChildProcessError:
            pass
        self._pid = 0
        self._pidfd = self._pipe = -1
