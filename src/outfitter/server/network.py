"""The managed network of one command: its proxy, who hears of verdicts, and who is asked.

It begins before the command and ends with it. What cannot be asked or enforced is refused.
"""

from __future__ import annotations

import os
import time

from ..core.network import UNANSWERED, Destination, NetworkPolicy, decided
from ..env.proxied import HTTP_PORT, SOCKS_PORT, proxied
from ..errors import InvalidParams, SandboxUnavailable
from ..host.sandbox.proxy import Proxy
from ..host.uids import ours
from ..log import note
from ..protocol.network import DecisionNotice, PolicyAnswer, PolicyRequestParams, Wanted
from ..protocol.network import check as check_proxy
from ..record import replace
from ..stdlib import socket
from ..transport.caller import SocketCaller
from ..transport.sockets import listen
from .limits import LONGEST_QUESTION_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..contract.contract import Ready
    from ..core.network import NetworkVerdict
    from ..env.layer import Layer
    from ..protocol.jsontext import Json
    from ..protocol.network import NetworkParams, NetworkProxy
    from .services import Services
    from .session import Session

_LOOPBACK = ("127.0.0.1", "::1")


def check(params: NetworkParams) -> None:
    """Raises InvalidParams for what no command can be started with."""
    if params.proxy is None:
        raise SandboxUnavailable(
            "`enforceManagedNetwork` needs a `networkProxy`, through which the command is to reach others"
        )
    check_proxy(params.proxy)
    NetworkPolicy(params.proxy.rules)


def in_sandbox(params: NetworkProxy) -> Layer:
    """What leads a command in a sandbox to its proxy, which listens there before the command runs."""
    rules = params.rules
    return proxied(HTTP_PORT, SOCKS_PORT if rules.socks else None, local=rules.local)


class ManagedNetwork:
    """A proxy for one command (and its Watcher)."""

    def __init__(self, services: Services, session: Session, process_id: str, params: NetworkProxy) -> None:
        """Raises InvalidParams."""
        self._services = services
        self._session = session
        self._process_id = process_id
        self.params = params
        self.is_outside = False  # it listens where other users of this machine can connect, too
        self._asking: dict[Destination, list[Callable[[NetworkVerdict], None]]] = {}
        self.proxy = Proxy(
            NetworkPolicy(params.rules),
            self,
            loop=services.loop,
            resolver=services.resolver,
            descriptors=services.sessions.descriptors,
            own_ports=services.own_ports,
            lets_in=self._lets_in,
        )

    @property
    def principal(self) -> str:
        return self._session.principal

    # Where it listens

    def joined(self, ready: Ready, *, inside: bool) -> Ready:
        """The environment of the command, with what leads to the proxy: inside its sandbox, or on this
        machine's loopback. Raises OSError."""
        layer = in_sandbox(self.params) if inside else self.outside()
        return replace(ready, asked=replace(ready.asked, network=layer))

    def before(self, pid: int, then: Callable[[], None]) -> None:
        """Listens in the sandbox of a process that waits for it. Raises LaunchFailed."""
        places = [(address, HTTP_PORT) for address in _LOOPBACK]
        if self.params.rules.socks:
            places += [(address, SOCKS_PORT) for address in _LOOPBACK]

        def opened(sockets: list[tuple[socket, int]], why: str) -> None:
            if self.proxy.closed or why:
                for sock, _ in sockets:
                    sock.close()
                self._fail(why)
                return
            for sock, port in sockets:
                self.proxy.listen(sock, "socks" if port == SOCKS_PORT else "http")
            then()

        self._services.sessions.net_opener.open(pid, places, opened)

    def _fail(self, why: str) -> None:
        """Ends a command that would run without its proxy."""
        process = self._session.processes.get(self._process_id)
        if process is not None and not process.closed:
            process.remark(f"[outfitter] the command has no network, and was ended: {why}\n".encode())
            process.terminate()

    def outside(self) -> Layer:
        """Listens on this machine's loopback, for a command without a sandbox, which may go other ways."""
        http = self._listen("http")
        socks = self._listen("socks") if self.params.rules.socks else None
        return proxied(http, socks, local=self.params.rules.local)

    def _listen(self, kind: str) -> int:
        self.is_outside = True
        sock = listen(_LOOPBACK[0], 0)
        self.proxy.listen(sock, kind)
        port: int = sock.getsockname()[1]
        return port

    def adopt(self, fds: list[tuple[int, str]], *, outside: bool) -> None:
        """Goes on with sockets that listen already."""
        self.is_outside = outside
        for fd, kind in fds:
            self.proxy.listen(socket(fileno=fd), kind)

    def _lets_in(self, sock: socket) -> bool:
        """Whether it is of the commands' user, or of a command: whatever another user of this machine reached
        through us would take it for ours."""
        if not self.is_outside:
            return True
        caller = SocketCaller(sock)
        uid = caller.uid()
        if uid in ours() or self._has_become(uid, caller.socket_number()):
            return True
        note("server", "!", "refused %s, of uid %s, at the proxy of a command", caller.address, uid)
        return False

    def _has_become(self, uid: int | None, number: int | None) -> bool:
        """Whether it is a command of root's that is another user now, such as apt's downloads are."""
        if uid is None or not number or os.geteuid() != 0:
            return False
        from ..host.sandbox.callers import is_below

        return is_below(number)

    # What it says and asks

    def decided(self, target: Destination, verdict: NetworkVerdict, client: str) -> None:
        connection = self._session.connection
        if connection is None or connection.full:
            return  # nobody is there to hear it, or to hear so much
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        notice = DecisionNotice(
            self._process_id,
            f"{stamp}.{int(now * 1000) % 1000:03}Z",
            verdict.scope,
            verdict.decision,
            verdict.source,
            verdict.reason,
            target.protocol,
            target.host,
            target.port,
            target.method,
            client,
            verdict.override,
        )
        connection.push(notice.message())

    def ask(self, target: Destination, then: Callable[[NetworkVerdict], None]) -> bool:
        connection, timeout = self._session.connection, self.params.timeout_ms
        if timeout is None or connection is None or connection.full:
            return False
        waiting = self._asking.get(target)
        if waiting is not None:
            waiting.append(then)  # that is being asked
            return True
        self._asking[target] = [then]
        wanted = Wanted(target.protocol, target.host, target.port)
        params = PolicyRequestParams(self._process_id, wanted)
        seconds = min(timeout / 1000, LONGEST_QUESTION_SECONDS)
        connection.ask(
            "network/policyRequest", params.encode(), seconds, lambda result: self._answered(target, result)
        )
        return True

    def _answered(self, target: Destination, result: Json) -> None:
        verdict = UNANSWERED
        if result is not None:
            try:
                answer = PolicyAnswer.decode(result)
                verdict = decided(answer.decision, answer.reason)
            except InvalidParams:
                pass  # as good as no answer
        for then in self._asking.pop(target, ()):
            then(verdict)

    def close(self) -> None:
        self.proxy.close()
