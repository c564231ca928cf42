"""AWS Signature Version 4 of one request, as the reference signs those of its direct transport.

Paths are signed as they are. Time is an argument.
"""

from __future__ import annotations

import hmac

from ..record import record
from ..stdlib import sha256

_ALGORITHM = "AWS4-HMAC-SHA256"


@record
class AwsCredentials:
    """A static key pair, and the token of a session where there is one."""

    hidden = ("secret", "session_token")

    key_id: str
    secret: str
    session_token: str = ""


def signed_headers(
    credentials: AwsCredentials,
    *,
    region: str,
    service: str,
    date: str,
    method: str,
    host: str,
    path: str,
    query: str = "",
    content_type: str = "",
    body: bytes = b"",
) -> dict[str, str]:
    """The headers to add to a request. `date` is as AWS writes it: 20261115T002018Z."""
    signed = {"host": host, "x-amz-date": date}
    if content_type:
        signed["content-type"] = content_type
    if credentials.session_token:
        signed["x-amz-security-token"] = credentials.session_token
    names = sorted(signed)
    canonical = "\n".join(
        [
            method,
            path,
            "&".join(sorted(query.split("&"))) if query else "",
            *(f"{name}:{signed[name]}" for name in names),
            "",
            ";".join(names),
            sha256(body).hexdigest(),
        ]
    )
    scope = f"{date[:8]}/{region}/{service}/aws4_request"
    said = "\n".join([_ALGORITHM, date, scope, sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{credentials.secret}".encode()
    for part in (date[:8], region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, said.encode(), "sha256").hex()
    more = {name: signed[name] for name in names if name.startswith("x-amz-")}
    more["Authorization"] = (
        f"{_ALGORITHM} Credential={credentials.key_id}/{scope}, SignedHeaders={';'.join(names)}, "
        f"Signature={signature}"
    )
    return more
