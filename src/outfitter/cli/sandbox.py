"""outfitter sandbox explain: what a sandbox means here, line by line, and whose word each line is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..contract.config import load
from ..contract.sandbox import Word, compose
from ..core.permissions import DENY, PROTECTED, READ, WRITE, covers
from ..core.protecting import BELOW, keeping, listed, names
from ..errors import SandboxUnavailable
from ..host import facts
from ..host.sandbox.arguments import visible
from ..host.sandbox.globs import matcher
from ..host.sandbox.paths import look
from ..plain import unbroken
from ..protocol.uri import parse
from ..providers import inherited
from .env.output import emit, emit_json
from .table import table
from .wishes import sandbox

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..contract.sandbox import Composed
    from ..contract.settings import Settings
    from ..core.sandbox import Sandbox
    from ..host.sandbox.paths import Found

    Row = tuple[str, str, str]  # what may be done, with what, and whose word that is


def explain(argv: Sequence[str], flags: dict[str, Any]) -> int:
    """Prints the table; returns the exit status: 1 if this cannot be enforced here."""
    cwd = os.path.realpath(flags["cwd"] or facts.working_directory() or "/")
    env = inherited.load()
    settings = load(os.environ, cwd)
    given = sandbox(flags)
    composed = compose(None if given is None else _word(given), settings, cwd=cwd, tmpdir=env.get("TMPDIR"))
    more = _protectors(settings, names(flags["sandbox_protect"]))
    found = look(keeping(composed.confinement, tuple(more)))
    always = look(composed.confinement) if more else found
    rows = list(_rows(composed, found, cwd, env, always, more))
    masked = _masked(settings, composed, env)
    by = f"shell.startup = enforce ({settings.sources['shell.startup']})"
    rows += [("masked", path, by) for path in masked]
    rows += _limits(composed)
    program = _program(argv, composed, found, cwd, env) if argv else None
    refusal = (found.refusal or _unavailable(composed) or "").strip()
    if flags["json"]:
        emit_json(_told(composed, refusal, rows, program, cwd))
    else:
        lines = [unbroken(_head(composed, settings, cwd)), ""]
        lines.append(table(("ACCESS", "WHAT", "FROM"), [_shown(row) for row in _short(rows)]))
        if program is not None:
            lines += ["", unbroken(_sentence(argv[0], program))]
        if refusal:
            lines += ["", unbroken(refusal)]
        emit("\n".join(lines))
    return 1 if refusal else 0


def _unavailable(composed: Composed) -> str | None:
    """Why no sandbox can be made here, if this one is needed."""
    if not _needed(composed):
        return None
    from ..host.sandbox.bubblewrap import Finder

    try:
        Finder().find()
    except SandboxUnavailable as error:
        from ..host.sandbox.landlock import HINT
        from ..host.sandbox.landlocked import lack, version

        return str(error) if lack(version()) else f"{error}. {HINT}"
    return None


def _needed(composed: Composed) -> bool:
    """Whether a sandbox has to be made at all."""
    confinement = composed.confinement
    return confinement.files or not confinement.network or composed.domains is not None


def _head(composed: Composed, settings: Settings, cwd: str) -> str:
    if composed.asked is None and composed.project is None:
        return f"commands in {cwd} are not confined: add --sandbox, or write mode under [sandbox]"
    if settings.project_sandbox is None:
        return f"{composed.mode} in {cwd}"
    return f"{composed.mode} in {cwd}; {settings.project_sandbox.file} takes away from it"


def _short(rows: list[Row]) -> list[Row]:
    """Protected names and startup files in one row for each directory of them."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for access, what, by in rows:
        together = access in ("protected", "masked")
        folder, _, name = what.rpartition("/")
        found.setdefault((access, folder if together else what, by), []).append(name)
    return [
        (access, f"{where}/{{{','.join(names)}}}" if len(names) > 1 else _one(access, where, names[0]), by)
        for (access, where, by), names in found.items()
    ]


def _one(access: str, where: str, name: str) -> str:
    return f"{where}/{name}" if access in ("protected", "masked") else where


def _word(given: Sandbox) -> Word:
    """The command line's."""
    places = {"mode": f"--sandbox {given.mode}"}
    places |= {f"writable {path}": "--allow-write" for path in given.writable}
    places |= {f"domains {name}": "--allow-domain" for name in given.domains}
    places |= {f"deny_read {path}": "--deny-read" for path in given.deny_read}
    return Word(given, places)


def _protectors(settings: Settings, flagged: Sequence[str]) -> dict[str, str]:
    """The names that stay read-only, too, each with whose word that is."""
    found: dict[str, str] = {}
    several = (settings.user_sandbox, settings.project_sandbox)
    for said in [one for one in several if one is not None]:
        for entry in said.protect:
            by = str(said.source(f"protect {entry}"))
            found = {**dict.fromkeys(listed([entry]), by), **found}
    return {**dict.fromkeys(flagged, "--sandbox-protect"), **found}


def _protector(path: str, root: str, protectors: Mapping[str, str]) -> str:
    """Whose word it is that a path in a writable place stays read-only. Of a name that is missing the first
    folder is protected, or the file in its place."""
    parts = path[len(root.rstrip("/")) + 1 :].split("/")
    for name, by in protectors.items():
        plain = name.removeprefix(BELOW)
        starts = range(1 if plain == name else len(parts))
        if any(f"{plain}/".startswith("/".join([*parts[start:], ""])) for start in starts):
            return by
    return "always"


def _rows(
    composed: Composed,
    found: Found,
    cwd: str,
    env: Mapping[str, str],
    always: Found,
    protectors: Mapping[str, str],
) -> list[Row]:
    asked, project = composed.asked, composed.project
    by = "default" if asked is None else asked.place("mode")
    rows: list[Row] = [("readable", path, by) for path in found.read_roots]
    kept = {each.path for one in always.writable for each in one.protected}
    for one in found.writable:
        rows.append(("writable", one.path, _whose(composed, "writable", one.path, cwd)))
        rows += [
            (
                "protected",
                each.path,
                "always" if each.path in kept else _protector(each.path, one.target, protectors),
            )
            for each in one.protected
        ]
    rows += [("missing", path, _whose(composed, "writable", path, cwd)) for path in _missing(composed)]
    if project is not None:
        rows += [("taken away", path, project.place("mode")) for path in _taken(composed, cwd, env)]
    return rows + _hidden(composed, found, cwd) + _network(composed, by)


def _hidden(composed: Composed, found: Found, cwd: str) -> list[Row]:
    """The patterns, and what is hidden now; what a pattern matches is that pattern's."""
    patterns = composed.confinement.globs
    rows = [("hidden", pattern, _whose(composed, "deny_read", pattern, cwd)) for pattern in patterns]
    globs = {pattern: matcher([pattern]) for pattern in patterns} if found.hidden else {}
    for one in found.hidden:
        pattern = next((pattern for pattern, matches in globs.items() if matches(one.path)), one.path)
        rows.append(("hidden", one.path, _whose(composed, "deny_read", pattern, cwd)))
    return rows


def _missing(composed: Composed) -> list[str]:
    """What may be written and is not there: nothing is made of it."""
    return [path for path in composed.confinement.writable if not os.path.lexists(path)]


def _network(composed: Composed, by: str) -> list[Row]:
    project = composed.project
    if composed.domains is None:
        return [("network", "everything", by)]
    if not composed.domains:
        silent = project is not None and not (project.sandbox.network or project.sandbox.domains)
        asks = composed.asked is None or composed.asked.sandbox.network or composed.asked.sandbox.domains
        return [("network", "nothing", project.place("mode") if project and silent and asks else by)]
    return [("network", name, _whose(composed, "domains", name, "")) for name in composed.domains]


def _whose(composed: Composed, field: str, subject: str, cwd: str) -> str:
    """Whose word a path, a pattern or a domain is: the nearest entry that covers it."""
    for word in (composed.asked, composed.project):
        for entry in () if word is None else getattr(word.sandbox, field):
            path = entry if field == "domains" else _path(entry, cwd)
            if subject in (entry, path) or (field == "writable" and os.path.realpath(path) == subject):
                return word.place(f"{field} {entry}") if word is not None else ""
    word = composed.asked or composed.project
    return "default" if word is None else word.place("mode")


def _path(entry: str, cwd: str) -> str:
    """What an entry names, absolute."""
    if entry.startswith("file:"):
        return parse(entry).local_path()
    return os.path.normpath(os.path.join(cwd, entry))


def _taken(composed: Composed, cwd: str, env: Mapping[str, str]) -> list[str]:
    """What was asked for as writable, and the project's file does not leave so."""
    from ..core.permissions import bind
    from ..core.sandbox import FULL, Sandbox, here

    asked = Sandbox(FULL) if composed.asked is None else composed.asked.sandbox
    before = bind(here(asked, cwd), cwd=cwd, tmpdir=env.get("TMPDIR"))
    roots = before.writable if before.files else ("/",)
    return [path for path in roots if composed.confinement.access(path) == READ]


def _masked(settings: Settings, composed: Composed, env: Mapping[str, str]) -> Sequence[str]:
    """The startup files that look empty inside."""
    if settings.startup != "enforce" or not composed.confinement.files:
        return ()
    from ..host.masks import existing
    from ..host.sandbox.covering import read_here
    from ..shell.startup import all_startup_files

    homes = [home for home in dict.fromkeys((env.get("HOME", ""), facts.home(env))) if home.startswith("/")]
    return read_here(existing(all_startup_files(homes, env)))


def _limits(composed: Composed) -> list[Row]:
    """How much a command may use, under a server without flags."""
    if not _needed(composed):
        return []
    from ..host.sandbox.limits import Allowance, Limits

    return [("limit", text, "outfitter serve") for text in Limits(Allowance()).told()]


def _program(
    argv: Sequence[str], composed: Composed, found: Found, cwd: str, env: Mapping[str, str]
) -> tuple[str, str]:
    """The file that a command starts, and what may be done with it; two empty texts if there is none. One
    that cannot be read is passed over, as by the command, and told if there is no other."""
    from ..core.launch import candidates

    name = argv[0]
    unreadable = ""
    for path in [os.path.join(cwd, name)] if "/" in name else candidates(name, env):
        path = os.path.join(cwd, path)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            if found.refusal is not None:  # and nothing is mounted
                return path, composed.confinement.access(os.path.realpath(path))
            access = _access(found, path)
            if access != DENY:
                return path, access
            unreadable = unreadable or path
    return unreadable, DENY if unreadable else ""


def _access(found: Found, path: str) -> str:
    """What may be done with a file, by what is mounted: where it is, and where its name is, if that is a
    link."""
    real, folder = os.path.realpath(path), os.path.realpath(os.path.dirname(path))
    if not (visible(found, real) and visible(found, folder)):
        return DENY
    above = [one for one in found.writable if covers(one.target, real)]
    root = max(above, key=lambda one: len(one.target), default=None)
    return READ if root is None or any(covers(each.path, real) for each in root.protected) else WRITE


def _sentence(name: str, program: tuple[str, str]) -> str:
    path, access = program
    if not path:
        return f"{name}: not found"
    return f"{name} is {path}, which it may {'not read: it cannot start' if access == DENY else access}"


def _shown(row: Row) -> Row:
    access, what, by = row
    return access, unbroken(what), unbroken(by)


def _told(
    composed: Composed, refusal: str, rows: list[Row], program: tuple[str, str] | None, cwd: str
) -> dict[str, Any]:
    told: dict[str, Any] = {
        "mode": composed.mode,
        "cwd": cwd,
        "protectedNames": list(PROTECTED),
        "network": {
            "all": composed.domains is None,
            "domains": list(composed.domains or ()),
        },
        "rows": [{"access": access, "what": what, "from": by} for access, what, by in rows],
        "refusal": refusal or None,
    }
    if program is not None:
        told["program"] = {"path": program[0] or None, "access": program[1] or None}
    return told
