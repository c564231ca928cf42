"""Our own store of trust, for providers that have none: what a person has seen and allowed, bound to content.

One small file per project and provider, private. A grant is valid for one digest: whoever edits what was
allowed must ask again.
"""

from __future__ import annotations

import os
import time

from ..errors import SettingInvalid
from ..providers.base import Trust
from ..providers.manifests import typed
from ..record import record
from ..stdlib import encode_basestring_ascii, json_scanner, sha256
from . import privatefile
from .config import PASSING
from .settings import EnvSettings
from .worktree import source_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from .settings import Settings

_LARGEST = 16 << 10  # a grant is a few hundred bytes
# Without the module `json`, whose import takes 7 ms of CPU: a project that is allowed something waits for it.
_scan = json_scanner(dict, int, float)
# What it raises. The last one up to 3.12, where it looks for an error of `json` that is not imported.
_NOT_JSON = (StopIteration, ValueError, SystemError)


@record
class Grant:
    """What was allowed: `provider` may run what `digest` stands for, in the project at `root`."""

    provider: str
    root: str
    digest: str
    granted_ms: int


PROJECT = "project"  # in place of a provider's name: the variables that a project's outfitter.toml sets


@record
class Tables:
    """The tables of a project's outfitter.toml that set variables, and their digest.

    That is `[env]`, what a policy sets, overlays, and what launches of agents are given.
    """

    root: str
    tables: tuple[tuple[str, EnvSettings], ...]
    digest: str


def tables_of(settings: Settings) -> Tables | None:
    """None where no project's file sets any."""
    tables = [("[env]", settings.project_env)] if settings.project_env is not None else []
    tables += [
        (f"[overlays.{name}]", table)
        for name, (kind, table) in sorted(settings.overlays.items())
        if kind == "project"
    ]
    policy = settings.project_policy
    if policy is not None and policy.set:
        values = tuple((name, value, 0) for name, value in policy.set)
        tables.append(("[shell_environment_policy]", EnvSettings(policy.file, set=values)))
    if settings.project_launches is not None:
        file, launches = settings.project_launches
        for kind in launches.kinds:
            given = launches.baseline(kind, "{backend}").items()
            if given:
                values = tuple((name, value, 0) for name, value in given)
                tables.append((f"[agents.kinds.{kind.name}]", EnvSettings(file, set=values)))
    if not tables:
        return None
    root = os.path.dirname(tables[0][1].file)
    told = [
        (
            name,
            *told_effects(
                root,
                [(one, value) for one, value, _ in table.set],
                [one for one, _ in table.unset],
                [(variable, op, values) for variable, op, values, _ in table.operations],
            ),
            *([table.kinds] if table.kinds else []),  # whose commands have it without asking
        )
        for name, table in tables
    ]
    return Tables(root, tuple(tables), digest_of(told))


def told_effects(
    root: str,
    values: Iterable[tuple[str, str]],
    unset: Iterable[str],
    lists: Iterable[tuple[str, str, Sequence[str]]],
) -> list[object]:
    """What is done to an environment, for a digest; the same in each checkout of a project."""

    def placed(value: str) -> str:
        return f"\0{value[len(root) :]}" if value == root or value.startswith(f"{root}/") else value

    return [
        [[name, placed(value)] for name, value in values],
        list(unset),
        [[variable, op, [placed(one) for one in given]] for variable, op, given in lists],
    ]


def digest_of(told: Sequence[object]) -> str:
    """Of lists and texts, written as `json.dumps` does it, which is not imported for it."""
    return f"sha256:{sha256(_written(told).encode()).hexdigest()}"


def _written(told: Any) -> str:
    return encode_basestring_ascii(told) if type(told) is str else f"[{', '.join(map(_written, told))}]"


class TrustStore:
    """The grants of one user."""

    def __init__(self, state_folder: str, used: Callable[[Grant], None] | None = None) -> None:
        self.folder = f"{state_folder}/trust"
        self._used = used  # gets every grant on whose strength something may run, in any thread

    def path(self, provider: str, root: str) -> str:
        """Where a grant stands; a provider's watch list has it, so that a new one is noticed."""
        name = sha256(f"{provider}\n{root}".encode("utf-8", "surrogateescape")).hexdigest()
        return f"{self.folder}/{name}.json"

    def find(self, provider: str, root: str) -> Grant | None:
        """The grant for a project; None when there is none that could be ours."""
        try:
            grant = _at(self.path(provider, root))
        except OSError:
            return None
        return grant if grant is not None and (grant.provider, grant.root) == (provider, root) else None

    def holds(self, provider: str, root: str, digest: str) -> bool:
        """Whether exactly this content was allowed here."""
        grant = self.find(provider, root)
        return grant is not None and grant.digest == digest

    def trust(self, provider: str, root: str, digest: str, why: str = "") -> Trust:
        """Whether it may run, and what to type. A grant in the main checkout is offered, not taken."""
        granted = self.find(provider, root)
        if granted is not None and granted.digest == digest:
            if self._used is not None:
                self._used(granted)
            return Trust("trusted", "outfitter", digest)
        grant, main = f"outfitter trust {typed(root)}", source_tree(root)
        if main != root and self.holds(provider, main, digest):
            why = f"the same content is allowed in {main}: `{grant}` allows it here too"
        return Trust("untrusted", "outfitter", digest, grant, why)

    def grant(self, provider: str, root: str, digest: str) -> Grant:
        """Allows it, in place of what was allowed before. Raises SettingInvalid."""
        grant = Grant(provider, root, digest, int(time.time() * 1000))
        told = {"provider": provider, "root": root, "digest": digest, "grantedAtMs": grant.granted_ms}
        from json import dumps

        data = dumps(told).encode("utf-8", "surrogatepass")
        try:
            privatefile.write(self.path(provider, root), data, sync=True)
        except OSError as error:
            raise SettingInvalid(f"cannot write the grant to {self.folder}: {error.strerror}") from None
        return grant

    def revoke(self, provider: str, root: str) -> bool:
        """Takes a grant back; whether there was one. Raises SettingInvalid: then the grant is still valid."""
        try:
            os.unlink(self.path(provider, root))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise SettingInvalid(
                f"cannot revoke the grant, which is still valid: {self.folder}: {error.strerror}"
            ) from None
        return True

    def all(self) -> Iterator[Grant]:
        """Every grant, in the order of their projects. Raises SettingInvalid: there may be more."""
        found = []
        try:
            for name in os.listdir(self.folder):
                if name.endswith(".json"):
                    grant = _at(f"{self.folder}/{name}")
                    # One under another's name is valid for nobody.
                    if grant is not None and self.path(grant.provider, grant.root) == f"{self.folder}/{name}":
                        found.append(grant)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise SettingInvalid(f"cannot read the grants in {self.folder}: {error.strerror}") from None
        yield from sorted(found, key=lambda grant: (grant.root, grant.provider))


def blocked(trust: Trust) -> str:
    """What to do about what nobody has allowed."""
    if not trust.grant:
        return trust.why
    # The reason says it all where it says what to type.
    why = trust.why if trust.grant in trust.why else f"read its files, then type: {trust.grant}"
    return f"not trusted: {why}"


def _at(path: str) -> Grant | None:
    """A grant; None where there is none that could be ours. Raises OSError where that cannot be told now."""
    try:
        text = privatefile.read(path, _LARGEST).decode("utf-8", "surrogatepass").strip()
        told, end = _scan(text, 0)
        grant = Grant(told["provider"], told["root"], told["digest"], told["grantedAtMs"])
    except (privatefile.NotOurs, *_NOT_JSON, KeyError, TypeError):
        return None
    except OSError as error:
        if error.errno in PASSING:
            raise
        return None
    if end != len(text):
        return None
    texts = (grant.provider, grant.root, grant.digest)
    return grant if all(type(text) is str for text in texts) else None
