"""What a server's scopes were given, for the server after it: one private file for each, without secrets.

What a person or an editor has said is there again. What hooks have said they say again when they run: only
their names are kept, and the names of what else is missing. A copy (PARENT/NAME) is not kept.
"""

from __future__ import annotations

import os

from ..env.overlay import Contribution, Overlay, encode, read_kept
from ..log import warn
from ..places import scopes_folder
from . import privatefile
from .config import PASSING, cannot_read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

KEPT_SCOPES = 256  # files; as many scopes as a server has (`overlays.SCOPES`), the oldest goes
KEPT_BYTES = 64 << 20  # of all of them: as many as a server's scopes may have in memory
LARGEST_KEPT = 2 << 20  # of one: a scope has 1 MiB at most, and JSON takes more room than what it says


class KeptScopes:
    """The files of one user's state folder."""

    def __init__(self, state_folder: str) -> None:
        self.folder = scopes_folder(state_folder)
        # Whoever makes it later is another server, with other sessions.
        self.any = os.access(self.folder, os.F_OK)
        self._warned = False

    def path(self, principal: str, scope: str) -> str:
        from ..stdlib import sha256

        name = sha256(f"{principal}\0{scope}".encode("utf-8", "surrogatepass")).hexdigest()
        return f"{self.folder}/{name}.json"

    def write(self, principal: str, scope: str, overlay: Overlay | None, hidden: Collection[str]) -> None:
        """Keeps what a scope has now, without the variables that are `hidden`; None has ended.

        What cannot be written is said once: the scope holds for this server all the same. What was kept
        before goes, so that the next server does not take it for what the scope has; unless the scope was to
        have less, which without that file nobody would know.
        """
        path = self.path(principal, scope)
        data = b"" if overlay is None else _encode(scope, overlay, hidden)
        try:
            if not data or len(data) > LARGEST_KEPT:
                if self.any:
                    _remove(path)
                return
            if not os.path.lexists(path):
                self._make_room(len(data))
            privatefile.write(path, data)
            self.any = True
        except OSError as error:
            if overlay is None or not overlay.withheld:
                try:
                    _remove(path)
                except OSError:
                    pass  # nothing can be changed there
            if not self._warned:
                self._warned = True
                warn(
                    "server",
                    "what sessions are given cannot be kept for a restart of this server: %s: %s",
                    self.folder,
                    error.strerror,
                )

    def read(self, principal: str, scope: str) -> tuple[Overlay, dict[str, list[str]]] | None:
        """What there was, and the names that are missing of it, by producer; None if nothing was kept.

        Raises FileInvalid where the machine cannot read it now: what is put next would take its place.
        """
        path = self.path(principal, scope)
        try:
            data = privatefile.read(path, LARGEST_KEPT + 1)
        except FileNotFoundError:
            return None
        except (privatefile.NotOurs, OSError) as error:
            if isinstance(error, OSError) and error.errno in PASSING:
                raise cannot_read(path, error) from None
            warn("server", "what a session was given is not restored: %s: %s", path, error)
            return None
        try:
            return _decode(scope, data)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            warn("server", "what a session was given is not restored: this server did not write %s", path)
            return None

    def _make_room(self, size: int) -> None:
        """Removes the oldest files, so that one more fits."""
        if not self.any:
            return
        found = []
        for entry in os.scandir(self.folder):
            try:
                about = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # another server's hand
            found.append((about.st_mtime_ns, about.st_size, entry.path))
        total = size + sum(one[1] for one in found)
        left = len(found)
        for _, length, path in sorted(found):
            if left < KEPT_SCOPES and total <= KEPT_BYTES:
                break
            _remove(path)
            left, total = left - 1, total - length


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _encode(scope: str, overlay: Overlay, hidden: Collection[str]) -> bytes:
    """Empty for a scope that has nothing to keep."""
    from json import dumps

    told: list[dict[str, object]] = []
    missing: dict[str, list[str]] = {}
    for one in overlay.contributions:
        gone = list(one.names) if one.is_hook else [name for name in one.names if _hides(one, name, hidden)]
        if gone:
            missing[one.producer] = gone
        told.append({"producer": one.producer, **encode(one.without(gone))})
    if not told and not overlay.withheld:
        return b""
    kept = {
        "scope": scope,
        "parent": overlay.parent,
        "withheld": sorted(overlay.withheld),
        "contributions": told,
        "missing": missing,
    }
    return dumps(kept, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _hides(contribution: Contribution, name: str, hidden: Collection[str]) -> bool:
    """That a variable is taken away is no secret, and would be missed."""
    return name in hidden and name not in contribution.unset


def _decode(scope: str, data: bytes) -> tuple[Overlay, dict[str, list[str]]]:
    from json import loads

    told = loads(data.decode("utf-8", "surrogatepass"))
    if told["scope"] != scope:
        raise ValueError
    overlay = Overlay(read_kept(told["contributions"]), id=scope, parent=str(told["parent"]))
    missing = {str(producer): list(map(str, names)) for producer, names in told["missing"].items()}
    return overlay.withholding(map(str, told["withheld"])), missing
