"""What a confinement lets be seen of the files that are here, for the file operations of one request."""

from __future__ import annotations

import os
import time
from os.path import lexists

from ...core.permissions import DENY, READ, WRITE, Rule
from ...core.visibility import Visibility
from ...errors import FileFailed
from ...record import record, replace
from .paths import look, settle
from .refusal import Unenforceable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...core.permissions import Confinement

    Stamp = tuple[int, int] | None  # which file had a path

# What was found out for reading is used again for so long, while the paths of the rules are what they were:
# requests come in bursts. Nobody who is confined can change a link that a rule leads through.
_SECONDS, _REMEMBERED = 1.0, 64
_known: dict[tuple[int, tuple[str, ...]], tuple[Bounds, float, list[Stamp], Visibility]] = {}


@record
class Bounds:
    """What file operations are bound by: a confinement, and files and folders of the server's own, which
    nobody who is confined may see. With `strict_links` no file is written that has several names: one of them
    may be outside."""

    confinement: Confinement
    own: tuple[str, ...] = ()
    strict_links: bool = False


def ground(bounds: Bounds, *, writing: bool) -> Visibility:
    """What only matters to writing is left out unless `writing`: most requests read, and they are many.

    Raises FileFailed for a rule that cannot be enforced.
    """
    try:
        return _for_writing(bounds) if writing else _for_reading(bounds)
    except Unenforceable as why:
        raise FileFailed(str(why)) from None


def remembered(bounds: Bounds) -> Visibility | None:
    """What was found out for reading a moment ago, without a look at any disk."""
    known = _known.get(_key(bounds))
    return None if known is None or known[1] < time.monotonic() else known[3]


def _key(bounds: Bounds) -> tuple[int, tuple[str, ...]]:
    # The identity: `bind_files` gives the same confinement again, and it is kept here.
    return id(bounds.confinement), bounds.own


def _for_reading(bounds: Bounds) -> Visibility:
    now, key = time.monotonic(), _key(bounds)
    known = _known.get(key)
    if known is not None and known[1] > now:
        before = known[2]
        if not before or before == [_stamp(rule.path) for rule in bounds.confinement.rules]:
            return known[3]
    # Where everything may be read, no rule matters.
    rules = () if bounds.confinement.reads_all else bounds.confinement.rules
    stamps = [_stamp(rule.path) for rule in rules]
    view = _readable(bounds)
    if len(_known) >= _REMEMBERED:
        _known.clear()
    _known[key] = bounds, now + _SECONDS, stamps, view
    return view


def _stamp(path: str) -> Stamp:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _readable(bounds: Bounds) -> Visibility:
    confinement, own = bounds.confinement, _own(bounds)
    if confinement.reads_all:
        return Visibility([Rule("/", READ), *own])
    matches = _matcher(confinement)
    rules = settle(confinement).rules
    if confinement.access("/") != DENY:
        return Visibility([*rules, *own], (), matches)
    # What is not there must not make the folders above it visible.
    rules = tuple([rule for rule in rules if rule.access == DENY or lexists(rule.path)])
    allowed = [rule.path for rule in confinement.rules if rule.access != DENY and lexists(rule.path)]
    return Visibility([*rules, *own], allowed, matches)


def _for_writing(bounds: Bounds) -> Visibility:
    confinement = bounds.confinement
    found = look(replace(confinement, globs=()))
    if found.refusal is not None:
        raise FileFailed(found.refusal.strip())
    rules = [Rule(path, READ) for path in found.read_roots]
    for one in found.writable:
        rules.append(Rule(one.target, WRITE))
        rules += [Rule(each.path, READ) for each in one.protected]
    rules += [Rule(one.path, DENY) for one in found.hidden]
    rules += _own(bounds)
    return Visibility(rules, [link for link, _ in found.links], _matcher(confinement))


def _own(bounds: Bounds) -> list[Rule]:
    return [Rule(os.path.realpath(path), DENY) for path in bounds.own if lexists(path)]


def _matcher(confinement: Confinement) -> Callable[[str], object] | None:
    if not confinement.globs:
        return None
    from .globs import matcher

    return matcher(confinement.globs)
