"""The workloads: what is done to each arm in each round, and which numbers come out."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Final

from bench import (
    commandline,
    contract,
    discovery,
    gate,
    http,
    library,
    network,
    observe,
    procfs,
    projects,
    relay,
    sandbox,
)
from bench.arms import ROOT, BareArm, ExecArm, Server, SwerexArm
from bench.client import Address, ExecClient, Launch, LineClient
from bench.errors import BenchError
from bench.measure import TRIPS, Effort, Metric, Values, Workload, latency, made_file, percentile, samples
from bench.swerex import SwerexClient

__all__ = ["WORKLOADS"]

# Commands

TRUE: Final = Launch("true")
BASH: Final = Launch("bash", "-lc", "echo hi")
OUTPUT_SIZE: Final = 268_435_456
OUTPUT: Final = Launch("head", "-c", str(OUTPUT_SIZE), "/dev/zero")
LINES: Final = Launch("seq", "1", "1000000")
LINES_SIZE: Final = 6_888_896
SLEEP: Final = Launch("sleep", "60")
SLEEPERS: Final = 200
WIDTHS: Final = (8, 32)
CAT: Final = Launch("cat", stdin=True)
TTY_CAT: Final = Launch("sh", "-c", "stty -echo; echo ready; exec cat", tty=True)
PING: Final = base64.b64encode(b"ping\n")
LARGE_FILE: Final = 64 << 20
WRITTEN_FILE: Final = 16 << 20
STREAMED_FILE: Final = 256 << 20
BLOCK: Final = 1 << 20
WALK: Final = {
    "maxDepth": 64,
    "maxDirectories": 10_000,
    "maxEntries": 50_000,
    "followDirectorySymlinks": False,
}
SELDOM: Final = 0.02  # seconds between two things that somebody does now and then
SETTLE: Final = 0.3  # seconds for late imports and freed memory to show before memory is read

# As the stock client sends it: the whole environment by policy, and its usual fourteen variables on top.
STOCK: Final = Launch(
    "true",
    env={
        "CODEX_CI": "1",
        "CODEX_VERSION": "0.166.0",
        "CODEX_THREAD_ID": "019a0000-0000-7000-8000-000000000001",
        "CODEX_SESSION_ID": "019a0000-0000-7000-8000-000000000002",
        "CODEX_TOOL_CALL_ID": "c1",
        "CODEX_APPLY_PATCH_PRESERVE_LINE_ENDINGS": "1",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "COLORTERM": "",
        "LC_ALL": "C.UTF-8",
        "LC_CTYPE": "C.UTF-8",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "GH_PAGER": "cat",
    },
    more={
        "metadata": {"threadId": "019a0000-0000-7000-8000-000000000001", "toolCallId": "c1"},
        "envPolicy": {
            "inherit": "all",
            "ignoreDefaultExcludes": True,
            "exclude": [
                "CODEX_PERMISSION_PROFILE",
                "CODEX_VERSION",
                "CODEX_APPLY_PATCH_PRESERVE_LINE_ENDINGS",
                "CODEX_PLUGIN_METRICS_OUTPUT",
            ],
            "set": {},
            "includeOnly": [],
        },
        "pipeStdin": False,
        "arg0": None,
        "sandbox": None,
        "enforceManagedNetwork": False,
        "managedNetwork": None,
    },
)


# One command at a time


def _one_shots(launch: Launch, prefix: str, *, quickack: bool) -> Callable[[ExecArm, Effort], Values]:
    def measure(arm: ExecArm, effort: Effort) -> Values:
        with ExecClient(arm.address, quickack=quickack) as client:
            return latency(prefix, lambda: client.one_shot(launch), effort)

    return measure


def _bare_one_shots(argv: str, prefix: str, *, quickack: bool) -> Callable[[BareArm, Effort], Values]:
    line = argv.encode() + b"\n"

    def measure(arm: BareArm, effort: Effort) -> Values:
        with LineClient(arm.address, quickack=quickack) as client:
            return latency(prefix, lambda: client.one_shot(line), effort)

    return measure


def _swerex_one_shots(prefix: str, *argv: str) -> Callable[[SwerexArm, Effort], Values]:
    def measure(arm: SwerexArm, effort: Effort) -> Values:
        with SwerexClient(arm.address, arm.token) as client:
            return latency(prefix, lambda: client.execute(*argv)[0], effort)

    return measure


# Many at a time


def _parallel(arm: ExecArm, effort: Effort) -> Values:
    values = {}
    for width in WIDTHS:
        with ExecClient(arm.address, quickack=True) as client:
            client.one_shot(TRUE)
            values[f"parallel.{width}"] = client.parallel(TRUE, width, effort.seconds)
    return values


def _swerex_parallel(arm: SwerexArm, effort: Effort) -> Values:
    values = {}
    for width in WIDTHS:
        with ExitStack() as stack:
            clients = [stack.enter_context(SwerexClient(arm.address, arm.token)) for _ in range(width)]
            values[f"parallel.{width}"] = SwerexClient.parallel(clients, effort.seconds, "true")
    return values


def _bare_parallel(arm: BareArm, effort: Effort) -> Values:
    return {f"parallel.{width}": arm.report("par", str(width), str(effort.seconds)) for width in WIDTHS}


def _sleepers(arm: ExecArm, effort: Effort) -> Values:
    """On a server of its own: memory that an earlier round has left behind would hide the growth."""
    width = max(WIDTHS)
    with arm.fresh() as server, ExecClient(server.announced(), quickack=True) as client:
        pids = _settled_family(server, client)
        before = procfs.rss_kb(pids)
        begin = time.perf_counter()
        processes = client.start_all(SLEEP, SLEEPERS, width)
        started = time.perf_counter() - begin
        time.sleep(SETTLE)
        growth = procfs.rss_kb(pids) - before
        begin = time.perf_counter()
        client.terminate_all(processes, width)
        ended = time.perf_counter() - begin
    return {
        "sleepers.start": started * 1e3,
        "sleepers.end": ended * 1e3,
        "sleepers.rss": growth / SLEEPERS,
    }


def _bare_sleepers(arm: BareArm, effort: Effort) -> Values:
    return {"sleepers.start": arm.report("many", str(SLEEPERS))}


# Output


def _output(arm: ExecArm, effort: Effort) -> Values:
    server, address = arm.server()
    with ExecClient(address, quickack=True) as client:
        client.one_shot(TRUE)
        rates, spent = [], []
        for _ in range(min(3, effort.streams)):
            before = procfs.cpu_seconds(procfs.family(server.pid))
            seconds, size = client.stream(OUTPUT)
            spent.append(procfs.cpu_spent(before) * 1e3)
            _expect(size, OUTPUT_SIZE)
            rates.append(size / 1e6 / seconds)
    return {"output.rate": median(rates), "output.cpu": median(spent)}


def _swerex_output(arm: SwerexArm, effort: Effort) -> Values:
    # Text, since it answers in JSON where a zero byte takes six; and less of it, since it holds all at once.
    size = OUTPUT_SIZE // 4
    with SwerexClient(arm.address, arm.token) as client:
        seconds, answer = client.execute("sh", "-c", f"yes 0123456789abcde | tr -d '\\n' | head -c {size}")
    if answer < size:
        raise BenchError(f"{answer} bytes of answer instead of {size}")
    return {"output.rate": size / 1e6 / seconds}


def _bare_output(arm: BareArm, effort: Effort) -> Values:
    rates = [arm.report("pipe", str(OUTPUT_SIZE)) for _ in range(min(3, effort.streams))]
    return {"output.rate": median(rates)}


def _lines(arm: ExecArm, effort: Effort) -> Values:
    def once(client: ExecClient) -> float:
        seconds, size = client.stream(LINES)
        _expect(size, LINES_SIZE)
        return seconds

    with ExecClient(arm.address, quickack=True) as client:
        return {"lines.time": median(once(client) for _ in range(effort.streams)) * 1e3}


def _swerex_lines(arm: SwerexArm, effort: Effort) -> Values:
    with SwerexClient(arm.address, arm.token) as client:
        runs = (client.execute("seq", "1", "1000000")[0] for _ in range(effort.streams))
        return {"lines.time": median(runs) * 1e3}


# Round trips


def _echo(arm: ExecArm, effort: Effort) -> Values:
    values = {}
    for name, launch in (("pipe", CAT), ("pty", TTY_CAT)):
        with ExecClient(arm.address, quickack=True) as client:
            process = client.start(launch)
            if launch is TTY_CAT:
                client.wait_output()
                time.sleep(0.02)  # `ready` is printed just before cat starts to read
            else:
                client.wait_results(1)
            # For the first some hundred trips three processes are still being put onto two processors.
            many = replace(effort, samples=TRIPS * effort.samples)
            trips = samples(lambda: client.echo(process, PING), many)  # noqa: B023 - called at once
            client.end(process)
        values[f"echo.{name}.p50"] = percentile(trips, 50) * 1e3
    return values


def _busy(arm: ExecArm, effort: Effort) -> Values:
    with _streaming(arm.address) as finish, ExecClient(arm.address, quickack=True) as client:
        # Of two hundred samples the 95th percentile is the tenth worst, and one round not like another.
        more = replace(effort, samples=4 * effort.samples, seconds=2 * effort.seconds)
        values = latency("busy", lambda: client.one_shot(TRUE), more)
        # A server that starved the stream would look good above, so its rate is told as well.
        values["busy.rate"] = finish()
    return values


def _seldom(arm: ExecArm, effort: Effort) -> Values:
    """As somebody works beside a build that prints: a command now and then, and keys in a terminal."""
    with _streaming(arm.address) as finish, ExecClient(arm.address, quickack=True) as client:

        def now_and_then() -> float:
            time.sleep(SELDOM)
            return client.one_shot(TRUE)

        def typed() -> float:
            time.sleep(SELDOM)
            return client.echo(process, PING)

        values = latency("seldom", now_and_then, effort)
        process = client.start(TTY_CAT)
        client.wait_output()
        values |= latency("typed", typed, effort)
        client.end(process)
        values["seldom.rate"] = finish()
    return values


# Files


def _files(arm: ExecArm, effort: Effort) -> Values:
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        ExecClient(arm.address, quickack=True) as client,
    ):
        small = made_file(folder, "small", 1 << 20)
        large = made_file(folder, "large", LARGE_FILE)
        target = f"file://{folder}/written"
        data = base64.b64encode(os.urandom(WRITTEN_FILE)).decode()
        stats = samples(lambda: client.call("fs/getMetadata", {"path": small}), effort)
        reads = samples(lambda: client.call("fs/readFile", {"path": small}), effort)
        large_reads = [client.call("fs/readFile", {"path": large}) for _ in range(effort.streams)]
        writes = [
            client.call("fs/writeFile", {"path": target, "dataBase64": data}) for _ in range(effort.streams)
        ]
    return {
        "files.stat": percentile(stats, 50) * 1e3,
        "files.read": percentile(reads, 50) * 1e3,
        "files.read64": median(large_reads) * 1e3,
        "files.write16": median(writes) * 1e3,
    }


def _swerex_files(arm: SwerexArm, effort: Effort) -> Values:
    with _file() as path, SwerexClient(arm.address, arm.token) as client:
        reads = samples(lambda: client.read_file(path)[0], effort)
    return {"files.read": percentile(reads, 50) * 1e3}


def _blocks(arm: ExecArm, effort: Effort) -> Values:
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        ExecClient(arm.address, quickack=True) as client,
    ):
        path = made_file(folder, "streamed", STREAMED_FILE)
        before = procfs.rss_kb(procfs.family(arm.server()[0].pid))
        rates = []
        for _ in range(min(2, effort.streams)):
            client.call("fs/open", {"handleId": "bench", "path": path})
            rates.append(STREAMED_FILE / 1e6 / client.read_blocks("bench", STREAMED_FILE, BLOCK))
            client.call("fs/close", {"handleId": "bench"})
        after = procfs.rss_kb(procfs.family(arm.server()[0].pid))
    return {"blocks.rate": median(rates), "blocks.rss": max(0.0, after - before) / 1e3}


def _trees(arm: ExecArm, effort: Effort) -> Values:
    with ExecClient(arm.address, quickack=True) as client:
        walk = {"path": f"file://{_tree()}", "options": WALK}
        listing = {"path": f"file://{_tree()}/wide"}
        walks = [client.call("fs/walk", walk) for _ in range(effort.streams + 1)]
        lists = [client.call("fs/readDirectory", listing) for _ in range(effort.streams + 1)]
    return {"trees.walk": median(walks[1:]) * 1e3, "trees.list": median(lists[1:]) * 1e3}


def _busy_walk(arm: ExecArm, effort: Effort) -> Values:
    with _walking(arm.address), ExecClient(arm.address, quickack=True) as client:
        return latency("walking", lambda: client.one_shot(TRUE), effort)


@contextmanager
def _walking(address: Address) -> Iterator[None]:
    """Another connection walks the tree again and again."""
    done = threading.Event()

    def walk() -> None:
        with ExecClient(address, quickack=True) as client:
            while not done.is_set():
                client.call("fs/walk", {"path": f"file://{_tree()}", "options": WALK})

    _tree()
    thread = threading.Thread(target=walk)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


_trees_made: list[tempfile.TemporaryDirectory[str]] = []


def _tree() -> str:
    """A tree of 50,000 entries, one folder of which has 10,000; made once per run."""
    if not _trees_made:
        made = tempfile.TemporaryDirectory(prefix="bench-tree-")
        _trees_made.append(made)
        os.mkdir(f"{made.name}/wide")
        for number in range(10_000):
            os.close(os.open(f"{made.name}/wide/file-{number:05}", os.O_CREAT | os.O_WRONLY))
        for folder in range(390):
            os.mkdir(f"{made.name}/d{folder:03}")
            for number in range(100):
                os.close(os.open(f"{made.name}/d{folder:03}/f{number:02}", os.O_CREAT | os.O_WRONLY))
    return _trees_made[0].name


# Through a client library


def _library(arm: ExecArm, effort: Effort) -> Values:
    values = {}
    for name, measure in (("client", library.ours), ("raw", library.raw), ("loop", library.loop)):
        shots, collected = measure(arm.address, effort.samples, effort.seconds, effort.streams)
        values[f"{name}.one.p50"] = percentile(shots, 50) * 1e3
        values[f"{name}.rate"] = library.COLLECTED_SIZE / 1e6 / median(collected)
    shots = library.ours_sync(arm.address, effort.samples, effort.seconds)
    values["sync.one.p50"] = percentile(shots, 50) * 1e3
    return values


def _swerex_library(arm: SwerexArm, effort: Effort) -> Values:
    shots, collected = library.swerex(
        arm.python, arm.address, arm.token, effort.samples, effort.seconds, min(2, effort.streams)
    )
    rate = library.COLLECTED_SIZE / 1e6 / median(collected)
    return {"client.one.p50": percentile(shots, 50) * 1e3, "client.rate": rate}


# Starting, and doing nothing


def _cold(arm: ExecArm, effort: Effort) -> Values:
    ready, first = [], []
    for _ in range(effort.starts):
        with arm.fresh() as server:
            address = server.announced()
            server.wait_ready(address, "/readyz")
            ready.append(time.perf_counter() - server.spawned)
            with ExecClient(address, quickack=False) as client:
                client.one_shot(TRUE)
                first.append(time.perf_counter() - server.spawned)
    return {"cold.ready": median(ready) * 1e3, "cold.first": median(first) * 1e3}


def _bare_cold(arm: BareArm, effort: Effort) -> Values:
    return {"cold.ready": median(arm.interpreter_start() for _ in range(effort.starts)) * 1e3}


def _idle(arm: ExecArm, effort: Effort) -> Values:
    """After one command, because a server may put off loading what the first one needs."""
    with arm.fresh() as server, ExecClient(server.announced(), quickack=True) as client:
        return {"idle.rss": procfs.rss_kb(_settled_family(server, client)) / 1e3}


# The gate


def _gate(arm: ExecArm, effort: Effort) -> Values:
    found = gate.deciding(effort.samples * TRIPS)
    return {f"gate.{name}": seconds * 1e3 for name, seconds in found.items()}


# Those who watch


def _observe(arm: ExecArm, effort: Effort) -> Values:
    middles = {
        way: (median(commands), median(paths))
        for way, (commands, paths) in observe.requests(arm, effort.samples * 2).items()
    }
    plain = middles.pop("off")
    values = {"observe.off": plain[0] * 1e3}
    for way, (command, path) in middles.items():
        values[f"observe.{way}.command"] = 100 * (command / plain[0] - 1)
        values[f"observe.{way}.path"] = (path - plain[1]) * 1e6
    return values


# The environment contract


def _contract(arm: ExecArm, effort: Effort) -> Values:
    values = _shells(arm, effort)
    if arm.name != "ours":
        return values
    found = contract.resolving(effort.samples)
    values.update((f"contract.{name}", seconds * 1e3) for name, seconds in found.items())
    values["contract.copies"] = found["resolve"] / found["copy"]
    starts = {
        "explain": lambda: arm.seconds(arm.program, "env", "explain", "--json"),
        "python": lambda: arm.seconds(sys.executable, "-c", "pass"),
        "login": lambda: arm.seconds("bash", "-lc", "true"),
    }
    for name, times in contract.interleaved(starts, 3 * effort.starts, 10 * effort.seconds).items():
        values[f"contract.{name}"] = percentile(times, 50) * 1e3
    return values


def _shells(arm: ExecArm, effort: Effort) -> Values:
    """Shells on a server. The reference has no contract: it is asked only for those that are as they are."""
    bash = shutil.which("bash")
    if bash is None:
        raise BenchError("there is no bash")
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        ExecClient(arm.address, quickack=True) as client,
    ):
        link = os.path.join(folder, "as-it-is")
        os.symlink(bash, link)
        profile = os.path.join(arm.environment["HOME"], ".bash_profile")
        with open(profile, "w") as file:
            file.write(contract.PROFILE)
        launches = contract.shells(link)
        names = launches if arm.name == "ours" else ("quiet", "plain")
        ways = {name: partial(client.one_shot, launches[name]) for name in names}
        times = contract.interleaved(ways, effort.samples, len(ways) * effort.seconds)
        os.unlink(profile)
    values = {f"contract.{name}": percentile(found, 50) * 1e3 for name, found in times.items()}
    for name, other in contract.PAIRS.items():
        if name in times:
            more = (one - less for one, less in zip(times[name], times[other], strict=True))
            values[f"contract.{name}.more"] = median(more) * 1e3
    return values


# Projects with an environment of their own


def _projects(arm: ExecArm, effort: Effort) -> Values:
    """Each project's command beside one outside of any project, on the server and with the tool's wrapper."""
    if arm.name != "ours":
        return {}
    made = projects.Projects(arm.environment["HOME"], arm.environment, arm.program)
    with ExecClient(arm.address, quickack=True) as client:
        ways = {name: partial(client.one_shot, launch) for name, launch in made.launches().items()}
        here = contract.interleaved(ways, effort.samples, 2 * effort.seconds)
    wrapped = contract.interleaved(made.wrappers(arm.seconds), effort.starts, 10 * effort.seconds)
    values: Values = {}
    for name in made.names:
        for key, times in (("more", here), ("wrapped", wrapped)):
            more = (one - less for one, less in zip(times[name], times["none"], strict=True))
            values[f"projects.{name}.{key}"] = median(more) * 1e3
    return values


ALL_CODEX: Final = ("ours", "codex", "codex32")

WORKLOADS: Final = (
    Workload(
        "true",
        ("P1",),
        (Metric("true.p50", "one-shot `true`, p50", "ms"), Metric("true.p95", "one-shot `true`, p95", "ms")),
        _one_shots(TRUE, "true", quickack=False),
        _swerex_one_shots("true", "true"),
        _bare_one_shots("true", "true", quickack=False),
        # And without what only Linux has: at most three times as long.
        servers=("ours", "portable", "codex"),
    ),
    Workload(
        "true-quickack",
        ("P2",),
        (
            Metric("trueq.p50", "one-shot `true`, QUICKACK, p50", "ms"),
            Metric("trueq.p95", "one-shot `true`, QUICKACK, p95", "ms"),
        ),
        _one_shots(TRUE, "trueq", quickack=True),
        None,
        _bare_one_shots("true", "trueq", quickack=True),
        servers=ALL_CODEX,
    ),
    Workload(
        "bash",
        ("P3",),
        (
            Metric("bash.p50", "`bash -lc 'echo hi'`, p50", "ms"),
            Metric("bash.p95", "`bash -lc 'echo hi'`, p95", "ms"),
        ),
        _one_shots(BASH, "bash", quickack=False),
        _swerex_one_shots("bash", "bash", "-lc", "echo hi"),
        _bare_one_shots("bash\t-lc\techo hi", "bash", quickack=False),
    ),
    Workload(
        "bash-quickack",
        ("P3",),
        (
            Metric("bashq.p50", "`bash -lc 'echo hi'`, QUICKACK, p50", "ms"),
            Metric("bashq.p95", "`bash -lc 'echo hi'`, QUICKACK, p95", "ms"),
        ),
        _one_shots(BASH, "bashq", quickack=True),
        None,
        _bare_one_shots("bash\t-lc\techo hi", "bashq", quickack=True),
    ),
    Workload(
        "stock",
        (),
        (
            Metric("stock.p50", "`true`, stock client's message, QUICKACK, p50", "ms"),
            Metric("stock.p95", "`true`, stock client's message, QUICKACK, p95", "ms"),
        ),
        _one_shots(STOCK, "stock", quickack=True),
    ),
    Workload(
        "parallel",
        ("P4",),
        tuple(Metric(f"parallel.{w}", f"commands/s, {w} in flight", "/s", "higher") for w in WIDTHS),
        _parallel,
        _swerex_parallel,
        _bare_parallel,
        servers=ALL_CODEX,
    ),
    Workload(
        "output",
        ("P5",),
        (
            Metric("output.rate", "256 MiB of output", "MB/s", "higher"),
            Metric("output.cpu", "256 MiB of output, server CPU", "ms"),
        ),
        _output,
        _swerex_output,
        _bare_output,
        servers=ALL_CODEX,
    ),
    Workload(
        "lines",
        ("P6",),
        (Metric("lines.time", "`seq 1 1000000`", "ms"),),
        _lines,
        _swerex_lines,
    ),
    Workload(
        "sleepers",
        ("P7",),
        (
            Metric("sleepers.start", f"{SLEEPERS} sleepers: start all", "ms"),
            Metric("sleepers.end", f"{SLEEPERS} sleepers, terminate all", "ms"),
            Metric("sleepers.rss", f"{SLEEPERS} sleepers, RSS growth per process", "kB"),
        ),
        _sleepers,
        bare=_bare_sleepers,
        servers=ALL_CODEX,
        max_rounds=3,
        needs_server=False,
    ),
    Workload(
        "echo",
        ("P8",),
        (
            Metric("echo.pipe.p50", "`cat` echo through a pipe, p50", "ms"),
            Metric("echo.pty.p50", "`cat` echo through a PTY, p50", "ms"),
        ),
        _echo,
    ),
    Workload(
        "busy",
        ("P12",),
        (
            Metric("busy.p50", "one-shot beside a stream, p50", "ms"),
            Metric("busy.p95", "one-shot beside a stream, p95", "ms"),
            Metric("busy.rate", "one-shot beside a stream, the stream meanwhile", "MB/s", "higher"),
        ),
        _busy,
        servers=ALL_CODEX,
    ),
    Workload(
        "seldom",
        (),
        (
            Metric("seldom.p50", "one-shot every 20 ms beside a stream, p50", "ms"),
            Metric("seldom.p95", "one-shot every 20 ms beside a stream, p95", "ms"),
            Metric("typed.p50", "echo through a terminal every 20 ms beside a stream, p50", "ms"),
            Metric("typed.p95", "echo through a terminal every 20 ms beside a stream, p95", "ms"),
            Metric("seldom.rate", "the stream meanwhile", "MB/s", "higher"),
        ),
        _seldom,
    ),
    Workload(
        "files",
        ("P8", "P9"),
        (
            Metric("files.stat", "`fs/getMetadata`, p50", "ms"),
            Metric("files.read", "`fs/readFile` 1 MiB, p50", "ms"),
            Metric("files.read64", "`fs/readFile` 64 MiB", "ms"),
            Metric("files.write16", "`fs/writeFile` 16 MiB", "ms"),
        ),
        _files,
        _swerex_files,
    ),
    sandbox.FILES,
    Workload(
        "blocks",
        ("P10",),
        (
            Metric("blocks.rate", "`fs/readBlock` 256 MiB, 1 MiB each", "MB/s", "higher"),
            Metric("blocks.rss", "the same, growth of the server", "MB"),
        ),
        _blocks,
    ),
    http.WORKLOAD,
    discovery.WORKLOAD,
    Workload(
        "trees",
        ("P11",),
        (
            Metric("trees.walk", "`fs/walk`, 50,000 entries", "ms"),
            Metric("trees.list", "`fs/readDirectory`, 10,000 entries", "ms"),
        ),
        _trees,
    ),
    Workload(
        "walking",
        ("P12",),
        (
            Metric("walking.p50", "one-shot beside a walk, p50", "ms"),
            Metric("walking.p95", "one-shot beside a walk, p95", "ms"),
        ),
        _busy_walk,
    ),
    Workload(
        "client",
        (),
        (
            Metric("client.one.p50", "client library: `run(['true'])`, p50", "ms"),
            Metric("sync.one.p50", "the same, synchronous facade", "ms"),
            Metric("loop.one.p50", "the same, a loop on the websockets package", "ms"),
            Metric("raw.one.p50", "the same, a loop on a raw socket", "ms"),
            Metric("client.rate", "client library: 64 MiB of output collected", "MB/s", "higher"),
            Metric("loop.rate", "the same, a loop on the websockets package", "MB/s", "higher"),
            Metric("raw.rate", "the same, a loop on a raw socket, not decoded", "MB/s", "higher"),
        ),
        _library,
        _swerex_library,
    ),
    Workload(
        "cold",
        ("P13",),
        (
            Metric("cold.ready", "spawn to /readyz (bare: `python -c pass`)", "ms"),
            Metric("cold.first", "spawn to end of first command", "ms"),
        ),
        _cold,
        None,
        _bare_cold,
        servers=("ours", "codex", "npm"),
        needs_server=False,
    ),
    Workload(
        "idle",
        ("P14",),
        (Metric("idle.rss", "idle RSS with helpers", "MB"),),
        _idle,
        max_rounds=3,
        needs_server=False,
    ),
    Workload(
        "authenticate",
        ("P19",),
        (
            Metric("gate.user", "authenticate: the user behind a loopback connection, p50", "ms"),
            Metric("gate.token", "authenticate: one of 16 tokens, p50", "ms"),
            Metric("gate.signed", "authenticate: a signed token (HS256), p50", "ms"),
        ),
        _gate,
        servers=("ours",),
        needs_server=False,
    ),
    Workload(
        "observe",
        ("P23",),
        (
            Metric("observe.off", "one-shot `true`, nobody watches, p50", "ms"),
            Metric("observe.metrics.command", "the same with --metrics, more", "%"),
            Metric("observe.metrics.path", "what a path is, with --metrics, more", "µs"),
            Metric("observe.spans.command", "one-shot `true` with spans, more", "%"),
            Metric("observe.spans.path", "what a path is, with a span, more", "µs"),
        ),
        _observe,
        servers=("ours",),
        needs_server=False,
    ),
    Workload(
        "contract",
        ("P15", "P16", "P17"),
        (
            Metric("contract.resolve", "200 variables in 8 layers resolved, warm", "ms"),
            Metric("contract.stock", "the same for a stock client's request", "ms"),
            Metric("contract.fold", "the same from scratch", "ms"),
            Metric("contract.copy", "`dict(os.environ)` of 200 variables", "ms"),
            Metric("contract.copies", "resolving, in such copies", "x"),
            Metric("contract.explain", "`outfitter env explain --json` from cold, p50", "ms"),
            Metric("contract.python", "`python -c pass`, p50", "ms"),
            Metric("contract.login", "`bash -lc true`, p50", "ms"),
            Metric("contract.quiet", "`bash --noprofile --norc -c true` on the server, p50", "ms"),
            Metric("contract.enforce", "`bash -lc true` under enforce, p50", "ms"),
            Metric("contract.plain", "`bash -lc true` as it is, p50", "ms"),
            Metric("contract.repair", "`bash -lc true` under repair, p50", "ms"),
            Metric("contract.report", "`bash -lc true` under report, p50", "ms"),
            Metric("contract.enforce.more", "enforce, more than without startup files", "ms"),
            Metric("contract.repair.more", "repair, more than `bash -lc` as it is", "ms"),
            Metric("contract.report.more", "report, more than `bash -lc` as it is", "ms"),
        ),
        _contract,
    ),
    commandline.WORKLOAD,
    sandbox.COMMANDS,
    network.WORKLOAD,
    relay.WORKLOAD,
    relay.CROWD,
    relay.COMMANDERS,
    Workload(
        "projects",
        ("P18",),
        tuple(
            metric
            for name, wrapper in projects.WRAPPERS.items()
            for metric in (
                Metric(f"projects.{name}.more", f"a command in a project of {name}, more than outside", "ms"),
                Metric(f"projects.{name}.wrapped", f"the same by `{wrapper}`, more than without", "ms"),
            )
        ),
        _projects,
    ),
)


def _settled_family(server: Server, client: ExecClient) -> list[int]:
    """Runs one command, lets things come to rest, and returns the processes that are the server."""
    client.one_shot(TRUE)
    time.sleep(SETTLE)
    return procfs.family(server.pid)


@contextmanager
def _streaming(address: Address) -> Iterator[Callable[[], float]]:
    """Output flows on a connection of its own; calling the value ends it and gives its MB per second."""
    argv = [sys.executable, "-m", "bench.streamer", address[0], str(address[1])]
    streamer = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert streamer.stdout is not None

    def finish() -> float:
        assert streamer.stdout is not None
        streamer.send_signal(signal.SIGTERM)
        words = streamer.stdout.readline().split()
        if len(words) != 2:
            raise BenchError("the stream broke off")
        return int(words[0]) / 1e6 / float(words[1])

    try:
        if streamer.stdout.readline() != "flowing\n":
            raise BenchError("the stream did not start")
        yield finish
    finally:
        streamer.terminate()
        try:
            streamer.wait(10)
        except subprocess.TimeoutExpired:
            streamer.kill()
            streamer.wait()
        streamer.stdout.close()


@contextmanager
def _file() -> Iterator[str]:
    """A file of one mebibyte of text."""
    with tempfile.NamedTemporaryFile("w", prefix="bench-") as file:
        file.write("0123456789abcde\n" * 65536)
        file.flush()
        yield file.name


def _expect(size: int, expected: int) -> None:
    # A server that lost output would be fast.
    if size != expected:
        raise BenchError(f"{size} bytes of output instead of {expected}")
