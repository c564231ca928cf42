"""What the checks find out about this machine, each part once, and the parts that most of them need.

Looking only: nothing is written, and nothing is run but the login shell, once, with its limit of time, and
the project's providers, as for any command; its setup is not run.
"""

from __future__ import annotations

import os

from ...env.layer import BASE, POLICY, PROVIDER, SETUP
from ...env.redact import Secrets
from ...errors import EnvironmentTooLarge, FileInvalid, Refused, SettingInvalid
from ...host import facts
from ...places import user_file
from ...record import EMPTY, KW_ONLY, record
from ..base import base_of
from ..config import Configuration, known_place
from ..contract import Asked, Contract
from ..selection import check_names
from ..settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeVar

    from ...env.layer import Layer
    from ...env.resolve import Resolved
    from ...formats.document import Mistake

    T = TypeVar("T")


class Machine:
    """What we were started in, and what was found out since. `asks_login`: the login shell is asked."""

    def __init__(self, environ: Mapping[str, str], cwd: str, *, login: bool) -> None:
        self.environ = environ
        self.cwd = os.path.realpath(cwd)
        self.asks_login = login
        self.home = facts.home(environ)
        self._parts: dict[Callable[[Machine], object], Any] = {}
        # Never shown, wherever they turn up: an entry of PATH can contain one.
        self.secrets = Secrets().among(environ)

    def part(self, gather: Callable[[Machine], T]) -> T:
        """What `gather` finds out, asked once."""
        if gather not in self._parts:
            self._parts[gather] = gather(self)
        found: T = self._parts[gather]
        return found


def directory(machine: Machine) -> str:
    return machine.cwd


@record
class Configured:
    """The configuration in force; the defaults when there are `mistakes`. `file` is the user's own."""

    settings: Settings
    mistakes: Sequence[Mistake] = ()
    file: str = "config.toml"


def configured(machine: Machine) -> Configured:
    file = known_place(user_file, machine.environ) or "config.toml"
    try:
        settings = Configuration(machine.environ).settings(machine.cwd)
        check_names(settings)
    except FileInvalid as error:
        return Configured(Settings(), error.mistakes, file)
    except SettingInvalid:
        pass  # a provider of another distribution, reported below
    machine.secrets = Secrets(settings.secret_names).among(machine.environ)
    return Configured(settings, (), file)


@record
class Given:
    """The environment we were started in, and what a command gets of it.

    `removed` are the names that the policy takes away, by its rule; `from_base` those that a command gets as
    they were. No command can be started at all: for its size, says `problem`, or because the project's
    environment is not there, says `refused`. `layers` are those of the project, and `unrun` is its setup as
    (id, state, note), if it would run now. `path_mistakes` say who has set PATH to what is probably wrong.
    The repr has no values.
    """

    base: Mapping[str, str]
    values: Mapping[str, str]
    _: KW_ONLY
    removed: Mapping[str, Sequence[str]] = EMPTY
    from_base: Sequence[str] = ()
    problem: str = ""
    refused: str = ""
    layers: Sequence[Layer] = ()
    unrun: Sequence[tuple[str, str, str]] = ()
    path_mistakes: Sequence[str] = ()
    hidden = ("base", "values")


def given(machine: Machine) -> Given:
    configuration = None if machine.part(configured).mistakes else Configuration(machine.environ)
    contract = Contract(base_of("launcher", machine.environ), configuration, facts.login_shell())
    if machine.asks_login:
        contract.prepare()  # where a snapshot is configured, commands have it
    unrun: list[tuple[str, str, str]] = []
    try:
        asked, unrun = _asked(contract, machine.cwd)
        resolved = contract.resolve(asked)
    except EnvironmentTooLarge as error:
        return Given(machine.environ, {}, problem=str(error), unrun=unrun)
    except (SettingInvalid, Refused) as error:
        return Given(machine.environ, {}, refused=str(error), unrun=unrun)
    removed, from_base = _effect(resolved)
    layers = [layer for layer in resolved.layers if layer.level in (PROVIDER, SETUP)]
    return Given(
        machine.environ,
        resolved.values,
        removed=removed,
        from_base=from_base,
        layers=layers,
        unrun=unrun,
        path_mistakes=resolved.stack.path_mistakes,
    )


def _asked(contract: Contract, cwd: str) -> tuple[Asked, list[tuple[str, str, str]]]:
    """The question about a command here; without a setup that would have to run for an answer."""
    settings = contract.settings(cwd)
    use = contract.setups.use(cwd, settings)
    if use is None:
        return Asked(cwd, {}), []
    found = contract.setups.status(use)
    note = found.note
    if found.state == "applied" and found.kept is not None and found.kept.withheld:
        note = "some of its exports are secret, and no check looks at them"
    elif found.state not in ("new", "stale", "interrupted", "running"):
        return Asked(cwd, {}), []
    return Asked(cwd, {}, setup=False), [(f"setup:{found.worktree}", found.state, note)]


def _effect(resolved: Resolved) -> tuple[dict[str, list[str]], list[str]]:
    """The names that the policy removes, by its rule, and those that come from the base as they were."""
    history, _ = resolved.history()
    removed: dict[str, list[str]] = {}
    from_base = []
    for name, events in history.items():
        decisive = [event for event in events if event.action not in ("kept", "refused", "ignored")]
        if not decisive:
            continue  # nobody may set it, and nobody has
        last = decisive[-1]
        if name not in resolved.values and last.level == POLICY:
            removed.setdefault(last.why, []).append(name)
        elif name in resolved.values and last.level == BASE:
            from_base.append(name)
    return removed, from_base
