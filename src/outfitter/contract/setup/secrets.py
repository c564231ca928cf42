"""What a setup exports and may not be on a disk: in the kernel's keyring for processes that follow, or handed
from one version of a server to the next."""

from __future__ import annotations

import json

from ...env.layer import Operation
from ...host import keyring
from ...shell.sourced import ScriptChanges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from .runs import SetupFiles, SetupRun

# A working day and the next morning; then the setup runs once more.
KEPT_SECONDS = 24 * 60 * 60


def keep(place: SetupFiles, kept: SetupRun, said: ScriptChanges) -> None:
    """Keeps what the record lacks; where that cannot be, the next process runs the setup again."""
    if not kept.withheld:
        keyring.forget(_name(place))
        return
    data = json.dumps(told(kept, said.set, said.operations)).encode()
    keyring.keep(_name(place), data, KEPT_SECONDS)


def recalled(place: SetupFiles, kept: SetupRun) -> ScriptChanges | None:
    """All that a run exports; None when what is secret of it is not there any more."""
    data = keyring.find(_name(place))
    if data is None:
        return None
    try:
        return read(kept, json.loads(data))
    except (ValueError, KeyError, TypeError):
        return None


def told(kept: SetupRun, values: Mapping[str, str], operations: Iterable[Operation]) -> dict[str, Any]:
    """What the record of a run lacks, of all that the run exports."""
    hidden = frozenset(kept.withheld)
    return {
        "run": kept.run,
        "set": {name: value for name, value in values.items() if name in hidden},
        # In their order, and all of them: the order counts.
        "operations": [[one.variable, one.op, list(one.values)] for one in operations],
    }


def read(kept: SetupRun, told: Mapping[str, Any]) -> ScriptChanges | None:
    """All that a run exports; None for what was told of another run."""
    if told["run"] != kept.run:
        return None
    operations = tuple([Operation(name, op, tuple(values)) for name, op, values in told["operations"]])
    return ScriptChanges({**kept.set, **told["set"]}, kept.unset, operations)


def _name(place: SetupFiles) -> str:
    """It says nothing about the folder: others can see that there is a key."""
    return f"outfitter:setup:{place.name}"
