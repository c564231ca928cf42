"""Error class ⇄ numeric code and data. The wire never names a class."""

from __future__ import annotations

from ..errors import (
    EnvironmentTooLarge,
    FileFailed,
    FileInvalid,
    HostUnsupported,
    InvalidParams,
    LaunchFailed,
    LoginRejected,
    Malformed,
    MethodUnknown,
    OutfitterError,
    OverlayRefused,
    OverlaysFull,
    OverlayUnknown,
    ProviderBlocked,
    ProviderFailed,
    Refused,
    ScopeUnknown,
    SessionAttached,
    SetupBlocked,
    SetupFailed,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .jsontext import Json

INTERNAL_ERROR = "internal error"
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL = -32603
NOT_FOUND = -32004
SESSION_ATTACHED = -32010

_CODES: dict[type[OutfitterError], int] = {
    Malformed: INVALID_REQUEST,
    Refused: INVALID_REQUEST,
    InvalidParams: INVALID_PARAMS,
    MethodUnknown: METHOD_NOT_FOUND,
    EnvironmentTooLarge: INVALID_PARAMS,
    FileInvalid: INVALID_REQUEST,
    LoginRejected: INVALID_REQUEST,
    ProviderBlocked: INVALID_REQUEST,
    ProviderFailed: INVALID_REQUEST,
    SetupBlocked: INVALID_REQUEST,
    SetupFailed: INVALID_REQUEST,
    OverlayRefused: INVALID_PARAMS,
    OverlayUnknown: INVALID_REQUEST,
    ScopeUnknown: INVALID_REQUEST,
    OverlaysFull: INVALID_REQUEST,
    SessionAttached: SESSION_ATTACHED,
    LaunchFailed: INTERNAL,
    FileFailed: INTERNAL,
    HostUnsupported: INTERNAL,
}


# As the reference maps them; everything else is INTERNAL.
_FILE_CODES = {
    "ENOENT": NOT_FOUND,
    "EINVAL": INVALID_REQUEST,
    "EACCES": INVALID_REQUEST,
    "EPERM": INVALID_REQUEST,
}


def of(error: BaseException) -> tuple[int, str, Json]:
    """Code, message and data with which an error leaves.

    Data are members the reference never sets, so a peer that knows only it ignores them. Of a fault of ours
    nothing leaves: details may be sensitive.
    """
    if not isinstance(error, OutfitterError):
        return INTERNAL, INTERNAL_ERROR, {"error": "internal-error"}
    code = _CODES.get(type(error), INTERNAL)
    if isinstance(error, Malformed):
        # Constant but for the detail: the reference adds the peer's address here.
        return code, f"failed to parse JSON-RPC message: {error.detail}", {"error": error.slug}
    data: dict[str, Json] = {"error": error.slug}
    if isinstance(error, FileFailed) and error.errno_name is not None:
        data["errno"] = error.errno_name
        code = _FILE_CODES.get(error.errno_name, code)
    if isinstance(error, LaunchFailed):
        if error.errno_name is not None:
            data["errno"] = error.errno_name
        if error.what is not None:
            data["reason"] = error.what
        if error.subject is not None:
            data["subject"] = error.subject
    return code, str(error), data
