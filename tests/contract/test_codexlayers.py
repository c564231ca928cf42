"""Codex's own settings on an executor, where they cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from outfitter.contract import codexlayers


def test_a_pipe_in_the_place_of_a_file_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.toml")
    with pytest.raises(codexlayers.ConfigUnreadable, match="It is a pipe, not a file"):
        codexlayers.config({"CODEX_HOME": str(tmp_path)}, str(tmp_path), [["model"]])
