"""This process's environment, as commands inherit it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

CODE = "import json; from outfitter.providers import inherited; print(json.dumps(inherited.load()))"


def load(env: dict[bytes, bytes]) -> dict[str, str]:
    """What `load` gives in a process started with exactly this environment."""
    done = subprocess.run([sys.executable, "-c", CODE], env=env, capture_output=True, check=True)
    values: dict[str, str] = json.loads(done.stdout)
    return values


def test_a_variable_that_the_interpreter_made_up_is_not_inherited() -> None:
    # In the C locale, Python sets LC_CTYPE in its own environment (PEP 538).
    assert load({b"PATH": b"/usr/bin:/bin"}) == {"PATH": "/usr/bin:/bin"}


@pytest.mark.parametrize("value", ["C.UTF-8", "de_DE.UTF-8", ""])
def test_the_same_variable_is_inherited_when_it_was_given(value: str) -> None:
    assert load({b"LC_CTYPE": value.encode()}) == {"LC_CTYPE": value}


def test_values_keep_their_bytes() -> None:
    values = load({b"ODD": b"a\xffb", "NAME\u00fc".encode(): b"x=y"})
    assert os.fsencode(values["ODD"]) == b"a\xffb"
    assert values["NAME\u00fc"] == "x=y"


def test_a_copy_inherits_what_it_is_told_and_nothing_else() -> None:
    replaced = (
        "from outfitter.host import given; given.replace({'LC_CTYPE': 'C.UTF-8', 'A': 'x\\udcff'}); print"
    )
    code = CODE.replace("print", replaced)
    done = subprocess.run([sys.executable, "-c", code], env={"B": "1"}, capture_output=True, check=True)
    assert json.loads(done.stdout) == {"LC_CTYPE": "C.UTF-8", "A": "x\udcff"}
