"""What a person asks of a sandbox, before any executor has a say: `outfitter.Sandbox`.

Intent only: what may be written, what is hidden, what of the network is reached. How that is enforced is the
executor's business.
"""

from __future__ import annotations

from ..errors import SettingInvalid
from ..protocol.sandbox import (
    DENY,
    WRITE,
    Disabled,
    Entry,
    Glob,
    Managed,
    Restricted,
    SandboxContext,
    Special,
    Unrestricted,
)
from ..protocol.uri import from_path, parse
from ..record import KW_ONLY, fill, record, replace
from .permissions import plain
from .profiles import read_entries, workspace_entries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..protocol.sandbox import Profile
    from ..protocol.uri import FileUri

FULL, WORKSPACE, READ_ONLY = "full-access", "workspace-write", "read-only"
MODES = (FULL, WORKSPACE, READ_ONLY)  # from the loosest to the strictest
_WILDCARDS = frozenset("*?[")
_SPLITS = _WILDCARDS | {"]"}  # from the first of them on, an executor takes a path for a pattern
_SPEAKING = _SPLITS | frozenset("{}\\")  # what does not stand for itself in one
_MARKS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.:")


@record
class Sandbox:
    """What a command, or a file request, may do on its executor.

        sandbox = outfitter.Sandbox.workspace_write(domains=["pypi.org"], deny_read=["secrets"])
        done = await client.run(["make"], sandbox=sandbox)
        print(done.sandbox_denied)  # False

    `mode` is "read-only", "workspace-write" (the directory of the command, or `roots`, and the temporary
    directories may be written) or "full-access". `writable` are more paths that may be written, `deny_read`
    paths and patterns that stay hidden. Without `network` no network is reached, but for `domains`. Paths are
    the executor's; relative ones start at the directory of the command.

    Make one with `read_only()`, `workspace_write()` or `full_access()`. Raises SettingInvalid.
    """

    mode: str
    _: KW_ONLY
    writable: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    deny_read: tuple[str, ...] = ()
    network: bool = False
    roots: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise SettingInvalid(f"unknown mode of a sandbox: {self.mode!r}: use one of {', '.join(MODES)}")
        domains = tuple([domain(text) for text in self.domains])
        if domains and self.network:
            raise SettingInvalid("a sandbox with network=True reaches every domain: leave `domains` out")
        for name in ("writable", "deny_read", "roots"):
            for path in getattr(self, name):
                if not path or "\0" in path:
                    raise SettingInvalid(f"`{name}` of a sandbox has an empty path, or one with a NUL")
        fill(self, domains=domains, network=self.network or (self.mode == FULL and not domains))

    @classmethod
    def read_only(
        cls,
        *,
        writable: Iterable[str] = (),
        domains: Iterable[str] = (),
        deny_read: Iterable[str] = (),
        network: bool = False,
    ) -> Sandbox:
        """Everything may be read, and nothing written but `writable`.

            done = await client.run(["git", "--version"], sandbox=outfitter.Sandbox.read_only())

        Raises SettingInvalid.
        """
        return cls(
            READ_ONLY,
            writable=_texts(writable),
            domains=_texts(domains),
            deny_read=_texts(deny_read),
            network=network,
        )

    @classmethod
    def workspace_write(
        cls,
        *,
        writable: Iterable[str] = (),
        domains: Iterable[str] = (),
        deny_read: Iterable[str] = (),
        network: bool = False,
        roots: Iterable[str] = (),
    ) -> Sandbox:
        """Everything may be read; the workspace, the temporary directories and `writable` may be written.

            sandbox = outfitter.Sandbox.workspace_write(roots=["/srv/app"], network=True)

        The workspace is the command's directory, or `roots`. In it, and in each of `writable`, these stay
        read-only: .git, .agents, .codex and .aws.
        """
        return cls(
            WORKSPACE,
            writable=_texts(writable),
            domains=_texts(domains),
            deny_read=_texts(deny_read),
            network=network,
            roots=_texts(roots),
        )

    @classmethod
    def full_access(cls, *, domains: Iterable[str] = (), deny_read: Iterable[str] = ()) -> Sandbox:
        """Nothing is confined but what `deny_read` and `domains` say.

            sandbox = outfitter.Sandbox.full_access(deny_read=["**/*.pem"])

        Raises SettingInvalid.
        """
        return cls(FULL, domains=_texts(domains), deny_read=_texts(deny_read))

    @property
    def confines(self) -> bool:
        """Whether it keeps a command from anything."""
        return self.mode != FULL or bool(self.domains or self.deny_read)


def _texts(values: Iterable[str]) -> tuple[str, ...]:
    if isinstance(values, str):
        raise SettingInvalid(f"a sandbox takes lists of texts: write [{values!r}]")
    return tuple(values)


def profile(sandbox: Sandbox, cwd: FileUri) -> Profile:
    """The permissions that say so, for a command in a directory. Raises SettingInvalid."""
    if not sandbox.confines:
        return Disabled()
    if sandbox.mode == FULL and not sandbox.deny_read:
        return Managed(Unrestricted(), True)
    entries = [Entry(Special("root"), WRITE)]
    if sandbox.mode != FULL:
        entries = workspace_entries() if sandbox.mode == WORKSPACE else read_entries()
    entries += [Entry(_uri(path, cwd), WRITE) for path in sandbox.writable]
    entries += [
        Entry(_glob(path, cwd) if is_pattern(path) else _uri(path, cwd), DENY) for path in sandbox.deny_read
    ]
    return Managed(Restricted(tuple(entries)), sandbox.network or bool(sandbox.domains))


def context(sandbox: Sandbox, cwd: FileUri) -> SandboxContext:
    """The same for a request in a directory. Raises SettingInvalid."""
    roots = tuple([_uri(path, cwd) for path in sandbox.roots]) or (cwd,)
    return SandboxContext(profile(sandbox, cwd), cwd, roots)


def here(sandbox: Sandbox, cwd: str, roots: tuple[FileUri, ...] = ()) -> SandboxContext:
    """The same on this machine. `roots` are those of a request, if it has any: a workspace is the same one
    whoever speaks of it."""
    told = context(sandbox, parse(from_path(cwd)))
    return replace(told, roots=roots) if roots else told


def _uri(path: str, cwd: FileUri) -> FileUri:
    if path.startswith("file:"):
        return parse(path)
    if path.startswith("/"):
        return parse(from_path(path))
    try:
        return parse(from_path(f"{cwd.local_path().rstrip('/')}/{path}"))
    except ValueError:
        raise SettingInvalid(
            f"{path!r} of a sandbox cannot be joined to {cwd.text}: use a file: URI"
        ) from None


def _glob(pattern: str, cwd: FileUri) -> Glob:
    """A pattern. The executor would take a part of the directory's own name for a wildcard; and a pattern
    that matches nothing hides nothing."""
    try:
        folder = cwd.local_path()
    except ValueError:
        return Glob(pattern)  # of another system, which knows its paths
    if pattern.startswith("/") or _SPLITS.isdisjoint(folder):
        return Glob(pattern)
    return Glob(hidden_below(folder, pattern))


def hidden_below(folder: str, path: str) -> str:
    """What hides from everywhere the same as a relative path or pattern hides in a folder: no part of that
    folder's own name is a wildcard, and a single name matches at any depth."""
    if _SPLITS.isdisjoint(folder):
        return plain(f"{folder}/{path}")
    if not is_pattern(path):
        uri = from_path(plain(f"{folder}/{path}"))
        return uri.replace("*", "%2A").replace("[", "%5B")  # which is no pattern
    path = path.removeprefix("./")
    deep = "" if "/" in path else "**/"
    return plain(f"{_escaped(folder)}/{deep}{path}")


def is_pattern(path: str) -> bool:
    """Whether a path has wildcards."""
    return not _WILDCARDS.isdisjoint(path)


def _escaped(path: str) -> str:
    """A pattern that matches just this path."""
    return "".join([f"[{mark}]" if mark in _SPEAKING else mark for mark in path])


# Domains: NAME, *.NAME (what is below it), **.NAME (it, and what is below it), or * for all.


def domain(text: str) -> str:
    """A domain, or a pattern of some, in one form. Raises SettingInvalid."""
    name = text.lower().removesuffix(".")
    plain = name.removeprefix("**.").removeprefix("*.")
    if text != "*" and (name == "*" or not plain or plain.startswith(".") or not _MARKS.issuperset(plain)):
        raise SettingInvalid(
            f"{text!r} is not a domain: write example.com, *.example.com (what is below it) or "
            f"**.example.com (both), without https:// and without a path"
        )
    return name


def domain_covers(wide: str, narrow: str) -> bool:
    """Whether every name that matches one pattern matches the other."""
    if wide == "*" or wide == narrow:
        return True
    if narrow == "*" or not wide.startswith("*"):
        return False
    apex = wide.lstrip("*")[1:]
    name = narrow.removeprefix("**.").removeprefix("*.")
    if name.endswith(f".{apex}"):
        return True
    return name == apex and (wide.startswith("**.") or narrow.startswith("*."))


def both_domains(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The domains that two allow; None stands for all of them."""
    if one is None or other is None:
        return other if one is None else one
    return common_domains(one, other)


def common_domains(one: Iterable[str], other: Iterable[str]) -> tuple[str, ...]:
    """The patterns of names that both lists allow. Of two patterns one covers the other, or they share
    nothing."""
    one, other = tuple(one), tuple(other)
    found = [text for text in one if any(domain_covers(wide, text) for wide in other)]
    found += [text for text in other if any(domain_covers(wide, text) for wide in one)]
    return tuple(sorted(set(found)))
