"""The configuration files put together. A project's file can make things stricter, never looser."""

from __future__ import annotations

from .settings import (
    DEFAULT,
    LOGINS,
    ON_FAILURES,
    POLICY_RULES,
    SETUP_KEYS,
    STARTUPS,
    USERS,
    PolicySettings,
    Settings,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .settings import FileSettings


def merge(
    user: FileSettings | None,
    project: FileSettings | None,
    codex: FileSettings | None = None,
    *,
    files: Sequence[tuple[str, str, bool]] = (),
) -> Settings:
    """Puts the files together. `codex` is what the user's file imports: it fills what that does not say."""
    merged = Settings()
    merged.files = tuple(files)
    for setting, name in USERS.items():
        if user is not None and (value := getattr(user, name)) is not None:
            setattr(merged, name, value)
            merged.sources[setting] = user.source(setting)
    if user is not None and user.import_codex is not None:
        merged.sources["import.codex"] = user.source("import.codex")
    _merge_shell(merged, user, project, codex)
    _merge_policies(merged, user, project, codex)
    _merge_names(merged, user, project)
    _merge_limits(merged, user, project)
    _merge_providers(merged, user, project)
    _merge_overlays(merged, user, project)
    merged.user_env = None if user is None else user.env
    merged.project_env = None if project is None else project.env
    if project is not None and project.setup is not None:
        merged.setup = project.setup
        for key in SETUP_KEYS:
            if f"setup.{key}" in project.lines:
                merged.sources[f"setup.{key}"] = project.source(f"setup.{key}")
    return merged


def _merge_shell(
    merged: Settings, user: FileSettings | None, project: FileSettings | None, codex: FileSettings | None
) -> None:
    if user is not None and user.startup is not None:
        merged.startup = user.startup
        merged.sources["shell.startup"] = user.source("shell.startup")
    if project is not None and project.startup is not None:
        _tighten(merged, "startup", STARTUPS, project.startup, project)
    # Where startup files are let in, a login shell is no wonder; where they are kept out, it is pointless.
    merged.login = "strip" if merged.startup == "enforce" else "allow"
    for said in (codex, user):
        if said is not None and said.login is not None:
            merged.login = said.login
            merged.sources["shell.login"] = said.source("shell.login")
    if project is not None and project.login is not None:
        _tighten(merged, "login", LOGINS, project.login, project)


def _tighten(merged: Settings, name: str, order: tuple[str, ...], said: str, project: FileSettings) -> None:
    setting = f"shell.{name}"
    source = project.source(setting)
    if order.index(said) > order.index(getattr(merged, name)):
        setattr(merged, name, said)
        merged.sources[setting] = source
    elif said != getattr(merged, name):
        merged.ignored += ((setting, said, source),)


def _merge_policies(
    merged: Settings, user: FileSettings | None, project: FileSettings | None, codex: FileSettings | None
) -> None:
    own = None if user is None else user.policy
    imported = None if codex is None else codex.policy
    merged.user_policy = own if imported is None else _over(imported, own)
    if merged.user_policy is not None:
        for rule in POLICY_RULES:
            merged.sources[f"shell_environment_policy.{rule}"] = merged.user_policy.source(rule)
    merged.project_policy = None if project is None else project.policy
    if user is not None and user.allow_from is not None:
        setting = "shell_environment_policy.allow_from"
        merged.allow_from = frozenset(user.allow_from)
        merged.sources[setting] = user.source(setting)


def _over(imported: PolicySettings, own: PolicySettings | None) -> PolicySettings:
    """One policy of two: each rule as the user's own file has it, else as the imported one does."""
    if own is None:
        return imported
    said = {rule: getattr(own if rule in own.rules else imported, rule) for rule in POLICY_RULES}
    rules = {
        rule: source for rule, source in imported.rules.items() if rule.partition(" ")[0] not in own.rules
    }
    return PolicySettings(own.file, **said, rules={**rules, **own.rules})


def _merge_names(merged: Settings, user: FileSettings | None, project: FileSettings | None) -> None:
    lists: dict[str, None] = {}
    secret: dict[str, None] = {}
    for said in (user, project):
        if said is None:
            continue
        for setting, names, found in (
            ("names.lists", said.list_names, lists),
            ("names.secret", said.secret_names, secret),
        ):
            for name in names:
                if name not in found:
                    found[name] = None
                    merged.sources[f"{setting}.{name}"] = said.source(f"{setting}.{name}")
            if names and merged.sources[setting] == DEFAULT:
                merged.sources[setting] = said.source(setting)
    merged.list_names = frozenset(lists)
    merged.secret_names = tuple(secret)
    if user is not None and user.allow_code_loading:
        merged.allow_code_loading = {
            producer: frozenset(names) for producer, names in user.allow_code_loading
        }
        setting = "names.allow_code_loading"
        for entry in ("", *(f".{producer}" for producer in merged.allow_code_loading)):
            merged.sources[setting + entry] = user.source(setting + entry)


def _merge_limits(merged: Settings, user: FileSettings | None, project: FileSettings | None) -> None:
    setting = "limits.total_bytes"
    if user is not None and user.total_bytes is not None:
        merged.total_bytes = user.total_bytes
        merged.sources[setting] = user.source(setting)
    if project is not None and project.total_bytes is not None:
        source = project.source(setting)
        if project.total_bytes < merged.total_bytes:
            merged.total_bytes = project.total_bytes
            merged.sources[setting] = source
        elif project.total_bytes > merged.total_bytes:
            merged.ignored += ((setting, str(project.total_bytes), source),)


def _merge_overlays(merged: Settings, user: FileSettings | None, project: FileSettings | None) -> None:
    """Those of both files; of two with one name the user's, who may have allowed it more than a project."""
    for said in (one for one in (user, project) if one is not None):
        for name, overlay in said.overlays.items():
            setting = f"overlays.{name}"
            if name not in merged.overlays:
                merged.overlays[name] = (said.kind, overlay)
                merged.sources[setting] = said.source(setting)
            else:
                merged.ignored += ((setting, "(an overlay)", said.source(setting)),)


def _merge_providers(merged: Settings, user: FileSettings | None, project: FileSettings | None) -> None:
    """The nearest word counts: a project knows what it is made of. What runs must be trusted all the same."""
    for said in (user, project):
        if said is None:
            continue
        if said.providers is not None:
            merged.providers = said.providers
            merged.sources["providers.use"] = said.source("providers.use")
        if said.required_providers:
            merged.required_providers |= frozenset(said.required_providers)
            if said is project:
                merged.needed_providers = frozenset(said.required_providers)
            merged.sources["providers.required"] = said.source("providers.required")
        merged.provider_options.update(said.provider_options)
        if said.provider_timeout is not None:
            merged.provider_timeout = said.provider_timeout
            merged.sources["providers.timeout"] = said.source("providers.timeout")
        merged.provider_modes.update(said.provider_modes)
        for entry in ("", *(f".{id}" for id in said.provider_modes)) if said.provider_modes else ():
            merged.sources["providers.modes" + entry] = said.source("providers.modes" + entry)
    if user is not None and user.allowed_providers is not None:
        merged.allowed_providers = frozenset(user.allowed_providers)
        merged.sources["providers.allow"] = user.source("providers.allow")
    setting = "providers.on_failure"
    if user is not None and user.on_provider_failure is not None:
        merged.on_provider_failure = user.on_provider_failure
        merged.sources[setting] = user.source(setting)
    if project is not None and (said_there := project.on_provider_failure) is not None:
        if ON_FAILURES.index(said_there) > ON_FAILURES.index(merged.on_provider_failure):
            merged.on_provider_failure = said_there
            merged.sources[setting] = project.source(setting)
        elif said_there != merged.on_provider_failure:
            merged.ignored += ((setting, said_there, project.source(setting)),)
