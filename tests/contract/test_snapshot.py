"""The login shell's snapshot as a layer: asked once, filtered by the policy, loud when it is missing."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

import outfitter
from outfitter.contract import answers
from outfitter.contract.contract import Asked, Contract
from outfitter.env.layer import Operation
from outfitter.env.resolve import Resolved
from outfitter.host import facts
from tests.support.contracts import PATH, Place, environment_of, wait_for
from tests.support.machine import SECOND
from tests.support.tools import program

CONFIGURED = '[shell]\nsnapshot = "loginShell"\n'


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Where the account's shell is bash, whoever runs this; and where a snapshot is wanted."""
    monkeypatch.setattr(facts, "login_shell", lambda: program("bash"))
    place = Place(tmp_path)
    place.user(CONFIGURED)
    return place


def prepared(place: Place, **base: str) -> Contract:
    contract = place.contract(**base)
    contract.prepare()
    assert place.pipes() == []
    return contract


def resolved(contract: Contract, place: Place) -> Resolved:
    return contract.resolve(Asked(str(place.project), {}))


def layer(contract: Contract, place: Place) -> dict[str, Any]:
    """What is told about it."""
    told: Any = answers.explain(contract, Asked(str(place.project), {}))()
    return next(entry for entry in told["layers"] if entry["layer"] == "L1")


def test_what_startup_files_change_is_the_second_layer(place: Place) -> None:
    place.profile("export ADDED=1 CHANGED=2\nunset GONE\nhello() { :; }; export -f hello\n")
    contract = prepared(place, CHANGED="1", GONE="1", KEPT="1")
    values = resolved(contract, place).values
    assert {name: values.get(name) for name in ("ADDED", "CHANGED", "GONE", "KEPT")} == {
        "ADDED": "1",
        "CHANGED": "2",
        "GONE": None,
        "KEPT": "1",
    }
    assert not [name for name in values if name.startswith("BASH_FUNC_")]
    told = layer(contract, place)
    assert (told["id"], told["producer"], told["state"]) == ("login-shell", program("bash"), "applied")
    assert told["note"] == f"loginShell of {program('bash')}"
    assert told["cost"]["ms"] > 0


def test_a_replaced_path_gets_back_what_it_lost_and_says_so(place: Place) -> None:
    # L1, S1
    place.profile("PATH=/from/profile:/usr/bin\n")
    contract = prepared(place, PATH=f"/contract/bin:{PATH}")
    path = resolved(contract, place).values["PATH"]
    assert path == "/from/profile:/usr/bin:/contract/bin:/usr/local/bin:/bin"
    assert layer(contract, place)["note"] == (
        f"loginShell of {program('bash')}; "
        "added back after the startup files removed them: /contract/bin:/usr/local/bin:/bin"
    )
    snapshot = resolved(contract, place).layers[1]
    assert snapshot.operations == (Operation("PATH", "replace", tuple(path.split(":"))),)


def test_what_is_filtered_stays_filtered(place: Place) -> None:
    # L5: the policy sees what the startup files export.
    place.user(
        CONFIGURED + '[shell_environment_policy]\nignore_default_excludes = false\nexclude = ["FILTERED"]\n'
    )
    place.profile("export FILTERED=back A_TOKEN=back KEPT=1\n")
    values = resolved(prepared(place, FILTERED="1"), place).values
    assert values["KEPT"] == "1"
    assert "FILTERED" not in values
    assert "A_TOKEN" not in values


def test_layers_above_it_win(place: Place) -> None:
    place.says('[env]\nset = { A = "project" }\n')
    place.profile("export A=profile B=profile\n")
    values = resolved(prepared(place), place).values
    assert (values["A"], values["B"]) == ("project", "profile")


@pytest.mark.parametrize(
    ("profile", "seconds", "reason"),
    [
        ("exit 3", 10, "failed: {shell} ended with status 3"),
        ("exec true", 10, "replaced-or-exited: the startup files of {shell} end the shell"),
        (
            "while :; do sleep 1; done",
            0.5,
            "timeout: the startup files of {shell} did not finish within 0.5 s",
        ),
    ],
    ids=["exits", "replaces itself", "hangs"],
)
def test_a_failing_profile_is_a_failed_layer_and_commands_run(
    place: Place, profile: str, seconds: float, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    place.user(CONFIGURED + f"snapshot_timeout = {seconds * SECOND}\n")
    place.profile(f"export ADDED=hush\n{profile}\n")
    with caplog.at_level(logging.DEBUG):
        contract = prepared(place)
    told = layer(contract, place)
    assert told["state"] == "failed"
    assert told["note"].startswith(reason.format(shell=program("bash")))
    values = resolved(contract, place).values
    assert values["PATH"] == PATH
    assert "ADDED" not in values
    # Commands go without it, so somebody is told.
    assert "no snapshot of the login shell" in caplog.text
    assert "hush" not in caplog.text


def test_an_account_without_a_shell_is_a_failed_layer(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "login_shell", lambda: "/usr/sbin/nologin")
    contract = prepared(place)
    assert layer(contract, place)["state"] == "failed"
    assert "runs no commands" in layer(contract, place)["note"]


def test_a_program_left_in_the_background_is_noted(place: Place) -> None:
    place.profile("sleep 1000 & export SSH_AGENT_PID=$! SSH_AUTH_SOCK=/tmp/socket\n")
    contract = prepared(place)
    assert "started a background program" in layer(contract, place)["note"]
    assert "SSH_AUTH_SOCK" not in resolved(contract, place).values


def test_it_is_taken_once(place: Place) -> None:
    runs = place.folder / "runs"
    place.profile(f"echo run >>{runs}\nexport ADDED=1\n")
    contract = prepared(place)
    first = contract.ready(Asked(str(place.project), {})).stack
    contract.prepare()
    assert contract.ready(Asked(str(place.project), {})).stack is first
    for _ in range(3):
        resolved(contract, place)
    assert runs.read_text() == "run\n"


def test_one_that_failed_is_not_tried_again(place: Place) -> None:
    runs = place.folder / "runs"
    place.profile(f"echo run >>{runs}\nexit 1\n")
    contract = prepared(place)
    contract.prepare()
    assert runs.read_text() == "run\n"


def test_none_is_taken_unless_it_is_configured(place: Place) -> None:
    place.user("")
    place.profile(f"echo run >>{place.folder}/runs\n")
    contract = prepared(place)
    assert layer(contract, place)["state"] == "off"
    assert not (place.folder / "runs").exists()


def test_a_project_cannot_ask_for_one(place: Place) -> None:
    place.user("")
    place.says(CONFIGURED)
    with pytest.raises(outfitter.OutfitterError, match="snapshot"):
        resolved(prepared(place), place)


def test_a_base_that_a_client_brings_is_without_it(place: Place) -> None:
    place.profile("export ADDED=1\n")
    contract = prepared(place)
    theirs = contract.resolve(Asked(str(place.project), {}), place.base("client"))
    assert "ADDED" in resolved(contract, place).values
    assert "ADDED" not in theirs.values


@pytest.mark.parametrize("probe", ["loginShell", "interactiveShell", "loginInteractiveShell"])
def test_the_shell_is_asked_as_configured(place: Place, probe: str) -> None:
    place.user(f'[shell]\nsnapshot = "{probe}"\n')
    place.profile("export SEEN=profile$SEEN\n")
    place.profile("export SEEN=rc$SEEN\n", ".bashrc")
    seen = resolved(prepared(place), place).values["SEEN"]
    assert (
        seen == {"loginShell": "profile", "interactiveShell": "rc", "loginInteractiveShell": "profile"}[probe]
    )


def test_all_commands_of_a_local_executor_have_the_one_snapshot(place: Place) -> None:
    runs = place.folder / "runs"
    place.profile(f"echo run >>{runs}\nexport ADDED=$(date +%N) PATH=/from/profile\n")

    async def scenario() -> None:
        async with outfitter.local(environment=place.environ()) as client:
            here = str(place.project)
            one, other = [await environment_of(client, cwd=here) for _ in range(2)]
            assert one == other
            assert one["PATH"] == f"/from/profile:{PATH}"
            told = await client.explain(cwd=here, show="values")
            assert told["variables"]["ADDED"]["value"] == one["ADDED"]
            assert told["variables"]["ADDED"]["id"] == "login-shell"
        assert runs.read_text() == "run\n"

    wait_for(scenario())


def test_taking_it_does_not_hold_up_the_loop_of_a_local_executor(place: Place) -> None:
    begun, go = place.folder / "begun", place.folder / "go"
    place.profile(f"echo >{begun}\nwhile [ ! -e {go} ]; do sleep 0.02; done\nexport ADDED=1\n")

    async def let_go() -> None:
        while not begun.exists():
            await asyncio.sleep(0.01 * SECOND)
        go.touch()

    async def scenario() -> None:
        meanwhile = asyncio.create_task(let_go())
        async with outfitter.local(environment=place.environ()) as client:
            assert (await environment_of(client, cwd=str(place.project)))["ADDED"] == "1"
        await meanwhile

    wait_for(scenario())
