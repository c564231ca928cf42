"""No Kubernetes, but an API server on loopback that replays recorded answers (tests/pool/kubernetes).

Its pods are processes of this machine, so that what they serve, how they end and who is told really happens.
A client needs its token, and sees its certificate of tests.support.certificates.
"""

from __future__ import annotations

import json
import os
import select
import ssl
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from outfitter.pool.remote import NODE_COMMAND
from outfitter.protocol import websocket as ws
from outfitter.protocol.upgrade import accept_key
from tests.support.certificates import authority, server_pair

RECORDED = Path(__file__).parent.parent / "pool" / "kubernetes"
NAMESPACE, TOKEN, NODE = "work", "token-of-the-tests", "node-a"


def recorded(name: str) -> Any:
    return json.loads((RECORDED / f"{name}.json").read_text())


class Pod:
    """One, and its process."""

    def __init__(self, cluster: Cluster, job: dict[str, Any]) -> None:
        template, name = job["spec"]["template"], job["metadata"]["name"]
        self.labels, self.job = template["metadata"]["labels"], name
        self.object: dict[str, Any] = {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {"name": f"{name}-x7k2p", "namespace": NAMESPACE, "labels": self.labels},
            "spec": {**template["spec"], "nodeName": NODE},
        }
        self.listeners: set[int] = set()  # pipes to those who are attached
        self._listening = threading.Lock()
        self._cluster = cluster
        (container,) = template["spec"]["containers"]
        told = {"status.podIP": "127.0.0.1", "spec.nodeName": NODE}
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "OUTFITTER_POOL_ROOT": cluster.root,
            "KUBERNETES_SERVICE_HOST": "10.96.0.1",
            "KUBERNETES_PORT": "tcp://10.96.0.1:443",
            **{one["name"]: told[one["valueFrom"]["fieldRef"]["fieldPath"]] for one in container["env"]},
        }
        self.process = subprocess.Popen(
            container["command"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environ,
            bufsize=0,
            start_new_session=True,
        )
        self.printing = threading.Thread(target=self._print)

    def _print(self) -> None:
        assert self.process.stdout is not None and self.process.stdin is not None
        while piece := self.process.stdout.read(1 << 16):
            with self._listening:
                for listener in self.listeners:
                    os.write(listener, piece)
        ended = self.process.wait()
        for pipe in (self.process.stdout, self.process.stdin):
            pipe.close()
        for listener in list(self.listeners):
            self.forget(listener)
        self._cluster.change(self, "MODIFIED", "failed" if ended else "succeeded")

    def listen(self, listener: int) -> None:
        with self._listening:
            self.listeners.add(listener)
        if self.process.poll() is not None:  # and nobody else closes it
            self.forget(listener)

    def forget(self, listener: int) -> None:
        with self._listening:
            if listener in self.listeners:
                self.listeners.remove(listener)
                os.close(listener)


class Cluster:
    """The state of the API, and its history."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.pods: dict[str, Pod] = {}  # by the name of their jobs
        self.jobs: list[dict[str, Any]] = []  # that were asked for
        self.questions: list[str] = []
        self.forbidden: set[str] = set()  # paths
        self.oldest = 0  # a version before it is answered with 410
        self.changed = threading.Condition()
        self.history: list[dict[str, Any]] = []
        self.closed = False
        self._states = recorded("pods")

    def change(self, pod: Pod, kind: str, state: str = "") -> None:
        with self.changed:
            if state:
                pod.object["status"] = self._states[state]
            pod.object["metadata"] = {**pod.object["metadata"], "resourceVersion": str(len(self.history) + 1)}
            self.history.append({"type": kind, "object": dict(pod.object)})
            self.changed.notify_all()

    def create(self, job: dict[str, Any]) -> int:
        name = job["metadata"]["name"]
        if name in self.pods:
            return 409
        self.jobs.append(job)
        pod = Pod(self, job)
        with self.changed:  # a list has either all of it or nothing
            self.pods[name] = pod
            for kind, state in (("ADDED", "pending"), ("MODIFIED", "creating"), ("MODIFIED", "running")):
                self.change(pod, kind, state)
        pod.printing.start()
        return 201

    def delete(self, name: str) -> int:
        pod = self.pods.pop(name, None)
        if pod is None:
            return 404
        pod.process.terminate()
        pod.printing.join()
        self.change(pod, "DELETED")
        return 200

    def close(self) -> None:
        for name in list(self.pods):
            self.delete(name)
        with self.changed:
            self.closed = True
            self.changed.notify_all()


class _Handler(BaseHTTPRequestHandler):
    cluster: Cluster
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None: ...

    def _say(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.close_connection = True

    def _refused(self, status: int) -> None:
        self._say(status, recorded("statuses")[str(status)])

    def _asked(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        length = int(self.headers.get("content-length", 0))
        body = json.loads(self.rfile.read(length) or b"null")
        self.cluster.questions.append(f"{self.command} {url.path}")
        if self.headers.get("authorization") != f"Bearer {TOKEN}":
            return self._refused(401)
        if url.path in self.cluster.forbidden:
            return self._refused(403)
        jobs, pods = (f"{group}/namespaces/{NAMESPACE}/{kind}" for group, kind in _KINDS)
        match (self.command, url.path):
            case ("GET", "/version" | "/api/v1/nodes"):
                return self._say(200, recorded(url.path.rpartition("/")[2]))
            case ("GET", path) if path == jobs:
                return self._say(200, {"kind": "JobList", "apiVersion": "batch/v1", "items": []})
            case ("POST", path) if path == jobs:
                status = self.cluster.create(body)
                return self._say(201, body) if status == 201 else self._refused(status)
            case ("DELETE", path) if path.startswith(f"{jobs}/"):
                return self._refused(self.cluster.delete(path.rpartition("/")[2]))
            case ("DELETE", path) if path == jobs:
                for name in [one.job for one in self._selected(query)]:
                    self.cluster.delete(name)
                return self._refused(200)
            case ("GET", path) if path == pods and "watch" in query:
                return self._watch(query)
            case ("GET", path) if path == pods:
                with self.cluster.changed:
                    items = [one.object for one in self._selected(query)]
                    version = {"resourceVersion": str(len(self.cluster.history))}
                return self._say(
                    200, {"kind": "PodList", "apiVersion": "v1", "metadata": version, "items": items}
                )
            case ("GET", path) if path.endswith("/attach"):
                return self._attach(path.split("/")[-2], query)
        return self._refused(404)

    do_GET = do_POST = do_DELETE = _asked

    def _selected(self, query: dict[str, str]) -> list[Pod]:
        name, _, value = query["labelSelector"].partition("=")
        return [one for one in list(self.cluster.pods.values()) if one.labels[name] == value]

    def _watch(self, query: dict[str, str]) -> None:
        at = int(query["resourceVersion"])
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.close_connection = True
        if at < self.cluster.oldest:
            return self._chunks([{"type": "ERROR", "object": recorded("statuses")["410"]}], last=True)
        while not self.cluster.closed:
            with self.cluster.changed:
                while not self.cluster.closed and len(self.cluster.history) <= at:
                    self.cluster.changed.wait()
                news = self.cluster.history[at:]
                at = len(self.cluster.history)
            try:
                self._chunks(news)
            except OSError:
                return None
        return None

    def _chunks(self, objects: list[Any], *, last: bool = False) -> None:
        for one in objects:
            data = json.dumps(one).encode() + b"\n"
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        if last:
            self.wfile.write(b"0\r\n\r\n")

    def _attach(self, name: str, query: dict[str, str]) -> None:
        pod = next(
            (one for one in self.cluster.pods.values() if one.object["metadata"]["name"] == name), None
        )
        if pod is None or query["container"] != "keeper":
            return self._refused(404)
        self.close_connection = True
        head = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
        head += f"sec-websocket-accept: {accept_key(self.headers['sec-websocket-key'])}\r\n"
        chosen = self.headers["sec-websocket-protocol"].split(",")[0]
        self.wfile.write(f"{head}sec-websocket-protocol: {chosen}\r\n\r\n".encode())

        # One thread reads and writes: a connection with TLS bears no two.
        heard, heard_from = os.pipe()
        pod.listen(heard_from)
        frames = ws.FrameReader(masked=True, limit=1 << 20)
        self.wfile.write(ws.header(0, ws.PING))
        try:
            while self._carry(pod, frames, heard):
                pass
        except (OSError, ValueError):
            pass  # either end is gone
        finally:
            pod.forget(heard_from)
            os.close(heard)
        return None

    def _carry(self, pod: Pod, frames: ws.FrameReader, heard: int) -> bool:
        """What came from either side; false when one has ended."""
        assert isinstance(self.connection, ssl.SSLSocket) and pod.process.stdin is not None
        ready: list[Any] = [self.connection]
        if not self.connection.pending():
            ready = select.select([*ready, heard], [], [])[0]
        if heard in ready:
            piece = os.read(heard, 1 << 16)
            self.wfile.write(ws.header(len(piece) + 1, ws.BINARY) + b"\x01" + piece)
            return bool(piece)
        data = self.connection.recv(1 << 16)
        for opcode, payload in frames.feed(data):
            if opcode == ws.BINARY and payload[0] == 0:
                pod.process.stdin.write(payload[1:])  # type: ignore[arg-type]
        return bool(data)


_KINDS = (("/apis/batch/v1", "jobs"), ("/api/v1", "pods"))


@contextmanager
def cluster(root: Path) -> Iterator[tuple[Cluster, dict[str, str]]]:
    """One that runs, and the environment in which the engine finds it. What pods leave is below `root`."""
    state = Cluster(str(root))
    handler = type("Handler", (_Handler,), {"cluster": state})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    pair = server_pair()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    serving = threading.Thread(target=server.serve_forever, args=(0.05,))
    serving.start()
    (root / "config").write_text(kubeconfig(f"https://localhost:{server.server_port}"))
    try:
        own = f"{sys.executable} -m outfitter"
        yield state, {"KUBECONFIG": str(root / "config"), NODE_COMMAND: own}
    finally:
        state.close()
        server.shutdown()
        serving.join()
        server.server_close()


def kubeconfig(server: str) -> str:
    trusted = b64encode(authority().file.read_bytes()).decode()
    return f"""
apiVersion: v1
kind: Config
current-context: tests
contexts: [{{name: tests, context: {{cluster: loopback, user: tester, namespace: {NAMESPACE}}}}}]
clusters: [{{name: loopback, cluster: {{server: "{server}", certificate-authority-data: {trusted}}}}}]
users: [{{name: tester, user: {{token: {TOKEN}}}}}]
"""
