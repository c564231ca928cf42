"""The page as text: everything is there, and nothing of it is anything but text."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from outfitter.env.explain import shown
from outfitter.env.layer import BASE, PROVIDER, REQUESTED, Layer
from outfitter.env.origin import EXECUTOR, REQUEST, Origin
from outfitter.env.policy import Policy
from outfitter.env.redact import Secrets
from outfitter.env.resolve import resolve
from outfitter.plain import plain
from outfitter.web.page import render

from .samples import tell, told

HOSTILE = (
    "<script>window.harm = 1</script>",
    "</script><script>window.harm = 1</script>",
    '"><img src=x onerror="window.harm = 1">',
    "' onmouseover='window.harm = 1",
    "</style><style>body { display: none }</style>",
    "<!-- <![CDATA[ ]]> -->",
    "&lt;b&gt;&amp;&#60;",
    "\u202egnp.exe\u2066\x1b[31m\x07\udc80",
    "javascript:window.harm=1",
    "{{7*7}} ${7*7}",
)


class Reader(HTMLParser):
    """What a browser makes of a page: its elements with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.texts: list[str] = []
        self._in: list[str] = []
        self.styles: list[str] = []
        self.scripts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "wbr":  # where a long name may be broken depends on the name
            self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.attributes += [(tag, name, value) for name, value in attrs]
        self._in.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._in and self._in.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        inside = self._in[-1] if self._in else ""
        {"style": self.styles, "script": self.scripts}.get(inside, self.texts).append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)

    def values_of(self, attribute: str) -> list[str | None]:
        return [value for _, name, value in self.attributes if name == attribute]


def hostile(name: str, value: str, file: str) -> dict[str, Any]:
    """An environment in which somebody could choose every text."""
    origin = Origin("project", file, file, 3)
    layers = [
        Layer(BASE, "base", EXECUTOR, {"PATH": "/usr/bin", name: value, "GONE_" + name: value}),
        Layer(PROVIDER, file, origin, {"SET": value, "BASH_ENV": value}, note=value),
    ]
    request = Layer(
        REQUESTED,
        "request",
        REQUEST,
        {"ASKED": value, "PATH": f"{value.replace(':', '')}:/bin"},
        author="client",
    )
    page = tell(resolve(layers, [Policy("all", True, ("GONE_*",))], request), "secrets")
    page["cwd"] = file
    page["summary"] = value
    page["files"] = [{"path": file, "kind": value, "exists": True}]
    page["programs"] = {name: {"path": value, "realPath": file}, "other": {"path": None}}
    page["loginShell"] = {"shell": file, "state": "failed", "reason": value}
    return page


# What is on it


def test_every_part_of_the_object_is_on_the_page() -> None:
    page = Reader(render(told()))
    for wanted in (
        "/home/ada/engine",
        "engine.example",
        "4711",
        "2025-10-09 08:53:20 UTC",
        "enforce",
        "3f9c" * 16,
        "a17e" * 16,
        "session overlay",
        "hook:start",
        "blocked",
        "exit status 2",
        "131.4 ms",
        "/opt/brew/sbin",
        "an unexpanded reference to a variable",
        "/usr/bin/python3.12",
        "not found",
        "DBUS_SESSION_BUS_ADDRESS",
        "/home/ada/engine/outfitter.toml:9",
        "/home/ada/.config/outfitter/config.toml:3",
        "exclude AWS_*",
        "code-loading",
        "shells set this variable themselves",
    ):
        assert wanted in page.text


def test_values_are_on_the_page_only_when_they_are_in_the_object() -> None:
    names, values = render(told()), render(told("values"))
    assert "/run/user/1000/bus" not in names
    assert "/run/user/1000/bus" in values
    for page in (names, values):
        assert "correct-horse" not in page
        assert "ghp_0123456789abcdef" not in page


def test_the_winner_is_marked_among_the_layers_that_touched_a_variable() -> None:
    page = render(told())
    row = page.partition('data-find="engine_mode')[2].partition("</summary>")[0]
    marks = re.findall(r'<i class="mark ([^"]*)"', row)
    assert marks == ["set L3", "set won L7"]


def test_a_removed_variable_is_struck_through_and_says_by_which_rule() -> None:
    page = render(told())
    row = page.partition('data-find="aws_region')[2].partition("</summary>")[0]
    assert "<s>AWS_REGION</s>" in row
    assert ">exclude AWS_*</span>" in row


def test_variables_are_found_by_name_layer_and_file() -> None:
    found = next(
        value or ""
        for value in Reader(render(told())).values_of("data-find")
        if value and value.startswith("engine_mode")
    )
    assert "l3" in found and "project" in found and "/home/ada/engine/outfitter.toml" in found


def test_a_login_shell_that_gave_no_answer_says_why() -> None:
    failed = {"shell": "/bin/zsh", "state": "timeout", "seconds": 10.02, "reason": "it did not finish"}
    page = Reader(render(told(loginShell=failed))).text
    assert "timeout" in page and "it did not finish" in page and "10.02 s" in page


def test_programs_that_a_login_shell_finds_elsewhere_are_shown_beside() -> None:
    page = render(told())
    assert '<td class="differs"><code>/usr/bin/python</code></td>' in page
    assert '<td class="dim">the same</td>' in page


def test_what_a_login_shell_changes_is_told_by_entries_with_file_and_line() -> None:
    row = render(told()).partition('<th scope="row"><code>PATH</code></th>')[2].partition("</tr>")[0]
    assert '<s class="entry"><code>/home/ada/engine/.venv/bin</code></s>' in row
    assert '<span class="entry"><code>/usr/games</code></span>' in row
    assert "in another order" in row
    assert "/etc/profile:6" in row


def test_problems_come_first_and_say_what_a_tool_printed() -> None:
    page = told()
    [project] = [layer for layer in page["layers"] if layer["id"] == "project"]
    project["said"] = "./.envrc:2: x: command not found\n<b>welcome"
    text = render(page)
    part = text.partition('<section id="problems"')[2].partition("</section>")[0]
    places = [
        part.index(word) for word in ("L3 direnv", "L4 setup", "L3 project", "command not found", "Refused")
    ]
    assert places == sorted(places)
    assert "&lt;b&gt;welcome" in part
    assert text.index('id="problems"') < text.index('id="variables"') < text.index('id="layers"')


def test_without_problems_there_is_no_word_of_them() -> None:
    page = told(refused=[])
    page["layers"] = [layer for layer in page["layers"] if layer["state"] == "applied"]
    assert 'id="problems"' not in render(page)


def test_only_what_is_as_it_was_is_folded_up() -> None:
    rest = render(told()).partition('<details id="unchanged"')[2].partition("</section>")[0]
    found = re.findall(r'data-find="(\w+)', rest)
    assert found == [
        *("database_url", "dbus_session_bus_address", "home", "lang", "ls_colors"),
        *("shell", "term", "user", "xdg_runtime_dir"),
    ]


# What it is made of


def test_the_page_fetches_nothing_and_runs_only_its_own_script() -> None:
    text = render(told("values"))
    page = Reader(text)
    assert {tag for tag, _ in page.elements} & {"link", "img", "iframe", "object", "embed", "base"} == set()
    assert not [value for value in page.values_of("href") if not (value or "").startswith("#")]
    assert page.values_of("src") == []
    assert page.values_of("style") == []
    [policy] = [value or "" for value in page.values_of("content") if "default-src" in (value or "")]
    assert policy.startswith("default-src 'none';")
    for kind, [own] in (("style-src", page.styles), ("script-src", page.scripts)):
        digest = b64encode(sha256(own.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy


def test_headings_label_their_sections_and_ids_are_used_once() -> None:
    page = Reader(render(told()))
    ids = page.values_of("id")
    assert len(ids) == len(set(ids))
    assert set(page.values_of("aria-labelledby")) <= set(ids)
    assert [tag for tag, _ in page.elements].count("h1") == 1


# What others may have written


PLAIN = Reader(render(hostile("_name", "xvalue", "/file"))).elements


def test_hostile_texts_are_only_text() -> None:
    for text in HOSTILE:
        page = Reader(render(hostile(f"_{text}", f"x{text}", f"/{text}")))
        assert page.elements == PLAIN, text
        assert plain(shown(text)) in page.text


_TEXT = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=40) | st.sampled_from(HOSTILE)


@given(_TEXT, _TEXT, _TEXT)
def test_no_text_changes_what_the_page_is_made_of(name: str, value: str, file: str) -> None:
    assume(not Secrets().holds(f"_{name}", f"x{value}"))  # a value that is hidden is shown otherwise
    page = render(hostile(f"_{name}", f"x{value}", f"/{file}"))
    assert Reader(page).elements == PLAIN
    page.encode()


PARTS = (
    "base",
    "shell",
    "layers",
    "variables",
    "refused",
    "files",
    "programs",
    "loginShell",
    "cwd",
    "env_fp",
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(
        st.sampled_from(PARTS),
        _JSON
        | st.lists(st.fixed_dictionaries({"layer": _JSON, "state": _JSON, "cost": _JSON, "name": _JSON}))
        | st.fixed_dictionaries(
            {
                "PATH": st.fixed_dictionaries(
                    {"segments": _JSON, "dropped": _JSON, "history": _JSON, "removed": _JSON}
                )
            }
        ),
    )
)
def test_an_object_of_any_shape_makes_a_page(told: dict[str, Any]) -> None:
    page = render(told)
    page.encode()
    assert page.startswith("<!doctype html>") and page.rstrip().endswith("</html>")


def test_an_empty_object_makes_a_page() -> None:
    assert "Variables" in render({})
