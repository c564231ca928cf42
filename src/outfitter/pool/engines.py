"""Engines by name. A module is imported when a pool wants its engine."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .engine import Engine
    from .settings import PoolSettings

# Each module has `engine(settings)`.
ENGINES = {"local": ".local", "ray": ".ray", "ssh": ".ssh", "slurm": ".slurm", "kubernetes": ".kubernetes"}


def engine(settings: PoolSettings) -> Engine:
    """Raises SettingInvalid, AdapterMissing."""
    module = importlib.import_module(ENGINES[settings.engine], __package__)
    made: Engine = module.engine(settings)
    return made
