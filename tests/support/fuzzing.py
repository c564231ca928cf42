"""`make fuzz`: only the tests that make up their examples, with many more of them, and new ones each time.

A run of all tests tries few, and where it compares us with the reference always the same ones: a change must
not fail for what was there before it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

TIMES = int(os.environ.get("OUTFITTER_FUZZ", "0"))
_DEFAULT = 100  # Hypothesis's own, for tests that say no number


def pytest_configure(config: pytest.Config) -> None:
    if TIMES:
        settings.__init__ = _larger(settings.__init__)  # type: ignore[method-assign]
        # Said, so that tests that say nothing get more, too.
        settings.register_profile("fuzz", settings.get_profile("busy"), max_examples=_DEFAULT, database=None)
        settings.load_profile("fuzz")


def _larger(make: Callable[..., None]) -> Callable[..., None]:
    def init(self: settings, parent: settings | None = None, **said: Any) -> None:
        if isinstance(said.get("max_examples"), int):
            said["max_examples"] *= TIMES
        if "derandomize" in said:
            said["derandomize"] = False
        make(self, parent, **said)

    return init


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if TIMES:
        given = [item for item in items if getattr(getattr(item, "obj", None), "is_hypothesis_test", False)]
        config.hook.pytest_deselected(items=[item for item in items if item not in given])
        items[:] = given
