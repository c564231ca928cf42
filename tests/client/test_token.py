"""Where a token comes from, and that it is asked for again."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import outfitter
from outfitter.client.token import current, read_token
from outfitter.core.events import Output
from outfitter.environments.file import Declared
from outfitter.environments.manager import opening
from outfitter.errors import DialFailed, SettingInvalid
from tests.server.test_tokens import private
from tests.support.jwts import SECRET, jwt
from tests.support.servers import Server, serving

OTHER = b"another-secret-of-more-than-32-bytes"
HOUR = 3600


def token(secret: bytes) -> str:
    return jwt({"exp": int(time.time()) + HOUR, "sub": "ada"}, secret=secret)


def read(path: Path) -> Callable[[], str]:
    return lambda: read_token(str(path))


def read_async(path: Path) -> Callable[[], Any]:
    async def fetch() -> str:
        await asyncio.sleep(0)
        return read_token(str(path))

    return fetch


@pytest.mark.parametrize("way", [Path, read, read_async, "declared"])
def test_a_token_is_read_again_when_the_client_dials_again(way: Any, tmp_path: Path) -> None:
    secret, file = Path(private(tmp_path / "secret", SECRET)), tmp_path / "token"
    file.write_text(f"{token(SECRET)}\n")
    auth = ("--ws-auth", "signed-bearer-token", "--ws-shared-secret-file", str(secret))

    async def scenario(server: Server) -> None:
        if way == "declared":
            client = await opening(Declared("x", url=server.url, token_file=str(file)))
        else:
            client = await outfitter.connect(server.url, token=way(file))
        try:
            process = await client.start(["cat"], stdin=True)
            # From now on the server takes tokens of another secret only, and such a one is in the file.
            private(secret, OTHER)
            file.write_text(f"{token(OTHER)}\n")
            told = await client.call("server/upgrades", {}, repeat=True)
            os.kill(server.pid, signal.SIGUSR2)  # sends every client away, to come back
            told = await client.call("server/upgrades", {"after": told["count"]}, repeat=True)
            assert told["outcome"] == "upgraded"
            assert await process.write(b"still there") == "accepted"
            await process.close_stdin()
            said = b"".join([event.data async for event in process if isinstance(event, Output)])
            assert said == b"still there"
        finally:
            await client.aclose()
        # The first one, as text, would not have been enough.
        with pytest.raises(DialFailed, match="401"):
            await outfitter.connect(server.url, token=token(SECRET))

    with serving("outfitter", tmp_path / "home", *auth) as server:
        asyncio.run(asyncio.wait_for(scenario(server), 60))


def test_a_file_that_cannot_be_read_is_named_and_may_come_back(tmp_path: Path) -> None:
    missing, empty, binary = (tmp_path / name for name in ("missing", "empty", "binary"))
    empty.write_text("\n")
    binary.write_bytes(b"\xff\xfe")
    for path, why in (
        (missing, f"cannot read the token file {missing}: No such file or directory"),
        (empty, f"the token file {empty} is empty"),
        (binary, f"cannot read the token file {binary}: it is not text"),
    ):
        with pytest.raises(DialFailed) as caught:
            asyncio.run(current(path))
        assert (str(caught.value), caught.value.retryable) == (why, True)


def test_a_function_that_fails_says_nothing_secret_and_is_tried_again() -> None:
    def fail() -> str:
        raise ValueError("hunter2")

    with pytest.raises(DialFailed) as caught:
        asyncio.run(current(fail))
    assert str(caught.value) == "the function that gives the token failed: ValueError"
    assert caught.value.retryable


def test_a_function_must_give_text() -> None:
    with pytest.raises(SettingInvalid, match="gave bytes, not text"):
        asyncio.run(current(lambda: b"x"))  # type: ignore[arg-type,return-value]


def test_text_and_nothing_are_what_they_are() -> None:
    assert [asyncio.run(current(one)) for one in ("x", None)] == ["x", None]
