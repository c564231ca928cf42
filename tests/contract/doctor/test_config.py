"""Configuration files: mistakes and what does not count."""

from __future__ import annotations

from outfitter.contract.doctor.config import config_files, config_ignored
from outfitter.contract.doctor.machine import Configured
from outfitter.contract.settings import Settings, Source
from outfitter.formats.document import Mistake

from .build import FILE, configured, seen


def test_mistakes_in_a_file_are_an_error_with_file_and_line() -> None:
    mistake = Mistake(FILE, 3, "`shell.login` has an unknown value", 'write "strip"')
    finding = config_files(Configured(Settings(), [mistake], FILE))
    assert seen(finding) == ("error", (str(mistake),))
    assert f"{FILE}:3" in finding.remedy


def test_no_files_are_in_order() -> None:
    assert seen(config_files(configured())) == ("ok", ())


def test_settings_of_a_project_that_do_not_count_are_told_with_their_line() -> None:
    source = Source("/repo/outfitter.toml", 2, "project")
    finding = config_ignored(configured(ignored=(("shell.startup", "report", source),)))
    assert seen(finding) == ("warning", ("/repo/outfitter.toml:2: shell.startup = report",))
    assert "/repo/outfitter.toml:2" in finding.remedy and FILE in finding.remedy
