"""What the requests of all connections share. Each part is made when it is first needed."""

from __future__ import annotations

import os

from ..core.quotas import Sharing
from ..env.origin import GIVEN
from ..log import tell
from ..pace import Pace
from ..refusals import SandboxUnavailable
from ..system import LINUX
from ..transport.base import own_principal
from .environment import Environments
from .limits import (
    ANSWERS_TOTAL_BYTES,
    EXPLAINING,
    FILE_WIDTH,
    FILE_WIDTH_TOTAL,
    MATCHING_TOTAL,
    QUESTIONS_TOTAL,
    RESOLVING,
    RESOLVING_TOTAL,
    SANDBOX_PROCESSES,
    SEARCHES_TOTAL,
    WALKS,
    WALKS_TOTAL,
    WATCHED_FOLDERS_TOTAL,
)
from .sessions import Sessions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Mapping
    from typing import Protocol

    from ..core.shares import Shares
    from ..host.lookup import CachedLookup
    from ..host.programs import Programs
    from ..host.sandbox.limits import Allowance
    from ..host.sandbox.probing import Answer
    from ..host.sandbox.sandboxes import Sandboxes
    from ..host.sandbox.upstream import Resolver
    from ..host.watch.watching import Watching
    from ..host.workers import Done, Workers
    from ..loop import Loop
    from ..observe.observer import Observer
    from ..protocol.session import EnvironmentInfo
    from ..transport.base import Transport
    from .asking import Asking
    from .draining import Drain
    from .outbound import Outbound
    from .room import Room
    from .settings import ServerSettings
    from .upgrades import Upgrades
    from .walking import Walkers

    class Waiting(Protocol):
        """A connection, as far as all of them are counted together."""

        @property
        def principal(self) -> str: ...
        @property
        def transport(self) -> Transport: ...


# After the start of a server: it takes 0.1 s of a processor, a hundredth of the time the server has lived
# then. Those of a pool live for a task, by the thousand.
_PROBE_SECONDS = 10.0
# Processes and memory of a sandbox, where bubblewrap is, what more is protected, --cgroup.
_USUAL_ALLOWANCE = (SANDBOX_PROCESSES, None, "", (), False)


class Services:
    """`executor` is the environment that policies start from, `base` says whose it is."""

    def __init__(
        self,
        loop: Loop,
        settings: ServerSettings,
        executor: Mapping[str, str],
        *,
        retains: bool,
        base: str,
        pace: Pace,
        sharing: Sharing | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.loop = loop
        self.observer = observer
        # What a drain calls, where the server can end by itself.
        self.ends: tuple[Callable[[str], None], Callable[[], None]] | None = None
        self._drain: Drain | None = None
        self._operators = settings.operators
        self.pace = pace
        self.connections: Collection[Waiting] = ()
        self.sharing = sharing or Sharing(settings.several_principals)
        self.sharing.when_several(self._shared)
        self.sessions = Sessions(loop, settings, pace, self.sharing, observer)
        self.retains = retains  # sessions outlive their connections
        retention = settings.session_retention if retains else 0.0
        self.environments = Environments(executor, retention, base)
        if settings.origins:
            given = {name: GIVEN[whose] for name, whose in settings.origins}
            self.environments.contract.base_origins = given
        self.sessions.spawner.for_ourselves = self.environments.for_ourselves()
        self._info: EnvironmentInfo | None = None
        self._workers: Workers | None = None
        self._watching: Watching | None = None
        self._cached: CachedLookup | None = None
        self._programs: Programs | None = None
        self._walkers: Walkers | None = None
        self._asking: Asking | None = None
        self._explaining: Shares | None = None
        self._slow: Workers | None = None
        self._walks: Shares | None = None
        self._file_turns: Shares | None = None
        self._upgrades: Upgrades | None = None
        self._searching: Room | None = None
        self._settings = settings
        self._resolver: Resolver | None = None
        self.own_ports: tuple[int, ...] = ()  # where the server listens, by TCP
        self._sandboxes: Sandboxes | None = None
        self._bubblewrap: Answer | None = None  # what was found out before it was needed
        sandbox = (settings.sandbox_processes, settings.sandbox_memory, settings.sandbox_program)
        if (*sandbox, settings.sandbox_protect, settings.cgroup) != _USUAL_ALLOWANCE:
            from ..host.tools import within

            within.allowance = self._allowance()  # for tools of providers, and setups
        self._http: Outbound | None = None

    def _shared(self) -> None:
        """There are several principals: from now on they take turns, where the loop is our own."""
        from ..loop import EpollLoop

        if isinstance(self.loop, EpollLoop):
            from .fairness import FairTurns

            FairTurns(self.loop)

    def too_many_answers(self, principal: str) -> bool:
        """Whether a principal has more answers to read than its share, where there are several."""
        if not self.sharing.several:
            return False
        waiting = [(one.principal, one.transport.buffered) for one in self.connections]
        mine = sum(size for whose, size in waiting if whose == principal)
        return not self.sharing.allows(ANSWERS_TOTAL_BYTES, sum(size for _, size in waiting), mine, 0)

    def is_operator(self, principal: str) -> bool:
        """Whether it may see and end what belongs to others: the server's own user, and who was named."""
        return principal in self._operators or principal == own_principal()

    @property
    def info(self) -> EnvironmentInfo:
        """What the server says of itself; nothing in it changes while the server runs."""
        if self._info is None:
            self._info = self.environments.info()
        return self._info

    @property
    def workers(self) -> Workers:
        """Threads for what may block; most servers' first need is long after their start."""
        if self._workers is None:
            from ..host.workers import Workers

            self._workers = Workers(self.loop)
        return self._workers

    @property
    def asking(self) -> Asking:
        """What providers are being asked."""
        if self._asking is None:
            from .asking import Asking

            self._asking = Asking(self.loop, self.sessions, self.slow)
        return self._asking

    @property
    def slow(self) -> Workers:
        """Threads for what may take long: nothing that is soon done waits for one of them."""
        if self._slow is None:
            from ..host.workers import Workers

            self._slow = Workers(self.loop, QUESTIONS_TOTAL + WALKS_TOTAL + MATCHING_TOTAL + EXPLAINING)
        return self._slow

    def explain(self, owner: Hashable, work: Callable[[], object], done: Done) -> None:
        """Computes something large beside the loop, one at a time; owners take turns."""
        if self._explaining is None:
            from ..core.shares import Shares

            self._explaining = Shares(EXPLAINING, EXPLAINING)
        turns = self._explaining

        def over(result: object, failure: BaseException | None) -> None:
            turns.done(owner)
            done(result, failure)

        turns.add(owner, lambda: self.slow.run(work, over))

    @property
    def upgrades(self) -> Upgrades:
        """How often the server was asked to replace itself."""
        if self._upgrades is None:
            from .upgrades import Upgrades

            self._upgrades = Upgrades()
        return self._upgrades

    @property
    def searching(self) -> Room:
        """Where searches find room."""
        if self._searching is None:
            from ..core.quotas import Quota
            from .room import Room

            self._searching = Room(self.loop, Quota(SEARCHES_TOTAL, self.sharing))
        return self._searching

    @property
    def resolver(self) -> Resolver:
        """What finds addresses for the proxies of commands."""
        if self._resolver is None:
            from ..core.shares import Shares
            from ..host.sandbox.upstream import Resolver
            from ..host.workers import Workers

            workers, shares = Workers(self.loop, RESOLVING_TOTAL), Shares(RESOLVING_TOTAL, RESOLVING)
            self._resolver = Resolver(workers, shares=shares)
        return self._resolver

    @property
    def drain(self) -> Drain | None:
        """The end of the server, announced; None where it does not end by itself."""
        if self._drain is None and self.ends is not None:
            from .draining import Drain

            self._drain = Drain(self.loop, self.sessions, *self.ends)
        return self._drain

    @property
    def walks(self) -> Shares:
        """Whose turn it is to walk a tree."""
        if self._walks is None:
            from ..core.shares import Shares

            self._walks = Shares(WALKS_TOTAL, WALKS, self.sharing)
        return self._walks

    @property
    def file_turns(self) -> Shares | None:
        """Whose turn it is to do other file work; None where one principal has all threads for it."""
        if self._file_turns is None and self.sharing.several:
            from ..core.shares import Shares

            self._file_turns = Shares(FILE_WIDTH_TOTAL, FILE_WIDTH, self.sharing)
        return self._file_turns

    @property
    def http(self) -> Outbound:
        """What sends the requests of http/request."""
        if self._http is None:
            from .outbound import Outbound

            variables = self.environments.contract.base.values
            self._http = Outbound(self.loop, self._settings, self.sharing, variables)
        return self._http

    @property
    def walkers(self) -> Walkers:
        if self._walkers is None:
            from .walking import Walkers

            self._walkers = Walkers(self.environments.for_file_work(self.own_files))
        return self._walkers

    @property
    def cached(self) -> CachedLookup:
        if self._cached is None:
            from ..host.lookup import CachedLookup

            self._cached = CachedLookup()
        return self._cached

    @property
    def programs(self) -> Programs:
        """What the files of programs are."""
        if self._programs is None:
            from ..host.programs import Programs

            self._programs = Programs()
        return self._programs

    @property
    def used_sandboxes(self) -> Sandboxes | None:
        """The same, if somebody has needed them."""
        return self._sandboxes

    @property
    def sandboxes(self) -> Sandboxes:
        """Where commands are confined."""
        if self._sandboxes is None:
            from ..host.sandbox.sandboxes import Sandboxes

            state = self.environments.contract.state_folder
            self._sandboxes = Sandboxes(self.loop, state, self._settings.own_files, self._allowance())
            self.sessions.trees.sandboxes = self._sandboxes
            if isinstance(self._bubblewrap, tuple):
                self._sandboxes.finder.learn(*self._bubblewrap)
        return self._sandboxes

    def _allowance(self) -> Allowance:
        from ..host.sandbox.limits import Allowance

        said = self._settings
        return Allowance(
            said.sandbox_processes,
            said.sandbox_memory,
            said.cgroup,
            said.sandbox_loopback,
            said.sandbox_ptrace,
            said.sandbox_program,
            said.sandbox_landlock,
            said.sandbox_protect,
        )

    @property
    def strict_links(self) -> bool:
        """Whether confined requests may not write files with several names."""
        return self._settings.sandbox_strict_links

    @property
    def landlock(self) -> bool:
        """Whether a command may be confined by Landlock, where bubblewrap cannot be used."""
        return self._settings.sandbox_landlock

    @property
    def protects(self) -> tuple[str, ...]:
        """More names that stay read-only in a sandbox: `core.protecting`."""
        return self._settings.sandbox_protect

    @property
    def own_files(self) -> tuple[str, ...]:
        """Files and folders of the server, which nobody who is confined may see."""
        return (self.environments.contract.state_folder, *self._settings.own_files)

    def get_ready_to_confine(self) -> None:
        """Finds out whether sandboxes can be made, beside the loop and before a command waits for it. Where
        this user's commands were confined before, also removes what sandboxes of servers have left behind
        that were killed. Other servers need not keep the MiB for that: a process of its own looks for them,
        and those that live for one command end before it."""
        if os.path.isdir(f"{self.environments.contract.state_folder}/sandbox"):
            self.slow.run(self.sandboxes.finder.find, self._confines)
        elif LINUX:
            self.loop.call_later(_PROBE_SECONDS, self._probe)

    def _probe(self) -> None:
        from ..host.sandbox.probing import probe

        def answered(answer: Answer | None, failure: BaseException | None) -> None:
            if isinstance(answer, tuple):
                self._bubblewrap = answer
            else:
                self._confines(None, failure if answer is None else SandboxUnavailable(answer))

        if self._sandboxes is None:  # else the first command that needs one has found out
            program, env = self._settings.sandbox_program, self.sessions.spawner.for_ourselves
            self.slow.run(lambda: probe(program, env), answered)

    def _confines(self, _: object, failure: BaseException | None) -> None:
        if isinstance(failure, SandboxUnavailable):
            tell("server", "!", "no command can be confined: %s", failure.why)

    @property
    def watching(self) -> Watching:
        """What the kernel tells about files, for all connections. Raises HostUnsupported, FileFailed."""
        if self._watching is None:
            from ..host.watch.watching import Watching

            self._watching = Watching(self.loop, WATCHED_FOLDERS_TOTAL, self.sharing)
        return self._watching

    @property
    def busy(self) -> bool:
        """Whether a thread works, or a command waits for us before it runs."""
        if self._sandboxes is not None and self._sandboxes.holds:
            return True  # its command would run without what it waits for
        return any(one is not None and one.busy for one in (self._workers, self._slow))

    def stop(self) -> bool:
        """Ends every session and all descendants; False when some may be left."""
        all_ended = self.sessions.stop()
        if self._watching is not None:
            self._watching.close()
        return all_ended
