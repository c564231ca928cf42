"""nix: the shell of a flake, `shell.nix` or `default.nix`, as data. And its relatives devenv and devbox.

`nix print-dev-env --json` gives the environment of a *build*: without HOME and TMPDIR of anyone, with a PATH
that goes in front of ours. To print it, nix builds a derivation and so runs the project's code, outside of
any sandbox on some systems: it needs our own trust, as nix has none for projects. It never asks the network.
"""

from __future__ import annotations

import os

from ..env.layer import Operation
from ..host.tool import run_tool
from .base import SECONDS, Detection, Lost, Resolution, Trust
from .files import program, read, upwards
from .manifests import names, option, present
from .tool import failed, version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .base import Context

BUILD_SECONDS = 300.0  # nix may have something to build
_MANIFESTS = ("flake.nix", "flake.lock", "shell.nix", "default.nix")
_ENTRIES = ("flake.nix", "shell.nix", "default.nix")
# Other files of the language, which the manifests import: so many, so deep.
_MOST_FILES = 200
_MOST_FOLDERS = 200
_DEEPEST = 4
_LARGEST_FILE = 4 << 20
_SKIPPED = frozenset(("node_modules", "target", "result"))

_NIX = ("nix", "--extra-experimental-features", "nix-command flakes")
_SAFELY = (
    *("--offline", "--no-write-lock-file"),
    *("--option", "accept-flake-config", "false", "--option", "download-attempts", "1"),
)
# `--offline` is about binary caches only: inputs that are not there yet would be fetched. A proxy that nobody
# can speak to ends that before a name is looked up, and git has a switch of its own.
_NO_NETWORK = {
    **dict.fromkeys(("http_proxy", "https_proxy", "ftp_proxy", "all_proxy"), "offline://"),
    "GIT_ALLOW_PROTOCOL": "file",
}

# A build has these and a person has others. The first line is what nix's own shell drops, too.
_OF_THE_BUILD = frozenset(
    (
        *("HOME", "TMP", "TMPDIR", "TEMP", "TEMPDIR", "TERM", "NIX_BUILD_TOP", "NIX_LOG_FD"),
        *("BASHOPTS", "SHELLOPTS", "NIX_ENFORCE_PURITY", "NIX_REMOTE", "PPID", "UID", "TZ"),
        *("SSL_CERT_FILE", "SHELL", "PWD", "OLDPWD", "SHLVL", "_"),
    )
)
# How nix tells a builder what to build; `outputs` names more of them.
_PLUMBING = frozenset(("builder", "name", "out", "outputs", "stdenv", "system", "shellHook"))
_PREPENDED = ("PATH", "XDG_DATA_DIRS")
_NOT_SET = frozenset(("/path-not-set", "/no-cert-file.crt"))  # nix's words for nothing


class Nix:
    """See the module. Its one option is the name of a flake's shell: `path:.#NAME`."""

    id = "nix"
    rank = 40

    def detect(self, directory: str) -> Detection | None:
        for folder in upwards(directory):
            files = present(folder, _ENTRIES)
            if files:
                only = os.path.basename(files[0]) == "default.nix"
                note = "default.nix may be a package and not a shell: its build environment is taken" * only
                return Detection(folder, files, f"nix:{files[0]}", note)
        return None

    def trust(self, found: Detection, context: Context) -> Trust:
        return Trust(
            "untrusted",
            "outfitter",
            _digest(found.root),
            f"outfitter trust {found.root}",
            f"nix runs what {found.files[0]} says to tell its environment",
        )

    def plan(self, found: Detection, context: Context) -> list[list[str]]:
        return [[*_NIX, "print-dev-env", "--json", *_SAFELY, *_installable(found, context, ".")]]

    def watch(self, found: Detection, context: Context) -> list[str]:
        settings = context.tool_env.get("XDG_CONFIG_HOME") or os.path.join(context.home, ".config")
        watched = [os.path.join(found.root, name) for name in (*_MANIFESTS, "devshell.toml")]
        watched += [os.path.join(found.root, name) for name in _sources(found.root)]
        for folder in (f"{settings}/nix", context.tool_env.get("NIX_CONF_DIR") or "/etc/nix"):
            watched += [f"{folder}/nix.conf", f"{folder}/registry.json"]
        tool = program("nix", context.tool_env)
        if tool:
            watched.append(tool)
        return list(dict.fromkeys(watched))

    def resolve(self, found: Detection, context: Context) -> Resolution:
        watch = self.watch(found, context)
        tool = program("nix", context.tool_env)
        if tool is None:
            note = "nix is not installed, or not in PATH: see https://nixos.org/download"
            return Resolution("missing", note=note, watch=watch)
        env = {name: value for name, value in context.tool_env.items() if not _is_proxy(name)} | _NO_NETWORK
        producer = f"nix {version(tool, env)}".strip()
        [[_, *arguments]] = self.plan(found, context)
        limit = BUILD_SECONDS if context.timeout == SECONDS else context.timeout
        # `path:.` with the folder as working directory: a reference has no way to write odd characters.
        ran = run_tool([tool, *arguments], found.root, env, timeout=limit, mark=context.mark)
        if not ran.ok:
            look = _shell_command(found, context)
            what = (
                "nix could not tell the environment without the network: "
                f"`{look}` fetches and builds what is missing, or shows what is wrong"
            )
            return failed(ran, context, what, watch, producer=producer)
        said = _parse(ran.stdout)
        if said is None:
            note = f"{producer} printed something else than expected: report it, with the version"
            return Resolution("failed", note=note, watch=watch, producer=producer)
        return mapped(*said, watch=watch, producer=producer)

    def wrap(self, found: Detection, argv: Sequence[str]) -> list[str] | None:
        if not found.root.replace("/", "").replace("-", "").replace("_", "").replace(".", "").isalnum():
            return None  # nix would read the rest of the path as something else
        return [*_NIX, "develop", *_SAFELY, *_installable(found, None, found.root), "-c", *argv]


def mapped(
    variables: Mapping[str, Any], functions: Sequence[str], *, watch: Sequence[str] = (), producer: str = ""
) -> Resolution:
    """What a build's environment means for a command."""
    exported = {
        name: entry["value"]
        for name, entry in variables.items()
        if type(entry) is dict and entry.get("type") == "exported" and type(entry.get("value")) is str
    }
    dropped = {*_OF_THE_BUILD, *_PLUMBING, *exported.get("outputs", "").split()}
    values = {
        name: value
        for name, value in exported.items()
        if name not in dropped and name not in _PREPENDED and value not in _NOT_SET
    }
    prepended = []
    vanishing: list[str] = []  # what a collection of garbage takes away
    for name in _PREPENDED:
        entries = tuple(one for one in exported.get(name, "").split(":") if one and one not in _NOT_SET)
        vanishing += entries
        if entries:
            prepended.append(Operation(name, "prepend", entries))
    lost = [Lost("function", name) for name in functions]
    hook = variables.get("shellHook")
    if type(hook) is dict and hook.get("value"):
        lost.insert(0, Lost("hook", "shellHook"))
    note = "shellHook is not run, and may set more" if lost and lost[0].kind == "hook" else ""
    return Resolution(
        "applied",
        set=values,
        operations=prepended,
        lost=lost,
        watch=tuple(dict.fromkeys((*watch, *vanishing))),
        producer=producer,
        note=note,
    )


def _is_proxy(name: str) -> bool:
    return name.lower().endswith("_proxy")


def _parse(printed: bytes) -> tuple[dict[str, Any], list[str]] | None:
    import json

    try:
        said = json.loads(printed)
    except (ValueError, RecursionError):
        return None
    variables = said.get("variables") if type(said) is dict else None
    if type(variables) is not dict:
        return None
    functions = said.get("bashFunctions")
    return variables, sorted(functions) if type(functions) is dict else []


def _installable(found: Detection, context: Context | None, root: str) -> list[str]:
    entry = os.path.basename(found.files[0])
    if entry != "flake.nix":
        return ["-f", f"{root}/{entry}"]
    shell = option(context.options) if context is not None else ""
    return [f"path:{root}#{shell}" if shell else f"path:{root}"]


def _shell_command(found: Detection, context: Context) -> str:
    """What a person types for the same shell."""
    from shlex import quote

    shell = option(context.options)
    entry = os.path.basename(found.files[0])
    if entry != "flake.nix":
        return f"cd {quote(found.root)} && nix-shell {entry}"
    return f"cd {quote(found.root)} && nix develop {quote(f'path:.#{shell}' if shell else 'path:.')}"


# What trust is bound to


def _sources(root: str) -> list[str]:
    """The files of nix's language below a project, the nearest first, as far as somebody would look."""
    found: list[str] = []
    level = [""]
    folders = 0
    for _ in range(_DEEPEST):
        below: list[str] = []
        for folder in level:
            folders += 1
            for name in names(os.path.join(root, folder)):
                path = os.path.join(folder, name)
                if name.endswith(".nix") and len(found) < _MOST_FILES:
                    found.append(path)
                elif name[0] != "." and name not in _SKIPPED and folders + len(below) < _MOST_FOLDERS:
                    whole = os.path.join(root, path)
                    if os.path.isdir(whole) and not os.path.islink(whole):
                        below.append(path)
        level = below
    return found


def _digest(root: str) -> str:
    """Of names as seen from the project, and of contents: the same in another checkout of the same files."""
    from hashlib import sha256

    total = sha256()
    for name in dict.fromkeys((*_MANIFESTS, *_sources(root))):
        path = os.path.join(root, name)
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            continue
        data = read(path, _LARGEST_FILE)
        if data is None:  # too large, or no file: what the kernel says about it has to do
            data = b"?%d:%d:%d" % (found.st_ino, found.st_size, found.st_ctime_ns)
        for part in (os.fsencode(name), data):
            total.update(b"%d:" % len(part) + part)
    return f"sha256:{total.hexdigest()}"


# Relatives


class _Relative:
    """A tool on top of nix that has no data to give yet: it is named, and its own command is the way."""

    id = ""
    rank = 0
    _files: tuple[str, ...] = ()
    _prefix: tuple[str, ...] = ()

    def detect(self, directory: str) -> Detection | None:
        for folder in upwards(directory):
            files = present(folder, self._files)
            if files:
                return Detection(folder, files, f"{self.id}:{files[0]}", self._note())
        return None

    def _note(self) -> str:
        return f"{self.id} gives no data: run commands as `{' '.join(self._prefix)} COMMAND` for now"

    def trust(self, found: Detection, context: Context) -> Trust:
        return Trust("not-needed")

    def plan(self, found: Detection, context: Context) -> list[list[str]]:
        return []

    def watch(self, found: Detection, context: Context) -> list[str]:
        return [os.path.join(found.root, name) for name in self._files]

    def resolve(self, found: Detection, context: Context) -> Resolution:
        return Resolution("not-applicable", note=self._note(), watch=self.watch(found, context))

    def wrap(self, found: Detection, argv: Sequence[str]) -> list[str] | None:
        return [*self._prefix, *argv]


class Devenv(_Relative):
    id = "devenv"
    rank = 30
    _files = ("devenv.nix", "devenv.yaml", "devenv.lock")
    _prefix = ("devenv", "shell", "--")


class Devbox(_Relative):
    id = "devbox"
    rank = 31
    _files = ("devbox.json", "devbox.lock")
    _prefix = ("devbox", "run", "--")
