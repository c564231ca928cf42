"""What every agent's hook does: read its input, ask the contract, answer, and never hold a session up."""

from __future__ import annotations

import os
import sys

from ...agents.hooks import (
    Answer,
    Difference,
    Heard,
    difference,
    hear,
    plain_line,
    remarks,
    told_withheld,
    troubles,
)
from ...env.explain import one_line
from ...env.redact import Secrets
from ...errors import OutfitterError, SettingInvalid
from ...openers import private_folder
from ..env.output import emit, say
from ..wishes import launch_kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...agents.hooks import Json
    from ...contract.contract import Asked, Contract
    from ...contract.settings import Settings

# An input is a few hundred bytes; one with a prompt in it is still a page of text.
LARGEST_INPUT = 1 << 20
# Files that an agent is asked to watch; a project has a handful.
MOST_WATCHED = 64
_REMEDY = "see `outfitter doctor`"


class HookSession:
    """What an agent asked, and what there is to answer."""

    def __init__(self, heard: Heard) -> None:
        self.heard = heard
        self.watch: list[str] = []
        self.summary = ""
        self.troubles: list[str] = []
        self.remarks: list[str] = []
        self.change = Difference({}, (), ())

    def resolve(self) -> None:
        """Asks the contract, and with it the project's providers. Raises OutfitterError."""
        from ...contract.config import project_candidates
        from ...contract.contract import Asked
        from ..env.asking import folder_of, prepared

        folder = folder_of(self.heard.cwd)
        # First of all, so that a file that has a mistake is asked about again when it has none.
        self.watch = [path for path in project_candidates(folder) if path.endswith("/outfitter.toml")]
        contract = prepared()
        asked = Asked(folder, {}, kind=launch_kind())
        settings = contract.settings(folder)
        self.watch = _files([*self.watch, *_inputs(contract, asked, settings)])
        resolved = contract.resolve(asked)
        # And what the tools have said that they read.
        self.watch = _files([*self.watch, *contract.watched(asked)])
        self.change = difference(resolved, contract.base.values, Secrets(settings.secret_names))
        self.troubles = troubles(resolved)
        self.remarks = remarks(resolved, contract.unused(asked))
        self.summary = plain_line(one_line(resolved, contract.base.kind))

    def answer(self, *more: str) -> Answer:
        """For the model the summary, then `more`; for the person what he has to do."""
        notes = (told_withheld(self.change.withheld), *self.troubles, *self.remarks)
        context = "; ".join(part for part in (self.summary, *more, *notes) if part)
        message = "; ".join([*self.troubles, *(line for line in self.remarks if "printed an error" in line)])
        return Answer(
            context, f"outfitter: {message}" if message else "", env=self.change.set, watch=self.watch
        )


def run(
    apply: Callable[[HookSession], Answer],
    write: Callable[[str, Answer], Json],
    give_up: Callable[[HookSession], None],
    *,
    strict: bool,
) -> int:
    """Answers one hook; returns the exit status: 0, unless `strict` and something is not as it should be.

    `give_up` takes back what an earlier hook has done: better the agent's own environment than a wrong one.
    """
    from json import dumps

    session = HookSession(Heard("", ""))
    try:
        session = HookSession(hear(_input()))
        session.resolve()
        answer = apply(session)
        for line in (told_withheld(session.change.withheld), *session.troubles, *session.remarks):
            if line:
                say(line)
        failed = bool(session.troubles)
    except Exception as error:  # whatever it is, the agent goes on
        answer = _failed(error, session.watch)
        failed = True
        try:
            give_up(session)
        except Exception as another:
            _failed(another, [])
    emit(dumps(write(session.heard.event, answer)))
    return int(strict and failed)


def _failed(error: Exception, watch: list[str]) -> Answer:
    if isinstance(error, OutfitterError):
        lines = str(error).splitlines() or [""]
        for line in lines:
            say(line)
        why = plain_line(lines[0])
    else:
        import traceback

        traceback.print_exc()
        why = f"internal error: {type(error).__name__}"
    text = f"the environment of the project was not applied: {why} ({_REMEDY})"
    return Answer(f"env: {text}", f"outfitter: {text}", watch=watch)


def _input() -> str:
    if sys.stdin.isatty():
        raise SettingInvalid(
            "this command reads the input of an agent's hook from stdin, which is a terminal: see --help"
        )
    data = sys.stdin.buffer.read(LARGEST_INPUT + 1)
    if len(data) > LARGEST_INPUT:
        raise SettingInvalid(f"the hook's input has more than {LARGEST_INPUT} bytes")
    return data.decode("utf-8", "surrogateescape")


def _inputs(contract: Contract, asked: Asked, settings: Settings) -> list[str]:
    """What the answer depends on: configuration, what providers read, what has been allowed."""
    paths = [path for path, _, _ in settings.files]
    if settings.providers != ():
        paths += contract.watched(asked)
        # Agents notice a new file only in a folder that is there.
        try:
            private_folder(contract.projects.store.folder)
        except OSError:
            pass
    return paths


def _files(paths: list[str]) -> list[str]:
    """Each once, and no folder: that would be watched with all that is in it."""
    return [path for path in dict.fromkeys(paths) if not os.path.isdir(path)][:MOST_WATCHED]


def ourselves() -> list[str]:
    """The words that start this program again: by its name, where that finds it."""
    from shutil import which

    program = os.path.abspath(sys.argv[0])
    if os.path.basename(program) == "__main__.py" or not os.access(program, os.X_OK):
        return [sys.executable, "-m", "outfitter"]
    found = which("outfitter")
    same = found is not None and os.path.realpath(found) == os.path.realpath(program)
    return ["outfitter"] if same else [program]
