"""Runs test files in parallel and shows what passes and fails while they run.

python parallel_tests.py [--on NAME] [--jobs N] [--timeout SECONDS] tests/test_*.py
"""

import argparse
import asyncio
import sys
from collections import Counter
from pathlib import Path

import outfitter

VERDICTS = {"ok": "passed", "FAIL": "failed", "ERROR": "failed"}


class Progress:
    """On a terminal, one line that follows the tests; elsewhere, only what is final."""

    def __init__(self, files: int) -> None:
        self.files = files
        self.tests: Counter[str] = Counter()
        self.done = 0
        self.live = sys.stdout.isatty()

    def count(self, verdict: str) -> None:
        self.tests[verdict] += 1
        self.draw()

    def finish(self, text: str) -> None:
        self.done += 1
        self.say(text)
        self.draw()

    def say(self, text: str) -> None:
        print(f"\r\x1b[K{text}" if self.live else text, flush=True)

    def draw(self) -> None:
        if self.live:
            counts = ", ".join(f"{self.tests[verdict]} {verdict}" for verdict in ("passed", "failed"))
            print(f"\r\x1b[K{self.done}/{self.files} files: {counts}", end="", flush=True)


async def run_file(client: outfitter.Client, path: str, seconds: float, progress: Progress) -> bool:
    """Runs one file; returns whether all of it passed."""
    tests: Counter[str] = Counter()
    said: list[str] = []
    try:
        async with asyncio.timeout(seconds):  # leaving the loop below ends the command
            async for line in client.lines(["python3", "-m", "unittest", "-v", path]):
                said.append(line)
                verdict = VERDICTS.get(line.rpartition(" ... ")[2])
                if verdict is not None:
                    tests[verdict] += 1
                    progress.count(verdict)
    except TimeoutError:
        progress.finish(f"LATE  {path}: ended after {seconds:g} s")
    except outfitter.CommandFailed:
        reasons = [f"\n      {line}" for line in said if line.startswith(("FAIL:", "ERROR:"))]
        progress.finish(f"FAIL  {path}: {tests['failed']} of {tests.total()}{''.join(reasons)}")
    else:
        progress.finish(f"ok    {path}: {tests['passed']}")
        return True
    return False


async def main() -> int:
    parser = argparse.ArgumentParser(description="Runs test files in parallel.")
    parser.add_argument("--on", default="local", help="a URL, or an environment of environments.toml")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--timeout", type=float, default=300.0, help="for each file, in seconds")
    parser.add_argument("files", nargs="+")
    wanted = parser.parse_args()

    progress = Progress(len(wanted.files))
    room = asyncio.Semaphore(wanted.jobs)
    async with outfitter.connect(wanted.on) as client:

        async def in_turn(path: str) -> bool:
            async with room:  # the time of a file begins with its turn
                return await run_file(client, path, wanted.timeout, progress)

        if wanted.on != "local":
            folders = {str(Path(path).parent) for path in wanted.files}
            await asyncio.gather(*(client.upload(folder, folder) for folder in folders))
        passed = await asyncio.gather(*map(in_turn, wanted.files))
    progress.say(f"{passed.count(True)} of {len(passed)} files passed")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
