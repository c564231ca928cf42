"""The service in the middle: a registry over HTTP and a rendezvous over WebSocket, in one process.

It admits, and passes frames on; what they say it cannot read. The store is asked in a thread of its own, so
that a slow disk or database holds up no stream.
"""

from __future__ import annotations

from ..core.routing import GONE, Pass, Routes
from ..errors import InvalidParams
from ..log import note, warn
from ..protocol import registry as wire
from ..protocol.upgrade import Admitted, Response, parse_head, query_of, upgrade
from ..record import replace
from ..transport.base import HIGH
from ..transport.listener import Listener
from .api import ApiAnswer, ApiConnection, refused
from .asking import StoreThread
from .authority import NotGranted
from .counting import FULL, SHARE, URL, RelayCounts
from .limits import OTHER_STORE_SECONDS, PRUNE_SECONDS, SOCKETS_PER_PRINCIPAL, STORE_SECONDS, room
from .sockets import RelaySocket
from .tunnel import Tunnel, dial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..core.routing import Step
    from ..loop import EpollLoop, Timer
    from ..protocol.jsontext import Json
    from ..protocol.upgrade import Headers
    from ..protocol.websocket import Payload
    from ..stdlib import socket
    from ..transport.caller import SocketCaller
    from ..transport.sockets import Stream
    from .api import ApiRequest
    from .authority import Authority
    from .limits import RelayRoom

    Reply = Callable[[ApiAnswer], None]

# A harness that takes nothing for so long is let go: all others of its executor wait for it.
_SLOW_SECONDS = 5.0
_SAY_AGAIN_SECONDS = 10.0  # between two lines about a table that is full
_FILES = 1024  # that a process may open where nobody says more
_REVOKED_SECONDS = 2.0  # until who was revoked by another process is let go
_CLOCK_SECONDS = 60.0  # by which clocks of services on one store may differ
_PREFIX = "/cloud/environment/"
_DIRECT = "direct/register"
_CALLS: dict[str, Callable[[Json], Any]] = {
    "register": wire.RegisterParams.decode,
    "connect": wire.ConnectParams.decode,
    "validate": wire.ValidateParams.decode,
    "enrol": wire.EnrolParams.decode,
    "rotate": wire.RotateParams.decode,
}
_ENVIRONMENT_CALLS = ("register", "connect", "validate")


class Service(Listener):
    """Serves a listening socket until it is stopped."""

    def __init__(
        self,
        loop: EpollLoop,
        sock: socket,
        authority: Authority,
        *,
        prefix: str = "",
        secure: Callable[[socket, SocketCaller], Stream] | None = None,
        limits: RelayRoom | None = None,
    ) -> None:
        """`prefix` is the path below which a proxy shows the service."""
        self.limits = room(_FILES) if limits is None else limits
        super().__init__(loop, sock, _nobody, _unused, self.limits.sockets, secure=secure)
        self.attempts.narrow(self.limits.strangers)
        self.counts = RelayCounts()
        self._full_said = -_SAY_AGAIN_SECONDS
        self._authority = authority
        self._asking = StoreThread(loop)
        self._prefix = prefix.rstrip("/") + _PREFIX
        self._enrol = prefix.rstrip("/") + "/enrol"
        self._rotate = prefix.rstrip("/") + "/rotate"
        self.routes = Routes()
        self._sockets: dict[int, RelaySocket] = {}
        self._api: dict[ApiConnection, None] = {}  # in the order in which they came
        self._tunnels: set[Tunnel] = set()
        self._dialling = 0  # those that will be
        self._admitting = 0  # who waits for the store
        self._late: dict[Stream, tuple[Timer, Response]] = {}  # who is refused later, the oldest first
        self._numbers = 0
        self.environments: dict[int, str] = {}  # of executors' sockets
        self._held: dict[str, int] = {}  # harness sockets of each principal, through tunnels too
        authority.forget_attachments()
        self._prune()
        self._looked = authority.now()
        loop.call_later(_REVOKED_SECONDS, self._look_for_revoked)

    # What comes in

    def heir(self, head: bytes, caller: SocketCaller) -> Callable[[Stream, bytes], None] | None:
        parsed = parse_head(head)
        if parsed is None or "origin" in parsed[2]:
            return None
        path = parsed[1]
        if not path.startswith(self._prefix) and path not in (self._enrol, self._rotate):
            return None
        environment_id, _, what = path.removeprefix(self._prefix).partition("/")
        if what == "rendezvous":
            return lambda sock, rest: self._admit(sock, head, rest, environment_id, caller)
        if len(self._api) >= self.limits.api and not self._drop_idle():
            return self._turn_away_full

        def answer(request: ApiRequest, reply: Reply) -> None:
            self._answer(request, lambda said: self._reply(said, reply, caller.source))

        def begin(sock: Stream, rest: bytes) -> None:
            said = head + b"\r\n\r\n" + rest
            self._api[ApiConnection(self._loop, sock, said, answer, self._api.pop)] = None

        return begin

    def judge(self, head: bytes, caller: SocketCaller) -> Response:
        parsed = parse_head(head)
        if parsed is not None and parsed[1] == "/":
            return Response(404)  # the gate is for /metrics alone
        self.draining = self._asking.slow
        return super().judge(head, caller)

    # The registry

    def _reply(self, said: ApiAnswer, reply: Reply, source: str) -> None:
        """A refusal of who is not known comes later and later, for each source."""
        if said.status != 200:
            self.counts.refuse_call(said.status)
        wait = self.attempts.failed(source) if said.status in (401, 403) else 0.0
        reply(replace(said, wait=wait))

    def _answer(self, request: ApiRequest, reply: Reply) -> None:
        if request.path == self._enrol and request.method == "POST":
            self._decide("enrol", request, reply, lambda asked: self._authority.enrol(asked.code))
            return
        token = _bearer(request.headers)
        if token is None:
            reply(refused(401, "unauthorized", "send a token as Authorization: Bearer TOKEN"))
            return
        if request.path == self._rotate and request.method == "POST":
            self._decide("rotate", request, reply, lambda _: self._authority.rotate(token))
            return
        environment_id, _, what = request.path.removeprefix(self._prefix).partition("/")
        known = request.method == "POST" and wire.is_environment_id(environment_id)
        if known and what == _DIRECT:
            reply(refused(501, "direct_unsupported", "this service has no direct transport: use noise"))
            return
        if not known or what not in _ENVIRONMENT_CALLS:
            reply(refused(404, "not_found", "there is no such call"))
            return
        decide: Callable[..., Any] = getattr(self._authority, what)
        self._decide(what, request, reply, lambda params: decide(token, environment_id, params))

    def _decide(self, what: str, request: ApiRequest, reply: Reply, decide: Callable[[Any], Any]) -> None:
        try:
            params = _CALLS[what](request.body)
        except InvalidParams as error:
            reply(refused(400, "bad_request", str(error)))
            return

        def done(result: Any, error: Exception | None) -> None:
            if isinstance(error, NotGranted):
                reply(refused(error.status, error.code, error.message, error.retry_after))
            elif error is not None:
                reply(refused(503, "unavailable", "the registry cannot answer now; try again"))
            else:
                self.counts.granted(what)
                if isinstance(result, wire.ValidateAnswer) and not result.valid:
                    self.counts.validations_refused += 1
                reply(ApiAnswer(200, result.encode()))

        self._asking.ask(lambda: decide(params), done, STORE_SECONDS.get(what, OTHER_STORE_SECONDS))

    # The rendezvous

    def _admit(
        self, sock: Stream, head: bytes, rest: bytes, environment_id: str, caller: SocketCaller
    ) -> None:
        parsed, asked = parse_head(head), query_of(head)
        assert parsed is not None
        method, _, headers = parsed
        role, principal = asked.get("role", ""), asked.get("principal", "")

        def decided(holder: str | None, error: Exception | None) -> None:
            if error is not None:
                response = Response(503, "the registry cannot answer now; try again", cause="store")
            elif holder is None:
                response = Response(401, "this URL does not admit any more: ask the registry for another")
            elif role == "harness" and holder not in ("", self._authority.instance):
                self._reach(holder, sock, head + b"\r\n\r\n" + rest, principal)
                return
            else:
                response = upgrade(method, headers, lambda *_: Admitted(principal), caller)
            response = self._fitting(response, role)
            wait = 0.0
            if response.admitted is None:
                self.counts.refuse(response.cause or URL)
                wait = self.attempts.failed(caller.source) if response.status == 401 else 0.0
            if wait:
                self._refuse_later(wait, sock, response)
            else:
                self._answer_upgrade(sock, rest, response, environment_id, role, caller.address)

        ticket = (environment_id, role, asked.get("registration", ""), principal, asked.get("sig", ""))
        if not self._authority.has_signed(*ticket):
            decided(None, None)  # anybody can make up such URLs: the store is not asked
            return
        # The store may be slow: who waits for it has a descriptor, as who is admitted.
        refusal = self._no_room(role, principal)
        if refusal is not None:
            self.counts.refuse(refusal.cause)
            _refuse(sock, refusal)
            return
        self._admitting += 1
        self._held[principal] = self._held.get(principal, 0) + 1

        def told(holder: str | None, error: Exception | None) -> None:
            self._admitting -= 1
            self._let_go(principal)
            decided(holder, error)

        self._asking.ask(lambda: self._authority.admission(*ticket), told)

    def _fitting(self, response: Response, role: str) -> Response:
        """The same, or a refusal where there is no room."""
        if response.admitted is None:
            return response
        return self._no_room(role, response.admitted.principal) or response

    def _no_room(self, role: str, principal: str) -> Response | None:
        if len(self._sockets) + self._admitting >= self.limits.sockets:
            self._say_full("sockets", self.limits.sockets)
            return Response(503, "this service has all the connections it may have; try again", cause=FULL)
        held = self._held.get(principal, 0)
        if role == "harness" and held >= SOCKETS_PER_PRINCIPAL:
            return _too_many(held)
        return None

    def _refuse_later(self, wait: float, sock: Stream, response: Response) -> None:
        """Keeps no more of those who are refused than of those who are not known yet: the oldest hears it
        now."""
        if len(self._late) >= self.limits.strangers:
            self._refuse_now(next(iter(self._late)))
        self._late[sock] = self._loop.call_later(wait, self._refuse_now, sock), response

    def _refuse_now(self, sock: Stream) -> None:
        timer, response = self._late.pop(sock)
        timer.cancel()
        _refuse(sock, response)

    def _say_full(self, what: str, limit: int) -> None:
        now = self._loop.time()
        if now - self._full_said >= _SAY_AGAIN_SECONDS:
            self._full_said = now
            warn(
                "relay",
                "all %s of %s are taken, with %s open files allowed: raise the limit (ulimit -n, or "
                "LimitNOFILE= in a systemd unit), or add a service on the same store",
                limit,
                what,
                self.limits.files,
            )

    def _drop_idle(self) -> bool:
        """Ends the oldest connection to the registry that waits for no answer, or only for a refusal, so that
        nobody fills the table by saying nothing or by being refused; whether there was one."""
        for one in self._api:
            if one.delayed or not one.busy:
                one.close()
                return True
        return False

    def _turn_away_full(self, sock: Stream, rest: bytes) -> None:
        self.counts.refuse(FULL)
        self._say_full("connections to the registry", self.limits.api)
        _refuse(sock, Response(503, "the registry has too many connections; try again"))

    def _reach(self, holder: str, near: Stream, said: bytes, principal: str) -> None:
        """The executor is connected to another service: the harness is, too, through this one. One that is
        being dialled has a thread and as many descriptors as a tunnel."""
        held = self._held.get(principal, 0)
        response = None
        if len(self._tunnels) + self._dialling >= self.limits.tunnels:
            self._say_full("tunnels to other services", self.limits.tunnels)
            response = Response(503, "this service has all the tunnels it may have; try again", cause=FULL)
        elif held >= SOCKETS_PER_PRINCIPAL:
            response = _too_many(held)
        if response is not None:
            self.counts.refuse(response.cause)
            _refuse(near, response)
            return
        self._dialling += 1
        self._held[principal] = held + 1
        dial(self._loop, holder, lambda far: self._join(near, far, said, principal))

    def _join(self, near: Stream, far: Stream | None, said: bytes, principal: str) -> None:
        self._dialling -= 1
        if far is None:
            self._let_go(principal)
            _refuse(near, Response(503, "the service that has the executor does not answer; try again"))
            return

        def over(tunnel: Tunnel) -> None:
            self._tunnels.discard(tunnel)
            self._let_go(principal)

        self._tunnels.add(Tunnel(self._loop, near, far, said, over))

    def _answer_upgrade(
        self, sock: Stream, rest: bytes, response: Response, environment_id: str, role: str, address: str
    ) -> None:
        if response.admitted is None:
            _refuse(sock, response)
            return
        said = response.encode()
        try:
            sent = sock.send(said)
        except OSError:
            sent = 0
        if sent != len(said):
            sock.close()
            return
        one = RelaySocket(self._loop, sock, self, response.admitted, address)
        self._numbers += 1
        one.number = self._numbers
        self.open.add(one)
        self._sockets[one.number] = one
        if role == "environment":
            self.environments[one.number] = environment_id
            steps = self.routes.attach(environment_id, one.number)
            self._tell_store(self._authority.attached, environment_id, one)
            self.counts.executors += 1
            note("relay", "=", "an executor of %s is connected from %s", environment_id, address)
        else:
            self.counts.harnesses += 1
            self._held[one.principal] = self._held.get(one.principal, 0) + 1
            steps = self.routes.join(environment_id, one.number)
        one.receiver = _End(self, one)
        self._do(one, steps)
        one.begin(rest)

    def _look_for_revoked(self) -> None:
        """Lets go whoever was revoked since the last time, by this process or another."""
        since, self._looked = self._looked, self._authority.now()

        def done(revoked: list[str] | None, error: Exception | None) -> None:
            self._loop.call_later(_REVOKED_SECONDS, self._look_for_revoked)
            if revoked is None:
                self._looked = since  # the store could not tell: it is asked again
                return
            for one in list(self._sockets.values()):
                if one.principal in revoked:
                    one.close(1008, "who opened this connection was revoked")

        self._asking.ask(lambda: self._authority.revoked_since(since - _CLOCK_SECONDS), done)

    def _tell_store(
        self, change: Callable[[str], None], environment_id: str, came: RelaySocket | None = None
    ) -> None:
        def done(_: Any, error: Exception | None) -> None:
            if error is not None:
                warn("relay", "the store does not know where %s is: %s", environment_id, type(error).__name__)
                if came is not None:  # nobody would find it here, for as long as it stays
                    came.close(1013, "the registry does not know of this connection; come back")

        self._asking.tell(lambda: change(environment_id), done)

    def _prune(self) -> None:
        """The store forgets what has expired, now and every minute."""

        def done(_: Any, error: Exception | None) -> None:
            self._loop.call_later(PRUNE_SECONDS, self._prune)

        self._asking.tell(self._authority.prune, done)

    def _do(self, source: RelaySocket, steps: list[Step]) -> None:
        for step in steps:
            target = self._sockets.get(step.socket)
            if target is None:
                continue
            if isinstance(step, Pass):
                target.send_frame(step.data)
                if target.buffered > HIGH and source.waits_for is None:
                    self._hold(source, target)
            else:
                target.close(step.code, step.reason)

    # One that takes less than another brings

    def _hold(self, source: RelaySocket, target: RelaySocket) -> None:
        source.waits_for = target
        target.keeps_waiting += (source,)
        source.pause_reading()
        if source.number in self.environments:
            self._loop.call_later(_SLOW_SECONDS, self._give_up, source, target, target.moved)

    def _give_up(self, source: RelaySocket, target: RelaySocket, moved: float) -> None:
        if source.waits_for is not target or target.number not in self._sockets:
            return
        if target.moved == moved:
            target.close(1013, "the connection takes too little; come back and resume")
        else:
            self._loop.call_later(_SLOW_SECONDS, self._give_up, source, target, target.moved)

    def drained(self, target: RelaySocket) -> None:
        waited, target.keeps_waiting = target.keeps_waiting, ()
        for one in waited:
            one.waits_for = None
            one.resume_reading()

    # What the sockets say

    def message(self, one: RelaySocket, data: Payload) -> None:
        if not isinstance(data, bytes):
            one.close(1003, "relay frames are binary messages")
            return
        number = self.routes.target(one.number, data)
        target = None if number is None else self._sockets.get(number)
        if target is None:
            self._do(one, self.routes.received(one.number, data))
            return
        self.counts.bytes += len(data)
        target.send_frame(data)
        if target.buffered > HIGH and one.waits_for is None:
            self._hold(one, target)

    def lost(self, one: RelaySocket) -> None:
        self._sockets.pop(one.number, None)
        environment_id = self.environments.pop(one.number, None)
        if environment_id is None:
            self._let_go(one.principal)
        steps = self.routes.lost(one.number)
        self._do(one, steps)
        self.drained(one)
        if environment_id is not None and not self.routes.online(environment_id):
            self._tell_store(self._authority.detached, environment_id)
            note("relay", "=", "the executor of %s is gone", environment_id)

    def _let_go(self, principal: str) -> None:
        left = self._held.get(principal, 0) - 1
        if left > 0:
            self._held[principal] = left
        else:
            self._held.pop(principal, None)

    @property
    def open_sockets(self) -> dict[str, int]:
        """How many there are of each kind."""
        executors, harnesses, _ = self.routes.counts
        return {
            "executor": executors,
            "harness": harnesses,
            "registry": len(self._api),
            "tunnel": 2 * len(self._tunnels),
            "stranger": len(self.attempts),
        }

    @property
    def waiting(self) -> int:
        """Questions that the store has not answered."""
        return len(self._asking)

    def leave(self, reason: str) -> None:
        """Tells everybody that the service ends; they come back, to this one or another."""
        for one in list(self._sockets.values()):
            one.close(GONE, reason)
        for connection in list(self._api):
            connection.close()
        for tunnel in list(self._tunnels):
            tunnel.close()
        for sock in list(self._late):
            self._refuse_now(sock)

    def settle(self) -> None:
        """Waits until the store knows all that has happened; nothing else may be asked."""
        self._asking.stop()


class _End:
    """Tells the service what one socket does."""

    def __init__(self, service: Service, one: RelaySocket) -> None:
        self._service = service
        self._one = one

    def message(self, data: Payload) -> None:
        self._service.message(self._one, data)

    def drained(self) -> None:
        self._service.drained(self._one)

    def lost(self, reason: str) -> None:
        self._service.lost(self._one)


def _bearer(headers: Headers) -> str | None:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def _too_many(held: int) -> Response:
    return Response(429, f"you have {held} connections, the most you may: close some", cause=SHARE)


def _refuse(sock: Stream, response: Response) -> None:
    try:
        sock.send(response.encode())
        sock.shutdown(1)
    except OSError:
        pass
    sock.close()


def _nobody(headers: Headers, caller: object) -> Response:
    return Response(404)


def _unused(transport: object) -> None:
    raise AssertionError("nobody is admitted at /")
