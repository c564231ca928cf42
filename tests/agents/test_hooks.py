"""What agents' hooks are told and say, and our part of an environment file, as plain data."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.agents.hooks import (
    BEGIN,
    END,
    LARGEST_BLOCK,
    LONGEST_LINE,
    Answer,
    Difference,
    Heard,
    block,
    claude_answer,
    claude_settings,
    codex_answer,
    codex_config,
    codex_environments,
    difference,
    has_block,
    hear,
    told_withheld,
    troubles,
    with_block,
)
from outfitter.env.layer import BASE, OVERRIDE, PROVIDER, SETUP, SNAPSHOT, Layer, Operation
from outfitter.env.origin import EXECUTOR, Origin
from outfitter.env.policy import Policy
from outfitter.env.redact import Secrets
from outfitter.env.resolve import Resolved, resolve
from outfitter.errors import SettingInvalid
from tests.support.tools import program

HERE = Origin("project", "test")
# As the agents of these versions send it: Claude Code 2.1.197, Codex 0.166.0.
CLAUDE = {
    "session_id": "a30a1d09-fb42-4c2a-91c2-2e603b334992",
    "transcript_path": "/home/u/.claude/projects/-ws/a30a1d09.jsonl",
    "cwd": "/ws",
    "hook_event_name": "SessionStart",
    "source": "startup",
}
CLAUDE_MOVED = {
    **{key: CLAUDE[key] for key in ("session_id", "transcript_path")},
    "cwd": "/ws",
    "prompt_id": "339fb23e-c492-43cb-a4fd-07f4b2995031",
    "hook_event_name": "CwdChanged",
    "old_cwd": "/ws",
    "new_cwd": "/ws/sub",
}
CODEX = {
    "session_id": "01a1df0a-ab3c-7e10-a97d-3ae56e4b0edb",
    "transcript_path": None,
    "cwd": "/ws",
    "hook_event_name": "SessionStart",
    "model": "gpt-5.5",
    "permission_mode": "bypassPermissions",
    "source": "resume",
}


# What an agent says


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        (CLAUDE, Heard("SessionStart", "/ws", "startup", CLAUDE["session_id"])),
        (CLAUDE_MOVED, Heard("CwdChanged", "/ws/sub", session=CLAUDE_MOVED["session_id"])),
        (CODEX, Heard("SessionStart", "/ws", "resume", str(CODEX["session_id"]))),
    ],
)
def test_an_input_is_read(said: object, heard: Heard) -> None:
    assert hear(json.dumps(said)) == heard


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "null", "{", '{"cwd": "/ws"}', '{"hook_event_name": "SessionStart"}', "[" * 100_000),
        '{"hook_event_name": 1, "cwd": "/ws"}',
        '{"hook_event_name": "SessionStart", "cwd": "/w\\u0000s"}',
    ],
)
def test_what_is_no_input_is_refused(text: str) -> None:
    with pytest.raises(SettingInvalid, match="the hook's input"):
        hear(text)


@given(st.text() | st.recursive(st.none() | st.text(), st.lists).map(json.dumps))
def test_no_input_does_harm(text: str) -> None:
    try:
        assert hear(text).event
    except SettingInvalid:
        pass


# What there is to be said


def resolved(base: Mapping[str, str], *layers: Layer, policies: tuple[Policy, ...] = ()) -> Resolved:
    return resolve([Layer(BASE, "base", EXECUTOR, base), *layers], policies)


def changes(own: Mapping[str, str], *layers: Layer, policies: tuple[Policy, ...] = ()) -> Difference:
    return difference(resolved(own, *layers, policies=policies), own, Secrets())


OWN = {"PATH": "/usr/bin:/bin", "HOME": "/home/u", "SAME": "1", "OLD": "1", "OTHER": "1"}


def test_only_what_differs_is_said_and_lists_are_whole() -> None:
    project = Layer(
        PROVIDER,
        "project",
        HERE,
        {"NEW": "2", "SAME": "1"},
        unset=["OLD", "NOT_THERE"],
        operations=[Operation("PATH", "prepend", ("/ws/bin",))],
    )
    assert changes(OWN, project) == Difference({"NEW": "2", "PATH": "/ws/bin:/usr/bin:/bin"}, ("OLD",), ())


def test_the_highest_layer_has_the_last_word() -> None:
    layers = [Layer(level, "x", HERE, {"NEW": str(level)}) for level in (PROVIDER, SETUP, OVERRIDE)]
    assert changes(OWN, *layers) == Difference({"NEW": "6"}, (), ())


def test_what_the_agent_has_itself_is_its_own_business() -> None:
    login = Layer(SNAPSHOT, "login", HERE, {"OTHER": "2", "FROM_LOGIN": "1"})
    policy = Policy("all", True, (), (("FROM_POLICY", "1"),), ())
    assert changes(OWN, login) == changes(OWN, policies=(policy,)) == Difference({}, (), ())


def test_what_a_policy_takes_from_the_agents_own_is_unset() -> None:
    policy = Policy("all", True, ("OLD", "S*"), (), ())
    assert changes(OWN, policies=(policy,)) == Difference({}, ("OLD", "SAME"), ())
    nothing = Policy("none", False, (), (), ())
    assert changes(OWN, policies=(nothing,)) == Difference({}, ("HOME", "OLD", "OTHER", "SAME"), ())


def test_another_projects_activation_is_taken_back() -> None:
    layer = Layer(SNAPSHOT, "activation", HERE, {"PATH": "/bin"}, unset=["OLD"])
    assert changes(OWN, layer) == Difference({"PATH": "/bin"}, ("OLD",), ())


def test_what_is_refused_is_not_said() -> None:
    layer = Layer(PROVIDER, "project", HERE, {"LD_PRELOAD": "/x.so", "HOME": "/ws"}, unset=["PATH"])
    assert changes(OWN, layer) == Difference({"HOME": "/ws"}, (), ())


def test_a_secret_is_withheld_wherever_it_is() -> None:
    values = {"API_TOKEN": "hush-hush", "MARKED": "quite-so", "URL": "x?t=hush-hush", "PLAIN": "1"}
    layer = Layer(PROVIDER, "project", HERE, values, secrets=frozenset(("MARKED",)))
    assert changes(OWN, layer) == Difference({"PLAIN": "1"}, (), ("API_TOKEN", "MARKED", "URL"))
    # One of the agent's own, in a value of the project's.
    again = Layer(PROVIDER, "project", HERE, {"URL": "x?t=hush-hush"})
    assert changes({**OWN, "API_TOKEN": "hush-hush"}, again) == Difference({}, (), ("URL",))


def test_what_has_to_be_done_is_told() -> None:
    layers = [
        Layer(PROVIDER, "direnv", HERE, state="blocked", note="not trusted: direnv allow /ws"),
        Layer(PROVIDER, "x\x1b[1m", HERE, state="failed", note="said\n" + "a lot " * 1000),
        Layer(PROVIDER, "fine", HERE, {"A": "1"}),
        Layer(SETUP, "setup", HERE, state="missing"),
    ]
    direnv, failed = troubles(resolved(OWN, *layers))
    assert direnv == "direnv is blocked: not trusted: direnv allow /ws"
    assert failed.startswith("x [1m has failed: said a lot a lot")
    assert len(failed) == LONGEST_LINE
    assert told_withheld(()) == ""
    assert told_withheld(("A", "B")).startswith("secrets are not passed to commands: A, B (")


def test_each_agent_gets_only_what_it_takes() -> None:
    answer = Answer("env: x", "look", env={"A": "1", "ODD": "\udcff"}, watch=["/ws/outfitter.toml"])
    start = {"hookEventName": "SessionStart", "additionalContext": "env: x"}
    watch = {"watchPaths": ["/ws/outfitter.toml"]}
    assert claude_answer("SessionStart", answer) == {
        "systemMessage": "look",
        "hookSpecificOutput": {**start, **watch},
    }
    assert claude_answer("CwdChanged", Answer("env: x", watch=answer.watch)) == {
        "hookSpecificOutput": {"hookEventName": "CwdChanged", **watch}
    }
    assert codex_answer("SessionStart", Answer("env: x", watch=answer.watch)) == {"hookSpecificOutput": start}
    assert codex_answer("SessionStart", answer) == {
        "systemMessage": "look",
        "hookSpecificOutput": {**start, "env": {"A": "1"}},
    }
    for write in (claude_answer, codex_answer):
        assert write("", answer) == {"systemMessage": "look"}
        assert write("Stop", Answer("env: x")) == {}


# The environment file

# Text that is likely to look like our own.
nearly = st.lists(st.sampled_from([BEGIN, END, "\n", "#", "'", " ", "\r", "\u2028", "\\", "$(x)", "a"])).map(
    "".join
)


def part(values: Mapping[str, str], *unset: str) -> str:
    text, left_out = block(Difference(dict(values), unset, ()))
    assert left_out == []
    return text


def test_a_part_of_a_file() -> None:
    assert part({"B": "it's", "A": ""}, "C") == (
        f"{BEGIN}\nexport A=''\nexport B='it'\\''s'\nunset C\n{END}\n"
    )
    assert part({}) == ""


def test_what_would_arrive_as_something_else_is_left_out() -> None:
    text, left_out = block(Difference({"A": "\udcff", "PWD": "/", "B": "1"}, (), ()))
    assert text == f"{BEGIN}\nexport B='1'\n{END}\n"
    assert [name for name, _ in left_out] == ["A", "PWD"]


def test_half_an_environment_is_none() -> None:
    with pytest.raises(SettingInvalid, match="outfitter run"):
        block(Difference({"A": "x" * LARGEST_BLOCK}, (), ()))


@given(nearly)
def test_no_value_imitates_a_mark(value: str) -> None:
    lines = part({"A": value}).split("\n")
    assert (lines[0], lines[-2:]) == (BEGIN, [END, ""])
    assert not {BEGIN, END} & set(lines[1:-2])


@given(nearly, nearly, nearly)
def test_our_part_is_replaced_and_all_else_stays(others: str, one: str, two: str) -> None:
    others = others.replace(BEGIN, "").replace(END, "")
    first = with_block(others, part({"A": one}))
    assert has_block(first)
    assert with_block(first, part({"A": one})) == first
    second = with_block(first, part({"B": two}))
    assert second == with_block(others, part({"B": two}))
    behind = with_block(second + others, "")
    ended = others if others == "" or others.endswith("\n") else f"{others}\n"
    assert behind == ended + others
    assert with_block(others, "") == others


@pytest.mark.parametrize("shell", ["bash", "zsh", "sh"])
def test_shells_read_it_to_the_letter(shell: str) -> None:
    values = {
        "A": f'it\'s "$HOME" `id` $(id) \\ !x ~\n{END}\nexport INJECTED=1\n# x',
        "B": "",
        "C": "\u00e4\t\r\n\n",
        "PATH": "/usr/bin:/bin:/x y",
    }
    # As Claude Code puts it in front of a command.
    text = f"true 2>/dev/null || true && {part(values, 'GONE').strip()}\n: && eval 'env -0'"
    done = subprocess.run(
        [program(shell), "-c", text],
        capture_output=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "GONE": "1"},
    )
    found = dict(entry.split("=", 1) for entry in done.stdout.decode().rstrip("\0").split("\0"))
    assert {name: found.get(name) for name in (*values, "GONE", "INJECTED")} == {
        **values,
        "GONE": None,
        "INJECTED": None,
    }


# What a person pastes


def test_what_is_pasted_can_be_read() -> None:
    command = "'/a b/\U0001f600\"\\' hook codex"
    assert tomllib.loads(codex_config(command)) == {
        "hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": command}]}]}
    }
    assert tomllib.loads(codex_environments("outfitter")) == {
        "default": "outfitter",
        "include_local": False,
        "environments": [{"id": "outfitter", "program": "outfitter", "args": ["serve", "--listen", "stdio"]}],
    }
    hooks = claude_settings("outfitter hook claude")["hooks"]
    assert isinstance(hooks, dict)
    assert list(hooks) == ["SessionStart", "CwdChanged", "FileChanged"]
    assert {json.dumps(one) for one in hooks.values()} == {
        json.dumps([{"hooks": [{"type": "command", "command": "outfitter hook claude"}]}])
    }


@pytest.mark.parametrize(
    ("program", "gone"),
    [("", False), ("sh", False), ("/bin/sh", False), ("no-such-program", True), ("/no such/program", True)],
)
def test_commands_of_a_session_say_that_its_hook_s_program_is_gone(program: str, gone: bool) -> None:
    text, _ = block(Difference({"A": "1"}, (), ()), program)
    ran = subprocess.run(["bash", "-c", f"{text}\necho $A"], capture_output=True, check=True)
    assert ran.stdout == b"1\n"
    lines = ran.stderr.splitlines()
    assert [line.startswith(b"[outfitter] the variables of this session are old") for line in lines] == [
        True
    ] * gone
