"""Gemini CLI."""

from __future__ import annotations

from .base import FULL_ACCESS, READ_ONLY, WORKSPACE_WRITE, Backend, options, text_or_none

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .base import Task

_WORDS = ("-y", "--yolo", "-s", "--sandbox", "--no-sandbox", "--skip-trust")
# What it may use or touch without asking: each takes a list.
_LISTS = ("--policy", "--admin-policy", "--allowed-tools", "--include-directories")
_MODES = {READ_ONLY: "plan", WORKSPACE_WRITE: "auto_edit", FULL_ACCESS: "yolo"}


class GeminiCli(Backend):
    name = "gemini"
    program = "gemini"
    denied = (
        *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_*"),
        *("OPENAI_API_KEY", "CODEX_*"),
    )
    home_variable = "GEMINI_CLI_HOME"

    def argv(self, kind: str, task: Task) -> list[str]:
        options = [f"--approval-mode={_MODES[task.sandbox]}"]
        if task.model is not None:
            options.append(f"--model={task.model}")
        options += [f"--include-directories={folder}" for folder in task.add_dirs]
        if kind == "resume":
            options.append(f"--resume={task.session or 'latest'}")
        if kind == "interactive":
            return [self.program, *options, *task.args, *([f"-i={task.prompt}"] if task.prompt else [])]
        return [self.program, *options, *task.args, "--output-format=stream-json", f"--prompt={task.prompt}"]

    def guards(self, argv: Sequence[str]) -> tuple[str, ...]:
        said = [f"mode={value}" for value in options(argv, "--approval-mode")]
        for name in _LISTS:
            said += [f"{name}={value}" for value in options(argv, name, many=True)]
        return tuple(said + [word for word in argv if word.partition("=")[0] in _WORDS])

    def session(self, event: Mapping[str, object]) -> str | None:
        return text_or_none(event.get("session_id")) if event.get("type") == "init" else None
