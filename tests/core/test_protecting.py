"""Names that an operator protects, too."""

from __future__ import annotations

import pytest

from outfitter.core.permissions import READ, WRITE, Confinement, Rule
from outfitter.core.protecting import MOST, USUAL, below, keeping, names
from outfitter.errors import SettingInvalid


def test_each_name_counts_once_and_usual_is_a_list() -> None:
    assert names([".idea", "usual", "a/b/", "**/x"]) == (
        ".idea",
        *[name for name in USUAL if name != ".idea"],
        "a/b",
        "**/x",
    )


@pytest.mark.parametrize("text", ["", "/", "/etc", "..", "a/../b", "./a", "a//b", "**/", "**/**/a", "a\0b"])
def test_only_names_below_are_taken(text: str) -> None:
    with pytest.raises(SettingInvalid, match="cannot be used: write a name"):
        names([text])


def test_what_is_kept_already_stays_so() -> None:
    writable = Confinement(True, False, (Rule("/", READ), Rule("/w", WRITE)))
    assert keeping(keeping(writable, ("a", "b")), ("b", "c")).kept == ("a", "b", "c")


def test_there_are_not_too_many() -> None:
    assert len(names([f"n{number}" for number in range(MOST)])) == MOST
    with pytest.raises(SettingInvalid, match=f"at most {MOST} names, and there are {MOST + 1}"):
        names([f"n{number}" for number in range(MOST + 1)])


def test_only_what_may_be_written_has_more_names() -> None:
    reads = Confinement(True, False, (Rule("/", READ),))
    writes = Confinement(True, False, (Rule("/", READ), Rule("/ws", WRITE)))
    free = Confinement(False, True)
    assert keeping(reads, ("a",)) is reads and keeping(free, ("a",)) is free and keeping(writes, ()) is writes
    assert keeping(writes, ("a", "**/b")).kept == ("a", "**/b")
    assert below(("a", "**/b")) == ["b"]
