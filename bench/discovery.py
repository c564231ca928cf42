"""What it costs to find 2,000 skills: in a folder, and as the executor's own, asked for first and again."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from statistics import median
from typing import Final

from bench.arms import ExecArm
from bench.client import ExecClient
from bench.measure import Effort, Metric, Values, Workload

__all__ = ["WORKLOAD"]

_SKILLS: Final = 1990  # with their folders, a few less than a server looks at
_SETTLED_SECONDS: Final = (
    2.1  # files that are younger may change without a trace, and ours looks at them again
)


def _discovery(arm: ExecArm, effort: Effort) -> Values:
    home = Path(arm.environment["CODEX_HOME"])
    store = home / "skills"
    for number in range(_SKILLS):
        (store / f"s{number}").mkdir(parents=True)
        front = f"---\nname: skill-{number}\ndescription: Does what number {number} does\n---\n"
        (store / f"s{number}/SKILL.md").write_text(front + "What to do, line by line.\n" * 40)
    time.sleep(_SETTLED_SECONDS)
    try:
        roots = {"roots": [{"id": "a", "path": store.as_uri()}]}
        with ExecClient(arm.address, quickack=True) as client:
            found = [client.call("capabilityRoots/discoverV1", roots) for _ in range(effort.streams)]
        own = {"cwd": home.as_uri()}
        with arm.fresh() as server, ExecClient(server.announced(), quickack=True) as client:
            first = client.call("capabilities/discoverV2", own)
            again = [client.call("capabilities/discoverV2", own) for _ in range(effort.streams)]
    finally:
        shutil.rmtree(store)
    return {
        "discovery.roots": median(found) * 1e3,
        "discovery.first": first * 1e3,
        "discovery.again": median(again) * 1e3,
    }


WORKLOAD: Final = Workload(
    "discovery",
    ("P22",),
    (
        Metric("discovery.roots", "`capabilityRoots/discoverV1`, 2,000 skills", "ms"),
        Metric("discovery.first", "`capabilities/discoverV2`, 2,000 skills, asked first", "ms"),
        Metric("discovery.again", "the same, asked again", "ms"),
    ),
    _discovery,
)
