"""A whole server, its commands and its questions: no secret stays anywhere, and a snapshot is taken once."""

from __future__ import annotations

import base64
import itertools
import os
import pwd
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outfitter.env.fingerprint import value_digest
from tests.support.contracts import PATH, Place, variables
from tests.support.machine import PROC, wait_until
from tests.support.servers import Server, serving
from tests.support.tools import program
from tests.support.wire import Message, Wire, b64

# Each where it is, under a name that says so and under one that does not.
SECRETS = {
    "BASE_TOKEN": "s3cr3t-of-the-base-0001",
    "PLAIN_BASE": "s3cr3t-of-the-base-0002",
    "REQUEST_PASSWORD": "s3cr3t-of-the-request-0003",
    "PLAIN_REQUEST": "s3cr3t-of-the-request-0004",
    "PROFILE_KEY": "s3cr3t-of-the-profile-0005",
    "PLAIN_PROFILE": "s3cr3t-of-the-profile-0006",
    "CLIENT_TOKEN": "s3cr3t-of-the-client-0007",
}
POSIX_FILES = (".bash_profile", ".profile", ".zprofile", ".bashrc")
SHELLS = ("bash", "dash", "zsh", "fish")
NUMBERS = itertools.count(1)


def picked(*names: str) -> dict[str, str]:
    return {name: SECRETS[name] for name in names}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A home whose startup files export secrets, for whatever shell the account has."""
    place = Place(tmp_path)
    profile = picked("PROFILE_KEY", "PLAIN_PROFILE")
    counted = f"echo run >>{place.folder}/runs\n"
    for name in POSIX_FILES:
        text = "".join(f"export {name}={value}\n" for name, value in profile.items())
        # Startup files that say on stderr what they do are common.
        place.profile(f"set -x\n{text}set +x\nexport PATH=/from/profile:/bin\n{counted}", name)
    place.profile(
        "".join(f"set -gx {name} {value}\n" for name, value in profile.items()), ".config/fish/config.fish"
    )
    return place


@pytest.fixture
def server(place: Place) -> Iterator[Server]:
    """One that logs all it can, and has every folder it may write to in the scratch one."""
    place.user('[shell]\nsnapshot = "loginShell"\n')
    for name in ("state", "runtime"):
        (place.folder / name).mkdir(mode=0o700)
    env = {
        **place.environ(),
        **picked("BASE_TOKEN", "PLAIN_BASE"),
        "XDG_STATE_HOME": str(place.folder / "state"),
        "XDG_RUNTIME_DIR": str(place.folder / "runtime"),
    }
    with serving("outfitter", place.home, "--log-level", "debug", env=env) as server:
        yield server


def of(process: str, method: str = "") -> Callable[[Message], bool]:
    """For `Wire.until`: any news of a process, or those of one method."""
    return lambda m: m["params"].get("processId") == process and m["method"] == (method or m["method"])


def greet(wire: Wire) -> None:
    wire.call("initialize", {"clientName": "test", "environmentSummary": True})
    wire.send({"method": "initialized", "params": {}})


def files_below(folder: Path, *, but: set[Path]) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and path not in but:
            yield path


def forms(value: str) -> list[bytes]:
    """The ways in which a value could be lying around."""
    raw = value.encode()
    return [raw, base64.b64encode(raw).rstrip(b"="), raw.hex().encode(), raw[::-1], value.encode("utf-16-le")]


def test_no_secret_stays_in_any_file(place: Place, server: Server) -> None:
    # S6, and 14 of the contract's own tests
    here = place.project.as_uri()
    place.says('[env]\nset = { A = "1" }\n')
    env = {**picked("REQUEST_PASSWORD", "PLAIN_REQUEST"), "PATH": PATH}
    question: dict[str, Any] = {"env": env, "envPolicy": None, "tty": True, "contract": {}, "cwd": here}
    with Wire(server.url) as wire:
        greet(wire)

        def run(argv: list[str], **params: Any) -> bytes:
            process = f"p{next(NUMBERS)}"
            wire.start(process, argv, **{"env": env, "cwd": here, "contract": {}, **params})
            wire.closed(process)
            return wire.output(process)

        def everything() -> None:
            found = variables(run(["/usr/bin/env", "-0"]))
            assert {found[name] for name in env} == set(env.values())
            for shell in SHELLS:
                for startup in ("enforce", "repair", "report"):
                    argv = [program(shell), "-lc", "/usr/bin/env -0"]
                    assert run(argv, contract={"startup": startup}) != b""
            run([program("bash"), "-ilc", ":"], tty=True, contract={"startup": "report"})
            for show in ("names", "values", "secrets"):
                wire.call("environment/resolve", {**question, "show": show, "digestKey": b64(b"k" * 32)})
                wire.call("environment/explain", {**question, "show": show, "programs": ["env"]})
            told = wire.call("environment/explain", {**question, "login": True})
            assert told["loginShell"]["state"] == "captured"
            wire.call("environment/diff", {"a": question, "b": {**question, "env": {}}})
            # What fails has its say too.
            wire.error(
                "process/start", {"processId": "x", "argv": ["/no"], "cwd": here, "env": env, "tty": False}
            )
            wire.error("environment/resolve", {**question, "env": {**env, "BIG": "x" * 200_000}})
            wire.error("environment/resolve", {**question, "env": {**env, "NUMBER": 1}})

        everything()
        theirs = {**env, **picked("CLIENT_TOKEN")}
        wire.call("environment/base", {"rule": "merge", "pid": os.getpid(), "env": theirs})
        everything()
        digests = {name: value_digest(b"k", name, value) for name, value in theirs.items()}
        wire.call(
            "environment/base", {"rule": "daemon", "pid": 1, "digestKey": b64(b"k"), "digests": digests}
        )
        # While startup files run, too: the pipe for their report is there then.
        place.write(place.elsewhere / ".bash_profile", "echo ready; exec sleep 1000\n")
        wire.start(
            "last",
            [program("bash"), "-lc", ":"],
            env={**env, "HOME": str(place.elsewhere)},
            cwd=here,
            contract={"startup": "report"},
        )
        wire.until(of("last"))
        assert len(os.listdir(place.folder / "runtime")) == 1
        assert leaks(place) == []
    server.popen.terminate()
    server.popen.wait()
    assert os.listdir(place.folder / "runtime") == place.pipes() == []
    assert (place.folder / "state/outfitter/key").stat().st_size == 32
    assert "session opened" in (place.home / "outfitter.stderr").read_text()
    assert leaks(place) == []


def leaks(place: Place) -> list[str]:
    """Which secret is in which file, but for those that the user has put it into."""
    but = {place.home / name for name in (*POSIX_FILES, ".config/fish/config.fish")}
    return [
        f"{name} in {path}"
        for path in files_below(place.folder, but=but)
        for name, value in SECRETS.items()
        if any(form in path.read_bytes() for form in forms(value))
    ]


def test_a_secret_in_a_file_would_be_found(place: Place) -> None:
    # Else the test above would prove nothing.
    assert leaks(place) == []
    found = place.folder / "a/b"
    found.parent.mkdir()
    for form in forms(SECRETS["BASE_TOKEN"]):
        found.write_bytes(b"before " + form + b" after")
        assert leaks(place) == [f"BASE_TOKEN in {found}"]


def test_no_secret_is_in_a_command_line(place: Place, server: Server) -> None:
    # K7: shells are put right with text that is in their environment, which only this user can read.
    env = {**picked("REQUEST_PASSWORD"), "PATH": PATH}
    with Wire(server.url) as wire:
        greet(wire)
        for startup in ("enforce", "repair", "report"):
            wire.start(
                startup,
                [program("bash"), "-lc", "echo ready; cat"],
                env=env,
                cwd=place.project.as_uri(),
                contract={"startup": startup},
                pipeStdin=True,
            )
            wire.until(of(startup))
        lines = [
            Path(f"{PROC}/{entry['pid']}/cmdline").read_bytes()
            for entry in wire.call("process/list")["processes"]
        ]
        assert len(lines) == 3
        assert [line for line in lines if b"s3cr3t" in line] == []


# One snapshot for a server


def posix_account() -> str:
    shell = pwd.getpwuid(os.getuid()).pw_shell
    if os.path.basename(shell) not in ("bash", "zsh", "dash", "sh", "ksh"):
        pytest.skip(f"the account's shell is {shell}, whose startup files this test does not write")
    return shell


def test_a_server_asks_the_login_shell_once(place: Place, server: Server) -> None:
    shell = posix_account()
    found = []
    for _ in range(2):
        with Wire(server.url) as wire:
            greet(wire)
            for number in range(2):
                wire.start(f"p{number}", ["/usr/bin/env", "-0"], env={}, cwd="file:///", contract={})
                wire.closed(f"p{number}")
                found.append(variables(wire.output(f"p{number}")))
            told = wire.call("environment/explain", {"env": {}, "envPolicy": None, "contract": {}})
            layer = next(entry for entry in told["layers"] if entry["layer"] == "L1")
            assert (layer["state"], layer["producer"]) == ("applied", shell)
            assert wire.start("q", ["true"], contract={})["environment"]["layers"][1] == {
                "id": "login-shell",
                "layer": "L1",
                "state": "applied",
            }
    assert found == [found[0]] * 4
    assert found[0]["PLAIN_PROFILE"] == SECRETS["PLAIN_PROFILE"]
    assert found[0]["PATH"] == "/from/profile:/bin:/usr/local/bin:/usr/bin"
    assert (place.folder / "runs").read_text() == "run\n"


def test_a_server_whose_login_shell_fails_says_so_and_works(place: Place) -> None:
    posix_account()
    place.user('[shell]\nsnapshot = "loginShell"\n')
    for name in POSIX_FILES:
        place.profile("exit 3\n", name)
    with serving("outfitter", place.home, env=place.environ()) as server, Wire(server.url) as wire:
        greet(wire)
        wire.start("p", ["/usr/bin/env", "-0"], env={}, cwd="file:///", contract={})
        wire.closed("p")
        assert variables(wire.output("p"))["PATH"] == PATH
        told = wire.call("environment/explain", {"env": {}, "envPolicy": None, "contract": {}})
        layer = next(entry for entry in told["layers"] if entry["layer"] == "L1")
        assert layer["state"] == "failed"
        assert "status 3" in layer["note"]
        log = (server.home / "outfitter.stderr").read_text()
        assert "no snapshot of the login shell" in log


# Mistakes in files


def test_a_server_does_not_start_with_mistakes_in_the_users_file(place: Place) -> None:
    place.user('[shell]\nlogin = "perhaps"\nstartup = 1\n')
    for listen in ("ws://127.0.0.1:0", "stdio"):
        done = subprocess.run(
            [sys.executable, "-m", "outfitter", "serve", "--listen", listen],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=place.environ(),
            cwd=place.project,
            timeout=30,
            check=False,
        )
        assert done.returncode != 0
        assert f"{place.user_file}:2".encode() in done.stderr
        assert f"{place.user_file}:3".encode() in done.stderr
        assert done.stdout == b""


def test_mistakes_that_come_later_fail_commands_and_not_the_server(place: Place) -> None:
    with serving("outfitter", place.home, env=place.environ()) as server, Wire(server.url) as wire:
        greet(wire)
        command: dict[str, Any] = {
            "argv": ["true"],
            "cwd": "file:///",
            "env": {},
            "tty": False,
            "contract": {},
        }
        wire.call("process/start", {"processId": "p", **command})
        place.user("nonsense")
        error = wire.error("process/start", {"processId": "q", **command})
        assert (error["code"], error["data"]) == (-32600, {"error": "file-invalid"})
        assert str(place.user_file) in error["message"]
        with Wire(server.url) as other:
            greet(other)
            assert other.call("environment/status") == {"status": "ready"}
        place.user_file.unlink()
        wire.call("process/start", {"processId": "q", **command})


def test_a_users_file_that_breaks_before_the_first_client_does_not_stop_the_server(place: Place) -> None:
    # The server looks at it once before it listens, and again when it is made, which may be later.
    place.user("")
    with serving("outfitter", place.home, env=place.environ()) as server:
        place.user("nonsense")
        with Wire(server.url) as wire:
            greet(wire)
            params = {"processId": "p", "argv": ["true"], "cwd": "file:///", "env": {}, "tty": False}
            assert wire.error("process/start", {**params, "contract": {}})["data"] == {
                "error": "file-invalid"
            }
            wire.call("process/start", params)
            place.user("")
            wire.call("process/start", {**params, "processId": "q", "contract": {}})
        assert server.popen.poll() is None


def test_a_command_sees_no_pipe_and_no_descriptor_of_ours(place: Place, server: Server) -> None:
    with Wire(server.url) as wire:
        greet(wire)
        wire.start(
            "p",
            [program("bash"), "-lc", "ls /proc/self/fd; /usr/bin/env"],
            env={"PATH": PATH},
            cwd="file:///",
            contract={"startup": "repair"},
        )
        wire.closed("p")
        printed = wire.output("p", "stdout").decode().split()
        assert printed[:4] == ["0", "1", "2", "3"]  # the last is what ls reads
        assert not [word for word in printed if "OUTFITTER" in word]
    wait_until(lambda: os.listdir(place.folder / "runtime") == [], "every pipe is removed")
