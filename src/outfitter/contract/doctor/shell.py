"""Which shells are here, and what runs in them before a command."""

from __future__ import annotations

import os

from ...env.names import is_name
from ...host import facts
from ...record import record
from .check import Check, Finding
from .fixes import Setting
from .machine import Configured, Given, configured, given
from .words import excluding, few, listed, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .machine import Machine


# What else it means for an ordinary user that startup files are masked.
SETUID = "sudo and other programs that become another user do nothing in commands"


@record
class Shells:
    """The shell that SHELL names, the account's, and the one that clients are told to use; links followed."""

    variable: str | None
    account: str
    named: str


def shells(machine: Machine) -> Shells:
    variable = machine.environ.get("SHELL")
    return Shells(
        os.path.realpath(variable) if variable else None,
        os.path.realpath(facts.login_shell()),
        os.path.realpath(facts.command_shell()[1]),
    )


def shell_agreement(configured: Configured, shells: Shells) -> Finding:
    told = [f"account: {shells.account}", f"used by clients: {shells.named}"]
    if shells.variable is not None:
        told.insert(0, f"SHELL: {shells.variable}")
    if shells.variable is not None and shells.variable != shells.account:
        return Finding(
            "warning",
            "SHELL is not the account's login shell",
            told,
            f"Write `export SHELL={shells.account}`, or change the account: `chsh -s {shells.variable}`.",
        )
    if shells.named != shells.account:
        return Finding(
            "warning",
            "clients cannot write commands for the account's login shell and use another one",
            told,
            f"Write set = {{ SHELL = {quoted(shells.named)} }} under [env] in {configured.file}.",
            Setting(configured.file, "env", "set", f"{{ SHELL = {quoted(shells.named)} }}"),
        )
    return Finding("ok", f"{shells.account} everywhere", told)


def shell_modes(configured: Configured) -> Finding:
    settings = configured.settings
    told = [
        f"shell.{name} = {getattr(settings, name)} ({settings.sources[f'shell.{name}']})"
        for name in ("startup", "login", "descendants", "snapshot")
    ]
    if settings.startup == "enforce":
        return Finding("ok", "shells run no startup files", told)
    source = settings.sources["shell.startup"]
    after = "are corrected afterwards" if settings.startup == "repair" else "are only reported"
    return Finding(
        "warning",
        f"shells run startup files; their changes {after}",
        told,
        f'Write startup = "enforce" at {source}, unless you rely on startup files.',
    )


@record
class Masking:
    """Whether startup files are to be masked, and can be, as tried: `why` not."""

    asked: bool
    why: str = ""
    root: bool = False


def masking(machine: Machine) -> Masking:
    """Tries it where it is switched on."""
    settings = machine.part(configured).settings
    if settings.descendants != "mask":
        return Masking(False)
    from ...errors import LaunchFailed, MasksUnavailable
    from ...host.masks import check, existing
    from ...shell.startup import all_startup_files

    try:
        check(existing(all_startup_files([machine.home], machine.environ)))
    except (MasksUnavailable, LaunchFailed) as error:
        return Masking(True, getattr(error, "why", str(error)))
    return Masking(True, root=os.geteuid() == 0)


def shell_descendants(configured: Configured, masking: Masking) -> Finding:
    if not masking.asked:
        return Finding("ok", "shells that commands start are flagged where they can be seen")
    source = configured.settings.sources["shell.descendants"]
    if masking.why:
        return Finding(
            "error",
            f"startup files cannot be masked here, so no command starts: {masking.why}",
            [f"shell.descendants = mask ({source})"],
            "Allow user namespaces (`sysctl kernel.unprivileged_userns_clone=1 "
            "kernel.apparmor_restrict_unprivileged_userns=0`; in a container the capability SYS_ADMIN), or "
            f'write descendants = "flag" at {source}.',
        )
    told = [] if masking.root else [SETUID]
    return Finding("ok", "startup files are masked for commands and all their descendants", told)


def shell_bash_env(configured: Configured, given: Given) -> Finding:
    present = [
        name for name in sorted(given.base) if name in ("BASH_ENV", "ENV") or name.startswith("BASH_FUNC_")
    ]
    reach = [name for name in present if name in given.values]
    if not reach:
        return Finding(
            "ok",
            "no code runs before a command's own text",
            [f"{name} is withheld from commands" for name in present],
        )
    unset = " ".join(name for name in reach if is_name(name))
    first = f"Run `unset {unset}` where Outfitter is started, or write" if unset else "Write"
    return Finding(
        "warning",
        f"{few(reach)}: shells run other code before or instead of the command",
        reach,
        f"{first} {excluding(reach)} in {configured.file}.",
        Setting(configured.file, "shell_environment_policy", "exclude", listed(reach)),
    )


def shell_shlvl(given: Given) -> Finding:
    if given.base.get("SHLVL", "0") not in ("", "0"):
        return Finding("ok", "SHLVL is set")
    return Finding(
        "warning",
        "SHLVL is not set: a bash whose input is a socket then reads ~/.bashrc",
        ["commands with a contract get SHLVL=1; commands of a client with its own policy do not"],
        "Start the server with SHLVL=1: `SHLVL=1 outfitter serve ...`, or Environment=SHLVL=1 in its unit "
        "file.",
    )


CHECKS = (
    Check("shell.agreement", (configured, shells), shell_agreement),
    Check("shell.modes", (configured,), shell_modes),
    Check("shell.descendants", (configured, masking), shell_descendants),
    Check("shell.bash-env", (configured, given), shell_bash_env),
    Check("shell.shlvl", (given,), shell_shlvl),
)
