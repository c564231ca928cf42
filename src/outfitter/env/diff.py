"""How two environments differ: names, and the entries of lists. Values are carried, and told only on request.

    changes = diff(here, there, list_names=LIST_NAMES, secrets=Secrets(), ignore=())

Where only digests of values are known (a lock, another machine), `diff_digests` tells what they can tell.
"""

from __future__ import annotations

from ..record import KW_ONLY, record
from .explain import shown
from .names import SHELL_MAINTAINED
from .redact import mask_pairs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from .redact import Secrets

    Json = dict[str, object]

KINDS = ("added", "removed", "changed")
_MARKS = {"added": "+", "removed": "-", "changed": "~"}


@record
class VariableChange:
    """What happened to one variable. `kind` is "added", "removed" or "changed".

    For a list, `segments_added` and `segments_removed` are its entries, and `moved` says that those it kept
    are in another order. `before` and `after` are the values, None where there is none or where only a digest
    is known. The repr has neither.
    """

    name: str
    kind: str
    _: KW_ONLY
    secret: bool = False
    segments_added: tuple[str, ...] = ()
    segments_removed: tuple[str, ...] = ()
    moved: bool = False
    before: str | None = None
    after: str | None = None

    def __repr__(self) -> str:
        return f"VariableChange({_MARKS[self.kind]}{self.name})"


def diff(
    a: Mapping[str, str],
    b: Mapping[str, str],
    *,
    list_names: Collection[str],
    secrets: Secrets,
    ignore: Collection[str] = SHELL_MAINTAINED,
) -> list[VariableChange]:
    """What turns `a` into `b`, in the order of names."""
    found = []
    for name in sorted({*a, *b}.difference(ignore)):
        before, after = a.get(name), b.get(name)
        if before == after:
            continue
        gone, new, moved = _entries(before, after) if name in list_names else ((), (), False)
        found.append(
            VariableChange(
                name,
                _kind(before is not None, after is not None),
                secret=secrets.holds(name, before or "") or secrets.holds(name, after or ""),
                segments_added=new,
                segments_removed=gone,
                moved=moved,
                before=before,
                after=after,
            )
        )
    return found


def diff_digests(
    a: Mapping[str, str | None], b: Mapping[str, str | None], *, ignore: Collection[str] = SHELL_MAINTAINED
) -> list[VariableChange]:
    """The same from digests under one key. None is a secret that has none: it is there, or it is not."""
    found = []
    for name in sorted({*a, *b}.difference(ignore)):
        before, after = a.get(name), b.get(name)
        secret = (name in a and before is None) or (name in b and after is None)
        if name in a and name in b and (secret or before == after):
            continue
        found.append(VariableChange(name, _kind(name in a, name in b), secret=secret))
    return found


# For people and programs


def encode(difference: VariableChange, show: str = "names", hidden: Collection[tuple[str, str]] = ()) -> Json:
    """For JSON. `show` is "names", "values" (all but secrets) or "secrets".

    The entries of a list are told with any, unless it is secret. `hidden` are secrets of other variables
    (`Secrets.among`), masked wherever they occur.
    """
    visible = show == "secrets" or not difference.secret

    def told(text: str) -> str:
        return shown(text if show == "secrets" else mask_pairs(text, hidden))

    entry: Json = {"name": shown(difference.name), "kind": difference.kind, "secret": difference.secret}
    if visible and difference.segments_added:
        entry["segmentsAdded"] = [told(one) for one in difference.segments_added]
    if visible and difference.segments_removed:
        entry["segmentsRemoved"] = [told(one) for one in difference.segments_removed]
    if difference.moved:
        entry["moved"] = True
    if visible and show != "names":
        if difference.before is not None:
            entry["before"] = told(difference.before)
        if difference.after is not None:
            entry["after"] = told(difference.after)
    return entry


def _kind(was: bool, is_now: bool) -> str:
    if was and is_now:
        return "changed"
    return "removed" if was else "added"


def _entries(before: str | None, after: str | None) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """What left a list, what came in, and whether the rest changed places."""
    old = [] if before is None else before.split(":")
    new = [] if after is None else after.split(":")
    gone, stayed = _without(old, new)
    came, stays = _without(new, old)
    return gone, came, stayed != stays


def _without(entries: list[str], others: list[str]) -> tuple[tuple[str, ...], list[str]]:
    """The entries that are not among the others, and those that are; each of the others counts once."""
    left: dict[str, int] = {}
    for other in others:
        left[other] = left.get(other, 0) + 1
    only, both = [], []
    for entry in entries:
        if left.get(entry, 0):
            left[entry] -= 1
            both.append(entry)
        else:
            only.append(entry)
    return tuple(only), both
