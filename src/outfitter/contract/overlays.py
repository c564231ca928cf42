"""The session's layers (L5) of one executor: named overlays, what the user keeps, what sessions were given.

Named overlays stand in the configuration and are asked for by a command. What the user keeps is on disk, for
one worktree, without secrets. What sessions were given is in memory only: it ends with the process.
"""

from __future__ import annotations

import os

from ..env.layer import RUNTIME_LEVEL, SESSION, Layer, Operation
from ..env.names import PARENT_SCOPE, SCOPE
from ..env.origin import RUNTIME, Origin
from ..env.overlay import Contribution, Overlay, Rejection, encode, read, why_no_producer
from ..errors import InvalidParams, OverlaysFull, OverlayUnknown, ScopeUnknown
from .freshness import lasting, stamp_of
from .places import kept_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..env.lifecycle import Outcome
    from .freshness import Stamp
    from .settings import EnvSettings, Settings

# Sessions that are remembered: as many as a server has, if each has one thread.
SCOPES = 256
# Producers of one of them: hooks and plugins of a person, several times over.
CONTRIBUTIONS = 64
# What one of them may hold: the largest environment there is, unless somebody configures another.
SCOPE_BYTES = 1 << 20
# What all of them may hold together.
ALL_SCOPES_BYTES = 64 << 20
_COPY = "/"  # between the name of a session and that of a copy of it
LONGEST_SCOPE = 256  # characters; a thread's id has 36
LARGEST_FILE = 4 << 20  # of what the user keeps for one worktree; JSON takes more room than what it says
_NAMED = 256  # layers of named overlays that are remembered
_PLACES = (".git", "outfitter.toml")  # what makes a folder a worktree's root


class Overlays:
    """Where layers of level 5 come from."""

    def __init__(self, state_folder: str) -> None:
        self.kept = Kept(state_folder)
        self.scopes = Scopes()
        # With the settings that it was made of, so that their identity stays taken.
        self._named: dict[tuple[int, str], tuple[Settings, Layer]] = {}

    def layers(
        self, directory: str, scope: str | None, names: Sequence[str], settings: Settings
    ) -> tuple[Layer, ...]:
        """Named overlays in the order given, then what the user keeps here, then what the session was given.

        The same objects while nothing has changed. Raises OverlayUnknown, FileInvalid, InvalidParams.
        """
        found: tuple[Layer, ...] = ()
        if names:
            found = tuple(self._layer(name, settings) for name in dict.fromkeys(names))
        if self.kept.any:
            found += self.kept.overlay(directory).layers
        if scope is not None:
            if why := why_no_scope(scope):
                raise InvalidParams(why)
            found += self.scopes.get(scope).layers
        return found

    def runtime(self, scope: str | None) -> Layer | None:
        """What tells a command whose it is: its session's id, and for a child's that of its parent."""
        return None if scope is None else self.scopes.runtime(scope)

    def _layer(self, name: str, settings: Settings) -> Layer:
        known = self._named.get((id(settings), name))
        if known is not None:
            return known[1]
        said = settings.overlays.get(name)
        if said is None:
            raise OverlayUnknown(name, tuple(settings.overlays))
        if len(self._named) >= _NAMED:
            del self._named[next(iter(self._named))]
        layer = named_layer(name, *said)
        self._named[(id(settings), name)] = (settings, layer)
        return layer


def named_layer(name: str, kind: str, said: EnvSettings) -> Layer:
    """An overlay of a file. A project's is allowed what its file is, whatever it is called."""
    where = f"[overlays.{name}]"
    origins = {one: Origin(kind, f"{where} set", said.file, line) for one, _, line in said.set}
    origins.update((one, Origin(kind, f"{where} unset", said.file, line)) for one, line in said.unset)
    return Layer(
        SESSION,
        f"named:{name}",
        Origin(kind, where, said.file),
        {one: value for one, value, _ in said.set},
        unset=[one for one, _ in said.unset],
        operations=[
            Operation(variable, op, values, Origin(kind, f"{where} {op}", said.file, line))
            for variable, op, values, line in said.operations
        ],
        origins=origins,
        producer=f"named:{name}" if kind == "user" else "project",
    )


def refusals(contribution: Contribution, settings: Settings) -> tuple[Rejection, ...]:
    """What the rules for scripts are against, in words for its producer; those of a project come on top."""
    from ..env.lists import LIST_NAMES
    from ..env.policy import Policy
    from ..env.resolve import Rules, Stack

    said = settings.user_policy
    policies = []
    if said is not None:
        policies.append(
            Policy(said.inherit, said.ignore_default_excludes, said.exclude, said.set, said.include_only)
        )
    rules = Rules(
        allow_from=settings.allow_from,
        allow_code_loading=settings.allow_code_loading,
        list_names=LIST_NAMES | settings.list_names,
        total=None,
    )
    refused = Stack((contribution.layer(),), policies, rules).refused
    return tuple(Rejection(contribution.producer, one.name, one.reason, one.why) for one in refused)


# In memory


class _Scope:
    """One session's overlay, and whose it is."""

    __slots__ = ("layer", "overlay", "owner", "size")

    def __init__(self, overlay: Overlay, owner: object) -> None:
        self.overlay = overlay
        self.owner = owner
        self.size = overlay.size  # which is asked for whenever another one changes
        self.layer = _told(overlay)


class Scopes:
    """What sessions were given, by the id that their clients chose: a thread's, say.

    A client may come and go, and its thread goes on: so a scope outlives the connection and the session that
    made it. What is bounded is their number. When there is no room, the one that was not used for longest
    goes, of those whose maker is gone (`is_alive`); what somebody may still rely on is never dropped.

    PARENT/NAME is a copy, and exists because a fork has made it: one that is not there, because the server is
    another one by now, is refused. Nobody can say what it was not to have.
    """

    def __init__(self) -> None:
        self.is_alive: Callable[[object], bool] = _forever
        self._scopes: dict[str, _Scope] = {}  # the one that was used last comes last
        self._nothing = Overlay()

    def __len__(self) -> int:
        return len(self._scopes)

    def get(self, scope: str) -> Overlay:
        """What a session has; an empty overlay for one that was given nothing. Raises ScopeUnknown."""
        known = self._scopes.get(scope)
        if known is None:
            if _COPY in scope:
                raise ScopeUnknown(scope)
            return self._nothing
        if next(reversed(self._scopes)) != scope:
            self._scopes[scope] = self._scopes.pop(scope)
        return known.overlay

    def runtime(self, scope: str) -> Layer:
        known = self._scopes.get(scope)
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
            raise InvalidParams("named overlays stand in the configuration: ask for them with `overlays`")
        overlay = self._of(scope)
        known = overlay.get(contribution.producer)
        if merge and known is not None:
            contribution = known.with_more(contribution)
        overlay = overlay.put(contribution)
        if order:
            overlay = overlay.arranged(order)
        return self._keep(scope, overlay, owner)

    def drop(self, scope: str, producer: str, names: Sequence[str] = ()) -> bool:
        """Forgets a producer, or what it said of some variables; whether there was anything."""
        overlay = self.get(scope)
        known = overlay.get(producer)
        if known is None:
            return False
        rest = known.without(names) if names else known
        after = overlay.put(rest) if names and rest.names else overlay.drop(producer)
        if after is overlay:
            return False
        if after.contributions or after.withheld or _COPY in scope:
            self._scopes[scope] = _Scope(after, self._scopes[scope].owner)
        else:
            del self._scopes[scope]
        return True

    def end(self, scope: str) -> bool:
        """Forgets all of a session, what it may not have included; whether there was anything."""
        return self._scopes.pop(scope, None) is not None

    def happened(
        self, scope: str, event: str, settings: Settings, owner: object = None, **more: object
    ) -> Outcome:
        """Applies an event of `env.lifecycle`. Raises InvalidParams, OverlaysFull."""
        from ..env.lifecycle import happened
        from ..env.redact import Secrets

        if why := why_no_scope(scope):  # it would be told to the commands of a copy
            raise InvalidParams(why)
        try:
            outcome = happened(self._of(scope), event, secrets=Secrets(settings.secret_names), **more)  # type: ignore[arg-type]
        except ValueError as error:
            raise InvalidParams(f"{error}: name it in `to`") from None
        if outcome.overlay.id != scope:
            if _COPY in outcome.overlay.id and outcome.overlay.id.rpartition(_COPY)[0] != scope:
                raise InvalidParams(f"`to` has a `{_COPY}`: then it must be `{scope}{_COPY}NAME`")
            if outcome.overlay.id in self._scopes:
                raise InvalidParams(
                    "there is a scope of the name in `to` already: a copy has a name of its own"
                )
            self._keep(outcome.overlay.id, outcome.overlay, owner)
        elif outcome.overlay is not self.get(scope) and scope in self._scopes:
            self._keep(outcome.overlay.id, outcome.overlay, owner)
        return outcome

    def _of(self, scope: str) -> Overlay:
        return self.get(scope) if scope in self._scopes or _COPY in scope else Overlay(id=scope)

    def _keep(self, scope: str, overlay: Overlay, owner: object) -> Overlay:
        why = why_no_scope(scope)
        if why:
            raise InvalidParams(why)
        if len(overlay.contributions) > CONTRIBUTIONS:
            raise OverlaysFull("producers in a scope", CONTRIBUTIONS)
        new = _Scope(overlay, owner)
        if new.size > SCOPE_BYTES:
            raise OverlaysFull("bytes in a scope", SCOPE_BYTES)
        others = sum(one.size for name, one in self._scopes.items() if name != scope)
        while scope not in self._scopes and len(self._scopes) >= SCOPES:
            others -= self._make_room("scopes", SCOPES, scope)
        while others + new.size > ALL_SCOPES_BYTES:
            others -= self._make_room("bytes in all scopes", ALL_SCOPES_BYTES, scope)
        known = self._scopes.pop(scope, None)
        if known is not None and self.is_alive(known.owner):
            new.owner = known.owner  # who adds a word to another's session does not take it away from him
        self._scopes[scope] = new
        return overlay

    def _make_room(self, what: str, limit: int, spared: str) -> int:
        """Drops one that nobody can be using; returns its size."""
        unused = [
            name for name, one in self._scopes.items() if name != spared and not self.is_alive(one.owner)
        ]
        if not unused:
            raise OverlaysFull(what, limit)
        # Those that were to have less come last: without a word about them, they would have everything.
        unused.sort(key=lambda name: bool(self._scopes[name].overlay.withheld))
        return self._scopes.pop(unused[0]).size


def why_no_scope(scope: str) -> str:
    """What is wrong with a scope's name; empty when nothing is."""
    if 0 < len(scope) <= LONGEST_SCOPE and scope.isprintable():
        return ""
    return f"a scope is printable and has 1 to {LONGEST_SCOPE} characters"


def _told(overlay: Overlay) -> Layer:
    values = {SCOPE: overlay.id}
    if overlay.parent:
        values[PARENT_SCOPE] = overlay.parent
    return Layer(RUNTIME_LEVEL, "scope", RUNTIME, values)


def _forever(owner: object) -> bool:
    return True


# On disk


class Kept:
    """What the user keeps for each worktree: one private file for each, without secrets."""

    def __init__(self, state_folder: str) -> None:
        self.folder = kept_folder(state_folder)
        self._seen: dict[str, tuple[Stamp, Overlay]] = {}

    @property
    def any(self) -> bool:
        """Whether anything was ever kept, for any worktree."""
        return os.access(self.folder, os.F_OK)

    def path(self, root: str) -> str:
        from hashlib import sha256

        return f"{self.folder}/{sha256(root.encode('utf-8', 'surrogateescape')).hexdigest()}.json"

    def overlay(self, directory: str) -> Overlay:
        """What is kept for the worktree of a directory: the same object while that is. Raises FileInvalid."""
        root = worktree_root(directory)
        path = self.path(root)
        now = _stamp(path)
        known = self._seen.get(root)
        if known is not None and known[0] == now:
            return known[1]
        lasts = lasting(now)
        before = Overlay(origin=_origin(path), prefix="kept:") if known is None else known[1]
        overlay = before.only(() if now is None else _read(path, root))
        if len(self._seen) >= SCOPES and root not in self._seen:
            del self._seen[next(iter(self._seen))]
        self._seen[root] = (lasts, overlay)
        return overlay

    def put(
        self,
        directory: str,
        contribution: Contribution,
        settings: Settings,
        *,
        merge: bool = False,
        secret: Sequence[tuple[str, str]] = (),
    ) -> tuple[Rejection, ...]:
        """Keeps a contribution; what is secret in it is not, and told. `secret` are names and values of
        others that may be part of its own. Raises FileInvalid, SettingInvalid.
        """
        from ..env.redact import Secrets, holding

        secrets = Secrets(settings.secret_names)
        taken_away = frozenset(contribution.unset)  # which is no secret
        hidden = [name for name in contribution.secret_names(secrets) if name not in taken_away]
        reasons = dict.fromkeys(hidden, f"it looks like a secret, {_NOT_KEPT}")
        pairs = [*secret, *(pair for pair in contribution.texts if pair[0] in reasons)]
        contribution = contribution.without(hidden)
        for name, part in holding(contribution.texts, pairs):
            reasons[name] = f"the value of {part} is part of it, a secret, {_NOT_KEPT}"
        contribution = contribution.without(reasons)

        def change(overlay: Overlay) -> Overlay:
            if not contribution.names:
                return overlay.drop(contribution.producer)  # it has nothing to say any more
            known = overlay.get(contribution.producer)
            return overlay.put(known.with_more(contribution) if merge and known is not None else contribution)

        if contribution.names or (self.any and not merge):
            self._change(directory, change)
        return tuple(Rejection(contribution.producer, name, "secret", why) for name, why in reasons.items())

    def drop(self, directory: str, producer: str, names: Sequence[str] = ()) -> bool:
        """Forgets a producer, or what it said of some variables; whether there was anything."""

        def change(overlay: Overlay) -> Overlay:
            known = overlay.get(producer)
            rest = None if known is None or not names else known.without(names)
            return overlay.drop(producer) if rest is None or not rest.names else overlay.put(rest)

        return self.any and self._change(directory, change)

    def _change(self, directory: str, change: Callable[[Overlay], Overlay]) -> bool:
        import fcntl

        from ..errors import SettingInvalid

        root = worktree_root(directory)
        path = self.path(root)
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            lock = os.open(f"{self.folder}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)  # two at once must not lose a word
                before = Overlay(_read(path, root) if os.path.lexists(path) else ())
                after = change(before)
                if after is before:
                    return False
                _write(path, root, after)
            finally:
                os.close(lock)
        except OSError as error:
            raise SettingInvalid(f"nothing can be kept in {self.folder}: {error.strerror}") from None
        return True


_NOT_KEPT = (
    "which is not kept on disk: put it into a running server with --on and --scope, or have a provider "
    "supply it"
)


def worktree_root(directory: str) -> str:
    """The nearest folder upwards that is a checkout or has an outfitter.toml; else the directory itself."""
    here = folder = os.path.realpath(directory)
    while True:
        for place in _PLACES:
            if os.access(f"{folder.rstrip('/')}/{place}", os.F_OK):
                return folder
        above = os.path.dirname(folder)
        if above == folder:
            return here
        folder = above


def _origin(path: str) -> Origin:
    return Origin("overlay", "kept for this worktree", path)


def _read(path: str, root: str) -> tuple[Contribution, ...]:
    """What a file says. Raises FileInvalid: a word that is lost without a sign is worse."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror}") from None
    try:
        found = os.fstat(fd)
        if found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise _unusable(path, "somebody else may have written it")
        data = b""
        while len(data) <= LARGEST_FILE and (more := os.read(fd, LARGEST_FILE + 1 - len(data))):
            data += more
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror}") from None
    finally:
        os.close(fd)
    from json import loads

    try:
        told = loads(data.decode("utf-8", "surrogatepass"))
        if told["root"] != root:
            raise ValueError
        contributions = []
        for one in told["contributions"]:
            producer = one.pop("producer")
            contribution, rejected = read(producer, one)
            if rejected or why_no_producer(producer):
                raise ValueError
            contributions.append(contribution)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _unusable(path, "it is not what `outfitter env set` has written") from None
    return tuple(contributions)


def _unusable(path: str, problem: str) -> Exception:
    from .file import unreadable

    return unreadable(path, problem, "remove it, and set again what is missing")


def _write(path: str, root: str, overlay: Overlay) -> None:
    if not overlay.contributions:
        if os.path.lexists(path):
            os.unlink(path)
        return
    from json import dumps

    from ..errors import SettingInvalid

    told = [{"producer": one.producer, **encode(one)} for one in overlay.contributions]
    data = dumps({"root": root, "contributions": told}).encode("utf-8", "surrogatepass")
    if len(data) > LARGEST_FILE:
        raise SettingInvalid(f"more than {LARGEST_FILE} bytes would be kept for {root}: keep less")
    own = f"{path}.new"  # there is one writer at a time; what a killed one has left is written over
    fd = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(data)
        os.rename(own, path)
    except BaseException:
        os.unlink(own)
        raise


def _stamp(path: str) -> Stamp:
    try:
        return stamp_of(os.lstat(path))
    except FileNotFoundError:
        return None
    except OSError as error:  # what is there may not be lost without a sign
        raise _unusable(path, f"cannot be read: {error.strerror}") from None
