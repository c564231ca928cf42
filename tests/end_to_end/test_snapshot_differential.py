"""Snapshots of shells, beside the reference's: every param, every error, and what commands see of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers import serving
from tests.support.tools import program
from tests.support.wire import Wire, start_params

FRESH = itertools.count(1)
POLICY = {"inherit": "all", "ignoreDefaultExcludes": True, "exclude": [], "set": {}, "includeOnly": []}
FILES = {
    ".bash_profile": """
echo printed; echo complained >&2
export FROM=profile MY_SECRET=brought SEEN="$PWD" PATH="/mine:/usr/bin:/bin" GIVEN="${GIVEN-none}"
PRIVATE=1
greet() { echo "greet $1"; }
alias l='echo list'
set -o noclobber; shopt -s extglob
umask 077; cd /
""",
    ".bashrc": "export RC=1\nmatched() { case $1 in @(a|b)) echo yes;; *) echo no;; esac; }\n",
    ".zprofile": "export FROM=profile\nzf() { print zf }\nsetopt extendedglob\nalias l='echo list'\n",
    ".zshrc": "export RC=1\n",
    ".profile": "export FROM=profile\nset -o noglob\nalias l='echo list'\n",
}


class Executor:
    def __init__(self, wire: Wire, home: Path) -> None:
        self.wire, self.home = wire, home

    def outcome(self, text: str, shell: str, argv: list[str] | None, params: dict[str, Any]) -> Any:
        """What a command prints and says, with its exit code; or its error."""
        process = f"p{next(FRESH)}"
        said = {
            "shellSnapshot": {"scopeId": "s", "shell": {"name": shell, "path": program(shell)}},
            "envPolicy": POLICY,
            "env": {},
            "cwd": self.home.as_uri(),
            **params,
        }
        asked = start_params(process, argv or [program(shell), "-lc", text, "zero", "one"], **said)
        answer = self.wire.answer(self.wire.request("process/start", asked))
        if "error" in answer:
            return answer["error"]["code"], answer["error"]["message"]
        self.wire.closed(process)
        out, err = (self.wire.output(process, stream).decode() for stream in ("stdout", "stderr"))
        return self.wire.exit_code(process), out.replace(str(self.home), "HOME"), err


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Executor, Executor]]:
    home = tmp_path_factory.mktemp("snapshots")
    for name, text in FILES.items():
        (home / name).write_text(text)
    env = {"PATH": "/usr/bin:/bin", "EXECUTOR": "1"}
    with (
        serving("codex", home, env=env) as theirs,
        serving("outfitter", home, env=env) as ours,
        Wire(theirs.url) as one,
        Wire(ours.url) as other,
    ):
        one.handshake()
        other.handshake()
        yield Executor(one, home), Executor(other, home)


SHOWN = 'echo "${FROM-none} ${RC-none} ${MY_SECRET-none} ${SEEN-none} ${PRIVATE-none} ${EXECUTOR-none}"'
ALIKE: dict[str, tuple[str, str, dict[str, Any]]] = {
    "variables": (SHOWN, "bash", {}),
    "path": ("echo $PATH", "bash", {}),
    "functions": ("greet x; matched a; matched c", "bash", {}),
    "aliases": ("alias", "bash", {}),
    "options": ("shopt extglob; set -o | grep noclobber; echo $-; shopt login_shell", "bash", {}),
    "parameters": ('echo "$0 $1 $#"', "bash", {}),
    "exit": ("exit 7", "bash", {}),
    "where": ("umask; pwd", "bash", {}),
    "terminal": ("greet t", "bash", {"tty": True}),
    "a name of its own": ("echo $0; greet x", "bash", {"arg0": "renamed"}),
    "the request wins": (SHOWN, "bash", {"env": {"FROM": "request", "MY_SECRET": ""}}),
    "inherit core": (SHOWN, "bash", {"envPolicy": {**POLICY, "inherit": "core"}}),
    "default excludes": (SHOWN, "bash", {"envPolicy": {**POLICY, "ignoreDefaultExcludes": False}}),
    "excludes": (SHOWN, "bash", {"envPolicy": {**POLICY, "exclude": ["FR*", "rc"]}}),
    "set": (SHOWN, "bash", {"envPolicy": {**POLICY, "set": {"FROM": "set", "RC": "set"}}}),
    "include only": (SHOWN, "bash", {"envPolicy": {**POLICY, "includeOnly": ["HOME", "FROM"]}}),
    "zsh": ('zf; [[ -o extendedglob ]] && echo "$FROM $RC $0 $1"', "zsh", {}),
    "sh": ('set -o | grep noglob; echo "$FROM $0 $1"', "sh", {}),
}


@pytest.mark.parametrize("case", ALIKE)
def test_commands_see_the_same(case: str, both: tuple[Executor, Executor]) -> None:
    text, shell, params = ALIKE[case]
    theirs, ours = (one.outcome(text, shell, None, params) for one in both)
    assert ours == theirs


@pytest.mark.parametrize("name", ["bash", "sh"])
def test_a_request_that_says_all_gets_what_startup_files_add(
    name: str, both: tuple[Executor, Executor]
) -> None:
    exact = {"envPolicy": None, "env": {"HOME": str(both[0].home), "PATH": "/bin:/usr/bin"}}
    theirs, ours = (one.outcome(f"{SHOWN}; echo $PATH", name, None, exact) for one in both)
    assert ours == theirs


BASH = program("bash")
SHAPES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no shell": ({"scopeId": "s", "shell": {"name": "fish", "path": "/x"}}, ["true"]),
    "an unknown shell": ({"scopeId": "s", "shell": {"name": "fish", "path": BASH}}, [BASH, "-lc", "true"]),
    "an empty name": ({"scopeId": "s", "shell": {"name": "", "path": BASH}}, [BASH, "-lc", "true"]),
    "another path": (
        {"scopeId": "s", "shell": {"name": "bash", "path": "/x"}},
        [BASH, "-c", "echo ${FROM-none}"],
    ),
    "another flag": (
        {"scopeId": "s", "shell": {"name": "bash", "path": BASH}},
        [BASH, "-c", "echo ${FROM-none}"],
    ),
    "no text": ({"scopeId": "s", "shell": {"name": "bash", "path": BASH}}, [BASH, "-lc"]),
    "an empty scope": ({"scopeId": "", "shell": {"name": "bash", "path": BASH}}, ["true"]),
    "a long scope": ({"scopeId": "é" * 129, "shell": {"name": "bash", "path": BASH}}, ["true"]),
    "the longest scope": ({"scopeId": "é" * 128, "shell": {"name": "bash", "path": BASH}}, ["true"]),
    "no scope": ({"shell": {"name": "bash", "path": BASH}}, ["true"]),
    "a number": ({"scopeId": 1, "shell": {"name": "bash", "path": BASH}}, ["true"]),
    "null": ({"scopeId": None, "shell": {"name": "bash", "path": BASH}}, ["true"]),
    "a shell without a name": ({"scopeId": "s", "shell": {"path": BASH}}, ["true"]),
    "a shell without a path": ({"scopeId": "s", "shell": {"name": "bash"}}, ["true"]),
    "no shell at all": ({"scopeId": "s"}, ["true"]),
    "a shell that is a text": ({"scopeId": "s", "shell": "bash"}, ["true"]),
    "more members": ({"scopeId": "s", "shell": {"name": "bash", "path": "/x", "y": 1}, "z": 1}, ["true"]),
}


@pytest.mark.parametrize("case", SHAPES)
def test_params_are_taken_and_refused_alike(case: str, both: tuple[Executor, Executor]) -> None:
    asked, argv = SHAPES[case]
    theirs, ours = (one.outcome("", "bash", argv, {"shellSnapshot": asked}) for one in both)
    assert ours == theirs


# Where ours differs, on purpose: what the reference does, and what we do.
DIFFERENT: dict[str, tuple[str, str, tuple[str, str]]] = {
    "aliases of zsh": ("l", "zsh", ("", "list\n")),
    "aliases of sh": ("alias", "sh", ("", "l='echo list'\n")),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_aliases_come(case: str, both: tuple[Executor, Executor]) -> None:
    text, shell, expected = DIFFERENT[case]
    assert tuple(one.outcome(text, shell, None, {})[1] for one in both) == expected


def test_variables_of_one_command_are_not_those_of_another(both: tuple[Executor, Executor]) -> None:
    """The reference takes a snapshot with the variables of whoever comes first."""
    scope = {"shellSnapshot": {"scopeId": "given", "shell": {"name": "bash", "path": BASH}}}
    found = []
    for one in both:
        one.outcome("true", "bash", None, {**scope, "env": {"GIVEN": "to the first"}})
        found.append(one.outcome("echo $GIVEN", "bash", None, scope)[1])
    assert found == ["to the first\n", "none\n"]


def elsewhere(home: Path, name: str, profile: str) -> dict[str, Any]:
    """A snapshot of its own, of another home. The reference would take one that it has for this one's."""
    (home / name).mkdir()
    (home / name / ".bash_profile").write_text(profile)
    shell = {"name": "bash", "path": BASH}
    return {"env": {"HOME": str(home / name)}, "shellSnapshot": {"scopeId": name, "shell": shell}}


def test_aliases_hold_where_startup_files_want_them_to(both: tuple[Executor, Executor]) -> None:
    profile = "alias two='echo 1\necho 2' l=ls; shopt -s expand_aliases\n"
    params = elsewhere(both[0].home, "lines", profile)
    assert [one.outcome("two", "bash", None, params) for one in both] == [(0, "1\n2\n", "")] * 2


def test_startup_files_that_fail(both: tuple[Executor, Executor]) -> None:
    """The reference starts a login shell then, in which they run; ours keeps them out, and says so."""
    params = elsewhere(both[0].home, "failing", "export FROM=profile\nexit 3\n")
    theirs, ours = (one.outcome("echo ${FROM-none}", "bash", None, params) for one in both)
    assert (theirs, ours[:2]) == ((3, "", ""), (0, "none\n"))
    assert ours[2].startswith("[outfitter] shell-snapshot has failed: ")
