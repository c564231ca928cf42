"""Capability tokens: which are accepted, from where, and what is wrong with a file of them."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import pytest

from outfitter.errors import SettingInvalid
from outfitter.protocol.upgrade import Admitted
from outfitter.server.tokens import Tokens

ONE, TWO, THREE = "the first of tokens", "a-second-capability", "third-capability-of-all"
INVALID = "invalid websocket bearer token"


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def holder(token: str) -> Admitted:
    return Admitted(f"token:{digest(token)[:16]}")


def private(path: Path, text: str | bytes, mode: int = 0o600) -> str:
    """A file as `umask 077` makes it."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)
    return str(path)


def test_one_token_and_space_around_it(tmp_path: Path) -> None:
    tokens = Tokens([private(tmp_path / "token", f"  {ONE}\n\n")], [])
    assert (tokens(ONE), tokens(ONE + " "), tokens("")) == (holder(ONE), INVALID, INVALID)


def test_token_may_be_given_as_its_digest() -> None:
    tokens = Tokens([], [f" {digest(ONE).upper()} "])
    assert (tokens(ONE), tokens("other")) == (holder(ONE), INVALID)


def test_several_files_lines_and_digests_count_together(tmp_path: Path) -> None:
    lines = f"# tokens of the build machines\r\n\r\n{ONE} # ci\n\t{TWO}\t# release\n{ONE}\n"
    files = [private(tmp_path / "a", lines), private(tmp_path / "b", THREE)]
    tokens = Tokens(files, [digest("by digest"), digest("another")])
    accepted = (ONE, TWO, THREE, "by digest", "another")
    assert [tokens(token) for token in accepted] == [holder(token) for token in accepted]
    assert {tokens(wrong) for wrong in (f"{ONE} # ci", "# ci", "#", "ci", ONE[:-1])} == {INVALID}


def test_as_many_and_as_short_as_can_be(tmp_path: Path) -> None:
    shortest = "sixteen-bytes-ok"
    lines = [shortest, *(f"token-of-number-{number:06}" for number in range(255))]
    tokens = Tokens([private(tmp_path / "most", "\n".join(lines))], [])
    assert [tokens(one) for one in lines] == [holder(one) for one in lines]


def test_who_has_a_token_of_its_own_is_a_principal_of_its_own(tmp_path: Path) -> None:
    assert not Tokens([private(tmp_path / "one", f"{ONE}\n{ONE}")], [digest(ONE)]).several
    assert Tokens([private(tmp_path / "two", f"{ONE}\n{TWO}")], []).several


def test_token_outside_ascii_is_only_wrong() -> None:
    assert Tokens([], [digest(ONE)])("\xff\u20ac") == INVALID


def test_reload_takes_what_the_files_say_now(tmp_path: Path) -> None:
    file = private(tmp_path / "token", f"{ONE}\n{TWO}")
    tokens = Tokens([file], [digest(THREE)])
    Path(file).write_text(f"{TWO}\nfourth-capability-now")
    assert tokens(ONE) == holder(ONE)
    tokens.reload()
    accepted = (TWO, THREE, "fourth-capability-now")
    assert [tokens(token) for token in (ONE, *accepted)] == [INVALID, *map(holder, accepted)]
    principals = [holder(token).principal for token in (ONE, TWO, THREE)]
    assert [tokens.admits(principal) for principal in principals] == [False, True, True]


@pytest.mark.parametrize("broken", ["missing", "empty", "short", "readable"])
def test_reload_that_fails_changes_nothing(broken: str, tmp_path: Path) -> None:
    path = tmp_path / "token"
    tokens = Tokens([private(path, ONE)], [])
    if broken == "missing":
        path.unlink()
    else:
        text = {"empty": "", "short": f"{TWO}\nshort", "readable": TWO}[broken]
        private(path, text, 0o604 if broken == "readable" else 0o600)
    with pytest.raises(SettingInvalid, match=f"--ws-token-file {path}"):
        tokens.reload()
    assert (tokens(ONE), tokens(TWO)) == (holder(ONE), INVALID)


def test_mistakes_with_capability_tokens_are_named(tmp_path: Path) -> None:
    empty = private(tmp_path / "empty", " \n# only a comment\n")
    short = private(tmp_path / "short", f"{ONE}\n\n{'x' * 15}\n")
    large = private(tmp_path / "large", b"x" * ((1 << 20) + 1))
    many = private(tmp_path / "many", "\n".join(f"token-of-number-{number:06}" for number in range(257)))
    missing = str(tmp_path / "missing")
    no_digest = "--ws-token-sha256 must be 64 hexadecimal digits"
    mistakes: list[tuple[list[str], list[str], str]] = [
        ([], [], "--ws-auth capability-token needs --ws-token-file FILE or --ws-token-sha256 HEX"),
        ([empty], [], f"--ws-token-file {empty} has no token: write one on a line of its own"),
        ([missing], [], f"--ws-token-file {missing} cannot be read: No such file or directory"),
        (
            [short],
            [],
            f"--ws-token-file {short}, line 3: a token of 15 bytes can be guessed; it needs at least 16, as "
            f"`openssl rand -hex 32` makes them",
        ),
        ([large], [], f"--ws-token-file {large} has more than 1048576 bytes"),
        (
            [many],
            [],
            "257 tokens are given, and at most 256 can be: use --ws-auth signed-bearer-token",
        ),
        ([], ["0" * 63], no_digest),
        ([], ["0" * 66], no_digest),
        ([], [digest(ONE), "x" * 64], no_digest),
    ]
    for files, digests, text in mistakes:
        with pytest.raises(SettingInvalid) as raised:
            Tokens(files, digests)
        assert str(raised.value) == text
        assert "x" * 15 not in str(raised.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620, 0o602, 0o666, 0o601])
def test_file_that_others_can_use_is_refused_with_the_remedy(mode: int, tmp_path: Path) -> None:
    file = private(tmp_path / "token", ONE, mode)
    with pytest.raises(SettingInvalid) as raised:
        Tokens([file], [])
    assert str(raised.value) == (
        f"--ws-token-file {file}: other users can read it (mode {mode:04o}); run `chmod 600 {file}`, and "
        f"write such files after `umask 077`"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_file_of_root_may_be_given_to_the_servers_group(tmp_path: Path) -> None:
    file = private(tmp_path / "token", ONE, 0o640)
    os.chown(file, 4711, os.getegid())  # as root's file is to a server of another user
    assert Tokens([file], [])(ONE) == holder(ONE)
    os.chown(file, 4711, 4711)
    with pytest.raises(SettingInvalid, match="other users can read it"):
        Tokens([file], [])


def test_pipe_may_bring_new_tokens_for_a_moment(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)

    def write(*pieces: str) -> threading.Thread:
        def run() -> None:
            with pipe.open("wb", buffering=0) as file:
                for piece in pieces:
                    file.write(piece.encode())

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    writer = write(ONE)
    tokens = Tokens([str(pipe)], [])
    writer.join()
    writer = write(TWO, "\n", THREE)
    tokens.reload(30.0)
    writer.join()
    assert [tokens(one) for one in (ONE, TWO, THREE)] == [INVALID, holder(TWO), holder(THREE)]
    with pytest.raises(SettingInvalid, match=r"is a pipe, and nobody has written all of it within 0\.01 s"):
        tokens.reload(0.01)
    with pipe.open("r+b", buffering=0) as unfinished:
        unfinished.write(ONE.encode())
        with pytest.raises(SettingInvalid, match="nobody has written all of it"):
            tokens.reload(0.01)
    assert tokens(TWO) == holder(TWO)


def test_pipe_may_bring_a_token() -> None:
    """As `--ws-token-file <(pass show token)` does."""
    reading, writing = os.pipe()
    os.write(writing, ONE.encode())
    os.close(writing)
    try:
        assert Tokens([f"/proc/self/fd/{reading}"], [])(ONE) == holder(ONE)
    finally:
        os.close(reading)
