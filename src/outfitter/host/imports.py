"""Modules that are loaded when they are needed: a look that fails once must not spoil them for ever."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from typing import Any


def refuse_empty_packages() -> None:
    """Takes a package whose file cannot be looked at for one that cannot be loaded now.

    Python takes it for a namespace, loads that without a word, and keeps it: without memory for one stat,
    `re` would have no `compile` until the process ends. For a process of our own only: we have no namespaces.
    """
    for place, finder in enumerate(sys.meta_path):
        if getattr(finder, "__name__", "") == "PathFinder":
            sys.meta_path[place] = _Whole(finder)


class _Whole:
    """A finder without the packages that it makes of folders."""

    def __init__(self, finder: Any) -> None:
        self._finder = finder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        spec: ModuleSpec | None = self._finder.find_spec(name, path, target)
        return None if spec is not None and spec.loader is None else spec

    def __getattr__(self, name: str) -> Any:  # of what else a finder has, for `importlib.metadata`
        return getattr(self._finder, name)
