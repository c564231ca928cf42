"""What a hook of Codex or Claude Code prints for the environment of later commands, as a contribution.

    {"hookSpecificOutput": {"hookEventName": "SessionStart", "env": {"A": "b", "GONE": null}}}

The rest of the output (context, messages, decisions) is ignored, but a member that no agent knows is refused:
who writes `environment` means `env`. Pure: text in, data out.
"""

from __future__ import annotations

from ..env.overlay import Rejection, read
from ..errors import OverlayRefused
from .document import JsonObject

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..env.overlay import Contribution

# Hooks that run before commands, and may say what those get.
EVENTS = ("SessionStart", "SubagentStart", "Setup", "CwdChanged")
# What else their output may have, as Codex and Claude Code take it.
_MEMBERS = ("hookEventName", "env", "additionalContext", "watchPaths", "initialUserMessage", "sessionTitle")
_MEANT = ("env", "environment", "variables")  # beside `hookSpecificOutput`, where nobody reads it
LARGEST = 1 << 20  # the largest environment there is, by default


def contribution(
    text: str, producer: str, *, strict: bool = False
) -> tuple[Contribution, tuple[Rejection, ...]]:
    """The contribution in a hook's output; empty if the output is plain text or about other things.

    `producer` is `hook:NAME` or `plugin:NAME`. Raises OverlayRefused if `strict` is set and anything is
    wrong.
    """
    env, found = _env(text, producer)
    contribution, rejected = read(producer, {"set": env})
    rejected = (*found, *rejected)
    if strict and rejected:
        raise OverlayRefused(producer, tuple(map(str, rejected)))
    return contribution, rejected


def _env(text: str, producer: str) -> tuple[dict[str, object], list[Rejection]]:
    if not text.lstrip().startswith("{"):
        return {}, []  # words for the model
    if len(text) > LARGEST:
        return {}, [Rejection(producer, "output", "field", f"it has more than {LARGEST} characters")]
    from json import loads

    try:
        told = loads(text, object_pairs_hook=JsonObject)
    except (ValueError, RecursionError):
        return {}, [Rejection(producer, "output", "field", "it starts like JSON, but is not valid JSON")]
    specific = told.get("hookSpecificOutput")
    why = "nobody reads it there: write the variables into `hookSpecificOutput.env`"
    rejected = [Rejection(producer, name, "field", why) for name in _MEANT if name in told]
    if not isinstance(specific, dict):
        return {}, rejected
    event, env = specific.get("hookEventName"), specific.get("env")
    if event in EVENTS:
        why = f"unknown member; known ones are {', '.join(_MEMBERS)}"
        rejected += [Rejection(producer, name, "field", why) for name in specific if name not in _MEMBERS]
    elif "env" in specific:
        why = f"only {', '.join(EVENTS)} hooks can set variables"
        return {}, [*rejected, Rejection(producer, "hookEventName", "field", why)]
    if env is None:
        return {}, rejected
    if not isinstance(env, JsonObject):
        why = "it must be an object whose keys are names of variables"
        return {}, [*rejected, Rejection(producer, "env", "field", why)]
    for name in env.twice:
        del env[name]
        rejected.append(Rejection(producer, name, "conflict", "it is listed twice: keep one of them"))
    return env, rejected
