"""tasks.jsonl and results.jsonl: one task or result per line.

A task has an `id` and a `command` or a `script`. What else a line may have stands in `_MEMBERS`. All mistakes
of a file are told before anything runs. Results never repeat `env`: it may have secrets.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from ...core.shape import Shape
from ...errors import FileInvalid, SettingInvalid
from ...formats.document import Mistake
from ...formats.toml import suggest
from ...plain import is_text
from ...pool.settings import LeaseWishes, shape_of
from ...record import EMPTY, record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MAX_LINE = 16 << 20  # bytes of a task: its files are in it
_TOLD = 20  # mistakes; whoever has made more sees the pattern

_MEMBERS: dict[str, tuple[tuple[type, ...], str]] = {
    "id": ((str,), "a text"),
    "command": ((list,), "a list of texts"),
    "script": ((str,), "a text"),
    "env": ((dict,), "an object of texts"),
    "cwd": ((str,), "a text"),
    "stdin": ((str,), "a text"),
    "timeout": ((int, float), "a number"),
    "setup": ((list,), "a list of texts"),
    "group": ((str,), "a text"),
    "cpus": ((int, float), "a number"),
    "memory": ((str, int), 'a size such as "4GiB"'),
    "files": ((dict,), "an object of texts"),
    "collect": ((list,), "a list of texts"),
}


@record
class Job:
    """One task."""

    hidden = ("env", "stdin", "files")

    id: str
    command: tuple[str, ...] = ()
    script: str = ""
    env: Mapping[str, str] = EMPTY
    cwd: str | None = None
    stdin: str | None = None
    timeout: float | None = None
    setup: tuple[str, ...] = ()
    group: str = ""
    cpus: float | None = None
    memory: str | int | None = None
    files: Mapping[str, str] = EMPTY
    collect: tuple[str, ...] = ()

    def wishes(self) -> LeaseWishes:
        """What it wants of its lease."""
        wanted: LeaseWishes = {"group": self.group, "setup": self.setup}
        if self.cpus is not None:
            wanted["cpus"] = self.cpus
        if self.memory is not None:
            wanted["memory"] = self.memory
        return wanted


def check(lines: Iterable[bytes], name: str) -> list[str]:
    """The ids of all tasks. Raises FileInvalid with the mistakes, up to a bound."""
    mistakes: list[Mistake] = []
    ids: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            job = parse(line)
            first = ids.setdefault(job.id, number)
            if first != number:
                raise SettingInvalid(f"the id of line {first}: give each task an id of its own")
        except SettingInvalid as error:
            problem, _, remedy = str(error).partition(": ")
            mistakes.append(Mistake(name, number, problem, remedy))
            if len(mistakes) == _TOLD:
                break
    if mistakes:
        raise FileInvalid(tuple(mistakes))
    return list(ids)


def head(lines: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The lines of a file's first bytes: what somebody writes behind them later was not checked."""
    for line in lines:
        yield line[:size]
        size -= len(line)
        if size <= 0:
            return


def jobs(lines: Iterable[bytes]) -> Iterator[tuple[Job, int]]:
    """The tasks of lines that were checked, and how many bytes each has."""
    for line in lines:
        if line.strip():
            yield parse(line), len(line)


def parse(line: bytes) -> Job:
    """Raises SettingInvalid: what is wrong, a colon, what to do."""
    if len(line) > MAX_LINE:
        raise SettingInvalid(f"more than {MAX_LINE} bytes: let the command fetch large files itself")
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SettingInvalid(f"not JSON ({error}): write one object on one line") from None
    if not isinstance(found, dict):
        raise SettingInvalid('no object: write {"id": ..., "command": [...]}')
    for key, value in found.items():
        _check_member(key, value)
    if not found.get("id"):
        raise SettingInvalid("no `id`: give each task an id of its own")
    if ("command" in found) == ("script" in found):
        raise SettingInvalid("not exactly one of `command` and `script`: write one of them")
    if not found.get("command", [""]):
        raise SettingInvalid("`command` is empty: write the program and its arguments")
    for path in found.get("files", {}):
        if path.startswith(("/", "file:")) or ".." in path.split("/"):
            raise SettingInvalid("`files` has a path outside of the workspace: write relative paths")
    job = Job(**found)
    shape_of(job.wishes(), Shape())
    return job


def _check_member(key: str, value: Any) -> None:
    if key not in _MEMBERS:
        raise SettingInvalid(f"unknown member `{key}`: {suggest(key, tuple(_MEMBERS))}")
    types, wanted = _MEMBERS[key]
    inner = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    if type(value) not in types or not all(type(one) is str for one in inner):
        raise SettingInvalid(f"`{key}` has a value of another kind: write {wanted}")


# Results


def finished(lines: Iterable[bytes]) -> dict[str, str]:
    """The ids in a file of results, with the state that each had last. The end of an interrupted line is no
    result."""
    found: dict[str, str] = {}
    for line in lines:
        try:
            result = json.loads(line)
            found[result["id"]] = result["state"]
        except (ValueError, KeyError, TypeError):
            continue
    return found


def shown(data: bytes) -> str | dict[str, str]:
    """Output as JSON has it: text, or base64 where it is none."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def line(result: Mapping[str, object]) -> bytes:
    text = json.dumps(result, ensure_ascii=False, separators=(",", ":"))
    if not is_text(text):  # names of files are bytes, and an id may have half a surrogate pair
        text = json.dumps(result, separators=(",", ":"))
    return f"{text}\n".encode()
