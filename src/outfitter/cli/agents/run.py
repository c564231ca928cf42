"""outfitter agent run: an agent, launched by its contract, streamed, its exit code ours."""

from __future__ import annotations

import os
import time
from json import dumps, loads
from typing import TYPE_CHECKING, Any

from ...agents.backends import backend
from ...agents.backends.base import WORKSPACE_WRITE, Task
from ...agents.running import base_of, start
from ...agents.spec import CommandSpec, secret_names
from ...contract.config import find_project_file
from ...contract.contract import contract_of
from ...core.events import Output
from ...core.sandbox import Sandbox
from ...env.launches import DEFAULT
from ...env.layer import is_harmless
from ...errors import OutfitterError, RequestFailed, SettingInvalid
from ...providers import inherited
from .. import base, terminal
from ..console import say
from ..env.output import emit, printable
from ..follow import status_of
from ..records import Records
from ..run import follow
from ..statuses import NOT_STARTED, not_started
from ..target import named, reach
from ..wishes import from_here
from .contracts import read
from .sessions import AgentSession, AgentSessions

if TYPE_CHECKING:
    from ...agents.backends.base import Backend
    from ...client.client import Client
    from ...core.events import Exited
    from ...env.launches import LaunchContract
    from ..target import Target

# An agent says its session's id in the first lines of its output; a line is not kept beyond this.
_LONGEST_LINE = 1 << 16


def run(name: str, prompt: str, flags: dict[str, Any]) -> int:
    """Runs an agent; returns the exit status of the command line."""
    return status_of(lambda: _Launch(backend(name), prompt, flags, named(flags)).run(), NOT_STARTED)


class _Launch:
    """One launch."""

    def __init__(self, backend: Backend, prompt: str, flags: dict[str, Any], target: Target) -> None:
        self._backend = backend
        self._prompt = prompt
        self._flags = flags
        self._target = target
        self._sessions = AgentSessions(os.environ)
        self._line = b""
        self._noted = False

    async def run(self) -> int:
        flags = self._flags
        contract = self._contract()
        async with reach(self._target, summaries=False) as client:
            await base.agree(client, self._target, None, compare=False)
            cwd = base.directory(client, self._target, flags["cwd"]) or from_here(None)
            known = None
            if flags["kind"] == "resume":
                known = self._sessions.find(self._backend.name, self._target.on, flags["session"] or "", cwd)
            task = self._task(cwd, known)
            if flags["kind"] == "resume" and known is None and flags["sandbox"] is None:
                say(f"how this session was launched is not known: it goes on with --sandbox {task.sandbox}")
            values, origins = await base_of(client, cwd=cwd)
            spec = CommandSpec(
                contract,
                self._backend,
                flags["kind"],
                task,
                base=values,
                origins=origins,
                extras=dict(flags["env"]),
                continues=None if known is None else known.guards,
            )
            if flags["dry_run"]:
                lines = [dumps(_told(spec))] if flags["json"] else map(printable, spec.lines())
                emit("\n".join(lines))
                return 0
            return await self._start(client, spec, task)

    def _contract(self) -> LaunchContract:
        """The contract that was named, or the project's, which may be a stranger's: raises SettingInvalid
        where it sets what nobody has allowed."""
        if self._flags["contract"] is not None:
            return read(self._flags["contract"])
        here = from_here(None)
        if find_project_file(here) is None:
            return DEFAULT
        found = read(None)
        given = found.baseline(found.kind(self._flags["kind"]), self._backend.name)
        names = [name for name, value in given.items() if not is_harmless(name, value, "set")]
        if names:
            ours = contract_of("launcher", inherited.load())
            if grant := ours.project_awaits(ours.settings(here)):
                raise SettingInvalid(
                    f"the project's contract would set {', '.join(names)} for the agent: to see how, and to "
                    f"allow it, type: {grant}"
                )
        return found

    def _task(self, cwd: str, known: AgentSession | None) -> Task:
        flags = self._flags
        sandbox = flags["sandbox"] or (WORKSPACE_WRITE if known is None else known.sandbox)
        add_dirs = flags["add_dir"] or (() if known is None else known.add_dirs)
        session = flags["session"] or ("" if known is None else known.session)
        return Task(
            self._prompt,
            cwd=cwd,
            model=flags["model"],
            add_dirs=add_dirs,
            sandbox=sandbox,
            session=session,
            home=flags["home"],
            args=flags["arg"],
        )

    async def _start(self, client: Client, spec: CommandSpec, task: Task) -> int:
        tty = terminal.size() if self._flags["tty"] else None
        try:
            confined = None if self._flags["confine"] is None else Sandbox(self._flags["confine"])
            process = await start(client, spec, tty=tty, stdin=tty is not None, sandbox=confined)
        except RequestFailed as error:
            return not_started(spec.argv[0], spec.cwd, error.message, error.data)
        flags = {**self._flags, "timeout": None}
        return await follow(
            client,
            process,
            spec.argv[0],
            None,
            Records(os.environ),
            flags,
            pass_input=tty is not None,
            leave_keys=b"",
            heard=lambda event: self._hear(event, spec, task),
        )

    def _hear(self, event: Output | Exited, spec: CommandSpec, task: Task) -> None:
        """Notes the session as soon as the agent says its id, so that a resume finds how it was launched."""
        if self._noted or not isinstance(event, Output) or event.stream != "stdout":
            return
        *lines, self._line = (self._line + event.data).split(b"\n")
        self._line = self._line[:_LONGEST_LINE]
        for line in lines:
            session = _session(self._backend, line)
            if session is not None:
                self._noted = True
                self._note(session, spec, task)
                return

    def _note(self, session: str, spec: CommandSpec, task: Task) -> None:
        try:
            self._sessions.add(
                AgentSession(
                    spec.backend,
                    session,
                    self._target.on,
                    spec.cwd,
                    spec.kind,
                    spec.contract,
                    task.sandbox,
                    spec.guards,
                    time.time(),
                    task.add_dirs,
                )
            )
        except OutfitterError as error:
            say(f"a resume will not know how this session was launched: {error}")


def _session(backend: Backend, line: bytes) -> str | None:
    if not line.startswith(b"{"):
        return None
    try:
        event = loads(line)
    except (ValueError, RecursionError):
        return None
    return backend.session(event) if isinstance(event, dict) else None


def _told(spec: CommandSpec) -> dict[str, object]:
    """A spec as JSON; values that are secret are left out."""
    hidden = secret_names(spec)
    variables = {}
    for name, value in spec.env.items():
        origin = spec.origins[name]
        told: dict[str, object] = {"origin": origin.kind, "detail": origin.detail}
        if name in hidden:
            told["secret"] = True
        else:
            told["value"] = value
        variables[name] = told
    return {
        "agent": spec.backend,
        "kind": spec.kind,
        "contract": spec.contract,
        "argv": list(spec.argv),
        "cwd": spec.cwd,
        "variables": variables,
        "dropped": dict(spec.dropped),
    }
