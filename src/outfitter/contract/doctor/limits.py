"""Whether the kernel and every shell pass the environment on: its size and its names."""

from __future__ import annotations

from ...env.names import is_name
from ...env.resolve import LARGEST_PAIR
from .check import Check, Finding
from .fixes import Setting
from .machine import Configured, Given, configured, given
from .words import counted, listed

_MUCH = 0.8


def limits_size(configured: Configured, given: Given) -> Finding:
    if given.problem:
        return Finding(
            "error",
            "no command can be started",
            [given.problem],
            "Unset the named variable, or put its content into a file and the file's path into the variable.",
        )
    if given.refused:
        return Finding("skipped", "no command can be started: see providers.present")
    limit = configured.settings.total_bytes
    sizes = {name: _bytes(name) + _bytes(value) + 2 for name, value in given.values.items()}
    total = sum(sizes.values())
    largest = max(sizes, key=lambda name: sizes[name], default="")
    details = [f"largest: {largest}, {sizes[largest]} bytes of {LARGEST_PAIR}"] if largest else []
    summary = f"{total} of {limit} bytes"
    if total > _MUCH * limit or (largest and sizes[largest] > _MUCH * LARGEST_PAIR):
        return Finding(
            "warning",
            f"{summary}: little room is left",
            details,
            f"Unset {largest}, or put its content into a file and the file's path into the variable.",
        )
    return Finding("ok", summary, details)


def names_odd(configured: Configured, given: Given) -> Finding:
    odd = sorted(name for name in given.values if not is_name(name) and not name.startswith("BASH_FUNC_"))
    if not odd:
        return Finding("ok", "every shell passes all names")
    it = "it" if len(odd) == 1 else "them"
    return Finding(
        "warning",
        f"dash drops {counted(odd, 'variable')} because of the name: commands under `sh -c` do not get {it}",
        odd,
        f"Use only letters, digits and _ in the name, or write unset = {listed(odd)} under [env] "
        f"in {configured.file}.",
        Setting(configured.file, "env", "unset", listed(odd)),
    )


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


CHECKS = (
    Check("limits.size", (configured, given), limits_size),
    Check("names.odd", (configured, given), names_odd),
)
