"""scripts/sync-client: outfitter.sync is what the async client makes of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from outfitter import sync
from outfitter.client.files import Files

ROOT = Path(__file__).resolve().parent.parent

# Everything that completion may show.
CLIENT = (
    "attach base call close compare download drop_overlay environment explain fail failed files http info "
    "lines offers overlay overlay_event processes put_overlay require resolve run session_id shell "
    "shell_argv start state status upload where"
)
PROCESS = (
    "close_stdin closed discard end environment exit_code interrupt keep missed pid process_id resize "
    "sandbox_denied signal startup stderr stdout terminate tty wait warnings write"
)
FILES = (
    "canonicalize chmod copy download exists list make_directory open read read_lines read_text remove "
    "rename search stat upload walk watch within write"
)
FILE = "abandon blocks close mode read_at uri write_at"
WATCH = "close watch_id"


def names(thing: object) -> str:
    return " ".join(name for name in dir(thing) if not name.startswith("_"))


def test_the_file_is_what_the_script_writes() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "sync-client"), "--check"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "kind, public",
    [
        (Files, FILES),
        (sync.Client, CLIENT),
        (sync.RemoteProcess, PROCESS),
        (sync.Files, FILES),
        (sync.RemoteFile, FILE),
        (sync.Watch, WATCH),
    ],
    ids=lambda value: f"{value.__module__}.{value.__name__}" if isinstance(value, type) else "",
)
def test_completion_shows_what_is_documented_and_no_more(kind: type, public: str) -> None:
    assert names(kind) == public


def test_completion_of_the_async_handles_shows_no_plumbing() -> None:
    with sync.local() as client:
        process = client.start(["true"])
        assert names(client._wrapped) == f"aclose {CLIENT.replace('close ', '')}"
        assert names(process._wrapped) == PROCESS
        with client.files.open(__file__) as file, client.files.watch(str(ROOT), recursive=False) as watch:
            assert (names(file._wrapped), names(watch._wrapped)) == (FILE, WATCH)
