"""Version files: the folder of the installed version, as the manager itself would find it.

nodenv and rbenv are asked themselves. pyenv, asdf, nvm, fnm and volta are in no package index: their layouts
are made by hand, and pyenv 2.6 said the same of them when it was asked once.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from outfitter.env.layer import Operation
from outfitter.env.origin import Origin
from outfitter.providers.base import Context, Detection, Lost, Resolution, Trust
from outfitter.providers.versions import FILES, Versions

from ..support.tools import program
from .test_gitindex import git


class Machine:
    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.root = folder / "project"
        self.root.mkdir()
        (self.root / ".git").mkdir()

    def install(self, *paths: str) -> None:
        for path in paths:
            (self.home / path / "bin").mkdir(parents=True)

    def write(self, path: str, text: str) -> None:
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def resolve(self, name: str, text: str, **env: str) -> Resolution:
        (self.root / name).write_text(text)
        found = Versions().detect(str(self.root))
        assert found is not None
        context = Context(env, {}, str(self.home))
        assert Versions().trust(found, context) == Trust("suggested")
        assert Versions().plan(found, context) == []
        return Versions().resolve(found, context)

    def folders(self, name: str, text: str, **env: str) -> list[str]:
        """What is put in front of PATH, below home."""
        result = self.resolve(name, text, **env)
        assert result.state == "applied", result.note
        assert {(one.variable, one.op) for one in result.operations} <= {("PATH", "prepend")}
        return [os.path.relpath(path, self.home) for one in result.operations for path in one.values]

    def missing(self, name: str, text: str) -> str:
        result = self.resolve(name, text)
        assert (result.state, result.set, result.operations) == ("missing", {}, ())
        return result.note.removeprefix("not installed: ").replace(str(self.root), ".")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path.resolve())


@pytest.mark.parametrize("name", FILES)
def test_one_file_is_enough(machine: Machine, name: str) -> None:
    (machine.root / "sub").mkdir()
    path = machine.root / name
    path.write_text("")
    expected = Detection(str(machine.root), (str(path),), f"versions:{machine.root}")
    assert Versions().detect(str(machine.root / "sub")) == expected


def test_a_repository_ends_the_search(machine: Machine) -> None:
    (machine.root.parent / ".nvmrc").write_text("20")
    assert Versions().detect(str(machine.root)) is None


@pytest.mark.parametrize("name", FILES)
def test_without_a_manager_nothing_applies(machine: Machine, name: str) -> None:
    result = machine.resolve(name, "1.2.3\n")
    assert (result.state, result.note) == (
        "not-applicable",
        f"no installed version manager reads {name}",
    )


@pytest.mark.parametrize("name", FILES)
def test_an_empty_file_is_told(machine: Machine, name: str) -> None:
    result = machine.resolve(name, " \n")
    assert (result.state, result.note) == (
        "failed",
        f"{machine.root}/{name} contains no version: write one",
    )


# pyenv and its relatives


def test_pyenvs_versions_may_be_several_and_short(machine: Machine) -> None:
    machine.install(
        ".pyenv/versions/3.9.1", ".pyenv/versions/3.11.9", ".pyenv/versions/3.11.10", ".pyenv/versions/work"
    )
    machine.install(".pyenv/versions/3.11.11-dev", ".pyenv/versions/3.9.1/envs/x")
    folders = machine.folders(".python-version", "3.11 # the newest\n3.9.1 work system\n")
    assert folders == [f".pyenv/versions/{one}/bin" for one in ("3.11.10", "3.9.1", "work")]
    assert machine.folders(".python-version", "3.9.1/envs/x") == [".pyenv/versions/3.9.1/envs/x/bin"]
    assert machine.folders(".python-version", "python-3.9.1") == [".pyenv/versions/3.9.1/bin"]
    assert machine.folders(".python-version", "system") == []


@pytest.mark.parametrize(
    ("name", "text", "root"),
    [
        (".python-version", "3.9.1\nsystem\n3.11.2\n", ".pyenv/versions"),
        (".tool-versions", "python 3.9.1 system 3.11.2\n", ".asdf/installs/python"),
    ],
)
def test_versions_behind_the_systems_come_behind_it(
    machine: Machine, name: str, text: str, root: str
) -> None:
    # `pyenv which python3` is /usr/bin/python3 with `system` first.
    machine.install(f"{root}/3.9.1", f"{root}/3.11.2")
    result = machine.resolve(name, text)
    assert [(one.op, one.values) for one in result.operations] == [
        ("prepend", (f"{machine.home}/{root}/3.9.1/bin",)),
        ("append", (f"{machine.home}/{root}/3.11.2/bin",)),
    ]
    assert result.own


def test_a_version_that_is_not_installed_is_missing(machine: Machine) -> None:
    machine.install(".pyenv/versions/3.9.1", ".rbenv/versions/3.1.0", ".nodenv/versions/20.1.0")
    assert machine.missing(".python-version", "3.9.1 3.12\n") == (
        "pyenv 3.12: `pyenv install 3.12` (./.python-version:1)"
    )
    (machine.root / ".python-version").unlink()
    assert machine.missing(".ruby-version", "3.1\n") == "rbenv 3.1: `rbenv install 3.1` (./.ruby-version:1)"
    (machine.root / ".ruby-version").unlink()
    assert machine.missing(".node-version", "18") == "nodenv 18: `nodenv install 18` (./.node-version:1)"


@pytest.mark.parametrize("name", ["my-project", "app311", "venv"])
def test_a_name_that_pyenv_does_not_install_is_a_virtual_environment(machine: Machine, name: str) -> None:
    machine.install(".pyenv/versions/3.9.1")
    assert machine.missing(".python-version", name) == (
        f"pyenv {name}: `pyenv virtualenv {name}` makes a virtual environment with this name "
        "(./.python-version:1)"
    )
    for other in ("pypy3.10-7.3.12", "miniforge3-latest", "python-3.8"):
        assert f"`pyenv install {other}`" in machine.missing(".python-version", other)


@pytest.mark.parametrize("name", ["..", "../../x", "/etc", "3.9.1/../../x", "a:b", "*"])
def test_a_version_leads_nowhere_else(machine: Machine, name: str) -> None:
    machine.install(
        ".pyenv/versions/3.9.1", ".pyenv/x", "x", ".asdf/installs/ruby/1", ".nvm/versions/node/v1.0.0"
    )
    for file in FILES:
        (machine.root / file).unlink(missing_ok=True)
    assert machine.resolve(".python-version", name).state == "missing"
    (machine.root / ".python-version").unlink()
    assert machine.resolve(".tool-versions", f"ruby {name}").state == "missing"
    assert machine.resolve(".tool-versions", f"{name} 1").state == "missing"
    (machine.root / ".tool-versions").unlink()
    assert machine.resolve(".nvmrc", name).state == "missing"


def test_ruby_and_node_take_the_first_word(machine: Machine) -> None:
    machine.install(".rbenv/versions/3.1.0", ".nodenv/versions/20.1.0")
    assert machine.folders(".ruby-version", "ruby-3.1.0 x\n") == [".rbenv/versions/3.1.0/bin"]
    (machine.root / ".ruby-version").unlink()
    for text in ("20.1.0", "v20.1.0\r\n", "node-v20.1.0", "node-20.1.0 y"):
        assert machine.folders(".node-version", text) == [".nodenv/versions/20.1.0/bin"]


@pytest.mark.parametrize("text", ["20.1.0", "v20.1.0", "node-20.1.0", "node-v20.1.0", "18.0.0", "system"])
def test_nodenv_says_the_same(machine: Machine, text: str) -> None:
    machine.install(".nodenv/versions/20.1.0")
    as_told("nodenv", machine, ".node-version", text)


@pytest.mark.parametrize("text", ["3.1.0", "3.1.0 and more", "3.1.0\r\n", "2.7.0", "system"])
def test_rbenv_says_the_same(machine: Machine, text: str) -> None:
    machine.install(".rbenv/versions/3.1.0")
    as_told("rbenv", machine, ".ruby-version", text)


def as_told(manager: str, machine: Machine, file: str, text: str) -> None:
    """The manager itself finds the folder that we find, or finds none, as we do."""
    result = machine.resolve(file, text)
    root = f"{machine.home}/.{manager}"
    told = subprocess.run(
        [program(manager), "version-name"],
        cwd=machine.root,
        env={"PATH": "/usr/bin:/bin", "HOME": str(machine.home), f"{manager.upper()}_ROOT": root},
        capture_output=True,
        text=True,
    )
    name = told.stdout.strip()
    if told.returncode:
        assert result.state == "missing"
    else:
        expected = [] if name == "system" else [(f"{root}/versions/{name}/bin",)]
        assert [one.values for one in result.operations] == expected


def test_the_managers_variables_move_them(machine: Machine) -> None:
    machine.install("p/versions/3.9.1", "n/versions/node/v1.0.0", "f/node-versions/v2.0.0/installation")
    home = str(machine.home)
    assert machine.folders(".python-version", "3.9.1", PYENV_ROOT=f"{home}/p") == ["p/versions/3.9.1/bin"]
    (machine.root / ".python-version").unlink()
    assert machine.folders(".nvmrc", "1", NVM_DIR=f"{home}/n") == ["n/versions/node/v1.0.0/bin"]
    assert machine.folders(".nvmrc", "2", FNM_DIR=f"{home}/f") == ["f/node-versions/v2.0.0/installation/bin"]


def test_what_a_manager_had_active_does_not_count(machine: Machine) -> None:
    machine.install(".pyenv/versions/3.9.1", ".pyenv/versions/3.10.0")
    folders = machine.folders(".python-version", "3.9.1", PYENV_VERSION="3.10.0", VIRTUAL_ENV="/x")
    assert folders == [".pyenv/versions/3.9.1/bin"]


# nvm and fnm


@pytest.fixture
def nvm(machine: Machine) -> Machine:
    machine.install(*(f".nvm/versions/node/v{one}" for one in ("18.2.0", "18.20.4", "20.1.0", "9.0.0")))
    machine.write(".nvm/alias/default", "20\n")
    machine.write(".nvm/alias/lts/*", "lts/hydrogen\n")
    machine.write(".nvm/alias/lts/hydrogen", "v18.20.4\n")
    machine.write(".nvm/alias/lts/iron", "v20.19.0\n")
    machine.write(".nvm/alias/a", "b")
    machine.write(".nvm/alias/b", "a")
    return machine


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("v18.2.0\n", "18.2.0"),
        ("18", "18.20.4"),
        ("18.2", "18.2.0"),
        ("# comment\nnode # newest\n", "20.1.0"),
        ("stable", "20.1.0"),
        ("default", "20.1.0"),
        ("lts/*", "18.20.4"),
        ("lts/hydrogen", "18.20.4"),
    ],
)
def test_nvm_exports_what_use_would(nvm: Machine, text: str, version: str) -> None:
    result = nvm.resolve(".nvmrc", text)
    place = f"{nvm.home}/.nvm/versions/node/v{version}"
    origin = Origin("provider", "nvm: .nvmrc", f"{nvm.root}/.nvmrc", 2 if text.startswith("#") else 1)
    assert (result.state, result.set, result.operations, result.origins) == (
        "applied",
        {"NVM_DIR": f"{nvm.home}/.nvm", "NVM_BIN": f"{place}/bin", "NVM_INC": f"{place}/include/node"},
        (Operation("PATH", "prepend", (f"{place}/bin",), origin),),
        dict.fromkeys(("NVM_DIR", "NVM_BIN", "NVM_INC"), origin),
    )


@pytest.mark.parametrize("text", ["lts/iron", "22", "18.3", "a", "iojs", "v18.20.4-rc"])
def test_nvm_has_not_installed_it(nvm: Machine, text: str) -> None:
    assert nvm.missing(".nvmrc", text) == f"node {text}: `nvm install {text}` (./.nvmrc:1)"


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("18\n20\n", 1, "nvm takes one version: remove the other lines"),
        ("# x\n18\n\nnode # y", 2, "nvm takes one version: remove the other lines"),
        (">=14", 1, "nvm takes no range of versions: write one, such as 20 or lts/*"),
        ("^18.2.0\n", 1, "nvm takes no range of versions: write one, such as 20 or lts/*"),
        ("18 || 20\n", 1, "nvm takes no range of versions: write one, such as 20 or lts/*"),
    ],
)
def test_what_nvm_refuses_is_told_and_not_applied(nvm: Machine, text: str, line: int, why: str) -> None:
    result = nvm.resolve(".nvmrc", text)
    assert (result.state, result.set, result.operations) == ("failed", {}, ())
    assert result.note == f"{nvm.root}/.nvmrc:{line}: {why}"


def test_nvms_system_is_what_is_there(nvm: Machine) -> None:
    result = nvm.resolve(".nvmrc", "system")
    assert (result.state, result.set, result.operations) == ("applied", {}, ())


def test_fnm_is_read_without_its_links(machine: Machine) -> None:
    place = ".local/share/fnm/node-versions/v20.1.0/installation"
    machine.install(place)
    machine.write(".local/share/fnm/aliases/x", "")
    (machine.home / ".local/share/fnm/aliases/work").symlink_to(machine.home / place)
    for name in (".nvmrc", ".node-version"):
        for text in ("20", "v20.1.0", "work"):
            assert machine.folders(name, text) == [f"{place}/bin"]
        assert machine.missing(name, "21") == f"node 21: `fnm install 21` (./{name}:1)"
        (machine.root / name).unlink()


def test_of_two_files_for_node_one_is_enough(nvm: Machine) -> None:
    (nvm.root / ".node-version").write_text("99")
    assert nvm.folders(".nvmrc", "20") == [".nvm/versions/node/v20.1.0/bin"]


# asdf


def test_asdfs_tools_each_have_their_line(machine: Machine) -> None:
    machine.install(
        ".asdf/installs/ruby/3.1.0", ".asdf/installs/python/3.9.1", ".asdf/installs/python/2.7.18"
    )
    machine.install(".asdf/installs/go/ref-abc", "own")
    machine.write(".asdf/plugins/go/bin/exec-env", "")
    machine.write(".asdf/plugins/ruby/bin/list-bin-paths", "")
    text = (
        f"# tools\nruby 3.1.0 # x\n\npython 3.9.1 2.7.18 system\ngo ref:abc\nnode path:{machine.home}/own\n"
    )
    result = machine.resolve(".tool-versions", text)

    def expected(line: int, *paths: str) -> Operation:
        origin = Origin("provider", "asdf: .tool-versions", f"{machine.root}/.tool-versions", line)
        return Operation("PATH", "prepend", tuple(f"{machine.home}/{path}/bin" for path in paths), origin)

    assert result.operations == (
        expected(2, ".asdf/installs/ruby/3.1.0"),
        expected(4, ".asdf/installs/python/3.9.1", ".asdf/installs/python/2.7.18"),
        expected(5, ".asdf/installs/go/ref-abc"),
        expected(6, "own"),
    )
    assert result.lost == (
        Lost("hook", "list-bin-paths of asdf's plugin ruby", "session"),
        Lost("hook", "exec-env of asdf's plugin go", "session"),
    )


def test_everything_that_asdf_lacks_is_named(machine: Machine) -> None:
    machine.install(".asdf/installs/ruby/3.1.0")
    assert machine.missing(".tool-versions", "ruby 3.1.0\ngo 1.2\npython\nnode 20 21\n") == (
        "go 1.2: `asdf install go 1.2` (./.tool-versions:2); "
        "python: write a version after the name (./.tool-versions:3); "
        "node 20: `asdf install node 20` (./.tool-versions:4); "
        "node 21: `asdf install node 21` (./.tool-versions:4)"
    )


def test_names_that_are_no_plugins_are_told_as_such(machine: Machine) -> None:
    machine.install(".asdf/installs/ruby/3.1.0", ".asdf/plugins/ruby")
    assert machine.missing(".tool-versions", "helm/helm 3.16.3\nruby 9\ngo 1.2\n") == (
        "helm/helm is no name of a plugin: write `helm`, if that is the plugin (./.tool-versions:1); "
        "ruby 9: `asdf install ruby 9` (./.tool-versions:2); "
        "go 1.2: `asdf plugin add go && asdf install go 1.2` (./.tool-versions:3)"
    )


# Several files


def test_several_languages_go_together(nvm: Machine) -> None:
    nvm.install(".pyenv/versions/3.9.1")
    (nvm.root / ".python-version").write_text("3.9.1")
    (nvm.root / ".ruby-version").write_text("3.1.0")
    result = nvm.resolve(".nvmrc", "20")
    assert result.producer == "pyenv, nvm"
    assert result.note == "no installed version manager reads .ruby-version"
    assert [one.values[0].removeprefix(f"{nvm.home}/") for one in result.operations] == [
        ".pyenv/versions/3.9.1/bin",
        ".nvm/versions/node/v20.1.0/bin",
    ]
    assert f"{nvm.home}/.nvm/versions/node" in result.watch


def test_one_that_is_missing_keeps_all_of_them_away(nvm: Machine) -> None:
    nvm.install(".pyenv/versions/3.9.1")
    (nvm.root / ".python-version").write_text("3.9.1")
    assert nvm.missing(".nvmrc", "99") == "node 99: `nvm install 99` (./.nvmrc:1)"


def test_what_a_file_says_stays_one_word_in_what_people_are_told_to_type(machine: Machine) -> None:
    machine.install(".pyenv/versions/3.12.1")
    result = machine.resolve(".python-version", "3.1;touch${IFS}x\n")
    assert "`pyenv install '3.1;touch${IFS}x'`" in result.note


def test_what_is_installed_is_the_users_and_what_a_repository_brings_is_not(machine: Machine) -> None:
    machine.install(".asdf/installs/node/20", "mine")
    shutil.rmtree(machine.root / ".git")
    git(machine.root, "init", "-q")
    assert machine.resolve(".tool-versions", "node 20\n").own
    assert machine.resolve(".tool-versions", f"node path:{machine.home}/mine\n").own
    (machine.root / "theirs/bin").mkdir(parents=True)
    (machine.root / "theirs/bin/node").write_text("")
    assert machine.resolve(".tool-versions", "node path:theirs\n").own  # made here: git knows nothing of it
    git(machine.root, "add", "theirs")
    assert not machine.resolve(".tool-versions", "node path:theirs\n").own
    assert not machine.resolve(".tool-versions", "node 20\npython path:theirs\n").own
    around = machine.resolve(".tool-versions", f"node path:{machine.home}/.asdf/../../project/theirs\n")
    assert not around.own
