"""The session's layers: named, kept for a worktree, given to a session; and their bounds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.contract import overlays as module
from outfitter.contract.file import parse_settings
from outfitter.contract.merge import merge
from outfitter.contract.overlays import Overlays, Scopes, refusals
from outfitter.contract.settings import Settings
from outfitter.core.quotas import Sharing
from outfitter.env.layer import BASE, RUNTIME_LEVEL, SESSION, Layer, Operation
from outfitter.env.origin import EXECUTOR
from outfitter.env.overlay import Contribution
from outfitter.env.resolve import Rules, Stack
from outfitter.errors import FileInvalid, InvalidParams, OverlaysFull, OverlayUnknown

PLAIN = Settings()


def settings(user: str = "", project: str = "") -> Settings:
    return merge(
        parse_settings(user, "/home/me/config.toml", "user", "/home/me"),
        parse_settings(project, "/p/outfitter.toml", "project", "/home/me"),
    )


@pytest.fixture
def found(tmp_path: Path) -> Overlays:
    return Overlays(str(tmp_path / "state"))


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "sub").mkdir()
    return tmp_path / "repo"


def producers(overlays: Overlays, directory: Path, *names: str, scope: str | None = None) -> list[str]:
    return [layer.id for layer in overlays.layers(str(directory), scope, names, PLAIN)]


# Named: O10

ROCM = """
[overlays.rocm]
set = { GFX = "11" }
unset = ["CUDA_HOME"]
prepend = { PATH = ["/opt/rocm/bin"] }

[overlays.empty]
"""


def test_a_command_chooses_overlays_by_name(found: Overlays, repo: Path) -> None:
    said = settings(ROCM)
    assert found.layers(str(repo), None, (), said) == ()
    [layer] = found.layers(str(repo), None, ("rocm",), said)
    assert (layer.level, layer.id, layer.producer) == (SESSION, "named:rocm", "named:rocm")
    assert (dict(layer.values), layer.unset) == ({"GFX": "11"}, ("CUDA_HOME",))
    [operation] = layer.operations
    assert (operation.variable, operation.op, operation.values) == ("PATH", "prepend", ("/opt/rocm/bin",))
    assert (layer.origin_of("GFX").file, layer.origin_of("GFX").line) == ("/home/me/config.toml", 3)
    assert found.layers(str(repo), None, ("rocm",), said)[0] is layer


def test_later_names_go_on_top_and_each_counts_once(found: Overlays, repo: Path) -> None:
    said = settings(ROCM)
    ids = [one.id for one in found.layers(str(repo), None, ("rocm", "empty", "rocm"), said)]
    assert ids == ["named:rocm", "named:empty"]


def test_a_name_that_nobody_has_is_an_error(found: Overlays, repo: Path) -> None:
    with pytest.raises(OverlayUnknown) as caught:
        found.layers(str(repo), None, ("cuda",), settings(ROCM))
    assert str(caught.value) == (
        "no overlay is named `cuda` here: add [overlays.cuda], or use one of: `rocm`, `empty`"
    )


def test_a_project_s_overlay_is_in_no_other_s_place_and_has_no_other_s_rights(
    found: Overlays, repo: Path
) -> None:
    said = settings(ROCM, '[overlays.rocm]\nset = { GFX = "12" }\n[overlays.own]\nset = { A = "1" }\n')
    rocm, own = found.layers(str(repo), None, ("rocm", "own"), said)
    assert (rocm.values["GFX"], rocm.producer) == ("11", "named:rocm")
    assert (own.id, own.producer) == ("named:own", "project")
    assert [setting for setting, _, _ in said.ignored] == ["overlays.rocm"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("overlays = 1", "`overlays` must be a table"),
        ("[overlays]\nx = 1", "`x` must be a table"),
        ('[overlays."a b"]', "which is not the name of an overlay"),
        ('[overlays.""]', "which is not the name of an overlay"),
        ("[overlays.x]\nsets = {}", "unknown field `sets`"),
        ("[overlays.x]\nset = { A = 1 }", "must be a string"),
        ('[overlays.x]\nset = { A = "1" }\nunset = ["A"]', "is both in `set` and in `unset`"),
        (
            '[overlays.x]\nset = { PATH = "/x:$PATH" }',
            "`overlays.x.set.PATH` has an entry that starts with $",
        ),
        ('[overlays.x]\nprepend = { A = ["x"] }', "is not a list variable"),
    ],
)
def test_mistakes_in_overlays_are_told_with_their_line(text: str, told: str) -> None:
    with pytest.raises(FileInvalid) as caught:
        settings(text)
    assert told in str(caught.value)
    assert "/home/me/config.toml:" in str(caught.value)


# Sessions


@pytest.fixture
def scopes() -> Iterator[Scopes]:
    yield Scopes()


def test_a_session_s_words_are_for_its_commands_only(found: Overlays, repo: Path) -> None:
    found.scopes.put("one", Contribution("hook:h", {"A": "1"}))
    assert producers(found, repo, scope="one") == ["hook:h"]
    assert (producers(found, repo, scope="two"), producers(found, repo)) == (["scope"], [])
    [missing] = found.layers(str(repo), "two", (), Settings())
    assert (missing.state, "`two`" in missing.note) == ("missing", True)
    assert found.layers(str(repo), "two", (), Settings())[0] is missing


def test_named_come_first_then_the_user_s_then_the_session_s(found: Overlays, repo: Path) -> None:
    found.kept.put(str(repo), Contribution("user", {"A": "kept"}), PLAIN)
    found.scopes.put("one", Contribution("user", {"A": "session"}))
    layers = found.layers(str(repo), "one", ("rocm",), settings(ROCM))
    assert [layer.id for layer in layers] == ["named:rocm", "kept:user", "user"]


def test_a_command_can_tell_whose_it_is(found: Overlays) -> None:
    # O9
    found.scopes.happened("one", "fork", PLAIN, to="child")
    for scope, expected in (
        ("one", {"OUTFITTER_SCOPE": "one"}),
        ("child", {"OUTFITTER_SCOPE": "child", "OUTFITTER_PARENT_SCOPE": "one"}),
    ):
        layer = found.scopes.runtime(scope)
        assert (layer.level, layer.values) == (RUNTIME_LEVEL, expected)


@pytest.mark.parametrize("scope", ["", "x" * 257, "a\nb", "a\0"])
def test_a_scope_has_a_name_that_can_be_shown(scope: str, scopes: Scopes) -> None:
    with pytest.raises(InvalidParams, match="a scope must be printable"):
        scopes.put(scope, Contribution("user", {"A": "1"}))


def test_producers_of_the_configuration_are_not_put(scopes: Scopes) -> None:
    with pytest.raises(InvalidParams, match="are in the configuration"):
        scopes.put("one", Contribution("named:rocm", {"A": "1"}))
    with pytest.raises(InvalidParams, match="a producer is"):
        scopes.put("one", Contribution("somebody", {"A": "1"}))


def test_scopes_are_dropped_word_by_word(scopes: Scopes) -> None:
    scopes.put("one", Contribution("user", {"A": "1", "B": "1"}))
    assert [scopes.drop("one", "user", ("A",)), scopes.drop("one", "user", ("A",))] == [True, False]
    assert scopes.get("one").contributions == (Contribution("user", {"B": "1"}),)
    assert (scopes.drop("one", "user"), len(scopes), scopes.drop("two", "user")) == (True, 0, False)


def test_a_copy_takes_no_other_s_place(scopes: Scopes) -> None:
    # O8: a child could come back with more
    scopes.put("one", Contribution("user", {"A": "1"}))
    scopes.happened("one", "fork", PLAIN, to="child", unset=("A",))
    with pytest.raises(InvalidParams, match="the scope in `to` already exists"):
        scopes.happened("one", "fork", PLAIN, to="child")
    with pytest.raises(InvalidParams, match="name it in `to`"):
        scopes.happened("one", "fork", PLAIN, to="")


def test_events_of_a_session_that_has_nothing_make_none(scopes: Scopes) -> None:
    for event in ("new", "resume", "clear", "compact", "cwd", "root", "daemon"):
        scopes.happened("one", event, PLAIN)
    assert len(scopes) == 0


def test_a_full_memory_drops_what_nobody_uses_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, scopes: Scopes
) -> None:
    monkeypatch.setattr(module, "SCOPES", 3)
    alive = {"a", "b"}
    scopes.share(Sharing(), alive.__contains__)
    for scope, owner in (("1", "a"), ("2", "gone"), ("3", "gone")):
        scopes.put(scope, Contribution("user", {"A": "1"}), owner)
    scopes.get("2")  # used since
    scopes.put("4", Contribution("user", {"A": "1"}), "b")
    scopes.put("5", Contribution("user", {"A": "1"}), "b")
    assert [scope for scope in "12345" if scopes.get(scope).contributions] == ["1", "4", "5"]
    with pytest.raises(OverlaysFull, match="the limit of 3 scopes is reached"):
        scopes.put("6", Contribution("user", {"A": "1"}), "b")
    scopes.put("1", Contribution("user", {"A": "2"}), "somebody")  # its maker is there still
    with pytest.raises(OverlaysFull):
        scopes.put("6", Contribution("user", {"A": "1"}), "b")


def test_who_was_to_have_less_is_forgotten_last(monkeypatch: pytest.MonkeyPatch, scopes: Scopes) -> None:
    monkeypatch.setattr(module, "SCOPES", 3)
    scopes.share(Sharing(), {"here"}.__contains__)
    scopes.happened("one", "fork", PLAIN, "gone", to="less", unset=["A"])
    scopes.put("1", Contribution("user", {"A": "1"}), "gone")
    scopes.put("2", Contribution("user", {"A": "1"}), "gone")
    for scope in ("3", "4"):
        scopes.put(scope, Contribution("user", {"A": "1"}), "here")
        assert scopes.get("less").withheld == {"A"}
    scopes.put("5", Contribution("user", {"A": "1"}), "here")
    assert scopes.get("less").withheld == frozenset()


@pytest.mark.parametrize("scope", ["", "a\0b", "two\nlines"])
def test_a_command_s_session_has_a_name(found: Overlays, repo: Path, scope: str) -> None:
    with pytest.raises(InvalidParams, match="a scope must be printable"):
        found.layers(str(repo), scope, (), PLAIN)


def test_a_session_s_words_are_bounded(monkeypatch: pytest.MonkeyPatch, scopes: Scopes) -> None:
    monkeypatch.setattr(module, "CONTRIBUTIONS", 2)
    for name in "ab":
        scopes.put("one", Contribution(f"hook:{name}", {"A": "1"}))
    with pytest.raises(OverlaysFull, match="the limit of 2 producers in a scope is reached"):
        scopes.put("one", Contribution("hook:c", {"A": "1"}))
    scopes.put("one", Contribution("hook:a", {"A": "2"}))
    monkeypatch.setattr(module, "SCOPE_BYTES", 400)
    with pytest.raises(OverlaysFull, match="bytes in a scope"):
        scopes.put("one", Contribution("hook:a", {"A": "1" * 400}))
    monkeypatch.setattr(module, "ALL_SCOPES_BYTES", 800)
    scopes.put("two", Contribution("user", {"A": "1" * 10}))
    with pytest.raises(OverlaysFull, match="bytes in all scopes"):
        scopes.put("three", Contribution("user", {"A": "1" * 80}))
    assert scopes.get("one").contributions[0].values == {"A": "2"}


# What producers are told


def test_refusals_are_those_that_commands_would_meet() -> None:
    # O2
    said = Contribution(
        "hook:h",
        {
            **dict.fromkeys(("LD_PRELOAD", "OUTFITTER_X", "AWS_KEY", "A-B", "PWD", "OK"), "x"),
            "PYTHONPATH": "/x",
        },
        unset=["HOME"],
        operations=[Operation("NOT_A_LIST", "append", ("x",))],
    )
    user = '[names.allow_code_loading]\n"hook:h" = ["PYTHONPATH"]\n'
    user += '[shell_environment_policy]\nexclude = ["AWS_*"]\n'
    found = {one.name: one.reason for one in refusals(said, settings(user))}
    assert found == {
        "LD_PRELOAD": "code-loading",
        "OUTFITTER_X": "runtime",
        "AWS_KEY": "denied",
        "A-B": "name",
        "PWD": "shell-maintained",
        "HOME": "required",
        "NOT_A_LIST": "list",
    }


# Copies


@pytest.mark.parametrize("scope", ["", "a\0b", "two\nlines", "x" * 257])
def test_a_copy_is_not_told_of_a_parent_that_has_no_name(scopes: Scopes, scope: str) -> None:
    with pytest.raises(InvalidParams, match="a scope must be printable"):
        scopes.happened(scope, "fork", PLAIN, to="copy")
    assert len(scopes) == 0


def test_what_a_copy_may_not_have_is_bounded_as_well(scopes: Scopes) -> None:
    with pytest.raises(OverlaysFull, match="bytes in a scope"):
        scopes.happened("one", "fork", PLAIN, to="copy", unset=["N" * 1000 + str(n) for n in range(1100)])
    assert len(scopes) == 0


def test_a_session_that_has_ended_makes_room(monkeypatch: pytest.MonkeyPatch, scopes: Scopes) -> None:
    monkeypatch.setattr(module, "SCOPES", 2)
    for copy in ("a", "b"):
        scopes.happened("one", "fork", PLAIN, to=copy, unset=["A"])
    with pytest.raises(OverlaysFull):
        scopes.happened("one", "fork", PLAIN, to="c")
    assert scopes.drop("a", "user") is False
    assert (scopes.end("a"), scopes.end("a")) == (True, False)
    assert scopes.happened("one", "fork", PLAIN, to="c").overlay.parent == "one"


_NAMES = st.sampled_from(["A", "B", "C_TOKEN", "PYTHONPATH"])
_TOLD = st.builds(
    lambda producer, values, unset, lists: Contribution(
        producer,
        values,
        unset=[name for name in unset if name not in values],
        operations=[Operation("PYTHONPATH", op, ("/x",)) for op in lists],
    ),
    st.sampled_from(["user", "hook:h", "plugin:p", "file:/f"]),
    st.dictionaries(_NAMES, st.just("1"), max_size=3),
    st.lists(_NAMES, max_size=2),
    st.lists(st.sampled_from(["prepend", "append", "remove"]), max_size=2, unique=True),
)
_SCOPE = st.sampled_from(["child", "grandchild"])
_STEP = st.one_of(
    st.tuples(st.just("put"), _SCOPE, _TOLD, st.booleans()),
    st.tuples(st.just("drop"), _SCOPE, st.sampled_from(["user", "hook:h"]), st.lists(_NAMES, max_size=1)),
    st.tuples(
        st.just("event"),
        _SCOPE,
        st.sampled_from(["new", "resume", "clear", "compact", "cwd", "root", "daemon"]),
    ),
    st.tuples(st.just("fork"), st.sampled_from(["thread", "child"]), st.lists(_NAMES, max_size=1)),
)


@given(_TOLD, st.sets(_NAMES, min_size=1), st.lists(_STEP, max_size=12))
def test_nothing_gives_back_what_a_copy_may_not_have(
    said: Contribution, gone: set[str], steps: list[Any]
) -> None:
    scopes = Scopes()
    scopes.put("thread", said)
    before = scopes.get("thread")
    scopes.happened("thread", "fork", PLAIN, to="child", unset=sorted(gone))
    for step in steps:
        match step:
            case "put", scope, contribution, merging:
                scopes.put(scope, contribution, merge=merging)
            case "drop", scope, producer, names:
                scopes.drop(scope, producer, names)
            case "event", scope, event:
                scopes.happened(scope, event, PLAIN)
            case "fork", scope, unset:
                with contextlib.suppress(InvalidParams):  # it is there already
                    scopes.happened(scope, "fork", PLAIN, to="grandchild", unset=unset)
        copies = ["child"] + ["grandchild"] * (scopes.get("grandchild").parent == "child")
        for copy in copies:
            base = Layer(BASE, "base", EXECUTOR, dict.fromkeys(("A", "B", "C_TOKEN", "PYTHONPATH"), "base"))
            got = Stack((base, *scopes.get(copy).layers), (), Rules()).values
            assert gone.isdisjoint(got)
        assert scopes.get("thread") is before
