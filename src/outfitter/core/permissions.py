"""A permission profile bound to one executor: which paths are readable, writable and hidden there.

Everything is absolute and in one canonical form, so that equal permissions compare equal. The most specific
rule counts; of two for the same path deny goes before write, and write before read; what no rule names is
denied. What a file system is like (links, what exists) is the host's to find out: `host.sandbox`.
"""

from __future__ import annotations

from ..errors import InvalidParams
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
    """What may be done at and below a path. `skip`: not enforced where the path is missing."""

    path: str
    access: str
    skip: bool = False


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

    def access(self, path: str) -> str:
        """What may be done with an absolute path without links and dots, globs aside."""
        if not self.files:
            return WRITE
        rule = self.rule(path)
        if rule is None:
            return DENY
        if rule.access == WRITE and any(covers(name, path) for name in self.protected(rule.path)):
            return READ
        return rule.access

    def rule(self, path: str) -> Rule | None:
        """The rule that counts for a path."""
        found = None
        for rule in self.rules:
            if covers(rule.path, path) and (found is None or len(rule.path) >= len(found.path)):
                found = rule
        return found

    @property
    def reads_all(self) -> bool:
        """Whether everything may be read."""
        return not self.files or (
            self.access("/") != DENY and not self.globs and all(rule.access != DENY for rule in self.rules)
        )

    @property
    def writes_all(self) -> bool:
        """Whether everything may be written; narrower rules are never widened."""
        return not self.files or (
            self.access("/") == WRITE and not self.globs and all(rule.access == WRITE for rule in self.rules)
        )

    @property
    def writable(self) -> tuple[str, ...]:
        """The roots of what may be written, shallow ones first."""
        return tuple([rule.path for rule in self.rules if rule.access == WRITE])

    def protected(self, root: str) -> tuple[str, ...]:
        """The names below a writable root that stay read-only, whether they exist or not: PROTECTED, but for
        those with a rule of their own that allows to write there or below."""
        names = [f"{root.rstrip('/')}/{name}" for name in PROTECTED]
        return tuple([name for name in names if not any(covers(name, each) for each in self.writable)])


def covers(folder: str, path: str) -> bool:
    """Whether a path is a folder's, or is it."""
    return path == folder or folder == "/" or path.startswith(f"{folder}/")


def bind(context: SandboxContext, *, cwd: str | None, tmpdir: str | None) -> Confinement:
    """What a request's context means here. `cwd` is the command's, where the context names none; `tmpdir` is
    the TMPDIR of the command's environment. Raises InvalidParams for a path of another system.
    """
    profile = context.permissions
    if isinstance(profile, Disabled):
        return Confinement(False, True)
    if isinstance(profile, External):
        return Confinement(False, profile.network)
    if not isinstance(profile.files, Restricted):
        return Confinement(False, profile.network)
    base = cwd if context.cwd is None else _native(context.cwd, "sandbox cwd")
    roots = [_native(root, "sandbox workspace root") for root in context.roots]
    rules: list[Rule] = []
    globs: list[str] = []
    for entry in profile.files.entries:
        if isinstance(entry.place, Glob):
            if entry.access == DENY:
                globs += _patterns(entry.place.pattern, base, roots)
        else:
            rules += [Rule(path, entry.access, entry.skip) for path in _paths(entry, roots, tmpdir)]
    return Confinement(
        True, profile.network, canonical(rules), tuple(sorted(set(globs))), profile.files.glob_depth
    )


def is_dynamic(profile: Profile) -> bool:
    """Whether a profile depends on a request's working directory."""
    return (
        isinstance(profile, Managed)
        and isinstance(profile.files, Restricted)
        and any(map(_moves, profile.files.entries))
    )


def _moves(entry: Entry) -> bool:
    place = entry.place
    if isinstance(place, Glob):
        return not place.pattern.startswith("/")
    return isinstance(place, Special) and place.kind == "project_roots"


def canonical(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """One rule for each path, ordered."""
    strongest: dict[str, Rule] = {}
    for rule in rules:
        other = strongest.get(rule.path)
        if other is None or _STRENGTH[rule.access] > _STRENGTH[other.access]:
            strongest[rule.path] = rule
    return tuple([strongest[path] for path in sorted(strongest)])


def _paths(entry: Entry, roots: Sequence[str], tmpdir: str | None) -> list[str]:
    place = entry.place
    if isinstance(place, Glob):
        return []
    if not isinstance(place, Special):
        return [_plain(_entry_path(place))]
    match place.kind:
        case "root":
            return ["/"]
        case "minimal":
            return list(MINIMAL) if entry.access == READ else []
        case "tmpdir":
            return [_plain(tmpdir)] if tmpdir and tmpdir.startswith("/") else []
        case "slash_tmp":
            return ["/tmp"]
        case "project_roots":
            return [_plain(f"{root}/{place.subpath or ''}") for root in roots]
    return []


def _patterns(pattern: str, base: str | None, roots: Sequence[str]) -> list[str]:
    if pattern.startswith(_PER_ROOT):
        return [f"{root.rstrip('/')}/{pattern.removeprefix(_PER_ROOT).lstrip('/')}" for root in roots]
    if pattern.startswith("/"):
        return [pattern]
    if base is None:
        raise InvalidParams("file system sandbox context with dynamic permissions requires cwd")
    return [f"{base.rstrip('/')}/{pattern}"]


def _plain(path: str) -> str:
    """Without empty parts and dots, by the letters alone."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def _native(uri: FileUri, what: str) -> str:
    try:
        return _plain(uri.local_path())
    except ValueError as error:
        raise InvalidParams(
            f"{what} URI `{uri.text}` is not valid on this exec-server host: {error}"
        ) from None


def _entry_path(uri: FileUri) -> str:
    try:
        return uri.local_path()
    except ValueError as error:
        raise InvalidParams(f"invalid sandbox permission path URI: {error}") from None
