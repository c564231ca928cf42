"""Runs a server on our own loop until a signal: listens first, loads the rest while it waits.

`/readyz` and the printed URL mean "accepts"; the modules behind the first command are imported in the
first idle moment, or when the first connection needs them.
"""

from __future__ import annotations

import gc
import os
import sys

from .. import VERSION
from ..earlyerrors import FileInvalid, SettingInvalid
from ..log import fault, note, warn
from ..loop import EpollLoop
from ..stdlib import SIGUSR1, SIGUSR2
from ..system import LINUX
from ..transport.sockets import TcpPlace, is_ipv4

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import Any

    from ..core.quotas import Sharing
    from ..observe.watchers import Watchers
    from ..protocol.upgrade import Admitted, Caller, Gate, Headers, Response
    from ..stdlib import socket
    from ..transport.caller import SocketCaller
    from ..transport.certificates import Certificates
    from ..transport.listener import Listener
    from ..transport.sockets import Place, Stream
    from ..transport.websocket import WebSocketTransport
    from .auth import Check
    from .fence import Fence
    from .server import Server
    from .settings import ServerSettings
    from .upgrading import Listening, Upgrading


_WARM_UP_SECONDS = 0.05
_WARM_UP_AGAIN_SECONDS = 0.5  # where descriptors or memory are short: a flood of strangers comes and goes
# Until then, connections that nobody has vouched for may take this part of all descriptors: the rest is
# plenty for the imports. At the usual 1,024 that is as many as there may be anyway.
_STRANGERS_AT_FIRST_PART = 4
_SETTLE_SECONDS = 0.8
_UPGRADE_READY_SECONDS = 1.0
# How long a thread that walks a tree keeps the loop waiting for the interpreter: the default is 5 ms, and a
# command needs it half a dozen times. Without threads it changes nothing.
_SWITCH_SECONDS = 0.00002
SIGHUP, SIGINT, _SIGALRM, SIGTERM = 1, 2, 14, 15  # on every system
_UPGRADE = "OUTFITTER_UPGRADE"  # see `upgrading`, which is loaded when it is needed
# Those after which we end, in any case. After all others the server may go on.
_LAST = (SIGINT, SIGTERM)
# From a signal to a hard end. An orderly one takes two seconds for clients and one for commands; who asked us
# to end (a container engine, say) often waits for ten.
_HARD_END_SECONDS = 8


def parse_url(url: str, *, shared: bool = False) -> Place | None:
    """Where `ws://IP:PORT`, `wss://IP:PORT` or `unix:PATH` says to listen; None for stdio.

    `shared` lets other users open a unix socket. Raises SettingInvalid.
    """
    if url in ("stdio", "stdio://"):
        return None
    if url.startswith("unix:"):
        from ..transport.unix import UnixPlace, path_of

        return UnixPlace(path_of(url), shared=shared)
    if not url.startswith(("ws://", "wss://")):
        raise SettingInvalid(
            f"unsupported --listen URL `{url}`; expected `ws://IP:PORT`, `wss://IP:PORT`, `unix:PATH` or "
            "`stdio`"
        )
    scheme, _, rest = url.partition("://")
    host, colon, port = rest.rpartition(":") if url.isascii() else ("", "", "")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        valid = ":" in host
    else:
        valid = is_ipv4(host)
    if not colon or not valid or not port.isdigit() or len(port) > 5 or int(port) > 0xFFFF:
        raise SettingInvalid(f"invalid websocket --listen URL `{url}`; expected `ws://IP:PORT`")
    return TcpPlace(host, int(port), scheme)


def serve_websocket(
    place: Place,
    settings: ServerSettings,
    gate: Callable[[], Gate],
    check: Check | None,
    certificates: Certificates | None = None,
    watchers: Watchers | None = None,
    announce: Callable[[str, str], None] | None = None,
) -> int:
    """Listens until SIGTERM or SIGINT; returns the exit status. Raises SettingInvalid, HostUnsupported.

    `announce` gets the URL, and by what commands are limited, if they are; without it they are printed.
    SIGHUP has `check` read its files again, and ends the connections that it does not admit any more; the
    audit log of `watchers` is opened again. SIGUSR1 drains: the server ends when no session is in use. On
    SIGUSR2 the server replaces itself by a new version, which comes here again, with what it was left. With
    `certificates`, every connection speaks TLS.
    """
    left = None
    said = os.environ.pop(_UPGRADE, None)
    if said is not None:
        from . import upgrading

        if upgrading.is_check(said):
            _assume(settings)
            _check_configuration(settings)
            return upgrading.answer_check(said, gate)
        left = upgrading.received(said)
    if left is not None:
        sock = place.adopt(*left.told["listening"])
        _assume(settings)
    else:
        limited = limit(settings)
        if settings.cgroup:
            from ..host.cgroup import check as check_cgroup

            check_cgroup()  # before anybody is told that we listen
        sock = place.listen()
        _assume(settings)
        _check_configuration(settings)
    loop = EpollLoop()
    _load_first(loop)
    if settings.ends_with_stdin:
        end_with_stdin(loop)  # before anybody is told that we listen
    upgrade = _LazyUpgrade(loop)
    reload: list[Callable[[], None]] = []  # what SIGHUP does, in this order; each may raise SettingInvalid
    upgrade.signals = on_signals(
        loop,
        {
            SIGHUP: hang_up(loop.stop, reload),
            SIGUSR1: lambda: lazy.get().drain("SIGUSR1"),
            SIGINT: loop.stop,
            SIGTERM: loop.stop,
            SIGUSR2: upgrade.begin,
        },
    )
    if left is None:
        try:
            if announce is not None:
                announce(place.url, limited)
            elif sys.stdout is not None:  # else it was closed: nobody wants to know
                sys.stdout.write(f"{place.url}\n{limits_line(limited)}")
                sys.stdout.flush()
        except OSError:
            _leave(place, settings)
            raise
    from ..transport.listener import Listener

    def drains(why: str) -> None:
        listener.draining = why

    lazy = LazyServer(loop, settings, watchers=watchers, drains=drains)
    secure = None if certificates is None else _secured(loop, certificates)
    listener = Listener(
        loop,
        sock,
        _lazily(gate, check, lazy),
        lazy.connect,
        settings.max_connections,
        secure=secure,
        sharing=lazy.sharing,
    )

    def made(server: Server) -> None:
        listener.narrow(*server.connections)
        if fence is not None:
            fence.watch()  # the server's own way to wait has taken the place of the first one
            server.services.sessions.trees.held = fence.holds
        if isinstance(place, TcpPlace):
            server.services.own_ports = (sock.getsockname()[1],)
        # What a client needs who wants to enter: later there may be no descriptors to load it with.
        listener.load()
        from ..transport.caller import peers
        from . import auth  # noqa: F401

        known = peers()
        if check is None:
            known.get_ready()

    lazy.made = made
    listener.keepalive = settings.keepalive
    fence = fence_of(loop, settings, listener.heard)
    if certificates is not None:
        reload.append(_of_root(certificates.reload))
    listener.software = f"outfitter/{VERSION}"
    if watchers is not None:
        reload.append(watchers.observer.reopen)
        watchers.watch_listener(loop, listener, opener_of(settings))
    if check is not None:

        def share() -> None:
            if check.several:
                lazy.sharing().begin()

        share()
        reload += [_of_root(check.reload), share, lambda: listener.end_unless(check.admits)]
    upgrade.of(lambda: (sock.fileno(), place.identity), listener, lazy.get)
    if watchers is not None:
        upgrade.last = watchers.observer.flush
    if left is not None:
        upgrading.take_over(lazy.get(), listener, left, loop)
    if (descriptors := os.sysconf("SC_OPEN_MAX")) > 0:  # -1: without limit
        listener.attempts.narrow(max(1, descriptors // _STRANGERS_AT_FIRST_PART))
    # Not at once: whoever waits for the first line asks /readyz next, and would wait for the imports.
    loop.call_later(_WARM_UP_SECONDS, lazy.warm_up)
    # Before another version is installed in the place of this one: half of each would fit nowhere.
    loop.call_later(_UPGRADE_READY_SECONDS, upgrade.prepare)
    held = run(loop, settings)
    upgrade.stop()  # clients are still told, on the same loop
    listener.stop()
    _leave(place, settings)
    status = lazy.stop()
    if held:
        listener.drain(loop)
    if watchers is not None:
        watchers.observer.close()
    return status


def _leave(place: Place, settings: ServerSettings) -> None:
    if settings.run_as is None:
        place.leave()
    else:
        with _as_root():  # who has made it
            place.leave()


def _lazily(gate: Callable[[], Gate], check: Check | None, lazy: LazyServer) -> Gate:
    """The gate, made for the first who wants to enter: /readyz needs none."""
    made: Gate | None = None

    def decide(headers: Headers, caller: Caller) -> Response | Admitted:
        nonlocal made
        if made is None:
            from .auth import without_the_confined

            made = gate() if check is not None else without_the_confined(gate(), lambda: lazy.confines)
        return made(headers, caller)

    return decide


def begun(settings: ServerSettings) -> EpollLoop:
    """The loop of a server that listens nowhere. Raises SettingInvalid, HostUnsupported."""
    _assume(settings)
    _check_configuration(settings)
    loop = EpollLoop()
    _load_first(loop)
    return loop


def _load_first(loop: EpollLoop) -> None:
    """Looks for no garbage until everything is loaded: what a start makes stays.

    To look through it again and again takes 4 of 55 ms until the first command has ended. Later collections
    do not look through it, either.
    """

    def settle() -> None:
        gc.collect()  # takes those 4 ms once, when nobody waits
        gc.freeze()
        gc.enable()

    gc.disable()
    loop.call_later(_SETTLE_SECONDS, settle)


def _secured(loop: EpollLoop, certificates: Certificates) -> Callable[[socket, SocketCaller], Stream]:
    from ..transport.tls import TlsSocket

    return lambda sock, caller: TlsSocket(loop, sock, certificates.context(), caller)


def limit(settings: ServerSettings) -> str:
    """Limits this process and all its commands, if that is wanted; returns by what."""
    if settings.allowance is None:
        return ""
    from ..host.limits import apply

    return apply(settings.allowance)


def limits_line(limited: str) -> str:
    return f"limits: {limited}\n" if limited else ""


def fence_of(loop: EpollLoop, settings: ServerSettings, heard: Callable[[], float]) -> Fence | None:
    if settings.fence is None:
        return None
    from .fence import Fence

    fence = Fence(loop, settings.fence, heard)
    fence.watch()
    return fence


def run(loop: EpollLoop, settings: ServerSettings) -> bool:
    """Runs the loop until it is stopped; False if that was the fence, and nobody is there any more."""
    if settings.fence is None:
        loop.run()
        return True
    from .fence import FenceReached

    try:
        loop.run()
    except FenceReached:
        warn(
            "server",
            "no client was heard for %g s (--fence): the server and its commands end",
            settings.fence,
        )
        return False
    return True


def end_with_stdin(loop: EpollLoop) -> None:
    """Whoever has started us holds the other end of a pipe: the kernel closes it when he is killed."""
    import stat

    def read() -> None:
        try:
            ended = not os.read(0, 4096)
        except BlockingIOError:
            return
        except OSError:
            ended = True
        if ended:
            loop.remove_reader(0)
            loop.stop()

    try:
        mode = os.fstat(0).st_mode
        # By its kind: not every system refuses to wait for a file, which is always at its end.
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(0)):
            raise OSError
        loop.add_reader(0, read)
    except OSError:
        raise SettingInvalid(
            "--exit-on-stdin-close needs a pipe, a socket or a terminal as standard input: nobody can "
            "wait for the end of a file"
        ) from None


def _assume(settings: ServerSettings) -> None:
    """Serves as the user that --run-as names, if any. Raises SettingInvalid, HostUnsupported."""
    if settings.project_ceiling is not None:
        from ..providers import files

        files.ceiling = os.path.abspath(settings.project_ceiling)
    if settings.run_as is not None:
        from ..host import identity
        from ..providers import inherited

        user, environment = identity.look_up(settings.run_as), inherited.load()
        identity.assume(user, environment)
        os.environ.clear()
        os.environ.update(user.environment(environment))


def _check_configuration(settings: ServerSettings) -> None:
    """Mistakes in the user's file, or a ceiling with a typing error, are for whoever starts a server, not for
    the first client. Raises SettingInvalid, FileInvalid."""
    ceiling = settings.project_ceiling
    if ceiling is not None and not os.path.isdir(ceiling):
        raise SettingInvalid(f"--project-ceiling {ceiling} is not a directory")
    from ..places import user_file

    try:
        if not os.path.lexists(user_file(os.environ)):
            return  # as nearly always, and somebody waits for the first line
    except SettingInvalid:
        return  # without a home there is no file
    from ..contract.config import Configuration
    from ..providers import inherited

    Configuration(inherited.load()).settings(None)


class LazyServer:
    """The server behind a listener, made when it is first needed."""

    def __init__(
        self,
        loop: EpollLoop,
        settings: ServerSettings,
        *,
        retain: bool = True,
        left: Callable[[], None] | None = None,
        base: str = "daemon",
        watchers: Watchers | None = None,
        drains: Callable[[str], None] | None = None,
    ) -> None:
        self._base = base
        self._watchers = watchers
        self._drains = drains
        self._sharing: Sharing | None = None
        self._loop = loop
        self._settings = settings
        self._retain = retain
        self._left = left
        self._server: Server | None = None
        self._others: set[int] | None = None  # children that this process had before
        self.made: Callable[[Server], None] | None = None

    def get(self) -> Server:
        if self._server is None:
            from ..host.imports import refuse_empty_packages

            refuse_empty_packages()
            from ..host.guard import protect
            from ..host.memory import keep_freed_memory
            from ..host.unix import children
            from ..pace import EpollPace
            from ..providers import inherited
            from .server import Server

            keep_freed_memory()
            sys.setswitchinterval(_SWITCH_SECONDS)
            executor = inherited.load()
            protect()
            if self._others is None:
                self._others = children() or set()  # before we have any

            server = Server(
                self._loop,
                self._settings,
                executor,
                retain=self._retain,
                left=self._left,
                base=self._base,
                pace=EpollPace(self._loop),
                sharing=self.sharing(),
                **self._observing(),
            )
            if self._drains is not None:
                server.drains(self._drains, self._loop.stop)
            try:
                # A login shell that is to be asked is asked now, once, before any command.
                server.contract.prepare()
            except FileInvalid:
                # It was right when we started. Each command says what is wrong.
                warn("server", "no snapshot of the login shell: the user's configuration has mistakes")
            server.own_process(self._others)
            self._server = server
            if self._watchers is not None and self._watchers.metrics is not None:
                self._watchers.metrics.watch(server)
            if self.made is not None:
                self.made(server)
        return self._server

    def _observing(self) -> dict[str, Any]:
        """What tells those who watch; nothing where nobody does."""
        watchers = self._watchers
        if watchers is None:
            return {}
        if watchers.metrics is None and watchers.traces is None:
            return {"observer": watchers.observer}
        from .observed import observed

        made = observed(watchers.metrics, watchers.traces)
        return {"observer": watchers.observer, "connection": made}

    @property
    def confines(self) -> bool:
        """Whether a command in a sandbox can reach what the host can."""
        sandboxes = None if self._server is None else self._server.services.used_sandboxes
        return sandboxes is not None and sandboxes.on_the_network

    def sharing(self) -> Sharing:
        """How principals share the server: /readyz needs none of it."""
        if self._sharing is None:
            from ..core.quotas import Sharing

            self._sharing = Sharing(self._settings.several_principals)
        return self._sharing

    def warm_up(self) -> None:
        """Makes it before anybody needs it: now, or when the machine has what it takes."""
        try:
            self.get()
        except (OSError, ImportError, MemoryError):
            self._loop.call_later(_WARM_UP_AGAIN_SECONDS, self.warm_up)

    def connect(self, transport: WebSocketTransport) -> None:
        self.get().connect(transport)

    def stop(self) -> int:
        """Ends everything; returns the exit status."""
        if self._server is None or self._server.stop():
            return 0
        warn("server", "a command may have outlived the server: the watchdog goes on to end it")
        return 1


def hang_up(stop: Callable[[], None], reload: list[Callable[[], None]]) -> Callable[[], None]:
    """What SIGHUP does: it reloads, unless we were started in a terminal that is gone now."""
    in_terminal = os.isatty(0)
    return lambda: stop() if in_terminal and not os.isatty(0) else _reload(reload)


def opener_of(settings: ServerSettings) -> Callable[[], AbstractContextManager[None]] | None:
    """As whom the audit log is opened again; None for ourselves."""
    return _as_root if settings.run_as is not None else None


def _as_root() -> AbstractContextManager[None]:
    from ..host import spawn

    assert spawn.assumed is not None
    return spawn.assumed.as_root()


def _of_root(read: Callable[[], None]) -> Callable[[], None]:
    """Reads files that are root's with --run-as, and not for commands.

    Nothing else may be done so: what closes connections begins threads, and those would stay root's.
    """

    def as_root() -> None:
        from ..host import spawn

        if spawn.assumed is None:
            read()
        else:
            with _as_root():
                read()

    return as_root


def _reload(parts: list[Callable[[], None]]) -> None:
    for part in parts:
        try:
            part()
        except SettingInvalid as error:
            warn("server", "%s; what was in use stays in use", error)
        except Exception as error:
            # Whoever takes a token away does not have to wait until the rest is right.
            fault("server", "something could not be read again", error)
    note("server", "=", "SIGHUP: read again what can change")


def _nothing() -> None:
    pass


class _LazyUpgrade:
    """The way to the next version, made when it is first needed."""

    def __init__(self, loop: EpollLoop) -> None:
        self._loop = loop
        self.signals = -1
        self.last: Callable[[], None] = _nothing  # what must not wait for the next version
        self._upgrading: Upgrading | None = None
        self._stopped = False

    def of(self, listening: Listening, listener: Listener, server: Callable[[], Server]) -> None:
        self._listening = listening
        self._listener = listener
        self._server = server

    def prepare(self) -> None:
        try:
            self._get()
        except Exception:
            pass  # who asks for it is told

    def _get(self) -> Upgrading:
        if self._upgrading is None:
            from .upgrading import Upgrading

            self._upgrading = Upgrading(
                self._loop, self._listening, self._listener, self._server, self.signals, self.last
            )
        return self._upgrading

    def stop(self) -> None:
        """The server ends: nothing takes its place, whether it was under way or is asked for now."""
        self._stopped = True
        if self._upgrading is not None:
            self._upgrading.stop()

    def begin(self) -> None:
        if self._stopped:
            return
        if not LINUX:
            from ..core.abilities import refusal

            warn("server", "no upgrade, this version goes on: %s", refusal("upgrade"))
            self._server().services.upgrades.came_to("refused", refusal("upgrade"))
            return
        try:
            upgrading = self._get()
        except Exception as error:
            # A new version was installed in our place before we had loaded all that an upgrade needs.
            reason = f"this version's own files have changed too early: {type(error).__name__}"
            warn("server", "no upgrade, this version goes on: %s; restart it", reason)
            self._server().services.upgrades.came_to("refused", reason)
            return
        upgrading.begin()


def on_signals(loop: EpollLoop, actions: dict[int, Callable[[], None]]) -> int:
    """Calls what a signal asks for, from the loop; returns the descriptor at which signals arrive.

    A request that holds the loop holds up a stop as well, but not for ever: then the kernel ends us, and the
    watchdog what we have started.
    """
    from ..stdlib import SIG_DFL, SIG_IGN, alarm, getsignal, set_wakeup_fd, signal

    asked = False

    def end_in_any_case(*_: object) -> None:
        nonlocal asked
        if not asked:  # who asks again and again does not put it off
            asked = True
            alarm(_HARD_END_SECONDS)

    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    for number in actions:
        if getsignal(number) != SIG_IGN:  # nohup means it
            signal(number, end_in_any_case if number in _LAST else lambda *_: None)
    signal(_SIGALRM, SIG_DFL)
    set_wakeup_fd(writing, warn_on_full_buffer=False)
    loop.add_reader(reading, _signalled, reading, actions)
    return reading


def _signalled(reading: int, actions: dict[int, Callable[[], None]]) -> None:
    try:
        numbers = set(os.read(reading, 4096))  # the interpreter writes the number of each
    except OSError:
        return  # we are called again
    for number in numbers:
        if number in actions:
            try:
                actions[number]()
            except Exception as error:
                fault("server", "a signal could not be heeded", error)  # the next one can be
