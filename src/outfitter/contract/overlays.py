"""The session's layers (L5) of one executor: named overlays, what the user keeps, what sessions were given.

Named overlays stand in the configuration and are asked for by a command. What the user keeps is on disk, for
one worktree, without secrets. What sessions were given is in memory; what of it is neither secret nor a
hook's is on disk as well, for the next server (`keptscopes`).
"""

from __future__ import annotations

from ..core.quotas import Sharing
from ..env.layer import RUNTIME_LEVEL, SESSION, Layer
from ..env.names import PARENT_SCOPE, SCOPE
from ..env.origin import RUNTIME, Origin
from ..env.overlay import Contribution, Overlay, Rejection, why_no_producer
from ..errors import InvalidParams, OverlaysFull, OverlayUnknown, ScopeUnknown
from .keptoverlays import KeptOverlays
from .keptscopes import KeptScopes
from .layers import env_layer, policy_of, rules_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from ..env.lifecycle import Outcome
    from .settings import Settings

# Sessions that are remembered: as many as a server has, if each has one thread.
SCOPES = 256
# Producers of one of them: hooks and plugins of a person, several times over.
CONTRIBUTIONS = 64
# The most that one of them may have: the largest environment there is, unless somebody configures another.
SCOPE_BYTES = 1 << 20
# The most that all of them may have together.
ALL_SCOPES_BYTES = 64 << 20
_COPY = "/"  # between the name of a session and that of a copy of it
LONGEST_SCOPE = 256  # characters; a thread's id has 36
_NAMED = 256  # layers of named overlays that are remembered
_LOOKED_FOR = 4096  # names of which it is remembered that nothing, or nothing more, is kept; 300 bytes each


class Overlays:
    """Where layers of level 5 come from."""

    def __init__(self, state_folder: str) -> None:
        self.kept = KeptOverlays(state_folder)
        self.scopes = Scopes(shelf=_Shelf(kept=KeptScopes(state_folder)))
        # With the settings that it was made of, so that their identity stays taken.
        self._named: dict[tuple[int, str], tuple[Settings, Layer, str]] = {}

    def layers(
        self,
        directory: str,
        scope: str | None,
        names: Sequence[str],
        settings: Settings,
        principal: str = "",
        awaits: str = "",
    ) -> tuple[Layer, ...]:
        """Named overlays in the order given, then what the user keeps here, then what the session was given.

        `principal` is whose scope it is; `awaits` is what a person types to allow the overlays of the
        project's file. The same objects while nothing has changed. Raises OverlayUnknown, FileInvalid,
        InvalidParams.
        """
        found: tuple[Layer, ...] = ()
        if names:
            found = tuple(self._layer(name, settings, awaits) for name in dict.fromkeys(names))
        if self.kept.any:
            found += self.kept.overlay(directory).layers
        if scope is not None:
            if why := why_no_scope(scope):
                raise InvalidParams(why)
            scopes = self.scopes.of(principal)
            found += scopes.layers(scope)
        return found

    def _layer(self, name: str, settings: Settings, awaits: str) -> Layer:
        known = self._named.get((id(settings), name))
        if known is not None and known[2] == awaits:
            return known[1]
        said = settings.overlays.get(name)
        if said is None:
            raise OverlayUnknown(name, tuple(settings.overlays))
        if len(self._named) >= _NAMED:
            del self._named[next(iter(self._named))]
        kind, table = said
        layer = env_layer(
            SESSION,
            f"named:{name}",
            table,
            kind=kind,
            table=f"[overlays.{name}]",
            # A project's is allowed what its file is, whatever it is called.
            producer=f"named:{name}" if kind == "user" else "project",
            awaits="" if kind == "user" else awaits,
        )
        self._named[(id(settings), name)] = (settings, layer, awaits)
        return layer


def refusals(
    contribution: Contribution, settings: Settings, withheld: frozenset[str] = frozenset()
) -> tuple[Rejection, ...]:
    """What the rules for scripts are against, in words for its producer; those of a project come on top.

    `withheld` are the names that a fork shall not have. What would make PATH useless is refused as "path".
    """
    from ..env.lists import entry_mistake, path_mistake
    from ..env.resolve import Stack

    said = settings.user_policy
    policies = [] if said is None else [policy_of("user", said)]
    refused = Stack((contribution.layer(),), policies, rules_of(settings)).refused
    found = [Rejection(contribution.producer, one.name, one.reason, one.why) for one in refused]
    path = contribution.values.get("PATH")
    wrong = [] if path is None else [path_mistake(path)]
    for operation in contribution.operations:
        if operation.variable == "PATH" and operation.op != "remove":
            wrong += map(entry_mistake, operation.values)
    if why := next(filter(None, wrong), ""):
        found.append(Rejection(contribution.producer, "PATH", "path", why))
    why = "removed when this session was forked; a fork may have less than its parent, never more"
    names = [name for name in contribution.names if name in withheld]
    return (*found, *(Rejection(contribution.producer, name, "narrowed", why) for name in names))


# In memory


class _Scope:
    """One session's overlay, and who made it. `missing` are names that a restart has taken, by producer."""

    __slots__ = ("layer", "layers", "missing", "overlay", "owner", "size")

    def __init__(
        self, overlay: Overlay, owner: object, missing: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self.overlay = overlay
        self.owner = owner
        self.missing = missing or {}
        self.layers = (*overlay.layers, *_gap(self.missing))
        self.size = overlay.size  # which is asked for whenever another one changes
        self.layer = _told(overlay)


class _Shelf:
    """The scopes of all principals. The one that was used last comes last."""

    def __init__(self, sharing: Sharing | None = None, kept: KeptScopes | None = None) -> None:
        self.kept = kept
        self.looked_for: set[tuple[str, str]] = set()  # among what is kept
        self.scopes: dict[tuple[str, str], _Scope] = {}
        self.is_alive: Callable[[object], bool] = lambda owner: True
        self.sharing = sharing or Sharing()
        self.missing: dict[str, Layer] = {}  # by name: what is told of those that do not exist


class Scopes:
    """What sessions were given, by the id that their clients chose: a thread's, say.

    Those of one principal: another one's do not exist here, and may have the same ids.

    A client may come and go, and its thread goes on: so a scope outlives the connection and the session that
    made it. What is bounded is their number. When there is no room, the one that was not used for longest
    goes, of those whose maker is gone (`is_alive`); what somebody may still rely on is never dropped.

    What a server before this one has kept of a scope is restored when somebody names it. PARENT/NAME is a
    copy, and exists because a fork has made it: one that is not there, because the server is another one by
    now, is refused. Nobody can say what it was not to have.
    """

    def __init__(self, principal: str = "", shelf: _Shelf | None = None) -> None:
        self.principal = principal
        self._shelf = shelf or _Shelf()
        self._scopes = self._shelf.scopes
        self._nothing = Overlay()

    def of(self, principal: str) -> Scopes:
        """Those of another principal."""
        return self if principal == self.principal else Scopes(principal, self._shelf)

    def share(self, sharing: Sharing, is_alive: Callable[[object], bool]) -> None:
        """Says whether there are several principals, and which makers of scopes still use them."""
        self._shelf.sharing, self._shelf.is_alive = sharing, is_alive

    def __len__(self) -> int:
        return sum(principal == self.principal for principal, _ in self._scopes)

    def __contains__(self, scope: str) -> bool:
        return self._find(scope) is not None

    def _find(self, scope: str) -> _Scope | None:
        key = (self.principal, scope)
        known = self._scopes.get(key)
        kept, looked_for = self._shelf.kept, self._shelf.looked_for
        if known is None and kept is not None and kept.any and key not in looked_for and _COPY not in scope:
            if len(looked_for) >= _LOOKED_FOR:
                looked_for.clear()
            restored = kept.read(*key)
            looked_for.add(key)
            if restored is not None:
                overlay, missing = restored
                try:
                    self._keep(scope, overlay, None, missing)
                except OverlaysFull:
                    return None  # as one that nobody has kept: it is told that it has nothing
                known = self._scopes[key]
        return known

    def layers(self, scope: str) -> tuple[Layer, ...]:
        """What a session has, and a word about what it lacks. Raises ScopeUnknown."""
        if scope not in self and _COPY not in scope:
            return (self.missing(scope),)
        self.get(scope)
        return self._scopes[self.principal, scope].layers

    def keeps(self, scope: str) -> bool:
        """Whether a session is one that the next server is to know."""
        return self._shelf.kept is not None and _COPY not in scope

    def remember(self, scope: str, hidden: Collection[str]) -> None:
        """Keeps what a session has now for the next server, without the variables that are `hidden`."""
        assert self._shelf.kept is not None
        known = self._scopes.get((self.principal, scope))
        self._shelf.kept.write(self.principal, scope, None if known is None else known.overlay, hidden)

    def get(self, scope: str) -> Overlay:
        """What a session has; an empty overlay for one that was given nothing. Raises ScopeUnknown."""
        key = (self.principal, scope)
        known = self._find(scope)
        if known is None:
            if _COPY in scope:
                raise ScopeUnknown(scope)
            return self._nothing
        if next(reversed(self._scopes)) != key:
            self._scopes[key] = self._scopes.pop(key)
        return known.overlay

    def is_made_by(self, owner: object, scope: str) -> bool:
        """Whether this owner made a scope, or the one that it is a copy of."""
        names = (scope, scope.rpartition(_COPY)[0])
        found = [self._scopes.get((self.principal, name)) for name in names]
        return any(one is not None and one.owner == owner for one in found)

    def missing(self, scope: str) -> Layer:
        """A layer that says that a session was given nothing; the same object for the same name."""
        known = self._shelf.missing.get(scope)
        if known is None:
            if len(self._shelf.missing) >= SCOPES:
                del self._shelf.missing[next(iter(self._shelf.missing))]
            note = (
                f"nothing was given to `{scope}` on this server; if something was, it was lost with the "
                "server that had it: put it again"
            )
            origin = Origin("overlay", "of a session that this server does not know")
            # Two sessions that are alike differ in their names, not in what their environments are made of.
            known = Layer(SESSION, "scope", origin, state="missing", note=note)
            self._shelf.missing[scope] = known
        return known

    def runtime(self, scope: str) -> Layer:
        known = self._scopes.get((self.principal, scope))
        return _told(Overlay(id=scope)) if known is None else known.layer

    def put(
        self,
        scope: str,
        contribution: Contribution,
        owner: object = None,
        *,
        merge: bool = False,
        order: Sequence[str] = (),
    ) -> Overlay:
        """Takes a contribution in place of its producer's former one; with `merge`, on top of it.

        `order` is that in which producers are configured. Raises InvalidParams, OverlaysFull.
        """
        why = why_no_scope(scope) or why_no_producer(contribution.producer)
        if why:
            raise InvalidParams(why)
        if contribution.kind == "named":
            raise InvalidParams("named overlays are in the configuration: choose them with `overlays`")
        before = self._of(scope)
        overlay = before.put(contribution.without(before.withheld), merge=merge)
        if order:
            overlay = overlay.arranged(order)
        said = contribution.names if merge else ()
        return self._keep(scope, overlay, owner, self._still_missing(scope, contribution.producer, said))

    def _still_missing(
        self, scope: str, producer: str, names: Sequence[str] = ()
    ) -> dict[str, Sequence[str]]:
        """Without what a producer has spoken of again: all, or some names."""
        known = self._scopes.get((self.principal, scope))
        missing = dict(known.missing) if known is not None else {}
        if producer in missing:
            missing[producer] = [name for name in missing[producer] if names and name not in names]
        return {one: left for one, left in missing.items() if left}

    def drop(self, scope: str, producer: str, names: Sequence[str] = ()) -> bool:
        """Forgets a producer, or what it said of some variables; whether there was anything."""
        overlay = self.get(scope)
        after = overlay.drop(producer, names)
        if after is overlay:
            return False
        if after.contributions or after.withheld or _COPY in scope:
            key = (self.principal, scope)
            missing = self._still_missing(scope, producer, names)
            self._scopes[key] = _Scope(after, self._scopes[key].owner, missing)
        else:
            self.end(scope)
        return True

    def end(self, scope: str) -> bool:
        """Forgets all of a session, what it may not have included; whether there was anything."""
        key = (self.principal, scope)
        if self._scopes.pop(key, None) is None:
            return False
        if self._shelf.kept is not None and self._shelf.kept.any:
            self._shelf.looked_for.add(key)  # its file is still there, and would bring it back
        return True

    def happened(
        self, scope: str, event: str, settings: Settings, owner: object = None, **more: object
    ) -> Outcome:
        """Applies an event of `env.lifecycle`. Raises InvalidParams, OverlaysFull."""
        from ..env.lifecycle import happened
        from ..env.redact import Secrets

        if why := why_no_scope(scope):  # the commands of a copy would get it as a variable
            raise InvalidParams(why)
        try:
            outcome = happened(self._of(scope), event, secrets=Secrets(settings.secret_names), **more)  # type: ignore[arg-type]
        except ValueError as error:
            raise InvalidParams(f"{error}: name it in `to`") from None
        if outcome.overlay.id != scope:
            if _COPY in outcome.overlay.id and outcome.overlay.id.rpartition(_COPY)[0] != scope:
                raise InvalidParams(f"`to` contains `{_COPY}`: write `{scope}{_COPY}NAME`")
            if outcome.overlay.id in self:
                raise InvalidParams("the scope in `to` already exists: choose a new name")
            self._keep(outcome.overlay.id, outcome.overlay, owner)
        elif outcome.overlay is not self.get(scope) and scope in self:
            # Whom a session has let go of, it does not miss.
            there = [one.producer for one in outcome.overlay.contributions]
            missing = {one: self._scopes[self.principal, scope].missing.get(one, ()) for one in there}
            missing = {one: names for one, names in missing.items() if names}
            self._keep(outcome.overlay.id, outcome.overlay, owner, missing)
        return outcome

    def _of(self, scope: str) -> Overlay:
        return self.get(scope) if scope in self or _COPY in scope else Overlay(id=scope)

    def _keep(
        self,
        scope: str,
        overlay: Overlay,
        owner: object,
        missing: Mapping[str, Sequence[str]] | None = None,
    ) -> Overlay:
        why = why_no_scope(scope)
        if why:
            raise InvalidParams(why)
        if len(overlay.contributions) > CONTRIBUTIONS:
            raise OverlaysFull("producers in a scope", CONTRIBUTIONS)
        new = _Scope(overlay, owner, missing)
        if new.size > SCOPE_BYTES:
            raise OverlaysFull("bytes in a scope", SCOPE_BYTES)
        key = (self.principal, scope)
        if key not in self._scopes:
            self._make_room("scopes", SCOPES, 1, key, lambda _: 1)
        self._make_room("bytes in all scopes", ALL_SCOPES_BYTES, new.size, key, lambda one: one.size)
        known = self._scopes.pop(key, None)
        if known is not None and self._shelf.is_alive(known.owner):
            new.owner = known.owner  # who adds a word to another's session does not take it away from him
        self._scopes[key] = new
        return overlay

    def _make_room(
        self, what: str, limit: int, amount: int, spared: tuple[str, str], size: Callable[[_Scope], int]
    ) -> None:
        """Drops scopes that nobody can be using until there is room for one more. Raises OverlaysFull.

        What can be dropped counts as free: a principal may keep in use no more than that.
        """
        sizes = {key: size(one) for key, one in self._scopes.items() if key != spared}
        held = sum(sizes.values())
        if not self._shelf.sharing.several and held + amount <= limit:
            return
        unused = [key for key in sizes if not self._shelf.is_alive(self._scopes[key].owner)]
        gone = set(unused)
        used = held - sum(sizes[key] for key in unused)
        mine = sum(sizes[key] for key in sizes if key[0] == self.principal and key not in gone)
        if not self._shelf.sharing.allows(limit, used, mine, amount):
            # With room left, it is the others' room.
            raise OverlaysFull(what, limit, mine if used + amount <= limit else None)
        # Those that were to have less come last: without a word about them, they would have everything.
        unused.sort(key=lambda key: bool(self._scopes[key].overlay.withheld))
        for key in unused:
            if held + amount <= limit:
                break
            held -= sizes[key]
            del self._scopes[key]
            self._shelf.looked_for.discard(key)  # what is kept of it is there when somebody comes back


def why_no_scope(scope: str) -> str:
    """What is wrong with a scope's name; empty when nothing is."""
    if 0 < len(scope) <= LONGEST_SCOPE and scope.isprintable():
        return ""
    return f"a scope must be printable and have 1 to {LONGEST_SCOPE} characters"


def _told(overlay: Overlay) -> Layer:
    values = {SCOPE: overlay.id}
    if overlay.parent:
        values[PARENT_SCOPE] = overlay.parent
    return Layer(RUNTIME_LEVEL, "scope", RUNTIME, values)


def _gap(missing: Mapping[str, Sequence[str]]) -> tuple[Layer, ...]:
    """A word about what was not kept when the server was another one."""
    if not missing:
        return ()
    named = "; ".join(f"{producer}: {', '.join(sorted(names))}" for producer, names in missing.items())
    note = (
        f"restored after a restart of the server, without secrets and without what hooks had set ({named}): "
        "put it again"
    )
    origin = Origin("overlay", "of a session that a server before this one had")
    return (Layer(SESSION, "scope", origin, state="missing", note=note),)
