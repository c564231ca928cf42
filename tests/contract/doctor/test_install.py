"""How Outfitter is installed: whether Python finds it compiled."""

from __future__ import annotations

import compileall
from pathlib import Path

from outfitter.contract.doctor.install import install_bytecode
from outfitter.host.bytecode import uncompiled

from .build import seen

NEVER = {"PYTHONDONTWRITEBYTECODE": "1"}


def test_modules_that_are_compiled_with_each_start(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "server.py").write_text("pass\n")
    assert not uncompiled({}, str(tmp_path)), "they are kept with the first start"
    assert uncompiled(NEVER, str(tmp_path))
    compileall.compile_dir(tmp_path, quiet=2)
    assert not uncompiled(NEVER, str(tmp_path))


def test_what_the_report_says_of_them() -> None:
    assert seen(install_bytecode(False)) == ("ok", ())
    finding = install_bytecode(True)
    assert finding.status == "warning" and " -m compileall -q " in finding.remedy
