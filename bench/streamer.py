"""Keeps one connection busy with output: `python -m bench.streamer HOST PORT`.

It is a process of its own because a thread would share the interpreter lock with the client that measures.
Prints a line when output flows. On SIGTERM it terminates the command before leaving (a dropped connection
would leave it running) and prints the bytes and seconds it has read.
"""

from __future__ import annotations

import signal
import sys
import time

from bench.client import ExecClient, Launch


def main() -> None:
    host, port = sys.argv[1], int(sys.argv[2])
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    with ExecClient((host, port), quickack=True) as client:
        process = client.start(Launch("cat", "/dev/zero"))
        client.wait_output()
        print("flowing", flush=True)
        begin, size = time.perf_counter(), 0
        while not stopping:
            size += client.wait_output()
        seconds = time.perf_counter() - begin
        client.end(process)
    print(size, seconds, flush=True)


if __name__ == "__main__":
    main()
