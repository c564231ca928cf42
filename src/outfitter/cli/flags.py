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

    __slots__ = ("choices", "help", "initial", "kind", "metavar", "option", "short")

    def __init__(
        self,
        option: str,
        kind: str,
        help: str,
        metavar: str = "",
        initial: object = None,
        choices: tuple[str, ...] = (),
        short: str = "",
    ) -> None:
        self.option = option
        self.kind = kind
        self.help = help
        self.metavar = metavar
        self.initial = initial
        self.choices = choices
        self.short = short

    def __repr__(self) -> str:
        return f"Flag({self.option})"

    @property
    def name(self) -> str:
        return self.option.lstrip("-").replace("-", "_")

    @property
    def default(self) -> object:
        if self.kind == "flag":
            return False
        return () if self.kind in ("list", "pairs") else self.initial


JSON = Flag("--json", "flag", "Print a JSON object.")
JSON_ALREADY = Flag("--json", "flag", "Accepted as everywhere; the output is JSON already.")
# Of commands that run until they are stopped.
JSON_FIRST = Flag("--json", "flag", "Print a JSON object as the first line: url, pid and more.")

END_WITH_STDIN = Flag("--exit-on-stdin-close", "flag", "End when standard input ends.")

# Of an executor that dials out.
DIALS_OUT: tuple[Flag, ...] = (
    Flag("--remote", "text", "Dial out and serve through the relay of this registry (http(s)://...).", "URL"),
    Flag("--environment-id", "text", "With --remote: the environment to be the executor of.", "ID"),
    Flag("--name", "text", "With --remote: accepted for compatibility and ignored.", "NAME"),
    Flag(
        "--credential-file",
        "text",
        "With --remote: the file with the executor's token. Default: the one that `outfitter enrol` wrote.",
        "FILE",
    ),
    Flag(
        "--executor-credential-stdin",
        "flag",
        "With --remote: read tokens from standard input, one JSON line each.",
    ),
    Flag(
        "--key-file",
        "text",
        "With --remote: keep the executor's keys in this file, so that users can rely on them. Default: new "
        "ones with each start.",
        "FILE",
    ),
    Flag(
        "--authorized-harnesses",
        "text",
        "With --remote: serve only users whose key is a line of this file, whatever the registry says.",
        "FILE",
    ),
    Flag(
        "--accept-first-harness",
        "flag",
        "With --authorized-harnesses: if the file is empty, write the key of the first user to it.",
    ),
    END_WITH_STDIN,
)

# Of one that may do without a relay.
DIRECTLY: tuple[Flag, ...] = (
    Flag(
        "--remote-transport",
        "text",
        "With --remote: through a relay, end to end encrypted (noise), or on one socket that the service can "
        "read (direct).",
        initial="noise",
        choices=("noise", "direct"),
    ),
    Flag("--aws-sigv4", "flag", "With --remote-transport direct: sign requests with AWS_ACCESS_KEY_ID."),
    Flag("--aws-region", "text", "With --aws-sigv4: the region. Default: AWS_REGION.", "REGION"),
    Flag("--aws-service", "text", "With --aws-sigv4: the service.", "SERVICE", "execute-api"),
)

PROTECT = Flag(
    "--sandbox-protect",
    "list",
    "In a sandbox: keep this name read-only, too, in each directory that may be written (repeatable; "
    "**/NAME: also in three levels of directories below; usual: files of shells, git, editors and agents).",
    "NAME",
)
SERVE: tuple[Flag, ...] = (
    Flag(
        "--listen",
        "text",
        "Listen on ws://IP:PORT, wss://IP:PORT, unix:PATH or stdio. Port 0 means any free port; the first "
        "line printed is the URL.",
        "URL",
        "ws://127.0.0.1:0",
    ),
    Flag(
        "--concurrent-requests",
        "count",
        "Accepted for compatibility and ignored: requests never wait for each other.",
        "N",
        1,
    ),
    Flag(
        "--ws-auth",
        "text",
        "Require a bearer token from every connection.",
        choices=("capability-token", "signed-bearer-token"),
    ),
    Flag(
        "--ws-token-file",
        "list",
        "For capability-token: a file with a token on each line (repeatable).",
        "FILE",
    ),
    Flag("--ws-token-sha256", "list", "For capability-token: the SHA-256 of a token (repeatable).", "HEX"),
    Flag(
        "--ws-shared-secret-file",
        "text",
        "For signed-bearer-token: the file that contains the signing secret (HS256, at least 32 bytes).",
        "FILE",
    ),
    Flag(
        "--ws-jwks-file",
        "text",
        "For signed-bearer-token: the file with public keys (JWKS; EdDSA, ES256, RS256).",
        "FILE",
    ),
    Flag("--ws-issuer", "text", "For signed-bearer-token: the issuer that tokens must name.", "NAME"),
    Flag("--ws-audience", "text", "For signed-bearer-token: the audience that tokens must name.", "NAME"),
    Flag(
        "--ws-max-clock-skew-seconds",
        "seconds",
        "For signed-bearer-token: how far clocks may differ.",
        "S",
        30,
    ),
    Flag(
        "--ws-max-age",
        "seconds",
        "For signed-bearer-token: how long a token may be valid.",
        "S",
        86_400,
    ),
    Flag(
        "--allow-unauthenticated",
        "flag",
        "Accept every client that reaches the address, without a token and whatever its user.",
    ),
    Flag(
        "--allow-user",
        "list",
        "Without tokens, also serve this user of this machine (repeatable).",
        "NAME|UID",
    ),
    Flag("--tls-cert", "text", "For wss://: the certificate and its chain (PEM).", "FILE"),
    Flag("--tls-key", "text", "For wss://: the private key of the certificate (PEM).", "FILE"),
    Flag(
        "--tls-client-ca",
        "text",
        "For wss://: accept only clients with a certificate of this CA (PEM).",
        "FILE",
    ),
    Flag("--allow-host", "list", "Accept this host name in requests (repeatable).", "NAME"),
    Flag("--session-retention", "seconds", "How long to keep a session whose client is gone.", "SECONDS", 30),
    Flag(
        "--process-retention",
        "seconds",
        "How long the output of a closed process can be read.",
        "SECONDS",
        30,
    ),
    Flag(
        "--max-detached",
        "seconds",
        "How long a detached command may run while no client is attached. Default: to its end.",
        "SECONDS",
    ),
    Flag(
        "--detached-retention",
        "seconds",
        "How long the output of a detached command can be read after its end.",
        "SECONDS",
        86400,
    ),
    Flag(
        "--keepalive",
        "count",
        "Ask a silent client for a sign of life after this long, and give it up after three more times of "
        "it. Default: 30, and give it up after 60.",
        "SECONDS",
    ),
    Flag(
        "--fence",
        "count",
        "End the server and its commands when no client was heard for this long.",
        "SECONDS",
    ),
    Flag(
        "--project-ceiling",
        "text",
        "Look for no project, nor its environment, above this directory.",
        "DIR",
    ),
    Flag(
        "--origin",
        "list",
        "Explain variables of the server's environment as set by a pool or its engine (repeatable).",
        "pool|engine=NAMES",
    ),
    Flag("--max-sessions", "count", "Limit on sessions.", "N", 256),
    Flag("--max-processes", "count", "Limit on running processes per session.", "N", 2048),
    Flag(
        "--cgroup",
        "flag",
        "Also run every command in a control group, to end programs that hide on purpose (needs a writable "
        "cgroup v2).",
    ),
    Flag(
        "--limits",
        "text",
        "Limit what the server and all its commands may use together (memory=4GiB,cpus=2,processes=4096), by "
        "control groups where they can be made; `required`: only by those. The second line printed says by "
        "what.",
        "LIST",
    ),
    Flag(
        "--sandbox-program", "text", "The bubblewrap to use, if it is not in one of the usual places.", "PATH"
    ),
    Flag(
        "--sandbox-processes", "count", "Limit on processes and threads of a command in a sandbox.", "N", 2048
    ),
    Flag(
        "--sandbox-memory",
        "count",
        "Limit on the memory of a command in a sandbox, in MiB (needs cgroup v1).",
        "MIB",
    ),
    Flag(
        "--sandbox-loopback",
        "flag",
        "Let a command in a sandbox without network use addresses of its own loopback.",
    ),
    Flag("--sandbox-ptrace", "flag", "Let a command in a sandbox trace its own processes (gdb, strace)."),
    Flag(
        "--sandbox-landlock",
        "flag",
        "Where bubblewrap cannot be used: confine commands that write nothing and have no network by "
        "Landlock. They see which other processes run.",
    ),
    PROTECT,
    Flag(
        "--sandbox-strict-links",
        "flag",
        "Refuse to write a file by a request in a sandbox if the file has other names (hard links).",
    ),
    Flag("--run-as", "text", "As root: run commands and open files as this user.", "USER"),
    Flag(
        "--operator",
        "list",
        "Also let this principal see, end and drain what is on the server (repeatable).",
        "PRINCIPAL",
    ),
    Flag("--http-deny", "list", "Refuse HTTP requests to these addresses (repeatable).", "RANGE"),
    Flag(
        "--http-allow",
        "list",
        "Allow HTTP requests to these, though they are in a refused range (repeatable).",
        "RANGE",
    ),
    Flag(
        "--http-cookie",
        "list",
        "Share this cookie of a host and its subdomains among HTTP requests (repeatable).",
        "HOST:NAME",
    ),
    Flag("--audit", "text", "Write who does what to this file, as JSON lines (`-`: stderr).", "FILE"),
    Flag(
        "--audit-commands",
        "text",
        "Write commands to --audit by digest (the default) or in full.",
        choices=("digest", "full"),
    ),
    Flag("--metrics", "flag", "Answer GET /metrics, for Prometheus, to whoever may connect."),
    *DIALS_OUT,
    *DIRECTLY,
    Flag("--log-level", "text", "Write a log to stderr.", choices=("debug", "info", "warning")),
    JSON_FIRST,
)

# What `serve` takes only with --remote.
REMOTE_ONLY = (
    *("environment_id", "credential_file", "executor_credential_stdin"),
    *("key_file", "authorized_harnesses", "accept_first_harness", "aws_sigv4", "aws_region"),
)


def read_plain(args: list[str], table: tuple[Flag, ...] = SERVE) -> dict[str, object] | None:
    """The values of a plain command line, or None when click should have a look at it."""
    read = read_with_words(args, table)
    return None if read is None or read[1] else read[0]


def read_with_words(
    args: list[str], table: tuple[Flag, ...], *, command: bool = False
) -> tuple[dict[str, object], list[str]] | None:
    """The same for a command that also takes words, which may stand between its flags.

    With `command`, the first word and all that follows, or all that follows `--`, is another command.
    """
    by_option = {flag.option: flag for flag in table}
    values: dict[str, object] = {flag.name: flag.default for flag in table}
    words: list[str] = []
    rest = iter(args)
    for arg in rest:
        if command and arg == "--":
            words += rest
            break
        if arg and not arg.startswith("-"):
            words.append(arg)
            if command:
                words += rest
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
