"""The layers put together: which files and requests make which environment, and what is remembered of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.contract.base import base_of
from outfitter.contract.contract import REMEMBERED_STACKS, Asked, Contract
from outfitter.core.launch import DEFAULT_PATH
from outfitter.env.origin import Origin
from outfitter.env.policy import Policy
from outfitter.env.resolve import LARGEST_PAIR, Resolved
from outfitter.env.traced import traced
from outfitter.errors import EnvironmentTooLarge, FileInvalid
from outfitter.protocol.wishes import EnvPolicyParams
from tests.env import oracle, strategies
from tests.support.contracts import PATH, Place

quick = settings(deadline=None, max_examples=60)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def asked(place: Place, env: dict[str, str] | None = None, **more: Any) -> Asked:
    """What a client with a contract asks for in the project."""
    return Asked(str(more.pop("cwd", place.project)), env or {}, **more)


def policy(inherit: str = "all", **rules: Any) -> dict[str, Any]:
    """The policy of a request and its key, as arguments of Asked."""
    compiled = {"ignore_default_excludes": True, **rules}
    return {"policy": lambda: Policy(inherit, **compiled), "key": (inherit, *sorted(compiled.items()))}


def stock(place: Place, env: dict[str, str] | None = None, **more: Any) -> Asked:
    """What a client that knows nothing of contracts asks for."""
    return asked(place, env, **{**policy(), **more}, contract=False, author="client")


def refusals(outcome: Resolved) -> list[tuple[str, str, str]]:
    return [(f"L{one.level}", one.name, one.reason) for one in outcome.refused]


def last(outcome: Resolved, name: str) -> tuple[str, str, str, Origin | None]:
    """Level, layer and action of what happened to a variable last, and where that was said."""
    event = outcome.history()[0][name][-1]
    return f"L{event.level}", event.layer, event.action, event.origin


# Remembering


def test_same_settings_and_policy_are_the_same_stack(place: Place) -> None:
    contract = place.contract()
    stack = contract.ready(asked(place)).stack
    (place.project / "below").mkdir()
    assert contract.ready(asked(place, {"A": "1"}, tty=True)).stack is stack
    assert contract.ready(asked(place, cwd=place.project / "below")).stack is stack
    assert contract.ready(asked(place, contract=False)).stack is not stack
    core = contract.ready(asked(place, **policy("core"))).stack
    assert core is not stack
    assert contract.ready(asked(place, **policy("core"))).stack is core
    assert contract.ready(asked(place, **policy("core", exclude=("A",)))).stack is not core


def test_a_project_with_a_file_of_its_own_has_its_own_stack(place: Place) -> None:
    place.says('[env]\nset = { A = "1" }\n')
    contract = place.contract()
    here, there = contract.ready(asked(place)).stack, contract.ready(asked(place, cwd=place.elsewhere)).stack
    assert "A" in here.values
    assert "A" not in there.values
    # Where no file speaks, all directories are the same.
    assert contract.ready(asked(place, cwd="/usr")).stack is there


def test_a_policy_is_made_only_when_its_stack_is_not_known(place: Place) -> None:
    made = []

    def make() -> Policy:
        made.append(1)
        return Policy("all", True)

    contract = place.contract()
    for _ in range(3):
        contract.resolve(asked(place, policy=make, key="same"))
    assert made == [1]


def test_a_policy_that_nothing_stands_for_is_never_taken_for_none(place: Place) -> None:
    contract = place.contract(A="1")
    nothing = contract.resolve(asked(place))
    strict = contract.resolve(asked(place, policy=lambda: Policy("all", True, ("A",))))
    loose = contract.resolve(asked(place, policy=lambda: Policy("all", True)))
    assert [outcome.values.get("A") for outcome in (nothing, strict, loose)] == ["1", None, "1"]
    assert contract.ready(asked(place)).stack is nothing.stack


def test_an_edit_counts_at_the_very_next_command(place: Place) -> None:
    # Texts of one length, well within one second and one inode: neither time nor size need to tell.
    contract = place.contract()
    assert "A" not in contract.resolve(asked(place)).values
    place.says('[env]\nset = { A = "00" }\n')
    stacks = set()
    for number in range(1, 41):
        with place.project_file.open("r+") as file:
            file.write(f'[env]\nset = {{ A = "{number:02}" }}\n')
        assert "A" not in contract.resolve(asked(place)).values  # the user has not allowed this yet
        place.trust()
        assert contract.resolve(asked(place)).values["A"] == f"{number:02}"
        stacks.add(contract.ready(asked(place)).stack)
        assert contract.ready(asked(place)).stack in stacks
    assert len(stacks) == 40
    place.project_file.unlink()
    assert "A" not in contract.resolve(asked(place)).values


def test_a_nearer_file_and_the_users_count_at_the_next_command(place: Place) -> None:
    below = place.project / "a/b"
    below.mkdir(parents=True)
    place.says('[env]\nset = { A = "far" }\n')
    contract = place.contract()
    assert contract.resolve(asked(place, cwd=below)).values["A"] == "far"
    place.write(below.parent / "outfitter.toml", '[env]\nset = { A = "near" }\n')
    assert "A" not in contract.resolve(asked(place, cwd=below)).values
    place.trust(below)
    assert contract.resolve(asked(place, cwd=below)).values["A"] == "near"
    place.user('[env]\nset = { A = "mine" }\n')
    assert contract.resolve(asked(place, cwd=below)).values["A"] == "mine"


def test_a_base_that_a_client_brings_is_remembered_apart(place: Place) -> None:
    contract = place.contract(A="server")
    theirs = place.base("client", A="client")
    own = contract.ready(asked(place)).stack
    other = contract.ready(asked(place), theirs).stack
    assert (own.values["A"], other.values["A"]) == ("server", "client")
    assert contract.ready(asked(place)).stack is own
    assert contract.ready(asked(place), theirs).stack is other
    # An equal one may be of somebody else.
    assert contract.ready(asked(place), place.base("client", A="client")).stack is not other


def test_so_many_stacks_are_remembered_and_no_more(place: Place) -> None:
    contract = place.contract()
    first = contract.ready(asked(place)).stack
    for number in range(REMEMBERED_STACKS - 1):
        contract.ready(asked(place, **policy(exclude=(f"A{number}",))))
    assert contract.ready(asked(place)).stack is first
    contract.ready(asked(place, **policy("core")))
    assert contract.ready(asked(place)).stack is not first


# Exact


@quick
@given(env=strategies.variables, tty=st.booleans())
def test_without_policy_and_contract_a_command_gets_exactly_the_request(
    env: dict[str, str], tty: bool
) -> None:
    contract = Contract(base_of("daemon", {"PATH": PATH, "A": "1"}), None, "/bin/account-shell")
    outcome = contract.resolve(Asked("/", env, contract=False, author="client", tty=tty))
    wanted = {name: value for name, value in env.items() if not oracle.never_passes(name)}
    if tty:
        wanted.setdefault("SHELL", "/bin/account-shell")
    assert outcome.values == wanted
    assert outcome.history() is not None


def test_an_exact_environment_needs_no_file_to_be_right(place: Place) -> None:
    place.user("[env]\nset = { A = 1 }\n")
    place.says("nonsense")
    exact = asked(place, {"ONLY": "this", "PATH": "::x"}, contract=False, author="client")
    assert place.contract().resolve(exact).values == {"ONLY": "this", "PATH": "::x"}


# A stock client


@quick
@given(server=strategies.variables, rules=strategies.policies, env=strategies.variables)
def test_a_stock_request_is_its_policy_and_its_env_to_the_letter(
    server: dict[str, str], rules: dict[str, Any], env: dict[str, str]
) -> None:
    contract = Contract(base_of("daemon", server), None, "/bin/account-shell")
    request = Asked("/", env, lambda: Policy(**rules), key=repr(rules), contract=False, author="client")
    wanted = oracle.inherited(
        server,
        rules["inherit"],
        rules["ignore_default_excludes"],
        rules["exclude"],
        dict(rules["set"]),
        rules["include_only"],
    )
    wanted.update((name, value) for name, value in env.items() if not oracle.never_passes(name))
    assert contract.resolve(request).values == wanted


@pytest.mark.parametrize("path", ["", ":", "::/bin:relative:/bin/:/bin:$PATH:.", "/usr/bin/"])
def test_path_of_a_stock_request_is_passed_as_it_is(place: Place, path: str) -> None:
    contract = place.contract(PATH=path, MANPATH=path)
    assert contract.resolve(stock(place)).values["PATH"] == path
    assert contract.resolve(stock(place)).values["MANPATH"] == path
    assert contract.resolve(stock(place, {"PATH": f"{path}:x"})).values["PATH"] == f"{path}:x"
    assert contract.resolve(stock(place, **policy(set=(("PATH", path),)))).values["PATH"] == path


def test_path_of_a_stock_request_is_put_in_order_when_a_layer_works_on_it(place: Place) -> None:
    place.says('[env]\nprepend = { PATH = ["bin"] }\n')
    contract = place.contract(PATH="::/bin:relative:/bin/", MANPATH="::/man")
    values = contract.resolve(stock(place)).values
    assert values["PATH"] == f"{place.project}/bin:/bin"
    assert values["MANPATH"] == "::/man"


def test_a_stock_request_is_given_nothing_that_it_did_not_ask_for(place: Place) -> None:
    contract = Contract(base_of("daemon", {"A": "1"}), None, "/bin/account-shell")
    assert contract.resolve(stock(place)).values == {"A": "1"}
    assert contract.resolve(stock(place, tty=True)).values == {"A": "1", "SHELL": "/bin/account-shell"}


# A client with a contract


def test_path_and_level_are_filled_in_where_they_are_missing(place: Place) -> None:
    bare = Contract(base_of("daemon", {}), None, "/bin/account-shell")
    outcome = bare.resolve(asked(place, tty=True))
    assert outcome.values == {"PATH": DEFAULT_PATH, "SHLVL": "1", "SHELL": "/bin/account-shell"}
    assert [last(outcome, name)[:3] for name in ("PATH", "SHLVL", "SHELL")] == [
        ("L8", "runtime", "set"),
        ("L8", "runtime", "set"),
        ("L8", "terminal", "set"),
    ]
    assert bare.resolve(asked(place, {"PATH": ""})).values["PATH"] == DEFAULT_PATH
    given = place.contract(SHLVL="3", SHELL="/bin/mine").resolve(asked(place, tty=True)).values
    assert (given["PATH"], given["SHLVL"], given["SHELL"]) == (PATH, "3", "/bin/mine")


def test_a_policy_of_its_own_is_a_request_for_just_what_it_leaves(place: Place) -> None:
    assert place.contract().resolve(asked(place, {"A": "1"}, **policy("none"))).values == {"A": "1"}


@pytest.mark.parametrize(
    "path", ["/a::/b:", "/a:/b:/a", "/a:relative:/b", "/a:$PATH:/b", "/a:/b:/b/", ":/a:/b"]
)
def test_path_is_put_in_order(place: Place, path: str) -> None:
    # P9
    assert place.contract(PATH=path).resolve(asked(place)).values["PATH"] == "/a:/b"
    assert place.contract().resolve(asked(place, {"PATH": path})).values["PATH"] == "/a:/b"


def test_a_projects_variables_come_from_its_file_and_line(place: Place) -> None:
    place.says(
        '[env]\nunset = ["GONE"]\n\n[env.set]\nA = "1"\nB = ""\n\n[env.prepend]\nPATH = ["bin", "/opt/x"]\n'
    )
    outcome = place.contract(GONE="1", A="0").resolve(asked(place))
    assert {name: outcome.values.get(name) for name in ("A", "B", "GONE", "PATH")} == {
        "A": "1",
        "B": "",
        "GONE": None,
        "PATH": f"{place.project}/bin:/opt/x:{PATH}",
    }
    file = str(place.project_file)
    assert [last(outcome, name) for name in ("GONE", "A", "B", "PATH")] == [
        ("L3", "project", "unset", Origin("project", "[env] unset", file, 2)),
        ("L3", "project", "set", Origin("project", "[env] set", file, 5)),
        ("L3", "project", "set", Origin("project", "[env] set", file, 6)),
        ("L3", "project", "prepend", Origin("project", "[env] prepend", file, 9)),
    ]
    assert outcome.refused == []


CODE_LOADING = ("BASH_ENV", "LD_PRELOAD", "PYTHONPATH", "NODE_OPTIONS", "GIT_SSH_COMMAND")


def test_a_project_may_not_load_code_and_the_rest_of_it_applies(place: Place) -> None:
    # K6
    pairs = ", ".join(f'{name} = "/evil"' for name in CODE_LOADING)
    place.says(f'[env]\nset = {{ {pairs}, A = "1" }}\n')
    contract = place.contract()
    outcome = contract.resolve(asked(place))
    assert sorted(refusals(outcome)) == sorted(("L3", name, "code-loading") for name in CODE_LOADING)
    assert outcome.values["A"] == "1"
    assert not set(CODE_LOADING) & set(outcome.values)
    place.user('[names]\nallow_code_loading = { project = ["PYTHONPATH"] }\n')
    allowed = contract.resolve(asked(place))
    assert allowed.values["PYTHONPATH"] == "/evil"
    assert len(allowed.refused) == len(CODE_LOADING) - 1


def test_a_users_own_file_may_load_code_and_wins_over_the_project(place: Place) -> None:
    pairs = ", ".join(f'{name} = "/mine"' for name in CODE_LOADING)
    place.user(f'[env]\nset = {{ {pairs}, A = "user" }}\n')
    place.says('[env]\nset = { A = "project", B = "project" }\n')
    outcome = place.contract().resolve(asked(place))
    assert {outcome.values[name] for name in CODE_LOADING} == {"/mine"}
    assert (outcome.values["A"], outcome.values["B"]) == ("user", "project")
    assert last(outcome, "A") == ("L6", "user", "set", Origin("user", "[env] set", str(place.user_file), 2))
    assert outcome.refused == []


def test_a_request_wins_over_both_and_takes_away(place: Place) -> None:
    place.user('[env]\nset = { A = "user", B = "user" }\n')
    outcome = place.contract().resolve(asked(place, {"A": "request"}, unset=("B",)))
    assert outcome.values["A"] == "request"
    assert "B" not in outcome.values
    assert last(outcome, "B")[:3] == ("L7", "request", "unset")


def test_a_model_may_not_load_code(place: Place) -> None:
    outcome = place.contract().resolve(asked(place, {"LD_PRELOAD": "/x", "A": "1"}, author="model"))
    assert refusals(outcome) == [("L7", "LD_PRELOAD", "code-loading")]
    assert outcome.values["A"] == "1"


# Policies


def test_policies_come_in_order_user_project_request(place: Place) -> None:
    place.user('[shell_environment_policy]\nset = { A = "user", B = "user", C = "user" }\n')
    place.says('[shell_environment_policy]\nset = { B = "project", C = "project" }\nexclude = ["GONE"]\n')
    contract = place.contract(GONE="1", A="0")
    outcome = contract.resolve(asked(place, **policy(set=(("C", "request"),))))
    assert [outcome.values.get(name) for name in ("A", "B", "C", "GONE")] == [
        "user",
        "project",
        "request",
        None,
    ]
    names = [one.name for one in outcome.stack.policies]
    assert names == ["user:shell_environment_policy", "project:shell_environment_policy", "envPolicy"]
    assert last(outcome, "GONE") == (
        "L2",
        "project:shell_environment_policy",
        "removed",
        Origin("policy", "project [shell_environment_policy]", str(place.project_file), 3),
    )
    # What one has removed no later one brings back.
    place.user('[shell_environment_policy]\ninclude_only = ["PATH", "C"]\n')
    assert set(contract.resolve(asked(place)).values) == {"PATH", "C", "B", "SHLVL"}


def test_configured_policies_hold_for_a_stock_request_too(place: Place) -> None:
    place.user('[shell_environment_policy]\nexclude = ["A"]\n')
    assert "A" not in place.contract(A="1").resolve(stock(place)).values


def test_what_was_denied_stays_denied_below_the_request(place: Place) -> None:
    place.user('[shell_environment_policy]\nexclude = ["DENIED"]\n')
    place.says('[env]\nset = { DENIED = "project" }\n')
    contract = place.contract(DENIED="base")
    outcome = contract.resolve(asked(place))
    assert "DENIED" not in outcome.values
    assert refusals(outcome) == [("L3", "DENIED", "denied")]
    assert "DENIED" not in contract.resolve(asked(place, {"DENIED": "model"}, author="model")).values
    # A person's own word is not taken away.
    assert contract.resolve(asked(place, {"DENIED": "mine"})).values["DENIED"] == "mine"


def test_allow_from_lets_a_layer_bring_it_back(place: Place) -> None:
    place.user('[shell_environment_policy]\nexclude = ["DENIED"]\nallow_from = ["L3"]\n')
    place.says('[env]\nset = { DENIED = "project" }\n')
    contract = place.contract(DENIED="base")
    assert contract.resolve(asked(place)).values["DENIED"] == "project"
    assert refusals(contract.resolve(asked(place, {"DENIED": "model"}, author="model"))) == [
        ("L7", "DENIED", "denied")
    ]


# Limits


def too_large(contract: Contract, request: Asked) -> tuple[str, int | None]:
    with pytest.raises(EnvironmentTooLarge) as caught:
        contract.resolve(request)
    assert caught.value.slug == "environment-too-large"
    assert "x" * 100 not in str(caught.value)
    return caught.value.name, caught.value.total


@pytest.mark.parametrize("who", ["base", "project", "request", "stock", "exact"])
def test_a_value_that_nothing_can_be_started_with_is_named_at_resolution(place: Place, who: str) -> None:
    def request(value: str) -> tuple[Contract, Asked]:
        env = {} if who in ("base", "project") else {"BIG": value}
        if who == "project":
            place.says(f'[env]\nset = {{ BIG = "{value}" }}\n')
        contract = place.contract(**({"BIG": value} if who == "base" else {}))
        if who == "stock":
            return contract, stock(place, env)
        return contract, asked(place, env, contract=who != "exact", author="user" if env else "client")

    if who != "project":  # whose file cannot be as large
        assert too_large(*request("x" * 131_072)) == ("BIG", None)
        assert too_large(*request("x" * (LARGEST_PAIR - len("BIG=") + 1))) == ("BIG", None)
    contract, fits = request("x" * (60_000 if who == "project" else LARGEST_PAIR - len("BIG=")))
    assert "BIG" in contract.resolve(fits).values


def test_the_limit_of_one_value_is_the_kernels(place: Place) -> None:
    largest = {"BIG": "x" * (LARGEST_PAIR - len("BIG="))}
    assert os.spawnve(os.P_WAIT, "/bin/true", ["true"], largest) == 0
    assert os.spawnve(os.P_WAIT, "/bin/true", ["true"], {"BIG": largest["BIG"] + "x"}) != 0


def test_the_total_is_bounded_and_the_largest_is_named(place: Place) -> None:
    place.user("[limits]\ntotal_bytes = 4096\n")
    contract = place.contract()
    many = {f"N{number}": "x" * 100 for number in range(50)}
    name, total = too_large(contract, asked(place, {**many, "LARGEST": "x" * 101}))
    assert name == "LARGEST"
    assert total is not None
    assert total > 4096
    # A project makes it smaller, never larger.
    place.says("[limits]\ntotal_bytes = 1000\n")
    assert too_large(contract, asked(place, {"A": "x" * 1000}))[0] == "A"
    place.says("[limits]\ntotal_bytes = 1000000\n")
    assert too_large(contract, asked(place, {"A": "x" * 4096}))[0] == "A"
    # The reference knows no such limit.
    assert len(contract.resolve(stock(place, many)).values) > 50


# Files with mistakes


def test_a_broken_file_fails_commands_there_with_all_mistakes(place: Place) -> None:
    place.says('[shell]\nlogin = "perhaps"\n\n[env]\nset = { A = 1 }\n')
    contract = place.contract()
    for request in (asked(place), stock(place)):
        with pytest.raises(FileInvalid) as caught:
            contract.resolve(request)
        assert [(one.file, one.line) for one in caught.value.mistakes] == [
            (str(place.project_file), 2),
            (str(place.project_file), 5),
        ]
    assert contract.resolve(asked(place, cwd=place.elsewhere)).values["PATH"] == PATH
    place.says('[env]\nset = { A = "1" }\n')
    assert contract.resolve(asked(place)).values["A"] == "1"


def test_without_configuration_no_file_is_looked_at(place: Place) -> None:
    place.says("nonsense")
    contract = Contract(place.base("launcher"), None, "/bin/account-shell")
    assert contract.settings(str(place.project)) is contract.settings(None)
    assert contract.resolve(asked(place)).values["PATH"] == PATH


# Fingerprints


def test_fingerprints_are_those_of_the_next_server_too(place: Place) -> None:
    place.says('[env]\nset = { A = "1" }\n')
    one, other = place.contract(), place.contract()
    first = one.fingerprints(one.resolve(asked(place)))
    assert other.fingerprints(other.resolve(asked(place))) == first
    # The same values by another way.
    place.project_file.unlink()
    env_fp, contract_fp = other.fingerprints(other.resolve(asked(place, {"A": "1"})))
    assert env_fp == first[0]
    assert contract_fp != first[1]
    changed = other.fingerprints(other.resolve(asked(place, {"A": "2"})))
    assert changed[0] != first[0]


def test_trace_context_is_a_layer_where_the_user_wants_it_and_changes_no_fingerprint(place: Place) -> None:
    context = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    plain = place.contract().resolve(asked(place))
    assert not [layer for layer in plain.layers if layer.id == "trace"]
    place.user("[trace]\ncommands = true\n")
    contract = place.contract()
    without = contract.resolve(asked(place))
    within = contract.resolve(asked(place, trace=traced(context)))
    assert [layer.state for layer in without.layers if layer.id == "trace"] == ["not-applicable"]
    assert last(within, "TRACEPARENT")[:3] == ("L8", "trace", "set")
    assert contract.fingerprints(without) == contract.fingerprints(within)
    place.says("[trace]\ncommands = true\n", trusted=False)
    with pytest.raises(FileInvalid):
        place.contract().resolve(asked(place))


def test_fingerprints_of_another_account_are_others(place: Place) -> None:
    here = place.contract()
    there = place.contract(XDG_STATE_HOME=f"{place.folder}/state")
    request = asked(place, contract=False, author="client")
    assert here.fingerprints(here.resolve(request))[0] != there.fingerprints(there.resolve(request))[0]


def test_the_wires_policy_has_a_key_for_all_it_says() -> None:
    parts: list[tuple[Any, ...]] = [
        ("all", True, (), (), ()),
        ("core", True, (), (), ()),
        ("all", False, (), (), ()),
        ("all", True, ("A",), (), ()),
        ("all", True, (), (("A", "1"),), ()),
        ("all", True, (), (), ("A",)),
    ]
    assert len({EnvPolicyParams(*one).key for one in parts}) == len(parts)
