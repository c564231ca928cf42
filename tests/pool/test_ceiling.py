"""The search for a task's project ends at its workspace."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from pathlib import Path

from outfitter.client.connect import connect
from outfitter.core.shape import Shape
from outfitter.pool.engine import Card
from outfitter.pool.keeper import Keeper


def test_what_lies_above_a_workspace_is_not_the_task_s() -> None:
    token = "a token of this test"
    card = Card("l1", hashlib.sha256(token.encode()).hexdigest(), 60.0, 2.0, limits="none")

    async def look(url: str) -> str:
        async with connect(url, token=token) as client:
            own = await client.shell(
                'mkdir own && printf "[env]\\nset = {PY_COLORS = \\"own\\"}\\n" >own/outfitter.toml'
            )
            assert own.ok
            above = await client.shell("echo ${PY_COLORS-unset}")
            inside = await client.shell("echo ${PY_COLORS-unset}", cwd="own")
            return above.text + inside.text

    with tempfile.TemporaryDirectory(dir="/tmp") as root:
        Path(root, "outfitter.toml").write_text('[env]\nset = {PY_COLORS = "above"}\n')
        keeper = Keeper("pool", root=root, environ={"PATH": "/usr/bin:/bin"})
        assert asyncio.run(look(keeper.serve(card, Shape()).url)) == "unset\nown\n"
        assert keeper.stop().confirmed
