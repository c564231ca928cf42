"""An environment told: every variable accounted for, and no value that nobody asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from outfitter.env.explain import SHOW, View, explain, inside, one_line, shown, summary
from outfitter.env.layer import Layer, Operation
from outfitter.env.lists import LIST_NAMES
from outfitter.env.origin import EXECUTOR, LOGIN_SHELL, REQUEST, RUNTIME, Origin
from outfitter.env.policy import Policy
from outfitter.env.redact import Secrets
from outfitter.env.resolve import Resolved, Rules, resolve

from . import build
from .model import Case
from .strategies import cases

quick = settings(deadline=None, max_examples=40)
PROJECT = Origin("provider", "[env] set", "/w/outfitter.toml", 4)
USER = Origin("policy", "user [shell_environment_policy]", "/h/config.toml", 2)
WORKSPACE = "/w"


def ten_layers() -> Resolved:
    layers = [
        Layer(
            0, "base", EXECUTOR, {"PATH": "/usr/bin:/bin:.", "HOME": "/h", "LANG": "C", "AWS_KEY": "k" * 9}
        ),
        Layer(
            1,
            "login-shell",
            LOGIN_SHELL,
            {"NVM": "/nvm", "LANG": "en"},
            operations=[_path("prepend", "/h/bin")],
        ),
        Layer(
            3, "direnv", PROJECT, {"APP": "dev", "AWS_KEY": "again"}, operations=[_path("prepend", "/w/bin")]
        ),
        Layer(3, "mise", PROJECT, {"APP": "test", "BASH_ENV": "/evil"}, unset=["NVM"], state="stale"),
        Layer(4, "setup", PROJECT, {"VIRTUAL_ENV": "/w/.venv"}, cost_ms=12.3456),
        Layer(5, "hook:x", PROJECT, {"DATABASE_URL": "postgres://u:hunter22@db/x"}),
        Layer(5, "hook:y", PROJECT, {"NOT": "there"}, state="failed", note="exit status 1"),
        Layer(6, "user", USER, {"EDITOR": "vi"}, secrets=frozenset(["EDITOR"])),
    ]
    policies = [
        Policy("all", exclude=("AWS_*",), name="user:policy", source=USER),
        Policy("all", ignore_default_excludes=True, set=(("CI", "1"),)),
    ]
    asked = Layer(7, "request", REQUEST, {"VERBOSE": "1", "NOTE": "it is"}, author="model")
    runtime = [Layer(8, "runtime", RUNTIME, {"SHLVL": "1", "PATH": "/none"}, where_unset=True)]
    return resolve(layers, policies, asked, runtime)


def _path(op: str, *entries: str) -> Operation:
    return Operation("PATH", op, entries)


def told(resolved: Resolved, show: str = "names", **more: Any) -> dict[str, Any]:
    found = explain(resolved, View(Secrets(), show, **more), {"kind": "launcher"}, "e" * 64, "c" * 64)
    again: dict[str, Any] = json.loads(json.dumps(found))
    assert again == found  # it is JSON, through and through
    return again


def test_every_variable_of_ten_layers_is_explained() -> None:
    variables = told(ten_layers())["variables"]
    assert {name: (entry["layer"], entry["id"]) for name, entry in variables.items()} == {
        "APP": ("L3", "mise"),
        "AWS_KEY": ("L2", "user:policy"),
        "BASH_ENV": ("L3", "mise"),
        "CI": ("L2", "envPolicy"),
        "DATABASE_URL": ("L5", "hook:x"),
        "EDITOR": ("L6", "user"),
        "HOME": ("L0", "base"),
        "LANG": ("L1", "login-shell"),
        "NOTE": ("L7", "request"),
        "NVM": ("L3", "mise"),
        "PATH": ("L3", "direnv"),
        "SHLVL": ("L8", "runtime"),
        "VERBOSE": ("L7", "request"),
        "VIRTUAL_ENV": ("L4", "setup"),
    }
    assert {name: entry["removed"] for name, entry in variables.items() if "removed" in entry} == {
        "AWS_KEY": {"layer": "L2", "by": "user:policy", "why": "default exclude *KEY*"},
        "BASH_ENV": {
            "layer": "L3",
            "by": "mise",
            "why": "this variable can make later commands run other code; see allow_code_loading",
        },
        "NVM": {"layer": "L3", "by": "mise", "why": "removed"},
    }
    assert [name for name, entry in variables.items() if entry["secret"]] == [
        "AWS_KEY",
        "DATABASE_URL",
        "EDITOR",
    ]


def test_the_layers_are_told_in_order_and_a_level_nobody_fills_is_off() -> None:
    layers = told(ten_layers())["layers"]
    assert [(one["layer"], one["id"], one["state"], one["entries"]) for one in layers] == [
        ("L0", "base", "applied", 4),
        ("L1", "login-shell", "applied", 3),
        ("L2", "user:policy", "applied", 0),
        ("L2", "envPolicy", "applied", 1),
        ("L3", "direnv", "applied", 3),
        ("L3", "mise", "stale", 3),
        ("L4", "setup", "applied", 1),
        ("L5", "hook:x", "applied", 1),
        ("L5", "hook:y", "failed", 1),
        ("L6", "user", "applied", 1),
        ("L7", "request", "applied", 2),
        ("L8", "runtime", "applied", 2),
    ]
    assert layers[6]["cost"] == {"ms": 12.346}
    assert layers[8]["note"] == "exit status 1"
    assert layers[10]["author"] == "model"
    bare = told(resolve([], []))["layers"]
    assert [(one["layer"], one["state"]) for one in bare] == [(f"L{level}", "off") for level in range(9)]


def test_path_is_told_entry_by_entry() -> None:
    exists = {"/usr/bin", "/bin", "/w/bin"}.__contains__
    path = told(ten_layers(), exists=exists, workspace=WORKSPACE)["variables"]["PATH"]
    assert path["segments"] == [
        {
            "value": "/w/bin",
            "layer": "L3",
            "id": "direnv",
            "op": "prepend",
            "exists": True,
            "writableByAgent": True,
        },
        {"value": "/h/bin", "layer": "L1", "id": "login-shell", "op": "prepend", "exists": False},
        {"value": "/usr/bin", "layer": "L0", "id": "base", "op": "set", "exists": True},
        {"value": "/bin", "layer": "L0", "id": "base", "op": "set", "exists": True},
    ]
    assert path["dropped"] == [
        {
            "value": ".",
            "layer": "L0",
            "id": "base",
            "why": "relative: its meaning would depend on the current directory",
        }
    ]


def test_one_variable_in_full() -> None:
    entry = told(ten_layers(), "values")["variables"]["APP"]
    origin = {"kind": "provider", "detail": "[env] set", "file": "/w/outfitter.toml", "line": 4}
    assert entry == {
        "layer": "L3",
        "id": "mise",
        "origin": origin,
        "secret": False,
        "value": "test",
        "history": [
            {"layer": "L3", "id": "direnv", "action": "set", "why": "set", "origin": origin, "value": "dev"},
            {
                "layer": "L3",
                "id": "mise",
                "action": "set",
                "why": "in place of direnv",
                "origin": origin,
                "value": "test",
            },
        ],
    }


def test_refusals_are_told_with_their_reasons() -> None:
    assert [(one["id"], one["name"], one["reason"]) for one in told(ten_layers())["refused"]] == [
        ("direnv", "AWS_KEY", "denied"),
        ("mise", "BASH_ENV", "code-loading"),
    ]


def test_the_short_forms() -> None:
    outcome = ten_layers()
    assert summary(outcome, "launcher", "e", "c") == {
        "base": "launcher",
        "fp": "e",
        "contractFp": "c",
        "layers": [{"id": one.id, "layer": one.name, "state": one.state} for one in outcome.layers],
        "rejected": 2,
        "stale": True,
    }
    assert one_line(outcome, "launcher") == (
        "env: base=launcher, login=login-shell(applied, 3), policy=user:policy+envPolicy, "
        "provider=direnv(applied, 3)+mise(stale), setup=setup(applied, 1), "
        "overlay=hook:x(applied, 1)+hook:y(failed), overrides=user(applied, 1), request=request(applied, 2), "
        "2 refused"
    )
    assert one_line(resolve([], []), "daemon") == "env: base=daemon, policy=none, provider=none, setup=none"


# Of any environment


@quick
@given(cases)
def test_what_is_told_is_exactly_what_there_is(case: Case) -> None:
    outcome = build.resolved(case)
    variables = told(outcome, "secrets")["variables"]
    there = {name: entry for name, entry in variables.items() if "removed" not in entry}
    assert sorted(there) == sorted(map(shown, outcome.values))
    for name, value in outcome.values.items():
        entry = there[shown(name)]
        assert entry["value"] == shown(value)
        assert entry["origin"]["kind"]
        if name in case.lists:
            assert ":".join(one["value"] for one in entry["segments"]) == shown(value)


# Secrets


def texts_of(found: object) -> list[str]:
    """Every text in a JSON value, keys too."""
    if isinstance(found, dict):
        return [text for pair in found.items() for part in pair for text in texts_of(part)]
    if isinstance(found, list):
        return [text for part in found for text in texts_of(part)]
    return [found] if isinstance(found, str) else []


VALUES = {
    "PLAIN": "value-of-plain",
    "GITHUB_TOKEN": "value-of-token",
    "DB": "postgres://u:value-of-db@h/x",
    "MARKED": "value-marked",
    "LEAK": "--with value-of-token",
    "CPATH": "/c/value-of-token",
    "SECRET_DIRS": "/s/value-of-dirs:/t",
}


def with_secrets(show: str) -> tuple[dict[str, Any], str]:
    layers = [
        Layer(0, "base", EXECUTOR, VALUES | {"OLD_TOKEN": "value-removed"}),
        Layer(3, "project", PROJECT, {"PLAIN": "value-second"}, secrets=frozenset(["MARKED"])),
        Layer(3, "other", PROJECT, {"BASH_ENV": "value-refused"}, unset=["OLD_TOKEN"]),
    ]
    rules = Rules(list_names=LIST_NAMES | {"SECRET_DIRS"})
    policy = Policy("all", ignore_default_excludes=True, set=(("SET_KEY", "value-of-set"),))
    found = told(resolve(layers, [policy], None, (), rules), show)
    return found, "\n".join(texts_of(found))


def test_no_value_is_told_but_the_folders_of_lists() -> None:
    found, text = with_secrets("names")
    assert "value-" not in text
    assert found["variables"]["CPATH"]["segments"][0]["value"] == "/c/[secret:GITHUB_TOKEN]"
    assert [list(one) for one in found["variables"]["SECRET_DIRS"]["segments"]] == [["layer", "id", "op"]] * 2


def test_no_secret_is_told_among_the_values() -> None:
    found, text = with_secrets("values")
    assert sorted(word for word in set(text.split()) if "value-" in word) == [
        "value-of-plain",
        "value-second",
    ]
    variables = found["variables"]
    assert [name for name, entry in variables.items() if "value" in entry] == ["CPATH", "LEAK", "PLAIN"]
    assert variables["LEAK"]["value"] == "--with [secret:GITHUB_TOKEN]"


def test_secrets_are_told_to_those_who_ask() -> None:
    found, text = with_secrets("secrets")
    assert {name: entry.get("value") for name, entry in found["variables"].items()} == {
        **VALUES,
        "PLAIN": "value-second",
        "SET_KEY": "value-of-set",
        "OLD_TOKEN": None,
        "BASH_ENV": None,
    }
    assert "value-removed" in text and "value-refused" not in text


@pytest.mark.parametrize("show", SHOW[:2])
@quick
@given(cases)
def test_no_secret_of_any_environment_is_told(show: str, case: Case) -> None:
    places = [*case.overlays, *([case.request] if case.request else [])]
    for number, overlay in enumerate(places):
        overlay.values = {
            name: f"/v/{name}-{number}-{value}" if value else value for name, value in overlay.values.items()
        }
    secret = {
        shown(value)
        for overlay in places
        for name, value in overlay.values.items()
        if Secrets().holds(name, value) and len(value) > 5
    }
    plain = {
        shown(value)
        for overlay in places
        for name, value in overlay.values.items()
        if name not in case.lists and len(value) > 3
    }
    text = "\n".join(texts_of(told(build.resolved(case), show)))
    assert [value for value in secret if value in text] == []
    if show == "names":
        assert [value for value in plain if value in text] == []


# Text


def test_bytes_that_are_no_text_can_be_told() -> None:
    assert shown("a\udcff\u00e9") == "a\\xff\u00e9"
    assert shown("\u00e9") == "\u00e9"


def test_a_folder_is_inside_itself_but_not_inside_its_neighbour() -> None:
    for folder in ("/w", "/w/"):
        assert [inside(path, folder) for path in ("/w", "/w/", "/w/x", "/wx", "/")] == [True] * 3 + [
            False
        ] * 2
    assert inside("/w", "/") and inside("/", "/")
