"""What `outfitter doctor` finds out about this machine, and the report that it makes of it.

Looking only: nothing is written, and nothing is run but the login shell, once, with its limit of time, and
the project's providers, as for any command; its setup is not run. Each part is gathered when the first check
asks for it.
"""

from __future__ import annotations

import os
import stat
import time

from ..env.explain import shown
from ..env.layer import BASE, POLICY, PROVIDER, SETUP
from ..env.redact import Secrets, mask_pairs
from ..errors import EnvironmentTooLarge, FileInvalid, Refused, SettingInvalid
from ..host import facts, installkey
from ..shell.start import Plan
from ..shell.startup import assignments, startup_files
from .base import base_of
from .checks import CHECKS, STATUSES, Codex, Configured, Given, Login, Place, Providers, Shells
from .config import Configuration, codex_file, read_file, user_file
from .contract import Asked, Contract
from .programs import find
from .selection import Selection, check_names
from .settings import Settings
from .snapshot import ask
from .startup import places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..env.layer import Layer
    from ..env.resolve import Resolved
    from .checks import Check, Verdict

SCHEMA_VERSION = 1
# What people ask for by name and get from somewhere else.
PROGRAMS = ("python", "python3", "pip", "node", "npm", "ruby", "go", "cargo", "java", "git", "make", "cc")
_FILE_SIZE = 1 << 18  # a startup file that is longer is not one that somebody wrote
_INITS = ("init", "systemd", "launchd", "runit", "s6-svscan", "dumb-init", "tini")
_STARTUP_KINDS = ("bash", "zsh", "fish", "tcsh", "csh", "dash", "ksh")


def examine(environ: Mapping[str, str], cwd: str, *, login: bool = True) -> dict[str, Any]:
    """The report as an object for JSON. `environ` is the environment that we were started in.

    `login` asks the login shell what it would make of a command's environment: that runs startup files.
    """
    machine = Machine(environ, cwd, login=login)
    checks = {}
    for check in CHECKS:
        begun = time.perf_counter()
        verdict = check.decide(*[machine.part(name) for name in check.needs])
        checks[check.id] = _entry(check, verdict, time.perf_counter() - begun, machine)
    found = {entry["status"] for entry in checks.values()}
    overall = next(status for status in STATUSES if status in {*found, "ok"})
    return {"schemaVersion": SCHEMA_VERSION, "overallStatus": overall, "checks": checks}


def _entry(check: Check, verdict: Verdict, seconds: float, machine: Machine) -> dict[str, Any]:
    def told(text: str) -> str:
        return shown(mask_pairs(text, machine.secrets))

    return {
        "category": check.category,
        "status": verdict.status,
        "summary": told(verdict.summary),
        "details": [told(line) for line in verdict.details],
        "remediation": told(verdict.remedy) or None,
        "durationMs": round(seconds * 1000, 1),
    }


class Machine:
    """What the checks need, each part found out once."""

    def __init__(self, environ: Mapping[str, str], cwd: str, *, login: bool) -> None:
        self._environ = environ
        self._cwd = os.path.realpath(cwd)
        self._ask = login
        self._home = facts.home(environ)
        self._parts: dict[str, Any] = {"cwd": self._cwd}
        self._layers: list[Layer] = []
        self._unrun: list[tuple[str, str, str]] = []  # the setup, if it would run now
        # Never told, wherever it turns up: an entry of PATH can hold one.
        self.secrets = Secrets().among(environ)

    def part(self, name: str) -> Any:
        """A part by its name, as `Check.needs` has it: each has a type of its own."""
        if name not in self._parts:
            self._parts[name] = getattr(self, f"_{name}")()
        return self._parts[name]

    # The contract

    def _configured(self) -> Configured:
        try:
            file = user_file(self._environ)
        except SettingInvalid:
            file = ""
        try:
            settings = Configuration(self._environ).settings(self._cwd)
            check_names(settings)
        except FileInvalid as error:
            return Configured(Settings(), error.mistakes, file)
        except SettingInvalid:
            pass  # a provider of somebody else, told below
        self.secrets = Secrets(settings.secret_names).among(self._environ)
        return Configured(settings, (), file)

    def _given(self) -> Given:
        configuration = None if self.part("configured").mistakes else Configuration(self._environ)
        contract = Contract(base_of("launcher", self._environ), configuration, facts.login_shell())
        if self._ask:
            contract.prepare()  # where a snapshot is configured, commands have it
        try:
            resolved = contract.resolve(self._asked(contract))
        except EnvironmentTooLarge as error:
            return Given(self._environ, {}, problem=str(error))
        except (SettingInvalid, Refused) as error:
            return Given(self._environ, {}, refused=str(error))
        self._layers = [layer for layer in resolved.layers if layer.level in (PROVIDER, SETUP)]
        return _given(self._environ, resolved)

    def _asked(self, contract: Contract) -> Asked:
        """The question about a command here; without a setup that would have to run for an answer."""
        settings = contract.settings(self._cwd)
        use = contract.setups.use(self._cwd, settings)
        if use is not None:
            found = contract.setups.status(use)
            secret = found.state == "applied" and found.kept is not None and found.kept.withheld
            if secret or found.state in ("new", "stale", "interrupted", "running"):
                note = (
                    "what it exports is secret in part, and looked at by no check" if secret else found.note
                )
                self._unrun = [(f"setup:{found.worktree}", found.state, note)]
                return Asked(self._cwd, {}, setup=False)
        return Asked(self._cwd, {})

    # Shells

    def _login(self) -> Login | None:
        given: Given = self.part("given")
        if not self._ask or given.problem or given.refused:
            return None
        settings: Settings = self.part("configured").settings
        found = ask("loginShell", given.values, settings.snapshot_timeout)
        if found.state != "captured":
            return Login(found.shell, found.state, {}, reason=found.reason)
        self.secrets += Secrets(settings.secret_names).among(found.values)
        name = os.path.basename(found.shell)
        kind = name if name in _STARTUP_KINDS else "sh"
        known = places(Plan([found.shell], kind, startup="report", login=True), given.values)
        replaced = _replaced(kind, self._home, given.values, found.values.get("PATH", ""))
        if replaced is not None:
            known = {**known, "PATH": replaced}
        programs = {}
        for program in PROGRAMS:
            here, there = (find(program, values, self._cwd) for values in (given.values, found.values))
            if here or there:
                programs[program] = (here, there)
        return Login(found.shell, found.state, found.values, places=known, programs=programs)

    def _shells(self) -> Shells:
        variable = self._environ.get("SHELL")
        return Shells(
            os.path.realpath(variable) if variable else None,
            os.path.realpath(facts.login_shell()),
            os.path.realpath(facts.command_shell()[1]),
        )

    # Where we are

    def _folders(self) -> frozenset[str]:
        return frozenset(filter(os.path.isdir, self._environ.get("PATH", "").split(":")))

    def _parent(self) -> str:
        """The program that started us, if it starts services."""
        pid = os.getppid()
        try:
            with open(f"/proc/{pid}/comm", "rb") as file:
                name = file.read(64).decode("utf-8", "replace").strip()
        except OSError:
            return ""
        return name if pid == 1 or name in _INITS else ""

    def _providers(self) -> Providers:
        given: Given = self.part("given")
        settings: Settings = self.part("configured").settings
        if given.refused:
            return Providers(refused=given.refused)
        layers = [(layer.id, layer.state, layer.note) for layer in self._layers if layer.id != "project"]
        layers += self._unrun
        # Those that could be meant; the ones that are in PATH already count as applied.
        used = {layer.producer for layer in self._layers}
        others = [
            (use.provider.id, use.found.files[0])
            for use in Selection().uses(self._cwd, Settings())
            if use.provider.id not in used
        ]
        return Providers(layers, others, declared=settings.providers is not None)

    # Files

    def _state(self) -> Place:
        path = installkey.state_folder(self._environ, self._home)
        return _place(os.path.realpath(path), _can_write(path))  # people keep such folders elsewhere

    def _key(self) -> Place:
        return _place(f"{installkey.state_folder(self._environ, self._home)}/key", True)

    def _codex(self) -> Codex:
        try:
            path = codex_file(self._environ)
        except SettingInvalid:
            return Codex("", None)
        settings: Settings = self.part("configured").settings
        imported = any(kind == "codex" for _, kind, _ in settings.files)
        try:
            said = read_file(path, "codex", self._home)
        except FileInvalid as error:
            return Codex(path, (), mistakes=[str(mistake) for mistake in error.mistakes])
        if said is None:
            return Codex(path, None)
        says = ["[shell_environment_policy]"] if said.policy is not None else []
        if said.login is not None:
            says.append("allow_login_shell")
        return Codex(path, says, imported=imported)


def _given(base: Mapping[str, str], resolved: Resolved) -> Given:
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
    return Given(base, resolved.values, removed=removed, from_base=from_base)


def _replaced(kind: str, home: str, env: Mapping[str, str], path: str) -> tuple[str, int] | None:
    """Where a startup file gives PATH a whole new value, of which there is something in `path`.

    The last line that changes it is often one that only adds to it.
    """
    for group in startup_files(kind, login=True, interactive=False, home=home, env=env):
        file = next((one for one in group if os.path.isfile(one)), None)
        if file is None:
            continue
        try:
            with open(file, encoding="utf-8", errors="replace") as opened:
                text = opened.read(_FILE_SIZE)
        except OSError:
            continue
        lines = text.split("\n")
        for line, name in assignments(text, kind):
            value = lines[line - 1].partition("=")[2].strip().strip("\"'")
            if name == "PATH" and value and "$" not in value and value in path:
                return file, line
    return None


def _place(path: str, usable: bool) -> Place:
    try:
        found = os.lstat(path)
    except OSError:
        return Place(path, None, usable=usable)
    ours = found.st_uid == os.getuid() and not stat.S_ISLNK(found.st_mode)
    return Place(path, stat.S_IMODE(found.st_mode), ours=ours, usable=usable, size=found.st_size)


def _can_write(path: str) -> bool:
    """Whether we can write into a folder, or make it."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK)
