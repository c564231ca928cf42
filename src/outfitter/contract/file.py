"""One configuration file, read and checked: `outfitter.toml`, the user's `config.toml`, or Codex's.

All mistakes are reported, each with its line and what to write instead. The keys are those of `schema.KEYS`.
"""

from __future__ import annotations

import os.path

from ..env.lists import LIST_NAMES
from ..env.names import is_name
from ..env.pattern import check as check_patterns
from ..errors import FileInvalid, LimitExceeded
from ..formats.document import Mistake, refuse
from ..formats.toml import Table, parse, shown
from ..record import replace
from .schema import KEYS
from .settings import (
    FIELDS,
    POLICY_RULES,
    SANDBOX_KEYS,
    EnvSettings,
    FileSettings,
    PolicySettings,
    SandboxSettings,
    SetupSettings,
    Source,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..env.launches import LaunchContract
    from ..formats.document import Document
    from .schema import Key

# Far more than anybody writes, little enough to be read while a command waits.
MAX_BYTES = {"project": 64 << 10, "user": 1 << 20, "codex": 4 << 20}
# The time that a dotted key takes grows with the square of its parts, and a project's file is not trusted.
MAX_DOTS = 100
_POLICY = "shell_environment_policy"
_OVERLAYS = "overlays"
_CODEX_KEYS = {"": tuple(key for key in KEYS[""] if key.name != _OVERLAYS), _POLICY: KEYS[_POLICY]}
_OPERATIONS = ("remove", "prepend", "append")


def parse_settings(text: str, file: str, kind: str, home: str | None) -> FileSettings:
    """What a text says; relative paths start at the folder of `file`, `~/` at `home`. Raises FileInvalid.

    `kind` is "user", "project" or, for a Codex config.toml, of which everything else is passed over, "codex".
    """
    if kind == "project":
        refuse(
            Mistake(file, number, f"a line with more than {MAX_DOTS} dots", "write it as several lines")
            for number, line in enumerate(text.split("\n"), 1)
            if line.count(".") > MAX_DOTS
        )
    return _File(parse(text, file), kind, home).settings()


class _File:
    """A document while it is read. `_said` collects what it says, by dotted name."""

    def __init__(self, document: Document, kind: str, home: str | None) -> None:
        self._document = document
        self._kind = kind
        self._home = home
        self._folder = os.path.dirname(document.file)
        self._tables = _CODEX_KEYS if kind == "codex" else KEYS
        self._root = Table(document)
        # Any: each kind of key has a type of its own, which `settings` knows.
        self._said: dict[str, Any] = {}
        self._lines: dict[str, int] = {}

    def settings(self) -> FileSettings:
        for name, keys in self._tables.items():
            self._read_table(name, keys)
        policy, env = self._policy(), self._env("env")
        self._read_login()
        setup = self._setup()
        sandbox = self._sandbox()
        self._refuse_idle_texts()
        refuse(self._root.mistakes)
        said = {field: self._said[setting] for setting, field in FIELDS.items() if setting in self._said}
        return FileSettings(
            self._document.file,
            self._kind,
            policy=policy,
            env=env,
            provider_options=self._provider_options(),
            setup=setup,
            sandbox=sandbox,
            launches=self._said.get("agents"),
            lines=self._lines,
            **said,
        )

    def _refuse_idle_texts(self) -> None:
        for id, meant in [(key.name, key.meant) for key in KEYS["providers"] if key.meant]:
            for place, text in _texts(self._written(f"providers.{id}")):
                if place >= len(meant) or (meant[place].islower() and text != meant[place]):
                    usual = ", ".join([f'"{word}"' for word in meant])
                    problem = f"entry {place + 1} of `providers.{id}` has no effect"
                    self._root.wrong(problem, f"write at most {id} = [{usual}]", "providers", id, place)

    def _provider_options(self) -> dict[str, dict[str, object]]:
        said = {
            key.name: self._said.get(f"providers.{key.name}")
            for key in KEYS["providers"]
            if key.kind == "texts" and key.name not in ("use", "required", "allow")
        }
        found: dict[str, dict[str, object]] = {
            name: {"values": values} for name, values in said.items() if values is not None
        }
        dialect = self._said.get("providers.dotenv_dialect")
        if dialect is not None:
            found.setdefault("dotenv", {})["dialect"] = dialect
        return found

    def _read_table(self, name: str, keys: tuple[Key, ...]) -> None:
        table = self._root.table(name) if name else self._root
        if table is None:
            return
        is_project = self._kind == "project"
        if is_project and all(key.user_only for key in keys):
            table.wrong(f"[{name}] is not allowed in a project's file", _MOVE)
            return
        if self._kind != "codex":
            table.only(*(key.name for key in keys), *([] if name else filter(None, KEYS)))
        for key in keys:
            if key.name not in table or (key.user_only and self._kind == "codex"):
                continue
            setting = f"{name}.{key.name}" if name else key.name
            if is_project and key.user_only:
                table.wrong(f"`{setting}` is not allowed in a project's file", _MOVE, key.name)
                continue
            value = self._value(table, key, setting)
            if value is not None:
                self._said[setting] = value
                self._lines[setting] = table.line(key.name)

    def _value(self, table: Table, key: Key, setting: str) -> Any:
        """What a key says, as its kind has it; None when there is a mistake, which has been noted."""
        mistakes = len(table.mistakes)
        value = getattr(self, f"_read_{key.kind}", self._read_texts)(table, key, setting)
        return value if len(table.mistakes) == mistakes else None

    def _written(self, setting: str) -> object:
        """What stands there, right or wrong; None for nothing."""
        table, dot, _ = setting.partition(".")
        if dot and table not in self._tables and table != _OVERLAYS:
            return None  # of a Codex file, and none of our business
        value: object = self._document.value
        for part in setting.split("."):
            value = value.get(part) if type(value) is dict else None
        return value

    def _written_values(self, setting: str) -> dict[str, object]:
        value = self._written(setting)
        return value if type(value) is dict else {}

    def _pairs(self, table: Table, key: Key, setting: str) -> list[tuple[str, object]]:
        """What is written in a table of values; their lines are noted."""
        pairs = self._written_values(setting)
        for name in pairs:
            self._lines[f"{setting}.{name}"] = table.line(key.name, name)
        return list(pairs.items())

    # Kinds of values: what comes of a mistake, which is noted, is not used

    def _read_flag(self, table: Table, key: Key, setting: str) -> bool | None:
        return table.flag(key.name)

    def _read_choice(self, table: Table, key: Key, setting: str) -> str | None:
        value = table.text(key.name)
        if value is not None and value not in key.choices:
            table.wrong(f"`{setting}` has an unknown value", _one_of(key), key.name)
        return value

    def _read_seconds(self, table: Table, key: Key, setting: str) -> float | None:
        value = table.number(key.name)
        if value is not None and not 0 < value <= key.most:  # nan is neither
            problem = f"`{setting}` must be more than 0 and at most {key.most:g} seconds"
            usual = 20 if key.default is None else key.default
            table.wrong(problem, f"write {key.name} = {usual}", key.name)
        return value

    def _read_count(self, table: Table, key: Key, setting: str) -> int | None:
        value = table.number(key.name)
        if value is None:
            return None
        if 1 <= value <= key.most and value.is_integer():
            return int(value)
        problem = f"`{setting}` must be a whole number from 1 to {key.most:.0f}"
        table.wrong(problem, f"write {key.name} = {key.default}", key.name)
        return None

    def _read_text(self, table: Table, key: Key, setting: str) -> str | None:
        value = table.text(key.name)
        if value is not None and (not value.strip() or "\0" in value):
            problem = f"`{setting}` is empty or contains a NUL"
            table.wrong(problem, "write a value, or remove the line", key.name)
        return value

    def _read_inner_path(self, table: Table, key: Key, setting: str) -> str | None:
        value = table.text(key.name)
        if value is not None and not _is_inner(value):
            table.wrong(f"`{setting}` is not a path inside the project", _INNER_REMEDY, key.name)
        return value

    def _read_texts(self, table: Table, key: Key, setting: str) -> tuple[str, ...] | None:
        """Every kind that is a list of strings; `_ENTRIES` has their rules."""
        values = table.texts(key.name)
        rule = _ENTRIES.get(key.kind)
        if key.choices:
            rule = key.choices.__contains__, "an unknown entry", _one_of(key)
        for place, value in _texts(self._written(setting)):
            self._lines.setdefault(f"{setting}.{value}", table.line(key.name, place))
            if rule is not None and not rule[0](value):
                table.wrong(f"`{setting}` has {rule[1]}", rule[2], key.name, place)
        return values

    def _read_values(self, table: Table, key: Key, setting: str) -> dict[str, str] | None:
        values = table.text_map(key.name)
        is_right, remedy = (is_name, _NAME_REMEDY)
        if self._kind == "codex":  # it takes names that shells drop, and that is not for us to refuse
            is_right, remedy = (_is_possible, _POSSIBLE_REMEDY)
        for name, value in self._pairs(table, key, setting):
            if not is_right(name):
                table.wrong(f"`{setting}` has `{shown(name)}`, which is not a name", remedy, key.name, name)
            if type(value) is str and "\0" in value:
                table.wrong(f"`{setting}.{shown(name)}` contains a NUL", "remove the \\u0000", key.name, name)
        return values

    def _read_actions(self, table: Table, key: Key, setting: str) -> dict[str, str] | None:
        actions = table.text_map(key.name)
        seen: set[str] = set()
        for pattern, action in self._pairs(table, key, setting):
            if type(action) is str and action not in key.choices:
                problem = f"`{setting}` has an unknown action"
                table.wrong(problem, 'write "exclude" or "include"', key.name, pattern)
            if pattern.lower() in seen:
                problem = f"`{setting}` has `{shown(pattern)}` twice, in different case"
                table.wrong(problem, "case is ignored: keep one of them", key.name, pattern)
            seen.add(pattern.lower())
        return actions

    def _read_modes(self, table: Table, key: Key, setting: str) -> dict[str, str] | None:
        from ..errors import SettingInvalid
        from ..providers.base import check_mode
        from ..providers.registry import OURS, find

        modes = table.text_map(key.name)
        for id, mode in self._pairs(table, key, setting):
            if not id:
                problem = f"`{setting}` has a provider without a name"
                table.wrong(problem, 'write nix = "capture"', key.name, id)
            if type(mode) is not str:
                continue
            if mode not in key.choices:
                table.wrong(f"`{setting}` has an unknown mode", _one_of(key), key.name, id)
            elif id in OURS:  # others are asked when they are used: nothing of theirs is loaded for a file
                try:
                    check_mode(find(id), mode)
                except SettingInvalid as error:
                    problem, _, remedy = str(error).partition(": ")
                    table.wrong(problem, remedy, key.name, id)
        return modes

    def _read_entries(self, table: Table, key: Key, setting: str) -> dict[str, tuple[str, ...]] | None:
        inner = table.table(key.name)
        if inner is None:
            return None
        found = {}
        for variable, written in self._pairs(table, key, setting):
            if not self._is_list(variable):
                remedy = "add it to `lists` of [names]" if is_name(variable) else _NAME_REMEDY
                inner.wrong(f"`{shown(variable)}` is not a list variable", remedy, variable)
            inner.texts(variable)
            found[variable] = tuple(
                self._entry(inner, variable, place, text) for place, text in _texts(written)
            )
        return found

    def _is_list(self, variable: str) -> bool:
        more = self._written("names.lists")  # its mistakes are reported there
        return variable in LIST_NAMES or (type(more) is list and variable in more)

    def _entry(self, table: Table, variable: str, place: int, text: str) -> str:
        """An entry of a list variable, absolute."""
        if not text:
            problem, remedy = " has an empty entry", 'write "." for the directory of this file'
        elif "\0" in text:
            problem, remedy = " has an entry with a NUL", "remove the \\u0000"
        elif ":" in text:
            problem, remedy = " has an entry with a colon, which separates entries", "write several entries"
        else:
            problem, remedy = self._why_no_path(text, "an entry")
        if problem:
            table.wrong(f"`{shown(variable)}`{problem}", remedy, variable, place)
            return ""
        return self._absolute(text)

    def _absolute(self, path: str) -> str:
        if self._home is not None and (path == "~" or path.startswith("~/")):
            path = self._home + path[1:]
        return os.path.normpath(os.path.join(self._folder, path))

    def _read_each(
        self, table: Table, key: Key, setting: str, read: Callable[[str], tuple[str, str, str]]
    ) -> tuple[str, ...]:
        """The entries of a list of [sandbox]. `read` tells the value of one, what is wrong with it, as the
        sentence about the setting goes on, and what to write instead."""
        found = []
        table.texts(key.name)
        for place, text in _texts(self._written(setting)):
            value, problem, remedy = read(text)
            if problem:
                table.wrong(f"`{setting}`{problem}", remedy, key.name, place)
                continue
            found.append(value)
            self._lines.setdefault(f"{setting}.{value}", table.line(key.name, place))
        return tuple(found)

    def _read_write_paths(self, table: Table, key: Key, setting: str) -> tuple[str, ...]:
        """Paths that may be written, absolute."""
        return self._read_each(
            table, key, setting, lambda text: (self._absolute(text), *self._why_no_path(text))
        )

    def _read_hidden(self, table: Table, key: Key, setting: str) -> tuple[str, ...]:
        """Paths and patterns. Those of a project start at its directory, those of a user at the command's."""

        def read(text: str) -> tuple[str, str, str]:
            problem, remedy = self._why_no_path(text)
            if not problem and text.startswith("/**"):
                problem, remedy = " has a pattern for the whole file system", "begin it with a directory"
            starts = self._kind == "project" or text[:1] in ("/", "~")
            return self._pattern(text) if starts else text, problem, remedy

        return self._read_each(table, key, setting, read)

    def _pattern(self, text: str) -> str:
        """An absolute path or pattern; no part of a directory's own name is a wildcard."""
        from ..core.sandbox import hidden_below

        if self._home is not None and (text == "~" or text.startswith("~/")):
            return hidden_below(self._home, text[2:])
        return os.path.normpath(text) if text.startswith("/") else hidden_below(self._folder, text)

    def _why_no_path(self, text: str, what: str = "a path") -> tuple[str, str]:
        """What is wrong with a path, as the sentence about its setting goes on, and what to write; two empty
        texts if nothing is."""
        if not text or "\0" in text:
            return " has an empty path, or one with a NUL", "write a path, or remove the entry"
        if text.startswith("$"):
            return f" has {what} that starts with $, which is not expanded", "write the path itself"
        if text == "~" or text.startswith("~/"):
            if self._kind == "project":
                return f" has {what} in a home directory", f"use directories of the project, or {_MOVE}"
            if self._home is None:
                return f" has {what} in a home directory, but HOME is not set", "write the whole path"
        return "", ""

    def _read_domains(self, table: Table, key: Key, setting: str) -> tuple[str, ...]:
        from ..core.sandbox import domain
        from ..errors import SettingInvalid

        def read(text: str) -> tuple[str, str, str]:
            try:
                return domain(text), "", ""
            except SettingInvalid as error:
                problem, _, remedy = str(error).partition(": ")
                return "", f": {problem}", remedy

        return self._read_each(table, key, setting, read)

    def _read_protected(self, table: Table, key: Key, setting: str) -> tuple[str, ...]:
        from ..core.protecting import HOW, MOST, is_name, listed

        def read(text: str) -> tuple[str, str, str]:
            return text.rstrip("/"), "" if is_name(text) else f" has {text!r}, which is no name", HOW

        found = self._read_each(table, key, setting, read)
        if len(listed(found)) > MOST:
            table.wrong(f"`{setting}` has more than {MOST} names", "keep fewer of them", key.name)
        return found

    def _read_producers(self, table: Table, key: Key, setting: str) -> Any:
        inner = table.table(key.name)
        if inner is None:
            return None
        found = []
        for producer, written in self._pairs(table, key, setting):
            if not producer:
                problem = f"`{setting}` has a producer without a name"
                inner.wrong(problem, 'write project = ["NAME"]', producer)
            names = inner.texts(producer) or ()
            for place, name in _texts(written):
                if not is_name(name):
                    problem = f"`{setting}.{shown(producer)}` has {_NO_NAME}"
                    inner.wrong(problem, _NAME_REMEDY, producer, place)
            found.append((producer, names))
        return tuple(found)

    def _read_switch_or_path(self, table: Table, key: Key, setting: str) -> bool | str | None:
        value = self._written(setting)
        if type(value) is bool:
            return value
        if type(value) is not str:
            table.wrong(f"`{setting}` must be a boolean or a path", f"write {key.name} = true", key.name)
            return None
        problem = ""
        if not value or "\0" in value:
            problem = "is not the path of a file"
        elif self._home is None and (value == "~" or value.startswith("~/")):
            problem = "is in a home directory, but HOME is not set"
        if problem:
            table.wrong(f"`{setting}` {problem}", f"write {key.name} = true, or a whole path", key.name)
            return None
        return self._absolute(value)

    # What belongs together

    def _read_login(self) -> None:
        if self._written("allow_login_shell") is not None and self._written("shell.login") is not None:
            problem = "`allow_login_shell` and `shell.login` mean the same"
            self._root.wrong(problem, "keep one of them", "allow_login_shell")
        allowed: bool | None = self._said.get("allow_login_shell")
        if allowed is not None:
            self._said["shell.login"] = "allow" if allowed else "reject"
            self._lines["shell.login"] = self._lines["allow_login_shell"]

    def _setup(self) -> SetupSettings | None:
        if type(self._written("setup")) is not dict:
            return None
        table = self._root.table("setup")
        assert table is not None, "it is one"
        if self._kind == "user":
            table.wrong(
                "[setup] is only allowed in a project's outfitter.toml", "move it to the project's file"
            )
            return None
        ways = [word for word in ("script", "run", "from") if self._written(f"setup.{word}") is not None]
        if not ways:
            if table.keys():
                table.wrong(
                    "[setup] has nothing to run", "write `script`, `run` or `from`, or remove the table"
                )
            return None
        if len(ways) > 1:
            problem = f"`{ways[0]}` and `{ways[1]}` of [setup] cannot be used together"
            table.wrong(problem, "keep one of them", ways[1])
        if self._written("setup.name") is not None and ways != ["from"]:
            table.wrong("`setup.name` needs `setup.from`", "write `from`, or remove `name`", "name")
        said = {
            word: self._said[f"setup.{word}"]
            for word in ("script", "run", "name", "inputs", "timeout", "required")
            if f"setup.{word}" in self._said
        }
        return SetupSettings(self._document.file, source=self._said.get("setup.from"), **said)

    def _sandbox(self) -> SandboxSettings | None:
        said = {key: self._said[f"sandbox.{key}"] for key in SANDBOX_KEYS if f"sandbox.{key}" in self._said}
        if "mode" not in said and self._written("sandbox.mode") is None:
            for key in ("allow_write", "allow_domain"):
                if key in said:
                    problem = f"`sandbox.{key}` needs `sandbox.mode`"
                    self._root.wrong(problem, 'write mode = "workspace-write"', "sandbox", key)
        if not said:
            return None
        places = {}
        for key, value in said.items():
            places[key] = self._source(f"sandbox.{key}")
            for entry in () if key == "mode" else value:
                places[f"{key} {entry}"] = self._source(f"sandbox.{key}.{entry}")
        return SandboxSettings(self._document.file, **said, places=places)

    def _policy(self) -> PolicySettings | None:
        keys = {rule: f"{_POLICY}.{rule}" for rule in POLICY_RULES}  # where each rule was written
        said = {rule: self._said[key] for rule, key in keys.items() if key in self._said}
        actions: dict[str, str] | None = self._said.get(f"{_POLICY}.filters")
        self._refuse_two_forms()
        if actions is not None:
            for rule, action in (("exclude", "exclude"), ("include_only", "include")):
                said[rule] = tuple(pattern for pattern, one in actions.items() if one == action)
                keys[rule] = f"{_POLICY}.filters"
        if not said:
            return None
        rules = {}
        for rule, value in said.items():
            rules[rule] = self._source(keys[rule])
            for entry in () if rule in ("inherit", "ignore_default_excludes") else value:
                rules[f"{rule} {entry}"] = self._source(f"{keys[rule]}.{entry}")
            if self._kind == "project" and rule in ("exclude", "include_only"):
                self._check_patterns(tuple(value), *keys[rule].rsplit(".", 1))
        if "set" in said:
            said["set"] = tuple(said["set"].items())
        return PolicySettings(self._document.file, **said, rules=rules)

    def _check_patterns(self, patterns: tuple[str, ...], *path: str) -> None:
        """Whoever wrote a project need not be whoever runs it."""
        try:
            check_patterns(patterns, f"`{path[-1]}`")
        except LimitExceeded as error:
            self._root.wrong(error.problem, error.remedy, *path)

    def _source(self, setting: str) -> Source:
        return Source(self._document.file, self._lines[setting], self._kind)

    def _refuse_two_forms(self) -> None:
        if self._written(f"{_POLICY}.filters") is None:
            return
        for rule in ("exclude", "include_only"):
            if self._written(f"{_POLICY}.{rule}") is not None:
                problem = f"`{rule}` cannot be used with `filters`"
                self._root.wrong(problem, "write the rule in `filters`, or remove `filters`", _POLICY, rule)

    def _read_overlays(self, table: Table, key: Key, setting: str) -> dict[str, EnvSettings] | None:
        inner = table.table(key.name)
        if inner is None:
            return None
        found = {}
        for name in self._written_values(setting):
            if not is_name(f"_{name.replace('-', '_')}") or not name:
                problem = f"`{setting}` has `{shown(name)}`, which is not the name of an overlay"
                inner.wrong(problem, "use letters, digits, - and _", name)
                continue
            overlay = inner.table(name)
            if overlay is None:
                continue
            overlay.only(*(one.name for one in KEYS["env"]), "kinds")
            for one in KEYS["env"]:
                if one.name in overlay:
                    part = f"{setting}.{name}.{one.name}"
                    self._said[part] = self._value(overlay, one, part)
            self._lines[f"{setting}.{name}"] = inner.line(name)
            table_ = self._env(f"{setting}.{name}") or EnvSettings(self._document.file)
            found[name] = replace(table_, kinds=overlay.texts("kinds") or ())
        return found

    def _read_launches(self, table: Table, key: Key, setting: str) -> LaunchContract | None:
        from ..formats.launchfile import read_contract

        inner = table.table(key.name)
        return None if inner is None else read_contract(inner)

    def _env(self, table: str) -> EnvSettings | None:
        self._refuse_contradictions(table)
        values: dict[str, str] = self._said.get(f"{table}.set") or {}
        unset: tuple[str, ...] = self._said.get(f"{table}.unset") or ()
        lines = self._lines
        operations = tuple(
            (variable, op, entries, lines[f"{table}.{op}.{variable}"])
            for op in _OPERATIONS
            for variable, entries in (self._said.get(f"{table}.{op}") or {}).items()
            if entries
        )
        if not values and not unset and not operations:
            return None
        return EnvSettings(
            self._document.file,
            set=tuple((name, value, lines[f"{table}.set.{name}"]) for name, value in values.items()),
            unset=tuple((name, lines[f"{table}.unset.{name}"]) for name in dict.fromkeys(unset)),
            operations=operations,
        )

    def _refuse_contradictions(self, table: str) -> None:
        values = self._written_values(f"{table}.set")
        path = table.split(".")
        for place, name in _texts(self._written(f"{table}.unset")):
            if name in values:
                problem = f"`{shown(name)}` is both in `set` and in `unset`"
                self._root.wrong(problem, "remove it from one of them", *path, "unset", place)
        for name, value in values.items():
            entries = value.split(":") if type(value) is str else []
            if self._is_list(name) and any(entry.startswith("$") for entry in entries):
                problem = f"`{table}.set.{name}` has an entry that starts with $, which is not expanded"
                self._root.wrong(problem, f"use `prepend` or `append` to add to {name}", *path, "set", name)


_MOVE = "move it to your own config.toml"
_NO_NAME = "an entry that is not a name"
_NAME_REMEDY = "a name has letters, digits and _, and does not start with a digit"
_POSSIBLE_REMEDY = "a name must not be empty and must not contain '=' or NUL"
_INNER_REMEDY = "write it relative to the directory of this file, without `..`, `~`, `$` and `**`"


def _one_of(key: Key) -> str:
    return "write one of " + ", ".join(f'"{choice}"' for choice in key.choices)


def _texts(values: object) -> list[tuple[int, str]]:
    """The strings of an array, each with its place; what else is in it has been reported."""
    items = values if type(values) is list else []
    return [(place, item) for place, item in enumerate(items) if type(item) is str]


def _is_inner(path: str) -> bool:
    """Whether it stays below the folder it starts at. `**` would be a walk for each command."""
    parts = path.split("/")
    return path[:1] not in ("", "/", "~", "$") and "\0" not in path and ".." not in parts and "**" not in path


def _is_possible(name: str) -> bool:
    return bool(name) and "=" not in name and "\0" not in name


# By kind of a list: whether an entry is right, what a wrong one is, and what to write instead.
_ENTRIES: dict[str, tuple[Callable[[str], bool], str, str]] = {
    "inner_paths": (_is_inner, "an entry that is not a path inside the project", _INNER_REMEDY),
    "patterns": (bool, "an empty pattern", "write a name, or * for any part"),
    "names": (is_name, _NO_NAME, _NAME_REMEDY),
    # Any name that can be there can be taken away.
    "names_to_unset": (_is_possible, _NO_NAME, _POSSIBLE_REMEDY),
}


def unreadable(path: str, problem: str, remedy: str, line: int | None = None) -> FileInvalid:
    """The error about a file as a whole."""
    return FileInvalid((Mistake(path, line, problem, remedy),))
