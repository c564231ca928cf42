"""Run commands for coding agents, in environments that Outfitter can explain.

    async with outfitter.local() as client:
        done = await client.run(["python", "--version"])

    with outfitter.sync.local() as client:  # the same without asyncio
        done = client.run(["python", "--version"])

`help(outfitter.Client)` says what a client can do; `help(outfitter.local)` and `help(outfitter.connect)` say
where it comes from. `dir(outfitter)` has every public name. PACKAGE CONTENTS of `help(outfitter)` is Python's
own list of files: what stands only there may change.
"""

from __future__ import annotations

VERSION = "0.1.0"
__version__ = VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import sync
    from .client.client import Client
    from .client.completed import Completed, CompletedText
    from .client.environment import CONTRACT, EnvContract, EnvPolicy
    from .client.process import RemoteProcess
    from .client.transcript import Transcript
    from .core.events import Exited, Output
    from .core.sandbox import Sandbox
    from .errors import (
        AlreadyExists,
        CapabilityMissing,
        CommandFailed,
        ConnectionLost,
        ContractViolated,
        DialFailed,
        Disconnected,
        EngineFailed,
        EnvironmentUnknown,
        HostUnsupported,
        InvalidParams,
        IsADirectory,
        LeaseLost,
        LeaseRefused,
        NotADirectory,
        NotFound,
        OutfitterError,
        OutputLost,
        OutputTooLarge,
        Overloaded,
        PermissionDenied,
        ProgramNotFound,
        ProtocolError,
        RequestFailed,
        SessionExpired,
        SettingInvalid,
        TimedOut,
        VariableInvalid,
    )
    from .local import local
    from .opening import connect, open, open_local
    from .pool.lease import Lease
    from .pool.map import Outcome
    from .pool.pool import Pool
    from .sharing import shared

__all__ = [
    "CONTRACT",
    "VERSION",
    "AlreadyExists",
    "CapabilityMissing",
    "Client",
    "CommandFailed",
    "Completed",
    "CompletedText",
    "ConnectionLost",
    "ContractViolated",
    "DialFailed",
    "Disconnected",
    "EngineFailed",
    "EnvContract",
    "EnvPolicy",
    "EnvironmentUnknown",
    "Exited",
    "HostUnsupported",
    "InvalidParams",
    "IsADirectory",
    "Lease",
    "LeaseLost",
    "LeaseRefused",
    "NotADirectory",
    "NotFound",
    "Outcome",
    "OutfitterError",
    "Output",
    "OutputLost",
    "OutputTooLarge",
    "Overloaded",
    "PermissionDenied",
    "Pool",
    "ProgramNotFound",
    "ProtocolError",
    "RemoteProcess",
    "RequestFailed",
    "Sandbox",
    "SessionExpired",
    "SettingInvalid",
    "TimedOut",
    "Transcript",
    "VariableInvalid",
    "connect",
    "local",
    "open",
    "open_local",
    "shared",
    "sync",
]

_HOMES = {
    "Client": ".client.client",
    "Completed": ".client.completed",
    "CompletedText": ".client.completed",
    "CONTRACT": ".client.environment",
    "EnvContract": ".client.environment",
    "EnvPolicy": ".client.environment",
    "Exited": ".core.events",
    "Output": ".core.events",
    "Lease": ".pool.lease",
    "Outcome": ".pool.map",
    "Pool": ".pool.pool",
    "RemoteProcess": ".client.process",
    "Sandbox": ".core.sandbox",
    "Transcript": ".client.transcript",
    "connect": ".opening",
    "local": ".local",
    "open": ".opening",
    "open_local": ".opening",
    "shared": ".sharing",
    "sync": ".sync",
}


# The names are imported when they are first used: `outfitter serve` starts without them.
def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = import_module(_HOMES.get(name, ".errors"), __name__)
    value: object = home if name == "sync" else getattr(home, name)
    # Importing a submodule of the same name (`local`) has set it; the public name wins.
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
