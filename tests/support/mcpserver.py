"""A real MCP server, made with the `mcp` package. As a program it serves on its stdin and stdout."""

from __future__ import annotations

import os
import sys
import threading

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

# For a server in a thread of the test: what `hold` waits for, and that a call of it was cancelled.
GATE = threading.Event()
CANCELLED = threading.Event()


def make(**settings: object) -> MCPServer:
    """A server with a few tools; `settings` are of the package."""
    server = MCPServer("place", **settings)  # type: ignore[arg-type]
    calls = iter(range(1, 1_000_000))

    @server.tool()
    def echo(text: str) -> str:
        """Says how many calls there were, and the text."""
        return f"{next(calls)} {text}"

    @server.tool()
    def where(name: str) -> str:
        """The working directory, and a variable."""
        return f"{os.getcwd()} {os.environ.get(name)}"

    @server.tool()
    def complain(text: str) -> str:
        """Writes to stderr."""
        print(text, file=sys.stderr, flush=True)
        return "done"

    @server.tool()
    async def count(upto: int, ctx: Context) -> str:
        """Reports progress, number by number."""
        for number in range(1, upto + 1):
            await ctx.report_progress(number, upto)
        return "counted"

    @server.tool()
    async def hold(ctx: Context) -> str:
        """Says that it has begun, and waits for the gate."""
        await ctx.report_progress(1, 2)
        try:
            while not GATE.is_set():
                await anyio.sleep(0.01)
        except anyio.get_cancelled_exc_class():
            CANCELLED.set()
            raise
        return "held"

    return server


if __name__ == "__main__":
    make().run("stdio")
