"""What a command with a managed network can reach, as root's and as an ordinary user's: nothing but what its
proxy lets through. Everything that is tried is on this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import outfitter
from tests.end_to_end.test_upgrade import upgrade
from tests.support.machine import public_folder
from tests.support.networks import network
from tests.support.origin import origin
from tests.support.sandbox import READ_ONLY, WORKSPACE, finish, need_sandbox, run, sandbox, start
from tests.support.servers import end, serving
from tests.support.users import installed
from tests.support.wire import Wire

ORDINARY = 23456  # a user that no machine has
PYTHON = "/usr/bin/python3"
MARK = f"outfitter-network-{os.getpid()}"


@contextlib.contextmanager
def as_user(uid: int) -> Iterator[Wire]:
    """A server of this user, and a client."""
    need_sandbox()
    with public_folder() as folder:
        python, site = installed()
        home = folder / "home"
        home.mkdir(mode=0o777)
        home.chmod(0o777)
        with (folder / "log").open("wb") as log:
            popen = subprocess.Popen(
                [python, "-m", "outfitter", "serve", "--listen", "ws://127.0.0.1:0", "--allow-user", "0"],
                env={"PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONPATH": str(site)},
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                user=uid,
                group=uid,
                extra_groups=[],
            )
        try:
            assert popen.stdout is not None
            url = popen.stdout.readline().decode().strip()
            assert url, (folder / "log").read_text()
            with Wire(url) as wire:
                wire.handshake()
                yield wire
        finally:
            end(popen)
        assert "Traceback" not in (folder / "log").read_text()


# What is tried, from inside. Each prints its name and whether it reached what it must not.
ATTACKS = r"""
import ctypes, json, os, socket, struct, subprocess, sys
facts = json.loads(sys.argv[1])
found = {}

def attempt(name):
    def run(work):
        try:
            found[name] = bool(work())
        except OSError as error:
            found[name] = False
        return work
    return run

def reaches(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as sock:
        sock.settimeout(5)
        sock.connect(address)
        if kind == socket.SOCK_DGRAM:
            return True
        sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return b"HTTP/1.1 200" in sock.recv(1000)

def through(request, port=3128):
    with socket.create_connection(("127.0.0.1", port), 20) as sock:
        sock.sendall(request)
        data = b""
        while more := sock.recv(65536):
            data += more
        return b"HTTP/1.1 200" in data

web, closed = facts["web"], facts["closed"]

@attempt("a port of the host's loopback")
def _(): return reaches(socket.AF_INET, ("127.0.0.1", closed))

@attempt("the same by IPv6")
def _(): return reaches(socket.AF_INET6, ("::1", closed))

@attempt("the same as an IPv4 address in IPv6")
def _(): return reaches(socket.AF_INET6, ("::ffff:127.0.0.1", closed))

@attempt("an address of the host")
def _(): return any([reaches(socket.AF_INET, (one, closed)) for one in facts["addresses"]])

@attempt("a route to a public address")
def _(): return reaches(socket.AF_INET, ("192.0.2.1", 9), socket.SOCK_DGRAM)

@attempt("a route to a public address by IPv6")
def _(): return reaches(socket.AF_INET6, ("2001:db8::1", 9), socket.SOCK_DGRAM)

@attempt("a route to the resolver")
def _(): return any([reaches(socket.AF_INET, (one, 53), socket.SOCK_DGRAM) for one in facts["resolvers"]])

@attempt("a datagram for the host's loopback")
def _():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"x", ("127.0.0.1", facts["udp"]))
    return False  # whether it came is seen outside

@attempt("a name")
def _(): return bool(socket.getaddrinfo("localhost.localdomain.invalid", 80))

@attempt("a unix socket of the host by path")
def _():
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(facts["unix"])
        return True

@attempt("an abstract one")
def _():
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect("\0" + facts["mark"])
        return True

@attempt("other families")
def _():
    opened = []
    for family in (socket.AF_PACKET, socket.AF_NETLINK, 40, 38):
        try:
            socket.socket(family, socket.SOCK_RAW if family != 38 else socket.SOCK_SEQPACKET).close()
            opened.append(family)
        except OSError:
            pass
    return opened

@attempt("a raw socket")
def _(): return socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).fileno() >= 0

@attempt("the host's network namespace")
def _():
    libc = ctypes.CDLL(None, use_errno=True)
    for pid in ("1", str(os.getppid()), str(facts["server"])):
        try:
            fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        except OSError:
            continue
        if libc.setns(fd, 0) == 0 and os.readlink("/proc/self/ns/net") == facts["namespace"]:
            return True
    return False

@attempt("a new interface")
def _():
    return subprocess.run(["ip", "link", "add", "x", "type", "dummy"], capture_output=True).returncode == 0

@attempt("another port through the proxy")
def _():
    there = b"127.0.0.9:%d" % closed
    return through(b"GET http://%b/ HTTP/1.1\r\nHost: %b\r\n\r\n" % (there, there))

@attempt("a tunnel to the host's loopback")
def _(): return through(b"CONNECT localhost:%d HTTP/1.1\r\nHost: x\r\n\r\n" % closed)

@attempt("a decimal address through the proxy")
def _(): return through(b"CONNECT 2130706441:%d HTTP/1.1\r\nHost: x\r\n\r\n" % closed)

@attempt("another host in the header")
def _(): return through(b"GET http://127.0.0.1:%d/ HTTP/1.1\r\nHost: 127.0.0.9:%d\r\n\r\n" % (web, closed))

@attempt("a request behind another one")
def _():
    there = b"127.0.0.1:%d" % web
    first = b"POST http://%b/nothing HTTP/1.1\r\nHost: %b\r\nContent-Length: 0\r\n" % (there, there)
    second = b"GET http://127.0.0.9:%d/ HTTP/1.1\r\nHost: 127.0.0.9:%d\r\n\r\n" % (closed, closed)
    return through(first + b"\r\n" + second) or through(
        first + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + second
    )

@attempt("an address by SOCKS")
def _():
    wanted = b"\5\1\0\5\1\0\1\x7f\0\0\x09" + closed.to_bytes(2, "big")
    return through(wanted + b"GET / HTTP/1.0\r\n\r\n", 1080)

@attempt("a bound port by SOCKS")
def _():
    with socket.create_connection(("127.0.0.1", 1080), 20) as sock:
        sock.sendall(b"\5\1\0\5\2\0\1\x7f\0\0\x01" + closed.to_bytes(2, "big"))
        data = b""
        while len(data) < 4 and (more := sock.recv(100)): data += more
        return data[2:4] == b"\5\0"

@attempt("the port of the server")
def _(): return reaches(socket.AF_INET, ("127.0.0.1", facts["server-port"]))

@attempt("the port of the server through the proxy, where it would be who the server is")
def _():
    return through(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\nHost: x\r\n\r\n" % facts["server-port"])

# And what must work.
there = b"127.0.0.1:%d" % web
found["MUST the proxy"] = through(b"GET http://%b/ HTTP/1.1\r\nHost: %b\r\n\r\n" % (there, there))
found["MUST SOCKS"] = through(
    b"\5\1\0\5\1\0\1\x7f\0\0\1" + web.to_bytes(2, "big") + b"GET / HTTP/1.0\r\n\r\n", 1080
)
listening = socket.create_server(("127.0.0.1", 0))
with socket.create_connection(listening.getsockname(), 20) as sock:
    found["MUST a loopback of its own"] = True
print(json.dumps(found))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be both users")
@pytest.mark.parametrize("profile", ["read-only", "disabled"])
@pytest.mark.parametrize("uid", [0, ORDINARY], ids=["root", "ordinary"])
def test_nothing_gets_out_but_through_the_proxy(uid: int, profile: str, tmp_path: Path) -> None:
    permissions: Any = READ_ONLY if profile == "read-only" else {"type": "disabled"}
    with contextlib.ExitStack() as stack:
        web = stack.enter_context(origin())
        closed = stack.enter_context(origin("127.0.0.9"))
        unix, abstract, udp = (
            stack.enter_context(socket.socket(family, kind))
            for family, kind in (
                (socket.AF_UNIX, socket.SOCK_STREAM),
                (socket.AF_UNIX, socket.SOCK_STREAM),
                (socket.AF_INET, socket.SOCK_DGRAM),
            )
        )
        tmp_path.chmod(0o755)
        unix.bind(str(tmp_path / "socket"))
        (tmp_path / "socket").chmod(0o777)
        abstract.bind(f"\0{MARK}")
        udp.bind(("127.0.0.1", 0))
        unix.listen()
        abstract.listen()
        udp.setblocking(False)
        wire = stack.enter_context(as_user(uid))
        addresses = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False).stdout
        resolvers = [
            line.split()[1]
            for line in Path("/etc/resolv.conf").read_text().splitlines()
            if line.startswith("nameserver") and ":" not in line
        ]
        info = wire.call("environment/info")
        facts = {
            "web": web,
            "closed": closed,
            "udp": udp.getsockname()[1],
            "unix": str(tmp_path / "socket"),
            "mark": MARK,
            "addresses": [one for one in addresses.split() if ":" not in one],
            "resolvers": resolvers,
            "namespace": os.readlink("/proc/self/ns/net"),
            "server": info["base"]["pid"],
            "server-port": int(wire.socket.remote_address[1]),
        }
        ran = run(
            wire,
            [PYTHON, "-c", ATTACKS, json.dumps(facts)],
            sandbox=sandbox(permissions),
            env={"PATH": "/usr/bin:/bin"},
            **network({"127.0.0.1": "allow"}),
        )
        assert ran.code == 0, ran
        found = json.loads(ran.stdout)
        with pytest.raises(BlockingIOError):
            udp.recv(100)
    must = {name: reached for name, reached in found.items() if name.startswith("MUST ")}
    assert must == dict.fromkeys(must, True)
    assert {name for name, reached in found.items() if reached} == set(must)


def test_a_sandbox_does_not_reach_the_proxy_of_another(wire: Wire) -> None:
    with origin() as port:
        script = f"echo ready; read line; curl -sS http://127.0.0.1:{port}/"
        rich, first = start(
            wire,
            ["/bin/sh", "-c", script],
            sandbox=sandbox(READ_ONLY),
            pipeStdin=True,
            **network({"127.0.0.1": "allow"}),
        )
        wire.until(lambda one: one["method"] == "process/output")
        # The same port, in another namespace: its own proxy answers, which allows nothing.
        poor = run(
            wire,
            ["/bin/sh", "-c", f"curl -sS http://127.0.0.1:{port}/"],
            sandbox=sandbox(READ_ONLY),
            **network({}),
        )
        assert '"reason":"not_allowed_local"' in poor.stdout
        wire.call("process/write", {"processId": rich, "chunk": "Cg==", "writeId": "w"})
        assert '"path": "/"' in finish(wire, rich, first).stdout


def test_the_proxy_is_there_for_as_long_as_the_command(wire: Wire) -> None:
    with origin() as port:
        background = f"(sleep 0.2; curl -sS http://127.0.0.1:{port}/late) & wait"
        ran = run(
            wire,
            ["/bin/sh", "-c", background],
            sandbox=sandbox(READ_ONLY),
            **network({"127.0.0.1": "allow"}),
        )
    assert '"path": "/late"' in ran.stdout


# Programs that people use


@contextlib.contextmanager
def files(folder: Path) -> Iterator[int]:
    class Quiet(SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(folder))

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as served:
        thread = Thread(target=served.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield served.server_port
        finally:
            served.shutdown()
            thread.join()


def inside(wire: Wire, script: str, folder: Path, **rules: Any) -> Any:
    return run(
        wire,
        ["/bin/sh", "-ec", script],
        cwd=folder,
        sandbox=sandbox(WORKSPACE, folder, cwd=folder),
        env={"HOME": str(folder), "LANG": "C.UTF-8"},
        **network({"127.0.0.1": "allow"}, **rules),
    )


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_clones_through_the_proxy(wire: Wire, tmp_path: Path) -> None:
    repository, ws = tmp_path / "repository", tmp_path / "ws"
    ws.mkdir()
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@x", "-C", str(repository)]
    subprocess.run(["git", "init", "-q", "-b", "main", str(repository)], check=True)
    (repository / "file").write_text("content\n")
    subprocess.run([*git, "add", "file"], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    subprocess.run([*git, "update-server-info"], check=True)
    with files(tmp_path) as port:
        ran = inside(wire, f"git clone -q http://127.0.0.1:{port}/repository/.git c; cat c/file", ws)
    assert (ran.stdout, ran.code) == ("content\n", 0), ran


def test_pip_installs_through_the_proxy(wire: Wire, tmp_path: Path) -> None:
    package, ws = tmp_path / "index" / "tiny", tmp_path / "ws"
    package.mkdir(parents=True)
    ws.mkdir()
    import zipfile

    with zipfile.ZipFile(package / "tiny-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny.py", "value = 7\n")
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr(
            "tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")
    with files(tmp_path / "index") as port:
        ran = inside(
            wire,
            f"{sys.executable} -m pip --isolated --no-cache-dir --disable-pip-version-check install -q "
            f"--no-deps --target {ws}/site --proxy $HTTP_PROXY --trusted-host 127.0.0.1 "
            f"--index-url http://127.0.0.1:{port}/ tiny; {PYTHON} -c 'import sys; "
            f'sys.path.insert(0, "{ws}/site"); import tiny; print(tiny.value)\'',
            ws,
        )
    assert (ran.stdout, ran.code) == ("7\n", 0), ran


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
def test_npm_installs_through_the_proxy(wire: Wire, tmp_path: Path) -> None:
    registry, ws = tmp_path / "registry", tmp_path / "ws"
    registry.mkdir()
    ws.mkdir()
    source = tmp_path / "package"
    source.mkdir()
    (source / "package.json").write_text('{"name": "tiny", "version": "1.0.0", "main": "index.js"}')
    (source / "index.js").write_text("module.exports = 7\n")
    subprocess.run(["tar", "-czf", registry / "tiny.tgz", "-C", tmp_path, "package"], check=True)
    with files(registry) as port:
        about = {
            "name": "tiny",
            "dist-tags": {"latest": "1.0.0"},
            "versions": {
                "1.0.0": {
                    "name": "tiny",
                    "version": "1.0.0",
                    "dist": {"tarball": f"http://127.0.0.1:{port}/tiny.tgz"},
                }
            },
        }
        (registry / "tiny").write_text(json.dumps(about))
        ran = inside(
            wire,
            f"npm install --silent --no-audit --no-fund --registry http://127.0.0.1:{port}/ tiny >&2; "
            "node -p 'require(\"tiny\")'",
            ws,
        )
    assert (ran.stdout, ran.code) == ("7\n", 0), ran


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
def test_npm_is_told_what_is_refused(wire: Wire, tmp_path: Path) -> None:
    ran = inside(wire, "npm install --no-audit --no-fund --registry http://registry.test/ tiny", tmp_path)
    assert ran.code != 0
    assert "403" in ran.stderr


def test_a_proxy_outlives_an_upgrade(tmp_path: Path) -> None:
    need_sandbox()

    async def scenario() -> None:
        async with asyncio.timeout(60), outfitter.connect(server.url) as client:
            told: list[str] = []
            process = await client.start(
                ["sh", "-c", "read line; curl -s -o /dev/null -w '%{http_code}' http://nope.invalid/"],
                sandbox=outfitter.Sandbox.read_only(domains=["pypi.org"]),
                policy=None,
                env={"PATH": "/usr/bin:/bin"},
                stdin=True,
                on_network=lambda one: told.append(f"{one.decision} {one.host}"),
            )
            await upgrade(client, server)
            await process.write("go\n")
            output = b""
            async for event in process:
                output += getattr(event, "data", b"")
            assert (output, told) == (b"403", ["deny nope.invalid"])

    with serving("outfitter", tmp_path) as server:
        asyncio.run(scenario())
