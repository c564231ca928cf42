"""Where the words of `env set`, `env unset` and `env overlay` go: on disk for a worktree, or to a server."""

from __future__ import annotations

from functools import cached_property

from ...contract.keptoverlays import KeptOverlays
from ...contract.overlays import refusals
from ...contract.worktree import worktree_root
from ...env.overlay import Rejection, describe, encode, why_no_producer
from ...env.redact import Secrets
from ...errors import SettingInvalid
from .asking import as_for_run, folder_of, prepared, there
from .output import emit_json, printable, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...client.client import Client
    from ...contract.contract import Contract
    from ...contract.settings import Settings
    from ...env.overlay import Contribution
    from ...protocol.jsontext import Json
    from ..target import Target
    from ..wishes import Flags


def place(flags: Flags) -> KeptHere | KeptThere:
    """The place that the flags name: a session's, with --on and --scope. Raises SettingInvalid."""
    if flags["on"] is None or flags["on"] == "local":
        return KeptHere(folder_of(flags["dir"]))
    from ..target import named

    return KeptThere(named(flags), flags["scope"], flags["dir"])


class KeptHere:
    """The user's own words for one worktree, in a file of his."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._secret: list[tuple[str, str]] = []  # what references may have stood for
        self.where = printable(worktree_root(folder))

    @cached_property
    def _prepared(self) -> Contract:
        return prepared()

    @property
    def _kept(self) -> KeptOverlays:
        from ...host import facts, installkey

        environ = self._prepared.base.values
        return KeptOverlays(installkey.state_folder(environ, facts.home(environ)))

    @property
    def _settings(self) -> Settings:
        return self._prepared.settings(self._folder)

    def put(self, contribution: Contribution, *, merge: bool) -> list[Rejection]:
        """Raises OutfitterError."""
        _check(contribution)
        settings = self._settings
        refused = list(refusals(contribution, settings))
        contribution = contribution.without([one.name for one in refused])
        # A shell, or a file that is read, has put values of other variables into these.
        secret = self._secret + Secrets(settings.secret_names).among(self._prepared.base.values)
        put = self._kept.put(self._folder, contribution, settings, merge=merge, secret=secret)
        return [*refused, *put]

    def drop(self, producer: str, names: tuple[str, ...] = ()) -> bool:
        return self._kept.drop(self._folder, producer, names)

    def told(self) -> Json:
        settings = self._settings
        found = self._kept.overlay(self._folder).contributions
        return {
            "root": self.where,
            "contributions": [describe(one) for one in found],
            "named": [
                {"name": name, "kind": kind, "file": said.file}
                for name, (kind, said) in settings.overlays.items()
            ],
        }

    def known(self, producer: str) -> dict[str, str]:
        """What references in a file may stand for: not what the same file has said before."""
        from ...contract.contract import Asked
        from ...env.explain import secret_pairs

        resolved = self._prepared.resolve(Asked(self._folder, {}))
        secrets = Secrets(self._settings.secret_names)
        self._secret = secret_pairs(resolved.history()[0], resolved, secrets)
        values = dict(resolved.values)
        former = self._kept.overlay(self._folder).get(producer)
        for name in () if former is None else former.names:
            values.pop(name, None)
        return values


class KeptThere:
    """A session of a running server."""

    def __init__(self, target: Target, scope: str, folder: str | None) -> None:
        self._target = target
        self._scope = scope
        self._folder = folder
        self.where = printable(f"{scope} on {target.name}")

    def put(self, contribution: Contribution, *, merge: bool) -> list[Rejection]:
        """Raises OutfitterError."""
        _check(contribution)
        told: Json = encode(contribution)
        producer = contribution.producer
        result = there(
            self._target, lambda client: client.put_overlay(self._scope, producer, **told, merge=merge)
        )
        return [
            Rejection(one["producer"], one["name"], one["reason"], one["why"]) for one in result["rejected"]
        ]

    def drop(self, producer: str, names: tuple[str, ...] = ()) -> bool:
        return there(self._target, lambda client: client.drop_overlay(self._scope, producer, names))

    def told(self) -> Json:
        told = there(self._target, lambda client: client.overlay(self._scope))
        return {"scope": self._scope, **told}

    def known(self, producer: str) -> dict[str, str]:
        """What commands get there, but for secrets and for what the same file has said before."""
        from ...client.environment import EnvContract

        async def ask(client: Client) -> dict[str, str]:
            contract = EnvContract(scope=self._scope)
            folder = await as_for_run(client, self._target, self._folder)
            told: Json = await client.environment(cwd=folder, contract=contract, show="values")
            listed: Json = await client.overlay(self._scope)
            gone = {
                name
                for one in listed["contributions"]
                if one["producer"] == producer
                for field in ("set", "unset", "prepend", "append", "remove")
                for name in one[field]
            }
            variables = told["variables"].items()
            return {name: one["value"] for name, one in variables if "value" in one and name not in gone}

        return there(self._target, ask)


def _check(contribution: Contribution) -> None:
    why = why_no_producer(contribution.producer)
    if why:
        raise SettingInvalid(f"{printable(contribution.producer)} is not a producer: {why}")


def report(rejected: list[Rejection]) -> int:
    """Says what was refused; returns the exit status."""
    for one in rejected:
        say(printable(str(one)))
    return 1 if rejected else 0


def tell(rejected: list[Rejection], told: dict[str, object], what: str, names: Sequence[str]) -> int:
    """The same, and a JSON object: `what` was done with these names, and what was refused."""
    refused = {one.name: {"name": one.name, "reason": one.reason, "why": one.why} for one in rejected}
    done = [name for name in names if name not in refused]
    emit_json({**told, what: done, "rejected": list(refused.values())})
    return report(rejected)
