"""Codex CLI."""

from __future__ import annotations

from .base import Backend, before_prompt, options, text_or_none

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .base import Task

_BYPASSES = (
    *("--dangerously-bypass-approvals-and-sandbox", "--yolo", "--approve-for-me"),
    *("--ignore-rules", "--ignore-user-config"),
)


class CodexCli(Backend):
    name = "codex"
    program = "codex"
    denied = (
        *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"),
        *("CLAUDE_STREAM_IDLE_TIMEOUT_MS", "CLAUDE_CODE_*"),
    )
    home_variable = "CODEX_HOME"

    def argv(self, kind: str, task: Task) -> list[str]:
        # Options of `exec` go before `resume`, which knows fewer: --sandbox is not among them.
        options = ["--sandbox", task.sandbox]
        if task.model is not None:
            options += ["--model", task.model]
        for folder in task.add_dirs:
            options += ["--add-dir", folder]
        prompt = [task.prompt] if task.prompt else []
        if kind == "interactive":
            return [self.program, *options, *task.args, "--", *prompt]
        if kind != "resume":
            return [self.program, "exec", "--json", *options, *task.args, "--", *prompt]
        session = [task.session] if task.session else []
        last = [] if session else ["--last"]
        return [
            self.program,
            "exec",
            "--json",
            *options,
            *task.args,
            "resume",
            *last,
            "--",
            *session,
            *prompt,
        ]

    def guards(self, argv: Sequence[str]) -> tuple[str, ...]:
        said = [f"sandbox={value}" for value in options(argv, "--sandbox", "-s")]
        said += [f"approval={value}" for value in options(argv, "--ask-for-approval", "-a")]
        # Where it may write; and a file of settings, the sandbox's among them.
        said += [f"add-dir={value}" for value in options(argv, "--add-dir")]
        said += [f"cd={value}" for value in options(argv, "--cd", "-C")]
        said += [f"profile={value}" for value in options(argv, "--profile", "-p")]
        config = options(argv, "--config", "-c")
        said += [f"config={value}" for value in config if value.lstrip().startswith(("sandbox", "approval"))]
        return tuple(said + [word for word in before_prompt(argv) if word in _BYPASSES])

    def session(self, event: Mapping[str, object]) -> str | None:
        return text_or_none(event.get("thread_id")) if event.get("type") == "thread.started" else None
