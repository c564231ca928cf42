"""Signatures of requests, against what the reference was seen to send."""

from __future__ import annotations

import pytest

from outfitter.core.sigv4 import AwsCredentials, signed_headers

CREDENTIALS = AwsCredentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
BODY = b'{"transport":"direct_jsonrpc_v1"}'
POST = {
    "method": "POST",
    "path": "/cloud/environment/env-test/direct/register",
    "content_type": "application/json",
    "body": BODY,
}
GET = {"method": "GET", "path": "/x", "query": "init=1&close=1"}


def signed(credentials: AwsCredentials = CREDENTIALS, **request: object) -> dict[str, str]:
    return signed_headers(
        credentials,
        region="us-east-1",
        service="execute-api",
        date="20261115T002018Z",
        host="127.0.0.1:19210",
        **request,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("request_", "names", "signature"),
    [
        (
            POST,
            "content-type;host;x-amz-date",
            "18e262d08f93cca47f81008a5ea321b7bb0f547fd84e16bb32228ae1c5295a83",
        ),
        (GET, "host;x-amz-date", "9443d5ed840a20cfadb4236e0635adbffadba14fcccd97c0300bea29e29fff7d"),
    ],
)
def test_requests_are_signed_as_the_reference_signs_them(
    request_: dict[str, object], names: str, signature: str
) -> None:
    assert signed(**request_) == {
        "x-amz-date": "20261115T002018Z",
        "Authorization": (
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261115/us-east-1/execute-api/aws4_request, "
            f"SignedHeaders={names}, Signature={signature}"
        ),
    }


def test_a_session_s_token_is_sent_and_signed() -> None:
    headers = signed(AwsCredentials("AKIDEXAMPLE", CREDENTIALS.secret, "session"), **GET)
    assert headers["x-amz-security-token"] == "session"
    assert "SignedHeaders=host;x-amz-date;x-amz-security-token," in headers["Authorization"]


def test_nothing_secret_is_shown() -> None:
    shown = repr(AwsCredentials("AKIDEXAMPLE", "very-secret", "session-token"))
    assert "AKIDEXAMPLE" in shown and "secret" not in shown.replace("secret=", "")
    assert "session-token" not in shown
