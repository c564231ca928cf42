"""More names that stay read-only in every place that may be written, as an operator or a file of settings
says. What is written there runs later, outside of the sandbox, as soon as a person opens a shell, an editor
or a repository."""

from __future__ import annotations

from ..errors import SettingInvalid
from ..record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .permissions import Confinement

ALL = "usual"  # stands for all of USUAL
BELOW = "**/"  # in front of a name: in the folders below, too
LEVELS = 3  # how many folders below
# What shells, git, editors and agents read by themselves; and hooks and settings of repositories below: those
# at the top are protected with all of `.git`.
USUAL = (
    *(
        ".bashrc",
        ".bash_profile",
        ".profile",
        ".zshrc",
        ".zprofile",
        ".gitconfig",
        ".gitmodules",
        ".ripgreprc",
    ),
    *(".mcp.json", ".vscode", ".idea", ".claude/commands", ".claude/agents"),
    *(f"{BELOW}.git/hooks", f"{BELOW}.git/config"),
)
MOST = 64  # names that an operator, or one file, may say: each is a mount in every place, which takes 0.1 ms
HOW = (
    f"write a name or a relative path (.vscode, .claude/commands), {BELOW}NAME for the folders below, too, "
    f"or {ALL}"
)


def names(said: Iterable[str]) -> tuple[str, ...]:
    """What an operator says, in one form: each name once, `usual` written out. Raises SettingInvalid."""
    said = tuple(said)
    for text in said:
        if not is_name(text):
            raise SettingInvalid(f"--sandbox-protect {text!r} cannot be used: {HOW}")
    found = listed(said)
    if len(found) > MOST:
        raise SettingInvalid(
            f"--sandbox-protect can be used for at most {MOST} names, and there are {len(found)}"
        )
    return found


def listed(said: Iterable[str]) -> tuple[str, ...]:
    """Each name once, `usual` written out."""
    every = [name for text in said for name in (USUAL if text == ALL else (text.rstrip("/"),))]
    return tuple(dict.fromkeys(every))


def is_name(text: str) -> bool:
    """Whether it says what to protect."""
    parts = text.removeprefix(BELOW).rstrip("/").split("/")
    return not any(part in ("", ".", "..", "**") or "\0" in part for part in parts)


def keeping(confinement: Confinement, more: tuple[str, ...]) -> Confinement:
    """The same, with more names that stay read-only."""
    if not more or not confinement.files or not confinement.writable:
        return confinement
    return replace(confinement, kept=tuple(dict.fromkeys((*confinement.kept, *more))))


def below(kept: Iterable[str]) -> list[str]:
    """Of these names those that are looked for in the folders below."""
    return [name.removeprefix(BELOW) for name in kept if name.startswith(BELOW)]
