"""The engine of ssh, through Debian's sshd on loopback, and what it is told."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from outfitter.pool.engine import Engine
from outfitter.pool.ssh import SSH_COMMAND, SshEngine
from tests.pool.engines import EngineTests, kill_keeper
from tests.support.machine import wait_until
from tests.support.tools import missing


@pytest.fixture(scope="module")
def ssh_command() -> Iterator[str]:
    """ssh to a daemon of our own, with keys of our own."""
    daemon = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:" + os.environ["PATH"])
    if daemon is None:
        missing("sshd", "run `scripts/engines`")
    with tempfile.TemporaryDirectory(prefix="os", dir="/tmp") as name:
        folder = Path(name)
        for key in ("host", "user"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)],
                check=True,
                timeout=60,
            )
        shutil.copy(folder / "user.pub", folder / "authorized")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        settings = f"""
            ListenAddress 127.0.0.1:{port}
            HostKey {folder}/host
            AuthorizedKeysFile {folder}/authorized
            PidFile none
            StrictModes no
            UsePAM no
            PermitRootLogin prohibit-password
            MaxStartups 100
            SetEnv PATH={Path(sys.executable).parent}:/usr/bin:/bin OUTFITTER_POOL_ROOT={folder}
        """
        (folder / "sshd").write_text("\n".join(line.strip() for line in settings.splitlines()))
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        with (folder / "log").open("wb") as log:
            popen = subprocess.Popen([daemon, "-D", "-e", "-f", str(folder / "sshd")], stderr=log)
        try:
            wait_until(lambda: b"listening on" in (folder / "log").read_bytes(), "sshd listens")
            flags = f"-F none -i {folder}/user -p {port} -o UserKnownHostsFile={folder}/known"
            yield f"ssh {flags} -o StrictHostKeyChecking=accept-new -o IdentitiesOnly=yes"
        finally:
            popen.terminate()
            popen.wait()


class TestSsh(EngineTests):
    kill = staticmethod(kill_keeper)

    @pytest.fixture
    def opened(self, ssh_command: str) -> Callable[[], Awaitable[Engine]]:
        async def make() -> Engine:
            engine = SshEngine({"127.0.0.1": 2}, {SSH_COMMAND: ssh_command})
            await engine.open()
            return engine

        return make
