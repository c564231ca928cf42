"""Any program that prints an environment as JSON: for what no other provider knows.

It is trusted by content: the program's file, every file among its arguments, and the arguments themselves.
What a person has allowed is what runs: a program of the project, or else the first file among its arguments,
which is a script for the program, is run as a sealed copy of what was checked. It finds its own path in
OUTFITTER_PROGRAM. A program from elsewhere is the user's own, and is run where it is: interpreters look for
their libraries beside it.
What it prints is taken exactly or not at all; an unknown field is a mistake, not something to skip.
"""

from __future__ import annotations

import os

from ..env.layer import Operation
from ..env.lists import LIST_NAMES, OPERATIONS
from ..env.origin import Origin
from ..env.pathops import operations
from ..env.redact import mask_pairs
from ..host.tools.tool import run_tool
from .base import KEPT_BY, Detection, Lost, Resolution, Trust
from .files import below, is_repository, nearest, program, read, upwards
from .manifests import texts, typed
from .tool import tail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..host.tools.tool import Ran
    from .base import Context

_TOLD = 20  # mistakes in a note
_FIELD = 100  # characters of a field's name in it
_PROGRAM_BYTES = 64 << 20  # that are hashed; statically linked ones are large
_FIELDS = ("set", "unset", "path", "lost", "watch", "producer")
_KINDS = {
    str: "text",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
    list: "a list",
}


class Command:
    """The program in `values`, with its arguments; run in the project's folder.

    A program with a slash in its name is looked for from the directory upwards; others are in PATH, and the
    folder is the nearest one with `outfitter.toml` or `.git`.
    """

    id = "command"
    rank = 5

    def __init__(self, options: Mapping[str, object] | None = None) -> None:
        self._options = dict(options or {})

    def detect(self, directory: str) -> Detection | None:
        """None when no program is named, or it is not there."""
        argv = _argv(self._options)
        if not argv:
            return None
        name = argv[0]
        if "/" in name and not name.startswith("/"):
            found = nearest(directory, (name,))
            return found and Detection(*found, f"command:{name}")
        return Detection(_project(directory), (), f"command:{name}")

    def trust(self, found: Detection, context: Context) -> Trust:
        argv, tool = self._chosen(found, context)
        if tool is None:
            return Trust("untrusted", why=_not_there(argv))
        loaded = _load(found.root, tool, argv)
        if loaded is None:
            return Trust("untrusted", why=f"{tool} cannot be read, or is too large to check")
        why = "this program is not allowed with these arguments and this content"
        return Trust("untrusted", "outfitter", _digest(argv, loaded), why=why)

    def plan(self, found: Detection, context: Context) -> list[list[str]]:
        argv, tool = self._chosen(found, context)
        return [[tool or argv[0], *argv[1:]]] if argv else []

    def watch(self, found: Detection, context: Context) -> list[str]:
        argv, tool = self._chosen(found, context)
        return [*([tool] if tool else []), *_files(found.root, argv)]

    def resolve(self, found: Detection, context: Context) -> Resolution:
        argv, tool = self._chosen(found, context)
        watch = self.watch(found, context)
        if tool is None:
            return Resolution("missing", note=_not_there(argv), watch=watch)
        env = {**context.tool_env, "PWD": found.root}
        env.setdefault("HOME", context.home)
        loaded = _load(found.root, tool, argv)
        if loaded is None or (context.granted and _digest(argv, loaded) != context.granted):
            note = f"{argv[0]} has changed since it was allowed: type `outfitter trust {typed(found.root)}`"
            return Resolution("failed", note=note, watch=watch)
        try:
            ran = _ran(found.root, tool, argv, loaded, env, context)
        except OSError as error:
            note = f"{argv[0]} was not started: {error.strerror}"
            return Resolution("failed", note=note, watch=watch)
        said = _Said(found, context)
        note = said.read(ran, argv[0])
        marked = [(name, said.values[name]) for name in said.secrets if name in said.values]
        raw = mask_pairs(ran.stderr.decode("utf-8", "surrogateescape"), marked).encode(
            "utf-8", "surrogateescape"
        )
        known = {**context.env, **env, **said.values}
        last = tail(ran, known, raw)
        if note:
            return Resolution("failed", note=note, watch=watch, stderr_tail=last)
        return Resolution(
            "applied",
            set=said.values,
            unset=said.unset,
            operations=said.operations,
            origins=said.origins,
            secrets=frozenset(said.secrets),
            lost=said.lost,
            watch=list(dict.fromkeys((*watch, *said.watch))),
            producer=said.producer or argv[0],
            stderr_tail=last,
        )

    def _chosen(self, found: Detection, context: Context) -> tuple[list[str], str | None]:
        """The program with its arguments, and its path if it is there."""
        argv = _argv(context.options or self._options)
        return argv, program(argv[0], context.tool_env, found.root) if argv else None


# Which program


def _argv(options: Mapping[str, object]) -> list[str]:
    """The program and its arguments; empty when none is named in a usable way."""
    said = texts(options.get("values"))
    return said if said and said[0] and not any("\0" in one for one in said) else []


def _project(directory: str) -> str:
    for folder in upwards(directory):
        if os.path.lexists(os.path.join(folder, "outfitter.toml")) or is_repository(folder):
            return folder
    return os.path.abspath(directory)


def _not_there(argv: Sequence[str]) -> str:
    if not argv:
        return "providers.command must be a list: a program and its arguments"
    return f"{argv[0]} does not exist or is not executable: correct providers.command, or `chmod +x` it"


def _files(root: str, argv: Sequence[str]) -> list[str]:
    """Arguments that are files: a script that an interpreter is to run is as much the program as that is."""
    paths = [below(root, argument) for argument in argv[1:] if argument]
    return [path for path in paths if os.path.isfile(path)]


def _load(root: str, tool: str, argv: Sequence[str]) -> dict[str, bytes] | None:
    """What is in the program and in each file among its arguments, by path; None if one cannot be read."""
    loaded = {}
    for path in (tool, *_files(root, argv)):
        content = read(path, _PROGRAM_BYTES)
        if content is None:
            return None
        loaded[path] = content
    return loaded


def _digest(argv: Sequence[str], loaded: Mapping[str, bytes]) -> str:
    import hashlib

    whole = hashlib.sha256()
    for argument in argv:
        text = argument.encode("utf-8", "surrogateescape")
        whole.update(b"%d:%s" % (len(text), text))
    for content in loaded.values():
        whole.update(hashlib.sha256(content).digest())
    return f"sha256:{whole.hexdigest()}"


def _ran(
    root: str,
    tool: str,
    argv: Sequence[str],
    loaded: Mapping[str, bytes],
    env: Mapping[str, str],
    context: Context,
) -> Ran:
    """Runs it, with what was loaded in place of what is at its path by now. Raises OSError."""
    from ..host.memoryfiles import Sealed

    given = [tool, *argv[1:]]
    inside = os.path.realpath(tool).startswith(os.path.realpath(root).rstrip("/") + "/")
    sealed, place = (tool, 0) if inside else _loaded_argument(root, argv, loaded)
    if not sealed:
        return run_tool(given, root, env, timeout=context.timeout, mark=context.mark)
    copy = Sealed(loaded[sealed])
    if place:
        given[place] = copy.path
    try:
        return run_tool(
            given,
            root,
            {**env, "OUTFITTER_PROGRAM": sealed},
            timeout=context.timeout,
            mark=context.mark,
            program=tool if place else copy.path,
            descriptors=copy.descriptors,
        )
    finally:
        copy.close()


def _loaded_argument(root: str, argv: Sequence[str], loaded: Mapping[str, bytes]) -> tuple[str, int]:
    """The first argument that is a file which was loaded, and its place; "" for none."""
    for place, argument in enumerate(argv[1:], 1):
        if (path := below(root, argument)) in loaded:
            return path, place
    return "", 0


# What it said


class _Said:
    """What a program printed, checked field by field."""

    def __init__(self, found: Detection, context: Context) -> None:
        self._found = found
        self._base = context.env
        self._origin = Origin("provider", found.label, found.files[0] if found.files else None)
        self._mistakes: list[str] = []
        self.values: dict[str, str] = {}
        self.unset: list[str] = []
        self.operations: list[Operation] = []
        self.origins: dict[str, Origin] = {}
        self.secrets: list[str] = []
        self.lost: list[Lost] = []
        self.watch: list[str] = []
        self.producer = ""

    def read(self, ran: Ran, name: str) -> str:
        """Takes all of it; what is wrong, for people, or nothing."""
        if not ran.ok:
            return _failure(ran, name)
        try:
            said = _json(ran.stdout)
        except ValueError as error:
            return f"{name} printed something that is not JSON ({error}): it must print one object to stdout"
        if not isinstance(said, dict):
            return f"{name} printed {_kind(said)}: it must print one object to stdout"
        for field in said:
            if field not in _FIELDS:
                self._wrong(field, f"unknown field; known fields are: {', '.join(_FIELDS)}")
        for variable, one in self._object("set", said.get("set", {})).items():
            self._set(f"set.{variable}", variable, one)
        for place, one in enumerate(self._list(said, "unset")):
            self._unset(f"unset[{place}]", one)
        for place, one in enumerate(self._list(said, "path")):
            self._path(f"path[{place}]", one)
        for place, one in enumerate(self._list(said, "lost")):
            self._lose(f"lost[{place}]", one)
        for place, one in enumerate(self._list(said, "watch")):
            path = self._text(f"watch[{place}]", one)
            self.watch.append(below(self._found.root, path))
        self.producer = self._text("producer", said.get("producer", ""))
        if not self._mistakes:
            return ""
        more = f"; and {len(self._mistakes) - _TOLD} more" if len(self._mistakes) > _TOLD else ""
        return f"{name} printed something that cannot be used: " + "; ".join(self._mistakes[:_TOLD]) + more

    def _set(self, field: str, name: str, one: object) -> None:
        value = self._detailed(field, name, one) if isinstance(one, dict) else one
        if value is None:
            self.unset.append(name)
        elif name in LIST_NAMES:
            text = self._text(field, value)
            self.operations += operations(self._base.get(name), text, name, self._origin)
        else:
            self.values[name] = self._text(field, value)

    def _detailed(self, field: str, name: str, one: dict[str, object]) -> object:
        self._object(field, one, ("value", "secret", "source"))
        secret = one.get("secret", False)
        if type(secret) is not bool:
            self._wrong(f"{field}.secret", f"is {_kind(secret)}, not true or false")
        elif secret:
            self.secrets.append(name)
        if "source" in one:
            source = self._text(f"{field}.source", one["source"])
            self.origins[name] = Origin("provider", self._found.label, source)
        if "value" not in one:
            self._wrong(f"{field}.value", "is missing; use null to unset the variable")
        return one.get("value")

    def _unset(self, field: str, one: object) -> None:
        name = self._text(field, one)
        if name in self.values or any(name == done.variable for done in self.operations):
            self._wrong(field, f"{name} is also in `set`")
        self.unset.append(name)

    def _path(self, field: str, one: object) -> None:
        said = self._object(field, one, ("var", "op", "value"))
        if said is not one:
            return
        variable = self._text(f"{field}.var", said.get("var"))
        op = self._text(f"{field}.op", said.get("op"))
        if op and op not in OPERATIONS:
            self._wrong(f"{field}.op", f"must be one of: {', '.join(OPERATIONS)}")
        value = said.get("value")
        entries = value if isinstance(value, list) else [value]
        texts = tuple(self._text(f"{field}.value", entry) for entry in entries)
        self.operations.append(Operation(variable, op, texts, self._origin))

    def _lose(self, field: str, one: object) -> None:
        said = self._object(field, one, ("kind", "name", "kept_by"))
        if said is not one:
            return
        kind = self._text(f"{field}.kind", said.get("kind"))
        name = self._text(f"{field}.name", said.get("name"))
        kept_by = self._text(f"{field}.kept_by", said.get("kept_by", "wrap"))
        if kept_by and kept_by not in KEPT_BY:
            self._wrong(f"{field}.kept_by", f"must be one of: {', '.join(KEPT_BY)}")
        self.lost.append(Lost(kind, name, kept_by))

    # Mistakes: names of fields, never values

    def _wrong(self, field: str, what: str) -> None:
        self._mistakes.append(f"{field[:_FIELD]}: {what}")

    def _object(self, field: str, value: object, known: Sequence[str] = ()) -> dict[str, object]:
        """An object with none but these fields; any, when none are given."""
        if not isinstance(value, dict):
            self._wrong(field, f"is {_kind(value)}, not an object")
            return {}
        for name in value:
            if known and name not in known:
                self._wrong(f"{field}.{name}", f"unknown field; known fields are: {', '.join(known)}")
        return value

    def _list(self, said: Mapping[str, object], field: str) -> list[object]:
        value = said.get(field, [])
        if isinstance(value, list):
            return value
        self._wrong(field, f"is {_kind(value)}, not a list")
        return []

    def _text(self, field: str, value: object) -> str:
        if type(value) is not str:
            self._wrong(field, f"is {_kind(value)}: write it as a string")
            return ""
        if any("\ud800" <= mark <= "\udfff" for mark in value):
            self._wrong(field, "contains half a character (a surrogate)")
            return ""
        return value


def _json(data: bytes) -> object:
    """The value that was printed. Raises ValueError without any of its text."""
    import json

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a name is listed twice in one object")
        return found

    try:
        return json.loads(data.decode(), object_pairs_hook=unique)
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "an object")


def _failure(ran: Ran, name: str) -> str:
    if ran.outcome == "timeout":
        return f"{name} did not finish within {ran.seconds:.0f} s: it may be waiting for input or the network"
    if ran.outcome == "too-large":
        return f"{name} printed more than an environment can contain"
    if ran.outcome == "not-started":
        return f"{name} was not started: {ran.failure}"
    how = f"signal {-ran.code}" if ran.code is not None and ran.code < 0 else f"status {ran.code}"
    return f"{name} ended with {how}; what it printed is not used"
