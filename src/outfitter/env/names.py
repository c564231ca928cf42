"""Names that mean more than their value: who may set them, and who may not take them away.

The lists say what a variable can do to a *later, innocently approved* command; they are not about secrets.
"""

from __future__ import annotations

# Has the number of `core.marks` where no limit of the system can: each command's own.
MARK = "OUTFITTER_MARK"
# What shells keep themselves, and we: never data of a layer.
SHELL_MAINTAINED = frozenset(
    ("PWD", "OLDPWD", "SHLVL", "_", "PS1", "PS2", "PROMPT", "COLUMNS", "LINES", "A__z", MARK)
)
# A command without these does not work, or works somewhere else: bash without PATH searches a list of its own
# that ends in the current directory.
REQUIRED = frozenset(("PATH", "HOME"))

# Credentials of the executor itself: no rule and no request brings them into a child.
NEVER_INHERITED = frozenset(
    (
        "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN",
        "NODE_REPL_AUTH_TOKEN",
        "OPENAI_FEDERATION_RULE_ID",
        "OPENAI_IDENTITY_TOKEN_FILE",
        "OPENAI_WORKLOAD_IDENTITY_CONTEXT",
    )
)
# A switch of the executor's own start, spelled exactly.
_OWN_SWITCH = "CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE"
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}

# Setting one of these is running code in whatever is started next.
_CODE_LOADING = frozenset(
    (
        # the dynamic loader
        *("LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH"),
        # shells
        *("BASH_ENV", "ENV", "ZDOTDIR", "SHELLOPTS", "BASHOPTS", "PROMPT_COMMAND", "PS0", "PS4", "CDPATH"),
        *("GLOBIGNORE", "IFS", "FPATH"),
        # fish, and every tool that reads its configuration there
        *("XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_DIRS"),
        # interpreters
        *("NODE_OPTIONS", "NODE_PATH", "PERL5OPT", "PERL5LIB", "PERL5DB", "RUBYOPT", "RUBYLIB"),
        *("PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "PYTHONINSPECT", "PYTHONUSERBASE", "PYTHONBREAKPOINT"),
        *("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH"),
        *("LUA_INIT", "LUA_PATH", "LUA_CPATH"),
        # git and ssh
        *("GIT_SSH", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_ASKPASS", "SSH_ASKPASS", "GIT_EDITOR"),
        *("GIT_SEQUENCE_EDITOR", "GIT_PAGER", "GIT_EXEC_PATH", "GIT_TEMPLATE_DIR", "GIT_CONFIG_COUNT"),
        *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_PARAMETERS", "GIT_PROXY_COMMAND"),
        # programs that others start
        *("EDITOR", "VISUAL", "PAGER", "MANPAGER", "LESSOPEN", "LESSCLOSE", "BROWSER", "MAKEFLAGS"),
        *("CARGO_BUILD_RUSTC_WRAPPER", "RUSTC_WRAPPER", "RUSTC"),
        *("OPENSSL_CONF", "OPENSSL_MODULES", "GCONV_PATH"),
    )
)
_CODE_LOADING_PREFIXES = ("DYLD_", "BASH_FUNC_", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_", "CARGO_TARGET_")

# Ours. OUTFITTER_HOME says where the user's own files are: a person may set it for a command.
_RUNTIME_PREFIXES = ("OUTFITTER_", "__OUTFITTER_")
_NOT_RUNTIME = frozenset(("OUTFITTER_HOME",))
# Whose a command is: its session's id, and that of the session which this one was copied from. Not a part of
# what makes two environments the same.
SCOPE, PARENT_SCOPE = "OUTFITTER_SCOPE", "OUTFITTER_PARENT_SCOPE"
# W3C Trace Context: which request a program works for.
TRACEPARENT, TRACESTATE = "TRACEPARENT", "TRACESTATE"
# Ours too, and true for one project: the layer of its setup carries them.
SETUP_NAMES = frozenset(("OUTFITTER_WORKTREE", "OUTFITTER_SOURCE_TREE"))

# An agent's own: which thread and session a command belongs to, and how the agent has confined it. The agent
# sends them with its requests; a script that sets one makes later commands report to somebody else.
_AGENT_NAMES = frozenset(
    (
        *("CODEX_THREAD_ID", "CODEX_SESSION_ID", "CODEX_TURN_ID", "CODEX_CI", "CODEX_VERSION"),
        *("CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED"),
        *("CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_ENV_FILE"),
        "CLAUDE_PROJECT_DIR",
        *("GEMINI_CLI", "GEMINI_SESSION_ID", "GEMINI_PROJECT_DIR", "GEMINI_CWD"),
    )
)


# What a layer that nobody has allowed may set: names whose values, whatever they are, change how programs
# look or what they report, but neither what runs nor where data goes. Each with what it does.
HARMLESS = {
    "NO_COLOR": "output without colours",
    "FORCE_COLOR": "output with colours",
    "CLICOLOR": "output with colours",
    "CLICOLOR_FORCE": "output with colours",
    "CARGO_TERM_COLOR": "output of cargo with colours",
    "CARGO_TERM_PROGRESS_WHEN": "progress bars of cargo",
    "PY_COLORS": "output of pytest and tox with colours",
    "PYTHONUNBUFFERED": "Python writes output at once",
    "PYTHONDONTWRITEBYTECODE": "Python keeps no bytecode",
    "PYTHONHASHSEED": "the order of Python's sets",
    "PYTHONUTF8": "the encoding of Python's files",
    "PYTHONFAULTHANDLER": "Python reports a crash",
    "RUST_BACKTRACE": "Rust reports where a panic happened",
    "PIP_DISABLE_PIP_VERSION_CHECK": "pip does not look for its own updates",
    "PIP_NO_COLOR": "output of pip without colours",
    "PIP_NO_INPUT": "pip asks no questions",
    "NPM_CONFIG_FUND": "npm does not ask for funding",
    "NPM_CONFIG_UPDATE_NOTIFIER": "npm does not look for its own updates",
    "DO_NOT_TRACK": "no telemetry",
    "DOTNET_CLI_TELEMETRY_OPTOUT": "no telemetry of dotnet",
    "NEXT_TELEMETRY_DISABLED": "no telemetry of Next.js",
}


def is_name(name: str) -> bool:
    """Whether every shell passes a variable of this name on: dash drops all others."""
    return name.isascii() and name.isidentifier()


def loads_code(name: str) -> bool:
    """Whether a variable of this name can make a later program run something else."""
    return name in _CODE_LOADING or name.startswith(_CODE_LOADING_PREFIXES)


def is_runtime(name: str) -> bool:
    """Whether only Outfitter itself sets variables of this name."""
    return name.startswith(_RUNTIME_PREFIXES) and name not in _NOT_RUNTIME


def is_agents(name: str) -> bool:
    """Whether only the agent that sends commands, or a person, sets variables of this name."""
    return name in _AGENT_NAMES


def ascii_fold(name: str) -> str:
    """What fixed lists of names compare: ASCII letters in upper case, nothing else changed."""
    return name.upper() if name.isascii() else name.translate(_UPPER)


def is_withheld(name: str) -> bool:
    """Whether no rule and no request brings a variable of this name into a child."""
    return ascii_fold(name) in NEVER_INHERITED or name == _OWN_SWITCH
