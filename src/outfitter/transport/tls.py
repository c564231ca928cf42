"""TLS on a connection that the listener accepted, with the calls that a transport makes on a plain socket.

A transport watches the descriptor itself and knows nothing of records, so two things must never break. What
one `recv` took from the kernel is decrypted whole: nothing that the kernel cannot announce again stays here.
And as long as the kernel has not taken all that was encrypted, the last byte of it counts as unsent: the
transport keeps it in its queue, and comes back when the socket can be written.

The handshake happens inside the first calls of `recv`. So a connection in it is one that has not said yet
what it wants, with the time and the limits of those.
"""

from __future__ import annotations

import ssl
from errno import ECONNRESET, ENOTCONN, EPROTO

from ..protocol.upgrade import Admitted, Response
from ..stdlib import sha256
from .sockets import HandshakeFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from socket import socket
    from typing import Any, NoReturn

    from ..loop import Loop
    from .caller import SocketCaller

    Piece = bytes | memoryview

_RECORD = 16 << 10  # what TLS encrypts in one piece
_ONCE = 256 << 10  # encrypted for one call: a fraction of a millisecond, and more than most kernels take
# Of refusals to a peer that asks for a new handshake over and over and reads none of them; a few bytes each.
_MAX_UNASKED = 64 << 10
_LONGEST_NAME = 64  # the limit of X.509 for a common name; a longer or odd one becomes a digest
_HANDSHAKE = 0x16  # the first byte of every TLS connection
_PLAIN = Response(400, "this port speaks TLS: connect with wss:// instead of ws://")


class TlsSocket:
    """One end of TLS over `raw`, which does not block: the server's, whose `caller` is told the client's
    certificate, or with `dials` the client's end with the server of that name."""

    def __init__(
        self,
        loop: Loop,
        raw: socket,
        context: ssl.SSLContext,
        caller: SocketCaller | None,
        dials: str | None = None,
    ) -> None:
        self._loop = loop
        self._raw = raw
        self._caller = caller
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=dials is None, server_hostname=dials
        )
        self._begun = False  # the first byte has come
        self._ready = False  # the handshake is done
        self._over = False  # nothing can be said over TLS any more
        self._ended = False  # the peer says nothing more
        self._flushing = False  # our own writer is registered: the handshake waits for the kernel
        self._sealed = memoryview(b"")  # encrypted, not taken by the kernel
        self._owed = 0  # bytes in `_sealed` that were not counted as sent: 0 or 1

    def fileno(self) -> int:
        return self._raw.fileno()

    def acknowledge(self) -> None:
        """Of a connection that `outward` has dialled: see there."""
        self._raw.acknowledge()  # type: ignore[attr-defined]

    # Receiving

    def recv(self, size: int) -> bytes:
        """What came, decrypted: sometimes more than `size`. Raises BlockingIOError, OSError."""
        if self._ended:
            return b""
        data = self._raw.recv(size)
        if not data:
            # Without a farewell of TLS. WebSocket has its own, so nobody takes half of something for all.
            self._ended = True
            if self._begun and not self._ready:
                # asyncio's clients, ours among them, send no alert when they refuse a certificate.
                self._fail("the client left during the handshake; it may not trust the certificate")
            return b""
        if not self._begun:
            self._begun = True
            if data[0] != _HANDSHAKE:
                self._fail("the client spoke without it", _PLAIN.encode())
        self._incoming.write(data)
        if not self._ready:
            self._shake_hands()
        pieces: list[bytes] = []
        try:
            while True:
                piece = self._tls.read(_RECORD)
                if not piece:
                    break
                pieces.append(piece)
        except ssl.SSLWantReadError:
            if not pieces:
                self._answer()
                raise BlockingIOError from None
        except ssl.SSLZeroReturnError:
            piece = b""
        except ssl.SSLError as error:
            self._fail(_reason(error))
        self._answer()
        if not piece:
            self._ended = True
            if pieces:
                # The descriptor announces the end only when the kernel knows of it, too.
                try:
                    self._raw.shutdown(0)
                except OSError:
                    pass  # it is gone, which is announced as well
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _shake_hands(self) -> None:
        """Raises BlockingIOError while more is needed, OSError when it fails."""
        try:
            self._tls.do_handshake()
            self._ready = True
            if self._caller is not None:
                self._caller.certificate = _admitted(self._tls)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._fail(f"handshake failed: {_reason(error)}")
        self._flush_handshake()
        if not self._ready:
            raise BlockingIOError

    def _flush_handshake(self) -> None:
        try:
            self._flush()
        except BlockingIOError:
            # A long chain of certificates, and a client that does not read it yet.
            if not self._flushing:
                self._flushing = True
                self._loop.add_writer(self._raw.fileno(), self._flush_handshake)
            return
        except OSError:
            self._over = True  # the reader finds out
        self._stop_flushing()

    def _stop_flushing(self) -> None:
        if self._flushing:
            self._flushing = False
            self._loop.remove_writer(self._raw.fileno())

    def _answer(self) -> None:
        """Sends what reading made TLS say. What the kernel does not take now goes with the next message."""
        if not self._outgoing.pending:
            return
        try:
            self._flush()
        except BlockingIOError:
            if self._outgoing.pending > _MAX_UNASKED:
                self._fail("the client asks for new handshakes and does not read the answers")
        except OSError:
            pass  # the next one who sends finds out

    def _fail(self, why: str, farewell: bytes | None = None) -> NoReturn:
        """Tells the peer, and raises HandshakeFailed, or OSError after the handshake."""
        self._over = True
        try:
            if farewell is not None:
                self._raw.send(farewell)
            else:
                self._flush()  # the alert
        except OSError:
            pass
        raise OSError(EPROTO, f"TLS: {why}") if self._ready else HandshakeFailed(f"TLS: {why}")

    def dial(self) -> None:
        """The client's handshake, over a socket that still blocks. Raises ssl.SSLError, OSError."""
        self._begun = True
        while not self._ready:
            try:
                self._tls.do_handshake()
                self._ready = True
            except ssl.SSLWantReadError:
                self._flush()
                data = self._raw.recv(_RECORD)
                if not data:
                    raise ConnectionResetError(ECONNRESET, "the server ended the TLS handshake") from None
                self._incoming.write(data)
        self._flush()

    # Sending

    def send(self, data: Piece) -> int:
        return self.sendmsg((data,))

    def sendmsg(self, pieces: Sequence[Piece]) -> int:
        """Encrypts and sends; returns how much of it is done with. Raises BlockingIOError, OSError."""
        if not self._ready or self._over:
            raise OSError(ENOTCONN, "TLS is not established")
        self._flush()
        count = self._owed
        plain = _joined(pieces, count)
        self._owed = 0
        size = len(plain)
        try:
            place = 0
            while place < size:
                place += self._tls.write(plain[place : place + _RECORD])
        except ssl.SSLError as error:
            self._fail(_reason(error))
        count += size
        try:
            self._flush()
        except BlockingIOError:
            self._owed = 1
            count -= 1
        return count

    def _flush(self) -> None:
        """Gives the kernel what is encrypted. Raises BlockingIOError until it has all of it, OSError."""
        while True:
            if not self._sealed:
                if not self._outgoing.pending:
                    return
                self._sealed = memoryview(self._outgoing.read())
            self._sealed = self._sealed[self._raw.send(self._sealed) :]

    # Closing

    def shutdown(self, how: int) -> None:
        self._say_goodbye()
        self._raw.shutdown(how)

    def close(self) -> None:
        self._stop_flushing()
        self._say_goodbye()
        self._raw.close()

    def _say_goodbye(self) -> None:
        if self._over or not self._ready:
            return
        self._over = True
        try:
            self._tls.unwrap()
        except (ssl.SSLError, ValueError):
            pass  # it waits for the peer's; we do not
        try:
            self._flush()
        except OSError:
            pass


def _joined(pieces: Sequence[Piece], skip: int) -> memoryview:
    """The first pieces without their first `skip` bytes, up to `_ONCE`: few large records, not many small."""
    if len(pieces) == 1:
        return memoryview(pieces[0])[skip : skip + _ONCE]
    whole = bytearray()
    for piece in pieces:
        whole += memoryview(piece)[: skip + _ONCE - len(whole)]
        if len(whole) >= skip + _ONCE:
            break
    return memoryview(whole)[skip:]


def _reason(error: ssl.SSLError) -> str:
    """What OpenSSL calls it, in small letters: "certificate verify failed"."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not accepted: {error.verify_message}"
    return (error.reason or type(error).__name__).replace("_", " ").lower()


def _admitted(tls: ssl.SSLObject) -> Admitted | None:
    """Whom the client's verified certificate names, until it expires; None without a certificate."""
    binary = tls.getpeercert(binary_form=True)
    if binary is None:
        return None
    fields: Any = tls.getpeercert()  # a value's type depends on its key
    ends = ssl.cert_time_to_seconds(fields["notAfter"])
    names = [value for part in fields.get("subject", ()) for key, value in part if key == "commonName"]
    if len(names) == 1 and len(names[0]) <= _LONGEST_NAME and names[0].isascii() and names[0].isprintable():
        return Admitted(f"cn:{names[0]}", ends)
    return Admitted(f"cert:{sha256(binary).hexdigest()[:16]}", ends)
