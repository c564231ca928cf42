"""The agent CLIs that can be launched: one file each, and those that others register."""

from __future__ import annotations

from ...errors import SettingInvalid
from .base import Backend

GROUP = "outfitter.agents"  # of entry points: each names a class, or a function that makes a backend


def registered() -> dict[str, Backend]:
    """All of them by name, ours first. Raises SettingInvalid where one cannot be used."""
    from importlib.metadata import entry_points

    from .claude import ClaudeCode
    from .codex import CodexCli
    from .gemini import GeminiCli

    found: dict[str, Backend] = {one.name: one for one in (CodexCli(), ClaudeCode(), GeminiCli())}
    for point in entry_points(group=GROUP):
        backend = _made(point.name, point.load)
        if backend.name in found:
            raise SettingInvalid(
                f"two agents are called `{backend.name}`: entry point `{point.name}` ({point.value}) must "
                "choose another name"
            )
        found[backend.name] = backend
    return found


def backend(name: str) -> Backend:
    """Raises SettingInvalid for a name that nobody has."""
    found = registered()
    if name not in found:
        raise SettingInvalid(f"no agent is called `{name}`: there are {', '.join(found)}")
    return found[name]


def _made(name: str, load: object) -> Backend:
    why = "it is no outfitter.agents.Backend with a name"
    try:
        made = load()()  # type: ignore[operator]
    except Exception as error:  # somebody else's code
        made, why = None, f"{type(error).__name__}: {error}"
    if not isinstance(made, Backend) or not made.name:
        raise SettingInvalid(f"entry point `{name}` of `{GROUP}` gives no backend: {why}")
    return made
