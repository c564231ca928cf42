"""Whatever stands in front of a shell, and whatever its startup files do: a command has the environment that
the contract says, or its result has a flag. `make test-shells EXAMPLES=2000` tries more of them."""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from outfitter.shell.start import maintained
from tests.support.contracts import Place, variables
from tests.support.servers import Server, serving
from tests.support.tools import program
from tests.support.wire import Wire

EXAMPLES = int(os.environ.get("OUTFITTER_EXAMPLES", "30"))
ENV = "/usr/bin/env -0"
NAMES = ("SECRET_TOKEN", "GIVEN", "OTHER", "ADDED")
FILES = (
    *(".profile", ".bash_profile", ".bash_login", ".bashrc", ".zshenv", ".zprofile", ".zshrc", ".kshrc"),
    ".config/fish/config.fish",
)
SHELLS = ("bash", "sh", "dash", "ksh", "zsh", "fish")
LINK = "innocent"  # which is bash
SCRIPT = "script"
NESTED = "login-script"  # with a login shell in its first line
NUMBERS = itertools.count(1)

# Every row of the table that keeps the account, and with root's rights those that do not.
FRONT = [
    ["nice"],
    ["nice", "-n", "1"],
    ["env"],
    ["env", "WRAPPED=1"],
    ["env", "-u", "OTHER"],
    ["env", "BASH_ENV=/nowhere", "ENV=/nowhere"],
    ["env", "-i", "PATH=/usr/bin:/bin", "WRAPPED=4"],
    ["timeout", "-s", "INT", "60"],
    ["setsid", "-w"],
    ["nohup"],
    ["ionice", "-c3"],
    ["stdbuf", "-oL"],
    ["chrt", "-b", "0"],
    ["taskset", "-c", "0-1023"],
    ["time", "-o", "/dev/null"],
    ["busybox", "env", "WRAPPED=2"],
    ["busybox", "timeout", "60"],
    ["xargs", "-a", "/dev/null"],
]
RUNUSER = shutil.which("runuser") or "/usr/sbin/runuser"
# With the scratch home again: root's own has startup files of somebody.
ACCOUNTS = [
    words
    for words in (["sudo", "-n", "HOME=$HOME"], [RUNUSER, "-u", "root", "--", "env", "HOME=$HOME"])
    if os.getuid() == 0
]
OF_STDBUF = {"LD_PRELOAD", "_STDBUF_O"}
# What a whole command can stand in, as one text.
WITHIN: dict[str, Callable[[list[str]], list[str]]] = {
    "": lambda words: words,
    "script": lambda words: ["script", "-qec", shlex.join(words), "/dev/null"],
    "env -S": lambda words: ["env", "-S", shlex.join(words)],
}
# On a terminal, nohup says nothing there, timeout stops an interactive shell, and fish greets who types.
NOT_IN_SCRIPT = {"nohup", "timeout", "busybox", "fish"}
LINES = ("#!/bin/bash -l", "#!/usr/bin/env -S bash -l", "#!/usr/bin/env zsh", "#!/bin/sh")

wrappers = st.lists(st.sampled_from(FRONT + ACCOUNTS), max_size=3)
PLAIN = (ENV, f"exec {ENV}", f"cd / && {ENV}", f"sh -c '{ENV}'")  # nothing to be flagged in these
texts = st.sampled_from(
    [
        ENV,
        *PLAIN,
        f"bash -lc '{ENV}'",
        f"exec bash -lc '{ENV}'",
        f"nice zsh -c '{ENV}'",
        f"env WRAPPED=3 bash --login -c '{ENV}'",
        f"fish -c '{ENV}'",
        f"bash -ic '{ENV}'",
        f"./{NESTED}",
        f"cd . && nice ./{NESTED}",
    ]
)
# What startup files do, by file: the name that they export.
startup = st.dictionaries(st.sampled_from(FILES), st.sampled_from((*NAMES, "PATH")), max_size=4)
variables_of_a_layer = st.dictionaries(st.sampled_from(NAMES[1:]), st.sampled_from(("1", "two words", "")))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    for name in (*SHELLS, *(words[0] for words in FRONT + ACCOUNTS), "script"):
        program(name)
    place = Place(tmp_path_factory.mktemp("place"))
    (place.project / LINK).symlink_to("/bin/bash")
    (place.project / NESTED).write_text(f"#!/bin/bash -l\n{ENV}\n")
    (place.project / NESTED).chmod(0o755)
    place.user('[shell_environment_policy]\nexclude = ["SECRET_*"]\n')
    return place


@pytest.fixture(scope="module")
def wire(place: Place) -> Iterator[Wire]:
    with serving("outfitter", place.home, env=place.environ(SECRET_TOKEN="hush", BASE="1")) as server:
        yield from _connected(server)


def _connected(server: Server) -> Iterator[Wire]:
    with Wire(server.url) as wire:
        wire.call("initialize", {"clientName": "test", "environmentSummary": True})
        wire.send({"method": "initialized", "params": {}})
        yield wire


def ran(wire: Wire, place: Place, argv: list[str], env: dict[str, str]) -> tuple[dict[str, str], Any]:
    process = f"p{next(NUMBERS)}"
    started = wire.start(process, argv, env=env, cwd=place.project.as_uri(), contract={})
    wire.closed(process)
    # On a terminal, a shell's complaints are in front, in lines of their own; no variable here has lines.
    pairs = wire.output(process, "stdout").split(b"\0")
    printed = b"\0".join(pair.rpartition(b"\r\n")[2] for pair in pairs)
    return variables(printed), started["environment"].get("flags", [])


def write(place: Place, files: dict[str, str], project: dict[str, str]) -> None:
    for name in FILES:
        (place.home / name).unlink(missing_ok=True)
    for name, variable in files.items():
        path = Path(place.home / name)
        path.parent.mkdir(parents=True, exist_ok=True)
        value = "/evil:/usr/bin:/bin" if variable == "PATH" else "from a startup file"
        line = f"set -gx {variable} '{value}'" if "fish" in name else f"export {variable}='{value}'"
        path.write_text(f"{line}\n")
    pairs = ", ".join(f'{name} = "{value}"' for name, value in project.items())
    place.says(f"[env]\nset = {{ {pairs} }}\n")


def commands(text: str) -> st.SearchStrategy[list[str]]:
    """A shell that runs a text: by its name, by its file's, or by the first line of a script. What else is in
    a script nobody reads: that is what masks are for."""
    shells = st.sampled_from([*SHELLS, f"./{LINK}"])
    called = st.builds(
        lambda shell, flags: [shell, flags, text], shells, st.sampled_from(("-c", "-lc", "-ic"))
    )
    # It greets who types.
    called |= st.sampled_from([["busybox", "sh", flags, text] for flags in ("-c", "-lc")])
    return called | st.sampled_from([[f"./{SCRIPT}", line] for line in LINES]) if text in PLAIN else called


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    within=st.sampled_from(["", *WITHIN]),
    front=wrappers,
    command=texts.flatmap(lambda text: st.tuples(st.just(text), commands(text))),
    files=startup,
    project=variables_of_a_layer,
    request=variables_of_a_layer,
)
def test_the_environment_is_the_contract_s_or_there_is_a_flag(
    wire: Wire,
    place: Place,
    within: str,
    front: list[list[str]],
    command: tuple[str, list[str]],
    files: dict[str, str],
    project: dict[str, str],
    request: dict[str, str],
) -> None:
    text, words = command
    assume(within != "script" or not NOT_IN_SCRIPT.intersection([words[0], *(one[0] for one in front)]))
    write(place, files, project)
    if words[0] == f"./{SCRIPT}":
        script = place.project / SCRIPT
        script.write_text(f"{words.pop()}\n{text}\n")
        script.chmod(0o755)
    expected, _ = ran(wire, place, ["/usr/bin/env", "-0"], request)
    assert "SECRET_TOKEN" not in expected
    for one in front:
        expected = behind(one, expected)
    words = [*itertools.chain(*front), *words]
    argv = WITHIN[within]([word.replace("$HOME", str(place.home)) for word in words])
    seen, found = ran(wire, place, argv, request)
    # Said by the words, or by the shell.
    own = {name for one in SHELLS for name in maintained(one)} | {"WRAPPED", "ENV", "BASH_ENV"} | OF_STDBUF
    same = _without(seen, own) == _without(expected, own)
    event(f"same {same}, flagged {bool(found)}")
    assert same or found
    if within == "script" or any(one in ACCOUNTS for one in front):
        return  # what these leave is theirs, and flagged
    if "WRAPPED=3" not in text and "WRAPPED" in expected:
        assert seen.get("WRAPPED") == expected["WRAPPED"]
    if text in PLAIN:
        assert same
        assert found == []


def behind(words: list[str], env: dict[str, str]) -> dict[str, str]:
    """What a program in front of a shell makes of the environment, by its words."""
    if "env" not in words:
        return env
    left = {} if "-i" in words else dict(env)
    if "-u" in words:
        left.pop(words[-1], None)
    for word in words:
        name, equals, value = word.partition("=")
        if equals and not name.endswith("ENV"):
            left[name] = value
    return left


def _without(env: dict[str, str], names: set[str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name not in names}
