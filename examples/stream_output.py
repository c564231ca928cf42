"""Starts a command, talks to it while it runs, and prints its output as it comes."""

import asyncio

import outfitter

GREETER = 'echo "who is there?"; read name; echo "hello, $name"; cat >/dev/null'


async def main() -> None:
    async with outfitter.local() as client:
        process = await client.start(["sh", "-c", GREETER], stdin=True)
        async for event in process:
            match event:
                case outfitter.Output(stream=stream, data=data):
                    print(f"{stream}: {data.decode().rstrip()}")
                    if b"who" in data:
                        await process.write(b"world\n")
                        await process.close_stdin()
                case outfitter.Exited(code=code):
                    print(f"exited: {code}")


asyncio.run(main())
