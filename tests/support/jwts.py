"""JSON Web Tokens as any library would make them."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

SECRET = b"0123456789abcdef0123456789abcdef"


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unsigned(claims: Any, header: Any) -> str:
    return ".".join(base64url(json.dumps(part).encode()) for part in (header, claims))


def jwt(claims: Any, *, secret: bytes = SECRET, header: Any = None, digest: str = "sha256") -> str:
    """A token with a MAC."""
    text = unsigned(claims, {"alg": "HS256", "typ": "JWT"} if header is None else header)
    return f"{text}.{base64url(hmac.digest(secret, text.encode(), digest))}"
