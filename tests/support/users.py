"""Outfitter for another user of this machine, who can read neither this folder nor, perhaps, this Python."""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from .tools import missing

NOBODY = 65534


@functools.cache
def public_python() -> str:
    """A Python that every user can run."""
    for python in (sys.executable, f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}"):
        try:
            subprocess.run([python, "-c", "import ctypes"], user=NOBODY, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return python
    missing(
        f"a Python {sys.version_info[0]}.{sys.version_info[1]} that every user can run",
        "install Debian's python3",
    )
    raise AssertionError


@functools.cache
def installed() -> tuple[str, Path]:
    """That Python, and a copy of Outfitter with what its server needs, for all tests: none changes it."""
    folder = Path(tempfile.mkdtemp(prefix="outfitter-site-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copy_site(folder)
    return public_python(), folder


def copy_site(folder: Path, *more: str) -> None:
    """Puts Outfitter, what its server needs, and `more` modules into this folder, for every user to read."""
    for name in ("outfitter", "h11", "pybase64", *more):
        found = find_spec(name)
        assert found is not None and found.origin is not None, name
        source = Path(found.origin)
        if source.name == "__init__.py":
            shutil.copytree(source.parent, folder / source.parent.name)
        else:
            shutil.copy(source, folder)
    subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
