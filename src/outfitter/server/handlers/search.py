"""fs/search: text in the files of a tree."""

from __future__ import annotations

import os

from .filesystem import native, work_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...protocol.jsonrpc import Request
    from ...protocol.search import SearchParams
    from ..connection import Connection


def search(connection: Connection, request: Request, params: SearchParams) -> None:
    """Finds what earlier requests have written; later ones need not wait for it to end."""
    path = native(params.path)
    work = work_of(connection)
    if connection.searches is None:
        from ..search import Searches

        connection.searches = Searches(connection, work)
    searches = connection.searches

    def begin(_: object) -> None:
        searches.begin(request.id, params)

    work.run(request.id, lambda: os.stat(path), looks=(path,), finish=begin)
