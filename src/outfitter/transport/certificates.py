"""Certificates, keys and CAs: files in, TLS contexts out, and what is wrong with them in words.

The server's are read again when they change. A new pair that cannot be used leaves the old one in use.
"""

from __future__ import annotations

import os
import ssl

from ..earlyerrors import SettingInvalid
from ..log import note, warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    Signature = tuple[tuple[int, ...] | None, ...]

_LOOK_SECONDS = 1.0  # between two looks at the files: a burst of connections asks the disk once
# Files that could not be used are read again after this long: there may have been no descriptor for it.
_AGAIN_SECONDS = 10.0
_MAX_BYTES = 1 << 20  # of a file; a bundle of all public CAs has a quarter of it


class Certificates:
    """The server's certificate and key, and the CA of its clients if they must show certificates.

    Raises SettingInvalid when they cannot be used.
    """

    def __init__(self, cert: str, key: str, client_ca: str | None, time: Callable[[], float]) -> None:
        self._cert, self._key, self._client_ca = cert, key, client_ca
        self._time = time
        self._signature = self._look()
        self._context = server_context(cert, key, client_ca)
        self._looked = self._again = time()
        self._failed = ""  # why the files as they are could not be used

    def context(self) -> ssl.SSLContext:
        """For a new connection, with the files as they are now."""
        now = self._time()
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            if self._look() != self._signature:
                self.reload()
            elif self._failed and now >= self._again:
                self._read()
        return self._context

    def reload(self) -> None:
        """Reads the files. Connections that are open keep what they have."""
        self._failed = ""
        self._read()

    def _read(self) -> None:
        self._signature = self._look()
        try:
            self._context = server_context(self._cert, self._key, self._client_ca)
        except SettingInvalid as error:
            # One of two files that are being replaced; or a mistake, which should not end what works.
            if str(error) != self._failed:
                warn("server", "the certificate in use stays: %s", error)
            self._failed = str(error)
            self._again = self._time() + _AGAIN_SECONDS
        else:
            self._failed = ""
            note("server", "=", "certificate %s was read again", self._cert)

    def _look(self) -> Signature:
        return tuple(_signature(path) for path in (self._cert, self._key, self._client_ca))


def _signature(path: str | None) -> tuple[int, ...] | None:
    try:
        stat = os.stat(path) if path is not None else None
    except OSError:
        return None
    return (
        None if stat is None else (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    )


def server_context(cert: str, key: str, client_ca: str | None = None) -> ssl.SSLContext:
    """TLS 1.2 and later with this certificate. Raises SettingInvalid; warns if clients will refuse it."""
    check_private(key, "--tls-key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # New keys in the middle of a TLS 1.2 connection: nobody needs them, and they cost us more than the peer.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = 0  # connections are few and long: a resumed handshake saves nothing worth its state
    _load_pair(context, cert, key, "--tls-cert", "--tls-key")
    if client_ca is not None:
        _load_ca(context, client_ca, "--tls-client-ca")
        context.verify_mode = ssl.CERT_REQUIRED
    _try_out(context, cert)
    return context


def client_context(ca: str | None = None, cert: str | None = None, key: str | None = None) -> ssl.SSLContext:
    """For dialling: host names are verified, TLS 1.2 and later. Raises SettingInvalid.

    `ca` is a file of CA certificates, which are then the only ones that count. Without it the machine's
    count, or those of SSL_CERT_FILE and SSL_CERT_DIR. `cert` and `key` are what to show a server that asks.
    """
    if ca is None:
        context = ssl.create_default_context()
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # What is in the file is trusted, also a server's own certificate without its CA.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        _load_ca(context, ca, "the CA file")
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if cert is not None:
        key = cert if key is None else key
        check_private(key, "the client key")
        _load_pair(context, cert, key, "the client certificate", "the client key")
    elif key is not None:
        raise SettingInvalid(f"the client key {key} needs its certificate: name that, too")
    return context


# Files


def check_private(path: str, what: str) -> None:
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise SettingInvalid(f"{what} {path} cannot be read: {error.strerror}") from None
    if mode & 0o077:
        raise SettingInvalid(
            f"{what} {path} can be read or changed by other users (mode {mode & 0o777:03o}): run "
            f"`chmod 600 {path}`, and make a new key if somebody may have read it"
        )


def _read(path: str, what: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_BYTES)
    except OSError as error:
        raise SettingInvalid(f"{what} {path} cannot be read: {error.strerror}") from None


def _load_pair(context: ssl.SSLContext, cert: str, key: str, cert_is: str, key_is: str) -> None:
    if b"-----BEGIN CERTIFICATE-----" not in _read(cert, cert_is):
        raise SettingInvalid(f"{cert_is} {cert} has no certificate in it: it must be a PEM file")
    text = _read(key, key_is)
    if b"PRIVATE KEY-----" not in text:
        raise SettingInvalid(f"{key_is} {key} has no private key in it: it must be a PEM file")
    if b"ENCRYPTED" in text:
        raise SettingInvalid(
            f"{key_is} {key} is encrypted: write it without a password, with "
            f"`openssl pkey -in {key} -out FILE`"
        )
    try:
        context.load_cert_chain(cert, key, password=_nobody_to_ask)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise SettingInvalid(
                f"{key_is} {key} does not belong to the first certificate in {cert}: name the key that was "
                f"made for it, and put the server's own certificate before those of its CAs"
            ) from None
        _unusable(f"{cert_is} {cert} and {key_is} {key}", error)
    except OSError as error:
        raise SettingInvalid(f"{cert_is} {cert} cannot be read: {error.strerror}") from None


def _nobody_to_ask() -> NoReturn:
    raise OSError(0, "a password is needed")


def _load_ca(context: ssl.SSLContext, path: str, what: str) -> None:
    if b"-----BEGIN " not in _read(path, what):
        raise SettingInvalid(f"{what} {path} has no certificate in it: it must be a PEM file")
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        _unusable(f"{what} {path}", error)
    except OSError as error:
        raise SettingInvalid(f"{what} {path} cannot be read: {error.strerror}") from None


def _unusable(what: str, error: ssl.SSLError) -> NoReturn:
    reason = (error.reason or "not understood").replace("_", " ").lower()
    raise SettingInvalid(
        f"{what} cannot be used: {reason}; make a new one, or ask whoever issued it"
    ) from None


def _try_out(context: ssl.SSLContext, cert: str) -> None:
    """Shakes hands with ourselves, to find out what a client would say to the certificate."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    _load_ca(trusting, cert, "--tls-cert")
    trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # whoever issued it
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(there, back, server_side=True)
    client = trusting.wrap_bio(back, there)
    for side in (client, server, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLCertVerificationError as error:
            text = "%s: clients will refuse this certificate: %s; renew it, and the server takes the new one"
            warn("server", text, cert, error.verify_message)
        except ssl.SSLError as error:
            _unusable(f"--tls-cert {cert}", error)


# What went wrong between a client and a server

# OpenSSL's numbers of what is wrong with a certificate.
_UNKNOWN_CA = (2, 18, 19, 20, 21)
_OTHER_NAME = (62, 64)
_NOT_YET, _EXPIRED = 9, 10
# And its names for what plain HTTP, or anything else, looks like to it.
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST")


def explain(error: ssl.SSLError, host: str) -> tuple[str, bool]:
    """Why a client could not connect and what to do, and whether it may go better the next time."""
    if isinstance(error, ssl.SSLCertVerificationError):
        said = error.verify_message.rstrip(".")
        return f"its certificate is not trusted: {said}{_remedy(error.verify_code, host)}", False
    reason = getattr(error, "reason", None) or ""  # not every one is made by OpenSSL
    shown = reason.partition("ALERT_")[2].replace("_", " ").lower()
    if reason in _NO_TLS:
        text = (
            "it does not speak TLS on this port; write ws://, or start the server with --listen wss://IP:PORT"
        )
    elif "CERTIFICATE_REQUIRED" in reason or reason == "SSLV3_ALERT_HANDSHAKE_FAILURE":
        text = (
            "it wants a certificate from its clients; name yours with --tls-cert FILE and --tls-key FILE, "
            "or `client_cert=` and `client_key=`"
        )
    elif shown and ("unknown ca" in shown or "certificate" in shown):
        text = f"it does not accept our certificate: {shown}; use one of the CA in its --tls-client-ca"
    elif "PROTOCOL_VERSION" in reason or reason == "UNSUPPORTED_PROTOCOL":
        text = "it does not speak TLS 1.2 or later"
    else:
        # A server that is being restarted ends handshakes in many ways.
        return f"TLS failed: {reason.replace('_', ' ').lower() or error}", True
    return text, False


def _remedy(code: int, host: str) -> str:
    if code in _UNKNOWN_CA:
        return "; name the file of its CA with --tls-ca FILE, `ca=` or `tls_ca`, or in SSL_CERT_FILE"
    if code in _OTHER_NAME:
        return f"; use a name that is in the certificate, or have {host} put into it (subjectAltName)"
    if code == _EXPIRED:
        return "; renew it, or correct this machine's clock"
    return "; correct this machine's clock, or the server's" if code == _NOT_YET else ""
