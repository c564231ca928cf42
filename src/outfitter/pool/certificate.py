"""A certificate for the servers of one slot: made on its node, in memory, trusted by its pool alone.

Its public half goes to the pool with the slot's answers, which the engine carries: who can forge those can
run code on the node anyway. The client trusts exactly this certificate, whatever name and time are in it, so
neither names nor clocks of nodes have to be right.
"""

from __future__ import annotations

import os
import subprocess

from ..errors import EngineFailed
from ..host.memoryfiles import memory_file
from ..record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ssl import SSLContext

_NAME = "outfitter-slot"
_MAKE_SECONDS = 30.0  # a key on a curve takes milliseconds, where there is any randomness
_NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME, which `ssl` has no name for
_KEY_END = "-----END PRIVATE KEY-----"


@record
class Certificate:
    """Both halves, as PEM."""

    public: str
    key: str

    def __repr__(self) -> str:
        return "Certificate(…)"  # the key is for nobody's log


def made() -> Certificate:
    """A new one: a key on P-256, signed by itself. Raises EngineFailed."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command += ["-noenc", "-days", "2", "-subj", f"/CN={_NAME}", "-keyout", "-", "-out", "-"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_MAKE_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return _made_here()
    key, end, public = done.stdout.decode("ascii", "replace").partition(_KEY_END)
    if done.returncode or not end or "-----BEGIN CERTIFICATE-----" not in public:
        return _made_here()
    return Certificate(public.strip() + "\n", f"{key}{end}\n")


def _made_here() -> Certificate:
    """The same without the program openssl."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        raise EngineFailed(
            "a node that is not this machine is reached over TLS, and its certificate needs the program "
            "`openssl` or the package `cryptography` on the node: install one of them there"
        ) from None
    import datetime

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, _NAME)])
    day = datetime.timedelta(days=1)
    built = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    built = built.serial_number(x509.random_serial_number()).not_valid_before(now - day)
    signed = built.not_valid_after(now + 2 * day).sign(key, hashes.SHA256())
    plain = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Certificate(signed.public_bytes(serialization.Encoding.PEM).decode(), plain.decode())


def in_memory(text: str) -> int:
    """A file that is on no disk, as a descriptor: a server reads its certificate and key from such."""
    fd = memory_file("certificate")
    os.fchmod(fd, 0o600)
    os.write(fd, text.encode())
    return fd


def trusting(public: str) -> SSLContext:
    """For a client: this certificate and no other, whoever shows it."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags = ssl.VerifyFlags(context.verify_flags | _NO_CHECK_TIME)
    context.load_verify_locations(cadata=public)
    return context
