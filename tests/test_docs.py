"""The pages keep up with the code: links lead somewhere; flags, slugs and limits are all there."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import outfitter
from outfitter import errors, sync
from outfitter.cli.commands import cli
from outfitter.env.names import HARMLESS
from outfitter.protocol.upgrade import Admitted
from outfitter.server import limits
from outfitter.server.jwt import SignedTokens

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, made as GitHub makes them."""
    titles = _HEADING.findall(page.read_text())
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def dead_links(page: Path) -> Iterator[str]:
    for link in _LINK.findall(page.read_text()):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert list(dead_links(page)) == []


def test_every_page_is_in_the_index() -> None:
    linked = {(DOCS / link).resolve() for link in _LINK.findall((DOCS / "README.md").read_text())}
    assert {page for page in DOCS.rglob("*.md") if page != DOCS / "README.md"} <= linked


def test_the_reference_has_every_public_name() -> None:
    for page, module, elsewhere in (
        ("python.md", outfitter, {"VERSION", "sync"}),
        ("python-sync.md", sync, set[str]()),
    ):
        text = (DOCS / "reference" / page).read_text()
        listed = re.findall(rf"^\.\. auto\w+:: {module.__name__}\.(\w+)$", text, re.MULTILINE)
        assert sorted(listed) == sorted(set(module.__all__) - elsewhere)


def commands(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command with its name as it is typed, those of subgroups too."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield f"{before}{name}", command


COMMANDS = dict(commands(cli))


def typed(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Each `outfitter` command line of a page: its command as the reference names it, and its flags."""
    blocks = re.findall(r"^```\w*\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    text = "".join(blocks).replace("\\\n", "")
    for line in re.findall(r"^\$ (?:\S+/)?outfitter (.+)$", text, re.MULTILINE):
        words = re.split(r"\s+", line.partition(" -- ")[0].partition("  #")[0])
        name = next((n for n in (" ".join(words[:2]), words[0]) if n in COMMANDS), words[0])
        yield name, [word.partition("=")[0] for word in words if re.fullmatch(r"--[a-z][\w-]*(=.*)?", word)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_command_lines_have_flags_that_exist(page: Path) -> None:
    every = {"--help", "--version"}
    for name, flags in typed(page):
        if name.startswith("-"):
            continue
        options = {
            option for param in COMMANDS[name].params for option in (*param.opts, *param.secondary_opts)
        }
        assert (name, set(flags) - options - every) == (name, set())


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_reference_has_every_flag_and_no_other(name: str) -> None:
    _, _, section = (DOCS / "reference" / "cli.md").read_text().partition(f"\n## `outfitter {name}`\n")
    section = section.partition("\n## ")[0]
    wanted = {
        option
        for param in COMMANDS[name].params
        if isinstance(param, click.Option)
        for option in param.opts
        if option.startswith("--")  # a short form is told in the row of the long one
    }
    rows = re.findall(r"^\| `(--[\w-]+)", section, re.MULTILINE)
    assert sorted(rows) == sorted(wanted)


def test_the_reference_has_every_slug() -> None:
    text = (DOCS / "reference" / "errors.md").read_text()
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    slugs = {kind.slug for kind in kinds if issubclass(kind, errors.OutfitterError)}
    assert sorted(slug for slug in slugs if f"`{slug}`" not in text) == []


def test_the_reference_has_every_limit_of_the_server() -> None:
    text = (DOCS / "reference" / "limits.md").read_text()
    names = [name for name in vars(limits) if name.isupper()]
    assert [name for name in names if f"`{name}`" not in text] == []


def test_the_token_that_the_guide_makes_is_accepted(tmp_path: Path) -> None:
    _, _, rest = (DOCS / "howto" / "run-a-server.md").read_text().partition("A token for an hour")
    script = rest.partition("```python\n")[2].partition("```")[0]
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_text("a secret that is long enough for HS256\n")
    made = subprocess.run([sys.executable, "-c", script, secret], capture_output=True, text=True, check=True)
    check = SignedTokens(str(secret), None, issuer="platform", audience="build-1", now=time.time)
    assert isinstance(check(made.stdout.strip()), Admitted)


RECORDINGS = sorted((DOCS / "images").glob("*.cast"))


@pytest.mark.parametrize("name", [path.stem for path in RECORDINGS])
def test_a_recording_shows_what_the_commands_print(name: str) -> None:
    check = [sys.executable, ROOT / "scripts" / "terminal-svg", "--check", name]
    done = subprocess.run(check, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_readme_shows_every_recording() -> None:
    shown = re.findall(r"!\[[^]]+\]\(docs/images/(\w+)\.svg\)", (ROOT / "README.md").read_text())
    assert sorted(shown) == [path.stem for path in RECORDINGS]


def test_a_recording_has_no_path_of_the_machine_that_made_it() -> None:
    texts = [path.read_text() for path in (DOCS / "images").iterdir()]
    assert [text for text in texts if "/tmp" in text or str(ROOT) in text] == []


def test_harmless_names_are_all_there_with_their_reasons() -> None:
    text = (DOCS / "reference/providers.md").read_text()
    section = text.partition("### Harmless names\n")[2].partition("\n## ")[0]
    assert dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE)) == HARMLESS
