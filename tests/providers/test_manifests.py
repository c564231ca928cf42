"""What is read out of a project's files: nothing of them can raise, and every change changes the digest."""

from __future__ import annotations

import os
from pathlib import Path

from outfitter.formats import toml
from outfitter.providers import manifests
from outfitter.providers.base import Context


def test_toml_is_read_or_what_is_wrong_is_told(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    assert manifests.read_toml(str(file)) == ({}, "")
    file.write_text("a = 1\n")
    assert manifests.read_toml(str(file)) == ({"a": 1}, "")
    file.write_text("\na = \n")
    assert manifests.read_toml(str(file))[1].startswith(f"{file}:2: not valid TOML")
    file.write_bytes(b"\xff")
    assert manifests.read_toml(str(file)) == ({}, f"{file} cannot be read")
    file.unlink()
    os.mkfifo(file)
    assert manifests.read_toml(str(file)) == ({}, f"{file} cannot be read")


def test_tables_and_texts_are_there_or_empty() -> None:
    values = {"a": {"b": {"c": "x"}, "d": 1}}
    assert manifests.table(values, "a", "b") == {"c": "x"}
    assert manifests.table(values, "a", "d", "e") == {}
    assert manifests.text(manifests.table(values, "a", "b"), "c") == "x"
    assert manifests.text(manifests.table(values, "a"), "d") == ""


def test_a_digest_is_of_names_and_content(tmp_path: Path) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    seen = {manifests.covered([one, two])[0]}
    Path(one).write_text("")
    seen.add(manifests.covered([one, two])[0])
    Path(one).write_text("x")
    seen.add(manifests.covered([one, two])[0])
    os.rename(one, two)
    seen.add(manifests.covered([one, two])[0])
    seen.add(manifests.covered([two])[0])
    os.mkfifo(one)
    seen.add(manifests.covered([one, two])[0])
    assert len(seen) == 6
    assert manifests.covered([one, two])[0] in seen


def test_an_option_is_a_text_or_nothing() -> None:
    assert Context({}, {}, "/h", options={"values": ("a", "b")}).option(1) == "b"
    for options in ({}, {"values": ()}, {"values": (1, 2)}, {"values": "ab"}, {"values": {"a": 1}}):
        assert Context({}, {}, "/h", options=options).option(1) == ""


def test_paths_are_written_as_people_write_them() -> None:
    given = ["~", "~/a", "~x", "a/../b", "/c/"]
    assert [manifests.absolute(path, "/r", "/h") for path in given] == ["/h", "/h/a", "/r/~x", "/r/b", "/c"]


def test_a_key_of_many_parts_is_told(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text("[project]\nversion" + ".a" * 100 + " = 1.5\n")
    problem = f"{path}:2: a key with more than {toml.MAX_PARTS} parts; use fewer levels"
    assert manifests.read_toml(str(path)) == ({}, problem)
