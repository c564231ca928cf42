"""A slot's own certificate: its servers show it, and its pool trusts that one alone."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import tempfile
from pathlib import Path

import pytest

from outfitter.client.connect import connect
from outfitter.core.shape import Shape
from outfitter.errors import DialFailed, EngineFailed
from outfitter.pool import certificate
from outfitter.pool.certificate import Certificate, made, trusting
from outfitter.pool.engine import Card
from outfitter.pool.keeper import Keeper


def shake_hands(server: Certificate, trusted: str) -> None:
    """Raises SSLError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(server.key + server.public)
        file.flush()
        context.load_cert_chain(file.name)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = trusting(trusted).wrap_bio(back, there), context.wrap_bio(there, back, server_side=True)
    for side in (*sides, *sides):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            pass


@pytest.mark.parametrize("make", [made, certificate._made_here])
def test_only_the_certificate_itself_is_trusted(make: object) -> None:
    one, other = make(), make()  # type: ignore[operator]
    assert "PRIVATE" in one.key and "PRIVATE" not in one.public + repr(one)
    shake_hands(one, one.public)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(one, other.public)


def test_a_node_without_openssl_makes_it_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "BEGIN CERTIFICATE" in made().public
    monkeypatch.setitem(__import__("sys").modules, "cryptography", None)
    with pytest.raises(EngineFailed, match="`openssl` or the package `cryptography`"):
        made()


def test_servers_of_a_slot_show_its_certificate_and_keep_its_key() -> None:
    token = "a token of this test"
    card = Card("l1", hashlib.sha256(token.encode()).hexdigest(), 60.0, 2.0)

    async def look(url: str, trusted: str) -> str:
        async with connect(url, token=token, tls=trusting(trusted)) as client:
            return (await client.shell("echo $(ls /proc/self/fd)")).text

    with tempfile.TemporaryDirectory(dir="/tmp") as root:
        keeper = Keeper("pool", root=root, listen="wss://127.0.0.1:0")
        endpoint = keeper.serve(card, Shape())
        assert endpoint.url.startswith("wss://127.0.0.1:")
        seen = asyncio.run(look(endpoint.url, endpoint.certificate))
        assert seen == "0 1 2 3\n"  # the last is the listing's own
        with pytest.raises(DialFailed, match="not trusted"):
            asyncio.run(look(endpoint.url, made().public))
        assert keeper.stop().confirmed
