"""The documentation as a site: how Sphinx reads docs/ and the docstrings. `make docs` runs it."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import outfitter

project = "Outfitter"
version = release = outfitter.VERSION
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "README"
html_theme = "furo"
html_title = f"Outfitter {version}"
html_copy_source = False  # the pages are in the repository
highlight_language = "text"
default_role = "code"  # docstrings write `name`
myst_heading_anchors = 6  # made as GitHub makes them: the same links work in both places

add_module_names = False
maximum_signature_line_length = 90  # then each argument has a line of its own
autodoc_member_order = "bysource"
autodoc_class_signature = "separated"  # nobody makes a Client by hand
autodoc_default_options = {"members": True, "inherited-members": "OSError, BaseException"}
# The async and the sync client have classes of the same names: a type in a signature may mean either.
suppress_warnings = ["ref.python"]


def setup(app: Any) -> None:
    app.connect("source-read", add_navigation)
    app.connect("autodoc-skip-member", says_nothing)
    app.connect("autodoc-process-docstring", mark_examples)
    app.connect("build-finished", add_front_page)


def add_navigation(app: Any, page: str, text: list[str]) -> None:
    """The navigation is the index, docs/README.md, section by section."""
    if page != root_doc:
        return
    _, *sections = text[0].split("\n## ")
    for section in sections:
        title = section.partition("\n")[0]
        pages = re.findall(r"^- \[[^]]+\]\(([^)]+)\.md\)", section, re.MULTILINE)
        text[0] += "\n".join(["", "```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```", ""])


def says_nothing(app: Any, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """How a class is made is left out where Python's own words are all there is: `*args`, `**kwargs`."""
    if name == "__new__":
        return True
    if name != "__init__":
        return None  # as autodoc does by itself
    kinds = [one.kind for one in inspect.signature(thing).parameters.values()][1:]
    return kinds == [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD] or None


def mark_examples(app: Any, what: str, name: str, thing: object, options: Any, lines: list[str]) -> None:
    """An indented block of a docstring is an example, and not a quotation."""
    marked: list[str] = []
    before = ""  # the last line that is not empty
    for line in lines:
        if line.startswith("    ") and not before.startswith("    "):
            marked += [".. code-block:: python", ""]
        before = line or before
        marked.append(line)
    lines[:] = marked


def add_front_page(app: Any, error: Exception | None) -> None:
    if error is None:
        page = f'<!doctype html><meta http-equiv="refresh" content="0; url={root_doc}.html">\n'
        Path(app.outdir, "index.html").write_text(page)
