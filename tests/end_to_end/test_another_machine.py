"""README's recipe for a host, from another machine: stock Codex and our own client, with TLS and a token.

Server and clients are in network namespaces of their own, so that nothing is loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from outfitter import SettingInvalid, connect
from tests.support.codex import Run, run_codex
from tests.support.model import Output, Script, exec_command, modelling
from tests.support.network import Machine, two_machines
from tests.support.servers import Server, serving
from tests.support.tools import ROOT

ENVIRONMENTS = """\
default = "build"
include_local = false

[[environments]]
id = "build"
url = "{url}"
auth_bearer_token = "{token}"
"""


def commands(host: Machine) -> list[str]:
    """The README's commands on the host, with its address for the name, which nobody could resolve."""
    page = (ROOT / "README.md").read_text().partition("### You run machines for others")[2]
    block = page.split("```")[1].partition("# On another machine")[0].replace("\\\n", "")
    found = [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
    places = {"wss://0.0.0.0:8765": f"wss://{host.address}:0", "DNS:build.example.com": f"IP:{host.address}"}
    for old, new in places.items():
        assert any(old in line for line in found)
        found = [line.replace(old, new) for line in found]
    return found


class Stage:
    """A server on one machine, and another machine."""

    def __init__(self, server: Server, other: Machine, root: Path) -> None:
        self.server = server
        self.other = other
        self.root = root
        self.cert = root / "cert.pem"
        self.token = root / "token"
        self.secret = self.token.read_text().strip()

    def codex(self, *, token: str, env: dict[str, str]) -> tuple[Run, list[Output]]:
        """What stock Codex on the other machine does with one command."""

        def script() -> Script:
            yield [exec_command("echo $PLACE")]
            return "done"

        def there() -> tuple[Run, list[Output]]:
            with modelling(script) as model:
                run = run_codex(
                    self.root / "client",
                    model=model.url,
                    cwd=self.root,
                    env=env,
                    environments=ENVIRONMENTS.format(url=self.server.url, token=token),
                )
            return run, model.outputs

        return self.other.run(there)

    def outfitter(self, *args: str) -> subprocess.CompletedProcess[str]:
        """What our command line on the other machine says."""
        return self.other.run(
            lambda: subprocess.run(
                [sys.executable, "-m", "outfitter", *args],
                capture_output=True,
                text=True,
                cwd=self.root,
                env={"PATH": os.environ["PATH"], "HOME": str(self.root), "LANG": "C.UTF-8"},
            )
        )


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    root = tmp_path_factory.mktemp("machines")
    with two_machines() as (host, other), contextlib.ExitStack() as stack:
        make_token, make_certificate, serve = commands(host)
        for command in (make_token, make_certificate):
            subprocess.run(["sh", "-c", command], cwd=root, check=True, capture_output=True)
        _, _, _, listen, *flags = shlex.split(serve)
        starting = serving(
            "outfitter", root / "server", *flags, env={"PLACE": "there"}, cwd=root, listen=listen
        )
        server = host.run(lambda: stack.enter_context(starting))
        yield Stage(server, other, root)


def test_stock_codex_runs_commands_there(stage: Stage) -> None:
    run, outputs = stage.codex(token=stage.secret, env={"SSL_CERT_FILE": str(stage.cert)})
    assert (run.exit_code, run.message) == (0, "done")
    assert [(out.exit_code, out.text) for out in outputs] == [(0, "there\n")]


def test_stock_codex_needs_the_ca_and_the_token(stage: Stage) -> None:
    # Its own variable is for other connections of Codex: this one does not read it.
    without_ca = stage.codex(token=stage.secret, env={"CODEX_CA_CERTIFICATE": str(stage.cert)})
    without_token = stage.codex(token="another", env={"SSL_CERT_FILE": str(stage.cert)})
    for run, outputs in (without_ca, without_token):
        assert [out.exit_code for out in outputs] == [None]
        assert "No usable execution environment" in outputs[0].raw + run.stderr


def test_our_command_line_runs_commands_there(stage: Stage) -> None:
    flags = ("--token-file", str(stage.token), "--tls-ca", str(stage.cert))
    done = stage.outfitter("run", "--on", stage.server.url, *flags, "--", "sh", "-c", "echo $PLACE; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, "there\n", "")
    done = stage.outfitter("run", "--on", stage.server.url, "--tls-ca", str(stage.cert), "--", "true")
    assert done.returncode == 125
    assert "401 Unauthorized: missing websocket bearer token" in done.stderr
    done = stage.outfitter("run", "--on", stage.server.url, "--token-file", str(stage.token), "--", "true")
    assert done.returncode == 125
    assert "its certificate is not trusted: self-signed certificate; name the file of its CA" in done.stderr


def test_our_command_line_finds_a_command_again(stage: Stage) -> None:
    flags = (
        "--token-file",
        str(stage.token),
        "--tls-ca",
        "cert.pem",
    )  # relative: written down as it is found
    run = ("run", "--on", stage.server.url, *flags, "--detach", "--", "sh", "-c", "echo $PLACE")
    assert stage.outfitter(*run).returncode == 0
    done = stage.outfitter("attach")
    assert (done.returncode, done.stdout) == (0, "there\n")


def test_a_named_environment_runs_commands_there(stage: Stage) -> None:
    folder = stage.root / ".config" / "outfitter"
    folder.mkdir(parents=True)
    text = ENVIRONMENTS.format(url=stage.server.url, token=stage.secret) + 'tls_ca = "../../cert.pem"\n'
    (folder / "environments.toml").write_text(text)
    done = stage.outfitter("run", "--", "sh", "-c", "echo $PLACE")
    assert (done.returncode, done.stdout, done.stderr) == (0, "there\n", "")


def test_our_library_sends_the_token_over_tls_alone(stage: Stage) -> None:
    async def scenario(url: str) -> bytes:
        async with connect(
            url, token=stage.secret, ca=stage.cert if url.startswith("wss") else None
        ) as client:
            return (await client.run(["sh", "-c", "echo $PLACE"])).stdout

    def there(url: str) -> bytes:
        return asyncio.run(asyncio.wait_for(scenario(url), 30))

    url = stage.server.url
    assert stage.other.run(lambda: there(url)) == b"there\n"
    with pytest.raises(SettingInvalid, match="headers require wss:// or a loopback destination"):
        stage.other.run(lambda: there(url.replace("wss:", "ws:")))
