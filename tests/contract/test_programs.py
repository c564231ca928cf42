"""Which file a program's name means, and through whose entry of PATH."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outfitter.contract.programs import find, look_up


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with `tool` in `one`, `two` and, not executable, in `zero`; `link` in `one` leads to two's."""
    for folder in ("zero", "one", "two", "folder/tool"):
        (tmp_path / folder).mkdir(parents=True)
    for folder in ("zero", "one", "two"):
        (tmp_path / folder / "tool").touch(0o644 if folder == "zero" else 0o755)
    (tmp_path / "one/link").symlink_to(tmp_path / "two/tool")
    return tmp_path


def path_of(tools: Path, *folders: str) -> dict[str, str]:
    return {"PATH": ":".join(str(tools / folder) for folder in folders)}


def explained(*segments: tuple[str, str, str], **more: Any) -> dict[str, Any]:
    """PATH as an explanation has it."""
    return {
        "PATH": {
            "segments": [{"value": value, "layer": layer, "id": id, **more} for value, layer, id in segments]
        }
    }


def test_the_first_that_can_be_executed_is_meant(tools: Path) -> None:
    every = path_of(tools, "missing", "zero", "folder", "two", "one")
    assert find("tool", every, "/") == f"{tools}/two/tool"
    assert find("no-such-tool", every, "/") is None
    assert find("tool", path_of(tools, "zero", "folder"), "/") is None


def test_a_path_is_meant_from_the_commands_directory(tools: Path) -> None:
    assert find("one/tool", {}, str(tools)) == f"{tools}/one/tool"
    assert find("./tool", {}, f"{tools}/two") == f"{tools}/two/./tool"
    assert find(f"{tools}/one/tool", {}, "/") == f"{tools}/one/tool"
    assert find("tool", {"PATH": "one"}, str(tools)) == f"{tools}/one/tool"
    assert find("tool", {"PATH": ""}, f"{tools}/one") == f"{tools}/one/tool"


def test_without_path_the_usual_folders_are_searched() -> None:
    assert find("env", {}, "/") in ("/usr/bin/env", "/bin/env")


def test_it_tells_the_layer_of_the_entry(tools: Path) -> None:
    one, two = f"{tools}/one", f"{tools}/two"
    known = explained((one, "L3", "project"), (two, "L0", "base"), writableByAgent=True)
    assert look_up("tool", path_of(tools, "one", "two"), "/", known) == {
        "path": f"{one}/tool",
        "layer": "L3",
        "id": "project",
        "writableByAgent": True,
    }
    assert look_up("no-such-tool", path_of(tools, "one"), "/", known) == {"path": None}


def test_links_are_told(tools: Path) -> None:
    found = look_up("link", path_of(tools, "one"), "/", explained((f"{tools}/one/", "L0", "base")))
    assert found == {
        "path": f"{tools}/one/link",
        "realPath": f"{tools}/two/tool",
        "layer": "L0",
        "id": "base",
    }


def test_relative_entries_are_recognised(tools: Path) -> None:
    found = look_up("tool", {"PATH": "one"}, str(tools), explained(("one", "L0", "base")))
    assert (found["path"], found["id"]) == (f"{tools}/one/tool", "base")
    slash = look_up("tool", {"PATH": "one/"}, str(tools), explained(("one/", "L0", "base")))
    assert slash["id"] == "base"


@pytest.mark.parametrize("variables", [None, {}, {"PATH": {}}, {"PATH": {"segments": [{"layer": "L0"}]}}])
def test_without_segments_there_is_no_layer(tools: Path, variables: object) -> None:
    # A secret PATH has segments without values.
    assert look_up("tool", path_of(tools, "one"), "/", variables) == {"path": f"{tools}/one/tool"}


def test_a_folder_whose_name_is_no_text_is_shown(tools: Path) -> None:
    folder = tools / "\udcff"
    folder.mkdir()
    (folder / "tool").touch(0o755)
    found = look_up("tool", {"PATH": str(folder)}, "/", explained((f"{tools}/\\xff", "L0", "base")))
    assert (found["path"], found["id"]) == (f"{tools}/\\xff/tool", "base")
