"""An sshd of our own on loopback, with keys of its own: the row of ssh needs nobody's account set up."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["shared_ssh"]

_SBIN: Final = "/usr/sbin:/usr/local/sbin"
_SECONDS: Final = 20  # for keys, and for the first connection


@contextmanager
def shared_ssh(folder: str) -> Iterator[list[str] | None]:
    """The words before a command, over one connection that stays; None where ssh or sshd is missing."""
    path = f"{os.environ['PATH']}:{_SBIN}"
    daemon, ssh, keygen = (shutil.which(name, path=path) for name in ("sshd", "ssh", "ssh-keygen"))
    if daemon is None or ssh is None or keygen is None:
        yield None
        return
    for key in ("host", "user"):
        words = [keygen, "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{key}"]
        subprocess.run(words, check=True, timeout=_SECONDS)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "ListenAddress": f"127.0.0.1:{port}",
        "HostKey": f"{folder}/host",
        "AuthorizedKeysFile": f"{folder}/user.pub",
        "PidFile": "none",
        "StrictModes": "no",
        "UsePAM": "no",
    }
    with open(f"{folder}/sshd", "w") as file:
        file.writelines(f"{name} {value}\n" for name, value in settings.items())
    if os.getuid() == 0:
        os.makedirs("/run/sshd", exist_ok=True)
    quiet = subprocess.DEVNULL
    popen = subprocess.Popen([daemon, "-D", "-f", f"{folder}/sshd"], stdin=quiet, stderr=quiet)
    try:
        options = {
            "BatchMode": "yes",
            "ConnectionAttempts": str(_SECONDS),
            "ControlMaster": "auto",
            "ControlPath": f"{folder}/ssh",
            "ControlPersist": "60",
            "IdentitiesOnly": "yes",
            "StrictHostKeyChecking": "no",
            "UserKnownHostsFile": "/dev/null",
        }
        words = [ssh, "-F", "none", "-q", "-i", f"{folder}/user", "-p", str(port)]
        words += [f"-o{name}={value}" for name, value in options.items()]
        first = [*words, "127.0.0.1", "true"]
        done = subprocess.run(
            first, stdin=quiet, stdout=quiet, stderr=quiet, timeout=2 * _SECONDS, check=False
        )
        yield None if done.returncode else [*words, "127.0.0.1"]
        subprocess.run([*words, "-O", "exit", "127.0.0.1"], stdout=quiet, stderr=quiet, check=False)
    finally:
        popen.terminate()
        popen.wait()
