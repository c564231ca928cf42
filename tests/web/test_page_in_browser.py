"""The page in a real browser: what a reader sees, types and clicks, with and without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outfitter.web.page import render
from tests.support.browser import Browser, browsing

from .samples import told
from .test_page import HOSTILE, hostile

# What is on the screen, by its name.
SEEN = (
    "[...document.querySelectorAll('.var')].filter((row) => row.checkVisibility())"
    ".map((row) => row.querySelector('.name').firstElementChild.textContent)"
)
COUNT = "document.getElementById('count').textContent"
CHANGED = 18  # of 27 variables: those that some layer has set, removed or wanted otherwise
BACKGROUND = "getComputedStyle(document.body).backgroundColor"
# The lowest contrast between a text and what is behind it, as WCAG counts it, and whose it is.
CONTRAST = """(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const mixed = (colours) => {
    for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
    return canvas.getImageData(0, 0, 1, 1).data;
  };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => v / 255)
      .map((v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * x + .7152 * y + .0722 * z;
  };
  let worst = [99, ''];
  for (const one of document.querySelectorAll('body *')) {
    const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !one.checkVisibility({opacityProperty: true})) continue;
    if (one.closest('.spoken, .skip, script, label:has(:disabled)')) continue;
    const grounds = [];
    for (let at = one; at; at = at.parentElement) grounds.unshift(getComputedStyle(at).backgroundColor);
    const behind = light(mixed(grounds)), text = light(mixed([...grounds, getComputedStyle(one).color]));
    const ratio = (Math.max(behind, text) + .05) / (Math.min(behind, text) + .05);
    if (ratio < worst[0]) worst = [ratio, one.outerHTML];
  }
  return worst;
})()"""


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(tmp_path_factory.mktemp("browser") / "profile") as browser:
        yield browser


@pytest.fixture
def browser(started: Browser) -> Iterator[Browser]:
    started.console.clear()
    started.requests.clear()
    started.media({"prefers-color-scheme": "light"})
    started.resize(1280)
    yield started
    assert started.console == []
    assert all(address.startswith("file:") for address in started.requests)
    assert len(started.requests) == 1


def show(browser: Browser, folder: Path, page: dict[str, Any]) -> None:
    path = folder / "page.html"
    path.write_text(render(page), "utf-8")
    browser.open(path)


def test_typing_in_the_search_box_narrows_the_rows(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, told())
    assert len(browser.look(SEEN)) == CHANGED
    assert browser.look(COUNT) == "21 given to a command, 6 not"
    browser.click("#search")
    browser.type("engine_m")
    assert browser.look(SEEN) == ["ENGINE_MODE"]
    assert browser.look(COUNT) == "1 of 27"
    browser.type(" nonsense")
    assert browser.look(SEEN) == []
    assert browser.look("document.getElementById('none').checkVisibility()")


def test_what_is_as_the_executor_has_it_is_folded_up_until_somebody_looks(
    browser: Browser, tmp_path: Path
) -> None:
    show(browser, tmp_path, told())
    folded = "document.getElementById('unchanged').open"
    assert "USER" not in browser.look(SEEN)
    assert browser.look("document.querySelector('#unchanged > summary').innerText") == (
        "9 variables as the executor has them"
    )
    browser.click("#search")
    browser.type("user")  # as a name, and as a layer
    assert {"USER", "EDITOR"} <= set(browser.look(SEEN))
    browser.press("Escape", 27)
    assert browser.look(folded) is False
    browser.click("#unchanged > summary")
    assert len(browser.look(SEEN)) == 27
    browser.click("#search")
    browser.type("engine_mode")
    assert not browser.look("document.querySelector('#unchanged').checkVisibility()")  # nothing in it fits
    browser.press("Escape", 27)
    assert (browser.look(folded), len(browser.look(SEEN))) == (True, 27)


def test_problems_and_changes_are_on_the_first_screen(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, told())
    tops = browser.look(
        "[...document.querySelectorAll('main > section')]"
        ".map((one) => [one.id, one.getBoundingClientRect().top])"
    )
    names = [name for name, _ in tops]
    assert names == ["problems", "variables", "path", "layers", "programs", "login-shell", "files"]
    assert dict(tops)["variables"] < 900


def test_a_file_name_finds_what_the_file_touches(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, told())
    browser.click("#search")
    browser.type("outfitter.toml")
    found = ["AWS_PROFILE", "ENGINE_MODE", "LD_PRELOAD", "PATH", "PYTHONUNBUFFERED", "VIRTUAL_ENV"]
    assert browser.look(SEEN) == found


def test_chips_show_only_their_kind_and_two_show_what_is_both(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, told())
    browser.click("label:has(#only-secret)")
    assert browser.look(SEEN) == ["AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "DATABASE_URL"]
    browser.click("label:has(#only-removed)")
    assert browser.look(SEEN) == ["AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN"]
    assert browser.look(COUNT) == "2 of 27"


def test_a_click_on_a_layer_shows_what_it_touched(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, told())
    browser.click(".layers .L5 a")
    assert browser.look(SEEN) == ["ENGINE_SESSION", "SHLVL"]
    browser.click(".layers .L5 a")
    assert len(browser.look(SEEN)) == CHANGED


def test_a_click_on_a_row_opens_its_history_with_file_and_line(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, told())
    story = ".var[data-find^='engine_mode'] .story"
    assert not browser.look(f'document.querySelector("{story}").checkVisibility()')
    browser.click(".var[data-find^='engine_mode'] summary")
    assert browser.look(f'document.querySelector("{story}").checkVisibility()')
    text = browser.look(f'document.querySelector("{story}").innerText')
    assert "/home/ada/engine/outfitter.toml:4" in text
    assert "in place of project" in text


def test_the_keyboard_is_enough(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, told())
    browser.press("/", 191)
    browser.type("ci")
    browser.press("ArrowDown", 40)
    browser.press("Enter", 13, "\r")
    opened = "[...document.querySelectorAll('.var details[open] .name')].map((name) => name.innerText)"
    assert browser.look(opened) == browser.look(SEEN)[:1] == ["CI"]
    browser.press("ArrowUp", 38)
    browser.press("Escape", 27)
    assert len(browser.look(SEEN)) == CHANGED


def test_colours_follow_the_system_and_the_switch_wins(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, told())
    light = browser.look(BACKGROUND)
    browser.media({"prefers-color-scheme": "dark"})
    dark = browser.look(BACKGROUND)
    assert light != dark
    browser.click("label:has([value='light'])")
    assert browser.look(BACKGROUND) == light
    browser.click("label:has([value='auto'])")
    assert browser.look(BACKGROUND) == dark


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_stands_out_from_its_ground(browser: Browser, tmp_path: Path, theme: str) -> None:
    browser.media({"prefers-color-scheme": theme})
    show(browser, tmp_path, told("values"))
    browser.click("#open")
    ratio, whose = browser.look(CONTRAST)
    assert ratio >= 4.5, whose


@pytest.mark.parametrize("width", [400, 700, 1280])
def test_nothing_is_wider_than_the_screen(browser: Browser, tmp_path: Path, width: int) -> None:
    browser.resize(width)
    show(browser, tmp_path, told("values"))
    browser.click("#open")
    assert browser.look("document.documentElement.scrollWidth") <= width


def test_without_scripts_everything_can_be_read(browser: Browser, tmp_path: Path) -> None:
    browser.scripting(on=False)
    try:
        show(browser, tmp_path, told())
        assert len(browser.look(SEEN)) == CHANGED
        browser.click("#unchanged > summary")
        assert len(browser.look(SEEN)) == 27
        browser.click("#unchanged > summary")
        assert not browser.look("document.getElementById('search').checkVisibility()")
        browser.click(".var[data-find^='engine_mode'] summary")
        assert browser.look("document.querySelector('details[open] .story').checkVisibility()")
        browser.click("label:has(#only-list)")
        assert browser.look(SEEN) == ["MANPATH", "PATH"]
    finally:
        browser.scripting(on=True)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_do_no_harm(browser: Browser, tmp_path: Path, text: str) -> None:
    show(browser, tmp_path, hostile(f"_{text}", f"x{text}", f"/{text}"))
    browser.click("#open")
    assert browser.look("typeof window.harm") == "undefined"
    assert browser.look("document.scripts.length + document.images.length") == 1
    assert browser.look("document.querySelectorAll('.var').length") == 6
