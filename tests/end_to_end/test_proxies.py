"""The recipes for proxies, with the real nginx and Caddy: they have TLS, the server behind them has none."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from outfitter import DialFailed, connect
from tests.support.certificates import Pair, authority, server_pair
from tests.support.codex import run_codex
from tests.support.machine import wait_until
from tests.support.model import Script, exec_command, modelling
from tests.support.servers import Server, serving
from tests.support.tools import ROOT, program

TOKEN = "a-token-of-32-characters-or-more-for-tests"
NAME = "build.example.com"
SECONDS = 60.0
PAGE = ROOT / "docs/howto/tls.md"
UPGRADE = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"]
UPGRADE += ["Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="]
KINDS = {"nginx": "nginx.conf", "caddy": "Caddyfile"}


def recipe(kind: str, port: int, server: Server, pair: Pair) -> str:
    """The file of the recipe with what a test has to have otherwise: ports, the name, where files are."""
    text = (ROOT / "examples" / KINDS[kind]).read_text()
    places = {
        "/etc/outfitter/cert.pem": str(pair.cert),
        "/etc/outfitter/key.pem": str(pair.key),
        "127.0.0.1:8765": f"127.0.0.1:{server.port}",
        "listen 443": f"listen 127.0.0.1:{port}",
        f"server_name {NAME}": "server_name localhost",
        f"{NAME} {{": f"https://localhost:{port} {{\n\tbind 127.0.0.1",
    }
    for old, new in places.items():
        text = text.replace(old, new)
    return text


class Proxy:
    """One that runs: `url` leads through it to the server."""

    def __init__(self, kind: str, root: Path, server: Server) -> None:
        self.kind = kind
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"wss://localhost:{self.port}"
        root.mkdir()
        file = root / KINDS[kind]
        text = recipe(kind, self.port, server, server_pair())
        if kind == "nginx":
            (root / "site.conf").write_text(text)
            logs = "".join(
                f"{name}_temp_path {root}/{name};"
                for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
            )
            file.write_text(
                f"daemon off; pid {root}/pid; error_log stderr; user root; worker_processes 1;\n"
                f"events {{}} http {{ access_log off; {logs} include {root}/site.conf; }}\n"
            )
            command = [program("nginx"), "-p", str(root), "-c", str(file), "-e", "stderr"]
        else:
            file.write_text("{\n\tadmin off\n\tauto_https disable_redirects\n}\n" + text)
            command = [program("caddy"), "run", "--config", str(file), "--adapter", "caddyfile"]
        self.log = root / "log"
        with self.log.open("wb") as log:
            self.popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.environ["PATH"], "HOME": str(root)},
            )

    def listens(self) -> bool:
        assert self.popen.poll() is None, self.log.read_text()
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
        except ConnectionRefusedError:
            return False
        return True

    def end(self) -> None:
        self.popen.send_signal(signal.SIGTERM)
        self.popen.wait(20)


@pytest.fixture(scope="module", params=KINDS)
def proxy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    program(request.param)
    root = tmp_path_factory.mktemp("proxy")
    token = root / "token"
    token.touch(0o600)
    token.write_text(TOKEN)
    auth = ("--ws-auth", "capability-token", "--ws-token-file", str(token))
    with serving("outfitter", root / "server", *auth, "--allow-host", "localhost") as server:
        proxy = Proxy(request.param, root / "files", server)
        try:
            wait_until(proxy.listens, "the proxy does not listen", SECONDS)
            yield proxy
        finally:
            proxy.end()


def asked(proxy: Proxy, *lines: str) -> bytes:
    """All that comes back for this request."""
    with contextlib.closing(socket.create_connection(("127.0.0.1", proxy.port), SECONDS)) as raw:
        tls = ssl.create_default_context(cafile=authority().file)
        with tls.wrap_socket(raw, server_hostname="localhost") as sock:
            sock.sendall("\r\n".join([*lines, "", ""]).encode())
            read = b""
            while b"\r\n\r\n" not in read:
                more = sock.recv(65536)
                if not more:
                    break
                read += more
            return read


def test_commands_and_streams_pass(proxy: Proxy) -> None:
    async def scenario() -> None:
        async with connect(proxy.url, token=TOKEN, ca=authority().file) as client:
            process = await client.start(["cat"], stdin=True)
            for number in range(20):
                await process.write(b"%d\n" % number)
            await process.close_stdin()
            output = b"".join([event.data async for event in process if hasattr(event, "data")])
            assert output == b"".join(b"%d\n" % number for number in range(20))
            done = await client.run(["head", "-c", "30000000", "/dev/zero"], max_output=40_000_000)
            assert done.stdout == bytes(30_000_000)

    asyncio.run(asyncio.wait_for(scenario(), SECONDS))


def test_one_large_message_passes(proxy: Proxy, tmp_path: Path) -> None:
    data = os.urandom(30_000_000)
    params = {"path": f"file://{tmp_path}/large", "dataBase64": base64.b64encode(data).decode()}

    async def scenario() -> None:
        async with connect(proxy.url, token=TOKEN, ca=authority().file) as client:
            await client.call("fs/writeFile", params)

    asyncio.run(asyncio.wait_for(scenario(), SECONDS))
    assert (tmp_path / "large").read_bytes() == data


def test_stock_codex_runs_commands_through_it(proxy: Proxy, tmp_path: Path) -> None:
    def script() -> Script:
        yield [exec_command("echo through")]
        return "done"

    with modelling(script) as model:
        run = run_codex(
            tmp_path / "client",
            model=model.url,
            cwd=tmp_path,
            env={"SSL_CERT_FILE": str(authority().file)},
            environments='default = "b"\ninclude_local = false\n\n[[environments]]\nid = "b"\n'
            f'url = "{proxy.url}"\nauth_bearer_token = "{TOKEN}"\n',
        )
    assert (run.exit_code, [out.text for out in model.outputs]) == (0, ["through\n"])


def test_the_token_is_asked_for_whatever_the_headers_say(proxy: Proxy) -> None:
    claims = [
        "Forwarded: for=127.0.0.1",
        "X-Forwarded-For: 127.0.0.1",
        "X-Forwarded-User: root",
        "X-Real-IP: ::1",
    ]
    said = asked(proxy, "GET / HTTP/1.1", "Host: localhost", *UPGRADE, *claims)
    assert said.startswith(b"HTTP/1.1 401 ")
    assert b"missing websocket bearer token" in said

    async def scenario() -> None:
        async with connect(proxy.url, token="another", ca=authority().file):
            pass

    with pytest.raises(DialFailed, match="401"):
        asyncio.run(asyncio.wait_for(scenario(), SECONDS))


def test_the_server_sees_the_name_that_the_client_used(proxy: Proxy) -> None:
    said = asked(proxy, "GET / HTTP/1.1", "Host: evil.example", *UPGRADE, f"Authorization: Bearer {TOKEN}")
    if proxy.kind == "caddy":  # serves the name of its file alone
        assert said.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"Content-Length: 0" in said
    else:
        assert said.startswith(b"HTTP/1.1 403 ")
        assert b"start the server with --allow-host NAME" in said


@pytest.mark.parametrize("name", KINDS.values())
def test_the_page_quotes_the_recipe_as_it_is(name: str) -> None:
    text = (ROOT / "examples" / name).read_text()
    assert f"<!-- examples/{name} -->\n```" in PAGE.read_text()
    assert text in PAGE.read_text()
