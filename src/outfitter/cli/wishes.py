"""What a command line says about a command's environment, in the words of the contract and of the wire."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..client.environment import ByContract, EnvContract, EnvPolicy
    from ..contract.contract import Asked
    from ..core.sandbox import Sandbox
    from ..env.policy import Policy
    from ..protocol.wishes import ContractParams, EnvPolicyParams

    Flags = dict[str, Any]  # the values of options, by name


def from_here(given: str | None) -> str:
    """A directory of this machine: the one we are in, or what is given from there. Raises SettingInvalid."""
    import os

    if given is not None and given.startswith("file:"):
        return given
    from ..errors import SettingInvalid

    try:
        return os.path.abspath(given or ".")
    except FileNotFoundError:
        raise SettingInvalid("the current directory no longer exists: change to another one") from None


def has_policy(flags: Flags) -> bool:
    """Whether it brings a policy of its own; else the configured one alone holds."""
    names = ("inherit", "default_excludes", "exclude", "include_only", "set")
    return any(flags[name] for name in names)


def _policy(flags: Flags) -> tuple[Any, ...]:
    """The fields of a policy, which are the same here and on the wire."""
    lists = (tuple(flags[name]) for name in ("exclude", "set", "include_only"))
    return flags["inherit"] or "all", not flags["default_excludes"], *lists


def asked(flags: Flags, cwd: str) -> Asked:
    """For a contract of this process."""
    from ..contract.contract import Asked

    def policy() -> Policy:
        from ..env.policy import Policy

        return Policy(*_policy(flags))

    return Asked(
        cwd,
        dict(flags["env"]),
        policy if has_policy(flags) else None,
        author=flags["author"],
        unset=tuple(flags["unset"]),
        scope=flags["scope"],
        overlays=tuple(flags["overlay"]),
        kind=flags["kind"] or launch_kind(),
    )


def client_policy(flags: Flags) -> EnvPolicy | ByContract:
    """For a client."""
    from ..client.environment import CONTRACT, EnvPolicy

    return EnvPolicy(*_policy(flags)) if has_policy(flags) else CONTRACT


def wire_policy(flags: Flags) -> EnvPolicyParams | None:
    """For a request; None when there is none."""
    from ..protocol.wishes import EnvPolicyParams

    return EnvPolicyParams(*_policy(flags)) if has_policy(flags) else None


def launch_kind() -> str:
    """The kind of launch of the agent that we were started by; "" if none has started us."""
    import os

    from ..env.launches import KIND_VARIABLE

    return os.environ.get(KIND_VARIABLE, "")


def client_contract(flags: Flags, inherited: str = "") -> EnvContract | None:
    """For a client. `inherited` is the kind of launch where the flags name none."""
    from ..client.environment import EnvContract

    told = _contract(flags, inherited)
    return EnvContract(*told) if told else None


def wire_contract(flags: Flags, inherited: str = "") -> ContractParams | None:
    """The same for a request."""
    from ..protocol.wishes import ContractParams

    told = _contract(flags, inherited)
    return ContractParams(*told) if told else None


def _contract(flags: Flags, inherited: str) -> tuple[Any, ...]:
    """The fields of a contract; none when it says nothing, so that servers without one can be asked too."""
    unset = tuple(flags["unset"])
    # Only `run` starts shells, and only it has `startup`: `login` of `env explain` is another word.
    login, startup = (flags["login"], flags["startup"]) if "startup" in flags else (None, None)
    scope, overlays = flags["scope"], tuple(flags["overlay"])
    kind = flags["kind"] or inherited or None
    if flags["author"] == "user" and not (scope or unset or login or startup or overlays or kind):
        return ()
    return flags["author"], unset, login, startup, scope, overlays, kind


def sandbox(flags: Flags) -> Sandbox | None:
    """What --sandbox and the flags beside it say; None without. Raises SettingInvalid."""
    from ..errors import SettingInvalid

    mode = flags["sandbox"]
    if mode is None:
        for name in ("allow_domain", "allow_write", "deny_read"):
            if flags[name]:
                option = f"--{name.replace('_', '-')}"
                raise SettingInvalid(f"{option} is about a sandbox: add --sandbox workspace-write")
        return None
    from ..core.sandbox import FULL, Sandbox

    if mode == FULL and flags["allow_write"]:
        raise SettingInvalid("--allow-write changes nothing with --sandbox full-access: leave it out")
    return Sandbox(
        mode,
        writable=tuple(flags["allow_write"]),
        domains=tuple(flags["allow_domain"]),
        deny_read=tuple(flags["deny_read"]),
    )
