"""Contexts of a sandbox, to our server and to the reference: what one refuses, the other refuses with the
same code and the same words; what one takes, the other takes.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import contexts, differences
from tests.support.compare import Peer
from tests.support.contexts import FOREIGN, OTHER, Json, at, entry, restricted, special
from tests.support.servers import serving
from tests.support.wire import Message

# What a server says that understands a context, and has no means to enforce it: ours without bubblewrap, and
# the reference with its home in a temporary folder.
UNENFORCED = (
    "sandbox intent cannot be enforced on this executor",
    "this exec-server cannot confine file operations",
    "fs sandbox helper failed",
)
METHODS = ("process/start", "fs/readFile", "fs/remove")
numbers = itertools.count(1)


class Both:
    """Our server and the reference."""

    def __init__(self, reference: Peer, ours: Peer, file: Path) -> None:
        self.reference = reference
        self.ours = ours
        self.file = file

    def params(self, method: str, context: Json, **more: Json) -> Message:
        if method == "process/start":
            start = {"argv": ["/bin/true"], "cwd": self.file.parent.as_uri(), "env": {}, "tty": False}
            return {"processId": f"p{next(numbers)}", **start, "sandbox": context, **more}
        extra = {"recursive": False, "force": True} if method == "fs/remove" else {}
        path = self.file if method == "fs/readFile" else self.file.with_name("missing")
        return {"path": path.as_uri(), **extra, "sandbox": context, **more}

    def outcomes(self, method: str, context: Json, **more: Json) -> tuple[Any, Any]:
        params = self.params(method, context, **more)
        return outcome(self.reference.answer(method, params)), outcome(self.ours.answer(method, params))


def outcome(answer: Message) -> Any:
    """Code and text of a refusal; "taken" for a context that was understood."""
    if "error" not in answer:
        return "taken"
    error = differences.without_error_data(answer["error"])
    if error["message"].startswith(UNENFORCED):
        return "taken"
    # What a file system says, it says under a context that was understood.
    return "taken" if "(os error" in error["message"] else (error["code"], error["message"])


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    scratch = tmp_path_factory.mktemp("contexts")
    file = scratch / "file"
    file.write_text("content")
    home = scratch / "home"
    with serving("codex", home) as reference, serving("outfitter", home) as ours:
        pair = Both(Peer(reference.url), Peer(ours.url), file)
        yield pair
        pair.reference.close()
        pair.ours.close()


@pytest.mark.parametrize("method", METHODS)
def test_every_context_is_answered_alike(both: Both, method: str) -> None:
    different = []
    for name, context in contexts.contexts().items():
        theirs, ours = both.outcomes(method, context)
        if theirs != ours and not is_sequence(ours) and not stricter(method, context, theirs):
            different.append(f"{name}\n  reference {theirs}\n  ours      {ours}")
    assert not different, f"{len(different)} differences\n" + "\n".join(different[:40])


def is_sequence(ours: Any) -> bool:
    """Whether ours refuses a list in place of an object."""
    words = ("invalid type: sequence, expected struct", "invalid type: sequence, expected internally tagged")
    return ours != "taken" and str(ours[1]).startswith(words)


def stricter(method: str, context: Json, theirs: Any) -> bool:
    """Whether ours looks where the reference does not: it reads everywhere without a look at the working
    directory and the roots, which are of another system here."""
    reads = method == "fs/readFile" and theirs == "taken" and isinstance(context, dict)
    return (
        reads
        and contexts.ROOT in [one["path"] for one in entries(context)]
        and FOREIGN in json.dumps(context)
    )


def entries(context: Json) -> list[Json]:
    files = context["permissions"].get("file_system", {})
    return files.get("entries", []) if isinstance(files, dict) else []


@pytest.mark.parametrize("name", contexts.SEQUENCES)
def test_a_list_in_place_of_an_object_is_refused(both: Both, name: str) -> None:
    for method in METHODS:
        _, ours = both.outcomes(method, contexts.SEQUENCES[name])
        code, text = ours
        assert (code, text.startswith(("invalid type: sequence", "missing field"))) == (-32602, True), text


BAD, GOOD = restricted(at(FOREIGN)), restricted(entry(contexts.ROOT))
BAD_CWD = {**GOOD, "cwd": FOREIGN}
STARTS: dict[str, tuple[Json, Message]] = {
    "no words, a bad entry": (BAD, {"argv": []}),
    "no words, a bad working directory": (BAD_CWD, {"argv": []}),
    "a foreign working directory, a bad entry": (BAD, {"cwd": OTHER}),
    "a foreign working directory, and another": (BAD_CWD, {"cwd": OTHER}),
    "no words": (GOOD, {"argv": []}),
    "no words in a missing folder": (GOOD, {"argv": [], "cwd": "file:///nonexistent"}),
    "a foreign working directory": (GOOD, {"cwd": OTHER}),
    "a foreign working directory, and no words": (GOOD, {"cwd": OTHER, "argv": []}),
}


@pytest.mark.parametrize("name", STARTS)
def test_a_context_is_checked_before_the_command(both: Both, name: str) -> None:
    context, members = STARTS[name]
    theirs, ours = both.outcomes("process/start", context, **members)
    assert ours == theirs


DYNAMIC = restricted(special("project_roots", "write"))
FILES: dict[str, Json] = {"bad entry": BAD, "no working directory": DYNAMIC}


@pytest.mark.parametrize("method", ["fs/readFile", "fs/getMetadata", "fs/canonicalize", "fs/readDirectory"])
@pytest.mark.parametrize("name", FILES)
def test_a_context_is_checked_before_the_path(both: Both, name: str, method: str) -> None:
    theirs, ours = both.outcomes(method, FILES[name], path=OTHER)
    assert ours == theirs
