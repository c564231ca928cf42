"""outfitter hook codex: the model is told about the environment; newer Codex takes it from the answer."""

from __future__ import annotations

from ...agents.hooks import codex_answer, codex_config, codex_environments
from ...record import replace
from ..env.output import emit, emit_json
from .session import HookSession, ourselves, run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ...agents.hooks import Answer

_RUN = "to apply it to a command: `outfitter run -- CMD`"


def codex(flags: Mapping[str, Any]) -> int:
    """Returns the exit status."""
    if flags["print_environments"]:
        program, *words = ourselves()
        _print("environments.toml", codex_environments(program, words), flags)
        return 0
    if flags["print_config"]:
        from shlex import join

        words = [*ourselves(), "hook", "codex", *(["--env"] if flags["env"] else [])]
        _print("config.toml", codex_config(join(words)), flags)
        return 0

    def apply(session: HookSession) -> Answer:
        change = session.change
        if flags["env"]:
            kept = ", ".join(change.unset)
            return session.answer(f"Codex cannot remove from commands: {kept}" if kept else "")
        return replace(session.answer(_RUN if change.set or change.unset else ""), env=None)

    return run(apply, codex_answer, lambda _: None, strict=flags["strict"])


def _print(file: str, text: str, flags: Mapping[str, Any]) -> None:
    if flags["json"]:
        emit_json({"file": file, "text": text})
    else:
        emit(text.rstrip("\n"))
