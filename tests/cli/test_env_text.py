"""The words for an explained environment: whatever is in it, a terminal stays as it is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from outfitter.cli.colour import Paint
from outfitter.cli.env.output import printable
from outfitter.cli.env.text import differences, overview, program, variable
from outfitter.env.diff import diff, encode
from outfitter.env.explain import View, explain, shown
from outfitter.env.layer import BASE, PROVIDER, REQUESTED, Layer, Operation
from outfitter.env.origin import EXECUTOR, REQUEST, Origin
from outfitter.env.policy import Policy
from outfitter.env.redact import Secrets
from outfitter.env.resolve import resolve

PLAIN = Paint(False)
TEXTS = st.text(st.characters(blacklist_characters="\0"), max_size=12)
VALUES = st.dictionaries(TEXTS.filter(lambda text: bool(text) and "=" not in text), TEXTS, max_size=6)


@given(VALUES, VALUES, VALUES, TEXTS, TEXTS)
def test_nothing_but_printable_characters_is_printed(
    base: dict[str, str], project: dict[str, str], request: dict[str, str], file: str, path: str
) -> None:
    resolved = resolve(
        [
            Layer(BASE, "base", EXECUTOR, {**base, "PATH": f"{path}:/bin:/bin"}, producer=file),
            Layer(
                PROVIDER,
                file,
                Origin("project", file, file, 1),
                project,
                operations=[Operation("PATH", "prepend", (path,))],
                note=file,
            ),
        ],
        [Policy("all", True, ("A*",), tuple(project.items()), ())],
        Layer(REQUESTED, "request", REQUEST, request),
    )
    told = explain(resolved, View(Secrets(), "values", workspace="/bin"), {}, "", "")
    told["summary"] = told["cwd"] = shown(file)
    told["programs"] = {shown(path): {"path": shown(path), "layer": "L0", "id": shown(file)}}
    variables = told["variables"]
    assert isinstance(variables, dict)
    text = [*overview(told, PLAIN), *overview(told, PLAIN, values=True), *program(shown(path), told, PLAIN)]
    for name, entry in variables.items():
        text += variable(name, entry, PLAIN)
    found = diff(base, request, list_names={"PATH"}, secrets=Secrets())
    text += differences([encode(one, "values") for one in found], PLAIN)
    assert [line for line in text if not line.isprintable()] == []


@given(TEXTS)
def test_text_that_is_printable_stays_and_other_text_stays_apart(text: str) -> None:
    assert printable(text).isprintable()
    if text.isprintable():
        assert printable(text) == text


def test_what_was_not_there_is_not_called_taken_away() -> None:
    base = Layer(BASE, "base", EXECUTOR, {"PATH": "/bin", "A": "1"})
    provider = Layer(PROVIDER, "python", Origin("python", "venv"), unset=("A", "PYTHONHOME"))
    told = explain(resolve([base, provider], []), View(Secrets(), "names"), {}, "", "")
    told["summary"] = told["cwd"] = ""
    text = list(overview(told, PLAIN))
    assert text[-3:] == ["1 variable removed", "  L3 python: removed", "    A"]


def test_colour_is_around_the_words_and_not_in_them() -> None:
    paint = Paint(True)
    assert paint("bold", "PATH") == "\x1b[1mPATH\x1b[0m"
    assert paint("bold", "") == ""
    assert PLAIN("bold", "PATH") == "PATH"
