"""Which cluster is meant, and who we are there."""

from __future__ import annotations

import ssl
import sys
from pathlib import Path

import pytest

from outfitter.errors import EngineFailed
from outfitter.pool.certificate import made
from outfitter.pool.kubeconfig import Access, chosen, context_of, found, logged_in, token_of

CONFIG = """
current-context: arn:aws:eks:eu-west-1:1:cluster/main
contexts:
- {name: "arn:aws:eks:eu-west-1:1:cluster/main", context: {cluster: main, user: plugin, namespace: work}}
- {name: file, context: {cluster: main, user: file}}
- {name: old, context: {cluster: main, user: old}}
- {name: lost, context: {cluster: none, user: file}}
clusters:
- {name: main, cluster: {server: "https://10.0.0.1:6443/", tls-server-name: kubernetes}}
users:
- {name: file, user: {tokenFile: token}}
- {name: old, user: {auth-provider: {name: gcp}}}
- name: plugin
  user: {exec: {command: PYTHON, args: [-c, "SCRIPT"], env: [{name: WHO, value: me}]}}
"""


def test_contexts_of_a_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    (tmp_path / "config").write_text(CONFIG)
    environ = {"KUBECONFIG": f"{tmp_path}/config"}
    access = found("file", environ)
    assert access == Access("https://10.0.0.1:6443", server_name="kubernetes", token_file=f"{tmp_path}/token")
    assert token_of(access) == "s3cret"
    assert found("", environ).namespace == "work"


def test_the_first_file_that_names_something_counts() -> None:
    other = "clusters: [{name: main, cluster: {server: 'https://first'}}]"
    assert chosen([("/a", other), ("/b", CONFIG)], "file").server == "https://first"


@pytest.mark.parametrize(
    ("context", "said"),
    [("nobody", "no context 'nobody'"), ("lost", "no cluster 'none'"), ("old", "kubectl proxy")],
)
def test_what_a_kubeconfig_lacks_is_said(context: str, said: str) -> None:
    with pytest.raises(EngineFailed, match=said):
        chosen([("/b", CONFIG)], context)


def test_a_program_that_logs_in() -> None:
    script = 'import json, os; print(json.dumps(dict(status=dict(token=os.environ[chr(87) + "HO"]))))'
    config = CONFIG.replace("PYTHON", sys.executable).replace("SCRIPT", script.replace('"', "'"))
    assert logged_in(chosen([("/b", config)], ""), {}).token == "me"
    with pytest.raises(EngineFailed, match=r"logs in to the cluster, failed: .*\bno luck"):
        failing = CONFIG.replace("PYTHON", sys.executable).replace("SCRIPT", "raise SystemExit('no luck')")
        logged_in(chosen([("/b", failing)], ""), {})


def test_addresses_and_where_there_is_nothing(tmp_path: Path) -> None:
    assert found("http://127.0.0.1:8001", {}) == Access("http://127.0.0.1:8001")
    assert found("http://[::1]:8001/work", {}) == Access("http://[::1]:8001", "work")
    for address, said in (
        ("http://10.0.0.1:8001", "has no TLS"),
        ("", "no cluster is known"),
        ("a", "KUBECONFIG"),
    ):
        with pytest.raises(EngineFailed, match=said):
            found(address, {"HOME": str(tmp_path)})


def test_certificates_are_used_from_memory_and_secrets_are_not_shown() -> None:
    own = made()
    access = Access("https://h", authority=own.public, certificate=own.public, key=own.key, token="s3cret")
    context = context_of(access)
    assert context is not None and context.verify_mode == ssl.CERT_REQUIRED
    assert context_of(Access("http://127.0.0.1:1")) is None
    assert "s3cret" not in repr(access) and "PRIVATE" not in repr(access)
    with pytest.raises(EngineFailed, match="cannot be used"):
        context_of(Access("https://h", authority="no PEM"))
