"""Permission profiles by name, and what may be added to one; `core.narrowing` takes away.

A profile is complete. A grant is not: it adds to what a managed profile allows, for a command, a turn or a
session, never makes it a profile of another kind, and never takes anything away.
"""

from __future__ import annotations

from ..errors import InvalidParams, SettingInvalid
from ..protocol.fields import Fields
from ..protocol.sandbox import (
    DENY,
    READ,
    WRITE,
    Disabled,
    Entry,
    External,
    Glob,
    Managed,
    Restricted,
    Special,
    decode_files,
)
from ..protocol.uri import FileUri, from_path, parse
from ..record import record, replace
from .permissions import PROTECTED, bind, paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..protocol.jsontext import Json
    from ..protocol.sandbox import Profile, SandboxContext
    from .permissions import Confinement

# Names of the reference's older policies, from the strictest to the loosest; the last one says nothing of
# files.
READ_ONLY, WORKSPACE_WRITE, FULL_ACCESS = "read-only", "workspace-write", "danger-full-access"
EXTERNAL = "external-sandbox"


def read_only(*, network: bool = False) -> Managed:
    """Everything may be read, and nothing written."""
    return Managed(Restricted(tuple(read_entries())), network)


def workspace_write(*, network: bool = False) -> Managed:
    """Everything may be read; the workspace and the temporary folders may be written."""
    return Managed(Restricted(tuple(workspace_entries())), network)


def read_entries() -> list[Entry]:
    """What the stock client sends for read-only."""
    return [Entry(Special("root"), READ)]


def workspace_entries() -> list[Entry]:
    """What the stock client sends for workspace-write."""
    writable = [Entry(Special(kind), WRITE) for kind in ("project_roots", "slash_tmp", "tmpdir")]
    kept = [Entry(Special("project_roots", name), READ, skip=True) for name in PROTECTED]
    return [*read_entries(), *writable, *kept]


def named(policy: str, *, network: bool = False) -> Profile:
    """The profile that an older policy stands for. Raises SettingInvalid."""
    match policy:
        case "read-only":
            return read_only(network=network)
        case "workspace-write":
            return workspace_write(network=network)
        case "danger-full-access":
            return Disabled()
        case "external-sandbox":
            return External(network)
    known = ", ".join((READ_ONLY, WORKSPACE_WRITE, FULL_ACCESS, EXTERNAL))
    raise SettingInvalid(f"unknown policy of a sandbox: {policy!r}: use one of {known}")


def decode_older(value: Json) -> Managed:
    """A profile in the shape without a type, as older clients have stored it; requests never have it.

    `file_system` has entries like those of today, or lists of paths that may be read and written. Raises
    InvalidParams, also for a member that is not known: it could be one that restricts.
    """
    fields = Fields(value, "PermissionProfile")
    for name in fields.members:
        if name not in ("network", "file_system"):
            raise InvalidParams(f"unknown field `{name}`, expected `network` or `file_system`")
    network = fields.object_or_none("network", "NetworkPermissions")
    files = fields.object_or_none("file_system", "FileSystemPermissions")
    enabled = network is not None and network.raw_or_none("enabled") is not None and network.flag("enabled")
    if files is None:
        return Managed(Restricted(), enabled)
    if "entries" in files:
        return Managed(decode_files({**files.members, "type": "restricted"}), enabled)
    entries = []
    for name in (READ, WRITE):
        if files.raw_or_none(name) is not None:
            entries += [Entry(_place(path), name) for path in files.texts(name)]
    return Managed(Restricted(tuple(entries)), enabled)


def _place(path: str) -> FileUri:
    return parse(from_path(path) if path.startswith("/") else path)


@record
class PermissionGrant:
    """What is allowed besides: `entries` that read or write, and perhaps the network."""

    entries: tuple[Entry, ...] = ()
    network: bool = False

    def __post_init__(self) -> None:
        for entry in self.entries:
            if entry.access == DENY or isinstance(entry.place, Glob):
                raise SettingInvalid("a grant allows: it takes no entries that deny, and no patterns")


def granted(
    context: SandboxContext, grant: PermissionGrant, *, cwd: str | None = None, tmpdir: str | None = None
) -> SandboxContext:
    """A context with a grant. What it allows already is not said again: a narrower entry, even one that
    allows, would change what is around it. Raises InvalidParams.
    """
    profile = context.permissions
    if isinstance(profile, External):
        return replace(context, permissions=External(profile.network or grant.network))
    if isinstance(profile, Disabled):
        return context
    network = profile.network or grant.network
    if not isinstance(profile.files, Restricted):
        return replace(context, permissions=Managed(profile.files, network))
    now = bind(context, cwd=cwd, tmpdir=tmpdir)
    roots = [root.local_path() for root in context.roots]
    more = [entry for one in grant.entries for entry in _raising(one, now, roots, tmpdir)]
    files = replace(profile.files, entries=(*profile.files.entries, *more))
    return replace(context, permissions=Managed(files, network))


def _raising(entry: Entry, now: Confinement, roots: Sequence[str], tmpdir: str | None) -> list[Entry]:
    try:
        found = paths(entry, roots, tmpdir)
    except ValueError as error:
        raise InvalidParams(f"invalid sandbox permission path URI: {error}") from None
    lower = (DENY,) if entry.access == READ else (DENY, READ)
    wanted = [path for path in found if now.access(path) in lower]
    if len(wanted) == len(found):
        return [entry]
    return [Entry(parse(from_path(path)), entry.access) for path in wanted]
