"""capabilityRoots/discoverV1 and capabilities/discoverV2: what skills and plugins this machine offers."""

from __future__ import annotations

import os

from ...errors import SettingInvalid
from ...host import discovery
from ...host.stores import SYSTEM_SKILLS, Stores
from ...host.walk import PLAIN
from ...host.witness import Witness
from ...places import codex_file
from ...protocol.discovery import DiscoverResult, RootsResult
from ...protocol.results import Written
from ...protocol.uri import encode_name
from ..files import FileWork
from ..seenfiles import within
from .filesystem import confined

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ...host.sandbox.grounding import Bounds
    from ...host.walk import Sight
    from ...protocol.discovery import DiscoverParams, Root, RootsParams
    from ...protocol.results import Result
    from ..call import Call, Later

_UNRESOLVED = "some capability locations could not be resolved; discovery may be incomplete"
_INCOMPLETE = "some capability metadata could not be loaded; discovery may be incomplete"


def roots(call: Call, params: RootsParams) -> Later:
    bounds = [confined(call, root.sandbox) for root in params.roots]

    def look() -> RootsResult:
        return RootsResult([_root(*one) for one in zip(params.roots, bounds, strict=True)])

    return call.feature(FileWork).run(call, look, turns=call.services.walks)


def _root(root: Root, bounds: Bounds | None) -> dict[str, Any]:
    try:
        path = root.path.local_path()
    except ValueError as error:
        why = f"failed to inspect capability root {root.path.text}: {error}"
        return {**discovery.nothing(root.id, root.path.text), "error": why}
    return discovery.root(root.id, path, root.path.text, encode_name, _sight(bounds))


def _sight(bounds: Bounds | None) -> Sight:
    return PLAIN if bounds is None else within(bounds)


def discover(call: Call, params: DiscoverParams) -> Later:
    contract = call.services.environments.contract
    bounds = confined(call, params.sandbox)
    stores = [
        ("user-agent-skills", os.path.join(contract.home, ".agents", "skills")),
        ("system-skills", SYSTEM_SKILLS),
    ]
    plugins = ""
    try:
        codex_home = os.path.dirname(codex_file(contract.base.values))
        stores.insert(0, ("codex-home-skills", os.path.join(codex_home, "skills")))
        plugins = os.path.join(codex_home, "plugins", "cache")
    except SettingInvalid:
        pass  # a server without a home has none

    def look(sight: Sight) -> DiscoverResult:
        found = Stores(encode_name, sight)
        for ident, path in stores:
            found.add_skills(ident, path)
        if plugins:
            found.add_plugins(plugins)
        warnings = [_UNRESOLVED] * found.unresolved + [_INCOMPLETE] * found.failures
        return DiscoverResult(found.plugins, found.skills, warnings)

    def work() -> Result:
        return _remembered(look, (plugins, *stores)) if bounds is None else look(within(bounds))

    return call.feature(FileWork).run(call, work, turns=call.services.walks)


# The last answer, with all that was looked at for it: while nothing of that has changed, it is the answer.
_last: tuple[object, Witness, Written] | None = None
_LONGEST = 16 << 20  # bytes that are kept so; 2,000 skills have less than one


def _remembered(look: Callable[[Sight], DiscoverResult], key: object) -> Result:
    """In a thread."""
    global _last
    last = _last  # another thread may replace it while we look
    if last is not None and last[0] == key and last[1].holds():
        return last[2]
    witness = Witness()
    text = look(witness).wire()
    written = Written([text.encode() if isinstance(text, str) else b"".join(text)])
    _last = (key, witness, written) if witness.settled and len(written.parts[0]) <= _LONGEST else None
    return written
