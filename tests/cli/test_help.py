"""Every help page fits a terminal of 80 columns, and lists of commands show whole sentences."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from outfitter.cli.commands import cli

COLUMNS = 80


def pages(command: click.Command, typed: str = "outfitter") -> Iterator[tuple[str, click.Command]]:
    yield typed, command
    if isinstance(command, click.Group):
        for name, one in command.commands.items():
            yield from pages(one, f"{typed} {name}")


def help_page(typed: str, command: click.Command) -> list[str]:
    with click.Context(command, info_name=typed, **cli.context_settings) as context:
        return command.get_help(context).splitlines()


PAGES = dict(pages(cli))


@pytest.fixture(params=["60", "80", "200"])
def terminal(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", request.param)


@pytest.mark.parametrize("typed", PAGES)
@pytest.mark.usefixtures("terminal")
def test_help_fits_80_columns(typed: str) -> None:
    assert [line for line in help_page(typed, PAGES[typed]) if len(line) > COLUMNS] == []


@pytest.mark.parametrize("typed", [typed for typed, one in PAGES.items() if isinstance(one, click.Group)])
def test_lists_of_commands_show_whole_sentences(typed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    lines = help_page(typed, PAGES[typed])
    listed = lines[lines.index("Commands:") + 1 :]
    assert [line for line in listed if not line.endswith(".") or line.endswith("...")] == []


@pytest.mark.parametrize("typed", PAGES)
def test_every_option_is_described_by_sentences(typed: str) -> None:
    texts = {param.name: param.help or "" for param in PAGES[typed].params if isinstance(param, click.Option)}
    wrong = {name: text for name, text in texts.items() if not (text[:1].isupper() and text.endswith("."))}
    assert wrong == {}


def test_the_manual_page_is_up_to_date() -> None:
    script = Path(__file__).resolve().parents[2] / "scripts" / "man-page"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), "run scripts/man-page"
