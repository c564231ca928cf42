"""Named environments: places where commands run, how to reach them, and what was selected there.

`load` reads environments.toml, `EnvironmentManager` keeps the connections, `roots` and `selections` have what
threads of work have selected.
"""

from .file import Configuration, Declared, config_home, load
from .manager import Environment, EnvironmentManager, Status, Step
from .roots import ResolvedRoots, SelectedRoot, Selection, resolve
from .selections import SelectedEnvironment, ThreadSelection, TurnSelection

__all__ = [
    "Configuration",
    "Declared",
    "Environment",
    "EnvironmentManager",
    "ResolvedRoots",
    "SelectedEnvironment",
    "SelectedRoot",
    "Selection",
    "Status",
    "Step",
    "ThreadSelection",
    "TurnSelection",
    "config_home",
    "load",
    "resolve",
]


def __dir__() -> list[str]:
    return __all__
