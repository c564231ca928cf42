"""Which tests say nothing where Linux's own abilities are missing (`make test-portable`), and why.

A test that is not named here passes on both kinds of system.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from outfitter.system import LINUX

HERE = Path(__file__).resolve().parent.parent

# Files and single tests, by the reason. A name that ends in / stands for all below it.
ONLY_LINUX: dict[str, tuple[str, ...]] = {
    "inotify(7) itself": ("host/test_inotify.py",),
    "an upgrade in place is refused": ("host/test_reexec.py",),
}


class _Left(pytest.Module):
    """A file whose tests are left out: it may not even be importable here."""

    reason = ""

    def collect(self) -> Iterator[pytest.Item]:
        pytest.skip(f"Linux only: {self.reason}", allow_module_level=True)


def _reason(name: str) -> str | None:
    for reason, places in ONLY_LINUX.items():
        for place in places:
            if name == place or (place.endswith("/") and name.startswith(place)):
                return reason
    return None


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    if LINUX or not module_path.is_relative_to(HERE):
        return None
    reason = _reason(str(module_path.relative_to(HERE)))
    if reason is None:
        return None
    left: _Left = _Left.from_parent(parent, path=module_path)
    left.reason = reason
    return left


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if LINUX:
        return
    for item in items:
        name = item.nodeid.removeprefix("tests/")
        reason = _reason(name) or _reason(name.partition("[")[0])
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=f"Linux only: {reason}"))
