"""`.env` files as a provider: only those that are named, all or nothing, with the line of each value."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from outfitter.env.layer import Operation
from outfitter.env.origin import Origin
from outfitter.providers.base import Detection, Resolution, Trust
from outfitter.providers.dotenv import Dotenv
from tests.support.tools import program

from .project import PATH, Project

BOTH: dict[str, object] = {"values": (".env", ".env.local")}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def resolve(project: Project, **options: object) -> Resolution:
    provider = Dotenv({**BOTH, **options})
    found = provider.detect(str(project.root))
    assert found is not None
    return provider.resolve(found, project.context(options={**BOTH, **options}))


# Detection


def test_a_file_that_is_not_named_is_not_there(project: Project) -> None:
    project.write(".env", "A=1\n")
    assert Dotenv().detect(str(project.root)) is None
    assert Dotenv({"values": []}).detect(str(project.root)) is None
    assert Dotenv({"values": ["other.env"]}).detect(str(project.root)) is None


def test_the_nearest_folder_with_a_named_file_counts(project: Project) -> None:
    first = project.write("a/.env", "")
    second = project.write("a/.env.local", "")
    project.write(".env", "")
    (project.root / "a/b").mkdir()
    assert Dotenv(BOTH).detect(str(project.root / "a/b")) == Detection(
        str(project.root / "a"), (str(first), str(second)), f"dotenv:{first}"
    )


@pytest.mark.parametrize("values", ["x", [1], ["/etc/environment"], ["../.env"], ["a/../../b"], [""]])
def test_names_that_lead_elsewhere_are_refused_with_a_reason(project: Project, values: object) -> None:
    provider = Dotenv({"values": values})
    found = provider.detect(str(project.root))
    assert found is not None
    said = provider.resolve(found, project.context(options={"values": values}))
    assert said.state == "failed"
    assert said.note == found.note
    assert said.note.startswith("providers.dotenv")
    assert provider.watch(found, project.context()) == []


# Trust


def test_nothing_runs_so_nobody_needs_to_be_asked(project: Project) -> None:
    project.write(".env", "A='$(touch ran)'\n")
    provider = Dotenv(BOTH)
    found = provider.detect(str(project.root))
    assert found is not None
    assert provider.trust(found, project.context()) == Trust("suggested")
    assert provider.plan(found, project.context()) == []
    assert resolve(project).set == {"A": "$(touch ran)"}
    assert sorted(os.listdir(project.root)) == [".env"]


# Values


def test_the_second_file_overrides_the_first_and_each_value_has_its_line(project: Project) -> None:
    first = project.write(".env", "# the defaults\nA=1\nB=1\n")
    second = project.write(".env.local", "B=2\n")
    said = resolve(project)
    assert said.state == "applied"
    assert said.set == {"A": "1", "B": "2"}
    assert said.origins == {
        "A": Origin("provider", f"dotenv:{first}", str(first), 2),
        "B": Origin("provider", f"dotenv:{second}", str(second), 1),
    }
    assert said.watch == (str(first), str(second))


def test_every_value_is_secret_unless_it_is_named_plain(project: Project) -> None:
    project.write(".env", "PORT=hush-port\nNAME=hush-name\n")
    assert resolve(project).secrets == {"PORT", "NAME"}
    assert resolve(project, plain=["PORT", "OTHER"]).secrets == {"NAME"}
    assert "hush" not in repr(resolve(project))


def test_a_file_that_is_not_there_yet_is_watched(project: Project) -> None:
    project.write(".env", "A=1\n")
    assert resolve(project).watch == (f"{project.root}/.env", f"{project.root}/.env.local")


def test_path_is_ignored_with_a_word_unless_it_is_meant(project: Project) -> None:
    file = project.write(".env", f"A=1\nPATH=/opt/x:{PATH}\n")
    said = resolve(project)
    assert (said.state, said.set, said.operations) == ("applied", {"A": "1"}, ())
    assert said.note == f"PATH in {file}, line 2, is ignored: set it under [env] in outfitter.toml"
    meant = resolve(project, allow_path=True)
    origin = Origin("provider", f"dotenv:{file}", str(file), 2)
    assert meant.operations == (Operation("PATH", "prepend", ("/opt/x",), origin),)
    assert meant.note == ""


def test_braces_see_the_files_before_and_the_environment(project: Project) -> None:
    project.write(".env", "A=1\n")
    project.write(".env.local", "B=${A}${HOME}\n")
    assert resolve(project, dialect="literal").set["B"] == "${A}${HOME}"
    refused = resolve(project)
    assert (refused.state, refused.set) == ("failed", {})
    assert f"{project.root}/.env.local, line 1: some programs replace what follows the `$`" in refused.note
    assert resolve(project, dialect="expand-braces").set["B"] == f"1{project.home}"


# Mistakes


def test_one_mistake_refuses_everything_and_all_are_told(project: Project) -> None:
    first = project.write(".env", "A=1\nno equals\nB=x#hunter2\n")
    second = project.write(".env.local", "'\n")
    said = resolve(project)
    assert (said.state, said.set, said.secrets) == ("failed", {}, frozenset())
    assert said.note == (
        f"{first}, line 2: the `=` is missing; "
        f"{first}, line 3: some programs start a comment at the `#`: put the value in quotes; "
        f"{second}, line 1: the `=` is missing"
    )
    assert said.watch == (str(first), str(second))  # so that mending it is noticed


def test_a_note_stays_readable(project: Project) -> None:
    project.write(".env", "x\n" * 60)
    assert resolve(project).note.endswith("; and 10 more")


@pytest.mark.parametrize("kind", ["pipe", "folder", "large"])
def test_a_trap_is_not_read(project: Project, kind: str) -> None:
    project.write(".env", "A=1\n")
    path = project.root / ".env.local"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_text("#" * (1 << 20) + "\n")
    said = resolve(project)
    assert (said.state, said.set) == ("failed", {})
    assert said.note == f"{path} cannot be read, or is larger than 1048576 bytes"


@pytest.mark.parametrize(
    "options", [{"dialect": "bash"}, {"allow_path": "yes"}, {"plain": "PORT"}, {"dialect": []}]
)
def test_options_that_make_no_sense_are_refused(project: Project, options: dict[str, object]) -> None:
    project.write(".env", "A=1\n")
    said = resolve(project, **options)
    assert said.state == "failed"
    assert next(iter(options)) in said.note


@pytest.mark.parametrize("whole", [False, True])
def test_a_link_out_of_the_project_is_not_followed(project: Project, tmp_path: Path, whole: bool) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("AWS_SECRET=hush\n")
    if whole:
        (project.root / "link").symlink_to(outside)
        name = "link/file"
    else:
        name = ".env"
        (project.root / name).symlink_to(outside / "file")
    said = resolve(project, values=[name])
    assert (said.state, said.set) == ("failed", {})
    path = project.root / name
    assert said.note == f"{path} is a link out of the project: put a file there, or name another one"
    (project.root / "inside").write_text("A=1\n")
    (project.root / "own").symlink_to("inside")
    assert resolve(project, values=["own"]).set == {"A": "1"}


# Other readers

_ODD = (
    *("$", "\\", "\\\\", "\\n", "\\t", "\\r", "\\$", '\\"', "${B}", "$B", "$(B)", "$$", "$1", "$!"),
    *("#", "a#b", "=", "'", "`", ",", ":", "/", "é"),
)


@pytest.mark.parametrize("reader", ["node", "direnv"])
def test_what_is_read_is_what_others_read(project: Project, reader: str) -> None:
    """Every odd text without quotes and in both kinds: refused by us, or read alike by all."""
    read = 0
    for quote in ("", "'", '"'):
        for text in (f"x{odd}y" for odd in _ODD):
            file = project.write(".env", f"NAME={quote}{text}{quote}\n")
            said = resolve(project)
            if said.state == "failed":
                continue
            if reader == "node":
                show = ["-e", "process.stdout.write(process.env.NAME)"]
                argv = [program("node"), f"--env-file={file}", *show]
            else:
                argv = [program("direnv"), "dotenv", "json", str(file)]
            done = subprocess.run(argv, env=project.env, capture_output=True, check=False)
            if done.returncode:
                continue  # it refuses what we read: no other value comes of it
            value = done.stdout.decode() if reader == "node" else json.loads(done.stdout)["NAME"]
            assert value == said.set["NAME"], f"{quote}{text}{quote}"
            read += 1
    assert read > 20
