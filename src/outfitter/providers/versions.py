"""Version files of languages, without the managers' shims: the folder of the installed version, put on PATH.

`.tool-versions` (asdf), `.python-version` (pyenv), `.ruby-version` (rbenv), `.nvmrc` (nvm, fnm) and
`.node-version` (nodenv, fnm, nvm). The managers' folders are read the way they read them; none of them is
run, so nothing needs trust, and a version that is not installed is known before the command, not in it.
"""

from __future__ import annotations

import os

from ..env.layer import Operation
from ..env.origin import Origin
from ..record import EMPTY, KW_ONLY, record
from .base import Detection, Lost, ReadsFiles, Resolution
from .files import nearest
from .manifests import absolute, names, read_text, typed
from .owned import is_own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .base import Context

FILES = (".tool-versions", ".python-version", ".ruby-version", ".nvmrc", ".node-version")
# How the names of what pyenv installs begin, where that is not a number; others are virtual environments.
_PYTHONS = (
    *("activepython", "anaconda", "cinder", "graalpy", "ironpython", "jython", "mambaforge", "micropython"),
    *("miniconda", "miniforge", "nogil", "pypy", "pyston", "python-", "stackless"),
)
_RANGE = ("<", ">", "=", "^", "~", "!")  # how ranges begin, which no manager of Node takes
_ALIASES = 10  # one may stand for another; nvm gives up at a circle, too


@record
class _Found:
    """What a version file comes to. Without a manager nobody minds the file; `missing` are not installed.

    `behind` are folders of versions behind `system`: what the system has comes first. `wrong` is what its
    manager would not take, and what to write instead.
    """

    manager: str = ""
    folders: Sequence[str] = ()
    missing: Sequence[str] = ()  # each with what installs it
    _: KW_ONLY
    behind: Sequence[str] = ()
    wrong: str = ""
    line: int = 1
    values: Mapping[str, str] = EMPTY
    lost: Sequence[Lost] = ()
    watch: Sequence[str] = ()


class Versions(ReadsFiles):
    """One provider for all of them: `versions`, from the nearest folder that has such a file."""

    id = "versions"
    rank = 70
    refused: Mapping[str, str] = {
        "wrap": "a shim costs every command 60 to 165 ms and changes its environment"
    }

    def detect(self, directory: str) -> Detection | None:
        found = nearest(directory, FILES)
        return found and Detection(*found, f"versions:{found[0]}")

    def watch(self, found: Detection, context: Context) -> list[str]:
        return [os.path.join(found.root, name) for name in FILES]

    def resolve(self, found: Detection, context: Context) -> Resolution:
        here = _Managers(context.env, context.home, found.root)
        operations, origins = [], {}
        values: dict[str, str] = {}
        managers, unmanaged, missing = [], [], []
        lost: list[Lost] = []
        watch = self.watch(found, context)
        for path in found.files:
            name = os.path.basename(path)
            if name == ".node-version" and ("nvm" in managers or "fnm" in managers):
                continue  # .nvmrc has said it
            text = read_text(path)
            if text is None or not text.strip():
                return Resolution("failed", note=f"{path} contains no version: write one", watch=watch)
            read = _READERS[name](here, text)
            for one in [_Found()] if read is None else read:
                watch += one.watch
                if not one.manager:
                    unmanaged.append(name)
                    continue
                if one.wrong:
                    return Resolution("failed", note=f"{path}:{one.line}: {one.wrong}", watch=watch)
                managers.append(one.manager)
                missing += [f"{what} ({path}:{one.line})" for what in one.missing]
                lost += one.lost
                origin = Origin("provider", f"{one.manager}: {name}", path, one.line)
                values.update(one.values)
                origins.update(dict.fromkeys(one.values, origin))
                if one.folders:
                    operations.append(Operation("PATH", "prepend", tuple(one.folders), origin))
                if one.behind:
                    operations.append(Operation("PATH", "append", tuple(one.behind), origin))
        if not managers:
            note = f"no installed version manager reads {', '.join(unmanaged) or 'it'}"
            return Resolution("not-applicable", note=note, watch=watch)
        if missing:
            return Resolution("missing", note=f"not installed: {'; '.join(missing)}", watch=watch)
        return Resolution(
            "applied",
            set=values,
            operations=operations,
            origins=origins,
            lost=lost,
            watch=list(dict.fromkeys(watch)),
            producer=", ".join(dict.fromkeys(managers)),
            note=f"no installed version manager reads {', '.join(unmanaged)}" if unmanaged else "",
            own=all(here.has_installed(folder) for one in operations for folder in one.values),
        )


class _Managers:
    """Where the managers keep what they installed: their variables, or the usual places below home."""

    def __init__(self, env: Mapping[str, str], home: str, root: str) -> None:
        self.home = home
        self.root = root
        self.asdf = self._place(env, "ASDF_DATA_DIR", ".asdf")
        self.pyenv = self._place(env, "PYENV_ROOT", ".pyenv")
        self.rbenv = self._place(env, "RBENV_ROOT", ".rbenv")
        self.nodenv = self._place(env, "NODENV_ROOT", ".nodenv")
        # Only one place is nvm's without its variable: the other is where its installer puts it by XDG rules.
        config = os.path.join(env.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "nvm")
        self.nvm = self._place(env, "NVM_DIR", ".nvm")
        if "NVM_DIR" not in env and not os.path.isdir(self.nvm) and os.path.isdir(config):
            self.nvm = config
        data = env.get("XDG_DATA_HOME") or os.path.join(home, ".local/share")
        self.fnm = env.get("FNM_DIR") or os.path.join(data, "fnm")

    def has_installed(self, folder: str) -> bool:
        """Whether a folder is one that the user has installed: a file chose it, and brought nothing along."""
        path = os.path.normpath(folder)
        places = (self.asdf, self.pyenv, self.rbenv, self.nodenv, self.nvm, self.fnm)
        return any(path.startswith(f"{place}/") for place in places) or is_own(folder)

    def _place(self, env: Mapping[str, str], variable: str, usual: str) -> str:
        value = env.get(variable, "")
        return os.path.normpath(value) if os.path.isabs(value) else os.path.join(self.home, usual)


# pyenv, rbenv, nodenv: a folder per version


def _pyenv(here: _Managers, text: str) -> list[_Found] | None:
    # Several versions may be named, and "3.11" is the newest installed 3.11.
    words = [word for line in text.splitlines() for word in line.partition("#")[0].split()]
    return _of_words("pyenv", here.pyenv, words, "python-")


def _of_words(manager: str, root: str, words: Sequence[str], prefix: str) -> list[_Found] | None:
    folder = os.path.join(root, "versions")
    if not os.path.isdir(folder):
        return None
    folders: list[str] = []
    behind: list[str] = []
    missing = []
    for place, word in enumerate(words):
        if word == "system":
            continue
        bare = word.removeprefix(prefix)
        # In the managers' order; nodenv allows a `v` in front.
        spelled = (word, bare, bare.removeprefix("v") if manager == "nodenv" else bare)
        path = next((path for one in spelled if (path := _version(folder, one))), "")
        if not path and manager == "pyenv" and _plain(bare):
            path = _newest(folder, [name for name in names(folder) if name.startswith(f"{bare}.")])
        if path:
            (behind if "system" in words[:place] else folders).append(os.path.join(path, "bin"))
        else:
            missing.append(f"{manager} {word}: {_how_to_have(manager, word)}")
    return [_Found(manager, folders, missing, behind=behind, watch=(folder, *folders, *behind))]


def _how_to_have(manager: str, word: str) -> str:
    if manager == "pyenv" and not word[:1].isdigit() and not word.startswith(_PYTHONS):
        return f"`pyenv virtualenv {typed(word)}` makes a virtual environment with this name"
    return f"`{manager} install {typed(word)}`"


def _version(folder: str, name: str) -> str:
    """The folder of a version; "" when there is none, or its name leads elsewhere."""
    if not name or name.startswith("/") or ".." in name.split("/") or ":" in name or name in (".", ""):
        return ""
    path = os.path.join(folder, name)
    return path if os.path.isdir(path) else ""


def _plain(name: str) -> bool:
    return bool(name) and "/" not in name and ".." not in name


def _numbers(name: str) -> tuple[int, ...] | None:
    """1.2.3 or v1.2.3 as numbers; None for anything else, so also for previews."""
    parts = name.removeprefix("v").split(".")
    if all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        return tuple(int(part) for part in parts)
    return None


def _newest(folder: str, candidates: Sequence[str]) -> str:
    known = [(numbers, name) for name in candidates if (numbers := _numbers(name)) is not None]
    return os.path.join(folder, max(known)[1]) if known else ""


# Node: nvm, fnm, nodenv


def _nodenv(here: _Managers, text: str) -> list[_Found] | None:
    return _of_words("nodenv", here.nodenv, text.split()[:1], "node-")


def _nvm(here: _Managers, text: str) -> list[_Found] | None:
    folder = os.path.join(here.nvm, "versions", "node")
    if not os.path.isdir(folder) and not os.path.exists(os.path.join(here.nvm, "nvm.sh")):
        return None
    word, line = _first_word(text)
    watch = (folder, os.path.join(here.nvm, "alias"))
    if wrong := _not_one(text, "nvm"):
        return [_Found("nvm", wrong=wrong, line=line, watch=watch)]
    if word == "system":
        return [_Found("nvm", line=line, watch=watch)]
    path = _node(folder, _unaliased(here.nvm, word))
    if not path:
        return _no_node("nvm", word, line, watch)
    values = {
        "NVM_DIR": here.nvm,
        "NVM_BIN": os.path.join(path, "bin"),
        "NVM_INC": os.path.join(path, "include", "node"),
    }
    return [_Found("nvm", [values["NVM_BIN"]], line=line, values=values, watch=(*watch, values["NVM_BIN"]))]


def _fnm(here: _Managers, text: str) -> list[_Found] | None:
    folder = os.path.join(here.fnm, "node-versions")
    if not os.path.isdir(folder):
        return None
    word, line = _first_word(text)
    watch = (folder, os.path.join(here.fnm, "aliases"))
    if wrong := _not_one(text, "fnm"):
        return [_Found("fnm", wrong=wrong, line=line, watch=watch)]
    if word == "system":
        return [_Found("fnm", line=line, watch=watch)]
    path = _version(os.path.join(here.fnm, "aliases"), word) if not _numbers(word) else ""
    if not path and (version := _node(folder, word)):
        path = os.path.join(version, "installation")
    if not path or not os.path.isdir(path):
        return _no_node("fnm", word, line, watch)
    return [_Found("fnm", [os.path.join(os.path.realpath(path), "bin")], line=line, watch=watch)]


def _not_one(text: str, manager: str) -> str:
    """Why a manager of Node refuses a file; "" when it does not."""
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    said = [line for line in lines if line]
    if len(said) > 1:
        return f"{manager} takes one version: remove the other lines"
    if said and (said[0].startswith(_RANGE) or "||" in said[0] or " - " in said[0]):
        return f"{manager} takes no range of versions: write one, such as 20 or lts/*"
    return ""


def _no_node(manager: str, word: str, line: int, watch: Sequence[str]) -> list[_Found]:
    missing = f"node {word or '(no version named)'}: `{manager} install {typed(word)}`"
    return [_Found(manager, missing=[missing], line=line, watch=watch)]


def _first_word(text: str) -> tuple[str, int]:
    """The first word that is not in a comment, and its line."""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if words:
            return words[0], number
    return "", 1


def _unaliased(nvm: str, word: str) -> str:
    """What a name stands for in the end; a version stands for itself."""
    for _ in range(_ALIASES):
        if word.startswith("/") or ".." in word.split("/"):
            return ""
        text = read_text(os.path.join(nvm, "alias", word)) if word else None
        if text is None:
            return word
        word = _first_word(text)[0]
    return ""


def _node(folder: str, word: str) -> str:
    """The newest installed version that fits: `node` is any, `20` and `v20.1` are what begins with that."""
    if word in ("node", "stable"):
        return _newest(folder, names(folder))
    wanted = _numbers(word)
    if wanted is None:
        return ""
    fitting = [
        name for name in names(folder) if (numbers := _numbers(name)) and numbers[: len(wanted)] == wanted
    ]
    return _newest(folder, fitting)


# asdf


def _asdf(here: _Managers, text: str) -> list[_Found] | None:
    installs = os.path.join(here.asdf, "installs")
    plugins = os.path.join(here.asdf, "plugins")
    if not os.path.isdir(here.asdf):
        return None
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        tool, *versions = line.partition("#")[0].split() or [""]
        if not tool:
            continue
        if not versions:
            found.append(_Found("asdf", missing=[f"{tool}: write a version after the name"], line=number))
            continue
        if not _plain(tool):
            # As mise and aqua name tools.
            wanted = tool.rpartition("/")[2]
            instead = f": write `{wanted}`, if that is the plugin" if wanted not in ("", "..") else ""
            found.append(_Found("asdf", missing=[f"{tool} is no name of a plugin{instead}"], line=number))
            continue
        folders: list[str] = []
        behind: list[str] = []
        missing = []
        for place, version in enumerate(versions):
            if version == "system":
                continue
            if version.startswith("path:"):
                path = absolute(version.removeprefix("path:"), here.root, here.home)
            else:
                path = _version(os.path.join(installs, tool), version.replace("ref:", "ref-", 1))
            if not path or not os.path.isdir(path) or ":" in path:
                install = f"asdf install {typed(tool)} {typed(version)}"
                if os.path.isdir(plugins) and not os.path.isdir(os.path.join(plugins, tool)):
                    install = f"asdf plugin add {typed(tool)} && {install}"
                missing.append(f"{tool} {version}: `{install}`")
                continue
            # Without a word from its plugin, programs are in `bin`.
            (behind if "system" in versions[:place] else folders).append(os.path.join(path, "bin"))
        hooks = [
            Lost("hook", f"{name} of asdf's plugin {tool}", "session")
            for name in ("exec-env", "list-bin-paths")
            if os.path.exists(os.path.join(plugins, tool, "bin", name))
        ]
        watch = (os.path.join(installs, tool), *folders, *behind)
        found.append(_Found("asdf", folders, missing, behind=behind, line=number, lost=hooks, watch=watch))
    return found


# None where no manager that is installed reads the file.
_READERS: dict[str, Callable[[_Managers, str], list[_Found] | None]] = {
    ".tool-versions": _asdf,
    ".python-version": _pyenv,
    ".ruby-version": lambda here, text: _of_words("rbenv", here.rbenv, text.split()[:1], "ruby-"),
    ".node-version": lambda here, text: _nodenv(here, text) or _fnm(here, text) or _nvm(here, text),
    ".nvmrc": lambda here, text: _nvm(here, text) or _fnm(here, text),
}
