"""The setup of a worktree: run once, allowed by a person, and captured as layer 4.

It runs again when what it depends on changes: its declaration, its script, its inputs. A change of the layers
below is none of these. A worktree that was removed and made again at the same path is another one. A failed
setup is remembered and not repeated either. A warm command costs a few calls of stat. Values that are secret
are in no file: a server has them in its memory, other processes in the kernel's keyring. Where they are in
neither, another process runs it again.
"""

from __future__ import annotations

import os
import time
from hashlib import sha256
from json import dumps
from shlex import quote

from ...env.layer import SETUP, Layer
from ...env.lists import LIST_NAMES
from ...env.origin import Origin
from ...env.redact import SHORTEST_MASKED, Secrets
from ...errors import SettingInvalid, SetupBlocked, SetupFailed
from ...record import record, replace
from ...shell.sourced import MaskedLines, changes
from ..freshness import Fresh, settled, stamps
from ..trust import blocked
from ..worktree import identity, source_tree
from . import inputs, secrets
from .plan import make_plan, watched
from .runs import SetupFiles, SetupRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ...env.resolve import Stack
    from ...host.tools.within import Within
    from ...providers.base import Trust
    from ...shell.sourced import ScriptChanges
    from ..freshness import Stamps
    from ..settings import Settings, SetupSettings
    from ..trust import TrustStore
    from .plan import SetupPlan

PROVIDER = "setup"  # in our store of trust
WORKTREE, SOURCE_TREE = "OUTFITTER_WORKTREE", "OUTFITTER_SOURCE_TREE"
_CODEX_NAMES = ("CODEX_WORKTREE_PATH", "CODEX_SOURCE_TREE_PATH")
# Worktrees that are remembered; each has what its setup exports.
REMEMBERED_SETUPS = 64
# What may be over soon (no bash, somebody else at it, no descriptor to read the grant) is tried again after
# this long.
RETRY_SECONDS = 10.0
KILLED_SECONDS = 1.0  # what somebody killed, sooner
_LOCK_SECONDS = 10.0  # beyond the other's own time
_TAIL = 4 << 10


@record
class SetupUse:
    """A worktree with a declared setup."""

    worktree: str
    declared: SetupSettings

    @property
    def key(self) -> tuple[str, str]:
        return PROVIDER, self.worktree

    @property
    def grant(self) -> str:
        """What a person types to allow it."""
        return f"outfitter trust {quote(self.worktree)}"

    @property
    def remedy(self) -> str:
        """What a person types once it is mended."""
        return f"outfitter setup --again {quote(self.worktree)}"


@record
class SetupStatus:
    """How it is with a setup; nothing was run to know it.

    `state` is "blocked", "new", "running", "interrupted", "stale" (what it depends on has changed),
    "applied", "failed" or "not-applicable"; `note` says more. `kept` is the last run, `plan` what would be
    run, `log` where the output of the last run is.
    """

    worktree: str
    state: str
    note: str
    kept: SetupRun | None
    plan: SetupPlan | None
    log: str


class Setups:
    """The setups of one executor.

    `log` gets the lines that a setup prints while it runs, without known secrets; `again` makes the next one
    run whatever is known of it. Both are for a command of our own. `shares_secrets`: what it exports and may
    not be on a disk is kept in the kernel's keyring, for the processes that follow this one.
    """

    def __init__(
        self, store: TrustStore, state_folder: str, home: str, *, shares_secrets: bool = False
    ) -> None:
        self.store = store
        self.shares_secrets = shares_secrets
        self.log: Callable[[str], None] | None = None
        self.again = False
        self.state_folder = state_folder
        self.home = home
        self._known: dict[str, _Known] = {}
        # What the version before this one has left, by worktree, until it is needed.
        self.left: dict[str, dict[str, Any]] = {}

    @property
    def secrets(self) -> dict[str, dict[str, Any]]:
        """What is in no file, by worktree, for the next version of a server."""
        found = dict(self.left)
        for worktree, known in list(self._known.items()):
            if known.kept is not None and known.kept.withheld and known.layer.state == "applied":
                found[worktree] = secrets.told(known.kept, known.layer.values, known.layer.operations)
        return found

    def use(self, directory: str, settings: Settings) -> SetupUse | None:
        """The setup for commands in a directory; None when none is declared."""
        if settings.setup is None:
            return None
        return SetupUse(settings.setup.folder, settings.setup)

    def pending(self, use: SetupUse) -> bool:
        """Whether it must be looked at, and perhaps run, which takes its time."""
        known = self._known.get(use.worktree)
        return known is None or not known.holds(use)

    def run(self, use: SetupUse, lower: Stack, settings: Settings, mark: int | None = None) -> None:
        """Runs it if it must, and remembers what came of it. Blocks; for a thread, or a process of our own.

        `mark` is one of a server's, for what is started.
        """
        again, self.again = self.again, False
        work = _Work(self, use, lower, settings, mark)
        known = work.done(self._known.get(use.worktree), again=again)
        if len(self._known) >= REMEMBERED_SETUPS and use.worktree not in self._known:
            self._known.pop(next(iter(self._known)), None)  # others may be at it in their own threads
        self._known[use.worktree] = known
        self.left.pop(use.worktree, None)

    def layer(self, use: SetupUse) -> Layer:
        """What it exports; the same object until that changes.

        Raises SetupBlocked, SetupFailed where no command may run without it.
        """
        known = self._known.get(use.worktree)
        assert known is not None, "run before"
        if use.declared.required and known.layer.state == "blocked":
            raise SetupBlocked(use.worktree, use.grant)
        if use.declared.required and known.layer.state == "failed":
            reason, log = known.layer.note, ""
            if known.kept is not None:
                reason, log = known.kept.reason, self.place(use).log
            raise SetupFailed(use.worktree, reason, log, known.tail)
        return known.layer

    # For people

    def last(self, use: SetupUse) -> tuple[str, str]:
        """How it was when it was looked at here, and what there is to say about that."""
        known = self._known.get(use.worktree)
        return ("", "") if known is None else (known.layer.state, known.layer.note)

    def place(self, use: SetupUse) -> SetupFiles:
        """Where its record and its log are."""
        return SetupFiles(self.state_folder, use.worktree)

    def status(self, use: SetupUse) -> SetupStatus:
        """How it is; runs nothing and waits for nobody."""
        place = self.place(use)
        kept = place.read()
        log = place.log if os.path.exists(place.log) else ""
        try:
            plan = make_plan(use.declared)
            digest = _digest(plan, inputs.read(use.worktree, use.declared.inputs).digests)
        except SettingInvalid as error:
            return SetupStatus(use.worktree, "failed", str(error), kept, None, log)

        def told(state: str, note: str = "") -> SetupStatus:
            return SetupStatus(use.worktree, state, note, kept, plan, log)

        if not plan.script and not plan.text:
            return told("not-applicable", "the setup has nothing to run")
        if place.is_locked():
            return told("running")
        trust = trust_of(self.store, use, plan)
        if not trust.may_run:
            return told("blocked", blocked(trust))
        if kept is None:
            return told("new", "it runs before the first command")
        if kept.identity != identity(use.worktree):
            return told("new", "the worktree was made again: it runs before the first command")
        if kept.state == "running":
            return told("interrupted", "it was interrupted, and runs again before the next command")
        if kept.digest != digest:
            return told("stale", "its inputs have changed: it runs again before the next command")
        return told(kept.state, kept.reason)


def trust_of(store: TrustStore, use: SetupUse, plan: SetupPlan) -> Trust:
    """Whether it may run here, and what to type."""
    return store.trust(PROVIDER, use.worktree, plan.digest)


@record
class _Known:
    """What came of a setup, and what that depends on. `kept` is its run, `tail` the end of the run's log."""

    declared: SetupSettings
    layer: Layer
    fresh: Fresh
    kept: SetupRun | None = None
    tail: str = ""

    def holds(self, use: SetupUse) -> bool:
        return (use.declared is self.declared or use.declared == self.declared) and self.fresh.holds()


class _Work:
    """One look at a setup, and the run that comes of it."""

    def __init__(
        self, setups: Setups, use: SetupUse, lower: Stack, settings: Settings, mark: int | None
    ) -> None:
        self._store = setups.store
        self._use = use
        self._lower = lower
        self._mark = mark
        self._log = setups.log
        self._shares_secrets = setups.shares_secrets
        self._left = setups.left.get(use.worktree)
        self._home = setups.home
        self._settings = settings
        self._state_folder = setups.state_folder
        self._place = setups.place(use)
        self._list_names = LIST_NAMES | settings.list_names
        # What a layer below calls secret is, whatever its name.
        named = [name for layer in lower.layers for name in layer.secrets]
        self._secrets = Secrets((*settings.secret_names, *named))
        self._identity = identity(use.worktree)
        source = source_tree(use.worktree)
        self._own = {WORKTREE: use.worktree, SOURCE_TREE: source}
        if use.declared.source == "codex":
            self._own.update(zip(_CODEX_NAMES, (use.worktree, source), strict=True))
        self._begun = time.monotonic()

    def done(self, old: _Known | None, *, again: bool) -> _Known:
        use = self._use
        try:
            watch = self._watch()
            before = settled(watch)
            plan = make_plan(use.declared)
            found = inputs.read(use.worktree, use.declared.inputs)
        except SettingInvalid as error:
            watch = watched(use.declared)
            return self._for_now(str(error), watch, settled(watch))
        if not plan.script and not plan.text:
            layer = self._empty("not-applicable", f"{plan.label} has nothing to run")
            return _Known(use.declared, layer, Fresh(watch, before))
        trust = trust_of(self._store, use, plan)
        if not trust.may_run:
            return self._for_now(blocked(trust), watch, before, state="blocked")
        digest = _digest(plan, found.digests)
        if old is not None and not again and self._still_holds(old, digest):
            return replace(old, declared=use.declared, fresh=Fresh(watch, before))
        try:
            return self._once(_Look(plan, digest, found.digests, watch, before), again=again)
        except SettingInvalid as error:
            return self._for_now(str(error), watch, before)

    def _watch(self) -> tuple[str, ...]:
        """Everything that counts; the record comes last."""
        use = self._use
        _, files = inputs.find(use.worktree, use.declared.inputs)
        trust = self._store.path(PROVIDER, use.worktree)
        return (*dict.fromkeys((*watched(use.declared), *files, trust)), self._place.record)

    def _still_holds(self, old: _Known, digest: str) -> bool:
        """Whether nothing but stamps has changed; or another process is at it, or has secrets of its own."""
        if old.kept is None or not self._is_about(old.kept, digest):
            return False
        kept = self._place.read()
        if kept is None or kept.run == old.kept.run:
            return True
        if kept.state == "running":
            return self._place.is_locked()
        return bool(kept.withheld) and old.kept.state == "applied"

    def _is_about(self, kept: SetupRun, digest: str) -> bool:
        """Whether it ran in this worktree, not in a former one of the same path, with the same inputs."""
        return kept.digest == digest and kept.identity == self._identity

    def _once(self, look: _Look, *, again: bool) -> _Known:
        """Under the lock: what another process has made of it, or what we make of it."""
        try:
            lock = self._place.locked(self._begun + self._use.declared.timeout + _LOCK_SECONDS)
        except SettingInvalid:
            # Nobody can write there, as in a sandbox: the record that is there is used all the same.
            kept = None if again else self._place.read()
            if kept is None or not self._is_about(kept, look.digest):
                raise
            if kept.state == "running":
                raise
            found = self._recalled(kept)
            if found is None:
                raise
            return self._known(kept, look, found)
        if lock is None:
            why = "another process has been running it for longer than its timeout"
            return self._for_now(why, look.watch, self._stamped(look))
        with lock:
            if stamps((self._place.record,)) == look.stamps[-1:]:
                return self._alone(look, again=again)
        # Somebody was at it meanwhile, and may have changed the inputs.
        return self.done(None, again=again)

    def _alone(self, look: _Look, *, again: bool) -> _Known:
        kept = self._place.read()
        why = ""
        if kept is not None and not again and kept.state != "running" and self._is_about(kept, look.digest):
            found = self._recalled(kept)
            if found is not None:
                return self._known(kept, look, found)
            why = f"run again: {', '.join(kept.withheld)} is secret and never written to disk"
        return self._run(look, why)

    def _within(self, env: Mapping[str, str]) -> Within:
        """The sandbox that a person wants it in. Raises SettingInvalid."""
        from ...host.tools.within import Within
        from ..toolneeds import confining, for_setup

        return Within(confining(for_setup(self._settings, self._use.worktree, env), self._state_folder))

    def _run(self, look: _Look, why: str) -> _Known:
        from ...host.tools.capture import capture

        use, plan = self._use, look.plan
        begun_ms, run = int(time.time() * 1000), os.urandom(8).hex()
        env = {"HOME": self._home, **self._lower.values, **self._own}
        within = self._within(env)
        # Who finds this one, and nobody at it, knows that it was cut off.
        self._place.write(
            SetupRun(
                use.worktree,
                "running",
                look.digest,
                plan.label,
                run=run,
                begun_ms=begun_ms,
                identity=self._identity,
            )
        )
        lines = None if self._log is None else MaskedLines(env, self._secrets, self._log)
        with within:
            result = capture(
                plan.script or plan.text,
                inline=not plan.script,
                content=plan.content if plan.script else None,
                cwd=use.worktree,
                env=env,
                timeout=use.declared.timeout,
                mark=self._mark,
                log=None if lines is None else lines.feed,
                secrets=self._secrets,
            )
        if lines is not None:
            lines.finish()
        if result.state == "not-started":
            self._place.forget()
            return self._for_now(result.reason, look.watch, self._stamped(look))
        said = changes(env, env if result.env is None else result.env, self._list_names, _CODEX_NAMES)
        secret = self._secret_among(said, env)
        look, changed = self._changed(look)
        kept = SetupRun(
            use.worktree,
            "failed" if result.env is None else "applied",
            look.digest,
            plan.label,
            run=run,
            begun_ms=begun_ms,
            identity=self._identity,
            seconds=result.seconds,
            outcome=result.state,
            exit_code=result.status,
            reason=result.reason,
            inputs=look.digests,
            changed=changed,
            set={name: value for name, value in said.set.items() if name not in secret},
            unset=said.unset,
            operations=tuple(one for one in said.operations if one.variable not in secret),
            withheld=tuple(sorted(secret)),
            lost=tuple((one.kind, one.name) for one in result.lost),
        )
        cut = "[earlier output is left out]\n" if result.cut else ""
        try:
            self._place.write_log(cut + result.output)
        except SettingInvalid as error:
            why = f"{why}; {error}" if why else str(error)  # the record is smaller, and counts more
        if result.status is not None and result.status < 0:
            # With its session, say: that tells nothing about the next time. The record has it as cut off.
            return self._for_now(result.reason, look.watch, self._stamped(look), KILLED_SECONDS)
        try:
            self._place.write(kept)
        except SettingInvalid as error:
            why = f"{why}; {error}" if why and str(error) not in why else str(error)
        if self._shares_secrets:
            secrets.keep(self._place, kept, said)
        return self._known(kept, look, said, why)

    def _recalled(self, kept: SetupRun) -> ScriptChanges | SetupRun | None:
        """All that a run exports; None when what is secret of it is not to be had."""
        if not kept.withheld:
            return kept
        left = None if self._left is None else secrets.read(kept, self._left)
        return secrets.recalled(self._place, kept) if left is None else left

    def _changed(self, look: _Look) -> tuple[_Look, tuple[str, ...]]:
        """The inputs that are others now than before it ran. From now on they count as they are.

        Else a setup that writes a lock would run for ever.
        """
        try:
            watch = self._watch()
            stamps = settled(watch)
            after = inputs.read(self._use.worktree, self._use.declared.inputs).digests
        except SettingInvalid:
            return look, ()  # told when it is looked at next
        changed = sorted(
            path for path in {*after, *look.digests} if after.get(path) != look.digests.get(path)
        )
        if changed:
            look = _Look(look.plan, _digest(look.plan, after), after, watch, stamps)
        return look, tuple(changed)

    def _secret_among(self, said: ScriptChanges, env: Mapping[str, str]) -> frozenset[str]:
        """The exports that are secret: by their names, by their looks, or because a secret is in them."""
        holds = self._secrets.holds
        known = {value for name, value in (*env.items(), *said.set.items()) if holds(name, value)}
        known = {value for value in known if len(value) >= SHORTEST_MASKED}
        texts = [*said.set.items(), *((one.variable, text) for one in said.operations for text in one.values)]
        return frozenset(
            name for name, text in texts if holds(name, text) or any(value in text for value in known)
        )

    # What it comes to

    def _known(self, kept: SetupRun, look: _Look, said: ScriptChanges | SetupRun, why: str = "") -> _Known:
        """`said` has everything; a record lacks what is secret."""
        tail = ""
        if kept.state == "failed":
            note = f"{kept.reason}; its output is in {self._place.log}"
            layer = self._empty("failed", f"{note}; fix it, then type: {self._use.remedy}")
            tail = self._place.read_log(_TAIL)
        else:
            layer = self._applied(kept, look.plan, said, why)
        fresh = Fresh(look.watch, self._stamped(look))
        return _Known(self._use.declared, layer, fresh, kept, tail)

    def _applied(self, kept: SetupRun, plan: SetupPlan, said: ScriptChanges | SetupRun, why: str) -> Layer:
        notes = [f"{kept.label}, {kept.seconds:.1f} s"]
        if why:
            notes.append(why)
        if kept.changed:
            notes.append(f"it changed its own inputs: {', '.join(kept.changed)}")
        if kept.lost:
            notes.append("left in its shell: " + ", ".join(f"{kind} {name}" for kind, name in kept.lost[:8]))
        return Layer(
            SETUP,
            f"setup:{self._use.worktree}",
            Origin("setup", kept.label, plan.files[0]),
            {**self._own, **said.set},
            unset=said.unset,
            operations=said.operations,
            secrets=frozenset(kept.withheld),
            producer=PROVIDER,
            note="; ".join(notes),
            root=self._use.worktree,
            digest=kept.digest,
            cost_ms=kept.seconds * 1000,
        )

    def _empty(self, state: str, note: str) -> Layer:
        cost = (time.monotonic() - self._begun) * 1000
        origin = Origin("setup", "[setup]", self._use.declared.file)
        id = f"setup:{self._use.worktree}"
        return Layer(SETUP, id, origin, producer=PROVIDER, state=state, note=note, cost_ms=cost)

    def _stamped(self, look: _Look) -> Stamps:
        """What was there before it ran, but for the record, which was written since."""
        return (*look.stamps[:-1], *stamps((self._place.record,)))

    def _for_now(
        self,
        why: str,
        watch: tuple[str, ...],
        stamps: Stamps,
        seconds: float = RETRY_SECONDS,
        state: str = "failed",
    ) -> _Known:
        """What says nothing about the setup: it is tried again soon."""
        return _Known(self._use.declared, self._empty(state, why), Fresh(watch, stamps, seconds))


@record
class _Look:
    """A setup as it was found."""

    plan: SetupPlan
    digest: str
    digests: Mapping[str, str | None]
    watch: tuple[str, ...]
    stamps: Stamps


def _digest(plan: SetupPlan, digests: Mapping[str, str | None]) -> str:
    """What stands for all that it depends on."""
    told = dumps([plan.digest, sorted(digests.items())])
    return f"sha256:{sha256(told.encode()).hexdigest()}"
