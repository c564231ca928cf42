"""The environment a command gets, compared variable by variable with what the reference gives it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.servers import environment, serving
from tests.support.wire import Wire, start_params

# What both servers are started with, beyond PATH, HOME, CODEX_HOME and LANG.
SERVER_ENVIRONMENT = {
    "MY_API_KEY": "k1",
    "Secret_Thing": "s1",
    "token": "t1",
    "monkey": "m1",
    "KEY": "bare",
    "LC_ALL": "C",
    "lc_ctype": "C",
    "Path": "/not/the/path",
    "SHELL": "/bin/sh",
    "TMPDIR": "/tmp",
    "Temp": "",
    "USER": "somebody",
    "LOGNAMES": "not core",
    "FO": "1",
    "FOO": "2",
    "FOOO": "3",
    "foo": "4",
    "F.O": "5",
    "F-O": "6",
    "[F]OO": "7",
    "F*": "8",
    "A?C": "9",
    "ABC": "10",
    "with space": "11",
    "Größe": "12",
    "\u212aelvin": "13",  # the Kelvin sign, whose lower case is k
    "STRA\u1e9eE": "14",  # capital sharp s
    "\U0001f600": "15",
    "EMPTY": "",
    "LINES": "a\nb=c\n",
    "NODE_REPL_AUTH_TOKEN": "never",
    "node_repl_auth_token": "never",
    "OPENAI_IDENTITY_TOKEN_FILE": "never",
    "OPENAI_FEDERATION_RULE_ID": "never",
    "OPENAI_WORKLOAD_IDENTITY_CONTEXT": "never",
    "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN": "never",
    "CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE": "false",
    "CODEX_SOMETHING": "16",
}
PATTERNS = [
    "*", "**", "", "?", "??", "???", "FOO", "foo", "F*", "f?o", "F??", "*O", "*o*o*", "[F]OO", "[f]oo",
    "[A-Z]*",
    "F.O", "f-o", "F\\*", "A?C", "a?c", "*KEY*", "*key", "Mon*", "*_*", "PATH", "pAtH", "HOME", "L*", "LC_*",
    "*token*", "SECRET*", "with*", "with space", "GRÖSSE", "grÖße", "gr??e", "*ß*", "k*", "kelvin",
    "straßE", "strasse", "NODE_*", "CODEX_*", "openai_*", "E", "EMPTY", "S", "{FO,FOO}", "!FOO", "^F", "F*O*",
    "*?", "?*?", "*[*", "\U0001f600",
]  # fmt: skip
NAMES = [
    "FOO", "foo", "NEW", "new", "MY_API_KEY", "PATH", "path", "HOME", "X_TOKEN", "SHELL", "E", "ß", "a.b",
    "NODE_REPL_AUTH_TOKEN", "Node_Repl_Auth_Token", "OPENAI_IDENTITY_TOKEN_FILE",
    "CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE", "codex_exec_server_exit_on_stdin_close",
    "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN", "", "A=B", "LANG", "with space",
]  # fmt: skip
VALUES = ["", "1", "two words", "ü", "=", "a=b", "line\nline", "/bin:/usr/bin", "$HOME"]

fresh = itertools.count(1)
patterns = st.lists(st.sampled_from(PATTERNS), max_size=3)
variables = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES), max_size=4)
policies = st.fixed_dictionaries(
    {
        "inherit": st.sampled_from(["all", "all", "core", "none"]),
        "ignoreDefaultExcludes": st.booleans(),
        "exclude": patterns,
        "set": variables,
        "includeOnly": st.one_of(st.just([]), patterns),
    }
)


class Executor:
    """A server and what it puts first on the PATH of those who inherit it."""

    def __init__(self, kind: str, url: str, path: str) -> None:
        self.ours = kind == "outfitter"
        self.path = path
        self.wire = Wire(url)
        info = self.wire.handshake()["environmentInfo"]
        self.prefix = [unquote(uri.removeprefix("file://")) for uri in info["prependPathDirs"]]

    def environment(self, **params: Any) -> list[str]:
        """The variables of a command, sorted, with the server's own PATH prefix taken off."""
        process = f"e{next(fresh)}"
        self.wire.start(process, ["/usr/bin/env", "-0"], **params)
        self.wire.closed(process)
        assert self.wire.exit_code(process) == 0
        entries = self.wire.output(process).decode().split("\0")
        assert entries.pop() == ""
        return sorted(map(self.without_prefix, entries))

    def without_prefix(self, entry: str) -> str:
        """PATH as the server found it, if this is an inherited PATH.

        The reference puts a directory of its own before the advertised ones; ours adds only those.
        """
        name, _, value = entry.partition("=")
        if name != "PATH" or not value.endswith(":" + self.path):
            return entry
        added = value.removesuffix(":" + self.path).split(":")
        assert added[-len(self.prefix) :] == self.prefix
        assert not self.ours or added == self.prefix
        return "PATH=" + self.path


class Both:
    def __init__(self, reference: Executor, subject: Executor) -> None:
        self.reference = reference
        self.subject = subject

    def compare(self, **params: Any) -> list[str]:
        theirs = self.reference.environment(**params)
        subject = self.subject.environment(**params)
        assert subject == theirs, (
            f"{params}\n  only the reference {sorted(set(theirs) - set(subject))}"
            f"\n  only the subject   {sorted(set(subject) - set(theirs))}"
        )
        return theirs


@pytest.fixture(scope="module", params=["codex", "outfitter"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    home = tmp_path_factory.mktemp("policy")
    path = environment(home)["PATH"]
    with (
        serving("codex", home, env=SERVER_ENVIRONMENT) as reference,
        serving(request.param, home, env=SERVER_ENVIRONMENT) as subject,
    ):
        both = Both(Executor("codex", reference.url, path), Executor(request.param, subject.url, path))
        yield both
        both.reference.wire.close()
        both.subject.wire.close()


def policy(**members: Any) -> dict[str, Any]:
    """The policy that changes nothing, but for these members."""
    return {
        "inherit": "all",
        "ignoreDefaultExcludes": True,
        "exclude": [],
        "set": {},
        "includeOnly": [],
        **members,
    }


@settings(max_examples=100, derandomize=True, deadline=None, database=None)
@given(policy=policies, overlay=variables)
@example(
    policy={
        "inherit": "none",
        "ignoreDefaultExcludes": True,
        "exclude": [],
        "set": {"": "", "A": "1"},
        "includeOnly": [""],
    },
    overlay={},
)
def test_generated_policy_gives_the_environment_of_the_reference(
    both: Both, policy: dict[str, Any], overlay: dict[str, str]
) -> None:
    both.compare(envPolicy=policy, env=overlay)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_pattern_matches_the_names_that_it_matches_for_the_reference(both: Both, pattern: str) -> None:
    kept = both.compare(envPolicy=policy(includeOnly=[pattern, "\U0001f600"]), env={})
    dropped = both.compare(envPolicy=policy(exclude=[pattern]), env={})
    assert kept or dropped


@pytest.mark.parametrize("inherit", ["all", "core", "none"])
@pytest.mark.parametrize("ignored", [True, False])
def test_base_is_that_of_the_reference(both: Both, inherit: str, ignored: bool) -> None:
    both.compare(envPolicy=policy(inherit=inherit, ignoreDefaultExcludes=ignored), env={})


@settings(max_examples=20, derandomize=True, deadline=None, database=None)
@given(overlay=variables)
def test_without_a_policy_nothing_is_inherited_as_in_the_reference(
    both: Both, overlay: dict[str, str]
) -> None:
    both.compare(env=overlay)


@pytest.mark.parametrize("overlay", [{}, {"SHELL": "/no/such/shell"}, {"shell": "x"}, {"SHELL": ""}])
@pytest.mark.parametrize("inherit", [None, "none", "core"])
def test_terminal_adds_shell_where_it_is_absent(
    both: Both, overlay: dict[str, str], inherit: str | None
) -> None:
    chosen = None if inherit is None else policy(inherit=inherit)
    both.compare(env=overlay, envPolicy=chosen, tty=True)


def test_terminal_of_a_server_without_shell_gets_the_login_shell(tmp_path: Path) -> None:
    shells = []
    for kind in ("codex", "outfitter"):
        with serving(kind, tmp_path) as server, Wire(server.url) as wire:
            wire.handshake()
            wire.call("process/start", start_params("shell", ["/usr/bin/env", "-0"], tty=True, env={}))
            wire.closed("shell")
            shells.append(wire.output("shell"))
    assert shells[0].startswith(b"SHELL=/")
    assert shells[1] == shells[0]
