"""Which programs are shells, by their names: all that a command needs which is none."""

from __future__ import annotations

# By base name: the shell whose ways it has.
_SHELLS = {
    name: shell
    for shell, names in {
        "bash": ("bash", "rbash"),
        "sh": ("sh",),
        "dash": ("ash", "dash"),
        "ksh": ("ksh", "ksh93", "ksh93u+m", "rksh", "rksh93", "lksh", "mksh", "oksh", "pdksh"),
        "zsh": ("zsh", "rzsh", "zsh5"),
        "fish": ("fish",),
        "csh": ("csh", "bsd-csh"),
        "tcsh": ("tcsh",),
    }.items()
    for name in names
}


def is_shell(program: str) -> bool:
    """Whether a program is a shell that we know, by its base name."""
    return program.rpartition("/")[2] in _SHELLS


def shell_called(name: str) -> str:
    """The shell whose ways a program of this base name has; "" for none."""
    return _SHELLS.get(name, "")


def shell_names() -> tuple[str, ...]:
    """All base names of shells."""
    return tuple(_SHELLS)
