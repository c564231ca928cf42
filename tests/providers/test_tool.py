"""Which version a tool is: asked once, but not remembered where nobody could answer."""

from __future__ import annotations

from pathlib import Path

from outfitter.providers.tool import version

ENV = {"PATH": "/usr/bin:/bin"}


def test_a_version_that_could_not_be_asked_is_asked_again_and_one_that_was_told_is_not(
    tmp_path: Path,
) -> None:
    tool = tmp_path / "tool"
    tool.write_text(f"#!/bin/sh\necho >>{tmp_path}/asked\necho tool 1.2.3\n")
    assert version(str(tool), ENV) == ""  # it cannot be started
    tool.chmod(0o755)
    assert [version(str(tool), ENV) for _ in range(2)] == ["1.2.3", "1.2.3"]
    assert (tmp_path / "asked").read_text() == "\n"
    assert version(str(tmp_path / "nonesuch"), ENV) == ""
