"""What a request may do, as it stands on the wire: `sandbox` of process/start and of every fs/* request.

The outer object is in camel case, what stands below `permissions` in snake case. A profile is complete: it
says everything about files and network. `core.permissions` binds one to an executor's own paths.
"""

from __future__ import annotations

from marshal import dumps

from ..errors import LimitExceeded
from ..record import record
from .fields import MAX_PATHS
from .tagged import choice, members, nonzero, or_none, required, sequence, text, unlike, variant
from .uri import FileUri, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .jsontext import Json

READ, WRITE, DENY = "read", "write", "deny"
# Entries of one profile: each is a rule to check and perhaps a mount. The largest that clients send have ten.
# A command with so many takes 40 ms of the loop, if 64 of them are places that may be written.
MAX_ENTRIES = 256


@record
class Glob:
    """Every existing file whose path matches."""

    pattern: str


@record
class Special:
    """A place that each executor has somewhere else: `root`, `minimal`, `tmpdir`, `slash_tmp`,
    `project_roots` (with a path below each of them) or one that is not known here."""

    kind: str
    subpath: str | None = None
    path: str | None = None  # what an unknown one is called


@record
class Entry:
    """What may be done at and below a place. `skip` is said by clients of places that may be missing, and
    changes nothing: what is missing is protected like what is there."""

    place: FileUri | Glob | Special
    access: str
    skip: bool = False


@record
class Unrestricted:
    """All files, as the executor's user has them."""


@record
class Restricted:
    """Nothing but what the entries say; the most specific one counts."""

    entries: tuple[Entry, ...] = ()
    glob_depth: int | None = None


@record
class Managed:
    """The executor confines the command."""

    files: Restricted | Unrestricted
    network: bool


@record
class Disabled:
    """Nothing confines the command."""


@record
class External:
    """Somebody else confines its files; the network is still a matter of ours."""

    network: bool


Profile = Managed | Disabled | External


@record
class SandboxContext:
    """A profile, and what its special places mean for this request."""

    permissions: Profile
    cwd: FileUri | None = None
    roots: tuple[FileUri, ...] = ()
    landlock: bool = False
    level: str = "disabled"  # of another system's sandbox

    @classmethod
    def decode(cls, value: Json) -> SandboxContext:
        """The context that a client sent; for the same words the same object, while it is remembered.

        Raises InvalidParams.
        """
        try:
            key = dumps(value, 2)
        except ValueError:  # with text so long that it was never made into a string
            return _context(value)
        known = _known.pop(key, None)
        if known is None:
            known = _context(value)
            if len(key) > _LONG:
                return known
            if len(_known) >= _REMEMBERED:
                _known.pop(next(iter(_known)), None)
        _known[key] = known
        return known

    def encode(self) -> Json:
        return {
            "permissions": encode_profile(self.permissions),
            "cwd": None if self.cwd is None else self.cwd.text,
            "workspaceRoots": [root.text for root in self.roots],
            "windowsSandboxLevel": self.level,
            "windowsSandboxProxySettingsMode": "reconcile",
            "useLegacyLandlock": self.landlock,
        }


# Contexts that are remembered, the latest of them: a client has one for all that it does in a thread. Reading
# one takes 60 us, finding it 2. Longer ones are read each time: 16 MiB are enough for memory.
_REMEMBERED, _LONG = 256, 64 << 10
_known: dict[bytes, SandboxContext] = {}


def _context(value: Json) -> SandboxContext:
    found = members(value, "struct WireFileSystemSandboxContext", _CONTEXT, below=False)
    required(found, "permissions", "windowsSandboxLevel")
    cwd, roots = found.get("cwd"), found.get("workspaceRoots", ())
    policy = found.get("policyContext")
    if policy is not None:  # what the request's own are replaced with
        cwd, roots = policy.get("cwd") or cwd, policy.get("workspaceRoots", ())
    landlock = found.get("useLegacyLandlock", False)
    return SandboxContext(found["permissions"], cwd, roots, landlock, found["windowsSandboxLevel"])


def decode_profile(value: Json) -> Profile:
    """Raises InvalidParams."""
    kind = variant(value, "ExecPermissionProfile", "type", ("managed", "disabled", "external"), below=False)
    if kind == "disabled":
        return Disabled()
    if kind == "external":
        found = members(value, "", {"network": _network_of})
        required(found, "network")
        return External(found["network"])
    found = members(value, "", _MANAGED)
    required(found, "file_system", "network")
    return Managed(found["file_system"], found["network"])


def decode_files(value: Json) -> Restricted | Unrestricted:
    """Raises InvalidParams."""
    kind = variant(value, "ExecManagedFileSystemPermissions", "type", ("restricted", "unrestricted"))
    if kind == "unrestricted":
        return Unrestricted()
    found = members(value, "", _RESTRICTED)
    required(found, "entries")
    return Restricted(found["entries"], found.get("glob_scan_max_depth"))


def _entries(value: Json) -> tuple[Entry, ...]:
    if len(entries := sequence(value)) > MAX_ENTRIES:
        raise LimitExceeded("`entries`", len(entries), MAX_ENTRIES, "entries", "send fewer")
    return tuple([_entry(one) for one in entries])


def _entry(value: Json) -> Entry:
    found = members(value, "struct ExecFileSystemSandboxEntry", _ENTRY)
    required(found, "path", "access")
    access = found["access"]
    skip = found.get("missing_path_behavior") is not None
    return Entry(found["path"], DENY if access == "none" else access, skip)


def _place(value: Json) -> FileUri | Glob | Special:
    kind = variant(value, "ExecFileSystemPath", "type", tuple(_PLACES))
    name, read = _PLACES[kind]
    found = members(value, "", {name: read})
    required(found, name)
    place: FileUri | Glob | Special = found[name]
    return place


_SPECIAL = ("root", "minimal", "project_roots", "tmpdir", "slash_tmp", "unknown")
_ALIAS = "current_working_directory"  # of project_roots
_NAMED = (*_SPECIAL[:2], _ALIAS, *_SPECIAL[2:])


def _special(value: Json) -> Special:
    named = type(value) is dict and type(value.get("kind")) is str
    kind = variant(value, "FileSystemSpecialPath", "kind", _NAMED if named else _SPECIAL)
    if kind == "unknown":
        found = members(value, "", _UNKNOWN)
        required(found, "path")
        return Special(kind, found.get("subpath"), found["path"])
    if kind in ("project_roots", _ALIAS):
        return Special("project_roots", members(value, "", {"subpath": or_none(text)}).get("subpath"))
    return Special(kind)


def _uri(value: Json) -> FileUri:
    return parse(text(value, below=False))


def _uris(value: Json) -> tuple[FileUri, ...]:
    if len(found := sequence(value, below=False)) > MAX_PATHS:
        raise LimitExceeded("`workspaceRoots`", len(found), MAX_PATHS, "paths", "send fewer")
    return tuple([_uri(one) for one in found])


def _flag(value: Json) -> bool:
    if type(value) is not bool:
        raise unlike(value, "a boolean", below=False)
    return value


_which_network = choice(("restricted", "enabled"))


def _network_of(value: Json) -> bool:
    return _which_network(value) == "enabled"


_CONTEXT: dict[str, Callable[[Json], object]] = {
    "permissions": decode_profile,
    "cwd": or_none(_uri),
    "workspaceRoots": _uris,
    "policyContext": or_none(
        lambda value: members(
            value,
            "struct WireFileSystemPolicyContext",
            {"cwd": or_none(_uri), "workspaceRoots": _uris},
            below=False,
        )
    ),
    "useLegacyLandlock": _flag,
    # Of other systems, of no effect here, or said by the client for itself.
    "sandboxOverride": choice(
        ("noOverride", "escalatedSandboxWithRestrictions", "bypassSandboxFirstAttempt"), below=False
    ),
    "temporaryDirectories": or_none(_uris),
    "userHomeDir": or_none(_uri),
    "windowsSandboxLevel": choice(("disabled", "restricted-token", "elevated", "mxc"), below=False),
    "windowsSandboxProxySettingsMode": or_none(choice(("reconcile", "preserve"), below=False)),
}
_MANAGED = {"file_system": decode_files, "network": _network_of}
_RESTRICTED = {"entries": _entries, "glob_scan_max_depth": or_none(nonzero)}
_ENTRY = {
    "path": _place,
    "access": choice((READ, WRITE, DENY, "none")),
    "missing_path_behavior": or_none(choice(("skip",))),
}
_PLACES: dict[str, tuple[str, Callable[[Json], object]]] = {
    "path": ("path", lambda value: parse(text(value))),
    "glob_pattern": ("pattern", lambda value: Glob(text(value))),
    "special": ("value", _special),
}
_UNKNOWN = {"path": text, "subpath": or_none(text)}


def encode_profile(profile: Profile) -> Json:
    match profile:
        case Disabled():
            return {"type": "disabled"}
        case External(network):
            return {"type": "external", "network": _network(network)}
        case Managed(files, network):
            return {"type": "managed", "file_system": _encode_files(files), "network": _network(network)}


def _network(enabled: bool) -> str:
    return "enabled" if enabled else "restricted"


def _encode_files(files: Restricted | Unrestricted) -> Json:
    if isinstance(files, Unrestricted):
        return {"type": "unrestricted"}
    told: dict[str, Json] = {"type": "restricted", "entries": [_encode_entry(one) for one in files.entries]}
    if files.glob_depth is not None:
        told["glob_scan_max_depth"] = files.glob_depth
    return told


def _encode_entry(entry: Entry) -> Json:
    told: dict[str, Json] = {"path": _encode_place(entry.place), "access": entry.access}
    if entry.skip:
        told["missing_path_behavior"] = "skip"
    return told


def _encode_place(place: FileUri | Glob | Special) -> Json:
    match place:
        case Glob(pattern):
            return {"type": "glob_pattern", "pattern": pattern}
        case Special(kind, subpath, path):
            value: dict[str, Json] = {"kind": kind}
            if path is not None:
                value["path"] = path
            if subpath is not None or kind == "unknown":
                value["subpath"] = subpath
            return {"type": "special", "value": value}
        case _:
            return {"type": "path", "path": place.text}
