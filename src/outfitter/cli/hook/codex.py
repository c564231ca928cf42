"""outfitter hook codex: the model is told about the environment; newer Codex takes it from the answer."""

from __future__ import annotations

from ...agents.hooks import codex_answer, codex_config, codex_environments
from ...record import replace
from ..env.output import emit
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
        emit(codex_environments(program, words).rstrip("\n"))
        return 0
    if flags["print_config"]:
        from shlex import join

        words = [*ourselves(), "hook", "codex", *(["--env"] if flags["env"] else [])]
        emit(codex_config(join(words)).rstrip("\n"))
        return 0

    def apply(session: HookSession) -> Answer:
        change = session.change
        if flags["env"]:
            kept = ", ".join(change.unset)
            return session.answer(f"Codex cannot remove from commands: {kept}" if kept else "")
        return replace(session.answer(_RUN if change.set or change.unset else ""), env=None)

    return run(apply, codex_answer, lambda _: None, strict=flags["strict"])
