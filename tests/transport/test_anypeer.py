"""Whose the other end of a connection is, from what other systems say: recorded from manual pages."""

from __future__ import annotations

import struct

from outfitter.transport.anypeer import _shown, owner_in, peer_of

# lsof -nP -a -iTCP:51000 -sTCP:ESTABLISHED -Fun, as lsof(8) describes it.
SAID = b"""\
p321
u501
f5
n127.0.0.1:51000->127.0.0.1:8765
p322
u0
f9
n127.0.0.1:8765->127.0.0.1:51000
n[::1]:51000->[::1]:8765
"""


def test_user_of_the_socket_with_both_addresses_is_found() -> None:
    assert owner_in(SAID, "127.0.0.1:51000->127.0.0.1:8765") == 501
    assert owner_in(SAID, "[::1]:51000->[::1]:8765") == 0
    assert owner_in(SAID, "127.0.0.1:51001->127.0.0.1:8765") is None
    assert owner_in(b"p1\nn127.0.0.1:1->127.0.0.1:2\n", "127.0.0.1:1->127.0.0.1:2") is None


def test_addresses_are_shown_as_lsof_shows_them() -> None:
    assert [_shown(end) for end in (("127.0.0.1", 1), ("::1", 2), ("::ffff:127.0.0.1", 3))] == [
        "127.0.0.1:1",
        "[::1]:2",
        "127.0.0.1:3",
    ]


def test_credentials_of_a_unix_socket_have_a_version() -> None:
    said = struct.pack("=IIh2x16I", 0, 501, 1, 20, *[0] * 15)  # struct xucred
    assert len(said) == 76
    assert peer_of(said) == 501
    assert peer_of(struct.pack("=II", 1, 501)) is None
    assert peer_of(b"") is None
