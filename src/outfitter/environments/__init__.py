"""Named executors: which there are, how they are reached, and what was selected on them.

`load` reads environments.toml, `EnvironmentManager` holds the connections, `roots` what was selected.
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
