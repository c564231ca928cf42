"""What it takes to decide about one connection: a request head in, who it is out.

Measured in this process, on a real connection over loopback. A signature with a
public key takes what its library takes, and is not measured here.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Callable

from outfitter.protocol.upgrade import answer
from outfitter.server.auth import gate
from outfitter.server.jwt import SignedTokens
from outfitter.server.tokens import Tokens
from outfitter.transport.caller import SocketCaller

__all__ = ["deciding"]

_TOKENS = 16  # a team's
_REQUEST = (
    "GET / HTTP/1.1\r\nHost: 127.0.0.1:8765\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="
)


def deciding(samples: int) -> dict[str, float]:
    """Seconds for one connection: by its user, by a token, by a signed token."""
    tokens = [os.urandom(32).hex() for _ in range(_TOKENS)]
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listening:
        secret = os.urandom(32).hex().encode()
        path = os.path.join(folder, "secret")
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(secret)
        digests = [hashlib.sha256(token.encode()).hexdigest() for token in tokens]
        ways = {
            "user": (gate(frozenset(), None, frozenset((os.geteuid(),))), ""),
            "token": (gate(frozenset(), Tokens([], digests), None), tokens[-1]),
            "signed": (gate(frozenset(), SignedTokens(path, None, now=time.time), None), _jwt(secret)),
        }
        with socket.create_connection(listening.getsockname()):
            accepted, _ = listening.accept()
            with accepted:
                found = {}
                for name, (decide, token) in ways.items():
                    head = _REQUEST + (f"\r\nAuthorization: Bearer {token}" if token else "")
                    caller = SocketCaller(accepted)
                    request = head.encode()
                    assert answer(request, decide, caller).status == 101
                    found[name] = _median(samples, lambda: answer(request, decide, SocketCaller(accepted)))  # noqa: B023
    return found


def _median(samples: int, act: Callable[[], object]) -> float:
    times = []
    for _ in range(samples):
        begun = time.perf_counter()
        act()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def _jwt(secret: bytes) -> str:
    claims = {"iss": "bench", "sub": "somebody", "exp": int(time.time()) + 3600}
    text = ".".join(_part(json.dumps(part).encode()) for part in ({"alg": "HS256"}, claims))
    return f"{text}.{_part(hmac.digest(secret, text.encode(), 'sha256'))}"


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
