"""A command's environment with the history of every variable in it and of every one it lost."""

from __future__ import annotations

from .origin import REQUEST, TERMINAL
from .policy import Inherited, Verdict, is_withheld

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class Resolved:
    """The exact environment of one command.

    `values` is complete and final. `verdicts()` explains it; it is worked out only when asked for,
    because most commands are never explained.
    """

    __slots__ = ("_inherited", "_login_shell", "_overlay", "values")

    def __init__(self, inherited: Inherited, overlay: Mapping[str, str], login_shell: str | None) -> None:
        self._inherited = inherited
        self._overlay = overlay
        self._login_shell = login_shell
        values = {**inherited.values, **overlay}
        for name in overlay:
            if is_withheld(name):
                del values[name]
        if login_shell is not None:
            values.setdefault("SHELL", login_shell)
        self.values = values

    def verdicts(self) -> list[Verdict]:
        """One verdict per variable that any layer knew of, sorted by name."""
        verdicts = dict(self._inherited.verdicts)
        for name in self._overlay:
            before = verdicts.get(name)
            replaced = before.origin if before is not None and before.kept else None
            if is_withheld(name):
                verdicts[name] = Verdict(name, False, REQUEST, "never passed to a command", replaced)
            else:
                verdicts[name] = Verdict(name, True, REQUEST, "the request's env wins", replaced)
        shell = verdicts.get("SHELL")
        if self._login_shell is not None and (shell is None or not shell.kept):
            verdicts["SHELL"] = Verdict("SHELL", True, TERMINAL, "a terminal's shell needs SHELL")
        return [verdicts[name] for name in sorted(verdicts)]
