"""What stands in front of a command: `env`, `nice`, `timeout` and the like, and where the command begins.

One table, by the name of the program: how its options are read, and what it does to the command behind it.
A word that is not understood is never guessed: it raises `Unreadable`, and whoever asked says so.
"""

from __future__ import annotations

from ..record import EMPTY, KW_ONLY, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class Unreadable(Exception):
    """A command line whose command cannot be told. `code` is that of a flag."""

    def __init__(self, what: str, code: str = "unknown-option") -> None:
        super().__init__(what)
        self.what = what
        self.code = code


@record
class Account:
    """Whose commands are started: their name, number and login shell."""

    name: str
    uid: int
    shell: str

    def is_meant(self, user: str) -> bool:
        """Whether a word of `su` or `sudo` means this account."""
        return user.lstrip("#") in (self.name, str(self.uid)) if user[:1] == "#" else user == self.name


@record
class Inner:
    """What is behind a wrapper.

    `argv`         the wrapper's words; other ones than were given if one of them stood for several (env -S)
    `at`           where the command begins among them; their number if there is none
    `env`, `cwd`   what the command gets, as far as it can be told
    `keeps`        the command gets the environment that the wrapper was given, unchanged
    `sets`         by name, the word that sets a variable for the command
    `assigns`      words that set variables may stand in front of the command
    `argv0`        the word that is the command's argv[0], -1 if that is its first one; from `argv0_from` on
    `text`         the word that is a text for a shell, instead of a command; -1 if there is none
    `text_from`    where in that word the text begins
    `shell`        the shell that runs the text, or that is started without one
    `shell_args`   what that shell is started with, if there is no text
    `insert`       where `-c TEXT` can be put in, to name the command that is started otherwise; -1: nowhere
    `login`        the word by which the wrapper makes that shell a login shell
    `login_words`  the words to leave out for it not to be one; empty: it cannot be helped
    `applet`       the command is a part of the wrapper, not a file
    `flags`        what is to be said about it, as (code, what)
    """

    argv: Sequence[str]
    at: int
    _: KW_ONLY
    env: Mapping[str, str] = EMPTY
    cwd: str = ""
    keeps: bool = True
    sets: Mapping[str, int] = EMPTY
    assigns: bool = False
    argv0: int = -1
    argv0_from: int = 0
    text: int = -1
    text_from: int = 0
    shell: str = ""
    shell_args: tuple[str, ...] = ()
    insert: int = -1
    login: str = ""
    login_words: tuple[int, ...] = ()
    applet: bool = False
    flags: tuple[tuple[str, str], ...] = ()


@record
class Options:
    """How a program reads its options: as getopt_long does, by name.

    `takes` and `flags` are letters with and without a value, `long_takes` and `long` words. A long word may
    be shortened, and those of `long` may have a value behind `=`. The letters in `may_take` have the rest of
    their word for a value. With `permutes` options may stand behind operands, too; with `numbers` a number
    is an option.
    """

    takes: str = ""
    flags: str = ""
    long_takes: tuple[str, ...] = ()
    long: tuple[str, ...] = ()
    _: KW_ONLY
    may_take: str = ""
    permutes: bool = False
    numbers: bool = False


@record
class Option:
    """One option as it was found: its letter or long word, its value, the words that it is made of."""

    name: str
    value: str
    index: int  # the word that it stands in
    value_index: int  # the word of the value
    value_from: int  # where the value begins in that word


@record
class Wrapper:
    """One row of the table. `reads` does the rest, once the options are known."""

    options: Options
    reads: Callable[[str, list[str], list[Option], list[int], _Around], Inner]
    _: KW_ONLY
    operands: int = 0  # words between the options and the command


class _Around:
    """What a wrapper is started with."""

    __slots__ = ("account", "cwd", "env", "row")

    def __init__(
        self, env: Mapping[str, str], cwd: str, account: Callable[[], Account], row: Wrapper
    ) -> None:
        self.env = env
        self.cwd = cwd
        self.account = account
        self.row = row


def is_wrapper(name: str) -> bool:
    return name in _TABLE


def unwrap(
    name: str, argv: Sequence[str], env: Mapping[str, str], cwd: str, account: Callable[[], Account]
) -> Inner:
    """What is behind a wrapper of the table. Raises Unreadable."""
    row = _TABLE[name]
    words = list(argv)
    around = _Around(env, cwd, account, row)
    if name == "env":
        return _env(words, around)
    options, operands = _options(name, words, 1, row.options)
    return row.reads(name, words, options, operands, around)


def _options(name: str, argv: list[str], at: int, spec: Options) -> tuple[list[Option], list[int]]:
    """The options, and the indices of all other words. Raises Unreadable."""
    found: list[Option] = []
    operands: list[int] = []
    while at < len(argv):
        word = argv[at]
        if word == "--":
            at += 1
            break
        if word[:1] != "-" or word == "-":
            if not spec.permutes:
                break
            operands.append(at)
            at += 1
            continue
        at = _option(name, argv, at, spec, found)
    return found, [*operands, *range(at, len(argv))]


def _option(name: str, argv: list[str], at: int, spec: Options, found: list[Option]) -> int:
    """Reads one word of options; where the next one is. Raises Unreadable."""
    word = argv[at]
    if spec.numbers and word[1 + (word[1:2] in ("-", "+")) :].isdecimal():
        found.append(Option("number", "", at, at, len(word)))
        return at + 1
    if word[:2] == "--":
        given, equals, value = word[2:].partition("=")
        long = _whole(given, (*spec.long, *spec.long_takes))
        if not long:
            raise Unreadable(f"{name}: the option {word} is not known")
        if equals or long not in spec.long_takes:
            found.append(Option(long, value, at, at, len(word) - len(value)))
            return at + 1
        if at + 1 >= len(argv):
            raise Unreadable(f"{name}: the option {word} has no value")
        found.append(Option(long, argv[at + 1], at, at + 1, 0))
        return at + 2
    for position in range(1, len(word)):
        letter = word[position]
        if letter in spec.flags:
            found.append(Option(letter, "", at, at, len(word)))
            continue
        if letter in spec.may_take:
            found.append(Option(letter, word[position + 1 :], at, at, position + 1))
            return at + 1
        if letter not in spec.takes:
            raise Unreadable(f"{name}: the option -{letter} is not known")
        if position + 1 < len(word):
            found.append(Option(letter, word[position + 1 :], at, at, position + 1))
            return at + 1
        if at + 1 >= len(argv):
            raise Unreadable(f"{name}: the option -{letter} has no value")
        found.append(Option(letter, argv[at + 1], at, at + 1, 0))
        return at + 2
    return at + 1


def _whole(given: str, names: tuple[str, ...]) -> str:
    """The long word that a beginning stands for; "" if that is not clear."""
    if given in names:
        return given
    begun = [name for name in names if name.startswith(given)]
    return begun[0] if len(begun) == 1 else ""


# Programs that change nothing in an environment, or little


def _plain(name: str, argv: list[str], options: list[Option], operands: list[int], around: _Around) -> Inner:
    """The command follows the options, and the operands that the program has itself."""
    rest = operands[around.row.operands :]
    at = rest[0] if rest else len(argv)
    # One that is told about processes that run starts none.
    if [one for one in options if one.name in ("p", "pid", "P", "pgid", "uid") and name in _OF_OTHERS]:
        at = len(argv)
    return Inner(argv, at, env=around.env, cwd=around.cwd)


_OF_OTHERS = ("ionice", "taskset", "chrt")


def _adding(name: str, argv: list[str], options: list[Option], operands: list[int], around: _Around) -> Inner:
    """`stdbuf` sets LD_PRELOAD: that is how it works. `xargs` puts words behind the command, many times."""
    at = operands[0] if operands else len(argv)
    return Inner(argv, at, env=around.env, cwd=around.cwd, keeps=False)


def _chrt(name: str, argv: list[str], options: list[Option], operands: list[int], around: _Around) -> Inner:
    """The priority may be missing where the policy has none."""
    if [one for one in options if one.name in ("p", "pid", "m", "max")]:
        return Inner(argv, len(argv), env=around.env, cwd=around.cwd)
    if operands and argv[operands[0]].isdecimal():
        operands = operands[1:]
    return Inner(argv, operands[0] if operands else len(argv), env=around.env, cwd=around.cwd)


# env

_ENV_OPTIONS = Options(
    takes="uCSa",
    flags="i0v",
    long_takes=("unset", "chdir", "split-string", "argv0"),
    long=(
        *("ignore-environment", "null", "debug", "block-signal", "default-signal", "ignore-signal"),
        *("list-signal-handling", "help", "version"),
    ),
)


def _env(argv: list[str], around: _Around) -> Inner:
    env = dict(around.env)
    cwd = around.cwd
    at = 1
    argv0 = argv0_from = -1
    keeps = True
    split = 0
    while at < len(argv) and argv[at][:1] == "-" and argv[at] not in ("-", "--"):
        found: list[Option] = []
        after = _option("env", argv, at, _ENV_OPTIONS, found)
        for one in found:
            if one.name in ("i", "ignore-environment"):
                env.clear()
                keeps = False
            elif one.name in ("u", "unset"):
                env.pop(one.value, None)
                keeps = False
            elif one.name in ("C", "chdir"):
                cwd = one.value if one.value[:1] == "/" else f"{cwd}/{one.value}"
                keeps = False
            elif one.name in ("a", "argv0"):
                argv0, argv0_from = one.value_index, one.value_from
            elif one.name in ("S", "split-string"):
                split += 1
                if split > _SPLITS:
                    raise Unreadable("env: too many -S", "unseen")
                # The words stand where the text did; letters before it in the bundle stay.
                head = argv[at][: one.value_from].rstrip("S") if one.value_index == at else argv[at][:-1]
                kept = [] if head in ("-", "--split-string=") or argv[at][:2] == "--" else [head]
                argv[at:after] = [*kept, *split_string(one.value)]
                after = at + len(kept)
        at = after
    if at < len(argv) and argv[at] == "-":
        env.clear()
        keeps = False
        at += 1
    elif at < len(argv) and argv[at] == "--":
        at += 1
    sets: dict[str, int] = {}
    while at < len(argv) and "=" in argv[at]:
        name, _, value = argv[at].partition("=")
        env[name] = value
        sets[name] = at
        keeps = False
        at += 1
    return Inner(
        argv,
        at,
        env=env,
        cwd=cwd,
        keeps=keeps,
        sets=sets,
        assigns=True,
        argv0=argv0,
        argv0_from=argv0_from,
    )


_SPLITS = 8  # a text may hold another -S; nobody writes more than one
_ESCAPES = {
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "#": "#",
    "$": "$",
    '"': '"',
    "'": "'",
    "\\": "\\",
}
_SPACE = " \t\n\v\f\r"


def split_string(text: str) -> list[str]:
    """The words that `env -S` makes of a text. Raises Unreadable for what it makes of a variable."""
    words: list[str] = []
    word: str | None = None
    quote = ""
    at = 0
    while at < len(text):
        letter = text[at]
        at += 1
        if letter == quote:
            quote = ""
        elif quote == "'":
            if letter == "\\" and text[at : at + 1] in ("\\", "'"):
                letter = text[at]
                at += 1
            word = (word or "") + letter
        elif letter in "'\"" and not quote:
            quote = letter
            word = word or ""
        elif letter in _SPACE and not quote:
            if word is not None:
                words.append(word)
                word = None
        elif letter == "#" and word is None and not quote:
            return words
        elif letter == "\\":
            escaped = text[at : at + 1]
            at += 1
            if escaped == "c" and not quote:
                break
            if escaped == "_":
                if quote:
                    word = (word or "") + " "
                elif word is not None:
                    words.append(word)
                    word = None
            elif escaped in _ESCAPES:
                word = (word or "") + _ESCAPES[escaped]
            else:
                raise Unreadable("env: the text of -S cannot be read")
        elif letter == "$":
            raise Unreadable("env: the text of -S has a variable in it", "unseen")
        else:
            word = (word or "") + letter
    if quote:
        raise Unreadable("env: the text of -S cannot be read")
    return words if word is None else [*words, word]


# Programs that start a shell, or another user's command


def _script(name: str, argv: list[str], options: list[Option], operands: list[int], around: _Around) -> Inner:
    """It starts $SHELL: with a text, or for a person who types."""
    text = [one for one in options if one.name in ("c", "command")]
    shell = around.env.get("SHELL") or "/bin/sh"
    if not text and "--" in argv and len(operands) > 1:
        # Newer ones take a command behind `--`, and give it to the shell as a text.
        raise Unreadable("script: a command behind `--`", "unseen")
    return Inner(
        argv,
        len(argv),
        env=around.env,
        cwd=around.cwd,
        keeps=False,
        text=text[-1].value_index if text else -1,
        text_from=text[-1].value_from if text else 0,
        shell=shell,
        shell_args=("-i",),
        insert=-1 if text else 1,
    )


def _su(name: str, argv: list[str], options: list[Option], operands: list[int], around: _Around) -> Inner:
    """`su` and `runuser`: a shell of an account, or with -u a command of it."""
    given = {one.name: one for one in options}
    account = around.account()
    user = given.get("u") or given.get("user")
    changed = f"{name} sets HOME, SHELL, USER and LOGNAME, and the system's configuration of it may set more"
    if user is not None and name == "runuser":
        if not account.is_meant(user.value):
            raise Unreadable(f"runuser: another account ({user.value})", "other-user")
        return Inner(
            argv,
            operands[0] if operands else len(argv),
            env=around.env,
            cwd=around.cwd,
            keeps=False,
            flags=(("new-environment", changed),),
        )
    dashes = tuple([one for one in operands[:1] if argv[one] == "-"])
    rest = operands[len(dashes) :]
    whose = argv[rest[0]] if rest else "root"
    if not (account.is_meant(whose) or (whose == "root" and account.uid == 0)):
        raise Unreadable(f"{name}: another account ({whose})", "other-user")
    login = [one for one in options if one.name in ("l", "login")]
    # A bundle is left alone.
    alone = [one.index for one in login if argv[one.index] in ("-l",) or argv[one.index][:3] == "--l"]
    words = (*dashes, *alone) if len(alone) == len(login) else ()
    text = given.get("c") or given.get("command") or given.get("session-command")
    shell = given.get("s") or given.get("shell")
    keeps_shell = "m" in given or "p" in given or "preserve-environment" in given
    program = shell.value if shell else (around.env.get("SHELL", "") if keeps_shell else account.shell)
    return Inner(
        argv,
        len(argv),
        env=around.env,
        cwd=around.cwd,
        keeps=False,
        text=-1 if text is None else text.value_index,
        text_from=0 if text is None else text.value_from,
        shell=program or "/bin/sh",
        shell_args=tuple([argv[one] for one in rest[1:]]),
        login=(argv[login[0].index] if login else "-") if login or dashes else "",
        login_words=words,
        flags=(("new-environment", changed),),
    )


def _sudo(name: str, argv: list[str], options: list[Option], operands: list[int], around: _Around) -> Inner:
    account = around.account()
    given = {one.name: one for one in options}
    user = given.get("u") or given.get("user")
    whose = user.value if user else "root"
    if not (account.is_meant(whose) or (whose in ("root", "#0") and account.uid == 0)):
        raise Unreadable(f"sudo: another account ({whose})", "other-user")
    login = given.get("i") or given.get("login")
    shell = given.get("s") or given.get("shell")
    env = dict(around.env)
    sets: dict[str, int] = {}
    rest = list(operands)
    while rest and "=" in argv[rest[0]]:
        one, _, value = argv[rest[0]].partition("=")
        env[one] = value
        sets[one] = rest.pop(0)
    starts_shell = login is not None or shell is not None
    at = len(argv) if starts_shell or not rest else rest[0]
    if any(word in given for word in ("e", "edit", "l", "list", "v", "validate", "k", "K", "V")):
        at, starts_shell = len(argv), False
    return Inner(
        argv,
        at,
        env=env,
        cwd=around.cwd,
        keeps=False,
        sets=sets,
        assigns=True,
        shell=(account.shell if login else around.env.get("SHELL") or account.shell) if starts_shell else "",
        shell_args=tuple([argv[one] for one in rest]) if starts_shell else (),
        login=argv[login.index] if login else "",
        flags=(("new-environment", "sudo gives the command an environment of its own"),),
    )


def _busybox(
    name: str, argv: list[str], options: list[Option], operands: list[int], around: _Around
) -> Inner:
    return Inner(argv, 1 if len(argv) > 1 else len(argv), env=around.env, cwd=around.cwd, applet=True)


_SU = Options(
    takes="cgGsuw",
    flags="flmpPTh",
    long_takes=(
        *("command", "session-command", "group", "supp-group", "shell", "user", "whitelist-environment"),
    ),
    long=("fast", "login", "preserve-environment", "pty", "no-pty", "help", "version"),
    permutes=True,
)
_TABLE: dict[str, Wrapper] = {
    "env": Wrapper(_ENV_OPTIONS, _plain),
    "nice": Wrapper(Options("n", "", ("adjustment",), ("help", "version"), numbers=True), _plain),
    "ionice": Wrapper(
        Options("cnpPu", "t", ("class", "classdata", "pid", "pgid", "uid"), ("ignore", "help", "version")),
        _plain,
    ),
    "timeout": Wrapper(
        Options(
            "ks",
            "vfp",
            ("kill-after", "signal"),
            ("verbose", "foreground", "preserve-status", "help", "version"),
        ),
        _plain,
        operands=1,
    ),
    "nohup": Wrapper(Options(long=("help", "version")), _plain),
    "setsid": Wrapper(Options("", "cfwVh", (), ("ctty", "fork", "wait", "version", "help")), _plain),
    "stdbuf": Wrapper(Options("ioe", "", ("input", "output", "error"), ("help", "version")), _adding),
    "time": Wrapper(
        Options(
            "fo",
            "apqvV",
            ("format", "output"),
            ("append", "portability", "quiet", "verbose", "version", "help"),
        ),
        _plain,
    ),
    "chrt": Wrapper(
        Options(
            "TPD",
            "abdefiormpvRVh",
            ("sched-runtime", "sched-period", "sched-deadline"),
            (
                *("all-tasks", "batch", "deadline", "ext", "fifo", "idle", "other", "rr", "reset-on-fork"),
                *("max", "pid", "verbose", "version", "help"),
            ),
        ),
        _chrt,
    ),
    "taskset": Wrapper(
        Options("", "apchV", (), ("all-tasks", "pid", "cpu-list", "help", "version")), _plain, operands=1
    ),
    "xargs": Wrapper(
        Options(
            "adEILnPs",
            "0rtpxo",
            ("arg-file", "delimiter", "max-args", "max-procs", "max-chars", "process-slot-var"),
            (
                *("null", "no-run-if-empty", "verbose", "interactive", "exit", "open-tty", "replace", "eof"),
                *("max-lines", "show-limits", "help", "version"),
            ),
            may_take="eil",
        ),
        _adding,
    ),
    "script": Wrapper(
        Options(
            "cEIoOBmT",
            "aefqhV",
            (
                *("command", "echo", "log-in", "log-out", "log-io", "log-timing", "output-limit"),
                *("logging-format",),
            ),
            ("append", "return", "flush", "force", "quiet", "timing", "help", "version"),
            may_take="t",
            permutes=True,
        ),
        _script,
    ),
    "su": Wrapper(_SU, _su),
    "runuser": Wrapper(_SU, _su),
    "sudo": Wrapper(
        Options(
            "CDghpRrTtUu",
            "AbBEeHiKklNnPSsVv",
            (
                *("close-from", "chdir", "group", "host", "prompt", "chroot", "role", "command-timeout"),
                *("type", "other-user", "user"),
            ),
            (
                *("askpass", "background", "bell", "preserve-env", "edit", "set-home", "login"),
                *("remove-timestamp", "reset-timestamp", "list", "non-interactive", "no-update"),
                *("preserve-groups", "stdin", "shell", "version", "validate", "help"),
            ),
        ),
        _sudo,
    ),
    "busybox": Wrapper(Options(), _busybox),
}
