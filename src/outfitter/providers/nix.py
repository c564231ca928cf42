"""nix: the shell of a flake, `shell.nix` or `default.nix`, as data. And its relatives devenv and devbox.

`nix print-dev-env --json` gives the environment of a *build*: without HOME and TMPDIR of anyone, with a PATH
that goes in front of ours. To print it, nix builds a derivation and so runs the project's code, outside of
any sandbox on some systems: it needs our own trust, as nix has none for projects. It never asks the network.

A flake in a git checkout is read as `git+file:`, as nix itself does for a plain path: nix copies what it
reads into its store, where every user of the machine can read it, and of a checkout that are the files git
knows. As `path:` it would copy the whole folder, with every `.env` file, key and build product in it. It
was tried with nix 2.8: `git+file:` needs no network, works in worktrees, with staged and with changed
files, without any commit, in folders of any name, and with `shallow=1` in shallow clones, too. What it
costs is that files which git does not know are not there, for nix at the prompt neither; `git add
--intent-to-add` makes them known. Only outside of a checkout is a flake read as `path:`.
"""

from __future__ import annotations

import os

from ..env.layer import Operation
from ..env.origin import Origin
from ..host.tools.tool import run_tool
from ..record import replace
from ..shell.activation import bookkeeper
from .base import MODES, SECONDS, Lost, Resolution, Trust
from .capturing import EVALUATE, captured
from .files import program, read, upwards
from .manifests import Marked, covered, names, parsed, read_text
from .tool import failed, tail, version, without
from .wrapping import setting, wrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .base import Context, Detection

BUILD_SECONDS = 300.0  # nix may have something to build
_NOISE = "building '"  # what nix says whenever it works
_MANIFESTS = ("flake.nix", "flake.lock", "shell.nix", "default.nix")
# Other files of the language, which the manifests import: all of them count, or nothing runs. A shell has a
# few dozen; to read so many takes 10 ms.
_MOST_FILES = 500
# Where they are looked for: 20 us for each folder, and 1 us for each name in it.
_MOST_FOLDERS = 1000
_DEEPEST = 16
_MOST_NAMES = 50_000
_LARGEST_FILE = 4 << 20
_SKIPPED = frozenset(("node_modules", "target", "result"))

_NIX = ("nix", "--extra-experimental-features", "nix-command flakes")
_SAFELY = (
    *("--offline", "--no-write-lock-file"),
    *("--option", "accept-flake-config", "false", "--option", "download-attempts", "1"),
)
# `develop` looks for an interactive bash in the registry, and would download that: there is none there.
_NO_REGISTRY = ("--option", "flake-registry", "/dev/null/none")
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
# What the shell form sets for its own: everything else that it leaves is the hook's.
_OF_THE_SHELL = _OF_THE_BUILD - {"HOME", "TERM", "TZ", "SSL_CERT_FILE", "TMP", "TMPDIR", "TEMP", "TEMPDIR"}
_TEMPORARY = ("TMP", "TMPDIR", "TEMP", "TEMPDIR")
# It makes a folder for temporary files, which nobody would remove.
_HOOKED = f"""\
__outfitter_in=$1; \\builtin shift; {EVALUATE.replace('$("$@")', '$(cd -- "$__outfitter_in" && "$@")')}
case ${{NIX_BUILD_TOP-}} in */nix-shell.*) rmdir -- "$NIX_BUILD_TOP" 2>/dev/null ;; esac"""
_NOT_SET = frozenset(("/path-not-set", "/no-cert-file.crt"))  # nix's words for nothing


class Nix(Marked):
    """See the module. Its one option is the name of a flake's shell: what is behind the `#`."""

    id = "nix"
    rank = 40
    modes = MODES
    labelled_by_file = True

    def detect(self, directory: str) -> Detection | None:
        found = super().detect(directory)
        if found is None or os.path.basename(found.files[0]) != "default.nix":
            return found
        return replace(
            found, note="default.nix may be a package and not a shell: its build environment is used"
        )

    def trust(self, found: Detection, context: Context) -> Trust:
        from shlex import quote

        runs = " and its shellHook" * (context.mode != "snapshot")
        sources = _Sources(found.root)
        if sources.beyond:
            return _beyond_bounds("nix", found, sources)
        digest, files = _covered(sources, context.mode)
        return Trust(
            "untrusted",
            "outfitter",
            digest,
            f"outfitter trust {quote(found.root)}",
            f"nix evaluates {found.files[0]}{runs} to print its environment",
            files,
        )

    def plan(self, found: Detection, context: Context) -> list[list[str]]:
        asked = [[*_NIX, "print-dev-env", "--json", *_SAFELY, *_Source(found, context).arguments()]]
        if context.mode == "capture":
            asked.append(["bash", "-c", _HOOKED, "bash", *_printing(found, context, "nix")])
        if context.mode == "wrap":
            asked.append([*_developing(found, context, "nix"), "COMMAND"])
        return asked

    def watch(self, found: Detection, context: Context) -> list[str]:
        settings = context.tool_env.get("XDG_CONFIG_HOME") or os.path.join(context.home, ".config")
        watched = [os.path.join(found.root, name) for name in (*_MANIFESTS, "devshell.toml")]
        sources = _Sources(found.root)
        watched += [os.path.join(found.root, name) for name in sources.files]
        if context.mode == "wrap":  # nix is not only asked once
            watched += [os.path.join(found.root, folder) for folder in sources.listed]
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
        env = {
            name: value for name, value in context.tool_env.items() if not name.lower().endswith("_proxy")
        } | _NO_NETWORK
        producer = f"nix {version(tool, env, context.mark)}".strip()
        source = _Source(found, context)
        [_, *arguments] = self.plan(found, context)[0]
        limit = BUILD_SECONDS if context.timeout == SECONDS else context.timeout
        ran = run_tool([tool, *arguments], source.folder, env, timeout=limit, mark=context.mark)
        if not ran.ok:
            look = _shell_command(found, context)
            what = (
                f"nix gave no environment without the network: `{look}` fetches and builds what is missing, "
                "or shows the error"
            )
            if source.of_git:
                what += "; nix sees only files that git tracks (`git add --intent-to-add` is enough)"
                watch.append(source.index())
            return failed(ran, context, what, watch, producer=producer)
        said = _parse(ran.stdout)
        if said is None:
            note = f"{producer} printed an unexpected answer: report this with the version"
            return Resolution("failed", note=note, watch=watch, producer=producer)
        snapshot = mapped(*said, watch=watch, producer=producer)
        snapshot = replace(
            snapshot, stderr_tail=tail(ran, {**context.env, **snapshot.set}, without(ran.stderr, _NOISE))
        )
        if context.mode == "capture":
            return _hooked(found, context, tool, said[0], snapshot, limit)
        if context.mode == "wrap":
            return _wrapped(found, context, tool, snapshot)
        return snapshot


# The other modes


def _printing(found: Detection, context: Context, tool: str) -> list[str]:
    """Has nix print its shell's text: arguments of `_HOOKED`. Its hook may use the network, nix may not."""
    source = _Source(found, context)
    own = setting(_NO_NETWORK)
    return [source.folder, *own, tool, *_NIX[1:], "print-dev-env", *_SAFELY, *source.arguments()]


def _developing(found: Detection, context: Context, tool: str) -> list[str]:
    arguments = _Source(found, context).arguments(absolute=True)
    return [tool, *_NIX[1:], "develop", *_SAFELY, *_NO_REGISTRY, *arguments, "-c"]


def _hooked(
    found: Detection,
    context: Context,
    tool: str,
    variables: Mapping[str, Any],
    snapshot: Resolution,
    limit: float,
) -> Resolution:
    """What nix's own shell has, once its shellHook has run."""
    outputs = variables.get("outputs")
    named = outputs.get("value", "") if type(outputs) is dict else ""
    dropped = {*_OF_THE_SHELL, *_PLUMBING, *(named.split() if type(named) is str else ())}
    said = captured(
        _HOOKED,
        _printing(found, context, tool),
        found.root,
        context,
        origin=Origin("provider", found.label, found.files[0]),
        remedy=f"`{_shell_command(found, context)}` runs the same shellHook",
        snapshot=snapshot,
        env=context.tool_env,
        dropped=dropped,
        timeout=limit,
    )
    return replace(
        said,
        set={
            name: value
            for name, value in said.set.items()
            if value not in _NOT_SET and not (name in _TEMPORARY and "/nix-shell." in value)
        },
        operations=tuple(
            replace(one, values=tuple(value for value in one.values if value not in _NOT_SET))
            for one in said.operations
        ),
    )


def _wrapped(found: Detection, context: Context, tool: str, snapshot: Resolution) -> Resolution:
    if _Source(found, context).writable:
        return wrapped(snapshot, _developing(found, context, tool))
    what = f"nix cannot refer to {found.root} because of characters in its name"
    note = f"{what}: rename it, or use another mode"
    return Resolution("failed", note=note, watch=snapshot.watch, producer=snapshot.producer)


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
    # `nix develop -c` starts a program, which does not know functions that are not exported.
    lost = [Lost("function", name, "session") for name in functions]
    hook = variables.get("shellHook")
    if type(hook) is dict and hook.get("value"):
        lost.insert(0, Lost("hook", "shellHook", "capture"))
    note = "shellHook is not run; it may set more variables" if lost and lost[0].kind == "hook" else ""
    return Resolution(
        "applied",
        set=values,
        operations=prepended,
        lost=lost,
        watch=tuple(dict.fromkeys((*watch, *vanishing))),
        producer=producer,
        note=note,
    )


def _parse(printed: bytes) -> tuple[dict[str, Any], list[str]] | None:
    said = parsed(printed)
    variables = said.get("variables") if type(said) is dict else None
    if type(variables) is not dict:
        return None
    functions = said.get("bashFunctions")
    return variables, sorted(functions) if type(functions) is dict else []


class _Source:
    """How nix is told what to read, and in which `folder` it must be started then."""

    def __init__(self, found: Detection, context: Context) -> None:
        self._root = found.root
        self._entry = os.path.basename(found.files[0])
        self._shell = context.option()
        self._checkout = _checkout(found.root) if self._entry == "flake.nix" else ""
        self.of_git = bool(self._checkout)
        self.folder = self._checkout or found.root

    @property
    def writable(self) -> bool:
        """Whether `arguments` can be absolute.

        `path:` has no way to write odd characters. `git+file:` seems to have, but then nix clones the folder
        and reads what was committed, without what has changed since.
        """
        from urllib.parse import quote

        return self._entry != "flake.nix" or quote(os.fsencode(self.folder)) == self.folder

    def index(self) -> str:
        """The file that says what git knows; a worktree's is elsewhere."""
        git = os.path.join(self.folder, ".git")
        elsewhere = (read_text(git) or "").strip().removeprefix("gitdir: ")
        return os.path.join(self.folder, elsewhere or git, "index")

    def arguments(self, *, absolute: bool = False) -> list[str]:
        """From the folder, where the path needs no writing; or with `absolute`, from anywhere."""
        if self._entry != "flake.nix":
            return ["-f", f"{self._root if absolute else '.'}/{self._entry}"]
        shell = f"#{self._shell}" if self._shell else ""
        if not self.of_git:
            return [f"path:{self._root if absolute else '.'}{shell}"]
        from urllib.parse import quote

        where = f"//{self.folder}" if absolute else "."
        below = os.path.relpath(self._root, self.folder)
        within = "" if below == "." else f"&dir={quote(os.fsencode(below))}"
        return [f"git+file:{where}?shallow=1{within}{shell}"]


def _checkout(root: str) -> str:
    """The git checkout that a folder is in; "" when it is in none."""
    folder = list(upwards(root))[-1]
    git = os.path.join(folder, ".git")
    # A worktree has a file there.
    return folder if os.path.isfile(git) or os.path.isfile(os.path.join(git, "HEAD")) else ""


def _shell_command(found: Detection, context: Context) -> str:
    """What a person types for the same shell."""
    from shlex import quote

    shell = context.option()
    entry = os.path.basename(found.files[0])
    if entry != "flake.nix":
        return f"cd {quote(found.root)} && nix-shell {entry}"
    source = "" if _Source(found, context).of_git else "path:."
    reference = f"{source or '.'}#{shell}" if shell else source
    return f"cd {quote(found.root)} && nix develop {reference and quote(reference)}".rstrip()


# What trust is bound to


class _Sources:
    """The `files` of nix's language below a project, the nearest first; and the folders where they were
    looked for, `listed` with all names there. `beyond` says which bound was met before all were seen."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.files: list[str] = []
        self.listed: dict[str, list[str]] = {}
        self.beyond = ""
        seen, level = 0, [""]
        for _ in range(_DEEPEST):
            below: list[str] = []
            for folder in level:
                there = self.listed[folder] = names(os.path.join(root, folder))
                seen += len(there)
                if seen > _MOST_NAMES:
                    self.beyond = f"more than {_MOST_NAMES:,} files and directories"
                    return
                for name in there:
                    self._look(os.path.join(folder, name), name, below)
            if len(self.listed) + len(below) > _MOST_FOLDERS:
                self.beyond = f"more than {_MOST_FOLDERS:,} directories"
            if len(self.files) > _MOST_FILES:
                self.beyond = f"more than {_MOST_FILES} .nix files"
            if self.beyond:
                return
            level = below
        if level:
            self.beyond = f"directories deeper than {_DEEPEST} levels, as {level[0]}"

    def _look(self, path: str, name: str, below: list[str]) -> None:
        whole = os.path.join(self.root, path)
        if name.endswith(".nix"):
            self.files.append(path)
            if os.path.isfile(whole) and os.path.getsize(whole) > _LARGEST_FILE:
                self.beyond = f"a .nix file of more than {_LARGEST_FILE >> 20} MiB, {path}"
        elif name[0] != "." and name not in _SKIPPED and os.path.isdir(whole) and not os.path.islink(whole):
            below.append(path)

    def closed(self) -> dict[str, bytes | None]:
        """The folders that nothing may come into once they were looked at: nix can read the names in a
        folder, and import what is there."""
        return {
            os.path.join(self.root, folder, ""): os.fsencode("".join(f"{name}\0" for name in there))
            for folder, there in self.listed.items()
        }


def _beyond_bounds(id: str, found: Detection, sources: _Sources) -> Trust:
    """Nothing of it runs: some of its code would be what nobody has looked at."""
    why = (
        f"{id} does not run, because not all of its code can be checked: {found.root} has {sources.beyond}. "
        "Remove what does not belong there, or have direnv run it, from an .envrc that you allow"
    )
    return Trust("denied", why=why)


def _covered(sources: _Sources, mode: str) -> tuple[str, dict[str, bytes | None]]:
    """A digest of names as seen from the project, and of contents: the same in another checkout of the same
    files. And of the mode, for those that run more than a snapshot does. And the files.
    """
    from hashlib import sha256

    total = sha256(b"" if mode == "snapshot" else mode.encode() + b"\n")
    files: dict[str, bytes | None] = {}
    for name in dict.fromkeys((*_MANIFESTS, *sources.files)):
        path = os.path.join(sources.root, name)
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            files[path] = None
            continue
        data = read(path, _LARGEST_FILE)
        if data is not None:
            files[path] = data
        else:  # too large, or no file: what the kernel says about it has to do
            data = b"?%d:%d:%d" % (found.st_ino, found.st_size, found.st_ctime_ns)
        for part in (os.fsencode(name), data):
            total.update(b"%d:" % len(part) + part)
    return f"sha256:{total.hexdigest()}", files | sources.closed()


# Relatives


class _Relative(Marked):
    """A tool on top of nix that prints its environment as the text of a shell: only a capture can tell it."""

    rank = 0
    modes = ("snapshot", "capture")  # a snapshot only tells that a capture is needed
    labelled_by_file = True
    _printing: tuple[str, ...] = ()

    def trust(self, found: Detection, context: Context) -> Trust:
        if context.mode != "capture":
            return Trust("not-needed")
        sources = _Sources(found.root)
        if sources.beyond:
            return _beyond_bounds(self.id, found, sources)
        paths = [*self.watch(found, context), *(os.path.join(found.root, one) for one in sources.files)]
        digest, read = covered(dict.fromkeys(paths), root=found.root)
        why = f"{self.id} runs {found.files[0]} to print its environment"
        return Trust("untrusted", "outfitter", digest, why=why, files=read | sources.closed())

    def plan(self, found: Detection, context: Context) -> list[list[str]]:
        if context.mode != "capture":
            return []
        return [["bash", "-c", EVALUATE, "bash", *self._argv(context, self.id)]]

    def resolve(self, found: Detection, context: Context) -> Resolution:
        watch = self.watch(found, context)
        if context.mode != "capture":
            note = f'{self.id} prints no environment: write {self.id} = "capture" in [providers.modes]'
            return Resolution("not-applicable", note=note, watch=watch)
        tool = program(self.id, context.tool_env)
        if tool is None:
            return Resolution("missing", note=f"{self.id} is not installed, or not in PATH", watch=watch)
        said = captured(
            EVALUATE,
            self._argv(context, tool),
            found.root,
            context,
            origin=Origin("provider", found.label, found.files[0]),
            remedy=f"`{' '.join((self.id, *self._printing))}` in {found.root} must work without the network",
            timeout=BUILD_SECONDS if context.timeout == SECONDS else 0.0,
            dropped=[name for name in _OF_THE_SHELL if name != "PATH"],
        )
        return replace(
            said,
            set={name: value for name, value in said.set.items() if bookkeeper(name) != self.id},
            watch=tuple(watch),
            producer=f"{self.id} {version(tool, context.tool_env, context.mark)}".strip(),
        )

    def _argv(self, context: Context, tool: str) -> list[str]:
        return [*setting(_NO_NETWORK), tool, *self._printing]


class Devenv(_Relative):
    """`devenv print-dev-env`. It is as its documentation has it: none was at hand to be asked."""

    id = "devenv"
    rank = 30
    _printing = ("print-dev-env",)


class Devbox(_Relative):
    """`devbox shellenv`, with its hook. It is as its documentation has it: none was at hand to be asked."""

    id = "devbox"
    rank = 31
    refused: Mapping[str, str] = {"wrap": "`devbox run` passes the arguments through another shell"}
    _printing = ("shellenv", "--init-hook")
