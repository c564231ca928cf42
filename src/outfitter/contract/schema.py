"""The words of the configuration files: one table, by which the parser reads and editors complete."""

from __future__ import annotations

from ..formats.dotenv import DIALECTS
from ..providers.base import MODES
from ..record import KW_ONLY, record
from .settings import (
    CONFINED_PROVIDERS,
    CONFINED_SETUPS,
    DESCENDANTS,
    LOGINS,
    ON_FAILURES,
    SANDBOX_MODES,
    SETUP_SECONDS,
    SNAPSHOT_SECONDS,
    STARTUPS,
    STOCK_NOTICES,
    TOTAL_BYTES,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ADDRESS = "https://json-schema.org/draft/2020-12/schema"
_NAME = "^[A-Za-z_][A-Za-z0-9_]*$"
_POSSIBLE_NAME = "^[^=\\u0000]+$"
_PATH = "^[^\\u0000]+$"
_NO_NUL = "^[^\\u0000]*$"
_INNER = "^[^/~$\\u0000][^\\u0000]*$"
_ENTRY = "^[^:\\u0000]+$"
_PROTECTED = r"^(\*\*/)?(?!(\.\.?|\*\*)(/|$))[^/\u0000]+(/(?!(\.\.?|\*\*)(/|$))[^/\u0000]+)*/*$"
_DOMAIN = "^(\\*|(\\*\\*?\\.)?[A-Za-z0-9_:-][A-Za-z0-9_.:-]*)$"
_OVERLAY = "^[A-Za-z0-9_-]+$"


@record
class Key:
    """One key of a table. `kind` is one of `_VALUES`; `user_only`: not for a project's file. `meant` is what
    the texts of a list are, in their order; words in small letters stand for themselves."""

    name: str
    kind: str
    help: str
    _: KW_ONLY
    choices: tuple[str, ...] = ()
    meant: tuple[str, ...] = ()
    most: float = 0
    default: object = None
    user_only: bool = False


# fmt: off
# By table; those of the file's head are under "".
KEYS: dict[str, tuple[Key, ...]] = {
    "": (
        Key("allow_login_shell", "flag",
            'Codex\'s name for shell.login: false is "reject", true is "allow".'),
        Key("overlays", "overlays", "Overlays by name, for commands that choose them; keys as in [env]."),
        Key("agents", "launches", "The launch contract: what each kind of launch of an agent must keep."),
    ),
    "shell_environment_policy": (
        Key("inherit", "choice", "Which of the executor's variables a command starts from.",
            choices=("all", "core", "none"), default="all"),
        Key("ignore_default_excludes", "flag", "false: also remove *KEY*, *SECRET* and *TOKEN*.",
            default=True),
        Key("exclude", "texts", "Patterns (* and ?) of names to remove."),
        Key("set", "values", "Variables to set after the excludes."),
        Key("include_only", "texts",
            "Patterns of names to keep; everything else is removed, including what `set` sets."),
        Key("filters", "actions", "Codex's newer form of exclude and include_only: what to do, by pattern.",
            choices=("exclude", "include")),
        Key("allow_from", "choices", "Layers that may set a name again that `exclude` removed.",
            # Those that run project code; above them a person speaks.
            choices=("L3", "L4", "L5"), user_only=True),
    ),
    "shell": (
        Key("login", "choice",
            'What to do with -l and --login. Default: "strip" if startup is "enforce", otherwise "allow".',
            choices=LOGINS),
        Key("startup", "choice", "What to do with a shell's startup files.",
            choices=STARTUPS, default="enforce"),
        Key("descendants", "choice",
            "What to do about shells that a command starts itself: flag what can be seen, or mask startup "
            "files for the command and all its descendants.",
            choices=DESCENDANTS, default="flag"),
        Key("snapshot", "choice", "Capture the environment that the user's shell builds, once.",
            choices=("none", "loginShell", "interactiveShell", "loginInteractiveShell"), default="none",
            user_only=True),
        Key("snapshot_timeout", "seconds", "Seconds after which the snapshot's shell is ended.",
            most=300.0, default=SNAPSHOT_SECONDS, user_only=True),  # the first command waits meanwhile
    ),
    "env": (
        Key("set", "values", "Variables to set. Nothing in a value is expanded."),
        Key("unset", "names_to_unset", "Variables to remove."),
        Key("prepend", "entries", "Entries to add to the front of list variables."),
        Key("append", "entries", "Entries to add to the end of list variables."),
        Key("remove", "entries", "Entries to remove from list variables."),
    ),
    "names": (
        Key("lists", "names", "More list variables, like PATH."),
        Key("secret", "patterns", "More patterns of names whose values are secret."),
        Key("allow_code_loading", "producers",
            "Code-loading variables that a producer may set, by the producer's id.", user_only=True),
    ),
    "providers": (
        Key("use", "texts", "The project's environment providers, in their order; each layer goes on top."),
        Key("allow", "texts", "The only providers that may be used, whatever a project contains or asks for.",
            user_only=True),
        Key("required", "texts", "Providers without which no command starts."),
        Key("on_failure", "choice", "What happens to commands if a provider fails or is not trusted.",
            choices=ON_FAILURES, default="warn"),
        Key("timeout", "seconds",
            "Seconds after which a provider's tool is ended. Default: 20, and 300 for nix.",
            most=3600.0),  # a shell of nix that is built for the first time
        Key("modes", "modes", "The mode of each provider, by its id.", choices=MODES),
        Key("freeze", "choice",
            "Whether a provider's tool sees the files that were checked, whoever changes them meanwhile.",
            choices=("auto", "off"), default="auto", user_only=True),
        Key("dotenv", "texts", "The files that the provider `dotenv` reads."),
        Key("dotenv_dialect", "choice", "How the provider `dotenv` reads what programs read differently.",
            choices=DIALECTS, default=DIALECTS[0]),
        Key("command", "texts", "The program, with its arguments, that the provider `command` runs."),
        Key("nix", "texts", "The name of the flake's shell that the provider `nix` uses.",
            meant=("SHELL",)),
        Key("python", "texts", "The directory of the virtual environment that the provider `python` uses.",
            meant=("DIRECTORY",)),
        Key("conda", "texts", "The prefix of the environment that the provider `conda` activates.",
            meant=("PREFIX", "ask")),
        Key("pixi", "texts", "The name of the environment that the provider `pixi` uses.",
            meant=("NAME",)),
        Key("devcontainer", "texts", "`inside` if commands run in the container, then optionally the file.",
            meant=("inside", "FILE")),
    ),
    "setup": (
        Key("script", "inner_path", "The script of the project that makes a new worktree usable."),
        Key("run", "text", "Shell commands to run instead of a script."),
        Key("from", "choice", "Read the commands from another tool's file.",
            choices=("codex", "devcontainer")),
        Key("name", "text", "The name of that tool's environment, if it has several."),
        Key("inputs", "inner_paths", "Files (wildcards allowed) whose change makes the setup run again."),
        Key("timeout", "seconds", "Seconds after which the setup is ended.",
            most=86_400.0, default=SETUP_SECONDS),  # a day: what takes longer hangs
        Key("required", "flag", "true: no command starts unless the setup succeeded.", default=False),
    ),
    "sandbox": (
        Key("mode", "choice",
            "What commands may write. A project's file takes away from what is asked for, and never adds.",
            choices=SANDBOX_MODES, default=SANDBOX_MODES[0]),
        Key("allow_write", "write_paths", "More files and directories that commands may write."),
        Key("allow_domain", "domains",
            "Domains that commands may reach (*.NAME: what is below it; **.NAME: both). Default: none in a "
            "sandbox."),
        Key("deny_read", "hidden", "Paths and patterns of files that commands may not read."),
        Key("protect", "protected",
            "More names that stay read-only in each directory that a sandbox may write (**/NAME: also in "
            "three levels below; usual: files of shells, git, editors and agents)."),
        Key("setup", "choice", "Run a project's setup in a sandbox, too.",
            choices=CONFINED_SETUPS, default=CONFINED_SETUPS[0]),
        Key("providers", "choice", "Run the tools of providers in a sandbox, too.",
            choices=CONFINED_PROVIDERS, default=CONFINED_PROVIDERS[0]),
    ),
    "limits": (
        Key("total_bytes", "count", "The largest environment of a command, in bytes.",
            most=2 << 20, default=TOTAL_BYTES),  # what exec was seen to accept with the usual stack limit
    ),
    "daemon": (
        Key("environment", "choice",
            "Whose environment commands start from if the client's and the server's differ.",
            choices=("client", "daemon", "merge"), default="daemon", user_only=True),
    ),
    "notices": (
        Key("stock", "choice",
            "Where a client whose protocol has no place for it hears what is wrong with its environment.",
            choices=STOCK_NOTICES, default="stderr", user_only=True),
    ),
    "trace": (
        Key("commands", "flag",
            "true: commands get the trace context of the request that starts them, as TRACEPARENT.",
            default=False, user_only=True),
    ),
    "import": (
        Key("codex", "switch_or_path",
            "Read allow_login_shell and [shell_environment_policy] from Codex's config.toml, "
            "or from this file.",
            default=False, user_only=True),
    ),
}
# fmt: on


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of both files."""
    properties: dict[str, Any] = {key.name: _value(key) for key in KEYS[""]}
    for table, keys in KEYS.items():
        if table:
            properties[table] = {
                "type": "object",
                "additionalProperties": False,
                "properties": {key.name: _value(key) for key in keys},
            }
    policy = properties["shell_environment_policy"]
    policy["not"] = {
        "required": ["filters"],
        "anyOf": [{"required": ["exclude"]}, {"required": ["include_only"]}],
    }
    ways: list[dict[str, Any]] = [{"required": [way]} for way in ("script", "run", "from")]
    properties["setup"]["anyOf"] = [*ways, {"maxProperties": 0}]
    properties["setup"]["dependentRequired"] = {"name": ["from"]}
    properties["sandbox"]["dependentRequired"] = {"allow_write": ["mode"], "allow_domain": ["mode"]}
    return {
        "$schema": ADDRESS,
        "title": "Outfitter configuration: outfitter.toml and the user's config.toml",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "not": {"required": ["allow_login_shell", "shell"], "properties": {"shell": {"required": ["login"]}}},
    }


def _value(key: Key) -> dict[str, Any]:
    value = dict(_VALUES[key.kind](key))
    value["description"] = f"{key.help} Only in the user's file." if key.user_only else key.help
    if key.default is not None:
        value["default"] = key.default
    return value


def _texts(pattern: str | None = None) -> dict[str, Any]:
    items = {"type": "string"} if pattern is None else {"type": "string", "pattern": pattern}
    return {"type": "array", "items": items}


def _meant(words: tuple[str, ...]) -> dict[str, Any]:
    firsts = [{"const": word} if word.islower() else {"type": "string"} for word in words]
    return {**_texts(), "prefixItems": firsts, "maxItems": len(words)}


def _table(names: str, values: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "propertyNames": {"pattern": names}, "additionalProperties": values}


_KINDS = Key("kinds", "texts", "Kinds of launch for whose commands the overlay is, without being asked for.")
_VALUES: dict[str, Any] = {  # functions of a Key; their type would be longer than they are
    "flag": lambda key: {"type": "boolean"},
    "choice": lambda key: {"enum": list(key.choices)},
    "choices": lambda key: {"type": "array", "items": {"enum": list(key.choices)}},
    "seconds": lambda key: {"type": "number", "exclusiveMinimum": 0, "maximum": key.most},
    "count": lambda key: {"type": "integer", "minimum": 1, "maximum": key.most},
    "text": lambda key: {"type": "string", "pattern": _PATH},
    "texts": lambda key: _meant(key.meant) if key.meant else _texts(),
    "patterns": lambda key: _texts("."),
    "inner_path": lambda key: {"type": "string", "pattern": _INNER},
    "inner_paths": lambda key: _texts(_INNER),
    "names": lambda key: _texts(_NAME),
    "names_to_unset": lambda key: _texts(_POSSIBLE_NAME),
    "values": lambda key: _table(_NAME, {"type": "string", "pattern": _NO_NUL}),
    "actions": lambda key: _table("", {"enum": list(key.choices)}),
    "modes": lambda key: _table(".", {"enum": list(key.choices)}),
    "entries": lambda key: _table(_NAME, _texts(_ENTRY)),
    "producers": lambda key: _table(".", _texts(_NAME)),
    "overlays": lambda key: {
        "type": "object",
        "propertyNames": {"pattern": _OVERLAY},
        "additionalProperties": {
            "type": "object",
            "additionalProperties": False,
            "properties": {one.name: _value(one) for one in (*KEYS["env"], _KINDS)},
        },
    },
    "launches": lambda key: _table("", {}),
    "write_paths": lambda key: _texts(_PATH),
    "domains": lambda key: _texts(_DOMAIN),
    "hidden": lambda key: _texts(_PATH),
    "protected": lambda key: _texts(_PROTECTED),
    "switch_or_path": lambda key: {"type": ["boolean", "string"], "pattern": _PATH},
}
