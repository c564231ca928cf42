"""Servers that are copies: the same to their clients as servers that started by themselves."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outfitter.cli.copying import MODULES
from outfitter.client.connect import connect
from outfitter.core.shape import Shape
from outfitter.errors import EngineFailed
from outfitter.pool.certificate import trusting
from outfitter.pool.child import own_words, script
from outfitter.pool.engine import Stopped
from outfitter.pool.keeper import Keeper
from outfitter.pool.template import Template
from tests.pool.test_keeper import TOKEN, card, left, output
from tests.support.machine import PROC, alive, children, stop, wait_gone, wait_until

ENVIRON = {"PATH": os.environ["PATH"], "LANG": "de_DE.UTF-8", "LC_CTYPE": "C.UTF-8", "ODD": "\udcff\n'\""}


@pytest.fixture
def root() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as path:
        yield Path(path)


@pytest.fixture
def template() -> Iterator[Template]:
    template = loaded()
    yield template
    template.close()


def loaded() -> Template:
    """One that makes a copy when it is next asked."""
    template = Template()
    template._asked = 10
    control = template._begin()
    wait_until(lambda: template._is_ready(control), "it has loaded everything")
    return template


def keeping(root: Path, template: Template, **more: Any) -> Keeper:
    """A keeper that has been asked for servers ahead."""
    keeper = Keeper("pool", root=str(root), environ=ENVIRON, template=template, **more)
    keeper._ahead = True
    return keeper


def pid_of(template: Template) -> int:
    assert template._process is not None
    return template._process.pid


def explained(keeper: Keeper, lease: str) -> dict[str, Any]:
    """What a command gets and from where, without what differs from lease to lease."""
    endpoint = keeper.serve(card(lease), Shape())

    async def ask() -> dict[str, Any]:
        async with connect(endpoint.url, token=TOKEN) as client:
            variables = (await client.explain())["variables"]
            values = (await client.run(["env", "-0"])).stdout.split(b"\0")
            told = {**variables, "": sorted(values)}
            return {name: re.sub(rf"\b{lease}\b", "LEASE", repr(said)) for name, said in told.items()}

    return asyncio.run(ask())


def test_a_copy_gives_its_commands_what_any_server_does(template: Template, root: Path) -> None:
    by_itself = Keeper("pool", root=str(root), environ=ENVIRON)
    copied = keeping(root, template)
    assert explained(copied, "l1") == explained(by_itself, "l2")
    assert children(pid_of(template)) == [copied.pid] and by_itself.pid not in children(pid_of(template))
    shown = "pwd; umask; ulimit -n; trap; cat; ls -l /proc/self/fd | wc -l; ps -o sid=,pgid= -p $PPID | wc -w"
    ours = copied.serve(card("l3", env={"HOME": "/its/own", "A": "1"}), Shape())
    other = by_itself.serve(card("l4", env={"HOME": "/its/own", "A": "1"}), Shape())
    assert output(ours, shown).replace("/l3/", "/l4/") == output(other, shown)
    assert output(ours, 'printf "%s" "$ODD$LC_CTYPE$HOME$A" | od -An -tx1') == output(
        other, 'printf "%s" "$ODD$LC_CTYPE$HOME$A" | od -An -tx1'
    )
    assert (copied.stop(), by_itself.stop()) == (Stopped(True), Stopped(True))
    wait_until(lambda: not children(pid_of(template)), "copies that have ended are not kept")
    assert left(root) == []


def test_a_copy_leads_a_session_and_holds_nothing_of_others(template: Template, root: Path) -> None:
    one = keeping(root, template)
    two = keeping(root, template)
    one.serve(card("l1"), Shape())
    two.serve(card("l2"), Shape())
    assert os.getsid(two.pid) == two.pid
    for keeper, lease in ((one, "l1"), (two, "l2")):
        held = [os.readlink(entry) for entry in Path(f"{PROC}/{keeper.pid}/fd").iterdir()]
        workspaces = {path.rpartition("/")[2] for path in held if path.startswith(f"{root}/pool/")}
        assert workspaces == {lease}
    assert not any("memfd:outfitter-pool-request" in path for path in held)  # it may have had secrets
    one.stop()
    assert alive(two.pid) and two.stop() == Stopped(True)


def test_a_copy_that_was_killed_is_not_confirmed(template: Template, root: Path) -> None:
    keeper = keeping(root, template)
    keeper.serve(card("l1"), Shape())
    os.kill(keeper.pid, signal.SIGKILL)
    assert keeper.stop() == Stopped(False, "the server had ended by signal 9: it said nothing")


def test_a_copy_that_cannot_start_says_why(template: Template, root: Path) -> None:
    keeper = keeping(root, template, listen="ws://192.0.2.1:1")
    with pytest.raises(EngineFailed, match="the server ended before it listened: outfitter: "):
        keeper.serve(card("l1"), Shape())
    assert keeper.stop() == Stopped(True)


def test_a_copy_that_does_not_end_is_killed(
    template: Template, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outfitter.pool.keeper.END_SECONDS", 0.2)
    keeper = keeping(root, template)
    keeper.serve(card("l1"), Shape())
    server = keeper.pid
    stop(server)
    assert keeper.stop() == Stopped(False, "the server took more than 0.2 s to end, and was killed")
    wait_gone([server])


def test_servers_start_by_themselves_at_first_and_without_a_template(root: Path) -> None:
    template = Template()
    keeper = keeping(root, template)
    for number in range(2):
        keeper.serve(card(f"l{number}"), Shape())
        assert template._process is None
    keeper.serve(card("l3"), Shape())
    wait_until(lambda: template._control is not None and template._is_ready(template._control), "it is ready")
    keeper.serve(card("l4"), Shape())
    assert children(pid_of(template)) == [keeper.pid]
    os.kill(pid_of(template), signal.SIGKILL)
    assert template._process is not None
    template._process.wait()
    assert output(keeper.serve(card("l5"), Shape()), "echo still here") == "still here\n"
    assert output(keeper.serve(card("l6"), Shape()), "echo again") == "again\n"
    assert template._process is None
    assert keeper.stop() == Stopped(True)
    template.close()


def test_a_copy_shows_the_certificate_of_its_slot(template: Template, root: Path) -> None:
    keeper = keeping(root, template, listen="wss://127.0.0.1:0")
    endpoint = keeper.serve(card("l1"), Shape())
    assert children(pid_of(template)) == [keeper.pid]

    async def ask() -> str:
        async with connect(endpoint.url, token=TOKEN, tls=trusting(endpoint.certificate)) as client:
            return (await client.shell("echo $(ls /proc/self/fd)")).text

    assert asyncio.run(ask()) == "0 1 2 3\n"  # the last is the listing's own
    assert keeper.stop() == Stopped(True)


def test_who_asks_for_nothing_ahead_gets_no_copies(template: Template, root: Path) -> None:
    keeper = Keeper("pool", root=str(root), environ=ENVIRON, template=template)
    keeper.serve(card("l1"), Shape())
    assert children(pid_of(template)) == []
    keeper.prepare(card("l2"), Shape())
    (coming,) = children(pid_of(template))
    assert keeper.serve(card("l2"), Shape()).pid == coming
    keeper.serve(card("l3"), Shape())
    wait_until(lambda: children(pid_of(template)) == [keeper.pid], "the next one is a copy, too")
    assert keeper.stop() == Stopped(True)


def test_a_keeper_ends_its_own_template(root: Path) -> None:
    keeper = Keeper("pool", root=str(root), environ=ENVIRON)
    for number in range(4):
        keeper.prepare(card(f"l{number}"), Shape())
    process = keeper._template._process
    assert process is not None and keeper.stop() == Stopped(True)
    assert process.returncode == 0


def test_a_template_that_does_not_answer_is_ended(
    template: Template, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outfitter.pool.template._ANSWER_SECONDS", 0.2)
    keeper, frozen = keeping(root, template), pid_of(template)
    assert template._control is not None
    template._control.settimeout(0.2)
    stop(frozen)
    assert output(keeper.serve(card("l1"), Shape()), "echo here") == "here\n"
    wait_gone([frozen])
    assert keeper.stop() == Stopped(True)


def test_a_copy_whose_descriptor_got_lost_is_killed(
    template: Template, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    receive = socket.recv_fds

    def lose(*args: Any) -> Any:
        said, fds, *others = receive(*args)
        made.append(int(said))
        for fd in fds:
            os.close(fd)
        return said, [], *others

    monkeypatch.setattr(socket, "recv_fds", lose)
    keeper = keeping(root, template)
    with pytest.raises(EngineFailed, match="Too many open files"):
        keeper.serve(card("l1"), Shape())
    monkeypatch.undo()
    wait_gone(made)
    keeper.serve(card("l2"), Shape())
    assert children(pid_of(template)) == [keeper.pid]
    assert keeper.stop() == Stopped(True)


def test_a_copy_that_nobody_was_told_of_serves_nobody(
    template: Template, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    receive = socket.recv_fds

    def kill_first(*args: Any) -> Any:
        _, fds, *others = receive(*args)
        for fd in fds:
            os.close(fd)
        made.extend(children(pid_of(template)))
        os.kill(pid_of(template), signal.SIGKILL)
        return b"", [], *others

    monkeypatch.setattr(socket, "recv_fds", kill_first)
    keeper = keeping(root, template)
    with pytest.raises(EngineFailed, match="the process that servers are copies of has ended"):
        keeper.serve(card("l1"), Shape())
    assert len(made) == 1
    wait_gone(made)
    endpoint = keeper.serve(card("l2"), Shape())
    assert output(endpoint, "echo $PPID") == f"{keeper.pid}\n"
    assert keeper.stop() == Stopped(True)
    assert left(root) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nonsense"], "with exit status 2: Usage"),
        (["serve", "--listen", "nonsense"], "with exit status 1: outfitter: "),
    ],
)
def test_a_copy_says_how_it_ended(
    template: Template, root: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], told: str
) -> None:
    monkeypatch.setattr("outfitter.pool.keeper.serve_words", lambda *_: [])
    monkeypatch.setattr(Keeper, "_place", lambda *_: words)
    keeper = keeping(root, template)
    server, _ = keeper._begin(card("l1"), Shape())
    wait_until(lambda: server._child.wait(0.1) is not None, "it ends")
    stopped = server.end()
    assert not stopped.confirmed and told in stopped.detail
    keeper.stop()


def test_a_template_ends_with_whoever_has_started_it() -> None:
    program = "import sys\nfrom tests.pool.test_template import loaded, pid_of\n"
    program += "template = loaded()\nprint(pid_of(template), flush=True)\nsys.stdin.read()"
    child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with child:
        assert child.stdout is not None
        pid = int(child.stdout.readline())
        child.kill()
    wait_gone([pid])


def test_a_copy_outlives_its_template(root: Path) -> None:
    template = loaded()
    keeper = keeping(root, template)
    endpoint = keeper.serve(card("l1"), Shape())
    template.close()
    assert output(endpoint, "echo here") == "here\n"
    assert keeper.stop() == Stopped(True)


def test_a_request_without_descriptors_is_refused(template: Template) -> None:
    control = template._control
    assert control is not None
    for _ in range(2):
        control.send(b"copy")
        assert socket.recv_fds(control, 64, 1)[:2] == (b"no", [])


def test_a_template_has_loaded_what_a_server_needs(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def telling(given: tuple[int, ...] = ()) -> list[str]:
        python, *others = own_words(given)
        return [python, "-X", "importtime", *others]

    monkeypatch.setattr("outfitter.pool.child.own_words", telling)
    keeper = Keeper("pool", root=str(root), environ=ENVIRON)
    endpoint = keeper.serve(card("l1", limits="none"), Shape())
    output(endpoint, "sleep 1.2")  # something is loaded a second later
    assert keeper._server is not None
    said = os.pread(keeper._server._said, 1 << 20, 0).decode()
    keeper.stop()
    loaded = "from outfitter.cli import copying; copying._load(); print(*sys.modules)"
    known = subprocess.run(script(loaded), capture_output=True, text=True, check=True).stdout.split()
    needed = set(re.findall(r"\| +(outfitter\S*)$", said, re.MULTILINE))
    assert "outfitter.server.server" in needed
    assert needed - set(known) == set()
    assert list(MODULES) == sorted(MODULES)
