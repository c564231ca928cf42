"""What a provider is: it detects a project from its files, runs only if trusted, and returns data.

A provider is one file in this package, or a class that another distribution registers under the entry point
`outfitter.providers`. A provider does not decide whether it is applied: `contract.providers` does selection,
trust, caching and the order of layers.
"""

from __future__ import annotations

from ..record import EMPTY, KW_ONLY, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Protocol

    from ..env.layer import Operation
    from ..env.origin import Origin

# How a provider's environment comes to a command: as data that its tool gives, as data that one run of the
# project's code leaves, or through the tool, which starts each command itself.
MODES = ("snapshot", "capture", "wrap")
# What may keep what a mode loses; "session" is one shell for all commands, which no provider is.
KEPT_BY = (*MODES, "session")
SECONDS = 20.0  # for a tool that resolves; nix builds, and gets more


@record
class Detection:
    """A project that a provider can serve: `root` is its directory, `files` are the files that were detected.

    `label` names it for people ("direnv:/srv/app/.envrc"). `note` says what is unusual about it.
    """

    root: str
    files: tuple[str, ...]
    label: str
    note: str = ""


@record
class Trust:
    """Whether project code may run: "trusted", "untrusted", "denied", or "not-needed" if no code would run.

    "suggested" is what only reads files: nothing runs, but the files may be a stranger's, so most of what
    they say waits for a person's word (see `env.layer.Layer.awaits`).

    `by` names the tool that decides ("direnv", "mise", "outfitter"), `digest` is the content that the grant
    is bound to ("sha256:..."), `grant` is the command that a person types to allow it, and `why` is the
    reason if it may not run. `files` are those that `digest` stands for, with what was read in them, None for
    what is not there; a folder with a slash at its end has nothing else in it. Tools see them so, whatever
    happens to the files meanwhile.
    """

    state: str
    by: str = ""
    digest: str = ""
    grant: str = ""
    why: str = ""
    files: Mapping[str, bytes | None] = EMPTY
    hidden = ("files",)

    @property
    def may_run(self) -> bool:
        return self.state in ("trusted", "not-needed", "suggested")


@record
class Lost:
    """What a mode cannot keep: `kind` ("function", "hook", ...), `name`, and the mode of `KEPT_BY` that keeps
    it.
    """

    kind: str
    name: str
    kept_by: str = "wrap"


@record
class Context:
    """What a provider resolves from.

    `env` is the environment so far (layers 0 to 2), without the leftovers of other activations. `tool_env` is
    what the provider's tool is started with: an allow-list of `env`, without secrets and without variables
    that look like a CI. `mode` is the configured mode, which the provider has; `options` are its options from
    the configuration; `home` is the user's home directory. `mark` is the server's mark for processes that are
    started. `granted` is the digest that a person has allowed: who can runs nothing else than that.
    """

    env: Mapping[str, str]
    tool_env: Mapping[str, str]
    home: str
    _: KW_ONLY
    mode: str = "snapshot"
    timeout: float = SECONDS
    options: Mapping[str, object] = EMPTY
    mark: int | None = None
    granted: str = ""
    hidden = ("env", "tool_env")

    def option(self, place: int = 0) -> str:
        """One of the texts that the configuration gives the provider; "" when it does not."""
        values = self.options.get("values")
        if isinstance(values, (list, tuple)) and len(values) > place and type(values[place]) is str:
            return str(values[place])
        return ""


@record
class Resolution:
    """A provider's answer, as data.

    `state` is "applied", "missing", "failed" or "not-applicable". Only "applied" has effects; for the others
    `note` says what to do. `operations` are for list variables; a plain value for a list variable replaces
    the whole list. `watch` are the paths, existing or not, whose change makes the answer stale. `producer` is
    the tool with its version.

    `own` is an environment that the user has made on this machine: it needs no word (`providers.owned`).

    In the mode "wrap" the answer has no variables but a `prefix`, which goes in front of each command's argv;
    its programs are absolute paths. `makes` is what the tool sets then, as far as it was seen; `frozen` is
    what it must find as it was checked, which the contract says. The repr shows no values.
    """

    state: str
    _: KW_ONLY
    set: Mapping[str, str] = EMPTY
    unset: Sequence[str] = ()
    operations: Sequence[Operation] = ()
    origins: Mapping[str, Origin] = EMPTY
    secrets: frozenset[str] = frozenset()
    lost: Sequence[Lost] = ()
    watch: Sequence[str] = ()
    producer: str = ""
    note: str = ""
    stderr_tail: str = ""
    prefix: Sequence[str] = ()
    frozen: Sequence[str] = ()
    makes: Mapping[str, str] = EMPTY
    own: bool = False
    hidden = ("set", "operations", "stderr_tail", "makes")


def modes_of(provider: Provider) -> tuple[str, ...]:
    """The modes of a provider."""
    modes: tuple[str, ...] = getattr(provider, "modes", MODES[:1])
    return modes


def check_mode(provider: Provider, mode: str) -> None:
    """Raises SettingInvalid for a mode that a provider does not have; the message lists those it has."""
    has = modes_of(provider)
    if mode in has:
        return
    from ..errors import SettingInvalid

    refused: Mapping[str, str] = getattr(provider, "refused", {})
    why = f" ({refused[mode]})" if mode in refused else ""
    remedy = " or ".join(f'"{one}"' for one in has)
    raise SettingInvalid(
        f"the provider `{provider.id}` has no mode `{mode}`{why}: write {remedy} in [providers.modes]"
    )


def still_lost(lost: Sequence[Lost], mode: str) -> tuple[Lost, ...]:
    """What of a snapshot's losses another mode loses, too."""
    kept = MODES[: MODES.index(mode) + 1]
    return tuple(one for one in lost if one.kept_by not in kept)


class ReadsFiles:
    """The part of a provider that runs nothing, and suggests what the project's files say."""

    def trust(self, found: Detection, context: Context) -> Trust:
        return Trust("suggested")

    def plan(self, found: Detection, context: Context) -> list[list[str]]:
        return []


if TYPE_CHECKING:

    class Provider(Protocol):
        """One source. `id` is a stable word; `rank` its place when several are detected, outermost first.

        A provider may have `modes`, those of `MODES` that it can do; without them it gives snapshots. And it
        may have `refused`, by mode, with the reason why it never will. See `modes_of`.
        """

        id: str
        rank: int

        def detect(self, directory: str) -> Detection | None:
            """Looks at files only, from the directory upwards; runs nothing and reads nothing but names."""

        def trust(self, found: Detection, context: Context) -> Trust:
            """Whether its code may run, from files alone. No program is started, least of all the tool."""

        def plan(self, found: Detection, context: Context) -> list[list[str]]:
            """What `resolve` will execute, for people to see before they trust it; empty when nothing."""

        def watch(self, found: Detection, context: Context) -> list[str]:
            """Paths that matter before anything was resolved: manifests, locks, trust records."""

        def resolve(self, found: Detection, context: Context) -> Resolution:
            """The data, in the context's mode. Blocks up to its time limit. Raises for no project's fault."""
