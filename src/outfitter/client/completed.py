"""The result of a command that ran to its end: in bytes, or in text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import CommandFailed
from ..record import fields, record

if TYPE_CHECKING:
    from ..protocol.documents import EnvironmentSummary, StartupReport


class Finished:
    """What both kinds of results can be asked.

    Two are equal if the commands did the same; what they were and how long they took does not matter.
    """

    __slots__ = ()

    args: tuple[str, ...]
    exit_code: int
    dropped: int

    @property
    def ok(self) -> bool:
        """Whether the exit code is 0."""
        return self.exit_code == 0

    @property
    def returncode(self) -> int:
        """The exit code, under the name that `subprocess` has for it."""
        return self.exit_code

    @property
    def truncated(self) -> bool:
        """Whether there was more output than `max_output` let `run` keep."""
        return self.dropped > 0


@record
class Completed(Finished):
    """The result of `run`: the exit code and all output.

        done = await client.run(["git", "rev-parse", "HEAD"])
        if done.ok:
            print(done.text.strip(), done.duration)

    `signal` is the one that ended the command, such as "KILL"; where the server does not say so, as the stock
    one, exit codes above 128 count as signals. `reason` is "out-of-memory" if the kernel killed it, or one of
    its processes, for want of memory, as far as the server knows. `args` is the command. `duration` is in
    seconds, from the request to the end. `dropped` counts the bytes that `overflow` left out. `environment`
    is the server's summary of the command's environment, and `startup` what a shell's startup files changed,
    if the client asked for summaries.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    sandbox_denied: bool = False
    environment: EnvironmentSummary | None = None
    startup: StartupReport | None = None
    args: tuple[str, ...] = ()
    duration: float = 0.0
    dropped: int = 0
    signal: str | None = None
    reason: str | None = None

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and _done(self) == _done(other)

    def __hash__(self) -> int:
        return hash((self.exit_code, self.stdout, self.stderr))

    @property
    def text(self) -> str:
        """What the command printed on stdout, as text; with `merge`, on stderr too."""
        return self.stdout.decode(errors="replace")

    @property
    def output(self) -> bytes:
        """All output: with `merge` as it came, otherwise stdout and then stderr."""
        return self.stdout + self.stderr

    def check(self) -> Completed:
        """This result. Raises CommandFailed if the exit code is not 0.

            version = (await client.run(["git", "--version"])).check().text

        `run(..., check=True)` does the same.
        """
        if self.exit_code:
            raise CommandFailed(self.args, self.exit_code, self.stdout, self.stderr)
        return self

    def as_text(self) -> CompletedText:
        """The same with `stdout` and `stderr` as text: UTF-8, with U+FFFD for what is not.

            done = (await client.run(["echo", "hello"])).as_text()
            print(done.stdout.split())  # ['hello']

        `run(..., text=True)` does the same.
        """
        out, err = self.stdout.decode(errors="replace"), self.stderr.decode(errors="replace")
        told = (self.sandbox_denied, self.environment, self.startup, self.args, self.duration)
        return CompletedText(self.exit_code, out, err, *told, self.dropped, self.signal, self.reason)


@record
class CompletedText(Finished):
    """The result of `run(..., text=True)`: as `Completed`, with text for bytes.

        done = await client.run(["echo", "hello"], text=True)
        print(done.stdout.split(), done.ok)  # ['hello'] True

    What is not UTF-8 is U+FFFD in it.
    """

    exit_code: int
    stdout: str
    stderr: str
    sandbox_denied: bool = False
    environment: EnvironmentSummary | None = None
    startup: StartupReport | None = None
    args: tuple[str, ...] = ()
    duration: float = 0.0
    dropped: int = 0
    signal: str | None = None
    reason: str | None = None

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and _done(self) == _done(other)

    def __hash__(self) -> int:
        return hash((self.exit_code, self.stdout, self.stderr))

    @property
    def text(self) -> str:
        """What the command printed on stdout; with `merge`, on stderr too."""
        return self.stdout

    @property
    def output(self) -> str:
        """All output: with `merge` as it came, otherwise stdout and then stderr."""
        return self.stdout + self.stderr

    def check(self) -> CompletedText:
        """This result. Raises CommandFailed if the exit code is not 0.

            done = await client.run(["git", "--version"], text=True)
            print(done.check().stdout.split()[:2])  # ['git', 'version']

        `run(..., text=True, check=True)` does the same.
        """
        if self.exit_code:
            out, err = self.stdout.encode(), self.stderr.encode()
            raise CommandFailed(self.args, self.exit_code, out, err)
        return self


def _done(one: object) -> list[object]:
    """What counts when two results are compared."""
    return [getattr(one, name) for name in fields(one) if name not in ("args", "duration", "signal")]


def signal_of(exit_code: int, told: int | None, *, tells: bool) -> str | None:
    """The name of the signal that ended a command; `tells`: its server says which, if there was one."""
    number = told if tells else exit_code - 128
    if number is None:
        return None
    from signal import Signals

    try:
        return Signals(number).name.removeprefix("SIG")
    except ValueError:
        return str(number) if tells else None  # one for real time, say
