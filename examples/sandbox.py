"""Runs a command that may write its workspace and nothing else, and says what was denied."""

import asyncio
import tempfile
from pathlib import Path

import outfitter
from outfitter import Sandbox

SCRIPT = "echo built > result.txt; cat notes.env; echo changed > ../outside.txt"


async def main() -> None:
    # Not below /tmp: a command in a workspace may write there, too.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        workspace = Path(folder) / "workspace"
        workspace.mkdir()
        (workspace / "notes.env").write_text("KEY=1\n")
        async with outfitter.local() as client:
            done = await client.run(
                ["sh", "-c", SCRIPT],
                cwd=str(workspace),
                sandbox=Sandbox.workspace_write(deny_read=["*.env"]),
            )
        print("exit code:", done.exit_code, "denied:", done.sandbox_denied, "stdout:", done.stdout)
        print("inside:", (workspace / "result.txt").read_text().strip())
        print("outside:", (Path(folder) / "outside.txt").exists())


asyncio.run(main())
