"""What a table names by text, loaded when it is first used."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def load(package: str | None, place: str) -> Any:
    """What `module.name` is in a package."""
    module, _, name = place.partition(".")
    # As `import` does it: importlib, whose other half nobody needs, would have to be imported first.
    return getattr(__import__(f"{package}.{module}", None, None, (name,)), name)
