"""Variables and policies that meet each other: few names in many casings, patterns over the same letters."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from .oracle import CORE, NEVER, OWN_SWITCH

_KNOWN = [
    *CORE,
    *NEVER,
    OWN_SWITCH,
    "API_KEY",
    "MY_SECRET",
    "Token",
    "FOO",
    "foo",
    "Foo_Bar",
    "\u0131",
    "\u212aEY",
    "",
    "A=B",
]

names = st.sampled_from(_KNOWN).flatmap(
    lambda name: st.sampled_from([name, name.lower(), name.title(), f"{name}X"])
) | st.text(alphabet="AaFOo_", max_size=4)
variables = st.dictionaries(names, st.sampled_from(["1", "2", ""]), max_size=8)
patterns = st.sampled_from(
    ["*", "F*", "?OO", "*o*", "PATH", "path", "", "*KEY*", "[F]OO", "OPENAI*", "*TOKEN*", "S?ELL", "*_*"]
) | st.text(alphabet="Aa*?_", max_size=4)
policies: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "inherit": st.sampled_from(["all", "core", "none"]),
        "ignore_default_excludes": st.booleans(),
        "exclude": st.lists(patterns, max_size=2).map(tuple),
        "set": variables.map(lambda pairs: tuple(pairs.items())),
        "include_only": st.lists(patterns, max_size=2).map(tuple),
    }
)
