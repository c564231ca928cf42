"""Providers where nothing of theirs can be written: a sandbox that lets a command read and no more.

The folders are in /proc, where not even root can make a file.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from outfitter.providers.conda import Conda
from outfitter.providers.direnv import Direnv
from outfitter.providers.mise import Mise
from outfitter.providers.versions import Versions
from tests.support.tools import ROOT, program

from .project import PATH, Project, applied

STATE = ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CACHE_HOME", "TMPDIR", "MISE_CACHE_DIR", "MISE_STATE_DIR")


@pytest.fixture
def place(tmp_path: Path) -> Project:
    place = Project(tmp_path.resolve())
    place.env |= dict.fromkeys(STATE, "/proc/self")
    place.env |= {"FNM_DIR": f"{place.home}/fnm", "XDG_DATA_HOME": f"{place.home}/data"}
    return place


def everything(place: Project) -> list[Path]:
    return sorted(place.home.rglob("*"))


def test_fnm_needs_no_links_for_each_shell(place: Project) -> None:
    (place.home / "fnm/node-versions/v20.1.0/installation/bin").mkdir(parents=True)
    found = Versions().detect(str(place.write(".nvmrc", "20\n").parent))
    assert found is not None
    before = everything(place)
    said = Versions().resolve(found, place.context())
    assert applied(said, place.env)["PATH"] == (
        f"{place.home}/fnm/node-versions/v20.1.0/installation/bin:{PATH}"
    )
    assert everything(place) == before


def test_direnv_needs_its_records_only(place: Project) -> None:
    place.write(".envrc", "export A=1\n")
    subprocess.run([program("direnv"), "allow", "."], cwd=place.root, env=place.env, check=True)
    found = Direnv().detect(str(place.root))
    assert found is not None
    before = everything(place)
    assert Direnv().resolve(found, place.context()).set == {"A": "1"}
    assert everything(place) == before


def test_mise_needs_nothing_for_versions(place: Project) -> None:
    program("mise")
    place.env["PATH"] = f"{ROOT}/.tools/bin:{PATH}"
    place.write("mise.toml", '[tools]\n"core:node" = "20.1.0"\n')
    found = Mise().detect(str(place.root))
    assert found is not None
    said = Mise().resolve(found, place.context())
    # Nothing is installed; mise has looked, and that is what it says.
    assert (said.state, said.stderr_tail) == ("missing", ""), said.note


def test_a_capture_takes_another_folder_for_its_pipe(place: Project) -> None:
    prefix = place.root / ".conda"
    for name in ("bin", "conda-meta", "etc/conda/activate.d"):
        (prefix / name).mkdir(parents=True)
    (prefix / "conda-meta/history").write_text("")
    (prefix / "etc/conda/activate.d/a.sh").write_text("export A=1")
    found = Conda().detect(str(place.root))
    assert found is not None
    said = Conda().resolve(found, place.context(mode="capture"))
    assert said.state == "applied", said.note
    assert said.set["A"] == "1"
