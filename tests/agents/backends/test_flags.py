"""Every flag that a builder writes is one that the installed agent knows: the agent itself is asked."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Callable
from tempfile import TemporaryDirectory

import pytest

from outfitter.agents.backends import backend, registered
from outfitter.agents.backends.base import FULL_ACCESS, READ_ONLY, SANDBOXES, WORKSPACE_WRITE, Task, options
from outfitter.env.launches import KINDS
from outfitter.errors import SettingInvalid
from tests.support.tools import claude_binary, codex_binary, gemini

SESSION = "7f9f9a2e-0a0e-4b7e-9d0e-3d0c6f1e2a3b"
AGENTS: dict[str, tuple[str, Callable[[], list[str]]]] = {
    "codex": ("codex", lambda: [str(codex_binary())]),
    "claude": ("claude", lambda: [str(claude_binary())]),
    "claude-next": ("claude", lambda: [str(claude_binary("claude-next"))]),
    "gemini": ("gemini", gemini),
}


def tasks() -> list[Task]:
    full = {"model": "m", "add_dirs": ("/one", "/two")}
    return [
        Task(prompt, cwd="/work", sandbox=sandbox, session=session, **more)  # type: ignore[arg-type]
        for prompt in ("", "do it")
        for sandbox in SANDBOXES
        for session in ("", SESSION)
        for more in ({}, full)
    ]


@functools.cache
def asked(*words: str) -> str:
    """What an agent says of its flags; each page is asked for once, as an agent takes seconds to start."""
    with TemporaryDirectory() as home:
        env = {"HOME": home, "PATH": "/usr/bin:/bin"}
        done = subprocess.run([*words, "--help"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("agent", list(AGENTS))
def test_agent_knows_every_flag(agent: str) -> None:
    name, words = AGENTS[agent]
    one = backend(name)
    pages: dict[tuple[str, ...], set[str]] = {}
    for kind in KINDS:
        for task in tasks():
            argv = one.argv(kind, task)
            # Words before the first option and after `resume` are commands, whose own page is asked.
            command: tuple[str, ...] = ()
            for word in argv[1:]:
                if word == "--":
                    break
                if word in ("exec", "resume"):
                    command = (*command, word)
                elif word.startswith("-"):
                    page = pages.get(command)
                    if page is None:
                        said = asked(*words(), *command)
                        page = pages[command] = set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", said))
                    assert word.partition("=")[0] in page, (kind, argv)


@pytest.mark.parametrize("agent", list(AGENTS))
@pytest.mark.parametrize(("sandbox", "place"), [(READ_ONLY, 0), (WORKSPACE_WRITE, 1), (FULL_ACCESS, 2)])
def test_agent_has_the_word_for_each_sandbox(agent: str, sandbox: str, place: int) -> None:
    name, words = AGENTS[agent]
    argv = backend(name).argv("headless", Task("do", cwd="/work", sandbox=sandbox))
    [value] = options(argv, "--sandbox", "--permission-mode", "--approval-mode")
    said = asked(*words(), *(["exec"] if name == "codex" else []))
    assert re.search(rf"\b{value}\b", said)


def test_prompt_that_looks_like_a_flag_is_still_the_prompt() -> None:
    for one in registered().values():
        for kind in KINDS:
            argv = one.argv(kind, Task("--help", cwd="/work", session=SESSION))
            assert "--help" not in argv[: argv.index("--")] if "--" in argv else "--help" not in argv, argv


def test_guards_see_what_a_person_adds() -> None:
    plain = Task("do", cwd="/work")
    for name, word in (
        ("codex", "--dangerously-bypass-approvals-and-sandbox"),
        ("claude", "--dangerously-skip-permissions"),
        ("gemini", "--yolo"),
    ):
        one = backend(name)
        more = Task("do", cwd="/work", args=(word,))
        assert word in one.guards(one.argv("headless", more))
        assert one.guards(one.argv("headless", plain)) != one.guards(one.argv("headless", more))
    codex = backend("codex")
    override = Task("do", cwd="/work", args=("-c", 'sandbox_mode="danger-full-access"'))
    assert codex.guards(codex.argv("headless", override))[1:] == ('config=sandbox_mode="danger-full-access"',)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("codex", ("--config", "approval_policy=never")),
        ("codex", ("--config=sandbox_mode=danger-full-access",)),
        ("codex", ("-csandbox_mode=danger-full-access",)),
        ("codex", ("-c=sandbox_mode=danger-full-access",)),
        ("codex", ("--yolo",)),
        ("codex", ("-a", "never")),
        ("codex", ("--sandbox", "danger-full-access")),
        ("codex", ("--add-dir", "/")),
        ("codex", ("-C/",)),
        ("codex", ("--profile", "wide")),
        ("codex", ("--ignore-rules",)),
        ("claude", ("--permission-mode", "bypassPermissions")),
        ("claude", ("--permission-mode=bypassPermissions",)),
        ("claude", ("--allowed-tools=Read", "--allowedTools", "Bash")),
        ("claude", ("--add-dir=/",)),
        ("claude", ("--settings", '{"permissions": {"allow": ["Bash"]}}')),
        ("gemini", ("--approval-mode=yolo",)),
        ("gemini", ("--yolo=true",)),
        ("gemini", ("--include-directories", "/")),
    ],
)
def test_guards_see_it_however_it_is_written(name: str, args: tuple[str, ...]) -> None:
    one = backend(name)
    plain, more = Task("do", cwd="/work"), Task("do", cwd="/work", args=args)
    said = one.guards(one.argv("resume", more))
    assert one.guards(one.argv("resume", plain)) != said


@pytest.mark.parametrize(
    ("name", "option"), [("claude", "--allowedTools"), ("claude", "--add-dir"), ("gemini", "--allowed-tools")]
)
def test_guards_see_every_word_of_a_list(name: str, option: str) -> None:
    # Each of these agents takes all words up to the next option.
    one = backend(name)

    def said(*words: str) -> tuple[str, ...]:
        return one.guards(one.argv("resume", Task("do", cwd="/work", args=(option, *words))))

    assert [value for value in said("a", "b", "--debug", "c") if value.startswith(option)] == [
        f"{option}=a",
        f"{option}=b",
    ]
    assert said("a") != said("a", "b")


@pytest.mark.parametrize("name", ["codex", "claude"])
def test_a_prompt_is_no_guard(name: str) -> None:
    one = backend(name)
    plain = one.guards(one.argv("resume", Task("do", cwd="/work")))
    for prompt in ("--yolo", "--dangerously-skip-permissions", "-csandbox_mode=x"):
        assert one.guards(one.argv("resume", Task(prompt, cwd="/work"))) == plain


def test_unknown_sandbox_and_unknown_agent_are_refused() -> None:
    with pytest.raises(SettingInvalid, match="sandbox `none` is none of read-only, workspace-write"):
        Task("do", cwd="/work", sandbox="none")
    with pytest.raises(SettingInvalid, match="no agent is called `cursor`: there are codex, claude, gemini"):
        backend("cursor")
