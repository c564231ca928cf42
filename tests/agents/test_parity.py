"""Drift between backends is found: each of the known ones, made again on purpose, is caught by name."""

from __future__ import annotations

import pytest

from outfitter.agents.autoskillit import CONTRACT, FOOD_TRUCK_REQUIRED
from outfitter.agents.backends import registered
from outfitter.agents.backends.base import Backend, Task
from outfitter.agents.backends.codex import CodexCli
from outfitter.agents.parity import RULES, Judgement, Order, build, cases, judge
from outfitter.agents.spec import CommandSpec
from outfitter.env.launches import Kind, LaunchContract
from outfitter.record import replace


def faults(judgements: list[Judgement]) -> set[tuple[str, str, str, tuple[str, ...]]]:
    return {(one.backend, one.kind, one.rule, one.names) for one in judgements if not one.ok}


def test_every_backend_keeps_the_example_for_every_kind() -> None:
    judgements = judge(CONTRACT, registered())
    assert faults(judgements) == set()
    assert [(one.backend, one.kind, one.rule) for one in judgements] == list(cases(CONTRACT, registered()))
    assert len(judgements) == 3 * 6 * len(RULES)


def without(kind: str, *names: str) -> LaunchContract:
    """The contract whose baseline no longer sets some names for a kind."""
    kinds = tuple(
        replace(one, baseline={name: value for name, value in one.baseline.items() if name not in names})
        if one.name == kind
        else one
        for one in CONTRACT.kinds
    )
    return replace(CONTRACT, kinds=kinds)


def test_variables_that_a_kind_has_lost_are_all_named() -> None:
    lost = ("AUTOSKILLIT_AGENT_BACKEND", "MCP_CONNECTION_NONBLOCKING", "AUTOSKILLIT_HEADLESS_AUTO_GATE")
    found = faults(judge(without("food_truck", *lost), registered()))
    expected = tuple(name for name in FOOD_TRUCK_REQUIRED if name in lost)
    assert found == {(name, "food_truck", "required", expected) for name in registered()}


def test_builder_that_lets_a_parents_variables_through_is_caught() -> None:
    def leaky(order: Order) -> CommandSpec:
        # What the parent has is passed on purpose, so no filter sees it.
        return build(replace(order, extras={**order.base, **order.extras}))

    found = faults(judge(CONTRACT, {"codex": CodexCli()}, with_=leaky))
    names = {name for _, kind, rule, names in found if (kind, rule) == ("skill", "fresh") for name in names}
    assert {"AUTOSKILLIT_HEADLESS_AUTO_GATE", "CLAUDE_CODE_PROBE", "AUTOSKILLIT_PRIVATE_PROBE"} <= names


def test_builder_whose_extras_go_through_the_denylist_is_caught() -> None:
    def eating(order: Order) -> CommandSpec:
        return build(replace(order, base={**order.base, **order.extras}, extras={}))

    found = faults(judge(CONTRACT, {"codex": CodexCli()}, with_=eating))
    assert ("codex", "skill", "extras", ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")) in {
        (name, kind, rule, names[:2]) for name, kind, rule, names in found
    }


def test_resume_that_has_lost_its_sandbox_flag_is_caught() -> None:
    class Drifted(CodexCli):
        def argv(self, kind: str, task: Task) -> list[str]:
            argv = super().argv(kind, task)
            if kind == "resume":
                place = argv.index("--sandbox")
                del argv[place : place + 2]
            return argv

    found = faults(judge(CONTRACT, {"codex": Drifted()}))
    assert {(kind, rule, names) for _, kind, rule, names in found} == {
        (kind.name, "resume-keeps-sandbox", ("sandbox",)) for kind in CONTRACT.kinds if kind.name != "resume"
    }


def test_name_that_is_exclusive_may_be_set_again_by_a_baseline() -> None:
    judgements = judge(CONTRACT, registered())
    assert all(one.ok for one in judgements if one.kind == "resume")
    spec = build(
        Order(CONTRACT, CodexCli(), "resume", Task("", cwd="/w"), base={"MAX_MCP_OUTPUT_TOKENS": "9"})
    )
    assert spec.env["MAX_MCP_OUTPUT_TOKENS"] == "50000"


def test_forbidden_name_that_a_backend_sets_is_caught() -> None:
    class Bringing(CodexCli):
        def env(self, task: Task) -> dict[str, str]:
            return {"AUTOSKILLIT_HEADLESS": "1"}

    found = faults(judge(CONTRACT, {"codex": Bringing()}))
    assert found == {("codex", "interactive", "forbidden", ("AUTOSKILLIT_HEADLESS",))} | {
        one for one in found if one[1] != "interactive"
    }
    assert ("codex", "interactive", "forbidden", ("AUTOSKILLIT_HEADLESS",)) in found


def test_backend_that_cannot_offer_a_kind_is_listed_and_never_left_out() -> None:
    class Limited(CodexCli):
        name = "limited"

        def why_not(self, kind: str) -> str | None:
            return "it has no skills" if kind == "skill" else None

    judgements = judge(CONTRACT, {"limited": Limited()})
    assert [one.skipped for one in judgements if one.kind == "skill"] == ["it has no skills"] * len(RULES)
    assert [one.skipped for one in judgements if one.kind != "skill"] == [""] * (5 * len(RULES))


def test_what_a_harness_always_passes_counts_for_what_is_required() -> None:
    contract = LaunchContract("c", (Kind("skill", requires=("RUN_ID",)),))
    assert [one.names for one in judge(contract, {"codex": CodexCli()}) if not one.ok] == [("RUN_ID",)]
    assert faults(judge(contract, {"codex": CodexCli()}, extras={"RUN_ID": "7"})) == set()


@pytest.mark.parametrize("one", list(registered().values()), ids=list(registered()))
def test_optional_questions_have_empty_answers(one: Backend) -> None:
    assert one.plugins() == []
    assert one.skill_mistakes("# a skill") == []
