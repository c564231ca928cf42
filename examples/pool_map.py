"""Scores patches as SWE-bench does: each task clones a repository, applies a patch and runs the tests.

Each task has an executor and a workspace of its own. The argument is an engine, or a pool of pools.toml.
"""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

import outfitter

MODULE = "def double(number):\n    return number + number\n\n\ndef half(number):\n    return number * 2\n"
TESTS = "import unittest\nfrom numbers2 import double, half\n\n\nclass Tests(unittest.TestCase):\n"
TESTS += "    def test_both(self):\n        self.assertEqual((double(3), half(8)), (6, 4))\n"
PATCH = "--- a/numbers2.py\n+++ b/numbers2.py\n@@ -5,2 +5,2 @@\n"
PATCH += " def half(number):\n-    return number * 2\n+    return {}\n"
TASKS = {
    "right": PATCH.format("number // 2"),
    "wrong": PATCH.format("number - 2"),
    "stale": PATCH.replace("number * 2", "number ** 2").format("number // 2"),
}


def make_repository(folder: Path) -> None:
    (folder / "numbers2.py").write_text(MODULE)
    (folder / "test_numbers2.py").write_text(TESTS)
    identity = ["-c", "user.name=example", "-c", "user.email=example@example.org"]
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "A bug"]):
        subprocess.run(["git", *words], cwd=folder, check=True)


async def main(engine: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        make_repository(Path(folder))

        async def score(client: outfitter.Client, task: str) -> str:
            await client.run(["git", "clone", "-q", folder, "repo"], check=True)
            await client.files.write("fix.patch", TASKS[task])
            applied = await client.run(["git", "apply", "../fix.patch"], cwd="repo")
            if not applied.ok:
                return "does not apply"
            tests = await client.run([sys.executable, "-m", "unittest", "-q"], cwd="repo", timeout=60)
            return "resolved" if tests.ok else "tests fail"

        async with outfitter.Pool(engine, size=2) as pool:
            found = [outcome async for outcome in pool.map(score, TASKS, retries=1)]
    print(f"{'TASK':8}{'STATE':8}VERDICT")
    for outcome in sorted(found, key=lambda outcome: outcome.index):
        print(f"{outcome.item:8}{outcome.state:8}{outcome.value or outcome.error}")


asyncio.run(main(*(sys.argv[1:] or ["local"])))
