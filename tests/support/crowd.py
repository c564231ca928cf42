"""Many clients in one process of their own, which can be frozen or killed: `python -m tests.support.crowd`.

Arguments: the server's URL, how many, and what they do once each has a session. "listen" starts a command
with output and reads; "flood" asks without end and reads nothing. Prints one line when all have begun.
"""

from __future__ import annotations

import json
import selectors
import socket
import sys

from .raw import UPGRADE, address, frame, unconnected
from .wire import start_params

COMMAND = ["/bin/sh", "-c", "head -c 100000 /dev/zero; exec sleep 1000"]
_HEAD = "GET / HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in UPGRADE.items()) + "\r\n"
_ASKED = frame(b'{"id":9,"method":"process/list","params":{}}') * 50


def main() -> None:
    url, count, how = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    greeting = _HEAD.encode() + _message(1, "initialize", {"clientName": "crowd"})
    greeting += frame(b'{"method":"initialized"}') + _message(2, "process/start", start_params("p", COMMAND))
    crowd = []
    for _ in range(count):
        one = unconnected(url)
        one.connect(address(url))
        one.sendall(greeting)
        crowd.append(one)
    for one in crowd:
        said = b""
        while b'"id":2' not in said:
            more = one.recv(1 << 16)
            assert more, said
            said = said[-100:] + more
    print("begun", flush=True)
    chosen = selectors.DefaultSelector()
    for one in crowd:
        one.setblocking(False)
        chosen.register(one, selectors.EVENT_WRITE if how == "flood" else selectors.EVENT_READ)
    while chosen.get_map():
        for key, _ in chosen.select():
            one = key.fileobj
            assert isinstance(one, socket.socket)
            try:
                if how == "flood":
                    one.send(_ASKED)
                elif not one.recv(1 << 16):
                    chosen.unregister(one)
            except BlockingIOError:
                continue
            except OSError:
                chosen.unregister(one)


def _message(ident: int, method: str, params: object) -> bytes:
    return frame(json.dumps({"id": ident, "method": method, "params": params}).encode())


if __name__ == "__main__":
    main()
