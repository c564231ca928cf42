"""Speaks the protocol by hand, over the stdin and stdout of a server, with the standard library only.

python talk_raw.py                                        with Outfitter
python talk_raw.py codex exec-server --listen stdio       with the reference, word for word
"""

import base64
import json
import subprocess
import sys
from typing import Any

COMMAND = sys.argv[1:] or [sys.executable, "-m", "outfitter", "serve", "--listen", "stdio"]


def main() -> None:
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None and server.stdout is not None

        def send(**message: Any) -> None:
            print(json.dumps(message), file=server.stdin, flush=True)

        send(id=1, method="initialize", params={"clientName": "example", "resumeSessionId": None})
        for line in server.stdout:
            message = json.loads(line)
            params = message.get("params", {})
            match message.get("id"), message.get("method"):
                case 1, None:
                    print("a session is open")
                    send(method="initialized", params={})
                    start = {
                        "processId": "first",
                        "argv": ["/bin/sh", "-c", "echo hello from $PLACE"],
                        "cwd": "file:///tmp",
                        "env": {"PLACE": "the executor"},
                        "tty": False,
                    }
                    send(id=2, method="process/start", params=start)
                case 2, None:
                    print("started:", message["result"]["processId"])
                case None, "process/output":
                    print(f"{params['stream']}:", base64.b64decode(params["chunk"]).decode().rstrip())
                case None, "process/exited":
                    print("exit code:", params["exitCode"])
                case None, "process/closed":
                    break
        server.stdin.close()  # the end of the connection is the end of a stdio server
    print("server ended with", server.returncode)


main()
