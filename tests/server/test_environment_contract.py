"""The contract over the wire: what commands get, whose environment they start from, what is said about it."""

from __future__ import annotations

import itertools
import json
import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outfitter.env.fingerprint import value_digest
from outfitter.server.limits import QUESTIONS
from tests.support.contracts import PATH, Place, values_in, variables
from tests.support.machine import children, wait_gone, wait_until
from tests.support.servers import Server, serving
from tests.support.wire import Message, Wire, b64, start_params

SERVERS = {"KEPT": "hush-kept", "A_TOKEN": "hush-token", "SAME": "hush-same", "DIFFERENT": "hush-server"}
ALL: Message = {
    "inherit": "all",
    "ignoreDefaultExcludes": True,
    "exclude": [],
    "set": {},
    "includeOnly": [],
}
ENV = ["/usr/bin/env", "-0"]
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("place"))


@pytest.fixture(scope="module")
def server(home: Place) -> Iterator[Server]:
    env = {**home.environ(), **SERVERS}
    with serving("outfitter", home.home, "--log-level", "debug", env=env, cwd=home.elsewhere) as server:
        yield server


@pytest.fixture
def place(home: Place) -> Iterator[Place]:
    """The one that the server lives in, without what the test before has written."""
    yield home
    home.user_file.unlink(missing_ok=True)
    home.project_file.unlink(missing_ok=True)
    for name in (".bash_profile", ".profile", ".zprofile"):
        (home.home / name).unlink(missing_ok=True)


@pytest.fixture
def hearing(server: Server) -> Iterator[Wire]:
    """A client that wants to hear about environments."""
    with Wire(server.url) as wire:
        wire.call("initialize", {"clientName": "test", "environmentSummary": True})
        wire.send({"method": "initialized", "params": {}})
        yield wire


def question(place: Place, **params: Any) -> Message:
    return {
        "env": {},
        "envPolicy": None,
        "tty": False,
        "contract": {},
        "cwd": place.project.as_uri(),
        **params,
    }


def child(wire: Wire, place: Place, **params: Any) -> dict[str, str]:
    """What a real command gets."""
    process = f"child-{next(NUMBERS)}"
    wire.start(process, ENV, **{"env": {}, "cwd": place.project.as_uri(), "contract": {}, **params})
    wire.closed(process)
    return variables(wire.output(process))


# What commands get


def test_a_command_gets_what_the_contract_says(place: Place, wire: Wire) -> None:
    place.user("[shell_environment_policy]\nignore_default_excludes = false\n")
    place.says('[env]\nset = { FROM_PROJECT = "1" }\nprepend = { PATH = ["bin"] }\n')
    found = child(wire, place, env={"MINE": "1"}, contract={"author": "user", "unset": ["SAME"]})
    assert found == {
        **place.environ(),
        "KEPT": "hush-kept",
        "DIFFERENT": "hush-server",
        "FROM_PROJECT": "1",
        "MINE": "1",
        "PATH": f"{place.project}/bin:{PATH}",
        "SHLVL": "1",
    }
    # L6
    assert child(wire, place, env={"MINE": "1"}, contract={"unset": ["SAME"]}) == found


def test_a_stock_client_gets_what_the_reference_would_give_it(place: Place, wire: Wire) -> None:
    given = {**place.environ(), **SERVERS}
    policy = {**ALL, "exclude": ["SA*"], "set": {"SET": "1"}}
    found = child(wire, place, contract=None, envPolicy=policy, env={"PATH": "::/x"})
    del given["SAME"]
    assert found == {**given, "SET": "1", "PATH": "::/x"}
    assert child(wire, place, contract=None, envPolicy=None, env={"ONLY": "1"}) == {"ONLY": "1"}


def test_an_edited_file_counts_at_the_next_command(place: Place, wire: Wire) -> None:
    for number in range(10):
        place.says(f'[env]\nset = {{ A = "{number}" }}\n')
        assert child(wire, place)["A"] == str(number)


def test_a_broken_file_fails_commands_there_and_nothing_else(
    place: Place, wire: Wire, server: Server
) -> None:
    place.says('[shell]\nlogin = "perhaps"\n\n[env]\nset = { A = 1 }\n')
    params = start_params("p", ENV, cwd=place.project.as_uri(), contract={})
    for error in (
        wire.error("process/start", params),
        wire.error("process/start", {**params, "contract": None, "envPolicy": ALL}),
        wire.error("environment/explain", question(place)),
        wire.error("environment/explain", question(place, login=True)),
        wire.error("environment/resolve", question(place)),
        wire.error("environment/diff", {"a": question(place), "b": question(place)}),
    ):
        assert error["code"] == -32600
        assert error["data"] == {"error": "file-invalid"}
        assert f"{place.project_file}:2" in error["message"]
        assert f"{place.project_file}:5" in error["message"]
    assert child(wire, place, cwd=place.elsewhere.as_uri())["PATH"] == PATH
    assert child(wire, place, contract=None, env={"ONLY": "1"}) == {"ONLY": "1"}
    place.says('[env]\nset = { A = "1" }\n')
    assert child(wire, place)["A"] == "1"
    assert server.popen.poll() is None


def test_an_environment_that_is_too_large_is_refused_with_the_name(place: Place, wire: Wire) -> None:
    params = start_params("p", ENV, cwd=place.project.as_uri(), contract={}, env={"BIG": "x" * 131_072})
    error = wire.error("process/start", params)
    assert (error["code"], error["data"]) == (-32602, {"error": "environment-too-large"})
    assert "the variable BIG is too large" in error["message"]
    many = {f"N{number}": "x" * 100_000 for number in range(11)}
    error = wire.error("process/start", {**params, "env": many})
    assert (error["code"], error["data"]) == (-32602, {"error": "environment-too-large"})
    assert "the environment is too large" in error["message"]
    # Neither has started anything: the id is free.
    wire.start("p", ENV)


# Asking


def test_explain_and_resolve_are_true_to_the_command(place: Place, wire: Wire) -> None:
    place.user('[shell_environment_policy]\nexclude = ["KEPT"]\n')
    place.says('[env]\nset = { FROM_PROJECT = "1" }\nprepend = { PATH = ["bin"] }\n')
    explained = wire.call("environment/explain", question(place, env={"MINE": "1"}))
    resolved = wire.call("environment/resolve", question(place, env={"MINE": "1"}, show="secrets"))
    found = child(wire, place, env={"MINE": "1"})
    names = {name for name, entry in explained["variables"].items() if "removed" not in entry}
    assert names == set(found)
    assert {name: entry["value"] for name, entry in resolved["variables"].items()} == found
    segments = explained["variables"]["PATH"]["segments"]
    assert ":".join(segment["value"] for segment in segments) == found["PATH"]
    assert (explained["env_fp"], explained["contract_fp"]) == (resolved["env_fp"], resolved["contract_fp"])
    assert explained["base"] == resolved["base"] == wire.call("environment/info")["base"]


def test_values_come_only_when_they_are_asked_for(place: Place, wire: Wire) -> None:
    params = question(place, env={"MINE": "hush-mine", "MY_SECRET": "hush-secret"}, tty=True)
    for method in ("environment/explain", "environment/resolve"):
        text = json.dumps(wire.call(method, params))
        assert "MINE" in text
        assert "hush" not in text
        some = wire.call(method, {**params, "show": "values"})
        assert "hush-mine" in values_in(some)
        assert "hush-secret" not in json.dumps(some)
        assert "hush-token" not in json.dumps(some)
        every = values_in(wire.call(method, {**params, "show": "secrets"}))
        assert {"hush-mine", "hush-secret", "hush-token"} <= set(every)
    both = {"a": params, "b": question(place, env={"MINE": "hush-other"})}
    differences = wire.call("environment/diff", both)["differences"]
    assert {one["name"] for one in differences} == {"MINE", "MY_SECRET", "SHELL"}
    assert "hush" not in json.dumps(differences)


def test_the_directory_is_the_servers_own_when_none_is_given(place: Place, wire: Wire) -> None:
    explained = wire.call("environment/explain", {"env": {}, "envPolicy": None, "contract": {}})
    assert explained["cwd"] == str(place.elsewhere)
    error = wire.error("environment/explain", question(place, cwd="file://elsewhere/x"))
    assert error["code"] == -32602


def test_asking_a_login_shell_holds_nobody_up(place: Place, wire: Wire, server: Server) -> None:
    # L10
    shell = pwd.getpwuid(os.getuid()).pw_shell
    if os.path.basename(shell) not in ("bash", "zsh", "dash", "sh", "ksh"):
        pytest.skip(f"the account's shell is {shell}, whose startup files this test does not write")
    go, begun = place.folder / "go", place.folder / "begun"
    for name in (".bash_profile", ".profile", ".zprofile"):
        place.profile(f"echo >{begun}\nwhile [ ! -e {go} ]; do sleep 0.02; done\nexport FOUND=hush\n", name)
    slow = wire.request("environment/explain", question(place, login=True))
    wait_until(begun.exists, "the startup file runs")
    # On the same connection, and on another.
    assert child(wire, place)["PATH"] == PATH
    with Wire(server.url) as other:
        other.handshake()
        other.start("q", ENV)
        assert other.closed("q")
    assert wire.call("environment/status") == {"status": "ready"}
    go.touch()
    told = wire.answer(slow)["result"]["loginShell"]
    assert told["state"] == "captured"
    assert {"name": "FOUND", "kind": "added", "secret": False} in told["differences"]
    assert "hush" not in json.dumps(told)
    assert place.pipes() == []


def test_many_questions_to_login_shells_hold_no_file_up(place: Place, wire: Wire, server: Server) -> None:
    shell = pwd.getpwuid(os.getuid()).pw_shell
    if os.path.basename(shell) not in ("bash", "zsh", "dash", "sh", "ksh"):
        pytest.skip(f"the account's shell is {shell}, whose startup files this test does not write")
    go, begun = place.folder / "go-on", place.folder / "many-begun"
    begun.touch()
    for name in (".bash_profile", ".profile", ".zprofile"):
        place.profile(f"echo x >>{begun}\nwhile [ ! -e {go} ]; do sleep 0.02; done\n", name)
    asked = [wire.request("environment/explain", question(place, login=True)) for _ in range(70)]
    wait_until(lambda: begun.read_text().count("x") >= QUESTIONS, "a session's share of them runs", 60)
    (place.folder / "file").write_text("content")
    path = (place.folder / "file").as_uri()
    with Wire(server.url) as other:
        other.handshake()
        assert other.call("fs/readFile", {"path": path}) == {"dataBase64": b64(b"content")}
        # Another session asks a shell, too, before all of the first one's are done.
        late = other.request("environment/explain", question(place, login=True))
        wait_until(lambda: begun.read_text().count("x") > QUESTIONS, "it has its own share", 60)
        assert wire.call("fs/readFile", {"path": path}) == {"dataBase64": b64(b"content")}
        go.touch()
        assert other.answer(late)["result"]["loginShell"]["state"] == "captured"
    assert wire.answer(asked[-1], 120)["result"]["loginShell"]["state"] == "captured"


@pytest.mark.parametrize("what", ["session", "server"])
def test_a_login_shell_that_is_asked_ends_with_who_asked(tmp_path: Path, what: str) -> None:
    place = Place(tmp_path)
    begun = tmp_path / "begun"
    for name in (".bash_profile", ".profile", ".zprofile", ".config/fish/config.fish"):
        place.profile(f"echo >{begun}\nsleep 1000\n", name)
    with serving("outfitter", place.home, "--session-retention", "0", env=place.environ()) as server:
        with Wire(server.url) as wire:
            wire.handshake()
            wire.start("p", ["true"])
            wire.closed("p")
            before = children(server.pid)
            wire.request("environment/explain", question(place, login=True))
            wait_until(begun.exists, "the startup file runs")
            assert len(place.pipes()) == 1
            shell = set(children(server.pid)) - set(before)
            assert shell != set()
            if what == "server":
                server.popen.terminate()
                server.popen.wait()
        wait_gone(shell)
        if what == "session":
            wait_until(lambda: place.pipes() == [], "its pipe is removed")
        assert place.pipes() == []


# Summaries


def test_a_summary_comes_only_to_who_asked_for_it(place: Place, wire: Wire, hearing: Wire) -> None:
    place.says('[env]\nset = { A = "hush-a", BASH_ENV = "x" }\n')
    params = {"cwd": place.project.as_uri(), "contract": {}, "env": {"MINE": "hush-mine"}}
    told = wire.start("p", ENV, **params)
    assert told == {"processId": "p", "sandboxType": "none", "pid": told["pid"]}
    told = hearing.start("p", ENV, **params)
    environment = told.pop("environment")
    assert told == {"processId": "p", "sandboxType": "none", "pid": told["pid"]}
    resolved = hearing.call("environment/resolve", question(place, env={"MINE": "hush-mine"}))
    assert environment == {
        "base": "daemon",
        "fp": resolved["env_fp"],
        "contractFp": resolved["contract_fp"],
        "layers": [
            {"id": "base", "layer": "L0", "state": "applied"},
            {"id": "project", "layer": "L3", "state": "applied"},
            {"id": "request", "layer": "L7", "state": "applied"},
            {"id": "runtime", "layer": "L8", "state": "applied"},
        ],
        "rejected": 1,
        "stale": False,
    }
    for client in (wire, hearing):
        exited = [m["params"] for m in client.closed("p") if m["method"] == "process/exited"]
        assert [sorted(one) for one in exited] == [["exitCode", "processId", "sandboxDenied", "seq"]]


def test_a_client_that_comes_back_says_again_what_it_wants(server: Server, place: Place) -> None:
    with Wire(server.url) as wire:
        session = wire.call("initialize", {"clientName": "test", "environmentSummary": True})["sessionId"]
        wire.send({"method": "initialized", "params": {}})
        assert "environment" in wire.start("p", ENV)
    with Wire(server.url) as wire:
        wire.handshake(session)
        assert "environment" not in wire.start("q", ENV)


# Bases


def brought(rule: str, **env: str) -> Message:
    return {"rule": rule, "pid": 4711, "env": env}


THEIRS = {
    "SAME": "hush-same",
    "DIFFERENT": "hush-client",
    "ONLY": "hush-only",
    "SHLVL": "7",
    "PATH": "/x:/bin",
}


def test_a_client_may_bring_its_own_environment(place: Place, wire: Wire) -> None:
    # P3
    answer = wire.call("environment/base", brought("client", **THEIRS))
    base = answer.pop("base")
    assert (base["kind"], base["pid"], base["variables"]) == ("client", 4711, len(THEIRS))
    assert answer == {
        "matchesClient": False,
        "differences": {
            "onlyClient": ["ONLY"],
            "onlyServer": sorted({*place.environ(), *SERVERS} - {*THEIRS}),
            "changed": ["DIFFERENT", "PATH"],
        },
    }
    assert child(wire, place) == THEIRS
    told = wire.call("environment/explain", question(place))
    assert told["base"] == base
    assert told["summary"].startswith("env: base=client,")
    assert told["variables"]["ONLY"]["origin"]["kind"] == "client"
    # The configuration is the server's all the same, and an exact environment is exact.
    place.says('[env]\nset = { A = "1" }\n')
    assert child(wire, place) == {**THEIRS, "A": "1"}
    assert child(wire, place, contract=None, env={"ONLY": "this"}) == {"ONLY": "this"}


def test_a_client_may_bring_what_goes_on_top(place: Place, wire: Wire) -> None:
    answer = wire.call("environment/base", brought("merge", **THEIRS))
    assert answer["base"]["kind"] == "merge"
    assert child(wire, place) == {**place.environ(), **SERVERS, **THEIRS}
    assert wire.call("environment/explain", question(place))["base"]["kind"] == "merge"


def test_the_servers_own_is_compared_by_digests_and_can_be_had_back(place: Place, wire: Wire) -> None:
    wire.call("environment/base", brought("client", **THEIRS))
    key = b"k" * 32
    digests = {name: value_digest(key, name, value) for name, value in THEIRS.items()}
    params = {"rule": "daemon", "pid": 4711, "digestKey": b64(key), "digests": digests}
    answer = wire.call("environment/base", params)
    assert answer["base"] == wire.call("environment/info")["base"]
    assert answer["base"]["kind"] == "daemon"
    assert answer["differences"]["changed"] == ["DIFFERENT", "PATH"]
    assert answer["differences"]["onlyClient"] == ["ONLY"]
    assert child(wire, place) == {**place.environ(), **SERVERS, "SHLVL": "1"}
    ours = {**place.environ(), **SERVERS, "SHLVL": "9"}
    same = {**params, "digests": {name: value_digest(key, name, value) for name, value in ours.items()}}
    assert wire.call("environment/base", same) == {
        "base": answer["base"],
        "matchesClient": True,
        "differences": {"onlyClient": [], "onlyServer": [], "changed": []},
    }


def test_another_session_keeps_the_servers_own(place: Place, wire: Wire, server: Server) -> None:
    before = child(wire, place)
    with Wire(server.url) as other:
        session = other.handshake()["sessionId"]
        other.call("environment/base", brought("client", **THEIRS))
        assert child(other, place) == THEIRS
        assert child(wire, place) == before
    # It belongs to the session, not to the connection.
    with Wire(server.url) as again:
        again.handshake(session)
        assert child(again, place) == THEIRS


def test_differences_are_those_of_the_sessions_base(place: Place, wire: Wire) -> None:
    wire.call("environment/base", brought("client", **THEIRS))
    both = {"a": question(place, envPolicy={**ALL, "inherit": "none"}), "b": question(place)}
    found = {one["name"] for one in wire.call("environment/diff", both)["differences"]}
    assert found == {*THEIRS} - {"SHLVL"}


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        {"rule": "other", "pid": 1, "env": {}},
        {"rule": "client", "pid": 1},
        {"rule": "client", "pid": -1, "env": {}},
        {"rule": "client", "pid": 1, "env": {"A": 1}},
        {"rule": "daemon", "pid": 1, "env": {}},
    ],
    ids=str,
)
def test_a_base_that_is_no_base_changes_nothing(params: object, place: Place, wire: Wire) -> None:
    wire.call("environment/base", brought("client", **THEIRS))
    assert wire.error("environment/base", params)["code"] == -32602
    assert child(wire, place) == THEIRS


def test_no_value_is_logged(place: Place, wire: Wire, server: Server) -> None:
    # All of the above has been: the server logs as much as it can.
    wire.call("environment/base", brought("merge", **THEIRS))
    child(wire, place, env={"MINE": "hush-mine"})
    log = (server.home / "outfitter.stderr").read_text()
    assert "session opened" in log
    assert "hush" not in log
