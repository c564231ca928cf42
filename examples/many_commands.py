"""Runs many short commands, a bounded number at a time, and counts how they ended."""

import asyncio
from collections import Counter

import outfitter

COMMANDS = [["sh", "-c", f"exit {number % 3}"] for number in range(300)]
AT_A_TIME = 16


async def main() -> None:
    room = asyncio.Semaphore(AT_A_TIME)
    async with outfitter.local() as client:

        async def exit_code(argv: list[str]) -> int:
            async with room:
                return (await client.run(argv, env={"TRIAL": "1"}, timeout=60)).exit_code

        codes = Counter(await asyncio.gather(*map(exit_code, COMMANDS)))
    for code, count in sorted(codes.items()):
        print(f"exit code {code}: {count} commands")


asyncio.run(main())
