"""Flags of `env`, `run` and `hook`, and of other commands that name an environment; see `flags`."""

from __future__ import annotations

from .flags import JSON, JSON_ALREADY, Flag

# On which environment.
WHERE: tuple[Flag, ...] = (
    Flag(
        "--on", "text", "Use this executor: a named environment, or a ws://, wss:// or unix: URL.", "NAME|URL"
    ),
    Flag(
        "--codex-home",
        "text",
        "Read the named environments of this Codex home instead of Outfitter's.",
        "DIR",
    ),
    Flag("--token-file", "text", "With --on URL: the file that contains the bearer token.", "FILE"),
    Flag("--tls-ca", "text", "With --on wss://...: trust the CAs in this file (PEM), and no others.", "FILE"),
    Flag("--tls-cert", "text", "With --on wss://...: the certificate to show the server.", "FILE"),
    Flag("--tls-key", "text", "With --on wss://...: the private key of that certificate.", "FILE"),
)
# What the environment of a command shall be. The first five make a policy, which comes after the configured
# ones; the others are the request's.
WISHES: tuple[Flag, ...] = (
    Flag(
        "--inherit",
        "text",
        "Inherit all of the executor's variables, the core ones, or none.",
        choices=("all", "core", "none"),
    ),
    Flag("--default-excludes", "flag", "Withhold *KEY*, *SECRET* and *TOKEN*."),
    Flag("--exclude", "list", "Withhold matching variables (* and ?).", "PATTERN"),
    Flag("--include-only", "list", "Pass only matching variables.", "PATTERN"),
    Flag("--set", "pairs", "Set a variable in the policy."),
    Flag("--env", "pairs", "Set a variable; overrides all other sources."),
    Flag("--unset", "list", "Remove a variable.", "NAME"),
    Flag(
        "--author",
        "text",
        "Who wrote --env and --unset. The rules for scripts apply to a model.",
        initial="user",
        choices=("user", "model"),
    ),
    Flag("--overlay", "list", "Apply this named overlay of the configuration.", "NAME"),
    Flag("--scope", "text", "ID of the agent session whose overlay to apply.", "ID"),
    Flag("--kind", "text", "The kind of launch that the command belongs to.", "KIND"),
)
KIND = WISHES[-1]
# What a command may do on its executor.
SANDBOX: tuple[Flag, ...] = (
    Flag(
        "--sandbox",
        "text",
        "Confine the command: let it write nothing, or only the directory it runs in; no network.",
        choices=("read-only", "workspace-write", "full-access"),
    ),
    Flag(
        "--allow-domain", "list", "In a sandbox: let it reach this domain (*.NAME: what is below).", "DOMAIN"
    ),
    Flag("--allow-write", "list", "In a sandbox: let it write this file or directory, too.", "PATH"),
    Flag("--deny-read", "list", "In a sandbox: hide files that match this path or pattern.", "GLOB"),
)
CWD = Flag("--cwd", "text", "Resolve the environment for this directory.", "DIR")
# How much is shown.
VALUES: tuple[Flag, ...] = (
    Flag("--values", "flag", "Show values, except secrets."),
    Flag("--show-secrets", "flag", "With --values: show secrets too, in plain text."),
)
ENV: tuple[Flag, ...] = (*WHERE, CWD, *WISHES, *VALUES, JSON)
ENV_EXPLAIN: tuple[Flag, ...] = (
    *WHERE,
    CWD,
    *WISHES,
    Flag("--program", "list", "Also show which file this program's name leads to.", "NAME"),
    Flag("--login", "flag", "Also show what a login shell would change. Runs its startup files."),
    *VALUES,
    Flag("--html", "text", "Write the explanation to FILE as a web page.", "FILE"),
    Flag("--anonymous", "flag", "Leave out host, user and pid; show the home directory as ~."),
    JSON,
)

_STRICT = Flag("--strict", "flag", "Exit with status 1 if the environment cannot be applied.")
HOOK_CLAUDE: tuple[Flag, ...] = (
    _STRICT,
    Flag("--print-settings", "flag", "Print the lines to add to Claude Code's settings.json."),
    JSON_ALREADY,
)
HOOK_CODEX: tuple[Flag, ...] = (
    _STRICT,
    Flag("--env", "flag", "Also print the variables, for a Codex that accepts them."),
    Flag("--print-config", "flag", "Print the lines to add to Codex's config.toml."),
    Flag("--print-environments", "flag", "Print the lines to add to Codex's environments.toml."),
    Flag("--json", "flag", "With --print-...: print a JSON object. Other output is JSON already."),
)
