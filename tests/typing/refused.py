"""Mistakes that a type checker finds before anything runs: each line with a comment is an error to both.

An error that is not found any more makes its comment unnecessary, and that is an error too.
"""

from __future__ import annotations

import outfitter
from outfitter import sync


async def mistakes() -> None:
    async with outfitter.local() as client:
        await client.run(["true"], timeot=3)  # type: ignore[call-overload] # pyright: ignore
        await client.run(["true"], timeout="3")  # type: ignore[call-overload] # pyright: ignore
        await client.run(["true"], env={"A": 1})  # type: ignore[dict-item] # pyright: ignore
        await client.run(["true"], policy="all")  # type: ignore[call-overload] # pyright: ignore
        (await client.run(["true"])).stdout.encode()  # type: ignore[attr-defined] # pyright: ignore
        (await client.run(["true"], text=True)).stdout.decode()  # type: ignore[attr-defined] # pyright: ignore
        print(client.run(["true"]).exit_code)  # type: ignore[attr-defined] # pyright: ignore
        await client.start(["true"], tty=24)  # type: ignore[arg-type] # pyright: ignore
        await client.files.write("a", 1)  # type: ignore[arg-type] # pyright: ignore
        for line in client.lines(["true"]):  # type: ignore[attr-defined] # pyright: ignore
            print(str(line))  # pyright: ignore
        outfitter.EnvPolicy(inherits="core")  # type: ignore[call-arg] # pyright: ignore
        outfitter.Sandbox.workspace_write(domains=1)  # type: ignore[arg-type] # pyright: ignore
        client.nothing()  # type: ignore[attr-defined] # pyright: ignore


def mistakes_in_plain_calls() -> None:
    with sync.local() as client:
        client.run(["true"], timeout="3")  # type: ignore[call-overload] # pyright: ignore
        client.files.read(1)  # type: ignore[arg-type] # pyright: ignore
        client.aclose()  # type: ignore[attr-defined] # pyright: ignore
    with outfitter.local():  # type: ignore[attr-defined] # pyright: ignore
        pass
