"""What harnesses keep in their own classes, for type checkers to read and nobody to run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol, assert_type

import outfitter
from outfitter import CommandFailed, NotFound, OutfitterError, ProgramNotFound, TimedOut, sync


class Executor(Protocol):
    """What a harness asks of the place where its commands run."""

    async def execute(self, command: str, *, seconds: float) -> tuple[int, str]: ...


class OnOutfitter:
    def __init__(self, client: outfitter.Client, folder: Path, sandbox: outfitter.Sandbox | None) -> None:
        self.client = client
        self.folder = folder
        self.sandbox = sandbox

    async def execute(self, command: str, *, seconds: float) -> tuple[int, str]:
        try:
            done = await self.client.shell(command, cwd=self.folder, timeout=seconds, sandbox=self.sandbox)
        except TimedOut as error:
            assert_type(error.stdout, bytes)
            return 124, error.stdout.decode()
        return done.exit_code, done.text


@asynccontextmanager
async def executor(target: str) -> AsyncIterator[Executor]:
    async with outfitter.connect(target, token=Path("token"), ca="ca.pem", on_state=print) as client:
        yield OnOutfitter(client, Path("/w"), outfitter.Sandbox.workspace_write())


async def many(client: outfitter.Client, commands: dict[str, list[str | Path]]) -> dict[str, bool]:
    async with asyncio.TaskGroup() as group:
        tasks = {name: group.create_task(client.run(argv)) for name, argv in commands.items()}
    return {name: task.result().ok for name, task in tasks.items()}


async def classified(work: Callable[[], AsyncIterator[str]]) -> str:
    try:
        async for _ in work():
            pass
    except ProgramNotFound as error:
        return error.program or ""
    except NotFound as error:
        return error.path or ""
    except CommandFailed as error:
        assert_type(error.command, tuple[str, ...])
        return str(error.exit_code)
    except OutfitterError as error:
        return error.slug
    return ""


async def files(client: outfitter.Client) -> None:
    for entry in await client.files.list("/w"):
        assert_type((entry.name, entry.is_directory), tuple[str, bool])
    async with await client.files.open("/w/log") as file:
        async for block in file:
            assert_type(block, bytes)
    async with await client.files.watch("/w") as watch:
        async for change in watch:
            assert_type(change.overflow, bool)
    found = await client.files.search("/w", "def ", include=["*.py"])
    assert_type([(one.path, one.line) for one in found.matches], list[tuple[str, int]])
    policy = outfitter.EnvPolicy("core", exclude=["*_TOKEN"], set=[("CI", "1")])
    contract = outfitter.EnvContract("model", unset=["A"])
    assert_type((await client.run(["true"], policy=policy, contract=contract)).ok, bool)
    answer = await client.http.request("GET", "http://localhost", headers=[("accept", "text/plain")])
    assert_type(answer.header("content-type"), str | None)


class Kept:
    """A client of a class that has no asyncio."""

    def __init__(self, target: str) -> None:
        self.client = sync.open(target)
        self.shared = outfitter.shared(target)

    def close(self) -> None:
        self.client.close()
        self.shared.close()

    def version(self) -> str:
        assert_type(self.client, sync.Client)
        assert_type(self.client.files.read("a"), bytes)
        for event in self.client.start(["make"]):
            assert_type(event, outfitter.Output | outfitter.Exited)
        return self.client.run(["git", "--version"], text=True, check=True).stdout
