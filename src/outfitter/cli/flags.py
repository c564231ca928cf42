"""Flags of commands that must be quick, once: read here when they are plain, by click otherwise.

Importing click takes three times as long as starting the interpreter. A launcher waits for the first line of
`outfitter serve`, and to answer `outfitter env` takes less than that. So a command line that uses only known
flags with proper values is read here; anything else (help, completion, a mistake) goes to the command that
click builds from the same table.
"""

from __future__ import annotations


class Flag:
    """One option: `kind` is "text", "count" (1 or more), "seconds", "flag", "list" or "pairs" (A=B).

    Not a record: all are made before the first line of `outfitter serve`, and each would take longer.
    """

    __slots__ = ("choices", "default", "help", "kind", "metavar", "name", "option")

    def __init__(
        self,
        option: str,
        kind: str,
        help: str,
        default: object = None,
        metavar: str = "",
        choices: tuple[str, ...] = (),
    ) -> None:
        self.option = option
        self.name = option.lstrip("-").replace("-", "_")
        self.kind = kind
        self.help = help
        self.default = default
        self.metavar = metavar
        self.choices = choices


SERVE: tuple[Flag, ...] = (
    Flag(
        "--listen",
        "text",
        "Where to listen: ws://IP:PORT (port 0: a free one; the URL is the first line printed) or stdio.",
        "ws://127.0.0.1:0",
        "URL",
    ),
    Flag(
        "--concurrent-requests",
        "count",
        "Taken for compatibility: here no request waits for another, whatever the number.",
        1,
        "N",
    ),
    Flag(
        "--ws-auth",
        "text",
        "Demand a bearer token of every connection.",
        None,
        choices=("capability-token", "signed-bearer-token"),
    ),
    Flag("--ws-token-file", "text", "capability-token: the file with the token.", None, "FILE"),
    Flag("--ws-token-sha256", "text", "capability-token: the token's SHA-256 instead.", None, "HEX"),
    Flag(
        "--ws-shared-secret-file",
        "text",
        "signed-bearer-token: the file with the secret that signs (HS256), 32 bytes or more.",
        None,
        "FILE",
    ),
    Flag("--ws-issuer", "text", "signed-bearer-token: the issuer that a token must name.", None, "NAME"),
    Flag("--ws-audience", "text", "signed-bearer-token: the audience that a token must name.", None, "NAME"),
    Flag(
        "--ws-max-clock-skew-seconds", "seconds", "signed-bearer-token: how far clocks may disagree.", 30, "S"
    ),
    Flag(
        "--allow-unauthenticated",
        "flag",
        "Listen on an address that others can reach without asking for a token.",
        False,
    ),
    Flag(
        "--allow-host", "list", "A host name that clients may use for this server (repeatable).", (), "NAME"
    ),
    Flag(
        "--session-retention",
        "seconds",
        "How long a session waits for its client to come back.",
        30,
        "SECONDS",
    ),
    Flag("--process-retention", "seconds", "How long a finished process stays readable.", 30, "SECONDS"),
    Flag("--max-sessions", "count", "Sessions kept at a time.", 256, "N"),
    Flag("--max-processes", "count", "Running processes of one session.", 2048, "N"),
    Flag(
        "--cgroup",
        "flag",
        "Hold every command in a control group as well, for programs that hide on purpose (needs a writable "
        "cgroup v2).",
        False,
    ),
    Flag("--exit-on-stdin-close", "flag", "Only with --remote, which is not there yet.", False),
    Flag("--log-level", "text", "Write diagnostics to stderr.", None, choices=("debug", "warning")),
)

# On which environment.
WHERE: tuple[Flag, ...] = (
    Flag("--on", "text", "The environment, by name or ws:// URL.", None, "NAME|URL"),
    Flag(
        "--codex-home",
        "text",
        "Take the named environments from this Codex home instead of our own folder.",
        None,
        "DIR",
    ),
    Flag("--token-file", "text", "With --on URL: the file with the bearer token.", None, "FILE"),
)
# What the environment of a command shall be. The first five make a policy, which comes after the configured
# ones; the others are the request's.
WISHES: tuple[Flag, ...] = (
    Flag(
        "--inherit",
        "text",
        "Which of the executor's variables the command inherits.",
        None,
        choices=("all", "core", "none"),
    ),
    Flag("--default-excludes", "flag", "Withhold *KEY*, *SECRET* and *TOKEN*.", False),
    Flag("--exclude", "list", "Withhold matching variables (* and ?).", (), "PATTERN"),
    Flag("--include-only", "list", "Pass only matching variables.", (), "PATTERN"),
    Flag("--set", "pairs", "Set a variable, as a policy does.", ()),
    Flag("--env", "pairs", "Set a variable, on top of all others.", ()),
    Flag("--unset", "list", "Take a variable away.", (), "NAME"),
    Flag(
        "--author",
        "text",
        "Who speaks in --env and --unset: a model is held to the rules for scripts.",
        "user",
        choices=("user", "model"),
    ),
    Flag("--overlay", "list", "Put an overlay of the configuration on top, by its name.", (), "NAME"),
    Flag("--scope", "text", "The session whose overlay holds, by its id.", None, "ID"),
)
CWD = Flag("--cwd", "text", "For a command in this directory.", None, "DIR")
JSON = Flag("--json", "flag", "A JSON object.", False)
# How much is shown.
VALUES: tuple[Flag, ...] = (
    Flag("--values", "flag", "Show values, but for secrets.", False),
    Flag("--show-secrets", "flag", "Together with --values: secrets as well, in plain text.", False),
)
ENV: tuple[Flag, ...] = (*WHERE, CWD, *WISHES, *VALUES, JSON)
ENV_EXPLAIN: tuple[Flag, ...] = (
    *WHERE,
    CWD,
    *WISHES,
    Flag("--program", "list", "Also say which file this program's name means.", (), "NAME"),
    Flag("--login", "flag", "Also ask a login shell what it would make of it; runs its files.", False),
    *VALUES,
    Flag("--html", "text", "Write a page for a browser.", None, "FILE"),
    JSON,
)

_STRICT = Flag("--strict", "flag", "Exit with 1 when the environment could not be applied.", False)
HOOK_CLAUDE: tuple[Flag, ...] = (
    _STRICT,
    Flag("--print-settings", "flag", "Print what to put into Claude Code's settings.json.", False),
)
HOOK_CODEX: tuple[Flag, ...] = (
    _STRICT,
    Flag("--env", "flag", "Also answer with the variables, for a Codex that takes them.", False),
    Flag("--print-config", "flag", "Print what to put into Codex's config.toml.", False),
    Flag("--print-environments", "flag", "Print what to put into Codex's environments.toml.", False),
)


def read_plain(args: list[str], table: tuple[Flag, ...] = SERVE) -> dict[str, object] | None:
    """The values of a plain command line, or None when click should have a look at it."""
    read = read_with_words(args, table)
    return None if read is None or read[1] else read[0]


def read_with_words(args: list[str], table: tuple[Flag, ...]) -> tuple[dict[str, object], list[str]] | None:
    """The same for a command that also takes words, which may stand between its flags."""
    by_option = {flag.option: flag for flag in table}
    values: dict[str, object] = {flag.name: flag.default for flag in table}
    words: list[str] = []
    rest = iter(args)
    for arg in rest:
        if arg and not arg.startswith("-"):
            words.append(arg)
            continue
        option, equals, text = arg.partition("=")
        flag = by_option.get(option)
        if flag is None:
            return None
        if flag.kind == "flag":
            if equals:
                return None
            values[flag.name] = True
            continue
        if not equals:
            text = next(rest, "")
        value = _value(flag, text)
        if value is None:
            return None
        if flag.kind in ("list", "pairs"):
            known = values[flag.name]
            assert isinstance(known, tuple)
            value = (*known, value)
        values[flag.name] = value
    return values, words


def _value(flag: Flag, text: str) -> object:
    """The value of a text that is certainly right, else None."""
    if not text or text.startswith("-"):
        return None
    if flag.kind in ("count", "seconds"):
        if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < (flag.kind == "count"):
            return None
        return int(text)
    if flag.kind == "pairs":
        name, equals, value = text.partition("=")
        return (name, value) if name and equals else None
    if flag.choices and text not in flag.choices:
        return None
    return text
