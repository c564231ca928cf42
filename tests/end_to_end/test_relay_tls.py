"""Everything that dials out, over TLS with a CA of our own: the service, `outfitter forward`, direct."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

import outfitter
from tests.end_to_end.test_relay_direct import Service, started, told
from tests.support.certificates import authority, server_pair
from tests.support.machine import SECOND, wait_until
from tests.support.registries import answering
from tests.support.relays import Rendezvous, dialling, meeting
from tests.support.servers import end, serving


def trusting() -> dict[str, str]:
    """The variable by which both kinds of executors trust our CA."""
    return {"SSL_CERT_FILE": str(authority().file)}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rendezvous]:
    home = tmp_path_factory.mktemp("tls") / "service"
    with meeting(home, *server_pair().flags, scheme="wss") as running:
        assert running.url.startswith("https://")
        yield running


@contextlib.contextmanager
def executing(kind: str, service: Rendezvous, home: Path, *args: str, name: str) -> Iterator[str]:
    """An executor of this kind; gives a user's token."""
    token = service.token(name, "execute")
    with dialling(kind, home, service.url, name, token, *args, env=trusting()):
        service.wait_for(name)
        yield service.token(name, "use")


def say(service: Rendezvous, name: str, token: str, ca: Path | None) -> bytes:
    """What a command says there, with more output than a record of TLS or of a stream can have."""

    async def scenario() -> bytes:
        url = f"noise+{service.url}/{name}"
        async with outfitter.connect(url, token=token, ca=ca, recovery_timeout=1.0) as client:
            done = await client.run(["sh", "-c", "head -c 300000 /dev/zero; echo said"], max_output=1 << 20)
        return bytes(done.stdout[300_000:])

    return asyncio.run(asyncio.wait_for(scenario(), 60 * SECOND))


async def leave(service: Rendezvous, name: str, token: str) -> None:
    url, ca = f"noise+{service.url}/{name}", authority().file
    async with outfitter.connect(url, token=token, ca=ca) as client:
        session = client.session_id
    with pytest.raises(outfitter.OutfitterError, match=f"unknown session id {session}"):
        async with outfitter.connect(url, token=token, ca=ca, resume=session):
            pass


@pytest.mark.parametrize("kind", ["outfitter", "codex"])
def test_either_executor_and_our_client_through_a_service_with_tls(
    kind: str, service: Rendezvous, tmp_path: Path
) -> None:
    with executing(kind, service, tmp_path, name=kind) as token:
        assert say(service, kind, token, authority().file) == b"said\n"
        with pytest.raises(outfitter.OutfitterError, match="cannot reach"):
            say(service, kind, token, None)


def test_an_executor_that_does_not_trust_the_service_says_so(service: Rendezvous, tmp_path: Path) -> None:
    token = service.token("distrusts", "execute")
    log = tmp_path / "outfitter.stderr"
    with dialling("outfitter", tmp_path, service.url, "distrusts", token):
        wait_until(lambda: "cannot reach" in log.read_text(), "it says so")
    assert not service.is_online("distrusts")


def test_a_stream_is_forwarded_to_a_server_with_tls(service: Rendezvous, tmp_path: Path) -> None:
    with (
        serving(
            "outfitter", tmp_path / "server", *server_pair().flags, listen="wss://127.0.0.1:0"
        ) as destination,
        executing(
            "forward", service, tmp_path / "forward", "--connect", destination.url, name="forwarded"
        ) as token,
    ):
        assert destination.url.startswith("wss://")
        assert say(service, "forwarded", token, authority().file) == b"said\n"
        # Who leaves has left the server behind the forwarder, too.
        asyncio.run(asyncio.wait_for(leave(service, "forwarded", token), 60 * SECOND))


def test_a_destination_that_cannot_be_trusted_gets_nothing(service: Rendezvous, tmp_path: Path) -> None:
    """Another CA has issued its certificate: the stream ends, and the forwarder says why."""
    pair = authority("somebody else").issue("localhost")
    with (
        serving("outfitter", tmp_path / "server", *pair.flags, listen="wss://127.0.0.1:0") as destination,
        executing(
            "forward", service, tmp_path / "forward", "--connect", destination.url, name="other"
        ) as token,
    ):
        with pytest.raises(outfitter.OutfitterError):
            say(service, "other", token, authority().file)
        log = (tmp_path / "forward" / "forward.stderr").read_text()
    assert "a stream was not forwarded: cannot connect to wss://" in log
    assert "certificate" in log


@pytest.mark.parametrize("kind", ["outfitter", "codex"])
def test_the_direct_transport_over_tls(kind: str, tmp_path: Path) -> None:
    pair = server_pair()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.cert, pair.key)
    direct = Service(context)
    url = f"wss://127.0.0.1:{direct.port}/x"
    with answering(lambda *_: told(registry, 0, url=url), context) as registry:
        popen = started(kind, tmp_path, registry.url, trusting())
        try:
            one = direct.next()
            session = one.handshake()["sessionId"]
            one.start("p", ["sh", "-c", "head -c 600000 /dev/zero; read x"], pipeStdin=True)
            one.until(lambda notice: notice["method"] == "process/output")
            one.abort()
            two = direct.next()
            two.handshake(resume=session)
            assert two.call(
                "process/read", {"processId": "p", "afterSeq": 0, "maxBytes": 1 << 20, "waitMs": 0}
            )["chunks"]
            two.abort()
        finally:
            end(popen)
            direct.close()


def test_a_direct_service_that_cannot_be_trusted_is_not_spoken_to(tmp_path: Path) -> None:
    pair = authority("somebody else").issue("localhost")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.cert, pair.key)
    with answering(lambda *_: told(registry, 0), context) as registry:
        popen = started("outfitter", tmp_path, registry.url, trusting())
        try:
            wait_until(lambda: "cannot reach" in (tmp_path / "stderr").read_text(), "it says so")
        finally:
            end(popen)
    assert registry.asked == []
