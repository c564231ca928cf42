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
from typing import Any

from ...errors import SettingInvalid
from ...protocol.registry import EXECUTE, USE, is_environment_id
from ...relay.authority import Authority
from ...relay.known import Known, folder
from ...relay.registry import enrol
from ...relay.store import SqliteStore
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
    try:
        _show("host a rendezvous")
        service = _start(children, "rendezvous", "serve", "--store", store, "--listen", flags["listen"])
        url = _first_line(service)
        print(f"    {url}")
        _show("enrol this machine as an executor, and yourself as its user")
        for role in (EXECUTE, USE):
            _enrol(store, url, environment_id, role)
        _show("serve")
        executor = _start(children, "serve", "--remote", url, "--environment-id", environment_id)
        print(f"    {_first_line(executor)}")
        where = f"noise+{url}/{environment_id}"
        _show("run a command there, from any terminal of yours")
        print(f"    $ outfitter run --on {where} -- uname -n")
        _run("run", "--on", where, "--", "uname", "-n")
        print("\nReady. Ctrl-C ends the executor and the rendezvous.", flush=True)
        return _wait(children)
    except KeyboardInterrupt:
        return 0
    finally:
        _end(children)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _show(what: str) -> None:
    print(f"# {what}", flush=True)


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "outfitter", *words]


def _start(children: list[subprocess.Popen[bytes]], *words: str) -> subprocess.Popen[bytes]:
    print(f"    $ outfitter {shlex.join(words)}", flush=True)
    # A session of their own: Ctrl-C is ours, and they end in order.
    child = subprocess.Popen(
        _command(*words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
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
    print(
        f"    $ outfitter rendezvous code {environment_id} --role {role} | outfitter enrol {url}", flush=True
    )
    opened = SqliteStore(store)
    try:
        code = Authority(opened, time.time, "ws://localhost").code(f"{role} of up", environment_id, role)
    finally:
        opened.close()
    answer = enrol(url, code)
    known = Known(folder(os.environ))
    known.keep(known.token_file(url, answer.environment_id, answer.role), answer.token + "\n")


def _run(*words: str) -> None:
    done = subprocess.run(_command(*words), stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS)
    sys.stdout.write("    " + done.stdout.decode(errors="replace"))
    if done.returncode:
        raise SettingInvalid(f"the command did not run: {done.stderr.decode(errors='replace').strip()}")


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
        if child.stdout is not None:
            child.stdout.close()
