"""What bash prints of its exported variables, read back byte for byte, and never more than is whole."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.shell.exports import FUNCTION, read

END = b"__OUTFITTER_END=mark"
# What bash quotes in one way or another is rare among all bytes.
marks = st.text(st.sampled_from("$\"\\`'! x\n\t"), max_size=12).map(str.encode)
texts = marks | st.binary(min_size=0, max_size=40).filter(lambda raw: b"\0" not in raw)
values = st.lists(texts, min_size=1, max_size=8)


def printed(script: str, env: dict[bytes, bytes], *flags: str) -> bytes:
    command = f"{script}; export -p; declare -Fx; printf '%s\\0' __OUTFITTER_END=mark"
    done = subprocess.run(
        ["/bin/bash", "--noprofile", "--norc", *flags, "-c", command],
        env=env,
        capture_output=True,
        check=True,
    )
    return done.stdout


@settings(deadline=None, max_examples=60)
@given(values, st.sampled_from([b"C", b"C.UTF-8"]), st.sampled_from([(), ("--posix",)]))
def test_every_value_comes_back_as_it_was(raws: list[bytes], locale: bytes, flags: tuple[str, ...]) -> None:
    env = {b"V%d" % number: raw for number, raw in enumerate(raws)} | {b"LC_ALL": locale}
    found = read(printed(":", env, *flags), END)
    assert found is not None
    given = {name.decode(): raw.decode("utf-8", "surrogateescape") for name, raw in env.items()}
    assert {name: found[0][name] for name in given} == given


def test_attributes_functions_and_lists_are_told_apart() -> None:
    script = (
        "readonly R=1; export R; declare -ix I=5; export NOVALUE; f() { :; }; export -f f; "
        "declare -ax L=(\"a b\" $'c\\nd'); __OUTFITTER_X=1; export __OUTFITTER_X"
    )
    found = read(printed(script, {b"A": b"1"}), END)
    assert found is not None
    env, readonly = found
    assert (env["R"], env["I"], env["BASH_FUNC_f%%"], readonly) == ("1", "5", FUNCTION, ("R",))
    assert not {"NOVALUE", "L", "__OUTFITTER_X"} & set(env)


def told(line: bytes) -> dict[str, str] | None:
    found = read(b"declare -x A=" + line + b"\n" + END + b"\0", END)
    return None if found is None else found[0]


def test_what_bash_escapes_in_double_quotes_comes_back() -> None:
    assert told(rb'"x\$y\"z\\`w\`"') == {"A": 'x$y"z\\`w`'}
    assert told(rb'"ends in \\"') == {"A": "ends in \\"}


@pytest.mark.parametrize("line", [b'"x"junk', b"$'x'junk", b'"x" ', b'"x"Zdeclare -x B="1"'])
def test_what_stands_behind_a_value_makes_it_none(line: bytes) -> None:
    assert told(line) is None


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2000))
def test_a_report_that_is_cut_is_none(size: int) -> None:
    whole = b"declare -x A=\"1\"\ndeclare -rx B=$'x\\ny\\001'\ndeclare -fx f\n" + END + b"\0"
    assert read(whole, END) is not None
    assert read(whole[: size % len(whole)], END) is None


@settings(deadline=None, max_examples=200)
@given(
    st.binary(max_size=60)
    | st.lists(
        st.sampled_from([b"declare -", b"x ", b'A="', b"$'", b"\\", b"(", b"\n", b"'", END, b"\0"]),
        max_size=12,
    ).map(b"".join)
)
def test_nothing_makes_it_raise(report: bytes) -> None:
    read(report, END)


@pytest.mark.parametrize("after", [b"x", b"\n", END])
def test_what_follows_the_end_makes_it_none(after: bytes) -> None:
    assert read(b'declare -x A="1"\n' + END + b"\0" + after, END) is None


@pytest.mark.parametrize("escape", ["\\z", "\\8"])
def test_an_escape_that_bash_does_not_write_is_refused(escape: str) -> None:
    report = f"declare -x A=$'a{escape}b'\n__OUTFITTER_END=mark\0".encode()
    assert read(report, END) is None
    assert read(report.replace(escape.encode(), b"\\t"), END) == ({"A": "a\tb"}, ())


def test_an_octal_escape_is_one_byte_whatever_it_says() -> None:
    report = b"declare -x A=$'\\101\\1012\\777'\n" + END + b"\0"
    assert read(report, END) == ({"A": "AA2\udcff"}, ())
