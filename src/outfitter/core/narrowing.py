"""Which of two confinements is the stricter one, and what both of them allow.

`narrowed` never allows what one of the two does not: so a project's file, whatever it says, takes away and
never gives.
"""

from __future__ import annotations

from ..protocol.sandbox import DENY, READ, WRITE, Disabled, Entry, Glob, Managed, Restricted, Unrestricted
from ..protocol.uri import from_path, parse
from .permissions import Confinement, Rule, canonical, narrower

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..protocol.sandbox import Profile

_ORDER = (DENY, READ, WRITE)  # from the strictest to the loosest


def strictest(one: str, other: str) -> str:
    """Of two ways to access a path the one that allows less."""
    return min(one, other, key=_ORDER.index)


def narrowed(one: Confinement, other: Confinement) -> Confinement:
    """What both allow. For every path the stricter access counts, and what one hides is hidden."""
    network = one.network and other.network
    if not (one.files and other.files):
        files = one if one.files else other
        return Confinement(files.files, network, files.rules, files.globs, files.glob_depth)
    # A path's access changes only where one of the two has a rule, so these are enough to say it. Where one
    # has none, above neither, it allows nothing: to say that would hide what both allow below.
    paths = [path for path in _places(one, other) if one.rule(path) and other.rule(path)]
    rules = canonical([Rule(path, strictest(one.access(path), other.access(path))) for path in paths])
    depths = [each.glob_depth for each in (one, other) if each.globs]
    depth = None if None in depths else max((each for each in depths if each is not None), default=None)
    return Confinement(True, network, narrower(rules), tuple(sorted({*one.globs, *other.globs})), depth)


def told(confinement: Confinement) -> Profile:
    """The permissions that mean just this, wherever they are bound: every path is written out."""
    if not confinement.files:
        return Disabled() if confinement.network else Managed(Unrestricted(), False)
    entries = [Entry(parse(from_path(rule.path)), rule.access) for rule in confinement.rules]
    entries += [Entry(Glob(pattern), DENY) for pattern in confinement.globs]
    return Managed(Restricted(tuple(entries), confinement.glob_depth), confinement.network)


def _places(*several: Confinement) -> set[str]:
    """Where an access changes: at every rule, and at the names that stay read-only below what is writable."""
    paths = {rule.path for each in several for rule in each.rules}
    return paths | {name for each in several for root in each.writable for name in each.protected(root)}
