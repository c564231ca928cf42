"""The questions about an environment, and their answers as JSON objects.

The library, the command line and the wire all answer from here, so that they cannot differ. What each
function returns does the work: it touches nothing that others use, so it may run in a thread.
"""

from __future__ import annotations

import os

from ..env.diff import diff, encode
from ..env.explain import View, one_line, secret_pairs, shown, summary
from ..env.explain import explain as tell
from ..env.redact import Secrets, mask_pairs
from ..errors import LimitExceeded
from .contract import fingerprints
from .programs import find, look_up

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from ..env.resolve import Resolved
    from .base import Base
    from .contract import Asked, Contract
    from .settings import Settings

    # What docs/reference/env-json.md describes; `protocol.documents` has it as types.
    Json = Any


# Secrets times characters that are looked through for them: half a second. A machine with 200 secrets among
# half a megabyte of values has less.
MAX_MASKING = 128 << 20


def resolve(
    contract: Contract,
    asked: Asked,
    show: str = "names",
    *,
    base: Base | None = None,
    digest_key: bytes | None = None,
) -> Callable[[], Json]:
    """What a command would get: its variables, whose they are in one line, and fingerprints.

    Raises FileInvalid; what is returned raises EnvironmentTooLarge and LimitExceeded.
    """
    ready = contract.ready(asked, base)
    settings = contract.settings(asked.cwd)
    key, used = contract.key, base or contract.base

    def tell() -> Json:
        resolved = contract.environment(ready)
        # As `explain` sees it: a secret is one wherever it was on the way, and wherever else it occurs.
        pairs = secret_pairs(resolved.history()[0], resolved, Secrets(settings.secret_names))
        hidden = {name for name, _ in pairs}
        if show == "values":
            _check_masking(pairs, resolved.values)
        variables: Json = {}
        for name in sorted(resolved.values):
            value = resolved.values[name]
            entry: Json = {"secret": name in hidden}
            if show == "secrets":
                entry["value"] = shown(value)
            elif show == "values" and name not in hidden:
                entry["value"] = shown(mask_pairs(value, pairs))
            if digest_key is not None:
                from ..env.fingerprint import value_digest

                entry["digest"] = value_digest(digest_key, name, value)
            variables[shown(name)] = entry
        env_fp, contract_fp = fingerprints(key, resolved)
        return {
            "base": used.describe(),
            "env_fp": env_fp,
            "contract_fp": contract_fp,
            "summary": one_line(resolved, used.kind),
            "layers": summary(resolved, used.kind, env_fp, contract_fp)["layers"],
            "variables": variables,
        }

    return tell


def explain(
    contract: Contract,
    asked: Asked,
    show: str = "names",
    *,
    base: Base | None = None,
    programs: Sequence[str] = (),
    login: bool = False,
    mark: int | None = None,
) -> Callable[[], Json]:
    """Why each variable is what it is, and where those that are missing went.

    `programs` are looked up in PATH. `login` also asks a login shell what it would make of this environment:
    that runs the user's startup files, and blocks. `mark` is what the shell carries (see `providers.login`).
    Raises FileInvalid; what is returned raises EnvironmentTooLarge and LimitExceeded.
    """
    ready = contract.ready(asked, base)
    settings = contract.settings(asked.cwd)
    key, used = contract.key, base or contract.base

    def wait() -> Json:
        resolved = contract.resolved(ready)
        told = _explain(resolved, settings, asked.cwd, show, used, key, programs)
        if asked.kind:
            from .kinds import told as launch_told

            told["launch"] = launch_told(asked.kind, asked.env, settings, resolved)
        if login:
            told["loginShell"] = _under_login_shell(resolved, settings, asked.cwd, programs, mark)
        return told

    return wait


def _explain(
    resolved: Resolved,
    settings: Settings,
    cwd: str,
    show: str,
    used: Base,
    key: bytes,
    programs: Sequence[str],
) -> Json:
    secrets = Secrets(settings.secret_names)
    if show != "secrets":
        # With names alone, the entries of lists are shown.
        lists = resolved.stack.rules.list_names
        texts = {name: value for name, value in resolved.values.items() if show == "values" or name in lists}
        _check_masking(secrets.among(resolved.values), texts)
    view = View(secrets, show, exists=os.path.isdir, workspace=cwd)
    told = tell(resolved, view, used.describe(), *fingerprints(key, resolved))
    told["summary"] = one_line(resolved, used.kind)
    told["cwd"] = shown(cwd)
    told["shell"] = {"login": settings.login, "startup": settings.startup, "snapshot": settings.snapshot}
    told["files"] = [
        {"path": shown(path), "kind": kind, "exists": exists} for path, kind, exists in settings.files
    ]
    variables = told["variables"]
    if programs:
        told["programs"] = {name: look_up(name, resolved.values, cwd, variables) for name in programs}
    return told


def _check_masking(secrets: Sequence[tuple[str, str]], texts: Mapping[str, str]) -> None:
    """Raises LimitExceeded where it would take too long to look for every secret in every text."""
    work = len(secrets) * sum(map(len, texts.values()))
    if work > MAX_MASKING:
        raise LimitExceeded(
            f"{len(secrets)} secrets to be hidden in the values",
            work,
            MAX_MASKING,
            "comparisons",
            "ask with fewer variables, or with `show` as `names` and shorter lists",
        )


def compare(
    contract: Contract, a: Asked, b: Asked, *, base_a: Base | None = None, base_b: Base | None = None
) -> Callable[[], Json]:
    """The differences between two environments of this executor.

    Raises FileInvalid; what is returned raises EnvironmentTooLarge and LimitExceeded.
    """
    ready_a, ready_b = contract.ready(a, base_a), contract.ready(b, base_b)
    settings = contract.settings(a.cwd)

    def tell() -> Json:
        one, other = contract.environment(ready_a), contract.environment(ready_b)
        return {"differences": _differences(one.values, other.values, one, settings)}

    return tell


def _under_login_shell(
    resolved: Resolved, settings: Settings, cwd: str, programs: Sequence[str], mark: int | None
) -> Json:
    from .snapshot import ask

    found = ask("loginShell", resolved.values, settings.snapshot_timeout, mark)
    told: Json = {"shell": found.shell, "state": found.state, "seconds": round(found.seconds, 3)}
    if found.state != "captured":
        told["reason"] = found.reason
        return told
    told["differences"] = _differences(resolved.values, found.values, resolved, settings)
    if programs:
        paths = {name: find(name, found.values, cwd) for name in programs}
        told["programs"] = {
            name: {"path": None if path is None else shown(path)} for name, path in paths.items()
        }
    return told


def _differences(
    a: Mapping[str, str], b: Mapping[str, str], resolved: Resolved, settings: Settings
) -> list[object]:
    names = resolved.stack.rules.list_names
    secrets = Secrets(settings.secret_names)
    hidden = [*secrets.among(a), *secrets.among(b)]
    _check_masking(hidden, {name: a.get(name, "") + b.get(name, "") for name in names})
    return [encode(one, hidden=hidden) for one in diff(a, b, list_names=names, secrets=secrets)]
