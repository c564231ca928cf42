"""Keys and tokens of people, through real processes: pinned, accepted, rotated, revoked."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

import outfitter
from outfitter.errors import DialFailed
from outfitter.relay.known import Known, folder
from tests.support.machine import SECOND
from tests.support.registries import answering
from tests.support.relays import dialling, meeting
from tests.support.servers import command, environment


def outfitter_command(home: Path, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "outfitter", *args],
        env=environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60 * SECOND,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_user_s_keys_and_tokens_from_enrolling_to_being_revoked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "user"
    home.mkdir()
    for name, value in environment(home).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("XDG_STATE_HOME")
    known = Known(folder(environment(home)))
    with meeting(tmp_path / "service") as service:
        base = ("--store", str(tmp_path / "service" / "store.sqlite"))
        token = service.token("box", "execute")
        code = outfitter_command(home, "rendezvous", "code", "box", "--name", "ada", *base)
        outfitter_command(home, "enrol", service.url, "--code", code)
        own = outfitter_command(home, "rendezvous", "key")
        url = f"noise+{service.url}/box"
        pin = known.pin_file(service.url, "box")
        accepted = tmp_path / "accepted"
        serving = ("--key-file", str(tmp_path / "executor.key"), "--authorized-harnesses", str(accepted))

        async def echo() -> bytes:
            async with outfitter.connect(url, recovery_timeout=5.0) as client:
                return (await client.run(["echo", "here"])).stdout

        with dialling(
            "outfitter", tmp_path / "one", service.url, "box", token, *serving, "--accept-first-harness"
        ):
            service.wait_for("box")
            assert asyncio.run(echo()) == b"here\n"
            assert accepted.read_text().split()[0] == own
            first = Path(pin).read_text()
            # Another user, whom the registry lets in and the executor does not: its key is not listed.
            other = tmp_path / "other"
            other.mkdir()
            monkeypatch.setenv("HOME", str(other))
            stranger = service.token("box", "use")
            with pytest.raises(DialFailed):
                asyncio.run(reach(url, stranger))
            monkeypatch.setenv("HOME", str(home))
            # A new token, and the old one is not needed any more.
            path = Path(known.token_file(service.url, "box", "use"))
            old = path.read_text()
            told = json.loads(outfitter_command(home, "rendezvous", "rotate", "--json", service.url, "box"))
            assert told == {"file": str(path), "graceSeconds": 600}
            assert path.read_text() != old
            assert asyncio.run(echo()) == b"here\n"
            asyncio.run(revoked(url, service.url, base, home))
        # The executor starts again with the same key, then with another one.
        service.wait_for("box", online=False)
        ours = service.token("box", "use")
        with dialling("outfitter", tmp_path / "two", service.url, "box", token, *serving):
            service.wait_for("box")
            assert asyncio.run(reach(url, ours)) == b"here\n"
            assert Path(pin).read_text() == first
        service.wait_for("box", online=False)
        with dialling("outfitter", tmp_path / "three", service.url, "box", token):
            service.wait_for("box")
            with pytest.raises(DialFailed, match="has changed"):
                asyncio.run(reach(url, ours))


async def reach(url: str, token: str) -> bytes:
    async with outfitter.connect(url, token=token, connect_timeout=5.0) as client:
        return (await client.run(["echo", "here"])).stdout


async def revoked(url: str, registry: str, base: tuple[str, str], home: Path) -> None:
    """Who is revoked loses the connection that is open, and gets no other."""
    lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def state(now: str) -> None:
        if now == "failed" and not lost.done():
            lost.set_result(now)

    async with outfitter.connect(url, on_state=state) as client:
        await client.run(["true"])
        listed = await asyncio.to_thread(outfitter_command, home, "rendezvous", "list", *base)
        [line] = [line for line in listed.splitlines() if " ada " in line]
        await asyncio.to_thread(outfitter_command, home, "rendezvous", "revoke", line.split()[3], *base)
        assert await asyncio.wait_for(lost, 30 * SECOND) == "failed"
    with pytest.raises(DialFailed, match="401"):
        async with outfitter.connect(url):
            pass


@pytest.mark.parametrize("behind", [b"", b"{}\n"])
def test_an_executor_ends_with_its_credentials(behind: bytes, tmp_path: Path) -> None:
    """The end of the pipe, or a malformed frame, even before the registry has answered: status 1."""
    frame = {"version": 1, "environment_id": "box", "token": "opaque", "expires_at": 1 << 40}
    with answering(None) as registry:
        done = subprocess.run(
            command(
                "outfitter",
                *("--remote", registry.url, "--environment-id", "box", "--executor-credential-stdin"),
            ),
            input=json.dumps(frame).encode() + b"\n" + behind,
            env=environment(tmp_path),
            capture_output=True,
            timeout=60 * SECOND,
            check=False,
        )
    said = done.stderr.decode()
    assert done.returncode == 1
    assert ("credential frame" if behind else "standard input") in said
    assert "opaque" not in said and "Traceback" not in said
