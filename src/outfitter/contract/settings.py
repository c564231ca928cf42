"""What the configuration files say, and the settings that come of them.

Data only: `merge` puts it together. Values of variables are among it, so no `repr` shows them.
"""

from __future__ import annotations

from ..record import EMPTY, KW_ONLY, lazy, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..core.sandbox import Sandbox
    from ..env.launches import LaunchContract

# Each from the loosest to the strictest.
LOGINS = ("allow", "strip", "reject")
STARTUPS = ("report", "repair", "enforce")
DESCENDANTS = ("flag", "mask")
STOCK_NOTICES = ("stderr", "log")
ON_FAILURES = ("without", "warn", "fail")
SANDBOX_MODES = ("full-access", "workspace-write", "read-only")
CONFINED_SETUPS = ("off", "workspace-write")
CONFINED_PROVIDERS = ("off", "read-only")

AUTO = "auto"  # in place of a provider's name: the outermost one that is there
# Providers that have nothing to do until somebody says what is meant; saying so is enough.
CONFIGURED = ("command", "devcontainer", "dotenv")

SNAPSHOT_SECONDS = 10.0  # a profile that takes longer is not waited for; the reference's
TOTAL_BYTES = 1 << 20  # half of what Linux takes for arguments and environment together
SETUP_SECONDS = 600.0  # a first installation of everything that a project needs
SETUP_KEYS = ("script", "run", "from", "name", "inputs", "timeout", "required")

SANDBOX_KEYS = ("mode", "allow_write", "allow_domain", "deny_read", "protect")
POLICY_RULES = ("inherit", "ignore_default_excludes", "exclude", "set", "include_only")


@record
class Source:
    """Where a setting comes from. `kind` is "default", "user", "project" or "codex"."""

    file: str
    line: int | None
    kind: str

    def __str__(self) -> str:
        if not self.file:
            return self.kind
        return self.file if self.line is None else f"{self.file}:{self.line}"


DEFAULT = Source("", None, "default")


@record
class PolicySettings:
    """A [shell_environment_policy], with Codex's defaults for what it does not say.

    `set` is a tuple of (name, value). `rules` tells where each rule that was written stands, under its key
    ("exclude") and, for those with entries, under key and entry ("exclude AWS_*", "set CI"). With an imported
    Codex file the rules of one policy can stand in two files; `file` is the one with the last word.
    """

    file: str
    _: KW_ONLY
    inherit: str = "all"
    ignore_default_excludes: bool = True
    exclude: tuple[str, ...] = ()
    set: tuple[tuple[str, str], ...] = ()
    include_only: tuple[str, ...] = ()
    rules: Mapping[str, Source] = EMPTY
    hidden = ("set",)

    def source(self, rule: str) -> Source:
        """Where a rule stands: "inherit", "exclude", "exclude AWS_*". An entry falls back on its key."""
        return self.rules.get(rule) or self.rules.get(rule.partition(" ")[0], DEFAULT)


@record
class EnvSettings:
    """An [env]: `set` is a tuple of (name, value, line), `unset` of (name, line).

    `operations` is a tuple of (variable, op, values, line), removals first, so that a file never removes what
    it adds itself. The values are absolute. An overlay with `kinds` is for every command of these launches.
    """

    file: str
    _: KW_ONLY
    set: tuple[tuple[str, str, int], ...] = ()
    unset: tuple[tuple[str, int], ...] = ()
    operations: tuple[tuple[str, str, tuple[str, ...], int], ...] = ()
    kinds: tuple[str, ...] = ()
    hidden = ("set",)


@record
class SetupSettings:
    """A [setup]: one of `script`, `run` and `source` (the `from` of the file) says what is run.

    `script` and `inputs` are below the folder of `file`, `inputs` may have wildcards. `name` tells which,
    where the source has several. `required`: no command runs without it.
    """

    file: str
    _: KW_ONLY
    script: str | None = None
    run: str | None = None
    source: str | None = None
    name: str | None = None
    inputs: tuple[str, ...] = ()
    timeout: float = SETUP_SECONDS
    required: bool = False

    @property
    def folder(self) -> str:
        return self.file.rpartition("/")[0] or "/"


@record
class SandboxSettings:
    """A [sandbox], as far as it is about commands; `mode` is None where it says none, and then only
    `deny_read` and `protect` are said. Paths are absolute, but for patterns of the user's file: these start
    at the directory of a command. `places` has where each key and each entry stands ("mode", "allow_write
    /srv")."""

    file: str
    _: KW_ONLY
    mode: str | None = None
    allow_write: tuple[str, ...] = ()
    allow_domain: tuple[str, ...] = ()
    deny_read: tuple[str, ...] = ()
    protect: tuple[str, ...] = ()  # as written: see `core.protecting`
    places: Mapping[str, Source] = EMPTY

    @property
    def sandbox(self) -> Sandbox:
        """What it asks for."""
        from ..core.sandbox import FULL, Sandbox

        return Sandbox(
            self.mode or FULL,
            writable=self.allow_write,
            domains=self.allow_domain,
            deny_read=self.deny_read,
        )

    def source(self, key: str) -> Source:
        """Where a key, or an entry of it, stands."""
        return self.places.get(key) or self.places.get(key.partition(" ")[0], DEFAULT)


@record
class FileSettings:
    """What one file says; None, or empty, for what it does not. `kind` is "user", "project" or "codex".

    `lines` has the line of each setting by its dotted name ("shell.login") and of each entry of [names]
    ("names.lists.CLASSPATH"). `import_codex` is True, False or the path of a file.
    """

    file: str
    kind: str
    _: KW_ONLY
    login: str | None = None
    startup: str | None = None
    descendants: str | None = None
    snapshot: str | None = None
    snapshot_timeout: float | None = None
    policy: PolicySettings | None = None
    allow_from: tuple[str, ...] | None = None
    env: EnvSettings | None = None
    overlays: Mapping[str, EnvSettings] = EMPTY
    launches: LaunchContract | None = None
    list_names: tuple[str, ...] = ()
    secret_names: tuple[str, ...] = ()
    allow_code_loading: tuple[tuple[str, tuple[str, ...]], ...] = ()
    total_bytes: int | None = None
    daemon_environment: str | None = None
    stock_notices: str | None = None
    trace_commands: bool | None = None
    import_codex: bool | str | None = None
    providers: tuple[str, ...] | None = None
    allowed_providers: tuple[str, ...] | None = None
    required_providers: tuple[str, ...] = ()
    on_provider_failure: str | None = None
    provider_options: Mapping[str, Mapping[str, object]] = EMPTY
    provider_modes: Mapping[str, str] = EMPTY
    provider_timeout: float | None = None
    freeze: str | None = None
    setup: SetupSettings | None = None
    sandbox: SandboxSettings | None = None
    confined_setup: str | None = None
    confined_providers: str | None = None
    lines: Mapping[str, int] = EMPTY

    def source(self, setting: str) -> Source:
        """Where this file says it: by dotted name."""
        return Source(self.file, self.lines.get(setting), self.kind)


class Settings:
    """The settings for the commands of one directory.

    Compared by identity, so that it can be the key of what was worked out from it. `sources` says where each
    setting comes from, by dotted name. `ignored` is what a project's file says in vain, because it would have
    loosened something: (setting, value, source). `files` were looked at: (path, kind, exists).
    """

    def __init__(self) -> None:
        """The defaults."""
        self.login = "strip"
        self.startup = "enforce"
        self.snapshot = "none"
        self.snapshot_timeout = SNAPSHOT_SECONDS
        self.descendants = "flag"
        self.daemon_environment = "daemon"
        self.stock_notices = "stderr"
        self.trace_commands = False
        self.list_names: frozenset[str] = frozenset()
        self.secret_names: tuple[str, ...] = ()
        self.allow_code_loading: dict[str, frozenset[str]] = {}
        self.allow_from: frozenset[str] = frozenset()
        self.total_bytes = TOTAL_BYTES
        self.user_policy: PolicySettings | None = None
        self.project_policy: PolicySettings | None = None
        self.user_env: EnvSettings | None = None
        self.project_env: EnvSettings | None = None
        self.overlays: dict[str, tuple[str, EnvSettings]] = {}  # by name: "user" or "project", and what it is
        self.launches: tuple[LaunchContract, ...] = ()  # the user's, and the project's
        self.project_launches: tuple[str, LaunchContract] | None = None  # with its file
        # None: nobody has named any, and what is found there is used.
        self.providers: tuple[str, ...] | None = None
        self.allowed_providers: frozenset[str] | None = None  # None: all
        self.required_providers: frozenset[str] = frozenset()
        self.needed_providers: frozenset[str] = frozenset()  # those of them that the project's file names
        self.on_provider_failure = "warn"
        self.provider_options: dict[str, Mapping[str, object]] = {}
        self.provider_modes: dict[str, str] = {}
        self.provider_timeout: float | None = None  # each has its own
        self.freeze = "auto"
        self.setup: SetupSettings | None = None  # the project's
        # The user's is for commands that ask for none; the project's takes away from what is asked for.
        self.user_sandbox: SandboxSettings | None = None
        self.project_sandbox: SandboxSettings | None = None
        self.confined_setup = "off"
        self.confined_providers = "off"
        self.files: tuple[tuple[str, str, bool], ...] = ()
        self.sources: dict[str, Source] = dict.fromkeys(SETTINGS, DEFAULT)
        self.ignored: tuple[tuple[str, str, Source], ...] = ()

    @property
    def confines(self) -> bool:
        """Whether a file has a word about the sandbox of commands."""
        return self.user_sandbox is not None or self.project_sandbox is not None

    @lazy
    def protects(self) -> tuple[str, ...]:
        """What stays read-only, too, in every sandbox of a command, whoever asks for it: the names of both
        files."""
        several = (self.user_sandbox, self.project_sandbox)
        entries = [entry for said in several if said is not None for entry in said.protect]
        if not entries:
            return ()
        from ..core.protecting import listed

        return listed(entries)

    def overlays_of(self, kind: str) -> list[str]:
        """The overlays that are for every command of a kind of launch."""
        return [name for name, (_, overlay) in self.overlays.items() if kind in overlay.kinds]


# The attributes of FileSettings with what was written under one name; most are those of Settings, too.
FIELDS = {
    "shell.startup": "startup",
    "shell.login": "login",
    "shell.descendants": "descendants",
    "shell.snapshot": "snapshot",
    "shell.snapshot_timeout": "snapshot_timeout",
    "daemon.environment": "daemon_environment",
    "notices.stock": "stock_notices",
    "trace.commands": "trace_commands",
    "shell_environment_policy.allow_from": "allow_from",
    "overlays": "overlays",
    "names.lists": "list_names",
    "names.secret": "secret_names",
    "names.allow_code_loading": "allow_code_loading",
    "limits.total_bytes": "total_bytes",
    "import.codex": "import_codex",
    "providers.use": "providers",
    "providers.allow": "allowed_providers",
    "providers.required": "required_providers",
    "providers.on_failure": "on_provider_failure",
    "providers.timeout": "provider_timeout",
    "providers.modes": "provider_modes",
    "providers.freeze": "freeze",
    "sandbox.setup": "confined_setup",
    "sandbox.providers": "confined_providers",
}
# Everything that `Settings.sources` has.
SETTINGS = (
    *(setting for setting in FIELDS if setting != "overlays"),
    *(f"shell_environment_policy.{rule}" for rule in POLICY_RULES),
    *(f"setup.{key}" for key in SETUP_KEYS),
    *(f"sandbox.{key}" for key in SANDBOX_KEYS),
)
