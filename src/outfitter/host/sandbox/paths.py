"""A confinement, laid over the files that are here: what to mount, and where it cannot be enforced.

Every path that `look` gives is real: without links, so that a mount stands where the files are, whatever
name leads there. All lists go from shallow to deep, which is the order to mount in. What is found is true for
the moment: look just before the start.
"""

from __future__ import annotations

import os
from stat import S_ISDIR, S_ISLNK

from ...core.permissions import DENY, PROTECTED, READ, WRITE, Rule, canonical, covers
from ...record import record, replace
from .refusal import Unenforceable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...core.permissions import Confinement

_LINKS = 40  # in one path: the kernel's own limit
_POINTER_BYTES = 4096  # of a `.git` file: a path, and a word


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
    `has_writable_below`: something below is in sight all the same, so the folder must let it through."""

    path: str
    is_dir: bool
    has_writable_below: bool = False
    exists: bool = True


@record
class Found:
    """What to mount: the read roots, then each of `mounts` in its order. `("/",)` as read roots is the whole
    file system; where it is not, `links` are to be made first: each link on the way to something, and what it
    says. With a `refusal` nothing may run; the reference writes it to stderr and exits with 1.
    """

    read_roots: tuple[str, ...] = ()
    writable: tuple[Writable, ...] = ()
    hidden: tuple[Hidden, ...] = ()
    refusal: str | None = None
    reopened: tuple[str, ...] = ()  # readable below something hidden
    links: tuple[tuple[str, str], ...] = ()

    @property
    def mounts(self) -> list[Writable | Hidden | str]:
        """What may be written, what is hidden and what is reopened: one order for all, shallow first."""
        each: list[Writable | Hidden | str] = [*self.writable, *self.hidden, *self.reopened]
        return sorted(each, key=lambda one: _depth(_where(one)))


def look(confinement: Confinement) -> Found:
    """What a sandbox must mount for a confinement. Nothing is refused where nothing confines files."""
    if not confinement.files:
        return Found(("/",), (Writable("/", "/"),))
    try:
        return _Look(confinement).found()
    except Unenforceable as why:
        return Found(refusal=f"error building bubblewrap command: Fatal error: {why}\n")


def settle(confinement: Confinement) -> Confinement:
    """The same with real paths: what a check of a real path needs. Raises Unenforceable."""
    if not confinement.files:
        return confinement
    return _Look(confinement).real


class Place:
    """Where a path leads: `real` is without links; `links` are those on the way, each with what it says."""

    __slots__ = ("exists", "is_dir", "links", "missing", "real")

    def __init__(self, real: str, missing: str, is_dir: bool, links: list[tuple[str, str]]) -> None:
        self.real = real
        self.missing = missing  # the first part of the path that is not there
        self.exists = not missing
        self.is_dir = is_dir
        self.links = links


def locate(path: str) -> Place:
    """Walks an absolute path part by part."""
    links: list[tuple[str, str]] = []
    rest = path.split("/")[::-1]
    here, is_dir, missing = "", True, ""
    while rest:
        part = rest.pop()
        if part in ("", "."):
            continue
        if part == "..":
            here = here[: here.rfind("/")] if here else here
            continue
        step = f"{here}/{part}"
        if missing:
            here = step
            continue
        try:
            mode = os.lstat(step).st_mode
            told = os.readlink(step) if S_ISLNK(mode) else ""
        except OSError:
            here, missing, is_dir = step, step, False
            continue
        if told:
            links.append((step, told))
            if len(links) > _LINKS:
                here, missing, is_dir = step, step, False
                continue
            here = "" if told.startswith("/") else here
            rest += told.split("/")[::-1]
            continue
        here, is_dir = step, S_ISDIR(mode)
    return Place(here or "/", missing, is_dir, links)


class _Look:
    """One look: where each rule leads, and what follows."""

    def __init__(self, confinement: Confinement) -> None:
        self._places: dict[str, Place] = {}
        self._asked = confinement
        roots = [(rule.path, self._place(rule.path)) for rule in confinement.rules if rule.access == WRITE]
        # What a command may change, by its real path.
        self._changeable = [place.real for _, place in roots if place.exists]
        self._roots = [(path, place) for path, place in roots if place.exists]
        for path, place in self._roots:
            self._check_root(path, place)
        rules = [real for rule in confinement.rules if (real := self._led(rule)) is not None]
        self.real = replace(confinement, rules=canonical(rules))

    def _place(self, path: str) -> Place:
        found = self._places.get(path)
        if found is None:
            found = self._places[path] = locate(path)
        return found

    def _check_root(self, path: str, place: Place) -> None:
        # Who may change the link could have anything made writable the next time.
        for link, _ in place.links:
            if self._may_change(link) and not self._covered(path, place.real):
                raise _crosses("writable", path, link)

    def _covered(self, path: str, real: str) -> bool:
        return any(covers(place.real, real) for other, place in self._roots if other != path)

    def _may_change(self, path: str) -> bool:
        return any(covers(root, path) for root in self._changeable)

    def _led(self, rule: Rule) -> Rule | None:
        """A rule for a real path; None for one that says nothing about what is here."""
        if rule.access == WRITE:
            place = self._place(rule.path)
            return Rule(place.real, WRITE) if place.exists else None
        path = self._from_root(rule.path)
        place = self._place(path)
        self._check_links("deny-read" if rule.access == DENY else "read-only", path, place)
        if place.exists:
            return Rule(place.real, rule.access)
        if rule.skip:
            return None
        # Nothing may be made on the way there, so that it stays missing.
        return Rule(place.missing if self._may_change(place.missing) else place.real, rule.access)

    def _from_root(self, path: str) -> str:
        """A path below a writable root, from where that root really is."""
        above = [(root, place) for root, place in self._roots if covers(root, path)]
        if not above:
            return path
        root, place = max(above, key=lambda one: len(one[0]))
        return place.real.rstrip("/") + path[len(root.rstrip("/")) :]

    def _check_links(self, what: str, path: str, place: Place) -> None:
        for link, _ in place.links:
            if self._may_change(link):
                raise _crosses(what, path, link)

    def found(self) -> Found:
        real = self.real
        matched = self._matched()
        shown = [rule for rule in real.rules if rule.access != DENY and self._place(rule.path).exists]
        reads = [rule.path for rule in shown if rule.access == READ and self._is_top(rule.path)]
        masks = [rule.path for rule in real.rules if rule.access == DENY and rule.path != "/"]
        below = [path for path in reads if any(covers(mask, path) for mask in masks)]
        links = {link: told for place in self._places.values() for link, told in place.links}
        return Found(
            _by_depth(path for path in reads if path not in below),
            tuple([self._writable(path, place) for path, place in self._mounted()]),
            self._hidden([*masks, *matched], [rule.path for rule in shown]),
            None,
            _by_depth(path for path in below if not any(covers(match, path) for match in matched)),
            tuple([(link, links[link]) for link in _by_depth(links) if real.access(_above(link)) == DENY]),
        )

    def _is_top(self, path: str) -> bool:
        """Whether nothing above lets a path be seen."""
        return path == "/" or self.real.access(_above(path)) == DENY

    def _mounted(self) -> Iterator[tuple[str, Place]]:
        """The roots that may be written, each real path once, unless another rule for it is stronger."""
        seen = set()
        for path, place in sorted(self._roots, key=lambda one: _depth(one[1].real)):
            if place.real in seen or self.real.access(place.real) != WRITE:
                continue
            seen.add(place.real)
            yield path, place

    # What stays read-only

    def _writable(self, path: str, place: Place) -> Writable:
        if not place.is_dir:
            return Writable(path, place.real, True)
        real = self.real
        inside = [rule for rule in real.rules if rule.path != place.real and covers(place.real, rule.path)]
        kept = [rule.path for rule in inside if rule.access == READ and self._narrows(rule.path, place)]
        kept += [name for name in real.protected(place.real) if real.access(name) == READ]
        kept += self._repositories(place.real)
        protected = [one for path in _by_depth(kept) if (one := self._protect(path)) is not None]
        return Writable(path, place.real, False, tuple(protected))

    def _narrows(self, path: str, root: Place) -> bool:
        """Whether this is the root that a read-only path is taken from: the deepest one above it."""
        above = [each for each in self._changeable if covers(each, path)]
        return max(above, key=len) == root.real and self.real.access(_above(path)) != DENY

    def _protect(self, path: str) -> Protected | None:
        place = self._place(path)
        self._check_links("read-only", path, place)
        if place.exists:
            return Protected(place.real, True, place.is_dir)
        return Protected(path, False, path.rpartition("/")[2] in PROTECTED)

    def _repositories(self, root: str) -> list[str]:
        """What a `.git` file of a root points to, and the repository that it shares, where a command could
        write there and no rule says that it may."""
        git = f"{root.rstrip('/')}/.git"
        folder = _pointer(git, "gitdir:") if git in self.real.protected(root) else None
        if folder is None:
            return []
        shared = _pointer(f"{folder}/commondir", "")
        found = [locate(each) for each in (folder, shared) if each is not None]
        return [
            each.real
            for each in found
            if each.exists
            and self.real.access(each.real) == WRITE
            and not any(covers(each.real, path) for path in self.real.writable)
        ]

    # What is hidden

    def _matched(self) -> list[str]:
        """What the globs match now, and where it leads."""
        if not self._asked.globs:
            return []
        from .globs import expand

        matched = []
        for path in expand(self._asked.globs, self._asked.glob_depth):
            place = self._place(path)
            self._check_links("deny-read", path, place)
            matched.append(place.real)
        return matched

    def _hidden(self, paths: list[str], shown: list[str]) -> tuple[Hidden, ...]:
        found = []
        for path in _by_depth(paths):
            place = self._place(path)
            if not place.exists:
                if self._may_change(path):
                    found.append(Hidden(path, False, exists=False))
            elif not (self._is_top(path) and self.real.access(path) == DENY):
                below = any(path != other and covers(path, other) for other in shown)
                found.append(Hidden(path, place.is_dir, below))
        return tuple(found)


def _crosses(what: str, path: str, link: str) -> Unenforceable:
    return Unenforceable(
        f"cannot enforce sandbox {what} path {path} because it crosses writable symlink {link}"
    )


def _pointer(path: str, word: str) -> str | None:
    """The absolute path that a file of git's names, or None."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            text = os.fsdecode(file.read(_POINTER_BYTES)).strip()
    except OSError:
        return None
    if not text.startswith(word) or not (text := text[len(word) :].strip()):
        return None
    return os.path.normpath(os.path.join(os.path.dirname(path), text))


def _where(mount: Writable | Hidden | str) -> str:
    if isinstance(mount, Writable):
        return mount.target
    return mount.path if isinstance(mount, Hidden) else mount


def _above(path: str) -> str:
    return path[: path.rfind("/")] or "/"


def _depth(path: str) -> int:
    return 0 if path == "/" else path.count("/")


def _by_depth(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(paths), key=lambda path: (_depth(path), path)))
