"""What was trusted is what runs: files that are swapped after they were checked are not what a tool reads."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from outfitter.contract.contract import Asked, Contract
from outfitter.contract.frozen import frozen_files, movable, top_of
from outfitter.contract.settings import Settings
from outfitter.env.behind import behind
from outfitter.env.layer import Layer
from tests.support.contracts import PATH, Place
from tests.support.tools import ROOT, missing, program

TOOLS = f"{ROOT}/.tools/bin"


class Race:
    """A project, and a tool in front of the real one which lets its files be swapped before it begins."""

    def __init__(self, folder: Path) -> None:
        self.place = Place(folder)
        self.root = self.place.project / "app"
        self.root.mkdir()
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.evil = folder / "evil"
        self.seen = folder / "seen"
        self.asked, self.answered = folder / "asked", folder / "answered"
        for path in (self.asked, self.answered):
            os.mkfifo(path)

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        self.place.write(path, text)
        return path

    def tool(self, name: str, then: str) -> None:
        """A program that has the files swapped once, from outside, and then does something."""
        once = f"mkdir {self.place.folder}/once 2>/dev/null && echo >{self.asked} && read x <{self.answered}"
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{once}\n{then}\n")
        path.chmod(0o755)

    def contract(self, **more: str) -> Contract:
        return self.place.contract(PATH=f"{self.bin}:{TOOLS}:{PATH}", **more)

    def grant(self, contract: Contract) -> None:
        """What `outfitter trust` does about the first provider here."""
        settings = contract.settings(str(self.root))
        use = contract.uses(str(self.root), settings)[0]
        values = contract.lower(Asked(str(self.root), {})).values
        trust = use.provider.trust(use.found, contract.projects.context(use, values, settings))
        contract.projects.store.grant(use.provider.id, use.found.root, trust.digest)

    def run(self, contract: Contract, swap: Callable[[], object]) -> Layer:
        """The layer that comes of it when files are swapped as soon as the tool begins."""

        def swapper() -> None:
            self.asked.read_text()
            swap()
            self.answered.write_text("\n")

        thread = threading.Thread(target=swapper)
        thread.start()
        try:
            outcome = contract.resolve(Asked(str(self.root), {}))
        finally:
            if not (self.place.folder / "once").exists():
                self.asked.write_text("\n")  # nothing was started
                self.answered.read_text()
            thread.join()
        assert (self.place.folder / "once").exists()
        [layer] = [layer for layer in outcome.layers if layer.level == 3]
        if "not meanwhile" in layer.note:
            pytest.skip(layer.note)
        return layer

    def replace(self, name: str, text: str) -> None:
        """As editors and git do: a new file is renamed onto the old one."""
        os.replace(self.write(f"{name}.new", text), self.root / name)


@pytest.fixture
def race(tmp_path: Path) -> Iterator[Race]:
    race = Race(tmp_path)
    yield race
    assert not race.evil.exists()


def test_direnv_sources_what_was_allowed(race: Race) -> None:
    # direnv compares a hash, and starts a bash that reads the file again.
    file = race.write(".envrc", f"export A=good; echo good >{race.seen}\n")
    env = {**race.place.environ(), "PATH": PATH}
    subprocess.run([program("direnv"), "allow", file], env=env, check=True, capture_output=True)
    race.tool("bash", 'exec /bin/bash "$@"')
    layer = race.run(race.contract(), lambda: race.replace(".envrc", f"touch {race.evil}\n"))
    assert race.seen.read_text() == "good\n"
    assert layer.state == "blocked"  # what is there now was never allowed


def test_nix_evaluates_what_was_allowed(race: Race) -> None:
    program("nix")
    home = race.place.home
    race.place.write(
        home / ".config/nix/nix.conf",
        "build-users-group =\nsandbox = false\n"
        f"store = local?store={home}/nix/store&state={home}/nix/var&log={home}/nix/log\n",
    )
    race.write("stdenv/setup", "export PATH=/bin\n")
    race.write("value.nix", '"good"\n')
    race.write(
        "shell.nix",
        'derivation { name = "shell"; system = builtins.currentSystem; builder = "/bin/bash"; '
        'outputs = [ "out" ]; stdenv = ./stdenv; VALUE = import ./value.nix; '
        "NAMES = toString (builtins.attrNames (builtins.readDir ./modules)); }\n",
    )
    race.write("modules/one.nix", "")
    race.write("modules/data", "")
    race.tool(
        "nix", f'{program("nix")} "$@" >{race.seen}.tmp && cp {race.seen}.tmp {race.seen} && cat {race.seen}'
    )
    contract = race.contract()
    race.grant(contract)

    def swap() -> None:
        race.replace("value.nix", '"evil"\n')
        race.write("modules/evil.nix", "")

    layer = race.run(contract, swap)
    assert '"good"' in race.seen.read_text()
    assert '"data one.nix"' in race.seen.read_text()  # what comes into a folder is not there for nix
    assert '"evil"' not in race.seen.read_text()
    assert layer.state == "blocked"


def test_mise_evaluates_what_was_allowed_and_no_file_that_comes(race: Race) -> None:
    mise = f"{TOOLS}/mise"
    if not os.path.exists(mise):
        missing("mise", "run `make tools`")
    template = """[env]\nX = "{{ exec(command='touch %s; echo x') }}"\n"""
    file = race.write("mise.toml", template % race.seen)
    race.write("mise/conf.d/versions.toml", "[tools]\n")
    # A plain trust is of a path: mise would evaluate whatever is there.
    env = {**race.place.environ(), "PATH": f"{TOOLS}:{PATH}"}
    subprocess.run([mise, "trust", file], env=env, check=True, capture_output=True)
    # One real question is enough, where it takes an emulator.
    race.tool("mise", f'case "$*" in *extended*) exec {mise} "$@" ;; ls*) echo "{{}}" ;; *) exit 1 ;; esac')

    def swap() -> None:
        race.replace("mise.toml", template % race.evil)
        race.write("mise.local.toml", template % race.evil)
        race.write("mise/conf.d/more.toml", template % race.evil)

    layer = race.run(race.contract(), swap)
    assert race.seen.exists()
    assert layer.state == "blocked"


FAKES = {  # by provider: its tool, how that is chosen, a trusted file, one that is not there
    "pixi": ("pixi", "", "pixi.toml", "pixi.lock"),
    "devenv": ("devenv", 'modes = { devenv = "capture" }', "devenv.nix", "devenv.lock"),
    "devbox": ("devbox", 'modes = { devbox = "capture" }', "devbox.json", "devbox.lock"),
    "conda": ("conda", 'conda = [".conda", "ask"]', ".conda/conda-meta/history", ".conda/conda-meta/state"),
    "hatch": ("hatch", "", "hatch.toml", "poetry.lock"),
    "poetry": ("poetry", "", "poetry.toml", "uv.lock"),
}


CONTENTS = {
    "hatch": '[envs.default]\ntype = "other"\n',
    "poetry": '[virtualenvs]\npath = "{cache-dir}/{other}"\n',
}


@pytest.mark.parametrize("name", FAKES)
def test_other_tools_see_what_was_allowed(race: Race, name: str) -> None:
    tool, said, file, absent = FAKES[name]
    id = "python" if name in CONTENTS else name
    race.place.says(f'[providers]\nuse = ["{id}"]\n{said}\n')
    good = CONTENTS.get(name, "# good\n")
    race.write(file, good)
    if name == "pixi":
        race.write(".pixi/envs/default/conda-meta/history", "")
    race.tool(tool, f"cat {race.root}/{file} {race.root}/{absent} >{race.seen} 2>/dev/null; exit 1")
    contract = race.contract()
    race.grant(contract)

    def swap() -> None:
        race.replace(file, "evil")
        race.write(absent, "evil")

    race.run(contract, swap)
    assert race.seen.read_text() == good


def test_the_folder_of_the_repository_is_the_top(tmp_path: Path) -> None:
    inner = tmp_path / "repository/a/b"
    inner.mkdir(parents=True)
    assert top_of(str(inner)) == str(inner)
    (tmp_path / "repository/.git").mkdir()
    (tmp_path / "link").symlink_to(inner)
    assert top_of(str(tmp_path / "link")) == str(tmp_path / "repository")


def test_who_does_not_want_it_is_told_what_that_means(race: Race) -> None:
    file = race.write(".envrc", "export A=good\n")
    env = {**race.place.environ(), "PATH": PATH}
    subprocess.run([program("direnv"), "allow", file], env=env, check=True, capture_output=True)
    contract = race.contract()
    contract.resolve(Asked(str(race.root), {}))
    race.place.user('[providers]\nfreeze = "off"\n')  # another answer than the one that is known
    outcome = contract.resolve(Asked(str(race.root), {}))
    [layer] = [layer for layer in outcome.layers if layer.level == 3]
    assert (layer.state, outcome.values["A"]) == ("applied", "good")
    assert layer.note == (
        "its files were checked before and after it ran, not meanwhile: "
        f'freeze = "off" ({race.place.user_file}:2)'
    )


def test_a_tool_that_starts_commands_is_told_what_was_checked(race: Race) -> None:
    file = race.write(".envrc", "export A=good\n")
    env = {**race.place.environ(), "PATH": PATH}
    subprocess.run([program("direnv"), "allow", file], env=env, check=True, capture_output=True)
    race.place.user('[providers.modes]\ndirenv = "wrap"\n')
    outcome = race.contract().resolve(Asked(str(race.root), {}))
    [layer] = [layer for layer in outcome.layers if layer.level == 3]
    assert behind(outcome).frozen == (layer.frozen,)
    if layer.frozen:
        assert layer.frozen == (str(race.place.project), str(file), sha256(b"export A=good\n").hexdigest())
    else:
        assert "not meanwhile" in layer.note  # the kernel forbids it
    race.place.user('[providers]\nfreeze = "off"\nmodes = { direnv = "wrap" }\n')
    outcome = race.contract().resolve(Asked(str(race.root), {}))
    [layer] = [layer for layer in outcome.layers if layer.level == 3]
    assert (layer.state, layer.prefix != (), layer.frozen) == ("applied", True, ())


def test_who_can_rename_the_repository_meanwhile_is_told(race: Race) -> None:
    file = race.write(".envrc", "export A=good\n")
    env = {**race.place.environ(), "PATH": PATH}
    subprocess.run([program("direnv"), "allow", file], env=env, check=True, capture_output=True)
    top, above = race.place.project, race.place.folder
    assert movable(str(top)) == ""
    above.chmod(0o1777)
    assert movable(str(top)) == ""  # what is ours stays in its place there
    above.chmod(0o777)
    assert movable(str(top)) == str(above)
    outcome = race.contract().resolve(Asked(str(race.root), {}))
    [layer] = [layer for layer in outcome.layers if layer.level == 3]
    if "not meanwhile" not in layer.note:
        assert layer.note == (
            f"who may write to {above} can rename {top} while it runs, and put another in its place"
        )
    assert movable(str(above / "not/there")) == str(above / "not")


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to give files away")
@pytest.mark.parametrize(
    ("mode", "owner", "group", "tops", "told"),
    [
        (0o755, 0, 0, 0, False),
        (0o755, 4321, 0, 0, True),
        (0o755, 65534, 0, 0, False),  # as root's are seen from some namespaces
        (0o775, 0, 0, 0, False),
        (0o775, 0, 4321, 0, True),
        (0o1775, 0, 4321, 0, False),
        (0o1777, 0, 0, 4321, True),
    ],
)
def test_who_can_rename_is_everybody_but_root_and_the_user(
    tmp_path: Path, mode: int, owner: int, group: int, tops: int, told: bool
) -> None:
    above, top = tmp_path / "above", tmp_path / "above/top"
    top.mkdir(parents=True)
    os.chown(top, tops, 0)
    os.chown(above, owner, group)
    above.chmod(mode)
    assert movable(str(top)) == (str(above) if told else "")


def test_a_folder_of_everybody_is_not_frozen(tmp_path: Path) -> None:
    files = {str(tmp_path / "file"): b""}
    tmp_path.chmod(0o1777)
    frozen = frozen_files(str(tmp_path), files, Settings())
    assert frozen is not None
    assert frozen.why == f"everybody may write to {tmp_path}"
    assert frozen_files(str(tmp_path), {}, Settings()) is None
