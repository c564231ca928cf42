"""Commands that are shells: what they see whatever their startup files do, and what is told about that."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import outfitter
from outfitter.contract.contract import Contract
from outfitter.contract.settings import Settings, Source
from outfitter.protocol.wishes import ContractParams
from outfitter.server.shells import ShellStart, modes, reporting
from outfitter.shell.start import maintained, prepare
from tests.support.contracts import PATH, Place, variables, wait_for
from tests.support.machine import descriptors, own_descriptors, wait_until
from tests.support.servers import Server, serving
from tests.support.tools import program
from tests.support.wire import Message, Wire, start_params

# What startup files do: the tests count on the order of the lines.
POSIX = """\
export PATH=/from/startup:/bin
export FILTERED=hush-back
export ADDED=hush-added
unset REMOVED
cd /
"""
FISH = """\
set -gx PATH /from/startup /bin
set -gx FILTERED hush-back
set -gx ADDED hush-added
set -e REMOVED
cd /
"""
FILES = {
    "bash": (".bash_profile", POSIX),
    "dash": (".profile", POSIX),
    "zsh": (".zprofile", POSIX),
    "fish": (".config/fish/config.fish", FISH),
}
SHELLS = tuple(FILES)
GIVEN = {"CHANGED": "1", "REMOVED": "hush-removed"}
ENV = "/usr/bin/env -0"
SLEEPING = "exec sleep 1000"
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("place"))
    for name, text in FILES.values():
        place.profile(text, name)
    place.profile(POSIX, ".bashrc")
    return place


@pytest.fixture(scope="module")
def server(place: Place) -> Iterator[Server]:
    env = {**place.environ(), **GIVEN, "FILTERED": "hush-filtered"}
    with serving("outfitter", place.home, "--log-level", "debug", env=env) as server:
        place.user('[shell_environment_policy]\nexclude = ["FILTERED"]\n')
        yield server


def of(process: str, method: str = "") -> Callable[[Message], bool]:
    """For `Wire.until`: any news of a process, or those of one method."""
    return lambda m: m["params"].get("processId") == process and m["method"] == (method or m["method"])


def greet(wire: Wire, *, summaries: bool = True) -> Wire:
    wire.call("initialize", {"clientName": "test", "environmentSummary": summaries})
    wire.send({"method": "initialized", "params": {}})
    return wire


@pytest.fixture
def wire(server: Server, place: Place) -> Iterator[Wire]:
    """A client that wants to hear about environments."""
    with Wire(server.url) as wire:
        yield greet(wire)
    wait_until(lambda: place.pipes() == [], "every pipe is removed")
    place.project_file.unlink(missing_ok=True)


class Ran:
    """One shell: what the answer to its start said, what it printed, what its exit said."""

    def __init__(self, wire: Wire, place: Place, argv: list[str], **params: Any) -> None:
        process = f"p{next(NUMBERS)}"
        told = {"env": {}, "cwd": place.project.as_uri(), "contract": {}, **params}
        self.started = wire.start(process, argv, **told)
        exited = [one["params"] for one in wire.closed(process) if one["method"] == "process/exited"]
        self.exited: Message = exited[0]
        self.output = wire.output(process)

    @property
    def shell(self) -> Message:
        shell: Message = self.started["environment"]["shell"]
        return shell

    @property
    def changes(self) -> dict[str, Message]:
        return {one["name"]: one for one in self.exited["environment"]["changes"]}


def given(place: Place, shell: str, env: dict[str, str] | None = None) -> dict[str, str]:
    """What the contract says, without what the shell keeps itself."""
    every = {**place.environ(), **GIVEN, "SHLVL": "1"} if env is None else env
    return {name: value for name, value in every.items() if name not in maintained(shell) | {"SHLVL"}}


# Three ways


@pytest.mark.parametrize("shell", SHELLS)
def test_enforced_a_shell_reads_nothing(place: Place, wire: Wire, shell: str) -> None:
    ran = Ran(wire, place, [program(shell), "-lc", ENV])
    assert given(place, shell, variables(ran.output)) == given(place, shell)
    assert ran.shell == {
        "name": shell,
        "loginAsked": True,
        "login": False,
        "startup": "enforce",
        "changed": True,
        "withheld": [],
        "notes": ran.shell["notes"],
    }
    assert "environment" not in ran.exited


# In front of a shell, and inside of it


def test_a_shell_behind_a_program_reads_nothing_and_the_summary_says_through_what(
    place: Place, wire: Wire
) -> None:
    ran = Ran(wire, place, ["nice", "env", "A=1", "bash", "-lc", ENV])
    seen = variables(ran.output)
    assert seen.pop("A") == "1"
    assert given(place, "bash", seen) == given(place, "bash")
    assert (ran.shell["name"], ran.shell["loginAsked"], ran.shell["through"]) == (
        "bash",
        True,
        ["nice", "env"],
    )
    assert "flags" not in ran.started["environment"]


def test_a_script_with_a_login_flag_reads_nothing(place: Place, wire: Wire, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(f"#!/bin/bash -l\n{ENV}\n")
    script.chmod(0o755)
    ran = Ran(wire, place, [str(script)])
    assert given(place, "bash", variables(ran.output)) == given(place, "bash")
    assert (ran.shell["loginAsked"], ran.shell["login"]) == (True, False)


def test_what_can_be_seen_and_not_helped_is_flagged_in_the_summary(place: Place, wire: Wire) -> None:
    ran = Ran(wire, place, ["bash", "-c", f"exec bash -lc '{ENV}'"])
    assert variables(ran.output)["FILTERED"] == "hush-back"  # it did run
    assert ran.started["environment"]["flags"] == [
        {"code": "login-shell", "what": "the command text starts a login shell (`bash -lc`)"}
    ]
    ran = Ran(wire, place, ["nice", "--unheard-of", "bash", "-lc", ENV])
    assert [flag["code"] for flag in ran.started["environment"]["flags"]] == ["unknown-option"]
    assert "shell" not in ran.started["environment"]
    ran = Ran(wire, place, [program("strace"), "-fqo/dev/null", "bash", "-lc", ENV])
    assert [flag["code"] for flag in ran.started["environment"]["flags"]] == ["unseen"]


@pytest.mark.parametrize(
    "argv",
    [
        ["env", "bash", "-lc", "true"],
        ["bash", "-c", "exec bash -lc true"],
        ["nice", "sh", "-c", "cd / && bash --login"],
    ],
)
@pytest.mark.parametrize("said", ["allow_login_shell = false\n", '[shell]\nlogin = "reject"\n'])
def test_a_login_shell_that_can_be_seen_is_refused(
    place: Place, wire: Wire, argv: list[str], said: str
) -> None:
    place.project_file.write_text(said)
    params = {**start_params("refused", argv), "env": {}, "cwd": place.project.as_uri(), "contract": {}}
    error = wire.error("process/start", params)
    assert error["data"] == {"error": "login-rejected"}
    assert "not allowed here" in error["message"]


def test_a_flag_for_a_client_that_knows_no_summary_is_in_the_log_once(server: Server, place: Place) -> None:
    with Wire(server.url) as wire:
        greet(wire, summaries=False)
        for process in ("one", "two"):
            policy = {"inherit": "all", "ignoreDefaultExcludes": True, "exclude": [], "set": {}}
            argv = ["sh", "-c", "true; bash --login -c true"]
            params = {**start_params(process, argv), "env": {}, "cwd": place.project.as_uri()}
            wire.call("process/start", {**params, "envPolicy": {**policy, "includeOnly": []}})
            wire.closed(process)
    said = "the command text starts a login shell (`bash --login`)"
    assert (server.home / "outfitter.stderr").read_text().count(said) == 1


@pytest.mark.parametrize("shell", SHELLS)
def test_repaired_a_shell_reads_them_and_the_command_does_not_see_it(
    place: Place, wire: Wire, shell: str
) -> None:
    # L1, L5, L7
    ran = Ran(wire, place, [program(shell), "-lc", f"{ENV}; pwd"], contract={"startup": "repair"})
    printed, _, cwd = ran.output.rpartition(b"\0")
    assert given(place, shell, variables(printed + b"\0")) == given(place, shell)
    assert cwd.decode().strip() == str(place.project)
    assert (ran.shell["startup"], ran.shell["login"]) == ("repair", True)
    told = ran.exited["environment"]
    assert told["reported"] is True
    assert {name: one["kind"] for name, one in ran.changes.items()} == {
        "ADDED": "added",
        "FILTERED": "added",
        "PATH": "changed",
        "REMOVED": "removed",
    }


@pytest.mark.parametrize("shell", SHELLS)
def test_reported_a_shell_keeps_them_and_says_what_they_did(place: Place, wire: Wire, shell: str) -> None:
    ran = Ran(wire, place, [program(shell), "-lc", ENV], contract={"startup": "report"})
    seen = variables(ran.output)
    assert (seen["PATH"], seen["FILTERED"], seen["ADDED"]) == (
        "/from/startup:/bin",
        "hush-back",
        "hush-added",
    )
    assert "REMOVED" not in seen
    name, _ = FILES[shell]
    assert {(one["name"], one["kind"], one["file"], one["line"]) for one in ran.changes.values()} == {
        ("PATH", "changed", str(place.home / name), 1),
        ("FILTERED", "added", str(place.home / name), 2),
        ("ADDED", "added", str(place.home / name), 3),
        ("REMOVED", "removed", str(place.home / name), 4),
    }
    # Values are keyed digests: comparable with those of `environment/resolve` for who has the key, else not.
    assert {"after", "before", "file", "kind", "line", "name"} <= set(ran.changes["PATH"])
    assert sorted(ran.changes["ADDED"]) == ["after", "file", "kind", "line", "name"]
    assert sorted(ran.changes["REMOVED"]) == ["before", "file", "kind", "line", "name"]
    assert {
        len(one[side]) for one in ran.changes.values() for side in ("before", "after") if side in one
    } == {16}
    assert "hush" not in json.dumps([ran.started, ran.exited])


def test_the_same_change_has_the_same_digest(place: Place, wire: Wire) -> None:
    argv = [program("bash"), "-lc", ":"]
    one, other = [Ran(wire, place, argv, contract={"startup": "report"}).changes for _ in range(2)]
    assert one == other
    assert one["PATH"]["before"] != one["PATH"]["after"]


def test_what_a_startup_file_made_readonly_is_told(place: Place, wire: Wire, tmp_path: Path) -> None:
    (tmp_path / ".bash_profile").write_text("export FIXED=1\nreadonly FIXED\n")
    env = {"HOME": str(tmp_path)}
    ran = Ran(wire, place, [program("bash"), "-lc", ENV], env=env, contract={"startup": "repair"})
    assert ran.exited["environment"]["readonly"] == ["FIXED"]


def test_a_shell_that_is_replaced_has_reported_nothing(place: Place, wire: Wire, tmp_path: Path) -> None:
    (tmp_path / ".bash_profile").write_text("exec true\n")
    env = {"HOME": str(tmp_path)}
    ran = Ran(wire, place, [program("bash"), "-lc", "echo never"], env=env, contract={"startup": "report"})
    assert ran.exited["environment"]["reported"] is False
    assert "changes" not in ran.exited["environment"]
    assert ran.output == b""


def test_a_shell_on_a_terminal_reports_too(place: Place, wire: Wire) -> None:
    ran = Ran(
        wire, place, [program("bash"), "-ilc", "echo $ADDED; tty"], tty=True, contract={"startup": "report"}
    )
    assert ran.output.startswith(b"hush-added\r\n/dev/pts/")
    assert ran.changes["ADDED"]["file"] == str(place.home / ".bash_profile")
    assert "SHELL" not in ran.changes


def test_a_large_environment_is_reported_whole(place: Place, wire: Wire, tmp_path: Path) -> None:
    # A pipe holds 64 KiB; this is far more.
    lines = "".join(f"export N{number}={'x' * 100}\n" for number in range(2000))
    (tmp_path / ".bash_profile").write_text(lines)
    env = {"HOME": str(tmp_path)}
    ran = Ran(wire, place, [program("bash"), "-lc", "echo done"], env=env, contract={"startup": "report"})
    assert ran.output == b"done\n"
    assert ran.exited["environment"]["reported"] is True
    assert len([name for name in ran.changes if name.startswith("N")]) == 2000
    assert ran.changes["N1999"]["line"] == 2000


def test_a_report_larger_than_any_environment_holds_up_nobody(
    place: Place, wire: Wire, tmp_path: Path
) -> None:
    (tmp_path / ".bash_profile").write_text("printf -v BIG %3000000d 1; export BIG\n")
    for startup in ("report", "repair"):
        ran = Ran(
            wire,
            place,
            [program("bash"), "-lc", "echo ${#BIG}"],
            contract={"startup": startup},
            env={"HOME": str(tmp_path)},
        )
        assert ran.output == (b"3000000\n" if startup == "report" else b"0\n")
        assert ran.exited["environment"]["reported"] is False


def test_a_report_of_escapes_is_not_read(place: Place, wire: Wire, tmp_path: Path) -> None:
    # Each quotation mark is escaped in bash's report.
    for count, reported in ((1000, True), (100_000, False)):
        made = f"head -c {count} /dev/zero | tr '\\0' '\"'"
        (tmp_path / ".bash_profile").write_text(f"export MARKS=$({made})\n")
        ran = Ran(
            wire,
            place,
            [program("bash"), "-lc", "echo ${#MARKS}"],
            contract={"startup": "report"},
            env={"HOME": str(tmp_path), "PATH": PATH},
        )
        assert ran.output == f"{count}\n".encode()
        assert ran.exited["environment"]["reported"] is reported


FLOOD = "head -c 5000000 /dev/zero >$TMPDIR/outfitter-*/report; echo over\n"


def test_a_startup_file_that_floods_the_pipe_is_not_believed(
    place: Place, wire: Wire, tmp_path: Path
) -> None:
    (tmp_path / ".bash_profile").write_text(FLOOD)
    env = {"HOME": str(tmp_path), "PATH": PATH}
    ran = Ran(wire, place, [program("bash"), "-lc", ":"], contract={"startup": "report"}, env=env)
    assert ran.output.endswith(b"over\n")
    assert ran.exited["environment"]["reported"] is False


def test_a_command_cannot_spoil_the_report(place: Place, wire: Wire) -> None:
    # Whether it still finds the pipe is a matter of time; what it writes there comes too late.
    for text in (FLOOD, "for pipe in $TMPDIR/outfitter-*; do echo x >$pipe/report; done; echo over"):
        argv = [program("bash"), "-lc", text]
        ran = Ran(wire, place, argv, contract={"startup": "report"}, env={"PATH": PATH})
        assert b"over\n" in ran.output
        assert ran.exited["environment"]["reported"] is True
        assert ran.changes["ADDED"]["line"] == 3


def test_the_pipe_goes_with_the_report_and_the_command_runs_on(place: Place, wire: Wire) -> None:
    params = {"cwd": place.project.as_uri(), "env": {"PATH": PATH}, "contract": {"startup": "report"}}
    wire.start("runs-on", [program("bash"), "-lc", f"echo ready; {SLEEPING}"], **params)
    wire.until(of("runs-on"))
    wait_until(lambda: place.pipes() == [], "the pipe is removed")
    assert wire.call("process/terminate", {"processId": "runs-on"}) == {"running": True}
    exited = [one["params"] for one in wire.closed("runs-on") if one["method"] == "process/exited"]
    # It has said what its startup files did, long before.
    assert exited[0]["environment"]["reported"] is True


def test_background_jobs_do_not_hold_up_the_report(place: Place, wire: Wire) -> None:
    argv = [program("bash"), "-lc", "exec >/dev/null 2>&1; sleep 1000 & echo"]
    assert Ran(wire, place, argv, contract={"startup": "report"}).exited["environment"]["reported"] is True


def test_what_is_no_shell_has_nothing_to_tell(place: Place, wire: Wire) -> None:
    ran = Ran(wire, place, ["/usr/bin/env", "-0"], contract={"startup": "report"})
    assert "shell" not in ran.started["environment"]
    assert "environment" not in ran.exited
    assert given(place, "bash", variables(ran.output)) == given(place, "bash")


def test_nothing_is_told_to_who_did_not_ask(place: Place, server: Server) -> None:
    with Wire(server.url) as wire:
        greet(wire, summaries=False)
        for startup in ("enforce", "repair", "report"):
            ran = Ran(wire, place, [program("bash"), "-lc", ":"], contract={"startup": startup})
            assert sorted(ran.started) == ["pid", "processId", "sandboxType"]
            assert sorted(ran.exited) == ["exitCode", "processId", "sandboxDenied", "seq"]
    wait_until(lambda: place.pipes() == [], "every pipe is removed")


# A stock client's shells


def test_a_stock_clients_login_shell_does_not_undo_its_environment(place: Place, wire: Wire) -> None:
    env = {"PATH": "/contract:/bin", "HOME": str(place.home), "SSH_CLIENT": "192.0.2.1 1 2"}
    ran = Ran(wire, place, [program("bash"), "-lc", ENV], contract=None, env=env)
    assert given(place, "bash", variables(ran.output)) == env


def test_code_that_a_variable_smuggles_in_is_withheld(place: Place, wire: Wire, tmp_path: Path) -> None:
    # L11
    smuggled = tmp_path / "env.sh"
    smuggled.write_text(f"touch {tmp_path}/ran\n")
    ran = Ran(wire, place, [program("bash"), "-c", ENV], env={"BASH_ENV": str(smuggled)})
    assert ran.shell["withheld"] == ["BASH_ENV"]
    assert "BASH_ENV" not in variables(ran.output)
    assert not (tmp_path / "ran").exists()
    # Other programs get it as it is.
    ran = Ran(wire, place, ["/usr/bin/env", "-0"], env={"BASH_ENV": str(smuggled)})
    assert variables(ran.output)["BASH_ENV"] == str(smuggled)


# Configuration and requests


def test_a_login_shell_is_refused_where_it_is_not_allowed(place: Place, wire: Wire) -> None:
    # L4
    place.says('[shell]\nlogin = "reject"\n')
    here = {"cwd": place.project.as_uri(), "env": {}}
    for contract in (None, {}, {"login": "allow"}, {"login": "strip"}, {"startup": "report"}):
        params = start_params("p", [program("bash"), "-lc", ":"], **here, contract=contract)
        error = wire.error("process/start", params)
        assert error["code"] == -32600
        assert error["data"] == {"error": "login-rejected"}
        assert "`-lc`" in error["message"]
    dashed = start_params("p", [program("bash"), "-c", ":"], **here, arg0="-bash", contract={})
    assert wire.error("process/start", dashed)["data"] == {"error": "login-rejected"}
    assert Ran(wire, place, [program("bash"), "-c", "echo ok"]).output == b"ok\n"
    assert (
        Ran(wire, place, [program("bash"), "-lc", "echo ok"], cwd=place.elsewhere.as_uri()).output == b"ok\n"
    )


def test_a_request_may_refuse_login_shells_itself(place: Place, wire: Wire) -> None:
    params = start_params("p", [program("bash"), "-lc", ":"], contract={"login": "reject"})
    assert wire.error("process/start", params)["data"] == {"error": "login-rejected"}


DEFAULT = Source("", None, "default")
SAID = Source("config.toml", 2, "user")


@pytest.mark.parametrize(
    ("login", "startup", "asked", "wanted"),
    [
        # Nobody asks: what is configured, or the default.
        (None, None, None, ("strip", "enforce")),
        (None, None, ContractParams(), ("strip", "enforce")),
        ("allow", "report", None, ("allow", "report")),
        # L3: what is asked wins over what is configured.
        (None, None, ContractParams(login="allow"), ("allow", "enforce")),
        ("allow", "report", ContractParams(login="strip", startup="enforce"), ("strip", "enforce")),
        ("strip", "enforce", ContractParams(startup="repair"), ("strip", "repair")),
        # Where nobody says, a shell whose startup files are let in may be a login shell.
        (None, None, ContractParams(startup="repair"), ("allow", "repair")),
        (None, None, ContractParams(startup="report"), ("allow", "report")),
        (None, "report", ContractParams(startup="enforce"), ("strip", "enforce")),
        # But not over a refusal, in either direction.
        ("reject", "enforce", ContractParams(login="allow"), ("reject", "enforce")),
        ("reject", "enforce", ContractParams(startup="report"), ("reject", "report")),
        ("allow", "report", ContractParams(login="reject"), ("reject", "report")),
        # A model asks for less, never for more.
        (None, None, ContractParams("model", login="allow"), ("strip", "enforce")),
        (None, None, ContractParams("model", startup="report"), ("strip", "enforce")),
        ("allow", "report", ContractParams("model", startup="repair"), ("allow", "repair")),
        ("allow", "report", ContractParams("model", login="strip", startup="enforce"), ("strip", "enforce")),
    ],
)
def test_the_requests_word_holds_within_what_is_configured(
    login: str | None, startup: str | None, asked: ContractParams | None, wanted: tuple[str, str]
) -> None:
    settings = Settings()
    if startup is not None:
        settings.startup = startup
        settings.login = "strip" if startup == "enforce" else "allow"
    if login is not None:
        settings.login = login
        settings.sources["shell.login"] = SAID
    assert modes(settings, asked) == wanted


def test_configuration_holds_for_who_says_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.profile(POSIX)
    place.user('[shell]\nstartup = "report"\n')

    async def scenario() -> None:
        async with outfitter.local(environment=place.environ(), summaries=True) as client:
            argv, here = [program("bash"), "-lc", "echo $ADDED"], str(place.project)
            done = await client.run(argv, cwd=here)
            assert done.stdout == b"hush-added\n"
            assert done.startup["reported"] is True
            enforced = await client.run(argv, cwd=here, contract=outfitter.EnvContract(startup="enforce"))
            assert enforced.stdout == b"\n"
            assert enforced.startup is None
            # A project makes it stricter.
            place.says('[shell]\nstartup = "enforce"\n')
            assert (await client.run(argv, cwd=here)).stdout == b"\n"
        assert place.pipes() == []

    wait_for(scenario())


# Pipes


def test_a_pipe_that_cannot_be_made_does_not_stop_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    place.profile(POSIX)

    def refuse(path: str, *_: object) -> None:
        raise PermissionError(1, "operation not permitted")

    monkeypatch.setattr(os, "mkfifo", refuse)

    async def scenario() -> None:
        async with outfitter.local(environment=place.environ(REMOVED="1"), summaries=True) as client:
            for startup, printed in (("repair", b"1\n"), ("report", b"hush-added\n")):
                done = await client.run(
                    [program("bash"), "-lc", "echo $REMOVED$ADDED"],
                    contract=outfitter.EnvContract(startup=startup),
                )
                assert done.stdout == printed
                assert done.startup is None
        assert place.pipes() == []

    wait_for(scenario())


def at_startup(place: Place) -> dict[str, str]:
    """For a shell that gets no further than its startup files, so that its pipe is there."""
    place.write(place.elsewhere / ".bash_profile", f"echo ready; {SLEEPING}\n")
    return {"PATH": PATH, "HOME": str(place.elsewhere)}


def test_pipes_go_when_a_command_is_ended(place: Place, wire: Wire) -> None:
    for number, tty in enumerate((False, True)):
        process = f"ended-{number}"
        params = {"cwd": place.project.as_uri(), "env": at_startup(place), "contract": {"startup": "report"}}
        wire.start(process, [program("bash"), "-lc", ":"], **params, tty=tty)
        wire.until(of(process))
        assert len(place.pipes()) == 1
        assert wire.call("process/terminate", {"processId": process}) == {"running": True}
        exited = [one["params"] for one in wire.closed(process) if one["method"] == "process/exited"]
        assert exited[0]["environment"]["reported"] is False
        assert place.pipes() == []


def test_pipes_go_when_a_start_fails(place: Place, wire: Wire, tmp_path: Path) -> None:
    report = {"contract": {"startup": "report"}, "env": {}}
    wire.start("taken", ["sleep", "1000"])
    for params in (
        start_params("p", [program("bash"), "-lc", ":"], **report, cwd=(tmp_path / "missing").as_uri()),
        start_params("p", [f"{tmp_path}/bash", "-lc", ":"], **report),
        start_params("taken", [program("bash"), "-lc", ":"], **report),
    ):
        wire.error("process/start", params)
        assert place.pipes() == []


def test_pipes_go_when_a_login_shell_is_refused(wire: Wire, place: Place) -> None:
    asked = {"login": "reject", "startup": "report"}
    refused = wire.error("process/start", start_params("p", [program("bash"), "-lc", ":"], contract=asked))
    assert refused["data"] == {"error": "login-rejected"}
    assert place.pipes() == []


def test_pipes_go_with_a_session(place: Place, tmp_path: Path) -> None:
    with serving("outfitter", place.home, "--session-retention", "0", env=place.environ()) as server:
        with Wire(server.url) as wire:
            start_sleeping(greet(wire), place)
        wait_until(lambda: place.pipes() == [], "every pipe is removed")
        assert server.popen.poll() is None


def test_pipes_go_with_a_server(place: Place) -> None:
    with serving("outfitter", place.home, env=place.environ()) as server, Wire(server.url) as wire:
        start_sleeping(greet(wire), place)
        server.popen.terminate()
        server.popen.wait()
        assert place.pipes() == []


def start_sleeping(wire: Wire, place: Place) -> None:
    params = {"cwd": place.project.as_uri(), "env": at_startup(place), "contract": {"startup": "report"}}
    for number in range(3):
        wire.start(f"p{number}", [program("bash"), "-lc", ":"], **params)
        wire.until(of(f"p{number}"))
    assert len(place.pipes()) == 3


def test_pipes_go_with_a_local_executor(tmp_path: Path) -> None:
    place = Place(tmp_path)

    async def scenario() -> None:
        before = own_descriptors()
        async with outfitter.local(environment=place.environ(), summaries=True) as client:
            for _ in range(3):
                process = await client.start(
                    [program("bash"), "-lc", ":"],
                    env=at_startup(place),
                    contract=outfitter.EnvContract(startup="report"),
                )
                async for _ in process:
                    break
                process.keep()
            assert len(place.pipes()) == 3
        assert place.pipes() == []
        await asyncio.sleep(0)
        assert len(own_descriptors()) == len(before)

    wait_for(scenario())


def test_thousands_of_shells_leave_no_descriptor(place: Place, wire: Wire, server: Server) -> None:
    params = {"cwd": "file:///", "env": {}, "contract": {"startup": "report"}}

    def many(count: int) -> None:
        names = [f"many-{next(NUMBERS)}" for _ in range(count)]
        starts = [
            wire.request("process/start", start_params(name, [program("dash"), "-lc", ":"], **params))
            for name in names
        ]
        for start in starts:
            assert "result" in wire.answer(start)
        for name in names:
            wire.until(of(name, "process/closed"))
        wire.notices.clear()

    many(10)
    before = descriptors(server.pid)
    for _ in range(20):
        many(50)
    # Who waits for a command is told first; its descriptors are closed a moment later.
    wait_until(lambda: descriptors(server.pid) <= before, "every descriptor is closed")
    assert place.pipes() == []
    # Without the shells, for the sake of time.
    contract = Contract(place.base(), None, "/bin/sh")
    own = len(own_descriptors())
    env = contract.base.values
    for _ in range(2000):
        report = reporting("report", env, wanted=True)
        assert report is not None
        plan = prepare(
            "dash",
            ["dash", "-lc", ":"],
            login="allow",
            startup="report",
            env=env,
            cwd="/",
            probe=report.probe,
        )
        assert plan is not None
        shell = ShellStart(plan, env, contract, report, True)
        assert shell.reports
        assert shell.report()["reported"] is False
        shell.close()
    assert len(own_descriptors()) == own
    assert place.pipes() == []


def test_the_log_has_names_and_places_and_no_values(server: Server, place: Place) -> None:
    with Wire(server.url) as wire:  # of a client that does not want to hear it
        greet(wire, summaries=False)
        Ran(wire, place, [program("bash"), "-lc", ":"], contract={"startup": "report"})
    log = (server.home / "outfitter.stderr").read_text()
    profile = place.home / ".bash_profile"
    assert f"startup files of bash changed ADDED (added, {profile}:3), FILTERED (added, {profile}:2)" in log
    assert "hush" not in log


def test_the_log_says_the_same_change_once(server: Server, place: Place, tmp_path: Path) -> None:
    (tmp_path / ".bash_profile").write_text("export SAID=1\n")
    argv, env = [program("bash"), "-lc", ":"], {"HOME": str(tmp_path)}

    def lines() -> list[str]:
        log = (server.home / "outfitter.stderr").read_text().splitlines()
        return [line for line in log if f"SAID (added, {tmp_path}" in line]

    with Wire(server.url) as wire:
        greet(wire, summaries=False)
        for _ in range(3):
            Ran(wire, place, argv, env=env, contract={"startup": "report"})
        assert len(lines()) == 1
        (tmp_path / ".bash_profile").write_text("\nexport SAID=2\n")
        Ran(wire, place, argv, env=env, contract={"startup": "report"})
        assert [line.rpartition("/.bash_profile:")[2] for line in lines()] == ["1)", "2)"]
