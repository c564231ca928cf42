"""outfitter init: what it would write, that it asks, and that nothing of the user's is lost."""

from __future__ import annotations

import errno
import json
import os
import struct
from pathlib import Path

import pytest

from outfitter.agents.hooks import claude_settings
from outfitter.cli.edits import BACKUP, Edit, make, text_of
from outfitter.cli.env.output import write_whole
from outfitter.cli.init import claude, codex, merged, project
from outfitter.contract.doctor.fixes import Removal, without_member
from outfitter.environments.file import read
from outfitter.errors import SettingInvalid

from .commandline import Terminal, User

_ANYBODY = 0xFFFFFFFF
_ENTRIES = [(1, 6, _ANYBODY), (2, 4, 1234), (4, 0, _ANYBODY), (16, 4, _ANYBODY), (32, 0, _ANYBODY)]
OURS = claude_settings("outfitter hook claude")


def test_settings_keep_what_is_there_and_get_our_hooks_once() -> None:
    other = {"hooks": [{"type": "command", "command": "true"}]}
    before = json.dumps({"model": "x", "hooks": {"SessionStart": [other], "Stop": [other]}})
    after = merged(before, OURS, "settings.json")
    assert after is not None
    told = json.loads(after)
    assert (told["model"], told["hooks"]["Stop"]) == ("x", [other])
    assert told["hooks"]["SessionStart"] == [other, *OURS["hooks"]["SessionStart"]]  # type: ignore[index]
    assert merged(after, OURS, "settings.json") is None


@pytest.mark.parametrize(
    "before",
    ["{,}", "[]", '{"hooks": []}', '{"hooks": {"SessionStart": {}}}', '{"a": 1e999}', r'{"a": "\ud800"}'],
)
def test_settings_that_cannot_be_merged_are_left_alone(before: str) -> None:
    with pytest.raises(SettingInvalid, match=r"settings\.json"):
        merged(before, OURS, "settings.json")


def test_environments_of_codex_are_kept_and_ours_is_one_of_them(tmp_path: Path) -> None:
    environ = {"CODEX_HOME": str(tmp_path), "HOME": str(tmp_path)}
    first = codex(environ)
    assert first is not None and first.before is None
    path = tmp_path / "environments.toml"
    path.write_text('default = "build"\n\n[[environments]]\nid = "build"\nurl = "ws://127.0.0.1:9"\n')
    edit = codex(environ)
    assert edit is not None
    make(edit)
    known = read(str(path))
    assert known is not None
    assert (known.default, [one.id for one in known.environments]) == ("build", ["build", "outfitter"])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("indent", ["    ", "\t", " "])
def test_settings_keep_their_indentation_and_line_ends(end: str, indent: str) -> None:
    before = f'{{\n{indent}"a": {{\n{indent * 2}"b": "\u00e9\\n"\n{indent}}}\n}}\n'.replace("\n", end)
    after = merged(before, OURS, "settings.json")
    assert after is not None and after.startswith(before.removesuffix(f"{end}}}{end}") + "," + end)
    assert after.count("\n") == after.count(end)
    assert json.loads(after)["a"] == {"b": "\u00e9\n"}
    removed = without_member(after, Removal("settings.json", ("hooks",)))
    assert removed == before


@pytest.mark.parametrize(
    "before", ["\r\n# ours\r\n[[environments]]\r\nid = 'b'\r\nurl = 'ws://127.0.0.1:9'", "\r\n"]
)
def test_environments_of_codex_keep_their_line_ends(tmp_path: Path, before: str) -> None:
    path = tmp_path / "environments.toml"
    path.write_bytes(before.encode())
    edit = codex({"CODEX_HOME": str(tmp_path), "HOME": str(tmp_path)})
    assert edit is not None and edit.after.startswith(before.rstrip())
    assert edit.after.count("\n") == edit.after.count("\r\n") > 3
    make(edit)
    known = read(str(path))
    assert known is not None and known.environments[-1].id == "outfitter"


def test_environment_of_that_name_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "environments.toml").write_text(
        '[[environments]]\nid = "outfitter"\nurl = "ws://127.0.0.1:9"\n'
    )
    with pytest.raises(SettingInvalid, match="named `outfitter` already"):
        codex({"CODEX_HOME": str(tmp_path), "HOME": str(tmp_path)})


@pytest.mark.parametrize("inside", ["", '{ id = "build", url = "ws://127.0.0.1:9" }'])
def test_environments_in_one_list_are_left_alone(tmp_path: Path, inside: str) -> None:
    # TOML has no way to add a table to such a list.
    (tmp_path / "environments.toml").write_text(f"environments = [{inside}]\n")
    with pytest.raises(SettingInvalid, match=r"as one list: write a \[\[environments\]\] table for each"):
        codex({"CODEX_HOME": str(tmp_path), "HOME": str(tmp_path)})


def test_project_with_a_file_gets_no_other(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    assert project(str(tmp_path / "sub")) is not None
    (tmp_path / "outfitter.toml").write_text("")
    assert project(str(tmp_path / "sub")) is None


def test_edit_keeps_a_backup_the_mode_and_what_others_wrote_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("{}\n")
    path.chmod(0o600)
    edit = Edit(str(path), "{}\n", '{"a": 1}\n', "why")
    assert edit.difference[-2:] == ["-{}", '+{"a": 1}']
    make(edit)
    assert path.read_text() == '{"a": 1}\n'
    assert text_of(f"{path}{BACKUP}") == "{}\n"
    assert [os.stat(one).st_mode & 0o777 for one in (path, f"{path}{BACKUP}")] == [0o600, 0o600]
    with pytest.raises(SettingInvalid, match="has changed meanwhile"):
        make(edit)
    assert path.read_text() == '{"a": 1}\n'


@pytest.mark.parametrize("mode", [0o640, 0o660, 0o644, 0o400])
def test_edit_lets_nobody_read_a_file_who_could_not_before(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "settings.json"
    path.write_text("{}\n")
    path.chmod(mode)
    if os.geteuid() == 0:
        os.chown(path, 1234, 1235)
    before = os.stat(path)
    make(Edit(str(path), "{}\n", '{"a": 1}\n', "why"))
    for one in (path, f"{path}{BACKUP}"):
        found = os.stat(one)
        assert (found.st_mode, found.st_uid, found.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


def test_a_file_whose_group_has_no_number_here_is_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container with a namespace of users: the kernel then knows no such group."""

    def unknown(fd: int, uid: int, gid: int) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    path = tmp_path / "settings.json"
    path.write_text("{}\n")
    path.chmod(0o640)
    monkeypatch.setattr(os, "fchown", unknown)
    make(Edit(str(path), "{}\n", "[]\n", "why"))
    assert (path.read_text(), os.stat(path).st_mode & 0o777) == ("[]\n", 0o640)


# user::rw-, user:1234:r--, group::---, mask::r--, other::---
ACL = b"".join([b"\2\0\0\0", *(struct.pack("<HHI", *one) for one in _ENTRIES)])


@pytest.mark.parametrize("listed", [True, False])
def test_an_access_list_stays_and_the_folders_gives_nobody_more(tmp_path: Path, listed: bool) -> None:
    path, name = tmp_path / "settings.json", "system.posix_acl_access"
    path.write_text("{}\n")
    path.chmod(0o640)
    try:
        if listed:
            os.setxattr(path, name, ACL)
        else:
            os.setxattr(tmp_path, "system.posix_acl_default", ACL)
    except OSError:
        pytest.skip("this file system has no access lists")
    make(Edit(str(path), "{}\n", "[]\n", "why"))
    for one in (str(path), f"{path}{BACKUP}"):
        found = os.getxattr(one, name) if name in os.listxattr(one) else None
        assert (os.stat(one).st_mode & 0o777, found) == (0o640, ACL if listed else None)


@pytest.mark.parametrize("there", [True, False])
def test_a_backup_is_not_written_to_where_a_link_of_the_project_leads(tmp_path: Path, there: bool) -> None:
    path, others = tmp_path / "settings.json", tmp_path / "profile"
    path.write_text("{}\n")
    if there:
        others.write_text("mine\n")
    Path(f"{path}{BACKUP}").symlink_to(others)
    make(Edit(str(path), "{}\n", "[]\n", "why"))
    assert (others.read_text() if there else others.exists()) == ("mine\n" if there else False)
    assert text_of(f"{path}{BACKUP}.2") == "{}\n"


def test_a_link_in_the_place_of_a_copy_is_replaced(tmp_path: Path) -> None:
    path, others = tmp_path / "settings.json", tmp_path / "profile"
    path.write_text("{}\n")
    (tmp_path / "copy").symlink_to(others)
    write_whole(f"{tmp_path}/copy", b"{}\n", like=str(path))
    assert not others.exists() and (tmp_path / "copy").read_text() == "{}\n"


def test_every_backup_stays(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("1")
    for number in range(1, 4):
        make(Edit(str(path), str(number), str(number + 1), "why"))
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == {
        "settings.json": "4",
        f"settings.json{BACKUP}": "1",
        f"settings.json{BACKUP}.2": "2",
        f"settings.json{BACKUP}.3": "3",
    }


def test_a_pipe_in_the_place_of_a_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    os.mkfifo(path)
    with pytest.raises(SettingInvalid, match=f"^cannot read {path}: It is a pipe, not a file$"):
        text_of(str(path))


def test_nothing_is_written_where_nobody_can_be_asked(user: User) -> None:
    (user.home / ".claude").mkdir()
    done = user.run("init")
    assert done.returncode == 1
    assert b"+[env]" in done.stdout and b"hook claude" in done.stdout
    assert b"--yes does it without a question" in done.stderr
    assert not (user.home / "outfitter.toml").exists()


def test_a_relative_home_counts_from_here_as_for_the_agents(user: User) -> None:
    for name in (".claude", ".codex"):
        (user.home / "sub" / name).mkdir(parents=True)
    (user.home / "sub" / ".claude" / "settings.json").write_text('{"disableAllHooks": true}')
    done = user.run("init", "--json", env={"HOME": "sub", "CODEX_HOME": ""})
    assert [edit["path"] for edit in json.loads(done.stdout)["edits"]] == [
        f"{user.home}/{name}"
        for name in ("outfitter.toml", "sub/.codex/environments.toml", "sub/.claude/settings.json")
    ]
    report = user.run("doctor", "--no-login", "--json", env={"HOME": "sub"})
    found = json.loads(report.stdout)["checks"]["agents.claude-settings"]
    assert found["details"][0].startswith(f"{user.home}/sub/.claude/settings.json: disableAllHooks is true")


def test_who_has_no_agent_is_told_how_to_prepare_for_one(user: User) -> None:
    done = user.run("init", "--yes")
    assert b"no agent has a home here (~/.codex, ~/.claude): add --agent codex" in done.stderr
    (user.home / ".codex").mkdir()
    assert b"no agent" not in user.run("init").stderr


def test_yes_writes_it_all_and_a_second_time_there_is_nothing_to_do(user: User) -> None:
    done = user.run("init", "--yes", "--agent", "codex", "--agent", "claude")
    assert (done.returncode, user.run("config", "show").returncode) == (0, 0), done.stderr
    assert claude({"HOME": str(user.home)}) is None
    known = read(str(user.home / ".codex" / "environments.toml"))
    assert known is not None and known.default == "outfitter"
    again = user.run("init", "--json", "--agent", "codex", "--agent", "claude")
    assert (again.returncode, json.loads(again.stdout)) == (0, {"edits": []})


def test_a_file_that_cannot_be_written_does_not_keep_others_from_theirs(user: User) -> None:
    (user.home / ".codex").symlink_to("gone")
    done = user.run("init", "--yes", "--agent", "codex", "--agent", "claude")
    assert done.returncode == 1
    assert f"cannot make {user.home / '.codex'}: File exists\n".encode() in done.stderr
    assert claude({"HOME": str(user.home)}) is None


def test_a_no_at_the_terminal_leaves_the_file(user: User, screen: Terminal) -> None:
    running = screen.start(user, "init")
    screen.until(b"[y/N]")
    screen.type(b"n\n")
    assert running.wait() == 1
    assert not (user.home / "outfitter.toml").exists()


def test_file_that_goes_while_it_is_edited_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "settings.json"
    path.write_text("{}\n")

    def read_and_removed(path: str) -> str | None:
        text = text_of(path)
        os.unlink(path)
        return text

    monkeypatch.setattr("outfitter.cli.edits.text_of", read_and_removed)
    with pytest.raises(SettingInvalid, match=r"cannot write .*: No such file or directory"):
        make(Edit(str(path), "{}\n", "[]\n", "why"))
    assert list(tmp_path.iterdir()) == []
