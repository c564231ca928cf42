"""Startup files that look empty for a command and everything below it: `descendants = "mask"`."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outfitter.errors import MasksUnavailable
from outfitter.host.masks import check
from tests.support.contracts import Place, variables
from tests.support.machine import descriptors, wait_until
from tests.support.servers import Server, command, end, environment, serving
from tests.support.tools import program
from tests.support.wire import Message, Wire, start_params

POSIX = "export SECRET_TOKEN=back PATH=/evil/bin:$PATH\ncd /\n"
FILES = {
    **dict.fromkeys((".profile", ".bash_profile", ".bashrc", ".zshenv", ".zprofile", ".zshrc"), POSIX),
    ".kshrc": POSIX,
    ".tcshrc": "setenv SECRET_TOKEN back\n",
    ".config/fish/config.fish": "set -gx SECRET_TOKEN back\n",
}
ENV = "/usr/bin/env -0"
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("place")
    try:
        check((str(folder),))
    except MasksUnavailable as error:
        pytest.skip(str(error))
    place = Place(folder)
    for name, text in FILES.items():
        place.profile(text, name)
    (place.home / "env.sh").write_text(POSIX)
    place.user('[shell]\ndescendants = "mask"\n')
    return place


@pytest.fixture(scope="module")
def server(place: Place) -> Iterator[Server]:
    env = place.environ(BASH_ENV=f"{place.home}/env.sh", ENV=f"{place.home}/env.sh", ZDOTDIR=str(place.home))
    with serving("outfitter", place.home, env=env) as server:
        yield server


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    with Wire(server.url) as wire:
        wire.call("initialize", {"clientName": "test", "environmentSummary": True})
        wire.send({"method": "initialized", "params": {}})
        yield wire


def ran(wire: Wire, place: Place, argv: list[str], **params: Any) -> tuple[Message, bytes]:
    process = f"p{next(NUMBERS)}"
    started = wire.start(
        process, argv, **{"env": {}, "cwd": place.project.as_uri(), "contract": {}, **params}
    )
    wire.closed(process)
    return started, wire.output(process)


@pytest.mark.parametrize(
    "text",
    [
        "exec bash -lc '{ENV}'",
        "bash -ic '{ENV}'",
        "zsh -lc '{ENV}'",
        "ksh -ic '{ENV}'",
        "fish -lc '{ENV}'",
        "tcsh -c '{ENV}'",
        "env -i HOME=$HOME PATH=$PATH bash -lc '{ENV}'",
        'python3 -c \'import subprocess; subprocess.run(["bash", "-lc", "{ENV}"])\'',
        "make -sf - <<'E'\nSHELL = /bin/zsh\nall:\n\t@{ENV}\nE",
    ],
)
def test_no_shell_below_a_command_brings_anything_back(wire: Wire, place: Place, text: str) -> None:
    program(text.split()[0] if text.split()[0] != "exec" else "bash")
    started, printed = ran(wire, place, ["sh", "-c", text.replace("{ENV}", ENV)])
    seen = variables(printed)
    assert (seen.get("SECRET_TOKEN"), "/evil/bin" in seen["PATH"]) == (None, False)
    assert not {"BASH_ENV", "ENV", "ZDOTDIR"} & set(seen)
    assert "flags" not in started["environment"]  # nothing is left to be flagged


def test_a_command_that_is_no_shell_has_it_too(wire: Wire, place: Place) -> None:
    _, printed = ran(wire, place, ["cat", str(place.home / ".bashrc")])
    assert printed == b""
    _, printed = ran(wire, place, ["head", "-c1", "/etc/passwd"])
    assert printed != b""  # and nothing else is hidden


def test_a_client_that_says_all_about_its_environment_has_it_too(wire: Wire, place: Place) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(place.home), "BASH_ENV": f"{place.home}/env.sh"}
    wire.start("exact", ["cat", f"{place.home}/.bashrc"], env=env, cwd=place.project.as_uri())
    wire.closed("exact")
    assert wire.output("exact") == b""


def test_a_terminal_is_as_ever(wire: Wire, place: Place) -> None:
    text = "tty >/dev/null && [ -t 0 ] && cat ~/.bashrc && exec bash -lic 'echo ${SECRET_TOKEN-clean}'"
    _, printed = ran(wire, place, ["sh", "-c", text], tty=True)
    assert printed == b"clean\r\n"


def test_a_startup_file_that_comes_later_is_masked_for_later_commands(wire: Wire, place: Place) -> None:
    late = place.home / ".bash_login"
    try:
        late.write_text("hush")
        _, printed = ran(wire, place, ["cat", str(late)])
        assert printed == b""
    finally:
        late.unlink()


def test_everything_ends_with_a_command_and_with_the_server(place: Place, tmp_path: Path) -> None:
    place_of_pid = tmp_path / "pid"
    with serving("outfitter", place.home, env=place.environ()) as server, Wire(server.url) as wire:
        wire.handshake()
        text = (
            f"setsid sh -c 'echo $$ >{place_of_pid}.x; mv {place_of_pid}.x {place_of_pid}; exec sleep 1000'"
        )
        params = {"env": {"PATH": os.environ["PATH"], "HOME": str(place.home)}, "cwd": place.project.as_uri()}
        wire.start("one", ["sh", "-c", text], **params, contract={})
        wait_until(place_of_pid.exists, "the descendant runs")
        pid = int(place_of_pid.read_text())
        wire.call("process/terminate", {"processId": "one"})
        wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "it is gone")
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        assert children  # the one that keeps the namespace, at least
    for child in children:
        wait_until(lambda child=child: not os.path.exists(f"/proc/{child}"), "it is gone with the server")


def test_where_the_kernel_forbids_it_no_command_starts_and_the_log_says_so_once(
    place: Place, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    script = 'echo 0 >/proc/sys/user/max_mnt_namespaces; exec "$@"'
    serve = command("outfitter", "--listen", "ws://127.0.0.1:0")
    popen = subprocess.Popen(
        ["unshare", "-Ur", "sh", "-c", f"exec 2>{log}; {script}", "sh", *serve],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=environment(place.home, place.environ()),
    )
    try:
        assert popen.stdout is not None
        with Wire(popen.stdout.readline().decode().strip()) as wire:
            wire.handshake()
            counts = []
            for number in range(4):
                params = start_params(f"p{number}", ["true"], tty=bool(number % 2))
                params = {**params, "env": {}, "cwd": place.project.as_uri(), "contract": {}}
                error = wire.error("process/start", params)
                assert error["data"] == {"error": "masks-unavailable"}
                message = error["message"]
                assert 'write descendants = "flag" under [shell]' in message
                counts.append(descriptors(popen.pid))
            wait_until(lambda: descriptors(popen.pid) <= min(counts[:2]), "nothing is left open")
    finally:
        end(popen)
    [line] = [line for line in log.read_text().splitlines() if "descendants" in line]
    assert line.endswith(message)  # why, and what to do


def test_a_project_may_ask_for_it_but_not_for_less(place: Place, server: Server, wire: Wire) -> None:
    place.says('[shell]\ndescendants = "flag"\n')
    try:
        _, printed = ran(wire, place, ["cat", str(place.home / ".bashrc")])
    finally:
        place.project_file.unlink()
    assert printed == b""
