"""The quick look at a command: whether more than its first word has to be thought about.

Most commands are a shell with a text that starts no other one, or no shell at all: they need nothing more.
"""

from __future__ import annotations

from ..record import fill, record
from .names import shell_called, shell_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Look = Callable[[str, Mapping[str, str], str], "Looked | None"]

# The programs that `wrappers` knows.
WRAPPERS = frozenset(
    (
        *("busybox", "chrt", "env", "ionice", "nice", "nohup", "runuser", "script", "setsid", "stdbuf", "su"),
        *("sudo", "taskset", "time", "timeout", "xargs"),
    )
)
# Files that a shell reads when it starts, without the dot in front.
SOURCED = frozenset(
    (
        *("profile", "bash_profile", "bash_login", "bashrc", "bash.bashrc", "zshenv", "zprofile", "zshrc"),
        *("zlogin", "config.fish", "tcshrc", "cshrc", "kshrc"),
    )
)
# Shells that read nothing of the user's unless a flag says so.
_QUIET = frozenset(name for name in shell_names() if shell_called(name) in ("bash", "sh", "dash", "ksh"))
_LOUD = frozenset((*shell_names(), *SOURCED, "su", "sudo", "runuser")) - _QUIET
_ALL = frozenset(shell_names())
# Every word of these has one of those in it: to look for six is faster than to look for forty.
_STEMS = ("sh", "su", "SHELL", "profile", "zlogin", "runuser")
_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789")
# After these, a command begins.
_BREAKS = ";&|(!{"
_INTRODUCES = frozenset(("builtin", "command", "do", "else", "exec", "if", "then", "until", "while"))
_FLAG = frozenset("-+$\"'\\`")  # what a flag begins with, or may


@record
class Looked:
    """The file of a program.

    `path` is what the kernel is given, `name` the base name after all links, `shell` the kind of shell that
    the file is, "" for none; `interpreter` are the words of a script's first line. It `concerns` us if it is,
    or starts, a shell: by its file, in front of one, or by its first line.
    """

    path: str
    name: str
    shell: str = ""
    interpreter: tuple[str, ...] = ()
    concerns: bool = False  # made of the others

    def __post_init__(self) -> None:
        shell = bool(self.interpreter or self.shell or shell_called(self.name))
        fill(self, concerns=shell or self.name in WRAPPERS)


def names_shell(argv: Sequence[str]) -> bool:
    """Whether a shell stands among the words of a command behind its first one."""
    return bool([word for word in argv[1:] if word[-2:] == "sh" and word.rpartition("/")[2] in _ALL])


def is_plain(argv: Sequence[str]) -> bool:
    """Whether a shell's command line is the usual one, and its text starts no other shell."""
    if len(argv) != 3 or argv[1] not in ("-c", "-lc"):
        return False
    return not mentions_shell(argv[2]) and not starts_file(argv[2])


def starts_file(text: str) -> bool:
    """Whether a text may start a program by its path, which may be a script with a shell of its own.

    Only such a text has to be read word by word; 2 us for one that is not.
    """
    if "/" not in text:
        return False
    before, fronted = ";", False
    for word in (text.replace("\n", " ; ") if "\n" in text else text).split():
        if "/" in word and word[0] != "-":
            first = before[-1] in _BREAKS or before in _INTRODUCES or "=" in before
            if first or fronted or "(" in word or "`" in word:
                return True
        fronted = fronted or word in WRAPPERS
        before = word
    return False


def mentions_shell(text: str) -> bool:
    """Whether a word of a text may start a shell that reads startup files, or be such a file.

    Only such a text has to be read word by word, which takes a hundred times as long.
    """
    for stem in _STEMS:
        at = text.find(stem)
        while at >= 0:
            start, end = at, at + len(stem)
            while start > 0 and text[start - 1] in _NAME:
                start -= 1
            while end < len(text) and text[end] in _NAME:
                end += 1
            word = text[start:end]
            if word in _LOUD:
                return True
            if (word in _QUIET or word == "SHELL") and not (start > 1 and text[start - 1] == "."):
                while end < len(text) and text[end] in "\"'} \t":
                    end += 1
                if text[end : end + 1] in _FLAG:
                    return True
            at = text.find(stem, end)
    return "exec -" in text or "--login" in text
