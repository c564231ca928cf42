"""A page to send to somebody: nothing on it says whose machine it is about."""

from __future__ import annotations

from typing import Any

import pytest

from outfitter.web.anonymous import anonymous
from outfitter.web.page import render

from .samples import told


@pytest.mark.parametrize("show", ["names", "values"])
def test_host_user_and_pid_are_nowhere_on_the_page(show: str) -> None:
    assert "engine.example" in render(told(show)) and "4711" in render(told(show))
    page = render(anonymous(told(show)))
    for word in ("engine.example", "4711", "/home/ada", ">ada<"):
        assert word not in page
    assert "~/engine/.venv/bin" in page
    assert "2025-10-09" in page  # when it was


def test_the_rest_stays_as_it_is() -> None:
    before, after = told("values"), anonymous(told("values"))
    assert after.keys() == before.keys()
    assert list(after["variables"]) == list(before["variables"])
    assert after["base"] == {"kind": "daemon", "startedAtMs": 1_760_000_000_000, "variables": 16}
    assert after["variables"]["LANG"]["value"] == before["variables"]["LANG"]["value"]
    assert "value" not in after["variables"]["USER"]
    assert before == told("values")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("/home/ada", "~"),
        ("/home/ada/x:/home/ada/y", "~/x:~/y"),
        ("direnv:/home/ada/.envrc(applied, 3)", "direnv:~/.envrc(applied, 3)"),
        ("/home/adam/x", "/home/adam/x"),
        ("/srv/people/a.l/x", "~/x"),
        ("/srv/people/a-l/x", "/srv/people/a-l/x"),
        ("/root/x", "/root/x"),
    ],
)
def test_a_home_is_replaced_where_it_is_one(text: str, wanted: str) -> None:
    told: dict[str, Any] = {"base": {"user": "ada"}, "summary": text, "programs": {"x": {"path": text}}}
    said = anonymous(told, ["/srv/people/a.l/", "/", "/root", ""])
    assert (said["summary"], said["programs"]["x"]["path"]) == (wanted, wanted)


def test_an_object_without_anything_is_no_mistake() -> None:
    assert anonymous({}) == {"base": {}, "variables": {}}
