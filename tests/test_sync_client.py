"""scripts/sync-client: outfitter.sync is what the async client makes of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_file_is_what_the_script_writes() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "sync-client"), "--check"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
