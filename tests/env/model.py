"""The layers once more: slow, obvious, straight from the rules, and with none of our code.

Values are plain text all the time; a list is split, changed and joined again at each step. Tests compare.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from . import oracle

BASE, SNAPSHOT, POLICY, PROVIDER, SETUP, SESSION, OVERRIDE, REQUEST, RUNTIME = range(9)

LISTS = [
    "PATH",
    "MANPATH",
    "INFOPATH",
    "PKG_CONFIG_PATH",
    "XDG_DATA_DIRS",
    "XDG_CONFIG_DIRS",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
    "CPATH",
    "LIBRARY_PATH",
    "NODE_PATH",
    "PERL5LIB",
]
SHELL_MAINTAINED = ["PWD", "OLDPWD", "SHLVL", "_", "PS1", "PS2", "PROMPT", "COLUMNS", "LINES"]
REQUIRED = ["PATH", "HOME"]
CODE_LOADING = [
    "BASH_ENV",
    "ZDOTDIR",
    "XDG_CONFIG_HOME",
    "NODE_OPTIONS",
    "PERL5OPT",
    "PERL5LIB",
    "RUBYOPT",
    "PYTHONPATH",
    "GIT_CONFIG_COUNT",
    "ENV",
    "PS4",
    "LD_PRELOAD",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "SHELLOPTS",
    "BASHOPTS",
    "PROMPT_COMMAND",
    "PYTHONSTARTUP",
    "PYTHONHOME",
    "PYTHONINSPECT",
    "PYTHONUSERBASE",
    "RUBYLIB",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_EXTERNAL_DIFF",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "GIT_EDITOR",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "GIT_PAGER",
    "MANPAGER",
    "LESSOPEN",
    "CARGO_BUILD_RUSTC_WRAPPER",
    "RUSTC_WRAPPER",
    "CDPATH",
    "GLOBIGNORE",
    "IFS",
    "XDG_DATA_DIRS",
    "XDG_CONFIG_DIRS",
    "NODE_PATH",
]
CODE_LOADING_START = ["BASH_FUNC_", "DYLD_", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"]
RUNTIME_START = ["OUTFITTER_", "__OUTFITTER_"]


@dataclass
class Overlay:
    """What one producer says."""

    level: int
    id: str
    values: dict[str, str] = field(default_factory=dict)
    unset: list[str] = field(default_factory=list)
    operations: list[tuple[str, str, list[str]]] = field(default_factory=list)
    root: str | None = None
    author: str = "user"
    state: str = "applied"
    where_unset: bool = False


@dataclass
class Case:
    """Everything that goes into one environment; `overlays` are levels 0, 1 and 3 to 6, lowest first."""

    overlays: list[Overlay]
    policies: list[dict[str, Any]]
    request: Overlay | None = None
    runtime: list[Overlay] = field(default_factory=list)
    allow_from: list[str] = field(default_factory=list)
    allow_code_loading: dict[str, list[str]] = field(default_factory=dict)
    lists: list[str] = field(default_factory=lambda: list(LISTS))
    tidy: bool = True


class Model:
    """Resolves a case: `values`, `refused` as (level, id, name), and `known`, every name anybody spoke of."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.values: dict[str, str] = {}
        self.refused: list[tuple[int, str, str]] = []
        self.known: set[str] = set()
        self._operated: set[str] = set()  # lists that an operation changed after they were last set
        for overlay in case.overlays:
            if overlay.level in (BASE, SNAPSHOT):
                self._put(overlay)
        self._filter()
        for overlay in case.overlays:
            if overlay.level not in (BASE, SNAPSHOT):
                self._put(overlay)
        self._tidy(case.lists if case.tidy else [])
        if case.request is not None:
            self._put(case.request)
            changed = [*case.request.values, *(variable for variable, _, _ in case.request.operations)]
            self._tidy(changed if case.tidy else [])
        for overlay in case.runtime:
            self._put(overlay)
            self._tidy([])

    # Layer 2

    def _filter(self) -> None:
        for policy in self.case.policies:
            self.known.update(name for name, _ in policy["set"])
            self.values = oracle.inherited(
                self.values,
                policy["inherit"],
                policy["ignore_default_excludes"],
                policy["exclude"],
                dict(policy["set"]),
                policy["include_only"],
            )
            set_here = dict(policy["set"])
            self._operated = {one for one in self._operated if one in self.values and one not in set_here}
        self.values = {name: value for name, value in self.values.items() if not oracle.never_passes(name)}

    # The others

    def _put(self, overlay: Overlay) -> None:
        if overlay.state not in ("applied", "stale"):
            return
        self.known.update(overlay.unset, overlay.values)
        self.known.update(variable for variable, _, _ in overlay.operations)
        for name in overlay.unset:
            if self._may(overlay, name, "unset"):
                self.values.pop(name, None)
                self._operated.discard(name)
            else:
                self._refuse(overlay, name)
        for name, value in overlay.values.items():
            if not self._may(overlay, name, "set", value):
                self._refuse(overlay, name)
            elif (
                not overlay.where_unset
                or name not in self.values
                or (name, self.values[name]) == ("PATH", "")
            ):
                self.values[name] = value
                self._operated.discard(name)
        ahead: dict[str, list[str]] = {}  # what this overlay has put in front of each list, in its order
        for variable, op, entries in overlay.operations:
            if not self._may(overlay, variable, op, ":".join(entries)) or variable not in self.case.lists:
                self._refuse(overlay, variable)
                continue
            before = self.values[variable].split(":") if variable in self.values else []
            given = [self._absolute(variable, entry, overlay.root) for entry in split(entries)]
            front = ahead.setdefault(variable, [])
            after, new_front = operate(op, before, given, front)
            if variable == "PATH" and any(usable(before)) and not any(usable(after)):
                self._refuse(overlay, variable)
                continue
            ahead[variable] = new_front
            self._operated.add(variable)
            if after:
                self.values[variable] = ":".join(after)
            else:
                self.values.pop(variable, None)

    def _may(self, overlay: Overlay, name: str, what: str, value: str = "") -> bool:
        """Sections 7.1 and 7.6. `what` is "set", "unset" or an operation."""
        level = overlay.level
        if level in (BASE, RUNTIME):
            return True
        takes_path_away = name == "PATH" and what == "set" and not any(usable(value.split(":")))
        takes_away = (name in REQUIRED and what == "unset") or takes_path_away
        if level == SNAPSHOT:
            return name not in SHELL_MAINTAINED and not takes_away
        if oracle.never_passes(name):
            return False
        if level == REQUEST and overlay.author == "client":
            return True
        if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) is None or "\0" in value:
            return False
        if name in overlay.values and name in overlay.unset:
            return False
        if any(name.startswith(start) for start in RUNTIME_START) and name != "OUTFITTER_HOME":
            return False
        if name in SHELL_MAINTAINED or takes_away:
            return False
        if level == OVERRIDE or (level == REQUEST and overlay.author == "user"):
            return True
        if what in ("unset", "remove"):
            return True
        loads_code = name in CODE_LOADING or any(name.startswith(start) for start in CODE_LOADING_START)
        if loads_code and name not in self.case.allow_code_loading.get(overlay.id, []):
            return False
        layer = "L5" if level == REQUEST else f"L{level}"
        return layer in self.case.allow_from or not self._denied(name)

    def _denied(self, name: str) -> bool:
        for policy in self.case.policies:
            if oracle.matches(name, policy["exclude"]):
                return True
            if not policy["ignore_default_excludes"] and oracle.matches(
                name, ["*KEY*", "*SECRET*", "*TOKEN*"]
            ):
                return True
        return False

    def _refuse(self, overlay: Overlay, name: str) -> None:
        self.refused.append((overlay.level, overlay.id, name))

    def _absolute(self, variable: str, entry: str, root: str | None) -> str:
        if root is None or entry == "" or entry[0] in "/$":
            return entry
        if variable == "PATH" and entry.rstrip("/") == ".":
            return entry
        whole: list[str] = []
        for part in f"{root}/{entry}".split("/"):
            if part == ".." and whole:
                whole.pop()
            elif part not in ("", ".", ".."):
                whole.append(part)
        return "/" + "/".join(whole)

    # Section 7.4

    def _tidy(self, names: list[str]) -> None:
        for name in self.case.lists:
            if name in self.values and (name in names or name in self._operated):
                kept: list[str] = []
                for entry in self.values[name].split(":"):
                    if name == "PATH" and not entry.startswith("/"):
                        continue
                    if entry == "" or not any(same(entry, other) for other in kept):
                        kept.append(entry)
                if kept:
                    self.values[name] = ":".join(kept)
                else:
                    del self.values[name]


def split(entries: list[str]) -> list[str]:
    return [part for entry in entries for part in entry.split(":")]


def same(one: str, other: str) -> bool:
    """A trailing slash makes no difference, unless there is nothing else."""
    return one == other or (
        one != "" and other != "" and (one.rstrip("/") or "/") == (other.rstrip("/") or "/")
    )


def usable(entries: list[str]) -> list[bool]:
    return [entry.startswith("/") for entry in entries]


def operate(op: str, before: list[str], given: list[str], front: list[str]) -> tuple[list[str], list[str]]:
    """What becomes of a list, and what one overlay has put in front of it so far."""

    def among(entry: str, others: list[str]) -> bool:
        return any(same(entry, other) for other in others)

    if op == "remove":
        return [one for one in before if not among(one, given)], [
            one for one in front if not among(one, given)
        ]
    if op == "replace":
        return given, []
    if op == "append":
        return before + [one for one in given if one == "" or not among(one, before)], front
    ahead = front + [one for one in given if one == "" or not among(one, front)]
    behind = before[len(front) :]
    return ahead + [one for one in behind if one == "" or not among(one, given)], ahead
