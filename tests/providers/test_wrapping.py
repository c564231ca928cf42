"""Tools that start each command themselves, the real ones: what a command gets, and what comes of it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from outfitter.contract.frozen import frozen_words
from outfitter.env.ahead import words
from outfitter.host.tools import ahead, behind
from outfitter.host.tools.frozen import FrozenFiles
from outfitter.providers.base import Resolution
from outfitter.providers.direnv import Direnv
from outfitter.providers.mise import Mise
from outfitter.providers.nix import Nix
from outfitter.providers.python import Python
from tests.support.machine import SECOND, wait_until
from tests.support.tools import ROOT, program

from .project import PATH, Project
from .test_nix import FLAKE, SETUP

if TYPE_CHECKING:
    from outfitter.providers.base import Provider

# Each asks and starts real tools, one after the other, and the first one makes the project.
pytestmark = pytest.mark.timeout(600 * SECOND)

ARGUMENTS = [
    *("a b", "c'd", 'e"f', "g\nh", "--help", "-c", "--", "", "$HOME", "${HOME}", "$(false)", "`x`"),
    *("{root}", "{args}", "*", "~", "\\", "\\n", "%s", "a=b", "ä", "!", "#"),
]
# A name that says Python, with a sign that says variable: it is a shell's all the same.
PROBE = "bin/a=b.py"
SCRIPT = """\
#!/bin/sh
if [ "$1" = wait ]; then
    sleep 600 &
    echo $$
    wait
fi
printf '%s\\0' "$PWD" "${WRAPPED-}${VIRTUAL_ENV-}" "$@"
exit 7
"""


class Place(Project):
    """A project in which every command has WRAPPED or VIRTUAL_ENV from its tool."""

    def __init__(self, folder: Path, tool: str) -> None:
        super().__init__(folder.resolve())
        program(tool)
        self.env["PATH"] = f"{ROOT}/.tools/bin:{PATH}"
        self.probe = str(self.write(PROBE, SCRIPT, 0o755))
        self.tool = tool
        self.provider, self.value = MAKERS[tool](self)
        self.said = self.resolve()

    def run(self, *words: str) -> None:
        """What a person types."""
        subprocess.run(words, cwd=self.root, env=self.env, check=True, capture_output=True)

    def venv(self) -> str:
        self.run(program("uv"), "venv", "--offline", "--quiet", "--python", program("python3"), ".venv")
        return str(self.root / ".venv")

    def resolve(self) -> Resolution:
        found = self.provider.detect(str(self.root))
        assert found is not None
        context = self.context(mode="wrap")
        assert self.provider.plan(found, context)[-1][-1] == "COMMAND"
        said = self.provider.resolve(found, context)
        assert said.state == "applied", (said.note, said.stderr_tail)
        return said

    def frozen(self) -> list[str]:
        """What goes in front of a command so that the tool sees files as they were checked."""
        found, context = self.provider.detect(str(self.root)), self.context(mode="wrap")
        assert found is not None
        files = FrozenFiles(str(self.root), self.provider.trust(found, context).files)
        tool = [*self.said.prefix, *behind.program_words()]
        return [*ahead.program_words(), *words([frozen_words(files)], tool), "--"]

    def start(self, said: Resolution, *arguments: str, prefix: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        below = self.root / "bin"
        return subprocess.Popen(
            [*(prefix or said.prefix), self.probe, *arguments],
            cwd=below,
            env={**self.env, "PWD": str(below)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def direnv(place: Place) -> tuple[Provider, str]:
    place.write(".envrc", "export WRAPPED=1\n")
    place.run("direnv", "allow", ".")
    return Direnv(), "1"


def mise(place: Place) -> tuple[Provider, str]:
    place.write("mise.toml", '[env]\nWRAPPED = "1"\n')
    place.run("env", "MISE_PARANOID=1", "mise", "trust", "mise.toml")
    return Mise(), "1"


def nix(place: Place) -> tuple[Provider, str]:
    store = place.home / "nix"
    (place.home / ".config/nix").mkdir(parents=True)
    (place.home / ".config/nix/nix.conf").write_text(
        "build-users-group =\nsandbox = false\n"
        f"store = local?store={store}/store&state={store}/var&log={store}/log\n"
    )
    place.env["TMPDIR"] = str(place.home)
    place.write("stdenv/setup", SETUP)
    place.write("value.nix", '"yes"\n')
    place.write("flake.nix", (FLAKE % "").replace("HOOKED", "WRAPPED"))
    place.run("git", "init", "--quiet")
    place.run("git", "add", ".")
    return Nix(), "1"


def uv(place: Place) -> tuple[Provider, str]:
    place.write("pyproject.toml", '[project]\nname = "x"\nversion = "0"\nrequires-python = ">=3.9"\n')
    place.run("uv", "lock", "--offline", "--quiet")
    return Python(), place.venv()


def poetry(place: Place) -> tuple[Provider, str]:
    place.write("pyproject.toml", "[tool.poetry]\npackage-mode = false\n")
    return Python(), place.venv()


MAKERS: dict[str, Callable[[Place], tuple[Provider, str]]] = {
    "direnv": direnv,
    "mise": mise,
    "nix": nix,
    "uv": uv,
    "poetry": poetry,
}
# Those that stay a command's parent, with the status that tells SIGTERM.
PARENTS = {"uv": 143}


@pytest.fixture(scope="module")
def places() -> dict[str, Place]:
    return {}


@pytest.fixture
def place(
    places: dict[str, Place], tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Place]:
    """One for each tool: some take seconds to be asked."""
    tool = request.param
    if tool not in places:
        places[tool] = Place(tmp_path_factory.mktemp(tool), tool)
    yield places[tool]
    # What a tool does behind a command's back takes a moment to end.
    wait_until(lambda: places[tool].left_behind() == [], "nothing is left", 30 * SECOND)


each = pytest.mark.parametrize("place", MAKERS, indirect=True)


@each
def test_a_command_gets_its_arguments_its_folder_and_its_status(place: Place) -> None:
    said = place.said
    assert (said.set, said.unset, said.operations) == ({}, (), ())
    assert all(one.kept_by == "session" for one in said.lost)
    assert said.note.startswith(f"commands are run as: {said.prefix[0]} ")
    assert os.path.isabs(said.prefix[0])
    done = place.start(said, *ARGUMENTS)
    out, _ = done.communicate()
    got = out.decode().split("\0")
    assert got[:2] == [str(place.root / "bin"), place.value]
    assert got[2:-1] == ARGUMENTS
    assert done.returncode == 7


@each
def test_a_command_is_the_same_if_the_files_of_its_tool_are_frozen(place: Place) -> None:
    done = place.start(place.said, *ARGUMENTS, prefix=place.frozen())
    out, _ = done.communicate()
    got = out.decode().split("\0")
    assert got[:2] == [str(place.root / "bin"), place.value]
    assert got[2:-1] == ARGUMENTS
    assert done.returncode == 7


@each
def test_a_signal_to_the_group_leaves_nothing(place: Place) -> None:
    said = place.said
    done = place.start(said, "wait")
    assert done.stdout is not None
    assert done.stdout.readline().strip().isdigit()
    os.killpg(done.pid, signal.SIGTERM)
    done.communicate()
    assert done.returncode in (-signal.SIGTERM, 128 + signal.SIGTERM)


@each
def test_a_signal_to_the_command_shows_in_the_tools_way(place: Place, request: pytest.FixtureRequest) -> None:
    tool = request.node.callspec.params["place"]
    said = place.said
    done = place.start(said, "wait")
    assert done.stdout is not None
    pid = int(done.stdout.readline())
    assert (pid == done.pid) is (tool not in PARENTS)
    os.kill(pid, signal.SIGTERM)
    assert done.wait() == PARENTS.get(tool, -signal.SIGTERM)
    os.killpg(done.pid, signal.SIGKILL)  # the command's own child
    done.communicate()


@pytest.mark.parametrize("place", ["mise"], indirect=True)
def test_a_file_that_changed_at_the_last_moment_is_not_evaluated_by_mise_either(place: Place) -> None:
    file, witness = place.root / "mise.toml", place.home / "evaluated"
    records = sorted((place.home / ".local/state/mise/trusted-configs").iterdir())
    before = file.read_text()
    file.write_text(f"""[env]\nX = "{{{{ exec(command='touch {witness}; echo x') }}}}"\n""")
    try:
        done = place.start(place.said)
        out, _ = done.communicate()
    finally:
        file.write_text(before)
    assert (done.returncode, out) == (1, b"")
    assert not witness.exists()
    # `mise exec` writes down that it trusts a file, where it can.
    assert sorted((place.home / ".local/state/mise/trusted-configs").iterdir()) == records
