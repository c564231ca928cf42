"""The interpreter that an editor's settings name: with its line, and with what its environment needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from outfitter.env.layer import Operation
from outfitter.env.origin import Origin
from outfitter.providers.base import Context, Detection, Resolution, Trust
from outfitter.providers.vscode import Vscode

KEY = "python.defaultInterpreterPath"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "project"
    (root / ".vscode").mkdir(parents=True)
    (root / ".git").mkdir()
    return root


def environment(path: Path) -> Path:
    (path / "bin").mkdir(parents=True)
    (path / "pyvenv.cfg").write_text("version = 3.11.2\n")
    (path / "bin/python").symlink_to("/bin/sh")
    return path


def settings(root: Path) -> Path:
    return root / ".vscode" / "settings.json"


def resolve(root: Path, value: str = "", text: str = "", **env: str) -> Resolution:
    settings(root).write_text(text or f'{{\n  // which one\n  "{KEY}": "{value}",\n}}\n')
    found = Vscode().detect(str(root))
    assert found == Detection(str(root), (str(settings(root)),), f"vscode:{settings(root)}")
    context = Context({"VIRTUAL_ENV": "/elsewhere", "PATH": "/bin", **env}, {}, f"{root}/home")
    assert Vscode().trust(found, context) == Trust("suggested")
    assert Vscode().plan(found, context) == []
    assert Vscode().watch(found, context) == [str(settings(root))]
    result = Vscode().resolve(found, context)
    assert result.watch[0] == str(settings(root))
    return result


@pytest.mark.parametrize(
    "value",
    [
        "${workspaceFolder}/envs/a/bin/python",
        "${workspaceFolder}/envs/a",
        "envs/a/bin/python",
        "./envs/../envs/a/bin/python",
        "${env:PLACE}/a/bin/python",
        "${userHome}/../envs/a/bin/python",
        "~/../envs/a",
        "../${workspaceFolderBasename}/envs/a/bin/python",
    ],
)
def test_an_environment_is_activated_and_has_its_line(root: Path, value: str) -> None:
    place = environment(root / "envs/a")
    result = resolve(root, value, PLACE=f"{root}/envs")
    origin = Origin("provider", f"vscode: {KEY}", str(settings(root)), 3)
    assert result.set == {"VIRTUAL_ENV": str(place), "VIRTUAL_ENV_PROMPT": "a"}
    assert result.unset == ("PYTHONHOME",)
    assert result.operations == (Operation("PATH", "prepend", (f"{place}/bin",), origin),)
    assert set(result.origins.values()) == {origin}
    assert f"{place}/pyvenv.cfg" in result.watch


def test_a_conda_environment_is_activated(root: Path) -> None:
    (root / "c/conda-meta").mkdir(parents=True)
    (root / "c/bin").mkdir()
    (root / "c/bin/python").symlink_to("/bin/sh")
    (root / "c/conda-meta/history").write_text("")
    result = resolve(root, "c/bin/python")
    assert result.set["CONDA_PREFIX"] == f"{root}/c"
    assert result.origins["CONDA_PREFIX"].line == 3


def test_an_interpreter_of_no_environment_comes_first(root: Path) -> None:
    (root / "py/bin").mkdir(parents=True)
    (root / "py/bin/python3").symlink_to("/bin/sh")
    for value in ("py/bin/python3", "py"):
        result = resolve(root, value)
        assert result.set == {}
        assert [(one.op, one.values) for one in result.operations] == [("prepend", (f"{root}/py/bin",))]


@pytest.mark.parametrize(
    ("value", "state", "note"),
    [
        (
            "gone/bin/python",
            "missing",
            "{root}/gone/bin/python does not exist: create it, or write another path",
        ),
        ("${command:x}/python", "failed", "${{command:x}} is not supported: write the path itself"),
        ("a/${x", "failed", "${{ is not supported: write the path itself"),
        ("python3", "not-applicable", "`python3` adds nothing to PATH"),
        (
            ".vscode/settings.json",
            "failed",
            "{root}/.vscode/settings.json is not a Python interpreter: write the path of one",
        ),
        (".vscode", "failed", "{root}/.vscode is not a Python interpreter: write the path of one"),
    ],
)
def test_what_cannot_be_used_is_told_with_its_line(root: Path, value: str, state: str, note: str) -> None:
    result = resolve(root, value)
    assert (result.state, result.note) == (state, f"{settings(root)}:3: {note.format(root=root)}")
    assert (result.set, result.operations) == ({}, ())


def test_a_broken_environment_is_told(root: Path) -> None:
    place = environment(root / "a")
    (place / "bin/python").unlink()
    (place / "bin/python").symlink_to("/nowhere/python")
    result = resolve(root, "a/bin/python")
    assert (result.state, result.note) == (
        "failed",
        f"{settings(root)}:3: the interpreter of {place} no longer exists (/nowhere/python): create it again",
    )


@pytest.mark.parametrize("text", ["{}", "[]", "null", f'{{"{KEY}": null}}', f'{{"{KEY}": ""}}'])
def test_settings_that_name_none_need_nothing(root: Path, text: str) -> None:
    assert resolve(root, text=text).state == "not-applicable"


def test_settings_that_are_no_json_are_told(root: Path) -> None:
    assert resolve(root, text='{\n"a": }').note.startswith(f"{settings(root)}:2: not valid JSON")
    result = resolve(root, text=f'{{"{KEY}": 1}}')
    assert (result.state, result.note) == (
        "failed",
        f"{settings(root)}:1: {KEY} must be a string; write a path in quotes",
    )
    settings(root).write_bytes(b"\xff")
    found = Vscode().detect(str(root))
    assert found is not None
    assert Vscode().resolve(found, Context({}, {}, "/")).state == "failed"
