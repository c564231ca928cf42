"""`.env` files, only those that the configuration names: read by our own strict reader, never by a shell.

All values are secret unless the configuration says otherwise. Nothing is run. What the files set waits for a
person's word all the same, as for every provider that reads files of the project. A link that leads out of
the project is not followed: it would make variables of any file that the user can read.
"""

from __future__ import annotations

import os

from ..env.lists import LIST_NAMES
from ..env.origin import Origin
from ..env.pathops import operations
from ..formats.dotenv import DIALECTS, parse
from .base import Detection, ReadsFiles, Resolution
from .files import FILE_BYTES, below, nearest, read
from .manifests import texts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..env.layer import Operation
    from ..formats.dotenv import DotenvEntry
    from .base import Context

_TOLD = 50  # mistakes in a note: who has more has named the wrong file


class Dotenv(ReadsFiles):
    """The files in `values`, in their order: a later one overrides, so `.env` comes before `.env.local`.

    Other options: `dialect` (one of `DIALECTS`), `allow_path` (PATH counts too), `plain` (names
    whose values are not secret).
    """

    id = "dotenv"
    rank = 95

    def __init__(self, options: Mapping[str, object] | None = None) -> None:
        self._options = dict(options or {})

    def detect(self, directory: str) -> Detection | None:
        """The nearest folder with one of the named files; None when none is named."""
        if not self._options:
            return None
        names, mistake = _names(self._options)
        if mistake:
            return Detection(os.path.abspath(directory), (), f"dotenv:{directory}", mistake)
        found = nearest(directory, names)
        return found and Detection(*found, f"dotenv:{found[1][0]}")

    def watch(self, found: Detection, context: Context) -> list[str]:
        return [below(found.root, name) for name in _names(self._chosen(context))[0]]

    def resolve(self, found: Detection, context: Context) -> Resolution:
        options = self._chosen(context)
        names, mistake = _names(options)
        mistake = mistake or _unusable(options)
        if mistake:
            return Resolution("failed", note=mistake)
        watch = [below(found.root, name) for name in names]
        entries: dict[str, tuple[DotenvEntry, str]] = {}
        known = dict(context.env)
        wrong: list[str] = []
        inside = os.path.realpath(found.root).rstrip("/") + "/"
        for path in watch:
            if not os.path.exists(path):
                continue
            if not os.path.realpath(path).startswith(inside):
                wrong.append(f"{path} is a link out of the project: put a file there, or name another one")
                continue
            given, mistakes = _read(path, str(options.get("dialect", DIALECTS[0])), known)
            wrong += mistakes
            known.update((entry.name, entry.value) for entry in given)
            entries.update((entry.name, (entry, path)) for entry in given)
        if wrong:
            more = f"; and {len(wrong) - _TOLD} more" if len(wrong) > _TOLD else ""
            return Resolution("failed", note="; ".join(wrong[:_TOLD]) + more, watch=watch)
        return _resolution(entries, context, options, watch)

    def _chosen(self, context: Context) -> Mapping[str, object]:
        return context.options or self._options


def _resolution(
    entries: Mapping[str, tuple[DotenvEntry, str]],
    context: Context,
    options: Mapping[str, object],
    watch: list[str],
) -> Resolution:
    values: dict[str, str] = {}
    lists: list[Operation] = []
    origins: dict[str, Origin] = {}
    note = ""
    for name, (entry, path) in entries.items():
        origin = Origin("provider", f"dotenv:{path}", path, entry.line)
        if name == "PATH" and options.get("allow_path") is not True:
            note = f"PATH in {path}, line {entry.line}, is ignored: set it under [env] in outfitter.toml"
            continue
        origins[name] = origin
        if name in LIST_NAMES:
            lists += operations(context.env.get(name), entry.value, name, origin)
        else:
            values[name] = entry.value
    plain = texts(options.get("plain", ())) or ()
    return Resolution(
        "applied",
        set=values,
        operations=lists,
        origins=origins,
        secrets=frozenset(values).difference(plain),
        watch=watch,
        producer="dotenv",
        note=note,
    )


def _read(path: str, dialect: str, known: Mapping[str, str]) -> tuple[list[DotenvEntry], list[str]]:
    data = read(path)
    if data is None:
        return [], [f"{path} cannot be read, or is larger than {FILE_BYTES} bytes"]
    entries, mistakes = parse(data.decode("utf-8", "surrogateescape"), dialect, known)
    return entries, [f"{path}, {mistake}" for mistake in mistakes]


def _names(options: Mapping[str, object]) -> tuple[list[str], str]:
    """The files that are named, relative to the project; and what is wrong with that."""
    names = texts(options.get("values", ()))
    if names is None:
        return [], "providers.dotenv must be a list of file names"
    outside = [name for name in names if not name or name.startswith("/") or ".." in name.split("/")]
    if outside:
        return [], f"providers.dotenv names {outside[0]!r}: only files below the project can be read"
    return names, ""


def _unusable(options: Mapping[str, object]) -> str:
    if options.get("dialect", DIALECTS[0]) not in DIALECTS:
        return f"dotenv's `dialect` must be one of: {', '.join(DIALECTS)}"
    if type(options.get("allow_path", False)) is not bool:
        return "dotenv's `allow_path` must be true or false"
    if texts(options.get("plain", ())) is None:
        return "dotenv's `plain` must be a list of names"
    return ""
