"""Adds what a hook prints to a session: later commands get it, and a subagent gets a copy with less."""

import asyncio
import json

import outfitter
from outfitter import EnvContract
from outfitter.formats.hookoutput import contribution

HOOK = json.dumps(
    {
        "hookSpecificOutput": {
            "hookEventName": "SessionStart",
            "env": {"STAGE": "test", "LD_PRELOAD": "/tmp/hook.so", "LANG": None},
        }
    }
)
SHOW = ["sh", "-c", "echo stage ${STAGE-none}, mine ${MINE-none}"]


async def main() -> None:
    async with outfitter.local() as client:
        said, _ = contribution(HOOK, "hook:stage")
        told = await client.put_overlay("thread-1", said.producer, set=said.values, unset=said.unset)
        for one in told["rejected"]:
            print(f"refused: {one['producer']} may not set {one['name']} ({one['reason']})")
        await client.put_overlay("thread-1", "user", set={"MINE": "1"})

        async def show(scope: str) -> None:
            done = await client.run(SHOW, contract=EnvContract(scope=scope))
            print(f"{scope}: {done.stdout.decode().strip()}")

        await show("thread-1")
        await client.overlay_event("thread-1", "fork", to="thread-1/tests", unset=["MINE"])
        await show("thread-1/tests")
        answer = await client.overlay_event("thread-1", "clear")
        print("clear: run again", answer["rerun"])
        await show("thread-1")


asyncio.run(main())
