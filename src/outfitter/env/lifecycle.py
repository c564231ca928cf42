"""What becomes of an environment when something happens to its session: one table, and the overlay's part.

The levels are those of `env.layer`. A cell that says nothing is empty: nothing is done then.
"""

from __future__ import annotations

from ..record import record
from .layer import BASE, POLICY, PROVIDER, REQUESTED, SESSION, SETUP
from .overlay import narrowed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .overlay import Overlay
    from .redact import Secrets

# Columns: the executor's own (L0-L2), the project's (L3-L4), the session's overlay (L5), the request's (L7).
COLUMNS = ((BASE, POLICY), (PROVIDER, SETUP), (SESSION, SESSION), (REQUESTED, REQUESTED))
TABLE: dict[str, tuple[str, str, str, str]] = {
    "new": ("fresh", "resolve", "run-hooks", "none"),
    # From the executor that is there now; a fingerprint that differs is announced.
    "resume": ("reread", "re-resolve", "rerun-hooks", "none"),
    "clear": ("keep", "keep", "drop-hooks", "drop"),
    "compact": ("keep", "keep", "keep", "drop"),
    "fork": ("copy", "copy", "copy", "none"),
    # Inside the root: only if a nearer provider's file governs.
    "cwd": ("keep", "resolve-if-nearer", "keep", ""),
    # Another root or worktree: trust is by content, and goes along when the content is the same.
    "root": ("keep", "resolve", "keep", ""),
    # A client reuses a daemon, which must name its base, and say so when the client's differs.
    "daemon": ("name-base", "", "", ""),
}
EVENTS = tuple(TABLE)


def action(event: str, level: int) -> str:
    """What an event does to a level; empty where the table says nothing."""
    for said, (lowest, highest) in zip(TABLE[event], COLUMNS, strict=True):
        if lowest <= level <= highest:
            return said
    return ""


@record
class Outcome:
    """What an event has made of an overlay.

    `rerun` are the producers that must run again, and `reason` is what to tell them. `lost` are (producer,
    name): what was there, is not any more, and comes back by nobody's doing.
    """

    overlay: Overlay
    rerun: tuple[str, ...] = ()
    reason: str = ""
    lost: tuple[tuple[str, str], ...] = ()


def happened(
    overlay: Overlay,
    event: str,
    *,
    secrets: Secrets,
    to: str = "",
    unset: Iterable[str] = (),
    hide_secrets: bool = False,
) -> Outcome:
    """Applies the overlay's column of the table. `secrets` tells what is one.

    `to` is the id of the copy that a fork makes; a subagent's may be narrowed by `unset` and `hide_secrets`.
    Raises ValueError for a fork without an id of its own.
    """
    hooks = tuple(one.producer for one in overlay.contributions if one.is_hook)
    match action(event, SESSION):
        case "run-hooks":
            # A session that begins has nothing yet, whoever had its id before.
            said = [one for one in overlay.contributions if not one.is_hook]
            lost = tuple((one.producer, name) for one in said for name in one.names)
            return Outcome(overlay.only(()), hooks, event, lost)  # and what it may not have stays away
        case "rerun-hooks":
            # Hooks replace their own when they run. Of what somebody has said, secrets are not brought back,
            # the same whether this process has been there all the time or not.
            kept, lost = _without_secrets(overlay, secrets)
            return Outcome(kept, hooks, event, lost)
        case "drop-hooks":
            said = [one for one in overlay.contributions if not one.is_hook]
            return Outcome(overlay.only(said), hooks, event)
        case "copy":
            if not to or to == overlay.id:
                raise ValueError("a fork needs an id of its own")
            return Outcome(narrowed(overlay, to, unset=unset, hide_secrets=secrets if hide_secrets else None))
    return Outcome(overlay)


def _without_secrets(overlay: Overlay, secrets: Secrets) -> tuple[Overlay, tuple[tuple[str, str], ...]]:
    kept = []
    lost: list[tuple[str, str]] = []
    for one in overlay.contributions:
        # That a variable is taken away is no secret: its value from below would come back.
        hidden = [] if one.is_hook else [name for name in one.secret_names(secrets) if name not in one.unset]
        lost += [(one.producer, name) for name in hidden]
        rest = one.without(hidden)
        if rest.names or one.is_hook:
            kept.append(rest)
    return overlay.only(kept), tuple(lost)
