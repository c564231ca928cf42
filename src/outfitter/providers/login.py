"""What the user's startup files make of the environment: a shell is asked once, and nothing of it stays.

The shell runs in a session of its own, without a terminal and without input; it reports through a private
pipe, so what startup files print or redirect does not matter. Only a complete report is a result. Whatever
startup files have started is ended with it.
"""

from __future__ import annotations

import os
import time

from ..core.launch import Launch
from ..core.marks import Marks
from ..errors import HostUnsupported, LaunchFailed, SandboxUnavailable, SettingInvalid
from ..host.privatefifo import IN_SIGHT, PrivateFifo
from ..host.tools.capture import Reporter
from ..host.tools.within import is_confined
from ..host.tree import new_nonce
from ..host.unix import runs
from ..record import EMPTY, KW_ONLY, record, replace
from ..shell.snapshot import (
    BEGIN,
    BLOCK_BYTES,
    END,
    MARKER,
    to_start_with,
    told,
    without_daemons,
    without_maintained,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..shell.state import ShellState

# The devcontainer words for how to ask: whether the shell is a login shell, and whether it is interactive.
PROBES = {
    "loginShell": (True, False),
    "interactiveShell": (False, True),
    "loginInteractiveShell": (True, True),
}
STATES = ("captured", "timeout", "replaced-or-exited", "failed", "too-large", "unsupported")

# By the syntax that the command needs. Their users' startup files decide the rest.
_POSIX = ("bash", "zsh", "dash", "ksh", "ksh93", "mksh", "ash", "sh")
_CSH = ("tcsh", "csh")
_KNOWN = (*_POSIX, "fish", *_CSH)
_NO_SHELL = ("nologin", "false", "true")

_ENV = "/usr/bin/env"
_TAIL = 4 << 10  # of stderr, for the report: the last lines tell what went wrong
_RAW = 4 * _TAIL  # kept of it, so that masking has whole values to work on


@record
class Capture:
    """What came of asking a shell.

    `values` is the whole environment after the startup files, without what the shell maintains itself; it is
    empty unless `state` is "captured". `state` is one of `STATES`; `reason` says for people what happened and
    what to do, and is empty when all went well. `stderr_tail` is the end of what the startup files said,
    without secret values. The repr has no values.
    """

    shell: str
    probe: str
    state: str
    _: KW_ONLY
    values: Mapping[str, str] = EMPTY
    reason: str = ""
    seconds: float = 0.0
    stderr_tail: str = ""
    left: ShellState | None = None
    hidden = ("values", "stderr_tail")


def capture(
    shell: str,
    probe: str,
    env: Mapping[str, str],
    home: str,
    *,
    timeout: float,
    mark: int | None = None,
    cwd: str = "",
    keeps: str = "",
    rc: bool = False,
) -> Capture:
    """Runs the shell's startup files in `home`, or in `cwd`, starting from `env`, and returns what they left.

    Blocks, for `timeout` and a second at most: for a worker thread, or a command of its own. It never
    prompts: there is no terminal and nothing to read. `probe` is one of `PROBES`. A server gives one of its
    marks (`core.marks`), used for nothing else, so that even its own sudden end takes the shell with it.
    `keeps` names the shell as `shell.state` does: `left` is then what else they left in it; with `rc` they
    are also those of an interactive shell.

    A shell that cannot be asked is a `Capture` too. Raises SettingInvalid for an unknown probe.
    """
    if probe not in PROBES:
        raise SettingInvalid(f"`{probe}` is not a kind of shell to start; known: {', '.join(PROBES)}")
    name = os.path.basename(shell)
    if name not in _KNOWN:
        return Capture(shell, probe, "unsupported", reason=_cannot_be_asked(shell, name))
    begun = time.monotonic()
    try:
        with PrivateFifo(IN_SIGHT if is_confined() else env) as fifo:
            asking = _Asking(shell, probe, env, home, fifo, mark, cwd, keeps, rc)
            result = asking.run(begun + timeout, timeout)
    except (HostUnsupported, SandboxUnavailable) as error:
        result = Capture(shell, probe, "failed", reason=str(error))
    except OSError as error:
        reason = f"{shell} was not started: {error.strerror}; this process may have too many files open"
        result = Capture(shell, probe, "failed", reason=reason)
    return replace(result, seconds=time.monotonic() - begun)


class _Asking(Reporter):
    """One shell, from its start to the end of everything it started."""

    def __init__(
        self,
        shell: str,
        probe: str,
        env: Mapping[str, str],
        home: str,
        fifo: PrivateFifo,
        mark: int | None,
        cwd: str,
        keeps: str,
        rc: bool,
    ) -> None:
        self._shell = shell
        self._probe = probe
        self._env = env
        self._keeps = keeps
        nonce = os.urandom(16).hex()
        argv = _argv(shell, probe, _command(os.path.basename(shell), fifo.path, nonce, keeps, rc))
        launch = Launch(shell, argv, cwd or home, to_start_with(env, home))
        super().__init__(launch, fifo, nonce, Marks(new_nonce()).new(0) if mark is None else mark, _RAW)

    def run(self, deadline: float, timeout: float) -> Capture:
        null = os.open("/dev/null", os.O_WRONLY | os.O_CLOEXEC)
        try:
            outcome, code = self._attended(deadline, stdout=null)
        except LaunchFailed as error:
            return self._not_started(error)
        finally:
            os.close(null)
        return self._result(outcome, code, timeout)

    def _take(self) -> str:
        """As for a script; and a report settles it."""
        return super()._take() or ("" if self._report is None else "captured")

    # What it comes to

    def _not_started(self, error: LaunchFailed) -> Capture:
        what = error.what or str(error)
        state, reason = "failed", f"{self._shell} was not started: {what}"
        if error.subject == "cwd":
            reason += f" ({self._launch.cwd}); set HOME to a directory that exists"
        elif error.errno_name != "E2BIG":
            state = "unsupported"
            reason = f"{self._shell} cannot be started ({what}); install it, or choose another login shell"
        return Capture(self._shell, self._probe, state, reason=reason)

    def _result(self, outcome: str, code: int | None, timeout: float) -> Capture:
        values, reason, left = self._report, "", None
        if values is not None and self._keeps:
            from ..shell.state import read

            left, values = read(self._keeps, values)
        if values is not None:
            values = without_maintained(values, self._shell)
            values, gone = without_daemons(self._env, values, runs)
            if gone:
                reason = (
                    f"startup files started a background program, which was ended, so {', '.join(gone)} is "
                    f"left out: start the program once for the whole session instead"
                )
        else:
            outcome, reason = self._failure(outcome, code, timeout)
        known = {**self._env, **(values or {})}
        tail = told(bytes(self._said), known, _TAIL, cut=self._cut)
        return Capture(
            self._shell,
            self._probe,
            outcome,
            values=values or EMPTY,
            reason=reason,
            stderr_tail=tail,
            left=left,
        )

    def _failure(self, outcome: str, code: int | None, timeout: float) -> tuple[str, str]:
        files = f"the startup files of {self._shell}"
        around = f"skip interactive lines if ${MARKER} is set (Outfitter sets it here)"
        if outcome == "timeout":
            return outcome, (
                f"{files} did not finish within {timeout:g} s: {around}, or allow more time; "
                f"`{_to_look(self._shell, self._probe)}` shows where they wait"
            )
        if outcome == "too-large":
            return outcome, f"{files} leave an environment of more than {BLOCK_BYTES >> 20} MiB: export less"
        if code:
            how = f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"
            return "failed", (
                f"{self._shell} {how} before it could report its environment; "
                f"`{_to_look(self._shell, self._probe)}` shows which line causes it"
            )
        return "replaced-or-exited", (
            f"{files} end the shell or replace it with another program (`exit`, `exec`): {around}"
        )


def _argv(shell: str, probe: str, command: str) -> list[str]:
    login, interactive = PROBES[probe]
    name = os.path.basename(shell)
    flags = ["-i"] if interactive else []
    if login and name in _CSH:
        # They refuse -l beside other flags; this is how login(1) asks.
        return [f"-{name}", *flags, "-c", command]
    return [shell, *flags, *(["-l"] if login else []), "-c", command]


def _command(name: str, path: str, nonce: str, keeps: str, rc: bool) -> str:
    """The text that the shell runs after its startup files.

    Absolute paths, quoted first letters and no builtins: no alias and no function comes in between. `sh` sees
    that the pipe is still one, because a redirection would make a file of it; what it writes there tells the
    report from what startup files may have written. Files that exist may not be `>`ed with noclobber.
    """
    begin = f"/bin/sh -c '[ -p {path} ] && {_ENV} -i -0 {BEGIN}={nonce} >{path}'"
    report = f"{_ENV} -0 {END}={nonce}"
    if name == "fish":
        return f"{begin}; and {report} >{path}"
    if name in _CSH:
        return f"\\{begin} && \\{report} >! {path}"
    # With `set -k`, a word that could be an assignment is one: the mark would stand in the middle of the
    # report, and end it there.
    report = f"{_ENV} -0 \\{END}={nonce}"
    if keeps:
        from ..shell.state import dump

        return f"\\{begin} && {{\n{dump(keeps, path, rc=rc)} && \\{report} >|{path}\n}}"
    return f"\\{begin} && \\{report} >|{path}"


def _cannot_be_asked(shell: str, name: str) -> str:
    if name in _NO_SHELL:
        return (
            f"{shell} runs no commands: this account has no login shell; choose one with chsh, or configure "
            f"one"
        )
    known = ", ".join(_KNOWN)
    return f"{shell or 'an empty name'} is not a supported shell; supported are: {known}"


def _to_look(shell: str, probe: str) -> str:
    """A command line for people that shows startup files at work."""
    name = os.path.basename(shell)
    if name == "fish":
        return f"{shell} -l --profile-startup=/dev/stderr -c true"
    if name in _CSH:
        return f"{shell} -X -c true"
    return " ".join([*_argv(shell, probe, "true")[:-2], "-x", "-c", "true"])
