"""The limits are those of the reference page."""

from __future__ import annotations

from pathlib import Path

import pytest

from outfitter.contract import (
    config,
    contract,
    freshness,
    keptoverlays,
    keptscopes,
    overlays,
    providers,
    settings,
)
from outfitter.contract.setup import inputs, setups
from outfitter.env import overlay, resolve
from outfitter.formats import envfile, hookoutput

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "limits.md"


@pytest.mark.parametrize(
    ("module", "name", "value", "told"),
    [
        (resolve, "LARGEST_PAIR", 131_071, "131,071 bytes"),
        (settings, "TOTAL_BYTES", 1 << 20, "1 MiB"),
        (contract, "REMEMBERED_STACKS", 32, "32"),
        (config, "MAX_DIRECTORIES", 1024, "1,024"),
        (settings, "SNAPSHOT_SECONDS", 10, "10 s"),
        (settings, "SETUP_SECONDS", 600, "600 s"),
        (providers, "REMEMBERED_PROJECTS", 64, "64"),
        (providers, "UNWATCHED_SECONDS", 300, "300 s"),
        (providers, "AGAIN_SECONDS", 10, "10 s"),
        (inputs, "INPUT_FILES", 1000, "1000 files"),
        (inputs, "INPUT_BYTES", 64 << 20, "64 MiB"),
        (setups, "REMEMBERED_SETUPS", 64, "64"),
        (setups, "RETRY_SECONDS", 10, "10 s"),
        (overlays, "SCOPES", 256, "256"),
        (overlays, "CONTRIBUTIONS", 64, "64 per scope"),
        (overlays, "SCOPE_BYTES", 1 << 20, "1 MiB"),
        (overlays, "ALL_SCOPES_BYTES", 64 << 20, "64 MiB"),
        (overlays, "LONGEST_SCOPE", 256, "256 characters"),
        (overlay, "LONGEST_PRODUCER", 1024, "1,024"),
        (keptoverlays, "LARGEST_FILE", 4 << 20, "4 MiB"),
        (keptscopes, "KEPT_SCOPES", 256, "256"),
        (keptscopes, "KEPT_BYTES", 64 << 20, "64 MiB"),
        (keptscopes, "LARGEST_KEPT", 2 << 20, "2 MiB"),
        (envfile, "MOST_MADE", 16 << 20, "16 MiB"),
        (hookoutput, "LARGEST", 1 << 20, "1 Mi characters"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_limit_is_what_the_page_says(module: object, name: str, value: float, told: str) -> None:
    assert getattr(module, name) == value
    word = f"`{module.__name__.rpartition('.')[2]}.{name}`"  # type: ignore[attr-defined]
    [row] = [line for line in PAGE.read_text().splitlines() if line.startswith("|") and word in line]
    assert told in row.split("|")[2]


def test_a_tick_is_twice_the_slowest_one_of_kernels() -> None:
    assert freshness.TICK_NS == 2 * 10_000_000  # 100 Hz


def test_the_default_of_a_stack_is_that_of_the_settings() -> None:
    assert resolve.DEFAULT_TOTAL == settings.TOTAL_BYTES
