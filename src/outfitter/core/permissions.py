"""A permission profile bound to one executor: which paths are readable, writable and hidden there.

Everything is absolute and in one canonical form, so that equal permissions compare equal. The most specific
rule counts; of two for the same path deny goes before write, and write before read; what no rule names is
denied. What is denied stays so for reading, whatever a rule below says; only writing can be allowed there.
What a file system is like (links, what exists) is the host's to find out: `host.sandbox`.
"""

from __future__ import annotations

from ..errors import InvalidParams, Refused
from ..protocol.sandbox import DENY as DENY
from ..protocol.sandbox import READ as READ
from ..protocol.sandbox import WRITE as WRITE
from ..protocol.sandbox import Disabled, Entry, External, Glob, Managed, Restricted, Special
from ..record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..protocol.sandbox import Profile, SandboxContext
    from ..protocol.uri import FileUri

# What `minimal` means: enough to run programs of the system.
MINIMAL = ("/bin", "/sbin", "/usr", "/etc", "/lib", "/lib64", "/nix/store", "/run/current-system/sw")
# Below every writable root these stay read-only: what is written there runs later, unconfined.
PROTECTED = (".git", ".agents", ".codex", ".aws")
_PER_ROOT = "codex-project-roots://"  # in front of a glob: below each workspace root
_STRENGTH = {READ: 0, WRITE: 1, DENY: 2}


@record
class Rule:
    """What may be done at and below a path."""

    path: str
    access: str
    skip: bool = False  # no rule is: what is missing is protected like what is there


@record
class Confinement:
    """What a command may do on this executor. `files` is False where nothing confines its files.

    `rules` are ordered by path; `globs` are absolute patterns whose matches are hidden; `network` is True
    where the host's own may be used.
    """

    files: bool
    network: bool
    rules: tuple[Rule, ...] = ()
    globs: tuple[str, ...] = ()
    glob_depth: int | None = None
    kept: tuple[str, ...] = ()  # as `core.protecting` has them, and no part of the access

    def access(self, path: str) -> str:
        """What may be done with an absolute path without links and dots, globs aside."""
        return _access(self.rules, path) if self.files else WRITE

    def rule(self, path: str) -> Rule | None:
        """The rule that counts for a path."""
        return _rule(self.rules, path)

    @property
    def reads_all(self) -> bool:
        """Whether everything may be read."""
        return not self.files or (
            self.access("/") != DENY and not self.globs and all(rule.access != DENY for rule in self.rules)
        )

    @property
    def writes_all(self) -> bool:
        """Whether everything may be written; narrower rules are never widened."""
        return not self.files

    @property
    def writable(self) -> tuple[str, ...]:
        """The roots of what may be written, shallow ones first."""
        return tuple([rule.path for rule in self.rules if rule.access == WRITE])

    def protected(self, root: str) -> tuple[str, ...]:
        """The names below a writable root that stay read-only, whether they exist or not: PROTECTED, but for
        those that a rule of their own allows to be written."""
        above, lifted = root.rstrip("/"), self.writable
        return tuple([path for name in PROTECTED if (path := f"{above}/{name}") not in lifted])


def covers(folder: str, path: str) -> bool:
    """Whether a path is a folder's, or is it."""
    return path == folder or folder == "/" or path.startswith(f"{folder}/")


def _rule(rules: Sequence[Rule], path: str) -> Rule | None:
    # Rules that cover one path lie one below the other, and are ordered so.
    for rule in reversed(rules):
        if covers(rule.path, path):
            return rule
    return None


def _access(rules: Sequence[Rule], path: str) -> str:
    return _allowed(_rule(rules, path), path)


class Index:
    """Rules by their paths: which one counts is found among a thousand as quickly as among ten."""

    __slots__ = ("_rules",)

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._rules = {rule.path: rule for rule in rules}

    def add(self, rule: Rule) -> None:
        self._rules[rule.path] = rule

    def rule(self, path: str) -> Rule | None:
        """As `Confinement.rule`."""
        while (rule := self._rules.get(path)) is None and path != "/":
            path = path[: path.rfind("/")] or "/"
        return rule

    def access(self, path: str) -> str:
        """As `Confinement.access`, where files are confined."""
        return _allowed(self.rule(path), path)


def _allowed(rule: Rule | None, path: str) -> str:
    """What a rule, the one that counts for a path, allows there."""
    if rule is None:
        return DENY
    if rule.access == WRITE and len(path) > len(rule.path):
        # A name with a rule of its own that allows writing is that rule's path.
        name = path[len(rule.path.rstrip("/")) + 1 :].partition("/")[0]
        if name in PROTECTED:
            return READ
    return rule.access


# From a profile to rules

# Confinements that are remembered, the latest of them. To make one takes 50 us, to find it less than 1. The
# key has the identity of the context, which is kept: `SandboxContext.decode` gives the same one again.
_REMEMBERED = 256
_known: dict[tuple[int, str | None, str | None], tuple[SandboxContext, Confinement]] = {}


def bind(context: SandboxContext, *, cwd: str | None, tmpdir: str | None) -> Confinement:
    """What the context of a command means here. `cwd` is the command's, where the context names none;
    `tmpdir` is the TMPDIR of the command's environment. Raises InvalidParams for a path of another system,
    and for one that depends on a working directory where there is none.
    """
    key = (id(context), cwd, tmpdir)
    known = _known.pop(key, None)
    if known is None:
        rest = _entry_paths(context.permissions)
        base = None if context.cwd is None else _native(context.cwd, "sandbox cwd")
        roots = [_native(root, "sandbox workspace root") for root in context.roots]
        known = context, _bound(context.permissions, rest, base or cwd, roots, tmpdir)
        if len(_known) >= _REMEMBERED:
            _known.pop(next(iter(_known)), None)
    _known[key] = known
    return known[1]


def check_start(context: SandboxContext, cwd: FileUri) -> None:
    """What a context of process/start is refused for, before the command is looked at: a sandbox and paths
    of another system. `cwd` is the command's. Raises InvalidParams."""
    if context.level == "mxc":
        raise InvalidParams("native MXC is unavailable on this executor")
    _entry_paths(context.permissions)
    _native(context.cwd or cwd, "sandbox cwd")
    for root in context.roots:
        _native(root, "sandbox workspace root")


def _confines_files(profile: Profile) -> bool:
    return isinstance(profile, Managed) and isinstance(profile.files, Restricted)


def check_files(context: SandboxContext) -> None:
    """What a context of fs/* is refused for before anything else is looked at: permissions that depend on a
    working directory it does not name, and entries of another system. Raises InvalidParams, Refused.
    """
    if context.cwd is None and is_dynamic(context.permissions):
        raise _needs_cwd()
    try:
        _entry_paths(context.permissions)
    except InvalidParams as error:
        raise Refused(str(error)) from None


def bind_files(context: SandboxContext, *, tmpdir: str | None = None) -> Confinement:
    """What the context of a file request means here. Raises InvalidParams and Refused: what `check_files`
    raises, and then for a working directory or a root of another system.
    """
    check_files(context)
    if not _confines_files(context.permissions):
        return _bound(context.permissions, [], None, (), None)
    try:
        if context.cwd is not None:
            context.cwd.local_path()
    except ValueError as error:
        raise Refused(str(error)) from None
    for root in context.roots:
        try:
            root.local_path()
        except ValueError as error:
            raise Refused(
                f"file system sandbox workspace root is not native to this exec-server host: {error}"
            ) from None
    return bind(context, cwd=None, tmpdir=tmpdir)


def has_globs(profile: Profile) -> bool:
    """Whether a profile has patterns, whatever they match."""
    return any(isinstance(entry.place, Glob) for entry in _entries(profile))


def is_dynamic(profile: Profile) -> bool:
    """Whether a profile depends on a request's working directory."""
    return any(map(_moves, _entries(profile)))


def _moves(entry: Entry) -> bool:
    place = entry.place
    if isinstance(place, Glob):
        return not place.pattern.startswith("/")
    return isinstance(place, Special) and place.kind == "project_roots"


def _entries(profile: Profile) -> tuple[Entry, ...]:
    if isinstance(profile, Managed) and isinstance(profile.files, Restricted):
        return profile.files.entries
    return ()


def _bound(
    profile: Profile, plain: list[Rule], base: str | None, roots: Sequence[str], tmpdir: str | None
) -> Confinement:
    if isinstance(profile, Disabled):
        return Confinement(False, True)
    if isinstance(profile, External) or not isinstance(profile.files, Restricted):
        return Confinement(False, profile.network)
    rules, globs, minimal = list(plain), set(), False
    for entry in profile.files.entries:
        place = entry.place
        if isinstance(place, Glob):
            if entry.access == DENY:
                found, closed = _patterns(place.pattern, base, roots)
                globs.update(found)
                rules += closed
        elif isinstance(place, Special):
            minimal = minimal or (place.kind == "minimal" and entry.access != DENY)
            rules += [Rule(path, entry.access) for path in paths(entry, roots, tmpdir)]
    if minimal:
        rules += _system(rules)
    settled = canonical(rules)
    if settled == _EVERYTHING:
        if not globs:
            return Confinement(False, profile.network)
        settled = narrower(settled)
    depth = profile.files.glob_depth if globs else None
    return Confinement(True, profile.network, settled, tuple(sorted(globs)), depth)


_EVERYTHING = (Rule("/", WRITE),)


def canonical(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """One rule for each path, ordered, and none that changes nothing."""
    strongest: dict[str, str] = {}
    for rule in rules:
        other = strongest.get(rule.path)
        if other is None or _STRENGTH[rule.access] > _STRENGTH[other]:
            strongest[rule.path] = rule.access
    if strongest.get("/") == WRITE and all(access == WRITE for access in strongest.values()):
        return _EVERYTHING
    known, above, kept = Index(), Index(), list[Rule]()
    for path in sorted(strongest, key=_parts):
        rule = Rule(path, strongest[path])
        if rule.access == READ and _read_anyway(known, path):
            continue
        # What is denied is not to be read below; only of the root that is not said by this.
        if rule.access != DENY or path != "/":
            known.add(rule)
        # A root below another one has protected names of its own.
        if rule.access != DENY or above.access(path) != DENY:
            above.add(rule)
            kept.append(rule)
    return narrower(kept)


def narrower(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Rules of a confinement: where they would allow to write everything but protected names, one of these
    says so. It is one that may not be written, or the rule would be another one."""
    if rules and rules[0].path == "/" and all(rule.access == WRITE for rule in rules):
        written = {rule.path for rule in rules}
        names = [f"{rule.path.rstrip('/')}/{name}" for rule in rules for name in PROTECTED]
        said = Rule(next(path for path in names if path not in written), READ)
        rules = sorted([*rules, said], key=lambda rule: _parts(rule.path))
    return tuple(rules)


def _read_anyway(known: Index, path: str) -> bool:
    """Whether a rule that allows reading changes nothing."""
    above = known.rule(path)
    return (above is not None and above.access == DENY) or known.access(path) == READ


def _parts(path: str) -> list[str]:
    return path.split("/")


def paths(entry: Entry, roots: Sequence[str], tmpdir: str | None) -> list[str]:
    """What an entry's place means here, but for a pattern and for `minimal`. Raises ValueError for a path of
    another system."""
    place = entry.place
    if isinstance(place, Glob):
        return []
    if not isinstance(place, Special):
        return [plain(place.local_path())]
    match place.kind:
        case "root":
            return ["/"]
        case "tmpdir":
            return [plain(tmpdir)] if tmpdir and tmpdir.startswith("/") else []
        case "slash_tmp":
            return ["/tmp"]
        case "project_roots":
            below = place.subpath or ""
            # One that leads elsewhere allows nothing; what it forbids counts.
            if entry.access != DENY and _leads_away(below):
                return []
            return [plain(f"{root}/{below}") for root in roots]
    return []  # one that is not known here, or `minimal`


def _leads_away(below: str) -> bool:
    return below.startswith("/") or any(part in (".", "..") for part in below.split("/"))


def _system(rules: list[Rule]) -> list[Rule]:
    """What `minimal` adds: it never takes away what an entry allows."""
    return [
        Rule(path, READ)
        for path in MINIMAL
        if not any(rule.access != DENY and covers(rule.path, path) for rule in rules)
    ]


def _patterns(pattern: str, base: str | None, roots: Sequence[str]) -> tuple[list[str], list[Rule]]:
    """The absolute patterns that one stands for; and what is hidden as a whole, because a pattern for each
    root leads out of it."""
    if pattern.startswith(_PER_ROOT):
        below = pattern.removeprefix(_PER_ROOT)
        if _leads_away(below):
            return [], [Rule(root, DENY) for root in roots]
        return [plain(f"{root}/{below}") for root in roots], []
    if pattern.startswith("/"):
        return [plain(pattern)], []
    if base is None:
        raise _needs_cwd()
    return [plain(f"{base}/{pattern}")], []


def plain(path: str) -> str:
    """Without empty parts and dots, by the letters alone."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def _needs_cwd() -> InvalidParams:
    return InvalidParams("file system sandbox context with dynamic permissions requires cwd")


def _native(uri: FileUri, what: str) -> str:
    try:
        return plain(uri.local_path())
    except ValueError as error:
        raise InvalidParams(
            f"{what} URI `{uri.text}` is not valid on this exec-server host: {error}"
        ) from None


def _entry_paths(profile: Profile) -> list[Rule]:
    """The rules for paths that stand in a profile itself."""
    found: list[Rule] = []
    for entry in _entries(profile):
        if isinstance(entry.place, Glob | Special):
            continue
        try:
            found += [Rule(path, entry.access) for path in paths(entry, (), None)]
        except ValueError as error:
            raise InvalidParams(f"invalid sandbox permission path URI: {error}") from None
    return found
