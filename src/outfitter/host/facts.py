"""What this machine says about itself: shell, home, temporary directories."""

from __future__ import annotations

import os
import pwd
import sys

from .uids import own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# Shells whose command lines the protocol's clients know how to build.
_KNOWN = ("bash", "zsh", "sh")
_FALLBACKS = ("/bin/bash", "/usr/bin/bash", "/bin/zsh", "/usr/bin/zsh", "/bin/sh")


def login_shell() -> str:
    """The account's shell as the system knows it."""
    try:
        return pwd.getpwuid(own()).pw_shell or "/bin/sh"
    except KeyError:
        return "/bin/sh"


def user() -> str:
    """The account's name, or its number where it has none."""
    try:
        return pwd.getpwuid(own()).pw_name
    except KeyError:
        return str(own())


def command_shell() -> tuple[str, str]:
    """Name and path of the shell for `-c` commands: the account's if its syntax is known, else bash."""
    for path in (login_shell(), *_FALLBACKS):
        name = os.path.basename(path)
        if name in _KNOWN and os.access(path, os.X_OK):
            return name, path
    return "sh", "/bin/sh"


def home(env: Mapping[str, str]) -> str:
    """HOME, or what the account database says."""
    given = env.get("HOME", "")
    if given.startswith("/"):
        return given
    try:
        return pwd.getpwuid(own()).pw_dir or "/"
    except KeyError:
        return "/"


def temporary_directories(env: Mapping[str, str], cwd: str) -> list[str]:
    """TMPDIR if it is set, relative values resolved; not the system's default."""
    given = env.get("TMPDIR", "")
    return [os.path.normpath(os.path.join(cwd, given))] if given else []


def working_directory() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None


def installation() -> bytes:
    """Bytes that are the same for all servers of this installation on this machine, and for no other."""
    parts = [b"outfitter", os.fsencode(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))]
    try:
        with open("/etc/machine-id", "rb") as file:
            parts.append(file.read(64).strip())
    except OSError:
        parts.append(os.uname().nodename.encode())
    return b"\0".join(parts)


def own_program(module: str) -> list[str]:
    """The command line that runs `main` of a module of ours: the same interpreter, without start-up files,
    with our paths."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    paths = [package, *(path for path in sys.path if os.path.isabs(path) and path != package)]
    script = f"import sys; sys.path[:] = sys.argv[1:]; from outfitter.{module} import main; main()"
    return [sys.executable, "-I", "-S", "-X", "utf8", "-c", script, *paths]
