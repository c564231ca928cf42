"""Keys that people rely on: kept, remembered, accepted."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest

from outfitter.errors import DialFailed, SettingInvalid
from outfitter.host.uids import ours
from outfitter.relay.keys import Keys, fingerprint
from outfitter.relay.known import Known
from outfitter.relay.pinned import AcceptedHarnesses, ExpectedExecutor, PinnedExecutor, kept_keys

ONE, OTHER = Keys().public, Keys().public


@pytest.fixture
def known(tmp_path: Path) -> Known:
    return Known(str(tmp_path / "relay"))


def test_keys_are_made_once_and_private(known: Known) -> None:
    path = known.key_file
    first = kept_keys(known, path)
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert kept_keys(known, path).public == first.public
    assert os.listdir(os.path.dirname(path)) == ["harness.key"]


def test_who_is_slower_in_making_keys_uses_those_that_are_there(known: Known) -> None:
    path = known.key_file
    made = kept_keys(known, path)
    known.keep(path, "of somebody slower\n", over=False)
    assert kept_keys(known, path).public == made.public


def test_half_a_key_is_not_kept(known: Known) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, hard))
    try:
        with pytest.raises(SettingInvalid, match="cannot be written: File too large"):
            kept_keys(known, known.key_file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(os.path.dirname(known.key_file)) == []


@pytest.mark.parametrize("over", [False, True])
def test_a_token_that_cannot_be_kept_is_nowhere(
    known: Known, monkeypatch: pytest.MonkeyPatch, over: bool
) -> None:
    def broken(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(SettingInvalid, match="cannot be written: Input/output error"):
        known.keep(known.key_file, "hush\n", over=over)
    assert os.listdir(os.path.dirname(known.key_file)) == []


@pytest.mark.parametrize("text", ["", "outfitter-relay-key-1 AAAA\n", "something else\n", "x " + "A" * 128])
def test_what_is_no_key_file_is_left_alone(text: str, known: Known) -> None:
    known.keep(known.key_file, text)
    with pytest.raises(SettingInvalid, match="has no keys of a relay"):
        kept_keys(known, known.key_file)
    assert Path(known.key_file).read_text() == text


def test_keys_that_others_can_read_are_not_used(known: Known) -> None:
    kept_keys(known, known.key_file)
    os.chmod(known.key_file, 0o640)
    with pytest.raises(SettingInvalid, match="chmod 600"):
        kept_keys(known, known.key_file)


def test_a_kept_key_is_remembered_and_a_changed_one_refused(known: Known) -> None:
    pin = PinnedExecutor(known, "https://relay.example", "box")
    pin.check(ONE)
    pin.remember(ONE, True)
    pin.check(ONE)
    with pytest.raises(DialFailed, match="has changed") as caught:
        pin.check(OTHER)
    path = known.pin_file("https://relay.example", "box")
    for said in (fingerprint(ONE), fingerprint(OTHER), f"delete {path}"):
        assert said in str(caught.value)
    assert not caught.value.retryable
    os.unlink(path)
    pin.check(OTHER)


def test_a_key_that_is_not_kept_is_not_remembered_but_does_not_replace_one_that_is(known: Known) -> None:
    pin = PinnedExecutor(known, "https://relay.example", "box")
    pin.remember(ONE, False)
    pin.check(OTHER)
    pin.remember(ONE, True)
    pin.remember(OTHER, False)  # a registry that says nothing of keeping gains nothing by it
    pin.remember(OTHER, True)
    with pytest.raises(DialFailed):
        pin.check(OTHER)
    pin.check(ONE)


def test_each_registry_and_environment_has_its_own(known: Known) -> None:
    PinnedExecutor(known, "https://relay.example", "box").remember(ONE, True)
    PinnedExecutor(known, "https://relay.example", "other").check(OTHER)
    PinnedExecutor(known, "https://another.example", "box").check(OTHER)


def test_a_pin_that_cannot_be_understood_lets_nobody_pass(known: Known) -> None:
    known.keep(known.pin_file("https://relay.example", "box"), "")
    with pytest.raises(DialFailed):
        PinnedExecutor(known, "https://relay.example", "box").check(ONE)


def test_the_key_that_a_url_names_is_the_only_one(known: Known) -> None:
    expected = ExpectedExecutor(fingerprint(ONE), "box")
    expected.check(ONE)
    expected.remember(OTHER, True)
    with pytest.raises(DialFailed, match="box has another key than its URL says") as caught:
        expected.check(OTHER)
    assert fingerprint(OTHER) in str(caught.value) and not caught.value.retryable


def test_only_who_is_listed_is_accepted_and_the_list_may_change(tmp_path: Path) -> None:
    path = tmp_path / "harnesses"
    path.write_text(f"# ours\n\n{fingerprint(ONE).upper()} ada's laptop\n")
    accepted = AcceptedHarnesses(str(path), first=False, owners=ours)
    assert accepted.may_ask(ONE) and accepted.accepts(ONE)
    assert not accepted.may_ask(OTHER) and not accepted.accepts(OTHER)
    path.write_text(fingerprint(OTHER))
    assert not accepted.accepts(ONE) and accepted.accepts(OTHER)


def test_an_empty_list_accepts_nobody(tmp_path: Path) -> None:
    path = tmp_path / "harnesses"
    path.write_text("# nobody yet\n")
    accepted = AcceptedHarnesses(str(path), first=False, owners=ours)
    assert not accepted.may_ask(ONE) and not accepted.accepts(ONE)
    assert path.read_text() == "# nobody yet\n"


@pytest.mark.parametrize("before", ["# nobody yet\n", "# nobody yet", "", None])
def test_the_first_that_the_registry_lets_in_is_written_down(before: str | None, tmp_path: Path) -> None:
    path = tmp_path / "harnesses"
    if before is not None:
        path.write_text(before)
    accepted = AcceptedHarnesses(str(path), first=True, owners=ours)
    assert accepted.may_ask(ONE) and accepted.may_ask(OTHER)  # the registry has not answered yet
    assert accepted.accepts(ONE)
    assert not accepted.accepts(OTHER) and not accepted.may_ask(OTHER)
    assert accepted.accepts(ONE)
    assert path.read_text().splitlines()[-1] == f"{fingerprint(ONE)} # the first"
    if before is None:
        assert path.stat().st_mode & 0o777 == 0o600


def test_who_is_refused_is_named_so_that_it_can_be_added(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "harnesses"
    path.write_text(fingerprint(ONE))
    accepted = AcceptedHarnesses(str(path), first=False, owners=ours)
    assert accepted.may_ask(ONE) and caplog.messages == []
    assert not accepted.may_ask(OTHER)
    [told] = caplog.messages
    assert fingerprint(OTHER) in told and str(path) in told


@pytest.mark.parametrize("first", [False, True])
def test_a_list_that_cannot_be_read_accepts_nobody(first: bool, tmp_path: Path) -> None:
    path = tmp_path / "harnesses"
    path.write_text(fingerprint(ONE))
    accepted = AcceptedHarnesses(str(path), first=first, owners=ours)
    path.write_bytes(b"\xff\n")
    for ask in (accepted.may_ask, accepted.accepts):
        with pytest.raises(SettingInvalid, match="cannot be read: UnicodeDecodeError"):
            ask(ONE)
    path.unlink()
    path.mkdir(mode=0o700)
    with pytest.raises(SettingInvalid, match="cannot be read: IsADirectoryError"):
        accepted.accepts(ONE)


@pytest.mark.parametrize(("before", "room"), [("# nobody yet\n", 20), ("# nobody yet", 13)])
def test_the_first_is_accepted_only_if_it_can_be_written_down_whole(
    before: str, room: int, tmp_path: Path
) -> None:
    """Half of a key is nobody's, and would lock everybody out; without any of it, the next would be first."""
    path = tmp_path / "harnesses"
    path.write_text(before)
    accepted = AcceptedHarnesses(str(path), first=True, owners=ours)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        with pytest.raises(SettingInvalid, match="cannot be written: No space left"):
            accepted.accepts(ONE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_text() == before
    assert accepted.accepts(ONE) and not accepted.accepts(OTHER)


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_list_that_is_missing_or_that_others_can_change_is_refused(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "harnesses"
    with pytest.raises(SettingInvalid, match="does not exist"):
        AcceptedHarnesses(str(path), first=False, owners=ours)
    path.write_text(fingerprint(ONE))
    accepted = AcceptedHarnesses(str(path), first=False, owners=ours)
    path.chmod(mode)
    with pytest.raises(SettingInvalid, match="changed by other users"):
        accepted.accepts(ONE)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_list_of_another_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "harnesses"
    path.write_text(fingerprint(ONE))
    accepted = AcceptedHarnesses(str(path), first=True, owners=ours)
    os.chown(path, 4711, -1)
    with pytest.raises(SettingInvalid, match=r"belongs to another user \(uid 4711\), who can add keys"):
        accepted.accepts(ONE)
    assert AcceptedHarnesses(str(path), first=False, owners=lambda: (0, 4711)).accepts(ONE)
