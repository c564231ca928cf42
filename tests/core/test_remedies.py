"""What a command's last words tell about what a sandbox denied."""

from __future__ import annotations

import pytest

from outfitter.core.remedies import Denial, guess, sentence
from outfitter.core.sandbox import Sandbox

CWD = "/home/ada/engine"
READ_ONLY, WORKSPACE = Sandbox.read_only(), Sandbox.workspace_write()
HIDING = Sandbox.workspace_write(deny_read=["**/.env"])


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ("touch: cannot touch '/etc/x': Read-only file system", "/etc/x"),
        ("mkdir: cannot create directory \u2018/opt/new\u2019: Read-only file system", "/opt/new"),
        ("bash: line 1: /etc/x: Read-only file system", "/etc/x"),
        ("/bin/sh: 1: cannot create ../x: Read-only file system", "/home/ada/x"),
        ("OSError: [Errno 30] Read-only file system: '/etc/x'", "/etc/x"),
        ("Error: EROFS: read-only file system, open '/etc/x'", "/etc/x"),
        (
            "fatal: Unable to create '/home/ada/engine/.git/index.lock': Read-only file system",
            "/home/ada/engine/.git/index.lock",
        ),
        ("rm: cannot remove 'src/a.py': Read-only file system", "/home/ada/engine/src/a.py"),
        ("cp: cannot create regular file './b': Read-only file system", "/home/ada/engine/b"),
        ("touch: b: Read-only file system", "/home/ada/engine/b"),
        ("Read-only file system", ""),
    ],
)
def test_the_path_of_a_refused_write_is_found(said: str, path: str) -> None:
    assert guess(f"before\n{said}\n", READ_ONLY, CWD, denied=True) == Denial("write", path)


def test_a_hidden_file_is_told_apart_from_an_ordinary_refusal() -> None:
    said = "cat: .env: Permission denied"
    assert guess(said, HIDING, CWD, denied=True) == Denial("read", "/home/ada/engine/.env")
    assert guess(said, WORKSPACE, CWD, denied=True) == Denial("")


@pytest.mark.parametrize(
    ("said", "host"),
    [
        ("curl: (6) Could not resolve host: pypi.org", "pypi.org"),
        (
            "curl: (7) Failed to connect to example.com port 443 after 0 ms: Couldn't connect to server",
            "example.com",
        ),
        (
            "fatal: unable to access 'https://github.com/a/b/': Could not resolve host: github.com",
            "github.com",
        ),
        (
            "npm error request to https://registry.example.org/x failed, reason: getaddrinfo EAI_AGAIN",
            "registry.example.org",
        ),
        ("socket.gaierror: [Errno -3] Temporary failure in name resolution", ""),
        ("curl: (56) CONNECT tunnel failed, response 403", ""),
    ],
)
def test_an_unreachable_host_is_found_whatever_the_executor_says(said: str, host: str) -> None:
    for denied in (True, False):
        assert guess(said, WORKSPACE, CWD, denied=denied) == Denial("network", host)
    assert guess(said, Sandbox.workspace_write(network=True), CWD, denied=False) is None


def test_a_host_that_the_proxy_refused_is_known_whatever_the_command_says() -> None:
    some = Sandbox.workspace_write(domains=["pypi.org"])
    for said in ("curl: (56) CONNECT tunnel failed, response 403", "it did not work", ""):
        hosts = [("a.org", False), ("b.org", True)]
        assert guess(said, some, CWD, denied=False, hosts=hosts) == Denial("network", "b.org", private=True)
    write = "touch: cannot touch '/etc/x': Read-only file system"
    assert guess(write, some, CWD, denied=True, hosts=[("a.org", False)]) == Denial("write", "/etc/x")


def test_nothing_is_said_where_nothing_was_denied() -> None:
    assert guess("touch: cannot touch '/etc/x': Read-only file system", READ_ONLY, CWD, denied=False) is None
    assert guess("", READ_ONLY, CWD, denied=False) is None
    assert guess("something else", READ_ONLY, CWD, denied=True) == Denial("")


@pytest.mark.parametrize(
    ("denial", "sandbox", "end"),
    [
        (
            Denial("write", "/etc/x y/z"),
            WORKSPACE,
            "a write to /etc/x y/z: --allow-write '/etc/x y' would allow it",
        ),
        (
            Denial("write", f"{CWD}/a"),
            READ_ONLY,
            f"a write to {CWD}/a: --sandbox workspace-write would allow it",
        ),
        (Denial("write", "/x"), READ_ONLY, "a write to /x: --sandbox full-access would allow it"),
        (
            Denial("write", f"{CWD}/.git/index.lock"),
            WORKSPACE,
            f"a write to {CWD}/.git/index.lock: .git is protected; --allow-write {CWD}/.git would allow it",
        ),
        (
            Denial("write"),
            READ_ONLY,
            "a write: --sandbox workspace-write or --allow-write DIR would allow it",
        ),
        (Denial("write"), WORKSPACE, "a write: --allow-write DIR would allow it"),
        (
            Denial("network", "pypi.org"),
            WORKSPACE,
            "the connection to pypi.org: --allow-domain pypi.org would allow it",
        ),
        (Denial("network"), WORKSPACE, "a connection to the network: --allow-domain DOMAIN would allow it"),
        (
            Denial("read", "/a/.env"),
            HIDING,
            "reading /a/.env: leave out the --deny-read that matches it to allow it",
        ),
    ],
)
def test_the_sentence_says_what_happened_and_which_flag_allows_it(
    denial: Denial, sandbox: Sandbox, end: str
) -> None:
    assert sentence(denial, sandbox, CWD) == f"the sandbox denied {end}"


SOME = Sandbox.workspace_write(domains=["*.pypi.org", "a.org"], writable=["out", "/opt/x"])
EXPLAIN = "and something else takes it away; see `outfitter sandbox explain`"


@pytest.mark.parametrize(
    ("denial", "end"),
    [
        (
            Denial("network", "a.org", private=True),
            "it stands for an address that is not public; --allow-domain with that address would allow it",
        ),
        (Denial("network", "10.0.0.1", private=True), "--allow-domain 10.0.0.1 would allow it"),
        (Denial("network", "localhost", private=True), "--allow-domain localhost would allow it"),
        (Denial("network", "a.org"), f"--allow-domain allows it, {EXPLAIN}"),
        (Denial("network", "x.pypi.org"), f"--allow-domain allows it, {EXPLAIN}"),
        (Denial("network", "pypi.org"), "--allow-domain pypi.org would allow it"),
        (Denial("write", f"{CWD}/out/a"), f"--allow-write allows it, {EXPLAIN}"),
        (Denial("write", "/opt/x/a"), f"--allow-write allows it, {EXPLAIN}"),
        (Denial("write", f"{CWD}/a"), f"--sandbox workspace-write allows it, {EXPLAIN}"),
        (Denial("write", "/tmp/a"), f"--sandbox workspace-write allows it, {EXPLAIN}"),
        (Denial("write", f"{CWD}/.vscode/a"), f"--allow-write {CWD}/.vscode would allow it"),
    ],
)
def test_no_flag_is_advised_that_is_there_already(denial: Denial, end: str) -> None:
    assert sentence(denial, SOME, CWD).endswith(f": {end}")


def test_what_is_not_known_leads_to_the_explanation() -> None:
    assert sentence(Denial(""), READ_ONLY, CWD) == (
        "the sandbox (read-only) denied something: see what it allows with `outfitter sandbox explain "
        "--sandbox read-only`"
    )
