"""Which providers a project uses, whether they may run, and what they said last: layer 3.

A warm command costs a few calls of stat. A changed input is resolved again, once, however many commands wait
for it; while nothing changes no program runs. What is remembered is in memory only.
"""

from __future__ import annotations

import os
import time

from ..env.layer import PROVIDER, Layer
from ..env.origin import Origin
from ..errors import ProviderBlocked, ProviderFailed
from ..log import note
from ..plain import plain
from ..providers.base import MODES, SECONDS, Context, Resolution, Trust, check_mode
from ..record import record, replace
from ..shell.activation import scrub, tool_environment
from .freshness import RESTLESS_SECONDS, Fresh, by_now, settled, unchanged
from .trust import blocked, digest_of, told_effects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..env.resolve import Stack
    from .selection import Use
    from .settings import Settings
    from .trust import TrustStore

# Projects and providers that are remembered; each has what its tool said.
REMEMBERED_PROJECTS = 64
# Environments to start from, for each: clients with different policies take turns.
REMEMBERED_BASES = 4
# A provider that does not say what it depends on is asked again after this long.
UNWATCHED_SECONDS = 300.0
# A refusal, what nobody has allowed, or an answer without effect within QUICK_SECONDS may be the machine's,
# which had no descriptor or memory left, and not the project's: it is looked at again after this long. It
# costs no more than one part in fifty.
AGAIN_SECONDS = 10.0
QUICK_SECONDS = 0.2
# Those whose files projects have for other reasons: where they say nothing, nothing is said of them.
_ASIDE = ("vscode", "devcontainer", "mise")
_MOST_NEWS = 40  # names; a change of a whole environment is not read by anybody


@record
class _Known:
    """What came of a use, and what that depends on; `tail` is the end of what the tool said."""

    layer: Layer
    trust: Trust
    lower: Stack
    settings: Settings
    fresh: Fresh
    tail: str = ""


class Projects:
    """The providers of one executor."""

    def __init__(self, store: TrustStore, home: str) -> None:
        self.store = store
        self._home = home
        self._known: dict[tuple[str, str], list[_Known]] = {}
        self._news: dict[tuple[str, str], str] = {}  # at most one for each that is known

    def answers(self, uses: list[Use], lower: Stack, settings: Settings) -> list[Layer] | Use:
        """What they said, as layers; or the next one that must be asked first, which takes its time.

        Raises ProviderBlocked, ProviderFailed for those without which no command may run.
        """
        layers = []
        chosen = False
        for use in uses:
            if use.choice and chosen:
                continue
            known = self._find(use, lower, settings)
            if known is None or not known.fresh.holds():
                return use
            _check(use, known, settings)
            if not (use.choice and known.layer.state == "not-applicable" and _is_aside(use)):
                layers.append(known.layer)
            # One that has nothing to say here leaves the word to the next: no two of them are stacked.
            chosen = chosen or (use.choice and known.layer.state not in ("missing", "not-applicable"))
        return layers

    def ask(self, use: Use, lower: Stack, settings: Settings, mark: int | None = None) -> None:
        """Asks one, and remembers what it says. Blocks; for a thread, or a process of our own."""
        known = self._ask(use, lower, settings, mark)
        known = replace(known, trust=replace(known.trust, files={}))  # they may be megabytes
        if len(self._known) >= REMEMBERED_PROJECTS and use.key not in self._known:
            # Others may be at it in their own threads.
            self._news.pop(gone := next(iter(self._known)), None)
            self._known.pop(gone, None)
        before = self._find(use, lower, settings)
        if before is not None and (news := changes(before.layer, known.layer)):
            note("contract", "=", "%s has changed: %s", use.found.label, news)
            self._news[use.key] = f"{use.found.label} has changed: {news}"
        others = [one for one in self._known.get(use.key, ()) if one.lower.values != lower.values]
        self._known[use.key] = [known, *others[: REMEMBERED_BASES - 1]]

    def _find(self, use: Use, lower: Stack, settings: Settings) -> _Known | None:
        """What it said to somebody who starts from the same, and wants the same of it."""
        several = self._known.get(use.key, [])
        for known in several:
            if known.lower is lower and known.settings is settings:
                return known
        for place, known in enumerate(several):
            if known.lower.values == lower.values and _same(use, known.settings, settings):
                several[place] = replace(known, lower=lower, settings=settings)
                return several[place]
        return None

    def watched(self, uses: list[Use], lower: Stack, settings: Settings) -> list[str]:
        """The paths that their answers depend on; for those who were not asked yet, what is known before."""
        found: list[str] = []
        for use in uses:
            known = self._find(use, lower, settings)
            if known is None:
                found += self._inputs(use, self.context(use, lower.values, settings))
            else:
                found += known.fresh.watch
        return found

    def unused(self, uses: list[Use], lower: Stack, settings: Settings) -> list[tuple[str, str]]:
        """Of those that could be meant, the ones behind the one that is: id and file.

        One that only reads files is asked, and counts if it would be applied: a manifest alone is nothing.
        """
        active = next(
            (
                use
                for use in uses
                if use.choice
                and (known := self._find(use, lower, settings)) is not None
                and known.layer.state not in ("missing", "not-applicable")
            ),
            None,
        )
        if active is None:
            return []
        found = []
        for use in uses[uses.index(active) + 1 :]:
            if not use.choice or not use.found.files or _is_aside(use):
                continue
            context = self.context(use, lower.values, settings)
            runs = bool(use.provider.plan(use.found, context))
            if runs or use.provider.resolve(use.found, context).state == "applied":
                found.append((use.provider.id, use.found.files[0]))
        return found

    def _inputs(self, use: Use, context: Context) -> tuple[str, ...]:
        """What an answer depends on before it is given: files, and our grant."""
        grant = self.store.path(use.provider.id, use.found.root)
        return (*use.found.files, *use.provider.watch(use.found, context), grant)

    def news(self, uses: list[Use]) -> list[str]:
        """What has changed since the last report, by name; never a value."""
        if not self._news:
            return []
        return [self._news.pop(use.key) for use in uses if use.key in self._news]

    def context(
        self, use: Use, values: Mapping[str, str], settings: Settings, mark: int | None = None
    ) -> Context:
        """What a provider starts from. Raises SettingInvalid for a mode that it does not have."""
        id = use.provider.id
        mode = settings.provider_modes.get(id, MODES[0])
        check_mode(use.provider, mode)
        clean, _ = scrub(values)
        return Context(
            clean,
            tool_environment(clean),
            self._home,
            mode=mode,
            timeout=settings.provider_timeout or SECONDS,
            options=settings.provider_options.get(id, {}),
            mark=mark,
        )

    def trust(self, use: Use, context: Context) -> Trust:
        """The provider's own word, or ours where it has no store of its own."""
        trust = use.provider.trust(use.found, context)
        if trust.state == "untrusted" and trust.by == "outfitter":
            ours = self.store.trust(use.provider.id, use.found.root, trust.digest, trust.why)
            return replace(ours, files=trust.files)
        return trust

    def vouched(self, use: Use, said: Resolution) -> Trust:
        """Whose word there is for what files suggest: their user's own, a grant, or nobody's yet."""
        if said.own or not (said.set or said.unset or said.operations):
            return Trust("not-needed")
        trust = self.store.trust(use.provider.id, use.found.root, effects_digest(use.found.root, said))
        return trust if trust.may_run else replace(trust, state="suggested")

    def _resolved(self, use: Use, context: Context, settings: Settings, trust: Trust) -> Resolution:
        """The provider's answer. Its tool sees the files that were checked, and runs in a sandbox where a
        person wants that."""
        context = replace(context, granted=trust.digest)
        if settings.confined_providers == "off" and not trust.files:
            return use.provider.resolve(use.found, context)
        from ..host.tools.within import Within
        from .frozen import frozen_files, frozen_notes, frozen_words

        if settings.confined_providers == "off":
            confine = None
        else:
            from ..errors import SettingInvalid
            from .toolneeds import confining, for_provider

            try:
                confinement = for_provider(
                    use.provider.id, settings, use.found.root, context.tool_env, context.home
                )
            except SettingInvalid as error:
                return Resolution("failed", note=str(error))
            confine = confining(confinement, os.path.dirname(self.store.folder))
        frozen = frozen_files(use.found.root, trust.files, settings)
        with Within(confine, frozen):
            said = use.provider.resolve(use.found, context)
        if said.prefix:
            said = replace(said, frozen=frozen_words(frozen))
        notes = frozen_notes(frozen)
        return replace(said, note="; ".join(filter(None, (said.note, *notes)))) if notes else said

    def _ask(self, use: Use, lower: Stack, settings: Settings, mark: int | None) -> _Known:
        context = self.context(use, lower.values, settings, mark)
        begun = time.monotonic()
        watched = tuple(dict.fromkeys(self._inputs(use, context)))
        for once_more in (True, False):
            before = settled(watched)
            trust = self.trust(use, context)
            if not trust.may_run:
                layer = _layer(use, Resolution("blocked", note=blocked(trust)), begun)
                return _Known(layer, trust, lower, settings, Fresh(watched, before, AGAIN_SECONDS))
            resolution = self._resolved(use, context, settings, trust)
            if not once_more or unchanged(watched, before):
                break
        if trust.digest:
            # A tool reads its files by their paths: if they are others by now, its answer is nobody's.
            trust = self.trust(use, context)
            if not trust.may_run:
                layer = _layer(use, Resolution("blocked", note=blocked(trust)), begun)
                fresh = Fresh(watched, settled(watched), AGAIN_SECONDS)
                return _Known(layer, trust, lower, settings, fresh)
        if trust.state == "suggested":
            trust = self.vouched(use, resolution)
        if resolution.stderr_tail:
            resolution = _masked(resolution, context, settings)
        layer = _layer(use, resolution, begun, trust.grant if trust.state == "suggested" else "")
        more = tuple(path for path in dict.fromkeys(resolution.watch) if path not in watched)
        ours = settled(more)
        after = by_now(watched, before)
        # A tool that names nothing of its own may depend on anything.
        seconds = None if resolution.watch else UNWATCHED_SECONDS
        nothing = resolution.state != "applied" and time.monotonic() - begun < QUICK_SECONDS
        if nothing or trust.state == "suggested":
            seconds = AGAIN_SECONDS
        if after != before:
            seconds = RESTLESS_SECONDS  # it writes what it depends on, or somebody is at it all the time
        fresh = Fresh(watched + more, after + ours, seconds)
        return _Known(layer, trust, lower, settings, fresh, resolution.stderr_tail)


def _is_aside(use: Use) -> bool:
    """Whether a project may have a provider's files without any thought of it."""
    versions = all(path.endswith("/.tool-versions") for path in use.found.files)  # asdf's, too
    return use.provider.id in _ASIDE and (use.provider.id != "mise" or versions)


def effects_digest(root: str, said: Resolution) -> str:
    """What stands for all that an answer does to an environment."""
    lists = [(one.variable, one.op, one.values) for one in said.operations]
    return digest_of(told_effects(root, sorted(said.set.items()), sorted(said.unset), lists))


def _layer(use: Use, said: Resolution, begun: float, awaits: str = "") -> Layer:
    applied = said.state == "applied"
    effects = said if applied else Resolution(said.state)
    return Layer(
        PROVIDER,
        use.found.label,
        Origin("provider", use.found.label, use.found.files[0] if use.found.files else None),
        effects.set,
        unset=effects.unset,
        operations=effects.operations,
        origins=effects.origins,
        secrets=effects.secrets,
        producer=use.provider.id,
        state=said.state,
        note=said.note,
        root=use.found.root if applied else None,
        digest=effects.producer,
        cost_ms=(time.monotonic() - begun) * 1000,
        prefix=effects.prefix,
        frozen=effects.frozen,
        makes=effects.makes,
        said=_without_colours(said.stderr_tail),
        lost=[(one.kind, one.name, one.kept_by) for one in effects.lost],
        awaits=awaits,
    )


def _masked(said: Resolution, context: Context, settings: Settings) -> Resolution:
    """What a tool printed without what the configuration, or the provider itself, calls secret."""
    from ..env.redact import Secrets, mask_pairs

    pairs = Secrets(settings.secret_names).among({**context.env, **said.set})
    pairs += [(name, said.set[name]) for name in said.secrets if name in said.set]
    return replace(said, stderr_tail=mask_pairs(said.stderr_tail, pairs))


def _without_colours(said: str) -> str:
    """What a tool printed, as text: it does not know that this is no terminal."""
    if "\x1b[" in said:
        from re import sub

        said = sub(r"\x1b\[[0-9;]*[mK]", "", said)
    return plain(said.replace("\r\n", "\n")).strip()


def changes(before: Layer, after: Layer) -> str:
    """What a layer does otherwise than before, by name: "+NEW ~CHANGED -GONE"."""
    old, new = _effects(before), _effects(after)
    found = [f"+{name}" for name in new if name not in old]
    found += [f"~{name}" for name in new if name in old and old[name] != new[name]]
    found += [f"-{name}" for name in old if name not in new]
    if before.state != after.state:
        found.insert(0, f"{before.state} became {after.state}")
    return " ".join(found[:_MOST_NEWS]) + (f" and {len(found) - _MOST_NEWS} more" * (len(found) > _MOST_NEWS))


def _effects(layer: Layer) -> dict[str, object]:
    found: dict[str, object] = dict(layer.values)
    found.update(dict.fromkeys(layer.unset))
    for one in layer.operations:
        found[one.variable] = (found.get(one.variable), one.op, one.values)
    return found


def _same(use: Use, one: Settings, other: Settings) -> bool:
    """Whether two settings want the same of a provider."""
    id = use.provider.id
    return one is other or (
        one.provider_options.get(id) == other.provider_options.get(id)
        and (one.confined_providers, one.freeze) == (other.confined_providers, other.freeze)
        and one.provider_modes.get(id) == other.provider_modes.get(id)
    )


def check_needed(layers: Sequence[Layer], uses: Sequence[Use], settings: Settings) -> None:
    """Raises ProviderFailed for one that the project requires, and that is not there at all.

    What the user's own file requires is required where it is found: it applies to every folder there is.
    """
    for id in sorted(settings.needed_providers.difference(layer.producer for layer in layers)):
        source = settings.sources["providers.required"]
        if any(use.provider.id == id for use in uses):
            why = f"a different provider is active here: list both in `use`, in their order ({source})"
        else:
            why = f"none of its files were found: create them, or remove it from `required` ({source})"
        raise ProviderFailed(id, os.path.dirname(source.file), why)


def _check(use: Use, known: _Known, settings: Settings) -> None:
    """Raises what keeps commands from being started."""
    state = known.layer.state
    fail = settings.on_provider_failure == "fail"
    if state == "blocked" and (use.required or fail):
        raise ProviderBlocked(use.provider.id, use.found.root, known.trust.grant, known.trust.why)
    if (use.required and state != "applied") or (fail and state == "failed"):
        raise ProviderFailed(use.provider.id, use.found.root, known.layer.note, known.tail)
