"""A command in a sandbox behind a tool that makes its environment: the tool reads what was allowed."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator

import pytest

import outfitter
from outfitter.core.sandbox import Sandbox
from tests.support.contracts import PATH, Place, wait_for
from tests.support.sandboxes import elsewhere
from tests.support.tools import program

GOOD = """\
export WRAPPED=good SECRET_TOKEN=back
[ ! -e broken ] || { echo out of order >&2; exit 3; }
touch outside 2>/dev/null && export WROTE=1
"""


class Wrapped(Place):
    """A project with an allowed .envrc, whose commands direnv starts; its bash waits when it is told to."""

    def environ(self, **more: str) -> dict[str, str]:
        tools = f"{self.folder}/bin:{os.path.dirname(program('direnv'))}:{PATH}"
        return super().environ(PATH=tools, **more)

    def prepare(self) -> None:
        self.user(
            '[shell_environment_policy]\nexclude = ["SECRET_*"]\n[providers]\nmodes = { direnv = "wrap" }\n'
        )
        self.write(self.project / ".envrc", GOOD)
        subprocess.run([program("direnv"), "allow", str(self.project)], env=self.environ(), check=True)
        for name in ("asked", "answered"):
            os.mkfifo(self.folder / name)
        wait = "[ ! -e armed ] || { echo >asked; read x <answered; }"
        text = f'#!/bin/sh\n(cd {self.folder} && {wait})\nexec /bin/bash "$@"\n'
        self.write(self.folder / "bin/bash", text)
        (self.folder / "bin/bash").chmod(0o755)

    def swap(self) -> None:
        """Another .envrc takes the place of the allowed one, while direnv has begun to read it."""
        (self.folder / "asked").read_text()
        (self.folder / "armed").unlink()
        self.write(self.project / "new", f"touch {self.folder}/evil; export WRAPPED=evil\n")
        (self.project / "new").rename(self.project / ".envrc")
        (self.folder / "answered").write_text("\n")


@pytest.fixture
def place() -> Iterator[Wrapped]:
    program("bwrap")
    with elsewhere() as folder:
        place = Wrapped(folder)
        place.prepare()
        yield place


def test_the_tool_reads_what_was_allowed_and_the_command_what_is_there(place: Wrapped) -> None:
    sandbox = Sandbox.read_only()
    script = 'echo "$WRAPPED$WROTE$SECRET_TOKEN"; pwd; cat .envrc; touch made 2>/dev/null || echo closed'

    async def scenario() -> None:
        async with outfitter.local(environment=place.environ()) as client:
            argv, cwd = ["sh", "-c", script], str(place.project)
            ran = await client.run(argv, cwd=cwd, sandbox=sandbox)
            assert (ran.stdout.decode(), ran.stderr) == (f"good\n{cwd}\n{GOOD}closed\n", b"")
            (place.folder / "armed").touch()
            swapping = asyncio.create_task(asyncio.to_thread(place.swap))
            ran = await client.run(argv, cwd=cwd, sandbox=sandbox)
            await swapping
            evil = (place.project / ".envrc").read_text()
            assert (ran.stdout.decode(), ran.stderr) == (f"good\n{cwd}\n{evil}closed\n", b"")
            ran = await client.run(argv, cwd=cwd, sandbox=sandbox)
            assert ran.stdout.decode() == f"\n{cwd}\n{evil}closed\n"  # nobody has allowed that one
        assert not (place.folder / "evil").exists()

    wait_for(scenario())


def test_what_a_tool_cannot_do_is_what_came_of_the_command(place: Wrapped) -> None:
    async def scenario() -> None:
        async with outfitter.local(environment=place.environ()) as client:
            cwd, sandbox = str(place.project), Sandbox.workspace_write()
            ran = await client.run(["sh", "-c", "echo $WROTE; exit 7"], cwd=cwd, sandbox=sandbox)
            assert (ran.exit_code, ran.stdout) == (7, b"1\n"), ran.stderr
            (place.project / "broken").touch()
            ran = await client.run(["echo", "no"], cwd=cwd, sandbox=sandbox)
            assert (ran.exit_code, ran.stdout) == (1, b"")
            assert b"out of order" in ran.stderr
            with pytest.raises(outfitter.OutfitterError, match="arg0 is lost"):
                await client.start(["sh"], arg0="-sh", cwd=cwd, sandbox=sandbox)

    wait_for(scenario())
