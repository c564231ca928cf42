"""A confinement, laid over the files that are here: what to mount, and where it cannot be enforced.

Every path that `look` gives is real: without links, so that a mount stands where the files are, whatever
name leads there. All lists go from shallow to deep, which is the order to mount in. What is found is true for
the moment: look just before the start. Only the walk of a tree for what globs match may come before: see
`look`.
"""

from __future__ import annotations

import os
from errno import ELOOP, ENAMETOOLONG
from stat import S_ISDIR, S_ISLNK

from ...core.permissions import DENY, PROTECTED, READ, WRITE, Index, Rule, canonical, covers
from ...core.protecting import BELOW, below
from ...core.visibility import parent
from ...record import EMPTY, record, replace
from .refusal import Unenforceable, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from ...core.permissions import Confinement

_ALL_READABLE = (Rule("/", READ),)  # and nothing else, as many commands have it
_LINKS = 40  # in one path: the kernel's own limit
_FEW = 256  # names that globs match: to look at each takes 30 us, and the loop must not wait for 50 ms
_POINTER_BYTES = 4200  # of a file of git's: a path of the kernel's limit, and a word


@record
class Protected:
    """A place below a writable root that stays read-only. One that is missing needs an empty one in its
    place, read-only too: a folder where `is_dir`, a file else."""

    path: str
    exists: bool
    is_dir: bool


@record
class Writable:
    """What may be written: `path` as the profile says, `target` where it is."""

    path: str
    target: str
    is_file: bool = False
    protected: tuple[Protected, ...] = ()


@record
class Hidden:
    """What may not be seen. One that is missing could be made: an empty file in its place prevents it.
    `has_writable_below`: something below may be written, so the folder must let a command through."""

    path: str
    is_dir: bool
    has_writable_below: bool = False
    exists: bool = True


@record
class Found:
    """What to mount: the read roots, then what is hidden and what may be written, in one order by depth.
    `("/",)` as read roots is the whole file system; where it is not, `links` are to be made first: each link
    on the way to something, and what it says. With a `refusal` nothing may run; the reference writes it to
    stderr and exits with 1.
    """

    read_roots: tuple[str, ...] = ()
    writable: tuple[Writable, ...] = ()
    hidden: tuple[Hidden, ...] = ()
    refusal: str | None = None
    reopened: tuple[str, ...] = ()  # readable below something hidden: nothing is
    links: tuple[tuple[str, str], ...] = ()


@record
class Matched:
    """What the globs of a confinement match. Of many names it is known already where they lead: `found`. By
    writable place: what stays read-only in the folders below it."""

    names: tuple[str, ...]
    found: Found | None = None
    nested: Mapping[str, tuple[str, ...]] = EMPTY


def match(confinement: Confinement, needed: Callable[[], bool] = lambda: True) -> Matched:
    """Walks the trees of the globs: 5 us for each name. It may be called in a thread, before a `look`, and
    ends early when it is `needed` no more. Raises Unenforceable, TooWide."""
    names, inside = _names(confinement, needed), _nested(confinement, needed)
    matched = Matched(names, nested=inside)
    return Matched(names, look(confinement, matched), inside) if len(names) > _FEW else matched


def _nested(confinement: Confinement, needed: Callable[[], bool]) -> dict[str, tuple[str, ...]]:
    names = below(confinement.kept)
    if not names:
        return {}
    from .nested import nested

    roots = {os.path.realpath(path) for path in confinement.writable}
    return {root: nested(root, names, needed) for root in roots}


def _names(confinement: Confinement, needed: Callable[[], bool] = lambda: True) -> tuple[str, ...]:
    if not confinement.globs:
        return ()
    from .globs import expand

    return tuple(expand(confinement.globs, confinement.glob_depth, needed))


def look(confinement: Confinement, matched: Matched | None = None) -> Found:
    """What a sandbox must mount for a confinement.

    `matched` is what its globs match; without it their trees are walked now, which takes seconds for large
    ones. A walk is no snapshot, wherever it happens: what is made in a folder behind it is not found. So it
    may end a moment before the look, which stays just before the start: all rules are looked at here, with
    the links that somebody who is confined could turn, and each of a few names that match. Many names were
    looked at by the end of the walk: one after the other that takes longer than the start has to wait then.
    """
    if not confinement.files:
        return Found(("/",), (Writable("/", "/"),))
    if confinement.rules == _ALL_READABLE and not confinement.globs:
        return Found(("/",))
    if matched is not None and matched.found is not None:
        return _joined(look(replace(confinement, globs=()), replace(matched, found=None)), matched.found)
    try:
        if matched is None:
            return _Look(confinement).found(_names(confinement))
        return _Look(confinement, matched.nested).found(matched.names if confinement.globs else ())
    except Unenforceable as why:
        return Found(refusal=refusal(why))


def _joined(now: Found, before: Found) -> Found:
    """What the rules mean now, and of what was found before what globs match."""
    if before.refusal is not None or now.refusal is not None:
        return now if now.refusal is not None else before
    known = {one.path for one in now.hidden}
    hidden = [*now.hidden, *[one for one in before.hidden if one.exists and one.path not in known]]
    hidden.sort(key=lambda one: (depth(one.path), one.path))
    links = {**dict(before.links), **dict(now.links)}
    return replace(now, hidden=tuple(hidden), links=tuple([(link, links[link]) for link in bydepth(links)]))


def settle(confinement: Confinement) -> Confinement:
    """The same with real paths: what a check of a real path needs. Raises Unenforceable."""
    return _Look(confinement).real if confinement.files else confinement


class Place:
    """Where a path leads: `real` is without links; `links` are those on the way, each with what it says."""

    __slots__ = ("exists", "is_dir", "links", "missing", "real")

    def __init__(self, real: str, missing: str, is_dir: bool, links: list[tuple[str, str]]) -> None:
        self.real = real
        self.missing = missing  # the first part of the path that is not there
        self.exists = not missing
        self.is_dir = is_dir
        self.links = links


def locate(path: str, within: str = "") -> Place:
    """Walks an absolute path part by part. What leads to `within`, a real folder above it, is known."""
    links: list[tuple[str, str]] = []
    rest = path[len(within) :].split("/")[::-1]
    here, is_dir, missing = within, True, ""
    while rest:
        part = rest.pop()
        if part in ("", "."):
            continue
        if part == "..":
            here, is_dir = here[: max(0, here.rfind("/"))], not missing
            continue
        here = f"{here}/{part}"
        if missing:
            continue
        try:
            mode = os.lstat(here).st_mode
            told = os.readlink(here) if S_ISLNK(mode) else ""
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            missing, is_dir = here, False
            continue
        except OSError as error:
            if error.errno not in (ELOOP, ENAMETOOLONG):
                raise Unenforceable(f"cannot look at {here}: {error.strerror}") from None
            missing, is_dir = here, False
            continue
        if not told:
            is_dir = S_ISDIR(mode)
            continue
        links.append((here, told))
        if len(links) > _LINKS:
            missing, is_dir = here, False
            continue
        # Where the link is, or at the root, until the first part that it says.
        here, is_dir = "" if told.startswith("/") else here[: here.rfind("/")], True
        rest += told.split("/")[::-1]
    return Place(here or "/", missing, is_dir, links)


class _Look:
    """One look: where each rule leads (`real`), and what follows."""

    def __init__(self, confinement: Confinement, nested: Mapping[str, tuple[str, ...]] = EMPTY) -> None:
        self._nested = nested
        self._places: dict[str, Place] = {}
        roots = [(rule.path, self._place(rule.path)) for rule in confinement.rules if rule.access == WRITE]
        self._roots = [(path, place) for path, place in roots if place.exists]
        # What a command may change, by its real path.
        self._changeable = {place.real for _, place in self._roots}
        self._by_path = dict(self._roots)
        rules = [self._led(rule) for rule in confinement.rules if rule.access != WRITE]
        turned = [one for one in self._roots if self._turnable(one[1])]
        rules += [Rule(one[1].real, WRITE) for one in self._roots if one not in turned]
        self._set(confinement, rules)
        # Who may change a link on the way could have anything made writable the next time: only what may be
        # written anyway is not refused. And a root that is missing opens a protected name, and no more.
        for path, place in turned:
            if self._rules.access(place.real) != WRITE:
                self._check_links("writable", path, place)
        absent = [place.real for _, place in roots if not place.exists]
        opened = [path for path in absent if self._rules.access(parent(path)) == WRITE]
        more = [Rule(path, WRITE) for path in (*opened, *[place.real for _, place in turned])]
        if more:
            self._set(confinement, [*rules, *more])

    def _set(self, confinement: Confinement, rules: Iterable[Rule]) -> None:
        self.real = replace(confinement, rules=canonical(rules))
        self._rules = Index(self.real.rules)
        # Read-only paths by the root that each is taken from: the deepest one above it.
        self._narrower: dict[str, list[str]] = {}
        for rule in self.real.rules:
            if rule.access == READ and (root := _nearest(rule.path, self._changeable)):
                self._narrower.setdefault(root, []).append(rule.path)

    def _place(self, path: str, within: str = "") -> Place:
        found = self._places.get(path)
        if found is None:
            found = self._places[path] = locate(path, within)
        return found

    def _may_change(self, path: str) -> bool:
        return bool(_nearest(path, self._changeable))

    def _check_links(self, what: str, path: str, place: Place) -> None:
        for link, _ in place.links:
            if self._may_change(link):
                raise Unenforceable(
                    f"cannot enforce sandbox {what} path {path} because it crosses writable symlink {link}"
                )

    def _turnable(self, place: Place) -> bool:
        """Whether a link on the way can be changed."""
        return any(self._may_change(link) for link, _ in place.links)

    def _led(self, rule: Rule) -> Rule:
        """The rule for the real path."""
        path = self._from_root(rule.path)
        place = self._place(path)
        if place.links:
            self._check_links("deny-read" if rule.access == DENY else "read-only", path, place)
        if not place.exists and self._may_change(place.missing):
            # Nothing may be made on the way there, so that it stays missing.
            return Rule(place.missing, rule.access)
        return Rule(place.real, rule.access)

    def _from_root(self, path: str) -> str:
        """A path below a writable root, from where that root really is."""
        root = _nearest(path, self._by_path)
        if not root:
            return path
        return self._by_path[root].real.rstrip("/") + path[len(root.rstrip("/")) :]

    def found(self, matched: Sequence[str]) -> Found:
        real = self.real
        shown = [
            rule.path
            for rule in real.rules
            if rule.access == READ and self._is_top(rule.path) and self._place(rule.path).exists
        ]
        links = {link: told for place in self._places.values() for link, told in place.links}
        return Found(
            bydepth(shown),
            tuple([self._writable(path, place) for path, place in self._mounted()]),
            self._hidden(matched),
            links=tuple([(link, links[link]) for link in bydepth(links) if self._is_top(link)]),
        )

    def _is_top(self, path: str) -> bool:
        """Whether nothing above lets a path be seen."""
        return path == "/" or self._rules.access(parent(path)) == DENY

    def _mounted(self) -> Iterator[tuple[str, Place]]:
        """The roots that may be written, each real path once, unless another rule for it is stronger."""
        seen = set()
        for path, place in sorted(self._roots, key=lambda one: depth(one[1].real)):
            if place.real not in seen and self._rules.access(place.real) == WRITE:
                seen.add(place.real)
                yield path, place

    # What stays read-only

    def _writable(self, path: str, place: Place) -> Writable:
        root = place.real
        if not place.is_dir:
            return Writable(path, root, True)
        real = self.real
        kept = list(self._narrower.get(root, ()))
        protected = real.protected(root)
        kept += [name for name in protected if self._rules.access(name) == READ]
        if f"{root.rstrip('/')}/.git" in protected:
            kept += self._repositories(root)
        if real.kept:
            kept += [path for path in self._more(root) if self._is_writable(path)]
        found = [one for each in bydepth(kept) if (one := self._protect(each, root)) is not None]
        return Writable(path, root, False, tuple(found))

    def _protect(self, path: str, root: str) -> Protected | None:
        place = self._place(path, root.rstrip("/") if covers(root, path) else "")
        if place.links:
            self._check_links("read-only", path, place)
        if place.exists:
            return Protected(place.real, True, place.is_dir)
        if not _can_make("read-only", path):
            return None
        return Protected(path, False, path.rpartition("/")[2] in PROTECTED)

    def _repositories(self, root: str) -> list[str]:
        """What a `.git` file of a root points to, and the repository that it shares, where a command could
        write there and no rule says that it may. Who turns a link on the way puts another in its place."""
        folder = _pointer(f"{root.rstrip('/')}/.git", "gitdir:")
        if folder is None:
            return []
        shared = _pointer(f"{folder}/commondir", "")
        places = [(each, locate(each)) for each in (folder, shared) if each is not None]
        for path, place in places:
            self._check_links("read-only", path, place)
        return [place.real for _, place in places if place.exists and self._is_writable(place.real)]

    def _is_writable(self, path: str) -> bool:
        """Whether a command could write there, and no rule of its own says that it may."""
        return self._rules.access(path) == WRITE and path not in self._changeable

    def _more(self, root: str) -> Iterator[str]:
        """What an operator keeps read-only in a root. Of what is missing nothing may be made on the way."""
        above, inside = root.rstrip("/"), below(self.real.kept)
        paths = [f"{above}/{name}" for name in self.real.kept if not name.startswith(BELOW)]
        # Those for the folders below are for this one, too. What is in `.git` is protected with all of it.
        paths += [f"{above}/{name}" for name in inside if name.partition("/")[0] not in PROTECTED]
        if inside:
            from .nested import nested

            paths += self._nested[root] if root in self._nested else nested(root, inside)
        for path in paths:
            missing = self._place(path, above).missing
            # Where a file is in the way (`.git` of a submodule), that is kept: it could become a folder.
            if missing and not self._place(parent(missing)).is_dir:
                yield parent(missing)
            else:
                yield missing or path

    # What is hidden

    def _hidden(self, matched: Sequence[str]) -> tuple[Hidden, ...]:
        rules = self.real.rules
        paths = [rule.path for rule in rules if rule.access == DENY]
        paths += self._matched(matched)
        found = []
        above = _folders([rule.path for rule in rules])
        for path in bydepth(paths):
            place = self._place(path)
            if place.exists:
                found.append(Hidden(path, place.is_dir, path in above))
            elif self._may_change(path) and _can_make("deny-read", path):
                found.append(Hidden(path, False, exists=False))
        return tuple(found)

    def _matched(self, names: Sequence[str]) -> Iterator[str]:
        """Where the names lead that globs match."""
        for path in names:
            place = self._place(path)
            self._check_links("deny-read", path, place)
            if self._rules.access(place.real) != DENY and place.exists:
                yield place.real


def _pointer(path: str, word: str) -> str | None:
    """The absolute path that a file of git's names, or None."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            text = os.fsdecode(os.read(fd, _POINTER_BYTES)).strip()
        finally:
            os.close(fd)
    except OSError:
        return None
    if not text.startswith(word) or "\0" in text or not (text := text[len(word) :].strip()):
        return None
    return os.path.normpath(os.path.join(os.path.dirname(path), text))


def _can_make(what: str, path: str) -> bool:
    """Whether we, and a command of ours, can make what is missing. Raises Unenforceable where the command
    could, after it has changed the folder's mode, and we cannot."""
    folder = parent(path)
    if os.access(folder, os.W_OK | os.X_OK):
        return True
    if os.lstat(folder).st_uid != os.geteuid() or os.statvfs(folder).f_flag & os.ST_RDONLY:
        return False
    raise Unenforceable(
        f"cannot enforce sandbox {what} path {path} because nothing can be put there: chmod u+wx {folder}"
    )


def _nearest(path: str, folders: Container[str]) -> str:
    """Of some folders the deepest that is a path or above it; nothing if none is."""
    while path not in folders:
        if path == "/":
            return ""
        path = parent(path)
    return path


def _folders(paths: Iterable[str]) -> set[str]:
    """Every folder above one of some paths."""
    found: set[str] = set()
    for path in paths:
        while path != "/" and (path := parent(path)) not in found:
            found.add(path)
    return found


def depth(path: str) -> int:
    return 0 if path == "/" else path.count("/")


def bydepth(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(paths), key=lambda path: (depth(path), path)))
