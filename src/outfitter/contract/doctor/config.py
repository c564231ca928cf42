"""Configuration files: their mistakes, and what a project may not loosen."""

from __future__ import annotations

from .check import Check, Finding
from .machine import Configured, configured
from .words import counted


def config_files(configured: Configured) -> Finding:
    if configured.mistakes:
        first = configured.mistakes[0]
        place = first.file if first.line is None else f"{first.file}:{first.line}"
        remedy = first.remedy if first.remedy.endswith("?") else f"{first.remedy}."
        return Finding(
            "error",
            f"{counted(configured.mistakes, 'mistake')} in the configuration: no command can start",
            [str(mistake) for mistake in configured.mistakes],
            f"Edit {place}: {remedy} `outfitter config show` then lists the mistakes that are left.",
        )
    read = [f"{kind}: {path}" for path, kind, exists in configured.settings.files if exists]
    return Finding("ok", f"{counted(read, 'file')} read" if read else "no files: the defaults apply", read)


def config_ignored(configured: Configured) -> Finding:
    ignored = configured.settings.ignored
    if not ignored:
        return Finding("ok", "every setting applies")
    are, it, they = ("is", "it", "it") if len(ignored) == 1 else ("are", "them", "they")
    files = sorted({str(source) for _, _, source in ignored})
    return Finding(
        "warning",
        f"{counted(ignored, 'setting')} of the project {are} ignored: {they} would loosen a rule",
        [f"{source}: {setting} = {value}" for setting, value, source in ignored],
        f"Remove {it} from {', '.join(files)}, or write {it} in {configured.file}.",
    )


CHECKS = (
    Check("config.files", (configured,), config_files),
    Check("config.ignored", (configured,), config_ignored),
)
