"""A program with a pool on Ray, for tests that kill it or its nodes: leases that each run some commands.

    python -m tests.support.raydriver ADDRESS JOURNAL LEASES COMMANDS SIZE RETRIES

Every command appends a line to the journal when it begins, and some while it runs. The program prints an
object for each lease that is lost, with the time, one for each task that has ended, and one at its own end.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

import outfitter
from outfitter.core.leases import Transition

# Begins once, then says every 50 ms that it lives; 0.2 s in all.
COMMAND = (
    'echo "$1 began" >>"$0"; for i in 1 2 3 4; do sleep 0.05; echo "$1 lives $(date +%s.%N)" >>"$0"; done'
)


async def main(address: str, journal: str, leases: int, commands: int, size: int, retries: int) -> None:
    attempts: dict[int, int] = {}

    async def task(client: outfitter.Client, number: int) -> str:
        attempts[number] = attempts.get(number, 0) + 1
        for command in range(commands):
            name = f"{number}.{attempts[number]}.{command}"
            await client.run(["sh", "-c", COMMAND, journal, name], check=True)
        return str(attempts[number])

    def told(event: Transition) -> None:
        if (event.what, event.after) == ("lease", "lost"):
            _say(lost=event.lease_id, reason=event.reason, at=time.time())

    wishes: Any = {"address": address, "size": size, "cpus": 1, "limits": "none", "on_event": told}
    async with outfitter.Pool("ray", **wishes) as pool:
        _say(pid=os.getpid())
        async for outcome in pool.map(task, range(leases), retries=retries):
            reason = getattr(outcome.error, "reason", "") or repr(outcome.error)
            _say(
                outcome=outcome.index,
                state=outcome.state,
                node=outcome.node,
                reason=reason,
                tries=outcome.attempts,
            )
        status = pool.status()
    _say(status=repr(status))


def _say(**what: object) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    given = sys.argv[1:]
    asyncio.run(main(given[0], given[1], *map(int, given[2:])))
