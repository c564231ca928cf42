"""direnv: what an `.envrc` makes of the environment, asked of direnv itself once the user has allowed it.

Whether it is allowed is read from direnv's own records, before anything runs. Its exit code decides what came
of it, not its output: for a file that is not allowed it prints an object, too.
"""

from __future__ import annotations

import os

from ..env.lists import LIST_NAMES
from ..env.origin import Origin
from ..env.pathops import operations
from ..host.tools.tool import run_tool
from ..shell.activation import bookkeeper, unpack_direnv
from .base import Detection, Lost, Resolution, Trust
from .files import FILE_BYTES, nearest, program, read
from .manifests import parsed, read_toml, table
from .tool import tail, version
from .wrapping import setting, wrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..env.layer import Operation
    from ..host.tools.tool import Ran
    from .base import Context

_TOOL = "direnv"
_WATCHED = 4096  # paths: more would cost every command more than the environment is worth
_LINES = 20_000  # of an .envrc that are looked through for functions


class Direnv:
    """`.envrc`, nearest upwards. With the option `load_dotenv`, a bare `.env` too, as direnv itself can."""

    id = "direnv"
    rank = 10
    modes = ("snapshot", "capture", "wrap")  # it runs the file for a snapshot, so that is a capture, too

    def __init__(self, options: Mapping[str, object] | None = None) -> None:
        self._names = (".envrc", ".env") if (options or {}).get("load_dotenv") is True else (".envrc",)

    def detect(self, directory: str) -> Detection | None:
        found = nearest(directory, self._names)
        return found and Detection(found[0], found[1][:1], f"direnv:{found[1][0]}")

    def trust(self, found: Detection, context: Context) -> Trust:
        from shlex import quote

        file = found.files[0]
        content = read(file)
        if content is None:
            why = f"{file} cannot be read, or is larger than {FILE_BYTES} bytes"
            return Trust("untrusted", _TOOL, why=why)
        records = _Records(_tool_env(found, context), context.home)
        digest = f"sha256:{_hash(file, content)}"
        grant = f"direnv allow {quote(file)}"
        if any(os.path.lexists(path) for path in records.denials(file)):
            return Trust("denied", _TOOL, digest, grant, "it was denied with `direnv deny`")
        if os.path.basename(file) == ".env" and not records.load_dotenv:
            why = "direnv loads `.env` only with `load_dotenv = true` in its direnv.toml"
            return Trust("untrusted", _TOOL, digest, why=why)
        if any(os.path.exists(path) for path in records.grants(file, content)) or records.lists(file):
            return Trust("trusted", _TOOL, digest, files={file: content})
        return Trust("untrusted", _TOOL, digest, grant, "its present content is not allowed at this path")

    def plan(self, found: Detection, context: Context) -> list[list[str]]:
        tool = program(_TOOL, context.tool_env) or _TOOL
        asked = [[tool, "export", "json"], [tool, "version"]]
        if context.mode == "wrap":
            asked.append([*_executing(tool, _tool_env(found, context)), "COMMAND"])
        return asked

    def watch(self, found: Detection, context: Context) -> list[str]:
        file = found.files[0]
        records = _Records(_tool_env(found, context), context.home)
        granted = records.grants(file, content) if (content := read(file)) is not None else []
        return [file, *granted, *records.denials(file), *records.settings]

    def resolve(self, found: Detection, context: Context) -> Resolution:
        env = _tool_env(found, context)
        tool = program(_TOOL, env)
        if tool is None:
            note = "direnv is not in PATH: install it, or remove `direnv` from providers.use"
            return Resolution("missing", note=note)
        ran = run_tool([tool, "export", "json"], env["PWD"], env, timeout=context.timeout, mark=context.mark)
        producer = f"{_TOOL} {version(tool, env, context.mark, 'version')}".strip()
        watch = self.watch(found, context)
        # Also of one that failed: what it had loaded by then may be in what it complains about.
        said = _read(ran)
        known = {**context.env, **env, **_texts(said or {})}
        last = tail(ran, known)
        if said is None or not ran.ok:
            note = _failure(ran, found.files[0], context.timeout)
            return Resolution("failed", note=note, watch=watch, producer=producer, stderr_tail=last)
        watched = _watched(said.get("DIRENV_WATCHES"))
        origin = Origin("provider", found.label, found.files[0])
        snapshot = Resolution(
            "applied",
            set=_texts(said),
            unset=sorted(name for name, value in said.items() if value is None and not _own(name)),
            operations=_lists(said, env, origin),
            lost=_lost(found.files[0], watched),
            watch=list(dict.fromkeys((*watch, *watched))),
            producer=producer,
            stderr_tail=last,
        )
        return wrapped(snapshot, _executing(tool, env)) if context.mode == "wrap" else snapshot


# Trust


class _Records:
    """Where direnv keeps what its user has allowed, read as direnv would with this environment."""

    def __init__(self, env: Mapping[str, str], home: str) -> None:
        self._home = env.get("HOME") or home
        data = env.get("XDG_DATA_HOME") or f"{self._home}/.local/share"
        config = env.get("XDG_CONFIG_HOME") or f"{self._home}/.config"
        folder = env.get("DIRENV_CONFIG") or f"{config}/direnv"
        self._data = f"{data}/direnv"
        # Whichever is there first counts, and direnv says what is wrong with it; the last one runs before
        # every .envrc.
        self._files = (f"{folder}/direnv.toml", f"{folder}/config.toml")
        self.settings = [*self._files, f"{folder}/direnvrc"]
        self._said, _ = read_toml(next(filter(os.path.exists, self._files), ""))

    def grants(self, file: str, content: bytes) -> list[str]:
        return [f"{self._data}/allow/{_hash(path, content)}" for path in _spellings(file)]

    def denials(self, file: str) -> list[str]:
        return [f"{self._data}/deny/{_hash(path)}" for path in _spellings(file)]

    def lists(self, file: str) -> bool:
        """Whether the whitelist of direnv.toml has it. Beginnings of paths are compared as direnv does."""
        exact, beginnings = self._listed("exact"), self._listed("prefix")
        for path in _spellings(file):
            if path in exact or (path.endswith("/.envrc") and path.removesuffix("/.envrc") in exact):
                return True
            if any(path.startswith(beginning) for beginning in beginnings if beginning):
                return True
        return False

    @property
    def load_dotenv(self) -> bool:
        return any(said.get("load_dotenv") is True for said in (self._said, table(self._said, "global")))

    def _listed(self, key: str) -> list[str]:
        said = table(self._said, "whitelist").get(key)
        listed = [text for text in said if type(text) is str] if isinstance(said, list) else []
        return [
            os.path.normpath(f"{self._home}/{text[2:]}") if text.startswith("~/") else text for text in listed
        ]


def _spellings(file: str) -> list[str]:
    """The paths that direnv may know a file by: as it is written, and with the folder's links followed."""
    folder, name = os.path.split(file)
    return list(dict.fromkeys((file, os.path.join(os.path.realpath(folder), name))))


def _hash(path: str, content: bytes = b"") -> str:
    import hashlib

    return hashlib.sha256(path.encode("utf-8", "surrogateescape") + b"\n" + content).hexdigest()


# Asking


def _tool_env(found: Detection, context: Context) -> dict[str, str]:
    env = {**context.tool_env, "DIRENV_LOG_FORMAT": ""}
    env.setdefault("HOME", context.home)
    # Newer versions take the folder's path from here, if it is right. It must be the one that was allowed.
    env["PWD"] = found.root
    content = read(found.files[0])
    if content is not None:
        records = _Records(env, context.home)
        grants = records.grants(found.files[0], content)
        for spelling, record in zip(_spellings(found.files[0]), grants, strict=True):
            if os.path.exists(record):
                env["PWD"] = os.path.dirname(spelling)
                break
    return env


def _executing(tool: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """How direnv runs a command. It says what it loads on stderr, every time, unless it is told not to."""
    return (*setting({"DIRENV_LOG_FORMAT": ""}), tool, "exec", env["PWD"])


def _read(ran: Ran) -> dict[str, str | None] | None:
    """The object that direnv prints; empty when it has nothing to say, None when it is none."""
    if not ran.stdout.strip():
        return {}
    said = parsed(ran.stdout.decode("utf-8", "surrogateescape"))
    sound = isinstance(said, dict) and all(value is None or type(value) is str for value in said.values())
    return said if sound else None


def _failure(ran: Ran, file: str, timeout: float) -> str:
    if ran.outcome == "timeout":
        return (
            f"{file} did not finish within {timeout:g} s: it may be waiting for input, for the network, or "
            f"for a program that it started in the background (which must close descriptor 3: `program 3>&- "
            f"&`)"
        )
    if ran.outcome == "too-large":
        return f"{file} makes an environment that is too large to use: export less"
    if ran.outcome == "not-started":
        return f"direnv was not started: {ran.failure}"
    if ran.ok:
        return "direnv printed something other than an environment: is the `direnv` in PATH the real one?"
    how = f"signal {-ran.code}" if ran.code is not None and ran.code < 0 else f"status {ran.code}"
    from shlex import quote

    folder = quote(os.path.dirname(file))
    return f"direnv ended with {how} for {file}: `cd {folder} && direnv reload` shows more"


# What it said


def _texts(said: Mapping[str, str | None]) -> dict[str, str]:
    """The plain variables: no lists, and none of direnv's own bookkeeping."""
    return {
        name: value
        for name, value in sorted(said.items())
        if value is not None and name not in LIST_NAMES and not _own(name)
    }


def _own(name: str) -> bool:
    return bookkeeper(name) == _TOOL


def _lists(said: Mapping[str, str | None], env: Mapping[str, str], origin: Origin) -> list[Operation]:
    return [
        one
        for name, value in sorted(said.items())
        if value is not None and name in LIST_NAMES
        for one in operations(env.get(name), value, name, origin)
    ]


def _watched(packed: str | None) -> list[str]:
    """The paths in DIRENV_WATCHES, existing or not. Their times are whole seconds: of no use."""
    entries = unpack_direnv(packed) if packed else None
    if not isinstance(entries, list):
        return []
    paths = [entry.get("Path", entry.get("path")) for entry in entries if isinstance(entry, dict)]
    return [path for path in paths if type(path) is str and path.startswith("/")][:_WATCHED]


def _lost(file: str, watched: Iterable[str]) -> list[Lost]:
    """Functions that an .envrc exports, as far as its text shows: direnv leaves them out of its answer."""
    files = dict.fromkeys((file, *(path for path in watched if os.path.basename(path).startswith(".envrc"))))
    names: dict[str, None] = {}
    for path in files:
        text = (read(path) or b"").decode("utf-8", "replace")
        for line in text.splitlines()[:_LINES]:
            for part in line.partition("#")[0].split(";"):
                names.update(dict.fromkeys(_exported_functions(part.split())))
    return [Lost("function", name) for name in names]


def _exported_functions(words: Sequence[str]) -> list[str]:
    if len(words) < 3 or words[0] not in ("export", "declare", "typeset") or not words[1].startswith("-"):
        return []
    flags = words[1][1:] + ("x" if words[0] == "export" else "")
    return [word for word in words[2:] if word.isidentifier()] if {"f", "x"} <= set(flags) else []
