"""outfitter doctor --fix: only what can be mended safely, after a question."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest

from outfitter.cli.fixes import mend
from outfitter.contract.doctor.fixes import Mode, Removal, Setting, with_setting, without_member
from outfitter.errors import SettingInvalid

from .commandline import User

WANTED = Setting("config.toml", "import", "codex", "true")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "[import]\ncodex = true\n"),
        ("a = 1\n", "a = 1\n\n[import]\ncodex = true\n"),
        ("[import]  # why\nx = 1\n\n[b]\n", "[import]  # why\ncodex = true\nx = 1\n\n[b]\n"),
        ("[b]\nc = 1", "[b]\nc = 1\n\n[import]\ncodex = true\n"),
        ("[b]\r\nc = 1\r\n", "[b]\r\nc = 1\r\n\r\n[import]\r\ncodex = true\r\n"),
        ("[import]\r\nx = 1", "[import]\r\ncodex = true\r\nx = 1\r\n"),
        ("# a\u2028b\n", "# a\u2028b\n\n[import]\ncodex = true\n"),
    ],
)
def test_line_goes_below_its_heading(before: str, after: str) -> None:
    assert with_setting(before, WANTED) == after
    assert tomllib.loads(after)["import"]["codex"] is True


@pytest.mark.parametrize(
    "before",
    ["[import]\ncodex = false\n", "import = { codex = false }\n", "nonsense\n", 'a = """\n[import]\n"""\n'],
)
def test_file_that_would_mean_something_else_is_left_alone(before: str) -> None:
    with pytest.raises(SettingInvalid, match="cannot be edited safely"):
        with_setting(before, WANTED)


def test_name_that_is_no_text_is_left_to_the_user() -> None:
    with pytest.raises(SettingInvalid, match="cannot be edited safely"):
        with_setting("", Setting("config.toml", "env", "unset", '["a\udcff"]'))


@pytest.mark.parametrize(
    ("before", "unwanted", "after"),
    [
        ('{"disableAllHooks": true, "é": 1}', ("disableAllHooks",), {"é": 1}),
        ('{"env": {"A": "1", "PATH": "x"}}', ("env", "PATH"), {"env": {"A": "1"}}),
    ],
)
def test_member_is_taken_out_of_json(before: str, unwanted: tuple[str, ...], after: object) -> None:
    text = without_member(before, Removal("settings.json", unwanted))
    assert (json.loads(text), text.endswith("}\n"), "\\u" in text) == (after, True, False)


def test_entries_are_taken_out_of_a_list() -> None:
    unwanted = Removal("settings.json", ("a", "b"), ("bash", "sh *"))
    assert json.loads(without_member('{"a": {"b": ["bash", 1, "git", "sh *"]}}', unwanted)) == {
        "a": {"b": [1, "git"]}
    }


UNWRITABLE = ('{"env": {"PATH": "/bin"}, "a": 1e999}', r'{"env": {"PATH": "/bin"}, "a": "\ud800"}')


@pytest.mark.parametrize(
    "before", ["", "{", "[]", "{}", '{"env": []}', '{"env": {}}', '{"env": 1}', *UNWRITABLE]
)
def test_json_that_has_become_something_else_is_left_alone(before: str) -> None:
    with pytest.raises(SettingInvalid, match=r"settings\.json cannot be edited safely: remove env\.PATH"):
        without_member(before, Removal("settings.json", ("env", "PATH")))


def test_mode_is_changed_only_from_what_was_seen(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.touch(0o644)
    path.chmod(0o644)
    assert mend([("key.file", Mode(str(path), 0o640, 0o600))], yes=True) == set()
    assert os.stat(path).st_mode & 0o777 == 0o644
    assert mend([("key.file", Mode(str(path), 0o644, 0o600))], yes=True) == {"key.file"}
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_doctor_mends_what_codex_says_and_keeps_what_was_there(user: User) -> None:
    codex = user.home / ".codex" / "config.toml"
    codex.parent.mkdir()
    codex.write_text("allow_login_shell = false\n")
    user.config.mkdir(parents=True)
    ours = user.config / "config.toml"
    ours.write_text("[env]\nunset = []\n")
    asked = user.run("doctor", "--no-login", "--fix")
    assert b"+codex = true" in asked.stdout and b"nobody can be asked here" in asked.stderr
    assert ours.read_text() == "[env]\nunset = []\n"
    done = user.run("doctor", "--no-login", "--fix", "--yes")
    assert ours.read_text() == "[env]\nunset = []\n\n[import]\ncodex = true\n", done.stderr
    assert (user.config / "config.toml.before-outfitter").read_text() == "[env]\nunset = []\n"
    assert b"nothing here can be mended" in user.run("doctor", "--no-login", "--fix").stderr


def test_doctor_mends_claudes_settings_and_what_is_left_over_one_after_the_other(user: User) -> None:
    settings = user.home / ".claude" / "settings.json"
    settings.parent.mkdir()
    before = '{"disableAllHooks": true, "env": {"PATH": "/x", "A": "1"}, "model": "m"}'
    settings.write_text(before)
    user.config.mkdir(parents=True)
    ours = user.config / "config.toml"
    ours.write_text("# mine\n")
    odd = {"CONDA_PREFIX": "/gone", "BASH_ENV": "/x"}
    done = user.run("doctor", "--no-login", "--fix", "--yes", env=odd)
    assert (settings.parent / "settings.json.before-outfitter").read_text() == before, done.stderr
    assert tomllib.loads(ours.read_text()) == {
        "env": {"unset": ["CONDA_PREFIX"]},
        "shell_environment_policy": {"exclude": ["BASH_ENV"]},
    }
    assert (user.config / "config.toml.before-outfitter").read_text() == "# mine\n"
    user.run("doctor", "--no-login", "--fix", "--yes", env=odd)  # the first fault of a file, then the next
    assert json.loads(settings.read_text()) == {"env": {"A": "1"}, "model": "m"}


@pytest.mark.parametrize("args", [("--yes",), ("--fix", "--json")])
def test_flags_that_do_not_fit_are_usage_errors(args: tuple[str, ...], user: User) -> None:
    assert user.run("doctor", *args).returncode == 2
