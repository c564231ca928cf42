"""mise: variables and tools from `mise.toml` and its relatives, or from `.tool-versions`.

mise evaluates files by itself in more ways than it asks about: `mise exec` and `mise trust --show` do, and so
does `mise env` when anything looks like a CI. So trust is read from its records. One with a digest is bound
to content: mise then runs in its paranoid mode, which compares the same record once more, and keeps `mise
exec` from trusting by itself. A plain `mise trust` records a path: it counts for files that have not changed
since. Files that only name versions and tasks need no trust: for those mise runs without any records, so that
it refuses more.
"""

from __future__ import annotations

import os
import time

from ..env.origin import Origin
from ..env.pathops import operations
from ..host.tools.tool import run_tool
from ..record import record
from .base import MODES, Detection, Lost, Resolution, Trust
from .files import program, upwards
from .manifests import names, parsed, present, read_text, texts
from .tool import failed, tail, version, without
from .wrapping import setting, wrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, TypeVar

    from ..host.tools.tool import Ran
    from .base import Context

    _Kind = TypeVar("_Kind")

# Where a folder's configuration may be: the place, and how the names there start.
_PLACES = (
    ("", "mise"),
    ("", ".mise"),
    ("mise", "config"),
    (".mise", "config"),
    (".config", "mise"),
    (".config/mise", "mise"),
    (".config/mise", "config"),
)
_PARTS = ("mise/conf.d", ".mise/conf.d", ".config/mise/conf.d")
_VERSIONS = ".tool-versions"
_TEMPLATE = ("{{", "{%", "{#")
_BY_FOLDER = "path:"  # a version that is a folder, perhaps one of the project: whatever programs are in it
# What a file may have without running anything: versions as plain text; and tasks, which somebody must start.
_HARMLESS = frozenset(("tools", "min_version", "tasks"))

# What mise is started with of the tools' environment. It is a list because of what must not be in it.
_PASSED = frozenset(
    (
        *("HOME", "PATH", "USER", "LOGNAME", "SHELL", "SHLVL", "LANG", "TMPDIR", "TZ"),
        *("MISE_DATA_DIR", "MISE_CONFIG_DIR", "MISE_CACHE_DIR", "MISE_STATE_DIR", "MISE_ENV"),
    )
)
_PASSED_PREFIXES = ("LC_", "XDG_")
# Trusts everything below a path, whatever is written there later.
_BY_PATH = "MISE_TRUSTED_CONFIG_PATHS"
_FIXED = {
    "MISE_OFFLINE": "1",
    "MISE_AUTO_INSTALL": "0",
    "MISE_EXEC_AUTO_INSTALL": "0",
    "MISE_NOT_FOUND_AUTO_INSTALL": "0",
    "MISE_ENV_CACHE": "0",
    "MISE_YES": "0",
    "NO_COLOR": "1",
    # Empty: the user's settings may have paths, and even the paranoid mode follows them.
    _BY_PATH: "",
}
# What makes `mise exec` trust a project by itself, for good, even in its paranoid mode.
_SIDE_DOORS = (
    *("CI", "CONTINUOUS_INTEGRATION", "BUILD_NUMBER", "RUN_ID", "GITHUB_ACTIONS", "GITLAB_CI", "TF_BUILD"),
    *("VERCEL", "MISE_YES"),
)
# What a command gets beside its own environment: mise compares the records of trust once more, each time.
_EXECUTED_WITH = {"MISE_PARANOID": "1", _BY_PATH: "", "MISE_EXEC_AUTO_INSTALL": "0"}
_NO_RECORDS = "/dev/null/mise"  # a folder that cannot be
_NOISE = "tracking config:"  # mise's complaint about that

_TOOLS = ("ls", "--current", "--json")
_VALUES = ("env", "--json-extended")
_SHELL = ("env", "-s", "bash")
_SECRETS = ("env", "--json", "--redacted")
_FILES = ("config", "ls", "--json")
# One line of `_SHELL`, which may have line ends in its quotes.
_ENV_LINE = r"unset (?P<unset>[\w.-]+)|export [\w.-]+=(?:'[^']*'|\\.|[\w\-+=/:.,@%^~])*+"


class Mise:
    """See the module."""

    id = "mise"
    rank = 20
    modes = MODES  # it evaluates the files for a snapshot, so that is a capture, too

    def detect(self, directory: str) -> Detection | None:
        for folder in upwards(directory):
            files = _configurations(folder)
            if files:
                return Detection(folder, files, f"mise:{files[0]}")
        return None

    def trust(self, found: Detection, context: Context) -> Trust:
        if _BY_PATH in context.env or _BY_PATH in context.tool_env:
            why = f"{_BY_PATH} makes mise trust everything below a path: start Outfitter without it"
            return Trust("denied", "mise", why=why)
        judged = [_judge(path, _State(context)) for path in _governing(found.root, context)]
        digest = _digest(found.root, judged)
        for one in judged:
            if one.ignored:
                why = f"mise is configured to ignore {one.path}"
                return Trust("denied", "mise", digest, _grant([one.path], again=True), why)
        if all(one.plain for one in judged) and context.mode != "wrap":
            return Trust("not-needed", "mise", digest, files=_files(found.root, judged, context))
        # In its paranoid mode mise wants a record of every file, also of the plain ones.
        wraps = context.mode == "wrap"
        missing = [one for one in judged if not (one.recorded or (not wraps and (one.since or one.plain)))]
        if not missing:
            return Trust("trusted", "mise", digest, files=_files(found.root, judged, context))
        why = "; ".join(one.why or f"mise trusts {one.path} whatever its content" for one in missing)
        # What mise trusts already it does not trust again, but with a digest.
        again = wraps or any(one.by_path for one in missing)
        return Trust("untrusted", "mise", digest, _grant([one.path for one in missing], again=again), why)

    def plan(self, found: Detection, context: Context) -> list[list[str]]:
        asked = [["mise", *each] for each in (_TOOLS, _VALUES, _SHELL, _SECRETS, _FILES)]
        if context.mode == "wrap":
            asked.append([*_executing("mise"), "COMMAND"])
        return asked

    def watch(self, found: Detection, context: Context) -> list[str]:
        state = _State(context)
        watched = [state.trusted, state.ignored]
        for folder in upwards(found.root, beyond=True):
            present_now = _configurations(folder, _environments(context))
            watched += present_now
            watched += [
                f"{state.records[real]}.hash"
                for path in present_now
                if (real := os.path.realpath(path)) in state.records
            ]
            # Those that are not there yet.
            watched += [os.path.join(folder, name) for name in (*_candidates(context), ".miserc.toml")]
            watched += [os.path.join(folder, name) for name in ("mise", ".mise", ".config/mise")]
            watched += present(folder, _PARTS)
        watched += [_global(context), os.path.join(_global(context), "config.toml")]
        tool = program("mise", context.tool_env)
        if tool:
            watched.append(tool)
        return list(dict.fromkeys(watched))

    def resolve(self, found: Detection, context: Context) -> Resolution:
        watch = self.watch(found, context)
        trust = self.trust(found, context)
        if not trust.may_run:
            return Resolution("failed", note=f"not trusted: {trust.why}", watch=watch)
        tool = program("mise", context.tool_env)
        if tool is None and all(os.path.basename(path) == _VERSIONS for path in found.files):
            note = f"mise is not installed; {_VERSIONS} is asdf's file, too"
            return Resolution("not-applicable", note=note, watch=watch)
        if tool is None:
            note = "mise is not installed, or not in PATH: see https://mise.jdx.dev/installing-mise.html"
            return Resolution("missing", note=note, watch=watch)
        seen = [name for name in _SIDE_DOORS if name in context.env] if context.mode == "wrap" else []
        if seen:
            note = (
                f"with {', '.join(seen)} in the environment, `mise exec` would evaluate untrusted files: "
                'write mise = "snapshot" in [providers.modes]'
            )
            return Resolution("failed", note=note, watch=watch)
        try:
            plain = trust.state == "not-needed"
            paranoid = not plain and _paranoid(found.root, context)
            snapshot = _Asking(tool, found, context, watch, plain=plain, paranoid=paranoid).run()
        except _Unusable as unusable:
            return unusable.resolution
        return wrapped(snapshot, _executing(tool)) if context.mode == "wrap" else snapshot


def _executing(tool: str) -> tuple[str, ...]:
    return (*setting(_EXECUTED_WITH), tool, "exec", "--")


# Which files


def _configurations(folder: str, environments: Sequence[str] = ()) -> tuple[str, ...]:
    """The configuration files of one folder that are there."""
    found: tuple[str, ...] = ()
    for place, stem in _PLACES:
        inside = os.path.join(folder, place) if place else folder
        if not place or os.path.isdir(inside):
            found += present(inside, _spellings(stem, environments))
    for part in _PARTS:
        inside = os.path.join(folder, part)
        if os.path.isdir(os.path.dirname(inside)):
            found += tuple(os.path.join(inside, name) for name in names(inside) if name.endswith(".toml"))
    return found + present(folder, (_VERSIONS,))


def _spellings(stem: str, environments: Sequence[str]) -> list[str]:
    middles = ["", ".local"]
    for name in environments:
        middles += [f".{name}", f".{name}.local"]
    return [f"{stem}{middle}.toml" for middle in middles]


def _candidates(context: Context) -> Iterator[str]:
    """The names that a folder itself may have; for its own folders, those are watched."""
    for place, stem in _PLACES:
        if place in ("", ".config"):
            for name in _spellings(stem, _environments(context)):
                yield os.path.join(place, name)
    yield _VERSIONS


def _environments(context: Context) -> list[str]:
    return [
        name
        for name in context.tool_env.get("MISE_ENV", "").split(",")
        if name and "/" not in name and "\0" not in name
    ]


def _governing(root: str, context: Context) -> list[str]:
    """Every file that mise will read for a project, without the user's own configuration.

    mise does not stop at a repository.
    """
    own = _global(context) + "/"
    environments = _environments(context)
    return [
        path
        for folder in upwards(root, beyond=True)
        for path in _configurations(folder, environments)
        if not path.startswith(own)
    ]


def _global(context: Context) -> str:
    """The folder of the user's own configuration, which mise always trusts."""
    return _folder(context, "MISE_CONFIG_DIR", "XDG_CONFIG_HOME", ".config")


def _folder(context: Context, own: str, common: str, below_home: str) -> str:
    given = context.tool_env.get(own, "")
    if given:
        return given.rstrip("/") or "/"
    above = context.tool_env.get(common, "")
    if not above.startswith("/"):
        above = os.path.join(context.tool_env.get("HOME") or context.home, below_home)
    return os.path.join(above, "mise")


# Trust


class _State:
    """mise's records: links to what was trusted, each with the digest of what it was then."""

    def __init__(self, context: Context) -> None:
        folder = _folder(context, "MISE_STATE_DIR", "XDG_STATE_HOME", ".local/state")
        self.trusted = os.path.join(folder, "trusted-configs")
        self.ignored = os.path.join(folder, "ignored-configs")
        self.records = dict(_links(self.trusted))
        self.refused = {target for target, _ in _links(self.ignored)}


def _links(folder: str) -> Iterator[tuple[str, str]]:
    for name in names(folder):
        path = os.path.join(folder, name)
        try:
            yield os.readlink(path), path
        except OSError:
            continue  # a digest, or something that is not mise's


@record
class _Judged:
    """One file: what it says, whether that can run anything, whether mise has it on record, or why not.

    `recorded`: this content is. `by_path`: its path is, and `since` that it has not changed since then.
    """

    path: str
    text: str | None
    plain: bool
    recorded: bool
    ignored: bool
    why: str
    by_path: bool = False
    since: bool = False


def _judge(path: str, state: _State) -> _Judged:
    from ..stdlib import sha256

    text = read_text(path)
    real = os.path.realpath(path)
    ignored = real in state.refused
    if text is None:
        return _Judged(path, None, False, False, ignored, f"{path} is not a text file, or is too large")
    record = state.records.get(real)
    kept = read_text(f"{record}.hash") if record is not None else None
    recorded = kept == sha256(text.encode()).hexdigest()
    record = record if kept is None else None
    record = record or next((state.records[root] for root in _roots(real) if root in state.records), None)
    since = record is not None and _older(real, record)
    if recorded or since:
        why = ""
    elif kept is not None or record is not None:
        why = f"{path} changed after it was trusted in mise"
    else:
        why = f"{path} is not trusted in mise"
    return _Judged(path, text, _is_plain(path, text), recorded, ignored, why, record is not None, since)


def _roots(path: str) -> Iterator[str]:
    """The folders whose trust is that of a file, as mise sees it."""
    folder = os.path.dirname(path)
    inner = {place for place, _ in _PLACES if place} | {*_PARTS}
    yield folder
    for place in inner:
        if folder.endswith(f"/{place}"):
            yield folder.removesuffix(f"/{place}")


def _older(path: str, record: str) -> bool:
    """Whether a file is as it was when it was trusted. Its last change of any kind counts: that time, unlike
    that of its content, is the kernel's."""
    try:
        file, link = os.stat(path), os.lstat(record)
    except OSError:
        return False
    return max(file.st_mtime_ns, file.st_ctime_ns) <= link.st_mtime_ns


def _paranoid(root: str, context: Context) -> bool:
    """Whether mise compares the content of every file with a record of its own: unless some are only known
    not to have changed since they were trusted. Where that is not so after all, mise refuses."""
    judged = [_judge(path, _State(context)) for path in _governing(root, context)]
    by_time = all(one.recorded or one.since or one.plain for one in judged)
    return not by_time or all(one.recorded for one in judged)


def _is_plain(path: str, text: str) -> bool:
    """Whether a file only names versions. mise has the last word: it runs without its records then."""
    if any(mark in text for mark in _TEMPLATE) or _BY_FOLDER in text:
        return False
    if os.path.basename(path) == _VERSIONS:
        return True
    values = _toml(text)
    if values is None or not values.keys() <= _HARMLESS:
        return False
    tools = values.get("tools", {})
    if type(values.get("tasks", {})) is not dict:
        return False
    return type(tools) is dict and all(
        type(value) is str or texts(value) is not None for value in tools.values()
    )


def _toml(text: str) -> dict[str, Any] | None:
    from ..formats.plaintoml import loads

    if (plain := loads(text)) is not None:
        return plain
    from ..formats.toml import values

    try:
        return values(text)
    except (ValueError, RecursionError):
        return None


def _digest(root: str, judged: Sequence[_Judged]) -> str:
    """Of names as seen from the project, and of contents: the same in another checkout of the same files."""
    from ..stdlib import sha256

    total = sha256()
    for one in judged:
        for part in (os.path.relpath(one.path, root), one.text or ""):
            data = part.encode("utf-8", "surrogateescape")
            total.update(b"%d:" % len(data) + data)
    return f"sha256:{total.hexdigest()}"


def _files(root: str, judged: Sequence[_Judged], context: Context) -> dict[str, bytes | None]:
    """What mise may read: the files as they were judged, and names that are not there; a folder of parts has
    no more of them."""
    environments = _environments(context)
    names = [f"{place}/{name}" for place, stem in _PLACES for name in _spellings(stem, environments)]
    names += (*_PARTS, _VERSIONS, ".miserc.toml")
    files: dict[str, bytes | None] = {
        path: None
        for folder in upwards(root, beyond=True)
        for name in names
        if not os.path.lexists(path := os.path.join(folder, name.removeprefix("/")))
    }
    parts = (os.path.join(folder, name) for folder in upwards(root, beyond=True) for name in _PARTS)
    files |= {f"{path}/": None for path in parts if os.path.isdir(path)}
    return files | {one.path: one.text.encode() for one in judged if one.text is not None}


def not_installed(root: str, missing: Sequence[str]) -> str:
    """What to do about tools that are missing, each as NAME@VERSION."""
    from shlex import quote

    note = f"not installed: {', '.join(missing)}; `mise -C {quote(root)} install` installs them"
    for name in dict.fromkeys(one.rpartition("@")[0] for one in missing):
        if "/" in name and ":" not in name:
            tool = name.rpartition("/")[2]
            note += f"; for mise, {name} is the repository of a plugin: write `{tool}`, if that is meant"
    return note


def _grant(paths: Sequence[str], *, again: bool) -> str:
    from shlex import quote

    return " && ".join(f"{'MISE_PARANOID=1 ' * again}mise trust {quote(path)}" for path in paths)


# Asking


class _Unusable(Exception):
    def __init__(self, resolution: Resolution) -> None:
        super().__init__(resolution.note)
        self.resolution = resolution


class _Asking:
    """One resolution: several questions to mise, within one time limit."""

    def __init__(
        self,
        tool: str,
        found: Detection,
        context: Context,
        watch: list[str],
        *,
        plain: bool,
        paranoid: bool,
    ) -> None:
        self._tool = tool
        self._found = found
        self._context = context
        self._watch = watch
        self._env = {
            name: value
            for name, value in context.tool_env.items()
            if name in _PASSED or name.startswith(_PASSED_PREFIXES)
        } | _FIXED
        self._env["MISE_PARANOID"] = "1" if paranoid else "0"
        if plain:
            self._env["MISE_STATE_DIR"] = _NO_RECORDS
        self._deadline = time.monotonic() + context.timeout
        self._producer = f"mise {version(tool, self._env, context.mark)}".strip()

    def run(self) -> Resolution:
        installed = self._installed(self._json(_TOOLS, dict))
        if installed is not None:
            return installed
        ran = self._ask(_VALUES)
        values, sources = self._values(self._understood(_VALUES, ran, dict))
        unset = self._unset(self._ask(_SHELL).stdout)
        secrets = frozenset(name for name in self._json(_SECRETS, dict) if name in values)
        self._watch += [
            path
            for entry in self._json(_FILES, list)
            if type(entry) is dict and type(path := entry.get("path")) is str
        ]
        self._watch += sources.values()
        label = self._found.label
        origins = {name: Origin("provider", label, source) for name, source in sources.items()}
        path = values.pop("PATH", None)
        return Resolution(
            "applied",
            set=values,
            unset=[name for name in unset if name not in values and name != "PATH"],
            operations=[] if path is None else operations(self._env.get("PATH"), path),
            origins=origins,
            secrets=secrets,
            lost=self._lost(),
            watch=tuple(dict.fromkeys(self._watch)),
            producer=self._producer,
            stderr_tail=tail(ran, {**self._context.env, **values}, without(ran.stderr, _NOISE)),
        )

    def _ask(self, question: Sequence[str]) -> Ran:
        ran = run_tool(
            [self._tool, *question],
            self._found.root,
            self._env,
            timeout=max(self._deadline - time.monotonic(), 0.0),
            mark=self._context.mark,
        )
        if not ran.ok:
            look = f"`mise {' '.join(question)}` in {self._found.root} shows why"
            what = f"mise gave no environment: {look}"
            raise _Unusable(
                failed(ran, self._context, what, self._watch, noise=_NOISE, producer=self._producer)
            )
        return ran

    def _json(self, question: Sequence[str], kind: type[_Kind]) -> _Kind:
        return self._understood(question, self._ask(question), kind)

    def _understood(self, question: Sequence[str], ran: Ran, kind: type[_Kind]) -> _Kind:
        said = parsed(ran.stdout)
        if not isinstance(said, kind):
            raise self._not_understood(question)
        return said

    def _not_understood(self, question: Sequence[str]) -> _Unusable:
        what = f"`mise {' '.join(question)}` printed an unexpected answer from {self._producer}"
        note = f"{what}: report this with the version"
        return _Unusable(Resolution("failed", note=note, watch=self._watch, producer=self._producer))

    def _installed(self, tools: dict[str, Any]) -> Resolution | None:
        """What to say when a tool of the project is not there; None when all are."""
        own = _global(self._context) + "/"
        missing = []
        for name, entries in tools.items():
            for entry in entries if type(entries) is list else ():
                if type(entry) is not dict:
                    raise self._not_understood(_TOOLS)
                where = entry.get("install_path")
                if type(where) is str:
                    self._watch += [where, os.path.dirname(where)]
                source = entry.get("source")
                path = source.get("path") if type(source) is dict else None
                of_user = type(path) is str and path.startswith(own)
                if entry.get("installed") is False and not of_user:
                    missing.append(f"{name}@{entry.get('requested_version') or entry.get('version')}")
        if not missing:
            return None
        note = not_installed(self._found.root, missing)
        return Resolution("missing", note=note, watch=self._watch, producer=self._producer)

    def _values(self, said: dict[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
        values, sources = {}, {}
        for name, entry in said.items():
            value = entry.get("value") if type(entry) is dict else None
            if type(value) is not str:
                raise self._not_understood(_VALUES)
            if name.startswith("__MISE_"):
                continue  # what mise remembers for a shell of its own
            values[name] = value
            source = entry.get("source")
            if type(source) is str:
                sources[name] = source
        return values, sources

    def _unset(self, said: bytes) -> list[str]:
        try:
            return unset_names(said.decode("utf-8", "surrogateescape"))
        except ValueError:
            raise self._not_understood(_SHELL) from None

    def _lost(self) -> list[Lost]:
        lost = []
        for path in _governing(self._found.root, self._context):
            values = _toml(read_text(path) or "") if path.endswith(".toml") else None
            for table, kind in (("shell_alias", "alias"), ("hooks", "hook")):
                found = (values or {}).get(table)
                lost += [Lost(kind, name, "session") for name in found] if type(found) is dict else []
        return lost


def unset_names(text: str) -> list[str]:
    """The names that `mise env -s bash` takes away.

    It prints `unset NAME` and `export NAME=VALUE`, where a value is plain characters, '...' and \\x, and may
    have lines of its own. Raises ValueError for everything else.
    """
    import re

    line = re.compile(_ENV_LINE, re.DOTALL)
    found = []
    at = 0
    while at < len(text):
        said = line.match(text, at)
        if said is None or text[said.end() : said.end() + 1] not in ("", "\n"):
            raise ValueError("neither unset nor export of a plain value")
        found += [said["unset"]] if said["unset"] else []
        at = said.end() + 1
    return found
