"""Programs as users write them pass pyright in its strict mode; `make check` has mypy read them too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from .support.tools import pyright

CORPUS = Path(__file__).resolve().parent / "typing"


def test_pyright_agrees() -> None:
    command = [*pyright(), "--project", str(CORPUS), "--pythonpath", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "0 errors, 0 warnings, 0 informations\n"), done.stderr
