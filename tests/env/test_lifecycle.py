"""The life cycle, cell by cell, as the specification's table has it."""

from __future__ import annotations

import pytest

from outfitter.env.layer import REQUESTED
from outfitter.env.lifecycle import EVENTS, TABLE, action, happened
from outfitter.env.overlay import Contribution, Overlay
from outfitter.env.redact import Secrets

# As it is written there; what a cell begins with is its action.
WRITTEN = """
| event | L0-L2 | L3-L4 | L5 | L7 |
| --- | --- | --- | --- | --- |
| new session | fresh | resolve | hooks run | none |
| resume | re-read from the *current* executor | re-resolve, compare `contract_fp` | hooks re-run | none |
| clear | keep | keep | drop hook entries, re-run; keep user entries | drop |
| compact | keep | keep | keep | drop |
| fork | copy | copy | copy | none |
| cwd change inside the root | keep | re-resolve only if a nearer provider file governs | keep | |
| other root or worktree | keep | resolve for that root; trust is per content | keep | |
| daemon reuse | must name the base | | | |
"""
EVENT_OF = {
    "new session": "new",
    "cwd change inside the root": "cwd",
    "other root or worktree": "root",
    "daemon reuse": "daemon",
}
MEANS = {
    "re-read from the *current* executor": "reread",
    "re-resolve, compare `contract_fp`": "re-resolve",
    "hooks run": "run-hooks",
    "hooks re-run": "rerun-hooks",
    "drop hook entries, re-run; keep user entries": "drop-hooks",
    "re-resolve only if a nearer provider file governs": "resolve-if-nearer",
    "resolve for that root; trust is per content": "resolve",
    "must name the base": "name-base",
}
LEVELS = {"L0-L2": (0, 1, 2), "L3-L4": (3, 4), "L5": (5,), "L7": (7,)}


def cells() -> list[tuple[str, int, str]]:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in WRITTEN.strip().splitlines()]
    head, _, *body = rows
    return [
        (EVENT_OF.get(row[0], row[0]), level, MEANS.get(cell, cell))
        for row in body
        for column, cell in zip(head[1:], row[1:], strict=True)
        for level in LEVELS[column]
    ]


@pytest.mark.parametrize(("event", "level", "expected"), cells())
def test_every_cell_of_the_table(event: str, level: int, expected: str) -> None:
    assert action(event, level) == expected


def test_the_table_has_those_events_and_no_other() -> None:
    assert set(EVENTS) == {event for event, _, _ in cells()} == set(TABLE)


def test_overrides_and_runtime_have_no_part_in_it() -> None:
    assert {action(event, level) for event in EVENTS for level in (6, 8)} == {""}
    assert {action(event, REQUESTED) for event in EVENTS} == {"none", "drop", ""}


# The overlay's column

HOOK = Contribution("hook:h", {"A": "1", "API_TOKEN": "hush-hook"})
PLUGIN = Contribution("plugin:p", {"P": "1"})
USER = Contribution("user", {"B": "1", "MY_SECRET": "hush", "SSH_AUTH_SOCK": "/run/agent"})
FILE = Contribution("file:/x", {"C": "1"})
OVERLAY = Overlay([HOOK, USER, PLUGIN, FILE], id="thread")
RESTORED = Contribution("user", {"B": "1", "SSH_AUTH_SOCK": "/run/agent"})


@pytest.mark.parametrize(
    ("event", "kept", "rerun", "reason", "lost"),
    [
        ("new", (), ("hook:h", "plugin:p"), "new", ["B", "MY_SECRET", "SSH_AUTH_SOCK", "C"]),
        ("resume", (HOOK, RESTORED, PLUGIN, FILE), ("hook:h", "plugin:p"), "resume", ["MY_SECRET"]),
        ("clear", (USER, FILE), ("hook:h", "plugin:p"), "clear", []),
        ("compact", (HOOK, USER, PLUGIN, FILE), (), "", []),
        ("fork", (HOOK, USER, PLUGIN, FILE), (), "", []),
        ("cwd", (HOOK, USER, PLUGIN, FILE), (), "", []),
        ("root", (HOOK, USER, PLUGIN, FILE), (), "", []),
        ("daemon", (HOOK, USER, PLUGIN, FILE), (), "", []),
    ],
)
def test_what_an_event_makes_of_an_overlay(
    event: str, kept: tuple[Contribution, ...], rerun: tuple[str, ...], reason: str, lost: list[str]
) -> None:
    # O5, W7: what is lost is told, and a socket's address is no secret
    outcome = happened(OVERLAY, event, secrets=Secrets(), to="copy")
    assert outcome.overlay.contributions == kept
    assert (outcome.rerun, outcome.reason) == (rerun, reason)
    assert [name for _, name in outcome.lost] == lost


def test_what_somebody_took_away_stays_away_after_a_resume() -> None:
    said = Contribution("user", {"MY_SECRET": "hush"}, unset=["DEPLOY_TOKEN"], secrets=frozenset(["PLAIN"]))
    overlay = Overlay([said, Contribution("editor:e", unset=["PLAIN", "API_KEY"])], id="thread")
    outcome = happened(overlay, "resume", secrets=Secrets())
    assert [one.unset for one in outcome.overlay.contributions] == [("DEPLOY_TOKEN",), ("PLAIN", "API_KEY")]
    assert outcome.lost == (("user", "MY_SECRET"),)


def test_hooks_that_run_again_replace_and_double_nothing() -> None:
    # O5
    for event in ("resume", "clear", "resume"):
        outcome = happened(OVERLAY, event, secrets=Secrets())
        again = outcome.overlay
        for producer in outcome.rerun:
            again = again.put(Contribution(producer, {"NEW": "2"}))
        hooks = [one for one in again.contributions if one.is_hook]
        assert hooks == [Contribution("hook:h", {"NEW": "2"}), Contribution("plugin:p", {"NEW": "2"})]


@pytest.mark.parametrize("event", ["compact", "cwd", "root", "daemon"])
def test_layers_stay_the_same_where_nothing_changes(event: str) -> None:
    assert happened(OVERLAY, event, secrets=Secrets()).overlay is OVERLAY


def test_a_fork_is_a_copy_that_goes_its_own_way() -> None:
    # O8, O9
    copy = happened(OVERLAY, "fork", secrets=Secrets(), to="other").overlay
    assert (copy.id, copy.parent, copy.layers) == ("other", "thread", OVERLAY.layers)
    assert copy.drop("user").get("user") is None
    assert OVERLAY.get("user") == USER


def test_a_fork_for_a_subagent_may_be_narrowed() -> None:
    # O8
    outcome = happened(OVERLAY, "fork", secrets=Secrets(), to="sub", unset=["A"], hide_secrets=True)
    assert outcome.overlay.withheld == {"A", "API_TOKEN", "MY_SECRET"}
    # And a session that begins anew under this id is held to that.
    assert happened(outcome.overlay, "new", secrets=Secrets()).overlay.withheld == outcome.overlay.withheld


@pytest.mark.parametrize("to", ["", "thread"])
def test_a_fork_needs_an_id_of_its_own(to: str) -> None:
    with pytest.raises(ValueError, match="an id of its own"):
        happened(OVERLAY, "fork", secrets=Secrets(), to=to)
