"""outfitter service: a systemd unit that keeps a server running."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from json import dumps
from pathlib import Path
from typing import Any

from ..errors import SettingInvalid
from ..transport.unix import PREFIX, path_of
from .console import say
from .env.output import write_whole
from .flags import SERVE

NAME = "outfitter.service"
_SYSTEM = Path("/etc/systemd/system")
_DEFAULT_URL = "ws://127.0.0.1:4500"  # as the examples of Codex's documentation
# Flags of a server that name a place on this machine.
_PLACES = {"--listen"} | {flag.option for flag in SERVE if flag.metavar in ("DIR", "FILE", "PATH")}

# For both kinds of unit. Commands may do what the user may do, so nothing here keeps them from files,
# devices or the network. Most settings that confine a service make it impossible to confine its commands, or
# take more away than they say. What mounts something on /proc (ProtectKernelTunables=, ProtectKernelLogs=,
# ProtectHostname=) leaves sandboxes without one. In a unit of a user, many put the server in a user
# namespace, where root's files are nobody's, and the others imply NoNewPrivileges=. Before systemd 252,
# ProtectClock= shuts all devices but a few off.
_UNIT = """\
[Unit]
Description=Outfitter exec-server
Documentation=man:systemd.exec(5)
After=network.target

[Service]
Type=exec
ExecStart={command}
# SIGHUP reads tokens and certificates again and ends nothing.
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=2
# The server ends its commands itself; what it leaves after 10 s is killed.
KillMode=mixed
TimeoutStopSec=10
# A command that runs out of memory takes nothing else with it.
OOMPolicy=continue
# For --cgroup: the server may make control groups below its own.
Delegate=yes
LimitNOFILE=65536
LimitCORE=0
{more}
[Install]
WantedBy={target}
"""
# What no build needs.
_OF_SYSTEM = """\
CapabilityBoundingSet=~CAP_SYS_TIME CAP_WAKE_ALARM CAP_SYSLOG CAP_SYS_MODULE
LockPersonality=yes
RestrictRealtime=yes
"""


def unit(command: list[str], *, system: bool) -> str:
    """The text of the unit that runs this command."""
    target = "multi-user.target" if system else "default.target"
    more = _OF_SYSTEM if system else ""
    return _UNIT.format(command=" ".join(map(_quoted, command)), more=more, target=target)


def _quoted(word: str) -> str:
    """A word of ExecStart=, quoted where it must be; systemd's own % and $ stand for themselves."""
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{word}"' if not word or any(c in word for c in " \t'\"\\;") else word


def install(arguments: tuple[str, ...], flags: dict[str, Any]) -> int:
    """Writes the unit and starts it; returns the exit status. Raises SettingInvalid."""
    system = _is_system(flags)
    given = [word.partition("=")[0] for word in arguments]
    if system and "--run-as" not in given:
        raise SettingInvalid(
            "commands of a system service would be root's: add -- --run-as USER, the user that they run as"
        )
    for word in arguments:
        if not word.isprintable():
            raise SettingInvalid(f"{word!r} cannot stand in a unit: only what can be printed, in UTF-8, can")
    listen = () if "--listen" in given else ("--listen", _DEFAULT_URL)
    text = unit([*_ourselves(), "serve", *listen, *_from_anywhere(arguments)], system=system)
    if flags["print"]:
        sys.stdout.write(text)
        return 0
    place = _folder(system=system) / NAME
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingInvalid(f"{place} cannot be written: {error.strerror}") from None
    write_whole(str(place), text.encode(), sync=True)
    say(f"wrote {place}")
    return _told(place, _systemctl(system, ["daemon-reload"], ["enable", "--now", NAME]), flags)


def remove(flags: dict[str, Any]) -> int:
    """Stops the server and removes the unit; returns the exit status. Raises SettingInvalid."""
    system = _is_system(flags)
    place = _folder(system=system) / NAME
    if not place.exists():
        say(f"{place} does not exist: nothing to remove")
        return _told(place, 0, flags)
    status = _systemctl(system, ["disable", "--now", NAME])
    try:
        place.unlink()
    except OSError as error:
        raise SettingInvalid(f"{place} cannot be removed: {error.strerror}") from None
    say(f"removed {place}")
    return _told(place, status or _systemctl(system, ["daemon-reload"]), flags)


def _from_anywhere(arguments: tuple[str, ...]) -> list[str]:
    """The same flags for a server that is started in another directory. Raises SettingInvalid."""
    found: list[str] = []
    option = ""  # whose value comes next
    for word in arguments:
        name, equals, value = word.partition("=")
        if option:
            found.append(_absolute(option, word))
            option = ""
        elif equals:
            found.append(f"{name}={_absolute(name, value)}")
        else:
            found.append(word)
            option = word if word in _PLACES else ""
    return found


def _absolute(option: str, value: str) -> str:
    if option == "--listen":
        return PREFIX + path_of(value) if value.startswith(PREFIX) else value
    return os.path.abspath(value) if option in _PLACES and value != "-" else value


def _told(place: Path, status: int, flags: dict[str, Any]) -> int:
    if flags["json"]:
        print(dumps({"unit": str(place), "systemdTold": status == 0}))
    return status


def _is_system(flags: dict[str, Any]) -> bool:
    if flags["system"] and flags["user"]:
        raise SettingInvalid("--system and --user cannot be used together")
    if flags["system"] and os.geteuid() != 0 and not flags.get("print"):
        raise SettingInvalid("--system needs root: use sudo, or --user for a service of your own")
    return bool(flags["system"])


def _ourselves() -> list[str]:
    """This program by its whole path: a unit has no PATH of the user's."""
    program = os.path.abspath(sys.argv[0])
    if os.path.basename(program) == "outfitter" and os.access(program, os.X_OK):
        return [program]
    return [sys.executable, "-m", "outfitter"]


def _folder(*, system: bool) -> Path:
    if system:
        return _SYSTEM
    config = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(config):  # then it is to be ignored, and systemd does
        config = os.path.expanduser("~/.config")
    return Path(config) / "systemd/user"


def _systemctl(system: bool, *commands: list[str]) -> int:
    """Tells systemd, or says what to type where it does not answer."""
    base = ["systemctl"] if system else ["systemctl", "--user"]
    for at, words in enumerate(commands):
        failed = "systemctl is not installed"
        if shutil.which("systemctl") is not None:
            ran = subprocess.run([*base, *words], capture_output=True, text=True)
            if ran.returncode == 0:
                continue
            failed = ran.stderr.strip() or f"exit status {ran.returncode}"
        say(f"systemd was not told: {failed}")
        say("once systemd runs, type: " + " && ".join(" ".join([*base, *rest]) for rest in commands[at:]))
        return 1
    return 0
