"""A command that starts an agent exists only by passing its contract, and names every rule that it breaks."""

from __future__ import annotations

import copy
import pickle

import pytest

from outfitter.agents.autoskillit import CONTRACT
from outfitter.agents.backends import backend, registered
from outfitter.agents.backends.base import Backend, Task
from outfitter.agents.spec import EXTRA, INHERITED, CommandSpec
from outfitter.env.launches import DEFAULT, KIND_VARIABLE, Kind, LaunchContract, Violation
from outfitter.env.origin import RUNTIME, Origin
from outfitter.errors import ContractViolated, LaunchRefused, SettingInvalid

TASK = Task("do", cwd="/work")
CODEX = backend("codex")


def refusal(*args: object, **more: object) -> LaunchRefused:
    with pytest.raises(LaunchRefused) as caught:
        CommandSpec(*args, **more)  # type: ignore[arg-type]
    return caught.value


def values(spec: CommandSpec) -> dict[str, str]:
    """Its environment, but for what every launch has."""
    return {name: value for name, value in spec.env.items() if name != KIND_VARIABLE}


# The order of the rules


def test_what_the_caller_has_is_filtered_before_anything_is_added() -> None:
    base = {
        "PATH": "/bin",
        "CLAUDE_CODE_X": "1",
        "AUTOSKILLIT_PRIVATE_X": "1",
        "AUTOSKILLIT_HEADLESS": "parent",
    }
    spec = CommandSpec(CONTRACT, CODEX, "resume", TASK, base=base)
    assert values(spec) == {"PATH": "/bin", "MAX_MCP_OUTPUT_TOKENS": "50000"}
    assert dict(spec.dropped) == {
        "CLAUDE_CODE_X": "codex never inherits CLAUDE_CODE_*",
        "AUTOSKILLIT_PRIVATE_X": "contract autoskillit keeps private AUTOSKILLIT_PRIVATE_*",
        "AUTOSKILLIT_HEADLESS": (
            "contract autoskillit sets afresh, for headless launches alone, AUTOSKILLIT_HEADLESS"
        ),
    }


def test_extras_are_never_filtered() -> None:
    extras = {"CLAUDE_CODE_X": "on purpose", "AUTOSKILLIT_PRIVATE_X": "too"}
    spec = CommandSpec(CONTRACT, CODEX, "resume", TASK, base={"CLAUDE_CODE_X": "1"}, extras=extras)
    assert values(spec) == {**extras, "MAX_MCP_OUTPUT_TOKENS": "50000"}
    assert spec.origins["CLAUDE_CODE_X"] == EXTRA


def test_each_layer_goes_over_the_one_before() -> None:
    contract = LaunchContract(
        "c", (Kind("headless", baseline={"B": "baseline", "X": "baseline", "CODEX_HOME": "c"}),)
    )
    base, extras = {"A": "base", "B": "base", "X": "base"}, {"X": "extra"}
    task = Task("do", cwd="/work", home="/home/codex")
    known = {"A": Origin("dotenv", "from .env", ".env", 3)}
    spec = CommandSpec(contract, CODEX, "headless", task, base=base, origins=known, extras=extras)
    assert values(spec) == {"A": "base", "B": "baseline", "CODEX_HOME": "c", "X": "extra"}
    baseline = Origin("baseline", "baseline of headless in contract c")
    expected = {"A": known["A"], "B": baseline, "CODEX_HOME": baseline, "X": EXTRA, KIND_VARIABLE: RUNTIME}
    assert dict(spec.origins) == expected
    assert CommandSpec(contract, CODEX, "headless", TASK, base={"A": "1"}).origins["A"] == INHERITED


def test_home_of_the_agent_is_its_own_variable() -> None:
    task = Task("do", cwd="/work", home="/h")
    homes = {
        name: values(CommandSpec(DEFAULT, one, "headless", task, base={}))
        for name, one in registered().items()
    }
    assert homes == {
        "codex": {"CODEX_HOME": "/h"},
        "claude": {"CLAUDE_CONFIG_DIR": "/h"},
        "gemini": {"GEMINI_CLI_HOME": "/h"},
    }


# What is refused


def test_every_missing_name_is_told_at_once_with_the_layer_that_dropped_it() -> None:
    names = ("FIRST", "SECOND", "CLAUDE_CODE_X", "THERE")
    contract = LaunchContract("c", (Kind("skill", requires=names),))
    error = refusal(contract, CODEX, "skill", TASK, base={"CLAUDE_CODE_X": "1", "THERE": "1"})
    assert error.violations == (
        Violation("missing", "FIRST", "required, and no layer sets it"),
        Violation("missing", "SECOND", "required, and no layer sets it"),
        Violation(
            "missing",
            "CLAUDE_CODE_X",
            "required, and no layer sets it; the inherited one was dropped: codex never inherits "
            "CLAUDE_CODE_*",
        ),
    )
    assert (error.backend, error.kind) == ("codex", "skill")
    assert str(error).startswith(
        "codex cannot be launched as `skill`: FIRST: required, and no layer sets it; "
    )
    assert isinstance(error, ContractViolated)


def test_empty_counts_as_missing_unless_the_contract_says_otherwise() -> None:
    contract = LaunchContract("c", (Kind("skill", requires=("A", "B"), may_be_empty=("B",)),))
    error = refusal(contract, CODEX, "skill", TASK, base={"A": "", "B": ""})
    assert error.violations == (
        Violation("empty", "A", "required, and empty: from the environment of the caller"),
    )
    assert CommandSpec(contract, CODEX, "skill", TASK, base={"A": "1", "B": ""}).env["B"] == ""


@pytest.mark.parametrize(
    ("base", "extras", "layer"),
    [
        ({"BAD_X": "1"}, {}, "from the environment of the caller"),
        ({}, {"BAD_X": "1"}, "given by the caller for this launch"),
    ],
)
def test_forbidden_name_is_told_with_the_layer_that_brought_it(
    base: dict[str, str], extras: dict[str, str], layer: str
) -> None:
    contract = LaunchContract("c", (Kind("skill", forbids=("BAD_*",)),))
    error = refusal(contract, CODEX, "skill", TASK, base=base, extras=extras)
    assert error.violations == (Violation("forbidden", "BAD_X", f"BAD_* is forbidden: {layer}"),)


def test_kind_that_a_backend_cannot_offer_is_refused_with_its_reason() -> None:
    class Limited(Backend):
        name = "limited"

        def why_not(self, kind: str) -> str | None:
            return "it has no sessions" if kind == "resume" else None

    error = refusal(DEFAULT, Limited(), "resume", TASK, base={})
    assert error.violations == (Violation("kind", "resume", "it has no sessions"),)


def test_kind_that_nobody_declared_is_refused_with_those_that_are() -> None:
    with pytest.raises(SettingInvalid, match="no launch kind `truck`: it has skill, orchestrator, headless"):
        CommandSpec(DEFAULT, CODEX, "truck", TASK, base={})


@pytest.mark.parametrize("name", list(registered()))
@pytest.mark.parametrize("sandbox", ["read-only", "workspace-write", "danger-full-access"])
def test_resume_keeps_the_sandbox_of_its_launch(name: str, sandbox: str) -> None:
    one = backend(name)
    first = CommandSpec(DEFAULT, one, "skill", Task("do", cwd="/work", sandbox=sandbox), base={})
    again = Task("on", cwd="/work", sandbox=sandbox, session="id")
    assert CommandSpec(DEFAULT, one, "resume", again, base={}, continues=first.guards).guards == first.guards
    other = "read-only" if sandbox != "read-only" else "danger-full-access"
    changed = Task("on", cwd="/work", sandbox=other, session="id")
    error = refusal(DEFAULT, one, "resume", changed, base={}, continues=first.guards)
    assert [(one.rule, one.name) for one in error.violations] == [("guards", "sandbox")]


# There is no other way


def test_spec_cannot_be_changed_copied_or_derived() -> None:
    spec = CommandSpec(DEFAULT, CODEX, "skill", TASK, base={"A": "1"})
    with pytest.raises(AttributeError, match="read-only"):
        spec.argv = ("sh",)
    with pytest.raises(AttributeError, match="read-only"):
        del spec.argv
    with pytest.raises(TypeError):
        spec.env["B"] = "2"  # type: ignore[index]
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied"):
            copied(spec)
    with pytest.raises(TypeError, match="change the contract"):
        type("Mine", (CommandSpec,), {})


def test_agent_knows_its_kind_and_no_parent_gives_it_another() -> None:
    spec = CommandSpec(DEFAULT, CODEX, "skill", TASK, base={KIND_VARIABLE: "orchestrator"})
    assert spec.env[KIND_VARIABLE] == "skill"


def test_secrets_are_not_shown() -> None:
    spec = CommandSpec(DEFAULT, CODEX, "skill", TASK, base={"MY_TOKEN": "hush-hush", "A": "1"})
    assert "hush" not in str(spec) + repr(spec)
    assert spec.lines() == [
        "codex skill (contract default)",
        "  cwd  /work",
        "  argv codex exec --json --sandbox workspace-write -- do",
        "  A=1  # from the environment of the caller",
        "  MY_TOKEN=(secret)  # from the environment of the caller",
        "  OUTFITTER_LAUNCH_KIND=skill  # supplied by Outfitter",
    ]
