"""Feeds hostile bytes to the message parser and checks what must hold for all of them.

    python fuzz/envelope.py --seconds 60 --seed 7

Holds: a message is read or Malformed is raised, nothing else; memory stays in proportion to the input;
a refusal can be sent and read; what was read, written again, is read the same. A failing input is printed
with its seed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import tracemalloc

from outfitter.errors import Malformed
from outfitter.protocol import codes, jsonrpc
from outfitter.protocol.jsonrpc import Notice, Reply, Request

# What one byte of a message may cost: an empty object takes 64 bytes for three, its slot in a list 8.
BYTES_PER_BYTE = 128
BYTES_AT_LEAST = 256 << 10

_PIECES = [
    b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b'"id"', b'"method"', b'"params"', b'"result"',
    b'"error"', b'"code"', b'"message"', b'"trace"', b"null", b"true", b"1", b"-1", b"1.5", b"1e999",
    b"NaN", b"9" * 40, b'"\\ud83d\\ude00"', b'"\\u0069d"', b" ", b"\n", b"\0", b"\xff", "é".encode(),
    b'{"id":1,', b"[[[[[[[[", b"{}", b"[],", b'"a":1,', b'"\\ud800":1,',
]  # fmt: skip


def message(rng: random.Random) -> bytes:
    """One hostile message: a sound one that was damaged, or pieces of JSON in any order."""
    if rng.random() < 0.3:
        return b"".join(rng.choices(_PIECES, k=rng.randrange(60)))
    data = bytearray(json.dumps(_sound(rng), ensure_ascii=rng.random() < 0.5).encode())
    for _ in range(rng.choice((0, 0, 1, 1, 2, 5))):
        _damage(rng, data)
    return bytes(data)


def _sound(rng: random.Random) -> object:
    out: dict[str, object] = {}
    for name in rng.sample(("id", "method", "params", "result", "error", "trace", "x"), rng.randrange(1, 6)):
        out[name] = _value(rng, 4)
    if rng.random() < 0.7:
        out["id"] = rng.choice((1, -1, 2**63, "a", '"', "", None))
    if rng.random() < 0.7:
        out["method"] = rng.choice(("initialize", "process/start", "é", "", 1))
    return out


def _value(rng: random.Random, depth: int) -> object:
    kind = rng.randrange(7 if depth else 5)
    if kind == 5:
        return [_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    if kind == 6:
        return {rng.choice('abcd%\\"é'): _value(rng, depth - 1) for _ in range(rng.randrange(4))}
    return (
        None,
        True,
        rng.randrange(-(10**20), 10**20),
        rng.random(),
        '"\\[{é\U0001f600'[rng.randrange(6) :],
    )[kind]


def _damage(rng: random.Random, data: bytearray) -> None:
    place = rng.randrange(len(data) + 1)
    match rng.randrange(5):
        case 0:
            data[place : place + rng.randrange(1, 4)] = b""
        case 1:
            data[place:place] = rng.choice(_PIECES)
        case 2:
            data[place:place] = data[place : place + rng.randrange(40)]
        case 3:
            data[place : place + 1] = bytes((rng.randrange(256),))
        case 4:
            data[place:place] = rng.choice(_PIECES) * rng.choice((2, 128, 300))


def check(data: bytes) -> None:
    """Raises AssertionError when something does not hold for this input."""
    tracemalloc.start()
    try:
        read: Request | Notice | Reply | Malformed = jsonrpc.parse(data)
    except Malformed as error:
        read = error
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak <= BYTES_AT_LEAST + BYTES_PER_BYTE * len(data), f"{peak} bytes held"
    if isinstance(read, Malformed):
        answer = jsonrpc.parse(jsonrpc.error(read.request_id, *codes.of(read)))
        assert isinstance(answer, Reply) and answer.id == read.request_id
        return
    try:
        again = jsonrpc.parse(_write(read))
    except ValueError:
        return  # 1e999 is infinity to us, and infinity cannot be written
    assert again == read


def _write(message: Request | Notice | Reply) -> bytes:
    if isinstance(message, Request):
        return jsonrpc.request(message.id, message.method, message.params, message.trace)
    if isinstance(message, Notice):
        return jsonrpc.notice(message.method, message.params)
    if message.error is None:
        return jsonrpc.result(message.id, message.result)
    return json.dumps({"id": message.id, "error": message.error}).encode()


def run(seed: int, seconds: float, examples: int | None = None) -> int:
    """Checks messages until the time is up or so many were checked; returns how many."""
    rng = random.Random(seed)
    end = time.monotonic() + seconds
    done = 0
    while time.monotonic() < end and (examples is None or done < examples):
        data = message(rng)
        try:
            check(data)
        except BaseException:
            print(f"seed {seed}, example {done}: {data!r}", file=sys.stderr)
            raise
        done += 1
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    print(f"{run(given.seed, given.seconds)} messages, seed {given.seed}: all as it should be")


if __name__ == "__main__":
    main()
