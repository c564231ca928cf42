"""A package whose file cannot be looked at is not loaded as an empty one, and is loaded later."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.machine import SECOND

_CHILD = """
import importlib.metadata
import sys
from outfitter.host.imports import refuse_empty_packages

sys.path.insert(0, sys.argv[1])
import namespace  # as Python does it
refuse_empty_packages()
try:
    import package
except ImportError as error:
    assert error.name == "package"
else:
    raise AssertionError("an empty package")
open(f"{sys.argv[1]}/package/__init__.py", "w").write("value = 1")
sys.path_importer_cache.clear()
import package
assert package.value == 1
from package import inner
assert importlib.metadata.version("pytest")
"""


def test_a_folder_is_no_package(tmp_path: Path) -> None:
    for name in ("namespace", "package"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "inner.py").touch()
    subprocess.run([sys.executable, "-c", _CHILD, str(tmp_path)], check=True, timeout=60 * SECOND)
