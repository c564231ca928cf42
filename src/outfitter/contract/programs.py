"""Which file a program's name means in an environment, and whose entry of PATH that is."""

from __future__ import annotations

import os

from ..core.launch import candidates
from ..env.explain import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def find(name: str, values: Mapping[str, str], cwd: str) -> str | None:
    """The path that would be executed; None when there is none."""
    paths = [name] if "/" in name else candidates(name, values)
    for path in paths:
        whole = os.path.join(cwd, path)
        if os.path.isfile(whole) and os.access(whole, os.X_OK):
            return whole
    return None


def look_up(name: str, values: Mapping[str, str], cwd: str, variables: object) -> dict[str, object]:
    """As `find`, with the layer whose entry of PATH it is found through. `variables` as explained."""
    path = find(name, values, cwd)
    if path is None:
        return {"path": None}
    entry: dict[str, object] = {"path": shown(path)}
    real = os.path.realpath(path)
    if real != path:
        entry["realPath"] = shown(real)
    known = variables.get("PATH") if isinstance(variables, dict) else None
    segments = known.get("segments", ()) if isinstance(known, dict) else ()
    folder = shown(os.path.dirname(path)).rstrip("/")
    here = shown(cwd)
    for segment in segments:
        # A PATH that is secret has segments without values.
        if "value" in segment and os.path.join(here, segment["value"]).rstrip("/") == folder:
            entry["layer"], entry["id"] = segment["layer"], segment["id"]
            if segment.get("writableByAgent"):
                entry["writableByAgent"] = True
            break
    return entry
