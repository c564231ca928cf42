"""What a registry remembers: files of any age, several processes, wrong files."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from outfitter.errors import SettingInvalid
from outfitter.relay.authority import Authority
from outfitter.relay.store import MIGRATIONS, SqliteStore


def schema(path: Path) -> list[tuple[str, str]]:
    with sqlite3.connect(path) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master ORDER BY name")]
        found = [
            (name, column[1]) for name in tables for column in database.execute(f"PRAGMA table_info({name})")
        ]
    database.close()
    return sorted(found)


def test_a_store_is_private(tmp_path: Path) -> None:
    SqliteStore(str(tmp_path / "store")).close()
    assert os.stat(tmp_path / "store").st_mode & 0o777 == 0o600


def test_what_was_written_is_there_the_next_time(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    first = SqliteStore(path)
    token = (made := Authority(first, lambda: 1.0, "ws://h")).enrol(made.code("ada", "box", "use")).token
    second = SqliteStore(path)  # a command, while the service runs
    assert Authority(second, lambda: 2.0, "ws://h").principal_of(token)
    first.close()
    second.close()


@pytest.mark.parametrize("seen", range(1, len(MIGRATIONS)))
def test_an_older_store_becomes_a_new_one_with_all_that_it_had(seen: int, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    SqliteStore(str(new)).close()
    with sqlite3.connect(old) as database:
        for migration in MIGRATIONS[:seen]:
            database.executescript(migration)
        database.execute(
            "INSERT INTO registrations (environment, id, executor_key, principal, created) "
            "VALUES ('box', 'r', '{}', 'p', 1)"
        )
        database.execute(f"PRAGMA user_version = {seen}")
    database.close()
    store = SqliteStore(str(old))
    assert store.rows("SELECT environment, kept FROM registrations") == [("box", 0)]
    store.close()
    assert schema(old) == schema(new)


def test_a_file_is_for_one_service_by_whatever_name(tmp_path: Path) -> None:
    path, link = tmp_path / "store", tmp_path / "link"
    link.symlink_to(path)
    service = SqliteStore(str(path), serving=True)
    SqliteStore(str(path)).close()  # a command
    for name in (path, link):
        with pytest.raises(SettingInvalid, match="another service uses the store"):
            SqliteStore(str(name), serving=True)
    service.close()
    SqliteStore(str(link), serving=True).close()


def test_a_newer_store_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    database.close()
    with pytest.raises(SettingInvalid, match="newer version"):
        SqliteStore(str(path))
    assert schema(path) == []


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("this is no database, whatever its name says" * 100)
    for path in (tmp_path / "text", tmp_path, tmp_path / "missing" / "store"):
        with pytest.raises(SettingInvalid, match="cannot be used"):
            SqliteStore(str(path))


def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE tokens (mine TEXT)")  # in the way of the first
    database.close()
    with pytest.raises(SettingInvalid, match="already exists"):
        SqliteStore(str(path))
    assert schema(path) == [("tokens", "mine")]
