"""One sandbox that runs: its first process inside, which others signal and wait for.

Bubblewrap says in a pipe which one that is. Where something has to be done before the command may run, the
command is held by another pipe until then.
"""

from __future__ import annotations

import os
import select

from ...log import fault
from ..descendants import runs
from ..killing import kill_group
from ..pipes import let_go

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...loop import Loop

    # Gets the first process inside, and what to call for the next to happen.
    Hook = Callable[[int, Callable[[], None]], None]

TOLD_BYTES = 4096  # a process and a few namespaces: 200 bytes
# Between start and exec a command cannot be signalled; it is looked at again. Seconds, and how often.
_LOOK_SECONDS, _LOOKS = 0.003, 1000
_GONE_MS = 1000  # how long the end of a server waits for a sandbox to be empty


class Running:
    """What is known of one sandbox. `theirs` are descriptors for bubblewrap, to be closed after its start."""

    def __init__(self, loop: Loop, hooks: Sequence[Hook] = ()) -> None:
        """Raises OSError."""
        self._set(loop, awaited=False)
        self._hooks = list(hooks)
        self.info, told = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.theirs.append(told)
        if hooks:
            try:
                held, self._gate = os.pipe2(os.O_CLOEXEC)
            except BaseException:
                let_go(self.info, told)
                raise
            self.theirs.append(held)

    def _set(self, loop: Loop, *, awaited: bool) -> None:
        self._loop = loop
        self._awaited = awaited
        self.placeholders: tuple[str, ...] = ()
        self.outer = 0  # bubblewrap itself, while it runs outside
        self.inner = 0  # the first process inside, once it is known
        self.told = b""  # what bubblewrap has said
        self.on_the_network = False  # the host's
        self.theirs: list[int] = []
        self._pidfd = self._gate = -1

    @classmethod
    def known(cls, loop: Loop, outer: int, inner: int, info: int, told: bytes) -> Running:
        """One that runs already."""
        running = cls.__new__(cls)
        running._set(loop, awaited=True)
        running._hooks = []
        running.outer, running.inner, running.info, running.told = outer, inner, info, told
        if info >= 0:
            loop.add_reader(info, running._hear)
        return running

    def words(self, first: int) -> list[str]:
        """What bubblewrap is told of its descriptors, the first of which has this number."""
        words = ["--info-fd", str(first)]
        return [*words, "--block-fd", str(first + 1)] if self._gate >= 0 else words

    def abandon(self) -> None:
        """It was not started."""
        self._close()

    def begin(self, outer: int) -> None:
        """Bubblewrap has started; from now on `theirs` are its own."""
        self.outer = outer
        self.theirs = []
        self._loop.add_reader(self.info, self._hear)

    @property
    def held(self) -> bool:
        """Whether the command waits for us."""
        return self._gate >= 0

    def find(self) -> int:
        """The first process inside; 0 if there is none yet, or no longer."""
        if not self.inner and self.info >= 0:
            self._read()
        return self.inner

    def _read(self) -> bool:
        """Takes what bubblewrap says, which comes in parts; whether that was all."""
        try:
            while data := os.read(self.info, TOLD_BYTES):
                self.told += data
        except BlockingIOError:
            return False
        self._loop.remove_reader(self.info)
        let_go(self.info)
        self.info = -1
        self.inner = first_process(self.told)
        return True

    # Before the command runs

    def _hear(self) -> None:
        if self._read() and self.held:
            self._next()

    def _next(self) -> None:
        if not self.inner:
            self._open_gate()  # it has ended; nothing runs
        elif self._hooks:
            hook = self._hooks.pop(0)
            try:
                hook(self.inner, self._next)
            except Exception as error:
                # It would run without what it must have; unless somebody has ended it meanwhile.
                if runs(self.inner):
                    fault("server", "a sandbox could not be prepared, and its command is ended", error)
                kill_group(self.outer)
        else:
            self._open_gate()

    def _open_gate(self) -> None:
        gate, self._gate = self._gate, -1
        if gate >= 0:
            try:
                os.write(gate, b"\0")
            except OSError:
                pass  # nobody waits any more
            let_go(gate)

    # Signals

    def signal(self, number: int, looks: int = _LOOKS) -> None:
        """A signal for the command's group, as soon as it is the command's and not bubblewrap's own."""
        if not self.outer:
            return
        command = _command(self.inner) if self.find() else 0
        if command:
            reach(command, number)
        elif looks:
            self._loop.call_later(_LOOK_SECONDS, self.signal, number, looks - 1)

    # End

    def end(self, gone: Callable[[], None]) -> None:
        """Bubblewrap has ended. Calls `gone` when every process inside is gone, which may be at once."""
        self.outer = 0
        if self._pidfd >= 0:
            return  # it is waited for already
        self.find()
        if (self.placeholders or self._awaited) and self.inner and _is_inside(self.inner):
            try:
                self._pidfd = os.pidfd_open(self.inner)
            except OSError:
                pass  # gone just now
            else:
                self._loop.add_reader(self._pidfd, self._ended, gone)
                return
        self._close()
        gone()

    def _ended(self, gone: Callable[[], None]) -> None:
        self._close()
        gone()

    def wait(self) -> None:
        """Waits for it to be empty; for the end of a server."""
        if self._pidfd < 0 and self.find() and _is_inside(self.inner):
            try:
                self._pidfd = os.pidfd_open(self.inner)
            except OSError:
                pass
        if self._pidfd >= 0:
            waiting = select.poll()
            waiting.register(self._pidfd, select.POLLIN)
            waiting.poll(_GONE_MS)
        self._close()

    def _close(self) -> None:
        for fd in (self.info, self._gate, self._pidfd):
            if fd >= 0:
                self._loop.remove_reader(fd)
                let_go(fd)
        self.info = self._gate = self._pidfd = -1


def first_process(told: bytes) -> int:
    """Of all that bubblewrap has said, the first process inside; 0 if it has not come so far."""
    digits = told.partition(b'"child-pid":')[2].strip().partition(b"\n")[0].strip(b" ,}")
    return int(digits) if digits.isdigit() else 0


def _is_inside(pid: int) -> bool:
    """Whether a number still is that of a process in another namespace: somebody else may have it now."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid") != os.readlink("/proc/self/ns/pid")
    except FileNotFoundError:
        return False
    except OSError:
        return True


def reach(command: int, number: int, send: Callable[[int, int], None] = kill_group) -> None:
    """A signal for the group of a process. One that leads a session from now on (`setsid`) has left its group
    between the question and the answer: then nobody got the signal, and it is sent to the new group."""
    try:
        group = os.getpgid(command)
        send(group, number)
        now = os.getpgid(command)
        if now != group:
            send(now, number)
    except ProcessLookupError:
        pass  # gone


def _command(inner: int) -> int:
    """The command: the first process has a child that is bubblewrap no more. 0 before that."""
    try:
        with open(f"/proc/{inner}/task/{inner}/children", "rb") as file:
            children = [int(child) for child in file.read().split()]
    except FileNotFoundError:
        # Gone; or a kernel that does not tell, and then nobody can know.
        return inner if os.path.exists(f"/proc/{inner}") else 0
    for child in children:
        try:
            with open(f"/proc/{child}/comm", "rb") as file:
                if file.read() != b"bwrap\n":
                    return child
        except OSError:
            continue  # gone meanwhile
    return 0
