"""A script sourced in a bash of its own, for the environment that it leaves; gone with all that it started.

It has no terminal and no input, and a session of its own. It reports through a private pipe, so no value
touches the disk and what it prints or redirects does not matter. Only a complete report is a result.
"""

from __future__ import annotations

import os
import time

from ...core.launch import Launch
from ...core.marks import Marks
from ...env.names import MARK
from ...env.redact import Secrets
from ...errors import HostUnsupported, LaunchFailed, SandboxUnavailable
from ...record import KW_ONLY, record, replace
from ...shell.snapshot import BLOCK_BYTES, read_block, told, without_daemons
from ...shell.sourced import STARTUP_NAMES, began, command, sealed_text, understood
from ..memoryfiles import Sealed, memory_file
from ..pipes import let_go
from ..privatefifo import IN_SIGHT, PrivateFifo, remove_dead
from ..spawn import Stdio
from ..tree import new_nonce
from ..unix import Spawner, marked, runs, usable
from ..watchdog import Watchdog
from .attend import attend
from .tool import end_tree
from .within import is_confined, started

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...shell.sourced import Leftover

STATES = ("captured", "failed", "replaced-or-exited", "timeout", "too-large", "not-started")
OUTPUT_BYTES = 1 << 20  # kept of what it prints; the end says most
_TAIL = 4 << 10  # characters of it, for a report
_CHUNK = 64 << 10


@record
class Captured:
    """What came of a script.

    `env` is the whole environment that it left, None unless `state` is "captured"; without what shells keep
    themselves. `state` is one of `STATES`, `reason` says for people what happened and is empty when all went
    well. `status` is its exit status, negative for a signal, None where there is none. `output` is the end
    of what it printed, `OUTPUT_BYTES` at most, and `tail` the end of that; both without secret values. `lost`
    is what it left in its shell only. The repr has no values and no output.
    """

    state: str
    status: int | None = None
    env: dict[str, str] | None = None
    _: KW_ONLY
    output: str = ""
    cut: bool = False  # the output was longer than what is kept
    lost: Sequence[Leftover] = ()
    reason: str = ""
    seconds: float = 0.0
    hidden = ("env", "output")

    @property
    def tail(self) -> str:
        return self.output[-_TAIL:]


def capture(
    script: str,
    *,
    arguments: Sequence[str] = (),
    cwd: str,
    env: Mapping[str, str],
    timeout: float,
    mark: int | None = None,
    log: Callable[[bytes], None] | None = None,
    shell: str = "bash",
    inline: bool = False,
    content: bytes | None = None,
    secrets: Secrets | None = None,
) -> Captured:
    """Sources a script, starting from `env` in `cwd`, and returns what it left.

    `script` is the path of a file, or with `inline` the text itself. `content` is what is sourced of a file,
    whatever is in it by now: a script that was checked. `shell` is a bash: without a slash it is
    looked for in `env`'s PATH. `log` is called with what it prints, as it comes, with nothing masked.
    `secrets` says which names are, beside the usual ones. `mark` is one of a server's (`core.marks`), whose
    sudden end takes the script with it; without one our own end does. Blocks for `timeout` and a second at
    most.

    Whatever the script does is a state, never an exception; `log` may raise, which ends the script.
    """
    begun = time.monotonic()
    remove_dead(env)
    try:
        with PrivateFifo(IN_SIGHT if is_confined() else env) as fifo:
            sealed = None if content is None else Sealed(sealed_text(content))
            try:
                own = secrets or Secrets()
                run = _Run(script, arguments, cwd, env, fifo, mark, log, shell, inline, own, sealed)
                result = run.run(begun + timeout, timeout)
            finally:
                if sealed is not None:
                    sealed.close()
    except _LogFailed as failed:
        raise failed.error from None
    except (HostUnsupported, SandboxUnavailable) as error:
        result = Captured("not-started", reason=str(error))
    except OSError as error:
        reason = f"it did not run: {error.strerror}; this process may have too many files open"
        result = Captured("not-started", reason=reason)
    return replace(result, seconds=time.monotonic() - begun)


class Reporter:
    """A shell that reports its environment through a private pipe, until all that it started has ended.

    `keep` bytes of the end of what it says are kept, and of a little more.
    """

    def __init__(self, launch: Launch, fifo: PrivateFifo, nonce: str, mark: int, keep: int) -> None:
        self._launch = launch
        self._fifo = fifo
        self._nonce = nonce
        self._mark = mark
        self._keep = keep
        self._block = bytearray()
        self._report: dict[str, str] | None = None
        self._said = bytearray()
        self._cut = False

    def _attended(self, deadline: float, stdin: int = -1, stdout: int = -1) -> tuple[str, int | None]:
        """The outcome and the exit code. It says all on one pipe, but for a `stdout` elsewhere.

        Raises LaunchFailed, OSError.
        """
        ours, theirs = os.pipe()
        stdio = Stdio(stdin, theirs if stdout < 0 else stdout, theirs)
        pid, ready = started(Spawner(), self._launch, stdio, self._mark, ours=(ours,), theirs=(theirs,))
        try:
            os.set_blocking(ours, False)
            hear = {self._fifo.fd: lambda _: True, ours: self._hear}  # the report itself is for `_take`
            outcome = attend(pid, deadline, hear, self._take)
        finally:
            try:
                self._before_its_end()
            finally:
                try:
                    code = end_tree(pid, self._mark)
                    self._hear(ours)  # nobody writes any more: all that is left
                finally:
                    let_go(ours)
                    ready.ended()
        return outcome, code

    def _take(self) -> str:
        """Reads what was reported. The first complete report counts: a second one is the same again.

        None of them settles it: a script may go on after it.
        """
        data = self._fifo.read_available()
        if self._report is None:
            self._block += data
            if len(self._block) > BLOCK_BYTES:
                return "too-large"
            self._report = read_block(self._block, self._nonce)
            if self._report is not None:
                self._report.pop(MARK, None)  # ours, not the script's
        return ""

    def _hear(self, fd: int) -> bool:
        """Keeps the end of what it says; False when it has closed its output, and so has everybody else."""
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False  # nothing more of it can be read
        self._said += data
        if len(self._said) > 2 * self._keep:
            self._cut = True
            del self._said[: -self._keep]
        self._heard(data)
        return data != b""

    def _heard(self, data: bytes) -> None:
        """For those who want to know it as it comes."""

    def _before_its_end(self) -> None:
        """What is to be seen while it, and all that it started, is still there."""


class _LogFailed(Exception):
    """The caller's own function raised; what it did is not ours to explain."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class _Run(Reporter):
    """One script, from its start to the end of everything it started."""

    def __init__(
        self,
        script: str,
        arguments: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        fifo: PrivateFifo,
        mark: int | None,
        log: Callable[[bytes], None] | None,
        shell: str,
        inline: bool,
        secrets: Secrets,
        sealed: Sealed | None = None,
    ) -> None:
        self._env = env
        self._cwd = cwd
        self._log = log
        self._shell = shell
        self._secrets = secrets
        self._text = script if inline else None
        self._watchdog: Watchdog | None = None
        if mark is None:
            marks = Marks(new_nonce())
            mark = marks.new(0)
            self._watchdog = Watchdog(None, Spawner(), marks)
        nonce = os.urandom(16).hex()
        # As `$0` the script sees its own path, as if it had been started.
        name = "bash" if inline else os.path.join(cwd, script)
        text = command(fifo.path, nonce, inline=inline, file="$0" if sealed is None else sealed.path)
        argv = [shell, "--noprofile", "--norc", "-c", text, name]
        start = {name: value for name, value in env.items() if name not in STARTUP_NAMES}
        start["PWD"] = cwd  # so that bash calls it what its caller does, whatever links lead there
        given = () if sealed is None else sealed.descriptors
        launch = Launch(shell, [*argv, *arguments], cwd, start, descriptors=given)
        super().__init__(launch, fifo, nonce, mark, OUTPUT_BYTES)
        self._seen: dict[str, str] = {}

    def run(self, deadline: float, timeout: float) -> Captured:
        if self._watchdog is None:
            return self._run(deadline, timeout)
        try:
            self._watchdog.ensure()
            return self._run(deadline, timeout)
        except LaunchFailed as error:
            return Captured("not-started", reason=f"/bin/sh was not started: {error.what or error}")
        finally:
            self._watchdog.stop()

    def _run(self, deadline: float, timeout: float) -> Captured:
        stdin = -1 if self._text is None else _in_memory(self._text)
        try:
            outcome, code = self._attended(deadline, stdin)
        except LaunchFailed as error:
            what = error.what or str(error)
            return Captured("not-started", reason=f"{self._shell} was not started: {what}")
        finally:
            let_go(stdin)
        return self._result(outcome, code, timeout)

    # While it runs

    def _heard(self, data: bytes) -> None:
        if data and self._log is not None:
            try:
                self._log(data)
            except Exception as error:
                raise _LogFailed(error) from None

    def _before_its_end(self) -> None:
        if self._report is None:
            self._seen = self._exported()
        self._log = None

    def _exported(self) -> dict[str, str]:
        """What a script that has not reported has exported so far, as the programs that it started have it.

        For nothing but to know its secrets in what it printed.
        """
        found: dict[str, str] = {}
        for pid in marked(self._mark.__eq__) if usable() else ():
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    block = file.read(BLOCK_BYTES)
            except OSError:
                continue  # it has ended, or is another user's now
            for entry in block.split(b"\0"):
                name, _, value = entry.decode("utf-8", "surrogateescape").partition("=")
                if self._env.get(name) != value:
                    found[name] = value
        return found

    # What it comes to

    def _result(self, outcome: str, code: int | None, timeout: float) -> Captured:
        if len(self._said) > OUTPUT_BYTES:
            self._cut = True
            del self._said[:-OUTPUT_BYTES]
        left: dict[str, str] = {}
        lost: tuple[Leftover, ...] = ()
        if self._report is not None:
            left, lost = understood(self._report, self._cwd)
            left, _ = without_daemons(self._env, left, runs)
            for name in STARTUP_NAMES:
                if name in self._env:
                    left.setdefault(name, self._env[name])
        said, values = bytes(self._said), left or self._seen
        output = told(said, values, OUTPUT_BYTES, cut=self._cut, names=self._secrets, before=self._env)
        state, reason = self._state(outcome, code, timeout)
        return Captured(
            state,
            None if outcome != "exited" else code,
            left if state == "captured" else None,
            output=output,
            cut=self._cut,
            lost=lost if state == "captured" else (),
            reason=reason,
        )

    def _state(self, outcome: str, code: int | None, timeout: float) -> tuple[str, str]:
        if outcome == "timeout":
            return outcome, f"it did not finish within {timeout:g} s"
        if outcome == "too-large":
            return outcome, f"it leaves an environment of more than {BLOCK_BYTES >> 20} MiB: export less"
        if code is None or code < 0:
            return "failed", "a signal ended it" if code is None else f"signal {-code} ended it"
        if code:
            return "failed", f"it ended with status {code}"
        if self._report is None and began(self._block):
            return "too-large", "it leaves a variable that is too large for a program: export less"
        if self._report is None:
            return "replaced-or-exited", (
                "it ended without reporting its environment: it replaces its shell with another program "
                "(`exec`), or sets an EXIT trap and then calls `exit`"
            )
        return "captured", ""


def _in_memory(text: str) -> int:
    """A descriptor to read a text from, which is on no disk."""
    fd = memory_file("script")
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(text.encode("utf-8", "surrogateescape"))
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        let_go(fd)
        raise
    return fd
