"""Run commands for coding agents, in environments that Outfitter can explain.

    async with outfitter.local() as client:
        done = await client.run(["python", "--version"])

    with outfitter.sync.local() as client:  # the same without asyncio
        done = client.run(["python", "--version"])

The names below are imported when they are first used: `outfitter serve` starts without them.
"""

from __future__ import annotations

VERSION = "0.1.0"
__version__ = VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import sync
    from .client.client import Client
    from .client.commands import Completed
    from .client.connect import connect
    from .client.environment import CONTRACT, EnvContract, EnvPolicy
    from .client.process import RemoteProcess
    from .core.events import Exited, Output
    from .core.sandbox import Sandbox
    from .errors import (
        CapabilityMissing,
        ConnectionLost,
        ContractViolated,
        DialFailed,
        Disconnected,
        HostUnsupported,
        OutfitterError,
        OutputLost,
        OutputTooLarge,
        Overloaded,
        ProtocolError,
        RequestFailed,
        SessionExpired,
        SettingInvalid,
        TimedOut,
    )
    from .local import local

__all__ = [
    "CONTRACT",
    "VERSION",
    "CapabilityMissing",
    "Client",
    "Completed",
    "ConnectionLost",
    "ContractViolated",
    "DialFailed",
    "Disconnected",
    "EnvContract",
    "EnvPolicy",
    "Exited",
    "HostUnsupported",
    "OutfitterError",
    "Output",
    "OutputLost",
    "OutputTooLarge",
    "Overloaded",
    "ProtocolError",
    "RemoteProcess",
    "RequestFailed",
    "Sandbox",
    "SessionExpired",
    "SettingInvalid",
    "TimedOut",
    "connect",
    "local",
    "sync",
]

_HOMES = {
    "Client": ".client.client",
    "Completed": ".client.commands",
    "CONTRACT": ".client.environment",
    "EnvContract": ".client.environment",
    "EnvPolicy": ".client.environment",
    "Exited": ".core.events",
    "Output": ".core.events",
    "RemoteProcess": ".client.process",
    "Sandbox": ".core.sandbox",
    "connect": ".client.connect",
    "local": ".local",
    "sync": ".sync",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = import_module(_HOMES.get(name, ".errors"), __name__)
    value: object = home if name == "sync" else getattr(home, name)
    # Importing a submodule of the same name (`local`) has set it; the public name wins.
    globals()[name] = value
    return value
