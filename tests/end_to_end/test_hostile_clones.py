"""A stranger's clone decides nothing: no program of it runs, and its variables do not arrive.

The commands are what anybody types first in a clone. They run through the real server, in an environment that
is a person's own, in which nothing was ever allowed.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import outfitter
from outfitter.env.names import HARMLESS, is_runtime
from tests.support.contracts import variables
from tests.support.machine import SECOND
from tests.support.tools import needs_linux

from .hostile_clones import CLONES, Clone

AT_ONCE = 4


class Ground:
    """A home, an environment, and clones in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        # Version managers that the user has, so that a project's files are heeded.
        for name in (
            ".asdf/installs",
            ".nvm/versions/node",
            ".pyenv/versions",
            ".rbenv/versions",
            ".nodenv/versions",
        ):
            (self.home / name).mkdir(parents=True)
        self.template = folder / "template"
        self.env = {
            "HOME": str(self.home),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        if cargo := shutil.which("cargo"):
            self.env["PATH"] += f":{os.path.dirname(cargo)}"
        self.git(folder, "init", "-q", "-b", "main", "template")

    def git(self, cwd: Path, *words: str) -> None:
        subprocess.run(["git", *words], cwd=cwd, env=self.env, check=True)

    def mark(self, clone: Clone) -> Path:
        return self.folder / f"{clone.name}.mark"

    def clone(self, clone: Clone) -> Path:
        root = self.folder / clone.name
        shutil.copytree(self.template, root)
        for name, text in clone.files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            text = self.text(clone, text)
            if text.startswith("->"):
                path.symlink_to(text[2:])
                continue
            path.write_text(text)
            path.chmod(0o755 if text.startswith("#!") else 0o644)
        self.git(root, "add", "--all", "--force")
        return root

    def text(self, clone: Clone, text: str) -> str:
        return text.replace("MARK", str(self.mark(clone))).replace("ROOT", str(self.folder / clone.name))


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    yield Ground(tmp_path_factory.mktemp("clones") / "all")


def script(commands: Sequence[str]) -> list[str]:
    """Says what there is, then runs the commands, whatever becomes of them."""
    quiet = " >/dev/null 2>&1 </dev/null"
    return ["/bin/sh", "-c", "/usr/bin/env -0\n" + "".join(f"{one}{quiet}\n" for one in commands) + "exit 0"]


async def run(
    client: outfitter.Client, ground: Ground, clone: Clone, commands: Sequence[str], **env: str
) -> dict[str, str]:
    cwd = str(ground.folder / clone.name / clone.below)
    contract = outfitter.EnvContract(overlays=clone.overlays)
    argv = script(commands)
    done = await client.run(argv, cwd=cwd, contract=contract, env=env, timeout=60 * SECOND)
    assert done.exit_code == 0, (clone.name, done.stderr)
    return variables(done.stdout)


def of_everyone(values: dict[str, str]) -> dict[str, str]:
    """Without what the shell and we keep ourselves."""
    own = ("PWD", "OLDPWD", "SHLVL", "_")
    return {name: value for name, value in values.items() if name not in own and not is_runtime(name)}


def test_no_clone_runs_anything_or_sets_what_matters(ground: Ground) -> None:
    assert len({clone.name for clone in CLONES}) == len(CLONES) >= 60
    for clone in CLONES:
        ground.clone(clone)

    async def scenario() -> None:
        turn = asyncio.Semaphore(AT_ONCE)
        async with outfitter.local(environment=ground.env) as client:
            expected = of_everyone(await run(client, ground, Clone("home", {}), ()))
            assert expected.items() >= ground.env.items()

            async def one(clone: Clone) -> None:
                async with turn:
                    got = of_everyone(await run(client, ground, clone, clone.commands))
                path = got.pop("PATH")
                assert f"{path}:".startswith(f"{ground.env['PATH']}:"), clone.name
                more = {name for name in got if name not in expected}
                assert more <= set(HARMLESS), clone.name
                assert {name: got.get(name) for name in expected if name != "PATH"} == {
                    name: value for name, value in expected.items() if name != "PATH"
                }, clone.name
                assert not ground.mark(clone).exists(), clone.name

            await asyncio.gather(*map(one, CLONES))

    asyncio.run(scenario())


BITING = [clone for clone in CLONES if clone.bites]


def test_those_clones_are_hostile_indeed(tmp_path: Path) -> None:
    """Else the test above would show nothing: what they want to set does run their code, once it is set."""
    needs_linux("Node.js")
    ground = Ground(tmp_path / "all")

    async def scenario() -> None:
        async with outfitter.local(environment=ground.env) as client:
            for clone in BITING:
                if shutil.which(clone.bites.split()[0], path=ground.env["PATH"]) is None:
                    continue
                ground.clone(clone)
                given = {name: ground.text(clone, value) for name, value in clone.given.items()}
                await run(client, ground, clone, [clone.bites], **given)
                assert ground.mark(clone).exists(), clone.name

    assert len(BITING) >= 12
    asyncio.run(scenario())
