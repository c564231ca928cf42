"""Talks to an MCP server that an executor runs, with the `mcp` package's own client."""

import asyncio
import sys

import mcp
from mcp.server import MCPServer

import outfitter
from outfitter.adapters.mcp import StdioServer


async def main() -> None:
    async with outfitter.local() as executor:  # or outfitter.connect("ws://127.0.0.1:8765")
        server = StdioServer(executor, [sys.executable, __file__, "serve"])
        async with mcp.Client(server) as client:
            print("tools:", [tool.name for tool in (await client.list_tools()).tools])
            found = await client.call_tool("add", {"a": 2, "b": 3})
            print("2 + 3:", found.structured_content)


def serve() -> None:
    """The server itself: any other program that speaks MCP will do."""
    server = MCPServer("adder")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Adds two numbers."""
        return a + b

    server.run("stdio")


if sys.argv[1:] == ["serve"]:
    serve()
else:
    asyncio.run(main())
