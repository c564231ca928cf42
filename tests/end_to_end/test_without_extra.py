"""An installation without the `speed` extra: server and client do all the same, large messages included."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers import end

CLIENT = """
import asyncio, importlib.util, sys
import outfitter

async def main():
    data = bytes(range(256)) * 4097
    async with outfitter.connect(sys.argv[1]) as client:
        await client.files.write(sys.argv[2], data)
        assert await client.files.read(sys.argv[2]) == data
    print(len(data), importlib.util.find_spec("websockets"))

asyncio.run(main())
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Of an interpreter that finds Outfitter, what it depends on, and no other package."""
    packages = tmp_path / "packages"
    packages.mkdir()
    for name in ("outfitter", "pybase64", "click"):
        found = importlib.util.find_spec(name)
        assert found is not None and found.submodule_search_locations is not None
        (packages / name).symlink_to(found.submodule_search_locations[0])
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(packages)}


def test_large_message_goes_both_ways_without_the_extra(environment: dict[str, str], tmp_path: Path) -> None:
    python = [sys.executable, "-S"]
    server = subprocess.Popen(
        [*python, "-m", "outfitter", "serve", "--listen", "ws://127.0.0.1:0"],
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
    )
    try:
        assert server.stdout is not None
        url = server.stdout.readline().decode().strip()
        done = subprocess.run(
            [*python, "-c", CLIENT, url, str(tmp_path / "file")],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.stdout, done.stderr) == ("1048832 None\n", "")
    finally:
        end(server)
