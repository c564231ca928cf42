"""A hook's JSON: its `env` is a contribution under the hook's own name, all else is none of our business."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.env.overlay import Contribution, Overlay, Rejection
from outfitter.errors import OverlayRefused
from outfitter.formats.hookoutput import EVENTS, contribution


def output(env: object, event: object = "SessionStart", **more: object) -> str:
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, "env": env, **more}})


@pytest.mark.parametrize("event", EVENTS)
def test_env_of_a_hook_is_its_contribution(event: str) -> None:
    # O1
    text = output({"A": "b", "EMPTY": "", "GONE": None}, event, additionalContext="for the model")
    assert contribution(text, "hook:one") == (
        Contribution("hook:one", {"A": "b", "EMPTY": ""}, unset=["GONE"]),
        (),
    )


def test_plugins_have_the_same_facility() -> None:
    # O6
    assert contribution(output({"A": "b"}), "plugin:lint")[0] == Contribution("plugin:lint", {"A": "b"})


def test_a_member_that_nobody_knows_does_not_cost_the_others() -> None:
    made, [rejected] = contribution(output({"A": "b"}, environment={"C": "d"}), "hook:one")
    assert made == Contribution("hook:one", {"A": "b"})
    assert str(rejected) == (
        "hook:one: environment: unknown member; known ones are hookEventName, env, additionalContext, "
        "watchPaths, initialUserMessage, sessionTitle"
    )


def test_members_of_other_hooks_are_none_of_our_business() -> None:
    text = '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}'
    assert contribution(text, "hook:one") == (Contribution("hook:one"), ())


def test_later_handlers_win_in_the_configured_order() -> None:
    # O1, O4: whichever of them ends first
    first = contribution(output({"A": "1", "B": "1"}), "hook:first")[0]
    second = contribution(output({"A": "2"}), "hook:second")[0]
    order = ["hook:first", "hook:second"]
    for heard in ((first, second), (second, first)):
        overlay = Overlay()
        for one in heard:
            overlay = overlay.put(one)
        assert [one.producer for one in overlay.arranged(order).contributions] == order


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a line for the model",
        "{}",
        '{"continue": true}',
        '{"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "x"}}',
        output(None),
        output({}),
        "[1]",
    ],
)
def test_other_output_says_nothing_of_the_environment(text: str) -> None:
    assert contribution(text, "hook:one") == (Contribution("hook:one"), ())


@pytest.mark.parametrize(
    ("text", "name", "reason"),
    [
        (output({"": "x"}), "", "name"),
        (output({"A=B": "x"}), "A=B", "name"),
        (output({"A\0": "x"}), "A\0", "name"),
        (output({"A": "x\0"}), "A", "value"),
        (output({"A": 1}), "A", "value"),
        (output({"A": True}), "A", "value"),
        (output({"A": ["x"]}), "A", "value"),
        (output(["A=1"]), "env", "field"),
        (output({"A": "x"}, "PreToolUse"), "hookEventName", "field"),
        (output({"A": "x"}, None), "hookEventName", "field"),
        ("{nonsense", "output", "field"),
        (output({"A": "1", "B": "2"}).replace('"B"', '"A"'), "A", "conflict"),
        (output({"A": "1", "B": None}).replace('"B"', '"A"'), "A", "conflict"),
        ("{" + " " * (1 << 20), "output", "field"),
        (output(None, environment={"A": "1"}), "environment", "field"),
        (output(None, envs={"A": "1"}, additionalContext="x"), "envs", "field"),
        ('{"env": {"A": "1"}}', "env", "field"),
        ('{"environment": {"A": "1"}, "hookSpecificOutput": {}}', "environment", "field"),
    ],
)
def test_what_is_wrong_is_told_with_the_hook_s_name(text: str, name: str, reason: str) -> None:
    # O2
    made, rejected = contribution(text, "hook:one")
    assert made == Contribution("hook:one")
    assert [(one.producer, one.name, one.reason) for one in rejected] == [("hook:one", name, reason)]
    with pytest.raises(OverlayRefused, match="nothing from hook:one was added"):
        contribution(text, "hook:one", strict=True)


def test_the_rest_of_a_contribution_is_kept() -> None:
    made, rejected = contribution(output({"A": "1", "B": 2}), "hook:one")
    assert made.values == {"A": "1"}
    assert rejected == (
        Rejection("hook:one", "B", "value", "a value must be a string, or null to remove the variable"),
    )


_LEAVES = st.none() | st.booleans() | st.text() | st.integers()
_JSON = st.recursive(
    _LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10
)


@given(_JSON)
def test_any_json_can_be_read(value: object) -> None:
    for text in (json.dumps(value), output(value), json.dumps({"hookSpecificOutput": value})):
        made, _ = contribution(text, "hook:one")
        assert all("=" not in name and name for name in made.names)
