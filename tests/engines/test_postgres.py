"""A rendezvous of several services on a real PostgreSQL: they agree, and a stream finds its executor."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import outfitter
from outfitter.errors import SettingInvalid
from outfitter.protocol.registry import ConnectParams, KeyObject, RegisterParams, ValidateParams
from outfitter.relay.authority import GRACE_SECONDS, Authority, NotGranted
from outfitter.relay.keys import Keys
from outfitter.relay.store import PostgresStore, SqliteStore, open_store
from tests.support.relays import dialling, meeting
from tests.support.tools import missing

if TYPE_CHECKING:
    from outfitter.relay.store import Store


def _as_postgres(*command: str) -> list[str]:
    """PostgreSQL does not run as root."""
    return ["runuser", "-u", "postgres", "--", *command] if os.getuid() == 0 else list(command)


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a cluster of our own, on a unix socket."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not found:
        missing("PostgreSQL", "run `scripts/engines`")
    bin, home = found[-1], Path(f"/tmp/outfitter-pg-{os.getpid()}")
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    data = home / "data"
    run = lambda *command: subprocess.run(_as_postgres(*command), check=True, capture_output=True, cwd=home)  # noqa: E731
    options = f"-c listen_addresses='' -c unix_socket_directories={home} -c fsync=off"
    try:
        run(str(bin / "initdb"), "-D", str(data), "-A", "trust", "-U", "outfitter", "-E", "UTF8")
        run(str(bin / "pg_ctl"), "-D", str(data), "-w", "-l", str(home / "log"), "-o", options, "start")
        try:
            yield f"postgresql://outfitter@/postgres?host={home}"
        finally:
            run(str(bin / "pg_ctl"), "-D", str(data), "-m", "immediate", "stop")
    finally:
        subprocess.run(["rm", "-rf", str(home)], check=False)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "sqlite":
        made: Store = SqliteStore(str(tmp_path / "store"))
    else:
        url = request.getfixturevalue("database")
        clean(url)
        made = PostgresStore(url)
    yield made
    made.close()


def clean(url: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as db:
        db.execute("DROP SCHEMA public CASCADE")
        db.execute("CREATE SCHEMA public")


def key() -> KeyObject:
    public = Keys().public
    return KeyObject(public.x25519, public.mlkem)


def test_both_stores_decide_the_same(store: Store) -> None:
    now = [1000.0]
    one = Authority(store, lambda: now[0], "ws://here", "a:1")
    executor = one.enrol(one.code("box", "box", "execute")).token
    user = one.enrol(one.code("me", "box", "use"))
    registered = one.register(executor, "box", RegisterParams("noise_hybrid_ik_v1", key()))
    harness = key()
    with pytest.raises(NotGranted, match="not connected"):
        one.connect(user.token, "box", ConnectParams(harness))
    one.attached("box")
    invited = one.connect(user.token, "box", ConnectParams(harness))
    asked = ValidateParams(registered.registration_id, harness, invited.authorization)
    answer = one.validate(executor, "box", asked)
    assert (answer.valid, answer.principal) == (True, user.principal)
    assert one.validate(executor, "box", asked).valid is False  # it was used
    late = one.connect(user.token, "box", ConnectParams(harness))
    now[0] += 61
    asked = ValidateParams(registered.registration_id, harness, late.authorization)
    assert one.validate(executor, "box", asked).valid is False  # it has expired
    [mine] = [row for row in one.overview() if row["role"] == "use"]
    assert (mine["name"], mine["online"]) == ("me", True)
    fresh = one.rotate(user.token).token
    assert one.principal_of(user.token) == one.principal_of(fresh) == user.principal
    now[0] += GRACE_SECONDS
    with pytest.raises(NotGranted):
        one.principal_of(user.token)
    one.revoke(user.principal)
    assert one.revoked_since(now[0]) == [user.principal]
    with pytest.raises(NotGranted):
        one.connect(fresh, "box", ConnectParams(harness))


def test_both_stores_forget_what_is_too_much(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    one = Authority(store, lambda: now, "ws://here")
    one.code("box", "box", "execute")
    now += 3600
    for number in range(4):
        one.record("", "something", "box", str(number))
        now += 1
    monkeypatch.setattr("outfitter.relay.authority.AUDIT_ROWS", 2)
    one.prune()
    assert [row["detail"] for row in one.audit(9)] == ["3", "2"]
    assert [row["detail"] for row in one.audit(1)] == ["3"]
    assert store.rows("SELECT * FROM codes") == []


def test_a_store_of_a_newer_version_is_refused(database: str) -> None:
    clean(database)
    store = PostgresStore(database)
    store.change("UPDATE schema_version SET seen = 99")
    store.close()
    with pytest.raises(SettingInvalid, match="newer version"):
        PostgresStore(database)


def test_a_connection_that_was_lost_is_made_again(database: str) -> None:
    clean(database)
    store, other = PostgresStore(database), PostgresStore(database)
    other.rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    assert store.rows("SELECT 1") == [(1,)]
    store.close()
    other.close()


def test_a_store_that_is_not_there_is_named_without_its_password() -> None:
    with pytest.raises(SettingInvalid) as caught:
        open_store("postgresql://somebody:hidden@127.0.0.1:1/nothing")
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("kind", ["outfitter", "codex"])
def test_a_harness_of_one_service_reaches_the_executor_of_another(
    kind: str, database: str, tmp_path: Path
) -> None:
    from tests.support.machine import free_port

    clean(database)
    ports = free_port(), free_port()
    services = [
        meeting(tmp_path / f"service{n}", "--instance", f"127.0.0.1:{port}", port=port, store=database)
        for n, port in enumerate(ports)
    ]
    with services[0] as first, services[1] as second:
        executor, user = first.token("box", "execute"), second.token("box", "use")
        with dialling(kind, tmp_path / "executor", first.url, "box", executor):
            first.wait_for("box")

            async def scenario() -> None:
                # The registry of the second service names the second, which has not the executor.
                async with outfitter.connect(f"noise+{second.url}/box", token=user) as client:
                    done = await client.run(["sh", "-c", "head -c 3000000 /dev/zero; exit 7"])
                    assert (done.exit_code, len(done.stdout)) == (7, 3_000_000)

            asyncio.run(scenario())
