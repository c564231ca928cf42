"""What scopes were given outlives a server, without secrets and what hooks say anew; within bounds."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.contract import keptscopes as module
from outfitter.contract.keptscopes import KeptScopes
from outfitter.contract.overlays import Overlays, Scopes
from outfitter.contract.settings import Settings
from outfitter.env.layer import Operation
from outfitter.env.overlay import Contribution, Overlay
from outfitter.errors import FileInvalid

PLAIN = Settings()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def scopes(state: Path, principal: str = "") -> Scopes:
    """Those of a server that has just begun."""
    return Overlays(str(state)).scopes.of(principal)


def keep(scopes: Scopes, scope: str, *contributions: Contribution, hidden: tuple[str, ...] = ()) -> None:
    for one in contributions:
        scopes.put(scope, one)
    scopes.remember(scope, hidden)


def notes(scopes: Scopes, scope: str) -> list[str]:
    return [layer.note for layer in scopes.layers(scope) if layer.state == "missing"]


USER = Contribution(
    "user",
    {"A": "1", "É": "\udce9\x01"},
    unset=["GONE_TOKEN"],
    operations=[Operation("PATH", "prepend", ("/x",))],
)


def test_what_was_said_is_there_again_and_nobody_else_s(state: Path) -> None:
    keep(scopes(state, "me"), "t", USER, hidden=("GONE_TOKEN",))  # that it is taken away is no secret
    again = scopes(state, "me")
    assert "t" in again
    assert again.get("t").contributions == (USER,)
    assert notes(again, "t") == []
    assert "t" not in scopes(state, "other")
    assert "u" not in again


@pytest.mark.parametrize("whole", [False, True])
def test_what_was_dropped_does_not_come_back_before_its_file_is_gone(state: Path, whole: bool) -> None:
    first = scopes(state)  # of a server that had nothing to look for when it was put
    keep(first, "t", USER)
    assert first.end("t") if whole else first.drop("t", "user")
    assert "t" not in first
    first.remember("t", ())
    assert "t" not in scopes(state)


def test_secrets_and_what_hooks_said_are_missing_by_name(state: Path) -> None:
    user = Contribution(
        "user", {"A": "1", "B_TOKEN": "hush-1", "MARKED": "hush-2"}, secrets=frozenset({"MARKED"})
    )
    hook = Contribution("hook:h", {"H": "hush-3"})
    keep(scopes(state), "t", user, hook, hidden=("B_TOKEN", "MARKED"))
    [file] = (state / "scopes").iterdir()
    assert b"hush" not in file.read_bytes()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    again = scopes(state)
    assert [(one.producer, one.values) for one in again.get("t").contributions] == [
        ("user", {"A": "1"}),
        ("hook:h", {}),
    ]
    [note] = notes(again, "t")
    assert "(user: B_TOKEN, MARKED; hook:h: H)" in note
    # Who says it again is not missed any more, one by one or all at once.
    again.put("t", Contribution("user", {"B_TOKEN": "new"}), merge=True)
    assert "(user: MARKED; hook:h: H)" in notes(again, "t")[0]
    again.put("t", Contribution("hook:h"))
    assert "(user: MARKED)" in notes(again, "t")[0]
    again.drop("t", "user", ["MARKED", "A"])
    assert notes(again, "t") == []


def test_events_are_for_those_who_are_missed_as_well(state: Path) -> None:
    said = (Contribution("user", {"A": "1", "S": "2"}), Contribution("hook:h", {"H": "3"}))
    keep(scopes(state), "t", *said, hidden=("S",))
    resumed = scopes(state)
    assert resumed.happened("t", "resume", PLAIN).rerun == ("hook:h",)
    assert "(user: S; hook:h: H)" in notes(resumed, "t")[0]
    assert resumed.happened("t", "clear", PLAIN).rerun == ("hook:h",)
    assert "(user: S)" in notes(resumed, "t")[0]
    resumed.happened("t", "new", PLAIN)
    assert notes(resumed, "t") == []
    assert resumed.get("t").contributions == ()


def test_who_was_to_have_less_has_less_again(state: Path) -> None:
    first = scopes(state)
    first.put("t", Contribution("user", {"A": "1", "B": "2"}))
    first.happened("t", "fork", PLAIN, to="child", unset=["B", "C"])
    first.remember("child", ())
    again = scopes(state).get("child")
    assert (again.withheld, again.parent) == (frozenset({"B", "C"}), "t")
    assert [one.values for one in again.contributions] == [{"A": "1"}]


def test_a_scope_that_has_ended_is_not_kept(state: Path) -> None:
    first = scopes(state)
    keep(first, "t", USER)
    first.end("t")
    first.remember("t", ())
    assert list((state / "scopes").iterdir()) == []
    assert "t" not in scopes(state)


def test_a_copy_is_not_kept(state: Path) -> None:
    assert [scopes(state).keeps(name) for name in ("t", "t/copy")] == [True, False]


def test_one_that_had_to_make_room_comes_back(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outfitter.contract.overlays.SCOPES", 1)
    first = scopes(state)
    first._shelf.is_alive = lambda owner: False
    for name in ("t", "u", "t", "u"):
        if name not in first:
            keep(first, name, USER)
        assert first.get(name).contributions == (USER,)
        assert len(first) == 1


def test_the_oldest_goes_when_there_are_too_many(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_SCOPES", 2)
    first = scopes(state)
    for age, name in ((30, "a"), (20, "b"), (10, "c")):
        keep(first, name, USER)
        path = KeptScopes(str(state)).path("", name)
        os.utime(path, (10**9 - age, 10**9 - age))
    keep(first, "c", Contribution("editor:e", {"E": "1"}))  # takes no more room
    again = scopes(state)
    assert [name for name in "abc" if name in again] == ["b", "c"]
    monkeypatch.setattr(module, "KEPT_BYTES", 1000)
    keep(first, "d", Contribution("user", {"A": "x" * 850}))
    assert [name for name in "abcd" if name in scopes(state)] == ["d"]


def test_one_that_is_too_large_is_not_kept_and_not_half(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST_KEPT", 1000)
    first = scopes(state)
    keep(first, "t", USER)
    keep(first, "t", Contribution("user", {"A": "x" * 1000}))
    assert "t" in first
    assert "t" not in scopes(state)


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b'{"scope": "t"}', b"\xff", b"[" * 100_000])
def test_a_damaged_file_is_as_none(state: Path, damage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    keep(scopes(state), "t", USER)
    [file] = (state / "scopes").iterdir()
    file.write_bytes(damage)
    assert "t" not in scopes(state)
    assert "is not restored" in caplog.text


def test_what_cannot_be_read_now_is_not_lost(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(scopes(state), "t", USER)
    again = scopes(state)

    def no_descriptor(path: str, most: int) -> bytes:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    with monkeypatch.context() as short:
        short.setattr(module.privatefile, "read", no_descriptor)
        with pytest.raises(FileInvalid, match="cannot be read: too many open files; try again"):
            again.put("t", Contribution("editor:e", {"B": "1"}))
    assert again.get("t").contributions == (USER,)


def test_another_s_words_and_rejected_ones_are_not_taken(state: Path) -> None:
    keep(scopes(state), "t", USER)
    [file] = (state / "scopes").iterdir()
    told = json.loads(file.read_bytes().decode("utf-8", "surrogatepass"))
    for change in (
        {"scope": "u"},
        {"contributions": [{"producer": "nobody"}]},
        {"contributions": [{"set": 1}]},
    ):
        file.write_text(json.dumps({**told, **change}))
        assert "t" not in scopes(state)
    file.write_text(json.dumps(told))
    file.chmod(0o666)
    assert "t" not in scopes(state)


@pytest.mark.parametrize("narrowed", [False, True])
def test_what_is_out_of_date_is_not_kept_when_the_disk_is_full(
    state: Path, monkeypatch: pytest.MonkeyPatch, narrowed: bool
) -> None:
    first = scopes(state)
    if narrowed:
        first.happened("parent", "fork", PLAIN, to="t", unset=["B"])
    keep(first, "t", USER)

    def full(path: str, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    with monkeypatch.context() as now:
        now.setattr(module.privatefile, "write", full)
        keep(first, "t", Contribution("user", {"A": "2"}))
    again = scopes(state)
    if narrowed:  # better than to have what it was not to have
        assert again.get("t").withheld == {"B"}
    else:
        assert notes(again, "t") != []
        assert "t" not in again


def test_where_nothing_can_be_written_it_holds_for_this_server(
    state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state.write_text("a file")
    first = scopes(state)
    for _ in range(2):
        keep(first, "t", USER)
    assert first.get("t").contributions == (USER,)
    assert caplog.text.count("cannot be kept for a restart") == 1


TEXTS = st.text(st.characters(blacklist_characters="\0", blacklist_categories=[]), max_size=8)


@given(
    values=st.dictionaries(st.text("ABC", min_size=1), TEXTS, max_size=3),
    hidden=st.sets(st.sampled_from("ABC")),
)
def test_any_words_come_back_but_for_the_hidden_ones(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, str], hidden: set[str]
) -> None:
    kept = KeptScopes(str(tmp_path_factory.mktemp("state")))
    overlay = Overlay([Contribution("user", values)], id="t")
    kept.write("", "t", overlay, hidden)
    restored = kept.read("", "t")
    assert restored is not None
    found, missing = restored
    assert [one.values for one in found.contributions] == [
        {name: value for name, value in values.items() if name not in hidden}
    ]
    assert missing == ({"user": sorted(hidden & set(values))} if hidden & set(values) else {})
