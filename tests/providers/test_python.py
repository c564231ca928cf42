"""The Python environment of a project: found where each tool keeps it, and activated as its script would.

uv, virtualenv, poetry, pipenv and hatch are asked themselves where they keep it. pdm is not: the question
makes an environment; its file is as pdm 2.29 writes it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from outfitter.env.layer import PROVIDER, Layer
from outfitter.env.origin import EXECUTOR, Origin
from outfitter.env.resolve import Rules, Stack
from outfitter.providers.base import Context, Detection, Lost, Resolution
from outfitter.providers.python import CREATE, MANIFESTS, Python

from ..support.tools import program

PATH = "/usr/local/bin:/usr/bin:/bin"
STALE = {"VIRTUAL_ENV": "/elsewhere", "CONDA_PREFIX": "/elsewhere", "CONDA_DEFAULT_ENV": "base"}


class Project:
    def __init__(self, folder: Path) -> None:
        self.root = folder / "My_App.x"
        self.home = folder / "home"
        self.root.mkdir()
        self.home.mkdir()
        (self.root / ".git").mkdir()
        self.env = {"HOME": str(self.home), "PATH": PATH}

    def write(self, name: str, text: str = "") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def detect(self, below: str = "") -> Detection:
        found = Python().detect(str(self.root / below))
        assert found is not None
        return found

    def context(self, option: str = "", **env: str) -> Context:
        options = {"values": (option,)} if option else {}
        return Context({**self.env, **env}, self.env, str(self.home), options=options)

    def resolve(self, below: str = "", option: str = "", **env: str) -> Resolution:
        """Without a process, whatever is stale in the base."""
        found, context = self.detect(below), self.context(option, **env)
        assert Python().trust(found, context).state == "suggested"
        assert Python().plan(found, context) == []
        result = Python().resolve(found, context)
        stale = Python().resolve(found, self.context(option, **STALE, **env))
        assert (stale.state, stale.set, stale.operations) == (result.state, result.set, result.operations)
        return result

    def make(self, path: Path | str) -> Path:
        """A virtual environment there, made by uv, which takes no time."""
        place = self.root / path
        self.tool("uv", "venv", "--offline", "--quiet", "--python", program("python3"), str(place))
        return place

    def tool(self, name: str, *args: str, **env: str) -> str:
        done = subprocess.run(
            [program(name), *args],
            cwd=self.root,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path.resolve())


def activated(result: Resolution) -> str:
    """The environment that was activated; all of what activation is, and nothing else."""
    assert result.state == "applied", result.note
    path = result.set["VIRTUAL_ENV"]
    assert set(result.set) == {"VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT"}
    assert result.unset == ("PYTHONHOME",)
    assert [(one.variable, one.op, one.values) for one in result.operations] == [
        ("PATH", "prepend", (f"{path}/bin",))
    ]
    origin = Origin("provider", f"python: {path}", f"{path}/pyvenv.cfg")
    assert {*result.origins.values(), *(one.origin for one in result.operations)} == {origin}
    assert f"{path}/pyvenv.cfg" in result.watch
    return path


# Detection


def test_nothing_is_found_where_nothing_is(project: Project) -> None:
    project.write("requirements.txt")
    assert Python().detect(str(project.root)) is None


@pytest.mark.parametrize("name", [*MANIFESTS, ".venv/pyvenv.cfg", "venv/pyvenv.cfg", "env/pyvenv.cfg"])
def test_one_file_is_enough(project: Project, name: str) -> None:
    path = project.write(name)
    project.write("src/deep/x")
    assert project.detect("src/deep") == Detection(str(project.root), (str(path),), f"python:{project.root}")


def test_a_repository_ends_the_search(project: Project) -> None:
    (project.root.parent / "pyproject.toml").write_text("")
    assert Python().detect(str(project.root)) is None


# Activation


@pytest.mark.parametrize("maker", ["venv", "virtualenv", "uv"])
def test_it_is_what_the_activate_script_does(project: Project, maker: str) -> None:
    place = str(project.root / ".venv")
    if maker == "venv":
        project.tool("python3", "-m", "venv", "--without-pip", place)
    elif maker == "virtualenv":
        project.tool("virtualenv", "--no-seed", "--prompt", "a b", place)
    else:
        project.tool("uv", "venv", "--offline", "--quiet", "--prompt", "a b", place)
    base = {**project.env, "PYTHONHOME": "/nowhere", "KEPT": "1"}
    script = '. "$1" && exec env -0'
    told = subprocess.check_output(
        ["/bin/bash", "--norc", "-c", script, "bash", f"{place}/bin/activate"], env=base
    )
    theirs = dict(pair.split("=", 1) for pair in told.decode().split("\0") if pair)
    for name in ("PWD", "SHLVL", "_", "PS1", "OLDPWD"):
        theirs.pop(name, None)
    result = project.resolve()
    layers = [
        Layer(0, "base", EXECUTOR, base),
        Layer(PROVIDER, "python", EXECUTOR, result.set, unset=result.unset, operations=result.operations),
    ]
    ours = dict(Stack(layers, (), Rules()).values)
    if maker == "venv":  # which had decorated it before Python 3.12
        assert theirs.pop("VIRTUAL_ENV_PROMPT") in (".venv", "(.venv) ")
        assert ours.pop("VIRTUAL_ENV_PROMPT") == ".venv"
    # virtualenv adds this for compilers, unlike the others; it is not part of the contract.
    assert (theirs.pop("PKG_CONFIG_PATH", None) is not None) <= (maker == "virtualenv")
    assert ours == theirs
    found = subprocess.check_output(["python", "-c", "import sys; print(sys.prefix)"], env=ours, text=True)
    assert found.strip() == activated(result) == place


@pytest.mark.parametrize("name", [".venv", "venv", "env"])
def test_usual_folders_are_found(project: Project, name: str) -> None:
    place = project.make(name)
    assert activated(project.resolve()) == str(place)


def test_the_configured_folder_counts_most(project: Project) -> None:
    project.make(".venv")
    assert activated(project.resolve(option=str(project.make("other")))) == str(project.root / "other")
    assert activated(project.resolve(option="other")) == str(project.root / "other")


def test_a_package_without_a_tool_uses_the_environment_above_it(project: Project) -> None:
    place = project.make(".venv")
    project.write("packages/a/pyproject.toml", '[project]\nname = "a"\n')
    assert activated(project.resolve("packages/a")) == str(place)


def test_a_project_that_names_no_tool_needs_none(project: Project) -> None:
    project.write("pyproject.toml", '[build-system]\nrequires = ["hatchling"]\n[tool.hatch.build]\nx = 1\n')
    result = project.resolve()
    assert (result.state, result.note) == (
        "not-applicable",
        f"{project.root} names no tool and has no .venv, venv, env: `python3 -m venv .venv` creates one",
    )


def test_a_manifest_that_is_no_toml_is_told(project: Project) -> None:
    project.write("pyproject.toml", "x = \n")
    result = project.resolve()
    assert result.state == "failed"
    assert result.note.startswith(f"{project.root}/pyproject.toml:1: not valid TOML")


def test_a_pipe_instead_of_a_manifest_is_not_waited_for(project: Project) -> None:
    os.mkfifo(project.root / "pyproject.toml")
    os.mkfifo(project.root / ".pdm-python")
    assert project.resolve().state == "missing"


# What is missing or broken


@pytest.mark.parametrize(
    ("tool", "file", "text"),
    [
        ("uv", "uv.lock", ""),
        ("uv", "pyproject.toml", "[tool.uv]\nmanaged = true\n"),
        ("poetry", "poetry.lock", ""),
        ("poetry", "pyproject.toml", '[tool.poetry]\nname = "x"\n'),
        ("pdm", "pdm.lock", ""),
        ("pdm", ".pdm-python", "/nowhere/.venv/bin/python"),
        ("pipenv", "Pipfile", ""),
        ("hatch", "hatch.toml", ""),
        ("hatch", "pyproject.toml", "[tool.hatch.envs.default]\n"),
    ],
)
def test_what_was_declared_and_not_made_is_missing(project: Project, tool: str, file: str, text: str) -> None:
    if tool == "hatch" and not text:
        text = "[envs.default]\n"
    project.write(file, text)
    result = project.resolve()
    assert result.state == "missing"
    assert result.note.startswith(f"{tool} has not created /")
    assert result.note.endswith(f": run `{CREATE[tool]}` in {project.root}")
    assert (result.set, result.operations) == ({}, ())


def test_making_it_is_noticed(project: Project) -> None:
    project.write("uv.lock")
    watched = project.resolve().watch
    assert not os.path.exists(project.root / ".venv")
    assert f"{project.root}/.venv/pyvenv.cfg" in watched


def test_an_environment_that_is_not_the_tools_is_pointed_out(project: Project) -> None:
    project.write("uv.lock")
    place = project.make("venv")
    result = project.resolve()
    assert result.state == "missing"
    assert result.note.endswith(f"; or configure {place} to use that one")


def broken(project: Project, reason: str, tool: str = "venv") -> None:
    result = project.resolve()
    assert (result.state, result.note, result.set) == (
        "failed",
        f"{reason}: remove it, then run `{CREATE[tool]}` in {project.root}",
        {},
    )


def test_a_moved_environment_is_broken(project: Project) -> None:
    project.make("old")
    (project.root / "old").rename(project.root / ".venv")
    broken(project, f"{project.root}/.venv was created as {project.root}/old and has been moved or copied")


def test_a_copied_environment_is_broken(project: Project) -> None:
    project.write("uv.lock")
    shutil.copytree(project.make("old"), project.root / ".venv", symlinks=True)
    broken(
        project, f"{project.root}/.venv was created as {project.root}/old and has been moved or copied", "uv"
    )


def test_one_that_can_be_moved_is_not(project: Project) -> None:
    old = project.root / "old"
    project.tool("uv", "venv", "--offline", "--quiet", "--relocatable", str(old))
    old.rename(project.root / ".venv")
    assert activated(project.resolve()) == str(project.root / ".venv")


def test_a_project_behind_a_link_is_in_order(project: Project) -> None:
    project.make(".venv")
    link = project.root.parent / "link"
    link.symlink_to(project.root)
    found = Python().detect(str(link))
    assert found is not None
    assert activated(Python().resolve(found, project.context())) == f"{link}/.venv"


def test_an_environment_without_its_interpreter_is_broken(project: Project) -> None:
    python = project.make(".venv") / "bin" / "python"
    python.unlink()
    broken(project, f"{project.root}/.venv has no bin/python")
    python.symlink_to("/nowhere/python3.1")
    broken(project, f"the interpreter of {project.root}/.venv no longer exists (/nowhere/python3.1)")
    python.unlink()
    python.write_text("")
    broken(project, f"{python} is not executable")


def test_an_environment_whose_base_is_gone_is_broken(project: Project) -> None:
    cfg = project.make(".venv") / "pyvenv.cfg"
    cfg.write_text("home = /nowhere/bin\n")
    broken(
        project,
        f"{project.root}/.venv was created from an interpreter in /nowhere/bin, which no longer exists",
    )


def test_a_folder_that_is_no_environment_is_told(project: Project) -> None:
    project.write("uv.lock")
    project.write(".venv/x")
    result = project.resolve()
    assert (result.state, result.note) == (
        "failed",
        f"{project.root}/.venv is not a virtual environment (no pyvenv.cfg): remove it, "
        f"then run `uv sync` in {project.root}",
    )


def test_a_colon_cannot_be_activated(tmp_path: Path) -> None:
    root = tmp_path / "a:b"
    (root / ".venv").mkdir(parents=True)
    (root / ".venv" / "pyvenv.cfg").write_text("")
    found = Python().detect(str(root))
    assert found is not None
    assert Python().resolve(found, Context({}, {}, "/")).state == "failed"


# uv


def test_uv_names_the_place_that_we_find(project: Project) -> None:
    project.write("pyproject.toml", '[project]\nname = "x"\nversion = "0"\nrequires-python = ">=3.9"\n')
    project.tool("uv", "sync", "--offline", "--quiet")
    assert activated(project.resolve()) == str(project.root / ".venv")
    told = project.tool("uv", "sync", "--offline", "--dry-run", "--output-format", "json", **STALE)
    assert f'"path": "{project.root}/.venv"' in told


def test_uvs_variable_moves_it(project: Project) -> None:
    project.write("uv.lock")
    project.make(".venv")
    place = project.make("build/env")
    assert activated(project.resolve(UV_PROJECT_ENVIRONMENT="build/env")) == str(place)
    assert activated(project.resolve(UV_PROJECT_ENVIRONMENT=str(place))) == str(place)


def test_a_member_of_a_workspace_uses_its_environment(project: Project) -> None:
    project.write(
        "pyproject.toml", '[tool.uv.workspace]\nmembers = ["packages/*"]\nexclude = ["packages/no"]\n'
    )
    place = project.make(".venv")
    for name in ("packages/yes", "packages/no", "packages/deep/no"):
        project.write(f"{name}/pyproject.toml", '[project]\nname = "a"\n[tool.uv]\nx = 1\n')
    assert activated(project.resolve("packages/yes")) == str(place)
    assert project.resolve("packages/no").state == "missing"
    assert project.resolve("packages/deep/no").state == "missing"


# poetry


def poetry_place(project: Project) -> Path:
    """Where it is to be, from our own note."""
    note = project.resolve().note
    return Path(note.removeprefix("poetry has not created ").partition(" ")[0])


def test_poetry_names_the_place_that_we_find(project: Project) -> None:
    project.write("pyproject.toml", '[project]\nname = "My_App.x"\nversion = "1"\n')
    project.write("poetry.lock")
    pattern = poetry_place(project)
    assert pattern.parent == project.home / ".cache/pypoetry/virtualenvs"
    assert pattern.name.startswith("my-app-x-")
    place = project.make(str(pattern).replace("*", "3.11"))
    assert activated(project.resolve()) == str(place)
    # Which Python it would take by itself depends on the machine.
    (place.parent / "envs.toml").write_text(f'[{place.name[:-7]}]\nminor = "3.11"\npatch = "3.11.0"\n')
    assert activated(project.resolve()) == str(place)
    assert project.tool("poetry", "env", "info", "--path", "--no-plugins") == str(place)


def test_poetrys_record_chooses_among_several(project: Project) -> None:
    project.write("pyproject.toml", "[tool.poetry]\npackage-mode = false\n")
    pattern = str(poetry_place(project))
    assert "/non-package-mode-" in pattern
    for version in ("3.11", "3.12"):
        project.make(pattern.replace("*", version))
    found, context = project.detect(), project.context()
    trust = Python().trust(found, context)
    assert (trust.state, trust.by) == ("untrusted", "outfitter")
    assert Python().plan(found, context) == [["poetry", "env", "info", "--path"]]
    base = os.path.basename(pattern).removesuffix("-py*")
    envs = Path(pattern).parent / "envs.toml"
    envs.write_text(f'[{base}]\nminor = "3.12"\npatch = "3.12.1"\n')
    assert activated(project.resolve()) == pattern.replace("*", "3.12")
    envs.write_text(f"[{base}]\nminor = 3\n")
    assert Python().trust(found, context) == trust


def test_poetry_is_asked_when_it_is_trusted(project: Project, tmp_path: Path) -> None:
    project.write("poetry.lock")
    pattern = str(poetry_place(project))
    places = [str(project.make(pattern.replace("*", version))) for version in ("3.11", "3.12")]
    tools = tmp_path / "tools"
    tools.mkdir()
    fake = tools / "poetry"
    project.env["PATH"] = f"{tools}:{PATH}"

    def says(script: str) -> Resolution:
        fake.write_text(f"#!/bin/sh\n{script}\n")
        fake.chmod(0o755)
        return Python().resolve(project.detect(), project.context(SECRET_TOKEN="hunter2hunter2"))

    assert (
        activated(says(f'[ "$*" = "env info --path" ] && [ -z "$SECRET_TOKEN" ] && echo {places[1]}'))
        == places[1]
    )
    result = says("exit 1")
    assert (result.state, result.note) == (
        "missing",
        f"poetry has not created an environment yet: run `poetry install` in {project.root}",
    )
    result = says("echo oh no hunter2hunter2 >&2; exit 3")
    assert (result.state, result.stderr_tail) == ("failed", "oh no [secret:SECRET_TOKEN]\n")
    assert "`poetry env info --path`" in result.note
    fake.unlink()
    project.env["PATH"] = str(tools)
    assert Python().resolve(project.detect(), project.context()).state == "failed"


def test_poetrys_settings_move_it(project: Project) -> None:
    project.write("poetry.lock")
    place = project.make("here/x-py3.11")
    for setting in ('path = "{project-dir}/here"', f'path = "{place.parent}"'):
        project.write("poetry.toml", f"[virtualenvs]\n{setting}\n")
        assert str(poetry_place(project)).startswith(f"{project.root}/here/non-package-mode-")
    config = project.home / ".config/pypoetry/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('cache-dir = "/c"\n[virtualenvs]\npath = "{cache-dir}/v"\n')
    project.write("poetry.toml", "")
    assert str(poetry_place(project)).startswith("/c/v/non-package-mode-")
    assert project.resolve(POETRY_VIRTUALENVS_PATH=str(place.parent)).note.startswith(
        f"poetry has not created {place.parent}/"
    )
    project.write("poetry.toml", "[virtualenvs]\nin-project = true\n")
    assert project.resolve().note.startswith(f"poetry has not created {project.root}/.venv yet")
    project.make(".venv")
    assert activated(project.resolve()) == f"{project.root}/.venv"
    project.write("poetry.toml", "[virtualenvs]\nin-project = false\ncreate = false\n")
    result = project.resolve()
    assert (result.state, result.note) == (
        "not-applicable",
        "poetry is configured to create no environment (virtualenvs.create is false)",
    )


# pdm


def test_pdms_file_names_the_interpreter(project: Project) -> None:
    place = project.make("elsewhere/x")
    project.write(".pdm-python", f"{place}/bin/python")
    assert activated(project.resolve()) == str(place)


def test_pdms_file_may_hold_anything(project: Project) -> None:
    for text in ("python", "\0", "../../x", "/", "a\nb"):
        project.write(".pdm-python", text)
        assert project.resolve().state in ("missing", "not-applicable", "failed")


def test_pdm_without_an_environment_needs_none(project: Project) -> None:
    project.write(".pdm-python", "/usr/bin/env")
    result = project.resolve()
    assert (result.state, result.note) == (
        "not-applicable",
        "pdm uses /usr/bin/env, which is not in a virtual environment",
    )


# pipenv


def pipenv_place(project: Project, **env: str) -> Path:
    return Path(project.resolve(**env).note.removeprefix("pipenv has not created ").partition(" ")[0])


def test_pipenv_names_the_place_that_we_find(project: Project) -> None:
    project.write("Pipfile", "[packages]\n")
    place = pipenv_place(project)
    assert place.parent == project.home / ".local/share/virtualenvs"
    project.make(place)
    project.make(".venv")  # which it does not prefer to its own
    assert activated(project.resolve()) == str(place)
    assert project.tool("pipenv", "--venv", PIPENV_DONT_LOAD_ENV="1") == str(place)


def test_pipenvs_settings_move_it(project: Project) -> None:
    project.write("Pipfile", "[packages]\n")
    assert pipenv_place(project, WORKON_HOME="/w").parent == Path("/w")
    assert pipenv_place(project, PIPENV_CUSTOM_VENV_NAME="n").name == "n"
    assert pipenv_place(project, PIPENV_PYTHON="/x/python3").name.endswith("-python3")
    assert pipenv_place(project, PIPENV_VENV_IN_PROJECT="1") == project.root / ".venv"
    project.write(".venv", "name\n")
    assert pipenv_place(project, WORKON_HOME="/w") == Path("/w/name")
    project.write(".venv", "./sub/x")
    assert pipenv_place(project) == project.root / "sub/x"
    (project.root / ".venv").unlink()
    project.make(".venv")
    assert activated(project.resolve()) == f"{project.root}/.venv"
    project.write("Pipfile", "[pipenv]\nvenv_in_project = false\n")
    assert pipenv_place(project).parent == project.home / ".local/share/virtualenvs"


# hatch


def hatch_place(project: Project, **env: str) -> str:
    return project.resolve(**env).note.removeprefix("hatch has not created ").partition(" ")[0]


def test_hatch_names_the_place_that_we_find(project: Project) -> None:
    project.write(
        "pyproject.toml",
        '[project]\nname = "My_App.x"\nversion = "1"\n[tool.hatch.envs.default]\nskip-install = true\n',
    )
    place = hatch_place(project)
    assert place.startswith(f"{project.home}/.local/share/hatch/env/virtual/my-app-x/")
    assert project.tool("hatch", "env", "find") == place
    project.make(place)
    assert activated(project.resolve()) == place


def test_hatchs_settings_move_it(project: Project) -> None:
    project.write("pyproject.toml", '[project]\nname = "x"\n[tool.hatch.envs.default]\npath = "sub/e"\n')
    assert hatch_place(project) == f"{project.root}/sub/e"
    project.write("pyproject.toml", '[project]\nname = "x"\n')
    project.write("hatch.toml", "[envs.default]\n")
    assert hatch_place(project, HATCH_DATA_DIR="/d").startswith("/d/env/virtual/x/")
    config = project.home / ".config/hatch/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[dirs.env]\nvirtual = ".hatch"\n')
    assert hatch_place(project) == f"{project.root}/.hatch/x"


def test_another_type_of_hatch_environment_is_asked_for(project: Project) -> None:
    project.write("hatch.toml", '[envs.default]\ntype = "container"\n')
    found, context = project.detect(), project.context()
    assert Python().trust(found, context).state == "untrusted"
    assert Python().plan(found, context) == [["hatch", "env", "find"]]


def test_what_was_trusted_is_what_the_manifests_say(project: Project) -> None:
    file = project.write("hatch.toml", '[envs.default]\ntype = "container"\n')
    before = Python().trust(project.detect(), project.context()).digest
    file.write_text('[envs.default]\ntype = "containers"\n')
    assert Python().trust(project.detect(), project.context()).digest != before


# Commands that a tool starts


def wrapping(project: Project) -> Resolution:
    context = Context(project.env, project.env, str(project.home), mode="wrap")
    return Python().resolve(project.detect(), context)


@pytest.mark.parametrize(
    ("tool", "file", "text", "argument"),
    [
        ("pipenv", "Pipfile", "[packages]\n", "$HOME"),
        ("pdm", "pyproject.toml", '[project]\nname = "x"\nversion = "1"\n[tool.pdm]\n', "${HOME}"),
        ("hatch", "hatch.toml", "[envs.default]\npath = '.venv'\nskip-install = true\n", "{home}"),
    ],
)
def test_tools_that_change_arguments_start_no_command(
    project: Project, tool: str, file: str, text: str, argument: str
) -> None:
    project.write(file, text)
    project.write(".pdm-python" if tool == "pdm" else "other", str(project.root / ".venv/bin/python"))
    project.make(".venv")
    more = {"PIPENV_IGNORE_VIRTUALENVS": "1", "PIPENV_VENV_IN_PROJECT": "1", "PDM_CHECK_UPDATE": "0"}
    # The reason why; a tool that no longer does it could be taken.
    assert project.tool(tool, "run", "printf", "%s", argument, **more) == str(project.home)
    said = wrapping(project)
    assert (said.state, said.prefix) == ("failed", ())
    assert said.note.startswith(f"`{tool} run` expands `")
    assert said.note.endswith('in arguments: write python = "snapshot" in [providers.modes]')


def test_an_environment_without_a_tool_has_nobody_to_start_commands(project: Project) -> None:
    project.make(".venv")
    said = wrapping(project)
    assert said.state == "failed"
    assert said.note.startswith("a plain virtual environment has no tool that starts commands: ")


def test_a_tool_that_is_to_start_commands_is_trusted_and_there(project: Project) -> None:
    file = project.write("uv.lock")
    project.write("pyproject.toml", "[project]\n")
    found = project.detect()
    context = Context(project.env, project.env, str(project.home), mode="wrap")
    trust = Python().trust(found, context)
    assert (trust.state, trust.by) == ("untrusted", "outfitter")
    file.write_text("another")
    assert Python().trust(found, context).digest != trust.digest
    assert wrapping(project).note.startswith("uv has not created ")
    project.make(".venv")
    said = wrapping(project)
    assert (said.state, said.prefix) == ("missing", ())
    assert said.note.startswith("uv is not in PATH")


def test_variables_of_a_tools_own_settings_are_lost(project: Project) -> None:
    place = project.make(".venv")
    project.write(".pdm-python", f"{place}/bin/python")
    project.write(
        "pyproject.toml", "[tool.pdm.scripts]\n_.env = { B = '2', A = '1' }\n_.env_file.override = '.env'\n"
    )
    assert project.resolve().lost == (
        Lost("variable", "A", "session"),
        Lost("variable", "B", "session"),
        Lost("file", ".env", "session"),
    )
    (project.root / ".pdm-python").unlink()
    project.write("pyproject.toml")
    project.write("hatch.toml", "[envs.default]\npath = '.venv'\nenv-vars = { C = '3' }\n")
    assert project.resolve().lost == (Lost("variable", "C", "session"),)


# In a folder for everybody, such as /tmp


@pytest.fixture
def planted(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Somebody else's files above the project's own folder `mine`."""
    project.write("mine/pyproject.toml", '[project]\nname = "x"\n')
    venv = project.write(".venv/pyvenv.cfg", "home = /usr/bin\n").parent
    (venv / "bin").mkdir()
    (venv / "bin/python").symlink_to(program("python3"))
    project.write("pyproject.toml", '[tool.uv.workspace]\nmembers = ["*"]\n')
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    for path in (venv, project.root / "pyproject.toml"):
        if os.getuid() == 0:  # root's files count for everybody
            os.chown(path, 12345, 12345)
    return project


def test_an_environment_above_counts(planted: Project) -> None:
    assert planted.resolve("mine").set["VIRTUAL_ENV"] == str(planted.root / ".venv")
    (planted.root / "pyproject.toml").unlink()
    assert planted.resolve("mine").set["VIRTUAL_ENV"] == str(planted.root / ".venv")


def test_one_that_anybody_may_have_put_there_does_not(planted: Project) -> None:
    planted.root.chmod(0o1777)
    assert planted.resolve("mine").state == "not-applicable"
    (planted.root / "pyproject.toml").unlink()
    assert planted.resolve("mine").state == "not-applicable"
