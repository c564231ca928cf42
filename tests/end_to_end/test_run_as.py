"""A server of root whose commands and files are another user's (`serve --run-as`)."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

import outfitter
from outfitter.host import keyring
from tests.support.machine import KEYRING, children, command, public_folder, status, wait_until
from tests.support.networks import network
from tests.support.origin import origin
from tests.support.relays import meeting
from tests.support.sandbox import READ_ONLY, WORKSPACE, need_sandbox, sandbox
from tests.support.servers import end
from tests.support.users import NOBODY, copy_site, installed, public_python
from tests.support.wire import Wire, start_params

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")


def run(wire: Wire, process: str, argv: list[str]) -> bytes:
    """The output of a command that has ended."""
    wire.call("process/start", start_params(process, argv, cwd="file:///"))
    wire.closed(process)
    return wire.output(process)


@contextmanager
def serving(
    *args: str, site: Path | None = None, first: Callable[[], object] | None = None, **env: str
) -> Iterator[tuple[Wire, Path]]:
    """A server and a folder for every user; `site` is a copy of Outfitter of the test's own. `first` is done
    in the server's process before it begins."""
    with public_folder() as folder:
        python, shared = installed()
        popen = subprocess.Popen(
            [python, "-m", "outfitter", "serve", *args],
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": "/root",
                "PYTHONPATH": str(site or shared),
                "THE_SECRET": "x",
                **env,
            },
            cwd="/root",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=first,
        )
        try:
            assert popen.stdout is not None
            url = popen.stdout.readline().decode().strip()
            assert url, popen.stderr.read() if popen.stderr else ""
            with Wire(url) as wire:
                wire.handshake()
                yield wire, folder
        finally:
            end(popen)


def test_commands_terminals_and_files_are_the_other_users() -> None:
    with serving("--run-as", "nobody") as (wire, folder):
        info = wire.call("environment/info")
        assert info["cwd"] == "file:///"  # root's folder is not for that user
        script = "id -un; echo $HOME $USER ${XDG_RUNTIME_DIR-none}; cat /proc/$PPID/environ"
        env = {"inherit": "all", "ignoreDefaultExcludes": True, "exclude": [], "set": {}, "includeOnly": []}
        for number, tty in enumerate((False, True)):
            params = start_params(f"p{number}", ["/bin/sh", "-c", script], tty=tty)
            wire.call("process/start", {**params, "cwd": "file:///", "env": {}, "envPolicy": env})
            wire.closed(f"p{number}")
            said = wire.output(f"p{number}").decode().replace("\r", "").splitlines()
            assert said[:2] == ["nobody", "/nonexistent nobody none"]
            assert any(line.startswith("cat: ") and "Permission denied" in line for line in said)
        folder = folder / "both"
        folder.mkdir()
        folder.chmod(0o777)
        secret = folder / "secret"
        secret.write_text("x")
        secret.chmod(0o600)
        assert "Permission denied" in wire.error("fs/readFile", {"path": secret.as_uri()})["message"]
        assert "Permission denied" in wire.error("fs/readDirectory", {"path": "file:///root"})["message"]
        own = folder / "own"
        wire.call("fs/writeFile", {"path": own.as_uri(), "dataBase64": "eA=="})
        assert (own.stat().st_uid, own.read_bytes()) == (NOBODY, b"x")
        found = wire.call("fs/search", {"path": folder.as_uri(), "pattern": "x"})
        assert [match["path"] for match in found["matches"]] == [own.as_uri()]


@KEYRING
def test_commands_do_not_have_the_keys_of_roots_login() -> None:
    def log_in() -> None:
        keyring._call(1, keyring._JOIN_SESSION, None)
        keyring._call(0, b"user", b"outfitter:test:root", b"secret", 6, -3)  # into the session's

    with serving("--run-as", "nobody", first=log_in) as (wire, _):
        # Those that a process may see.
        seen = run(wire, "keys", ["cat", "/proc/keys"])
        assert b"_ses" in seen
        assert b"outfitter:test:root" not in seen


# Tries to end each process whose number it is given, and each of its threads, until its stdin ends.
ATTACK = """
import ctypes, os, platform, select, sys
tgkill = {"x86_64": 234}.get(platform.machine(), 131)
syscall = ctypes.CDLL(None).syscall
tried = done = 0
while True:
    for pid in map(int, sys.argv[1:]):
        for thread in map(int, os.listdir(f"/proc/{pid}/task")):
            done += syscall(tgkill, pid, thread, 9) == 0
        try:
            os.kill(pid, 9)
            done += 1
        except PermissionError:
            tried += 1
    if tried == len(sys.argv) - 1:
        print("begun", flush=True)
    if tried >= 5000 and select.select([0], [], [], 0)[0]:
        break
print("ended", tried >= 5000, done)
"""


def test_a_command_can_end_the_server_at_no_moment() -> None:
    """Neither the server nor what starts commands for it, or watches over it, is that user's for a moment."""
    with serving("--run-as", "nobody") as (wire, _):
        pid = wire.call("server/upgrades", {})["pid"]
        wait_until(lambda: len(children(pid)) == 3, "the watchdog, the starter and its child run")
        before = children(pid)
        run(wire, "first", ["true"])  # that child
        wait_until(lambda: len(children(pid)) == 3, "there is another one")
        stays = set(before) & set(children(pid))
        assert len(stays) == 2
        ours = [pid, *stays]
        attack = [public_python(), "-c", ATTACK, *map(str, ours)]
        wire.call("process/start", start_params("attack", attack, cwd="file:///", pipeStdin=True))
        wire.until(lambda m: m["method"] == "process/output" and wire.output("attack") == b"begun\n")
        for number in range(150):
            run(wire, f"p{number}", ["true"])
        end_input = {"processId": "attack", "chunk": "", "writeId": "1", "eof": True}
        assert wire.call("process/write", end_input) == {"status": "accepted"}
        wire.closed("attack")
        assert wire.output("attack") == b"begun\nended True 0\n"
        for one in (*ours, *children(pid)):
            real, _, saved, _ = status(one)["Uid"].split()
            assert (real, saved) == ("0", "0")
        assert stays <= set(children(pid))


def test_what_starts_commands_is_replaced_when_it_ends_and_nothing_else_is_lost() -> None:
    with serving("--run-as", "nobody") as (wire, _):
        argv = ["sh", "-c", "read line; echo $line; exit 7"]
        wire.call("process/start", start_params("old", argv, cwd="file:///", pipeStdin=True))
        pid = wire.call("server/upgrades", {})["pid"]

        def starters() -> list[int]:
            return [one for one in children(pid) if "host.starter" in command(one)]

        for number, doomed in enumerate((slice(2), slice(1), slice(1, 2), slice(2))):
            wait_until(lambda: len(starters()) == 2, "one waits for the next request")
            assert {status(one)["Uid"] for one in starters()} == {"0\t0\t0\t0"}
            for one in (killed := starters()[doomed]):
                os.kill(one, signal.SIGKILL)
            for again in range(3):
                assert run(wire, f"p{number}.{again}", ["id", "-un"]) == b"nobody\n"
            assert not set(killed) & set(starters())
        write = {"processId": "old", "chunk": "aGkK", "writeId": "1"}
        assert wire.call("process/write", write)["status"] == "accepted"
        wire.closed("old")
        assert wire.output("old") == b"hi\n"
        assert wire.exit_code("old") == 7


def test_an_environment_is_the_users_own_if_that_user_has_made_it() -> None:
    with serving("--run-as", "nobody") as (wire, folder):
        env = {"inherit": "all", "ignoreDefaultExcludes": True, "exclude": [], "set": {}, "includeOnly": []}
        for number, (uid, first) in enumerate(((NOBODY, True), (1234, False))):
            project = folder / f"project{number}"
            programs = project / ".venv" / "bin"
            programs.mkdir(parents=True)
            (project / ".git").mkdir()
            (programs / "python").symlink_to("/bin/sh")
            (project / ".venv" / "pyvenv.cfg").write_text("home = /bin\n")
            subprocess.run(["chown", "-Rh", str(uid), project], check=True)
            params = start_params(f"p{number}", ["/bin/sh", "-c", "echo $PATH"], tty=False)
            wire.call("process/start", {**params, "cwd": project.as_uri(), "env": {}, "envPolicy": env})
            wire.closed(f"p{number}")
            path = wire.output(f"p{number}").decode().strip().split(":")
            assert path[0 if first else -1] == str(programs)


@contextmanager
def serving_tokens(*tokens: str) -> Iterator[tuple[subprocess.Popen[bytes], str, Path]]:
    """A server for whoever has one of these tokens: its process, its URL and their file, which is root's."""
    with public_folder() as folder:
        file = folder / "tokens"
        file.touch(0o600)
        file.write_text("".join(f"{token}\n" for token in tokens))
        python, place = installed()
        auth = ("--ws-auth", "capability-token", "--ws-token-file", str(file))
        popen = subprocess.Popen(
            [python, "-m", "outfitter", "serve", "--run-as", "nobody", *auth],
            env={"PATH": "/usr/bin:/bin", "HOME": "/root", "PYTHONPATH": str(place)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            assert popen.stdout is not None
            yield popen, popen.stdout.readline().decode().strip(), file
        finally:
            end(popen)


def test_tokens_that_only_root_can_read_are_read_again_on_a_signal() -> None:
    first, second = "first-token-of-two", "second-token-of-two"
    with serving_tokens(first) as (popen, url, tokens):
        with Wire(url, headers={"Authorization": f"Bearer {first}"}) as old:
            old.handshake()
            tokens.write_text(f"{second}\n")
            popen.send_signal(signal.SIGHUP)
            with pytest.raises(ConnectionClosed) as closed:
                old.receive()
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008
        with Wire(url, headers={"Authorization": f"Bearer {second}"}) as new:
            new.handshake()
            assert "Permission denied" in new.error("fs/readFile", {"path": tokens.as_uri()})["message"]


def test_who_loses_its_token_leaves_no_thread_of_roots_behind() -> None:
    """Closing files takes threads, which are whose they are begun as."""
    gone, other = "a-token-that-is-taken-out", "a-token-that-stays"
    with (
        serving_tokens(gone, other) as (popen, url, tokens),
        Wire(url, headers={"Authorization": f"Bearer {gone}"}) as old,
        Wire(url, headers={"Authorization": f"Bearer {other}"}) as wire,
    ):
        old.handshake()
        wire.handshake()
        for number in range(8):  # one after the other: a thread or two do it
            old.call("fs/open", {"handleId": str(number), "path": "file:///etc/passwd"})
        tokens.write_text(f"{other}\n")
        popen.send_signal(signal.SIGHUP)
        with pytest.raises(ConnectionClosed):
            old.receive()
        users = {
            (task / "status").read_text().partition("\nUid:")[2].split("\n")[0].split()[3]
            for task in Path(f"/proc/{popen.pid}/task").iterdir()
        }
        assert users == {str(NOBODY)}
        for _ in range(16):
            said = wire.error("fs/readFile", {"path": tokens.as_uri()})["message"]
            assert "Permission denied" in said


def test_root_removes_its_own_socket_at_the_end() -> None:
    with public_folder() as folder:
        own = folder / "own"
        own.mkdir(mode=0o700)
        folder.chmod(0o755)
        python, place = installed()
        popen = subprocess.Popen(
            [python, "-m", "outfitter", "serve", "--run-as", "nobody", "--listen", f"unix:{own}/x.sock"],
            env={"PATH": "/usr/bin:/bin", "HOME": "/root", "PYTHONPATH": str(place)},
            stdout=subprocess.PIPE,
        )
        try:
            assert popen.stdout is not None
            assert popen.stdout.readline() == f"unix:{own}/x.sock\n".encode()
            assert (own / "x.sock").is_socket()
        finally:
            end(popen)
        assert list(own.iterdir()) == []


def test_root_rotates_the_audit_log() -> None:
    with public_folder() as folder:
        own = folder / "own"
        own.mkdir(mode=0o700)
        python, place = installed()
        popen = subprocess.Popen(
            [python, "-m", "outfitter", "serve", "--run-as", "nobody", "--audit", "audit"],
            env={"PATH": "/usr/bin:/bin", "HOME": "/root", "PYTHONPATH": str(place)},
            cwd=own,
            stdout=subprocess.PIPE,
        )
        try:
            assert popen.stdout is not None
            with Wire(popen.stdout.readline().decode().strip()) as wire:
                wire.handshake()
                run(wire, "one", ["true"])
                for turn in range(2):
                    (own / "audit").rename(own / f"audit.{turn}")
                    popen.send_signal(signal.SIGHUP)
                    wait_until((own / "audit").exists, "the log is open again")
                run(wire, "two", ["true"])
                wait_until(lambda: "command-ended" in (own / "audit").read_text(), "the log goes on")
                found = (own / "audit").stat()
                assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (0, 0, 0o600)
                assert [json.loads(one)["process"] for one in (own / "audit").read_text().splitlines()] == [
                    "two"
                ] * 2
                assert run(wire, "cat", ["cat", str(own / "audit")]).endswith(b"Permission denied\n")
        finally:
            end(popen)


def test_root_rotates_the_audit_log_of_an_executor_that_dials_out(tmp_path: Path) -> None:
    with public_folder() as folder, meeting(tmp_path) as service:
        own, site = folder / "own", folder / "site"
        own.mkdir(mode=0o700)
        site.mkdir(mode=0o755)
        copy_site(site, "click", "cryptography", "cffi", "_cffi_backend")
        audit = own / "audit"
        popen = subprocess.Popen(
            [
                *(public_python(), "-m", "outfitter", "serve", "--run-as", "nobody", "--audit", str(audit)),
                *("--remote", service.url, "--environment-id", "box"),
            ],
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": str(tmp_path),
                "PYTHONPATH": str(site),
                "CODEX_API_KEY": service.token("box", "execute"),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        try:
            assert popen.stdout is not None
            assert popen.stdout.readline().startswith(b"box is connected")
            token = service.token("box", "use")

            async def scenario() -> None:
                async with outfitter.connect(f"noise+{service.url}/box", token=token) as client:
                    await client.run(["true"], cwd="/")

            asyncio.run(scenario())
            wait_until(lambda: audit.stat().st_size > 0, "the thread that writes has begun")
            audit.rename(own / "audit.1")
            popen.send_signal(signal.SIGHUP)
            wait_until(audit.exists, "the log is open again")
            assert audit.stat().st_uid == 0
        finally:
            end(popen)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--run-as", "no-such-user"), "this machine has no such user"),
        (("--run-as", "nobody", "--cgroup"), "--cgroup cannot be used with --run-as"),
    ],
)
def test_what_cannot_be_done_is_refused_before_the_server_listens(args: tuple[str, ...], said: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "outfitter", "serve", *args], capture_output=True, text=True, timeout=20
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert said in ran.stderr


def test_an_interpreter_that_the_user_cannot_read_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    shutil.copytree(Path(outfitter.__file__).parent, tmp_path / "outfitter")
    ran = subprocess.run(
        [sys.executable, "-m", "outfitter", "serve", "--run-as", "nobody"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "this user cannot read" in ran.stderr


def test_upgrade_keeps_commands_and_the_server_is_still_the_other_users() -> None:
    """The next version starts as root, where root has started the first, and with root's own environment."""
    with public_folder() as folder:
        own = folder / "own"  # the directory that the server is started in; not for the other user
        own.mkdir(mode=0o700)
        (own / "tokens").touch(0o600)
        (own / "tokens").write_text("a-token-that-is-of-root\n")
        headers = {"Authorization": "Bearer a-token-that-is-of-root"}
        python, place = installed()
        auth = ("--ws-auth", "capability-token", "--ws-token-file", "tokens", "--audit", "audit")
        popen = subprocess.Popen(
            [python, "-m", "outfitter", "serve", "--run-as", "nobody", *auth],
            env={"PATH": "/usr/bin:/bin", "HOME": "/root", "PYTHONPATH": str(place), "A_SECRET": "x"},
            cwd=own,
            stdout=subprocess.PIPE,
        )
        try:
            assert popen.stdout is not None
            url = popen.stdout.readline().decode().strip()
            with Wire(url, headers=headers) as wire:
                session = wire.handshake()["sessionId"]
                argv = ["sh", "-c", "while read line; do echo $line; done; exit 7"]
                wire.call("process/start", start_params("old", argv, cwd="file:///", pipeStdin=True))
                count = wire.call("server/upgrades", {})["count"]
                popen.send_signal(signal.SIGUSR2)
                with pytest.raises(ConnectionClosed) as closed:
                    wire.receive()
                assert closed.value.rcvd is not None and closed.value.rcvd.code == 1012
            for turn in range(2):  # each version has its own starter
                with Wire(url, headers=headers) as wire:
                    wire.handshake(session)
                    told = wire.call("server/upgrades", {})
                    assert (told["count"], told["outcome"]) == (count + 1 + turn, "upgraded")
                    assert told["pid"] == popen.pid
                    write = {"processId": "old", "chunk": "aGkK", "writeId": str(turn)}
                    assert wire.call("process/write", write) == {"status": "accepted"}
                    wire.until(lambda m: m["method"] == "process/output")
                    assert run(wire, f"p{turn}", ["id", "-un"]) == b"nobody\n"
                    real, effective, saved, _ = status(popen.pid)["Uid"].split()
                    assert (real, effective, saved) == ("0", str(NOBODY), "0")
                    secret = (own / "tokens").as_uri()
                    assert "Permission denied" in wire.error("fs/readFile", {"path": secret})["message"]
                    popen.send_signal(signal.SIGUSR2)
                    with pytest.raises(ConnectionClosed):
                        wire.until(lambda m: False)
            with Wire(url, headers=headers) as wire:
                wire.handshake(session)
                end_input = {"processId": "old", "chunk": "", "writeId": "3", "eof": True}
                assert wire.call("process/write", end_input) == {"status": "accepted"}
                wire.closed("old")
                assert wire.exit_code("old") == 7
                events = [json.loads(line)["event"] for line in (own / "audit").read_text().splitlines()]
                assert events.count("command-started") == 3
        finally:
            end(popen)


def test_an_upgrade_that_fails_leaves_the_server_as_it_was() -> None:
    with ExitStack() as stack:
        site = stack.enter_context(public_folder())
        copy_site(site)
        wire, _ = stack.enter_context(serving("--run-as", "nobody", site=site))
        assert run(wire, "before", ["id", "-un"]) == b"nobody\n"
        told = wire.call("server/upgrades", {})
        shutil.rmtree(site / "outfitter" / "server" / "handlers")
        os.kill(told["pid"], signal.SIGUSR2)
        told = wire.call("server/upgrades", {"after": told["count"]})
        assert told["outcome"] == "refused"
        assert told["reason"].startswith("the new version cannot take over: ")
        assert run(wire, "after", ["id", "-un"]) == b"nobody\n"
        real, effective, saved, _ = status(told["pid"])["Uid"].split()
        assert (real, effective, saved) == ("0", str(NOBODY), "0")


def test_a_sandbox_is_the_other_users() -> None:
    """Its many descriptors arrive as well."""
    need_sandbox()
    with public_folder() as state, serving("--run-as", "nobody", OUTFITTER_HOME=str(state)) as (wire, folder):
        roots = [folder / f"root{number}" for number in range(20)]
        for root in roots:
            root.mkdir()
            root.chmod(0o777)
        text = f"id -un; echo x >{roots[-1]}/x; echo y >{folder}/y || echo denied"
        asked = start_params("p", ["/bin/sh", "-c", text], cwd=roots[0].as_uri())
        wire.call("process/start", {**asked, "sandbox": sandbox(WORKSPACE, *roots)})
        wire.closed("p")
        assert wire.output("p", "stdout").split() == [b"nobody", b"denied"]
        assert (roots[-1] / "x").stat().st_uid == NOBODY
        assert not (folder / "y").exists()


def test_the_proxy_of_a_sandbox_is_there_for_the_other_user() -> None:
    need_sandbox()
    with (
        origin() as port,
        public_folder() as state,
        serving("--run-as", "nobody", OUTFITTER_HOME=str(state)) as (wire, _),
    ):
        text = f"id -un; curl -s -o /dev/null -w '%{{http_code}}' http://127.0.0.1:{port}/"
        asked = start_params("p", ["/bin/sh", "-c", text], cwd="file:///")
        wire.call(
            "process/start", {**asked, "sandbox": sandbox(READ_ONLY), **network({"127.0.0.1": "allow"})}
        )
        wire.closed("p")
        assert wire.output("p", "stdout").split() == [b"nobody", b"200"]


def test_startup_files_can_be_masked_for_the_other_user() -> None:
    with serving("--run-as", "nobody") as (wire, folder):
        project = folder / "project"
        project.mkdir()
        (project / "outfitter.toml").write_text('[shell]\ndescendants = "mask"\n')
        project.chmod(0o755)
        params = {"env": {}, "cwd": project.as_uri(), "contract": {}}
        message = wire.answer(
            wire.request(
                "process/start",
                {**start_params("p", ["sh", "-c", "wc -c </etc/profile; id -un; exec sleep 1000"]), **params},
            )
        )
        if message.get("error", {}).get("data") == {"error": "masks-unavailable"}:
            pytest.skip("this kernel gives ordinary users no namespaces")
        wire.until(lambda m: m["method"] == "process/output" and b"nobody" in wire.output("p"))
        assert wire.output("p") == b"0\nnobody\n"
        assert wire.call("process/terminate", {"processId": "p"}) == {"running": True}
        wire.closed("p")
