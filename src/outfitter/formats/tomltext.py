"""Values as TOML text, as the reference lays it out: plain keys first, then tables in their order."""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
_ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def write(table: dict[str, Any]) -> str:
    """The text of a table as `tomllib` gives it."""
    lines: list[str] = []
    _table(lines, (), table)
    return "\n".join(lines).lstrip("\n") + ("\n" if lines else "")


def _table(lines: list[str], path: tuple[str, ...], table: dict[str, Any]) -> None:
    lines += [f"{_key(key)} = {_value(value)}" for key, value in table.items() if not _is_tables(value)]
    for key, value in table.items():
        inner = (*path, key)
        name = ".".join(map(_key, inner))
        if isinstance(value, dict):
            # One that holds nothing but tables needs no line of its own.
            if not value or not all(map(_is_tables, value.values())):
                lines += ["", f"[{name}]"]
            _table(lines, inner, value)
        elif _is_tables(value):
            for one in value:
                lines += ["", f"[[{name}]]"]
                _table(lines, inner, one)


def _is_tables(value: object) -> bool:
    """Whether a value is a table, or a list of nothing but tables."""
    return isinstance(value, dict) or (
        isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)
    )


def _key(key: str) -> str:
    return key if key and all(mark in _BARE for mark in key) else _text(key, one_line=True)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return (
            f"{{ {', '.join(f'{_key(key)} = {_value(one)}' for key, one in value.items())} }}"
            if value
            else "{}"
        )
    if isinstance(value, int):
        return str(value)
    # A date or a time; of a fraction nothing but what is needed.
    text = str(value.isoformat()).replace("+00:00", "Z")
    before, dot, after = text.partition(".")
    digits = after[:6].rstrip("0")
    return f"{before}.{digits}{after[6:]}" if dot else text


def _float(value: float) -> str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    from decimal import Decimal

    text = format(Decimal(repr(value)), "f")  # the shortest digits, and no exponent
    return text if "." in text else f"{text}.0"


def _text(text: str, *, one_line: bool = False) -> str:
    """A text in the plainest quotes that hold it."""
    newline = "\n" in text and not one_line
    control = (
        any(mark < " " and mark != "\n" for mark in text) or "\x7f" in text or (one_line and "\n" in text)
    )
    if not (control or newline or '"' in text or "\\" in text):
        return f'"{text}"'
    if not (control or newline or "'" in text):
        return f"'{text}'"
    start = "\n" if newline else ""
    if not (control or one_line):
        if "\\" not in text and '"""' not in text:
            return f'"""{start}{text}"""'
        if "'''" not in text and not text.endswith("'"):
            return f"'''{start}{text}'''"
    if newline:
        escaped = "".join([mark if mark in '\n"' else _escaped(mark) for mark in text])
        return f'"""\n{escaped.replace(_THREE, _BROKEN)}"""'
    return '"' + "".join(map(_escaped, text)) + '"'


_THREE, _BROKEN = '"""', '""\\"'


def _escaped(mark: str) -> str:
    if mark in _ESCAPES:
        return _ESCAPES[mark]
    return f"\\u{ord(mark):04X}" if mark < " " or mark == "\x7f" else mark
