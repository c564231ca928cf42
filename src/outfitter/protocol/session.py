"""initialize, initialized, and what an executor says about itself."""

from __future__ import annotations

from ..record import record
from . import uri
from .fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .jsontext import Json

# The reference's flags, in its order. True only for what works here.
CAPABILITIES: dict[str, bool] = {
    "networkProxyLaunch": False,
    "networkProxyReviewDomains": False,
    "credentialMasking": False,
    "credentialMaskingCustomProviders": False,
    "capabilityDiscoverySandbox": False,
    "fsWatchMissing": True,
    "capabilityDiscoveryV2": False,
    "environmentConfigRead": False,
    "httpHeaderEnvVars": False,
    "sandboxedFileStreaming": False,
    "fileWriteStreaming": True,
    "shellSnapshotV2": False,
    "windowsMxc": False,
    "linuxRootWritePreservesDevices": False,
    "linuxApprovedRootWritePreservesRestrictions": False,
    # Ours. A peer that does not know them ignores them; one that does may use what they name.
    "processList": True,  # process/list, process/attach
    "processResize": True,  # process/resize, process/start.size
    "processStdinEof": True,  # process/write.eof
    "processTerminateGrace": True,  # process/terminate.graceMs
    "environmentExplain": True,  # environment/resolve, environment/explain, environment/diff
    "environmentContract": True,  # process/start.contract, initialize.environmentSummary
    "environmentOverlay": True,  # environment/overlay/*, contract.scope, contract.overlays
    "sessionTakeOver": True,  # initialize.takeOver
    "fsCloseDiscard": True,  # fs/close.discard
    "fsOpenUpdate": True,  # fs/open.mode "update"
    "fsRename": True,  # fs/rename
    "fsChmod": True,  # fs/chmod
    "fsWatch": True,  # fs/watch, fs/unwatch, fs/changed
    "fsSearch": True,  # fs/search
}


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
class EnvironmentInfo:
    """What an executor says about itself (environment/info). Everything but the shell may be missing.

    `cwd`, `home` and `temp_dir` are URIs; `session_retention` (ours) is how many seconds a session waits
    for its client; `capabilities` are the names of the flags that are true; `raw` is all of it.
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
    raw: Json

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
        )


def _uri_or_none(fields: Fields, name: str) -> uri.FileUri | None:
    text = fields.text_or_none(name)
    return None if text is None else uri.parse(text)


@record
class InitializeResult:
    session_id: str
    info: EnvironmentInfo | None

    @classmethod
    def decode(cls, result: Json) -> InitializeResult:
        fields = Fields(result, "InitializeResult")
        info = fields.raw_or_none("environmentInfo")
        return cls(fields.text("sessionId"), None if info is None else EnvironmentInfo.decode(info))
