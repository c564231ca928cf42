"""What the user keeps for a worktree: in the whole of it, private, and never a secret."""

from __future__ import annotations

import errno
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from outfitter.contract import keptoverlays as module
from outfitter.contract.file import parse_settings
from outfitter.contract.keptoverlays import KeptOverlays
from outfitter.contract.merge import merge
from outfitter.contract.overlays import Overlays
from outfitter.contract.settings import Settings
from outfitter.env.layer import Operation
from outfitter.env.overlay import Contribution
from outfitter.errors import FileInvalid, SettingInvalid

PLAIN = Settings()


def settings(user: str = "", project: str = "") -> Settings:
    return merge(
        parse_settings(user, "/home/me/config.toml", "user", "/home/me"),
        parse_settings(project, "/p/outfitter.toml", "project", "/home/me"),
    )


def producers(overlays: Overlays, directory: Path, *names: str, scope: str | None = None) -> list[str]:
    return [layer.id for layer in overlays.layers(str(directory), scope, names, PLAIN)]


@pytest.fixture
def found(tmp_path: Path) -> Overlays:
    return Overlays(str(tmp_path / "state"))


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "sub").mkdir()
    return tmp_path / "repo"


def test_nothing_is_looked_at_where_nothing_was_ever_kept(found: Overlays, repo: Path) -> None:
    assert found.layers(str(repo), None, (), PLAIN) == ()
    assert not os.path.exists(found.kept.folder)


def test_what_is_kept_holds_in_the_whole_worktree_and_nowhere_else(found: Overlays, repo: Path) -> None:
    said = Contribution("user", {"A": "1", "EMPTY": ""}, unset=["GONE"])
    assert found.kept.put(str(repo / "sub"), said, PLAIN) == ()
    [layer] = found.layers(str(repo), None, (), PLAIN)
    assert (layer.id, layer.producer, layer.values, layer.unset) == (
        "kept:user",
        "user",
        {"A": "1", "EMPTY": ""},
        ("GONE",),
    )
    assert layer.origin.file == found.kept.path(str(repo))
    assert producers(found, repo.parent) == []
    # Another process finds the same.
    assert producers(Overlays(os.path.dirname(found.kept.folder)), repo / "sub") == ["kept:user"]


def test_layers_stay_the_same_objects_while_the_file_does(found: Overlays, repo: Path) -> None:
    found.kept.put(str(repo), Contribution("user", {"A": "1"}), PLAIN)
    first = found.layers(str(repo), None, (), PLAIN)
    again = found.layers(str(repo / "sub"), None, (), PLAIN)
    assert first[0] is again[0]
    found.kept.put(str(repo), Contribution("file:/x", {"B": "1"}), PLAIN)
    both = found.layers(str(repo), None, (), PLAIN)
    assert (both[0] is first[0], both[1].id) == (True, "kept:file:/x")


def test_words_are_added_replaced_and_forgotten(found: Overlays, repo: Path) -> None:
    kept, here = found.kept, str(repo)
    kept.put(here, Contribution("user", {"A": "1", "B": "1"}), PLAIN)
    kept.put(here, Contribution("user", {"B": "2"}, unset=["C"]), PLAIN, merge=True)
    assert kept.overlay(here).contributions == (Contribution("user", {"A": "1", "B": "2"}, unset=["C"]),)
    assert (kept.drop(here, "user", ("A", "C")), kept.drop(here, "user", ("A",))) == (True, False)
    assert kept.overlay(here).contributions == (Contribution("user", {"B": "2"}),)
    assert (kept.drop(here, "user", ("B",)), kept.drop(here, "user")) == (True, False)
    assert kept.overlay(here).layers == ()
    assert os.listdir(kept.folder) == ["lock"]


def test_who_has_nothing_to_say_any_more_is_forgotten(found: Overlays, repo: Path) -> None:
    kept, here = found.kept, str(repo)
    assert (kept.put(here, Contribution("hook:h", {}), PLAIN), os.path.exists(kept.folder)) == ((), False)
    kept.put(here, Contribution("user", {"A": "1"}), PLAIN)
    kept.put(here, Contribution("hook:h", {"B": "1"}), PLAIN)
    kept.put(here, Contribution("hook:h", {}), PLAIN)
    assert kept.overlay(here).contributions == (Contribution("user", {"A": "1"}),)
    kept.put(here, Contribution("user", {"API_TOKEN": "hush-hush-hush"}), PLAIN, merge=True)
    assert kept.overlay(here).contributions == (Contribution("user", {"A": "1"}),)
    kept.put(here, Contribution("user", {"API_TOKEN": "hush-hush-hush"}), PLAIN)
    assert kept.overlay(here).contributions == ()


def test_secrets_are_not_kept_on_disk(found: Overlays, repo: Path) -> None:
    values = {"A": "1", "API_TOKEN": "hush-1", "URL": "https://me:hush-2@host/", "MARKED": "hush-3"}
    said = Contribution(
        "user",
        {**values, "X_DB": "hush-4"},
        unset=["OLD_TOKEN"],
        operations=[Operation("PATH", "append", ("https://me:hush-5@host/",))],
        secrets=["MARKED"],
    )
    refused = found.kept.put(str(repo), said, settings('[names]\nsecret = ["*_DB"]'))
    assert [(one.name, one.reason) for one in refused] == [
        (name, "secret") for name in ("API_TOKEN", "MARKED", "PATH", "URL", "X_DB")
    ]
    assert "--on" in refused[0].why
    [file] = Path(found.kept.folder).glob("*.json")
    assert "hush" not in file.read_text()
    assert found.kept.overlay(str(repo)).contributions == (
        Contribution("user", {"A": "1"}, unset=["OLD_TOKEN"]),
    )


def test_files_are_private(found: Overlays, repo: Path) -> None:
    found.kept.put(str(repo), Contribution("user", {"A": "1"}), PLAIN)
    for path in Path(found.kept.folder).iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(os.stat(found.kept.folder).st_mode) == 0o700


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_text("{"),
        lambda path: path.write_text("[]"),
        lambda path: path.write_text(path.read_text().replace("user", "bogus")),
        lambda path: path.write_text(path.read_text().replace('"1"', "1")),
        lambda path: path.write_text(path.read_text().replace("repo", "other")),
        lambda path: path.chmod(0o666),
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: (path.unlink(), path.symlink_to("/etc/passwd")),
    ],
    ids=["broken", "list", "producer", "value", "root", "mode", "folder", "link"],
)
def test_a_file_that_is_not_ours_is_an_error_and_not_silence(
    spoil: object, found: Overlays, repo: Path
) -> None:
    found.kept.put(str(repo), Contribution("user", {"A": "1"}), PLAIN)
    spoil(Path(found.kept.path(str(repo))))  # type: ignore[operator]
    with pytest.raises(FileInvalid, match="remove it, then set what is missing again"):
        found.layers(str(repo), None, (), PLAIN)


def test_a_folder_that_cannot_be_written_to_is_told(repo: Path) -> None:
    with pytest.raises(SettingInvalid, match="cannot write to /proc/overlays"):
        KeptOverlays("/proc").put(str(repo), Contribution("user", {"A": "1"}), PLAIN)


def test_words_that_come_at_once_are_all_kept(found: Overlays, repo: Path) -> None:
    # O4
    def put(number: int) -> None:
        KeptOverlays(os.path.dirname(found.kept.folder)).put(
            str(repo), Contribution("user", {f"A{number}": "1"}), PLAIN, merge=True
        )

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(put, range(20)))
    assert len(found.kept.overlay(str(repo)).contributions[0].values) == 20


def test_too_much_is_not_kept(monkeypatch: pytest.MonkeyPatch, found: Overlays, repo: Path) -> None:
    monkeypatch.setattr(module, "LARGEST_FILE", 100)
    with pytest.raises(SettingInvalid, match="more than 100 bytes"):
        found.kept.put(str(repo), Contribution("user", {"A": "1" * 100}), PLAIN)


def test_files_on_disk_say_nothing_else(found: Overlays, repo: Path) -> None:
    found.kept.put(str(repo), Contribution("user", {"A": "1"}), PLAIN)
    told = json.loads(Path(found.kept.path(str(repo))).read_text())
    assert told == {"root": str(repo), "contributions": [{"producer": "user", "set": {"A": "1"}}]}


def test_variables_are_not_lost_without_a_sign(found: Overlays, repo: Path) -> None:
    found.kept.put(str(repo), Contribution("user", {"A": "1"}), PLAIN)
    folder = Path(found.kept.folder)
    folder.rename(folder.with_name("away"))
    folder.write_text("")
    with pytest.raises(FileInvalid, match="cannot be read: Not a directory"):
        found.layers(str(repo), None, (), PLAIN)


def test_nobody_is_told_to_remove_what_cannot_be_read_now(
    found: Overlays, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found.kept.put(str(repo), Contribution("user", {"A": "1"}), PLAIN)

    def no_descriptor(path: str, most: int) -> bytes:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    with monkeypatch.context() as short:
        short.setattr(module.privatefile, "read", no_descriptor)
        with pytest.raises(FileInvalid, match="cannot be read: too many open files; try again"):
            found.layers(str(repo), None, (), PLAIN)
    assert producers(found, repo) == ["kept:user"]
