"""Named environments: which there are now, and what a step of work holds on to.

    async with EnvironmentManager(load(os.environ)) as manager:
        async with manager.step() as step:
            client = await step.get("build").client()

Servers at a URL are dialled when the manager starts; programs are started when they are first used. Nothing
falls back to another environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from typing import TYPE_CHECKING

from ..client.connect import connect, open_program
from ..client.token import read_token
from ..errors import EnvironmentReplaced, EnvironmentUnknown, OutfitterError
from ..record import record
from .connection import EnvironmentConnection, Opened, Tasks
from .file import LOCAL, check, shown_url
from .lifecycle import OPENING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ..client.client import Client
    from ..client.connect import Opening
    from .file import Configuration, Declared

    #: Connects to an environment, or to this machine without one.
    Opener = Callable[[Declared | None], Awaitable[Opened]]

STATUS_SECONDS = 10.0  # for a live probe, the reference's

PENDING = "pending"
READY = "ready"
DISCONNECTED = "disconnected"


@record
class Status:
    """The state of an environment: "pending" (no attempt has ended yet), "ready" or "disconnected"."""

    state: str
    text: str


class Environment:
    """One named environment, as it was when it was looked up. All its users share one connection."""

    def __init__(
        self, id: str, declared: Declared | None, connection: EnvironmentConnection, step: Step | None = None
    ) -> None:
        self.id = id
        self.declared = declared  # None for this machine
        self._connection = connection
        self._step = step

    def __repr__(self) -> str:
        return f"Environment({self.id!r}, {self.where!r})"

    @property
    def where(self) -> str:
        """Where commands run, as text for people: a URL, a command line, or this machine."""
        if self.declared is None:
            return "this machine"
        if self.declared.url is not None:
            return shown_url(self.declared.url)
        return shlex.join([self.declared.program or "", *self.declared.args])

    async def client(self) -> Client:
        """The client of this environment. Connects first if necessary; concurrent callers share one attempt.

        After a failure that may be temporary, the next use tries again. A permanent failure is remembered,
        and so is the end of a program. After a lost connection to a server, the next use opens a new
        connection with a new session. Raises DialFailed, RequestFailed or another error of the attempt, or
        EnvironmentReplaced.
        """
        return await self._connection.client(held=self._is_held)

    async def status(self, *, within: float = STATUS_SECONDS) -> Status:
        """The present state. Never starts, waits for or repairs a connection."""
        connection = self._connection
        if connection.is_gone(held=self._is_held):
            return Status(DISCONNECTED, str(EnvironmentReplaced(self.id, connection.retired or "closed")))
        if self.declared is None:
            return Status(READY, self.where)
        client = connection.current()
        if client is not None:
            return await _probe(client, within)
        if connection.lifecycle.error is not None:
            return Status(DISCONNECTED, str(connection.lifecycle.error))
        return Status(PENDING, "connecting" if connection.lifecycle.state == OPENING else "not started")

    @property
    def _is_held(self) -> bool:
        return self._step is not None and self._step.is_open


async def _probe(client: Client, within: float) -> Status:
    try:
        async with asyncio.timeout(within):
            return Status(READY, await client.status())
    except OutfitterError as error:
        return Status(DISCONNECTED, str(error))
    except TimeoutError:
        return Status(DISCONNECTED, f"no answer within {within:g} s")


class _Names:
    """Environments by name, in order, and which is the default."""

    def __init__(self, default: str | None) -> None:
        self._default = default
        self._environments: dict[str, Environment] = {}

    def get(self, environment_id: str) -> Environment:
        """The environment of this name. Raises EnvironmentUnknown."""
        try:
            return self._environments[environment_id]
        except KeyError:
            raise EnvironmentUnknown(environment_id, tuple(self._environments)) from None

    def default(self) -> Environment | None:
        return None if self._default is None else self._environments.get(self._default)

    def local(self) -> Environment | None:
        """This machine, if it is included."""
        return self._environments.get(LOCAL)

    def all(self) -> list[Environment]:
        """Every environment: this machine, then the others as they were declared."""
        return list(self._environments.values())

    def offered(self) -> list[Environment]:
        """What new work may choose from, the default first. Without a default there is nothing."""
        default = self.default()
        if default is None:
            return []
        return [default, *(one for one in self._environments.values() if one is not default)]


class Step(_Names):
    """The environments as they were when a step of work began: all of them, or those that it names.

    They keep working until the step ends, even if a name is given to another environment meanwhile.
    Entering it raises EnvironmentUnknown.
    """

    def __init__(
        self, manager: EnvironmentManager, default: str | None, only: Sequence[str] | None = None
    ) -> None:
        super().__init__(default)
        self.is_open = False
        self._manager = manager
        self._only = only

    async def __aenter__(self) -> Step:
        manager, only = self._manager, self._only
        captured = manager.all() if only is None else [manager.get(name) for name in only]
        self.is_open = True
        for one in captured:
            self._capture(one)
        manager._steps.add(self)
        return self

    def include(self, environment_id: str) -> Environment:
        """The environment of this name, captured now if the step has not captured it. Raises
        EnvironmentUnknown."""
        if environment_id not in self._environments and self.is_open:
            try:
                self._capture(self._manager.get(environment_id))
            except EnvironmentUnknown as error:
                known = dict.fromkeys((*self._environments, *error.known))
                raise EnvironmentUnknown(environment_id, tuple(known)) from None
        return self.get(environment_id)

    def _capture(self, one: Environment) -> None:
        one._connection.hold()
        self._environments[one.id] = Environment(one.id, one.declared, one._connection, self)

    async def __aexit__(self, *exception: object) -> None:
        self.is_open = False
        self._manager._steps.discard(self)
        for one in self._environments.values():
            one._connection.release()


class EnvironmentManager(_Names):
    """All environments of a configuration, connected while the block runs.

    `environ` is what commands on this machine inherit from; by default, the environment of this process.
    Raises SettingInvalid if the configuration breaks a rule of the file.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        environ: Mapping[str, str] | None = None,
        opener: Opener | None = None,
    ) -> None:
        super().__init__(configuration.default)
        self._environ = environ
        self._opener = self._open if opener is None else opener
        self._tasks = Tasks()
        self._steps: set[Step] = set()
        self._is_running = False
        self._is_closed = False
        if configuration.include_local:
            self._add(LOCAL, None)
        for declared in configuration.environments:
            check(declared)
            self._add(declared.id, declared)

    async def __aenter__(self) -> EnvironmentManager:
        self._is_running = True
        for environment in self._environments.values():
            self._begin(environment)
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._is_running = False
        self._is_closed = True
        held = [one for step in self._steps for one in step.all()]
        for environment in [*self._environments.values(), *held]:
            environment._connection.retire("closed", from_steps=True)
        await self._tasks.ended()

    def put(self, declared: Declared) -> Environment:
        """Adds an environment, or replaces the one with the same name. The default stays the same.

        Raises SettingInvalid, or EnvironmentReplaced if the manager is closed.
        """
        check(declared)
        if self._is_closed:
            raise EnvironmentReplaced(declared.id, "closed")
        if declared.id in self._environments:
            self._environments[declared.id]._connection.retire("replaced")
        environment = self._add(declared.id, declared)
        if self._is_running:
            self._begin(environment)
        return environment

    def drop(self, environment_id: str) -> None:
        """Removes an environment. Raises EnvironmentUnknown."""
        self.get(environment_id)._connection.retire("dropped")
        del self._environments[environment_id]

    def step(self, only: Sequence[str] | None = None) -> Step:
        """The environments as they are now, or `only` those of these names, kept for one step of work
        (`async with`)."""
        return Step(self, self._default, only)

    def _add(self, environment_id: str, declared: Declared | None) -> Environment:
        connection = EnvironmentConnection(
            environment_id,
            lambda: self._opener(declared),
            self._tasks,
            reopens=declared is None or declared.program is None,
        )
        environment = Environment(environment_id, declared, connection)
        self._environments[environment_id] = environment
        return environment

    def _begin(self, environment: Environment) -> None:
        if environment.declared is not None and environment.declared.url is not None:
            environment._connection.begin()

    async def _open(self, declared: Declared | None) -> Opened:
        if declared is not None:
            client = await opening(declared)
            return Opened(client, client.aclose)
        # Through the package: importing the module would put it in the place of the public function.
        from .. import local

        stack = contextlib.AsyncExitStack()
        client = await stack.enter_async_context(local(environment=self._environ))
        return Opened(client, stack.aclose)


def opening(
    declared: Declared,
    *,
    resume: str | None = None,
    take_over: bool = False,
    recovery_timeout: float | None = None,
    on_state: Callable[[str], None] | None = None,
    summaries: bool = False,
    operate: bool = False,
    max_concurrency: int | None = None,
) -> Opening:
    """A client of a declared environment, to be awaited or for `async with`; nothing is dialled before.

    `resume` and `take_over` apply only to those with a URL. Raises DialFailed, RequestFailed, SettingInvalid.
    """
    if declared.url is not None:
        file = declared.token_file
        return connect(
            declared.url,
            token=declared.token if file is None else lambda: read_token(file),
            ca=declared.tls_ca,
            client_cert=declared.tls_cert,
            client_key=declared.tls_key,
            resume=resume,
            take_over=take_over,
            connect_timeout=declared.connect_timeout,
            initialize_timeout=declared.initialize_timeout,
            recovery_timeout=recovery_timeout,
            on_state=on_state,
            summaries=summaries,
            operate=operate,
            max_concurrency=max_concurrency,
        )
    return open_program(
        [declared.program or "", *declared.args],
        env=dict(declared.env),
        cwd=declared.cwd,
        initialize_timeout=declared.initialize_timeout,
        on_state=on_state,
        summaries=summaries,
        max_concurrency=max_concurrency,
    )
