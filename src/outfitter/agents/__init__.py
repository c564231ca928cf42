"""Launch contracts for agent CLIs, and what agents and Outfitter say to each other.

from outfitter.agents import DEFAULT, CommandSpec, Task, backend
spec = CommandSpec(DEFAULT, backend("codex"), "headless", Task("fix it", cwd="/srv/app"), base=os.environ)
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..env.launches import DEFAULT as DEFAULT
    from ..env.launches import Kind as Kind
    from ..env.launches import LaunchContract as LaunchContract
    from ..env.launches import Violation as Violation
    from ..formats.launchfile import parse_contract as parse_contract
    from .backends import backend as backend
    from .backends import registered as registered
    from .backends.base import Backend as Backend
    from .backends.base import Task as Task
    from .parity import judge as judge
    from .spec import CommandSpec as CommandSpec

_WHERE = {
    "backend": "backends",
    "registered": "backends",
    "Backend": "backends.base",
    "Task": "backends.base",
    "DEFAULT": "..env.launches",
    "LaunchContract": "..env.launches",
    "Kind": "..env.launches",
    "parse_contract": "..formats.launchfile",
    "judge": "parity",
    "CommandSpec": "spec",
    "Violation": "..env.launches",
}
__all__ = sorted(_WHERE)


def __getattr__(name: str) -> object:
    # The hooks of agents are asked at every command of theirs, and need none of this.
    if name in _WHERE:
        from importlib import import_module

        where = _WHERE[name]
        module = import_module(where if where.startswith(".") else f".{where}", __name__)
        found = getattr(module, name)
        globals()[name] = found
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
