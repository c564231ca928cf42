"""What a project's files say: texts and tables out of them, without a word of trust in either."""

from __future__ import annotations

import os

from .. import plain
from .base import Detection
from .files import read, upwards
from .marks import MARKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from ..formats.document import Document
    from .base import Context

# A lock of a large project; what is larger counts by its size and time alone.
_DIGESTED = 16 << 20
# A question looks at the same few files several times over, and reading TOML takes milliseconds.
_REMEMBERED_TABLES = 16
# What shlex.quote leaves as it is.
_PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"
_tables: dict[str, tuple[str, dict[str, Any]]] = {}


def present(folder: str, names: Iterable[str]) -> tuple[str, ...]:
    """The paths of those names that are there."""
    return tuple(path for name in names if os.path.exists(path := os.path.join(folder, name)))


class Marked:
    """The part of a provider that finds its project: the nearest folder with one of the names in `MARKS`."""

    id = ""
    labelled_by_file = False

    def watch(self, found: Detection, context: Context) -> list[str]:
        return [os.path.join(found.root, name) for name in MARKS[self.id]]

    def detect(self, directory: str) -> Detection | None:
        for folder in upwards(directory):
            files = present(folder, MARKS[self.id])
            if files:
                named = files[0] if self.labelled_by_file else folder
                return Detection(folder, files, f"{self.id}:{named}")
        return None


def names(folder: str) -> list[str]:
    """What is in a folder, in order; nothing when it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except (OSError, ValueError):
        return []


def read_text(path: str) -> str | None:
    """A file's text; None when it is not there, cannot be read, is too large, or is not UTF-8."""
    data = read(path)
    try:
        return None if data is None else data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def parsed(text: str | bytes) -> Any:
    """What a tool or a file says in JSON; None for what is not JSON."""
    import json

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def read_jsonc(path: str) -> tuple[Document | None, str]:
    """A JSON file with comments, or what is wrong with it."""
    from ..errors import FileInvalid
    from ..formats import jsonc

    text = read_text(path)
    if text is None:
        return None, f"{path} cannot be read as text: correct it"
    try:
        return jsonc.parse(text, path), ""
    except FileInvalid as error:
        return None, str(error)


def read_toml(path: str) -> tuple[dict[str, Any], str]:
    """A TOML file's values, and what is wrong with it; nothing of both when it is not there."""
    text = read_text(path)
    if text is None:
        return {}, f"{path} cannot be read" if os.path.lexists(path) else ""
    known = _tables.get(path)
    if known is not None and known[0] == text:
        return known[1], ""
    from ..formats.plaintoml import loads

    values = loads(text)
    if values is None:
        from ..formats import toml

        try:
            values = toml.values(text)
        except (RecursionError, ValueError):
            pass
    if values is None:
        from ..errors import FileInvalid
        from ..formats.toml import parse

        try:
            return parse(text, path).value, ""
        except FileInvalid as error:
            return {}, str(error)
    if len(_tables) >= _REMEMBERED_TABLES:
        _tables.clear()
    _tables[path] = (text, values)
    return values, ""


def table(values: dict[str, Any], *keys: str) -> dict[str, Any]:
    """The table below these keys; an empty one when there is none, or something else."""
    for key in keys:
        found = values.get(key)
        if type(found) is not dict:
            return {}
        values = found
    return values


def text(values: dict[str, Any], key: str) -> str:
    """The string below a key; "" when there is none, or something else."""
    found = values.get(key)
    return found if type(found) is str else ""


def texts(value: object) -> list[str] | None:
    """A list of strings, as a list of its own; None for anything else."""
    if isinstance(value, (list, tuple)) and all(type(one) is str for one in value):
        return list(value)
    return None


def covered(paths: Iterable[str], use: str = "", *, root: str = "") -> tuple[str, dict[str, bytes | None]]:
    """What these files say, as "sha256:..."; a change of any, or one more or less, changes it. And what was
    read in each; None for what is not there.

    `use` is what for: what was allowed for one use is not for another. Files below `root` count by their
    place there, so that another checkout with the same content has the same digest.
    """
    from ..stdlib import sha256

    total = sha256(use.encode())
    files: dict[str, bytes | None] = {}
    for path in paths:
        data = read(path, _DIGESTED)
        name = os.path.relpath(path, root) if root and path.startswith(f"{root}/") else path
        total.update(sha256(os.fsencode(name)).digest())
        if data is not None:
            total.update(b"+" + sha256(data).digest())
            files[path] = data
            continue
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            total.update(b"-")
            files[path] = None
        else:
            total.update(f"?{found.st_ino}:{found.st_size}:{found.st_mtime_ns};".encode())
    return f"sha256:{total.hexdigest()}", files


def is_text(value: object) -> bool:
    """Whether a value out of JSON can be a variable's: JSON has strings that are no text in any encoding."""
    return type(value) is str and plain.is_text(value)


def expanded(text: str, value_of: Callable[[str], str | None]) -> tuple[str, str]:
    """The text with each ${...} replaced by its value, and the first that has none, after which it ends."""
    result, rest = "", text
    while True:
        before, start, rest = rest.partition("${")
        result += before
        if not start:
            return result, ""
        inside, end, rest = rest.partition("}")
        value = value_of(inside) if end else None
        if value is None:
            return result, f"${{{inside}}}" if end else "${"
        result += value


def absolute(path: str, root: str, home: str) -> str:
    """A path as a person writes it: `~` is home, a relative one is below `root`."""
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    return os.path.normpath(os.path.join(root, path))


def is_plain(word: str) -> bool:
    """Whether every shell reads the word as it stands. Most are: importing shlex takes 6 ms of CPU."""
    return word != "" and not word.strip(_PLAIN)


def typed(word: str) -> str:
    """A word of a project's in a command that people are told to type: it stays one word, and no more."""
    if not word or is_plain(word):
        return word
    from shlex import quote

    return quote(word)
