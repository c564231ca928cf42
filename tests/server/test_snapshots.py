"""process/start with `shellSnapshot`: startup files run once for a session, and undo nothing."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outfitter.host import facts
from tests.support.contracts import Place
from tests.support.profiles import at, context, read_only, special
from tests.support.sandbox import need_sandbox
from tests.support.servers import Server, serving
from tests.support.tools import program
from tests.support.wire import Wire, start_params

NUMBERS = itertools.count(1)
POLICY = {"inherit": "all", "ignoreDefaultExcludes": True, "exclude": [], "set": {}, "includeOnly": []}
COUNTS = 'echo x >>"$HOME/count"\n'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    place = Place(tmp_path_factory.mktemp("snapshots"))
    with serving("outfitter", place.home, env=place.environ()) as server:
        yield server


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    with Wire(server.url) as wire:
        wire.handshake()
        yield wire


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home of its own: the request names it."""
    (tmp_path / ".bash_profile").write_text(COUNTS + "export FROM=profile\ngreet() { echo hello; }\n")
    return tmp_path


def snapshot(scope: str = "s", name: str = "bash") -> dict[str, Any]:
    return {"scopeId": scope, "shell": {"name": name, "path": program(name)}}


def params_of(home: Path, text: str, **more: Any) -> dict[str, Any]:
    said = {"shellSnapshot": snapshot(), "envPolicy": POLICY, "cwd": home.as_uri(), **more}
    said["env"] = {"HOME": str(home), **more.get("env", {})}
    return start_params(f"p{next(NUMBERS)}", [program("bash"), "-lc", text], **said)


def run(wire: Wire, home: Path, text: str, **more: Any) -> tuple[str, str]:
    """A command of a stock client: what it prints, and its stderr."""
    params = params_of(home, text, **more)
    wire.call("process/start", params)
    wire.closed(params["processId"])
    out, err = (wire.output(params["processId"], stream).decode() for stream in ("stdout", "stderr"))
    return out, err


def taken(home: Path) -> int:
    return (home / "count").read_text().count("x")


def test_startup_files_run_once_and_every_command_has_what_they_left(wire: Wire, home: Path) -> None:
    for _ in range(3):
        assert run(wire, home, "greet; echo $FROM") == ("hello\nprofile\n", "")
    assert taken(home) == 1
    # Another scope, another directory, other variables that matter: another snapshot. Others do not matter.
    run(wire, home, "true", shellSnapshot=snapshot("other"))
    run(wire, home, "true", cwd="file:///")
    run(wire, home, "true", env={"TERM": "xterm"})
    run(wire, home, "true", env={"CODEX_TOOL_CALL_ID": "c2"})
    assert taken(home) == 4


def test_commands_that_come_at_once_share_one(wire: Wire, home: Path) -> None:
    several = [params_of(home, "greet") for _ in range(4)]
    for ident in [wire.request("process/start", params) for params in several]:
        assert "result" in wire.answer(ident)
    for params in several:
        wire.closed(params["processId"])
        assert wire.output(params["processId"]) == b"hello\n"
    assert taken(home) == 1


def test_a_snapshot_ends_with_its_session_and_not_with_its_connection(server: Server, home: Path) -> None:
    with Wire(server.url) as wire:
        session = wire.handshake()["sessionId"]
        run(wire, home, "true")
    with Wire(server.url) as wire:
        wire.handshake(resume=session)
        run(wire, home, "true")
        assert taken(home) == 1
    with Wire(server.url) as wire:
        wire.handshake()
        run(wire, home, "true")
        assert taken(home) == 2


def test_a_request_that_waits_holds_nobody_up(wire: Wire, home: Path) -> None:
    (home / ".bash_profile").write_text('read -r WORD <"$HOME/door"; export WORD\n')
    os.mkfifo(home / "door")
    door = os.open(home / "door", os.O_RDWR)
    try:
        params = params_of(home, "echo $WORD")
        ident = wire.request("process/start", params)
        assert wire.call("environment/status") == {"status": "ready"}
        os.write(door, b"in\n")
        assert "result" in wire.answer(ident)
    finally:
        os.close(door)
    wire.closed(params["processId"])
    assert wire.output(params["processId"]) == b"in\n"


@pytest.mark.parametrize(
    "argv",
    [["-c", "echo ${FROM-none}"], ["-l", "-c", "echo ${FROM-none}"], ["-cl", "echo ${FROM-none}"]],
)
def test_another_way_to_start_a_shell_has_no_snapshot(argv: list[str], wire: Wire, home: Path) -> None:
    params = {**params_of(home, ""), "argv": [program("bash"), *argv]}
    wire.call("process/start", params)
    wire.closed(params["processId"])
    assert wire.output(params["processId"]) == b"none\n"
    assert not (home / "count").exists()


def test_what_a_shell_cannot_have_is_refused_as_the_reference_does(wire: Wire, home: Path) -> None:
    fish = {"scopeId": "s", "shell": {"name": "fish", "path": program("bash")}}
    error = wire.error("process/start", params_of(home, "true", shellSnapshot=fish))
    assert (error["code"], error["message"]) == (-32602, "shell snapshots are unsupported for shell `fish`")


def test_a_failure_is_said_once_and_the_command_runs_without_startup_files(wire: Wire, home: Path) -> None:
    (home / ".bash_profile").write_text("export FROM=profile\nexit 3\n")
    out, err = run(wire, home, "echo ${FROM-none}")
    assert (out, err.startswith("[outfitter] shell-snapshot has failed: failed: ")) == ("none\n", True)
    assert "ended with status 3" in err
    assert run(wire, home, "echo ${FROM-none}") == ("none\n", "")


def test_where_a_startup_file_went_is_not_where_a_command_begins(wire: Wire, home: Path) -> None:
    (home / ".bash_profile").write_text("umask 077; cd /; exec 1>&-; ulimit -n 17\n")
    out, err = run(wire, home, "umask; pwd; ulimit -n; greet")
    assert (out.split()[:2], "17" in out.split(), "greet: command not found" in err) == (
        ["0022", str(home)],
        False,
        True,
    )


def test_explain_names_the_snapshot(wire: Wire, home: Path) -> None:
    asked = {
        "env": {"HOME": str(home)},
        "envPolicy": POLICY,
        "cwd": home.as_uri(),
        "shellSnapshot": snapshot(),
    }
    told = wire.call("environment/explain", asked)
    assert told["variables"]["FROM"]["id"] == "shell-snapshot"
    [level] = [one for one in told["layers"] if one["layer"] == "L1"]
    assert (level["id"], level["state"]) == ("shell-snapshot", "applied")
    # It is the one that a command has.
    run(wire, home, "true")
    assert taken(home) == 1
    assert "FROM" in wire.call("environment/resolve", asked)["variables"]
    without = {**asked, "shellSnapshot": None}
    differences = wire.call("environment/diff", {"a": without, "b": asked})["differences"]
    assert "FROM" in [one["name"] for one in differences]


def test_a_client_of_ours_can_ask_too(wire: Wire, home: Path) -> None:
    contract = {"contract": {"author": "user"}, "envPolicy": None}
    assert run(wire, home, "greet; echo $FROM", **contract) == ("hello\nprofile\n", "")
    # And a word about startup files is about those of its own shell.
    kept_out = {"contract": {"author": "user", "startup": "enforce"}, "envPolicy": None}
    assert run(wire, home, "echo ${FROM-none}", **kept_out) == ("none\n", "")


def test_on_a_terminal(wire: Wire, home: Path) -> None:
    params = params_of(home, "greet; test -t 0 && echo terminal", tty=True)
    wire.call("process/start", params)
    wire.closed(params["processId"])
    assert wire.output(params["processId"]) == b"hello\r\nterminal\r\n"


# What a person says


def test_a_person_decides_what_comes_of_startup_files(tmp_path: Path, home: Path) -> None:
    place = Place(tmp_path / "place")
    expected = {
        'startup = "enforce"': "none none\n",
        'startup = "repair"': "hello none\n",
        'startup = "report"': "hello profile\n",
        'login = "strip"': "hello profile\n",
    }
    place.user("")
    with serving("outfitter", place.home, env=place.environ()) as server, Wire(server.url) as wire:
        wire.handshake()
        for said, printed in expected.items():
            place.user(f"[shell]\n{said}\n")
            out, _ = run(wire, home, "echo $(greet 2>/dev/null || echo none) ${FROM-none}")
            assert (said, out) == (said, printed)
        assert taken(home) == 1
        place.user('[shell]\nlogin = "reject"\n')
        error = wire.error("process/start", params_of(home, "true", shellSnapshot=snapshot("new")))
        assert (error["data"]["error"], taken(home)) == ("login-rejected", 1)


def test_the_login_shell_s_own_snapshot_is_used_where_there_is_one(tmp_path: Path) -> None:
    name, path = facts.command_shell()
    if path != facts.login_shell():
        pytest.skip("the account's shell is none that snapshots are taken of")
    place = Place(tmp_path)
    place.user('[shell]\nsnapshot = "loginShell"\n')
    for file in (".bash_profile", ".zprofile", ".profile"):
        place.profile(COUNTS + "export FROM=profile\nalias hi='echo hello'\n", file)
    with serving("outfitter", place.home, env=place.environ()) as server, Wire(server.url) as wire:
        wire.handshake()
        shell = {"scopeId": "s", "shell": {"name": name, "path": path}}
        params = start_params(
            "p", [path, "-lc", "alias hi; echo $FROM"], envPolicy=POLICY, shellSnapshot=shell
        )
        wire.call("process/start", {**params, "env": {}})
        wire.closed("p")
        assert b"echo hello" in wire.output("p") and b"profile" in wire.output("p")
        assert taken(place.home) == 1


# In a sandbox


def test_startup_files_may_do_no_more_than_the_command(wire: Wire, home: Path) -> None:
    need_sandbox()
    outside = home / "outside"
    (home / ".bash_profile").write_text(
        f"touch {outside} 2>/dev/null && export WROTE=1\nexport FROM=profile\ngreet() {{ echo hello; }}\n"
    )
    sandbox = {"sandbox": read_only(home)}
    assert run(wire, home, "greet; echo $FROM ${WROTE-not}", **sandbox) == ("hello\nprofile not\n", "")
    assert not outside.exists()
    # Without a sandbox it is another snapshot.
    assert run(wire, home, "echo ${WROTE-not}") == ("1\n", "")


def test_a_sandbox_that_hides_where_shells_report_has_no_snapshot(wire: Wire, home: Path) -> None:
    need_sandbox()
    sandbox = context(special("minimal", "read"), at(home, "write"), cwd=home, roots=[home])
    out, err = run(wire, home, "echo ${FROM-none}", sandbox=sandbox)
    assert (out, "the command's sandbox hides /tmp" in err, (home / "count").exists()) == (
        "none\n",
        True,
        False,
    )
