"""`environments.toml`: the named environments, read and checked.

The rules and their wording are the reference's. The reference stops at the first mistake; Outfitter reports
all of them, each with its line and a remedy. A bearer token is never shown.
"""

from __future__ import annotations

import ipaddress
import math
import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..errors import FileInvalid, SettingInvalid
from ..formats.document import Mistake, refuse
from ..formats.toml import Table, parse, shown
from ..openers import plain_file
from ..record import EMPTY, KW_ONLY, record
from ..system import account_home
from ..transport.unix import PREFIX, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Fault = tuple[tuple[str, ...], str, str]  # at which key, what is wrong, what to write instead

FILE = "environments.toml"
URL_VARIABLE = "CODEX_EXEC_SERVER_URL"
LOCAL = "local"
REMOTE = "remote"  # what the variable's environment is called
NONE = "none"

MAX_ID = 64  # characters, as the reference
_LARGEST = 1 << 20  # bytes of the file: some thousand environments
TIMEOUT_SECONDS = 10.0  # to connect, and again to answer `initialize`; the reference's

_RELAYS = ("noise+https://", "noise+http://")
_SCHEMES = ("ws://", "wss://", *_RELAYS)
_ID_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
_HOST_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~")
_TOP_KEYS = ("default", "include_local", "environments")
_TIMEOUTS = ("connect_timeout_sec", "initialize_timeout_sec")
_TLS = ("tls_ca", "tls_cert", "tls_key")  # ours: the reference knows the machine's CAs alone
_TOKENS = ("auth_bearer_token", "auth_bearer_token_file")  # the second one is ours as well
_KEYS = ("id", "skills", "url", *_TOKENS, "program", "args", "env", "cwd", *_TIMEOUTS, *_TLS)


@record
class Declared:
    """One named environment as declared: a WebSocket `url`, or a `program` that speaks over its stdio.

    `args`, `env` and `cwd` belong to the program. Timeouts are in seconds. `skills` are the names of skills
    that must be found there. `token_file` is read for each connection, instead of `token`. `tls_ca`,
    `tls_cert` and `tls_key` are files for a `wss://` URL: the CA to trust, and the client's certificate with
    its key. `file` and `line` say where it was declared, if it was read from a file.
    """

    id: str
    _: KW_ONLY
    url: str | None = None
    token: str | None = None
    token_file: str | None = None
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    program: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = EMPTY
    cwd: str | None = None
    connect_timeout: float = TIMEOUT_SECONDS
    initialize_timeout: float = TIMEOUT_SECONDS
    skills: tuple[str, ...] = ()
    file: str | None = None
    line: int | None = None

    def __repr__(self) -> str:
        # Not the slots as they are: no token, no values of variables, nothing secret in a URL.
        where = f"url={shown_url(self.url)!r}" if self.url is not None else f"program={self.program!r}"
        return f"Declared({self.id!r}, {where}, file={self.file!r}, line={self.line!r})"


@record
class Configuration:
    """All named environments, in the order of the file. `default` is a name, or None for no default.

    `source` says where the configuration was read: a file, the name of a variable, or None if nothing is
    configured.
    """

    _: KW_ONLY
    default: str | None = LOCAL
    include_local: bool = True
    environments: tuple[Declared, ...] = ()
    source: str | None = None


# Where it is read


def config_home(environ: Mapping[str, str]) -> str:
    """The directory of Outfitter's configuration. Raises SettingInvalid if nobody names it."""
    if home := environ.get("OUTFITTER_HOME"):
        return os.path.abspath(home)
    config = environ.get("XDG_CONFIG_HOME", "")
    if os.path.isabs(config):  # else it is to be ignored, says the specification
        return os.path.join(config, "outfitter")
    if home := environ.get("HOME") or account_home():
        return os.path.join(os.path.abspath(home), ".config", "outfitter")
    raise SettingInvalid(
        "no directory for configuration is known: set HOME, XDG_CONFIG_HOME or OUTFITTER_HOME"
    )


def load(environ: Mapping[str, str], codex_home: str | None = None) -> Configuration:
    """The configured environments: Outfitter's own, or those of the Codex home `codex_home`.

    Without a file, the only environment is `local`, unless Codex's variable names a server. The same is true
    for a user without a home directory. Raises SettingInvalid.
    """
    try:
        home = config_home(environ) if codex_home is None else codex_home
    except SettingInvalid:
        return Configuration()
    configuration = read(os.path.join(home, FILE))
    if configuration is not None:
        return configuration
    return Configuration() if codex_home is None else from_variable(environ.get(URL_VARIABLE, ""))


def from_variable(value: str) -> Configuration:
    """The meaning of CODEX_EXEC_SERVER_URL: blank, `none`, or a server to use instead of this machine."""
    url = value.strip()
    if not url:
        return Configuration()
    if url.lower() == NONE:
        return Configuration(default=None, include_local=False, source=URL_VARIABLE)
    for _, text, remedy in _url_faults(url):
        raise SettingInvalid(f"{URL_VARIABLE}: {text}; {remedy}")
    remote = Declared(REMOTE, url=url, file=URL_VARIABLE)
    return Configuration(default=REMOTE, include_local=False, environments=(remote,), source=URL_VARIABLE)


def read(path: str) -> Configuration | None:
    """The configuration in a file; None if the file does not exist. Raises FileInvalid."""
    path = os.path.abspath(path)
    try:
        with open(path, "rb", opener=plain_file) as file:
            data = file.read(_LARGEST + 1)
    except FileNotFoundError:
        if not os.path.islink(path):
            return None
        raise _unreadable(path, "it is a broken symbolic link", "correct or remove the link") from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise _unreadable(path, reason.lower(), "make it a readable file, or remove it") from None
    if len(data) > _LARGEST:
        raise _unreadable(path, f"it has more than {_LARGEST} bytes", "make it shorter")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FileInvalid((Mistake(path, line, "not UTF-8", "save the file as UTF-8"),)) from None
    return parse_environments(text, path)


def _unreadable(path: str, reason: str, remedy: str) -> FileInvalid:
    return FileInvalid((Mistake(path, None, f"cannot be read: {reason}", remedy),))


# The file


def parse_environments(text: str, file: str) -> Configuration:
    """The configuration in a text. Relative paths start at the directory of `file`. Raises FileInvalid."""
    root = Table(parse(text, file))
    root.only(*_TOP_KEYS)
    include_local = root.flag("include_local") is not False
    environments: list[Declared] = []
    ids: list[str] = []
    for number, table in enumerate(root.tables("environments"), 1):
        declared = _declared(table, number, file)
        environments.append(declared)
        if declared.id in ids:
            problem = f"environment id `{shown(declared.id)}` is duplicated"
            table.wrong(problem, "give each environment an id of its own", "id")
        elif declared.id:
            ids.append(declared.id)
    default = _default(root, [LOCAL, *ids] if include_local else ids, include_local)
    refuse(root.mistakes)
    return Configuration(
        default=default, include_local=include_local, environments=tuple(environments), source=file
    )


def _default(root: Table, ids: list[str], include_local: bool) -> str | None:
    if "default" not in root:
        return LOCAL if include_local else None
    default = root.text("default")
    if default is None:
        return None
    default = default.strip()
    choices = ", ".join(f'"{shown(name)}"' for name in [*ids, NONE])
    if not default:
        root.wrong("default environment id cannot be empty", f"write one of {choices}", "default")
    elif default.lower() != NONE:
        if default not in ids:
            text = f"default environment `{shown(default)}` is not configured"
            root.wrong(text, f"write one of {choices}", "default")
        return default
    return None


def _declared(table: Table, number: int, file: str) -> Declared:
    """One entry; what is wrong with it is noted in the table."""
    table.only(*_KEYS)
    if "id" not in table:
        table.wrong("missing field `id`", 'give the environment a name: id = "NAME"')
    id = table.text("id")
    url = table.text("url")
    program = table.text("program")
    connect_timeout = table.number("connect_timeout_sec")
    initialize_timeout = table.number("initialize_timeout_sec")
    skills = table.table("skills")
    if skills is not None:
        skills.only("required")
    declared = Declared(
        "" if id is None else id,
        url=None if url is None else url.strip(),
        token=table.text("auth_bearer_token"),
        token_file=_path(table, "auth_bearer_token_file", file),
        tls_ca=_path(table, "tls_ca", file),
        tls_cert=_path(table, "tls_cert", file),
        tls_key=_path(table, "tls_key", file),
        program=None if program is None else program.strip(),
        args=table.texts("args") or (),
        env=table.text_map("env") or EMPTY,
        cwd=_path(table, "cwd", file),
        connect_timeout=TIMEOUT_SECONDS if connect_timeout is None else connect_timeout,
        initialize_timeout=TIMEOUT_SECONDS if initialize_timeout is None else initialize_timeout,
        skills=(skills.texts("required") if skills is not None else None) or (),
        file=file,
        line=table.line(),
    )
    written = frozenset(key for key in _KEYS if key in table)
    for path, problem, remedy in faults(declared, f"number {number}" if id is None else None, written):
        if path != ("id",) or id is not None:  # else it has been told
            table.wrong(problem, remedy, *path)
    return declared


def _path(table: Table, key: str, file: str) -> str | None:
    path = table.text(key)
    return None if path is None else os.path.join(os.path.dirname(file), path)


# The rules


def check(declared: Declared) -> None:
    """Raises SettingInvalid if an environment that was not read from a file breaks a rule."""
    found = [f"{text}; {remedy}" for _, text, remedy in faults(declared)]
    if found:
        raise SettingInvalid("\n".join(found))


def faults(
    declared: Declared, name: str | None = None, written: frozenset[str] | None = None
) -> Iterator[Fault]:
    """What is wrong with one environment.

    `name` is what to call one without a usable id, `written` the keys that were given, if that is known
    better than from the values.
    """
    name = f"`{shown(declared.id)}`" if name is None else name
    written = _written(declared) if written is None else written
    yield from _id_faults(declared.id)
    if ("url" in written) == ("program" in written):
        remedy = 'write url = "ws://HOST:PORT" for a server, or program = "COMMAND" to start one'
        if "url" in written:
            remedy = "remove one of them"
        yield ("program",), f"environment {name} must set exactly one of url or program", remedy
    if "program" not in written:
        keys = [key for key in ("args", "env", "cwd") if key in written]
        if keys:
            text = f"environment {name} args, env, and cwd require program"
            yield (keys[0],), text, f"remove {' and '.join(keys)}, or start a program"
    if "url" not in written:
        for key in ("connect_timeout_sec", *_TOKENS, *_TLS):
            if key in written:
                yield (key,), f"environment {name} {key} requires url", f"remove {key}, or set url"
    if declared.url is not None:
        yield from _url_faults(declared.url)
    yield from _token_faults(declared)
    yield from _tls_faults(declared, name, written)
    yield from _program_faults(declared, name)
    for key, seconds in zip(_TIMEOUTS, (declared.connect_timeout, declared.initialize_timeout), strict=True):
        if not (0 < seconds < math.inf):  # nan is neither
            yield (key,), f"environment {name} {key} must be more than 0 and finite", f"write {key} = 10"


def _written(declared: Declared) -> frozenset[str]:
    given = {
        "url": declared.url is not None,
        "program": declared.program is not None,
        "auth_bearer_token": declared.token is not None,
        "auth_bearer_token_file": declared.token_file is not None,
        **{key: getattr(declared, key) is not None for key in _TLS},
        "args": bool(declared.args),
        "env": bool(declared.env),
        "cwd": declared.cwd is not None,
    }
    return frozenset(key for key, is_given in given.items() if is_given)


def _id_faults(id: str) -> Iterator[Fault]:
    name = shown(id)
    if not id.strip():
        yield ("id",), "environment id cannot be empty", 'write id = "NAME"'
    elif id != id.strip():
        yield ("id",), f"environment id `{name}` must not contain surrounding whitespace", "remove the spaces"
    elif id == LOCAL or id.lower() == NONE:
        yield ("id",), f"environment id `{name}` is reserved", "choose another name"
    elif len(id) > MAX_ID:
        yield ("id",), f"environment id `{name}` cannot be longer than {MAX_ID} characters", "shorten it"
    elif not _ID_CHARACTERS.issuperset(id):
        text = f"environment id `{name}` must contain only ASCII letters, numbers, '-' or '_'"
        yield ("id",), text, "replace the other characters, for example with '-'"


def _url_faults(url: str) -> Iterator[Fault]:
    """The first thing that is wrong with a URL: what follows would be guessing."""
    name = shown(shown_url(url))
    if not url:
        yield ("url",), "environment url cannot be empty", 'write url = "ws://HOST:PORT"'
        return
    if url.startswith(PREFIX):
        try:
            path_of(url)
        except SettingInvalid:
            yield ("url",), f"environment url `{name}` is invalid: no path of a socket", "write unix:/PATH"
        else:
            if not url.removeprefix(PREFIX).startswith("/"):
                text = f"environment url `{name}` is invalid: its path depends on the current directory"
                yield ("url",), text, "write the whole path: unix:/PATH"
        return
    if not url.startswith(_SCHEMES):
        remedy = "write ws://HOST:PORT, or wss:// for TLS"
        yield ("url",), f"environment url `{name}` must use ws:// or wss://", remedy
        return
    if url.startswith(_RELAYS):
        from ..protocol.registry import is_environment_id

        if not is_environment_id(url.rstrip("/").rpartition("/")[2]) or "?" in url:
            remedy = "write noise+https://REGISTRY/ENVIRONMENT"
            yield ("url",), f"environment url `{name}` is invalid: it names no environment", remedy
            return
    invalid = f"environment url `{name}` is invalid"
    if any(not "!" <= mark <= "~" for mark in url):
        # urlsplit would drop some of these without a word.
        remedy = "percent-encode it; write an international host name in its xn-- form"
        yield ("url",), f"{invalid}: invalid uri character", remedy
        return
    parts = None
    try:
        parts = urlsplit(url)
        is_reachable = _is_host(parts.hostname or "", parts.netloc) and parts.port != 0
    except ValueError:
        is_reachable = False
    # No word of the standard library's: it may quote a password.
    if parts is not None and "@" in parts.netloc:
        text = f"environment url `{name}` must not contain a user name or password"
        yield ("url",), text, "use auth_bearer_token instead"
    elif parts is None or not is_reachable:
        yield ("url",), f"{invalid}: no host and port", "write ws://HOST:PORT, with a port from 1 to 65535"
    elif parts.fragment:
        yield ("url",), f"{invalid}: a fragment has no meaning here", "remove the # and what follows"


def _is_host(host: str, netloc: str) -> bool:
    if netloc.startswith("["):
        return _address(host) is not None
    return bool(host) and _HOST_CHARACTERS.issuperset(host)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _token_faults(declared: Declared) -> Iterator[Fault]:
    token, file, url = declared.token, declared.token_file, declared.url
    key = (_TOKENS[0] if file is None else _TOKENS[1],)
    if file is not None and token is not None:
        yield key, f"{_TOKENS[0]} and {_TOKENS[1]} cannot both be set", "remove one of them"
    if file is not None and "\0" in file:
        yield key, f"{_TOKENS[1]} must not contain NUL", "remove the \\u0000"
    if file is None and token is None:
        return
    if token is not None and not token.strip():
        yield key, "auth_bearer_token cannot be empty", "write the token, or remove the line"
    elif token is not None and not (token.isascii() and token.isprintable()):
        text = "invalid value for exec-server WebSocket header `authorization`"
        yield key, text, "write the token in printable ASCII on one line"
    if url is not None and url.startswith(("ws://", "noise+http://")) and not any(_url_faults(url)):
        host = urlsplit(url).hostname or ""
        address = _address(host)
        if host != "localhost" and not (address is not None and address.is_loopback):
            text = "exec-server WebSocket headers require wss:// or a loopback destination"
            yield key, text, "use wss://, or reach the server through a tunnel on 127.0.0.1"


def _tls_faults(declared: Declared, name: str, written: frozenset[str]) -> Iterator[Fault]:
    for key in _TLS:
        if key in written and declared.url is not None and declared.url.startswith("ws://"):
            yield (key,), f"environment {name} {key} requires a wss:// url", f"write wss://, or remove {key}"
        if "\0" in (getattr(declared, key) or ""):
            yield (key,), f"environment {name} {key} must not contain NUL", "remove the \\u0000"
    if "tls_key" in written and "tls_cert" not in written:
        yield ("tls_key",), f"environment {name} tls_key requires tls_cert", "name the key's certificate, too"


def _program_faults(declared: Declared, name: str) -> Iterator[Fault]:
    if declared.program is not None and not declared.program:
        yield ("program",), f"environment {name} program cannot be empty", 'write program = "COMMAND"'
    # The operating system ends a text at a NUL, and a variable's name at the equals sign.
    texts = [("program", declared.program or ""), ("cwd", declared.cwd or "")]
    texts += [("args", text) for text in declared.args]
    for key in dict.fromkeys(key for key, text in texts if "\0" in text):
        yield (key,), f"environment {name} {key} must not contain NUL", "remove the \\u0000"
    for variable, value in declared.env.items():
        if not variable or "=" in variable or "\0" in variable:
            text = f"environment {name} env has an invalid name `{shown(variable)}`"
            yield ("env", variable), text, "a name must not be empty and must not contain '=' or NUL"
        if "\0" in value:
            text = f"environment {name} env `{shown(variable)}` must not contain NUL"
            yield ("env", variable), text, "remove the \\u0000"


def shown_url(url: str) -> str:
    """A URL without its possibly secret parts: user name, password and query."""
    scheme = next((scheme for scheme in _SCHEMES if url.startswith(scheme)), "")
    _, at, rest = url.removeprefix(scheme).rpartition("@")
    rest, query, _ = rest.partition("?")
    return f"{scheme}{'…@' if at else ''}{rest}{'?…' if query else ''}"
