"""A command that starts an agent, and that has passed its contract.

The rules are applied in one order, and nowhere else: what the caller has is filtered; what the backend, the
contract's baseline and the caller's extras set comes on top of it, unfiltered; then the whole is judged.
"""

from __future__ import annotations

from ..env.launches import KIND_VARIABLE, Violation, first_match, violations
from ..env.origin import RUNTIME, Origin
from ..env.redact import Secrets
from ..errors import LaunchRefused
from ..record import EMPTY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

    from ..env.launches import Kind, LaunchContract
    from .backends.base import Backend, Task

INHERITED = Origin("inherited", "from the environment of the caller")
EXTRA = Origin("extra", "given by the caller for this launch")

# Rules beside those of an environment.
KIND, GUARDS = "kind", "guards"


class CommandSpec:
    """A command line and its exact environment, with the origin of each variable, ready to be started.

    It exists only by passing its contract: to make one is to apply the rules. `origins` says where each
    variable came from, `dropped` which rule kept one of the caller's out. `str()` shows no secret.
    """

    __slots__ = ("argv", "backend", "contract", "cwd", "dropped", "env", "guards", "kind", "origins")

    argv: tuple[str, ...]
    backend: str
    contract: str
    cwd: str
    dropped: Mapping[str, str]
    env: Mapping[str, str]
    guards: tuple[str, ...]
    kind: str
    origins: Mapping[str, Origin]

    def __init__(
        self,
        contract: LaunchContract,
        backend: Backend,
        kind: str,
        task: Task,
        *,
        base: Mapping[str, str],
        origins: Mapping[str, Origin] = EMPTY,
        extras: Mapping[str, str] = EMPTY,
        continues: tuple[str, ...] | None = None,
    ) -> None:
        """`base` is what the caller has, with the `origins` of its variables where they are known; `extras`
        are set on purpose. `continues` are the `guards` of the launch that a resume goes on with. Raises
        LaunchRefused with every violation at once, SettingInvalid for a kind that the contract does not
        declare.
        """
        rules = contract.kind(kind)
        why_not = backend.why_not(kind)
        if why_not is not None:
            raise LaunchRefused(backend.name, kind, (Violation(KIND, kind, why_not),))
        mix = _Mix(contract, backend)
        mix.inherit(base, origins)
        mix.set(backend.env(task), Origin("backend", f"set for {backend.name}"))
        mix.set(contract.baseline(rules, backend.name), Origin("baseline", _baseline(contract, rules)))
        mix.set(extras, EXTRA)
        mix.set({KIND_VARIABLE: kind}, RUNTIME)
        argv = backend.argv(kind, task)
        guards = backend.guards(argv)
        broken = violations(rules, mix.values, mix.brought, lambda name: mix.dropped.get(name, ""))
        if continues is not None and guards != continues:
            broken.append(Violation(GUARDS, "sandbox", _lost(continues, guards)))
        if broken:
            raise LaunchRefused(backend.name, kind, tuple(broken))
        from types import MappingProxyType

        fill = object.__setattr__
        fill(self, "argv", tuple(argv))
        fill(self, "env", MappingProxyType(mix.values))
        fill(self, "cwd", task.cwd)
        fill(self, "backend", backend.name)
        fill(self, "kind", kind)
        fill(self, "contract", contract.name)
        fill(self, "origins", MappingProxyType(mix.origins))
        fill(self, "dropped", MappingProxyType(mix.dropped))
        fill(self, "guards", guards)

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("a CommandSpec is what it is: change the contract or the backend instead")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{name} is read-only: a CommandSpec has passed its contract as it is")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{name} is read-only: a CommandSpec has passed its contract as it is")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a CommandSpec cannot be copied or pickled: build it where it is needed")

    def __repr__(self) -> str:
        return (
            f"CommandSpec({self.backend!r}, {self.kind!r}, {len(self.argv)} words, {len(self.env)} variables)"
        )

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """What a person reads: the command, each variable with its origin, what was kept out and why."""
        from shlex import join

        hidden = secret_names(self)
        found = [f"{self.backend} {self.kind} (contract {self.contract})", f"  cwd  {self.cwd}"]
        found.append(f"  argv {join(self.argv)}")
        for name in sorted(self.env):
            shown = "(secret)" if name in hidden else self.env[name]
            found.append(f"  {name}={shown}  # {self.origins[name].detail}")
        found += [f"  -{name}  # {self.dropped[name]}" for name in sorted(self.dropped)]
        return found


def secret_names(spec: CommandSpec) -> set[str]:
    """The variables whose values nobody is shown: by the word of their sources, or as they look."""
    secrets = Secrets()
    return {
        name for name, value in spec.env.items() if spec.origins[name].secret or secrets.holds(name, value)
    }


class _Mix:
    """The environment while it is put together."""

    def __init__(self, contract: LaunchContract, backend: Backend) -> None:
        self.values: dict[str, str] = {}
        self.origins: dict[str, Origin] = {}
        self.dropped: dict[str, str] = {}
        self._filters = (
            (backend.denied, f"{backend.name} never inherits"),
            (contract.private, f"contract {contract.name} keeps private"),
            (contract.exclusive, f"contract {contract.name} sets afresh, for headless launches alone,"),
        )

    def inherit(self, base: Mapping[str, str], origins: Mapping[str, Origin]) -> None:
        for name, value in base.items():
            why = self._why_not(name)
            if why is None:
                self.values[name] = value
                self.origins[name] = origins.get(name, INHERITED)
            else:
                self.dropped[name] = why

    def set(self, values: Mapping[str, str], origin: Origin) -> None:
        for name, value in values.items():
            self.values[name] = value
            self.origins[name] = origin

    def brought(self, name: str) -> str:
        return self.origins[name].detail

    def _why_not(self, name: str) -> str | None:
        for rules, who in self._filters:
            if rule := first_match(rules, name):
                return f"{who} {rule}"
        return None


def _baseline(contract: LaunchContract, kind: Kind) -> str:
    return f"baseline of {kind.name} in contract {contract.name}"


def _lost(before: tuple[str, ...], now: tuple[str, ...]) -> str:
    return f"the launch that goes on had {', '.join(before)}; this one has {', '.join(now) or 'none'}"
