"""What people type first: each call works as it is written in the documentation."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import outfitter
from outfitter import sync
from outfitter.client.client import Client
from outfitter.errors import InvalidParams

Body = Coroutine[Any, Any, None]


@contextlib.asynccontextmanager
async def client_here() -> AsyncIterator[Client]:
    async with outfitter.local(environment={"PATH": os.environ["PATH"]}) as client:
        yield client


def run(work: Body) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


def test_run_takes_what_subprocess_takes(tmp_path: Path) -> None:
    async def main() -> None:
        async with client_here() as client:
            done = await client.run("pwd; echo $0", shell=True, check=True, text=True, cwd=tmp_path)
            assert (done.ok, done.returncode, done.stdout) == (True, 0, done.text)
            assert done.text.splitlines()[0] == str(tmp_path)
            assert done.duration > 0
            assert done.args[1:] == ("-c", "pwd; echo $0")
            assert (await client.run([Path("/bin/echo"), tmp_path])).text == f"{tmp_path}\n"
            assert (await client.shell("cat", input="hi")).stdout == b"hi"
            assert (await client.shell("echo hi", text=True)).stdout == "hi\n"

    run(main())


def test_failed_command_is_an_error_if_asked_for() -> None:
    async def main() -> None:
        async with client_here() as client:
            with pytest.raises(outfitter.CommandFailed, match=r"exited with 3: sorry") as raised:
                await client.shell("echo sorry >&2; exit 3", check=True)
            assert (raised.value.exit_code, raised.value.stderr) == (3, b"sorry\n")
            killed = await client.shell("kill -9 $$")
            assert (killed.ok, killed.exit_code, killed.signal) == (False, 137, "KILL")
            for code in (3, 137):  # it exited so by itself
                assert (await client.shell(f"exit {code}", text=True)).signal is None
            assert (await client.shell("kill -TERM $$", text=True)).signal == "TERM"

    run(main())


@pytest.mark.parametrize(
    ("overflow", "kept"), [("head", b"012345"), ("tail", b"6789ab"), ("ends", b"0129ab")]
)
def test_too_much_output_is_cut_to_the_byte(overflow: str, kept: bytes) -> None:
    async def main() -> None:
        async with client_here() as client:
            told = "printf 0123456789ab; printf err >&2"
            done = await client.shell(told, max_output=6, overflow=overflow)
            assert (done.stdout, done.stderr, done.truncated, done.dropped) == (kept, b"err", True, 6)
            with pytest.raises(outfitter.OutputTooLarge) as raised:
                await client.shell(told, max_output=6)
            assert raised.value.stdout == b"012345"
            assert not (await client.shell(told, max_output=12)).truncated

    run(main())


def test_streams_are_merged_as_they_came() -> None:
    async def main() -> None:
        async with client_here() as client:
            # Each word waits until the one before has been read, which keeps the pipes in order.
            process = await client.run(
                ["sh", "-c", "echo a; read x; echo b >&2; read x; echo c"], merge=True, input="\n\n"
            )
            assert sorted(process.output.split()) == [b"a", b"b", b"c"]
            assert process.stderr == b""

    run(main())


def test_what_a_command_left_in_the_background_is_not_waited_for() -> None:
    async def main() -> None:
        async with client_here() as client:
            # It would hold the pipe for ever; the client's end ends it.
            done = await client.shell("cat /dev/zero >/dev/null & echo $!; exit 4", linger=0.05)
            assert (done.exit_code, done.stdout.strip().isdigit()) == (4, True)

    run(main())


def test_lines_come_whole_and_a_failure_is_told() -> None:
    async def main() -> None:
        async with client_here() as client:
            found = []
            with pytest.raises(outfitter.CommandFailed):
                async for line in client.lines(
                    "printf 'one\\ntwo\\r\\nthr'; printf 'ee'; exit 1", shell=True
                ):
                    found.append(line)
            assert found == ["one", "two", "three"]
            async for line in client.lines(["yes"]):
                assert line == "y"
                break  # and the command is ended

    run(main())


def test_block_ends_its_command() -> None:
    async def main() -> None:
        async with client_here() as client:
            told = "trap 'echo bye; exit 0' TERM; echo $$; while :; do read x; done"
            async with client.start(["sh", "-c", told], stdin=True) as process:
                assert int(await process.stdout.readline()) == process.pid
                await process.signal("TERM")
                await process.write("\n")
                assert await process.stdout.readline() == b"bye\n"
                assert await process.stdout.readline() == b""
                assert await process.stderr.read() == b""
            async with client.start(["cat"], stdin=True) as other:
                pass
            assert await other.wait() == 137
            task = asyncio.create_task(client.start(["true"]))
            assert await (await task).wait() == 0

    run(main())


def test_two_readers_get_each_its_stream() -> None:
    async def main() -> None:
        async with (
            client_here() as client,
            client.start("for i in 1 2 3; do echo o$i; echo e$i >&2; done", shell=True) as process,
        ):
            both = await asyncio.gather(process.stdout.read(), process.stderr.read())
            assert both == [b"o1\no2\no3\n", b"e1\ne2\ne3\n"]

    run(main())


def test_reader_takes_all_of_it_however_much_it_is() -> None:
    """What it has taken does not count as waiting: nothing would be read on, and its end would never come."""
    size = 12 << 20
    script = f"head -c {size} /dev/zero; head -c {size} /dev/zero >&2"

    async def main() -> None:
        async with client_here() as client:
            async with client.start(script, shell=True) as process:
                both = await asyncio.gather(process.stdout.read(), process.stderr.read())
                assert [len(one) for one in both] == [size, size]
            async with client.start(["head", "-c", str(size), "/dev/zero"]) as process:
                assert len(await process.stdout.readline()) == size
            async with client.start(["sh", "-c", f"head -c {4 << 20} /dev/zero >&2; echo end"]) as process:
                assert await process.stdout.readline() == b"end\n"
                assert client._session.waiting == 4 << 20  # of the other stream
                assert len(await process.stderr.read()) == 4 << 20
            assert client._session.waiting == 0

    run(main())


def test_who_waits_for_the_end_takes_nothing_from_those_who_read() -> None:
    script = "for i in 1 2 3; do echo o$i; echo e$i >&2; read go; done; exit 3"

    async def main() -> None:
        async with client_here() as client:
            for waits_first in (True, False):
                async with client.start(script, shell=True, stdin=True) as process:

                    async def answered(process: outfitter.RemoteProcess = process) -> list[bytes]:
                        lines = []
                        async for line in process.stdout:
                            lines.append(line)
                            await process.write("go\n")  # nothing is read here meanwhile
                        return lines

                    reading = [answered(), process.stderr.read()]
                    work = [process.wait(), *reading] if waits_first else [*reading, process.wait()]
                    done = await asyncio.gather(*work)
                    done = done if waits_first else [done[-1], *done[:-1]]
                    assert done == [3, [b"o1\n", b"o2\n", b"o3\n"], b"e1\ne2\ne3\n"]

    run(main())


def test_who_waits_for_the_end_after_a_read_needs_no_reader() -> None:
    async def main() -> None:
        async with client_here() as client:
            async with client.start(["sh", "-c", "yes | head -c 20000000"]) as process:
                assert await process.stdout.readline() == b"y\n"
                assert await process.wait() == 0
            async with client.start(["sh", "-c", "yes | head -c 20000000"]) as process:
                async for _ in process.stdout:
                    break
                assert await process.wait() == 0

    run(main())


def test_a_cancelled_anext_loses_nothing() -> None:
    async def main() -> None:
        async with client_here() as client, client.start(["cat"], stdin=True) as process:
            events = aiter(process)
            waiting = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0)  # it waits now
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await process.write("hi")
            assert await anext(events) == outfitter.Output("stdout", b"hi")

    run(main())


def test_commands_wait_for_their_turn() -> None:
    async def main() -> None:
        running: list[int] = []

        def look(_: outfitter.Output) -> None:
            running.append(len(client._session.processes))

        async with outfitter.local(max_concurrency=2) as client:
            done = await asyncio.gather(*(client.run(["echo"], on_output=look) for _ in range(12)))
        assert all(one.ok for one in done)
        assert len(running) == 12
        assert max(running) <= 2
        with pytest.raises(InvalidParams, match="max_concurrency"):
            outfitter.local(max_concurrency=0)

    run(main())


def test_client_without_a_block() -> None:
    async def main() -> None:
        client = await outfitter.open_local()
        assert (await client.run(["true"])).ok
        await client.aclose()
        with pytest.raises(outfitter.SessionExpired):
            await client.run(["true"])
        other = await outfitter.open()
        await other.aclose()

    run(main())


def test_plain_client_has_all_of_it() -> None:
    client = sync.open_local()
    assert client.run("echo hi", shell=True, text=True, check=True).stdout == "hi\n"
    with client.start(["sh", "-c", "echo hi; cat"], stdin=True) as process:
        assert process.stdout.readline() == b"hi\n"
        assert process.pid is not None
        process.signal("KILL")
    assert list(client.lines(["seq", "2"])) == ["1", "2"]
    with pytest.raises(outfitter.CommandFailed):
        client.shell("exit 1", check=True, on_output=print)
    process = client.start(["cat"], stdin=True)
    transcript = sync.Transcript(process, limit=8)
    process.write("who? é".encode()[:-1])
    assert (transcript.find(["nobody", "who?"]), transcript.take()) == ("who?", "who? ")
    process.write(b"\xa9nd more")
    assert (transcript.find(["more"]), transcript.text(), transcript.closed) == ("more", "nd more", False)
    assert not transcript.wait(0)
    process.close_stdin()
    assert transcript.wait()
    left = sync.Transcript(client.start(["cat"], stdin=True))
    left.close()
    assert not left.wait() and left.closed
    client.close()
    assert (transcript.text(), transcript.take(), transcript.take()) == ("nd more", "nd more", "")
    with pytest.raises(outfitter.SessionExpired):
        client.run(["true"])


def test_plain_module_shares_a_client_too() -> None:
    shared = sync.shared()
    try:
        assert shared.run(["echo", "hi"], text=True).result().stdout == "hi\n"
    finally:
        shared.close()
    with sync.local() as client, client.start(["true"]) as process, pytest.raises(outfitter.InvalidParams):
        sync.Transcript(process, limit=0)


def test_environment_is_reached_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Path(sys.executable).with_name("outfitter")
    told = f'[[environments]]\nid = "build"\nprogram = "{program}"\nargs = ["serve", "--listen", "stdio"]\n'
    (tmp_path / "environments.toml").write_text(told)
    monkeypatch.setenv("OUTFITTER_HOME", str(tmp_path))

    async def main() -> None:
        async with outfitter.connect("build") as client:
            assert (await client.run(["true"])).ok
        with pytest.raises(outfitter.EnvironmentUnknown, match="build"):
            outfitter.connect("biuld")
        with pytest.raises(outfitter.SettingInvalid, match="environments"):
            outfitter.connect("build", token="secret")

    run(main())


@pytest.mark.parametrize(
    ("command", "options", "kind", "word"),
    [
        ("echo hi", {}, TypeError, "shell=True"),
        (["echo", b"hi"], {}, TypeError, "argument 1"),
        (["echo", 7], {}, TypeError, "argument 1"),
        (["echo"], {"shell": True}, TypeError, "one text"),
        ([], {}, InvalidParams, "at least a program"),
        (["a\0b"], {}, InvalidParams, "NUL"),
        (["a", "\udcff"], {}, InvalidParams, "argument 1 is not UTF-8"),
        (["true"], {"env": {"A=B": "1"}}, outfitter.VariableInvalid, "A=B"),
        (["true"], {"env": {"A": 1}}, TypeError, "text"),
        (["true"], {"cwd": "a\0b"}, InvalidParams, "NUL"),
        (["true"], {"cwd": b"/"}, TypeError, "path"),
        (["true"], {"input": 7}, TypeError, "bytes or text"),
        (["true"], {"overflow": "middle"}, InvalidParams, "head"),
        (["true"], {"max_output": -1}, InvalidParams, "max_output"),
        (["true"], {"linger": -1}, InvalidParams, "linger"),
        (["true"], {"linger": "1"}, TypeError, "linger is a number of seconds"),
        (["true"], {"timeout": "1"}, TypeError, "timeout is a number of seconds"),
        (["true"], {"timeout": True}, TypeError, "timeout is a number of seconds"),
        (["true"], {"timeout": float("nan")}, InvalidParams, "timeout must not be below 0"),
        (["true"], {"max_output": 1.5}, TypeError, "max_output is a whole number"),
        (["true"], {"max_output": True}, TypeError, "max_output is a whole number"),
        (["true"], {"on_output": 7}, TypeError, "on_output is a function"),
        (["true"], {"env": "A=1"}, TypeError, "env is a mapping"),
        (["true"], {"sandbox": "read-only"}, TypeError, "sandbox is made with outfitter.Sandbox"),
        (["true"], {"contract": {}}, TypeError, "contract is made with outfitter.EnvContract"),
        (["true"], {"policy": {}}, TypeError, "policy is made with outfitter.EnvPolicy"),
        (None, {}, TypeError, "a command is a list"),
        ({"true": 1}, {}, TypeError, "a command is a list"),
    ],
)
def test_bad_argument_is_refused_at_the_call(
    command: Any, options: dict[str, Any], kind: type[Exception], word: str
) -> None:
    async def main() -> None:
        async with client_here() as client:
            with pytest.raises(kind, match=word):
                await client.run(command, **options)

    run(main())
    if "on_output" not in options:
        with sync.local() as plain, pytest.raises(kind, match=word):
            plain.run(command, on_output=print, **options)


def test_what_no_request_can_carry_is_refused_at_the_call() -> None:
    async def main() -> None:
        async with client_here() as client:
            for value in (math.inf, math.nan):
                with pytest.raises(InvalidParams, match="environment/status cannot be sent"):
                    await client.call("environment/status", {"value": value})
            with pytest.raises(TypeError, match="sandbox is made with"):
                client.files.within(7)  # type: ignore[arg-type]
            assert await client.status() == "ready"

    run(main())


def test_bad_arguments_of_the_other_calls_are_refused_before_anything_is_sent() -> None:
    async def main() -> None:
        async with client_here() as client:
            process = await client.start(["cat"], stdin=True)
            sent: list[str] = []
            call = client._session.link.call

            async def noting(method: str, *args: Any, **named: Any) -> Any:
                sent.append(method)
                return await call(method, *args, **named)

            client._session.link.call = noting  # type: ignore[method-assign]
            files = client.files
            bad: list[tuple[Callable[[], Any], type[Exception], str]] = [
                (lambda: client.start(["x"], tty=True), TypeError, "rows, columns"),  # type: ignore[arg-type]
                (lambda: client.start(["x"], tty=(1, 2, 3)), TypeError, "rows, columns"),  # type: ignore[arg-type]
                (lambda: client.start(["x"], tty=(0, 9)), InvalidParams, "rows must not be below 1"),
                (lambda: client.start(["x"], tty=(9, 65_536)), InvalidParams, "cols must not be above 65535"),
                (lambda: client.start(["x"], detach=-1.0), InvalidParams, "detach must not be below 0"),
                (lambda: client.start(["x"], arg0=7), TypeError, "arg0 is text"),  # type: ignore[arg-type]
                (lambda: client.start(["x"], on_waiting=7), TypeError, "on_waiting"),  # type: ignore[arg-type]
                (lambda: client.start(["x"], decide=7), TypeError, "decide is"),  # type: ignore[arg-type]
                (lambda: client.attach(7), TypeError, "id is text"),  # type: ignore[arg-type]
                (lambda: client.attach("x", after=-1), InvalidParams, "after must not be"),
                (lambda: process.signal(None), TypeError, "a signal is"),  # type: ignore[arg-type]
                (lambda: process.signal("NOPE"), InvalidParams, "no signal"),
                (lambda: process.terminate(grace=-1), InvalidParams, "grace must not be"),
                (lambda: process.resize(None, 9), InvalidParams, "rows must not"),  # type: ignore[arg-type]
                (lambda: process.write(7), TypeError, "bytes or text"),  # type: ignore[arg-type]
                (lambda: files.read("\ud800"), InvalidParams, "no file can have the name"),
                (lambda: client.run(["x"], timeout=10**400), InvalidParams, "longer than a clock"),
                (lambda: files.read("x", limit=-1), InvalidParams, "limit must not be"),
                (lambda: files.read_lines("x", -1), InvalidParams, "start must not be"),
                (lambda: files.read_lines("x", 0, "1"), TypeError, "count is a whole"),  # type: ignore[arg-type]
                (lambda: files.chmod("x", 0o10000), InvalidParams, "mode must not be above"),
                (lambda: files.walk("x", depth=65), InvalidParams, "depth must not be above 64"),
                (lambda: files.walk("x", directories=0), InvalidParams, "directories must not be below 1"),
                (lambda: files.walk("x", entries=50_001), InvalidParams, "entries must not be above"),
                (lambda: files.watch("x", debounce=-1), InvalidParams, "debounce must not be"),
                (lambda: files.search("x", 7), TypeError, "pattern is text"),  # type: ignore[arg-type]
                (lambda: files.search("x", "y", max_matches=-1), InvalidParams, "max_matches"),
                (lambda: files.search("x", "y", timeout=-1), InvalidParams, "timeout must not"),
                (lambda: client.http.request("GET", "x", timeout=-1), InvalidParams, "timeout must not"),
            ]
            for endless in (math.inf, 1e300, 1 << 64):
                bad += [
                    (lambda s=endless: client.start(["x"], detach=s), InvalidParams, "detach is longer"),
                    (lambda s=endless: process.terminate(grace=s), InvalidParams, "grace is longer"),
                    (lambda s=endless: files.watch("x", debounce=s), InvalidParams, "debounce is longer"),
                    (lambda s=endless: files.search("x", "y", timeout=s), InvalidParams, "timeout is longer"),
                    (
                        lambda s=endless: client.http.request("GET", "x", timeout=s),
                        InvalidParams,
                        "timeout is longer",
                    ),
                ]
            for attempt, kind, word in bad:
                with pytest.raises(kind, match=word):
                    await attempt()
            assert sent == []

    run(main())


@pytest.mark.parametrize(
    ("target", "options", "kind", "word"),
    [
        (7, {}, TypeError, "is text"),
        ("ws://127.0.0.1:1", {"connect_timeout": "1"}, TypeError, "connect_timeout is"),
        ("ws://127.0.0.1:1", {"initialize_timeout": -1}, InvalidParams, "initialize_timeout must"),
        ("ws://127.0.0.1:1", {"recovery_timeout": "1"}, TypeError, "recovery_timeout is"),
        ("ws://127.0.0.1:1", {"on_state": 7}, TypeError, "on_state is a function"),
        ("ws://127.0.0.1:1", {"max_concurrency": 0}, InvalidParams, "max_concurrency must not be below 1"),
    ],
)
def test_client_that_cannot_be_is_refused_at_the_call(
    target: Any, options: dict[str, Any], kind: type[Exception], word: str
) -> None:
    with pytest.raises(kind, match=word):
        outfitter.connect(target, **options)
    for environment in ("A=1", {"A": 1}):
        with pytest.raises(TypeError):
            outfitter.local(environment=environment)  # type: ignore[arg-type]


def test_what_people_type_first_works_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, made = tmp_path / "app", tmp_path / "w" / "src"
    (app / "src").mkdir(parents=True)
    (app / "src" / "main.py").write_text("print()\n")
    (app / "Makefile").write_text("test:\n\t@echo tested\n")
    program = Path(sys.executable).with_name("outfitter")
    told = f'[[environments]]\nid = "build"\nprogram = "{program}"\nargs = ["serve", "--listen", "stdio"]\n'
    (tmp_path / "environments.toml").write_text(told)
    monkeypatch.setenv("OUTFITTER_HOME", str(tmp_path))
    for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS"):  # of the make that runs these tests
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(app)
    many = [["echo", str(number)] for number in range(80)]
    server = ["sh", "-c", "echo listening; exec sleep 60"]

    async def main() -> None:
        client = await outfitter.open_local()
        r = await client.run("make test", shell=True, check=True, text=True, cwd=Path("."))
        assert (r.ok, r.text, r.duration > 0) == (True, "tested\n", True)
        assert [line async for line in client.lines(["seq", "2"])] == ["1", "2"]
        async with client.start(server) as p:
            assert await p.stdout.readline() == b"listening\n"
            await p.signal("TERM")
            assert p.pid is not None and await p.wait() == 143
        try:
            await client.run(["nosuch"])
        except outfitter.ProgramNotFound as e:
            assert e.program == "nosuch"
        await client.aclose()
        async with outfitter.local(max_concurrency=8) as c:
            done = await asyncio.gather(*(c.run(x) for x in many))
            assert [one.text for one in done] == [f"{number}\n" for number in range(80)]
        async with outfitter.connect("build") as c:
            await c.upload("src", made)
        assert (made / "main.py").read_text() == "print()\n"

    run(main())


def test_errors_name_the_thing_and_are_pythons_own(tmp_path: Path) -> None:
    async def main() -> None:
        async with client_here() as client:
            with pytest.raises(outfitter.ProgramNotFound, match="nosuch") as missing:
                await client.run(["nosuch"])
            assert (missing.value.program, missing.value.errno) == ("nosuch", 2)
            assert isinstance(missing.value, FileNotFoundError)
            with pytest.raises(FileNotFoundError, match="/nope") as nowhere:
                await client.run(["true"], cwd="/nope")
            assert nowhere.value.filename == "/nope"
            assert not isinstance(nowhere.value, outfitter.ProgramNotFound)
            with pytest.raises(outfitter.NotFound, match="/nope") as unread:
                await client.files.read("/nope")
            assert (unread.value.path, unread.value.errno) == ("/nope", 2)
            with pytest.raises(IsADirectoryError):
                await client.files.read(tmp_path)

    run(main())


def test_files_take_paths_and_text(tmp_path: Path) -> None:
    async def main() -> None:
        async with client_here() as client:
            files, path = client.files, tmp_path / "a" / "b.txt"
            with pytest.raises(FileNotFoundError, match=r"b\.txt"):
                await files.write(path, "x")
            await files.write(path, "one\ntwo\r\nthrée", parents=True)
            assert await files.read_text(path) == "one\ntwo\r\nthrée"
            assert await files.read(path, limit=5) == b"one\nt"
            assert await files.read(path, limit=500) == path.read_bytes()
            assert await files.read_lines(path) == ["one", "two", "thrée"]
            assert await files.read_lines(path, 1, 1) == ["two"]
            with pytest.raises(TypeError):
                await files.write(path, 7)  # type: ignore[arg-type]
            with pytest.raises(InvalidParams, match="limit"):
                await files.read(path, limit=-1)

    run(main())


def test_trees_go_there_and_back(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "empty").mkdir(parents=True)
    (tree / "deep" / "er").mkdir(parents=True)
    large = os.urandom(3 << 20)
    (tree / "deep" / "er" / "large").write_bytes(large)
    (tree / "tool").write_text("#!/bin/sh\n")
    (tree / "tool").chmod(0o755)

    async def main() -> None:
        async with client_here() as client:
            for _ in range(2):  # a repeat does not nest
                await client.upload(tree, tmp_path / "there")
                await client.download(tmp_path / "there", tmp_path / "back")
            await client.files.upload(tree / "tool", tmp_path / "one")
            (tree / "loop").symlink_to(tree)
            with pytest.raises(InvalidParams, match="loop"):
                await client.upload(tree, tmp_path / "other")
            with pytest.raises(FileNotFoundError):
                await client.download(tmp_path / "nothing", tmp_path / "back")

    run(main())
    back = tmp_path / "back"
    found = sorted(str(one.relative_to(back)) for one in back.rglob("*"))
    assert found == ["deep", "deep/er", "deep/er/large", "empty", "tool"]
    assert (back / "deep" / "er" / "large").read_bytes() == large
    assert (back / "tool").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "one").read_text() == "#!/bin/sh\n"


def test_transcript_that_is_closed_at_once_finds_nothing() -> None:
    async def main() -> None:
        async with client_here() as client, client.start(["sleep", "60"]) as process:
            transcript = outfitter.Transcript(process)
            transcript.close()
            assert await transcript.find(["never"]) is None
            assert await transcript.wait() is False  # nobody knows

    run(main())


def test_transcript_keeps_the_newest_text_in_whole_characters() -> None:
    async def main() -> None:
        async with client_here() as client, client.start(["cat"], stdin=True) as process:
            transcript = outfitter.Transcript(process, limit=8)
            await process.write("who? é".encode()[:-1])
            assert await transcript.find(["nobody", "who?"]) == "who?"
            assert transcript.take() == "who? "
            await process.write(b"\xa9nd more")
            assert await transcript.find(["more"]) == "more"
            assert transcript.text() == "nd more"
            assert not await transcript.wait(0)
            await process.close_stdin()
            assert await transcript.find(["never"]) is None
            assert await transcript.wait()
            assert transcript.closed

    run(main())
