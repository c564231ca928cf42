"""What a command line says about a command's environment, in the words of the contract and of the wire."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..client.environment import EnvContract, EnvPolicy
    from ..contract.contract import Asked
    from ..env.policy import Policy

    Flags = dict[str, Any]  # the values of options, by name


def has_policy(flags: Flags) -> bool:
    """Whether it brings a policy of its own; else the configured one alone holds."""
    return bool(
        flags["inherit"] is not None
        or flags["default_excludes"]
        or flags["exclude"]
        or flags["include_only"]
        or flags["set"]
    )


def asked(flags: Flags, cwd: str) -> Asked:
    """For a contract of this process."""
    from ..contract.contract import Asked

    def policy() -> Policy:
        from ..env.policy import Policy

        return Policy(
            flags["inherit"] or "all",
            not flags["default_excludes"],
            tuple(flags["exclude"]),
            tuple(flags["set"]),
            tuple(flags["include_only"]),
        )

    return Asked(
        cwd,
        dict(flags["env"]),
        policy if has_policy(flags) else None,
        author=flags["author"],
        unset=tuple(flags["unset"]),
        scope=flags["scope"],
        overlays=tuple(flags["overlay"]),
    )


def wire_policy(flags: Flags) -> EnvPolicy | None:
    """For a client; None when there is none."""
    from ..client.environment import EnvPolicy

    if not has_policy(flags):
        return None
    return EnvPolicy(
        flags["inherit"] or "all",
        not flags["default_excludes"],
        tuple(flags["exclude"]),
        tuple(flags["set"]),
        tuple(flags["include_only"]),
    )


def wire_contract(flags: Flags) -> EnvContract | None:
    """For a client; None when it says nothing, so that servers without a contract can be asked as well."""
    from ..client.environment import EnvContract

    unset = tuple(flags["unset"])
    # Only `run` starts shells, and only it has `startup`: `login` of `env explain` is another word.
    login, startup = (flags["login"], flags["startup"]) if "startup" in flags else (None, None)
    scope, overlays = flags["scope"], tuple(flags["overlay"])
    if flags["author"] == "user" and scope is None and not (unset or login or startup or overlays):
        return None
    return EnvContract(flags["author"], unset, login, startup, scope, overlays)
