"""Files for TLS: which ones are taken, what is said about the others, and that a renewal is noticed."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

from outfitter.errors import SettingInvalid
from outfitter.transport.certificates import Certificates, client_context, explain, server_context
from tests.support.certificates import Pair, authority, server_pair


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return server_pair().copy(tmp_path / "tls")


def refused(cert: Path, key: Path, client_ca: Path | None = None) -> str:
    with pytest.raises(SettingInvalid) as raised:
        server_context(str(cert), str(key), None if client_ca is None else str(client_ca))
    return str(raised.value)


# The server's


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_a_key_that_others_can_use_is_refused_with_the_remedy(mode: int, pair: Pair) -> None:
    pair.key.chmod(mode)
    assert refused(pair.cert, pair.key) == (
        f"--tls-key {pair.key} can be read or changed by other users (mode {mode:03o}): run "
        f"`chmod 600 {pair.key}`, and make a new key if somebody may have read it"
    )
    pair.key.chmod(0o400)
    server_context(str(pair.cert), str(pair.key))


def test_a_key_of_another_certificate_is_refused(pair: Pair) -> None:
    shutil.copy2(authority().issue("other").key, pair.key)
    assert refused(pair.cert, pair.key) == (
        f"--tls-key {pair.key} does not belong to the first certificate in {pair.cert}: name the key that "
        f"was made for it, and put the server's own certificate before those of its CAs"
    )


def test_a_chain_begins_with_the_servers_own(pair: Pair) -> None:
    own, ca = pair.cert.read_bytes(), authority().file.read_bytes()
    pair.cert.write_bytes(ca + own)
    assert "put the server's own certificate before those of its CAs" in refused(pair.cert, pair.key)
    pair.cert.write_bytes(own + ca)
    server_context(str(pair.cert), str(pair.key))


def test_files_that_are_missing_or_something_else_are_named(pair: Pair, tmp_path: Path) -> None:
    missing, empty = tmp_path / "missing", tmp_path / "empty"
    empty.touch(mode=0o600)
    gone = "cannot be read: No such file or directory"
    assert refused(missing, pair.key) == f"--tls-cert {missing} {gone}"
    assert refused(pair.cert, missing) == f"--tls-key {missing} {gone}"
    assert refused(pair.cert, pair.key, missing) == f"--tls-client-ca {missing} {gone}"
    pem = "it must be a PEM file"
    assert refused(empty, pair.key) == f"--tls-cert {empty} has no certificate in it: {pem}"
    assert refused(pair.cert, empty) == f"--tls-key {empty} has no private key in it: {pem}"
    assert refused(pair.cert, pair.key, empty) == f"--tls-client-ca {empty} has no certificate in it: {pem}"


def test_a_damaged_file_is_named(pair: Pair) -> None:
    text = pair.cert.read_text()
    pair.cert.write_text(text[:100] + text[140:])
    assert refused(pair.cert, pair.key).startswith(
        f"--tls-cert {pair.cert} and --tls-key {pair.key} cannot be used: "
    )


def test_a_damaged_part_that_is_no_certificate_is_told_too(pair: Pair) -> None:
    with pair.cert.open("a") as file:
        file.write("-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n")
    assert refused(pair.cert, pair.key).startswith(f"--tls-cert {pair.cert} cannot be used: ")


def test_a_key_with_a_password_is_refused_and_nobody_is_asked_for_it(pair: Pair) -> None:
    locked = pair.key.with_name("locked.pem")
    subprocess.run(
        ["openssl", "pkey", "-aes256", "-passout", "pass:secret", "-in", pair.key, "-out", locked],
        check=True,
        capture_output=True,
    )
    locked.chmod(0o600)
    assert refused(pair.cert, locked) == (
        f"--tls-key {locked} is encrypted: write it without a password, with "
        f"`openssl pkey -in {locked} -out FILE`"
    )


def test_an_expired_certificate_is_told_and_used(caplog: pytest.LogCaptureFixture) -> None:
    old = authority().issue("localhost", days=-1)
    with caplog.at_level(logging.WARNING):
        server_context(str(old.cert), str(old.key))
    [line] = caplog.messages
    assert line == (
        f"! {old.cert}: clients will refuse this certificate: certificate has expired; renew it, and the "
        f"server takes the new one"
    )


def test_a_certificate_for_clients_only_is_told(caplog: pytest.LogCaptureFixture) -> None:
    other = authority().issue("localhost", usage="clientAuth")
    with caplog.at_level(logging.WARNING):
        server_context(str(other.cert), str(other.key))
    assert "clients will refuse this certificate: unsuitable certificate purpose" in caplog.text


def test_nothing_is_said_about_a_good_one(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        server_context(str(pair.cert), str(pair.key), str(authority().file))
    assert caplog.messages == []


# A renewal


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_renewal_is_noticed_within_a_second(pair: Pair) -> None:
    clock = Clock()
    certificates = Certificates(str(pair.cert), str(pair.key), None, clock)
    first = certificates.context()
    authority().issue("renewed").replace(pair)
    clock.now += 0.9
    assert certificates.context() is first
    clock.now += 0.1
    second = certificates.context()
    assert second is not first
    clock.now += 60
    assert certificates.context() is second


def test_half_a_renewal_leaves_the_old_one_in_use(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    certificates = Certificates(str(pair.cert), str(pair.key), None, clock)
    first = certificates.context()
    new = authority().issue("renewed")
    shutil.copy2(new.cert, pair.cert)
    clock.now += 1
    assert certificates.context() is first
    clock.now += 1
    assert certificates.context() is first
    [line] = caplog.messages  # once, not for every connection
    assert line.startswith(f"! the certificate in use stays: --tls-key {pair.key} does not belong")
    shutil.copy2(new.key, pair.key)
    clock.now += 1
    assert certificates.context() is not first


def test_a_renewal_that_could_not_be_read_at_one_moment_is_read_later(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    certificates = Certificates(str(pair.cert), str(pair.key), None, clock)
    first = certificates.context()
    authority().issue("renewed").replace(pair)
    with monkeypatch.context() as patched:
        patched.setattr("outfitter.transport.certificates.open", _no_descriptor, raising=False)
        for _ in range(3):
            clock.now += 10
            assert certificates.context() is first
    [line] = caplog.messages
    assert line.endswith("cannot be read: Too many open files")
    clock.now += 9
    assert certificates.context() is first
    clock.now += 1
    assert certificates.context() is not first


def _no_descriptor(*_: object) -> NoReturn:
    raise OSError(errno.EMFILE, "Too many open files")


def test_a_file_that_goes_leaves_the_old_one_in_use(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    certificates = Certificates(str(pair.cert), str(pair.key), None, clock)
    first = certificates.context()
    pair.key.unlink()
    clock.now += 1
    assert certificates.context() is first
    assert "cannot be read: No such file or directory" in caplog.text


def test_a_new_ca_of_clients_is_noticed_too(pair: Pair, tmp_path: Path) -> None:
    clock = Clock()
    ca = tmp_path / "clients.pem"
    shutil.copy2(authority().file, ca)
    certificates = Certificates(str(pair.cert), str(pair.key), str(ca), clock)
    first = certificates.context()
    ca.write_bytes(authority("strangers").file.read_bytes())
    clock.now += 1
    second = certificates.context()
    assert [len(one.get_ca_certs()) for one in (first, second)] == [1, 1]
    assert first.get_ca_certs() != second.get_ca_certs()


def test_reload_reads_the_files_at_once(pair: Pair) -> None:
    clock = Clock()
    certificates = Certificates(str(pair.cert), str(pair.key), str(authority().file), clock)
    first = certificates.context()
    certificates.reload()
    assert certificates.context() is not first


# The client's


def test_what_may_pass_is_tried_again() -> None:
    assert explain(ssl.SSLEOFError(8, "EOF occurred in violation of protocol"), "h")[1]
    failed = ssl.SSLError(1, "[SSL: TLSV1_ALERT_INTERNAL_ERROR] internal error")
    failed.reason = "TLSV1_ALERT_INTERNAL_ERROR"
    assert explain(failed, "h") == ("TLS failed: tlsv1 alert internal error", True)


def test_a_ca_file_is_the_only_one_that_counts() -> None:
    context = client_context(str(authority().file))
    assert [entry["subject"][0][0][1] for entry in context.get_ca_certs()] == ["outfitter tests"]
    assert context.check_hostname


def test_without_a_ca_file_the_variable_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority().file))
    monkeypatch.setenv("SSL_CERT_DIR", os.devnull)
    subjects = [entry["subject"][0][0][1] for entry in client_context().get_ca_certs()]
    assert subjects == ["outfitter tests"]


def test_a_clients_key_must_be_private_and_have_its_certificate(pair: Pair) -> None:
    ca = str(authority().file)
    with pytest.raises(SettingInvalid, match=f"the client key {pair.key} needs its certificate"):
        client_context(ca, None, str(pair.key))
    pair.key.chmod(0o644)
    with pytest.raises(SettingInvalid, match=f"the client key {pair.key} can be read or changed"):
        client_context(ca, str(pair.cert), str(pair.key))
    both = pair.cert.with_name("both.pem")
    both.touch(0o600)
    both.write_bytes(pair.cert.read_bytes() + pair.key.read_bytes())
    client_context(ca, str(both))
