"""initialize, initialized, and what an executor says about itself."""

from __future__ import annotations

from ..record import record
from . import uri
from .fields import Fields
from .results import Result

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


# The close code for a client whose session was given to another one. Private use (RFC 6455 7.4.2).
TAKEN_OVER = 4001


@record
class InitializeParams:
    """initialize. Ours: `take_over` resumes a session that another connection holds, and ends that one;
    `environment_summary` asks for a summary of each command's environment."""

    client_name: str
    resume_session_id: str | None = None
    take_over: bool = False
    environment_summary: bool = False

    @classmethod
    def decode(cls, params: Json) -> InitializeParams:
        fields = Fields(params, "InitializeParams")
        return cls(
            fields.text("clientName"),
            fields.text_or_none("resumeSessionId"),
            fields.raw_or_none("takeOver") is True,
            fields.raw_or_none("environmentSummary") is True,
        )

    def encode(self) -> Json:
        params: dict[str, Json] = {
            "clientName": self.client_name,
            "resumeSessionId": self.resume_session_id,
        }
        if self.take_over:
            params["takeOver"] = True
        if self.environment_summary:
            params["environmentSummary"] = True
        return params


@record
class EnvironmentInfo(Result):
    """What an executor says about itself (environment/info). Everything but the shell may be missing.

    `cwd`, `home` and `temp_dir` are URIs; `session_retention` (ours) is how many seconds a session waits
    for its client; `base` (ours) says whose environment commands start from; `capabilities` are the names of
    the flags that are true; `raw` is all that a server said.
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

    @classmethod
    def decode(cls, result: Json) -> EnvironmentInfo:
        fields = Fields(result, "EnvironmentInfo")
        shell = Fields(fields.raw("shell"), "ShellInfo")
        flags = fields.raw_or_none("capabilities")
        retention = fields.unsigned_or_none("sessionRetentionMs")
        return cls(
            shell.text("name"),
            shell.text("path"),
            _uri_or_none(fields, "cwd"),
            _uri_or_none(fields, "userHomeDir"),
            _uri_or_none(fields, "tempDir"),
            fields.text_or_none("platformOs"),
            fields.text_or_none("executorVersion"),
            None if retention is None else retention / 1000,
            frozenset(name for name, on in flags.items() if on is True)
            if type(flags) is dict
            else frozenset(),
            result,
            fields.text_or_none("providerId"),
            tuple(fields.texts("temporaryDirectories")) if "temporaryDirectories" in fields else (),
            fields.raw_or_none("base"),
        )

    def encode(self) -> Json:
        flags = {name: name in self.capabilities for name in REFERENCE_FLAGS}
        flags.update((name, True) for name in sorted(self.capabilities))
        retention = self.session_retention
        return {
            "shell": {"name": self.shell_name, "path": self.shell_path},
            "executorVersion": self.version,
            "providerId": self.provider_id,
            "cwd": None if self.cwd is None else self.cwd.text,
            "userHomeDir": None if self.home is None else self.home.text,
            "platformOs": self.platform,
            "prependPathDirs": [],
            "temporaryDirectories": list(self.temporary_directories),
            "tempDir": None if self.temp_dir is None else self.temp_dir.text,
            "sessionRetentionMs": None if retention is None else int(retention * 1000),
            "base": self.base,
            "capabilities": flags,
        }


def _uri_or_none(fields: Fields, name: str) -> uri.FileUri | None:
    text = fields.text_or_none(name)
    return None if text is None else uri.parse(text)


@record
class InitializeResult(Result):
    session_id: str
    info: EnvironmentInfo | None

    @classmethod
    def decode(cls, result: Json) -> InitializeResult:
        fields = Fields(result, "InitializeResult")
        info = fields.raw_or_none("environmentInfo")
        return cls(fields.text("sessionId"), None if info is None else EnvironmentInfo.decode(info))

    def encode(self) -> Json:
        info = None if self.info is None else self.info.encode()
        return {"sessionId": self.session_id, "environmentInfo": info}


@record
class StatusResult(Result):
    """environment/status: "ready", or what the executor is still doing."""

    status: str = "ready"

    @classmethod
    def decode(cls, result: Json) -> StatusResult:
        return cls(Fields(result, "StatusResult").text("status"))

    def encode(self) -> Json:
        return {"status": self.status}
