"""What commands of one executor get as environment: the layers put together, for a directory and a request.

Every way to a command goes through here: a server's process/start, `outfitter run`, `outfitter env explain`.
So the same question has the same answer whoever asks.
"""

from __future__ import annotations

import os
import time

from ..core.launch import DEFAULT_PATH
from ..env.layer import (
    BASE,
    OVERRIDE,
    PROVIDER,
    REQUESTED,
    RUNTIME_LEVEL,
    SNAPSHOT,
    Layer,
    suggestions,
    trouble,
)
from ..env.names import PARENT_SCOPE, SCOPE, TRACEPARENT, TRACESTATE
from ..env.origin import EXECUTOR, REQUEST, RUNTIME, TERMINAL, Origin
from ..env.resolve import Rules, Stack
from ..record import KW_ONLY, lazy, quick_record, record
from .freshness import lasting, stamps, unchanged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from ..core.snapshots import Taken
    from ..env.policy import Policy
    from ..env.resolve import Resolved
    from ..shell.state import ShellState
    from .base import Base
    from .config import Configuration
    from .freshness import Stamps
    from .overlays import Overlays
    from .providers import Projects
    from .selection import ProviderSelection, Use
    from .settings import Settings
    from .setup.setups import Setups
    from .trust import Grant

# Stacks that are remembered: clients send the same policy with every command, from a few directories.
REMEMBERED_STACKS = 32
# Without a PATH, bash searches a list of its own that ends in the current directory. And SHLVL is always
# there, so that no bash takes itself for the first one, behind a socket, and reads ~/.bashrc.
_DEFAULTS = {"PATH": DEFAULT_PATH, "SHLVL": "1"}
_ORIGINS = {  # by the kind of a base
    "daemon": EXECUTOR,
    "launcher": Origin("launcher", "from the environment that Outfitter was started with"),
    "client": Origin("client", "from the client's environment"),
    "merge": Origin("client", "from the client's environment over the server's"),
}


@quick_record
class Asked:
    """What a request says about its environment.

    `policy` makes the policy that it brings; None when it brings none. With `contract` the configured one
    applies then, and what every command needs is filled in; without both, the environment is exactly `env`.
    `key` stands for the policy, so that it is made only when its stack is not known yet. `scope` is the id of
    the scope of `principal` whose overlay applies, `overlays` are the names of those that were chosen.
    Without `setup` the project's setup is neither run nor applied. `network` leads to a proxy, `trace` has
    its trace context. `kind` is the kind of launch that the command belongs to. `snapshot` is what its client
    wants of startup files.
    """

    cwd: str
    env: Mapping[str, str]
    policy: Callable[[], Policy] | None = None
    _: KW_ONLY
    key: object = None
    contract: bool = True
    author: str = "user"
    unset: tuple[str, ...] = ()
    tty: bool = False
    scope: str | None = None
    principal: str = ""
    overlays: tuple[str, ...] = ()
    setup: bool = True
    network: Layer | None = None
    trace: Layer | None = None
    kind: str = ""
    snapshot: Taken | None = None
    hidden = ("env", "key")

    @property
    def exact(self) -> bool:
        """Whether the environment is just `env`, and what a snapshot adds."""
        return self.policy is None and not self.contract

    @property
    def layer(self) -> Layer | None:
        """The variables of its snapshot."""
        return None if self.snapshot is None else self.snapshot.layer


@quick_record
class Ready:
    """All that an environment is made of below the request: nothing is left to be asked.

    `settings` are those of the directory, None where no file has a say. `prefix` goes in front of the
    command's argv. `warnings` say what is wrong with the project's environment.
    """

    asked: Asked
    stack: Stack
    settings: Settings | None = None
    prefix: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@record
class Questions:
    """What must be asked next of a provider, or done for a setup. Two with the same `key` are the same.

    `what` says it for people. `ask` asks, and blocks; it takes a mark of a server's for what is started, or
    None.
    """

    key: object
    what: str
    ask: Callable[[int | None], None]


@record
class _Word:
    """Whether a person has allowed what a project's file sets, and the grant that this depends on.

    The settings are kept so that their identity stays taken. A refusal holds `until` then, as that of a
    provider does: the machine may have had no descriptor left to read the grant.
    """

    settings: Settings
    awaits: str
    watch: tuple[str, ...]
    stamps: Stamps
    until: float

    def holds(self, settings: Settings) -> bool:
        if self.settings is not settings or (self.awaits and time.monotonic() > self.until):
            return False
        return unchanged(self.watch, self.stamps)


class Contract:
    """The environment contract of one executor."""

    def __init__(self, base: Base, configuration: Configuration | None, login_shell: str) -> None:
        """Without a `configuration` no file is looked at: an executor that is its caller's own."""
        self.base = base
        self._configuration = configuration
        self._snapshot: Layer | None = None
        self.left: ShellState | None = None  # what else is in the shell that was asked for it
        self._stacks: dict[object, tuple[object, object, Stack]] = {}
        self._words: dict[int, _Word] = {}  # whether projects have a person's
        self._exact = Stack((), (), Rules(tidy=False, total=None))
        self._said: Resolved | None = None
        # Where variables of the base come from, if whoever has started the server says so.
        self.base_origins: Mapping[str, Origin] = {}
        self._terminal = Layer(RUNTIME_LEVEL, "terminal", TERMINAL, {"SHELL": login_shell}, where_unset=True)
        self._defaults = Layer(RUNTIME_LEVEL, "runtime", RUNTIME, _DEFAULTS, where_unset=True)
        # What `stack` does around a question, for those who watch: it may take its time.
        self.around: Callable[[str], AbstractContextManager[object]] | None = None
        # Gets every grant of trust that is made use of, in any thread.
        self.on_grant: Callable[[Grant], None] | None = None

    # Settings

    def settings(self, directory: str | None) -> Settings:
        """What the files say for commands in a directory, or outside of any. Raises FileInvalid."""
        return self._plain if self._configuration is None else self._configuration.settings(directory)

    @lazy
    def _plain(self) -> Settings:
        from .settings import Settings

        return Settings()

    @lazy
    def key(self) -> bytes:
        """The key of this user's fingerprints."""
        from ..host import installkey

        return installkey.load(self.state_folder)

    def prepare(self) -> None:
        """Takes the login shell's snapshot where it is configured: once, before the first command.

        Blocks up to the configured time. Raises FileInvalid.
        """
        if self._snapshot is not None:
            return
        settings = self.settings(None)
        if settings.snapshot != "none":
            from .snapshot import take

            self._snapshot, self.left = take(settings, self.base.values)
            self._stacks.clear()

    # Environments

    def next(self, asked: Asked, base: Base | None = None) -> Questions | Ready:
        """What must be asked next before this can be resolved, or all that it is made of.

        `base` is another one than the executor's own.
        Raises FileInvalid, SettingInvalid, ProviderBlocked, ProviderFailed, SetupBlocked, SetupFailed.
        """
        if asked.exact:
            return Ready(asked, self._exact if asked.layer is None else _over(asked.layer))
        settings = self.settings(asked.cwd)
        layers: tuple[Layer, ...] = ()
        uses: list[Use] = []
        if self._configuration is not None and settings.providers != ():
            uses = self.uses(asked.cwd, settings)
            if uses:
                lower = self._stack(settings, base, asked, None, provided=True)
                said = self.projects.answers(uses, lower, settings)
                if not isinstance(said, list):
                    what = f"{said.provider.id} in {said.found.root}"
                    ask = self.projects.ask
                    return Questions(
                        (id(lower), *said.key), what, lambda mark: ask(said, lower, settings, mark)
                    )
                layers = tuple(said)
        provided = layers
        if settings.needed_providers and self._configuration is not None:
            from .providers import check_needed

            check_needed(layers, uses, settings)
        stack = self._stack(settings, base, asked, layers, provided=bool(uses))
        if settings.setup is not None and self._configuration is not None and asked.setup:
            use = self.setups.use(asked.cwd, settings)
            if use is not None:
                if self.setups.pending(use):
                    what = f"the setup of {use.worktree}"
                    run = self.setups.run
                    return Questions(use.key, what, lambda mark: run(use, stack, settings, mark))
                layers = (*layers, self.setups.layer(use))
                stack = self._stack(settings, base, asked, layers, provided=bool(uses))
        also: tuple[str, ...] = ()
        overlays = (*settings.overlays_of(asked.kind), *asked.overlays) if asked.kind else asked.overlays
        if asked.scope is not None or overlays or self._may_keep():
            awaits = self.project_awaits(settings) if overlays else ""
            session = self.overlays.layers(
                asked.cwd, asked.scope, overlays, settings, asked.principal, awaits
            )
            if session:
                stack = self._stack(settings, base, asked, (*layers, *session), provided=bool(uses))
                also = tuple([trouble(layer) for layer in session if layer.state == "missing"])
        also += stack.path_mistakes
        suggested = [layer for layer in stack.layers if layer.awaits]
        if not layers and not suggested:
            return Ready(asked, stack, settings, warnings=also)
        wrong = settings.on_provider_failure == "warn"
        return Ready(
            asked,
            stack,
            settings,
            tuple([word for layer in provided for word in layer.prefix]),
            (
                *(trouble(layer) for layer in layers if wrong and _is_wrong(layer, settings)),
                *(suggestions(suggested) if suggested and wrong else ()),
                *(self.projects.news(uses) if uses and asked.contract else ()),
                *also,
            ),
        )

    def ready(self, asked: Asked, base: Base | None = None) -> Ready:
        """As `next`, but blocks while providers are asked and a setup runs."""
        while not isinstance(found := self.next(asked, base), Ready):
            if self.around is None:
                found.ask(None)
            else:
                with self.around(found.what):
                    found.ask(None)
        return found

    def resolve(self, asked: Asked, base: Base | None = None) -> Resolved:
        """The exact environment of one command; blocks as `ready` does.

        Raises what `next` raises, and EnvironmentTooLarge.
        """
        return self.environment(self.ready(asked, base))

    def environment(self, ready: Ready) -> Resolved:
        """The exact environment of one command; may be called in a thread. Raises EnvironmentTooLarge, and
        LaunchRefused where its kind of launch requires what it does not have."""
        asked = ready.asked
        if asked.kind and ready.settings is not None and ready.settings.launches:
            from .kinds import check

            resolved = self.resolved(ready)
            check(asked.kind, asked.env, ready.settings.launches, resolved)
            return resolved
        return self.resolved(ready)

    def resolved(self, ready: Ready) -> Resolved:
        """The same, whatever its kind of launch requires. Raises EnvironmentTooLarge."""
        asked = ready.asked
        runtime = (self._terminal,) if asked.tty else ()
        if asked.network is not None:
            runtime = (*runtime, asked.network)
        if asked.trace is not None:
            runtime = (*runtime, asked.trace)
        elif ready.settings is not None and ready.settings.trace_commands:
            from ..env import traced

            runtime = (*runtime, traced.NONE)
        if asked.exact and asked.layer is None:
            if runtime or asked.unset or asked.author != "client":
                return self._exact.resolve(_request(asked), runtime)
            # Clients that say it all say the same again and again.
            said = self._said
            if said is None or asked.env != said.values:
                said = self._exact.resolve(_request(asked))
                if said.values == asked.env:  # else something was refused
                    self._said = said
            return said
        if asked.exact:
            return ready.stack.resolve(_request(asked), runtime)
        # A policy of its own is a request for just what it leaves.
        if asked.contract and asked.policy is None:
            runtime = (self._defaults, *runtime)
        if asked.scope is not None:
            runtime = (*runtime, self.overlays.scopes.of(asked.principal).runtime(asked.scope))
        return ready.stack.resolve(_request(asked) if asked.env or asked.unset else None, runtime)

    def project_awaits(self, settings: Settings) -> str:
        """What a person types to allow the variables of the project's outfitter.toml; "" if that was done."""
        known = self._words.get(id(settings))
        if known is not None and known.holds(settings):
            return known.awaits
        from .providers import AGAIN_SECONDS
        from .trust import PROJECT, tables_of

        tables = tables_of(settings)
        if tables is None:
            return ""
        store = self.projects.store
        watch = (store.path(PROJECT, tables.root),)
        before = tuple(map(lasting, stamps(watch)))
        trust = store.trust(PROJECT, tables.root, tables.digest)
        if len(self._words) >= REMEMBERED_STACKS:
            del self._words[next(iter(self._words))]
        awaits = "" if trust.may_run else trust.grant
        self._words[id(settings)] = _Word(settings, awaits, watch, before, time.monotonic() + AGAIN_SECONDS)
        return awaits

    def uses(self, directory: str, settings: Settings) -> list[Use]:
        """The providers for commands in a directory, in their order. Raises SettingInvalid."""
        way = None if self._configuration is None else self._configuration.way(directory)
        return self._selection.uses(directory, settings, way)

    @lazy
    def _selection(self) -> ProviderSelection:
        from .selection import ProviderSelection

        return ProviderSelection()

    def _may_keep(self) -> bool:
        """Whether the user has something kept; most have not, and need nothing of what reads it."""
        return self._configuration is not None and os.access(self._kept, os.F_OK)

    @lazy
    def _kept(self) -> str:
        from ..places import kept_folder

        return kept_folder(self.state_folder)

    @lazy
    def overlays(self) -> Overlays:
        """What sessions, and the user for a worktree, put on top."""
        from .overlays import Overlays

        return Overlays(self.state_folder)

    def knows_scope(self, principal: str, scope: str) -> bool:
        """Whether a session of this id was given something; most servers never hear of any."""
        return ("overlays" in self.__dict__ or self._has_kept_scopes) and scope in self.overlays.scopes.of(
            principal
        )

    @lazy
    def _has_kept_scopes(self) -> bool:
        """Whether a server before this one has kept something; most have not."""
        from ..places import scopes_folder

        return os.access(scopes_folder(self.state_folder), os.F_OK)

    @lazy
    def home(self) -> str:
        """Whose files are the user's."""
        from ..host import facts

        return facts.home(self.base.values)

    @lazy
    def state_folder(self) -> str:
        """Where Outfitter keeps what is not configuration."""
        from ..host import installkey

        return installkey.state_folder(self.base.values, self.home)

    @lazy
    def setups(self) -> Setups:
        """The setups of this executor's worktrees."""
        from .setup.setups import Setups

        # A server has secrets in its memory, where no command can look.
        shares = self.base.kind != "daemon"
        return Setups(self.projects.store, self.state_folder, self.home, shares_secrets=shares)

    @lazy
    def projects(self) -> Projects:
        """The providers of this executor."""
        from .providers import Projects
        from .trust import TrustStore

        return Projects(TrustStore(self.state_folder, self.on_grant), self.home)

    def watched(self, asked: Asked) -> list[str]:
        """The paths whose change makes an answer of providers stale. Raises FileInvalid, SettingInvalid."""
        settings = self.settings(asked.cwd)
        if settings.providers == ():
            return []
        uses = self.uses(asked.cwd, settings)
        return self.projects.watched(uses, self.lower(asked), settings)

    def unused(self, asked: Asked) -> list[tuple[str, str]]:
        """Providers that were found and would have something to say, but another one is active: id and file.

        Of a command that was resolved before. Raises FileInvalid, SettingInvalid.
        """
        settings = self.settings(asked.cwd)
        if self._configuration is None or settings.providers == ():
            return []
        return self.projects.unused(self.uses(asked.cwd, settings), self.lower(asked), settings)

    def lower(self, asked: Asked, base: Base | None = None) -> Stack:
        """Layers 0 to 2: what providers start from. Raises FileInvalid."""
        if asked.exact:
            return self._exact
        return self._stack(self.settings(asked.cwd), base, asked, None, provided=True)

    def _stack(
        self,
        settings: Settings,
        base: Base | None,
        asked: Asked,
        layers: tuple[Layer, ...] | None,
        *,
        provided: bool = False,
    ) -> Stack:
        """A stack as it was put together before. `layers` are those of providers; with None only what is
        below them. `provided`: the project has some, so what others have activated is taken back first."""
        if asked.policy is not None and asked.key is None:
            return self._build(settings, base or self.base, asked, layers, provided)  # not told from others
        given = None if layers is None else tuple(map(id, layers))
        awaits = self.project_awaits(settings) if _suggests(settings) else ""
        key = (id(settings), id(base), asked.key, asked.contract, given, provided, awaits, id(asked.layer))
        known = self._stacks.get(key)
        # An id means an object only while that is alive: the cache keeps what its keys stand for.
        if known is not None and known[0] is settings and known[1] is base:
            return known[2]
        stack = self._build(settings, base or self.base, asked, layers, provided)
        if len(self._stacks) >= REMEMBERED_STACKS:
            del self._stacks[next(iter(self._stacks))]
        self._stacks[key] = (settings, base, stack)
        return stack

    def _build(
        self, settings: Settings, base: Base, asked: Asked, given: tuple[Layer, ...] | None, provided: bool
    ) -> Stack:
        from .layers import env_layer, held_back, policy_of, rules_of  # for those who do not say it all

        origin = _ORIGINS.get(base.kind) or Origin("executor", f"from the environment of {base.kind}")
        origins = self.base_origins if base is self.base else {}
        layers = [Layer(BASE, "base", origin, base.values, origins=origins, producer=base.kind)]
        if self._snapshot is not None and base is self.base:
            layers.append(self._snapshot)
        if asked.layer is not None:
            layers.append(asked.layer)
        if provided:
            layers += _reverted(Stack(layers, (), Rules(tidy=False, total=None)).values)
        above = list(given or ())
        awaits = self.project_awaits(settings) if _suggests(settings) else ""
        theirs = settings.project_policy
        if awaits and theirs is not None and theirs.set:
            theirs, held = held_back(theirs, awaits)
            above.insert(0, held)
        if given is not None and settings.project_env is not None:
            place = len([layer for layer in above if layer.level <= PROVIDER])
            table = settings.project_env
            above.insert(place, env_layer(PROVIDER, "project", table, kind="project", awaits=awaits))
        layers += [layer for layer in above if layer.level < OVERRIDE]
        if given is not None and settings.user_env is not None:
            layers.append(env_layer(OVERRIDE, "user", settings.user_env, kind="user"))
        layers += [layer for layer in above if layer.level >= OVERRIDE]  # what a session shall not have
        said = {"user": settings.user_policy, "project": theirs}
        policies = [policy_of(whose, policy) for whose, policy in said.items() if policy is not None]
        if asked.policy is not None:
            policies.append(asked.policy())
        # A client of the reference's protocol gets PATH as the reference would pass it.
        total = settings.total_bytes if asked.contract else None
        return Stack(layers, policies, rules_of(settings, tidy=asked.contract, total=total))

    # Fingerprints

    def fingerprints(self, resolved: Resolved) -> tuple[str, str]:
        """`env_fp` and `contract_fp`."""
        return fingerprints(self.key, resolved)


def fingerprints(key: bytes, resolved: Resolved) -> tuple[str, str]:
    """`env_fp` and `contract_fp`, with the user's key."""
    from ..env.fingerprint import contract_fp, env_fp

    # Two sessions that are alike differ in their names, and two commands in what they work for.
    own = (SCOPE, PARENT_SCOPE, TRACEPARENT, TRACESTATE)
    return env_fp(key, resolved.values, leave_out=own), contract_fp(key, resolved)


def _suggests(settings: Settings) -> bool:
    """Whether a project's file sets variables of its own accord: overlays are chosen."""
    return settings.project_env is not None or (
        settings.project_policy is not None and settings.project_policy.set != ()
    )


def _is_wrong(layer: Layer, settings: Settings) -> bool:
    """What was merely found may be for another machine; what is named is meant, and should be there."""
    if layer.state == "missing":
        return layer.producer in (settings.providers or ())
    return layer.state in ("blocked", "failed")


def _over(snapshot: Layer) -> Stack:
    """What is below a request that says all of its environment, and asks for a snapshot of a shell."""
    return Stack((snapshot,), (), Rules(tidy=False, total=None))


def _request(asked: Asked) -> Layer:
    return Layer(REQUESTED, "request", REQUEST, asked.env, unset=asked.unset, author=asked.author)


def _reverted(values: Mapping[str, str]) -> list[Layer]:
    """What takes back the activations of other projects, so that nothing of them is half there."""
    from ..shell.activation import scrub

    clean, told = scrub(values)
    if clean == values:
        return []
    unset = [name for name in values if name not in clean]
    changed = {name: value for name, value in clean.items() if values.get(name) != value}
    note = ", ".join(f"{name}: {why}" for name, why in told)
    origin = Origin("activation", "reverted: another environment was active")
    return [Layer(SNAPSHOT, "activation", origin, changed, unset=unset, note=note)]


def contract_of(kind: str, values: Mapping[str, str]) -> Contract:
    """The contract of this process, whose environment is `values`: with its configuration files."""
    from ..host import facts
    from .base import base_of
    from .config import Configuration

    return Contract(base_of(kind, values), Configuration(values), facts.login_shell())
