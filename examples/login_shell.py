"""Runs a login shell whose profile changes PATH, brings a token back and changes the directory."""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

import outfitter

PROFILE = """
export PATH="$HOME/old/bin:$PATH"
export DEPLOY_TOKEN=reintroduced
cd /
"""
PROJECT = """
[env]
set = { STAGE = "test", DEPLOY_TOKEN = "the project's", LD_PRELOAD = "/tmp/hook.so" }
prepend = { PATH = ["bin"] }
"""
POLICY = outfitter.EnvPolicy(exclude=["*TOKEN*"])
COMMAND = ["bash", "-lc", 'echo "${PATH%%:*}, stage $STAGE, ${DEPLOY_TOKEN-no token}, in $PWD"']


def trust(project: Path, environment: dict[str, str]) -> None:
    """What a person does who has read the project's file."""
    command = [sys.executable, "-m", "outfitter", "trust", "--yes", str(project)]
    subprocess.run(command, env=environment, check=True, capture_output=True)


async def main(root: Path) -> None:
    project, home = root / "project", root / "home"
    for folder in (project, home):
        folder.mkdir()
    (project / "outfitter.toml").write_text(PROJECT)
    (home / ".bash_profile").write_text(PROFILE)
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(home), "DEPLOY_TOKEN": "the executor's"}
    trust(project, environment)
    async with outfitter.local(environment=environment, summaries=True) as client:
        for startup in ("enforce", "repair", "report"):
            contract = outfitter.EnvContract(startup=startup)
            done = await client.run(COMMAND, cwd=str(project), policy=POLICY, contract=contract)
            print(f"{startup}: {done.stdout.decode().replace(str(root), '')}", end="")
        assert done.startup is not None  # as we asked for summaries
        for change in done.startup["changes"]:
            if change.get("file", "").startswith(str(home)):
                print(
                    f"  {change['kind']} {change['name']} by {change['file']}:{change['line']}".replace(
                        str(root), ""
                    )
                )
        told = await client.explain(cwd=str(project), policy=POLICY)
        for refused in told["refused"]:
            print(f"refused to {refused['layer']} {refused['id']}: {refused['name']}: {refused['why']}")


with tempfile.TemporaryDirectory() as scratch:
    asyncio.run(main(Path(scratch).resolve()))
