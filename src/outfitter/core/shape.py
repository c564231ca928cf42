"""What one executor of a pool is to have: processors, memory, devices, labels; sizes as people write them."""

from __future__ import annotations

from ..errors import SettingInvalid
from ..record import EMPTY, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_UNITS = {"": 1, "B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}
_UNITS |= {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def size(what: str, given: int | str) -> int:
    """Bytes: a number, or text such as "4GiB" and "512 MiB". Raises SettingInvalid."""
    text = str(given).replace(" ", "").upper()
    digits = len(text)
    while digits and not (text[digits - 1].isdigit() or text[digits - 1] == "."):
        digits -= 1
    unit = _UNITS.get(text[digits:])
    try:
        found = -1 if unit is None else int(float(text[:digits]) * unit)
    except (ValueError, OverflowError):
        found = -1
    if found < 1:
        raise SettingInvalid(f"{what}: {given!r} is no size: write bytes, or a size such as 512MiB or 4GiB")
    return found


@record
class Shape:
    """What an executor is to have. Memory is in bytes; 0 is "whatever there is"."""

    cpus: float = 1.0
    memory: int = 0
    gpus: float = 0.0
    labels: Mapping[str, str] = EMPTY
    image: str = ""

    def __post_init__(self) -> None:
        for name in ("cpus", "memory", "gpus"):
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise SettingInvalid(f"{name}: {value!r} cannot be used: give a number of at least 0")

    def __hash__(self) -> int:
        return hash((self.cpus, self.memory, self.gpus, tuple(sorted(self.labels.items())), self.image))

    def __str__(self) -> str:
        """For people: "2 cpus, 4.0 GiB, 1 gpu"."""
        said = [f"{self.cpus:g} {'cpu' if self.cpus == 1 else 'cpus'}"]
        if self.memory:
            said.append(f"{self.memory / (1 << 30):.1f} GiB")
        if self.gpus:
            said.append(f"{self.gpus:g} {'gpu' if self.gpus == 1 else 'gpus'}")
        said += [f"{name}={value}" for name, value in sorted(self.labels.items())]
        return ", ".join([*said, self.image] if self.image else said)
