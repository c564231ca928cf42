"""The snapshot of a shell that a client asks for, whatever is in its startup files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from outfitter.contract.contract import Asked, Contract
from outfitter.contract.snapshot import take_asked
from outfitter.core.snapshots import Taken
from outfitter.env.explain import LEVELS
from outfitter.env.layer import Layer
from outfitter.env.policy import Policy
from outfitter.host import facts
from outfitter.shell.state import STATE_BYTES, ShellState
from tests.support.contracts import PATH, Place
from tests.support.machine import SECOND
from tests.support.tools import program

PATIENT, IMPATIENT = 20 * SECOND, 0.3 * SECOND


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def taken(
    place: Place, profile: str, seconds: float = PATIENT, **more: str
) -> tuple[Layer, ShellState | None]:
    place.profile(profile)
    layer, left = take_asked(
        "bash", program("bash"), str(place.project), {**place.environ(), **more}, seconds, None
    )
    assert place.pipes() == []
    return layer, left


def test_a_snapshot_is_a_layer_and_what_else_is_in_the_shell(place: Place) -> None:
    place.profile("export RC=1\nrc() { :; }\nalias l=ls\n", ".bashrc")
    layer, left = taken(place, 'export A="$PWD" PATH="/mine:$PATH"\nf() { echo hi; }\n')
    assert (layer.id, layer.name, layer.state) == ("shell-snapshot", "L1", "applied")
    assert (dict(layer.values), layer.unset) == ({"A": str(place.project), "RC": "1"}, ())
    [path] = layer.operations
    assert (path.variable, path.op, path.values[0]) == ("PATH", "replace", "/mine")
    assert set(PATH.split(":")) <= set(path.values)
    assert layer.note == f"login bash of {program('bash')}; functions: 2, aliases: 1"
    assert left is not None
    assert (left.functions, left.aliases) == (2, 1)


HOSTILE = {
    "endless output": ("while :; do echo y; echo n >&2; done", "timeout", "did not finish within"),
    "a loop": ("while :; do :; done", "timeout", "did not finish within"),
    "a question": ("read -r answer </dev/tty; sleep 1000", "timeout", "did not finish within"),
    "an exit": ("exit 0", "replaced-or-exited", "end the shell or replace it"),
    "a failed exit": ("exit 3", "failed", "ended with status 3"),
    "a signal": ("kill -9 $$", "failed", "was ended by signal 9"),
    "another program": ("exec true", "replaced-or-exited", "end the shell or replace it"),
    "a mistake that ends it": ("set -e\nfalse", "failed", "ended with status 1"),
    "a large function": (
        f'printf -v zeros "%0{STATE_BYTES}d" 0; eval "f() {{ echo $zeros; }}"',
        "too-large",
        "functions and aliases of more than 512 KiB",
    ),
    "a large environment": (
        'v=$(printf "%100000s" x)\nfor n in {1..12}; do export "V$n=$v"; done',
        "too-large",
        "an environment of more than 1 MiB",
    ),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_startup_files_that_give_no_snapshot_say_why(what: str, place: Place) -> None:
    profile, state, reason = HOSTILE[what]
    layer, left = taken(place, profile, IMPATIENT if state == "timeout" else PATIENT)
    assert (layer.state, left, layer.values) == ("failed", None, {})
    assert layer.note.startswith(f"{state}: ") and reason in layer.note


HARMLESS = {
    "closed descriptors": "exec 0<&- 1>&- 2>&-",
    "a redirected output": "exec >/dev/null 2>&1 3>&1",
    "another directory and mask": "umask 077; cd /",
    "noclobber and tracing": "set -o noclobber -o xtrace -o verbose",
    "words with other meanings": (
        "builtin() { false; }; command() { false; }; declare() { false; }; set() { false; }\n"
        "alias builtin=false unset=false printf=false\nshopt -s expand_aliases"
    ),
    "a trap": "trap 'exit 9' EXIT",
    "a program in the background": "sleep 1000 & disown",
    "an odd separator": "IFS=x; set -f",
}


@pytest.mark.parametrize("what", HARMLESS)
def test_startup_files_that_are_merely_odd_give_one(what: str, place: Place) -> None:
    mask = os.umask(0o022)
    os.umask(mask)
    layer, left = taken(place, f"export A=1\nf() {{ echo it; }}\n{HARMLESS[what]}\n")
    assert (layer.state, layer.values.get("A")) == ("applied", "1")
    assert left is not None and "echo it" in left.text
    now = os.umask(mask)
    assert (os.getcwd() != "/", now) == (True, mask)


def test_a_program_that_is_not_the_shell_it_is_said_to_be_is_not_started(place: Place) -> None:
    layer, left = take_asked("zsh", program("bash"), "/", place.environ(), PATIENT, None)
    assert (layer.state, left) == ("failed", None)
    assert layer.note == f"unsupported: {program('bash')} is not a known zsh"


def test_a_command_gets_no_home_by_its_snapshot(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "home", lambda env: str(place.home))
    place.profile("export A=1")
    layer, _ = take_asked("bash", program("bash"), "/", {"PATH": PATH}, PATIENT, None)
    assert dict(layer.values) == {"A": "1"}


# In the contract


def environment(contract: Contract, place: Place, layer: Layer, **asked: object) -> dict[str, str]:
    said = {"contract": False, "author": "client", "policy": lambda: Policy("all", True), **asked}
    return contract.resolve(Asked(str(place.project), {}, snapshot=Taken(layer), **said)).values  # type: ignore[arg-type]


def test_a_snapshot_does_not_undo_the_contract(place: Place) -> None:
    place.says('[env]\nset = { STAGE = "project" }\nprepend = { PATH = ["bin"] }\n')
    layer, _ = taken(
        place,
        "export STAGE=profile MY_TOKEN=brought NODE_REPL_AUTH_TOKEN=x SET=profile NEW=1 PATH=/mine:/usr/bin\n"
        "unset LANG",
    )
    policy = Policy("all", False, exclude=("NE?",), set=(("SET", "policy"),))
    found = environment(place.contract(), place, layer, policy=lambda: policy)
    # In front stands what the project says, behind it the profile's, then what the profile lost.
    assert found["PATH"] == f"{place.project}/bin:/mine:/usr/bin:/usr/local/bin:/bin"
    assert [
        found.get(name) for name in ("STAGE", "MY_TOKEN", "NODE_REPL_AUTH_TOKEN", "SET", "NEW", "LANG")
    ] == [
        "project",
        None,
        None,
        "policy",
        None,
        None,
    ]


@pytest.mark.parametrize("inherit", ["none", "core"])
def test_what_a_policy_inherits_does_not_concern_a_snapshot_but_its_lists_do(
    inherit: str, place: Place
) -> None:
    layer, _ = taken(place, "export A=1 B=2 MY_KEY=3 PATH=/mine:$PATH")
    policy = Policy(inherit, False, exclude=("B",))
    found = environment(place.contract(OTHER="1"), place, layer, policy=lambda: policy)
    assert [found.get(name) for name in ("A", "B", "MY_KEY", "OTHER")] == ["1", None, None, None]
    assert found["PATH"].startswith("/mine:")
    only = Policy(inherit, True, include_only=("PATH",))
    assert list(environment(place.contract(), place, layer, policy=lambda: only)) == ["PATH"]


def test_a_request_that_says_all_has_the_last_word(place: Place) -> None:
    layer, _ = taken(place, "export A=1 B=2")
    asked = Asked("/", {"A": "mine", "PATH": "/bin"}, contract=False, author="client", snapshot=Taken(layer))
    assert place.contract().resolve(asked).values == {"A": "mine", "B": "2", "PATH": "/bin"}


def test_explain_names_the_snapshot_for_each_variable_that_it_sets(place: Place) -> None:
    from outfitter.contract import answers

    layer, _ = taken(place, "export A=1 MY_TOKEN=x")
    policy = Policy("none", False)
    asked = Asked(str(place.project), {}, lambda: policy, snapshot=Taken(layer))
    told = answers.explain(place.contract(), asked)()
    [level] = [one for one in told["layers"] if one["layer"] == "L1"]
    assert (level["id"], level["title"], level["state"]) == ("shell-snapshot", LEVELS[1], "applied")
    origin = {"kind": "shell-snapshot", "detail": "from the shell snapshot that the client asked for"}
    assert (told["variables"]["A"]["id"], told["variables"]["A"]["origin"]) == ("shell-snapshot", origin)
    assert told["variables"]["MY_TOKEN"]["removed"]["why"] == "default exclude *TOKEN*"


def test_a_failed_snapshot_is_told_and_adds_nothing(place: Place) -> None:
    layer, _ = taken(place, "export A=1; exit 3")
    assert "A" not in environment(place.contract(), place, layer)
