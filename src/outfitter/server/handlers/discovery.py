"""capabilityRoots/discoverV1 and capabilities/discoverV2: what skills and plugins this machine offers."""

from __future__ import annotations

import os

from ...contract.places import codex_file
from ...errors import SettingInvalid
from ...host import discovery
from ...host.walk import PLAIN
from ...protocol.discovery import DiscoverResult, RootsResult
from ...protocol.uri import encode_name
from ..files import FileWork
from ..seenfiles import within
from .filesystem import confined

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...host.sandbox.grounding import Bounds
    from ...host.walk import Sight
    from ...protocol.discovery import DiscoverParams, Root, RootsParams
    from ..call import Call, Later

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
    stores = [("user-agent-skills", os.path.join(contract.home, ".agents", "skills"))]
    cache = ""
    try:
        codex_home = os.path.dirname(codex_file(contract.base.values))
        stores.insert(0, ("codex-home-skills", os.path.join(codex_home, "skills")))
        cache = os.path.join(codex_home, "plugins", "cache")
    except SettingInvalid:
        pass  # a server without a home has none

    def look() -> DiscoverResult:
        sight = _sight(bounds)
        plugins, partial = discovery.installed(cache, encode_name, sight) if cache else ([], 0)
        skills, failures = discovery.own_skills(stores, encode_name, sight)
        return DiscoverResult(plugins, skills, [_INCOMPLETE] * (partial + failures))

    return call.feature(FileWork).run(call, look, turns=call.services.walks)
