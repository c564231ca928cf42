"""Claude Code."""

from __future__ import annotations

from .base import FULL_ACCESS, READ_ONLY, WORKSPACE_WRITE, Backend, before_prompt, options, text_or_none

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .base import Task

# Its own words for how much it may do without asking.
_MODES = {READ_ONLY: "plan", WORKSPACE_WRITE: "acceptEdits", FULL_ACCESS: "bypassPermissions"}
_BYPASSES = ("--dangerously-skip-permissions", "--allow-dangerously-skip-permissions")
# What it may use or touch without asking: each takes a list.
_LISTS = (
    *(("--allowedTools", "--allowed-tools"), ("--disallowedTools", "--disallowed-tools")),
    *(("--tools",), ("--add-dir",)),
)
# Settings have permissions among them.
_SETTINGS = "--settings", "--setting-sources", "--permission-prompt-tool"


class ClaudeCode(Backend):
    name = "claude"
    program = "claude"
    denied = ("OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_*")
    home_variable = "CLAUDE_CONFIG_DIR"

    def argv(self, kind: str, task: Task) -> list[str]:
        options = ["--permission-mode", _MODES[task.sandbox]]
        if task.model is not None:
            options += ["--model", task.model]
        for folder in task.add_dirs:
            options += ["--add-dir", folder]
        if kind == "resume":
            options += ["--resume", task.session] if task.session else ["--continue"]
        if kind != "interactive":
            options += ["-p", "--output-format", "stream-json", "--verbose"]
        # --add-dir takes all words up to the next option: `--` ends that.
        return [self.program, *options, *task.args, "--", *([task.prompt] if task.prompt else [])]

    def guards(self, argv: Sequence[str]) -> tuple[str, ...]:
        said = [f"mode={value}" for value in options(argv, "--permission-mode")]
        for names in _LISTS:
            said += [f"{names[0]}={value}" for value in options(argv, *names, many=True)]
        for name in _SETTINGS:
            said += [f"{name}={value}" for value in options(argv, name)]
        return tuple(said + [word for word in before_prompt(argv) if word in _BYPASSES])

    def session(self, event: Mapping[str, object]) -> str | None:
        return text_or_none(event.get("session_id")) if event.get("subtype") == "init" else None
