"""Capability tokens: whoever has one is let in. Several at a time, each a principal of its own.

Only digests are kept. They are compared in constant time, all of them for every token that is shown.
"""

from __future__ import annotations

from ..earlyerrors import SettingInvalid
from ..protocol.upgrade import Admitted
from . import secretfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# Sixteen hexadecimal digits are 64 bits: at 10,000 guesses a second, some 30 million years. A word that
# a person remembers has fewer.
_MIN_BYTES = 16
_MOST = 256  # at 0.2 µs each, all are compared within 50 µs; more users are better off with signed tokens
_INVALID = "invalid websocket bearer token"  # the reference's words


class Tokens:
    """The tokens of files, one a line, and of digests. Raises SettingInvalid."""

    def __init__(self, files: Iterable[str], digests: Iterable[str]) -> None:
        self._files = tuple(files)
        self._given = {_digest(text) for text in digests}
        if not self._files and not self._given:
            raise SettingInvalid(
                "--ws-auth capability-token needs --ws-token-file FILE or --ws-token-sha256 HEX"
            )
        self._admitted: dict[bytes, Admitted] = {}
        self.reload(None)

    def reload(self, seconds: float | None = secretfile.AGAIN_SECONDS) -> None:
        """Reads the files again. Raises SettingInvalid, and goes on with what it had."""
        # Both now: when somebody shows a token, there may be no descriptor left to import with.
        from ..stdlib import _compare_digest, sha256

        self._sha256, self._same = sha256, _compare_digest
        found = set(self._given)
        for path in self._files:
            found.update(sha256(token).digest() for token in _tokens(path, seconds))
        if len(found) > _MOST:
            raise SettingInvalid(
                f"{len(found)} tokens are given, and at most {_MOST} can be: use --ws-auth "
                f"signed-bearer-token"
            )
        self._admitted = {digest: Admitted(f"token:{digest.hex()[:16]}") for digest in found}

    def __call__(self, token: str) -> Admitted | str:
        given = self._sha256(token.encode("latin-1", "replace")).digest()
        holder, same = None, self._same
        for digest, admitted in self._admitted.items():
            if same(given, digest):
                holder = admitted
        return holder or _INVALID

    @property
    def several(self) -> bool:
        """Whether there can be more than one principal: each token is one."""
        return len(self._admitted) > 1

    def admits(self, principal: str) -> bool:
        """Whether a connection of this principal may go on: its token may have been taken out."""
        return any(admitted.principal == principal for admitted in self._admitted.values())


def _tokens(path: str, seconds: float | None) -> list[bytes]:
    tokens = []
    text = secretfile.read(path, "--ws-token-file", seconds=seconds)
    for number, line in enumerate(text.splitlines(), 1):
        # A comment after the token can say whose it is.
        token = line.partition(b" #")[0].partition(b"\t#")[0].strip()
        if not token or token.startswith(b"#"):
            continue
        if len(token) < _MIN_BYTES:
            raise SettingInvalid(
                f"--ws-token-file {path}, line {number}: a token of {len(token)} bytes can be guessed; it "
                f"needs at least {_MIN_BYTES}, as `openssl rand -hex 32` makes them"
            )
        tokens.append(token)
    if not tokens:
        raise SettingInvalid(f"--ws-token-file {path} has no token: write one on a line of its own")
    return tokens


def _digest(text: str) -> bytes:
    try:
        digest = bytes.fromhex(text.strip())
    except ValueError:
        digest = b""
    if len(digest) != 32:
        raise SettingInvalid("--ws-token-sha256 must be 64 hexadecimal digits")
    return digest
