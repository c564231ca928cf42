"""outfitter up: a rendezvous, an executor that dials it, and a user of it, on one machine.

It does what three people would type, and shows each command. Everything ends with it.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from json import loads
from typing import Any

from ...errors import SettingInvalid
from ...protocol.registry import EXECUTE, USE, is_environment_id
from ...relay.authority import Authority
from ...relay.known import Known, folder
from ...relay.registry import enrol
from ...relay.store import SqliteStore
from ..announce import announce, tell
from .rendezvous import default_store

_SECONDS = 30.0  # for a child to say that it is there
_GRACE_SECONDS = 5.0  # for children to end


def up(flags: dict[str, Any]) -> int:
    """Runs until Ctrl-C; returns the exit status. Raises SettingInvalid."""
    environment_id = flags["environment"] or "here"
    if not is_environment_id(environment_id):
        raise SettingInvalid(
            f"`{environment_id}` is no environment id: use letters, digits, `.`, `-` and `_`"
        )
    store = flags["store"] or default_store()
    children: list[subprocess.Popen[bytes]] = []
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    as_json: bool = flags["json"]
    shown = _Shown(as_json=as_json)
    more = ("--json",) if as_json else ()
    try:
        shown.step("host a rendezvous")
        words = ("rendezvous", "serve", "--store", store, "--listen", flags["listen"], *more)
        said = _first_line(_start(children, shown, *words))
        url = loads(said)["url"] if as_json else said
        shown.line(url)
        shown.step("enrol this machine as an executor, and yourself as its user")
        for role in (EXECUTE, USE):
            shown.command(f"rendezvous code {environment_id} --role {role} | outfitter enrol {url}")
            _enrol(store, url, environment_id, role)
        shown.step("serve")
        words = ("serve", "--remote", url, "--environment-id", environment_id, *more)
        said = _first_line(_start(children, shown, *words))
        shown.line(said)
        where = f"noise+{url}/{environment_id}"
        shown.step("run a command there, from any terminal of yours")
        command = ["uname", "-n"]
        shown.command(shlex.join(("run", "--on", where, "--", *command)))
        if as_json:
            announce({**loads(said), "commands": shown.commands})
        output = _run("run", "--on", where, "--", *command)
        if as_json:
            tell({"command": command, "exitCode": 0, "stdout": output})
        else:
            sys.stdout.write("    " + output)
            print("\nReady. Ctrl-C ends the executor and the rendezvous.", flush=True)
        return _wait(children)
    except KeyboardInterrupt:
        return 0
    finally:
        _end(children)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


class _Shown:
    """The steps, for people as they are made; a program is told the commands with the first line."""

    def __init__(self, *, as_json: bool) -> None:
        self.commands: list[str] = []
        self._silent = as_json

    def step(self, what: str) -> None:
        self._print(f"# {what}")

    def command(self, words: str) -> None:
        self.commands.append(f"outfitter {words}")
        self.line(f"$ outfitter {words}")

    def line(self, text: str) -> None:
        self._print(f"    {text}")

    def _print(self, line: str) -> None:
        if not self._silent:
            print(line, flush=True)


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "outfitter", *words]


def _start(children: list[subprocess.Popen[bytes]], shown: _Shown, *words: str) -> subprocess.Popen[bytes]:
    shown.command(shlex.join(words))
    # A session of their own: Ctrl-C is ours, and they end in order. With our end of their input, they end
    # also when we are killed.
    child = subprocess.Popen(
        _command(*words, "--exit-on-stdin-close"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    children.append(child)
    return child


def _first_line(child: subprocess.Popen[bytes]) -> str:
    """What a child says when it is there. Raises SettingInvalid; the child has said why on stderr."""
    import select

    assert child.stdout is not None
    ready, _, _ = select.select([child.stdout], [], [], _SECONDS)
    line = child.stdout.readline().decode().strip() if ready else ""
    if not line:
        raise SettingInvalid("a part of it did not start; its message is above")
    return line


def _enrol(store: str, url: str, environment_id: str, role: str) -> None:
    opened = SqliteStore(store)
    try:
        code = Authority(opened, time.time, "ws://localhost").code(f"{role} of up", environment_id, role)
    finally:
        opened.close()
    answer = enrol(url, code)
    known = Known(folder(os.environ))
    known.keep(known.token_file(url, answer.environment_id, answer.role), answer.token + "\n")


def _run(*words: str) -> str:
    """What a command has printed. Raises SettingInvalid."""
    done = subprocess.run(_command(*words), stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS)
    if done.returncode:
        raise SettingInvalid(f"the command did not run: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode(errors="replace")


def _wait(children: list[subprocess.Popen[bytes]]) -> int:
    """Until one of them ends by itself."""
    while True:
        for child in children:
            if child.poll() is not None:
                raise SettingInvalid(f"a part of it has ended with status {child.returncode}; see above")
        time.sleep(0.2)


def _end(children: list[subprocess.Popen[bytes]]) -> None:
    for child in reversed(children):  # the executor first
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()
