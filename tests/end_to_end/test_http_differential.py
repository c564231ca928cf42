"""http/request: our server sends and says what the reference does, in about 290 cases, to the same origin."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from tests.support.httpcases import ANSWERS, ASKED, STREAMED, VARIABLES, case
from tests.support.rawhttp import CLOSE, RawOrigin, raw_origin
from tests.support.servers import serving

# Where ours differs, and why.
DIFFERENT = {
    "value with spaces": "white space around a value is not sent: it is none of it (RFC 9110 5.5)",
    "variable with spaces": "the same",
}
# What a request out of time was doing depends on the machine's load too: the reference first chooses a route.
TIMED = ("short time", "short time for a body", "short time streamed", "short time for a body streamed")
ATTEMPTS = 10


class Asker:
    """A connection to a server: the answer, the pieces of a stream, and what the origin was asked."""

    def __init__(self, connection: ClientConnection, origin: RawOrigin) -> None:
        self._connection = connection
        self._origin = origin
        self._number = 0
        self._ask("initialize", {"clientName": "test", "resumeSessionId": None})
        connection.send(json.dumps({"method": "initialized", "params": {}}))

    def _receive(self) -> Any:
        return json.loads(self._connection.recv(timeout=60))

    def _ask(self, method: str, params: Any) -> Any:
        self._number += 1
        self._connection.send(json.dumps({"id": self._number, "method": method, "params": params}))
        message = self._receive()
        assert message["id"] == self._number
        if "result" in message:
            return message["result"]
        return message["error"]["code"], message["error"]["message"]

    def request(self, params: dict[str, Any]) -> tuple[Any, Any, list[bytes]]:
        self._origin.asked()
        told = self._ask("http/request", self._placed(params))
        body, end = b"", None
        if isinstance(told, dict):
            body = base64.b64decode(told.pop("bodyBase64"))
            if params.get("streamResponse"):
                assert body == b""
                body, end = self._stream(params["requestId"])
        else:
            told = told[0], told[1].replace(f":{self._origin.port}", ":PORT")
        return told, (body, end), self._origin.asked()

    def _stream(self, ident: str) -> tuple[bytes, Any]:
        body, seq = b"", 0
        while True:
            message = self._receive()
            assert message["method"] == "http/request/bodyDelta"
            delta = message["params"]
            seq += 1
            assert (delta["requestId"], delta["seq"]) == (ident, seq)
            body += base64.b64decode(delta["deltaBase64"])
            if delta["done"]:
                assert delta["deltaBase64"] == ""
                return body, delta["error"]

    def _placed(self, params: dict[str, Any]) -> dict[str, Any]:
        url = params.get("url")
        if not isinstance(url, str):
            return params
        if url.startswith("/") and not url.startswith(("//", "/relative")):
            url = self._origin.url + url
        return {**params, "url": url.replace(":PORT", f":{self._origin.port}")}


@pytest.fixture(scope="module")
def askers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Asker, Asker]]:
    """The reference, and ours, with the same origin."""
    home: Path = tmp_path_factory.mktemp("home")
    with (
        raw_origin() as origin,
        serving("codex", home, env=VARIABLES) as theirs,
        serving("outfitter", home, env=VARIABLES) as ours,
        connect(theirs.url, max_size=None) as first,
        connect(ours.url, max_size=None) as second,
    ):
        origin.answers.update(ANSWERS)
        yield Asker(first, origin), Asker(second, origin)


@pytest.mark.parametrize("name", sorted({**ASKED, **STREAMED}))
def test_request_is_the_same(name: str, askers: tuple[Asker, Asker]) -> None:
    params = {**ASKED, **STREAMED}[name]
    for _ in range(ATTEMPTS if name in TIMED else 1):
        theirs, ours = (asker.request(params) for asker in askers)
        if ours == theirs:
            break
    if name in DIFFERENT:
        assert ours != theirs, f"there is no difference any more: {DIFFERENT[name]}"
    else:
        assert ours == theirs


def test_stream_has_its_id_for_itself(askers: tuple[Asker, Asker]) -> None:
    def twice(asker: Asker) -> list[Any]:
        params = asker._placed(
            {"method": "GET", "url": "/hold-body", "requestId": "s", "streamResponse": True}
        )
        said = [asker._ask("http/request", params)["status"]]
        assert asker._receive()["params"]["deltaBase64"] == "YWJj"
        said.append(asker._ask("http/request", params))
        said.append(
            asker._ask("http/request", asker._placed({**params, "url": "/ok", "streamResponse": False}))
        )
        return said

    theirs, ours = (twice(asker) for asker in askers)
    assert ours == theirs
    assert ours[1] == (-32602, "http/request streamResponse requestId `s` is already active")


def test_proxies_are_asked_the_same(tmp_path: Path) -> None:
    said = []
    with raw_origin() as proxy, raw_origin() as origin:
        env = {
            "http_proxy": f"http://me:se%20cret@127.0.0.1:{proxy.port}",
            "ALL_PROXY": f"127.0.0.1:{proxy.port}",
            "NO_PROXY": "localhost, .exempt.invalid",
        }
        proxy.answers["elsewhere.invalid:443"] = [b"HTTP/1.1 403 no\r\ncontent-length: 0\r\n\r\n", CLOSE]
        for kind in ("codex", "outfitter"):
            with serving(kind, tmp_path, env=env) as server, connect(server.url, max_size=None) as connection:
                asker = Asker(connection, origin)
                for url in (
                    "/a?b#c",
                    "http://localhost:PORT/final",
                    "http://us:pw@elsewhere.invalid/x",
                    "https://elsewhere.invalid/",
                    "http://www.exempt.invalid/",
                    "/to-302",
                ):
                    said.append((kind, url, *asker.request(case(url)), proxy.asked()))
    ours, theirs = ([one[1:] for one in said if one[0] == kind] for kind in ("outfitter", "codex"))
    assert ours == theirs
    assert [len(one[-1]) for one in ours] == [1, 0, 1, 1, 0, 1]


def test_nobody_asks_before_the_handshake(tmp_path: Path) -> None:
    said = []
    for kind in ("codex", "outfitter"):
        with serving(kind, tmp_path) as server, connect(server.url) as connection:
            params = {"method": "GET", "url": "http://127.0.0.1:1/", "requestId": "r"}
            connection.send(json.dumps({"id": 1, "method": "http/request", "params": params}))
            error = json.loads(connection.recv(timeout=60))["error"]
            said.append((error["code"], error["message"]))
    assert said[0] == said[1]
