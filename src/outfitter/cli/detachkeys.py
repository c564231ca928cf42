"""The keys that leave a command running: what is typed goes through, but for these.

A sequence that begins with a printable key counts only at the beginning of a line, as ssh's escapes do, so
that nearly everything can be typed; the first key twice stands for itself. One that begins with a control key
counts everywhere.
"""

from __future__ import annotations

from ..errors import SettingInvalid

DEFAULT = "~,d"  # not ssh's `~.`: within an ssh session that would end the session
_MOST = 8  # keys; more than anybody remembers
_LINE_ENDS = b"\r\n"


def parse(text: str) -> bytes:
    """The keys that `--detach-keys` names; b"" for none. Raises SettingInvalid."""
    if text == "none":
        return b""
    keys = [_key(name) for name in text.split(",")]
    if None in keys or len(keys) > _MOST:
        raise SettingInvalid(
            f"--detach-keys {text!r} names no keys: write them as `~,d` or `ctrl-p,ctrl-q` (at most "
            f"{_MOST}), or `none`"
        )
    return b"".join(key for key in keys if key is not None)


def _key(name: str) -> bytes | None:
    if len(name) == 1 and " " < name < "\x7f":
        return name.encode()
    letter = name.removeprefix("ctrl-")
    if letter != name and len(letter) == 1 and letter.upper() in "@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_":
        return bytes((ord(letter.upper()) & 0x1F,))
    return None


class DetachKeys:
    """Looks for the sequence in what is typed. What may be its beginning waits for the next key."""

    def __init__(self, keys: bytes) -> None:
        self._keys = keys
        self._anywhere = keys[:1] < b" "
        self._matched = 0
        self._line_begins = True

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """What to pass on, and whether somebody has typed the keys: what follows them is dropped."""
        if not self._keys:
            return data, False
        passed = bytearray()
        for key in data:
            if self._matched and self._keys[self._matched] != key:
                held = self._keys[: self._matched]
                self._matched = 0
                if not self._anywhere and held == bytes((key,)):
                    self._line_begins = False
                    passed.append(key)  # typed twice: one of it
                    continue
                self._pass(passed, held)
            if self._keys[self._matched] == key and (self._matched or self._anywhere or self._line_begins):
                self._matched += 1
                if self._matched == len(self._keys):
                    self._matched = 0
                    return bytes(passed), True
            else:
                self._pass(passed, bytes((key,)))
        return bytes(passed), False

    def rest(self) -> bytes:
        """What still waits, when nothing more is typed."""
        held, self._matched = self._keys[: self._matched], 0
        return held

    def _pass(self, passed: bytearray, keys: bytes) -> None:
        passed += keys
        self._line_begins = keys[-1] in _LINE_ENDS
