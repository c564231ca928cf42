"""All providers by id: those of Outfitter and those of other distributions."""

from __future__ import annotations

from ..errors import SettingInvalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.metadata import EntryPoint

    from .base import Provider

ENTRY_POINT = "outfitter.providers"
_REMEMBERED = 256  # far more than anybody configures
# Module and class of each of ours; imported when it is used.
OURS = {
    "command": ("command", "Command"),
    "conda": ("conda", "Conda"),
    "devbox": ("nix", "Devbox"),
    "devcontainer": ("devcontainer", "Devcontainer"),
    "devenv": ("nix", "Devenv"),
    "direnv": ("direnv", "Direnv"),
    "dotenv": ("dotenv", "Dotenv"),
    "mise": ("mise", "Mise"),
    "nix": ("nix", "Nix"),
    "pixi": ("conda", "Pixi"),
    "python": ("python", "Python"),
    "versions": ("versions", "Versions"),
    "vscode": ("vscode", "Vscode"),
}
# Those of ours that a project configures before they can find anything.
_CONFIGURED = ("command", "dotenv")
_made: dict[str, Provider] = {}


def find(id: str, options: Mapping[str, object] | None = None) -> Provider:
    """The provider with this id, for these options of the configuration. Raises SettingInvalid."""
    key = id if not options or id not in _CONFIGURED else f"{id} {sorted(options.items())!r}"
    known = _made.get(key)
    if known is None:
        if len(_made) >= _REMEMBERED:
            _made.clear()
        known = _made[key] = _load(id, options or {})
    return known


def known() -> list[str]:
    """The ids of all providers."""
    return sorted({*OURS, *(point.name for point in _points())})


def _load(id: str, options: Mapping[str, object]) -> Provider:
    if id in OURS:
        module, name = OURS[id]
        made = getattr(__import__(f"{__package__}.{module}", fromlist=(name,)), name)
        provider: Provider = made(options) if id in _CONFIGURED else made()
        return provider
    for point in _points():
        if point.name == id:
            try:
                provider = point.load()()
            except Exception as error:
                raise SettingInvalid(
                    f"the provider `{id}` of {point.value} cannot be loaded ({type(error).__name__}): fix "
                    f"or uninstall the package that it comes from"
                ) from error
            return provider
    raise SettingInvalid(f"no provider is named `{id}`; known: {', '.join(known())}")


def _points() -> list[EntryPoint]:
    from importlib.metadata import entry_points

    return list(entry_points(group=ENTRY_POINT))
