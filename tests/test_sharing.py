"""One client for any loop or none."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

import outfitter
from outfitter.client.client import Client
from outfitter.sharing import Pending, SharedClient
from tests.support.machine import PROC, SECOND, wait_until


@pytest.fixture(scope="module")
def shared() -> Iterator[SharedClient]:
    client = outfitter.shared()
    yield client
    client.close()


def test_calls_are_awaited_in_any_loop_and_waited_for_in_none(shared: SharedClient, tmp_path: Path) -> None:
    async def use() -> bytes:
        await shared.files.write(tmp_path / "a", "text")
        both = await asyncio.gather(shared.run(["echo", "hi"]), shared.shell("echo ho"))
        return both[0].stdout + both[1].stdout

    assert [asyncio.run(use()), asyncio.run(use())] == [b"hi\nho\n"] * 2
    assert shared.run(["echo", "hi"], text=True).result().stdout == "hi\n"
    assert shared.files.read_text(tmp_path / "a").result() == "text"


def test_errors_are_those_of_the_client(shared: SharedClient) -> None:
    with pytest.raises(outfitter.ProgramNotFound):
        shared.run(["nosuch"]).result()

    async def use() -> None:
        with pytest.raises(TypeError, match="shell=True"):
            await shared.run("echo hi")

    asyncio.run(use())


def test_the_clients_own_thread_does_not_wait_for_itself() -> None:
    """In a callback or in `do`: neither that call nor any later one would end."""
    client = outfitter.shared()
    errors: list[outfitter.OutfitterError] = []

    def refused(call: Callable[[], object]) -> None:
        with pytest.raises(outfitter.OutfitterError, match="client's own thread") as caught:
            call()
        errors.append(caught.value)

    async def work(inner: Client) -> None:
        refused(client.close)
        with pytest.raises(outfitter.OutfitterError, match="client's own thread"):
            await client.aclose()
        assert (await client.run(["echo", "hi"])).text == "hi\n"

    client.run(["echo", "hi"], on_output=lambda _: refused(client.run(["true"]).result)).result(30 * SECOND)
    client.do(work).result(30 * SECOND)
    client.close()
    assert [error.slug for error in errors] == ["refused", "refused"]


def test_cancelled_wait_ends_the_command(shared: SharedClient, tmp_path: Path) -> None:
    mark = tmp_path / "pid"

    async def use() -> None:
        run = asyncio.ensure_future(
            shared.shell(f"echo $$ > {mark}.new; mv {mark}.new {mark}; cat /dev/zero >/dev/null")
        )
        await asyncio.sleep(0)  # it waits now: on Python 3.14 a thread that is done at once is not waited for
        await asyncio.to_thread(wait_until, mark.exists, "the command runs")
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(use())
    wait_until(lambda: not Path(f"{PROC}/{mark.read_text().strip()}").exists(), "the command is ended")


def test_cancelled_call_leaves_no_error_when_the_client_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    client = outfitter.shared()
    waits, goes_on = threading.Event(), threading.Event()

    async def wait(_: Client) -> None:
        waits.set()
        await asyncio.sleep(60)

    async def hold(_: Client) -> None:
        goes_on.wait()

    call = client.do(wait)
    waits.wait()
    client.do(hold)  # so that it hears of both at once
    call.cancel()
    closing = threading.Thread(target=client.close)
    closing.start()
    wait_until(lambda: client._closed, "the close has begun")
    goes_on.set()
    closing.join()
    del call
    gc.collect()
    assert caplog.records == []


def test_whatever_the_client_can_do(shared: SharedClient) -> None:
    async def talk(client: Client) -> bytes:
        async with client.start(["cat"], stdin=True) as process:
            await process.write("hi\n")
            return await process.stdout.readline()

    assert shared.do(talk).result() == b"hi\n"


@pytest.mark.parametrize(
    "close", [SharedClient.close, lambda client: asyncio.run(client.aclose())], ids=["close", "aclose"]
)
def test_closed_client_says_so(close: Callable[[SharedClient], None]) -> None:
    client = outfitter.shared()

    async def for_ever(_: Client) -> None:
        await asyncio.Event().wait()

    waiting = client.do(for_ever)
    close(client)
    with pytest.raises(outfitter.SessionExpired):
        waiting.result(30)
    with pytest.raises(outfitter.SessionExpired):
        client.run(["true"])
    client.close()


def test_close_that_is_interrupted_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for a call in another thread would wait for ever."""

    def interrupted(pending: Pending[object], timeout: float | None = None) -> object:
        raise KeyboardInterrupt

    client = outfitter.shared()
    waiting = client.run(["sleep", "60"])
    with monkeypatch.context() as patch:
        patch.setattr(Pending, "result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            client.close()
    with pytest.raises(outfitter.SessionExpired):
        waiting.result(timeout=30 * SECOND)
    client._thread.join(30 * SECOND)
    assert not client._thread.is_alive()


@pytest.mark.parametrize("closes", [False, True])
def test_handler_of_a_signal_may_use_the_client_in_the_middle_of_a_call(closes: bool) -> None:
    """The lock between calls and the close is held there: the handler would wait for itself."""
    client = outfitter.shared()
    inner: list[Pending[outfitter.Completed]] = []

    def handle(*_: object) -> None:
        client.close() if closes else inner.append(client.run(["echo", "inner"]))

    def signalled(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is SharedClient._begin.__code__:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        sys.setprofile(signalled)
        if closes:
            with pytest.raises(outfitter.SessionExpired, match="the client is closed"):
                client.run(["echo", "outer"])
        else:
            assert client.run(["echo", "outer"]).result(30 * SECOND).text == "outer\n"
            assert inner[0].result(30 * SECOND).text == "inner\n"
    finally:
        sys.setprofile(None)
        signal.signal(signal.SIGUSR1, before)
    client.close()


def test_ctrl_c_inside_of_a_wait_leaves_the_client_usable() -> None:
    """The lock of a Future, which an interruption may leave locked, would stop the client's thread."""
    client = outfitter.shared()
    goes_on = threading.Event()

    async def work(_: Client) -> None:
        await asyncio.to_thread(goes_on.wait)

    def interrupted(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is Pending.result.__code__:
            goes_on.set()
        if event == "return" and frame.f_code is threading.Condition.__enter__.__code__:
            sys.setprofile(None)
            raise KeyboardInterrupt

    pending = client.do(work)
    try:
        sys.setprofile(interrupted)
        with pytest.raises(KeyboardInterrupt):
            pending.result()
    finally:
        sys.setprofile(None)
    assert client.run(["echo", "hi"]).result(30 * SECOND).text == "hi\n"
    client.close()


def test_many_threads_wait_for_one_call(shared: SharedClient) -> None:
    goes_on = threading.Event()

    async def work(_: Client) -> str:
        await asyncio.to_thread(goes_on.wait)
        return "done"

    pending, results = shared.do(work), []
    threads = [threading.Thread(target=lambda: results.append(pending.result())) for _ in range(8)]
    for thread in threads:
        thread.start()
    with pytest.raises(TimeoutError):
        pending.result(timeout=0)
    goes_on.set()
    for thread in threads:
        thread.join()
    assert results == ["done"] * 8
