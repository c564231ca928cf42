"""TOML with lines: the line found is the line where it was written, and mistakes are told all at once."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.errors import FileInvalid, SettingInvalid
from outfitter.formats import toml
from outfitter.formats.document import Mistake, refuse

Path = tuple[str | int, ...]


def mistakes(text: str) -> list[str]:
    """What is said about a text that is not TOML."""
    with pytest.raises(FileInvalid) as raised:
        toml.parse(text, "f.toml")
    return str(raised.value).splitlines()


# Lines of one document that has everything

EVERYTHING = '''\
# a comment with = and [brackets] and "quotes
title = "x" # behind a value
a.b."c d".'e=f' = 1
a.g = """
[not.a.table]
key = "not a key"
""\\" still inside """""
lit = \'\'\'
"""
= \'\'
\'\'\'
list = [ # comment ] in an array
  1, [2,
    3], "a,]", { x = 1, y.z = [
      4,
  ] },
]
date = 1979-05-27 07:32:00
"k\\u0041" = true

[ table . "x.y" ]
one = {two = {three = "}"}}

  [[servers]]
    name = "#"
    [servers.env]
    A = \'\\\'
    [[servers.disks]]
    [[servers.disks]]
    size = +1_0

[[servers]]
[[servers.disks]]
size = inf
[table]
late = ""
'''


@pytest.mark.parametrize(
    ("line", "path"),
    [
        (1, ()),
        (2, ("title",)),
        (3, ("a",)),
        (3, ("a", "b")),
        (3, ("a", "b", "c d", "e=f")),
        (4, ("a", "g")),
        (8, ("lit",)),
        (12, ("list",)),
        (13, ("list", 0)),
        (13, ("list", 1, 0)),
        (14, ("list", 1, 1)),
        (14, ("list", 2)),
        (14, ("list", 3, "x")),
        (14, ("list", 3, "y", "z")),
        (15, ("list", 3, "y", "z", 0)),
        (18, ("date",)),
        (19, ("kA",)),
        (21, ("table", "x.y")),
        (22, ("table", "x.y", "one", "two", "three")),
        (24, ("servers",)),
        (24, ("servers", 0)),
        (25, ("servers", 0, "name")),
        (26, ("servers", 0, "env")),
        (27, ("servers", 0, "env", "A")),
        (28, ("servers", 0, "disks")),
        (28, ("servers", 0, "disks", 0)),
        (29, ("servers", 0, "disks", 1)),
        (30, ("servers", 0, "disks", 1, "size")),
        (32, ("servers", 1)),
        (34, ("servers", 1, "disks", 0, "size")),
        (35, ("table",)),
        (36, ("table", "late")),
    ],
)
def test_every_kind_of_key_is_found(line: int, path: Path) -> None:
    assert toml.parse(EVERYTHING, "f").line(*path) == line


@pytest.mark.parametrize(
    ("line", "path"),
    [(25, ("servers", 0, "name", "deeper")), (24, ("servers", 0, "url")), (24, ("servers", 9)), (1, ("no",))],
)
def test_what_was_not_written_is_where_it_would_belong(line: int, path: Path) -> None:
    assert toml.parse(EVERYTHING, "f").line(*path) == line


def test_line_ends_of_windows_and_a_byte_order_mark_change_nothing() -> None:
    plain = toml.parse(EVERYTHING, "f")
    other = toml.parse("\ufeff" + EVERYTHING.replace("\n", "\r\n"), "f")
    assert other.value == plain.value
    assert other.line("servers", 1, "disks", 0, "size") == 34


def test_a_line_separator_that_is_no_newline_is_not_counted() -> None:
    document = toml.parse('a = "\u2028\u0085"\nb = 1\n', "f")
    assert document.line("b") == 2


# Lines of any document


class Writer:
    """Writes a document and remembers on which line each path went."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.text = ""
        self.lines: dict[Path, int] = {}
        self._draw = draw
        self._used: set[tuple[Path, str]] = set()

    def put(self, text: str) -> None:
        self.text += text

    def mark(self, path: Path) -> None:
        self.lines[path] = self.text.count("\n") + 1

    def blank(self) -> None:
        self.put(self._draw(st.sampled_from(["", " ", "\t "])))

    def end(self) -> None:
        """The end of a statement, and what may stand between two."""
        self.blank()
        self.put(self._draw(st.sampled_from(["", '# [x] = "', "#''' {"])))
        self.put(self._draw(st.sampled_from(["\n", "\r\n", "\n\n", "\n  \n# a = 1\n\t"])))

    def name(self, table: Path) -> str:
        """A name that the table does not have yet."""
        names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=4)
        name: str = self._draw(st.one_of(st.sampled_from(["a", "b-1", "_", "7"]), names))
        while (table, name) in self._used:
            name += "+"
        self._used.add((table, name))
        return name

    def key(self, name: str) -> None:
        bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
        spellings = [basic(name)]
        if bare:
            spellings.append(name)
        if "'" not in name:
            spellings.append(f"'{name}'")
        self.put(self._draw(st.sampled_from(spellings)))

    def pair(self, table: Path, depth: int) -> None:
        name = self.name(table)
        path = (*table, name)
        self.mark(path)
        self.key(name)
        if self._draw(st.integers(0, 3)) == 0:
            self.blank()
            self.put(".")
            self.blank()
            inner = self.name(path)
            path = (*path, inner)
            self.mark(path)
            self.key(inner)
        self.blank()
        self.put("=")
        self.blank()
        self.value(path, depth)

    def value(self, path: Path, depth: int) -> None:
        kind = self._draw(st.integers(0, 5 if depth else 3))
        if kind == 0:
            self.put(
                self._draw(st.sampled_from(["1", "-0.5", "true", "1979-05-27", "07:32:00.5", "inf", "0xF"]))
            )
        elif kind == 1:
            self.put(
                self._draw(st.sampled_from(['""', '"\\"#"', "'\\'", '"]}"', '\'"""\'', '"a\\\\"', "''"]))
            )
        elif kind == 2:
            inside = self._draw(
                st.sampled_from(["", "\n", 'a = 1\n""', "\\\n\n  x", "[t]\n#'''\n", '\\"\\\\\n'])
            )
            self.put(
                f'"""{inside}{self._draw(st.sampled_from(["", chr(34)])) if inside[-1:] == "x" else ""}"""'
            )
        elif kind == 3:
            inside = self._draw(st.sampled_from(["", "\n", "a = 1\n''\n", '"""\n\\\n', "[t]\n# x\n"]))
            self.put(f"'''{inside}'''")
        elif kind == 4:
            self.put("[")
            count = self._draw(st.integers(0, 3))
            for place in range(count):
                self.put(self._draw(st.sampled_from(["", " ", "\n", " # ,]\n\n"])))
                self.mark((*path, place))
                self.value((*path, place), depth - 1)
                self.put(self._draw(st.sampled_from(["", "\n", "#]\n"])))
                if place < count - 1 or self._draw(st.booleans()):
                    self.put(",")
            self.put(self._draw(st.sampled_from(["", "\n", "#'\n"])))
            self.put("]")
        else:
            self.put("{")
            count = self._draw(st.integers(0, 2))
            for place in range(count):
                self.blank()
                self.pair(path, depth - 1)
                self.blank()
                if place < count - 1:
                    self.put(",")
            self.put("}")

    def pairs(self, table: Path) -> None:
        for _ in range(self._draw(st.integers(0, 3))):
            self.blank()
            self.pair(table, 2)
            self.end()


def basic(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"').replace("a", "\\u0061") + '"'


@st.composite
def documents(draw: Callable[[st.SearchStrategy[Any]], Any]) -> tuple[str, dict[Path, int]]:
    writer = Writer(draw)
    writer.end()
    writer.pairs(())
    for _ in range(draw(st.integers(0, 3))):
        name = writer.name(())
        is_array = draw(st.booleans())
        for place in range(draw(st.integers(1, 3)) if is_array else 1):
            path: Path = (name, place) if is_array else (name,)
            writer.blank()
            writer.mark(path)
            if is_array and not place:
                writer.mark((name,))
            writer.put("[[" if is_array else "[")
            writer.key(name)
            writer.put("]]" if is_array else "]")
            writer.end()
            writer.pairs(path)
            if draw(st.booleans()):
                inner = writer.name(path)
                writer.mark((*path, inner))
                writer.put("[")
                writer.key(name)
                writer.put(" . ")
                writer.key(inner)
                writer.put(" ]")
                writer.end()
                writer.pairs((*path, inner))
    return writer.text, writer.lines


@given(documents())
@settings(deadline=None)
def test_the_line_found_is_the_line_where_it_was_written(document: tuple[str, dict[Path, int]]) -> None:
    text, lines = document
    parsed = toml.parse(text, "f")
    assert parsed.value == tomllib.loads(text)
    assert {path: parsed.line(*path) for path in lines} == lines
    assert set(parsed._lines) == set(lines)  # and nothing is found that is not there


# What is not TOML


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "a = 1\nb = x\n",
            'f.toml:2: not valid TOML: invalid value at column 5; put text in quotes: key = "value"',
        ),
        (
            'a = "x\nb = 1\n',
            "f.toml:1: not valid TOML: illegal character '\\n' at column 7; "
            "close the string on the line where it starts",
        ),
        ("\na = [1,\n2\n\n", "f.toml:3: not valid TOML: unclosed array; close the bracket"),
        (
            "[a]\n\n[a]\n",
            "f.toml:3: not valid TOML: cannot declare ('a',) twice at column 3; "
            "write every key and every table only once",
        ),
        ("a = '''", "f.toml:1: not valid TOML: expected \"'''\"; close the string"),
        ("a = 1979-00-01T00:00:00\n", None),
        ("a = " + "1" * 5000, "f.toml: not valid TOML: an integer has too many digits; write fewer digits"),
        ("a = " + "[" * 20_000, "f.toml: not valid TOML: nested too deeply; use fewer levels"),
    ],
    ids=["value", "open string", "open array", "twice", "open literal", "date", "digits", "depth"],
)
def test_what_is_not_toml_is_told_with_its_line_and_a_remedy(text: str, said: str | None) -> None:
    found = mistakes(text)
    assert len(found) == 1
    assert found[0] == said or said is None


def test_depth_that_tomllib_takes_is_taken() -> None:
    text = "a = " + "[" * 200 + "]" * 200
    assert toml.parse(text, "f").line("a", *[0] * 150) == 1


@given(st.text(st.sampled_from("a=[]{}'\"\\\n.,#1 -")))
@settings(max_examples=500)
def test_any_text_is_read_or_refused_with_a_line(text: str) -> None:
    try:
        document = toml.parse(text, "f")
    except FileInvalid as error:
        [mistake] = error.mistakes
        assert 1 <= mistake.line <= text.count("\n") + 1
    else:
        assert document.value == tomllib.loads(text)
        assert all(1 <= document.line(key) <= text.count("\n") + 1 for key in document.value)


# Mistakes


def test_all_mistakes_are_in_one_error_in_the_order_of_the_file() -> None:
    found = [Mistake("f", 7, "b", "c"), Mistake("f", None, "x", "y"), Mistake("f", 2, "d", "e")]
    with pytest.raises(SettingInvalid) as raised:
        refuse(found)
    assert isinstance(raised.value, FileInvalid)
    assert raised.value.mistakes == (found[1], found[2], found[0])
    assert str(raised.value) == "f: x; y\nf:2: d; e\nf:7: b; c"


def test_no_mistake_is_no_error() -> None:
    refuse([])


def table(text: str) -> toml.Table:
    return toml.Table(toml.parse(text, "f"))


def told(root: toml.Table) -> list[str]:
    return [str(mistake) for mistake in root.mistakes]


def test_values_come_out_with_their_types() -> None:
    root = table(
        't = "x"\nf = false\ni = 3\nn = 2.5\nl = ["a"]\nm = {A = "b"}\n[s]\nx = "y"\n[[r]]\nz = 1\n[[r]]\n'
    )
    assert (root.text("t"), root.flag("f"), root.number("i"), root.number("n")) == ("x", False, 3.0, 2.5)
    assert (root.texts("l"), root.text_map("m")) == (("a",), {"A": "b"})
    inner = root.table("s")
    assert inner is not None
    assert inner.text("x") == "y"
    assert [item.number("z") for item in root.tables("r")] == [1.0, None]
    assert [item.line() for item in root.tables("r")] == [9, 11]
    assert root.mistakes == []


def test_absent_is_none_and_no_mistake() -> None:
    root = table("")
    got = (
        root.text("a"),
        root.flag("a"),
        root.number("a"),
        root.texts("a"),
        root.text_map("a"),
        root.table("a"),
    )
    assert (got, root.tables("a"), "a" in root, root.mistakes) == ((None,) * 6, [], False, [])


def test_wrong_types_are_told_without_the_value() -> None:
    secret = "hunter2"
    root = table(
        f'a = "{secret}"\nb = 1\nc = true\nd = ["x",\n1979-05-27]\n[e]\nx = "y"\nz = ["{secret}"]\n[f]\n'
    )
    assert root.flag("a") is None
    assert root.text("b") is None
    assert root.number("c") is None
    assert root.texts("d") is None
    assert root.text_map("e") is None
    assert root.tables("f") == []
    assert root.table("a") is None
    assert told(root) == [
        "f:1: `a` must be a boolean, not a string; write a = true or a = false",
        'f:2: `b` must be a string, not an integer; write b = "text"',
        "f:3: `c` must be a number, not a boolean; write c = 10 or c = 2.5",
        'f:5: `d` must contain only strings, not a date or time; write d = ["text", "text"]',
        "f:8: `e.z` must be a string, not an array; put its value in quotes",
        "f:9: `f` must be an array, not a table; write each entry as a table under its own line [[f]]",
        "f:1: `a` must be a table, not a string; write a table: a = { … }",
    ]
    assert secret not in "".join(told(root))


def test_an_element_that_is_no_table_is_told_and_the_others_are_read() -> None:
    root = table('r = [{ x = "1" },\n"no",\n{ x = "3" }]\n')
    assert [item.text("x") for item in root.tables("r")] == ["1", "3"]
    assert [item.line("x") for item in root.tables("r")] == [1, 3]
    assert told(root)[0].startswith("f:2: `r` must contain only tables, not a string")


def test_a_number_beyond_floats_is_infinite() -> None:
    assert table("a = 1" + "0" * 400).number("a") == float("inf")


def test_unknown_fields_are_told_with_what_may_be_meant() -> None:
    root = table('urll = 1\n"zz\\u001b" = 1\nid = "x"\n')
    root.only("id", "url")
    assert told(root) == [
        "f:1: unknown field `urll`; did you mean `url`?",
        "f:2: unknown field `zz\\x1b`; write one of `id`, `url`",
    ]


@pytest.mark.parametrize("text", ["a{} = 1", "[a{}]", "[[a{}]]", "x = {{ a{} = 1 }}", "'='{} = 1"])
@pytest.mark.parametrize("part", [".a", ' . "=.#"', "\t.\t'b'"])
def test_a_key_has_so_many_parts(text: str, part: str) -> None:
    # Their number counts squared: a file of 1 MiB that is one key takes hours.
    text = f"z = 1.5\n{text}"  # which `plaintoml` leaves alone
    most = text.format(part * (toml.MAX_PARTS - 1))
    assert toml.values(most) == tomllib.loads(most)
    more = text.format(part * toml.MAX_PARTS)
    with pytest.raises(ValueError, match=r"^\d$"):
        toml.values(more)
    with pytest.raises(FileInvalid, match=f"f:2: a key with more than {toml.MAX_PARTS} parts; use fewer"):
        toml.parse(more, "f")


@pytest.mark.parametrize("value", ['"' + ". " * 100 + '"', str(["1.2.3.4"] * 100), "'" + "." * 100 + "'"])
def test_dots_in_values_are_no_parts_of_a_key(value: str) -> None:
    text = f"a = 1.5\nb = {value}\n"
    assert toml.values(text) == tomllib.loads(text)
