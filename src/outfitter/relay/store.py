"""What a registry remembers, in SQL: who may do what, which executor is registered, which codes are unused.

Secrets are kept as digests only. One statement per change, so that several services on one database agree:
`SqliteStore` is a file for one service, `PostgresStore` a database for several. Calls block: the service
makes them in a thread of its own.
"""

from __future__ import annotations

import fcntl
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
    """
    ALTER TABLE registrations ADD COLUMN kept INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX principals_revoked ON principals (revoked);
    """,
)
_POSTGRES = ("postgresql://", "postgres://")
_MIGRATING = 0x6F757466  # a lock of ours among those of the database
_BUSY_SECONDS = 10.0  # for another process, such as a command that lists environments


class SqliteStore:
    """A file, for one service. Commands on the same machine may open it, too."""

    def __init__(self, path: str, *, serving: bool = False) -> None:
        """Opens it for a command, or as the one service (`serving`). Raises SettingInvalid."""
        self._held = -1
        try:
            if path != ":memory:":
                # What is in it admits nobody, but tells who works with whom.
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._db = sqlite3.connect(
                path, timeout=_BUSY_SECONDS, check_same_thread=False, isolation_level=None
            )
            try:
                if serving and path != ":memory:":
                    self._held = _hold(path)
                self._db.execute("PRAGMA journal_mode = WAL")
                # A crash of the machine may lose the last moments, never more: everybody can register again.
                self._db.execute("PRAGMA synchronous = NORMAL")
                self._migrate()
            except BaseException:
                self.close()
                raise
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
        if self._held >= 0:
            os.close(self._held)
            self._held = -1


def _hold(path: str) -> int:
    """A lock that ends with this service: another one would say of our executors that they are offline.

    It is beside the file, as SQLite has locks of its own on that. Raises OSError, SettingInvalid.
    """
    fd = os.open(os.path.realpath(path) + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise SettingInvalid(
            f"another service uses the store {path}: stop that one, or name another file with --store"
        ) from None
    except OSError:
        os.close(fd)
        raise
    return fd


def open_store(where: str, *, serving: bool = False) -> Store:
    """The store at a path, or at a `postgresql://` URL. Raises SettingInvalid."""
    return PostgresStore(where) if where.startswith(_POSTGRES) else SqliteStore(where, serving=serving)


class PostgresStore:
    """A database for several services. Connects again when the connection is lost."""

    def __init__(self, url: str) -> None:
        """Raises SettingInvalid."""
        try:
            import psycopg
        except ImportError:
            text = "a PostgreSQL store needs psycopg: pip install 'outfitter[relay-postgres]'"
            raise SettingInvalid(text) from None
        self._library = psycopg
        self._url = url
        try:
            self._db = self._connect()
            try:
                self._migrate()
            except BaseException:
                self._db.close()
                raise
        except psycopg.Error as error:
            # Its text may repeat the password of the URL; its kind does not.
            raise SettingInvalid(f"the PostgreSQL store cannot be used: {type(error).__name__}") from None

    def _connect(self) -> Any:
        return self._library.connect(self._url, autocommit=True, connect_timeout=int(_BUSY_SECONDS))

    def _migrate(self) -> None:
        with self._db.transaction():
            self._db.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATING,))
            self._db.execute("CREATE TABLE IF NOT EXISTS schema_version (seen INTEGER NOT NULL)")
            found = self._db.execute("SELECT seen FROM schema_version").fetchall()
            seen = found[0][0] if found else 0
            if seen > len(MIGRATIONS):
                raise SettingInvalid(
                    "the store was written by a newer version of Outfitter: install that one"
                )
            for migration in MIGRATIONS[seen:]:
                self._db.execute(migration)
            self._db.execute("DELETE FROM schema_version")
            self._db.execute("INSERT INTO schema_version (seen) VALUES (%s)", (len(MIGRATIONS),))

    def rows(self, sql: str, *values: object) -> list[Row]:
        found: list[Row] = self._run(sql, values).fetchall()
        return found

    def change(self, sql: str, *values: object) -> int:
        changed: int = self._run(sql, values).rowcount
        return changed

    def _run(self, sql: str, values: tuple[object, ...]) -> Any:
        sql = sql.replace("?", "%s")
        try:
            return self._db.execute(sql, values)
        except self._library.OperationalError:
            # The server was restarted, or the network failed: every statement may be made again.
            self._db.close()
            self._db = self._connect()
            return self._db.execute(sql, values)

    def close(self) -> None:
        self._db.close()
