"""initialize, initialized, and what an executor says about itself."""

from __future__ import annotations

from ..record import Record
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
    "fsWatchMissing": False,
    "capabilityDiscoveryV2": False,
    "environmentConfigRead": False,
    "httpHeaderEnvVars": False,
    "sandboxedFileStreaming": False,
    "fileWriteStreaming": False,
    "shellSnapshotV2": False,
    "windowsMxc": False,
    "linuxRootWritePreservesDevices": False,
    "linuxApprovedRootWritePreservesRestrictions": False,
    # Ours. A peer that does not know them ignores them; one that does may use what they name.
    "processList": True,  # process/list, process/attach
    "processResize": True,  # process/resize, process/start.size
    "processStdinEof": True,  # process/write.eof
    "processTerminateGrace": True,  # process/terminate.graceMs
    "environmentExplain": True,  # environment/explain
}


class InitializeParams(Record):
    __slots__ = ("client_name", "resume_session_id")

    def __init__(self, client_name: str, resume_session_id: str | None = None) -> None:
        self.client_name = client_name
        self.resume_session_id = resume_session_id

    @classmethod
    def decode(cls, params: Json) -> InitializeParams:
        fields = Fields(params, "InitializeParams")
        return cls(fields.text("clientName"), fields.text_or_none("resumeSessionId"))

    def encode(self) -> Json:
        return {"clientName": self.client_name, "resumeSessionId": self.resume_session_id}
