"""More names that stay read-only in every place that may be written, as an operator says. What is written
there runs later, outside of the sandbox, as soon as a person opens a shell, an editor or a repository."""

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
MOST = 64  # names that an operator may say: each is a mount in every place, which takes 0.1 ms


def names(said: Iterable[str]) -> tuple[str, ...]:
    """What an operator says, in one form: each name once, `usual` written out. Raises SettingInvalid."""
    found: dict[str, None] = {}
    for text in said:
        for name in USUAL if text == ALL else (_checked(text),):
            found[name] = None
    if len(found) > MOST:
        raise SettingInvalid(
            f"--sandbox-protect can be used for at most {MOST} names, and there are {len(found)}"
        )
    return tuple(found)


def _checked(text: str) -> str:
    parts = text.removeprefix(BELOW).rstrip("/").split("/")
    if any(part in ("", ".", "..", "**") or "\0" in part for part in parts):
        raise SettingInvalid(
            f"--sandbox-protect {text!r} cannot be used: write a name or a relative path (.vscode, "
            f".claude/commands), {BELOW}NAME for the folders below, too, or {ALL}"
        )
    return text.rstrip("/")


def keeping(confinement: Confinement, more: tuple[str, ...]) -> Confinement:
    """The same, with more names that stay read-only."""
    if not more or not confinement.files or not confinement.writable:
        return confinement
    return replace(confinement, kept=more)


def below(kept: Iterable[str]) -> list[str]:
    """Of these names those that are looked for in the folders below."""
    return [name.removeprefix(BELOW) for name in kept if name.startswith(BELOW)]
