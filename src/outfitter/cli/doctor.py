"""outfitter doctor: what is wrong with the environment of commands, and what to type or edit."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..contract.doctor.check import STATUSES
from ..contract.doctor.report import examine
from ..host import facts
from ..plain import unbroken
from ..providers import inherited
from .colour import Paint, wants_colour
from .env.output import emit, emit_json
from .environmentchecks import CHECKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..contract.doctor.fixes import Fix

    Report = dict[str, Any]  # as `examine` makes it

_MARKS = {"ok": "✓", "warning": "!", "error": "✗", "skipped": "·"}
_PLAIN_MARKS = {"ok": "[ok]", "warning": "[!!]", "error": "[XX]", "skipped": "[--]"}
_COLOURS = {"ok": "green", "warning": "yellow", "error": "red", "skipped": "dim"}
_MANY = 8  # details of one check that are shown without --all


def doctor(flags: dict[str, Any]) -> int:
    """Prints the report; returns the exit status."""
    cwd = flags["cwd"] or facts.working_directory() or "/"
    fixes: list[tuple[str, Fix]] = []
    report = examine(inherited.load(), cwd, login=not flags["no_login"], fixes=fixes, more=CHECKS)
    if flags["json"]:
        emit_json(report)
    else:
        paint = Paint(wants_colour(sys.stdout) and not flags["no_color"])
        plain = flags["ascii"] or not _can_show(_MARKS["ok"] + _MARKS["error"])
        marks = _PLAIN_MARKS if plain else _MARKS
        emit("\n".join(_lines(report, marks, paint, summary=flags["summary"], everything=flags["all"])))
    mended = set()
    if flags["fix"]:
        from .fixes import mend

        mended = mend(fixes, yes=flags["yes"])
    left = [ident for ident, one in report["checks"].items() if one["status"] == "error"]
    return 1 if set(left) - mended else 0


def _lines(
    report: Report, marks: dict[str, str], paint: Paint, *, summary: bool, everything: bool
) -> Iterator[str]:
    """Problems first. Details of what is in order only with `everything`, none at all in a `summary`."""
    checks = report["checks"]
    for status in STATUSES:
        for ident, check in checks.items():
            if check["status"] != status:
                continue
            problem = status in ("error", "warning")
            if summary and not problem:
                continue
            mark = paint(_COLOURS[status], marks[status])
            yield f"{mark} {paint('bold', ident) if problem else ident}  {unbroken(check['summary'])}"
            if summary:
                continue
            indent = " " * (len(marks[status]) + 3)
            if problem or everything:
                yield from _details(check["details"], indent, paint, everything)
            if problem:
                yield f"{indent}{paint('cyan', unbroken(check['remediation']))}"
    told = []
    for status in STATUSES:
        count = sum(check["status"] == status for check in checks.values())
        plural = "s" if count != 1 and status in ("error", "warning") else ""
        told += [f"{count} {status}{plural}"] if count else []
    yield paint("bold", ", ".join(told))


def _details(details: list[str], indent: str, paint: Paint, everything: bool) -> Iterator[str]:
    shown = details if everything else details[:_MANY]
    for line in shown:
        yield indent + paint("dim", unbroken(line))
    if len(details) > len(shown):
        yield indent + paint("dim", f"and {len(details) - len(shown)} more: --all shows them")


def _can_show(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
