"""Which files a shell reads when it starts, and where in such a file a variable is changed.

It answers "who did that?" with a file and a line. Texts are looked at, never run: what a file computes
(`eval "$(tool init)"`) is not found. Any text is an answer, if an empty one; none is an error.
"""

from __future__ import annotations

from ..env.names import is_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def startup_files(
    shell: str, *, login: bool, interactive: bool, home: str, env: Mapping[str, str]
) -> list[tuple[str, ...]]:
    """The candidates in the order in which they are read: of each group, the first that exists.

    `shell` is as in `shell.Plan`. A name with a `*` in it stands for all files that match, in their order.
    """
    if shell == "bash":
        return _bash(login, interactive, home, env)
    if shell == "zsh":
        return _zsh(login, interactive, env.get("ZDOTDIR") or home)
    if shell == "fish":
        return _fish(home, env)
    if shell in ("tcsh", "csh"):
        return _csh(login, home)
    groups: list[tuple[str, ...]] = []
    if login:
        groups += [("/etc/profile",), (f"{home}/.profile",)]
    if interactive and env.get("ENV"):
        groups.append((at_home(env["ENV"], home),))
    elif interactive and shell == "ksh":
        groups += [("/etc/ksh.kshrc",), (f"{home}/.kshrc", f"{home}/.mkshrc")]
    return groups


def all_startup_files(homes: Iterable[str], env: Mapping[str, str]) -> list[str]:
    """Every file and folder from which a shell takes what it does before a command, whatever its flags: the
    system's, and those of an account with these home directories."""
    found = [
        *("/etc/profile", "/etc/profile.d", "/etc/bash.bashrc", "/etc/bashrc", "/etc/ksh.kshrc"),
        *("/etc/zsh", "/etc/zshenv", "/etc/zprofile", "/etc/zshrc", "/etc/zlogin", "/etc/zlogout"),
        *("/etc/fish", "/etc/csh.cshrc", "/etc/csh.login", "/etc/csh.logout"),
    ]
    for home in dict.fromkeys(homes):
        found += [f"{home}/{name}" for name in _OF_THE_USER]
    folder = env.get("XDG_CONFIG_HOME", "")
    return [*found, f"{folder}/fish"] if folder.startswith("/") else found


_OF_THE_USER = (
    *(".profile", ".bash_profile", ".bash_login", ".bashrc", ".bash_aliases", ".bash_logout"),
    *(".zshenv", ".zprofile", ".zshrc", ".zlogin", ".zlogout", ".kshrc", ".mkshrc"),
    *(".tcshrc", ".cshrc", ".login", ".logout", ".config/fish"),
)


def _bash(login: bool, interactive: bool, home: str, env: Mapping[str, str]) -> list[tuple[str, ...]]:
    rc: list[tuple[str, ...]] = [("/etc/bash.bashrc", "/etc/bashrc"), (f"{home}/.bashrc",)]
    if login:
        groups: list[tuple[str, ...]] = [
            ("/etc/profile",),
            tuple(f"{home}/{name}" for name in (".bash_profile", ".bash_login", ".profile")),
        ]
    elif interactive:
        return rc
    else:
        # The one that a shell without SHLVL reads if its stdin is a socket, or below sshd.
        groups = rc if env.get("SHLVL", "0") in ("", "0") else []
    if not interactive and env.get("BASH_ENV"):
        groups.append((at_home(env["BASH_ENV"], home),))
    return groups


def _zsh(login: bool, interactive: bool, folder: str) -> list[tuple[str, ...]]:
    reads = {"zshenv": True, "zprofile": login, "zshrc": interactive, "zlogin": login}
    groups: list[tuple[str, ...]] = []
    for name in [name for name, is_read in reads.items() if is_read]:
        groups += [(f"/etc/zsh/{name}", f"/etc/{name}"), (f"{folder}/.{name}",)]
    return groups


def _fish(home: str, env: Mapping[str, str]) -> list[tuple[str, ...]]:
    user = f"{env.get('XDG_CONFIG_HOME') or home + '/.config'}/fish"
    shared = (env.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share").split(":")
    return [
        (f"{user}/fish_variables",),
        (f"{user}/conf.d/*.fish",),
        ("/etc/fish/conf.d/*.fish",),
        *((f"{folder}/fish/vendor_conf.d/*.fish",) for folder in shared if folder),
        ("/etc/fish/config.fish",),
        (f"{user}/config.fish",),
    ]


def _csh(login: bool, home: str) -> list[tuple[str, ...]]:
    user = (f"{home}/.tcshrc", f"{home}/.cshrc")
    if login:
        return [("/etc/csh.cshrc",), ("/etc/csh.login",), user, (f"{home}/.login",)]
    return [("/etc/csh.cshrc",), user]


def at_home(path: str, home: str) -> str:
    """A path as startup files, BASH_ENV and ENV write it: $HOME is home, and what else they say stays."""
    for start in ("$HOME/", "${HOME}/", "~/"):
        if path.startswith(start):
            return f"{home}/{path[len(start) :]}"
    return path


def assignments(text: str, shell: str) -> list[tuple[int, str]]:
    """Where a file sets, exports or unsets a variable: line and name, in the order of the text."""
    found: list[tuple[int, str]] = []
    seen: set[str] = set()
    for line, words in _commands(text, shell):
        if shell == "fish":
            names = _fish_names(words)
        elif shell in ("tcsh", "csh"):
            names = _csh_names(words)
        else:
            names = _posix_names(words)
            if shell == "zsh":
                names = [_TIED.get(name, name) for name in names]
        # `export PATH` below the line that changes PATH changes nothing.
        bare = words[1:] if words[0] == "export" else ()
        found += [(line, name) for name in names if is_name(name) and not (name in seen and name in bare)]
        seen.update(names)
    return found


def sources(text: str, shell: str = "sh") -> list[tuple[int, str]]:
    """Where a file reads another one: line and path, in which variables are not expanded."""
    found = []
    for line, words in _commands(text, shell):
        if words[0] in (".", "source"):
            found += [(line, word) for word in words[1:] if word[:1] != "-"][:1]
    return found


# Words before a command that are not the command.
_LEADING = frozenset(
    ("if", "then", "elif", "else", "while", "until", "do", "begin", "and", "or", "not", "!", "{", "}", "time")
) | {"builtin", "command", "noglob"}
# Not `local`: what that declares is gone with its function.
_DECLARING = frozenset(("declare", "typeset", "readonly", "integer", "float"))
# Programs whose output changes PATH, and little else that matters: of macOS, and of Homebrew.
_PATH_TOOLS = ("path_helper", "brew shellenv")
# zsh and csh keep some lists under a second name.
_TIED = {"path": "PATH", "fpath": "FPATH", "cdpath": "CDPATH", "manpath": "MANPATH"}


def _posix_names(words: list[str]) -> list[str]:
    assigned = [_assigned(word) for word in words]
    if all(assigned):
        return assigned
    command, rest = words[0], words[1:]
    flags = "".join(word for word in rest if word[:1] in ("-", "+"))
    names = [word for word in rest if word[:1] not in ("-", "+")]
    if command == "export":
        # -f is about functions, -p prints.
        return [] if "f" in flags or "p" in flags else [_assigned(word) or word for word in names]
    if command in _DECLARING:
        if any(flag in flags for flag in "fFp"):
            return []
        exported = "x" in flags
        return [_assigned(word) or (word if exported else "") for word in names]
    if command == "unset" and "f" not in flags:
        return names
    if command == "eval" and any(tool in word for word in rest for tool in _PATH_TOOLS):
        return ["PATH"]
    return []


def _assigned(word: str) -> str:
    """The name in NAME=value, NAME+=value and NAME[key]=value."""
    name, equals, _ = word.partition("=")
    if not equals:
        return ""
    name = name.removesuffix("+").partition("[")[0]
    return name if is_name(name) else ""


def _fish_names(words: list[str]) -> list[str]:
    command, rest = words[0], words[1:]
    if command == "fish_add_path":
        return ["PATH"]
    if command == "export":
        return [_assigned(word) or word for word in rest if word[:1] != "-"]
    if command == "SETUVAR":  # a line of fish_variables
        return [_of_fish(word.partition(":")[0]) for word in rest if word[:1] != "-"][:1]
    if command != "set":
        return []
    names: list[str] = []
    erased = False
    for position, word in enumerate(rest):
        if word[:2] == "--":
            if word in ("--query", "--names", "--show"):
                return []
            erased = erased or word == "--erase"
        elif word[:1] == "-":
            if any(flag in word for flag in "qnS"):
                return []
            erased = erased or "e" in word
        else:
            names = rest[position:]
            break
    # `set NAME values`, but `set -e NAME NAME`.
    return [_of_fish(name.partition("[")[0]) for name in (names if erased else names[:1])]


def _of_fish(name: str) -> str:
    """fish puts what is in fish_user_paths in front of PATH by itself."""
    return "PATH" if name == "fish_user_paths" else name


def _csh_names(words: list[str]) -> list[str]:
    command, rest = words[0], words[1:]
    if command == "setenv":
        return rest[:1]
    if command == "unsetenv":
        return rest
    if command == "set" and rest:
        name = rest[0].partition("=")[0]
        return [_TIED[name]] if name in _TIED else []
    return []


def _commands(text: str, shell: str) -> Iterator[tuple[int, list[str]]]:
    """The simple commands of a text: the line of each, and its words without their quotes.

    What is inside a substitution or a here-document is no command of the file.
    """
    for line, words in _lists(text, shell == "fish"):
        start = 0
        while start < len(words) and words[start] in _LEADING:
            start += 1
        if start < len(words):
            yield line, words[start:]


def _lists(text: str, fish: bool) -> Iterator[tuple[int, list[str]]]:
    at, line, end = 0, 1, len(text)
    words: list[str] = []
    word: str | None = None
    began = 1
    pending: list[str] = []  # the last lines of here-documents that begin after this one
    ends: dict[str, int] = {}
    target = False  # the next word is where something is redirected to
    while at < end:
        sign = text[at]
        if sign in " \t\r\n;&|()<>" and word is not None:
            if sign == "(" and word[-1:] == "=":
                # A list: path=(a b)
                stop = _closed(text, at + 1, "(", ends)
                word += text[at:stop]
                line += text.count("\n", at, stop)
                at = stop
                continue
            # Neither the 2 of 2>file nor the file is a word of the command.
            if not target and not (sign in "<>" and word.isdecimal()):
                words.append(word)
            word = None
            target = False
        if sign in "\n;&|()":
            if words:
                yield began, words
                words = []
            at += 1
            target = False
            if sign == "\n":
                line += 1
                if pending:
                    for last in pending:
                        # << may be a shift of bits, too.
                        if _has_line(text, ends, last, at):
                            at, line = _after(text, at, line, last)
                    pending = []
        elif sign in " \t\r":
            at += 1
        elif sign == ">":
            at += 2 if text.startswith(">&", at) else 1
            target = True
        elif sign == "<":
            if text.startswith("<<<", at):
                at += 3
                target = True
            elif text.startswith("<<", at) and not fish:
                at, last = _last_line(text, at + 2)
                pending.append(last)
            else:
                at += 1
                target = True
        elif sign == "#" and word is None:
            at = text.find("\n", at)
            if at < 0:
                break
        else:
            if word is None:
                word = ""
                if not words:
                    began = line
            at, piece, lines = _piece(text, at, fish, ends)
            word += piece
            line += lines
    if word is not None and not target:
        words.append(word)
    if words:
        yield began, words


def _piece(text: str, at: int, fish: bool, ends: dict[str, int]) -> tuple[int, str, int]:
    """One character of a word, or all between two quotes: where it ends, what it means, its line ends."""
    sign = text[at]
    if sign == "\\":
        following = text[at + 1 : at + 2]
        return at + 2, "" if following == "\n" else following, following == "\n"
    if sign == "'":
        stop = text.find("'", at + 1)
        while fish and stop > 0 and text[stop - 1] == "\\":
            stop = text.find("'", stop + 1)
        stop = len(text) if stop < 0 else stop
        return stop + 1, text[at + 1 : stop], text.count("\n", at, stop)
    if sign == '"':
        stop = _closed(text, at + 1, '"', ends)
        return stop, text[at + 1 : stop - 1], text.count("\n", at, stop)
    if sign == "`" and not fish:
        stop = _closed(text, at + 1, "`", ends)
        return stop, text[at:stop], text.count("\n", at, stop)
    if sign == "$" and text[at + 1 : at + 2] in ("(", "{"):
        stop = _closed(text, at + 2, text[at + 1], ends)
        return stop, text[at:stop], text.count("\n", at, stop)
    if sign == "$" and text[at + 1 : at + 2] == "'" and not fish:
        stop = _escaped(text, at + 2)
        return stop, text[at + 2 : stop - 1], text.count("\n", at, stop)
    return at + 1, sign, 0


def _escaped(text: str, at: int) -> int:
    """Where $'...' ends, in which a backslash keeps a quote from closing it."""
    while at < len(text) and text[at] != "'":
        at += 2 if text[at] == "\\" else 1
    return min(at + 1, len(text))


def _closed(text: str, at: int, opened: str, ends: dict[str, int]) -> int:
    """Where what was opened just before `at` is closed, or the end of the text.

    `ends` is where each line of the text is found last, once somebody had to know.
    """
    closing = {"(": ")", "{": "}"}
    stack = [opened]
    pending: list[str] = []  # the last lines of here-documents that begin after this one
    while at < len(text):
        sign = text[at]
        inside = stack[-1]
        at += 1
        if sign == closing.get(inside, inside):
            stack.pop()
            if not stack:
                return at
        elif sign == "\\":
            at += 1
        elif sign == "'" and inside in "({":
            stop = text.find("'", at)
            at = len(text) if stop < 0 else stop + 1
        elif sign == "$" and text[at : at + 1] == "'" and inside in "({":
            at = _escaped(text, at + 1)
        elif sign == "#" and inside == "(" and text[at - 2] in " \t\n;&|(":
            stop = text.find("\n", at)
            at = len(text) if stop < 0 else stop
        elif sign == "<" and inside == "(" and text.startswith("<<", at):
            at += 2  # a here-string, which is a word
        elif sign == "<" and inside == "(" and text.startswith("<", at):
            at, last = _last_line(text, at + 1)
            pending.append(last)
        elif sign == "\n" and pending:
            for last in pending:
                if _has_line(text, ends, last, at):
                    at, _ = _after(text, at, 0, last)
            pending = []
        elif inside == "`":
            pass
        elif sign == "$" and text[at : at + 1] in ("(", "{"):
            stack.append(text[at])
            at += 1
        elif sign in '"`' or (sign == "(" and inside == "("):
            stack.append(sign)
    return len(text)


def _last_line(text: str, at: int) -> tuple[int, str]:
    """The word after <<, which is the last line of a here-document."""
    if text[at : at + 1] == "-":
        at += 1
    while text[at : at + 1] in (" ", "\t"):
        at += 1
    start = at
    while at < len(text) and text[at] not in " \t\r\n;&|()<>":
        at += 1
    return at, text[start:at].replace("'", "").replace('"', "").replace("\\", "")


def _has_line(text: str, ends: dict[str, int], last: str, at: int) -> bool:
    if not ends:
        ends.update(_line_starts(text))
    return ends.get(last, -1) >= at


def _line_starts(text: str) -> dict[str, int]:
    """Where each line is found last."""
    starts: dict[str, int] = {}
    at = 0
    for line in text.split("\n"):
        starts[line.strip("\t\r")] = at
        at += len(line) + 1
    return starts


def _after(text: str, at: int, line: int, last: str) -> tuple[int, int]:
    """Where the text goes on after a here-document."""
    while at < len(text):
        stop = text.find("\n", at)
        stop = len(text) if stop < 0 else stop
        here = text[at:stop]
        at = stop + 1
        line += 1
        if here.strip("\t\r") == last:
            break
    return min(at, len(text)), line
