"""GET /metrics of a pool that runs, for Prometheus."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from ...errors import SettingInvalid
from ..console import say

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ...pool.pool import Pool

_HEAD_BYTES = 16 << 10  # of a request, as the server's
_SECONDS = 10.0


@contextlib.asynccontextmanager
async def metrics_server(pool: Pool, address: str | None) -> AsyncIterator[None]:
    """Answers at HOST:PORT while the block runs. Raises SettingInvalid."""
    if address is None:
        yield
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise SettingInvalid(f"--metrics {address} is no address: write 127.0.0.1:PORT")

    async def asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_answer(head, pool))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass  # whoever asked is gone, or said too much
        finally:
            writer.close()

    try:
        server = await asyncio.start_server(asked, host.strip("[]"), int(port), limit=_HEAD_BYTES)
    except (OSError, OverflowError) as error:
        raise SettingInvalid(f"cannot listen on --metrics {address}: {error}") from None
    host, port, *_ = server.sockets[0].getsockname()
    say(f"metrics: http://{f'[{host}]' if ':' in host else host}:{port}/metrics")
    try:
        yield
    finally:
        server.close()


def _answer(head: bytes, pool: Pool) -> bytes:
    found = head.startswith((b"GET /metrics ", b"GET /metrics?"))
    body = pool.metrics().encode() if found else b"only /metrics is here\n"
    kind = "text/plain; version=0.0.4; charset=utf-8"
    status = "200 OK" if found else "404 Not Found"
    head_of_answer = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n"
    return f"{head_of_answer}connection: close\r\n\r\n".encode() + body
