"""A CA of our own and what it issues, made with openssl. Keys of a curve take a moment, not a second."""

from __future__ import annotations

import atexit
import dataclasses
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two PEM files."""

    cert: Path
    key: Path

    @property
    def flags(self) -> tuple[str, ...]:
        return "--tls-cert", str(self.cert), "--tls-key", str(self.key)

    def copy(self, folder: Path) -> Pair:
        """The same in another folder, to be replaced there."""
        folder.mkdir(parents=True, exist_ok=True)
        copies = Pair(folder / "cert.pem", folder / "key.pem")
        self.replace(copies)
        return copies

    def replace(self, other: Pair) -> None:
        """Puts this one in the place of the other, as a renewal does: each file in one step."""
        for mine, theirs in ((self.cert, other.cert), (self.key, other.key)):
            new = theirs.with_suffix(".new")
            shutil.copy2(mine, new)
            new.rename(theirs)


class Authority:
    """A CA; `file` is what clients trust."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "ca.pem"
        self._key = folder / "ca.key"
        _openssl(
            *("req", "-x509", *_CURVE, "-days", "2", "-subj", f"/CN={name}"),
            *("-keyout", self._key, "-out", self.file),
            *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),
        )

    def issue(self, name: str, *names: str, days: int = 1, usage: str = "serverAuth,clientAuth") -> Pair:
        """A certificate for these names and addresses (DNS:x, IP:x); without any, for localhost."""
        folder = Path(tempfile.mkdtemp(prefix="pair-", dir=self.folder))
        pair = Pair(folder / "cert.pem", folder / "key.pem")
        request, extensions = folder / "request", folder / "extensions"
        _openssl("req", *_CURVE, "-subj", f"/CN={name}", "-keyout", pair.key, "-out", request)
        names = names or ("DNS:localhost", "IP:127.0.0.1", "IP:::1")
        # The identifiers are for verifiers that are strict, as Python's is since 3.13.
        extensions.write_text(
            f"subjectAltName={','.join(names)}\nextendedKeyUsage={usage}\nbasicConstraints=CA:FALSE\n"
            "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
        )
        _openssl(
            *("x509", "-req", "-in", request, "-CA", self.file, "-CAkey", self._key, "-CAcreateserial"),
            *("-days", str(days), "-extfile", extensions, "-out", pair.cert),
        )
        return pair


def _openssl(*args: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, args)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@functools.cache
def authority(name: str = "outfitter tests") -> Authority:
    """One for the whole run of the tests."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tempfile.mkdtemp(prefix="outfitter-ca-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Authority(Path(folder), name)


@functools.cache
def server_pair() -> Pair:
    """For localhost, of the one authority."""
    return authority().issue("localhost")
