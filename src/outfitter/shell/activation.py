"""What activations left in an environment, taken out again; and the little of it that tools are started with.

A tool that finds its own bookkeeping believes it is active already and says nothing; one that finds another
tool's believes that. So resolution starts without any. What can be told to be an activation's effect goes
with its bookkeeping: entries of PATH, and all that direnv and mise have loaded, which both write down. Values
never appear in what is told.
"""

from __future__ import annotations

from ..env.lists import leads_somewhere
from ..env.pattern import Patterns, fold
from ..env.redact import Secrets
from .snapshot import GUARDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# By tool: what it leaves in the environment of a shell or of its children. Settings of a tool are not here,
# although they have the same prefix: where it keeps its data, which configuration it reads.
BOOKKEEPING: dict[str, tuple[str, ...]] = {
    "direnv": ("DIRENV_*",),
    "mise": ("__MISE_*", "MISE_SHELL"),
    "devenv": ("DEVENV_ROOT", "DEVENV_DOTFILE", "DEVENV_STATE", "DEVENV_RUNTIME", "DEVENV_PROFILE"),
    "devbox": ("__DEVBOX_*", "DEVBOX_OG_PATH*", "DEVBOX_SHELL_ENABLED", "DEVBOX_PROJECT_ROOT"),
    "nix": ("IN_NIX_SHELL", "IN_NIX_RUN"),
    "pixi": ("PIXI_PROJECT_*", "PIXI_ENVIRONMENT_*", "PIXI_IN_SHELL", "PIXI_PROMPT"),
    "conda": (
        *("CONDA_PREFIX*", "CONDA_DEFAULT_ENV", "CONDA_SHLVL", "CONDA_PROMPT_MODIFIER", "CONDA_STACKED_*"),
        *("CONDA_BACKUP_*", "CONDA_EXE", "CONDA_PYTHON_EXE", "_CE_*", "_CONDA_*"),
    ),
    "virtualenv": ("VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT"),
    "uv": ("UV_RUN_RECURSION_DEPTH",),
    "poetry": ("POETRY_ACTIVE",),
    "pipenv": ("PIPENV_ACTIVE",),
    "hatch": ("HATCH_ENV_ACTIVE",),
    "pdm": ("PDM_*",),
    "pyenv": ("PYENV_VERSION", "PYENV_DIR", "PYENV_VIRTUAL_ENV", "PYENV_ACTIVATE_SHELL"),
    "rbenv": ("RBENV_VERSION", "RBENV_DIR"),
    "nodenv": ("NODENV_VERSION", "NODENV_DIR"),
    "nvm": ("NVM_BIN", "NVM_INC"),
    "fnm": ("FNM_*",),
}
# What people set for a tool, whatever the patterns above say.
_SETTINGS = frozenset(("DIRENV_CONFIG", "DIRENV_BASH", "FNM_DIR", "PDM_HOME", "PDM_CACHE_DIR"))
_TOOLS = {pattern: tool for tool, patterns in BOOKKEEPING.items() for pattern in patterns}
_BOOKKEEPING = Patterns(_TOOLS)
# Whose `bin` is in PATH because of the activation, and nothing else.
_PREFIXES = Patterns(("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_PREFIX_*"))
# Where mise has what it puts into PATH, beside what a project names.
_OF_MISE = ("/mise/installs/", "/mise/shims/")
# More than any environment has: what unpacks to more is not an environment.
_UNPACKED_BYTES = 8 << 20


def scrub(env: Mapping[str, str]) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The environment as if nothing had been activated, and what was changed: (name, why).

    What direnv and mise loaded is reverted as they would do it; a virtual environment and a conda environment
    lose their entries of PATH. Other variables that an activation script has set cannot be told from anyone
    else's and stay.
    """
    clean = dict(env)
    told: list[tuple[str, str]] = []
    if "DIRENV_DIFF" in clean:
        diff = unpack_direnv(clean["DIRENV_DIFF"])
        _revert(clean, told, "DIRENV_DIFF", _variables(diff, "p"), _variables(diff, "n"))
    if "__MISE_DIFF" in clean:
        diff = unpack_mise(clean["__MISE_DIFF"])
        _revert(clean, told, "__MISE_DIFF", _variables(diff, "old"), _variables(diff, "new"))
    entries = _activated_entries(clean)
    for name in sorted(clean):
        tool = bookkeeper(name)
        if tool:
            del clean[name]
            told.append((name, f"removed: {tool}'s bookkeeping of another shell"))
        elif GUARDS.match(fold(name)) is not None:
            del clean[name]
            why = "it tells startup files that they have already run, and no startup file runs here"
            told.append((name, f"removed: {why}"))
    _strip_path(clean, entries, told)
    return clean, told


def bookkeeper(name: str) -> str:
    """The tool whose bookkeeping a variable is; empty when it is none."""
    if name in _SETTINGS:
        return ""
    pattern = _BOOKKEEPING.match(fold(name))
    return "" if pattern is None else _TOOLS[pattern]


# What direnv and mise write down


def unpack_direnv(text: str) -> object:
    """What is in DIRENV_DIFF or DIRENV_WATCHES: JSON, packed by zlib, in URL-safe base64; or None."""
    import json

    data = _unpacked(text, b"-_")
    try:
        return None if data is None else json.loads(data)
    except (ValueError, RecursionError):
        return None


def unpack_mise(text: str) -> object:
    """What is in __MISE_DIFF: MessagePack, packed by zlib, in base64 without its padding; or None."""
    data = _unpacked(text + "=" * (-len(text) % 4), b"+/")
    try:
        return None if data is None else _Message(data).whole()
    except (ValueError, RecursionError):
        return None


def _unpacked(text: str, last_digits: bytes) -> bytes | None:
    if not text:
        return None
    import base64
    import zlib

    try:
        packed = base64.b64decode(text, altchars=last_digits, validate=True)
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(packed, _UNPACKED_BYTES)
    except (ValueError, zlib.error):
        return None
    return data if unpacking.eof else None


class _Message:
    """As much of MessagePack as environments need: maps, lists and texts. Raises ValueError for more."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def whole(self) -> object:
        value = self._value()
        if self._at != len(self._data):
            raise ValueError
        return value

    def _value(self) -> object:
        mark = self._take(1)[0]
        if 0xA0 <= mark <= 0xBF:
            return self._text(mark & 0x1F)
        if 0x80 <= mark <= 0x8F:
            return self._map(mark & 0x0F)
        if 0x90 <= mark <= 0x9F:
            return self._list(mark & 0x0F)
        match mark:
            case 0xC0:
                return None
            case 0xD9 | 0xDA | 0xDB:
                return self._text(self._number(1 << (mark - 0xD9)))
            case 0xDC | 0xDD:
                return self._list(self._number(2 << (mark - 0xDC)))
            case 0xDE | 0xDF:
                return self._map(self._number(2 << (mark - 0xDE)))
        raise ValueError

    def _map(self, size: int) -> dict[object, object]:
        found: dict[object, object] = {}
        for _ in range(size):
            name = self._value()
            if type(name) is not str:
                raise ValueError
            found[name] = self._value()
        return found

    def _list(self, size: int) -> list[object]:
        return [self._value() for _ in range(size)]

    def _text(self, size: int) -> str:
        return self._take(size).decode()

    def _number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big")

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) != size:
            raise ValueError
        self._at += size
        return taken


def _revert(
    clean: dict[str, str],
    told: list[tuple[str, str]],
    record: str,
    before: dict[str, str] | None,
    after: dict[str, str] | None,
) -> None:
    """Gives names back what they were `before`, and takes away those that are only in `after`."""
    tool = bookkeeper(record)
    if before is None or after is None:
        told.append((record, f"cannot be read, so the variables that {tool} loaded stay"))
        return
    for name in sorted(after):
        if bookkeeper(name) == tool:
            continue
        # Whoever took it away after the tool meant it: a policy, for example.
        if clean.pop(name, None) is not None and name in before:
            clean[name] = before[name]
            told.append((name, f"restored to its value from before {tool} changed it"))
        elif name not in before:
            told.append((name, f"removed: {tool} loaded it for another shell"))
    for name in sorted(before):
        if name not in after and bookkeeper(name) != tool:
            clean[name] = before[name]
            told.append((name, f"restored to its value from before {tool} removed it"))


def _variables(diff: object, side: str) -> dict[str, str] | None:
    values = diff.get(side) if isinstance(diff, dict) else None
    if not isinstance(values, dict):
        return None
    sound = all(name and "=" not in name and type(text) is str for name, text in values.items())
    return values if sound else None


# PATH


def _activated_entries(env: Mapping[str, str]) -> dict[str, str]:
    """The entries that are in PATH because of an activation, by their text, and whose they are."""
    entries = {}
    mise = any(bookkeeper(name) == "mise" for name in env)
    before_mise = env.get("__MISE_ORIG_PATH", "").split(":")
    added = unpack_mise(env.get("__MISE_DIFF", ""))
    named = added.get("path") if isinstance(added, dict) else None
    prefixes = {name: env[name].rstrip("/") for name in env if _PREFIXES.match(fold(name)) is not None}
    for entry in env.get("PATH", "").split(":"):
        plain = entry.rstrip("/")
        for name, prefix in prefixes.items():
            if prefix and plain == f"{prefix}/bin":
                entries[entry] = name
        of_mise = any(part in f"{plain}/" for part in _OF_MISE) or (
            isinstance(named, list) and entry in named
        )
        if mise and of_mise and entry not in before_mise:
            entries[entry] = "mise"
    return entries


def _strip_path(clean: dict[str, str], entries: Mapping[str, str], told: list[tuple[str, str]]) -> None:
    if not entries:
        return
    kept = ":".join([entry for entry in clean["PATH"].split(":") if entry not in entries])
    if not leads_somewhere(kept):
        # Without any PATH, shells search a list of their own that ends in the current directory.
        told.append(("PATH", "unchanged: it has only entries of activated environments"))
        return
    clean["PATH"] = kept
    told += [("PATH", f"without {entry}, which {whose} added") for entry, whose in entries.items()]


# What tools are started with

TOOL_NAMES: dict[str, str] = {
    "HOME": "where the tool's configuration and its record of trust are",
    "PATH": "where programs are",
    "USER": "who it works for",
    "LOGNAME": "the same, for older programs",
    "SHELL": "which shell it may ask to run something",
    "LANG": "how text is encoded",
    "LC_*": "the same, in detail",
    "LOCALE_ARCHIVE": "where nix's programs find locales",
    "TZ": "what time it is",
    "TMPDIR": "where it may write for a moment",
    "MISE_ENV": "which variant of its files mise takes",
    "XDG_*": "where configuration, data, caches and the runtime folder are",
    "SSL_CERT_FILE": "whom to believe on the network",
    "SSL_CERT_DIR": "the same",
    "NIX_SSL_CERT_FILE": "the same, for nix",
    "CURL_CA_BUNDLE": "the same, for curl",
    "REQUESTS_CA_BUNDLE": "the same, for Python programs",
    "GIT_SSL_CAINFO": "the same, for git",
    "NODE_EXTRA_CA_CERTS": "the same, for Node",
    "HTTP_PROXY": "the way to the network, unless a password is in it",
    "HTTPS_PROXY": "the same",
    "ALL_PROXY": "the same",
    "NO_PROXY": "what needs no proxy",
    "DIRENV_CONFIG": "where direnv's configuration is",
    "DIRENV_BASH": "the bash that direnv uses",
    "MISE_DATA_DIR": "where mise has installed tools",
    "MISE_CONFIG_DIR": "where mise's configuration is",
    "MISE_CACHE_DIR": "where mise caches",
    "MISE_STATE_DIR": "where mise's record of trust is",
    "MISE_PARANOID": "makes mise stricter",
    "NIX_PATH": "where nix finds nixpkgs",
    "NIX_REMOTE": "how nix reaches its daemon",
    "NIX_PROFILES": "the user's profiles of nix",
    "NIX_CONF_DIR": "where nix's configuration is",
    "NIX_USER_CONF_FILES": "the same, the user's",
    "CONDA_ENVS_PATH": "where conda's environments are",
    "CONDA_ENVS_DIRS": "the same, in its newer spelling",
    "CONDA_PKGS_DIRS": "where conda's packages are",
    "MAMBA_ROOT_PREFIX": "where micromamba's environments are",
    "PIXI_HOME": "where pixi is",
    "PYENV_ROOT": "where pyenv's versions are",
    "RBENV_ROOT": "where rbenv's versions are",
    "NODENV_ROOT": "where nodenv's versions are",
    "ASDF_DIR": "where asdf is",
    "ASDF_DATA_DIR": "where asdf's versions are",
    "NVM_DIR": "where nvm's versions are",
    "FNM_DIR": "where fnm's versions are",
    "VOLTA_HOME": "where volta's versions are",
    "UV_CACHE_DIR": "where uv caches",
    "UV_PYTHON_INSTALL_DIR": "where uv's interpreters are",
    "POETRY_HOME": "where poetry is",
    "POETRY_CACHE_DIR": "where poetry's environments are",
    "POETRY_VIRTUALENVS_PATH": "the same, if it was moved",
    "WORKON_HOME": "where pipenv's environments are",
    "PDM_HOME": "where pdm is",
    "PDM_CACHE_DIR": "where pdm caches",
}
_ALLOWED = Patterns(TOOL_NAMES)


def tool_environment(env: Mapping[str, str]) -> dict[str, str]:
    """What a provider's tool is started with: the names of `TOOL_NAMES`, without secrets.

    It is a list of what may pass, because of what must not: mise evaluates untrusted files when anything
    looks like a CI (`CI`, `BUILD_NUMBER`, ...), and a project's code has no business with credentials.
    """
    secrets = Secrets()
    chosen = {
        name: value
        for name, value in env.items()
        # Case counts, except for the way to the network, which everybody spells as he likes.
        if (name.isupper() or fold(name).endswith("_proxy"))
        and _ALLOWED.match(fold(name)) is not None
        and not secrets.holds(name, value)
    }
    # Without it, a bash that believes it was started over the network reads ~/.bashrc.
    chosen["SHLVL"] = "1"
    return chosen
