"""The agents' own files: what in them keeps Outfitter from its work, or takes away what it promises.

Only looked at: Codex's config.toml, and the settings.json of Claude Code for the user and the project.
"""

from __future__ import annotations

import os

from ...places import agent_home
from ...record import record
from .agents import read_bytes, settings_files
from .check import Check, Finding
from .fixes import Removal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from .fixes import Fix
    from .machine import Machine

    Found = Callable[[str], bool]  # whether a program is there

_OURS = {"codex": "hook codex", "claude": "hook claude"}  # in the command of a hook
_DEPTH = 8  # of tables around a command of a hook; agents have three


@record
class Fault:
    """One thing that is wrong, and what to do about it, as a sentence."""

    text: str
    remedy: str
    fix: Fix | None = None


@record
class AgentFiles:
    """The files that were read, and what is wrong with them."""

    files: tuple[str, ...]
    faults: tuple[Fault, ...]


# What is wrong


def codex_faults(values: dict[str, Any], path: str, found: Found) -> Iterator[Fault]:
    """In Codex's config.toml."""
    yield from _hook_faults("codex", values.get("hooks"), path, found)
    if values.get("sandbox_mode") == "danger-full-access":
        yield Fault(
            f"{path}: sandbox_mode is danger-full-access: Codex asks for no sandbox, and no command gets one",
            f'Write sandbox_mode = "workspace-write" in {path}.',
        )
    policy = values.get("shell_environment_policy")
    if isinstance(policy, dict) and policy.get("inherit") == "none" and not policy.get("set"):
        yield Fault(
            f"{path}: shell_environment_policy.inherit is none, and nothing is set: no command has a PATH",
            f'Write inherit = "core" under [shell_environment_policy] in {path}.',
        )


def claude_faults(values: dict[str, Any], path: str, found: Found) -> Iterator[Fault]:
    """In a settings.json of Claude Code."""
    hooks = values.get("hooks")
    yield from _hook_faults("claude", hooks, path, found)
    if values.get("disableAllHooks") is True:
        yield Fault(
            f"{path}: disableAllHooks is true, so the hook of Outfitter does not run either",
            f"Remove disableAllHooks from {path}.",
            Removal(path, ("disableAllHooks",)),
        )
    env = values.get("env")
    if isinstance(env, dict) and "PATH" in env:
        yield Fault(
            f"{path}: env sets PATH, for Claude Code itself and for every command that no hook reaches",
            f"Remove PATH from env in {path}: `outfitter env set` and outfitter.toml set it for a project.",
            Removal(path, ("env", "PATH")),
        )
    sandbox = values.get("sandbox")
    if isinstance(sandbox, dict) and sandbox.get("enabled") is True:
        excluded = sandbox.get("excludedCommands")
        if isinstance(excluded, list) and (shells := tuple(word for word in excluded if _is_shell(word))):
            yield Fault(
                f"{path}: the sandbox excludes shells, and so every command that a shell runs",
                f"Remove the shells from sandbox.excludedCommands in {path}.",
                Removal(path, ("sandbox", "excludedCommands"), shells),
            )


def _is_shell(word: object) -> bool:
    program = word.partition(" ")[0].partition(":")[0] if isinstance(word, str) else ""
    return os.path.basename(program) in ("sh", "bash", "zsh", "dash", "fish")


def _hook_faults(agent: str, hooks: object, path: str, found: Found) -> Iterator[Fault]:
    """Hooks of ours whose program is not there: the agent goes on without a word."""
    for command in dict.fromkeys(_commands(hooks)):
        program = _first_word(command)
        if _OURS[agent] in command and program and not found(program):
            yield Fault(
                f"{path}: a hook runs {program}, which is not there or cannot be run",
                f"Correct the hook in {path}: "
                f"`outfitter hook {agent} --print-{'config' if agent == 'codex' else 'settings'}` prints it.",
            )


def _commands(hooks: object, depth: int = _DEPTH) -> Iterator[str]:
    """The commands of hooks, wherever they stand below."""
    if isinstance(hooks, dict):
        if isinstance(hooks.get("command"), str):
            yield hooks["command"]
        hooks = list(hooks.values())
    if isinstance(hooks, list) and depth:
        for one in hooks:
            yield from _commands(one, depth - 1)


def _first_word(command: str) -> str:
    from shlex import split

    try:
        return (split(command) or [""])[0]
    except ValueError:
        return ""  # a shell may read it all the same


# What is there


def _found(machine: Machine) -> Found:
    from shutil import which

    return lambda program: which(program, path=machine.environ.get("PATH", os.defpath)) is not None


def codex_settings(machine: Machine) -> AgentFiles:
    path = f"{agent_home(machine.environ, 'CODEX_HOME', '.codex')}/config.toml"
    text = read_bytes(path).decode("utf-8", "replace")
    if not text:
        return AgentFiles((), ())
    from tomllib import TOMLDecodeError, loads

    try:
        faults = tuple(codex_faults(loads(text), path, _found(machine)))
    except (TOMLDecodeError, RecursionError):
        faults = ()  # `codex.config` says so
    return AgentFiles((path,), faults)


def claude_settings(machine: Machine) -> AgentFiles:
    from json import JSONDecodeError, loads

    files: list[str] = []
    faults: list[Fault] = []
    for path in settings_files(machine):
        text = read_bytes(path).decode("utf-8", "replace")
        if not text.strip():
            continue
        files.append(path)
        try:
            values = loads(text)
        except (ValueError, RecursionError) as error:
            where = f"{path}:{error.lineno}" if isinstance(error, JSONDecodeError) else path
            faults.append(Fault(f"{where}: this is not JSON", f"Correct {path}."))
            continue
        faults += claude_faults(values if isinstance(values, dict) else {}, path, _found(machine))
    return AgentFiles(tuple(files), tuple(faults))


def finding(agent: str, seen: AgentFiles) -> Finding:
    """What a report says of them."""
    if not seen.files:
        return Finding("ok", f"no settings of {agent}")
    if not seen.faults:
        return Finding("ok", f"nothing in the settings of {agent} is in the way", seen.files)
    return faulty(f"the settings of {agent}", seen.faults)


def faulty(what: str, faults: Sequence[Fault]) -> Finding:
    """All faults, and the remedy and the fix of the first: the next report has those of the next."""
    count = "1 problem" if len(faults) == 1 else f"{len(faults)} problems"
    first, texts = faults[0], [fault.text for fault in faults]
    return Finding("warning", f"{count} in {what}", texts, first.remedy, first.fix)


CHECKS = (
    Check("codex.settings", (codex_settings,), lambda seen: finding("Codex", seen)),
    Check("agents.claude-settings", (claude_settings,), lambda seen: finding("Claude Code", seen)),
)
