"""How long the largest request of each method keeps others waiting: `python -m bench.stalls [FILTER]`.

A second client asks for the server's status, again and again, while the first one sends the worst that the
limits allow. What is shown is the longest that the second one waited: the least of some repetitions, since
others use the machine, too.
"""

from __future__ import annotations

import base64
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

GOAL_MS = 50.0
REPEAT = 3
MIB = 1 << 20
Params = dict[str, Any]


def ask(socket: ClientConnection, message: bytes | str) -> Params | None:
    """The answer to a request; None when the connection was closed over it."""
    try:
        socket.send(message, text=True)
        while True:
            answer: Params = json.loads(socket.recv(timeout=60))
            if "id" in answer:
                return answer
    except ConnectionClosed:
        return None
    except TimeoutError:
        return {"error": "no answer within a minute"}


def greeted(url: str) -> ClientConnection:
    socket = connect(url, compression=None, ping_interval=None, max_size=None)
    ask(socket, b'{"id":1,"method":"initialize","params":{"clientName":"stalls"}}')
    socket.send(b'{"method":"initialized"}', text=True)
    return socket


def watch(url: str, pipe: Connection) -> None:
    """The second client, in a process of its own: tells how long it waited at most, when asked."""
    socket = greeted(url)
    worst = 0.0
    while True:
        begun = time.perf_counter()
        ask(socket, b'{"id":2,"method":"environment/status"}')
        worst = max(worst, time.perf_counter() - begun)
        if pipe.poll():
            if not pipe.recv():
                return
            pipe.send(worst)
            worst = 0.0
        time.sleep(0.0005)


def request(method: str, params: Any) -> bytes:
    return json.dumps({"id": 9, "method": method, "params": params}).encode()


def start(name: str, **members: Any) -> Params:
    return {
        "processId": name,
        "argv": ["true"],
        "cwd": "file:///",
        "env": {},
        "tty": False,
        "envPolicy": None,
        **members,
    }


def policy(**members: Any) -> Params:
    return {
        "inherit": "all",
        "ignoreDefaultExcludes": False,
        "exclude": [],
        "set": {},
        "includeOnly": [],
        **members,
    }


def cases(folder: Path) -> Iterator[tuple[str, bytes | Callable[[ClientConnection], object]]]:
    yield "nothing", lambda socket: time.sleep(0.3)
    head = b'{"id":9,"method":"process/start","params":'
    room = 64 * MIB - len(head) - 16
    yield "json: 64 MiB of one string", head + b'"' + b"a" * (room - 2) + b'"}'
    yield "json: 64 MiB of escapes", head + b'"' + b"\\u00e9" * (room // 6 - 1) + b'"}'
    yield "json: 64 MiB of short strings", head + b"[" + b'"",' * (room // 3 - 2) + b'""]}'
    yield "json: 64 MiB of numbers", head + b"[" + b"1," * (room // 2 - 2) + b"1]}"
    yield "json: 64 MiB of brackets", head + b"[]" * (room // 2) + b"}"
    yield "json: 64 MiB of closing brackets", head + b"]" * room + b"}"
    yield "json: 64 MiB of spaces", head + b" " * room + b"0}"
    yield "json: 64 MiB, not UTF-8", head + b'"' + b"\xff" * room + b'"}'
    yield "json: 8 MiB of short strings", head + b"[" + b'"",' * (8 * MIB // 3 - 100) + b'""]}'
    yield "json: 8 MiB of escapes", head + b'"' + b"\\u00e9" * (8 * MIB // 6 - 100) + b'"}'
    yield "json: 8 MiB of surrogates", head + b'"' + b"\\ud83d\\ude00" * (8 * MIB // 12 - 100) + b'"}'
    yield "json: 8 MiB of spaces", head + b" " * (8 * MIB - 100) + b"0}"
    yield "json: 8 MiB of brackets", head + b"[]" * (4 * MIB - 100) + b"}"
    yield "json: 262,000 numbers", head + b"[" + b"1," * 262_000 + b"1]}"
    yield "json: 262,000 strings", head + b"[" + b'"abcdefgh",' * 262_000 + b'""]}'
    yield "json: 130,000 lists", head + b"[" + b"[],[{}]," * 65_000 + b"1]}"
    yield "json: 262,000 members", head + b"{" + b",".join(b'"k%d":1' % n for n in range(262_000)) + b"}}"
    yield "json: one number of 8 MB", head + b"1" * 8_000_000 + b"}"
    many = {f"VARIABLE_NUMBER_{number}": "x" * 200 for number in range(4096)}
    names = {f"NNNNNNNN{number:04}": "" for number in range(4096)}
    sets = {f"MMMMMMMMMMMM{number:04}": "" for number in range(1024)}
    hard = [f"*a*{'?n' * 5}*b{number}" for number in range(48)]
    tough = policy(exclude=hard, includeOnly=[*hard[1:], "*n*n*n*"], set=sets)
    wide = {f"V{number}": "/a:/b" for number in range(4000)} | {
        "PATH": ":".join(f"/p{n}" for n in range(8000))
    }
    secret = {f"SECRET_{number}": f"hidden-value-{number}" * 3 for number in range(4096)}
    mixed = {f"SECRET_{number}": f"hidden-value-{number}" for number in range(2048)} | {
        f"PLAIN_{number}": "x hidden-value-7 " * 20 for number in range(2048)
    }
    for number in range(REPEAT):
        ident = f"p{os.urandom(4).hex()}-"
        tough["exclude"] = [*hard[1:], f"*{ident}*"]
        told = f" ({number})"
        yield "start: 4096 variables" + told, request("process/start", start(ident + "a", env=many))
        yield (
            "start: 4096 with contract" + told,
            request("process/start", start(ident + "b", env=many, contract={})),
        )
        yield (
            "start: contract, model" + told,
            request("process/start", start(ident + "m", env=many, contract={"author": "model"})),
        )
        yield "start: hard patterns" + told, request("process/start", start(ident + "c", envPolicy=tough))
        yield (
            "start: argv of 2 MB" + told,
            request("process/start", start(ident + "d", argv=["true", *["x" * 100_000] * 20])),
        )
        yield (
            "start: argv of 200,000" + told,
            request("process/start", start(ident + "e", argv=["true", *["xx"] * 200_000])),
        )
        yield (
            "start: argv of 4 MB" + told,
            request("process/start", start(ident + "j", argv=["true", *["x," * 70] * 28_000])),
        )
        yield (
            "start: lists of 8,000" + told,
            request("process/start", start(ident + "k", env={"PATH": "/p1:" * 8000}, contract={})),
        )
        yield (
            "start: argv of 7 MB" + told,
            request("process/start", start(ident + "f", argv=["true", *["x" * 100_000] * 70])),
        )
        yield (
            "start: a shell with 7 MB" + told,
            request("process/start", start(ident + "g", argv=["/bin/bash", "-c", "x" * 7_000_000])),
        )
        yield (
            "start: shell, argv of 200,000" + told,
            request("process/start", start(ident + "h", argv=["/bin/bash", "-c", "true", *["-x"] * 200_000])),
        )
        for method in ("resolve", "explain"):
            for show in ("names", "values", "secrets"):
                for what, env in (("many", many), ("lists", wide), ("secrets", secret), ("mixed", mixed)):
                    asked = {"env": env, "envPolicy": None, "show": show, "contract": {}}
                    yield f"{method}: {what} {show}{told}", request(f"environment/{method}", asked)
            yield (
                f"{method}: hard patterns{told}",
                request(f"environment/{method}", {"env": {}, "envPolicy": tough}),
            )
            programs = [f"p{n}" for n in range(200_000)]
            yield (
                f"{method}: programs{told}",
                request(
                    f"environment/{method}",
                    {"env": wide, "envPolicy": None, "programs": programs, "contract": {}},
                ),
            )
        one, other = (
            {"env": secret, "envPolicy": None, "contract": {}},
            {"env": mixed, "envPolicy": None, "contract": {}},
        )
        yield "diff: secrets" + told, request("environment/diff", {"a": one, "b": other})
        lists = {"env": wide, "envPolicy": None, "contract": {}}
        back = {
            "env": {**wide, "PATH": ":".join(f"/p{n}" for n in range(8000, 0, -1))},
            "envPolicy": None,
            "contract": {},
        }
        yield "diff: lists" + told, request("environment/diff", {"a": lists, "b": back})
        yield "base: client" + told, request("environment/base", {"rule": "client", "pid": 1, "env": names})
        based = request("environment/base", {"rule": "client", "pid": 1, "env": names})
        begun = request("process/start", start(ident + "i", envPolicy=tough))
        yield "start: after base" + told, one_after_the_other(based, begun)
        yield (
            "base: daemon" + told,
            request("environment/base", {"rule": "daemon", "pid": 1, "digestKey": "", "digests": names}),
        )
        put = {"scope": "s", "producer": "user"}
        yield (
            "overlay: set" + told,
            request("environment/overlay/put", {**put, "set": dict.fromkeys(names, "v" * 100)}),
        )
        yield (
            "overlay: set 200,000" + told,
            request("environment/overlay/put", {**put, "set": {f"A{n}": "v" for n in range(200_000)}}),
        )
        yield (
            "overlay: prepend" + told,
            request(
                "environment/overlay/put", {**put, "prepend": {"PATH": [f"/p{n}" for n in range(30_000)]}}
            ),
        )
        yield "overlay: list" + told, request("environment/overlay/list", {"scope": "s"})
        yield (
            "overlay: fork, secrets" + told,
            request(
                "environment/overlay/event", {"scope": "s", "event": "fork", "to": "t", "hideSecrets": True}
            ),
        )
        yield (
            "explain: scope" + told,
            request("environment/explain", {"env": {}, "envPolicy": None, "contract": {"scope": "s"}}),
        )
    blob = base64.b64encode(os.urandom(47 * MIB)).decode()
    path = folder.as_uri()
    yield "fs/writeFile: 47 MiB", request("fs/writeFile", {"path": f"{path}/large", "dataBase64": blob})
    slashes = json.dumps(
        {"id": 9, "method": "fs/writeFile", "params": {"path": f"{path}/large", "dataBase64": blob}}
    )
    yield "fs/writeFile: 47 MiB, slashes escaped", slashes.replace("+", "\\u002b")[: 64 * MIB].encode()
    yield "fs/readFile: 47 MiB", request("fs/readFile", {"path": f"{path}/large"})
    yield (
        "process/write: 47 MiB",
        request("process/write", {"processId": "cat", "chunk": blob, "writeId": "w"}),
    )
    yield "fs/writeBlock: 47 MiB", request("fs/writeBlock", {"handleId": "h", "offset": 0, "chunk": blob})
    yield (
        "fs/walk: 20,000 files",
        request(
            "fs/walk",
            {
                "path": f"{path}/tree",
                "options": {
                    "maxDepth": 9,
                    "maxDirectories": 10_000,
                    "maxEntries": 20_000,
                    "followDirectorySymlinks": False,
                    "pruneHiddenDirectories": False,
                },
            },
        ),
    )
    yield "fs/readDirectory: 20,000 files", request("fs/readDirectory", {"path": f"{path}/tree"})
    yield "fs/search", request("fs/search", {"path": f"{path}/tree", "pattern": "x", "maxMatches": 10_000})
    yield (
        "fs/watchMissing: 200,000",
        request("fs/watchMissing", {"watchId": 1, "missing": [f"{path}/m{n}" for n in range(100_000)]}),
    )
    yield "fs/watch", request("fs/watch", {"watchId": "w", "path": f"{path}/tree"})
    yield "fs/getMetadata: a path of 7 MB", request("fs/getMetadata", {"path": path + "/x" * 3_500_000})
    yield "fs/getMetadata: 7 MB, escaped", request("fs/getMetadata", {"path": path + "/" + "%41" * 2_300_000})
    yield from sandboxed(folder)
    yield "process/read: 1 MiB", lambda socket: read_escapes(socket, 1)
    yield "process/list: 2,000", lambda socket: list_many(socket)


def sandboxed(folder: Path) -> Iterator[tuple[str, bytes | Callable[[ClientConnection], object]]]:
    """Requests whose sandbox hides what globs match, or has as many entries as it may."""
    uri, tree = folder.as_uri(), folder / "hidden"
    globs = [deny_glob(f"{tree}/**/*.{kind}") for kind in ("env", "key", "pem")]
    many = [deny_glob(f"{tree}/matching/**/*.txt")]
    entries = [
        entry(
            {"type": "path", "path": f"{uri}/e/{number}"},
            "write" if number < 62 else ("read", "deny")[number % 2],
        )
        for number in range(250)
    ]
    for number in range(REPEAT):
        told, ident = f" ({number})", f"s{os.urandom(4).hex()}-"
        for what, more in (("200,000 names", globs), ("8,000 matches", many), ("250 entries", entries)):
            params = start(f"{ident}{what}", argv=["/bin/true"], cwd=uri, sandbox=confined(uri, *more))
            yield f"start: sandbox, {what}{told}", request("process/start", params)
    for what, more in (("globs", globs), ("matches", many), ("250 entries", entries)):
        for method in ("getMetadata", "readDirectory", "readFile"):
            path = f"{uri}/hidden/matching/0/1.txt" if method == "readFile" else f"{uri}/tree"
            params = {"path": path, "sandbox": confined(uri, *more)}
            yield f"fs/{method}: sandbox, {what}", request(f"fs/{method}", params)
    roots = [{"id": f"r{number}", "path": f"{uri}/tree"} for number in range(128)]
    yield "capabilityRoots/discoverV1: 128 roots", request("capabilityRoots/discoverV1", {"roots": roots})
    (folder / ".codex").mkdir(exist_ok=True)
    lines = [f'key{number} = "{"x" * 50}"\n' for number in range(62_000)]
    (folder / ".codex" / "config.toml").write_text("".join(lines)[: 4 * MIB - 100].rpartition("\n")[0] + "\n")
    asked = {"cwd": uri, "configPaths": [["key1"]], "requirementsPaths": []}
    yield "environmentConfig/read: 4 MiB", request("environmentConfig/read", asked)


def entry(path: Params, access: str) -> Params:
    return {"path": path, "access": access}


def deny_glob(pattern: str) -> Params:
    return entry({"type": "glob_pattern", "pattern": pattern}, "deny")


def confined(root: str, *entries: Params) -> Params:
    special = [
        entry({"type": "special", "value": {"kind": kind}}, access)
        for kind, access in (("root", "read"), ("project_roots", "write"))
    ]
    files = {"type": "restricted", "entries": [*special, *entries]}
    return {
        "permissions": {"type": "managed", "file_system": files, "network": "restricted"},
        "workspaceRoots": [root],
        "cwd": root,
        "windowsSandboxLevel": "disabled",
    }


def plant(folder: Path, wanted: str) -> None:
    """A tree of 200,000 names, of which 8,000 match, and 250 folders for rules."""
    if wanted and "sandbox" not in wanted:
        return
    for number in range(250):
        (folder.parent / "e" / str(number)).mkdir(parents=True)
    for branch in range(400):
        place = folder / ("matching" if branch < 16 else "others") / str(branch)
        place.mkdir(parents=True)
        for number in range(250):
            (place / f"{number}.txt").touch()


def one_after_the_other(*messages: bytes) -> Callable[[ClientConnection], object]:
    return lambda socket: [ask(socket, message) for message in messages]


def read_escapes(socket: ClientConnection, count: int) -> None:
    text = f"head -c {MIB} /dev/urandom"
    ask(socket, request("process/start", start("reads", argv=["/bin/sh", "-c", text])))
    time.sleep(0.5)
    for _ in range(20):
        ask(socket, request("process/read", {"processId": "reads", "afterSeq": 0}))


def list_many(socket: ClientConnection) -> None:
    for number in range(2000):
        ask(socket, request("process/start", start(f"many{number}")))
    ask(socket, request("process/list", None))


def main() -> None:
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        (folder / "tree").mkdir()
        for number in range(20_000):
            (folder / "tree" / f"{number}.txt").write_text("x\n")
        plant(folder / "hidden", wanted)
        env = {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8"}
        argv = [sys.executable, "-m", "outfitter", "serve", "--listen", "ws://127.0.0.1:0"]
        server = subprocess.Popen(argv, stdout=subprocess.PIPE, env=env, cwd=home)
        assert server.stdout is not None
        url = server.stdout.readline().decode().split()[-1]
        ours, theirs = multiprocessing.Pipe()
        watcher = multiprocessing.Process(target=watch, args=(url, theirs))
        watcher.start()
        try:
            measure(url, ours, folder, wanted)
        finally:
            ours.send(False)
            server.terminate()
            server.wait()
            watcher.join()


def measure(url: str, watcher: Connection, folder: Path, wanted: str) -> None:
    found: dict[str, tuple[float, str]] = {}
    for name, case in cases(folder):
        if wanted not in name:
            continue
        for _ in range(1 if name.endswith(")") else REPEAT):
            with greeted(url) as socket:
                watcher.send(True)
                watcher.recv()
                begun = time.perf_counter()
                said = None
                if callable(case):
                    case(socket)
                else:
                    said = ask(socket, case)
                took = (time.perf_counter() - begun) * 1000
                watcher.send(True)
                waited = watcher.recv() * 1000
            key = name.partition(" (")[0]
            what = "closed" if said is None else "result" if "result" in said else str(said["error"])[:110]
            print(f"{waited:8.1f} {took:8.0f} {name} {what}", file=sys.stderr, flush=True)
            if key not in found or waited < found[key][0]:
                found[key] = (waited, f"{took:7.0f} {what}")
    for key, (waited, rest) in found.items():
        print(f"{'!' if waited > GOAL_MS else ' '} {waited:8.1f} ms  {key:42}{rest}")


if __name__ == "__main__":
    main()
