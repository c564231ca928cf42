"""The lock: the same bytes for the same environment, every change noticed, no secret in it."""

from __future__ import annotations

import hmac
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.env.layer import Layer, Operation
from outfitter.env.lists import LIST_NAMES
from outfitter.env.lock import (
    EVERY_LEVEL,
    PROJECT_LEVELS,
    Drift,
    Lock,
    LockedLayer,
    LockedVariable,
    build,
    check,
)
from outfitter.env.names import SHELL_MAINTAINED
from outfitter.env.origin import EXECUTOR, Origin
from outfitter.env.policy import Policy
from outfitter.env.redact import Secrets
from outfitter.env.resolve import Resolved, Rules, resolve
from outfitter.errors import SettingInvalid
from outfitter.formats.lockfile import decode, encode

from . import build as built
from .model import Case
from .strategies import cases

quick = settings(deadline=None, max_examples=40)
SALT = bytes(range(16))
PROJECT = Origin("provider", "[env] set", "/w/outfitter.toml", 4)
PLAIN = Policy("all", ignore_default_excludes=True)


def environment(
    base: dict[str, str] | None = None, project: dict[str, str] | None = None, **more: Any
) -> Resolved:
    layers = [
        Layer(0, "base", EXECUTOR, base or {}),
        Layer(3, "project", PROJECT, project or {}, **more),
    ]
    return resolve(layers, [PLAIN])


def lock_of(resolved: Resolved, **more: Any) -> Lock:
    return build(resolved, **{"salt": SALT, "secrets": Secrets(), **more})


def digest(name: str, value: str) -> str:
    text = f"{len(name)}:{name}{len(value)}:{value}"
    return hmac.new(SALT, text.encode(), "sha256").hexdigest()[:32]


# What is in it


def test_a_whole_lock() -> None:
    layers = [
        Layer(
            0,
            "base",
            EXECUTOR,
            {"PATH": "/usr/bin:/h/bin", "LANG": "C", "PWD": "/w", "SSH_TTY": "/dev/pts/1"},
        ),
        Layer(
            3,
            "direnv:/w/.envrc",
            PROJECT,
            {"APP_ROOT": "/w/app", "NPM_TOKEN": "hunter22", "URL": "http://x/?hunter22"},
            operations=[Operation("PATH", "prepend", ("/w/bin",))],
            digest="sha256:12",
        ),
        Layer(5, "hook", PROJECT, state="failed"),
    ]
    lock = lock_of(resolve(layers, [PLAIN]), home="/h", project="/w/", tools={"uv": "0.5.1", "cc": "/h/cc"})
    app, lang = digest("APP_ROOT", "./app"), digest("LANG", "C")
    assert lock == Lock(
        SALT,
        EVERY_LEVEL,
        (
            LockedLayer("L0", "base", "applied"),
            LockedLayer("L2", "envPolicy", "applied"),
            LockedLayer("L3", "direnv:./.envrc", "applied", "sha256:12"),
            LockedLayer("L5", "hook", "failed"),
        ),
        {"cc": "~/cc", "uv": "0.5.1"},
        {
            "APP_ROOT": LockedVariable("L3", "direnv:./.envrc", digest=app),
            "LANG": LockedVariable("L0", "base", digest=lang),
            "NPM_TOKEN": LockedVariable("L3", "direnv:./.envrc", secret=True),
            "PATH": LockedVariable("L3", "direnv:./.envrc", segments=("./bin", "/usr/bin", "~/bin")),
            "URL": LockedVariable("L3", "direnv:./.envrc", secret=True),
        },
    )
    assert encode(lock) == (
        "{\n"
        '  "version": 1,\n'
        '  "salt": "000102030405060708090a0b0c0d0e0f",\n'
        '  "covers": ["L0", "L1", "L2", "L3", "L4", "L5", "L6"],\n'
        '  "layers": [\n'
        '    {"layer": "L0", "id": "base", "state": "applied"},\n'
        '    {"layer": "L2", "id": "envPolicy", "state": "applied"},\n'
        '    {"layer": "L3", "id": "direnv:./.envrc", "state": "applied", "digest": "sha256:12"},\n'
        '    {"layer": "L5", "id": "hook", "state": "failed"}\n'
        "  ],\n"
        '  "tools": {\n'
        '    "cc": "~/cc",\n'
        '    "uv": "0.5.1"\n'
        "  },\n"
        '  "variables": {\n'
        f'    "APP_ROOT": {{"layer": "L3", "id": "direnv:./.envrc", "digest": "{app}"}},\n'
        f'    "LANG": {{"layer": "L0", "id": "base", "digest": "{lang}"}},\n'
        '    "NPM_TOKEN": {"layer": "L3", "id": "direnv:./.envrc", "secret": true},\n'
        '    "PATH": {"layer": "L3", "id": "direnv:./.envrc", "segments": ["./bin", "/usr/bin", "~/bin"]},\n'
        '    "URL": {"layer": "L3", "id": "direnv:./.envrc", "secret": true}\n'
        "  }\n"
        "}\n"
    )


def test_two_machines_have_one_lock_where_they_have_one_environment() -> None:
    def machine(home: str, project: str) -> str:
        values = {
            "HOME": home,
            "ROOT": project,
            "CPATH": f"{project}/include:{home}/x:/usr/include",
            "MAP": f"{project}/a:{home}/b:c",
        }
        return encode(lock_of(environment(values), home=home, project=project))

    assert machine("/home/one", "/home/one/work/p") == machine("/Users/two", "/src/p")


def test_a_folder_that_only_begins_alike_is_another() -> None:
    lock = lock_of(environment({"CPATH": "/home/ones:/home/one:/home/one/x"}), home="/home/one")
    assert lock.variables["CPATH"].segments == ("/home/ones", "~", "~/x")
    assert lock_of(environment({"CPATH": "/x"}), home="/", project="/").variables["CPATH"].segments == ("/x",)


def test_what_changes_from_session_to_session_is_not_locked() -> None:
    names = [
        "SSH_CONNECTION",
        "TERM",
        "TERM_PROGRAM",
        "XDG_SESSION_ID",
        "DBUS_SESSION_BUS_ADDRESS",
        "WINDOWID",
    ]
    names += ["DISPLAY", "TMUX_PANE", "INVOCATION_ID", "OUTFITTER_SESSION", *SHELL_MAINTAINED]
    assert list(lock_of(environment(dict.fromkeys([*names, "KEPT"], "1"))).variables) == ["KEPT"]
    assert lock_of(environment({"BUILD_1": "1", "A": "1"}), volatile=["build_*"]).variables.keys() == {"A"}


def test_what_differs_from_machine_to_machine_can_be_left_out() -> None:
    operation = Operation("PATH", "prepend", ("/w/bin",))
    outcome = environment({"A": "1", "PATH": "/usr/bin"}, {"B": "2"}, operations=[operation])
    lock = lock_of(outcome, levels=PROJECT_LEVELS)
    assert [one.layer for one in lock.layers] == ["L3"]
    assert list(lock.variables) == ["B", "PATH"]
    assert lock.variables["PATH"].segments == ("/w/bin",)
    assert lock.levels == (3, 4)


def test_only_some_names_can_be_locked() -> None:
    lock = lock_of(environment({"APP_A": "1", "app_b": "1", "OTHER": "1"}), only=["APP_*"])
    assert (sorted(lock.variables), lock.only) == (["APP_A", "app_b"], ("APP_*",))


def test_a_short_salt_is_refused() -> None:
    with pytest.raises(SettingInvalid, match="16 random bytes"):
        lock_of(environment(), salt=b"short")


# Drift


def drift(before: Resolved, after: Resolved) -> list[Drift]:
    return check(lock_of(before), lock_of(after))


@quick
@given(cases)
def test_the_same_environment_has_the_same_lock_and_no_drift(case: Case) -> None:
    lock = lock_of(built.resolved(case), home="/a", project="/project")
    again = lock_of(built.resolved(case), home="/a", project="/project")
    assert encode(lock) == encode(again)
    assert decode(encode(lock)) == lock
    assert check(decode(encode(lock)), again) == []


names = st.sampled_from(["A", "B", "C", "PATH"])
maps = st.dictionaries(names, st.sampled_from(["/1", "/2", "/1:/2", "/2:/1"]), max_size=4)


@quick
@given(maps, maps)
def test_every_change_of_a_variable_is_noticed(before: dict[str, str], after: dict[str, str]) -> None:
    found = {one.name: one.kind for one in drift(environment(before), environment(after))}
    assert found == {
        name: "added" if name not in before else "missing" if name not in after else "changed"
        for name in {*before, *after}
        if before.get(name) != after.get(name)
    }


def test_a_list_says_which_of_its_entries() -> None:
    def changed(before: str, after: str) -> list[Drift]:
        return drift(environment({"PATH": before}), environment({"PATH": after}))

    assert changed("/a:/b", "/c:/b") == [Drift("variable", "changed", "PATH", "-/a +/c")]
    assert changed("/a:/b", "/b:/a") == [Drift("variable", "changed", "PATH", "in another order")]


def test_of_a_secret_only_the_presence_is_locked() -> None:
    before = environment({"A_TOKEN": "1", "B_TOKEN": "1"})
    after = environment({"A_TOKEN": "2", "C_TOKEN": "1"})
    assert drift(before, after) == [
        Drift("variable", "missing", "B_TOKEN"),
        Drift("variable", "added", "C_TOKEN"),
    ]


def test_layers_are_compared_by_presence_state_inputs_and_order() -> None:
    def of(*layers: tuple[int, str, str, str]) -> Resolved:
        return resolve(
            [Layer(level, id, PROJECT, state=state, digest=d) for level, id, state, d in layers], []
        )

    before = of(
        (3, "a", "applied", "1"), (3, "b", "applied", "1"), (3, "c", "applied", ""), (4, "d", "off", "")
    )
    after = of(
        (3, "b", "applied", "2"), (3, "a", "blocked", "1"), (3, "c", "applied", ""), (5, "d", "off", "")
    )
    assert drift(before, after) == [
        Drift("layer", "layer-state", "a", "applied, now blocked"),
        Drift("layer", "layer-inputs", "b", "its inputs changed"),
        Drift("layer", "missing", "d", "L4"),
        Drift("layer", "added", "d", "L5"),
        Drift("layer", "layer-order", "a", "replaced by b"),
    ]


def test_the_version_of_a_provider_s_tool_is_no_part_of_a_project() -> None:
    def of(version: str, script: str, **more: Any) -> Lock:
        provider = Layer(3, "direnv", PROJECT, {"A": "1"}, digest=version)
        return lock_of(resolve([provider, Layer(4, "setup", PROJECT, digest=script)], []), **more)

    project = {"levels": PROJECT_LEVELS}
    assert check(of("direnv 2.32", "s", **project), of("direnv 2.37", "s", **project)) == []
    assert check(of("direnv 2.32", "s"), of("direnv 2.37", "s", **project)) == []  # a lock of before
    changed = [Drift("layer", "layer-inputs", "setup", "its inputs changed")]
    assert check(of("direnv 2.32", "s", **project), of("direnv 2.32", "t", **project)) == changed


def test_tools_are_compared_by_version() -> None:
    before = lock_of(environment(), tools={"node": "20.1", "uv": "0.5", "cc": "12"})
    after = lock_of(environment(), tools={"node": "22.0", "uv": "0.5", "go": "1.23"})
    found = check(before, after)
    assert found == [
        Drift("tool", "missing", "cc", "12"),
        Drift("tool", "added", "go", "1.23"),
        Drift("tool", "tool-version", "node", "20.1, now 22.0"),
    ]
    assert str(found[2]) == "tool node: tool-version (20.1, now 22.0)"


# Secrets


@quick
@given(cases)
def test_no_value_is_in_a_lock_but_the_entries_of_lists(case: Case) -> None:
    for number, overlay in enumerate(case.overlays):
        overlay.values = {
            name: f"/v/{number}-{value}" if name in case.lists or not value else f"value-{number}-{value}"
            for name, value in overlay.values.items()
        }
    text = encode(lock_of(built.resolved(case)))
    assert "value-" not in text


def test_a_secret_inside_an_entry_is_masked_and_a_secret_list_is_not_told() -> None:
    values = {"A_TOKEN": "hunter22", "CPATH": "/x/hunter22", "KEY_SECRET": "/y/hidden"}
    outcome = resolve(
        [Layer(0, "base", EXECUTOR, values)], [PLAIN], rules=Rules(list_names=LIST_NAMES | {"KEY_SECRET"})
    )
    text = encode(lock_of(outcome))
    assert "hunter22" not in text and "hidden" not in text
    assert decode(text).variables["CPATH"].segments == ("/x/[secret:A_TOKEN]",)
