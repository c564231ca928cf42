"""Variables and policies that meet each other: few names in many casings, patterns over the same letters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from .model import LISTS, Case, Overlay
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

# Layers: names of every class, values that are lists and values that are not.

layer_names = st.sampled_from(
    [
        "A",
        "FOO",
        "foo",
        "TERM",
        "PATH",
        "PATH",
        "MANPATH",
        "CPATH",
        "PYTHONPATH",
        "MY_DIRS",
        "HOME",
        "PWD",
        "SHLVL",
        "BASH_ENV",
        "LD_PRELOAD",
        "DYLD_X",
        "BASH_FUNC_f%%",
        "OUTFITTER_X",
        "OUTFITTER_HOME",
        "API_KEY",
        "MY_SECRET",
        NEVER[0],
        NEVER[1].lower(),
        OWN_SWITCH,
        "A.B",
        "1A",
        "A=B",
        "",
        "\u00e9",
        "A\udcff",
    ]
)
list_names = st.sampled_from(["PATH", "PATH", "MANPATH", "CPATH", "PYTHONPATH", "MY_DIRS", "A"])
entries = st.sampled_from(
    ["/a", "/a/", "/b", "/c//", "/", "//", "", ".", "./", "..", "x", "../y", "$PATH", "~"]
)
list_values = st.lists(entries, min_size=1, max_size=5).map(":".join)
layer_values = st.sampled_from(["1", "2", "", "$A", "a\0b", "\udc80"]) | list_values
settings_of_a_layer = st.dictionaries(layer_names, layer_values, max_size=5)
operations = st.tuples(
    list_names,
    st.sampled_from(["prepend", "append", "remove", "replace"]),
    st.lists(entries | list_values, max_size=3),
)


def _numbered(overlays: list[Overlay]) -> list[Overlay]:
    """Lowest first, each with an id of its own."""
    overlays = sorted(overlays, key=lambda overlay: overlay.level)
    return [replace(overlay, id=f"{overlay.id}{place}") for place, overlay in enumerate(overlays)]


def overlays_of(levels: list[int]) -> st.SearchStrategy[Overlay]:
    return st.builds(
        Overlay,
        level=st.sampled_from(levels),
        id=st.just("layer"),
        values=settings_of_a_layer,
        unset=st.lists(layer_names, max_size=2, unique=True),
        operations=st.lists(operations, max_size=3),
        root=st.none() | st.sampled_from(["/project", "/"]),
        state=st.sampled_from(["applied", "applied", "applied", "stale", "blocked", "failed", "off"]),
    )


base_layers = st.builds(Overlay, level=st.just(0), id=st.just("base"), values=settings_of_a_layer)
requests = st.builds(
    Overlay,
    level=st.just(7),
    id=st.just("request"),
    values=settings_of_a_layer,
    unset=st.lists(layer_names, max_size=2, unique=True),
    operations=st.lists(operations, max_size=2),
    root=st.none() | st.just("/project"),
    author=st.sampled_from(["client", "user", "model"]),
)
# What the usual client sends: variables only.
plain_requests = st.builds(
    Overlay, level=st.just(7), id=st.just("request"), values=settings_of_a_layer, author=st.just("client")
)
runtimes = st.lists(
    st.builds(
        Overlay,
        level=st.just(8),
        id=st.just("runtime"),
        values=st.dictionaries(
            st.sampled_from(["PATH", "SHLVL", "SHELL", "OUTFITTER_ID"]), list_values, max_size=2
        ),
        operations=st.lists(operations, max_size=1),
        where_unset=st.booleans(),
    ),
    max_size=2,
)
layer_patterns = st.sampled_from(["A*", "*PATH", "PATH", "F?O", "*_*", "", "HOME"])
layer_policies: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "inherit": st.sampled_from(["all", "all", "core", "none"]),
        "ignore_default_excludes": st.booleans(),
        "exclude": st.lists(layer_patterns, max_size=2).map(tuple),
        "set": settings_of_a_layer.map(lambda pairs: tuple(pairs.items())),
        "include_only": st.lists(layer_patterns, max_size=2).map(tuple),
    }
)
cases = st.builds(
    Case,
    overlays=st.tuples(base_layers, st.lists(overlays_of([1, 3, 3, 4, 5, 6]), max_size=5)).map(
        lambda pair: [pair[0], *_numbered(pair[1])]
    ),
    policies=st.lists(layer_policies, max_size=2),
    request=st.none() | requests | plain_requests,
    runtime=runtimes,
    allow_from=st.lists(st.sampled_from(["L3", "L4", "L5"]), max_size=2),
    allow_code_loading=st.dictionaries(
        st.sampled_from(["layer0", "layer1", "layer2", "request"]),
        st.lists(st.sampled_from(["BASH_ENV", "PYTHONPATH", "LD_PRELOAD"]), max_size=2),
        max_size=2,
    ),
    lists=st.just([*LISTS, "MY_DIRS"]),
    tidy=st.booleans(),
)
