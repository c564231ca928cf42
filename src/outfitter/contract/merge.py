"""The configuration files put together. A project's file can make things stricter, never looser."""

from __future__ import annotations

from .settings import (
    AUTO,
    CONFIGURED,
    CONFINED_PROVIDERS,
    CONFINED_SETUPS,
    DEFAULT,
    DESCENDANTS,
    FIELDS,
    LOGINS,
    ON_FAILURES,
    POLICY_RULES,
    SANDBOX_KEYS,
    SANDBOX_MODES,
    SETUP_KEYS,
    STARTUPS,
    FileSettings,
    PolicySettings,
    Settings,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_NOTHING = FileSettings("", "")  # what a file says that is not there
# What the user alone says.
_USERS = ("shell.snapshot", "shell.snapshot_timeout", "daemon.environment", "notices.stock", "trace.commands")


def merge(
    user: FileSettings | None,
    project: FileSettings | None,
    codex: FileSettings | None = None,
    *,
    files: Sequence[tuple[str, str, bool]] = (),
) -> Settings:
    """Puts the files together. `codex` is what the user's file imports: it fills what that does not say."""
    user, project, codex = user or _NOTHING, project or _NOTHING, codex or _NOTHING
    merged = Settings()
    merged.files = tuple(files)
    for setting in _USERS:
        _take(merged, user, setting)
    if user.import_codex is not None:
        merged.sources["import.codex"] = user.source("import.codex")
    _merge_shell(merged, user, project, codex)
    _merge_policies(merged, user, project, codex)
    _merge_names(merged, user, project)
    _take(merged, user, "limits.total_bytes")
    _tighten(merged, project, "limits.total_bytes", int.__neg__)
    _merge_providers(merged, user, project)
    _merge_overlays(merged, user, project)
    merged.launches = tuple([said.launches for said in (user, project) if said.launches is not None])
    if project.launches is not None:
        merged.project_launches = (project.file, project.launches)
    _merge_sandbox(merged, user, project)
    merged.user_env, merged.project_env = user.env, project.env
    merged.setup = project.setup
    for setting in [f"setup.{key}" for key in SETUP_KEYS] if project.setup is not None else ():
        if setting in project.lines:
            merged.sources[setting] = project.source(setting)
    return merged


def _take(merged: Settings, said: FileSettings, setting: str) -> None:
    """What a file says, if it says anything, in place of what was said before."""
    value = getattr(said, FIELDS[setting])
    if value is not None:
        setattr(merged, FIELDS[setting], value)
        merged.sources[setting] = said.source(setting)


def _tighten(merged: Settings, project: FileSettings, setting: str, strictness: Callable[[Any], int]) -> None:
    """What a project says, if that is stricter than what was said before."""
    value, before = getattr(project, FIELDS[setting]), getattr(merged, FIELDS[setting])
    if value is None or value == before:
        return
    if strictness(value) > strictness(before):
        _take(merged, project, setting)
    else:
        merged.ignored += ((setting, str(value), project.source(setting)),)


def _merge_shell(merged: Settings, user: FileSettings, project: FileSettings, codex: FileSettings) -> None:
    _take(merged, user, "shell.startup")
    _tighten(merged, project, "shell.startup", STARTUPS.index)
    _take(merged, user, "shell.descendants")
    _tighten(merged, project, "shell.descendants", DESCENDANTS.index)
    # Where startup files are let in, a login shell is no wonder; where they are kept out, it is pointless.
    merged.login = "strip" if merged.startup == "enforce" else "allow"
    _take(merged, codex, "shell.login")
    _take(merged, user, "shell.login")
    _tighten(merged, project, "shell.login", LOGINS.index)


def _merge_policies(merged: Settings, user: FileSettings, project: FileSettings, codex: FileSettings) -> None:
    merged.user_policy = user.policy if codex.policy is None else _over(codex.policy, user.policy)
    if merged.user_policy is not None:
        for rule in POLICY_RULES:
            merged.sources[f"shell_environment_policy.{rule}"] = merged.user_policy.source(rule)
    merged.project_policy = project.policy
    _take(merged, user, "shell_environment_policy.allow_from")
    merged.allow_from = frozenset(merged.allow_from)


def _over(imported: PolicySettings, own: PolicySettings | None) -> PolicySettings:
    """One policy of two: each rule as the user's own file has it, else as the imported one does."""
    if own is None:
        return imported
    said = {rule: getattr(own if rule in own.rules else imported, rule) for rule in POLICY_RULES}
    rules = {
        rule: source for rule, source in imported.rules.items() if rule.partition(" ")[0] not in own.rules
    }
    return PolicySettings(own.file, **said, rules={**rules, **own.rules})


def _merge_names(merged: Settings, user: FileSettings, project: FileSettings) -> None:
    merged.list_names = frozenset(_names(merged, "names.lists", user, project))
    merged.secret_names = tuple(_names(merged, "names.secret", user, project))
    merged.allow_code_loading = {producer: frozenset(names) for producer, names in user.allow_code_loading}
    _place(merged, user, "names.allow_code_loading", list(merged.allow_code_loading))


def _names(merged: Settings, setting: str, *files: FileSettings) -> dict[str, None]:
    """The names of all files, each where it stands first."""
    found: dict[str, None] = {}
    for said in files:
        names: tuple[str, ...] = getattr(said, FIELDS[setting])
        for name in names:
            if name not in found:
                found[name] = None
                merged.sources[f"{setting}.{name}"] = said.source(f"{setting}.{name}")
        if names and merged.sources[setting] == DEFAULT:
            merged.sources[setting] = said.source(setting)
    return found


def _place(merged: Settings, said: FileSettings, setting: str, entries: Sequence[str]) -> None:
    """Where a setting with entries stands, and where each of them."""
    for name in (setting, *(f"{setting}.{entry}" for entry in entries)) if entries else ():
        merged.sources[name] = said.source(name)


def _merge_overlays(merged: Settings, user: FileSettings, project: FileSettings) -> None:
    """Those of both files; of two with one name the user's, who may have allowed it more than a project."""
    for said in (user, project):
        for name, overlay in said.overlays.items():
            setting = f"overlays.{name}"
            if name not in merged.overlays:
                merged.overlays[name] = (said.kind, overlay)
                merged.sources[setting] = said.source(setting)
            else:
                merged.ignored += ((setting, "(an overlay)", said.source(setting)),)


def _merge_sandbox(merged: Settings, user: FileSettings, project: FileSettings) -> None:
    """Both are kept: what a command asks for decides what the project's leaves of it. What takes nothing away
    from the user's own is ignored in any case."""
    merged.user_sandbox, merged.project_sandbox = user.sandbox, project.sandbox
    for said in (user.sandbox, project.sandbox):
        for key in SANDBOX_KEYS if said is not None else ():
            if said is not None and key in said.places:
                merged.sources[f"sandbox.{key}"] = said.places[key]
    if user.sandbox is not None and project.sandbox is not None and user.sandbox.mode is not None:
        from ..core.permissions import covers
        from ..core.sandbox import domain_covers

        mine, theirs = user.sandbox, project.sandbox
        if theirs.mode is not None:
            if SANDBOX_MODES.index(theirs.mode) < SANDBOX_MODES.index(user.sandbox.mode):
                merged.ignored += (("sandbox.mode", theirs.mode, theirs.source("mode")),)
                merged.sources["sandbox.mode"] = mine.source("mode")
            for path in theirs.allow_write:
                folder = theirs.file.rpartition("/")[0]
                inner = mine.mode == "workspace-write" and covers(folder, path)
                if not inner and mine.mode != "full-access" and not _any(covers, mine.allow_write, path):
                    merged.ignored += (("sandbox.allow_write", path, theirs.source(f"allow_write {path}")),)
            for name in theirs.allow_domain:
                everywhere = mine.mode == "full-access" and not mine.allow_domain
                if not everywhere and not _any(domain_covers, mine.allow_domain, name):
                    merged.ignored += (("sandbox.allow_domain", name, theirs.source(f"allow_domain {name}")),)
    for setting, values in (("sandbox.setup", CONFINED_SETUPS), ("sandbox.providers", CONFINED_PROVIDERS)):
        _take(merged, user, setting)
        _tighten(merged, project, setting, values.index)


def _any(covers: Callable[[str, str], bool], wide: Sequence[str], narrow: str) -> bool:
    return any(covers(one, narrow) for one in wide)


def _merge_providers(merged: Settings, user: FileSettings, project: FileSettings) -> None:
    """The nearest word counts: a project knows what it is made of. What runs must be trusted all the same."""
    for said in (user, project):
        _take(merged, said, "providers.use")
        _take(merged, said, "providers.timeout")
        if said.required_providers:
            merged.required_providers |= frozenset(said.required_providers)
            merged.sources["providers.required"] = said.source("providers.required")
        for id, options in said.provider_options.items():
            merged.provider_options[id] = {**merged.provider_options.get(id, {}), **options}
            for key in options:
                setting = f"providers.{id}" if key == "values" else f"providers.{id}_{key}"
                merged.sources[setting] = said.source(setting)
        modes = dict(said.provider_modes)
        for id, mode in said.provider_modes.items():
            if mode == "wrap" and said.kind == "project" and merged.provider_modes.get(id) != "wrap":
                # What starts every command is a person's choice.
                setting = f"providers.modes.{id}"
                merged.ignored += ((setting, mode, said.source(setting)),)
                del modes[id]
        merged.provider_modes.update(modes)
        _place(merged, said, "providers.modes", list(modes))
    merged.providers = _used(merged)
    merged.needed_providers = frozenset(project.required_providers)
    if user.allowed_providers is not None:
        merged.allowed_providers = frozenset(user.allowed_providers)
        merged.sources["providers.allow"] = user.source("providers.allow")
    _take(merged, user, "providers.freeze")
    _take(merged, user, "providers.on_failure")
    _tighten(merged, project, "providers.on_failure", ON_FAILURES.index)


def _used(merged: Settings) -> tuple[str, ...] | None:
    """The providers in use: each once, and beside `auto` also those that are only ever configured.

    Who says which file, program or container is meant wants it to be used.
    """
    used = merged.providers
    if used is not None and AUTO not in used:
        return tuple(dict.fromkeys(used))
    configured = [id for id in CONFIGURED if merged.provider_options.get(id, {}).get("values")]
    if used is None:
        # `command` is the outermost of all, so it is below the others.
        before, after = [id for id in configured if id == "command"], [*configured]
        return tuple(dict.fromkeys((*before, AUTO, *after))) if configured else None
    return tuple(dict.fromkeys((*used, *configured)))
