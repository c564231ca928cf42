"""Outfitter's own files."""

from __future__ import annotations

from pathlib import Path

import pytest

from outfitter.contract.doctor.machine import Machine
from outfitter.contract.doctor.state import OwnFile, key_file, relay_files, relays, state, state_folder
from outfitter.host import installkey, uids

from .build import seen


@pytest.mark.parametrize(
    ("key", "status"),
    [
        (OwnFile("/k", None), "ok"),
        (OwnFile("/k", 0o600, size=32), "ok"),
        (OwnFile("/k", 0o644, size=32), "warning"),
        (OwnFile("/k", 0o600, size=5), "warning"),
        (OwnFile("/k", 0o600, size=32, ours=False), "warning"),
    ],
)
def test_the_key_must_be_private_and_whole(key: OwnFile, status: str) -> None:
    assert seen(key_file(key))[0] == status


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (OwnFile("/s", None), "ok"),
        (OwnFile("/s", None, usable=False), "warning"),
        (OwnFile("/s", 0o700), "ok"),
        (OwnFile("/s", 0o500, usable=False), "warning"),
        (OwnFile("/s", 0o777), "error"),
        (OwnFile("/s", 0o700, ours=False), "error"),
    ],
)
def test_the_state_folder_must_be_ours_and_writable(state: OwnFile, status: str) -> None:
    assert seen(state_folder(state))[0] == status


@pytest.mark.parametrize(
    ("held", "told", "remedy"),
    [
        (
            OwnFile("/home/ada/.local", 0o700, ours=False, below_home=True),
            ("/s", "/home/ada/.local belongs to another user"),
            "Run `sudo chown -R $(id -u) /home/ada/.local`, or set OUTFITTER_HOME to a directory of yours.",
        ),
        (
            OwnFile("/", 0o755, ours=False),
            ("/s", "/ belongs to another user"),
            "Set OUTFITTER_HOME to a directory of yours.",
        ),
        (
            OwnFile("/s", 0o500),
            ("/s",),
            "Run `chmod u+rwx /s`, or set OUTFITTER_HOME to a directory of yours.",
        ),
        (OwnFile("/s", 0o700), ("/s",), "Set OUTFITTER_HOME to a directory of yours."),
    ],
)
def test_the_remedy_is_about_the_folder_that_is_in_the_way(
    held: OwnFile, told: tuple[str, ...], remedy: str
) -> None:
    # After `sudo` with HOME as it was, ~/.local is root's.
    found = state_folder(OwnFile("/s", None, usable=False, held=held))
    assert (seen(found)[1], found.remedy) == (told, remedy)


def test_the_folder_in_the_way_is_found(tmp_path: Path) -> None:
    (tmp_path / ".local").write_text("")  # so that nobody can make anything below it, root neither
    found = state(Machine({"HOME": str(tmp_path)}, "/", login=False))
    assert not found.usable
    assert found.held is not None
    assert (found.held.path, found.held.below_home) == (str((tmp_path / ".local").resolve()), True)


def test_what_is_ours_belongs_to_the_user_whom_we_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine({"HOME": str(tmp_path), "OUTFITTER_HOME": str(tmp_path)}, "/", login=False)
    Path(installkey.state_folder(machine.environ, machine.home)).mkdir(parents=True, exist_ok=True)
    assert state(machine).ours
    monkeypatch.setattr(uids, "assumed", uids.own() + 1)
    assert not state(machine).ours


@pytest.mark.parametrize(
    ("files", "status"),
    [
        ((), "ok"),
        ((OwnFile("/r/box.use.token", 0o600),), "ok"),
        ((OwnFile("/r/box.use.token", 0o640),), "error"),
        ((OwnFile("/r/harness.key", 0o604),), "error"),
        ((OwnFile("/r/harness.key", 0o600, ours=False),), "error"),
        ((OwnFile("/r/box.executor.pin", 0o644),), "ok"),
        ((OwnFile("/r/box.executor.pin", 0o664),), "error"),
    ],
)
def test_tokens_are_private_and_pins_ours(files: tuple[OwnFile, ...], status: str) -> None:
    assert seen(relay_files(files))[0] == status


@pytest.mark.parametrize("variable", ["OUTFITTER_HOME", "XDG_STATE_HOME"])
def test_the_keys_of_executors_are_listed(variable: str, tmp_path: Path) -> None:
    from outfitter.relay.known import Known, folder

    environ = {"HOME": "/nowhere", variable: str(tmp_path)}
    known = Known(folder(environ))
    known.keep(known.pin_file("https://relay.example", "box"), "0123456789abcdef\n")
    known.keep(known.token_file("https://relay.example", "box", "use"), "secret\n")
    finding = relay_files(relays(Machine(environ, "/", login=False)))
    assert list(finding.details) == ["box: 0123456789abcdef"]
    assert "1 private files; the keys of 1 executors are known" in finding.summary
