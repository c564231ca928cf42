"""The exceptions that a listener needs before it can answer: a millisecond less than with all the others.

Everybody else takes them from `errors`, which has them all and says what each one means.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SHOWN = "outfitter.errors"


class OutfitterError(Exception):
    """Base of everything Outfitter raises on purpose.

        try:
            await client.run(["no-such-program"])
        except outfitter.OutfitterError as error:
            print(error.slug)  # program-not-found

    `slug` is a stable name of the class, for scripts and logs.
    """

    __module__ = _SHOWN
    slug = "outfitter-error"


class SettingInvalid(OutfitterError):
    """A flag, file, URL or argument cannot be used as given; the message says what can.

        try:
            await outfitter.open("ftp://build")
        except outfitter.SettingInvalid as error:
            print(str(error).partition(" is ")[0])  # `ftp://build`

    Nothing was started or connected.
    """

    __module__ = _SHOWN
    slug = "setting-invalid"


class FileInvalid(SettingInvalid):
    """A file has mistakes. `mistakes` lists all of them with file, line, text and remedy.

    `passing`: it could not be read now, and may be without a mistake.
    """

    __module__ = _SHOWN
    slug = "file-invalid"
    passing = False

    # Any: the type is of a module that imports this one.
    def __init__(self, mistakes: tuple[Any, ...]) -> None:
        super().__init__(mistakes)
        self.mistakes = mistakes

    def __str__(self) -> str:
        return "\n".join(map(str, self.mistakes))
