"""pools.toml: pools by name, beside environments.toml. Every mistake is told at once, with its line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..environments.file import config_home
from ..errors import FileInvalid, SettingInvalid
from ..formats.document import Mistake, refuse
from ..formats.toml import Table, parse, shown
from .engines import ENGINES
from .settings import PoolWishes, settle

if TYPE_CHECKING:
    from collections.abc import Mapping

    Declared = tuple[str, PoolWishes]  # the engine, and what is wanted of it

FILE = "pools.toml"
_NUMBERS = ("size", "warm", "idle", "cpus", "gpus", "queue_timeout", "start_timeout")
_WHOLE = ("size", "warm")
_TEXTS = ("address", "relay", "memory", "image", "limits", "home")
_KEYS = ("id", "engine", "setup", "env", "labels", "standby", *_NUMBERS, *_TEXTS)


def find(environ: Mapping[str, str], name: str) -> Declared:
    """A pool by its name. Raises SettingInvalid, FileInvalid."""
    declared = load(environ)
    if name not in declared:
        known = ", ".join([*ENGINES, *declared])
        raise SettingInvalid(f"no engine and no pool of {FILE} is named {name!r}; known: {known}")
    return declared[name]


def load(environ: Mapping[str, str]) -> dict[str, Declared]:
    """All pools of the file; none if there is no file. Raises FileInvalid."""
    try:
        path = os.path.join(config_home(environ), FILE)
    except SettingInvalid:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        mistake = Mistake(path, None, f"cannot be read: {reason}", "make it a readable file, or remove it")
        raise FileInvalid((mistake,)) from None
    return parse_pools(text, path)


def parse_pools(text: str, file: str) -> dict[str, Declared]:
    """Raises FileInvalid."""
    root = Table(parse(text, file))
    root.only("pools")
    found: dict[str, Declared] = {}
    for table in root.tables("pools"):
        table.only(*_KEYS)
        name = table.text("id") or ""
        if not name:
            table.wrong("missing field `id`", 'give the pool a name: id = "NAME"')
        elif name in found or name in ENGINES:
            table.wrong(f"pool id `{shown(name)}` is taken", "choose another name", "id")
        engine = table.text("engine") or "local"
        if engine not in ENGINES:
            choices = ", ".join(ENGINES)
            table.wrong(f"engine `{shown(engine)}` is unknown", f"write one of {choices}", "engine")
            engine = "local"
        found[name] = (engine, _wishes(table, engine))
    refuse(root.mistakes)
    return found


def _wishes(table: Table, engine: str) -> PoolWishes:
    told = len(table.mistakes)
    given: dict[str, object] = {key: table.text(key) for key in _TEXTS}
    for key in _NUMBERS:
        number = table.number(key)
        if number is not None and key in _WHOLE:
            if number != int(number):
                table.wrong(f"`{key}` must be a whole number", f"write {key} = 4", key)
            number = int(number)
        given[key] = number
    given |= {
        "standby": table.flag("standby"),
        "setup": table.texts("setup"),
        "env": table.text_map("env"),
        "labels": table.text_map("labels"),
    }
    wishes: PoolWishes = {key: value for key, value in given.items() if value is not None}  # type: ignore[assignment]
    if len(table.mistakes) == told:
        try:
            settle(engine, wishes)
        except SettingInvalid as error:
            problem, _, remedy = str(error).partition(": ")
            table.wrong(problem, remedy, *[key for key in (problem,) if key in table])
    return wishes
