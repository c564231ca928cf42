"""A command that is a shell: how it is really started, and what its startup files did to its environment."""

from __future__ import annotations

import os

from ..contract.settings import LOGINS, STARTUPS
from ..log import fault, note, warn
from ..protocol.process import encoded
from ..shell.start import Probe, seen, unmarked, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..contract.contract import Contract
    from ..contract.settings import Settings
    from ..host.privatefifo import PrivateFifo
    from ..loop import Loop
    from ..protocol.jsontext import Json
    from ..protocol.wishes import ContractParams
    from ..shell.start import ShellPlan

# An environment that is larger than this cannot be given to a command: see env.resolve.
_REPORT_BYTES = 2 << 20
_REPORT_ESCAPES = 65_536  # in bash's report, 0.4 µs each; a certificate has thirty
_NAMED = 20  # changes that a line of the log names
_REMEMBERED = 256  # reports that are not said again; then all are forgotten

# What was said in the log, by a hash of the report and of what was given. Names and places only, no values.
_said: dict[int, Json] = {}


class Reporting:
    """A pipe on which a shell says what its environment is after startup files. Raises HostUnsupported."""

    def __init__(self, env: Mapping[str, str]) -> None:
        from ..host.privatefifo import PrivateFifo

        self.mark = os.urandom(16).hex()
        self.fifo: PrivateFifo = PrivateFifo(env)

    @property
    def probe(self) -> Probe:
        return Probe(self.fifo.path, self.mark)


class ShellStart:
    """One shell that was started; `report` tells afterwards what its startup files did.

    `told`: the client hears of it; else the log does.
    """

    def __init__(
        self,
        plan: ShellPlan,
        env: Mapping[str, str],
        contract: Contract,
        reporting: Reporting | None,
        told: bool,
    ) -> None:
        self._plan = plan
        self._told = told
        self._contract = contract
        self._given = env
        self._fifo = None if reporting is None else reporting.fifo
        self._asked = reporting is not None
        self._mark = "" if reporting is None else reporting.mark
        self._data: bytearray | None = bytearray()
        self._loop: Loop | None = None
        self._outcome: Json = {"reported": False}

    def listen(self, loop: Loop) -> None:
        """Takes the shell's report as it comes: a pipe holds less than a large environment."""
        if self._fifo is not None:
            self._loop = loop
            loop.add_reader(self._fifo.fd, self._more)

    def _more(self) -> None:
        assert self._fifo is not None
        try:
            data = self._fifo.read_available()
        except OSError as error:
            warn("server", "no report about startup files: %s", error.strerror)
            self.close()  # or the shell would wait for a reader
            return
        if self._data is None:
            return
        self._data += data
        if len(self._data) > _REPORT_BYTES:
            self._data = None  # nothing that we could use; but who writes it waits until it is read
            return
        report = whole(self._data, self._mark)
        if report is None:
            return
        # Now, while the command runs: at its exit somebody waits. And so the command finds no pipe.
        self.close()
        if report.count(b"\\") > _REPORT_ESCAPES:
            return
        try:
            self._outcome = self._noted(report)
        except Exception as error:
            _no_report(error)

    def close(self) -> None:
        fifo, self._fifo = self._fifo, None
        if fifo is not None:
            if self._loop is not None:
                self._loop.remove_reader(fifo.fd)
            fifo.close()

    # What is told

    @property
    def reports(self) -> bool:
        """Whether there will be something to tell at the end."""
        return self._fifo is not None

    def summary(self) -> Json:
        plan = self._plan
        return {
            "name": plan.shell,
            "loginAsked": plan.login_asked,
            "login": plan.login,
            "startup": plan.startup,
            "changed": plan.changed,
            "withheld": list(plan.withheld),
            "notes": list(plan.notes),
            **({"through": list(plan.through)} if plan.through else {}),
        }

    def report(self) -> Json:
        """What the startup files changed, by name; values as keyed digests."""
        told = self.summary()
        if not self._asked:
            return told
        if self._fifo is not None:
            self._more()
        self.close()
        told.update(self._outcome)
        return told

    def report_text(self) -> bytes:
        """The report as it goes with the exit; a fault in telling it does not stop an exit."""
        try:
            return encoded(self.report())
        except Exception as error:
            _no_report(error)
            return b""

    def _noted(self, report: bytes) -> Json:
        """What the startup files changed; said in the log where the client does not ask, but once.

        A log is the one place where somebody can read it then, and a profile does the same every time.
        """
        if self._told or self._plan.startup != "report":
            return self._compared(report)
        plan = self._plan
        said = unmarked(report[: -len(self._mark) - 1])
        known = hash((plan.shell, plan.login, plan.interactive, said, *self._given.items()))
        outcome = _said.get(known)
        if outcome is None:
            outcome = self._compared(report)
            if len(_said) >= _REMEMBERED:
                _said.clear()
            _said[known] = outcome
            changed = outcome.get("changes", ())
            names = ", ".join(map(_placed, changed[:_NAMED]))
            if len(changed) > _NAMED:
                names += f" and {len(changed) - _NAMED} more"
            if names:
                warn("server", "startup files of %s changed %s", plan.shell, names)
        return outcome

    def _compared(self, report: bytes) -> Json:
        found = seen(report, self._mark)
        if found is None:
            return {"reported": False}
        from ..contract.startup import changes

        changed = changes(self._given, found.env, self._plan, self._contract.key)
        outcome: Json = {"reported": True, "changes": changed}
        if found.readonly:
            outcome["readonly"] = list(found.readonly)  # a startup file made them so: nothing can change them
        return outcome


def _placed(change: Mapping[str, object]) -> str:
    name = f"{change['name']} ({change['kind']}"
    return f"{name}, {change['file']}:{change['line']})" if "file" in change else f"{name})"


def reporting(
    startup: str, env: Mapping[str, str], *, wanted: bool, confined: bool = False
) -> Reporting | None:
    """A way for a shell to report, where its startup files run and somebody wants to know what they did."""
    if startup == "enforce" or not (wanted or startup == "report"):
        return None
    from ..errors import HostUnsupported
    from ..host.privatefifo import IN_SIGHT

    try:
        return Reporting(IN_SIGHT if confined else env)
    except HostUnsupported as error:
        note("server", "!", "no report about startup files: %s", error)
        return None


def modes(settings: Settings, asked: ContractParams | None, *, wrapped: bool = False) -> tuple[str, str]:
    """What becomes of a login flag and of startup files: the request's word, within what is configured.

    A person may ask for more than is configured, but for a login shell that is rejected; a model only for
    less. A `wrapped` shell gets its environment from a tool in front of it: what that is cannot be put right,
    or compared, so no startup file is let in.
    """
    if wrapped:
        return ("reject" if modes(settings, asked)[0] == "reject" else "strip"), "enforce"
    login, startup = settings.login, settings.startup
    if asked is None or (asked.login is None and asked.startup is None):
        return login, startup
    if asked.startup is not None:
        startup = asked.startup
        if settings.sources["shell.login"].kind == "default":
            login = "strip" if startup == "enforce" else "allow"
    if asked.login is not None and settings.login != "reject":
        login = asked.login
    if asked.author == "model":
        login = max(login, settings.login, key=LOGINS.index)
        startup = max(startup, settings.startup, key=STARTUPS.index)
    return login, startup


def _no_report(error: Exception) -> None:
    # A machine without memory or descriptors is no fault of ours; nor is a module that could not be read.
    if isinstance(error, OSError | ImportError | MemoryError):
        warn("server", "no report about startup files: %s", error)
    else:
        fault("server", "no report about startup files", error)
