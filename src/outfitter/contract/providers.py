"""Which providers a project uses, whether they may run, and what they said last: layer 3.

A warm command costs a few calls of stat. A changed input is resolved again, once, however many commands wait
for it; while nothing changes no program runs. What is remembered is in memory only.
"""

from __future__ import annotations

import os
import time

from ..core.activation import scrub, tool_environment
from ..env.layer import PROVIDER, Layer
from ..env.origin import Origin
from ..errors import ProviderBlocked, ProviderFailed
from ..providers.base import Context
from ..record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..env.resolve import Stack
    from ..providers.base import Detection, Provider, Resolution, Trust
    from .settings import Settings
    from .trust import TrustStore

AUTO = "auto"  # in place of a provider's name: the outermost one that is there
# Projects and providers that are remembered; each holds what its tool said.
REMEMBERED_PROJECTS = 64
# A provider that does not say what it depends on is asked again after this long.
UNWATCHED_SECONDS = 300.0
_TICK_NS = 20_000_000  # twice the slowest clock tick that kernels stamp files with

Signature = tuple[tuple[int, ...] | None, ...]


class Use(Record):
    """One provider in one project, as configured."""

    __slots__ = ("found", "provider", "required")

    def __init__(self, provider: Provider, found: Detection, required: bool) -> None:
        self.provider = provider
        self.found = found
        self.required = required

    @property
    def key(self) -> tuple[str, str]:
        return self.provider.id, self.found.root


class _Known:
    """What came of a use, and what that depends on."""

    __slots__ = ("layer", "lower", "resolution", "signature", "trust", "until", "watch")

    def __init__(
        self,
        layer: Layer,
        resolution: Resolution | None,
        trust: Trust,
        watch: tuple[str, ...],
        signature: Signature,
        lower: Stack,
    ) -> None:
        self.layer = layer
        self.resolution = resolution
        self.trust = trust
        self.watch = watch
        self.signature = signature
        self.lower = lower  # alive as long as this is: its identity is part of the key
        # A tool that names nothing of its own may depend on anything.
        named = resolution is None or bool(resolution.watch)
        self.until = None if named else time.monotonic() + UNWATCHED_SECONDS

    def holds(self, lower: Stack) -> bool:
        if self.lower is not lower or (self.until is not None and time.monotonic() > self.until):
            return False
        return _signature(self.watch) == self.signature


class Projects:
    """The providers of one executor."""

    def __init__(self, store: TrustStore, home: str) -> None:
        self.store = store
        self._home = home
        self._known: dict[tuple[str, str], _Known] = {}

    def uses(self, directory: str, settings: Settings) -> list[Use]:
        """The providers that hold for commands in a directory, in their order. Raises SettingInvalid."""
        from ..providers.registry import find

        found: list[Use] = []
        for id in settings.providers:
            if id == AUTO:
                found += self._outermost(directory, settings, {use.provider.id for use in found})
                continue
            provider = find(id, settings.provider_options.get(id))
            detection = provider.detect(directory)
            if detection is not None:
                found.append(Use(provider, detection, id in settings.required_providers))
        return found

    def _outermost(self, directory: str, settings: Settings, named: set[str]) -> list[Use]:
        """The one that is meant where several could be: outer tools usually call the inner ones."""
        from ..providers.registry import find, known

        options = settings.provider_options
        providers = [find(id, options.get(id)) for id in known() if id not in named]
        providers.sort(key=lambda one: one.rank)
        for provider in providers:
            detection = provider.detect(directory)
            if detection is not None:
                return [Use(provider, detection, provider.id in settings.required_providers)]
        return []

    def pending(self, uses: list[Use], lower: Stack) -> list[Use]:
        """Those that would have to be asked now, which takes its time."""
        return [use for use in uses if (known := self._known.get(use.key)) is None or not known.holds(lower)]

    def ask(self, use: Use, lower: Stack, settings: Settings, mark: int | None = None) -> None:
        """Asks one, and remembers what it says. Blocks; for a thread, or a process of our own."""
        known = self._ask(use, lower, settings, mark)
        if len(self._known) >= REMEMBERED_PROJECTS and use.key not in self._known:
            del self._known[next(iter(self._known))]
        self._known[use.key] = known

    def layers(self, uses: list[Use], lower: Stack) -> list[Layer]:
        """What they said, as layers. Raises ProviderBlocked, ProviderFailed for those that are required."""
        layers = []
        for use in uses:
            known = self._known.get(use.key)
            assert known is not None, "asked before"
            if use.required and known.layer.state == "blocked":
                raise ProviderBlocked(use.provider.id, use.found.root, known.trust.grant, known.trust.why)
            if use.required and known.layer.state != "applied":
                tail = "" if known.resolution is None else known.resolution.stderr_tail
                raise ProviderFailed(use.provider.id, use.found.root, known.layer.note, tail)
            layers.append(known.layer)
        return layers

    def context(
        self, values: Mapping[str, str], options: Mapping[str, object], mark: int | None = None
    ) -> Context:
        clean, _ = scrub(values)
        return Context(clean, tool_environment(clean), self._home, options=options, mark=mark)

    def trust(self, use: Use, context: Context) -> Trust:
        """The provider's own word, or ours where it has no store of its own."""
        trust = use.provider.trust(use.found, context)
        if trust.state == "untrusted" and trust.by == "outfitter":
            from ..providers.base import Trust

            if self.store.holds(use.provider.id, use.found.root, trust.digest):
                return Trust("trusted", "outfitter", trust.digest)
            return Trust(
                "untrusted", "outfitter", trust.digest, f"outfitter trust {use.found.root}", trust.why
            )
        return trust

    def _ask(self, use: Use, lower: Stack, settings: Settings, mark: int | None) -> _Known:
        options = settings.provider_options.get(use.provider.id, {})
        context = self.context(lower.values, options, mark)
        begun = time.monotonic()
        watched = tuple(
            dict.fromkeys(
                (
                    *use.found.files,
                    *use.provider.watch(use.found, context),
                    self.store.path(use.provider.id, use.found.root),
                )
            )
        )
        before = _settled(watched)
        trust = self.trust(use, context)
        if not trust.may_run:
            note = f"not trusted: {trust.grant} after you have read it" if trust.grant else trust.why
            layer = self._layer(use, None, "blocked", note, begun)
            return _Known(layer, None, trust, watched, before, lower)
        resolution = use.provider.resolve(use.found, context)
        layer = self._layer(use, resolution, resolution.state, resolution.note, begun)
        more = tuple(path for path in dict.fromkeys(resolution.watch) if path not in watched)
        # What changed while it ran is seen at the next command: its signature is the one from before.
        signature = before + _settled(more)
        return _Known(layer, resolution, trust, watched + more, signature, lower)

    def _layer(self, use: Use, said: Resolution | None, state: str, note: str, begun: float) -> Layer:
        cost = (time.monotonic() - begun) * 1000
        origin = Origin("provider", use.found.label, use.found.files[0] if use.found.files else None)
        if said is None or state != "applied":
            return Layer(
                PROVIDER,
                use.found.label,
                origin,
                producer=use.provider.id,
                state=state,
                note=note,
                cost_ms=cost,
            )
        return Layer(
            PROVIDER,
            use.found.label,
            origin,
            said.set,
            unset=said.unset,
            operations=said.operations,
            origins=said.origins,
            secrets=said.secrets,
            producer=use.provider.id,
            note=note,
            root=use.found.root,
            digest=said.producer,
            cost_ms=cost,
        )


def _settled(paths: tuple[str, ...]) -> Signature:
    """As `_signature`, once none is so young that it could change again without a sign of it.

    That takes a clock tick at most, in the thread that asks anyway; so one change is one question.
    """
    while True:
        signature = _signature(paths)
        youngest = max((entry[3] for entry in signature if entry is not None), default=0)
        age = time.time_ns() - youngest
        if not 0 <= age < _TICK_NS:
            return signature
        time.sleep((_TICK_NS - age) / 1e9)


def _signature(paths: tuple[str, ...]) -> Signature:
    """What each path is now, to the nanosecond; None for one that is not there."""
    found: list[tuple[int, ...] | None] = []
    for path in paths:
        try:
            info = os.stat(path)
        except OSError:
            found.append(None)
        else:
            found.append((info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns))
    return tuple(found)
