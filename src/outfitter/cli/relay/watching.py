"""Who may ask a rendezvous for its metrics: never a stranger."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ...errors import SettingInvalid
from ...protocol.upgrade import Response
from ...server.auth import gate
from ...server.tokens import Tokens

if TYPE_CHECKING:
    from ...protocol.upgrade import Admitted, Caller, Gate, Headers


def metrics_gate(flags: dict[str, Any]) -> Gate | None:
    """None where nobody may. Raises SettingInvalid."""
    file = flags["metrics_token_file"]
    if not flags["metrics"]:
        if file is not None:
            raise SettingInvalid("--metrics-token-file needs --metrics")
        return None
    if file is not None:
        return _by_token(Tokens([file], []))
    if flags["url"] is not None:
        # What a proxy on this machine passes on comes from this machine, whoever has sent it.
        raise SettingInvalid("behind a proxy (--url), --metrics needs --metrics-token-file FILE")
    return _by_user(gate(frozenset(), None, frozenset((os.geteuid(),))))


def _by_token(tokens: Tokens) -> Gate:
    def decide(headers: Headers, caller: Caller) -> Response | Admitted:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        said = tokens(token.strip()) if scheme.lower() == "bearer" else "send a token of --metrics-token-file"
        return Response(401, said, cause="token") if isinstance(said, str) else said

    return decide


def _by_user(own: Gate) -> Gate:
    def decide(headers: Headers, caller: Caller) -> Response | Admitted:
        said = own(headers, caller)
        if not isinstance(said, Response):
            return said
        text = (
            "metrics are for the user who started this service, at an IP address or localhost of its machine"
        )
        return Response(said.status, f"{text}: others need --metrics-token-file", cause=said.cause)

    return decide
