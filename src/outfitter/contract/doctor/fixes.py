"""What `outfitter doctor --fix` can do by itself, described; `cli.fixes` shows it, asks and does it."""

from __future__ import annotations

from ...errors import SettingInvalid
from ...record import record


@record
class Mode:
    """A file or directory of ours that others can read or change."""

    path: str
    before: int
    after: int


@record
class Setting:
    """A line that the user's configuration lacks: `key = value` under [table]."""

    path: str
    table: str
    key: str
    value: str


@record
class Removal:
    """A member of a JSON object that is in the way, by its keys; with `values`, these entries of its list."""

    path: str
    keys: tuple[str, ...]
    values: tuple[str, ...] = ()


Fix = Mode | Setting | Removal


def with_setting(text: str, wanted: Setting) -> str:
    """The text of a file with that line, below the table's own heading. Raises SettingInvalid."""
    lines = text.splitlines(keepends=True)
    end = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += end
    line, heading = f"{wanted.key} = {wanted.value}", f"[{wanted.table}]"
    places = [at for at, one in enumerate(lines) if one.partition("#")[0].strip() == heading]
    if places:
        lines.insert(places[0] + 1, line + end)
    else:
        lines += [*([end] if lines else []), heading + end, line + end]
    after = "".join(lines)
    _check(text, after, wanted)
    return after


def without_member(text: str, unwanted: Removal) -> str:
    """The text of a JSON file without that member. Raises SettingInvalid."""
    from json import loads

    *way, last = unwanted.keys
    try:
        whole = inner = loads(text)
        for key in way:
            inner = inner[key]
        if unwanted.values:
            inner[last] = [one for one in inner[last] if one not in unwanted.values]
        else:
            del inner[last]
        return json_text(whole, text)
    except (ValueError, RecursionError, KeyError, TypeError):
        raise SettingInvalid(
            f"{unwanted.path} cannot be edited safely: remove {'.'.join(unwanted.keys)} yourself"
        ) from None


def json_text(value: object, before: str = "") -> str:
    """As people write it: with the indentation and the line ends that the file had `before`.

    Raises ValueError, RecursionError for what was read as JSON and cannot be written as JSON: a number that
    is too large, half a surrogate pair.
    """
    from json import dumps
    from re import search

    indent = search(r"\n([ \t]+)\S", before)
    text = dumps(value, indent=indent[1] if indent else 2, ensure_ascii=False, allow_nan=False) + "\n"
    text.encode()
    return text.replace("\n", "\r\n") if "\r\n" in before else text


def _check(before: str, after: str, wanted: Setting) -> None:
    """Whether the line is the only difference that a reader sees. Raises SettingInvalid."""
    from tomllib import loads

    try:
        after.encode()
        old, new = loads(before), loads(after)
        new[wanted.table].pop(wanted.key)
    except (ValueError, KeyError, AttributeError):
        new, old = {"": 1}, {}
    if new.get(wanted.table) == {} and wanted.table not in old:
        del new[wanted.table]
    if new != old:
        raise SettingInvalid(
            f"{wanted.path} cannot be edited safely: write {wanted.key} = {wanted.value} under "
            f"[{wanted.table}] yourself"
        )
