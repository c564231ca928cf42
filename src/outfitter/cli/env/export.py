"""outfitter env export: the environment of a command in the words of a shell or a tool."""

from __future__ import annotations

from ...env.explain import shown
from ...env.export import export as write
from ...env.names import SHELL_MAINTAINED
from ...env.pattern import Patterns, fold
from ...providers import inherited
from . import asking
from .output import emit_bytes, printable, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Set

    from ..wishes import Flags


def export(flags: Flags) -> int:
    """Prints the text; names on stderr what is not in it. Returns the exit status. Raises OutfitterError."""
    values, secret = _values(flags)
    unset: list[str] = []
    if flags["changed"]:
        ours = inherited.load()
        unset = [name for name in ours if name not in values]
        values = {name: value for name, value in values.items() if ours.get(name) != value}
    if flags["only"]:
        patterns = Patterns(tuple(flags["only"]))
        values = {name: value for name, value in values.items() if patterns.match(fold(name)) is not None}
        unset = [name for name in unset if patterns.match(fold(name)) is not None]
    hidden = [] if flags["show_secrets"] else sorted(secret & values.keys())
    for name in hidden:
        del values[name]
    text, left_out = write(values, flags["format"], unset=unset)
    emit_bytes(text.encode("utf-8", "surrogateescape"))
    if hidden:
        say(f"left out secrets: {', '.join(_plain(name) for name in hidden)} (--show-secrets prints them)")
    for name, why in left_out:
        if name not in SHELL_MAINTAINED:  # nobody misses those: the reader keeps its own
            say(f"left out: {_plain(name)}: {why}")
    return 0


def _values(flags: Flags) -> tuple[dict[str, str], Set[str]]:
    """Every variable with its value, and the names of the secret ones; what may not be seen is empty."""
    target = asking.where(flags)
    if target is None:
        # Exactly, also what is not UTF-8.
        contract, question = asking.here(flags)
        resolved = contract.resolve(question)
        return dict(resolved.values), asking.secret_values(contract, resolved, question.cwd).keys()
    told = asking.resolve(flags, "secrets" if flags["show_secrets"] else "values")["variables"]
    values = {name: str(entry.get("value", "")) for name, entry in told.items()}
    return values, {name for name, entry in told.items() if entry["secret"]}


def _plain(name: str) -> str:
    return printable(shown(name))
