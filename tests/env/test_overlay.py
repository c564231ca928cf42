"""The session's overlay: producers own what they say, later ones win, nothing is changed in place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.env.layer import BASE, SESSION, Layer, Operation
from outfitter.env.origin import EXECUTOR
from outfitter.env.overlay import (
    KINDS,
    Contribution,
    Overlay,
    Rejection,
    describe,
    encode,
    narrowed,
    read,
    why_no_producer,
)
from outfitter.env.redact import Secrets
from outfitter.env.resolve import LARGEST_PAIR, Rules, Stack
from outfitter.errors import OverlayRefused

HOST = {"PATH": "/usr/bin", "HOME": "/home/me", "HOST_ONLY": "h", "API_TOKEN": "hush-host"}


def commands_get(overlay: Overlay, host: dict[str, str] = HOST) -> dict[str, str]:
    base = Layer(BASE, "base", EXECUTOR, host)
    return Stack([base, *overlay.layers], (), Rules()).values


def overlay(*contributions: Contribution) -> Overlay:
    return Overlay(contributions, id="thread")


# Contributions


def test_a_contribution_is_what_a_command_gets() -> None:
    # O1
    said = Contribution("hook:h", {"A": "1"}, operations=[Operation("PATH", "prepend", ("/x",))])
    assert commands_get(overlay(said)) == {**HOST, "A": "1", "PATH": "/x:/usr/bin"}


def test_unset_is_not_the_same_as_empty() -> None:
    # O12
    gone, empty = read("user", {"set": {"HOST_ONLY": None}})[0], read("user", {"set": {"HOST_ONLY": ""}})[0]
    assert "HOST_ONLY" not in commands_get(overlay(gone))
    assert commands_get(overlay(empty))["HOST_ONLY"] == ""
    assert gone == read("user", {"unset": ["HOST_ONLY"]})[0]


@pytest.mark.parametrize(
    ("told", "name", "reason"),
    [
        ({"set": {"": "x"}}, "", "name"),
        ({"set": {"A=B": "x"}}, "A=B", "name"),
        ({"set": {"A\0": "x"}}, "A\0", "name"),
        ({"set": {"": None}}, "", "name"),
        ({"unset": ["A=B"]}, "A=B", "name"),
        ({"prepend": {"": ["/x"]}}, "", "name"),
        ({"set": {"A": "x\0"}}, "A", "value"),
        ({"set": {"A": 1}}, "A", "value"),
        ({"set": {"A": True}}, "A", "value"),
        ({"set": {"A": "x" * LARGEST_PAIR}}, "A", "value"),
        ({"prepend": {"PATH": [1]}}, "PATH", "value"),
        ({"prepend": {"PATH": [""]}}, "PATH", "value"),
        ({"prepend": {"PATH": ["x" * LARGEST_PAIR]}}, "PATH", "value"),
        ({"set": ["A"]}, "set", "field"),
        ({"unset": "A"}, "unset", "field"),
        ({"secrets": [1]}, "secrets", "field"),
        ({"sets": {"A": "1"}}, "sets", "field"),
        ({"set": {"A": "x"}, "unset": ["A"]}, "A", "conflict"),
    ],
)
def test_what_is_wrong_is_refused_with_the_producer_named(
    told: dict[str, object], name: str, reason: str
) -> None:
    # O2
    made, rejected = read("hook:h", {"append": {"PATH": ["/ok"]}, **told})
    assert made.values == {}
    assert [one.variable for one in made.operations] == ["PATH"]
    [one] = rejected
    assert (one.producer, one.name, one.reason) == ("hook:h", name, reason)
    with pytest.raises(OverlayRefused, match="nothing from hook:h was added"):
        read("hook:h", told, strict=True)


def test_names_of_another_case_are_the_same_where_the_system_says_so() -> None:
    # O13
    told = {"set": {"Path_x": "1", "OTHER": "2"}, "unset": ["PATH_X"]}
    assert read("user", told)[1] == ()
    made, rejected = read("user", told, ignore_case=True)
    assert made == Contribution("user", {"OTHER": "2"})
    assert [(one.name, one.reason) for one in rejected] == [("PATH_X", "conflict"), ("Path_x", "conflict")]


def test_values_are_data_in_every_shell() -> None:
    # O3, O13: nothing in a value is expanded, quoted or run
    value = "$(touch /x) `id` ; & | %PATH% $env:PATH \"'\n"
    assert commands_get(overlay(Contribution("hook:h", {"A": value})))["A"] == value


@pytest.mark.parametrize("producer", ["user", *(f"{kind}:x" for kind in KINDS if kind != "user")])
def test_producers_have_a_kind_and_a_name(producer: str) -> None:
    assert why_no_producer(producer) == ""
    assert Contribution(producer).kind == producer.partition(":")[0]


@pytest.mark.parametrize(
    "producer", ["", "hook", "hook:", "user:me", "my-hook", "hook:\n", "hook:" + "x" * 1024]
)
def test_other_producers_are_refused(producer: str) -> None:
    assert "a producer" in why_no_producer(producer)


_NAMES = st.sampled_from(["A", "B", "PATH", "MANPATH"])
_TOLD = st.fixed_dictionaries(
    {},
    optional={
        "set": st.dictionaries(_NAMES, st.none() | st.text(max_size=3)),
        "unset": st.lists(_NAMES, unique=True),
        "prepend": st.dictionaries(_NAMES, st.lists(st.text(max_size=3), max_size=2)),
        "append": st.dictionaries(_NAMES, st.lists(st.text(max_size=3), max_size=2)),
        "remove": st.dictionaries(_NAMES, st.lists(st.text(max_size=3), max_size=2)),
        "secrets": st.lists(_NAMES, unique=True),
    },
)


@given(_TOLD)
def test_what_is_read_is_read_again_the_same(told: dict[str, object]) -> None:
    made, _ = read("user", told)
    assert read("user", encode(made)) == (made, ())


@given(_TOLD, _TOLD)
def test_more_words_of_a_producer_replace_only_what_they_are_about(
    first: dict[str, object], second: dict[str, object]
) -> None:
    one, other = read("user", first)[0], read("user", second)[0]
    both = one.with_more(other)
    assert both.names == sorted({*one.names, *other.names})
    assert both.without(set(one.names) - set(other.names)).without(()).names == other.names
    assert one.with_more(one) == one


def test_nothing_that_is_shown_has_a_value() -> None:
    said = Contribution("user", {"A": "hush"}, operations=[Operation("PATH", "append", ("/hush",))])
    rejected = Rejection("user", "A", "value", "wrong")
    assert "hush" not in f"{said!r} {overlay(said)!r} {describe(said)} {rejected}"
    assert describe(said) == {
        "producer": "user",
        "kind": "user",
        "set": ["A"],
        "unset": [],
        "prepend": [],
        "append": ["PATH"],
        "remove": [],
        "secrets": [],
    }


# Overlays


def test_putting_a_producer_again_replaces_all_of_it() -> None:
    # O5: nothing accumulates
    before = overlay(Contribution("hook:h", {"A": "1", "B": "1"}), Contribution("user", {"C": "1"}))
    after = before.put(Contribution("hook:h", {"A": "2"}))
    assert after.contributions == (Contribution("hook:h", {"A": "2"}), Contribution("user", {"C": "1"}))
    assert before.contributions[0].values == {"A": "1", "B": "1"}


def test_a_later_producer_wins_and_keeps_its_place() -> None:
    # O1
    both = overlay(Contribution("hook:a", {"A": "a"}), Contribution("hook:b", {"A": "b"}))
    assert commands_get(both)["A"] == "b"
    again = both.put(Contribution("hook:a", {"A": "again"}))
    assert commands_get(again)["A"] == "b"


@given(st.permutations(["hook:a", "user", "hook:b", "hook:c"]))
def test_declared_order_counts_and_not_who_was_first(heard: list[str]) -> None:
    # O4
    order = ["hook:a", "hook:b", "hook:c"]
    found = overlay(*(Contribution(producer, {"A": producer}) for producer in heard)).arranged(order)
    producers = [one.producer for one in found.contributions]
    assert [producer for producer in producers if producer != "user"] == order
    assert producers.index("user") == heard.index("user")


def test_layers_are_one_per_producer_and_stay_the_same_objects() -> None:
    one = overlay(Contribution("hook:a", {"A": "1"}), Contribution("user", {"B": "1"}))
    assert [(layer.level, layer.id, layer.producer) for layer in one.layers] == [
        (SESSION, "hook:a", "hook:a"),
        (SESSION, "user", "user"),
    ]
    assert one.layers is one.layers
    assert one.put(Contribution("hook:a", {"A": "1"})) is one
    other = one.put(Contribution("user", {"B": "2"}))
    assert (other.layers[0] is one.layers[0], other.layers[1] is one.layers[1]) == (True, False)
    assert one.drop("hook:x") is one
    assert one.arranged(["hook:a", "user"]) is one
    assert one.drop("user").layers == one.layers[:1]


# Children


def test_a_child_has_a_copy_and_an_id_of_its_own() -> None:
    # O8, O9
    parent = overlay(Contribution("hook:a", {"A": "1"}))
    child = narrowed(parent, "child")
    assert (child.id, child.parent) == ("child", "thread")
    assert commands_get(child) == commands_get(parent)
    changed = child.put(Contribution("hook:a", {"A": "2"}))
    assert (commands_get(parent)["A"], commands_get(changed)["A"]) == ("1", "2")
    with pytest.raises(ValueError, match="an id of its own"):
        narrowed(parent, "thread")


def test_a_child_may_have_less_and_never_more() -> None:
    # O8
    parent = overlay(Contribution("hook:a", {"A": "1", "B": "1"}))
    child = narrowed(parent, "child", unset=["A", "HOST_ONLY"])
    assert commands_get(child) == {"PATH": "/usr/bin", "HOME": "/home/me", "B": "1", "API_TOKEN": "hush-host"}
    # Not by a hook of its own either, nor by a child of its own.
    again = child.put(Contribution("hook:start", {"A": "2", "OWN": "1"}))
    for one in (again, narrowed(again, "grandchild")):
        assert {"A", "HOST_ONLY"}.isdisjoint(commands_get(one))
        assert commands_get(one)["OWN"] == "1"
    assert again.layers[-1] is child.layers[-1]


def test_secrets_can_be_hidden_from_a_child() -> None:
    values = {"API_TOKEN": "hush-1", "PLAIN": "p", "MARKED": "hush-2", "URL": "https://a:hush@b/"}
    said = Contribution("hook:a", values, secrets=["MARKED"])
    child = narrowed(overlay(said), "child", hide_secrets=Secrets())
    assert child.withheld == {"API_TOKEN", "MARKED", "URL"}
    assert commands_get(child) == {"PATH": "/usr/bin", "HOME": "/home/me", "HOST_ONLY": "h", "PLAIN": "p"}


def test_a_child_is_told_as_narrowed_in_its_layers() -> None:
    child = narrowed(overlay(), "child", unset=["B", "A"])
    [layer] = child.layers
    assert (layer.id, layer.unset) == ("narrowed", ("A", "B"))
    assert child.withholding(["A"]) is child


def test_rules_for_scripts_hold_for_every_producer() -> None:
    # O2: the resolver's own rules, whose refusals name the producer
    said = Contribution("hook:h", {"LD_PRELOAD": "x", "OUTFITTER_SESSION": "x", "OK": "1"}, unset=["PATH"])
    stack = Stack([Layer(BASE, "base", EXECUTOR, HOST), *overlay(said).layers], (), Rules())
    assert [(one.layer, one.name, one.reason) for one in stack.refused] == [
        ("hook:h", "PATH", "required"),
        ("hook:h", "LD_PRELOAD", "code-loading"),
        ("hook:h", "OUTFITTER_SESSION", "runtime"),
    ]
    assert stack.values == {**HOST, "OK": "1"}


MANY = [f"N{number}" for number in range(100_000)]


@pytest.mark.parametrize(
    "told",
    [
        {"unset": MANY},
        {"set": dict.fromkeys(MANY[::2], "1"), "unset": MANY[1::2]},
        {"set": dict.fromkeys(MANY, "1"), "unset": MANY, "append": {name.lower(): ["x"] for name in MANY}},
        {"prepend": {name: ["x"] for name in MANY[:50_000]}},
    ],
    ids=["unset", "both", "conflicts", "lists"],
)
def test_a_hundred_thousand_names_hold_nobody_up(told: dict[str, object]) -> None:
    # Each would take minutes if it took the square of their number; the deadline of a test is the limit.
    said, _ = read("hook:h", told)
    assert len(Stack((said.layer(),), (), Rules(total=None)).values) == len(said.values)
    assert narrowed(overlay(said), "child", hide_secrets=Secrets()).withheld == frozenset()


def test_many_short_texts_are_as_large_as_they_are_in_memory() -> None:
    few, many = Contribution("user", {"A": "x" * 1000}), Contribution("user", unset=MANY[:100])
    assert many.size > 5 * few.size
    assert narrowed(overlay(), "child", unset=MANY[:100]).size > 5 * few.size
    assert Contribution("user", secrets=MANY[:100]).size > 5 * few.size
