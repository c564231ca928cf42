"""What doctor says of Codex's environments.toml."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from outfitter.cli.environmentchecks import CodexEnvironments, codex_environments, environments
from outfitter.contract.doctor.machine import Machine
from tests.contract.doctor.build import seen


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / ".codex").mkdir()
    return tmp_path / ".codex" / "environments.toml"


def found(file: Path, text: str | None = None, **environ: str) -> CodexEnvironments:
    if text is not None:
        file.write_text(text)
    home = file.parent.parent
    return environments(
        Machine({"HOME": str(home), "PATH": "/usr/bin:/bin", **environ}, str(home), login=False)
    )


def test_no_file_and_a_file_in_order_are_fine(file: Path) -> None:
    assert seen(codex_environments(found(file))) == ("ok", ())
    here = found(file, '[[environments]]\nid = "a"\nprogram = "sh"\n')
    assert here == CodexEnvironments(str(file), 1)
    assert seen(codex_environments(here)) == ("ok", (str(file),))
    other = file.parent.parent / "other"
    assert found(file, CODEX_HOME=str(other)) == CodexEnvironments(None)


def test_mistakes_are_told_with_their_lines(file: Path) -> None:
    here = found(file, '[[environments]]\nid = "a"\nurk = 1\n')
    status, details = seen(codex_environments(here))
    assert status == "warning" and f"{file}:3: " in " ".join(details)


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ('program = "/nonesuch/program"', "the program /nonesuch/program is not there"),
        ('url = "wss://127.0.0.1:1"\ntls_ca = "/nonesuch/ca"', "/nonesuch/ca cannot be read"),
        (
            'url = "wss://example.com"\nauth_bearer_token_file = "/nonesuch/token"',
            "/nonesuch/token cannot be",
        ),
    ],
)
def test_what_is_not_there_is_named(line: str, part: str, file: Path) -> None:
    here = found(file, f'[[environments]]\nid = "a"\n{line}\n')
    assert part in here.faults[0].text and f"{file}:1" in here.faults[0].text
    assert seen(codex_environments(here))[0] == "warning"


def test_server_of_this_machine_is_looked_for(file: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"ws://127.0.0.1:{listening.getsockname()[1]}"
        text = f'[[environments]]\nid = "a"\nurl = "{url}"\n'
        assert found(file, text).faults == ()
    [fault] = found(file).faults
    assert f"nobody answers at {url}: Connection refused" in fault.text
    assert fault.remedy == f"Start the server: `outfitter serve --listen {url}`."
    # What is far away, or behind a relay, is not knocked at.
    assert found(file, '[[environments]]\nid = "a"\nurl = "wss://192.0.2.1:1"\n').faults == ()
    assert found(file, '[[environments]]\nid = "a"\nurl = "noise+https://x.invalid/e"\n').faults == ()


def test_token_that_others_can_read_is_told(file: Path) -> None:
    text = '[[environments]]\nid = "a"\nurl = "wss://192.0.2.1:1"\nauth_bearer_token = "hush-hush"\n'
    file.touch(0o644)
    [fault] = found(file, text).faults
    assert (fault.remedy, "hush" in fault.text) == (f"Run `chmod 600 {file}`.", False)
    file.chmod(0o600)
    assert found(file).faults == ()
