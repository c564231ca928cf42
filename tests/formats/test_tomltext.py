"""Values written as TOML: what was written is what is read, in the layout that people know."""

from __future__ import annotations

import math
import tomllib
from datetime import UTC, date, datetime, time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from outfitter.formats.tomltext import write

SCALARS = st.one_of(
    st.text(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(allow_nan=False),
    st.booleans(),
    st.dates(),
    st.times(),
    st.datetimes(),
    st.datetimes(timezones=st.just(UTC)),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
)


@given(st.dictionaries(st.text(), VALUES, max_size=5))
def test_what_is_written_is_read_again(table: dict[str, Any]) -> None:
    assert tomllib.loads(write(table)) == table


def test_layout() -> None:
    table = {
        "text": "a",
        "both": 'it\'s "q" x',
        "lines": "one\ntwo\n",
        "back": "a\\b",
        "control": "a\x01\tb",
        "odd": "nl\n'''\"\"\"",
        "yes": True,
        "big": 1e300,
        "small": 1e-7,
        "nan": math.nan,
        "when": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "part": time(7, 32, 0, 500_000),
        "day": date(2026, 1, 2),
        "list": [1, [2], {"a": {}}],
        "a key": {"only": {"deep": {"x": 1}}},
        "rows": [{"n": 1}, {"n": 2, "sub": {"k": 1}}],
        "none": {},
    }
    assert write(table) == (
        'text = "a"\n'
        'both = """it\'s "q" x"""\n'
        'lines = """\none\ntwo\n"""\n'
        "back = 'a\\b'\n"
        'control = "a\\u0001\\tb"\n'
        'odd = """\nnl\n\'\'\'""\\""""\n'
        "yes = true\n"
        f"big = 1{'0' * 300}.0\n"
        "small = 0.0000001\n"
        "nan = nan\n"
        "when = 2026-01-02T03:04:05Z\n"
        "part = 07:32:00.5\n"
        "day = 2026-01-02\n"
        "list = [1, [2], { a = {} }]\n"
        "\n"
        '["a key".only.deep]\n'
        "x = 1\n"
        "\n"
        "[[rows]]\n"
        "n = 1\n"
        "\n"
        "[[rows]]\n"
        "n = 2\n"
        "\n"
        "[rows.sub]\n"
        "k = 1\n"
        "\n"
        "[none]\n"
    )
    assert write({}) == ""
