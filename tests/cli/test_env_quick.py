"""outfitter env without click: read the same way, refused the same way."""

from __future__ import annotations

from typing import Any

import click
import pytest

from outfitter.cli.commands import cli
from outfitter.cli.envflags import ENV, ENV_EXPLAIN
from outfitter.cli.flags import Flag, read_plain, read_with_words

from .commandline import User

_TEXTS = {
    "text": ["x", "ws://127.0.0.1:0", "/a b/c", "-", "--", "", "-x", "é"],
    "list": ["a", "AWS_*", "", "-x"],
    "pairs": ["A=1", "A=", "A=b=c", "=1", "A", "", "-A=1"],
    "flag": [],
}


def command(*names: str) -> click.Command:
    found: click.Command = cli
    for name in names:
        assert isinstance(found, click.Group)
        found = found.commands[name]
    return found


def by_click(found: click.Command, args: list[str]) -> dict[str, Any] | None:
    """What click makes of a command line; None when it refuses it."""
    try:
        context = found.make_context("outfitter", args)
    except click.ClickException:
        return None
    return dict(context.params)


def lines(flag: Flag) -> list[list[str]]:
    found = [[flag.option], [flag.option[:-1]], [f"{flag.option}=true"], [flag.option, flag.option]]
    texts = [*flag.choices, *_TEXTS[flag.kind]]
    for text in texts:
        found += ([flag.option, text], [f"{flag.option}={text}"], [flag.option, text, flag.option, text])
    return found


@pytest.mark.parametrize("flag", ENV, ids=lambda flag: flag.option)
def test_env_is_read_as_click_reads_it(flag: Flag) -> None:
    for args in lines(flag):
        quick = read_plain(args, ENV)
        if quick is not None:  # else click is asked
            assert quick == by_click(command("env"), args), args
    assert read_plain([], ENV) == by_click(command("env"), [])


@pytest.mark.parametrize("flag", ENV_EXPLAIN, ids=lambda flag: flag.option)
def test_explain_is_read_as_click_reads_it(flag: Flag) -> None:
    for args in lines(flag):
        for given in (args, ["PATH", *args, "HOME"]):
            quick = read_with_words(given, ENV_EXPLAIN)
            if quick is not None:
                values, words = quick
                assert {**values, "names": tuple(words)} == by_click(command("env", "explain"), given), given


def test_plain_command_lines_are_read_without_click() -> None:
    assert read_with_words(["PATH", "--json", "--cwd", "sub", "--set=A=1"], ENV_EXPLAIN) is not None
    assert read_plain(["--values", "--on", "build"], ENV) is not None


def test_what_is_not_plain_is_answered_by_click(user: User) -> None:
    assert user.run("env", "--help").stdout.startswith(b"Usage: outfitter env ")
    assert user.run("env", "explain", "-h").stdout.startswith(b"Usage: outfitter env explain ")
    done = user.run("env", "explain", "--inherit", "some")
    assert done.returncode == 2
    assert b"Usage: outfitter env explain" in done.stderr
