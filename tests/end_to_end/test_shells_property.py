"""Whatever stands in front of a shell, and whatever its startup files do: a command has the environment that
the contract says, or its result has a flag."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outfitter.shell.start import maintained
from tests.support.contracts import Place, variables
from tests.support.servers import Server, serving
from tests.support.tools import program
from tests.support.wire import Wire

ENV = "/usr/bin/env -0"
NAMES = ("SECRET_TOKEN", "GIVEN", "OTHER", "ADDED")
FILES = (
    *(".profile", ".bash_profile", ".bash_login", ".bashrc", ".zshenv", ".zprofile", ".zshrc", ".kshrc"),
    ".config/fish/config.fish",
)
SHELLS = ("bash", "sh", "dash", "ksh", "zsh", "fish")
NUMBERS = itertools.count(1)

wrappers = st.lists(
    st.sampled_from(
        [
            ["nice"],
            ["nice", "-n", "1"],
            ["env"],
            ["env", "WRAPPED=1"],
            ["env", "-u", "OTHER"],
            ["env", "BASH_ENV=/nowhere", "ENV=/nowhere"],
            ["timeout", "-s", "INT", "60"],
            ["setsid", "-w"],
            ["nohup"],
            ["ionice", "-c3"],
            ["time", "-o", "/dev/null"],
            ["busybox", "env", "WRAPPED=2"],
            ["xargs", "-a", "/dev/null"],
        ]
    ),
    max_size=3,
)
texts = st.sampled_from(
    [
        ENV,
        ENV,
        f"exec {ENV}",
        f"cd / && {ENV}",
        f"sh -c '{ENV}'",
        f"bash -lc '{ENV}'",
        f"exec bash -lc '{ENV}'",
        f"nice zsh -c '{ENV}'",
        f"env WRAPPED=3 bash --login -c '{ENV}'",
        f"fish -c '{ENV}'",
        f"bash -ic '{ENV}'",
    ]
)
# What startup files do, by file: the name that they export.
startup = st.dictionaries(st.sampled_from(FILES), st.sampled_from((*NAMES, "PATH")), max_size=4)
variables_of_a_layer = st.dictionaries(st.sampled_from(NAMES[1:]), st.sampled_from(("1", "two words", "")))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    for name in (*SHELLS, "busybox", "time", "ionice"):
        program(name)
    place = Place(tmp_path_factory.mktemp("place"))
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
    return variables(wire.output(process, "stdout")), started["environment"].get("flags", [])


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


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    front=wrappers,
    shell=st.sampled_from(SHELLS),
    flags=st.sampled_from(("-c", "-lc", "-ic")),
    text=texts,
    files=startup,
    project=variables_of_a_layer,
    request=variables_of_a_layer,
)
def test_the_environment_is_the_contract_s_or_there_is_a_flag(
    wire: Wire,
    place: Place,
    front: list[list[str]],
    shell: str,
    flags: str,
    text: str,
    files: dict[str, str],
    project: dict[str, str],
    request: dict[str, str],
) -> None:
    write(place, files, project)
    expected, _ = ran(wire, place, ["/usr/bin/env", "-0"], request)
    assert "SECRET_TOKEN" not in expected
    for words in front:
        if words[0] == "env" and words[1:2] == ["-u"]:
            expected.pop(words[2], None)
        for word in words:
            name, equals, value = word.partition("=")
            if equals and name == "WRAPPED":
                expected[name] = value
    seen, found = ran(wire, place, [*itertools.chain(*front), shell, flags, text], request)
    own = {name for one in SHELLS for name in maintained(one)} | {
        "WRAPPED",
        "ENV",
        "BASH_ENV",
    }  # said by the words, or by the shell
    if "WRAPPED=3" not in text and "WRAPPED" in expected:
        assert seen.get("WRAPPED") == expected["WRAPPED"]
    same = _without(seen, own) == _without(expected, own)
    assert same or found
    if text in (ENV, f"exec {ENV}", f"cd / && {ENV}", f"sh -c '{ENV}'"):
        assert same  # nothing to be flagged here
        assert found == []


def _without(env: dict[str, str], names: set[str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name not in names}
