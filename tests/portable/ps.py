r"""`ps` as macOS has it, as far as Outfitter asks: for a machine whose /proc is out of sight.

    ps -A [-E] [-ww] -o pid=,ppid=,pgid=,stat=[,command=]

From Apple's manual page ps(1), not from a Mac: -E shows the environment behind the arguments, separated by
spaces, as the program was started with it; a line's end is shown as \012; `stat` begins with Z for one that
has ended.
"""

import os
import sys

PROC = "/run/outfitter-proc"


def main() -> None:
    options, columns = sys.argv[1:-1], sys.argv[-1].split(",")
    if options not in (["-A", "-E", "-ww", "-o"], ["-A", "-ww", "-o"], ["-A", "-o"]):
        sys.exit(64)
    lines = []
    for pid in filter(str.isdigit, os.listdir(PROC)):
        try:
            fields = content(pid, "stat").rpartition(b") ")[2].split()
            command = ""
            if "command=" in columns:
                parts = content(pid, "cmdline") + (content(pid, "environ") if "-E" in options else b"")
                command = os.fsdecode(parts.replace(b"\0", b" ").replace(b"\n", b"\\012"))
        except OSError:
            continue
        state, parent, group = map(bytes.decode, fields[:3])
        known = {"pid=": pid, "ppid=": parent, "pgid=": group, "stat=": state, "command=": command}
        known["rss="] = str(int(fields[21]) * os.sysconf("SC_PAGESIZE") >> 10)
        lines.append(" ".join(known[column] for column in columns))
    sys.stdout.buffer.write(os.fsencode("\n".join(lines) + "\n"))


def content(pid: str, name: str) -> bytes:
    with open(f"{PROC}/{pid}/{name}", "rb") as file:
        return file.read()


main()
