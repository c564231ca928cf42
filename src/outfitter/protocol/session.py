"""initialize, initialized, and what an executor says about itself."""

from __future__ import annotations

from ..record import record
from . import uri
from .fields import Fields
from .results import Result
from .shape import Shape, member, said, shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .jsontext import Json

# The reference's flags, in its order; `methods.CAPABILITIES` says which are on.
REFERENCE_FLAGS = (
    "networkProxyLaunch",
    "networkProxyReviewDomains",
    "credentialMasking",
    "credentialMaskingCustomProviders",
    "capabilityDiscoverySandbox",
    "fsWatchMissing",
    "capabilityDiscoveryV2",
    "environmentConfigRead",
    "httpHeaderEnvVars",
    "sandboxedFileStreaming",
    "fileWriteStreaming",
    "shellSnapshotV2",
    "windowsMxc",
    "linuxRootWritePreservesDevices",
    "linuxApprovedRootWritePreservesRestrictions",
)


# What an executor's version is told as: the reference's version that we answer like, and behind it our own.
# Stock Codex asks only executors of a late enough version for their skills and plugins.
_LEVEL = "0.166.0+outfitter."


# The close code for a client whose session was given to another one. Private use (RFC 6455 7.4.2).
TAKEN_OVER = 4001
# And for a client that leaves and will not come back: its session ends as soon as nothing runs in it.
LEFT = 4002
# The close code and reason of a server that replaces itself by a new version (RFC 6455's registry: service
# restart). With these words it promises that it has not handled what it has not answered.
RESTARTING = 1012
RESTARTING_REASON = "the server restarts and keeps its commands; what it has not answered was not done"


def restarts(close_code: int | None, reason: str) -> bool:
    """Whether a server ended a connection with that promise.

    Its own words count: a proxy that restarts uses the same code and promises nothing.
    """
    return close_code == RESTARTING and reason.endswith(RESTARTING_REASON)


@shape()
class InitializeParams(Shape):
    """initialize. Ours: `take_over` resumes a session that another connection holds, and ends that one;
    `environment_summary` asks for a summary of each command's environment; `operate` opens a session that can
    start nothing and that a server accepts while it drains."""

    client_name: str = member(Fields.ident)
    resume_session_id: str | None = member(Fields.ident_or_none, default=None)
    take_over: bool = member(said, default=False, omit=True)
    environment_summary: bool = member(said, default=False, omit=True)
    operate: bool = member(said, default=False, omit=True)


@record
class EnvironmentInfo:
    """What an executor says about itself. Everything but the shell may be missing.

        print(client.info.platform, client.info.shell_name)

    `cwd`, `home` and `temp_dir` are URIs; `session_retention` (ours) is how many seconds a session waits
    for its client; `base` (ours) says whose environment commands start from; `capabilities` are the names of
    the flags that are true; `weaker` (ours) is what the executor does less well than one on Linux, by
    ability, and why; `raw` is all that a server said.
    """

    shell_name: str
    shell_path: str
    cwd: uri.FileUri | None
    home: uri.FileUri | None
    temp_dir: uri.FileUri | None
    platform: str | None
    version: str | None
    session_retention: float | None
    capabilities: frozenset[str]
    raw: Json = None
    provider_id: str | None = None
    temporary_directories: tuple[str, ...] = ()
    base: Json = None
    weaker: tuple[tuple[str, str], ...] = ()


@record
class InfoResult(Result):
    """environment/info."""

    info: EnvironmentInfo

    @classmethod
    def decode(cls, result: Json) -> InfoResult:
        fields = Fields(result, "EnvironmentInfo")
        shell = Fields(fields.raw("shell"), "ShellInfo")
        flags = fields.raw_or_none("capabilities")
        retention = fields.unsigned_or_none("sessionRetentionMs")
        info = EnvironmentInfo(
            shell.text("name"),
            shell.text("path"),
            _uri_or_none(fields, "cwd"),
            _uri_or_none(fields, "userHomeDir"),
            _uri_or_none(fields, "tempDir"),
            fields.text_or_none("platformOs"),
            _own_version(fields.text_or_none("executorVersion")),
            None if retention is None else retention / 1000,
            frozenset(name for name, on in flags.items() if on is True)
            if type(flags) is dict
            else frozenset(),
            result,
            fields.text_or_none("providerId"),
            tuple(fields.texts("temporaryDirectories")) if "temporaryDirectories" in fields else (),
            fields.raw_or_none("base"),
            _texts(fields.raw_or_none("weaker")),
        )
        return cls(info)

    def encode(self) -> Json:
        info = self.info
        flags = {name: name in info.capabilities for name in REFERENCE_FLAGS}
        flags.update((name, True) for name in sorted(info.capabilities))
        retention = info.session_retention
        told: Json = {
            "shell": {"name": info.shell_name, "path": info.shell_path},
            "executorVersion": None if info.version is None else _LEVEL + info.version.replace("+", "."),
            "providerId": info.provider_id,
            "cwd": None if info.cwd is None else info.cwd.text,
            "userHomeDir": None if info.home is None else info.home.text,
            "platformOs": info.platform,
            "prependPathDirs": [],
            "temporaryDirectories": list(info.temporary_directories),
            "tempDir": None if info.temp_dir is None else info.temp_dir.text,
            "sessionRetentionMs": None if retention is None else int(retention * 1000),
            "base": info.base,
            "capabilities": flags,
        }
        if info.weaker:
            told["weaker"] = dict(info.weaker)
        return told


def _texts(told: Json) -> tuple[tuple[str, str], ...]:
    if type(told) is not dict:
        return ()
    return tuple((name, text) for name, text in told.items() if type(text) is str)


def _own_version(told: str | None) -> str | None:
    """The version of who answers: ours, or the reference's."""
    if told is None:
        return None
    _, ours, version = told.partition("+outfitter.")
    return version if ours else told


def _uri_or_none(fields: Fields, name: str) -> uri.FileUri | None:
    text = fields.text_or_none(name)
    return None if text is None else uri.parse(text)


def _read_info(fields: Fields, name: str) -> EnvironmentInfo:
    return InfoResult.decode(fields.raw(name)).info


def _write_info(info: EnvironmentInfo) -> Json:
    return InfoResult(info).encode()


@shape()
class InitializeResult(Result):
    session_id: str
    info: EnvironmentInfo | None = member(_read_info, _write_info, name="environmentInfo")
