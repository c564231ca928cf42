"""What a registry grants, and to whom: every decision of the service that is not about sockets.

Tokens, codes and authorizations are random and known by their digests alone. Whoever may not use an
environment learns nothing of it: an unknown one and a forbidden one are refused with the same words.
"""

from __future__ import annotations

import hmac
import os

from ..core.rates import Rates
from ..errors import OutfitterError, SettingInvalid
from ..protocol.jsontext import dumps, loads
from ..protocol.registry import (
    EXECUTE,
    OFFLINE,
    PROFILE,
    ROLES,
    USE,
    ConnectAnswer,
    EnrolAnswer,
    KeyObject,
    RegisterAnswer,
    RotateAnswer,
    ValidateAnswer,
    is_environment_id,
    pool_of,
)
from ..stdlib import sha256
from .limits import AUDIT_ROWS, AUDIT_SECONDS, RATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..protocol.registry import ConnectParams, RegisterParams, ValidateParams
    from .store import Store

CODE_SECONDS = 15 * 60  # a person carries it to another machine by hand
AUTHORIZATION_SECONDS = 60  # from the registry to the executor, through a connection that is being made
GRACE_SECONDS = 10 * 60  # that an old token still works: whoever shares its file reads the new one by then
_ROLES = {"environment": EXECUTE, "harness": USE}  # what a ticket's holder must be allowed to do
_TOKENS = 16  # of one principal, old ones in their last minutes among them
_TOKEN_BYTES = 32
_LEFT_SECONDS = 3600.0  # that an executor of a pool may be gone before its registration is forgotten


class NotGranted(OutfitterError):
    """A request of the registry is not granted: an HTTP status, a stable code and a sentence."""

    slug = "registry-refused"

    def __init__(self, status: int, code: str, message: str, retry_after: int = 0) -> None:
        super().__init__(status, code, message)
        self.retry_after = retry_after  # seconds, where it is worth asking again
        self.status = status
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return self.message


def unknown() -> NotGranted:
    return NotGranted(404, "environment_not_found", "there is no such environment, or you may not use it")


class Authority:
    """Decides with what the store knows. Calls block."""

    def __init__(self, store: Store, clock: Callable[[], float], url: str, instance: str = "") -> None:
        """`url` is where sockets are opened, as clients reach it: ws(s)://HOST[:PORT][/PATH]."""
        self._store = store
        self._clock = clock
        self._url = url.rstrip("/")
        self.instance = instance
        self._rates = {call: Rates(rate) for call, rate in RATES.items()}
        self._secret = self._signing_secret()

    def _signing_secret(self) -> bytes:
        """Shared by all services on one store; made by the first."""
        self._store.change(
            "INSERT INTO secrets (name, value) VALUES ('tickets', ?) ON CONFLICT DO NOTHING",
            os.urandom(32).hex(),
        )
        [(found,)] = self._store.rows("SELECT value FROM secrets WHERE name = 'tickets'")
        return bytes.fromhex(found)

    # Who is asking

    def principal_of(self, token: str) -> str:
        """Raises NotGranted."""
        now = self._clock()
        found = self._store.rows(
            "SELECT tokens.principal FROM tokens JOIN principals ON principals.id = tokens.principal "
            "WHERE digest = ? AND (expires IS NULL OR expires > ?) AND principals.revoked IS NULL",
            digest(token),
            now,
        )
        if not found:
            raise NotGranted(401, "unauthorized", "the token is not known here, or was revoked")
        principal: str = found[0][0]
        return principal

    def _caller(self, token: str, call: str, environment_id: str, role: str) -> str:
        """Who has this token, if it may call now. Raises NotGranted."""
        principal = self.principal_of(token)
        found = self._rights(principal, environment_id, role)
        rate = f"pool {call}" if found == f"{role}-pool" else call
        wait = self._rates.get(rate, self._rates[call]).take(principal, self._clock())
        if wait:
            seconds = int(wait) + 1
            raise NotGranted(
                429, "too_many_calls", f"too many `{call}` calls: wait {seconds} s", retry_after=seconds
            )
        if not found:
            raise unknown()
        return principal

    def _rights(self, principal: str, environment_id: str, role: str) -> str:
        """By which role a principal may do what `role` says; empty: not at all."""
        found = self._store.rows(
            "SELECT role FROM rights WHERE principal = ? "
            "AND ((environment = ? AND role = ?) OR (environment = ? AND role = ?))",
            principal,
            environment_id,
            role,
            pool_of(environment_id),
            f"{role}-pool",
        )
        return found[0][0] if found else ""

    # The three calls

    def register(self, token: str, environment_id: str, asked: RegisterParams) -> RegisterAnswer:
        """An executor comes, or comes again: the registration before it does not count any more."""
        principal = self._caller(token, "register", environment_id, EXECUTE)
        registration = _name()
        now = self._clock()
        self._store.change(
            "INSERT INTO registrations (environment, id, executor_key, principal, created, kept) "
            "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (environment) DO UPDATE SET id = excluded.id, "
            "executor_key = excluded.executor_key, principal = excluded.principal, "
            "created = excluded.created, kept = excluded.kept",
            environment_id,
            registration,
            dumps(asked.executor.encode()),
            principal,
            now,
            int(asked.kept),
        )
        self._store.change("UPDATE environments SET last_seen = ? WHERE id = ?", now, environment_id)
        self.record(principal, "registered", environment_id, f"registration {registration[:8]}")
        url = self._ticket("environment", environment_id, registration, principal)
        return RegisterAnswer(environment_id, url, PROFILE, registration)

    def connect(self, token: str, environment_id: str, asked: ConnectParams) -> ConnectAnswer:
        """A harness wants to begin a stream: it gets what admits it once, with this key."""
        principal = self._caller(token, "connect", environment_id, USE)
        found = self._store.rows(
            "SELECT registrations.id, executor_key, kept FROM registrations "
            "JOIN attachments ON attachments.environment = registrations.environment "
            "WHERE registrations.environment = ?",
            environment_id,
        )
        if not found:
            raise NotGranted(409, OFFLINE, "the executor is not connected now")
        registration, key, kept = found[0]
        authorization = _name()
        now = self._clock()
        self._store.change(
            "INSERT INTO authorizations (digest, environment, registration, harness_key, principal, expires) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            digest(authorization),
            environment_id,
            registration,
            key_digest(asked.harness),
            principal,
            now + AUTHORIZATION_SECONDS,
        )
        self.record(principal, "connected", environment_id, "")
        url = self._ticket("harness", environment_id, registration, principal)
        executor = KeyObject.decode(loads(key))
        return ConnectAnswer(environment_id, url, PROFILE, registration, executor, authorization, bool(kept))

    def validate(self, token: str, environment_id: str, asked: ValidateParams) -> ValidateAnswer:
        """The executor asks whether a harness may; whatever the answer is, it is given once."""
        principal = self._caller(token, "validate", environment_id, EXECUTE)
        used = self._store.rows(
            "DELETE FROM authorizations WHERE digest = ? AND environment = ? AND registration = ? "
            "AND harness_key = ? AND expires > ? "
            "AND registration IN (SELECT id FROM registrations WHERE environment = ? AND principal = ?) "
            "RETURNING principal",
            digest(asked.authorization),
            environment_id,
            asked.registration_id,
            key_digest(asked.harness),
            self._clock(),
            environment_id,
            principal,
        )
        if not used:
            self.record(principal, "refused", environment_id, "a harness without a valid authorization")
            return ValidateAnswer(False)
        return ValidateAnswer(True, used[0][0])

    # Tickets: URLs that admit to the rendezvous

    def _ticket(self, role: str, environment_id: str, registration: str, principal: str) -> str:
        signature = self._sign(role, environment_id, registration, principal)
        path = f"{self._url}/cloud/environment/{environment_id}/rendezvous"
        return f"{path}?role={role}&registration={registration}&principal={principal}&sig={signature}"

    def _sign(self, *said: str) -> str:
        return hmac.digest(self._secret, "\n".join(said).encode(), "sha256").hex()

    def has_signed(
        self, environment_id: str, role: str, registration: str, principal: str, signature: str
    ) -> bool:
        """Whether a URL is one of ours."""
        expected = self._sign(role, environment_id, registration, principal)
        return role in _ROLES and hmac.compare_digest(expected.encode(), signature.encode())

    def admission(
        self, environment_id: str, role: str, registration: str, principal: str, signature: str
    ) -> str | None:
        """The service that has the executor, "" where none has; None unless the URL is one of ours, its
        registration is still the current one, and neither end was revoked."""
        if not self.has_signed(environment_id, role, registration, principal, signature):
            return None
        found = self._store.rows(
            "SELECT attachments.instance FROM registrations "
            "JOIN principals executors ON executors.id = registrations.principal "
            "JOIN rights ON (rights.environment = registrations.environment AND rights.role = ?) "
            "OR (rights.environment = ? AND rights.role = ?) "
            "JOIN principals ON principals.id = rights.principal "
            "LEFT JOIN attachments ON attachments.environment = registrations.environment "
            "WHERE registrations.environment = ? AND registrations.id = ? "
            "AND principals.id = ? AND principals.revoked IS NULL AND executors.revoked IS NULL",
            _ROLES[role],
            pool_of(environment_id),
            f"{_ROLES[role]}-pool",
            environment_id,
            registration,
            principal,
        )
        return None if not found else found[0][0] or ""

    def revoked_since(self, when: float) -> list[str]:
        """The principals that were revoked at `when` or later."""
        return [one for (one,) in self._store.rows("SELECT id FROM principals WHERE revoked >= ?", when)]

    def now(self) -> float:
        return self._clock()

    # Which service has which executor

    def attached(self, environment_id: str) -> None:
        now = self._clock()
        self._store.change(
            "INSERT INTO attachments (environment, instance, since) VALUES (?, ?, ?) "
            "ON CONFLICT (environment) DO UPDATE SET instance = excluded.instance, since = excluded.since",
            environment_id,
            self.instance,
            now,
        )
        self._store.change("UPDATE environments SET last_seen = ? WHERE id = ?", now, environment_id)

    def detached(self, environment_id: str) -> None:
        self._store.change(
            "DELETE FROM attachments WHERE environment = ? AND instance = ?", environment_id, self.instance
        )
        self._store.change(
            "UPDATE environments SET last_seen = ? WHERE id = ?", self._clock(), environment_id
        )

    def forget_attachments(self) -> None:
        """This service starts: nobody is connected to it."""
        self._store.change("DELETE FROM attachments WHERE instance = ?", self.instance)

    # What operators do

    def code(self, name: str, environment_id: str, role: str) -> str:
        """A one-time code with which somebody gets a token for an environment. Raises SettingInvalid."""
        if not is_environment_id(environment_id):
            raise SettingInvalid(
                f"`{environment_id}` is no environment id: use letters, digits, `.`, `-` and `_`"
            )
        if role not in ROLES:
            raise SettingInvalid(f"`{role}` is no role: write one of {', '.join(ROLES)}")
        now = self._clock()
        self._store.change(
            "INSERT INTO environments (id, created) VALUES (?, ?) ON CONFLICT DO NOTHING", environment_id, now
        )
        code = _name()
        self._store.change(
            "INSERT INTO codes (digest, name, environment, role, expires) VALUES (?, ?, ?, ?, ?)",
            digest(code),
            name,
            environment_id,
            role,
            now + CODE_SECONDS,
        )
        self.record("", "code made", environment_id, f"{role} for {name}")
        return code

    def enrol(self, code: str) -> EnrolAnswer:
        """A token and what it is for, in return for a code, which works once. Raises NotGranted."""
        used = self._store.rows(
            "DELETE FROM codes WHERE digest = ? AND expires > ? RETURNING name, environment, role",
            digest(code),
            self._clock(),
        )
        if not used:
            raise NotGranted(403, "code_refused", "the code is wrong, used or expired: ask for another")
        name, environment_id, role = used[0]
        principal, token = _name()[:16], _name()
        now = self._clock()
        self._store.change(
            "INSERT INTO principals (id, name, created) VALUES (?, ?, ?)", principal, name, now
        )
        self._store.change(
            "INSERT INTO rights (principal, environment, role) VALUES (?, ?, ?)",
            principal,
            environment_id,
            role,
        )
        self._add_token(principal, token)
        self.record(principal, "enrolled", environment_id, f"{role} for {name}")
        return EnrolAnswer(token, principal, environment_id, role)

    def _add_token(self, principal: str, token: str) -> None:
        self._store.change(
            "INSERT INTO tokens (digest, principal, created) VALUES (?, ?, ?)",
            digest(token),
            principal,
            self._clock(),
        )

    def rotate(self, token: str) -> RotateAnswer:
        """A new token for who has this one, which still works for a while: an answer that is lost can be
        asked for again. Raises NotGranted."""
        principal = self.principal_of(token)
        fresh = _name()
        now = self._clock()
        self._store.change("DELETE FROM tokens WHERE principal = ? AND expires <= ?", principal, now)
        [(tokens,)] = self._store.rows("SELECT count(*) FROM tokens WHERE principal = ?", principal)
        if tokens >= _TOKENS:
            raise NotGranted(429, "too_many_tokens", "the token was rotated too often: wait ten minutes")
        self._add_token(principal, fresh)
        self._store.change(
            "UPDATE tokens SET expires = ? WHERE digest = ? AND expires IS NULL",
            now + GRACE_SECONDS,
            digest(token),
        )
        self.record(principal, "rotated", "", "")
        return RotateAnswer(fresh, GRACE_SECONDS)

    def revoke(self, principal: str) -> list[str]:
        """Ends what a principal may do; the environments whose executor it is. Raises NotGranted."""
        done = self._store.change(
            "UPDATE principals SET revoked = ? WHERE id = ? AND revoked IS NULL", self._clock(), principal
        )
        if not done:
            raise NotGranted(
                404, "principal_not_found", f"there is no principal `{principal}`, or it was revoked"
            )
        self._store.change("DELETE FROM authorizations WHERE principal = ?", principal)
        self.record(principal, "revoked", "", "")
        found = self._store.rows("SELECT environment FROM registrations WHERE principal = ?", principal)
        return [environment_id for (environment_id,) in found]

    def overview(self) -> list[dict[str, Any]]:
        """Who may do what, for people and programs: each value has the type that its name says."""
        found = self._store.rows(
            "SELECT rights.environment, role, name, principals.id, environments.last_seen, attachments.since "
            "FROM rights JOIN principals ON principals.id = rights.principal "
            "JOIN environments ON environments.id = rights.environment "
            "LEFT JOIN attachments ON attachments.environment = rights.environment "
            "WHERE revoked IS NULL ORDER BY rights.environment, role, name, principals.id"
        )
        names = ("environment", "role", "name", "principal", "lastSeen")
        return [dict(zip(names, row, strict=False)) | {"online": row[5] is not None} for row in found]

    def audit(self, limit: int) -> list[dict[str, Any]]:
        """What has happened, the newest first. A name stands beside the id of each principal."""
        found = self._store.rows(
            "SELECT at, audit.principal, principals.name, what, environment, detail FROM audit "
            "LEFT JOIN principals ON principals.id = audit.principal ORDER BY at DESC LIMIT ?",
            limit,
        )
        names = ("at", "principal", "name", "what", "environment", "detail")
        return [dict(zip(names, row, strict=True)) for row in found]

    def prune(self) -> None:
        """Forgets what has expired, and of what has happened all but the newest."""
        now = self._clock()
        for table in ("authorizations", "codes", "tokens"):
            self._store.change(f"DELETE FROM {table} WHERE expires < ?", now)
        # Those that nobody has made a code for are of a pool, and have names that do not come again.
        self._store.change(
            "DELETE FROM registrations WHERE created < ? "
            "AND environment NOT IN (SELECT environment FROM attachments) "
            "AND environment NOT IN (SELECT id FROM environments)",
            now - _LEFT_SECONDS,
        )
        self._store.change("DELETE FROM audit WHERE at < ?", now - AUDIT_SECONDS)
        self._store.change(
            "DELETE FROM audit WHERE at <= (SELECT at FROM audit ORDER BY at DESC LIMIT 1 OFFSET ?)",
            AUDIT_ROWS,
        )

    def record(self, principal: str, what: str, environment_id: str, detail: str) -> None:
        self._store.change(
            "INSERT INTO audit (at, principal, what, environment, detail) VALUES (?, ?, ?, ?, ?)",
            self._clock(),
            principal,
            what,
            environment_id,
            detail,
        )


def digest(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def key_digest(key: KeyObject) -> str:
    return sha256(key.x25519 + key.mlkem).hexdigest()


def _name() -> str:
    """Something nobody guesses."""
    return os.urandom(_TOKEN_BYTES).hex()
