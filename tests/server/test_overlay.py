"""Overlays over the wire: what a session was given reaches its commands, and nobody else's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.contracts import Place, variables
from tests.support.servers import Server, serving
from tests.support.wire import Message, Wire, start_params

SERVERS = {"KEPT": "kept", "A_TOKEN": "hush-token"}
NUMBERS = itertools.count(1)
THREAD = "0199d8aa-1111-7000-8000-000000000001"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("place"))
    place.user(
        '[overlays.rocm]\nset = { GFX = "11" }\n[overlays.msvc]\nset = { GFX = "none", CL = "1" }\n'
        '[env]\nset = { USERS = "1", MY_TOKEN = "hush-mine" }\n'
        '[shell_environment_policy]\nset = { POLICY_TOKEN = "hush-policy" }\n'
    )
    return place


@pytest.fixture(scope="module")
def server(place: Place) -> Iterator[Server]:
    env = {**place.environ(), **SERVERS}
    with serving("outfitter", place.home, "--log-level", "debug", env=env, cwd=place.elsewhere) as server:
        yield server


@pytest.fixture
def scope() -> str:
    return f"thread-{next(NUMBERS)}"


def put(wire: Wire, scope: str, producer: str, **told: object) -> Message:
    answer: Message = wire.call("environment/overlay/put", {"scope": scope, "producer": producer, **told})
    return answer


def event(wire: Wire, scope: str, name: str, **more: object) -> Message:
    answer: Message = wire.call("environment/overlay/event", {"scope": scope, "event": name, **more})
    return answer


def listed(wire: Wire, scope: str) -> dict[str, list[str]]:
    found = wire.call("environment/overlay/list", {"scope": scope})["contributions"]
    return {one["producer"]: one["set"] for one in found}


def run(wire: Wire, place: Place, **contract: object) -> dict[str, str]:
    """What a command gets."""
    process = f"p{next(NUMBERS)}"
    params = start_params(process, ["/usr/bin/env", "-0"], cwd=place.project.as_uri(), contract=contract)
    wire.call("process/start", {**params, "env": {}})
    wire.closed(process)
    return variables(wire.output(process))


def test_what_a_session_was_given_reaches_its_commands_and_no_others(
    wire: Wire, server: Server, place: Place, scope: str
) -> None:
    # O1
    assert put(wire, scope, "hook:h", set={"A": "1"}, prepend={"PATH": ["/x/bin"]}) == {
        "names": ["A", "PATH"],
        "rejected": [],
    }
    got = run(wire, place, scope=scope)
    assert (got["A"], got["PATH"].split(":")[0], got["OUTFITTER_SCOPE"]) == ("1", "/x/bin", scope)
    for other in ({"scope": f"{scope}-other"}, {}):
        assert "A" not in run(wire, place, **other)
    # Another connection of the same client's, or one that comes later, has the same.
    with Wire(server.url) as later:
        later.handshake()
        assert run(later, place, scope=scope)["A"] == "1"


def test_a_client_of_the_reference_gets_nothing_of_it(wire: Wire, place: Place, scope: str) -> None:
    put(wire, scope, "hook:h", set={"A": "1"})
    wire.call("process/start", start_params(scope, ["/usr/bin/env", "-0"], cwd=place.project.as_uri()))
    wire.closed(scope)
    assert "A" not in variables(wire.output(scope))


def test_later_producers_win_in_their_declared_order(wire: Wire, place: Place, scope: str) -> None:
    # O1, O4
    order = ["hook:a", "hook:b"]
    for producer in ("hook:b", "hook:a"):
        put(wire, scope, producer, set={"A": producer}, order=order)
    assert run(wire, place, scope=scope)["A"] == "hook:b"


def test_what_is_refused_is_told_to_its_producer(wire: Wire, place: Place, scope: str) -> None:
    # O2
    values = {"": "x", "A=B": "x", "N": 1, "OUTFITTER_X": "x", "LD_PRELOAD": "x", "OK": "1"}
    values["CODEX_THREAD_ID"] = "x"
    told = put(wire, scope, "hook:h", set=values, unset=["HOME"], bogus=1)
    assert told["names"] == ["OK"]
    assert {(one["producer"], one["name"], one["reason"]) for one in told["rejected"]} == {
        ("hook:h", "bogus", "field"),
        ("hook:h", "", "name"),
        ("hook:h", "A=B", "name"),
        ("hook:h", "N", "value"),
        ("hook:h", "OUTFITTER_X", "runtime"),
        ("hook:h", "CODEX_THREAD_ID", "runtime"),
        ("hook:h", "LD_PRELOAD", "code-loading"),
        ("hook:h", "HOME", "required"),
    }
    got = run(wire, place, scope=scope)
    assert (got["OK"], "LD_PRELOAD" in got, "HOME" in got) == ("1", False, True)
    for wrong in ({"set": {"A": 1}}, {"set": {"LD_PRELOAD": "x"}}):
        error = wire.error(
            "environment/overlay/put", {"scope": scope, "producer": "hook:s", "strict": True, **wrong}
        )
        assert error["data"] == {"error": "overlay-refused"}
    assert "hook:s" not in listed(wire, scope)


def test_values_are_data_that_no_shell_reads(wire: Wire, place: Place, scope: str, tmp_path: Path) -> None:
    # O3
    value = f"$(touch {tmp_path}/ran) `touch {tmp_path}/ran`; touch {tmp_path}/ran"
    put(wire, scope, "hook:h", set={"A": value})
    assert run(wire, place, scope=scope)["A"] == value
    assert list(tmp_path.iterdir()) == []


def test_unset_is_not_the_same_as_empty(wire: Wire, place: Place, scope: str) -> None:
    # O12
    put(wire, scope, "user", set={"KEPT": None})
    assert "KEPT" not in run(wire, place, scope=scope)
    put(wire, scope, "user", set={"KEPT": ""})
    assert run(wire, place, scope=scope)["KEPT"] == ""
    assert wire.call("environment/overlay/drop", {"scope": scope, "producer": "user"}) == {"dropped": True}
    assert run(wire, place, scope=scope)["KEPT"] == "kept"


def test_words_are_replaced_or_added_to(wire: Wire, scope: str) -> None:
    put(wire, scope, "user", set={"A": "1"})
    put(wire, scope, "user", set={"B": "1"}, merge=True)
    assert listed(wire, scope) == {"user": ["A", "B"]}
    put(wire, scope, "user", set={"C": "1"})
    assert listed(wire, scope) == {"user": ["C"]}


def test_resume_keeps_clear_drops_what_hooks_said(wire: Wire, place: Place, scope: str) -> None:
    # O5, W7
    put(wire, scope, "hook:h", set={"H": "old"})
    put(wire, scope, "user", set={"U": "1", "U_TOKEN": "hush", "SSH_AUTH_SOCK": "/run/agent"})
    told = event(wire, scope, "resume")
    assert (told["rerun"], told["reason"]) == (["hook:h"], "resume")
    assert told["lost"] == [{"producer": "user", "name": "U_TOKEN"}]
    put(wire, scope, "hook:h", set={"H": "new"})
    got = run(wire, place, scope=scope)
    assert (got["H"], got["U"], got["SSH_AUTH_SOCK"], "U_TOKEN" in got) == ("new", "1", "/run/agent", False)
    for name in ("compact", "cwd", "root", "daemon"):
        assert event(wire, scope, name)["rerun"] == []
    assert listed(wire, scope) == {"hook:h": ["H"], "user": ["SSH_AUTH_SOCK", "U"]}
    told = event(wire, scope, "clear")
    assert (told["rerun"], told["reason"], told["lost"]) == (["hook:h"], "clear", [])
    got = run(wire, place, scope=scope)
    assert ("H" in got, got["U"]) == (False, "1")
    assert event(wire, scope, "new")["contributions"] == []


def test_a_child_has_a_copy_that_goes_its_own_way(wire: Wire, place: Place, scope: str) -> None:
    # O8, O9
    put(wire, scope, "hook:h", set={"A": "1", "B": "1"})
    child = f"{scope}/child"
    event(wire, scope, "fork", to=child, unset=["B", "KEPT"], hideSecrets=True)
    got = run(wire, place, scope=child)
    assert (got["OUTFITTER_SCOPE"], got["OUTFITTER_PARENT_SCOPE"], got["A"]) == (child, scope, "1")
    assert {"B", "KEPT", "A_TOKEN"}.isdisjoint(got)
    # More than its parent has it does not get, and nothing of it comes back.
    put(wire, child, "hook:own", set={"B": "2", "OWN": "1"})
    got = run(wire, place, scope=child)
    assert ("B" in got, got["OWN"]) == (False, "1")
    parents = run(wire, place, scope=scope)
    assert (parents["B"], "OWN" in parents, "OUTFITTER_PARENT_SCOPE" in parents) == ("1", False, False)
    told = wire.call("environment/overlay/list", {"scope": child})
    assert (told["parent"], told["withheld"]) == (
        scope,
        ["A_TOKEN", "B", "KEPT", "MY_TOKEN", "POLICY_TOKEN"],
    )


def test_named_overlays_are_chosen_by_call(wire: Wire, place: Place) -> None:
    # O10
    assert run(wire, place, overlays=["rocm"])["GFX"] == "11"
    got = run(wire, place, overlays=["rocm", "msvc"])
    assert (got["GFX"], got["CL"]) == ("none", "1")
    assert "GFX" not in run(wire, place)
    params = start_params("unknown", ["true"], cwd=place.project.as_uri(), contract={"overlays": ["cuda"]})
    error = wire.error("process/start", params)
    assert (error["data"], "or use one of: `rocm`, `msvc`" in error["message"]) == (
        {"error": "overlay-unknown"},
        True,
    )


def test_explain_names_the_producer(wire: Wire, place: Place, scope: str) -> None:
    put(wire, scope, "hook:h", set={"A": "hush-a", "MINE": "hush-mine"}, secrets=["MINE"])
    told = wire.call(
        "environment/explain",
        {
            "env": {}, "envPolicy": None, "tty": False, "cwd": place.project.as_uri(), "show": "values",
            "contract": {"scope": scope, "overlays": ["rocm"]},
        },
    )  # fmt: skip
    found = {name: told["variables"][name] for name in ("A", "MINE", "GFX")}
    assert [(one["layer"], one["id"]) for one in found.values()] == [
        ("L5", "hook:h"),
        ("L5", "hook:h"),
        ("L5", "named:rocm"),
    ]
    assert (found["A"]["value"], found["MINE"]["secret"], "value" in found["MINE"]) == ("hush-a", True, False)
    assert found["GFX"]["origin"]["line"] == 2


def test_fingerprints_do_not_tell_sessions_apart_that_are_the_same(
    wire: Wire, place: Place, scope: str
) -> None:
    def fingerprints(scope: str) -> tuple[str, str]:
        params: Message = {"env": {}, "envPolicy": None, "tty": False, "cwd": place.project.as_uri()}
        told = wire.call("environment/resolve", {**params, "contract": {"scope": scope}})
        return told["env_fp"], told["contract_fp"]

    put(wire, scope, "hook:h", set={"A": "1"})
    event(wire, scope, "fork", to=f"{scope}/copy")
    before = fingerprints(scope)
    assert fingerprints(f"{scope}/copy")[1] == before[1]
    put(wire, scope, "hook:h", set={"A": "2"})
    assert fingerprints(scope)[1] != before[1]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("put", {"scope": "", "producer": "user"}),
        ("put", {"scope": "s", "producer": "my-hook"}),
        ("put", {"scope": "s", "producer": "named:rocm"}),
        ("event", {"scope": "s", "event": "fork"}),
        ("event", {"scope": "s", "event": "fork", "to": "s"}),
        ("event", {"scope": "s", "event": "clear", "to": "t"}),
        ("event", {"scope": "s", "event": "clear", "unset": ["A"]}),
        ("event", {"scope": "s", "event": "clear", "hideSecrets": True}),
    ],
)
def test_requests_that_make_no_sense_are_refused(wire: Wire, method: str, params: dict[str, Any]) -> None:
    assert wire.error(f"environment/overlay/{method}", params)["code"] == -32602


def test_values_are_told_to_nobody(wire: Wire, server: Server, scope: str) -> None:
    put(wire, scope, "hook:h", set={"A": "hush-value", "N": 1, "L": "hush\0"}, append={"PATH": ["/hush/bin"]})
    strict = {"scope": scope, "producer": "hook:y", "strict": True, "set": {"A": "hush-value", "N": 1}}
    answers = [
        put(wire, scope, "hook:x", set={"A": "hush-value\0"}),
        wire.call("environment/overlay/list", {"scope": scope}),
        event(wire, scope, "resume"),
        wire.error("environment/overlay/put", strict),
    ]
    assert "hush-value" not in str(answers)
    assert "/hush/bin" not in str(answers)


def test_a_large_contribution_is_refused_as_such(wire: Wire, scope: str) -> None:
    values = {f"A{number}": "x" * 100_000 for number in range(11)}
    params = {"scope": scope, "producer": "hook:h", "set": values}
    assert wire.error("environment/overlay/put", params)["data"] == {"error": "overlays-full"}
    assert listed(wire, scope) == {}


def test_a_session_that_has_ended_is_forgotten_whole(wire: Wire, place: Place, scope: str) -> None:
    event(wire, scope, "fork", to=f"{scope}/copy", unset=["KEPT"])
    assert "KEPT" not in run(wire, place, scope=f"{scope}/copy")
    drop = {"scope": f"{scope}/copy"}
    error = wire.error("environment/overlay/drop", {**drop, "names": ["A"]})
    assert error["message"] == "`names` needs a `producer`"
    assert wire.call("environment/overlay/drop", drop) == {"dropped": True}
    assert wire.call("environment/overlay/drop", drop) == {"dropped": False}
    event(wire, scope, "fork", to=f"{scope}/copy")  # its name is free again


def test_as_many_names_as_a_message_can_have_hold_nobody_up(wire: Wire, place: Place, scope: str) -> None:
    names = [f"N{number}" for number in range(32_000)]
    for told in ({"unset": names}, {"set": dict.fromkeys(names, ""), "unset": ["A"]}):
        error = wire.error("environment/overlay/put", {"scope": scope, "producer": "hook:h", **told})
        assert error["data"] == {"error": "overlays-full"}
    fork = {"scope": scope, "event": "fork", "to": f"{scope}/copy", "unset": names}
    assert wire.error("environment/overlay/event", fork)["data"] == {"error": "overlays-full"}
    assert run(wire, place, scope=scope)["KEPT"] == "kept"


def test_a_copy_has_less_than_the_user_s_configuration_gives_everybody(
    wire: Wire, place: Place, scope: str
) -> None:
    event(wire, scope, "fork", to=f"{scope}/copy", unset=["USERS"], hideSecrets=True)
    got = run(wire, place, scope=scope)
    assert (got["USERS"], got["MY_TOKEN"]) == ("1", "hush-mine")
    assert {"USERS", "MY_TOKEN", "A_TOKEN"}.isdisjoint(run(wire, place, scope=f"{scope}/copy"))


def test_what_has_a_secret_in_it_is_hidden_from_a_copy_as_well(wire: Wire, place: Place, scope: str) -> None:
    put(wire, scope, "hook:h", set={"X": "hush-x", "HEADER": "Bearer hush-x", "PLAIN": "1"}, secrets=["X"])
    put(wire, scope, "hook:i", set={"OF_BASE": "a hush-token"}, prepend={"PKG_CONFIG_PATH": ["/hush-mine/x"]})
    put(wire, scope, "hook:j", set={"OF_POLICY": "a hush-policy"})
    event(wire, scope, "fork", to=f"{scope}/copy", hideSecrets=True)
    got = run(wire, place, scope=f"{scope}/copy")
    assert got["PLAIN"] == "1"
    assert not [name for name, value in got.items() if "hush" in value]


def test_what_has_a_secret_of_the_client_s_own_environment_in_it_is_hidden(
    wire: Wire, place: Place, scope: str
) -> None:
    given = {**place.environ(), "THEIR_TOKEN": "hush-theirs"}
    wire.call("environment/base", {"rule": "client", "pid": 1, "env": given})
    put(wire, scope, "hook:h", set={"HEADER": "Bearer hush-theirs"})
    assert run(wire, place, scope=scope)["HEADER"] == "Bearer hush-theirs"
    event(wire, scope, "fork", to=f"{scope}/copy", hideSecrets=True)
    assert {"THEIR_TOKEN", "HEADER"}.isdisjoint(run(wire, place, scope=f"{scope}/copy"))


def test_a_copy_that_is_not_there_is_refused_and_has_not_everything(wire: Wire, place: Place) -> None:
    put(wire, "parent", "user", set={"U": "1", "U_TOKEN": "hush"})
    event(wire, "parent", "fork", to="parent/child", unset=["U"])
    assert "U" not in run(wire, place, scope="parent/child")
    gone = {"scope": "parent/child", "producer": "user"}
    assert wire.call("environment/overlay/drop", gone) == {"dropped": True}
    assert "U" not in run(wire, place, scope="parent/child")  # it has nothing left, and is still a copy
    assert wire.call("environment/overlay/drop", {"scope": "parent/child"}) == {"dropped": True}
    params = start_params("gone", ["true"], cwd=place.project.as_uri(), contract={"scope": "parent/child"})
    for method, more in (
        ("process/start", params),
        ("environment/overlay/put", {"scope": "parent/child", "producer": "user", "set": {"A": "1"}}),
        ("environment/overlay/list", {"scope": "parent/child"}),
    ):
        error = wire.answer(wire.request(method, more))["error"]
        assert error["data"]["error"] == "scope-unknown"
        assert "fork `parent` again" in error["message"]
    forked = {"scope": "parent", "event": "fork", "to": "other/child"}
    error = wire.answer(wire.request("environment/overlay/event", forked))["error"]
    assert "write `parent/NAME`" in error["message"]


def test_a_put_of_what_a_fork_shall_not_have_is_rejected(wire: Wire, place: Place, scope: str) -> None:
    # O8
    put(wire, scope, "user", set={"U": "1"})
    child = f"{scope}/child"
    event(wire, scope, "fork", to=child, unset=["U"])
    told = put(wire, child, "hook:h", set={"U": "2", "MORE": "1"}, prepend={"PATH": ["/x"]})
    assert told["names"] == ["MORE", "PATH"]
    assert [(one["name"], one["reason"]) for one in told["rejected"]] == [("U", "narrowed")]
    assert "removed when this session was forked" in told["rejected"][0]["why"]
    got = run(wire, place, scope=child)
    assert ("U" in got, got["MORE"]) == (False, "1")
    strict = {"scope": child, "producer": "hook:s", "set": {"U": "2"}, "strict": True}
    assert wire.error("environment/overlay/put", strict)["data"] == {"error": "overlay-refused"}


def test_a_scope_that_was_given_nothing_is_told(wire: Wire, place: Place, scope: str) -> None:
    params = start_params("lost", ["true"], cwd=place.project.as_uri(), contract={"scope": scope})
    [warning] = wire.call("process/start", params)["warnings"]
    assert warning.startswith(f"scope is missing: nothing was given to `{scope}` on this server")
    question = {"cwd": place.project.as_uri(), "env": {}, "contract": {"scope": scope}}
    layers = wire.call("environment/explain", question)["layers"]
    [found] = [one for one in layers if one["id"] == "scope" and one["layer"] == "L5"]
    assert found["state"] == "missing"
    put(wire, scope, "hook:h", set={})  # somebody is there, and has nothing to say
    params["processId"] = "known"
    assert not wire.call("process/start", params).get("warnings")
    for process in ("lost", "known"):
        wire.closed(process)


@pytest.mark.parametrize(
    "told",
    [
        {"set": {"PATH": "/x:$PATH"}},
        {"set": {"PATH": "/x"}},
        {"set": {"PATH": "/usr/bin::/bin"}},
        {"prepend": {"PATH": ["/fine", "bin"]}},
        {"append": {"PATH": ["$HOME/bin"]}},
    ],
)
def test_a_path_that_would_be_useless_is_rejected(
    wire: Wire, place: Place, scope: str, told: dict[str, dict[str, object]]
) -> None:
    # P9
    answer = put(wire, scope, "hook:h", **{"set": {"OK": "1"} | told.get("set", {}), **_but_set(told)})
    assert answer["names"] == ["OK"]
    assert [(one["name"], one["reason"]) for one in answer["rejected"]] == [("PATH", "path")]
    got = run(wire, place, scope=scope)
    assert (got["OK"], got["PATH"]) == ("1", run(wire, place)["PATH"])


def _but_set(told: dict[str, dict[str, object]]) -> dict[str, object]:
    return {name: value for name, value in told.items() if name != "set"}


def test_a_request_s_path_that_is_probably_a_mistake_is_told(wire: Wire, place: Place) -> None:
    params = start_params("p", ["/bin/true"], cwd=place.project.as_uri(), contract={})
    [warning] = wire.call("process/start", {**params, "env": {"PATH": "/x:$PATH"}})["warnings"]
    assert warning.startswith("PATH of the request is probably a mistake: `$PATH` is not expanded here")
    wire.closed("p")
    # And the command that is not found says so.
    failed = start_params("q", ["true"], cwd=place.project.as_uri(), contract={}) | {"env": {"PATH": "/x"}}
    error = wire.error("process/start", failed)
    assert "`true` was not found in the command's PATH, which has neither" in error["data"]["reason"]


def test_a_fork_s_session_does_not_widen_itself(wire: Wire, server: Server, place: Place, scope: str) -> None:
    # O8
    put(wire, scope, "user", set={"U": "1"})
    child = f"{scope}/child"
    event(wire, scope, "fork", to=child, unset=["U"])
    with Wire(server.url) as other:
        other.handshake()
        assert "U" not in run(other, place, scope=child)
        parent = start_params("wide", ["true"], cwd=place.project.as_uri(), contract={"scope": scope})
        for method, params in (
            ("process/start", parent),
            ("environment/resolve", {"cwd": place.project.as_uri(), "env": {}, "contract": {"scope": scope}}),
            ("environment/overlay/put", {"scope": scope, "producer": "user", "set": {"A": "1"}}),
            ("environment/overlay/event", {"scope": scope, "event": "fork", "to": f"{scope}/more"}),
        ):
            assert f"belongs to the fork `{child}`" in other.error(method, params)["message"]
        event(other, child, "fork", to=f"{child}/inner")  # but less is fine
        assert "U" not in run(other, place, scope=f"{child}/inner")
    # Who made it has both.
    assert "U" not in run(wire, place, scope=child)
    assert run(wire, place, scope=scope)["U"] == "1"


def test_a_restart_loses_no_more_than_secrets_and_what_hooks_say_again(place: Place, tmp_path: Path) -> None:
    env = {**place.environ(), **SERVERS, "XDG_STATE_HOME": str(tmp_path / "state")}
    marked = {"set": {"MARKED": "hush-marked", "PLAIN": "1", "PART": "x-hush-token-x"}, "secrets": ["MARKED"]}
    dropped = {"scope": THREAD, "producer": "user", "names": ["DROPPED"]}
    with serving("outfitter", place.home, env=env) as server, Wire(server.url) as wire:
        wire.handshake()
        put(wire, THREAD, "user", **marked)
        put(wire, THREAD, "hook:h", set={"HOOKED": "hush-hooked"})
        put(wire, THREAD, "user", set={"DROPPED": "1"}, merge=True)
        assert wire.call("environment/overlay/drop", dropped) == {"dropped": True}
        before = run(wire, place, scope=THREAD)
        assert [before[name] for name in ("MARKED", "PLAIN", "HOOKED")] == ["hush-marked", "1", "hush-hooked"]
    for file in (tmp_path / "state").rglob("*"):
        assert file.is_dir() or b"hush" not in file.read_bytes(), file
    with serving("outfitter", place.home, env=env) as server, Wire(server.url) as wire:
        wire.handshake()
        params = start_params(
            "stock", ["/usr/bin/env", "-0"], cwd=place.project.as_uri(), metadata={"threadId": THREAD}
        )
        policy = {
            "inherit": "all",
            "ignoreDefaultExcludes": True,
            "exclude": [],
            "set": {},
            "includeOnly": [],
        }
        wire.call("process/start", {**params, "env": {}, "envPolicy": policy})
        wire.closed("stock")
        assert variables(wire.output("stock", "stdout"))["PLAIN"] == "1"
        assert b"(user: MARKED, PART; hook:h: HOOKED): put it again" in wire.output("stock", "stderr")
        params = start_params("told", ["true"], cwd=place.project.as_uri(), contract={"scope": THREAD})
        [warning] = wire.call("process/start", params)["warnings"]
        assert "(user: MARKED, PART; hook:h: HOOKED): put it again" in warning
        after = run(wire, place, scope=THREAD)
        assert {name: after.get(name) for name in ("MARKED", "DROPPED", "PLAIN", "PART", "HOOKED")} == {
            "MARKED": None,
            "DROPPED": None,
            "PLAIN": "1",
            "PART": None,
            "HOOKED": None,
        }
        assert event(wire, THREAD, "resume")["rerun"] == ["hook:h"]
        put(wire, THREAD, "hook:h", set={"HOOKED": "2"})
        put(wire, THREAD, "user", **marked)
        params["processId"] = "again"
        assert not wire.call("process/start", params).get("warnings")
        for process in ("told", "again"):
            wire.closed(process)
