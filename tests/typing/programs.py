"""Programs as users write them, for type checkers to read and nobody to run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import assert_type

import outfitter
from outfitter import sync


async def first_steps(many: list[list[str]]) -> None:
    async with outfitter.local(max_concurrency=64) as client:
        text = await client.run("make test", shell=True, check=True, text=True, cwd=Path("app"))
        assert_type(text, outfitter.CompletedText)
        assert_type(text.stdout, str)
        done = await client.run(["make", Path("a")], timeout=10, overflow="tail", max_output=1000)
        assert_type(done, outfitter.Completed)
        assert_type(done.stdout, bytes)
        assert_type((done.ok, done.text, done.duration, done.signal), tuple[bool, str, float, str | None])
        assert_type((await client.shell("true", text=True)).output, str)
        async for line in client.lines(["pytest", "-q"]):
            assert_type(line, str)
        async with client.start(["server"]) as process:
            assert_type(await process.stdout.readline(), bytes)
            await process.signal("TERM")
            assert_type(process.pid, int | None)
            async for event in process:
                assert_type(event, outfitter.Output | outfitter.Exited)
        results = await asyncio.gather(*(client.run(argv) for argv in many))
        assert_type(results, list[outfitter.Completed])


async def elsewhere() -> str:
    async with outfitter.connect("build") as client:
        await client.upload("src", "/w/src")
        await client.files.write(Path("/w/a"), "text", parents=True)
        assert_type(await client.files.read_lines("/w/a", 1, 2), list[str])
    client = await outfitter.open_local()
    try:
        await client.run(["nosuch"])
    except outfitter.ProgramNotFound as error:
        assert_type(error.program, str | None)
        assert_type(error.errno, int | None)
    except FileNotFoundError as error:
        return str(error)
    finally:
        await client.aclose()
    process = await client.start(["sh"], tty=(24, 80))
    transcript = outfitter.Transcript(process)
    assert_type(await transcript.find(["$ "], 5), str | None)
    return transcript.take()


def plain() -> None:
    with sync.local() as client:
        assert_type(client.run(["true"], text=True), outfitter.CompletedText)
        assert_type(client.run(["true"], on_output=print), outfitter.Completed)
        assert_type(client.start(["true"]), sync.RemoteProcess)
        for line in client.lines("make", shell=True):
            assert_type(line, str)
        with client.start(["cat"], stdin=True) as process:
            assert_type(process.stdout.readline(), bytes)
    shared = outfitter.shared("build")
    assert_type(shared.run(["true"]).result(), outfitter.Completed)
    assert_type(shared.files.read("a").result(), bytes)
