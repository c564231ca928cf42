"""A command that is a shell: how it is really started, and what its startup files did to its environment."""

from __future__ import annotations

import os

from ..contract.settings import LOGINS, STARTUPS
from ..core.shell import Probe, prepare, seen
from ..log import note, warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..contract.contract import Contract
    from ..contract.settings import Settings
    from ..core.shell import Plan
    from ..host.privatefifo import PrivateFifo
    from ..loop import Loop
    from ..protocol.environment import ContractParams
    from ..protocol.jsontext import Json

# An environment that is larger than this cannot be given to a command: see env.resolve.
_REPORT_BYTES = 2 << 20
_NAMED = 20  # changes that a line of the log names


class ShellStart:
    """One shell's start. `argv` and `env` are what is executed; `report` tells afterwards what came of it."""

    def __init__(
        self,
        plan: Plan,
        env: Mapping[str, str],
        contract: Contract,
        fifo: PrivateFifo | None,
        mark: str,
        told: bool,
    ) -> None:
        """`told`: the client hears of it; else the log does."""
        self._plan = plan
        self._told = told
        self._contract = contract
        self._given = env
        self._fifo = fifo
        self._asked = fifo is not None
        self._mark = mark
        self._data = bytearray()
        self._loop: Loop | None = None
        self.argv: Sequence[str] = plan.argv
        self.env = plan.environment(env) if plan.withheld or plan.added else env

    def listen(self, loop: Loop) -> None:
        """Takes the shell's report as it comes: a pipe holds less than a large environment."""
        if self._fifo is not None:
            self._loop = loop
            loop.add_reader(self._fifo.fd, self._more)

    def _more(self) -> None:
        assert self._fifo is not None
        data = self._fifo.read_available()
        if len(self._data) + len(data) <= _REPORT_BYTES:
            self._data += data
        else:
            self._data.clear()
            self.close()  # nothing that we could use

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
        }

    def report(self) -> Json:
        """What the startup files changed, by name; values as keyed digests."""
        told = self.summary()
        if not self._asked:
            return told
        if self._fifo is not None:
            self._more()
        self.close()
        found = seen(bytes(self._data), self._mark)
        if found is None:
            told["reported"] = False
            return told
        from ..contract.startup import changes

        told["reported"] = True
        told["changes"] = changes(self._given, found.env, self._plan, self._contract.key)
        if found.readonly:
            told["readonly"] = list(found.readonly)  # a startup file made them so: nothing can change them
        # The one place where somebody can read it whose client does not ask.
        if not self._told and self._plan.startup == "report" and told["changes"]:
            names = ", ".join(map(_placed, told["changes"][:_NAMED]))
            if len(told["changes"]) > _NAMED:
                names += f" and {len(told['changes']) - _NAMED} more"
            warn("server", "startup files of %s changed %s", self._plan.shell, names)
        return told


def _placed(change: Mapping[str, object]) -> str:
    name = f"{change['name']} ({change['kind']}"
    return f"{name}, {change['file']}:{change['line']})" if "file" in change else f"{name})"


def plan_shell(
    program: str,
    argv: Sequence[str],
    cwd: str,
    env: Mapping[str, str],
    contract: Contract,
    asked: ContractParams | None,
    *,
    report: bool,
) -> ShellStart | None:
    """How to start a shell; None for anything else. Raises LoginRejected.

    `report` says that somebody wants to know what the startup files did.
    """
    login, startup = modes(contract.settings(cwd), asked)
    fifo = None
    mark = ""
    probe = None
    if startup != "enforce" and (report or startup == "report"):
        from ..errors import HostUnsupported
        from ..host.privatefifo import PrivateFifo

        try:
            fifo = PrivateFifo(env)
            mark = os.urandom(16).hex()
            probe = Probe(fifo.path, mark)
        except HostUnsupported as error:
            note("server", "!", "no report about startup files: %s", error)
    try:
        plan = prepare(program, argv, login=login, startup=startup, env=env, cwd=cwd, probe=probe)
    except BaseException:
        if fifo is not None:
            fifo.close()
        raise
    if (plan is None or not plan.probe) and fifo is not None:
        fifo.close()
        fifo = None
    return None if plan is None else ShellStart(plan, env, contract, fifo, mark, report)


def modes(settings: Settings, asked: ContractParams | None) -> tuple[str, str]:
    """What becomes of a login flag and of startup files: the request's word, within what is configured.

    A person may ask for more than is configured, but for a login shell that is rejected; a model only for
    less.
    """
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
