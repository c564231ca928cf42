"""outfitter config: what the files say and where, their schema, and a Codex file in our words."""

from __future__ import annotations

import os
import sys
from json import dumps
from typing import TYPE_CHECKING, Any

from ..contract.config import load, read_file
from ..contract.schema import json_schema
from ..contract.selection import check_names
from ..contract.settings import (
    POLICY_RULES,
    SANDBOX_KEYS,
    SANDBOX_MODES,
    SETUP_KEYS,
    PolicySettings,
    Source,
)
from ..env.names import is_name
from ..errors import SettingInvalid
from ..places import codex_file
from .env.output import printable
from .table import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..contract.settings import EnvSettings, FileSettings, Settings

    Row = tuple[str, object, Source, bool]  # setting, value, where from, whether it is a variable's value

_HIDDEN = "(hidden)"
_NONE = "(none)"


# show


def show(flags: dict[str, Any]) -> int:
    """Prints every setting with its origin; returns the exit status. Raises FileInvalid, SettingInvalid."""
    settings = load(os.environ, flags["cwd"] or os.getcwd())
    check_names(settings)
    rows = list(_rows(settings))
    if flags["json"]:
        print(dumps(_as_json(settings, rows, with_values=flags["values"]), indent=2))
        return 0
    for path, kind, exists in settings.files:
        print(f"{kind}: {printable(path)}{'' if exists else ' (does not exist)'}")
    if not any(kind == "project" for _, kind, _ in settings.files):
        print("project: no outfitter.toml")
    print()
    lines = [
        (setting, _shown(value) if flags["values"] or not is_value else _HIDDEN, str(source))
        for setting, value, source, is_value in rows
    ]
    print(table(("SETTING", "VALUE", "FROM"), lines))
    for setting, value, source in settings.ignored:
        why = "is ignored: a project's file cannot loosen a setting"
        print(f"\n{printable(f'{source}: {setting} = {value}')} {why}")
    if settings.descendants == "mask" and os.geteuid() != 0:
        from ..contract.doctor.shell import SETUID

        source = settings.sources["shell.descendants"]
        print(f"\n{printable(f'{source}: shell.descendants = mask')}: {SETUID}")
    return 0


def _rows(settings: Settings) -> Iterator[Row]:
    plain = {
        "shell.login": settings.login,
        "shell.startup": settings.startup,
        "shell.descendants": settings.descendants,
        "shell.snapshot": settings.snapshot,
        "shell.snapshot_timeout": settings.snapshot_timeout,
        "daemon.environment": settings.daemon_environment,
        "notices.stock": settings.stock_notices,
        "trace.commands": settings.trace_commands,
        "sandbox.setup": settings.confined_setup,
        "sandbox.providers": settings.confined_providers,
        "limits.total_bytes": settings.total_bytes,
        **_projects(settings),
    }
    yield from _plain(settings, plain)
    yield from _sandbox(settings)
    for setting, names in (
        ("names.lists", sorted(settings.list_names)),
        ("names.secret", list(settings.secret_names)),
    ):
        # One row for each: they can come from two files.
        for name in names:
            yield setting, name, settings.sources[f"{setting}.{name}"], False
        if not names:
            yield from _plain(settings, {setting: []})
    allowed = settings.allow_code_loading.items()
    loading = {f"names.allow_code_loading.{producer}": sorted(names) for producer, names in allowed}
    yield from _plain(settings, loading or {"names.allow_code_loading": []})
    imported = next((path for path, kind, _ in settings.files if kind == "codex"), False)
    yield from _plain(settings, {"import.codex": imported})
    yield from _policy(settings.user_policy or PolicySettings(""), all_of_it=True)
    yield from _plain(settings, {"shell_environment_policy.allow_from": sorted(settings.allow_from)})
    if settings.project_policy is not None:
        yield from _policy(settings.project_policy, all_of_it=False)
    if settings.project_env is not None:
        yield from _env(settings.project_env, "project")
    if settings.user_env is not None:
        yield from _env(settings.user_env, "user")
    for name, (kind, overlay) in settings.overlays.items():
        yield from _env(overlay, kind, f"overlays.{name}")


def _sandbox(settings: Settings) -> Iterator[Row]:
    """What each file says about it: a command's own word decides what comes of both."""
    several = [said for said in (settings.user_sandbox, settings.project_sandbox) if said is not None]
    if not any(said.mode for said in several):
        yield from _plain(settings, {"sandbox.mode": SANDBOX_MODES[0]})
    for said in several:
        if said.mode is not None:
            yield "sandbox.mode", said.mode, said.source("mode"), False
        for key in SANDBOX_KEYS[1:]:
            for entry in getattr(said, key):
                yield f"sandbox.{key}", entry, said.source(f"{key} {entry}"), False


def _plain(settings: Settings, values: Mapping[str, object]) -> Iterator[Row]:
    """Settings that come from one place each."""
    for setting, value in values.items():
        yield setting, value, settings.sources[setting], False


def _projects(settings: Settings) -> dict[str, object]:
    used, allowed = settings.providers, settings.allowed_providers
    found: dict[str, object] = {
        "providers.use": ["auto"] if used is None else list(used),
        "providers.allow": ["all"] if allowed is None else sorted(allowed),
        "providers.required": sorted(settings.required_providers),
        "providers.on_failure": settings.on_provider_failure,
        "providers.timeout": settings.provider_timeout or "each its own",
        "providers.freeze": settings.freeze,
    }
    for id, options in settings.provider_options.items():
        for key, value in options.items():
            setting = f"providers.{id}" if key == "values" else f"providers.{id}_{key}"
            found[setting] = list(value) if isinstance(value, tuple) else value
    for id, mode in settings.provider_modes.items():
        found[f"providers.modes.{id}"] = mode
    for key in SETUP_KEYS:
        if f"setup.{key}" in settings.sources and settings.sources[f"setup.{key}"].file:
            value = getattr(settings.setup, "source" if key == "from" else key)
            found[f"setup.{key}"] = list(value) if isinstance(value, tuple) else value
    return found


def _policy(policy: PolicySettings, *, all_of_it: bool) -> Iterator[Row]:
    """Its rules, with `all_of_it` those too that are the defaults."""
    for rule in POLICY_RULES:
        if not all_of_it and rule not in policy.rules:
            continue
        setting = f"shell_environment_policy.{rule}"
        value = getattr(policy, rule)
        if value == ():
            yield setting, [], policy.source(rule), False
        elif rule == "set":
            for name, text in value:
                yield f"{setting}.{name}", text, policy.source(f"set {name}"), True
        elif isinstance(value, tuple):
            for pattern in value:
                yield setting, pattern, policy.source(f"{rule} {pattern}"), False
        else:
            yield setting, value, policy.source(rule), False


def _env(env: EnvSettings, kind: str, table: str = "env") -> Iterator[Row]:
    for name, value, line in env.set:
        yield f"{table}.set.{name}", value, Source(env.file, line, kind), True
    for name, line in env.unset:
        yield f"{table}.unset", name, Source(env.file, line, kind), False
    for variable, op, values, line in env.operations:
        yield f"{table}.{op}.{variable}", list(values), Source(env.file, line, kind), False


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(value) or _NONE
    return str(value)


def _as_json(settings: Settings, rows: list[Row], *, with_values: bool) -> dict[str, object]:
    return {
        "files": [{"path": path, "kind": kind, "exists": exists} for path, kind, exists in settings.files],
        "settings": [
            {
                "setting": setting,
                "value": value if with_values or not is_value else None,
                "hidden": is_value and not with_values,
                **_place(source),
            }
            for setting, value, source, is_value in rows
        ],
        "ignored": [
            {"setting": setting, "value": value, **_place(source)}
            for setting, value, source in settings.ignored
        ],
    }


def _place(source: Source) -> dict[str, object]:
    return {"kind": source.kind, "file": source.file or None, "line": source.line}


# schema


def schema() -> int:
    """Prints the JSON Schema of the files."""
    print(dumps(json_schema(), indent=2))
    return 0


# import-codex


def import_codex(file: str | None, flags: dict[str, Any]) -> int:
    """Prints what a Codex config.toml says, as ours says it. Raises SettingInvalid."""
    path = os.path.abspath(codex_file(os.environ) if file is None else file)
    found = read_file(path, "codex", os.environ.get("HOME"))
    if found is None:
        raise SettingInvalid(f"{path} does not exist: give the path of Codex's config.toml")
    if flags["json"]:
        print(dumps(_codex_told(path, found)))
        return 0
    lines = [f"# From {_comment(path)}"]
    if found.login is not None:
        lines.append(f"allow_login_shell = {_toml(found.login == 'allow')}")
    if found.policy is not None:
        lines += ["", "[shell_environment_policy]", *policy_lines(found.policy)]
    if len(lines) == 1:
        lines.append("# The file has neither allow_login_shell nor [shell_environment_policy].")
    # TOML is UTF-8, whatever the locale says.
    sys.stdout.buffer.write(("\n".join(lines) + "\n").encode())
    return 0


def _codex_told(path: str, found: FileSettings) -> dict[str, object]:
    told: dict[str, object] = {"file": path}
    if found.login is not None:
        told["allow_login_shell"] = found.login == "allow"
    policy = found.policy
    if policy is not None:
        rules = {rule: getattr(policy, rule) for rule in POLICY_RULES if rule in policy.rules}
        told["shell_environment_policy"] = {**rules, "set": dict(policy.set)} if "set" in rules else rules
    return told


def policy_lines(policy: PolicySettings) -> Iterator[str]:
    """A [shell_environment_policy] as TOML: the rules that it says, each on a line."""
    for rule in POLICY_RULES:
        if rule in policy.rules and rule != "set":
            yield f"{rule} = {_toml(getattr(policy, rule))}"
    if "set" not in policy.rules:
        return
    for name, _ in policy.set:
        if not is_name(name):
            yield f"# Left out, because shells drop variables with this name: {_comment(name)}"
    pairs = [f"{name} = {_toml(value)}" for name, value in policy.set if is_name(name)]
    yield f"set = {{ {', '.join(pairs)} }}" if pairs else "set = {}"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    # JSON's strings are TOML's but for this character.
    return dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _comment(text: str) -> str:
    return text if text.isprintable() else dumps(text)
