"""What a sandbox denied, as far as a command's last words tell, and which flag would allow it.

A guess for people: programs say in their own words why they failed. It decides nothing.
"""

from __future__ import annotations

import re

from ..record import record
from .hosts import HostPatterns, address_of, names_this_host
from .permissions import PROTECTED, covers
from .sandbox import FULL, READ_ONLY, WORKSPACE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .sandbox import Sandbox

_READ_ONLY_TEXT = re.compile(r"read-only file system", re.IGNORECASE)
_HIDDEN_TEXT = re.compile(r"permission denied", re.IGNORECASE)
# What programs say when a name cannot be resolved, a host not be reached, or a socket not be made.
_NETWORK_TEXT = re.compile(
    r"could not resolve|couldn't resolve|name resolution|name or service not known|getaddrinfo|EAI_AGAIN"
    r"|network is unreachable|ENETUNREACH|couldn't connect|failed to connect|connection refused|ECONNREFUSED"
    r"|socket: operation not permitted|socket\(\)|blocked-by-(?:allow|deny)list|not in allowlist"
    r"|tunnel connection failed: 403|CONNECT tunnel failed, response 403",
    re.IGNORECASE,
)
_HOST = re.compile(
    r"(?:resolve host:?|connect to|host[=:]|https?://|ENOTFOUND|EAI_AGAIN) *['\"(]?"
    r"((?:[a-z0-9-]+\.)+[a-z]{2,})",
    re.IGNORECASE,
)
# Where the flag to give is there: a project's `[sandbox]` takes away, say.
_TAKEN_AWAY = "{} allows it, and something else takes it away; see `outfitter sandbox explain`"
# A path in quotes, or one that stands between colons or at an end of the line.
_QUOTED = re.compile("['\"`\u2018\u201c]([^'\"`\u2019\u201d]+)['\"`\u2019\u201d]")
_BARE = re.compile(r"(?:^|[\s:=])((?:/|\.{1,2}/|\.git/|[\w.-]+/)[^\s:,'\"]*)")
# A name without any slash, as in "cat: NAME: Permission denied".
_NAME = re.compile(r":\s*([^\s:'\"][^:'\"]*?)\s*:\s*$")


@record
class Denial:
    """`kind` is "write", "read", "network" or "" for what is not known; `subject` is a path or a domain.
    One that is `private` was refused because it is a private address, or stands for one."""

    kind: str
    subject: str = ""
    private: bool = False


def guess(
    tail: str, sandbox: Sandbox, cwd: str, *, denied: bool, hosts: Sequence[tuple[str, bool]] = ()
) -> Denial | None:
    """What was denied; None if nothing was. `denied` is the executor's word, which does not know of hosts
    that were not reached: `hosts` are those that its proxy refused, each with whether it is private. `cwd` is
    the command's directory, for the relative paths in what it said."""
    for line in reversed(tail.splitlines()):
        if denied and _READ_ONLY_TEXT.search(line):
            return Denial("write", _path(_READ_ONLY_TEXT.sub(" ", line), cwd))
        if denied and sandbox.deny_read and _HIDDEN_TEXT.search(line):
            return Denial("read", _path(_HIDDEN_TEXT.sub(" ", line), cwd))
        if not sandbox.network and _NETWORK_TEXT.search(line):
            if hosts:
                break
            host = _HOST.search(line) or _HOST.search(tail)
            return Denial("network", host[1].lower() if host is not None else "")
    if hosts:
        return Denial("network", *hosts[-1])
    return Denial("") if denied else None


def sentence(denial: Denial, sandbox: Sandbox, cwd: str) -> str:
    """What happened, then what to do: one line."""
    subject = denial.subject
    match denial.kind:
        case "write":
            what = f"a write to {subject}" if subject else "a write"
            return f"the sandbox denied {what}: {_write_remedy(subject, sandbox, cwd)}"
        case "read":
            what = f"reading {subject}" if subject else "a read"
            return f"the sandbox denied {what}: leave out the --deny-read that matches it to allow it"
        case "network":
            what = f"the connection to {subject}" if subject else "a connection to the network"
            return f"the sandbox denied {what}: {_network_remedy(denial, sandbox)}"
    return (
        f"the sandbox ({sandbox.mode}) denied something: see what it allows with `outfitter sandbox explain "
        f"--sandbox {sandbox.mode}`"
    )


def _network_remedy(denial: Denial, sandbox: Sandbox) -> str:
    host = denial.subject
    if denial.private and address_of(host) is None and not names_this_host(host):
        return "it stands for an address that is not public; --allow-domain with that address would allow it"
    allowed = HostPatterns()
    for domain in sandbox.domains:
        allowed.add(domain)
    if allowed.match(host) and not denial.private:
        return _TAKEN_AWAY.format("--allow-domain")
    return f"--allow-domain {host or 'DOMAIN'} would allow it"


def _write_remedy(path: str, sandbox: Sandbox, cwd: str) -> str:
    if not path.startswith("/"):
        more = f"--sandbox {WORKSPACE} or " if sandbox.mode == READ_ONLY else ""
        return f"{more}--allow-write DIR would allow it"
    given = [_joined(cwd, path) for path in sandbox.writable]
    for root in (cwd, *given):
        for name in PROTECTED:
            protected = f"{root.rstrip('/')}/{name}"
            if covers(protected, path):
                return f"{name} is protected; --allow-write {_word(protected)} would allow it"
    if sandbox.mode == READ_ONLY and covers(cwd, path):
        return f"--sandbox {WORKSPACE} would allow it"
    folder = path.rpartition("/")[0]
    if not folder:
        return f"--sandbox {FULL} would allow it"
    if folder in given:
        return _TAKEN_AWAY.format("--allow-write")
    if sandbox.mode == WORKSPACE and folder in (cwd, "/tmp"):
        return _TAKEN_AWAY.format(f"--sandbox {WORKSPACE}")
    return f"--allow-write {_word(folder)} would allow it"


def _word(path: str) -> str:
    from shlex import quote

    return quote(path)


def _path(line: str, cwd: str) -> str:
    """The path that a message is about, absolute; the last one of several. Empty if there is none."""
    found = [text for text in _QUOTED.findall(line) if text.strip() and not text.endswith(":")]
    found = found or _BARE.findall(line) or _NAME.findall(line)
    if not found:
        return ""
    text: str = found[-1].rstrip("/.") or "/"
    return _joined(cwd, text)


def _joined(folder: str, path: str) -> str:
    if path.startswith("/"):
        return path
    parts = folder.strip("/").split("/")
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(part for part in parts if part)
