"""What a setup and the tools of providers may do where a person wants them in a sandbox.

A table of what each provider's tool needs, and the confinement that comes of it. What cannot work in a
sandbox is refused, with the reason; nothing runs in a weaker one.
"""

from __future__ import annotations

from ..core.permissions import bind
from ..core.protecting import keeping
from ..core.sandbox import Sandbox, here
from ..errors import SettingInvalid
from ..record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..core.permissions import Confinement
    from ..host.tools.within import Confine
    from .settings import Settings


@record
class Need:
    """`what` a tool needs beside reading files, for people. `caches` are directories of the user that it
    writes, below XDG_CACHE_HOME and the like: (variable, default below HOME, name). `refused` says why it
    cannot work in a sandbox."""

    what: str
    caches: tuple[tuple[str, str, str], ...] = ()
    refused: str = ""


_CACHE, _STATE = ("XDG_CACHE_HOME", ".cache"), ("XDG_STATE_HOME", ".local/state")
_DAEMON = "it talks to nix's daemon over a unix socket"
# Those that are not here run nothing, or nothing that is known: they may read.
NEEDS: dict[str, Need] = {
    "direnv": Need("its own files, and what the .envrc reads"),
    "mise": Need("its caches", ((*_CACHE, "mise"), (*_STATE, "mise"))),
    "conda": Need("the prefix, and conda's own files"),
    "pixi": Need("the environment, installed before", ((*_CACHE, "rattler"),)),
    "nix": Need("the socket of nix's daemon", refused=_DAEMON),
    "devbox": Need("the socket of nix's daemon", refused=_DAEMON),
    "devenv": Need("the socket of nix's daemon", refused=_DAEMON),
}


def for_provider(
    id: str, settings: Settings, root: str, env: Mapping[str, str], home: str
) -> Confinement | None:
    """What a provider's tool may do; None where nobody wants it confined. Raises SettingInvalid."""
    if settings.confined_providers == "off":
        return None
    need = NEEDS.get(id, Need(""))
    if need.refused:
        raise SettingInvalid(
            f'{id} cannot run in a sandbox, because {need.refused}: write providers = "off" under [sandbox], '
            f"or leave {id} out of `use`"
        )
    writes = [f"{env.get(variable) or f'{home}/{default}'}/{name}" for variable, default, name in need.caches]
    asked = Sandbox.read_only(writable=writes, deny_read=_hidden(settings))
    return keeping(bind(here(asked, root), cwd=root, tmpdir=env.get("TMPDIR")), settings.protects)


def for_setup(settings: Settings, worktree: str, env: Mapping[str, str]) -> Confinement | None:
    """What a setup may do; None where nobody wants it confined. Raises SettingInvalid."""
    if settings.confined_setup == "off":
        return None
    said = settings.user_sandbox
    domains = () if said is None else said.allow_domain
    if domains and "*" not in domains:
        raise SettingInvalid(
            'a setup in a sandbox cannot be limited to some domains: write allow_domain = ["*"] or leave it '
            'out, or write setup = "off" under [sandbox]'
        )
    asked = Sandbox.workspace_write(
        writable=() if said is None else said.allow_write,
        deny_read=_hidden(settings),
        network=bool(domains),
    )
    return keeping(bind(here(asked, worktree), cwd=worktree, tmpdir=env.get("TMPDIR")), settings.protects)


def confining(confinement: Confinement | None, state: str) -> Confine | None:
    """What confines the tools of a thread; None for nothing. `state` is Outfitter's own folder."""
    if confinement is None:
        return None
    from ..host.sandbox.tools import confining

    return confining(confinement, state)


def _hidden(settings: Settings) -> list[str]:
    """What either file hides."""
    several = (settings.user_sandbox, settings.project_sandbox)
    return [path for said in several if said is not None for path in said.deny_read]
