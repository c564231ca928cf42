"""outfitter pool: tasks of a file, results as they come, pools that are found."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.support.machine import wait_gone, wait_until

from .commandline import SECONDS, User


@pytest.fixture
def root(user: User) -> Iterator[Path]:
    """A short path for workspaces; state is found in a folder of the same."""
    with TemporaryDirectory(prefix="op", dir="/tmp") as folder:
        yield Path(folder)


def env(root: Path) -> dict[str, str]:
    return {"OUTFITTER_POOL_ROOT": str(root), "XDG_STATE_HOME": str(root / "state")}


def write(user: User, *tasks: dict[str, Any]) -> str:
    path = user.home / "tasks.jsonl"
    path.write_text("".join(f"{json.dumps(task)}\n" for task in tasks))
    return str(path)


def results(text: bytes | str) -> dict[str, dict[str, Any]]:
    found = [json.loads(line) for line in text.splitlines()]
    assert len({one["id"] for one in found}) == len(found)
    return {one["id"]: one for one in found}


def test_tasks_run_and_their_results_come_as_lines(user: User, root: Path) -> None:
    jobs = write(
        user,
        {"id": "plain", "command": ["sh", "-c", "echo out; echo err >&2"]},
        {"id": "failing", "script": "exit 7", "group": "b"},
        {"id": "whole", "script": "cat; cat in/data; echo $COLOUR; printf made > a.txt; mkdir b; cp a.txt b"}
        | {"stdin": "first\n", "files": {"in/data": "second\n"}, "env": {"COLOUR": "third"}}
        | {"collect": ["*.txt"], "setup": ["touch", "ready"]},
        {"id": "late", "script": "sleep 600", "timeout": 0.3},
        {"id": "missing", "command": ["no-such-program"]},
        {"id": "refused", "command": ["true"], "setup": ["false"]},
        {"id": "long", "script": "head -c 3000 /dev/zero"},
        {"id": "greedy", "command": [sys.executable, "-c", "bytearray(512 << 20)"], "memory": "128MiB"},
    )
    done = user.run(
        "pool", "run", "--jobs", jobs, "--json", "--size", "2", "--max-output", "1000", env=env(root)
    )
    found = results(done.stdout)
    assert done.returncode == 3, done.stderr
    assert (found["plain"]["state"], found["plain"]["stdout"], found["plain"]["stderr"]) == (
        "done",
        "out\n",
        "err\n",
    )
    assert (found["failing"]["state"], found["failing"]["exit_code"]) == ("failed", 7)
    assert found["whole"]["stdout"] == "first\nsecond\nthird\n"
    assert found["whole"]["collected"] == {"a.txt": "made", "b/a.txt": "made"}
    assert "third" not in json.dumps({**found["whole"], "stdout": ""})
    assert (found["late"]["state"], found["late"]["exit_code"]) == ("failed", None)
    assert "0.3 s" in found["late"]["error"]
    assert found["missing"]["state"] == "failed"
    assert found["refused"]["state"] == "refused"
    assert (len(found["long"]["stdout"]), found["long"]["truncated"]) == (1000, True)
    assert done.stderr.decode().splitlines()[-1].endswith(" s: 3 done, 4 failed, 1 refused")
    killed = found["greedy"]["exit_code"] == 137  # else a resource limit has made it fail
    assert found["greedy"].get("reason") == ("out-of-memory" if killed else None)


def test_results_are_utf8_and_names_that_are_not_are_escaped(user: User, root: Path) -> None:
    jobs = write(
        user,
        {"id": "bytes", "script": "touch $(printf '\\377').txt", "collect": ["*.txt"]},
        {"id": "half \ud800", "command": ["echo", "ä€"]},
    )
    args = ("pool", "run", "--jobs", jobs, "--size", "1")
    done = user.run(*args, env={**env(root), "PYTHONIOENCODING": "latin-1"})
    found = results(done.stdout)
    assert done.returncode == 0, done.stderr
    assert found["bytes"]["collected"] == {"\udcff.txt": ""}
    assert found["half \ud800"]["stdout"] == "ä€\n"


def test_tasks_and_results_go_through_pipes_with_names(user: User, root: Path) -> None:
    """As a shell makes them of `--jobs <(make-tasks) --out >(gzip)`."""
    tasks, out = user.home / "tasks", user.home / "results"
    os.mkfifo(tasks)
    os.mkfifo(out)
    reading = os.open(out, os.O_RDONLY | os.O_NONBLOCK)
    running = user.start("pool", "run", "--jobs", str(tasks), "--out", str(out), "--size", "1", env=env(root))
    tasks.write_text('{"id": "a", "command": ["true"]}\n')
    status = running.wait(SECONDS)
    with open(reading, "rb") as file:
        found = results(file.read())
    assert (status, found["a"]["state"]) == (0, "done")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no disk that is always full here")
def test_a_disk_that_is_full_is_told_and_ends_the_run(user: User, root: Path) -> None:
    jobs = write(user, {"id": "a", "command": ["true"]}, {"id": "b", "command": ["sleep", "600"]})
    done = user.run("pool", "run", "--jobs", jobs, "--out", "/dev/full", "--size", "2", env=env(root))
    assert (done.returncode, done.stderr) == (
        1,
        b"outfitter: cannot write --out /dev/full: No space left on device\n",
    )


def test_a_run_is_resumed_where_it_ended(user: User, root: Path) -> None:
    jobs = write(user, {"id": "a", "command": ["true"]}, {"id": "b", "command": ["false"]})
    out = user.home / "results.jsonl"
    args = ("pool", "run", "--jobs", jobs, "--out", str(out), "--size", "1")
    out.write_text('{"id": "a", "state": "done"}\n{"id": "b", "sta')
    refused = user.run(*args, env=env(root))
    assert (refused.returncode, b"has results already" in refused.stderr) == (1, True)
    done = user.run(*args, "--resume", env=env(root))
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"1 of 2 tasks have a result already\n")
    assert json.loads(out.read_text().splitlines()[-1])["id"] == "b"
    again = user.run(*args, "--resume", env=env(root))
    assert (again.returncode, b"nothing to do" in again.stderr) == (1, True)
    rerun = user.run(*args, "--resume", "--rerun", "failed", env=env(root))
    assert (rerun.returncode, b"1 tasks" in rerun.stderr) == (1, True)


@pytest.mark.parametrize(
    ("state", "code"), [("done", 0), ("failed", 1), ("cancelled", 1), ("lost", 3), ("refused", 3)]
)
def test_exit_code_is_also_about_results_of_an_earlier_run(
    state: str, code: int, user: User, root: Path
) -> None:
    jobs = write(user, {"id": "a", "command": ["true"]}, {"id": "b", "command": ["true"]})
    out = user.home / "results.jsonl"
    # One of a task that is not in the file any more says nothing about this run.
    before = (("a", state), ("b", "failed"), ("b", "done"), ("gone", "lost"))
    out.write_text("".join(f"{json.dumps({'id': name, 'state': state})}\n" for name, state in before))
    args = ("pool", "run", "--jobs", jobs, "--out", str(out), "--size", "1", "--resume")
    assert user.run(*args, env=env(root)).returncode == code
    assert user.run(*args, "--rerun", state, env=env(root)).returncode == 0


def test_two_runs_do_not_share_a_file_of_results(user: User, root: Path) -> None:
    """Neither would see the results of the other, and each task would run twice."""
    waits = f"until [ -e {root}/go ]; do sleep 0.05; done"
    jobs = write(user, {"id": "a", "script": f"echo >> {root}/ran; {waits}"})
    out = user.home / "results.jsonl"
    args = ("pool", "run", "--jobs", jobs, "--out", str(out), "--size", "1")
    running = user.start(*args, env=env(root))
    wait_until((root / "ran").exists, "the task runs", SECONDS)
    for more in ((), ("--resume",)):
        second = user.run(*args, *more, env=env(root))
        assert (second.returncode, b"another run writes its results to" in second.stderr) == (1, True)
    (root / "go").touch()
    assert running.wait(SECONDS) == 0
    assert results(out.read_text())["a"]["state"] == "done"
    assert (root / "ran").read_text() == "\n"


def test_mistakes_are_told_before_anything_runs(user: User, root: Path) -> None:
    marker = user.home / "ran"
    jobs = write(user, {"id": "a", "command": ["touch", str(marker)]}, {"id": "a", "script": "true"})
    done = user.run("pool", "run", "--jobs", jobs, env=env(root))
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"tasks.jsonl:2" in done.stderr
    assert not marker.exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), b"--jobs is missing"),
        (("--jobs", "-", "--retries", "many"), b"is no number"),
        (("--jobs", "-", "--resume"), b"--resume needs --out"),
        (("--jobs", "-", "--rerun", "failed"), b"--rerun needs --resume"),
        (
            ("--jobs", "-", "--resume", "--out", "x", "--rerun", "failed,lost"),
            b"write one of done, failed, lost,",
        ),
        (("--jobs", "nowhere"), b"cannot read --jobs nowhere"),
        (("--jobs", "-", "--on", "nothing"), b"is named 'nothing'"),
    ],
)
def test_what_cannot_be_meant_is_refused(user: User, args: tuple[str, ...], said: bytes) -> None:
    done = user.run("pool", "run", *args, input=b"")
    assert done.returncode in (1, 2)
    assert said in done.stderr


def test_a_pool_that_runs_is_listed_measured_and_ended_by_an_interruption(user: User, root: Path) -> None:
    jobs = write(
        user,
        {"id": "a", "script": f"echo $$ > {root}/pid.new; mv {root}/pid.new {root}/pid; sleep 600"},
        {"id": "b", "command": ["true"], "group": "docs"},
    )
    address = "127.0.0.1:0"
    out = user.home / "results.jsonl"
    args = ("--size", "1", "--name", "nightly", "--metrics", address, "--out", str(out))
    running = user.start("pool", "run", "--jobs", jobs, *args, env=env(root))
    wait_until((root / "pid").exists, "the task runs", SECONDS)
    (answer,) = json.loads(user.run("pool", "status", "--json", env=env(root)).stdout)
    assert (answer["name"], answer["leased"], answer["waiting"]) == ("nightly", 1, 1)
    table = user.run("pool", "status", "nightly", env=env(root)).stdout.decode()
    assert "1 leased" in table and "group docs: 1 wait for 1 cpu" in table
    assert running.stderr is not None
    where = running.stderr.readline().decode().split()[-1]
    text = urllib.request.urlopen(where, timeout=SECONDS).read().decode()
    assert 'outfitter_pool_slots{state="leased"} 1\n' in text
    assert 'outfitter_pool_queued{group="docs"} 1\n' in text
    running.send_signal(signal.SIGINT)
    assert running.wait(SECONDS) == 130
    assert [(one["id"], one["state"]) for one in results(out.read_text()).values()] == [("a", "cancelled")]
    wait_gone([int((root / "pid").read_text())])
    assert user.run("pool", "status", env=env(root)).stdout.count(b"\n") == 1


def test_one_command_takes_one_lease_of_a_named_pool(user: User, root: Path) -> None:
    user.config.mkdir(parents=True)
    (user.config / "pools.toml").write_text('[[pools]]\nid = "small"\nsize = 1\nenv = { COLOUR = "green" }\n')
    script = "pwd; echo $COLOUR; exit 7"
    done = user.run("run", "--on", "small", "--", "sh", "-c", script, env=env(root))
    where, colour = done.stdout.decode().split()
    assert (done.returncode, colour, done.stderr) == (7, "green", b"")
    assert where.startswith(str(root)) and not Path(where).exists()
    unknown = user.run("run", "--on", "smal", "--", "true", env=env(root))
    assert (unknown.returncode, b"known: local, small" in unknown.stderr) == (125, True)
    kept = user.run("run", "--on", "small", "--detach", "--", "true", env=env(root))
    assert (kept.returncode, b"--detach needs a server" in kept.stderr) == (125, True)


def test_a_terminated_run_says_what_it_has_ended(user: User, root: Path) -> None:
    jobs = write(user, {"id": "a", "script": f"touch {root}/ran; sleep 600"})
    running = user.start("pool", "run", "--jobs", jobs, "--size", "1", env=env(root))
    wait_until((root / "ran").exists, "the task runs", SECONDS)
    running.send_signal(signal.SIGTERM)
    out, said = running.communicate(timeout=SECONDS)
    assert (running.returncode, results(out)["a"]["state"]) == (143, "cancelled")
    assert said.decode().splitlines()[-1].endswith("1 cancelled")


def test_a_pool_that_does_not_answer_hides_no_other(user: User, root: Path) -> None:
    jobs = write(user, {"id": "a", "script": f"touch {root}/ran; sleep 600"})
    running = user.start("pool", "run", "--jobs", jobs, "--size", "1", "--name", "n", env=env(root))
    wait_until((root / "ran").exists, "the task runs", SECONDS)
    folder = root / "state/outfitter/pools"
    (folder / "gone.json").write_text(json.dumps({"id": "gone", "name": "", "started": 1.0}))
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(folder / "gone.sock"))
        silent.listen()
        hanging_up = threading.Thread(target=hang_up, args=(silent, 2), daemon=True)
        hanging_up.start()
        told = user.run("pool", "status", "--json", env=env(root))
        hanging_up.join(SECONDS)
    assert [one["name"] for one in json.loads(told.stdout)] == ["n"]
    assert (told.returncode, told.stderr.startswith(b"outfitter: pool gone does not answer")) == (0, True)
    running.send_signal(signal.SIGTERM)
    assert running.wait(SECONDS) == 143


def hang_up(listening: socket.socket, times: int) -> None:
    for _ in range(times):
        listening.accept()[0].close()


def test_a_pool_can_be_drained_and_stopped(user: User, root: Path) -> None:
    jobs = write(user, {"id": "a", "script": f"touch {root}/ran; sleep 600"})
    running = user.start("pool", "run", "--jobs", jobs, "--size", "1", "--name", "n", env=env(root))
    wait_until((root / "ran").exists, "the task runs", SECONDS)
    assert user.run("pool", "drain", "n", env=env(root)).stdout == b"pool n: 1 leased, 0 waiting\n"
    stopped = json.loads(user.run("pool", "stop", "n", "--json", env=env(root)).stdout)
    assert (stopped["name"], stopped["waiting"]) == ("n", 0)
    out, _ = running.communicate(timeout=SECONDS)
    assert running.returncode == 3
    assert results(out)["a"]["state"] == "lost"
