"""Error class ⇄ numeric code and data. The wire never names a class."""

from __future__ import annotations

from ..earlyerrors import OutfitterError
from ..refusals import Exhausted, FileFailed, LaunchFailed, Malformed

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

# By the slug of a class: not all of them are loaded. One that is not here has the code of the nearest class
# above it; without one it is INTERNAL.
_CODES = {
    "malformed-message": INVALID_REQUEST,
    "file-invalid": INVALID_REQUEST,
    "refused": INVALID_REQUEST,
    "invalid-params": INVALID_PARAMS,
    "environment-too-large": INVALID_PARAMS,
    "overlay-refused": INVALID_PARAMS,
    "launch-refused": INVALID_PARAMS,
    "method-unknown": METHOD_NOT_FOUND,
    "session-attached": SESSION_ATTACHED,
    "exhausted": INTERNAL,
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
    slugs = [one.slug for one in type(error).__mro__ if issubclass(one, OutfitterError)]
    code = next((_CODES[slug] for slug in slugs if slug in _CODES), INTERNAL)
    if isinstance(error, Malformed):
        # Constant but for the detail: the reference adds the peer's address here.
        return code, f"failed to parse JSON-RPC message: {error.detail}", {"error": error.slug}
    data: dict[str, Json] = {"error": error.slug}
    if isinstance(error, FileFailed) and error.errno_name is not None:
        data["errno"] = error.errno_name
        code = _FILE_CODES.get(error.errno_name, code)
    if isinstance(error, Exhausted) and error.errno_name is not None:
        data["errno"] = error.errno_name
    if isinstance(error, LaunchFailed):
        if error.errno_name is not None:
            data["errno"] = error.errno_name
        if error.what is not None:
            data["reason"] = error.what
        if error.subject is not None:
            data["subject"] = error.subject
    return code, str(error), data
