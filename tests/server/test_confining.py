"""A start whose sandbox hides what globs match: a thread walks the trees, and nothing overtakes the start."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

import outfitter
from outfitter.host.sandbox import globs
from outfitter.providers import registry
from outfitter.server import asking
from tests.server.test_asking import Slow
from tests.support.contracts import Place, wait_for
from tests.support.machine import SECOND
from tests.support.sandbox import WORKSPACE, managed, need_sandbox, sandbox

ENTRIES = WORKSPACE["file_system"]["entries"]


class SlowDisk:
    """Does not list one folder before it may."""

    def __init__(self, folder: Path) -> None:
        self.begun = threading.Event()
        self.may_list = threading.Event()
        self._folder = str(folder)
        self._scandir = os.scandir

    def scandir(self, path: Any = ".") -> Any:
        if str(path).rstrip("/") == self._folder:
            self.begun.set()
            assert self.may_list.wait(30 * SECOND)
        return self._scandir(path)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    need_sandbox()
    place = Place(tmp_path)
    (place.project / "tree").mkdir()
    (place.project / "tree" / "a.env").write_text("hush\n")
    (place.project / "tree" / "a.txt").write_text("seen\n")
    return place


@pytest.fixture
def disk(place: Place, monkeypatch: pytest.MonkeyPatch) -> SlowDisk:
    disk = SlowDisk(place.project / "tree")
    monkeypatch.setattr(os, "scandir", disk.scandir)
    return disk


def params(
    place: Place, name: str, *argv: str, pattern: str = "tree/**/*.env", **more: Any
) -> dict[str, Any]:
    hides = {"path": {"type": "glob_pattern", "pattern": f"{place.project}/{pattern}"}, "access": "deny"}
    return {
        "processId": name,
        "argv": list(argv),
        "cwd": place.project.as_uri(),
        "env": {"PATH": os.environ["PATH"]},
        "tty": False,
        "sandbox": sandbox(managed(*ENTRIES, hides), place.project),
        **more,
    }


async def output(client: Any, name: str) -> tuple[str, str, int]:
    """What a command printed, on both streams, and its exit code."""
    while True:
        read = await client.call("process/read", {"processId": name, "waitMs": 5000})
        if read["closed"]:
            break
    texts = {"stdout": b"", "stderr": b""}
    for chunk in read["chunks"]:
        texts[chunk["stream"]] += _bytes(chunk["chunk"])
    return texts["stdout"].decode(), texts["stderr"].decode(), read["exitCode"]


def _bytes(text: str) -> bytes:
    from base64 import b64decode

    return b64decode(text)


async def until(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, 30 * SECOND)


def test_matches_are_hidden_and_nobody_waits_for_the_walk(place: Place, disk: SlowDisk) -> None:
    async def scenario() -> None:
        async with outfitter.local(environment=place.environ()) as client:
            start = params(place, "p", "sh", "-c", "cat; cat tree/a.txt tree/a.env", pipeStdin=True)
            write = {"processId": "p", "chunk": "b25l", "writeId": "w", "eof": True}
            calls = [
                asyncio.create_task(client.call("process/start", start)),
                asyncio.create_task(client.call("process/write", write)),
            ]
            await until(disk.begun)
            assert (await client.run(["echo", "on"], cwd=str(place.elsewhere))).stdout == b"on\n"
            assert not any(call.done() for call in calls)
            again = asyncio.create_task(client.call("process/start", start))
            disk.may_list.set()
            assert (await calls[0])["sandboxType"] == "linuxSeccomp"
            assert (await calls[1])["status"] == "accepted"
            with pytest.raises(outfitter.RequestFailed, match="process p already exists"):
                await again
            stdout, stderr, code = await output(client, "p")
            assert (stdout, code) == ("oneseen\n", 1)
            assert "a.env: Permission denied" in stderr

    wait_for(scenario())


def test_what_is_not_wanted_any_more_is_not_started(place: Place, disk: SlowDisk) -> None:
    made = place.project / "made"

    async def scenario() -> None:
        async with outfitter.local(environment=place.environ()) as client:
            start = asyncio.create_task(client.call("process/start", params(place, "p", "touch", str(made))))
            await until(disk.begun)
            start.cancel()
            await asyncio.gather(start, return_exceptions=True)
        disk.may_list.set()

    wait_for(scenario())
    assert not made.exists()


def test_a_session_has_one_walk_at_a_time_and_all_start(place: Place, disk: SlowDisk) -> None:
    async def scenario() -> None:
        async with outfitter.local(environment=place.environ()) as client:
            names = [f"p{number}" for number in range(4)]
            starts = [
                asyncio.create_task(client.call("process/start", params(place, name, "cat", "tree/a.txt")))
                for name in names
            ]
            await until(disk.begun)
            assert await client.status() == "ready"
            disk.may_list.set()
            await asyncio.gather(*starts)
            assert [await output(client, name) for name in names] == [("seen\n", "", 0)] * 4

    wait_for(scenario())


def test_who_waits_is_told_for_what(place: Place, disk: SlowDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "FIRST_NEWS_SECONDS", 0.001)

    async def scenario() -> None:
        async with outfitter.local(environment=place.environ()) as client:
            told: list[str] = []
            heard = asyncio.Event()

            def waiting(what: str) -> None:
                told.append(what)
                heard.set()

            hides = outfitter.Sandbox("workspace-write", deny_read=(f"{place.project}/tree/**/*.env",))
            start = client.start(["true"], cwd=str(place.project), sandbox=hides, on_waiting=waiting)
            starting = asyncio.create_task(start)
            await heard.wait()
            assert set(told) == {"the files that its sandbox hides"}
            disk.may_list.set()
            assert await (await starting).wait() == 0

    wait_for(scenario())


def test_a_tree_that_is_too_large_is_an_error(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(globs, "MAX_SCANNED", 1)

    async def scenario() -> None:
        async with outfitter.local(environment=place.environ()) as client:
            with pytest.raises(outfitter.RequestFailed) as raised:
                await client.call("process/start", params(place, "p", "true"))
            assert raised.value.data["error"] == "limit-exceeded"
            assert f"below {place.project}/tree: 2 names or more, at most 1 are allowed" in str(raised.value)
            # The name is free.
            await client.call("process/start", {**params(place, "p", "true"), "sandbox": None})
            assert (await output(client, "p"))[2] == 0

    wait_for(scenario())


def test_too_many_matches_are_said_by_the_command(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(globs, "MAX_MATCHES", 1)

    async def scenario() -> None:
        async with outfitter.local(environment=place.environ()) as client:
            await client.call("process/start", params(place, "p", "true", pattern="tree/**/*"))
            stdout, stderr, code = await output(client, "p")
            assert (stdout, code) == ("", 1)
            assert stderr.startswith("error building bubblewrap command: Fatal error: unreadable glob")

    wait_for(scenario())


def test_too_many_writable_places_are_an_error(place: Place) -> None:
    async def scenario() -> None:
        async with outfitter.local(environment=place.environ()) as client:
            places = [place.project / str(number) for number in range(64)]
            for name, roots in (("p", places), ("q", [*places, place.elsewhere])):
                asked = {**params(place, name, "true"), "sandbox": sandbox(WORKSPACE, *roots)}
                if name == "p":
                    await client.call("process/start", asked)
                    assert (await output(client, name))[2] == 0
                else:
                    with pytest.raises(outfitter.RequestFailed, match="65 places that may be written") as why:
                        await client.call("process/start", asked)
                    assert why.value.data["error"] == "limit-exceeded"

    wait_for(scenario())


def test_what_waits_for_a_provider_waits_for_the_walk_too(
    place: Place, disk: SlowDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = Slow()
    monkeypatch.setitem(registry._made, "notes", provider)
    place.says('[providers]\nuse = ["notes"]\n')
    place.write(place.project / "notes", "NOTED=1\n")

    async def scenario() -> None:
        async with outfitter.local(environment=place.environ()) as client:
            start = params(place, "p", "cat", pipeStdin=True, contract={})
            write = {"processId": "p", "chunk": "b25l", "writeId": "w", "eof": True}
            started = asyncio.create_task(client.call("process/start", start))
            written = asyncio.create_task(client.call("process/write", write))
            await until(provider.begun)
            assert await client.status() == "ready"  # both have been read by now
            provider.may_answer.set()
            await until(disk.begun)
            assert await client.status() == "ready"
            assert not started.done() and not written.done()
            disk.may_list.set()
            assert (await written)["status"] == "accepted"
            assert await output(client, "p") == ("one", "", 0)

    wait_for(scenario())
