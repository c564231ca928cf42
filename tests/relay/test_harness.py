"""A harness against registries and services that fail, lie or repeat themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from outfitter.core.records import cut, farewell
from outfitter.core.streams import Begun, Came, Ended, Send, Streams, Validate
from outfitter.errors import DialFailed, SettingInvalid
from outfitter.protocol import relay
from outfitter.protocol.registry import PROFILE, KeyObject
from outfitter.relay.harness import Harness, RelayTransport
from outfitter.relay.keys import Keys, encapsulate, fingerprint
from outfitter.relay.known import Known
from outfitter.relay.pinned import PinnedExecutor
from outfitter.relay.registry import Registry
from tests.support.machine import SECOND
from tests.support.registries import answering, reply

STATIC = Keys()


def key_of(keys: Keys) -> Any:
    return KeyObject(keys.public.x25519, keys.public.mlkem).encode()


class Far:
    """An executor at the other end, and the service between: `frames` are what it sends back."""

    def __init__(self, socket: ServerConnection, static: Keys = STATIC) -> None:
        self.socket = socket
        self.streams = Streams(static, "box", "r1", Keys, encapsulate)
        self.stream = ""
        self.begun: Begun | None = None
        self.sent: list[bytes] = []  # all frames, to be replayed

    async def send(self, frame: bytes) -> None:
        self.sent.append(frame)
        await self.socket.send(frame)

    async def shake_hands(self) -> None:
        await self.socket.recv()  # resume
        [asked] = self.streams.receive(bytes(await self.socket.recv(decode=False)), 0.0)
        assert isinstance(asked, Validate), asked
        self.stream = asked.stream
        sent, begun = self.streams.validated(asked.stream, asked.instance, True, 0.0)
        assert isinstance(sent, Send) and isinstance(begun, Begun)
        self.begun = begun
        await self.send(sent.frame)

    async def say(self, message: bytes) -> None:
        assert self.begun is not None
        for piece in cut((message,)):
            seq, record = self.begun.sealer.seal(piece)
            await self.send(relay.DataWriter(self.stream).head(seq, len(record)) + record)

    async def hear(self) -> list[bytes]:
        [came] = self.streams.receive(bytes(await self.socket.recv(decode=False)), 0.0)
        assert isinstance(came, Came)
        return came.messages


class Client:
    def __init__(self, transport: RelayTransport) -> None:
        self.got: list[bytes] = []
        self.lost_for: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        transport.receiver = self

    def message(self, data: Any) -> None:
        self.got.append(data)

    def drained(self) -> None: ...

    def lost(self, reason: str) -> None:
        self.lost_for.set_result(reason)


def told(url: str, key: Any = None, **changes: Any) -> bytes:
    body = {
        "environment_id": "box",
        "url": url,
        "security_profile": PROFILE,
        "executor_registration_id": "r1",
        "executor_public_key": key or key_of(STATIC),
        "harness_key_authorization": "may",
    }
    return reply({**body, **changes})


Scene = Callable[[ServerConnection], Awaitable[None]]
Use = Callable[[RelayTransport, Client], Awaitable[None]]


def play(scene: Scene, use: Use | None = None, *, seconds: float = 20 * SECOND, **changes: Any) -> None:
    """Dials a service that does as `scene` says."""

    async def scenario() -> None:
        async with serve(scene, "127.0.0.1", 0, compression=None) as service:
            port = next(iter(service.sockets)).getsockname()[1]
            with answering(told(f"ws://127.0.0.1:{port}/", **changes)) as registry:
                harness = Harness(Registry(registry.url, "box", dict))
                transport = await harness.dial(seconds)
                client = Client(transport)
                transport.begin()
                if use is not None:
                    await use(transport, client)
                transport.close(1000, "")
                await transport.wait_ended()

    asyncio.run(asyncio.wait_for(scenario(), 40 * SECOND))


def test_messages_go_both_ways() -> None:
    large = bytes(range(256)) * 1000

    async def scene(socket: ServerConnection) -> None:
        far = Far(socket)
        await far.shake_hands()
        assert await far.hear() == [b"question"]
        await far.say(large)
        await far.say(b"last")
        assert far.streams.receive(bytes(await socket.recv(decode=False)), 0.0)  # the stream's end

    async def use(transport: RelayTransport, client: Client) -> None:
        transport.send(b"question")
        while len(client.got) < 2:
            await asyncio.sleep(0)
        assert client.got == [large, b"last"]

    play(scene, use)


def test_each_end_hears_why_the_other_one_goes() -> None:
    async def scene(socket: ServerConnection) -> None:
        far = Far(socket)
        await far.shake_hands()
        [ended] = far.streams.receive(bytes(await socket.recv(decode=False)), 0.0)
        assert ended == Ended(1, (4002, "done"))

    async def use(transport: RelayTransport, client: Client) -> None:
        transport.close(4002, "done")

    play(scene, use)


def test_an_executor_that_says_why_it_goes_is_heard() -> None:
    async def scene(socket: ServerConnection) -> None:
        far = Far(socket)
        await far.shake_hands()
        assert far.begun is not None
        seq, record = far.begun.sealer.seal(cut((b"last",))[0] + farewell(4001, "taken over"))
        await far.send(relay.DataWriter(far.stream).head(seq, len(record)) + record)
        await socket.wait_closed()

    async def use(transport: RelayTransport, client: Client) -> None:
        assert await client.lost_for == "the executor closed the connection: taken over"
        assert (client.got, transport.close_code) == ([b"last"], 4001)
        await transport.wait_ended()
        assert transport.close_code == 4001

    play(scene, use)


async def reset_before(socket: ServerConnection) -> None:
    frame = relay.decode(bytes(await socket.recv(decode=False)))
    await socket.send(relay.reset(frame.stream, "\x1b[2J untrusted"))
    await socket.wait_closed()


async def data_before(socket: ServerConnection) -> None:
    frame = relay.decode(bytes(await socket.recv(decode=False)))
    await socket.send(relay.DataWriter(frame.stream).head(0, 20) + bytes(20))
    await socket.wait_closed()


async def text_before(socket: ServerConnection) -> None:
    """The answer of the executor itself, but as a text: no frame is one."""
    frame = relay.decode(bytes(await socket.recv(decode=False)))
    await socket.send(relay.resume(frame.stream).decode())
    await socket.wait_closed()


async def garbage_before(socket: ServerConnection) -> None:
    await socket.send(b"\xff\xff")
    await socket.wait_closed()


async def too_large(socket: ServerConnection) -> None:
    """A frame that names another stream would be ignored, if it were not one byte too large."""
    await socket.send(relay.DataWriter("another").head(0, 1).ljust(relay.MAX_FRAME + 1, b"x"))
    await socket.wait_closed()


async def leave(socket: ServerConnection) -> None:
    await socket.close(1012, "restart")


async def another_key(socket: ServerConnection) -> None:
    """An executor with another key than the registry told cannot read the first message."""
    await socket.recv()
    stranger = Streams(Keys(), "box", "r1", Keys, encapsulate)
    [refused] = stranger.receive(bytes(await socket.recv(decode=False)), 0.0)
    assert isinstance(refused, Send)
    await socket.send(refused.frame)
    await socket.wait_closed()


async def echo(socket: ServerConnection) -> None:
    """The harness's own message as the answer."""
    await socket.recv()
    await socket.send(await socket.recv(decode=False))
    await socket.wait_closed()


@pytest.mark.parametrize(
    "scene", [reset_before, data_before, text_before, garbage_before, too_large, leave, another_key, echo]
)
def test_what_ends_a_call_before_the_handshake(scene: Scene) -> None:
    with pytest.raises(DialFailed, match="did not answer through the relay") as caught:
        play(scene)
    assert caught.value.retryable and "\x1b" not in str(caught.value)


def test_a_service_that_says_nothing_is_given_up() -> None:
    async def silent(socket: ServerConnection) -> None:
        await socket.wait_closed()

    with pytest.raises(DialFailed, match="no stream to box within"):
        play(silent, seconds=0.3)


def test_an_answer_that_was_given_before_opens_no_new_stream() -> None:
    """A service that replays the answer of an earlier handshake has no use of it."""
    kept: list[bytes] = []

    async def scene(socket: ServerConnection) -> None:
        far = Far(socket)
        if kept:
            frame = relay.decode(bytes(await socket.recv(decode=False)))
            message = relay.decode(kept[0])
            assert isinstance(message, relay.Handshake)
            await socket.send(relay.handshake(frame.stream, message.payload))
        else:
            await far.shake_hands()
            kept.extend(far.sent)
        await socket.wait_closed()

    play(scene)
    with pytest.raises(DialFailed, match="did not answer through the relay"):
        play(scene)


@pytest.mark.parametrize("what", ["reset", "handshake again", "text", "no frame", "record changed", "closed"])
def test_what_ends_a_stream_that_is_open(what: str) -> None:
    async def scene(socket: ServerConnection) -> None:
        far = Far(socket)
        await far.shake_hands()
        await far.say(b"good")
        if what == "closed":
            await socket.close(1012, "restart")
        elif what == "text":
            await socket.send(relay.resume(far.stream).decode())
        else:
            frames = {
                "reset": relay.reset(far.stream),
                "handshake again": far.sent[0],
                "no frame": b"\xff",
                "record changed": relay.DataWriter(far.stream).head(1, 24) + bytes(24),
            }
            await socket.send(frames[what])
        await socket.wait_closed()

    async def use(transport: RelayTransport, client: Client) -> None:
        assert await client.lost_for
        assert client.got == [b"good"]
        transport.send(b"nobody hears it")

    play(scene, use)


def test_records_that_come_twice_or_for_others_are_ignored() -> None:
    async def scene(socket: ServerConnection) -> None:
        far = Far(socket)
        await far.shake_hands()
        await far.say(b"one")
        for frame in (far.sent[1], relay.reset("another"), relay.resume(far.stream), far.sent[1]):
            await socket.send(frame)
        await far.say(b"two")
        await socket.wait_closed()

    async def use(transport: RelayTransport, client: Client) -> None:
        while len(client.got) < 2:
            await asyncio.sleep(0)
        assert client.got == [b"one", b"two"]

    play(scene, use)


@pytest.mark.parametrize(
    "url", ["ws://relay.example/", "http://127.0.0.1/", "ws://", "ws://u:p@127.0.0.1/", "ws://127.0.0.1:0/"]
)
def test_a_url_that_cannot_be_used_is_not_dialled(url: str) -> None:
    async def scenario() -> None:
        with answering(told(url)) as registry:
            await Harness(Registry(registry.url, "box", dict)).dial(10)

    with pytest.raises((SettingInvalid, DialFailed)):
        asyncio.run(scenario())


def test_a_key_that_is_not_the_known_one_ends_the_call_before_anything_is_sent(tmp_path: Path) -> None:
    known = Known(str(tmp_path))

    async def scenario() -> None:
        with answering(told("ws://127.0.0.1:9/")) as registry:
            known.keep(known.pin_file(registry.url, "box"), "0" * 32 + "\n")
            pin = PinnedExecutor(known, registry.url, "box")
            await Harness(Registry(registry.url, "box", dict), pin=pin).dial(10)

    with pytest.raises(DialFailed, match="has changed") as caught:
        asyncio.run(scenario())
    assert not caught.value.retryable and fingerprint(STATIC.public) in str(caught.value)


def test_a_key_that_is_none_is_a_person_s_matter() -> None:
    bad = {
        **key_of(STATIC),
        "mlkem768_public_key": KeyObject(bytes(32), b"\xff" * 1184).encode()["mlkem768_public_key"],
    }  # type: ignore
    with pytest.raises(DialFailed, match="a key that cannot be used") as caught:
        play(leave, key=bad)
    assert not caught.value.retryable


def test_a_ticket_that_was_outdated_is_asked_for_once_more() -> None:
    """A registration between the invitation and the socket: 401, and a second invitation."""

    async def scenario() -> None:
        refusals = [1]

        def judge(connection: ServerConnection, request: Any) -> Any:
            return connection.respond(401, "late") if refusals and refusals.pop() else None

        async def scene(socket: ServerConnection) -> None:
            await Far(socket).shake_hands()
            await socket.wait_closed()

        async with serve(scene, "127.0.0.1", 0, compression=None, process_request=judge) as service:
            port = next(iter(service.sockets)).getsockname()[1]
            with answering(told(f"ws://127.0.0.1:{port}/")) as registry:
                transport = await Harness(Registry(registry.url, "box", dict)).dial(20 * SECOND)
                assert len(registry.asked) == 2
                Client(transport)
                transport.begin()
                transport.close(1000, "")
                await transport.wait_ended()

    asyncio.run(scenario())
