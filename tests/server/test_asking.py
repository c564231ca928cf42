"""While a provider is asked: everything else goes on, nothing overtakes the start, and it is asked once."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest

import outfitter
from outfitter.protocol.session import LEFT
from outfitter.providers import registry
from outfitter.providers.base import Context, Detection, Resolution, Trust
from outfitter.server import asking, dispatch
from outfitter.server.server import Server
from outfitter.server.settings import ServerSettings
from outfitter.transport.memory import pair
from tests.support.contracts import Place, wait_for
from tests.support.machine import SECOND
from tests.support.notes import Notes
from tests.support.wire import Message, start_params


class Slow(Notes):
    """Does not answer before it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.may_answer = threading.Event()
        self.breaks = False
        self.quick = ""  # but for this folder

    def resolve(self, found: Detection, context: Context) -> Resolution:
        self.begun.set()
        assert found.root == self.quick or self.may_answer.wait(30 * SECOND)
        if self.breaks:
            raise RuntimeError("a fault of the provider: hush")
        return super().resolve(found, context)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    provider = Slow()
    monkeypatch.setitem(registry._made, "notes", provider)
    return provider


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.says('[providers]\nuse = ["notes"]\n')
    place.write(place.project / "notes", "NOTED=1\n")
    return place


async def until(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, 30 * SECOND)


def test_commands_elsewhere_do_not_wait(place: Place, slow: Slow) -> None:
    async def scenario() -> None:
        async with outfitter.local(environment=place.environ()) as client:
            waiting = asyncio.create_task(client.run(["printenv", "NOTED"], cwd=str(place.project)))
            await until(slow.begun)
            assert (await client.run(["echo", "on"], cwd=str(place.elsewhere))).stdout == b"on\n"
            assert await client.status() == "ready"
            slow.may_answer.set()
            assert (await waiting).stdout == b"1\n"

    wait_for(scenario())


def test_what_is_written_meanwhile_comes_after_the_start(place: Place, slow: Slow) -> None:
    async def scenario() -> None:
        async with outfitter.local(environment=place.environ()) as client:
            start = {
                "processId": "p",
                "argv": ["cat"],
                "cwd": place.project.as_uri(),
                "env": {},
                "tty": False,
                "pipeStdin": True,
                "contract": {},
            }
            calls = [
                asyncio.create_task(client.call("process/start", start)),
                *(
                    asyncio.create_task(
                        client.call("process/write", {"processId": "p", "chunk": chunk, "writeId": chunk})
                    )
                    for chunk in ("b25l", "dHdv")  # one, two
                ),
            ]
            await until(slow.begun)
            assert await client.status() == "ready"  # they have all been read by now
            assert not any(call.done() for call in calls)
            slow.may_answer.set()
            answers = [await call for call in calls]
            assert [answer["status"] for answer in answers[1:]] == ["accepted", "accepted"]
            await client.call("process/write", {"processId": "p", "chunk": "", "writeId": "end", "eof": True})
            seen = b""
            while b"onetwo" not in seen:
                read = await client.call("process/read", {"processId": "p", "waitMs": 5000})
                assert read["chunks"] or not read["closed"]
                seen = b"".join(_bytes(chunk["chunk"]) for chunk in read["chunks"])

    wait_for(scenario())


def _bytes(text: str) -> bytes:
    from base64 import b64decode

    return b64decode(text)


def test_many_who_wait_are_one_question(place: Place, slow: Slow) -> None:
    async def scenario() -> None:
        async with outfitter.local(environment=place.environ()) as client:
            waiting = [
                asyncio.create_task(client.run(["printenv", "NOTED"], cwd=str(place.project)))
                for _ in range(8)
            ]
            told = asyncio.create_task(client.explain(cwd=str(place.project)))
            await until(slow.begun)
            assert await client.status() == "ready"
            slow.may_answer.set()
            assert [(await one).stdout for one in waiting] == [b"1\n"] * 8
            assert (await told)["variables"]["NOTED"]["layer"] == "L3"
            assert len(slow.asked) == 1

    wait_for(scenario())


def test_a_fault_of_a_provider_is_one_failed_start(place: Place, slow: Slow) -> None:
    slow.breaks = True
    slow.may_answer.set()

    async def scenario() -> None:
        async with outfitter.local(environment=place.environ()) as client:
            with pytest.raises(outfitter.RequestFailed) as raised:
                await client.run(["true"], cwd=str(place.project))
            assert (raised.value.code, "hush" in str(raised.value)) == (-32603, False)
            assert (await client.run(["true"], cwd=str(place.elsewhere))).exit_code == 0

    wait_for(scenario())


def test_what_is_not_wanted_any_more_is_not_started(place: Place, slow: Slow) -> None:
    made = place.project / "made"

    async def scenario() -> None:
        async with outfitter.local(environment=place.environ()) as client:
            waiting = asyncio.create_task(client.run(["touch", str(made)], cwd=str(place.project)))
            await until(slow.begun)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        slow.may_answer.set()

    wait_for(scenario())
    assert not made.exists()


class Raw:
    """A client that says only what it is told to say."""

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop, principal: str | None = None) -> None:
        self.end, far = pair(loop)
        far.principal = principal or far.principal
        self.end.receiver = self
        self._answers: dict[int, asyncio.Future[Message]] = {}
        self._loop = loop
        server.connect(far)

    def message(self, data: str | bytes | tuple[bytes, ...]) -> None:
        assert not isinstance(data, tuple)
        said = json.loads(data)
        if "id" in said:
            self._answers[said["id"]].set_result(said)

    def drained(self) -> None: ...

    def lost(self, reason: str) -> None: ...

    def ask(self, method: str, params: Message) -> asyncio.Future[Message]:
        number = len(self._answers)
        answer = self._answers[number] = self._loop.create_future()
        self.end.send(json.dumps({"id": number, "method": method, "params": params}).encode())
        return answer

    async def greet(self, **params: str) -> str:
        answer = await self.ask("initialize", {"clientName": "raw", **params})
        self.end.send(b'{"method":"initialized"}')
        return str(answer["result"]["sessionId"])


def test_who_comes_back_for_a_session_is_answered_behind_a_start_that_nobody_wants(
    place: Place, slow: Slow
) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        server = Server(loop, ServerSettings(), place.environ(), base="launcher")
        made = place.project / "made"
        start = start_params("p", ["/bin/sh", "-c", "echo >> made"], cwd=place.project.as_uri(), contract={})
        try:
            first = Raw(server, loop)
            session = await first.greet()
            first.ask("process/start", start)
            await until(slow.begun)
            first.ask("process/start", start)
            first.end.close(1001, "lost")
            second = Raw(server, loop)
            await second.greet(resumeSessionId=session)
            answers = [
                second.ask("process/read", {"processId": "p"}),
                second.ask("process/start", start),
                second.ask("process/read", {"processId": "p", "waitMs": 20000}),
            ]
            await second.ask("environment/status", {})  # so all was read by now
            slow.may_answer.set()
            unknown, started, news = await asyncio.gather(*answers)
            assert unknown["error"]["message"] == "unknown process id p"
            assert started["result"]["processId"] == "p"
            assert news["result"]["exitCode"] == 0
            assert made.read_text() == "\n"
        finally:
            server.stop("the test is over")

    wait_for(scenario())


@pytest.mark.parametrize(
    ("sessions", "also"), [(5, False), (1, True)], ids=["many at once", "the same behind others"]
)
def test_slow_providers_of_one_principal_hold_up_no_other(
    place: Place, slow: Slow, sessions: int, also: bool
) -> None:
    slow.quick = str(place.project)
    start = start_params("p", ["true"], cwd=place.project.as_uri(), contract={})

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        server = Server(loop, ServerSettings(several_principals=True), place.environ(), base="launcher")
        try:
            for number in range(sessions):
                alice = Raw(server, loop, "alice")
                await alice.greet()
                for which in range(8):
                    folder = place.project / f"slow-{number}-{which}"
                    place.write(folder / "notes", "NOTED=2\n")
                    alice.ask("process/start", {**start, "processId": f"{which}", "cwd": folder.as_uri()})
                if also:
                    alice.ask("process/start", start)
                await alice.ask("environment/status", {})  # so all was read by now
            await until(slow.begun)
            bob = Raw(server, loop, "bob")
            await bob.greet()
            started = await asyncio.wait_for(bob.ask("process/start", start), 20 * SECOND)
            assert started["result"]["processId"] == "p"
        finally:
            slow.may_answer.set()
            server.stop("the test is over")

    wait_for(scenario())


def test_what_nobody_waits_for_any_more_is_not_asked(
    place: Place, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "QUESTIONS", 1)
    place.write(place.project / "next" / "notes", "NOTED=2\n")
    place.write(place.project / "last" / "notes", "NOTED=3\n")

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        server = Server(loop, ServerSettings(), place.environ(), base="launcher")
        try:
            first, second = Raw(server, loop), Raw(server, loop)
            await first.greet()
            await second.greet()

            def start(raw: Raw, name: str) -> asyncio.Future[Message]:
                folder = place.project / name
                return raw.ask(
                    "process/start", start_params(name or "p", ["true"], cwd=folder.as_uri(), contract={})
                )

            for name in ("", "next", "last"):
                start(first, name)
            await until(slow.begun)
            waits = [start(second, name) for name in ("", "last")]
            await second.ask("environment/status", {})
            first.end.close(1001, "lost")
            slow.may_answer.set()
            for answer in waits:
                assert "result" in await answer
            assert sorted(slow.asked) == [str(place.project), str(place.project / "last")]
            assert server.services.asking._waiting == {}
        finally:
            server.stop("the test is over")

    wait_for(scenario())


def test_starts_that_wait_for_a_provider_are_limited_in_bytes(place: Place, slow: Slow) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        server = Server(loop, ServerSettings(several_principals=True), place.environ(), base="launcher")

        def start(raw: Raw, name: str, size: int) -> asyncio.Future[Message]:
            argv = ["true", "x" * size]
            return raw.ask("process/start", start_params(name, argv, cwd=place.project.as_uri(), contract={}))

        try:
            alice, bob = Raw(server, loop, "alice"), Raw(server, loop, "bob")
            await alice.greet()
            await bob.greet()
            waits = [start(alice, f"{number}", 3 << 20) for number in range(11)]
            await until(slow.begun)
            refused = await asyncio.wait_for(start(alice, "more", 3 << 20), 20 * SECOND)
            assert refused["error"]["message"] == (
                "too many requests wait for the environments of projects; wait for their answers first"
            )
            waits += [start(bob, "small", 1), start(bob, "other", 3 << 20)]
            slow.may_answer.set()
            # What is too long for the kernel is told so, now that it could start.
            answers = [await one for one in waits]
            assert ["error" in one for one in answers] == [True] * 11 + [False, True]
            assert server.services.asking._bytes.held == 0
        finally:
            slow.may_answer.set()
            server.stop("the test is over")

    wait_for(scenario())


def test_session_whose_client_left_while_a_start_waited_ends_with_the_wait(place: Place, slow: Slow) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        server = Server(loop, ServerSettings(session_retention=3600), place.environ(), base="launcher")
        try:
            client = Raw(server, loop)
            await client.greet()
            client.ask("process/start", start_params("p", ["true"], cwd=place.project.as_uri(), contract={}))
            await until(slow.begun)
            client.end.close(LEFT, "")
            sessions = server.services.sessions
            while [one.peer for one in sessions.overview(None)] != [None]:
                await asyncio.sleep(0.01)
            slow.may_answer.set()
            while len(sessions):
                await asyncio.sleep(0.01)
        finally:
            slow.may_answer.set()
            server.stop("the test is over")

    wait_for(scenario())


def test_writes_that_wait_for_a_start_are_limited_whoever_has_brought_them(
    place: Place, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "WAITING_BYTES", 6)

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        server = Server(loop, ServerSettings(), place.environ(), base="launcher")
        start = start_params("p", ["cat"], cwd=place.project.as_uri(), pipeStdin=True, contract={})

        def write(raw: Raw, name: str) -> asyncio.Future[Message]:
            return raw.ask("process/write", {"processId": "p", "chunk": "b25l", "writeId": name})

        try:
            first = Raw(server, loop)
            session = await first.greet()
            first.ask("process/start", start)
            await until(slow.begun)
            write(first, "1")
            first.end.close(1001, "lost")
            second = Raw(server, loop)
            await second.greet(resumeSessionId=session)
            started, waits = second.ask("process/start", start), write(second, "2")
            refused = await write(second, "3")
            assert refused["error"]["message"] == (
                "process p has not started yet and too many writes are waiting; wait for their answers first"
            )
            slow.may_answer.set()
            assert (await started)["result"]["processId"] == "p"
            for answer in (waits, write(second, "3"), write(second, "4")):
                assert (await answer)["result"] == {"status": "accepted"}
        finally:
            server.stop("the test is over")

    wait_for(scenario())


def test_a_blocked_provider_is_part_of_the_summary(place: Place, slow: Slow) -> None:
    slow.word = Trust("untrusted", "outfitter", "sha256:1")

    async def scenario() -> None:
        async with outfitter.local(environment=place.environ(), summaries=True) as client:
            done = await client.run(["true"], cwd=str(place.project))
            states = {layer["id"]: layer["state"] for layer in done.environment["layers"]}
            assert states[f"notes:{place.project}/notes"] == "blocked"

    wait_for(scenario())


def test_who_waits_is_told_for_what(place: Place, slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "FIRST_NEWS_SECONDS", 0.001)

    async def scenario() -> None:
        async with outfitter.local(environment=place.environ()) as client:
            told: list[str] = []
            several = asyncio.Event()

            def waiting(what: str) -> None:
                told.append(what)
                if len(told) == 3:
                    several.set()

            start = client.start(["true"], cwd=str(place.project), on_waiting=waiting)
            starting = asyncio.create_task(start)
            await several.wait()
            assert set(told) == {f"notes in {place.project}"}
            slow.may_answer.set()
            process = await starting
            assert await process.wait() == 0

    wait_for(scenario())


def test_what_is_wrong_with_the_environment_comes_with_the_start(place: Place, slow: Slow) -> None:
    slow.state = "failed"
    slow.may_answer.set()

    async def scenario() -> None:
        async with outfitter.local(environment=place.environ()) as client:
            process = await client.start(["true"], cwd=str(place.project))
            assert process.warnings == [f"notes:{place.project}/notes has failed: write it down"]
            place.user('[providers]\non_failure = "without"\n')
            process = await client.start(["true"], cwd=str(place.project))
            assert process.warnings == []
            place.says('[providers]\nuse = ["notes"]\non_failure = "fail"\n')
            with pytest.raises(outfitter.RequestFailed, match="write it down"):
                await client.start(["true"], cwd=str(place.project))

    wait_for(scenario())
