"""Another user for files and children."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from outfitter.errors import SettingInvalid
from outfitter.host.identity import User, look_up
from tests.support.machine import public_folder

USER = User("builder", 1234, 1234, (1234, 100), "/home/builder", "/bin/zsh")
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")

# All that it needs is imported before: the interpreter may be where only root can read it.
PROGRAM = """
import errno, os, sys, threading
from outfitter.core.launch import Launch
from outfitter.host.identity import Assumed, look_up
from outfitter.host.spawn import Spawner, Stdio
from outfitter.host import facts, spawn, starters, uids

def try_to_read(path):
    try:
        with open(path) as file:
            file.read()
        return "read"
    except OSError as error:
        return errno.errorcode[error.errno]

def try_to_set(path):
    try:
        os.close(os.open(path, os.O_WRONLY))  # the kernel decides now; nothing is written
        return "open"
    except OSError as error:
        return errno.errorcode[error.errno]

path, own = sys.argv[1:]
assumed = spawn.assumed = Assumed(look_up("nobody"), os.environ)
print("ourselves", os.getresuid(), try_to_read(path), try_to_read("/proc/1/environ"))
with assumed.as_root():
    print("as root", try_to_read(path))
os.close(os.open(own, os.O_CREAT | os.O_WRONLY, 0o600))
print("ours", os.stat(own).st_uid)
uids.assumed = assumed.user.uid
print("account", facts.user(), facts.login_shell(), facts.home({}))
uids.assumed = None
settings = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname")
print("kernel", *map(try_to_set, settings))
thread = threading.Thread(target=lambda: print("thread", try_to_read(path), *map(try_to_set, settings)))
thread.start()
thread.join()
sys.stdout.flush()
for ourselves in (False, True):
    pid = Spawner().spawn(
        Launch(
            "sh",
            ["sh", "-c", "id -u; id -G"],
            "/",
            {"PATH": "/usr/bin:/bin"},
        ),
        Stdio(-1, 1, os.open("/dev/null", os.O_WRONLY)), ourselves=ourselves)
    os.waitpid(pid, 0)
print("still", os.getresuid(), os.getresgid(), try_to_read(path), *map(try_to_set, settings))
"""


@AS_ROOT
def test_files_and_children_are_the_other_users_and_the_server_stays_roots() -> None:
    with public_folder() as folder:
        secret = folder / "secret"
        secret.write_text("x")
        secret.chmod(0o600)
        command = [sys.executable, "-c", PROGRAM, secret, folder / "own"]
        ran = subprocess.run(command, capture_output=True, text=True, cwd="/")
    nobody = look_up("nobody")
    assert ran.stderr == ""
    assert ran.stdout.splitlines() == [
        "ourselves (0, 65534, 0) EACCES EACCES",
        "as root read",
        "ours 65534",
        f"account {nobody.name} {nobody.shell} {nobody.home}",
        "kernel EACCES EACCES",
        "thread EACCES EACCES EACCES",
        *("65534", "65534"),
        *("0", "0 65534"),
        "still (0, 65534, 0) (0, 65534, 0) EACCES EACCES EACCES",
    ]


def test_the_other_users_environment_leads_nowhere_of_roots() -> None:
    given = {
        "PATH": "/bin",
        "HOME": "/root",
        "USER": "root",
        "LOGNAME": "root",
        "SHELL": "/bin/sh",
        "XDG_RUNTIME_DIR": "/run/user/0",
        "XDG_CONFIG_HOME": "/root/.config",
        "SUDO_USER": "someone",
        "LANG": "C",
    }
    assert USER.environment(given) == {
        "PATH": "/bin",
        "HOME": "/home/builder",
        "USER": "builder",
        "LOGNAME": "builder",
        "SHELL": "/bin/zsh",
        "LANG": "C",
    }


@pytest.mark.parametrize("name", ["no-such-user", "4294967294", "99999999999999999999", ""])
def test_an_unknown_user_is_refused(name: str) -> None:
    with pytest.raises(SettingInvalid, match="this machine has no such user"):
        look_up(name)


@pytest.mark.parametrize("name", ["root", "0"])
def test_root_is_refused(name: str) -> None:
    with pytest.raises(SettingInvalid, match="leave it out, or name another user"):
        look_up(name)


def test_a_user_is_found_by_name_and_by_number() -> None:
    assert look_up("nobody") == look_up("65534")
    assert look_up("nobody").uid == 65534
