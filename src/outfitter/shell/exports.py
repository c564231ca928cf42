"""What `export -p` and `declare -Fx` of bash print, read back: quoting, attributes, functions."""

from __future__ import annotations

from .call import OURS

_ANSI = {
    b"a": 7, b"b": 8, b"e": 27, b"E": 27, b"f": 12, b"n": 10, b"r": 13, b"t": 9, b"v": 11,
    b"\\": 92, b"'": 39, b'"': 34, b"?": 63,
}  # fmt: skip
_OCTAL = frozenset(b"%d" % digit for digit in range(8))
_QUOTES = (b'"', b"$'")
# Stands for the value of an exported function, which is not printed.
FUNCTION = "()"


def read(report: bytes, end: bytes) -> tuple[dict[str, str], tuple[str, ...]] | None:
    """The variables by name, and those that are readonly; None unless the report is whole, up to `end`."""
    env: dict[str, str] = {}
    readonly: list[str] = []
    at = 0
    while not report.startswith(end + b"\0", at):
        if report.startswith(b"declare -", at):
            attributes, _, _ = report[at + 9 : at + 64].partition(b" ")
            at += 10 + len(attributes)
        elif report.startswith(b"export ", at):  # in POSIX mode
            attributes = b"x"
            at += 7
        else:
            return None
        line = report.find(b"\n", at)
        if line < 0:
            return None
        if b"f" in attributes:
            env[f"BASH_FUNC_{_text(report[at:line])}%%"] = FUNCTION
            at = line + 1
            continue
        equals = report.find(b"=", at, line)
        if equals < 0:  # exported, and without a value: not in the environment
            at = line + 1
            continue
        name = _text(report[at:equals])
        found = _value(report, equals + 1)
        if found is None:
            return None
        value, at = found
        if value is not None and not name.startswith(OURS):
            env[name] = _text(value)
            if b"r" in attributes:
                readonly.append(name)
    return (env, tuple(readonly)) if at + len(end) + 1 == len(report) else None


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _value(report: bytes, at: int) -> tuple[bytes | None, int] | None:
    """The value that begins here, None for a list, and where the next line begins."""
    if report.startswith(_QUOTES, at):
        found = _quoted(report, at)
    elif report.startswith(b"(", at):
        return _list(report, at)
    else:
        line = report.find(b"\n", at)
        found = None if line < 0 else (report[at:line], line)
    if found is None or report[found[1] : found[1] + 1] != b"\n":
        return None
    return found[0], found[1] + 1


def _quoted(report: bytes, at: int) -> tuple[bytes, int] | None:
    """The text in the quotes that begin here, and where they end."""
    ansi = report.startswith(b"$", at)
    quote = b"'" if ansi else b'"'
    at += 2 if ansi else 1
    value = bytearray()
    end = report.find(quote, at)
    while end >= 0:
        escape = report.find(b"\\", at, end)
        if escape < 0:
            value += report[at:end]
            return bytes(value), end + 1
        value += report[at:escape]
        at = escape + 1
        mark = report[at : at + 1]
        digits = 1
        if not ansi:
            value += mark
        elif mark in _ANSI:
            value.append(_ANSI[mark])
        elif mark in _OCTAL:
            while digits < 3 and report[at + digits : at + digits + 1] in _OCTAL:
                digits += 1
            value.append(int(report[at : at + digits], 8) & 0xFF)
        else:
            return None
        at += digits
        if at > end:
            end = report.find(quote, at)
    return None


def _list(report: bytes, at: int) -> tuple[None, int] | None:
    """Skips a list: bash does not export those, whatever their attribute says."""
    while at < len(report):
        if report.startswith(b"\n", at):
            return None, at + 1
        if report.startswith(_QUOTES, at):
            found = _quoted(report, at)
            if found is None:
                return None
            at = found[1]
        else:
            at += 1
    return None
