"""From layers to a command's environment: the values, what was refused, and the story of each variable."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.env.layer import (
    BASE,
    OVERRIDE,
    PROVIDER,
    REQUESTED,
    RUNTIME_LEVEL,
    SESSION,
    SETUP,
    SNAPSHOT,
    Layer,
    Operation,
)
from outfitter.env.origin import EXECUTOR, POLICY_SET, REQUEST, REQUEST_POLICY, RUNTIME, TERMINAL, Origin
from outfitter.env.policy import Policy
from outfitter.env.resolve import DEFAULT_TOTAL, LARGEST_PAIR, Event, Refusal, Resolved, Rules, Stack, resolve
from outfitter.errors import EnvironmentTooLarge

from . import build, oracle
from .model import Case, Model
from .strategies import cases, plain_requests, policies, variables

quick = settings(deadline=None, max_examples=40)
thorough = settings(deadline=None, max_examples=200)
PROJECT = Origin("provider", "the project's file", "/project/outfitter.toml", 3)


def base(**values: str) -> Layer:
    return Layer(BASE, "base", EXECUTOR, values)


def provider(values: dict[str, str] | None = None, **more: Any) -> Layer:
    return Layer(PROVIDER, "project", PROJECT, values or {}, **more)


def request(author: str = "user", /, **values: str) -> Layer:
    return Layer(REQUESTED, "request", REQUEST, values, author=author)


def on_path(op: str, *entries: str) -> Operation:
    return Operation("PATH", op, entries)


def segments(outcome: Resolved, name: str = "PATH") -> list[tuple[str, str, str]]:
    """Value, layer and operation of each."""
    return [(one.value, one.layer, one.op) for one in outcome.history()[1][name].segments]


def dropped(outcome: Resolved, name: str = "PATH") -> list[tuple[str, str, str]]:
    return [(one.value, one.layer, one.why) for one in outcome.history()[1][name].dropped]


def reasons(outcome: Resolved) -> list[tuple[str, str, str]]:
    return [(f"L{one.level}", one.name, one.reason) for one in outcome.refused]


# Against the model


@thorough
@given(cases)
def test_values_and_refusals_are_those_of_the_rules(case: Case) -> None:
    ours, model = build.resolved(case), Model(case)
    assert ours.values == model.values
    assert sorted((one.level, one.layer, one.name) for one in ours.refused) == sorted(model.refused)


@quick
@given(cases)
def test_every_name_that_anybody_spoke_of_has_a_history(case: Case) -> None:
    outcome = build.resolved(case)
    history, lists = outcome.history()
    assert set(history) == Model(case).known
    assert [name for name, events in history.items() if not events] == []
    assert [name for name in outcome.values if all(event.origin is None for event in history[name])] == []
    told = {name: one.text() for name, one in lists.items() if name in outcome.values}
    assert told == {name: value for name, value in outcome.values.items() if name in case.lists}


@quick
@given(cases)
def test_telling_changes_nothing(case: Case) -> None:
    outcome = build.resolved(case)
    values, refused = dict(outcome.values), list(outcome.refused)
    first = outcome.history()[0]
    assert outcome.history()[0] == first
    assert (outcome.values, outcome.refused) == (values, refused)


@quick
@given(cases, plain_requests)
def test_the_short_way_and_the_long_way_are_the_same(case: Case, plain: Any) -> None:
    stack = build.stack(case)
    asked, runtime = build.layer(plain), [build.layer(one) for one in case.runtime]
    taken = stack.resolve(asked, runtime)
    fold = stack._top(asked, runtime, None)
    assert taken.values == fold.values
    assert taken.refused == fold.refused


@quick
@given(cases, st.lists(plain_requests, max_size=3))
def test_a_stack_can_be_used_again(case: Case, several: list[Any]) -> None:
    stack = build.stack(case)
    before, refused = dict(stack.values), list(stack.refused)
    first = [stack.resolve(build.layer(one)).values for one in several]
    assert [stack.resolve(build.layer(one)).values for one in several] == first
    assert (stack.values, stack.refused) == (before, refused)


@quick
@given(policies, variables, variables)
def test_a_client_gets_what_the_reference_gives(
    policy: dict[str, Any], server: dict[str, str], asked: dict[str, str]
) -> None:
    stack = Stack([Layer(BASE, "base", EXECUTOR, server)], [Policy(**policy)], Rules(tidy=False, total=None))
    start = oracle.inherited(
        server,
        policy["inherit"],
        policy["ignore_default_excludes"],
        policy["exclude"],
        dict(policy["set"]),
        policy["include_only"],
    )
    outcome = stack.resolve(Layer(REQUESTED, "request", REQUEST, asked, author="client"))
    assert outcome.values == oracle.resolved(start, asked, None)
    assert [one.name for one in outcome.refused] == [name for name in asked if oracle.never_passes(name)]


@pytest.mark.parametrize("name", [*oracle.NEVER, oracle.OWN_SWITCH])
@pytest.mark.parametrize("level", [BASE, SNAPSHOT, PROVIDER, SETUP, SESSION, OVERRIDE, REQUESTED])
@pytest.mark.parametrize("policy", [None, Policy("all", ignore_default_excludes=True)])
def test_credentials_of_the_executor_come_from_nowhere(level: int, name: str, policy: Policy | None) -> None:
    layer = Layer(level, "layer", EXECUTOR, {name: "1"}, author="client")
    asked = layer if level == REQUESTED else None
    outcome = resolve([] if asked else [layer], [policy] if policy else [], asked)
    assert outcome.values == {}
    assert [event.why for event in outcome.history()[0][name]][-1] == "never passed to a command"


# Section 9.8: each class of names

CLASSES = {
    "OUTFITTER_ID": "runtime",
    "CODEX_THREAD_ID": "runtime",
    "PWD": "shell-maintained",
    "LD_PRELOAD": "code-loading",
    "NODE_REPL_AUTH_TOKEN": "withheld",
    "DENIED": "denied",
    "A-B": "name",
    "TERM": "",
    "HOME": "",
    "PATH": "",
}


@pytest.mark.parametrize(
    ("level", "author"),
    [(PROVIDER, "user"), (SETUP, "user"), (SESSION, "user"), (REQUESTED, "model")],
)
def test_a_script_is_refused_what_it_may_not_set_and_gets_the_rest(level: int, author: str) -> None:
    layer = Layer(level, "layer", PROJECT, dict.fromkeys(CLASSES, "/x"), author=author)
    policy = Policy("all", exclude=("DENIED",))
    asked = layer if level == REQUESTED else None
    outcome = resolve([base(), *([] if asked else [layer])], [policy], asked)
    assert outcome.values == {"TERM": "/x", "HOME": "/x", "PATH": "/x"}
    told = dict.fromkeys(outcome.values, "") | {one.name: one.reason for one in outcome.refused}
    assert told == CLASSES
    history = outcome.history()[0]
    assert [history[one.name][-1] for one in outcome.refused] == [
        Event(
            level,
            "layer",
            "ignored" if one.reason == "shell-maintained" else "refused",
            one.why,
            PROJECT,
            None,
        )
        for one in outcome.refused
    ]


@pytest.mark.parametrize("level", [OVERRIDE, REQUESTED])
def test_a_person_may_set_more(level: int) -> None:
    layer = Layer(level, "layer", PROJECT, dict.fromkeys(CLASSES, "/x"))
    asked = layer if level == REQUESTED else None
    outcome = resolve([base(), *([] if asked else [layer])], [Policy("all", exclude=("DENIED",))], asked)
    assert sorted(outcome.values) == ["CODEX_THREAD_ID", "DENIED", "HOME", "LD_PRELOAD", "PATH", "TERM"]
    assert reasons(outcome) == [
        (f"L{level}", "OUTFITTER_ID", "runtime"),
        (f"L{level}", "PWD", "shell-maintained"),
        (f"L{level}", "NODE_REPL_AUTH_TOKEN", "withheld"),
        (f"L{level}", "A-B", "name"),
    ]
    notice = outcome.history()[0]["LD_PRELOAD"][-1].why
    assert notice == "set; note: this variable can make later commands run other code"


def test_a_client_of_the_reference_is_taken_at_its_word() -> None:
    asked = Layer(REQUESTED, "request", REQUEST, dict.fromkeys(CLASSES, "/x"), author="client")
    outcome = resolve([base()], [Policy("all", exclude=("DENIED",))], asked)
    assert sorted(outcome.values) == sorted(set(CLASSES) - {"NODE_REPL_AUTH_TOKEN"})
    assert reasons(outcome) == [("L7", "NODE_REPL_AUTH_TOKEN", "withheld")]


@pytest.mark.parametrize("level", [PROVIDER, SETUP, SESSION])
def test_what_an_exclude_list_removed_does_not_come_back(level: int) -> None:
    layer = Layer(level, "layer", PROJECT, {"AWS_REGION": "2", "MY_TOKEN": "2", "B": "2"})
    policy = Policy("all", exclude=("AWS_*",))
    stack = [base(AWS_REGION="1", MY_TOKEN="1"), layer]
    outcome = resolve(stack, [policy])
    assert outcome.values == {"B": "2"}
    assert outcome.refused == [
        Refusal(
            level,
            "layer",
            "AWS_REGION",
            "denied",
            f"envPolicy.exclude AWS_*; allow_from with L{level} permits it",
        ),
        Refusal(
            level,
            "layer",
            "MY_TOKEN",
            "denied",
            f"default exclude *TOKEN*; allow_from with L{level} permits it",
        ),
    ]
    allowed = resolve(stack, [policy], rules=Rules(allow_from=frozenset([f"L{level}"])))
    assert allowed.values == {"AWS_REGION": "2", "MY_TOKEN": "2", "B": "2"}


def test_the_model_is_held_to_what_hooks_are() -> None:
    asked = request("model", AWS_REGION="2")
    stack, policy = [base()], Policy("all", exclude=("AWS_*",))
    assert reasons(resolve(stack, [policy], asked)) == [("L7", "AWS_REGION", "denied")]
    allowed = resolve(stack, [policy], asked, rules=Rules(allow_from=frozenset(["L5"])))
    assert allowed.values == {"AWS_REGION": "2"}


def test_every_one_of_several_policies_holds() -> None:
    policies = [Policy("all", exclude=("A",)), Policy("all", exclude=("B",))]
    outcome = resolve([base(A="1", B="1", C="1"), provider({"A": "2", "B": "2"})], policies)
    assert outcome.values == {"C": "1"}
    assert [one.name for one in outcome.refused] == ["A", "B"]


def test_code_loading_is_allowed_by_producer_and_name() -> None:
    rules = Rules(allow_code_loading={"direnv": frozenset(["PYTHONPATH"])})
    layers = [
        base(),
        provider({"PYTHONPATH": "/x", "BASH_ENV": "/y"}, producer="direnv"),
        Layer(SETUP, "setup", PROJECT, {"PYTHONPATH": "/z"}),
    ]
    outcome = resolve(layers, [], rules=rules)
    assert outcome.values == {"PYTHONPATH": "/x"}
    assert reasons(outcome) == [("L3", "BASH_ENV", "code-loading"), ("L4", "PYTHONPATH", "code-loading")]


def test_code_loading_may_be_taken_away() -> None:
    layer = provider(unset=["BASH_ENV"], operations=[Operation("PYTHONPATH", "remove", ("/x",))])
    outcome = resolve([base(BASH_ENV="/e", PYTHONPATH="/x:/y"), layer], [])
    assert (outcome.values, outcome.refused) == ({"PYTHONPATH": "/y"}, [])


@pytest.mark.parametrize("level", [SNAPSHOT, PROVIDER, SETUP, SESSION, OVERRIDE, REQUESTED])
def test_nothing_takes_path_or_home_away(level: int) -> None:
    layer = Layer(level, "layer", PROJECT, unset=["PATH", "HOME", "A", "B"])
    asked = layer if level == REQUESTED else None
    outcome = resolve([base(PATH="/bin", HOME="/h", A="1"), *([] if asked else [layer])], [], asked)
    assert outcome.values == {"PATH": "/bin", "HOME": "/h"}
    assert reasons(outcome) == [(f"L{level}", "PATH", "required"), (f"L{level}", "HOME", "required")]
    history = outcome.history()[0]
    assert (history["A"][-1].why, history["B"][-1].why) == ("removed", "was not set")


@pytest.mark.parametrize("value", ["", ":", ".", "bin:$PATH"])
@pytest.mark.parametrize("level", [SNAPSHOT, PROVIDER, OVERRIDE, REQUESTED])
def test_no_layer_leaves_path_empty(level: int, value: str) -> None:
    layer = Layer(level, "layer", PROJECT, {"PATH": value, "A": "1"})
    asked = layer if level == REQUESTED else None
    outcome = resolve([base(PATH="/bin"), *([] if asked else [layer])], [], asked)
    assert outcome.values == {"PATH": "/bin", "A": "1"}
    assert reasons(outcome) == [(f"L{level}", "PATH", "required")]


@pytest.mark.parametrize(
    "operation", [on_path("remove", "/bin"), on_path("replace"), on_path("replace", "rel")]
)
def test_no_operation_leaves_path_empty(operation: Operation) -> None:
    outcome = resolve([base(PATH="/bin"), provider(operations=[operation, on_path("append", "/c")])], [])
    assert outcome.values == {"PATH": "/bin:/c"}
    assert reasons(outcome) == [("L3", "PATH", "required")]


def test_a_snapshot_says_nothing_about_what_shells_keep() -> None:
    layer = Layer(SNAPSHOT, "login-shell", EXECUTOR, {"PWD": "/", "A.B": "1", "LD_PRELOAD": "/x"})
    outcome = resolve([base(PWD="/here"), layer], [])
    assert outcome.values == {"PWD": "/here", "A.B": "1", "LD_PRELOAD": "/x"}
    assert reasons(outcome) == [("L1", "PWD", "shell-maintained")]


def test_a_layer_that_sets_and_takes_away_one_name_does_neither() -> None:
    outcome = resolve([base(A="1"), provider({"A": "2", "B": "2"}, unset=["A"])], [])
    assert outcome.values == {"A": "1", "B": "2"}
    assert reasons(outcome) == [("L3", "A", "conflict"), ("L3", "A", "conflict")]


def test_only_lists_are_worked_on_as_lists() -> None:
    layer = provider(operations=[Operation("DIRS", "prepend", ("/x",))])
    outcome = resolve([base(DIRS="/y"), layer], [])
    assert outcome.values == {"DIRS": "/y"}
    assert outcome.refused == [
        Refusal(PROVIDER, "project", "DIRS", "list", "not a list variable; see `lists` of [names]")
    ]
    configured = resolve([base(DIRS="/y"), layer], [], rules=Rules(list_names=frozenset(["DIRS"])))
    assert configured.values == {"DIRS": "/x:/y"}


def test_a_value_with_a_nul_is_refused() -> None:
    outcome = resolve([base(), provider({"A": "x\0y"})], [])
    assert (outcome.values, reasons(outcome)) == ({}, [("L3", "A", "value")])


@pytest.mark.parametrize("state", ["off", "blocked", "missing", "failed", "not-applicable"])
def test_a_layer_that_did_not_work_out_contributes_nothing(state: str) -> None:
    outcome = resolve([base(A="1"), provider({"A": "2"}, unset=["B"], state=state)], [])
    assert (outcome.values, sorted(outcome.history()[0])) == ({"A": "1"}, ["A"])


def test_a_stale_layer_still_holds() -> None:
    assert resolve([base(A="1"), provider({"A": "2"}, state="stale")], []).values == {"A": "2"}


# Section 9.9: PATH


def test_path_has_no_entry_that_depends_on_where_one_is() -> None:
    outcome = resolve([base(PATH=":/a:.:b:$PATH:/c:")], [])
    assert outcome.values == {"PATH": "/a:/c"}
    assert dropped(outcome) == [
        ("", "base", "empty: it would mean the current directory"),
        (".", "base", "relative: its meaning would depend on the current directory"),
        ("b", "base", "relative: its meaning would depend on the current directory"),
        ("$PATH", "base", "an unexpanded reference to a variable"),
        ("", "base", "empty: it would mean the current directory"),
    ]


def test_the_first_of_equal_entries_stays() -> None:
    outcome = resolve([base(PATH="/a/:/b:/a:/b//:/:/c")], [])
    assert outcome.values == {"PATH": "/a/:/b:/:/c"}
    assert dropped(outcome) == [("/a", "base", "duplicate"), ("/b//", "base", "duplicate")]


def test_links_are_not_followed_and_case_counts() -> None:
    assert resolve([base(PATH="/bin:/usr/bin:/BIN:/usr/../bin")], []).values == {
        "PATH": "/bin:/usr/bin:/BIN:/usr/../bin"
    }


def test_an_empty_entry_elsewhere_stays_where_it_is() -> None:
    values = {"MANPATH": "/m:", "INFOPATH": ":/i::", "PYTHONPATH": ""}
    assert resolve([base(**values)], []).values == values
    layer = Layer(OVERRIDE, "user", PROJECT, operations=[Operation("MANPATH", "prepend", ("", "/n"))])
    assert resolve([base(MANPATH="/m:"), layer], []).values == {"MANPATH": ":/n:/m:"}


def test_relative_entries_belong_to_the_project_that_gives_them() -> None:
    layer = provider(operations=[on_path("prepend", "bin", "../x", "./y//z", ".")], root="/p/q")
    outcome = resolve([base(PATH="/a"), layer], [])
    assert outcome.values == {"PATH": "/p/q/bin:/p/x:/p/q/y/z:/a"}
    told = outcome.history()[1]["PATH"]
    assert [one.note for one in told.segments] == [
        "written as bin",
        "written as ../x",
        "written as ./y//z",
        "",
    ]
    assert dropped(outcome) == [
        (".", "project", "relative: its meaning would depend on the current directory")
    ]
    homeless = provider(operations=[on_path("prepend", "bin")])
    assert resolve([base(PATH="/a"), homeless], []).values == {"PATH": "/a"}


def test_an_entry_with_a_colon_is_several() -> None:
    outcome = resolve([base(PATH="/a"), provider(operations=[on_path("prepend", "/x:.:/a")])], [])
    assert outcome.values == {"PATH": "/x:/a"}
    assert segments(outcome) == [("/x", "project", "prepend"), ("/a", "project", "prepend")]


def test_prepends_of_a_higher_layer_come_first_and_each_keeps_its_order() -> None:
    layers = [
        base(PATH="/0"),
        provider(operations=[on_path("prepend", "/3a", "/3b"), on_path("prepend", "/3c")]),
        Layer(SETUP, "setup", PROJECT, operations=[on_path("prepend", "/4"), on_path("append", "/9")]),
    ]
    shims = Layer(RUNTIME_LEVEL, "sandbox", RUNTIME, operations=[on_path("prepend", "/8")])
    asked = Layer(REQUESTED, "request", REQUEST, operations=[on_path("prepend", "/7")])
    outcome = resolve(layers, [], asked, [shims])
    assert outcome.values == {"PATH": "/8:/7:/4:/3a:/3b:/3c:/0:/9"}
    assert [layer for _, layer, _ in segments(outcome)] == [
        "sandbox",
        "request",
        "setup",
        *["project"] * 3,
        "base",
        "setup",
    ]


def test_operations_move_add_remove_and_replace() -> None:
    def after(*operations: Operation) -> Resolved:
        return resolve([base(PATH="/a:/b:/c"), provider(operations=operations)], [])

    moved = after(on_path("prepend", "/c/"))
    assert (moved.values["PATH"], segments(moved)[0]) == ("/c/:/a:/b", ("/c/", "project", "prepend"))
    assert after(on_path("append", "/a", "/d")).values["PATH"] == "/a:/b:/c:/d"
    removed = after(on_path("remove", "/b/", "/z"))
    assert (removed.values["PATH"], dropped(removed)) == ("/a:/c", [("/b", "base", "removed by project")])
    replaced = after(on_path("replace", "/d", "/b"))
    assert segments(replaced) == [("/d", "project", "replace"), ("/b", "base", "set")]
    assert dropped(replaced) == [("/a", "base", "replaced by project"), ("/c", "base", "replaced by project")]
    assert replaced.history()[0]["PATH"][-1].why == "replaces the whole list"


def test_a_whole_value_is_told_as_what_it_amounts_to() -> None:
    def told(value: str) -> tuple[list[tuple[str, str, str]], str]:
        outcome = resolve([base(PATH="/a:/b"), provider({"PATH": value})], [])
        return segments(outcome), outcome.history()[0]["PATH"][-1].why

    old = [("/a", "base", "set"), ("/b", "base", "set")]
    assert told("/x:/a:/b") == ([("/x", "project", "prepend"), *old], "prepends to the list")
    assert told("/a:/b:/x") == ([*old, ("/x", "project", "append")], "appends to the list")
    assert told("/a:/b") == (old, "in place of base")
    assert told("/a:/x:/b") == ([old[0], ("/x", "project", "replace"), old[1]], "replaces the whole list")
    assert told("/x") == ([("/x", "project", "replace")], "replaces the whole list")


def test_a_vanished_path_is_told_and_filled() -> None:
    default = Layer(RUNTIME_LEVEL, "runtime", RUNTIME, {"PATH": "/usr/bin"}, where_unset=True)
    outcome = resolve([base(PATH=".:x")], [], None, [default])
    assert outcome.values == {"PATH": "/usr/bin"}
    assert [(event.action, event.why) for event in outcome.history()[0]["PATH"]] == [
        ("set", "set"),
        ("removed", "no entry was left"),
        ("set", "was not set before"),
    ]


def test_an_untidy_path_is_left_alone_when_asked_to() -> None:
    rules = Rules(tidy=False)
    untidy = ":/a:.:/a"
    assert resolve([base(PATH=untidy)], [], rules=rules).values == {"PATH": untidy}
    assert resolve([base()], [], request("client", PATH=untidy), rules=rules).values == {"PATH": untidy}
    touched = provider(operations=[on_path("append", "/b")])
    assert resolve([base(PATH=untidy), touched], [], rules=rules).values == {"PATH": "/a:/b"}
    # What a client says in so many words counts, whatever was done below.
    said = resolve([base(PATH=untidy), touched], [], request("client", PATH=untidy), rules=rules)
    assert said.values == {"PATH": untidy}


# Section 9.10: sizes


def test_the_largest_pair_fits_and_one_byte_more_does_not() -> None:
    largest = "x" * (LARGEST_PAIR - len("BIG="))
    for fits in (resolve([base(BIG=largest)], []), resolve([base()], [], request("client", BIG=largest))):
        assert fits.values == {"BIG": largest}
    for layers, asked in (
        ([base(BIG=largest + "x")], None),
        ([base()], request("client", BIG=largest + "x")),
        ([base()], request("user", BIG=largest + "x")),
        ([base()], request("client", BIG="\u00e9" * (len(largest) // 2 + 1))),
    ):
        with pytest.raises(EnvironmentTooLarge) as caught:
            resolve(layers, [], asked)
        assert (caught.value.name, caught.value.total, caught.value.limit) == ("BIG", None, LARGEST_PAIR)
        assert "xxx" not in str(caught.value)


@pytest.mark.parametrize("where", ["base", "client", "user", "runtime"])
def test_too_much_altogether_names_the_largest_variable(where: str) -> None:
    values = {f"V{number}": "x" * 100_000 for number in range(30)} | {"BIGGEST": "y" * 120_000}
    layers = [base(**(values if where == "base" else {}))]
    asked = request(where, **values) if where in ("client", "user") else None
    runtime = [Layer(RUNTIME_LEVEL, "runtime", RUNTIME, values)] if where == "runtime" else []
    with pytest.raises(EnvironmentTooLarge) as caught:
        resolve(layers, [], asked, runtime)
    assert caught.value.name == "BIGGEST"
    assert caught.value.limit == DEFAULT_TOTAL
    assert caught.value.total is not None and caught.value.total > 3_000_000
    assert resolve(layers, [], asked, runtime, Rules(total=None)).values == values


def test_an_environment_may_be_half_of_what_a_kernel_takes_and_no_more() -> None:
    def of(size: int) -> dict[str, str]:
        pairs = {f"V{number:02}": "x" * (65_536 - len("V00=") - 1) for number in range(size // 65_536)}
        *_, last = pairs
        return pairs | {last: pairs[last] + "x" * (size % 65_536)}

    assert DEFAULT_TOTAL == 1 << 20
    assert resolve([base(**of(1 << 20))], []).values
    with pytest.raises(EnvironmentTooLarge):
        resolve([base(**of((1 << 20) + 1))], [])


# Stories


def test_the_story_of_one_variable() -> None:
    layers = [
        base(A="0", B="0", C="0", D="0"),
        Layer(SNAPSHOT, "login-shell", EXECUTOR, {"A": "1"}),
        provider({"A": "3", "D": "3"}, unset=["C"]),
    ]
    policy = Policy("all", exclude=("D",), set=(("B", "2"),))
    outcome = resolve(layers, [policy], request(A="7", C="7"))
    kept = 'envPolicy.inherit is "all"'
    assert outcome.values == {"A": "7", "B": "2", "C": "7"}
    assert outcome.history()[0] == {
        "A": [
            Event(0, "base", "set", "set", EXECUTOR, "0"),
            Event(1, "login-shell", "set", "in place of base", EXECUTOR, "1"),
            Event(2, "envPolicy", "kept", kept, REQUEST_POLICY, None),
            Event(3, "project", "set", "in place of login-shell", PROJECT, "3"),
            Event(7, "request", "set", "in place of project", REQUEST, "7"),
        ],
        "B": [
            Event(0, "base", "set", "set", EXECUTOR, "0"),
            Event(2, "envPolicy", "set", "envPolicy.set", POLICY_SET, "2"),
        ],
        "C": [
            Event(0, "base", "set", "set", EXECUTOR, "0"),
            Event(2, "envPolicy", "kept", kept, REQUEST_POLICY, None),
            Event(3, "project", "unset", "removed", PROJECT, None),
            Event(7, "request", "set", "set", REQUEST, "7"),
        ],
        "D": [
            Event(0, "base", "set", "set", EXECUTOR, "0"),
            Event(2, "envPolicy", "removed", "envPolicy.exclude D", REQUEST_POLICY, None),
            Event(
                3, "project", "refused", "envPolicy.exclude D; allow_from with L3 permits it", PROJECT, None
            ),
        ],
    }


def test_of_two_producers_in_one_layer_the_later_wins_and_says_so() -> None:
    later = Layer(PROVIDER, "mise", PROJECT, {"A": "2"})
    outcome = resolve([base(), provider({"A": "1"}), later], [])
    assert outcome.values == {"A": "2"}
    assert [event.why for event in outcome.history()[0]["A"]] == ["set", "in place of project"]


def test_a_line_of_a_file_is_the_origin_where_it_is_known() -> None:
    line = Origin("provider", "[env] set", "/project/outfitter.toml", 9)
    outcome = resolve([base(), provider({"A": "1", "B": "1"}, origins={"B": line})], [])
    history = outcome.history()[0]
    assert (history["A"][0].origin, history["B"][0].origin) == (PROJECT, line)


def test_no_repr_tells_a_value() -> None:
    layer = provider({"A": "s3cr3t"})
    event = resolve([layer], []).history()[0]["A"][0]
    assert "s3cr3t" not in repr(layer) + repr(event)


# Terminals


def test_a_terminal_gets_a_shell_where_nothing_set_one() -> None:
    shell = Layer(RUNTIME_LEVEL, "terminal", TERMINAL, {"SHELL": "/bin/sh"}, where_unset=True)
    for own, expected in (({}, "/bin/sh"), ({"SHELL": "/bin/zsh"}, "/bin/zsh"), ({"SHELL": ""}, "")):
        outcome = resolve([base(**own)], [], None, [shell])
        assert outcome.values == {"SHELL": expected}
        assert (outcome.history()[0]["SHELL"][-1].origin == TERMINAL) is (not own)
