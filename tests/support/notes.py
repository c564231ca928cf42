"""A provider as others could write one, for tests of what is done with providers."""

from __future__ import annotations

import os
from pathlib import Path

from outfitter.env.layer import Operation
from outfitter.providers.base import Context, Detection, Resolution, Trust


class Notes:
    """Reads a file `notes` with NAME=value words; tells what it was asked, and says what it is told to."""

    id = "notes"
    rank = 1

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.contexts: list[Context] = []
        self.word = Trust("not-needed")
        self.state = "applied"
        self.prefix: tuple[str, ...] = ()

    def detect(self, directory: str) -> Detection | None:
        path = os.path.join(directory, "notes")
        return Detection(directory, (path,), f"notes:{path}") if os.path.exists(path) else None

    def trust(self, found: Detection, context: Context) -> Trust:
        return self.word

    def plan(self, found: Detection, context: Context) -> list[list[str]]:
        return [["read", found.files[0]]]

    def watch(self, found: Detection, context: Context) -> list[str]:
        return [os.path.join(found.root, "notes.local")]

    def resolve(self, found: Detection, context: Context) -> Resolution:
        self.asked.append(found.root)
        self.contexts.append(context)
        if self.state != "applied":
            # What it has found by then counts for nothing.
            return Resolution(
                self.state,
                set={"HALF": "1"},
                note="write it down",
                stderr_tail="no pencil\n",
                prefix=self.prefix,
            )
        lines = Path(found.files[0]).read_text().split()
        return Resolution(
            "applied",
            set=dict(line.split("=", 1) for line in lines),
            operations=[Operation("PATH", "prepend", ("bin",))],
            watch=[found.files[0]],
            producer="notes 1",
            prefix=self.prefix,
        )
