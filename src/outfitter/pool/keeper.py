"""Servers and workspaces of one slot, on its node: one server at a time, each with a workspace of its own.

The same everywhere: an engine's actor, batch step or container is a thin shell over it. A server holds the
other end of a pipe of its keeper and ends with it, whatever ends the keeper. No asyncio here: calls block.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

from .. import VERSION
from ..errors import EngineFailed
from ..host.bytecode import remedy, uncompiled
from ..host.limits import PROCESSES, killed_for_memory, tidy
from ..host.memoryfiles import memory_file
from ..log import warn
from ..record import replace
from . import certificate
from .certificate import in_memory
from .child import Spawned, Start, ready, script
from .engine import NONE, Endpoint, Stopped
from .relayed import RelayPlace
from .sweep import ROOTS, Workspaces, root_of, tree_bytes
from .template import Template

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ..core.shape import Shape
    from .certificate import Certificate
    from .engine import Card
    from .sweep import Workspace

START_SECONDS = 30.0  # until a server says where it listens: 0.1 s, and more where nothing is in the cache
END_SECONDS = 10.0  # for a server and all its commands to end; then it is killed, and nothing is confirmed
_SAID_BYTES = 2000  # of what a server says when it fails
_FIRST_LINES = 4096
_LIMITS = "limits: "  # what the line begins with that says by what commands are limited
_FOREVER = 10**6  # seconds: longer than any slot lives


class Keeper:
    """The keeper of a slot. `listen` is where its servers listen, "unix:" for a socket beside the workspace,
    or the pool of a rendezvous (noise+https://REGISTRY/POOL) where they register; `environ` is what their
    commands inherit, some of it set by the engine (`of_engine`). As soon as somebody asks for a server ahead,
    servers are copies of the `template`, which keepers of one process share.

    With `watches`, a server that ends by itself leaves nothing behind: a keeper that nobody asks any more
    would hold its workspace; and `starved` is called, in another thread, if the kernel has killed the server
    for want of memory. Raises EngineFailed where no workspace can be made, or nothing started. The workspaces
    of keepers that were killed are swept.
    """

    def __init__(
        self,
        pool_id: str,
        *,
        node: str = "",
        root: str | None = None,
        listen: str = "ws://127.0.0.1:0",
        environ: Mapping[str, str] | None = None,
        of_engine: Iterable[str] = (),
        watches: bool = False,
        template: Template | None = None,
    ) -> None:
        self._node = node or os.uname().nodename
        self._pool_id = pool_id
        self._listen = listen
        self._template = template or Template()
        self._is_ours = template is None
        self._ahead = False  # whether somebody has asked for a server ahead
        self._relay = RelayPlace(listen) if listen.startswith("noise+") else None
        self._boot_id = boot_id()
        self._environ = dict(os.environ if environ is None else environ)
        self._workspaces = Workspaces(root or root_of(self._environ), pool_id)
        self._environ.pop(ROOTS[0], None)
        self._of_engine = tuple(of_engine)
        try:
            self._workspaces.sweep()
            self._certificate = certificate.made() if listen.startswith("wss:") else None
            self._guard = _Guard(self._workspaces.root)
        except BaseException as error:
            self._workspaces.close()
            if isinstance(error, OSError):  # no descriptor is left, or no process
                raise EngineFailed(f"cannot keep a server here: {error.strerror}") from None
            raise
        tidy()
        if uncompiled({}):  # servers are started without variables of Python
            warn("pool", "Outfitter is compiled anew for each server. %s", remedy())
        self._server: _Server | None = None
        self._workspace: Workspace | None = None
        self._next: _Coming | None = None  # of the next lease, where somebody has asked for it ahead
        self._watches = watches
        self.starved: Callable[[], None] | None = None
        self._untold: Stopped | None = None  # how the last server ended, where nobody has been told yet
        self._stopped = False
        self._one_at_a_time = threading.Lock()

    @property
    def pid(self) -> int:
        """Of the server there is now; 0 for none."""
        return 0 if self._server is None else self._server.pid

    @property
    def idle(self) -> bool:
        """Whether there is no server, and none is being started or ended."""
        if not self._one_at_a_time.acquire(blocking=False):
            return False
        try:
            return self._server is None
        finally:
            self._one_at_a_time.release()

    def serve(self, card: Card, shape: Shape) -> Endpoint:
        """Ends the server before, if there is one, and starts another. Raises EngineFailed.

        Both at the same time, which halves the wait; the new one is nobody's before the old one has ended.
        """
        with self._one_at_a_time:
            self._check_serves()
            coming, self._next = self._next, None
            if coming is not None and coming.lease_id != card.lease_id:
                self._drop(coming)
                coming = None
            try:
                coming = coming or _Coming(card, *self._begin(card, shape))
            except BaseException:
                self._untold = self._end(keep=card.keep_last)
                raise
            ended = self._end(keep=card.keep_last)
            self._server, self._workspace = coming.server, coming.workspace
            try:
                if not ended.confirmed:
                    raise EngineFailed(f"the server before has not ended: {ended.detail}")
                endpoint = self._endpoint(coming)
            except BaseException:
                self._end()
                self._untold = ended
                raise
            if self._watches:
                threading.Thread(target=self._watch, args=(coming.server,), daemon=True).start()
            return replace(endpoint, kept=ended.kept, kept_bytes=ended.kept_bytes)

    def prepare(self, card: Card, shape: Shape) -> Endpoint:
        """Starts the server of the next lease beside the one that is there; `serve` with the same lease then
        ends that one. Raises EngineFailed."""
        with self._one_at_a_time:
            self._check_serves()
            self._ahead = True
            before, self._next = self._next, None
            if before is not None:
                self._drop(before)
            coming = _Coming(card, *self._begin(card, shape))
            try:
                endpoint = self._endpoint(coming)
            except BaseException:
                self._drop(coming)
                raise
            self._next = coming
            return endpoint

    def _check_serves(self) -> None:
        if self._stopped:
            raise EngineFailed("this slot has been stopped")

    def _endpoint(self, coming: _Coming) -> Endpoint:
        """Where a server is reached, when it is ready. Raises EngineFailed."""
        said = coming.ready(1 if self._relay is None else 2)
        return Endpoint(
            url=said[0] if self._relay is None else "",
            relay="" if self._relay is None else self._relay.url(self._environment_id(coming.lease_id), said),
            certificate="" if self._certificate is None else self._certificate.public,
            node=self._node,
            workspace=coming.workspace.work,
            boot_id=self._boot_id,
            pid=coming.server.pid,
            version=VERSION,
            limits=next((one.removeprefix(_LIMITS) for one in said if one.startswith(_LIMITS)), NONE),
        )

    def _drop(self, coming: _Coming) -> None:
        """A server that nobody has used."""
        coming.server.end()
        self._give_up(coming.workspace)

    def _begin(self, card: Card, shape: Shape) -> tuple[_Server, Workspace]:
        """A server that starts, and its workspace. Raises EngineFailed."""
        workspace = self._workspaces.make(card.lease_id)
        try:
            ours = {**workspace.variables(card.home), **card.env}
            words = [*self._place(card, workspace), *serve_words(card, shape, workspace.work)]
            theirs = [name for name in self._of_engine if name in self._environ and name not in ours]
            words += origin_words(pool=ours, engine=theirs)
            held = (workspace.held, self._guard.pipe)  # nobody sweeps what a server uses
            environ = {**self._environ, **ours}
            template = self._template if self._ahead else None
            server = _Server(words, workspace.work, environ, held, self._certificate, template)
            server.limited = card.limits != "none"
            return server, workspace
        except BaseException:
            self._give_up(workspace)
            raise

    def _environment_id(self, lease_id: str) -> str:
        assert self._relay is not None
        return self._relay.environment_id(self._pool_id, lease_id)

    def _place(self, card: Card, workspace: Workspace) -> list[str]:
        """Where a server is told to be found. Raises EngineFailed."""
        if self._relay is not None:
            return ["serve", *self._relay.words(self._environment_id(card.lease_id), self._environ)]
        listen = f"unix:{workspace.socket}" if self._listen == "unix:" else self._listen
        words = ["serve", "--listen", listen, "--keepalive", str(max(1, round(card.keepalive)))]
        if card.token_sha256:
            words += ["--ws-auth", "capability-token", "--ws-token-sha256", card.token_sha256]
        return words

    def _watch(self, server: _Server) -> None:
        server.wait()
        starved = False
        with self._one_at_a_time:
            if self._server is server:  # else it was asked to
                starved = killed_for_memory(server.pid)
                self._untold = self._end()
        if starved and self.starved is not None:
            self.starved()

    def stop(self, *, keep: bool = False) -> Stopped:
        """Ends the server and removes what it left, but with `keep` the last workspace. Never raises."""
        with self._one_at_a_time:
            if self._stopped:
                return Stopped(True)
            self._stopped = True
            try:
                coming, self._next = self._next, None
                if coming is not None:
                    self._drop(coming)
                ended = self._end(keep=keep)
                if self._is_ours:
                    self._template.close()
                self._workspaces.close()
                self._guard.dismiss()
            except Exception as error:
                return Stopped(False, f"{type(error).__name__}: {error}")
            return ended

    def _end(self, *, keep: bool = False) -> Stopped:
        """Ends the server there is. Confirmed: it has ended in order, and all its commands before it."""
        server, self._server = self._server, None
        untold, self._untold = self._untold, None
        ended = untold or Stopped(True) if server is None else server.end()
        workspace, self._workspace = self._workspace, None
        kept = "" if workspace is None else self._give_up(workspace, keep=keep)
        return replace(ended, kept=kept, kept_bytes=tree_bytes(kept)) if kept else ended

    def _give_up(self, workspace: Workspace, *, keep: bool = False) -> str:
        """Where it is kept, if so."""
        try:
            return self._workspaces.give_up(workspace, keep=keep)
        except OSError as error:
            workspace.let_go()  # the next keeper's sweep tries again
            warn("pool", "a workspace stays behind for now: %s: %s", workspace.path, error.strerror)
            return ""


def serve_words(card: Card, shape: Shape, work: str) -> list[str]:
    """What `outfitter serve` is told besides where it is found: a server for one lease."""
    words = ["--exit-on-stdin-close", "--fence", str(int(card.fence)), "--project-ceiling", work]
    words += ["--session-retention", str(int(card.retention)), "--max-sessions", "1"]
    if card.limits != "none":
        words += ["--limits", _limits(card, shape)]
    return words


def origin_words(**names: Iterable[str]) -> list[str]:
    """What tells a server who has set which of its variables; the names of those are no secrets."""
    words = []
    for whose, given in names.items():
        told = ",".join(sorted(name for name in given if "," not in name))
        words += ["--origin", f"{whose}={told}"] if told else []
    return words


def _limits(card: Card, shape: Shape) -> str:
    said = [f"cpus={shape.cpus:g}"] if shape.cpus else []
    said += [f"memory={shape.memory}"] if shape.memory else []
    said += ["required"] if card.limits == "required" else []
    return ",".join(said) or f"processes={PROCESSES}"


def boot_id() -> str:
    """What this machine's start is called: another one means that nothing from before lives."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


class _Guard:
    """Sweeps the node when its keeper was killed and its servers have ended: a small shell that waits for
    that, and nothing else. They all hold its `pipe`.

    It is no child of the keeper's: Ray kills the children of a worker that ends.
    """

    def __init__(self, root: str) -> None:
        sweep = script(f"from outfitter.pool.sweep import sweep; sweep({root!r})")
        # By another number, since a shell gives what it starts in the background no input of its own.
        alone = 'exec 3<&0; (read line && exit; exec "$@") <&3 3<&- & exit'
        self._child = subprocess.Popen(
            ["/bin/sh", "-c", alone, "outfitter-pool-guard", *sweep],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,
            bufsize=0,
        )

        self._child.wait()
        assert self._child.stdin is not None
        self.pipe = self._child.stdin.fileno()

    def dismiss(self) -> None:
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(b"no\n")
        except OSError:
            pass  # somebody has killed it
        self._child.stdin.close()


class _Coming:
    """A server that has been started and is nobody's yet, with its workspace."""

    def __init__(self, card: Card, server: _Server, workspace: Workspace) -> None:
        self.lease_id = card.lease_id
        self.server = server
        self.workspace = workspace
        self._said: list[str] = []

    def ready(self, lines: int) -> list[str]:
        """What it has said: where it is found, in so many lines, and what limits its commands. Raises
        EngineFailed."""
        self._said = self._said or self.server.wait_ready(lines + self.server.limited)
        return self._said


class _Server:
    """A server that runs, or has ended. Raises EngineFailed where it cannot be started."""

    limited = True  # whether it has limited itself and its commands, and says by what

    def __init__(
        self,
        words: list[str],
        work: str,
        environ: Mapping[str, str],
        held: tuple[int, ...],
        shown: Certificate | None,
        template: Template | None,
    ) -> None:
        files = () if shown is None else (in_memory(shown.public), in_memory(shown.key))
        if files:
            words = [*words, "--tls-cert", f"/dev/fd/{files[0]}", "--tls-key", f"/dev/fd/{files[1]}"]
        ours: list[int] = []
        theirs = [*files]
        try:
            self._said = memory_file("pool-stderr")
            ours.append(self._said)
            stdin, self._stdin = os.pipe()
            theirs.append(stdin)
            ours.append(self._stdin)
            self._stdout, stdout = os.pipe()
            theirs.append(stdout)
            ours.append(self._stdout)
            start = Start(words, work, environ, (stdin, stdout, self._said), held + files)
            child = None if template is None else template.copy(start)
            self._child = child or Spawned(start)
        except OSError as error:
            for fd in ours:
                os.close(fd)
            raise EngineFailed(f"cannot start a server with {sys.executable}: {error.strerror}") from None
        finally:
            for fd in theirs:
                os.close(fd)
        self.pid = self._child.pid

    def wait_ready(self, lines: int) -> list[str]:
        """What it says first: where it is found, and what limits its commands. Raises EngineFailed."""
        said, until = b"", time.monotonic() + START_SECONDS
        while said.count(b"\n") < lines and len(said) < _FIRST_LINES:
            if not ready(self._stdout, until - time.monotonic()):
                raise EngineFailed(f"the server has not said within {START_SECONDS:g} s where it listens")
            piece = os.read(self._stdout, _FIRST_LINES)
            if not piece:
                raise EngineFailed(f"the server ended before it listened: {self._last_words()}")
            said += piece
        return said.decode("ascii", "replace").splitlines()

    def wait(self) -> None:
        """Returns when it has ended."""
        self._child.wait(_FOREVER)

    def _last_words(self) -> str:
        size = os.fstat(self._said).st_size
        said = (
            os.pread(self._said, _SAID_BYTES, max(0, size - _SAID_BYTES)).decode("utf-8", "replace").strip()
        )
        return said or "it said nothing"

    def end(self) -> Stopped:
        """Ends it and all its commands, as orderly as it can."""
        os.close(self._stdin)  # at the end of its input it ends in order
        status = self._child.wait(END_SECONDS)
        if status is None:
            self._child.kill()  # its watchdog ends the commands
            return self._ended(
                Stopped(False, f"the server took more than {END_SECONDS:g} s to end, and was killed")
            )
        if status:
            how = f"by signal {-status}" if status < 0 else f"with exit status {status}"
            return self._ended(Stopped(False, f"the server had ended {how}: {self._last_words()}"))
        return self._ended(Stopped(True))

    def _ended(self, how: Stopped) -> Stopped:
        os.close(self._stdout)
        os.close(self._said)
        if self.limited:
            tidy(self.pid)
        return how
