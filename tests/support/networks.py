"""The managed network of a command, as clients ask for it."""

from __future__ import annotations

from typing import Any

from .wire import Message, Wire

PROXY: dict[str, Any] = {
    "enabled": True,
    "enableSocks5": True,
    "enableSocks5Udp": False,
    "allowUpstreamProxy": False,
    "dangerouslyAllowAllUnixSockets": False,
    "mode": "full",
    "domains": None,
    "unixSockets": None,
    "allowLocalBinding": False,
}


def network(domains: dict[str, str] | None = None, *, timeout: int | None = None, **rules: Any) -> Message:
    """The members of process/start."""
    return {
        "enforceManagedNetwork": True,
        "networkProxy": {
            "proxy": {**PROXY, "domains": domains, **rules},
            "policyDecisionTimeoutMs": timeout,
        },
    }


def decisions(wire: Wire, process_id: str) -> list[Message]:
    """What its proxy has decided, as far as the client has heard; times and addresses aside."""
    found = [one["params"] for one in wire.notices if one["method"] == "network/policyDecision"]
    return [
        {name: value for name, value in one.items() if name not in ("timestamp", "client", "processId")}
        for one in found
        if one["processId"] == process_id
    ]
