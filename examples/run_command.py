"""Runs a command to its end and collects what it printed."""

import asyncio

import outfitter


async def main() -> None:
    async with outfitter.local() as client:
        done = await client.run(["sh", "-c", "echo made it; echo with a warning >&2; exit 3"], timeout=10)
        print("exit code:", done.exit_code)
        print("stdout:", done.stdout)
        print("stderr:", done.stderr)


asyncio.run(main())
