"""Whether Python finds Outfitter compiled. If not, each start of a server compiles it: five times as long."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_NEEDED = ("cli", "server", "protocol", "core", "host")  # of which every server loads most


def uncompiled(environ: Mapping[str, str], package: str = PACKAGE) -> bool:
    """Whether modules are not compiled, and will not be when they are next loaded."""
    from importlib.util import cache_from_source

    if not environ.get("PYTHONDONTWRITEBYTECODE") and _can_write(os.path.dirname(cache_from_source(package))):
        return False
    sources = [
        os.path.join(folder, name)
        for folder in (os.path.join(package, part) for part in _NEEDED)
        for name in (os.listdir(folder) if os.path.isdir(folder) else ())
        if name.endswith(".py")
    ]
    return not any(os.path.exists(cache_from_source(source)) for source in sources)


def remedy(package: str = PACKAGE) -> str:
    return f"Run `{sys.executable} -m compileall -q {package}` as a user who may write there."


def _can_write(path: str) -> bool:
    """Whether we can write into a folder, or make it."""
    while not os.path.exists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return os.access(path, os.W_OK)
