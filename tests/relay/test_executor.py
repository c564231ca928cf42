"""An executor that dials out: what it gives up for, what it waits out, and whom it lets in."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outfitter.core import redialling
from outfitter.core.calling import Calling, Invitation
from outfitter.core.noise import PublicKey
from outfitter.host.uids import ours
from outfitter.loop import EpollLoop
from outfitter.protocol import relay
from outfitter.protocol.registry import PROFILE, ConnectParams, KeyObject, RegisterParams
from outfitter.relay.credentials import bearer
from outfitter.relay.executor import RemoteExecutor
from outfitter.relay.keys import Keys, encapsulate, fingerprint
from outfitter.relay.pinned import AcceptedHarnesses
from outfitter.relay.registry import Registry
from tests.support.machine import SECOND, wait_until
from tests.support.registries import answering, reply
from tests.support.relays import Hosted, hosting, open_socket

GOOD = {
    "environment_id": "box",
    "url": "ws://127.0.0.1:9/",
    "security_profile": PROFILE,
    "executor_registration_id": "r",
}


class Dialler(RemoteExecutor):
    """Says whether a thread dials for it, whose socket nobody would close once the loop has ended."""

    dialling = 0

    def at_rest(self) -> bool:
        return self._stopped and not self.dialling

    def _dial(self) -> None:
        self.dialling += not self._stopped
        super()._dial()

    def _dialled(self, *told: Any) -> None:
        self.dialling -= 1
        super()._dialled(*told)


def run(registry: Registry, until: Callable[[RemoteExecutor], None] | None = None, **more: Any) -> list[str]:
    """Runs an executor until it gives up, or `until` returns; why it gave up."""
    loop = EpollLoop()
    why: list[str] = []

    def gave_up(reason: str) -> None:
        why.append(reason)
        loop.stop()

    streams: list[Any] = []
    executor = Dialler(loop, registry, lambda one: serve(one, streams), gave_up, **more)
    loop.call_soon(executor.begin)
    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        if until is not None:
            until(executor)
            loop.call_soon_threadsafe(executor.stop, "over")
            wait_until(executor.at_rest, "nothing is dialled any more", 30 * SECOND)
            loop.call_soon_threadsafe(loop.stop)
        thread.join(30 * SECOND)
        assert not thread.is_alive()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
    return why


class Echo:
    """A server that says everything again."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        transport.receiver = self

    def message(self, data: bytes) -> None:
        self._transport.send(data)

    def drained(self) -> None: ...

    def lost(self, reason: str) -> None: ...


def serve(transport: Any, kept: list[Any]) -> None:
    kept.append(Echo(transport))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (reply({"error": {"code": "no", "message": "not you"}}, 403), "403: no: not you"),
        (reply(b"", 404), "404"),
        (reply(b"{"), "cannot be used"),
        (reply({**GOOD, "environment_id": "other"}), "another environment"),
        (reply({**GOOD, "url": "ws://relay.example/"}), "must be reached with wss://"),
        (reply({**GOOD, "url": "file:///etc/passwd"}), "cannot be used"),
        (reply({**GOOD, "url": "ws://127.0.0.1/\r\nX: y"}), "cannot be used"),
    ],
)
def test_what_a_person_has_to_mend_is_said(answer: bytes, why: str) -> None:
    with answering(answer) as fake:
        [said] = run(Registry(fake.url, "box", lambda: bearer("secret-token")))
    assert why in said and "secret-token" not in said


def test_what_passes_is_waited_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redialling, "_LONGEST", 0.01)
    answers = [reply(b"", 503), reply(b"", 429), reply(b"", 403)]
    with answering(lambda *_: answers.pop(0)) as fake:
        [said] = run(Registry(fake.url, "box", dict))
    assert "403" in said and len(fake.asked) == 3


class Place:
    """A service of ours, and what an executor and a harness need of it."""

    def __init__(self, hosted: Hosted) -> None:
        self.hosted = hosted
        token = hosted.token("box", "execute")
        self.user = hosted.token("box", "use")
        self.registry = Registry(hosted.url, "box", lambda: bearer(token))

    def online(self) -> None:
        wait_until(lambda: self.hosted.knows("box"), "the executor is connected")

    def answer(self, keys: Keys, **changes: Any) -> relay.Frame | relay.NoFrame:
        """What a harness hears to its handshake."""
        asked = ConnectParams(KeyObject(keys.public.x25519, keys.public.mlkem))
        told = self.hosted.authority.connect(self.user, "box", asked)
        executor = PublicKey(told.executor.x25519, told.executor.mlkem)
        values = {"authorization": told.authorization, "registration_id": told.registration_id, **changes}
        invitation = Invitation("box", executor=executor, url=told.url, **values)
        calling = Calling(invitation, "s", keys, Keys(), encapsulate)
        with open_socket(told.url) as socket:
            for frame in calling.opening:
                socket.send(frame)
            return relay.decode(bytes(socket.recv(20 * SECOND, decode=False)))


def test_who_has_no_authorization_hears_a_reset_and_nothing_else(tmp_path: Path) -> None:
    with hosting(tmp_path / "store") as hosted:
        place = Place(hosted)

        def until(_: RemoteExecutor) -> None:
            place.online()
            assert isinstance(place.answer(Keys()), relay.Handshake)
            for changes in ({"authorization": "guessed"}, {"registration_id": "another"}):
                assert place.answer(Keys(), **changes) == relay.decode(relay.reset("s"))

        assert run(place.registry, until) == []


def test_even_the_registry_cannot_let_somebody_in_who_is_not_accepted(tmp_path: Path) -> None:
    known, other = Keys(), Keys()
    listed = tmp_path / "accepted"
    listed.write_text(fingerprint(known.public))
    with hosting(tmp_path / "store") as hosted:
        place = Place(hosted)

        def until(_: RemoteExecutor) -> None:
            place.online()
            assert place.answer(other) == relay.decode(relay.reset("s"))
            assert isinstance(place.answer(known), relay.Handshake)
            listed.unlink()  # what cannot be read lets nobody in
            assert place.answer(known) == relay.decode(relay.reset("s"))

        run(place.registry, until, accepted=AcceptedHarnesses(str(listed), first=False, owners=ours))


def test_an_executor_whose_url_is_refused_registers_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redialling, "_LONGEST", 0.01)
    keys = Keys()
    with hosting(tmp_path / "store") as hosted:
        place = Place(hosted)
        first: list[str] = []

        def registration() -> str:
            rows = hosted.store.rows("SELECT id, kept FROM registrations")
            return str(rows[0]) if rows else ""

        def until(executor: RemoteExecutor) -> None:
            place.online()
            first.append(registration())
            hosted.store.change("UPDATE registrations SET id = 'another'")
            for one in list(hosted.service._sockets.values()):
                hosted.loop.call_soon_threadsafe(one.close, 1012, "restart")
            wait_until(lambda: "another" not in registration(), "the executor registers")
            wait_until(
                lambda: hosted.service._numbers > 1 and hosted.service.routes.online("box"), "and dials again"
            )
            assert registration() != first[0] and registration().endswith(", 1)")  # its keys are kept

        assert run(place.registry, until, keys=keys) == []


def test_a_registry_that_does_not_answer_leaves_the_harness_without_a_stream(tmp_path: Path) -> None:
    """Validation has a time; the stream is reset, and the executor goes on."""
    with hosting(tmp_path / "store") as hosted:
        place = Place(hosted)

        def judge(head: bytes, body: bytes) -> bytes | None:
            if b"/validate" in head:
                return None
            token = hosted.token("box", "execute")
            return reply(
                hosted.authority.register(token, "box", RegisterParams.decode(json.loads(body))).encode()
            )

        with answering(judge) as fake:

            def until(_: RemoteExecutor) -> None:
                place.online()
                assert place.answer(Keys()) == relay.decode(relay.reset("s"))

            run(Registry(fake.url, "box", dict, seconds=0.3), until)
