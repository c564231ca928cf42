"""fs/search: text in the files of a tree."""

from __future__ import annotations

import os

from ..files import FileWork
from ..search import Searches
from ..seenfiles import within
from .filesystem import confined, native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...protocol.search import SearchParams
    from ..call import Call, Later


def search(call: Call, params: SearchParams) -> Later:
    """Finds what earlier requests have written; later ones need not wait for it to end."""
    bounds = confined(call, params.sandbox)
    path = native(params.path)
    searches = call.feature(Searches)

    def begin(_: object) -> None:
        searches.begin(call, params)

    def look() -> None:
        if bounds is None:
            os.stat(path)
        else:
            within(bounds).stat(path)

    return call.feature(FileWork).run(call, look, looks=(path,), finish=begin)
