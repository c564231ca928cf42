"""`lsof` as macOS has it, as far as Outfitter asks: for a machine whose /proc is out of sight.

    lsof -nP -a -iTCP:PORT -sTCP:ESTABLISHED -Fun

From its manual page lsof(8), not from a Mac: for each process a line `p` and `u` (its user), for each of its
sockets `f` and `n`, both ends of it as numbers. Without root it tells of the caller's own alone.
"""

import os
import sys

TABLE = "/run/outfitter-proc/self/net/tcp"


def main() -> None:
    if sys.argv[1:3] != ["-nP", "-a"] or sys.argv[4:] != ["-sTCP:ESTABLISHED", "-Fun"]:
        sys.exit(1)
    port = sys.argv[3].removeprefix("-iTCP:")
    # The kernel tells its table page by page, and what moves meanwhile can be left out.
    for name in (TABLE, TABLE + "6") * 3:
        with open(name, encoding="ascii") as file:
            for line in list(file)[1:]:
                fields = line.split()
                ends = [shown(end) for end in fields[1:3]]
                mine = os.geteuid() in (0, int(fields[7]))
                if fields[3] == "01" and mine and any(end.endswith(f":{port}") for end in ends):
                    print(f"p1\nu{fields[7]}\nf3\nn{'->'.join(ends)}")


def shown(end: str) -> str:
    host, port = end.split(":")
    words = [bytes.fromhex(host[place : place + 8])[::-1] for place in range(0, len(host), 8)]
    raw = b"".join(words)
    if len(raw) == 16 and raw[:12] == bytes(10) + b"\xff\xff":
        raw = raw[12:]
    if len(raw) == 4:
        return f"{'.'.join(map(str, raw))}:{int(port, 16)}"
    from socket import AF_INET6, inet_ntop

    return f"[{inet_ntop(AF_INET6, raw)}]:{int(port, 16)}"


main()
