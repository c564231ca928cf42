"""Feeds hostile answers to the reader of HTTP/1.1 and checks what must hold for all of them.

    python fuzz/http1.py --seconds 60 --seed 7

Holds: an answer is read or NotHttp is raised, nothing else; it is read the same however it is cut into
pieces; no more comes out than went in. A failing input is printed with its seed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from itertools import pairwise

from outfitter.core.http1 import NotHttp, head_end, read_head

_PIECES = [
    b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 404 x\r\n", b"HTTP/1.1 100 \r\n\r\n", b"HTTP/1.1 204 x\r\n",
    b"\r\n", b"\n", b"\r", b": ", b";", b",", b" ", b"\t", b"\0", b"\xff", b"content-length: ",
    b"transfer-encoding: chunked\r\n", b"connection: close\r\n",
    b"0\r\n", b"3\r\nabc\r\n", b"ffffffffffffffff\r\n", b"5", b"-1", b"x: y\r\n",
    b"\r\n\r\n", b"a" * 300,
]  # fmt: skip

Read = tuple[int, bytes, bool] | None


def answer(rng: random.Random) -> bytes:
    """One hostile answer: a sound one that was damaged, or pieces of one in any order."""
    if rng.random() < 0.4:
        return b"".join(rng.choices(_PIECES, k=rng.randrange(25)))
    body = rng.randbytes(rng.randrange(200))
    if rng.random() < 0.5:
        head, body = b"content-length: %d\r\n" % len(body), body
    else:
        cut = rng.randrange(len(body) + 1)
        chunks = [b"%x\r\n%b\r\n" % (len(one), one) for one in (body[:cut], body[cut:]) if one]
        head, body = b"transfer-encoding: chunked\r\n", b"".join(chunks) + b"0\r\n\r\n"
    data = bytearray(b"HTTP/1.1 200 OK\r\nx-a: b\r\n" + head + b"\r\n" + body)
    for _ in range(rng.choice((0, 1, 1, 2, 5))):
        place = rng.randrange(len(data) + 1)
        data[place : place + rng.randrange(3)] = rng.choice((b"", rng.choice(_PIECES), rng.randbytes(1)))
    return bytes(data)


def read(pieces: list[bytes]) -> Read:
    """Status, body and whether it is whole; None for what is no answer."""
    pending, found, head = b"", b"", None
    try:
        for piece in pieces:
            if head is not None:
                found += b"" if head.body.over else head.body.feed(piece)
                continue
            pending = (pending + piece).lstrip(b"\r\n")
            end = head_end(pending)
            if end >= 0:
                head = read_head("GET", pending[:end])
                found += head.body.feed(pending[end:])
    except NotHttp:
        return None
    return None if head is None else (head.status, found, head.body.is_whole())


def check(data: bytes, rng: random.Random) -> None:
    """Raises AssertionError when something does not hold for this input."""
    whole = read([data])
    cuts = sorted({0, len(data), *(rng.randrange(len(data) + 1) for _ in range(4))})
    pieces = [data[begin:end] for begin, end in pairwise(cuts)]
    assert read(pieces) == whole, "it is read in another way when it comes in pieces"
    assert whole is None or len(whole[1]) <= len(data), "more came out than went in"


def run(seed: int, seconds: float, examples: int | None = None) -> int:
    """Checks answers until the time is up or so many were checked; returns how many."""
    rng = random.Random(seed)
    end = time.monotonic() + seconds
    done = 0
    while time.monotonic() < end and (examples is None or done < examples):
        data = answer(rng)
        try:
            check(data, rng)
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
    print(f"{run(given.seed, given.seconds)} answers, seed {given.seed}: all as it should be")


if __name__ == "__main__":
    main()
