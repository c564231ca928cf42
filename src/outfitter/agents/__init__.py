"""Launch contracts for agent CLIs, and what agents and Outfitter say to each other.

from outfitter.agents import DEFAULT, CommandSpec, Task, backend
spec = CommandSpec(DEFAULT, backend("codex"), "headless", Task("fix it", cwd="/srv/app"), base=os.environ)
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .backends import backend as backend
    from .backends import registered as registered
    from .backends.base import Backend as Backend
    from .backends.base import Task as Task
    from .contract import DEFAULT as DEFAULT
    from .contract import Kind as Kind
    from .contract import LaunchContract as LaunchContract
    from .file import parse_contract as parse_contract
    from .parity import judge as judge
    from .spec import CommandSpec as CommandSpec
    from .spec import Violation as Violation

_WHERE = {
    "backend": "backends",
    "registered": "backends",
    "Backend": "backends.base",
    "Task": "backends.base",
    "DEFAULT": "contract",
    "LaunchContract": "contract",
    "Kind": "contract",
    "parse_contract": "file",
    "judge": "parity",
    "CommandSpec": "spec",
    "Violation": "spec",
}
__all__ = sorted(_WHERE)


def __getattr__(name: str) -> object:
    # The hooks of agents are asked at every command of theirs, and need none of this.
    if name in _WHERE:
        from importlib import import_module

        found = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
