"""What a registry remembers, in SQL: who may do what, which executor is registered, which codes are unused.

Secrets are kept as digests only. One statement per change, so that several services on one database agree;
`SqliteStore` is for one service. Calls block: the service makes them in a thread of its own.
"""

from __future__ import annotations

import os
import sqlite3

from ..errors import SettingInvalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Protocol

    Row = tuple[Any, ...]  # the statement knows the types of its columns

    class Store(Protocol):
        def rows(self, sql: str, *values: object) -> list[Row]:
            """What a statement selects or returns."""

        def change(self, sql: str, *values: object) -> int:
            """How many rows a statement has changed."""

        def close(self) -> None: ...


# Each is applied once, in order; a database knows how many it has seen. Never change one: add another.
MIGRATIONS: Sequence[str] = (
    """
    CREATE TABLE secrets (name TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE principals (
        id TEXT PRIMARY KEY, name TEXT NOT NULL, created DOUBLE PRECISION NOT NULL, revoked DOUBLE PRECISION
    );
    CREATE TABLE tokens (
        digest TEXT PRIMARY KEY, principal TEXT NOT NULL, created DOUBLE PRECISION NOT NULL,
        expires DOUBLE PRECISION, last_seen DOUBLE PRECISION
    );
    CREATE INDEX tokens_principal ON tokens (principal);
    CREATE TABLE environments (
        id TEXT PRIMARY KEY, created DOUBLE PRECISION NOT NULL, last_seen DOUBLE PRECISION
    );
    CREATE TABLE rights (
        principal TEXT NOT NULL, environment TEXT NOT NULL, role TEXT NOT NULL,
        PRIMARY KEY (principal, environment, role)
    );
    CREATE TABLE codes (
        digest TEXT PRIMARY KEY, name TEXT NOT NULL, environment TEXT NOT NULL, role TEXT NOT NULL,
        expires DOUBLE PRECISION NOT NULL
    );
    CREATE TABLE registrations (
        environment TEXT PRIMARY KEY, id TEXT NOT NULL, executor_key TEXT NOT NULL, principal TEXT NOT NULL,
        created DOUBLE PRECISION NOT NULL
    );
    CREATE TABLE attachments (
        environment TEXT PRIMARY KEY, instance TEXT NOT NULL, since DOUBLE PRECISION NOT NULL
    );
    CREATE TABLE authorizations (
        digest TEXT PRIMARY KEY, environment TEXT NOT NULL, registration TEXT NOT NULL,
        harness_key TEXT NOT NULL, principal TEXT NOT NULL, expires DOUBLE PRECISION NOT NULL
    );
    CREATE TABLE audit (
        at DOUBLE PRECISION NOT NULL, principal TEXT NOT NULL, what TEXT NOT NULL, environment TEXT NOT NULL,
        detail TEXT NOT NULL
    );
    CREATE INDEX audit_at ON audit (at);
    """,
)
_BUSY_SECONDS = 10.0  # for another process, such as a command that lists environments


class SqliteStore:
    """A file, for one service. Commands on the same machine may open it, too."""

    def __init__(self, path: str) -> None:
        """Raises SettingInvalid."""
        try:
            if path != ":memory:":
                # What is in it admits nobody, but tells who works with whom.
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._db = sqlite3.connect(
                path, timeout=_BUSY_SECONDS, check_same_thread=False, isolation_level=None
            )
            self._db.execute("PRAGMA journal_mode = WAL")
            # A crash of the machine may lose the last moments, never more: everybody can register again.
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._migrate()
        except (OSError, sqlite3.Error) as error:
            raise SettingInvalid(f"the store {path} cannot be used: {error}") from None

    def _migrate(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            [(seen,)] = self._db.execute("PRAGMA user_version").fetchall()
            if seen > len(MIGRATIONS):
                raise SettingInvalid(
                    "the store was written by a newer version of Outfitter: install that one"
                )
            for migration in MIGRATIONS[seen:]:
                for statement in filter(str.strip, migration.split(";")):
                    self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def rows(self, sql: str, *values: object) -> list[Row]:
        return self._db.execute(sql, values).fetchall()

    def change(self, sql: str, *values: object) -> int:
        return self._db.execute(sql, values).rowcount

    def close(self) -> None:
        self._db.close()
