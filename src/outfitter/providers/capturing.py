"""The mode `capture`: the project's own activation is run once, in a bash that nothing else uses.

What it leaves in the environment is the data. It sees what tools are started with, no more.
"""

from __future__ import annotations

from ..env.layer import Operation
from ..env.lists import ListValue
from ..host.tools.capture import capture
from ..shell.snapshot import is_of_the_shell
from ..shell.sourced import changes
from .base import Lost, Resolution, still_lost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ..env.origin import Origin
    from .base import Context

# A command that prints shell text, and its text; an activation's own last status means nothing.
EVALUATE = '__outfitter_text=$("$@") || \\builtin exit; \\builtin set --; \\builtin eval "$__outfitter_text"'
# Files, sourced one after another.
SOURCE = (
    '__outfitter_files=("$@"); \\builtin set --; '
    'for __outfitter_file in "${__outfitter_files[@]}"; do \\builtin . "$__outfitter_file"; done'
)


def captured(
    script: str,
    arguments: Sequence[str],
    root: str,
    context: Context,
    *,
    origin: Origin,
    remedy: str,
    snapshot: Resolution | None = None,
    env: Mapping[str, str] | None = None,
    dropped: Collection[str] = (),
    timeout: float = 0.0,
) -> Resolution:
    """What a script (`EVALUATE` or `SOURCE`, or one that begins so) makes of the tools' environment.

    It starts from `env`; without that, from what `snapshot` makes of the tools' environment. Where the
    snapshot gives an origin, it stays. Names in `dropped` are not part of it. `remedy` says what to do when
    it fails.
    """
    snapshot = snapshot or Resolution("applied")
    begin = _applied(snapshot, context.tool_env) if env is None else dict(env)
    done = capture(
        f"{script}\n\\builtin true",
        arguments=arguments,
        cwd=root,
        env=begin,
        timeout=timeout or context.timeout,
        mark=context.mark,
        inline=True,
    )
    watch, producer = snapshot.watch, snapshot.producer
    if done.env is None:
        note = f"its activation ran but gave no environment: {done.reason}; {remedy}"
        return Resolution("failed", note=note, watch=watch, producer=producer, stderr_tail=done.tail)
    # Marks that say "already done" are the shell's, which has ended; a snapshot knows which of them belong.
    marks = [name for name in done.env if name not in snapshot.set and is_of_the_shell(name)]
    found = changes(context.tool_env, done.env, ignore=(*dropped, *marks))
    lost = still_lost(snapshot.lost, "capture")
    named = {(one.kind, one.name) for one in lost}
    # What it left in its shell, as far as it is for people to use; the shell's own folder is not.
    lost += tuple(
        Lost(one.kind, one.name, "session")
        for one in done.lost
        if one.kind != "cwd" and (one.kind, one.name) not in named
    )
    return Resolution(
        "applied",
        set=found.set,
        unset=found.unset,
        operations=[Operation(one.variable, one.op, one.values, origin) for one in found.operations],
        origins={name: snapshot.origins.get(name, origin) for name in found.set},
        secrets=snapshot.secrets,
        lost=lost,
        watch=watch,
        producer=producer,
        stderr_tail=done.tail,
    )


def _applied(said: Resolution, env: Mapping[str, str]) -> dict[str, str]:
    """The environment that a resolution makes of another."""
    values = {name: value for name, value in env.items() if name not in said.unset}
    values.update(said.set)
    for one in said.operations:
        value = ListValue(one.variable)
        if one.variable in values:
            value.set(values[one.variable], 0, "base")
        value.operate(one.op, one.values, 3, "provider", None)
        value.tidy()
        values[one.variable] = value.text()
    return values
