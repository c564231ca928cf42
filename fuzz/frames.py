"""Feeds hostile bytes to the frame reader and checks what must hold for all of them.

    python fuzz/frames.py --seconds 60 --seed 7

Holds: events come and at most one fault, nothing is raised; however the stream is cut, the same events
come before the same fault; no more is held than one message and one control frame. A failing
input is printed with its seed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import tracemalloc

from outfitter.protocol.websocket import FrameReader, mask

LIMIT = 4096
# A header with its mask, and a control frame between two fragments.
BESIDE_THE_MESSAGE = 14 + 125 + 6
# What one byte of a stream may cost: a fragment of two bytes is an object of its own.
BYTES_PER_BYTE = 32
BYTES_AT_LEAST = 64 << 10

_OPCODES = (0x0, 0x1, 0x2, 0x8, 0x9, 0xA)
_SIZES = (0, 1, 2, 125, 126, 127, 300, LIMIT - 1, LIMIT, LIMIT + 1)


def frame(
    first: int, payload: bytes, *, masked: bool, key: bytes = b"\x01\x80\xfe\x7f", wide: int = 0
) -> bytes:
    """One frame; `wide` forces the 16-bit (1) or 64-bit (2) form of the length."""
    second = 0x80 if masked else 0
    size = len(payload)
    if wide == 2 or size > 0xFFFF:
        head = bytes((first, second | 127)) + size.to_bytes(8, "big")
    elif wide == 1 or size > 125:
        head = bytes((first, second | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((first, second | size))
    return head + key + mask(payload, key) if masked else head + payload


def stream(rng: random.Random, *, masked: bool) -> bytes:
    """Frames that nearly make sense: a fragmented message mostly goes on, and some bytes are damaged."""
    out = bytearray()
    open_message = False
    for _ in range(rng.randrange(1, 8)):
        opcode = rng.choice(_OPCODES)
        if opcode < 0x8 and rng.random() < 0.9:
            opcode = 0x0 if open_message else rng.choice((0x1, 0x2))
        final = opcode >= 0x8 or rng.random() < 0.6
        if opcode < 0x8:
            open_message = not final
        size = rng.choice(_SIZES if opcode < 0x8 else _SIZES[:4]) if rng.random() < 0.5 else rng.randrange(9)
        payload = "é".encode() * (size // 2) + b"x" * (size % 2)
        if rng.random() < 0.1:
            payload = rng.randbytes(size)
        key = rng.choice((b"\0\0\0\0", rng.randbytes(4)))
        wide = rng.choice((0, 0, 0, 1, 2))
        out += frame(opcode | (0x80 if final else 0), payload, masked=masked, key=key, wide=wide)
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        place = rng.randrange(len(out))
        out[place : place + rng.randrange(2)] = rng.randbytes(rng.randrange(2))
        if not out:
            break
    return bytes(out[: rng.randrange(len(out) + 1)] if rng.random() < 0.1 else out)


def cut(rng: random.Random, data: bytes) -> list[bytes]:
    pieces = []
    place = 0
    while place < len(data):
        size = rng.choice((1, 1, 2, 3, 10, 200, len(data)))
        pieces.append(data[place : place + size])
        place += size
    return pieces


def read(pieces: list[bytes], *, masked: bool) -> tuple[list[tuple[int, bytes | str]], int | None]:
    """The events of a stream, and the close code of the fault that ended it."""
    reader = FrameReader(masked=masked, limit=LIMIT)
    events: list[tuple[int, bytes | str]] = []
    fed = 0
    for piece in pieces:
        fed += len(piece)
        events += reader.feed(piece)
        if reader.fault is not None:
            return events, reader.fault.close_code
        assert reader.held <= min(fed, LIMIT + BESIDE_THE_MESSAGE), f"{reader.held} bytes held"
    return events, None


def check(rng: random.Random, data: bytes, *, masked: bool) -> None:
    """Raises AssertionError when something does not hold for this input."""
    tracemalloc.start()
    whole, code = read([data], masked=masked)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= BYTES_AT_LEAST + BYTES_PER_BYTE * len(data), f"{peak} bytes held"
    bytewise, bytewise_code = read([data[place : place + 1] for place in range(len(data))], masked=masked)
    assert bytewise_code == code
    for _ in range(3):
        assert read(cut(rng, data), masked=masked) == (bytewise, code)
    assert whole == bytewise


def run(seed: int, seconds: float, examples: int | None = None) -> int:
    """Checks streams until the time is up or so many were checked; returns how many."""
    rng = random.Random(seed)
    end = time.monotonic() + seconds
    done = 0
    while time.monotonic() < end and (examples is None or done < examples):
        masked = rng.random() < 0.7
        data = stream(rng, masked=masked) if rng.random() < 0.95 else rng.randbytes(rng.randrange(40))
        try:
            check(rng, data, masked=masked)
        except BaseException:
            print(f"seed {seed}, example {done}, masked {masked}: {data!r}", file=sys.stderr)
            raise
        done += 1
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    print(f"{run(given.seed, given.seconds)} streams, seed {given.seed}: all as it should be")


if __name__ == "__main__":
    main()
