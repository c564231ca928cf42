"""Uses a server that runs elsewhere: commands, live output, and a command that outlives its client.

python connect_server.py                        starts a server of its own
python connect_server.py ws://127.0.0.1:8765    uses this one, Outfitter's or Codex's
"""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator

import outfitter


@contextlib.contextmanager
def server() -> Iterator[str]:
    """The URL of a server: the one named on the command line, or a new one."""
    if sys.argv[1:]:
        yield sys.argv[1]
        return
    argv = [sys.executable, "-m", "outfitter", "serve", "--listen", "ws://127.0.0.1:0"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()  # the first line is the URL
        process.terminate()


async def main(url: str) -> None:
    async with outfitter.connect(url) as client:
        done = await client.run(["sh", "-c", "echo one; echo two"])
        print("collected:", done.stdout)
        await client.run(["echo", "as it comes"], on_output=lambda output: print("streamed:", output.data))

        process = await client.start(["sh", "-c", "echo working; sleep 0.5; echo finished"])
        process.keep()  # leave it running when this client closes
        session = client.session_id

    # The first client is gone. Another client, in this program or elsewhere, resumes its session.
    async with outfitter.connect(url, resume=session) as client:
        again = await client.attach(process.process_id)
        output = b"".join([event.data async for event in again if isinstance(event, outfitter.Output)])
        print("resumed:", output, "exit code:", again.exit_code)


with server() as url:
    asyncio.run(main(url))
