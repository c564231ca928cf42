"""The engine of Slurm: Debian's slurm-wlm on this machine, a controller and one node on loopback."""

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
from outfitter.pool.remote import NODE_COMMAND
from outfitter.pool.slurm import SlurmEngine
from tests.pool.engines import EngineTests, kill_keeper
from tests.support.machine import wait_until
from tests.support.tools import missing

_PROGRAMS = ("munged", "slurmctld", "slurmd")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.fixture(scope="module")
def slurm() -> Iterator[dict[str, str]]:
    """What the engine is to find in its environment."""
    paths = [shutil.which(name, path="/usr/sbin:" + os.environ["PATH"]) for name in _PROGRAMS]
    if None in paths or os.getuid() != 0:
        missing("Slurm", "run `scripts/engines` as root")
    with tempfile.TemporaryDirectory(prefix="ol", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        key = folder / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        host = socket.gethostname()
        settings = f"""
            ClusterName=test
            SlurmctldHost={host}(127.0.0.1)
            SlurmctldPort={_free_port()}
            SlurmdPort={_free_port()}
            CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
            AuthType=auth/munge
            AuthInfo=socket={folder}/munge
            CryptoType=crypto/munge
            CredType=cred/munge
            SlurmUser=root
            SlurmdUser=root
            StateSaveLocation={folder}/state
            SlurmdSpoolDir={folder}/spool
            SlurmctldPidFile={folder}/ctld.pid
            SlurmdPidFile={folder}/d.pid
            MpiDefault=none
            ProctrackType=proctrack/linuxproc
            TaskPlugin=task/none
            SelectType=select/cons_tres
            SelectTypeParameters=CR_CPU
            SlurmdParameters=config_overrides
            ReturnToService=2
            InactiveLimit=30
            KillWait=5
            NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=1000 Feature=fast
            PartitionName=test Nodes=n1 Default=YES State=UP MaxTime=INFINITE
        """
        conf = folder / "slurm.conf"
        conf.write_text("\n".join(line.strip() for line in settings.splitlines()))
        (folder / "state").mkdir()
        (folder / "spool").mkdir()
        environ = {**os.environ, "SLURM_CONF": str(conf)}
        munge = [f"--key-file={key}", f"--socket={folder}/munge", f"--pid-file={folder}/munge.pid"]
        munge += [f"--log-file={folder}/munge.log", f"--seed-file={folder}/seed", "--force", "--foreground"]
        commands = [[paths[0], *munge], [paths[1], "-D", "-f", str(conf)]]
        commands.append([paths[2], "-D", "-f", str(conf), "-N", "n1"])
        running: list[subprocess.Popen[bytes]] = []
        try:
            with (folder / "log").open("wb") as log:
                for command in commands:
                    running.append(subprocess.Popen(command, stdout=log, stderr=log, env=environ))
                    if len(running) == 1:
                        wait_until(lambda: (folder / "munge").exists(), "munge listens")
            asked = ["sinfo", "--noheader", "--format=%t"]
            wait_until(
                lambda: "idle" in subprocess.run(asked, capture_output=True, text=True, env=environ).stdout,
                "the node is up: " + (folder / "log").read_text()[-2000:],
                60.0,
            )
            own = f"env OUTFITTER_POOL_ROOT={folder} PATH=/usr/bin:/bin {sys.executable} -m outfitter"
            yield {"SLURM_CONF": str(conf), NODE_COMMAND: own}
        finally:
            for popen in reversed(running):
                popen.terminate()
                popen.wait()


class TestSlurm(EngineTests):
    kill = staticmethod(kill_keeper)

    @pytest.fixture
    def opened(
        self, slurm: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> Callable[[], Awaitable[Engine]]:
        monkeypatch.setenv("SLURM_CONF", slurm["SLURM_CONF"])

        async def make() -> Engine:
            engine = SlurmEngine("", slurm)
            await engine.open()
            return engine

        return make
