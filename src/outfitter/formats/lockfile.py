"""The file `outfitter.lock`, written and read: JSON, one thing to a line, in order.

The same lock gives the same bytes. Whatever a person changed in it by hand is a mistake with its line.
"""

from __future__ import annotations

from ..env.explain import shown
from ..env.layer import BASE, STATES
from ..env.lock import EVERY_LEVEL, SHORTEST_SALT, Lock, LockedLayer, LockedVariable
from ..errors import FileInvalid
from .document import JsonObject, Mistake, refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

VERSION = 1
_REMEDY = "make the lock again, or undo the changes in it"


def encode(lock: Lock) -> str:
    """The text of the file: ASCII, one thing to a line."""
    layers = [
        {"layer": one.layer, "id": one.id, "state": one.state}
        | ({"digest": one.digest} if one.digest else {})
        for one in lock.layers
    ]
    variables = {name: _variable(one) for name, one in sorted(lock.variables.items())}
    members = (
        f'"version": {VERSION}',
        f'"salt": "{lock.salt.hex()}"',
        '"covers": ' + _json([f"L{level}" for level in lock.levels]),
        *(['"only": ' + _json(list(lock.only))] if lock.only else []),
        '"layers": [' + _lines(map(_json, layers)) + "]",
        '"tools": {' + _lines(_pair(name, text) for name, text in sorted(lock.tools.items())) + "}",
        '"variables": {' + _lines(_pair(name, one) for name, one in variables.items()) + "}",
    )
    return "{\n  " + ",\n  ".join(members) + "\n}\n"


def _variable(one: LockedVariable) -> dict[str, object]:
    entry: dict[str, object] = {"layer": one.layer, "id": one.id}
    if one.secret:
        entry["secret"] = True
    elif one.segments is not None:
        entry["segments"] = list(one.segments)
    else:
        entry["digest"] = one.digest
    return entry


def _lines(texts: Iterable[str]) -> str:
    text = ",".join([f"\n    {text}" for text in texts])
    return f"{text}\n  " if text else ""


def _pair(name: str, value: object) -> str:
    return f"{_json(name)}: {_json(value)}"


def _json(value: object) -> str:
    import json

    return json.dumps(value)


def decode(text: str, file: str = "outfitter.lock") -> Lock:
    """What the file says. Raises FileInvalid with every mistake; `file` is what it is reported under."""
    import json

    try:
        said = json.loads(text, object_pairs_hook=JsonObject)
    except json.JSONDecodeError as error:
        problem = Mistake(file, error.lineno, f"not valid JSON: {error.msg}", _REMEDY)
        raise FileInvalid((problem,)) from None
    except (RecursionError, ValueError):  # too deep, or a number with too many digits
        raise FileInvalid((Mistake(file, None, "not valid JSON", _REMEDY),)) from None
    reader = _Reader(text, file)
    lock = reader.read(said)
    refuse(reader.mistakes)
    assert lock is not None, "there is a lock or a mistake"
    return lock


class _Reader:
    """Reads the members one by one and notes what is wrong with them, with the line as far as it is known."""

    def __init__(self, text: str, file: str) -> None:
        self.mistakes: list[Mistake] = []
        self._rows = text.split("\n")
        self._file = file

    def read(self, said: Any) -> Lock | None:
        if not isinstance(said, JsonObject):
            self._wrong("the file is not a JSON object", None)
            return None
        version = said.get("version")
        if type(version) is int and version > VERSION:
            text = f"a later version of Outfitter wrote it (format {version}; this version reads {VERSION})"
            self.mistakes.append(Mistake(self._file, self._line("version"), text, "update Outfitter"))
            return None
        if type(version) is not int or version != VERSION:
            self._wrong("`version` is missing or unknown", "version")
        members = ("version", "salt", "covers", "from", "only", "layers", "tools", "variables")
        self._only(said, members, "the file")
        salt = self._salt(said.get("salt"))
        levels, only = self._levels(said), self._list(said.get("only", []), "only")
        if not all(type(pattern) is str for pattern in only):
            self._wrong("`only` must have patterns of names", "only")
        layers = [self._layer(one) for one in self._list(said.get("layers"), "layers")]
        tools = self._object(said.get("tools"), "tools")
        for name, version_text in tools.items():
            if type(version_text) is not str:
                self._wrong(f"the tool `{shown(name)}` must be a string", name)
        variables = self._object(said.get("variables"), "variables")
        known = {name: self._variable(name, one) for name, one in variables.items()}
        return Lock(salt, levels, tuple(layers), dict(tools), known, tuple(only))

    def _salt(self, said: Any) -> bytes:
        try:
            salt = bytes.fromhex(said)
        except (TypeError, ValueError):
            salt = b""
        if len(salt) < SHORTEST_SALT:
            self._wrong(f"`salt` must be at least {SHORTEST_SALT} bytes in hexadecimal", "salt")
        return salt

    def _levels(self, said: JsonObject) -> tuple[int, ...]:
        if "from" in said and "covers" not in said:  # as older versions wrote it: this layer and all above
            lowest = self._level(said["from"], "from")
            return tuple(level for level in EVERY_LEVEL if level >= lowest)
        found = [self._level(one, "covers") for one in self._list(said.get("covers"), "covers")]
        return tuple(sorted(set(found)))

    def _level(self, said: Any, key: str) -> int:
        if type(said) is str and len(said) == 2 and said[0] == "L" and said[1] in "012345678":
            return int(said[1])
        self._wrong(f"`{key}` is not a layer, L0 to L8", key)
        return BASE

    def _layer(self, said: Any) -> LockedLayer:
        if not isinstance(said, JsonObject):
            self._wrong("an entry of `layers` is not an object", "layers")
            return LockedLayer("L0", "", "")
        id = said.get("id")
        what = f"the layer `{shown(id)}`" if type(id) is str else "an entry of `layers`"
        self._only(said, ("layer", "id", "state", "digest"), what)
        texts = [said.get(key, "") for key in ("layer", "id", "state", "digest")]
        if [text for text in texts if type(text) is not str] or texts[2] not in STATES:
            self._wrong(
                f"{what} has a member that is missing or not a string", id if type(id) is str else "layers"
            )
            return LockedLayer("L0", "", "")
        self._level(texts[0], "layer")
        return LockedLayer(*texts)

    def _variable(self, name: str, said: Any) -> LockedVariable:
        what = f"the variable `{shown(name)}`"
        nothing = LockedVariable("L0", "")
        if not isinstance(said, JsonObject):
            self._wrong(f"{what} is not an object", name)
            return nothing
        self._only(said, ("layer", "id", "secret", "digest", "segments"), what, name)
        layer, id = said.get("layer"), said.get("id")
        if type(layer) is not str or type(id) is not str:
            self._wrong(f"{what} has no layer", name)
            return nothing
        self._level(layer, "layer")
        match [(key, said[key]) for key in ("secret", "digest", "segments") if key in said]:
            case [("secret", True)]:
                return LockedVariable(layer, id, secret=True)
            case [("digest", str(digest))]:
                return LockedVariable(layer, id, digest=digest)
            case [("segments", list(entries))] if all(type(entry) is str for entry in entries):
                return LockedVariable(layer, id, segments=tuple(entries))
        self._wrong(f"{what} must have exactly one of `secret`, `digest` and `segments`", name)
        return nothing

    def _list(self, said: Any, key: str) -> list[Any]:
        if type(said) is list:
            return said
        self._wrong(f"`{key}` is missing or not an array", key)
        return []

    def _object(self, said: Any, key: str) -> JsonObject:
        if not isinstance(said, JsonObject):
            self._wrong(f"`{key}` is missing or not an object", key)
            return JsonObject([])
        for name in said.twice:
            self._wrong(f"`{shown(name)}` is in `{key}` twice", name)
        return said

    def _only(self, said: JsonObject, known: tuple[str, ...], what: str, where: str | None = None) -> None:
        for name in said:
            if name not in known:
                self._wrong(f"{what} has an unknown member `{shown(name)}`", where or name)
        for name in said.twice:
            self._wrong(f"{what} has `{shown(name)}` twice", where or name)

    def _wrong(self, text: str, key: str | None) -> None:
        self.mistakes.append(Mistake(self._file, self._line(key), text, _REMEDY))

    def _line(self, key: str | None) -> int | None:
        """Where a member is written; of an entry of `layers`, where its id is."""
        if key is None:
            return None
        quoted = _json(key)
        for marks in (f"{quoted}:", f'"id": {quoted}'):
            for number, row in enumerate(self._rows, start=1):
                if marks in row:
                    return number
        return None
