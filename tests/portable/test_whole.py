"""The whole product where Linux's own abilities are missing: `make test-portable` runs this.

Each test passes with Linux's ways, too, but says nothing new there.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import outfitter
from outfitter import Sandbox
from outfitter.core.abilities import ABILITIES, refusal
from outfitter.core.marks import Marks
from outfitter.env.names import MARK
from outfitter.errors import MasksUnavailable
from outfitter.host import masks
from outfitter.host.tree import new_nonce
from outfitter.host.unix import KILL_MARKED
from tests.support.machine import SECOND, alive, wait_gone
from tests.support.tools import ROOT, program

PROGRAM = str(Path(sys.executable).with_name("outfitter"))


def in_a_loop(scenario: Callable[..., Awaitable[None]], *args: object) -> None:
    asyncio.run(asyncio.wait_for(scenario(*args), 40 * SECOND))  # type: ignore[arg-type]


def test_nothing_of_linux_is_in_sight() -> None:
    assert (hasattr(os, "pidfd_open"), hasattr(os, "pipe2"), os.path.exists("/proc/self")) == (False,) * 3
    with pytest.raises(OSError):
        os.stat("/proc/self/fd")


def test_output_comes_in_order_with_the_exit_code() -> None:
    async def scenario() -> None:
        async with outfitter.local() as client:
            text = "for n in 1 2 3; do echo $n; done; echo late >&2; exit 7"
            runs = [client.run(["sh", "-c", text]) for _ in range(20)]
            for done in await asyncio.gather(*runs):
                assert (done.exit_code, done.stdout, done.stderr) == (7, b"1\n2\n3\n", b"late\n")
            done = await client.run(["sh", "-c", "head -c 3000000 /dev/zero; kill -9 $$"])
            assert (done.exit_code, len(done.stdout)) == (137, 3_000_000)
            done = await client.run(["cat"], input=b"x" * 300_000)
            assert done.stdout == b"x" * 300_000

    in_a_loop(scenario)


def test_terminal_and_its_size() -> None:
    async def scenario() -> None:
        async with outfitter.local() as client:
            text = "stty size; test -t 0 && test -t 2 && echo terminal"
            process = await client.start(["sh", "-c", text], tty=(9, 33))
            said = b"".join([event.data async for event in process if isinstance(event, outfitter.Output)])
            assert said.split() == [b"9", b"33", b"terminal"]

    in_a_loop(scenario)


def test_whole_tree_ends_with_its_command_and_with_its_session() -> None:
    escaped = "setsid sh -c 'echo $$; exec sleep 600' & echo $$; wait"

    async def pids(process: outfitter.RemoteProcess) -> list[int]:
        said = b""
        async for event in process:
            said += event.data if isinstance(event, outfitter.Output) else b""
            if said.count(b"\n") == 2:
                break
        return [int(word) for word in said.split()]

    async def scenario() -> None:
        async with outfitter.local() as client:
            one = await client.start(["sh", "-c", escaped])
            first = await pids(one)
            assert all(map(alive, first))
            await one.terminate()
            await asyncio.to_thread(wait_gone, first)
            two = await client.start(["sh", "-c", escaped])
            second = await pids(two)
        await asyncio.to_thread(wait_gone, second)

    in_a_loop(scenario)


@pytest.mark.parametrize("whose", ["the server's", "a command's"])
def test_watchdog_kills_a_group_but_never_the_servers(whose: str) -> None:
    """`ps` looks at the group of a command before its environment: it may have started in between."""
    marks = Marks(new_nonce())
    # In one group: a process that shows the mark, and one that does not.
    text = f"(export {MARK}=$number; exec sleep 600) & sleep 600 & echo $!; wait"
    with subprocess.Popen(
        ["sh", "-c", text],
        stdout=subprocess.PIPE,
        env={**os.environ, "number": str(marks.new(0))},
        start_new_session=True,
    ) as leader:
        assert leader.stdout is not None
        unmarked = int(leader.stdout.readline())
        group = leader.pid if whose == "the server's" else os.getpgrp()
        words = ["sh", "-c", f"{KILL_MARKED}\necho $found", "sh", str(marks.prefix), "", str(group)]
        found = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
        assert len(found) == 1 and int(found[0]) != unmarked
        wait_gone(map(int, found))
        if whose == "the server's":
            assert alive(unmarked) and alive(leader.pid)
            os.killpg(leader.pid, signal.SIGKILL)
        wait_gone([unmarked, leader.pid])


@pytest.mark.parametrize("shell", ["bash", "dash", "zsh"])
def test_shell_that_is_put_right_keeps_the_mark_of_its_descendants(shell: str) -> None:
    async def scenario() -> None:
        async with outfitter.local() as client:
            repair = outfitter.EnvContract(startup="repair")
            done = await client.run([program(shell), "-lc", "env"], contract=repair)
            assert done.stdout.count(b"OUTFITTER_MARK=") == 1

    in_a_loop(scenario)


def test_folder_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHFILES_FORCE_POLLING", "1")  # the kernel of this run has no inotify

    async def scenario() -> None:
        async with outfitter.local() as client, await client.files.watch(tmp_path) as watch:
            (tmp_path / "inner").mkdir()
            (tmp_path / "inner" / "file").write_text("x")
            seen: set[str] = set()
            async for changes in watch:
                seen |= {os.path.basename(path) for path, _ in changes.changes}
                if {"inner", "file"} <= seen:
                    return

    in_a_loop(scenario)


def test_files_are_found_written_and_replaced(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with outfitter.local() as client:
            await client.files.write(tmp_path / "a", b"needle")
            await client.files.write(tmp_path / "a", b"another needle")
            assert await client.files.read(tmp_path / "a") == b"another needle"
            assert sorted(os.listdir(tmp_path)) == ["a"]

    in_a_loop(scenario)


def test_sandbox_is_refused_with_the_reason() -> None:
    async def scenario() -> None:
        async with outfitter.local() as client:
            with pytest.raises(outfitter.OutfitterError) as refused:
                await client.run(["true"], sandbox=Sandbox.read_only())
            assert refusal("sandbox") in str(refused.value)

    in_a_loop(scenario)


def test_masks_are_refused_with_the_reason() -> None:
    with pytest.raises(MasksUnavailable) as refused:
        masks.check(("/etc/profile",))
    assert refusal("mask") in str(refused.value)


def test_python_that_reads_no_environment_lacks_the_names_too() -> None:
    # As our own programs are started between a tool and a command.
    code = "import os, select; print(hasattr(os, 'pidfd_open'), hasattr(select, 'epoll'))"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert done.stdout == "False False\n"


def test_client_is_told_what_is_weaker() -> None:
    async def scenario() -> None:
        async with outfitter.local() as client:
            assert client.info is not None
            assert dict(client.info.weaker) == {ability.name: ability.weaker for ability in ABILITIES}

    in_a_loop(scenario)


def outfit(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(home)}
    return subprocess.run(
        [PROGRAM, *words], env=env, cwd=home, capture_output=True, text=True, timeout=60 * SECOND
    )


def test_run_says_what_the_command_says(tmp_path: Path) -> None:
    done = outfit(tmp_path, "run", "--", "sh", "-c", "echo out; echo err >&2; exit 5")
    assert (done.returncode, done.stdout, done.stderr) == (5, "out\n", "err\n")


def test_doctor_looks_at_everything(tmp_path: Path) -> None:
    done = outfit(tmp_path, "doctor")
    assert "Traceback" not in done.stderr
    assert "platform.abilities  linux without Linux's own calls: limits, mask, " in done.stdout
    assert refusal("sandbox").partition(":")[0] in done.stdout


def test_server_serves_its_own_user_over_tcp(tmp_path: Path) -> None:
    argv = [PROGRAM, "serve", "--listen", "ws://127.0.0.1:0"]
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    server = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env)
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        done = outfit(tmp_path, "run", "--on", url, "--", sys.executable, "-c", "print(6 * 7)")
        assert (done.returncode, done.stdout) == (0, "42\n")
    finally:
        server.terminate()
        assert server.wait(20 * SECOND) == 0
        server.stdout.close()  # type: ignore[union-attr]


def test_tests_learn_the_same_of_a_process_without_proc() -> None:
    # What a Mac has instead: `make test-portable` itself may look into /proc.
    child = subprocess.Popen(["sleep", "600"])
    try:
        code = (
            "import os, sys\n"
            "from tests.support import machine\n"
            "pid, parent = int(sys.argv[1]), int(sys.argv[2])\n"
            "assert not machine.HAS_PROC\n"
            "assert machine.alive(pid) and not machine.alive(os.getpid() + 10_000_000)\n"
            "assert pid in machine.children(parent) and pid in machine.running('sleep 600')\n"
            "assert machine.command(pid).endswith('sleep 600') and machine.resident_kib(pid) > 0\n"
            "machine.stop(pid)\n"
        )
        words = [sys.executable, "-c", code, str(child.pid), str(os.getpid())]
        done = subprocess.run(
            words, env={**os.environ, "OUTFITTER_BLIND": "1"}, cwd=ROOT, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, "")
    finally:
        child.kill()
        child.wait()
