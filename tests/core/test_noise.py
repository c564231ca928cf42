"""The handshake against what the reference's peers have written, and against everything in between."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.core import noise
from outfitter.core.records import Opener, Sealer, cut
from outfitter.errors import RemoteProtocolError
from outfitter.protocol import relay
from outfitter.relay.keys import Keys, encapsulate

VECTORS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "noise-vectors.json").read_text())
A, B, C = VECTORS["A"], VECTORS["B"], VECTORS["C"]


def unhex(text: str) -> bytes:
    """`41 x64` is 64 times that byte."""
    byte, times, count = text.partition(" x")
    return bytes.fromhex(byte) * (int(count) if times else 1)


def said(vector: dict[str, Any]) -> bytes:
    return noise.prologue(vector["environment_id"], vector["executor_registration_id"], vector["stream_id"])


def handshake_of(frame: str) -> bytes:
    found = relay.decode(bytes.fromhex(frame))
    assert isinstance(found, relay.Handshake)
    return found.payload


def frames_of(vector: dict[str, Any], sender: str) -> list[tuple[int, bytes, bytes]]:
    """Number, record and plaintext of what one end has sent."""
    found = []
    for one in vector["data_frames"]:
        frame = relay.decode(bytes.fromhex(one["frame"]))
        assert isinstance(frame, relay.Data)
        if one["from"] == sender:
            found.append((frame.seq, frame.payload, one["plaintext_utf8_after_prefix"].encode()))
    return found


def keys(vector: dict[str, Any], name: str) -> Keys:
    return Keys(unhex(vector[f"{name}_x25519_private"]), unhex(vector[f"{name}_mlkem_seed"]))


def test_a_harness_writes_and_reads_what_the_reference_s_executor_did() -> None:
    import base64

    public = A["executor_public_key"]
    executor = noise.PublicKey(
        base64.b64decode(public["x25519_public_key"]), base64.b64decode(public["mlkem768_public_key"])
    )
    first = handshake_of(A["handshake1_frame"])
    injected = (unhex(A["msg1_skem_shared_secret"]), first[:1088])
    harness = noise.Initiator(
        keys(A, "harness_static"),
        keys(A, "harness_ephemeral"),
        executor,
        said(A),
        A["authorization"].encode(),
        lambda _: injected,
    )
    assert said(A).hex() == A["prologue"]
    assert harness.message == first
    assert relay.handshake(A["stream_id"], first).hex() == A["handshake1_frame"]
    channel = harness.finish(handshake_of(A["handshake2_frame"]))
    assert channel == noise.Channel(
        unhex(A["key_initiator_to_responder"]),
        unhex(A["key_responder_to_initiator"]),
        unhex(A["handshake_hash"]),
    )
    sealer = Sealer(channel)
    for seq, record, message in frames_of(A, "harness"):
        assert sealer.seal(*cut((message,))) == (seq, record)
        head = relay.DataWriter(A["stream_id"]).head(seq, len(record))
        assert relay.decode(head + record) == relay.Data(A["stream_id"], seq, record)
    opener = Opener(channel)
    opener._next = 1  # the first record was not kept
    for seq, record, message in frames_of(A, "executor"):
        assert opener.open(seq, record) == [message]


def test_an_executor_reads_and_writes_what_the_reference_s_harness_took() -> None:
    executor = noise.Responder(keys(B, "executor_static"), said(B), handshake_of(B["handshake1_frame"]))
    assert executor.authorization.decode() == B["authorization"]
    assert executor.harness.x25519.hex() == B["harness_static_x25519_public"]
    known = hashlib.sha256(executor.harness.mlkem).hexdigest()
    assert known == B["harness_static_mlkem_public_sha256"]
    injected = [
        (unhex(B["msg2_ekem_shared_secret"]), unhex(B["msg2_ekem_ciphertext"])),
        (unhex(B["msg2_skem_shared_secret"]), unhex(B["msg2_skem_ciphertext"])),
    ]
    message, channel = executor.answer(keys(B, "executor_ephemeral"), lambda _: injected.pop(0))
    frame = relay.handshake(B["stream_id"], message)
    assert hashlib.sha256(frame).hexdigest() == B["handshake2_frame_sha256"]
    assert channel == noise.Channel(
        unhex(B["key_responder_to_initiator"]),
        unhex(B["key_initiator_to_responder"]),
        unhex(B["handshake_hash"]),
    )
    opener = Opener(channel)
    for seq, record, text in frames_of(B, "harness"):
        assert opener.open(seq, record) == [text]


def pair(vector: dict[str, Any], name: str) -> Keys:
    return Keys(unhex(vector[name][0]), unhex(vector[name][1]))


def test_the_synthetic_vector_is_met_byte_by_byte() -> None:
    from kyber_py.ml_kem import ML_KEM_768

    def fixed(*names: str) -> noise.Encapsulate:
        given = [unhex(C[name]) for name in names]
        return lambda public: ML_KEM_768._encaps_internal(public, given.pop(0))

    executor = pair(C, "executor_static")
    harness = noise.Initiator(
        pair(C, "harness_static"),
        pair(C, "harness_ephemeral"),
        executor.public,
        said(C),
        C["authorization"].encode(),
        fixed("m_msg1_skem"),
    )
    assert hashlib.sha256(said(C)).hexdigest() == C["prologue_sha256"]
    assert len(harness.message) == C["message1_len"]
    assert hashlib.sha256(harness.message).hexdigest() == C["message1_sha256"]
    responder = noise.Responder(executor, said(C), harness.message)
    assert responder.authorization.decode() == C["authorization"]
    second, theirs = responder.answer(pair(C, "executor_ephemeral"), fixed("m_msg2_ekem", "m_msg2_skem"))
    assert len(second) == C["message2_len"]
    assert hashlib.sha256(second).hexdigest() == C["message2_sha256"]
    ours = harness.finish(second)
    assert ours.transcript.hex() == theirs.transcript.hex() == C["handshake_hash"]
    assert ours.sending.hex() == theirs.receiving.hex() == C["key_initiator_to_responder"]
    assert ours.receiving.hex() == theirs.sending.hex() == C["key_responder_to_initiator"]
    assert Sealer(ours).seal(*cut((b"{}",))) == (0, unhex(C["record0_initiator_ciphertext"]))


# What a hostile service can do to a handshake

SAID = noise.prologue("env", "reg", "stream")
EXECUTOR, HARNESS = Keys(), Keys()


def begin(said: bytes = SAID, executor: noise.PublicKey | None = None) -> noise.Initiator:
    return noise.Initiator(HARNESS, Keys(), executor or EXECUTOR.public, said, b"may", encapsulate)


@given(st.data())
def test_a_first_message_that_was_changed_anywhere_is_refused(data: st.DataObject) -> None:
    message = bytearray(begin().message)
    place = data.draw(st.integers(0, len(message) - 1))
    message[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(RemoteProtocolError):
        noise.Responder(EXECUTOR, SAID, bytes(message))


@given(st.data())
def test_a_second_message_that_was_changed_anywhere_is_refused(data: st.DataObject) -> None:
    harness = begin()
    second, _ = noise.Responder(EXECUTOR, SAID, harness.message).answer(Keys(), encapsulate)
    place = data.draw(st.integers(0, len(second) - 1))
    changed = second[:place] + bytes((second[place] ^ data.draw(st.integers(1, 255)),)) + second[place + 1 :]
    with pytest.raises(RemoteProtocolError):
        harness.finish(changed)


@pytest.mark.parametrize("size", [0, 1, 3567, 3568 + 4097])
def test_a_first_message_of_a_wrong_size_is_refused_before_it_is_read(size: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"^the first handshake message has {size} bytes$"):
        noise.Responder(EXECUTOR, SAID, bytes(size))


@pytest.mark.parametrize("size", [0, 4096])
def test_an_authorization_may_be_empty_or_as_long_as_the_reference_takes(size: int) -> None:
    harness = noise.Initiator(HARNESS, Keys(), EXECUTOR.public, SAID, b"a" * size, encapsulate)
    assert len(harness.message) == 3568 + size
    assert noise.Responder(EXECUTOR, SAID, harness.message).authorization == b"a" * size


@pytest.mark.parametrize("size", [0, 3423, 3425])
def test_a_second_message_of_a_wrong_size_is_refused_before_it_is_read(size: int) -> None:
    with pytest.raises(
        RemoteProtocolError, match=f"^the second handshake message has {size} bytes, not 3424$"
    ):
        begin().finish(bytes(size))


@pytest.mark.parametrize(
    "said",
    [
        ("other", "reg", "stream"),
        ("env", "other", "stream"),
        ("env", "reg", "other"),
        ("en", "vreg", "stream"),
    ],
)
def test_a_message_for_another_environment_registration_or_stream_is_refused(
    said: tuple[str, str, str],
) -> None:
    with pytest.raises(RemoteProtocolError):
        noise.Responder(EXECUTOR, noise.prologue(*said), begin().message)


def test_a_service_that_gives_out_its_own_key_in_place_of_the_executor_s_cannot_pass_the_message_on() -> None:
    service = Keys()
    harness = begin(executor=service.public)
    with pytest.raises(RemoteProtocolError):
        noise.Responder(EXECUTOR, SAID, harness.message)
    # It can read what was meant for its own key; only a pinned key of the executor prevents that.
    assert noise.Responder(service, SAID, harness.message).authorization == b"may"


def test_a_first_message_that_is_replayed_opens_no_channel_that_the_replayer_could_use() -> None:
    harness = begin()
    _, first = noise.Responder(EXECUTOR, SAID, harness.message).answer(Keys(), encapsulate)
    _, second = noise.Responder(EXECUTOR, SAID, harness.message).answer(Keys(), encapsulate)
    assert {first.sending, first.receiving}.isdisjoint({second.sending, second.receiving})


def test_keys_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError):
        noise.PublicKey(bytes(31), bytes(1184))
    with pytest.raises(RemoteProtocolError):
        begin(executor=noise.PublicKey(bytes(32), EXECUTOR.public.mlkem))  # a point of small order
    with pytest.raises(RemoteProtocolError):
        begin(executor=noise.PublicKey(EXECUTOR.public.x25519, b"\xff" * 1184))  # coefficients too large


def test_a_channel_does_not_show_its_keys() -> None:
    harness = begin()
    second, channel = noise.Responder(EXECUTOR, SAID, harness.message).answer(Keys(), encapsulate)
    for one in (channel, harness.finish(second)):
        assert channel.sending.hex() not in repr(one) and repr(channel.sending) not in repr(one)
