"""Which providers hold: the named ones, else the outermost that is there; seen at once, and cheaply."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from outfitter.contract import selection
from outfitter.contract.config import find_project_file
from outfitter.contract.freshness import TICK_NS
from outfitter.contract.selection import ProviderSelection, Use
from outfitter.contract.settings import Settings, Source
from outfitter.errors import FileInvalid
from outfitter.providers import files, registry
from outfitter.providers.marks import MARKS
from tests.support.contracts import Place
from tests.support.machine import wait_until
from tests.support.notes import Notes


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / "below").mkdir()
    return root


def ids(uses: list[Use]) -> list[str]:
    return [use.provider.id for use in uses]


def named(*names: str) -> Settings:
    settings = Settings()
    settings.providers = names
    settings.sources["providers.use"] = Source("/p/outfitter.toml", 1, "project")
    return settings


# The table


@pytest.mark.parametrize(("id", "mark"), [(id, mark) for id, marks in MARKS.items() for mark in marks])
def test_every_mark_is_what_its_provider_looks_for(id: str, mark: str, root: Path) -> None:
    path = root / mark
    if path.name in ("conf.d", "envs"):
        path.mkdir(parents=True)
        path = path / "some.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    found = registry.find(id).detect(str(root / "below"))
    assert found is not None and found.root == str(root)
    assert id in ids(ProviderSelection().uses(str(root / "below"), Settings()))


@pytest.mark.parametrize("ceiling", ["real", "link"])
@pytest.mark.parametrize("way", ["real", "link"])
def test_nothing_above_the_ceiling_holds_whichever_links_lead_there(
    way: str, ceiling: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real" / "work" / "below").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    for name in ("outfitter.toml", ".envrc"):
        (tmp_path / "real" / name).touch()
    below = f"{tmp_path}/{way}/work/below"

    def found() -> tuple[bool, bool, bool]:
        detected = registry.find("direnv").detect(below) is not None
        return (
            find_project_file(below) is not None,
            bool(ProviderSelection().uses(below, Settings())),
            detected,
        )

    assert found() == (True, True, True)
    monkeypatch.setattr(files, "ceiling", f"{tmp_path}/{ceiling}/work")
    assert found() == (False, False, False)


def test_a_folder_without_any_is_no_project_to_any_of_them(root: Path) -> None:
    assert [id for id in MARKS if registry.find(id).detect(str(root)) is not None] == []


def test_the_table_is_in_the_order_of_ranks() -> None:
    ranks = [registry.find(id).rank for id in MARKS]
    assert ranks == sorted(ranks)
    assert set(registry.OURS) - set(MARKS) == {"command", "dotenv"}


# What holds


def test_what_nobody_named_is_found_outermost_first(root: Path) -> None:
    (root / "pyproject.toml").touch()
    (root / ".envrc").touch()
    uses = ProviderSelection().uses(str(root / "below"), Settings())
    assert (ids(uses), [use.choice for use in uses]) == (["direnv", "python"], [True, True])


def test_what_is_named_holds_in_its_order_and_nothing_else(root: Path) -> None:
    for name in ("pyproject.toml", ".envrc", "flake.nix"):
        (root / name).touch()
    uses = ProviderSelection().uses(str(root), named("python", "direnv"))
    assert (ids(uses), [use.choice for use in uses]) == (["python", "direnv"], [False, False])
    assert ProviderSelection().uses(str(root), named()) == []


def test_the_search_ends_at_the_top_of_the_repository(root: Path) -> None:
    (root.parent / ".envrc").touch()
    assert ProviderSelection().uses(str(root / "below"), Settings()) == []


def test_a_project_in_a_folder_for_everybody_is_ours_or_it_does_not_count(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / ".envrc").touch()
    root.chmod(0o1777)
    assert ids(ProviderSelection().uses(str(root / "below"), Settings())) == ["direnv"]
    (root / "below" / "pyproject.toml").touch()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    if os.getuid() == 0:  # root's files count for everybody
        os.chown(root / ".envrc", 12345, 12345, follow_symlinks=False)
    assert ids(ProviderSelection().uses(str(root / "below"), Settings())) == ["python"]
    # Also for who has named it: what is meant is a file of his own.
    assert ids(ProviderSelection().uses(str(root / "below"), named("direnv", "python"))) == ["python"]


# Again and again


def test_the_answer_is_the_same_list_while_nothing_changes(root: Path) -> None:
    (root / ".envrc").touch()
    selection, settings = ProviderSelection(), Settings()
    first = selection.uses(str(root / "below"), settings)
    for _ in range(3):
        (root / f"other{_}").touch()  # which is not about us
        assert selection.uses(str(root / "below"), settings) is first


@pytest.mark.parametrize(
    "mark", [".envrc", ".venv/pyvenv.cfg", ".config/mise/config.toml", ".vscode/settings.json"]
)
def test_what_comes_and_goes_is_seen_at_once(root: Path, mark: str) -> None:
    selection, settings = ProviderSelection(), Settings()
    directory, path = str(root / "below"), root / mark
    for _ in range(5):
        assert selection.uses(directory, settings) == []
        path.parent.mkdir(parents=True, exist_ok=True)
        assert selection.uses(directory, settings) == []
        path.touch()
        assert len(selection.uses(directory, settings)) == 1
        path.unlink()


def test_a_new_repository_on_the_way_is_seen(root: Path) -> None:
    (root / ".envrc").touch()
    selection, settings = ProviderSelection(), Settings()
    assert ids(selection.uses(str(root / "below"), settings)) == ["direnv"]
    (root / "below" / ".git").mkdir()
    assert selection.uses(str(root / "below"), settings) == []


def test_a_link_that_leads_elsewhere_is_seen(root: Path, tmp_path: Path) -> None:
    (tmp_path / "other" / ".git").mkdir(parents=True)
    (tmp_path / "other" / ".envrc").touch()
    link = tmp_path / "link"
    link.symlink_to(root)
    selection, settings = ProviderSelection(), Settings()
    assert selection.uses(str(link), settings) == []
    link.unlink()
    link.symlink_to(tmp_path / "other")
    assert ids(selection.uses(str(link), settings)) == ["direnv"]


def test_a_warm_look_is_one_stat_for_each_folder(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / ".envrc").touch()
    wait_until(lambda: not is_young(root), "the folder is older than a tick")
    selection, settings = ProviderSelection(), Settings()
    selection.uses(str(root / "below"), settings)
    looked: list[str] = []
    stat = os.stat

    def counted(path: str) -> os.stat_result:
        looked.append(path)
        return stat(path)

    monkeypatch.setattr(os, "stat", counted)
    monkeypatch.setattr(os, "access", None)
    selection.uses(str(root / "below"), settings)
    assert looked == [str(root / "below"), str(root)]


def test_a_directory_that_is_not_there_has_none(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert ProviderSelection().uses(str(tmp_path / "nowhere" / "deep"), Settings()) == []


def test_no_more_is_remembered_than_it_says(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "REMEMBERED_DIRECTORIES", 4)
    monkeypatch.setattr(selection, "REMEMBERED_FOLDERS", 4)
    many, settings = ProviderSelection(), Settings()
    for number in range(9):
        (root / str(number)).mkdir()
        many.uses(str(root / str(number)), settings)
    assert (len(many._found), len(many._folders)) == (4, 4)


def test_a_foreign_provider_is_asked_every_time_and_only_where_it_is_wanted(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = Notes()
    monkeypatch.setitem(registry._made, "notes", foreign)
    monkeypatch.setattr(registry, "known", lambda: [*registry.OURS, "notes"])
    one, auto = ProviderSelection(), named("auto")
    assert one.uses(str(root), auto) == []
    (root / "notes").touch()
    assert ids(one.uses(str(root), auto)) == ["notes"]
    assert one.uses(str(root), Settings()) == []


def test_what_comes_is_seen_whatever_time_its_folder_is_given(root: Path) -> None:
    # As tar and rsync do, behind what they have put there.
    known = ProviderSelection()
    before = os.stat(root)
    assert ids(known.uses(str(root), Settings())) == []
    wait_until(lambda: not is_young(root), "the folder is older than a tick")
    assert ids(known.uses(str(root), Settings())) == []
    (root / ".envrc").touch()
    os.utime(root, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert ids(known.uses(str(root), Settings())) == ["direnv"]


def is_young(folder: Path) -> bool:
    return time.time_ns() - os.stat(folder).st_ctime_ns < 2 * TICK_NS


def test_the_user_has_the_last_word_on_what_may_be_used(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(place.project / "pyproject.toml", "")
    place.write(place.project / ".envrc", "")
    contract = place.contract()

    def used() -> list[str]:
        return ids(contract.uses(str(place.project), contract.settings(str(place.project))))

    assert used() == ["direnv", "python"]
    place.user('[providers]\nallow = ["direnv"]\n')
    assert used() == ["direnv"]
    place.says('[providers]\nuse = ["python", "direnv"]\n')
    assert used() == ["direnv"]
    place.user("[providers]\nallow = []\n")
    assert used() == []
    place.says('[providers]\nallow = ["direnv"]\n')
    with pytest.raises(FileInvalid, match="allow"):
        used()
