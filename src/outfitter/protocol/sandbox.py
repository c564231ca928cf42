"""What a request may do, as it stands on the wire: `sandbox` of process/start and of every fs/* request.

The outer object is in camel case, what stands below `permissions` in snake case. A profile is complete: it
says everything about files and network. `core.permissions` binds one to an executor's own paths.
"""

from __future__ import annotations

from ..errors import InvalidParams
from ..record import record
from .fields import Fields, wrong
from .uri import FileUri, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .jsontext import Json

READ, WRITE, DENY = "read", "write", "deny"
_LEVELS = ("disabled", "restricted-token", "elevated", "mxc")  # of another system; read, and of no effect
_NETWORK = ("restricted", "enabled")


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
    """What may be done at and below a place. `skip`: where the place is missing, it stays unprotected."""

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

    @classmethod
    def decode(cls, value: Json) -> SandboxContext:
        """Raises InvalidParams."""
        fields = Fields(value, "FileSystemSandboxContext")
        permissions = decode_profile(fields.raw("permissions"))
        cwd = fields.text_or_none("cwd")
        roots = tuple(fields.uris("workspaceRoots")) if "workspaceRoots" in fields else ()
        fields.choice("windowsSandboxLevel", _LEVELS)
        return cls(
            permissions,
            None if cwd is None else parse(cwd),
            roots,
            fields.flag_or("useLegacyLandlock", False),
        )

    def encode(self) -> Json:
        return {
            "permissions": encode_profile(self.permissions),
            "cwd": None if self.cwd is None else self.cwd.text,
            "workspaceRoots": [root.text for root in self.roots],
            "windowsSandboxLevel": "disabled",
            "useLegacyLandlock": self.landlock,
        }


def decode_profile(value: Json) -> Profile:
    """Raises InvalidParams."""
    fields = Fields(value, "PermissionProfile")
    kind = fields.choice("type", ("managed", "disabled", "external"))
    if kind == "disabled":
        return Disabled()
    if kind == "external":
        return External(fields.choice("network", _NETWORK) == "enabled")
    files = _files(Fields(fields.raw("file_system"), "FileSystemPermissions"))
    return Managed(files, fields.choice("network", _NETWORK) == "enabled")


def _files(fields: Fields) -> Restricted | Unrestricted:
    if fields.choice("type", ("restricted", "unrestricted")) == "unrestricted":
        return Unrestricted()
    entries = tuple(_entry(Fields(one, "FileSystemSandboxEntry")) for one in fields.items("entries"))
    depth = fields.unsigned_or_none("glob_scan_max_depth")
    if depth == 0:
        raise InvalidParams("invalid value: integer `0`, expected a nonzero usize")
    return Restricted(entries, depth)


def _entry(fields: Fields) -> Entry:
    path = fields.raw("path")
    if type(path) is not dict:
        raise wrong(path, "internally tagged enum ExecFileSystemPath")
    place = _place(Fields(path, "ExecFileSystemPath"))
    access = fields.choice("access", (READ, WRITE, DENY, "none"))
    skip = fields.raw_or_none("missing_path_behavior") is not None
    if skip:
        fields.choice("missing_path_behavior", ("skip",))
    return Entry(place, DENY if access == "none" else access, skip)


def _place(fields: Fields) -> FileUri | Glob | Special:
    kind = fields.choice("type", ("path", "glob_pattern", "special"))
    if kind == "path":
        return fields.uri("path")
    if kind == "glob_pattern":
        return Glob(fields.text("pattern"))
    return _special(Fields(fields.raw("value"), "FileSystemSpecialPath"))


_SPECIAL = ("root", "minimal", "current_working_directory", "project_roots", "tmpdir", "slash_tmp", "unknown")


def _special(fields: Fields) -> Special:
    kind = fields.choice("kind", _SPECIAL)
    if kind == "unknown":
        return Special(kind, fields.text_or_none("subpath"), fields.text("path"))
    if kind in ("project_roots", "current_working_directory"):
        return Special("project_roots", fields.text_or_none("subpath"))
    return Special(kind)


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
