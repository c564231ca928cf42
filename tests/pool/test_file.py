"""pools.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from outfitter.errors import FileInvalid, SettingInvalid
from outfitter.pool.file import find, load, parse_pools
from outfitter.pool.pool import Pool

WHOLE = """
[[pools]]
id = "here"
size = 3
warm = 1
cpus = 0.5
memory = "512MiB"
setup = ["make", "deps"]
env = { COLOUR = "green" }
queue_timeout = 60
standby = true

[[pools]]
id = "other"
engine = "local"
"""


def test_a_file_has_the_names_of_the_arguments() -> None:
    pools = parse_pools(WHOLE, "pools.toml")
    assert list(pools) == ["here", "other"]
    engine, wishes = pools["here"]
    assert engine == "local"
    assert wishes == {
        "size": 3,
        "warm": 1,
        "cpus": 0.5,
        "memory": "512MiB",
        "setup": ("make", "deps"),
        "env": {"COLOUR": "green"},
        "queue_timeout": 60.0,
        "standby": True,
    }


def test_every_mistake_is_told_with_its_line() -> None:
    text = '[[pools]]\nsize = 2.5\n[[pools]]\nid = "local"\nengine = "rya"\nsiz = 3\n'
    text += '[[pools]]\nid = "a"\nwarm = 9000\n'
    with pytest.raises(FileInvalid) as caught:
        parse_pools(text, "/pools.toml")
    found = [(mistake.line, mistake.text) for mistake in caught.value.mistakes]
    assert found == [
        (1, "missing field `id`"),
        (2, "`size` must be a whole number"),
        (4, "pool id `local` is taken"),
        (5, "engine `rya` is unknown"),
        (6, "unknown field `siz`"),
        (9, "warm"),
    ]


def test_without_a_file_there_are_no_pools(tmp_path: Path) -> None:
    assert load({"OUTFITTER_HOME": str(tmp_path)}) == {}
    assert load({}) == {}
    with pytest.raises(SettingInvalid, match=r"no engine and no pool.*'here'"):
        find({"OUTFITTER_HOME": str(tmp_path)}, "here")


def test_a_file_that_cannot_be_read_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "pools.toml").write_bytes(b"\xff")
    with pytest.raises(FileInvalid, match="not UTF-8"):
        load({"OUTFITTER_HOME": str(tmp_path)})


def test_a_pool_by_its_name_and_an_argument_that_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pools.toml").write_text(WHOLE)
    monkeypatch.setenv("OUTFITTER_HOME", str(tmp_path))
    assert Pool("here").size == 3
    assert Pool("here", size=5).size == 5
