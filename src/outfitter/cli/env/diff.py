"""outfitter env diff: two environments compared, wherever they are.

Between machines only keyed digests of values travel, and the entries of lists, which are told anyway; values
themselves only if they are asked for, and secrets never.
"""

from __future__ import annotations

import os
from functools import cached_property

from ...env.diff import diff as compare
from ...env.diff import encode
from ...env.explain import shown
from ...env.fingerprint import value_digest
from ...env.redact import Secrets
from ...errors import OutfitterError, SettingInvalid
from ...record import EMPTY, record, replace
from ..wishes import launch_kind
from . import asking
from .output import emit, emit_json, painter, printable, say
from .places import Compared, place
from .text import count, differences

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...client.client import Client
    from ...contract.contract import Contract
    from ...env.lock import Lock
    from ...env.resolve import Resolved
    from ...protocol.jsontext import Json
    from ..wishes import Flags

# Any word will do: a secret of which only the presence is known, a value that cannot be compared.
_THERE = "there"


def diff(a: str, b: str, flags: Flags) -> int:
    """Prints the differences; returns 0 when there are none, 1 when there are, 2 for trouble."""
    try:
        one, other = place(a, flags), place(b, flags)
        found = _Comparison(flags).differences(one, other)
    except OutfitterError as error:
        say(str(error))
        return 2
    if flags["json"]:
        emit_json({"a": one.name, "b": other.name, "same": not found, "differences": found})
    elif found:
        paint = painter()
        title = f"from {one.name} to {other.name}: {count(len(found), 'difference')}"
        emit("\n".join([paint("bold", printable(title)), *differences(found, paint)]))
    else:
        emit(printable(f"{one.name} and {other.name} are the same"))
    return 1 if found else 0


@record
class _Known:
    """What is known of one environment.

    `texts` are what is compared; those of `lists` are entries with colons between them. `hidden` are the
    secrets as (name, value), as far as they are known here. `digests` stand for the values where the texts
    may be something else than on the other side.
    """

    texts: dict[str, str]
    lists: frozenset[str]
    secret: frozenset[str]
    hidden: tuple[tuple[str, str], ...] = ()
    digests: Mapping[str, str] = EMPTY

    def __repr__(self) -> str:
        return f"_Known({len(self.texts)} variables)"  # they may be values


class _Comparison:
    """One comparison: what both sides are to be known by."""

    def __init__(self, flags: Flags) -> None:
        self._flags = flags
        self._kind = flags["kind"] or launch_kind()
        self._key = os.urandom(32)

    def differences(self, a: Compared, b: Compared) -> list[dict[str, object]]:
        """As JSON objects. Raises OutfitterError."""
        kinds = {a.kind, b.kind}
        if "lock" in kinds:
            if "server" in kinds:
                raise SettingInvalid(
                    "a lock names directories of one machine: compare it with here, login or a directory, "
                    "or use `outfitter env check` on the other machine"
                )
            one, other = self._locked(a, b)
        elif "server" in kinds:
            one, other = _settled(self._digested(a), self._digested(b))
        else:
            one, other = self._values(a), self._values(b)
        # What is a list on one side only is compared as a whole.
        lists = {
            name
            for name in one.lists | other.lists
            if all(name in side.lists or name not in side.texts for side in (one, other))
        }
        hidden = (*one.hidden, *other.hidden)
        show = "values" if self._flags["values"] and "lock" not in kinds else "names"
        found = compare(one.texts, other.texts, list_names=lists, secrets=Secrets())
        secret = one.secret | other.secret
        marked = (replace(each, secret=each.secret or each.name in secret) for each in found)
        return [encode(each, show, hidden) for each in marked]

    # Here

    @cached_property
    def _contract(self) -> Contract:
        return asking.prepared()

    def _resolved(self, where: Compared) -> Resolved:
        """Also for a login shell: what it leaves is a base that nobody changed."""
        from ...contract.contract import Asked

        contract = self._contract
        resolved = contract.resolve(Asked(where.path, {}, kind=self._kind))
        if where.kind == "folder":
            return resolved
        from ...contract.snapshot import ask
        from ...env.layer import BASE, Layer
        from ...env.origin import LOGIN_SHELL
        from ...env.resolve import Rules, resolve

        settings = contract.settings(where.path)
        found = ask("loginShell", resolved.values, settings.snapshot_timeout)
        if found.state != "captured":
            raise SettingInvalid(f"the login shell gave no environment: {found.reason}")
        rules = Rules(list_names=resolved.stack.rules.list_names, tidy=False, total=None)
        return resolve([Layer(BASE, "base", LOGIN_SHELL, found.values)], [], rules=rules)

    def _values(self, where: Compared) -> _Known:
        resolved = self._resolved(where)
        hidden = asking.secret_values(self._contract, resolved, where.path)
        lists = resolved.stack.rules.list_names
        return _Known(resolved.values, lists, frozenset(hidden), tuple(hidden.items()))

    # Elsewhere

    def _digested(self, where: Compared) -> _Known:
        """With digests in place of the values that are not to be seen, and names as JSON has them."""
        if where.target is not None:
            return self._asked(where)
        known = self._values(where)
        digests = {name: value_digest(self._key, name, value) for name, value in known.texts.items()}
        visible = set(known.texts) - known.secret
        if not self._flags["values"]:
            visible &= known.lists
        texts = known.texts.items()
        return replace(
            known,
            texts={shown(name): shown(value) if name in visible else digests[name] for name, value in texts},
            lists=known.lists - known.secret,
            digests={shown(name): digest for name, digest in digests.items()},
        )

    def _asked(self, where: Compared) -> _Known:
        target, show = where.target, "values" if self._flags["values"] else "names"
        assert target is not None, "it is a server"
        from ...client.environment import EnvContract

        async def ask(client: Client) -> tuple[Json, Json]:
            cwd = await asking.as_for_run(client, target, self._flags["cwd"])
            contract = EnvContract(kind=self._kind) if self._kind else None
            there = await client.environment(cwd=cwd, contract=contract, show=show, digest_key=self._key)
            return there, await client.explain(cwd=cwd, contract=contract)

        there, told = asking.there(target, ask)
        variables = there["variables"]
        secret = {name for name, entry in variables.items() if entry["secret"]}
        lists = {
            name: ":".join([one["value"] for one in entry["segments"]])
            for name, entry in told["variables"].items()
            if name in variables and not entry["secret"] and "segments" in entry
        }
        digests = {name: str(entry["digest"]) for name, entry in variables.items()}
        plain = {name: entry["value"] for name, entry in variables.items() if "value" in entry}
        return _Known({**digests, **plain, **lists}, frozenset(lists), frozenset(secret), digests=digests)

    # Locks

    def _locked(self, a: Compared, b: Compared) -> tuple[_Known, _Known]:
        from .lockfile import read

        locks = {one.path: read(one.path, named=True) for one in (a, b) if one.kind == "lock"}
        comparable = True
        if len(locks) == 2:
            one, other = locks.values()
            comparable = one.salt == other.salt
            if not comparable:
                say("the locks have different salts: only names and entries of lists were compared")
        lock = next(iter(locks.values()))
        return self._of_lock(a, locks, lock, comparable), self._of_lock(b, locks, lock, comparable)

    def _of_lock(self, where: Compared, locks: dict[str, Lock], lock: Lock, comparable: bool) -> _Known:
        if where.kind == "lock":
            found = locks[where.path]
        else:
            from .lockfile import make

            resolved = self._resolved(where)
            found = make(
                resolved,
                self._contract,
                where.path,
                lock.salt,
                tools={},
                levels=lock.levels,
                only=lock.only,
            )
        texts: dict[str, str] = {}
        lists, secret = set(), set()
        for name, one in found.variables.items():
            if one.segments is not None:
                lists.add(name)
                texts[name] = ":".join(one.segments)
            elif one.secret:
                secret.add(name)
                texts[name] = _THERE
            else:
                texts[name] = one.digest or "" if comparable else _THERE
        return _Known(texts, frozenset(lists), frozenset(secret))


def _settled(one: _Known, other: _Known) -> tuple[_Known, _Known]:
    """Has both sides say the same kind of thing: entries, a value or a digest."""
    digested = set()
    for name in one.texts.keys() & other.texts.keys():
        plain = [side.texts[name] != side.digests[name] for side in (one, other)]
        lists = [name in side.lists for side in (one, other)]
        if plain[0] != plain[1] or lists[0] != lists[1]:
            digested.add(name)
    first, second = (
        replace(
            side,
            texts={**side.texts, **{name: side.digests[name] for name in digested}},
            lists=side.lists - digested,
        )
        for side in (one, other)
    )
    return first, second
