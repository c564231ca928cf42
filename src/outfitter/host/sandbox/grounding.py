"""What a confinement lets be seen of the files that are here, for the file operations of one request."""

from __future__ import annotations

import os
import time
from os.path import lexists

from ...core.permissions import DENY, READ, WRITE, Rule
from ...core.visibility import Visibility
from ...errors import FileFailed
from ...record import replace
from .paths import look, settle
from .refusal import Unenforceable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...core.permissions import Confinement

    Stamp = tuple[int, int] | None  # which file had a path

_ALL = Visibility([Rule("/", READ)])
# What was found out for reading is used again for so long, while the paths of the rules are what they were:
# requests come in bursts. Nobody who is confined can change a link that a rule leads through.
_SECONDS, _REMEMBERED = 1.0, 64
_known: dict[int, tuple[Confinement, float, list[Stamp], Visibility]] = {}


def ground(confinement: Confinement, *, writing: bool) -> Visibility:
    """What only matters to writing is left out unless `writing`: most requests read, and they are many.

    Raises FileFailed for a rule that cannot be enforced.
    """
    if not writing and confinement.reads_all:
        return _ALL
    try:
        return _for_writing(confinement) if writing else _for_reading(confinement)
    except Unenforceable as why:
        raise FileFailed(str(why)) from None


def _matcher(confinement: Confinement) -> Callable[[str], object] | None:
    if not confinement.globs:
        return None
    from .globs import matcher

    return matcher(confinement.globs)


def _for_reading(confinement: Confinement) -> Visibility:
    # Its identity is the key: `bind_files` gives the same one again, and it is kept here.
    now, key = time.monotonic(), id(confinement)
    stamps = [_stamp(rule.path) for rule in confinement.rules]
    known = _known.get(key)
    if known is not None and known[1] > now and known[2] == stamps:
        return known[3]
    view = _readable(confinement)
    if len(_known) >= _REMEMBERED:
        _known.clear()
    _known[key] = confinement, now + _SECONDS, stamps, view
    return view


def _stamp(path: str) -> Stamp:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _readable(confinement: Confinement) -> Visibility:
    matches = _matcher(confinement)
    rules = settle(confinement).rules
    if confinement.access("/") != DENY:
        return Visibility(rules, (), matches)
    # What is not there must not make the folders above it visible.
    rules = tuple([rule for rule in rules if rule.access == DENY or lexists(rule.path)])
    allowed = [rule.path for rule in confinement.rules if rule.access != DENY and lexists(rule.path)]
    return Visibility(rules, allowed, matches)


def _for_writing(confinement: Confinement) -> Visibility:
    found = look(replace(confinement, globs=()))
    if found.refusal is not None:
        raise FileFailed(found.refusal.strip())
    rules = [Rule(path, READ) for path in found.read_roots]
    for one in found.writable:
        rules.append(Rule(one.target, WRITE))
        rules += [Rule(each.path, READ) for each in one.protected]
    rules += [Rule(one.path, DENY) for one in found.hidden]
    rules += [Rule(path, READ) for path in found.reopened]
    return Visibility(rules, [link for link, _ in found.links], _matcher(confinement))
