"""Named environments: places where commands run, how to reach them, and what was selected there.

`load` reads environments.toml, `EnvironmentManager` keeps the connections, and `roots` has the selections.
"""

from .file import Configuration, Declared, config_home, load
from .manager import Environment, EnvironmentManager, Status, Step
from .roots import ResolvedRoots, SelectedRoot, Selection, resolve

__all__ = [
    "Configuration",
    "Declared",
    "Environment",
    "EnvironmentManager",
    "ResolvedRoots",
    "SelectedRoot",
    "Selection",
    "Status",
    "Step",
    "config_home",
    "load",
    "resolve",
]
