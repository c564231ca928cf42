"""`file:` URIs: what is accepted, how it is shown, and which path of this host it names."""

from __future__ import annotations

import base64
import string

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from outfitter.errors import InvalidParams
from outfitter.protocol import uri
from outfitter.protocol.uri import FileUri, from_path, parse

quick = settings(deadline=None, max_examples=100)


def refusal(text: str) -> str:
    with pytest.raises(InvalidParams) as caught:
        parse(text)
    return str(caught.value)


def refusal_at_use(text: str) -> str:
    with pytest.raises(ValueError) as caught:
        parse(text).local_path()
    return str(caught.value)


# Refused when read


@pytest.mark.parametrize(
    "text", ["", "/tmp", "tmp", "./a", "../a:b", "//host/x", ":x", "1file:///a", "é:x", "?", "a b:c"]
)
def test_a_text_without_a_scheme_is_refused(text: str) -> None:
    assert refusal(text) == "invalid URI: relative URL without a base"


@pytest.mark.parametrize(
    ("text", "scheme"),
    [
        ("http://a/b", "http"),
        ("HTTPS://a", "https"),
        ("files:///a", "files"),
        ("C:\\x", "c"),
        ("a+b-c.1:", "a+b-c.1"),
    ],
)
def test_another_scheme_is_refused_by_name(text: str, scheme: str) -> None:
    assert refusal(text) == f"unsupported path URI scheme `{scheme}`"


@pytest.mark.parametrize("text", ["file:///a?b", "file:///a?", "file:?", "file:///a?b#c", "file://h/a?"])
def test_a_query_is_refused(text: str) -> None:
    assert refusal(text) == "query parameters are not allowed in path URIs"


@pytest.mark.parametrize("text", ["file:///a#b", "file:///a#", "file:#", "file:///a#b?c"])
def test_a_fragment_is_refused(text: str) -> None:
    assert refusal(text) == "fragments are not allowed in path URIs"


def test_nul_is_refused() -> None:
    assert refusal("file:///a%00b") == "'file:///a%00b' is invalid on 'linux'"
    assert refusal("file:///a\0b") == "'file:///a%00b' is invalid on 'linux'"


# Refused when used


@pytest.mark.parametrize(
    "text", ["file://host/x", "file://host/", "file://host", "file://1.2.3.4/x", "file://[::1]/x"]
)
def test_a_uri_of_another_host_is_read_but_names_no_path(text: str) -> None:
    shown = text if text.count("/") > 2 else text + "/"
    assert parse(text).text == shown
    assert refusal_at_use(text) == f"'{shown}' is invalid on 'linux'"


@pytest.mark.parametrize(
    "text",
    [
        "file:///C:/x",
        "file:///c:/x",
        "file:C|/x",
        "file://c:/x",
        "file://c|/x",
        "file:/c:/x",
        "file:/./c|/x",
        "file:///../c|/x",
        "file://host/c|/x",
        "file://host//../c|/x",
        "file:/.//c:/x",
        "file:c:/../x",
    ],
)
def test_a_drive_is_read_but_names_no_path(text: str) -> None:
    assert parse(text) == FileUri("", "/C:/x")
    assert refusal_at_use(text) == "'file:///C:/x' is invalid on 'linux'"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("file:///CC:/x", "/CC:/x"),
        ("file:///C:x", "/C:x"),
        ("file:///a/C:/x", "/a/C:/x"),
        ("file:///c|/x", "/c|/x"),
        ("file:/.//c|/x", "/c|/x"),
        ("file:///a/c:/../x", "/a/c:/x"),
        ("file:///a/c|/../x", "/a/c|/x"),
        ("file:///1:/x", "/1:/x"),
    ],
)
def test_only_a_first_segment_of_letter_and_colon_is_a_drive(text: str, path: str) -> None:
    assert parse(text).local_path() == path


def test_the_marker_of_an_unpresentable_path_is_refused() -> None:
    assert parse("file:///%00/bad/path/L2E").text == "file:///%00/bad/path/L2E"
    assert refusal_at_use("file:///%00/bad/path/L2E") == "'file:///%00/bad/path/L2E' is invalid on 'linux'"


# Normalised


@pytest.mark.parametrize(
    "text",
    [
        "file:///tmp",
        "file:/tmp",
        "file:tmp",
        "FILE:///tmp",
        "FiLe:tmp",
        "file://localhost/tmp",
        "file://LOCALHOST/tmp",
        "file://%6cocalhost/tmp",
        "  file:///tmp\n",
        "\x00\x1ffile:///tmp ",
        "fi\tle:///t\nm\rp",
        "file:\\\\\\tmp",
        "file:\\tmp",
        "file:///./tmp",
        "file:///x/../tmp",
        "file:///../../tmp",
        "file:///%2e/x/%2E%2e/tmp",
        "file:///x/.%2e/tmp",
    ],
)
def test_every_spelling_of_a_uri_is_the_same_uri(text: str) -> None:
    assert parse(text) == FileUri("", "/tmp")
    assert parse(text).text == "file:///tmp"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("file:///tmp/../etc", "file:///etc"),
        ("file:///a/b/..", "file:///a/"),
        ("file:///a/.", "file:///a/"),
        ("file:///..", "file:///"),
        ("file:///...", "file:///..."),
        ("file:///.hidden/..x", "file:///.hidden/..x"),
        ("file:", "file:///"),
        ("file://", "file:///"),
        ("file:///", "file:///"),
        ("file:///a b", "file:///a%20b"),
        ("file:///é", "file:///%C3%A9"),
        ('file:///"<>`{}', "file:///%22%3C%3E%60%7B%7D"),
        ("file:///%41%zz%", "file:///%41%zz%"),
        ("file:///a[]^|~:;=@!$&'()*+,", "file:///a[]^|~:;=@!$&'()*+,"),
        ("file:///\x7f", "file:///%7F"),
    ],
)
def test_a_uri_is_shown_normalised(text: str, shown: str) -> None:
    assert parse(text).text == shown


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("file:///", "/"),
        ("file:///tmp/", "/tmp"),
        ("file:////tmp", "/tmp"),
        ("file:///a//b///c//", "/a/b/c"),
        ("file:///%zz", "/%zz"),
        ("file:///%4", "/%4"),
        ("file:///%", "/%"),
        ("file:///a%2Fb", "/a/b"),
        ("file:///%2F%2Fa", "/a"),
        ("file:///%41", "/A"),
        ("file:///%FF", "/\udcff"),
        ("file:///%C3%A9", "/é"),
        ("file:///C%3A/x", "/C:/x"),
        ("file:///a%25zz", "/a%zz"),
        ("file:///a%2500", "/a%00"),
    ],
)
def test_the_path_of_a_uri(text: str, path: str) -> None:
    assert parse(text).local_path() == path


# Properties

marks = st.sampled_from(
    [*"/\\.:%?#|C @\t\n\0é", "%2e", "%2E", "%2F", "%00", "%FF", "file:", "//", "localhost", "a"]
)


@given(st.lists(marks, max_size=12).map("".join) | st.text(max_size=30))
@example("file:///\ud800")
@quick
def test_any_text_is_a_uri_or_refused(text: str) -> None:
    try:
        found = parse(text)
    except InvalidParams:
        return
    try:
        path = found.local_path()
    except ValueError:
        return
    assert path.startswith("/")
    assert "\0" not in path
    assert "//" not in path


@given(st.lists(marks, max_size=12).map(lambda parts: "file:///" + "".join(parts)))
@quick
def test_a_normalised_uri_stays_as_it_is(text: str) -> None:
    try:
        shown = parse(text)
    except InvalidParams:
        return
    assume("//" not in shown.path)  # empty segments are kept or dropped; they never matter at use
    assert parse(shown.text) == shown


plain = "".join(sorted(set(string.printable) - set(string.whitespace) - set('%?#\\"<>`{}')))


@given(st.text(alphabet=plain, max_size=20).filter(lambda path: "/." not in "/" + path))
@quick
def test_the_short_way_for_plain_uris_names_the_same_path(path: str) -> None:
    text = "file:///" + path
    short, long = parse(text), uri._parse_any(text)
    try:
        expected = long.local_path()
    except ValueError:
        with pytest.raises(ValueError):
            short.local_path()
        return
    assert short.local_path() == expected


def is_plain_name(name: bytes) -> bool:
    return name not in (b".", b"..")


def looks_like_a_drive(first: bytes) -> bool:
    return len(first) == 2 and first[:1].isalpha() and first[1:] in (b":", b"|")


names = st.binary(min_size=1, max_size=12).map(lambda raw: raw.replace(b"\0", b"0").replace(b"/", b"_"))
paths = (
    st.lists(names.filter(is_plain_name), max_size=4)
    .filter(lambda parts: not parts or not looks_like_a_drive(parts[0]))
    .map(lambda parts: b"/" + b"/".join(parts))
)


@given(paths)
@example(bytes(code for code in range(1, 256) if code != 0x2F).join((b"/", b"")))
@example(b"/%2e%2e/%00/a%")
@quick
def test_every_path_survives_the_round_trip(raw: bytes) -> None:
    path = raw.decode("utf-8", "surrogateescape")
    shown = from_path(path)
    assert parse(shown).local_path() == path
    assert parse(shown).text == shown


@given(paths)
@quick
def test_a_path_is_shown_with_the_escapes_of_the_reference(raw: bytes) -> None:
    literal = set(range(0x21, 0x7F)) - set(b'"#%<>?\\`{}')
    expected = "".join(chr(byte) if byte in literal else f"%{byte:02X}" for byte in raw)
    assert from_path(raw.decode("utf-8", "surrogateescape")) == "file://" + expected


@pytest.mark.parametrize("path", ["/C:/x", "/c:"])
def test_a_path_that_looks_like_a_drive_is_shown_opaque(path: str) -> None:
    opaque = base64.urlsafe_b64encode(path.encode()).rstrip(b"=").decode()
    assert from_path(path) == f"file:///%00/bad/path/{opaque}"
