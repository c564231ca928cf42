"""Uses environments by name, for one step of work at a time, and remembers what was selected on them."""

import asyncio
import sys
import tempfile
from pathlib import Path

from outfitter.environments import EnvironmentManager, SelectedRoot, Selection, load, resolve

CONFIGURATION = f"""
default = "build"

[[environments]]
id = "build"
program = {sys.executable!r}
args = ["-m", "outfitter", "serve", "--listen", "stdio"]

[[environments]]
id = "gone"
url = "ws://127.0.0.1:1"
"""

# A selection outlives the program: it is plain data, and says nothing about what is reachable now.
SELECTION = Selection(
    [SelectedRoot("skills", "build", "/srv/skills"), SelectedRoot("more", "gone", "/srv/more")]
)


async def main(folder: str) -> None:
    configuration = load({"OUTFITTER_HOME": folder})
    async with EnvironmentManager(configuration) as manager, manager.step() as step:
        default = step.default()
        assert default is not None
        client = await default.client()  # starts the program, which stays up for the next step
        done = await client.run(["echo", f"on {default.id}"])
        print(done.stdout.decode().strip())

        roots = await resolve(Selection.from_json(SELECTION.to_json()), step)
        for found in roots.available:
            print(f"{found.root.id}: {found.root.path.text} on {found.environment.id}")
        for missing in roots.omitted:
            print(f"{missing.root.id}: not now: {missing.reason}")


with tempfile.TemporaryDirectory() as folder:
    Path(folder, "environments.toml").write_text(CONFIGURATION)
    asyncio.run(main(folder))
