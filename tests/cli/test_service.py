"""outfitter service: the unit that it writes, and what it says to systemd."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from outfitter.cli.service import unit
from tests.support.tools import program


def service(home: Path, *args: str, path: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "outfitter", "service", *args],
        env={"HOME": str(home), "PATH": path or os.environ["PATH"], **more},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=60,
    )


def start_line(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("ExecStart="))


@pytest.mark.parametrize("system", [False, True])
def test_systemd_accepts_the_unit(tmp_path: Path, system: bool) -> None:
    analyze = program("systemd-analyze")
    odd = ["/bin/echo", "a b", "50%", "$HOME", 'say "x"', "back\\slash", "semi;colon", ""]
    place = tmp_path / "outfitter.service"
    place.write_text(unit(odd, system=system))
    ran = subprocess.run(
        [analyze, *([] if system else ["--user"]), "verify", "--recursive-errors=no", place],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("system", [False, True])
def test_no_setting_of_the_unit_keeps_commands_from_their_sandboxes(system: bool) -> None:
    names = {line.partition("=")[0] for line in unit(["/bin/true"], system=system).splitlines()}
    # What mounts something on /proc, and what shuts devices off.
    assert [name for name in names if name.startswith(("Protect", "Private", "Device"))] == []
    # In a unit of a user, systemd adds a user namespace to these, or NoNewPrivileges=.
    confining = ("Lock", "Restrict", "SystemCall", "Capability", "NoNew", "ReadOnly", "Inaccessible")
    assert system or [name for name in names if name.startswith(confining)] == []


def test_commands_of_a_service_make_files_as_others_do() -> None:
    # What is for one user alone the server makes so, whatever its umask: the unit's would be its commands'.
    assert "UMask" not in unit(["/bin/true"], system=True)


def test_a_user_installs_a_server_on_loopback_and_removes_it(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    said = tmp_path / "said"
    fake = tmp_path / "bin/systemctl"
    fake.write_text(f'#!/bin/sh\necho "$@" >>{said}\n')
    fake.chmod(0o755)
    path = f"{tmp_path}/bin:/usr/bin:/bin"
    ran = service(tmp_path, "install", "--", "--max-sessions", "5", path=path)
    place = tmp_path / ".config/systemd/user/outfitter.service"
    assert (ran.returncode, ran.stderr) == (0, f"outfitter: wrote {place}\n")
    assert start_line(place.read_text()).endswith(" serve --listen ws://127.0.0.1:4500 --max-sessions 5")
    assert service(tmp_path, "remove", path=path).returncode == 0
    assert not place.exists()
    assert said.read_text().splitlines() == [
        "--user daemon-reload",
        "--user enable --now outfitter.service",
        "--user disable --now outfitter.service",
        "--user daemon-reload",
    ]


def test_a_unit_that_cannot_be_written_leaves_the_one_that_is_there(tmp_path: Path) -> None:
    place = tmp_path / ".config/systemd/user/outfitter.service"
    assert service(tmp_path, "install", path="/nonexistent").stderr.startswith("outfitter: wrote ")
    before = place.read_text()
    full = ["/bin/sh", "-c", 'ulimit -f 0; exec "$@"', "sh", sys.executable, "-m", "outfitter"]
    ran = subprocess.run(
        [*full, "service", "install", "--", "--max-sessions", "5"],
        env={"HOME": str(tmp_path), "PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (1, f"outfitter: cannot write {place}: File too large\n")
    assert (place.read_text(), os.listdir(place.parent)) == (before, ["outfitter.service"])


def test_a_unit_that_is_masked_is_not_written(tmp_path: Path) -> None:
    place = tmp_path / ".config/systemd/user/outfitter.service"
    place.parent.mkdir(parents=True)
    place.symlink_to("/dev/null")  # as `systemctl mask` does it
    ran = service(tmp_path, "install", path="/nonexistent")
    assert (ran.returncode, ran.stderr) == (1, f"outfitter: cannot write {place}: It is not a file\n")
    assert place.is_symlink()


def test_paths_are_those_of_the_directory_that_one_is_in(tmp_path: Path) -> None:
    # The unit's own is another one.
    flags = ("--listen", "unix:s", "--ws-token-file", "a b", "--ws-token-file=t", "--audit", "-")
    more = ("--audit-commands", "full", "--tls-cert=/etc/c", "--ws-issuer", "me")
    here = tmp_path
    ran = service(tmp_path, "install", "--print", "--", *flags, *more)
    assert start_line(ran.stdout).partition(" serve ")[2] == (
        f'--listen unix:{here}/s --ws-token-file "{here}/a b" --ws-token-file={here}/t --audit - '
        "--audit-commands full --tls-cert=/etc/c --ws-issuer me"
    )


@pytest.mark.parametrize("flags", [("--nonesuch",), ("--listen",), ("--max-sessions", "0"), ("surplus",)])
def test_flags_that_no_server_takes_are_told_before_there_is_a_unit(
    flags: tuple[str, ...], tmp_path: Path
) -> None:
    ran = service(tmp_path, "install", "--", *flags, path="/nonexistent")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("Usage: outfitter serv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a\nExecStartPre=/bin/false", "a\udcff"])
def test_flags_that_no_unit_can_have_are_told(name: str, tmp_path: Path) -> None:
    ran = service(tmp_path, "install", "--", "--name", name, path="/nonexistent")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.endswith(" cannot stand in a unit: only what can be printed, in UTF-8, can\n")
    assert list(tmp_path.iterdir()) == []


def test_a_relative_folder_of_settings_is_ignored_as_systemd_does(tmp_path: Path) -> None:
    ran = service(tmp_path, "install", path="/nonexistent", XDG_CONFIG_HOME="relative")
    assert ran.stderr.startswith(f"outfitter: wrote {tmp_path}/.config/systemd/user/outfitter.service\n")


def test_where_systemd_does_not_answer_the_commands_are_named(tmp_path: Path) -> None:
    ran = service(tmp_path, "install", path="/nonexistent")
    assert ran.returncode == 1
    assert "systemctl is not installed" in ran.stderr
    assert "systemctl --user daemon-reload && systemctl --user enable --now outfitter.service" in ran.stderr


def test_json_says_where_the_unit_is(tmp_path: Path) -> None:
    unit_file = tmp_path / ".config/systemd/user/outfitter.service"
    ran = service(tmp_path, "install", "--json", path="/nonexistent")
    assert (ran.returncode, json.loads(ran.stdout)) == (1, {"unit": str(unit_file), "systemdTold": False})
    unit_file.unlink()
    ran = service(tmp_path, "remove", "--json", path="/nonexistent")
    assert (ran.returncode, json.loads(ran.stdout)) == (0, {"unit": str(unit_file), "systemdTold": True})
    assert service(tmp_path, "install", "--print", "--json", path="/nonexistent").returncode == 2


def test_a_system_service_needs_another_user_for_its_commands(tmp_path: Path) -> None:
    ran = service(tmp_path, "install", "--system", "--print")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "add -- --run-as USER" in ran.stderr
    ran = service(tmp_path, "install", "--system", "--print", "--", "--run-as=nobody", "--listen", "stdio")
    assert ran.returncode == 0
    assert start_line(ran.stdout).endswith(" serve --run-as=nobody --listen stdio")


def test_one_kind_of_service_at_a_time(tmp_path: Path) -> None:
    ran = service(tmp_path, "remove", "--system", "--user")
    assert (ran.returncode, ran.stderr) == (1, "outfitter: --system and --user cannot be used together\n")
