"""What a shell and a person ask about the commands: completion, help."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from outfitter.cli import completion
from outfitter.cli.commands import cli

from .commandline import User

# How a shell reads a script without running it.
SYNTAX = {"bash": ("bash", "-n"), "zsh": ("zsh", "-n"), "fish": ("fish", "--no-execute")}


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_script_is_one_of_that_shell(shell: str) -> None:
    text = completion.script(shell, cli)
    assert "_OUTFITTER_COMPLETE" in text
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here")
    assert subprocess.run(SYNTAX[shell], input=text.encode(), capture_output=True).returncode == 0


def test_bash_completes_names_of_environments_flags_and_commands(user: User) -> None:
    user.declare('[[environments]]\nid = "build"\nurl = "ws://127.0.0.1:9"\n')
    outfitter = os.path.join(os.path.dirname(sys.executable), "outfitter")
    code = (
        'eval "$("$0" completion bash)"\n'
        'ask() { COMPREPLY=(); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _outfitter_completion "$0"\n'
        'echo "${COMPREPLY[@]}"; }\n'
        "ask outfitter run --on b; ask outfitter run --detach-k; ask outfitter comp\n"
        # bash makes several words of an option with its value.
        "ask outfitter run --on = b; ask outfitter run --on =; ask outfitter run --on = build --detach-k"
    )
    done = subprocess.run(
        ["bash", "-c", code, outfitter], cwd=user.home, env=user.env(), capture_output=True, check=True
    )
    plain, behind_equals = ["build", "--detach-keys", "completion"], ["build", "local build", "--detach-keys"]
    assert done.stdout.decode().splitlines() == plain + behind_equals


def asked(user: User, shell: str, *words: str) -> list[str]:
    """What a shell is told where the last word is to be completed."""
    last = words[-1] if shell == "fish" else str(len(words))  # where it is, in zsh
    env = {"_OUTFITTER_COMPLETE": f"{shell}_complete", "COMP_WORDS": " ".join(("outfitter", *words))}
    return user.run(env={**env, "COMP_CWORD": last}).stdout.decode().splitlines()


def test_value_behind_an_equals_sign_leaves_its_option(user: User) -> None:
    # In zsh, `outfitter run --on=bu` became `outfitter run build`.
    user.declare('[[environments]]\nid = "build"\nurl = "ws://127.0.0.1:9"\n')
    assert asked(user, "zsh", "run", "--on=bu") == ["plain", "--on=build", "_"]
    assert asked(user, "fish", "run", "--on=bu") == ["plain,--on=build"]
    assert asked(user, "zsh", "run", "--on", "bu") == ["plain", "build", "_"]


def test_words_that_are_servers_or_files_are_completed_as_such(user: User) -> None:
    user.declare('[[environments]]\nid = "build"\nurl = "ws://127.0.0.1:9"\n')
    for command in ("sessions", "drain", "upgrade"):
        assert asked(user, "zsh", command, "bu") == ["plain", "build", "_"]
    # Which the shell looks for.
    for words in (("cp", "a"), ("cp", "x", "a"), ("run", "--", "make", "a")):
        assert asked(user, "zsh", *words) == ["file", "a", "_"]


def test_paths_are_nobodys_business_before_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One of the executor's may have the name of something that we cannot read here.
    monkeypatch.setattr(os, "access", lambda *_: False)
    for words in (["run", "--cwd", str(tmp_path), "--", "ls", str(tmp_path)], ["cp", str(tmp_path), "x:/y"]):
        command = cli.commands[words[0]]
        with command.make_context(words[0], words[1:]) as context:
            assert str(tmp_path) in (context.params.get("cwd"), context.params.get("source"))


def test_names_are_those_of_the_file_and_this_machine(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTFITTER_HOME", str(user.home))
    context = click.Context(cli)

    def found(incomplete: str) -> list[str]:
        return completion.environments(context, cli.params[0], incomplete)

    assert found("") == ["local"]
    user.declare('[[environments]]\nid = "build"\nurl = "ws://127.0.0.1:9"\n', user.home)
    assert (found(""), found("b"), found("x")) == (["local", "build"], ["build"], [])
    user.declare("nonsense", user.home)
    assert found("") == []


def test_help_of_a_command_is_its_own_page() -> None:
    assert completion.page(cli, (), cli.context_settings).startswith("Usage: outfitter [OPTIONS] COMMAND")
    assert completion.page(cli, ("env", "explain"), cli.context_settings).startswith(
        "Usage: outfitter env explain [OPTIONS]"
    )


@pytest.mark.parametrize("words", [("nosuch",), ("run", "more"), ("env", "nosuch")])
def test_help_of_no_command_is_a_usage_error(words: tuple[str, ...]) -> None:
    with pytest.raises(click.UsageError):
        completion.page(cli, words, cli.context_settings)
