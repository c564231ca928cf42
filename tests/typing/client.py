"""Plain use of the client, for mypy to read and nobody to run: what it returns has types."""

from __future__ import annotations

from typing import assert_type

import outfitter
from outfitter.sync import local as local_here


async def results() -> list[str]:
    words: list[str] = []
    async with outfitter.local(summaries=True) as client:
        try:
            done = await client.run(["bash", "-lc", "true"])
        except outfitter.RequestFailed as error:
            if error.data is not None:
                words += [error.data.get("reason", ""), error.data.get("errno", "")]
            raise
        if done.environment is not None:
            words += [done.environment["base"], *(one["state"] for one in done.environment["layers"])]
            assert_type(done.environment["rejected"], int)
        if done.startup is not None:
            words += [change["name"] for change in done.startup.get("changes", []) if "file" in change]
        sandbox = outfitter.Sandbox.workspace_write(domains=["pypi.org"])
        assert_type((await client.run(["true"], sandbox=sandbox)).sandbox_denied, bool)
        assert_type(await client.files.within(sandbox, "/srv").read("a"), bytes)
        process = await client.start(["true"])
        if process.environment is not None and "shell" in process.environment:
            words.append(process.environment["shell"]["startup"])
    return words


def results_in_plain_calls() -> list[str]:
    with local_here(summaries=True) as client:
        process = client.start(["bash", "-lc", "true"])
        process.wait()
        if process.startup is None:
            return []
        assert_type(process.startup["notes"], list[str])
        return process.startup["withheld"]
