"""What a pool is told: the arguments of `Pool` and `lease`, those of pools.toml, and what comes of them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, TypedDict

from ..core.leases import MAX_SLOTS, PoolBounds
from ..core.shape import Shape, size
from ..errors import SettingInvalid
from ..formats.toml import suggest
from ..record import EMPTY, record
from .relayed import RelayPlace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..core.leases import Transition

    OnEvent = Callable[[Transition], object]

SETUP_SECONDS = 600.0  # a setup that installs something takes minutes; one that hangs must not hold its slot
LIMITS = ("wanted", "required", "none")
HOMES = ("lease", "node")
STANDBY_MEMORY = (
    1 << 30
)  # of an executor that gets a server ahead, if nobody says otherwise: that takes 10 MB
RELAYED = ("local", "ray", "slurm")  # engines whose servers can register with a rendezvous


class ShapeWishes(TypedDict, total=False):
    """What an executor is to have."""

    cpus: float
    memory: int | str
    gpus: float
    labels: Mapping[str, str]
    image: str


class LeaseWishes(ShapeWishes, total=False):
    """The arguments of `Pool.lease`."""

    setup: Sequence[str]
    group: str
    name: str
    queue_timeout: float | None
    keep_workspace: bool


class PoolWishes(ShapeWishes, total=False):
    """The arguments of `Pool`; a file has all of them but `name` and `on_event`."""

    name: str
    address: str
    relay: str
    size: int
    warm: int
    idle: float
    standby: bool
    setup: Sequence[str]
    env: Mapping[str, str]
    limits: str
    home: str
    queue_timeout: float | None
    start_timeout: float
    on_event: OnEvent


_NUMBER, _WHOLE, _TEXT = (Real, "a number"), (Integral, "a whole number"), (str, "a text")
_KINDS: dict[str, tuple[type, str]] = {
    **dict.fromkeys(("idle", "start_timeout", "queue_timeout", "cpus", "gpus"), _NUMBER),
    **dict.fromkeys(("size", "warm"), _WHOLE),
    **dict.fromkeys(("name", "group", "address", "relay", "image"), _TEXT),
}
_MAPS = ("env", "labels")


def check(call: str, given: Mapping[str, object], known: frozenset[str]) -> None:
    """Raises TypeError for an argument that there is not, as Python does where it knows their names, and
    SettingInvalid for one of another kind."""
    for name, value in given.items():
        if name not in known:
            hint = suggest(name, tuple(sorted(known)))
            raise TypeError(f"{call}() got an unexpected keyword argument {name!r}: {hint}")
        kind, wanted = _KINDS.get(name, (object, ""))
        if not (isinstance(value, kind) or (name == "queue_timeout" and value is None)):
            raise SettingInvalid(f"{name}: {value!r} cannot be used: give {wanted}")
        if name in _MAPS:
            _check_map(name, value)


def _check_map(what: str, given: object) -> None:
    """Raises SettingInvalid. Values may be secrets: they are not told."""
    if not isinstance(given, Mapping):
        raise SettingInvalid(f"{what}: {type(given).__name__} cannot be used: give texts by their names")
    for name, value in given.items():
        if not (isinstance(name, str) and isinstance(value, str)):
            raise SettingInvalid(f"{what}: {name!r} or its value is no text: give texts by their names")
        if what == "env" and (not name or "=" in name or "\0" in name + value):
            raise SettingInvalid(f"{what}: {name!r} or its value has what no variable can have: leave it out")


@record
class PoolSettings:
    """The same, checked."""

    hidden = ("env",)  # may have secrets

    engine: str
    bounds: PoolBounds
    address: str = ""
    relay: str = ""
    setup: tuple[str, ...] = ()
    env: Mapping[str, str] = EMPTY
    limits: str = "wanted"
    home: str = "lease"
    standby: bool | None = None  # None: where an executor has much memory
    queue_timeout: float | None = None


def stands_by(settings: PoolSettings, shape: Shape) -> bool:
    """Whether an executor of this shape starts the server of its next lease while it has one."""
    return shape.memory >= STANDBY_MEMORY if settings.standby is None else settings.standby


def settle(engine: str, wishes: PoolWishes) -> PoolSettings:
    """Raises SettingInvalid."""
    room = wishes.get("size")
    if room is None:
        if engine != "local":
            raise SettingInvalid(f"a pool on {engine} needs `size`: how many executors it may have at a time")
        room = os.cpu_count() or 1
    warm = wishes.get("warm", 0)
    if not 1 <= room <= MAX_SLOTS:
        raise SettingInvalid(f"size: {room!r} cannot be used: give a number from 1 to {MAX_SLOTS}")
    if not 0 <= warm <= room:
        raise SettingInvalid(
            f"warm: {warm!r} cannot be used: give a number from 0 to {room}, which is `size`"
        )
    default = shape_of(wishes, Shape())
    idle, start = wishes.get("idle", 300.0), wishes.get("start_timeout", 120.0)
    return PoolSettings(
        engine,
        PoolBounds(room, default, warm, _seconds("idle", idle), _seconds("start_timeout", start)),
        wishes.get("address", ""),
        _relay(engine, wishes.get("relay", "")),
        argv("setup", wishes.get("setup", ())),
        dict(wishes.get("env", {})),
        _one_of("limits", wishes.get("limits", "wanted"), LIMITS),
        _one_of("home", wishes.get("home", "lease"), HOMES),
        wishes.get("standby"),
        timeout(wishes.get("queue_timeout")),
    )


def _relay(engine: str, url: str) -> str:
    """The pool of a rendezvous. Raises SettingInvalid."""
    if url:
        RelayPlace(url)
        if engine not in RELAYED:
            raise SettingInvalid(f"relay: {engine} cannot use one: leave it out, or use {', '.join(RELAYED)}")
    return url


def shape_of(wishes: ShapeWishes, default: Shape) -> Shape:
    """What is wanted, and of the rest what the pool has. Raises SettingInvalid."""
    return Shape(
        wishes.get("cpus", default.cpus),
        size("memory", wishes["memory"]) if wishes.get("memory") else default.memory,
        wishes.get("gpus", default.gpus),
        dict(wishes.get("labels", default.labels)),
        wishes.get("image", default.image),
    )


def argv(what: str, given: Sequence[str]) -> tuple[str, ...]:
    """Raises SettingInvalid for text, which would become a list of letters."""
    if isinstance(given, str):
        raise SettingInvalid(f'{what}: {given!r} is text: give a list such as ["sh", "-c", {given!r}]')
    return tuple(given)


def timeout(given: float | None) -> float | None:
    return None if given is None else _seconds("queue_timeout", given)


def _seconds(what: str, given: float) -> float:
    if not (given > 0 and math.isfinite(given)):
        raise SettingInvalid(f"{what}: {given!r} cannot be used: give seconds, more than 0")
    return given


def _one_of(what: str, given: str, known: tuple[str, ...]) -> str:
    if given not in known:
        raise SettingInvalid(f"{what}: {given!r} is unknown: use one of {', '.join(known)}")
    return given
