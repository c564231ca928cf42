"""environments.toml: every rule with its words, all mistakes at once, and what the reference says."""

from __future__ import annotations

import logging
import os
import pwd
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from outfitter.environments.file import (
    Configuration,
    Declared,
    check,
    config_home,
    load,
    parse_environments,
    read,
    shown_url,
)
from outfitter.errors import FileInvalid, SettingInvalid
from tests.support.machine import terminal
from tests.support.tools import codex_binary

ENTRY = '[[environments]]\nid = "a"\n'
SERVER = ENTRY + 'url = "ws://127.0.0.1:1"\n'
PROGRAM = ENTRY + 'program = "true"\n'
FAR = ENTRY + 'url = "ws://far.invalid:1"\n'


def named(id: str) -> str:
    return f'[[environments]]\nid = "{id}"\nprogram = "true"\n'


def at(url: str) -> str:
    return ENTRY + f'url = "{url}"\n'


HOST_AND_PORT = "write ws://HOST:PORT, with a port from 1 to 65535"
POSSIBLE = "a name must not be empty and must not contain '=' or NUL"
ONE_OF_TWO = 'write url = "ws://HOST:PORT" for a server, or program = "COMMAND" to start one'
KEYS = (
    "`id`, `skills`, `url`, `auth_bearer_token`, `auth_bearer_token_file`, `program`, `args`, `env`, `cwd`, "
    "`connect_timeout_sec`, `initialize_timeout_sec`, `tls_ca`, `tls_cert`, `tls_key`"
)

# What the reference refuses in these words, and we too: the text, and all that we say about it.
REFUSED: dict[str, tuple[str, str, list[str]]] = {
    "neither": (
        ENTRY,
        "environment `a` must set exactly one of url or program",
        [f"1: environment `a` must set exactly one of url or program; {ONE_OF_TWO}"],
    ),
    "both": (
        SERVER + 'program = "true"\n',
        "environment `a` must set exactly one of url or program",
        ["4: environment `a` must set exactly one of url or program; remove one of them"],
    ),
    "args of a server": (
        SERVER + 'cwd = "x"\nargs = []\n',
        "environment `a` args, env, and cwd require program",
        [
            "5: environment `a` args, env, and cwd require program; remove args and cwd, or start a program",
        ],
    ),
    "env of a server": (
        SERVER + "[environments.env]\n",
        "environment `a` args, env, and cwd require program",
        ["4: environment `a` args, env, and cwd require program; remove env, or start a program"],
    ),
    "connect timeout of a program": (
        PROGRAM + "connect_timeout_sec = 1\n",
        "environment `a` connect_timeout_sec requires url",
        ["4: environment `a` connect_timeout_sec requires url; remove connect_timeout_sec, or set url"],
    ),
    "token of a program": (
        PROGRAM + 'auth_bearer_token = "t0ken"\n',
        "environment `a` auth_bearer_token requires url",
        ["4: environment `a` auth_bearer_token requires url; remove auth_bearer_token, or set url"],
    ),
    "token in the clear": (
        FAR + 'auth_bearer_token = "t0ken"\n',
        "exec-server WebSocket headers require wss:// or a loopback destination",
        [
            "4: exec-server WebSocket headers require wss:// or a loopback destination; "
            "use wss://, or reach the server through a tunnel on 127.0.0.1",
        ],
    ),
    "token to a name like an address": (
        at("ws://127.0.0.1.far.invalid:1") + 'auth_bearer_token = "t0ken"\n',
        "exec-server WebSocket headers require wss:// or a loopback destination",
        [
            "4: exec-server WebSocket headers require wss:// or a loopback destination; "
            "use wss://, or reach the server through a tunnel on 127.0.0.1",
        ],
    ),
    "token of two lines": (
        SERVER + 'auth_bearer_token = "t0\\nken"\n',
        "invalid value for exec-server WebSocket header `authorization`",
        [
            "4: invalid value for exec-server WebSocket header `authorization`; "
            "write the token in printable ASCII on one line",
        ],
    ),
    "scheme": (
        at("http://x"),
        "environment url `http://x` must use ws:// or wss://",
        ["3: environment url `http://x` must use ws:// or wss://; write ws://HOST:PORT, or wss:// for TLS"],
    ),
    "scheme in capitals": (
        at("WS://x"),
        "environment url `WS://x` must use ws:// or wss://",
        ["3: environment url `WS://x` must use ws:// or wss://; write ws://HOST:PORT, or wss:// for TLS"],
    ),
    "no url": (
        at("  "),
        "environment url cannot be empty",
        ['3: environment url cannot be empty; write url = "ws://HOST:PORT"'],
    ),
    "no host": (
        at("ws://"),
        "environment url `ws://` is invalid",
        [f"3: environment url `ws://` is invalid: no host and port; {HOST_AND_PORT}"],
    ),
    "no host but a path": (
        at("ws:///x"),
        "environment url `ws:///x` is invalid",
        [f"3: environment url `ws:///x` is invalid: no host and port; {HOST_AND_PORT}"],
    ),
    "open bracket": (
        at("ws://[::1"),
        "environment url `ws://[::1` is invalid",
        [f"3: environment url `ws://[::1` is invalid: no host and port; {HOST_AND_PORT}"],
    ),
    "blank in a url": (
        at("ws://h/a b"),
        "environment url `ws://h/a b` is invalid",
        [
            "3: environment url `ws://h/a b` is invalid: invalid uri character; "
            "percent-encode it; write an international host name in its xn-- form",
        ],
    ),
    "no program": (
        ENTRY + 'program = " "\n',
        "environment `a` program cannot be empty",
        ['3: environment `a` program cannot be empty; write program = "COMMAND"'],
    ),
    "characters of an id": (
        named("a b"),
        "environment id `a b` must contain only ASCII letters, numbers, '-' or '_'",
        [
            "2: environment id `a b` must contain only ASCII letters, numbers, '-' or '_'; "
            "replace the other characters, for example with '-'",
        ],
    ),
    "letters of an id": (
        named("ä"),
        "environment id `ä` must contain only ASCII letters, numbers, '-' or '_'",
        [
            "2: environment id `ä` must contain only ASCII letters, numbers, '-' or '_'; "
            "replace the other characters, for example with '-'",
        ],
    ),
    "blanks around an id": (
        named(" a"),
        "environment id ` a` must not contain surrounding whitespace",
        ["2: environment id ` a` must not contain surrounding whitespace; remove the spaces"],
    ),
    "empty id": (
        named(""),
        "environment id cannot be empty",
        ['2: environment id cannot be empty; write id = "NAME"'],
    ),
    "long id": (
        named("a" * 65),
        f"environment id `{'a' * 65}` cannot be longer than 64 characters",
        [f"2: environment id `{'a' * 65}` cannot be longer than 64 characters; shorten it"],
    ),
    "local as an id": (
        named("local"),
        "environment id `local` is reserved",
        ["2: environment id `local` is reserved; choose another name"],
    ),
    "none as an id": (
        named("None"),
        "environment id `None` is reserved",
        ["2: environment id `None` is reserved; choose another name"],
    ),
    "no id": (
        '[[environments]]\nprogram = "true"\n',
        "missing field `id`",
        ['1: missing field `id`; give the environment a name: id = "NAME"'],
    ),
    "duplicate": (
        PROGRAM + SERVER,
        "environment id `a` is duplicated",
        ["5: environment id `a` is duplicated; give each environment an id of its own"],
    ),
    "default unknown": (
        'default = "zz"\n' + PROGRAM,
        "default environment `zz` is not configured",
        ['1: default environment `zz` is not configured; write one of "local", "a", "none"'],
    ),
    "default of another case": (
        'default = "A"\n' + PROGRAM,
        "default environment `A` is not configured",
        ['1: default environment `A` is not configured; write one of "local", "a", "none"'],
    ),
    "default local, which is not included": (
        'include_local = false\ndefault = "local"\n',
        "default environment `local` is not configured",
        ['2: default environment `local` is not configured; write one of "none"'],
    ),
    "default empty": (
        'default = " "\n',
        "default environment id cannot be empty",
        ['1: default environment id cannot be empty; write one of "local", "none"'],
    ),
    "unknown key": (
        PROGRAM + 'urll = "x"\n',
        "unknown field `urll`",
        ["4: unknown field `urll`; did you mean `url`?"],
    ),
    "unknown key like none": (
        PROGRAM + 'zzz = "x"\n',
        "unknown field `zzz`",
        [f"4: unknown field `zzz`; write one of {KEYS}"],
    ),
    "unknown key of the file": (
        "\nincludelocal = true\n",
        "unknown field `includelocal`",
        ["2: unknown field `includelocal`; did you mean `include_local`?"],
    ),
    "unknown key of skills": (
        SERVER + 'skills = { require = ["x"] }\n',
        "unknown field `require`",
        ["4: unknown field `require`; did you mean `required`?"],
    ),
}
# What the reference refuses in words that are its parser's.
WRONG_TYPE: dict[str, tuple[str, list[str]]] = {
    "id": (
        '[[environments]]\nid = 1\nprogram = "true"\n',
        ['2: `id` must be a string, not an integer; write id = "text"'],
    ),
    "default": (
        "default = 1979-05-27\n",
        ['1: `default` must be a string, not a date or time; write default = "text"'],
    ),
    "include_local": (
        'include_local = "yes"\n',
        [
            "1: `include_local` must be a boolean, not a string; "
            "write include_local = true or include_local = false"
        ],
    ),
    "environments": (
        '[environments]\nid = "a"\n',
        [
            "1: `environments` must be an array, not a table; "
            "write each entry as a table under its own line [[environments]]",
        ],
    ),
    "an environment": (
        'environments = [\n"a"]\n',
        [
            "2: `environments` must contain only tables, not a string; "
            "write each entry as a table under its own line [[environments]]",
        ],
    ),
    "token": (
        SERVER + "auth_bearer_token = 12345\n",
        ['4: `auth_bearer_token` must be a string, not an integer; write auth_bearer_token = "text"'],
    ),
    "args": (
        PROGRAM + 'args = "-c"\n',
        ['4: `args` must be an array, not a string; write args = ["text", "text"]'],
    ),
    "an arg": (
        PROGRAM + 'args = ["-c",\n1]\n',
        ['5: `args` must contain only strings, not an integer; write args = ["text", "text"]'],
    ),
    "env": (
        PROGRAM + '[environments.env]\nA = "1"\nB = 2\n',
        ["6: `env.B` must be a string, not an integer; put its value in quotes"],
    ),
    "cwd": (PROGRAM + "cwd = 1\n", ['4: `cwd` must be a string, not an integer; write cwd = "text"']),
    "timeout": (
        SERVER + 'connect_timeout_sec = "1"\n',
        [
            "4: `connect_timeout_sec` must be a number, not a string; "
            "write connect_timeout_sec = 10 or connect_timeout_sec = 2.5",
        ],
    ),
    "negative timeout": (
        SERVER + "connect_timeout_sec = -1\n",
        [
            "4: environment `a` connect_timeout_sec must be more than 0 and finite; "
            "write connect_timeout_sec = 10",
        ],
    ),
    "endless timeout": (
        SERVER + "initialize_timeout_sec = inf\n",
        [
            "4: environment `a` initialize_timeout_sec must be more than 0 and finite; "
            "write initialize_timeout_sec = 10",
        ],
    ),
    "no timeout": (
        SERVER + "connect_timeout_sec = nan\n",
        [
            "4: environment `a` connect_timeout_sec must be more than 0 and finite; "
            "write connect_timeout_sec = 10",
        ],
    ),
    "skills": (
        SERVER + 'skills = "x"\n',
        ["4: `skills` must be a table, not a string; write a table: skills = { … }"],
    ),
    "required skills": (
        SERVER + 'skills.required = "x"\n',
        ['4: `required` must be an array, not a string; write required = ["text", "text"]'],
    ),
}
# What the reference takes and fails on later, when it is used: here it is told where it stands.
STRICTER: dict[str, tuple[str, list[str]]] = {
    "credentials": (
        at("ws://user:passw0rd@127.0.0.1:1"),
        [
            "3: environment url `ws://…@127.0.0.1:1` must not contain a user name or password; "
            "use auth_bearer_token instead",
        ],
    ),
    "port without host": (
        at("ws://:80"),
        [f"3: environment url `ws://:80` is invalid: no host and port; {HOST_AND_PORT}"],
    ),
    "port": (
        at("ws://127.0.0.1:99999"),
        [f"3: environment url `ws://127.0.0.1:99999` is invalid: no host and port; {HOST_AND_PORT}"],
    ),
    "port in letters": (
        at("ws://127.0.0.1:http"),
        [f"3: environment url `ws://127.0.0.1:http` is invalid: no host and port; {HOST_AND_PORT}"],
    ),
    "port zero": (
        at("ws://127.0.0.1:0"),
        [f"3: environment url `ws://127.0.0.1:0` is invalid: no host and port; {HOST_AND_PORT}"],
    ),
    "fragment": (
        at("ws://127.0.0.1:1/#x"),
        [
            "3: environment url `ws://127.0.0.1:1/#x` is invalid: a fragment has no meaning here; "
            "remove the # and what follows",
        ],
    ),
    "empty token": (
        SERVER + 'auth_bearer_token = " "\n',
        ["4: auth_bearer_token cannot be empty; write the token, or remove the line"],
    ),
    "token beyond ASCII": (
        SERVER + 'auth_bearer_token = "t0kén"\n',
        [
            "4: invalid value for exec-server WebSocket header `authorization`; "
            "write the token in printable ASCII on one line",
        ],
    ),
    "zero timeout": (
        SERVER + "connect_timeout_sec = 0\n",
        [
            "4: environment `a` connect_timeout_sec must be more than 0 and finite; "
            "write connect_timeout_sec = 10",
        ],
    ),
    "impossible variables": (
        PROGRAM + '[environments.env]\n"A=B" = "1"\n"" = "2"\nC = "\\u0000"\n',
        [
            f"5: environment `a` env has an invalid name `A=B`; {POSSIBLE}",
            f"6: environment `a` env has an invalid name ``; {POSSIBLE}",
            "7: environment `a` env `C` must not contain NUL; remove the \\u0000",
        ],
    ),
    "NUL": (
        ENTRY + 'program = "a\\u0000"\nargs = ["\\u0000"]\n',
        [
            "3: environment `a` program must not contain NUL; remove the \\u0000",
            "4: environment `a` args must not contain NUL; remove the \\u0000",
        ],
    ),
}
# What both take, and what it means.
TAKEN: dict[str, tuple[str, Configuration]] = {
    "empty": ("", Configuration(source="/f/x.toml")),
    "byte order mark": ("\ufeff", Configuration(source="/f/x.toml")),
    "a server": (
        'default = " a "\n'
        + at(" ws://127.0.0.1:1/p?q ")
        + "connect_timeout_sec = 0.5\ninitialize_timeout_sec = 3\n",
        Configuration(
            default="a",
            environments=(
                Declared(
                    "a",
                    url="ws://127.0.0.1:1/p?q",
                    connect_timeout=0.5,
                    initialize_timeout=3.0,
                    file="/f/x.toml",
                    line=2,
                ),
            ),
            source="/f/x.toml",
        ),
    ),
    "a program": (
        "include_local = false\n"
        + ENTRY
        + 'program = " ssh "\nargs = ["h", "x y"]\ncwd = "w"\nenv = { A = "1" }\nskills.required = ["s"]\n',
        Configuration(
            default=None,
            include_local=False,
            environments=(
                Declared(
                    "a",
                    program="ssh",
                    args=("h", "x y"),
                    cwd="/f/w",
                    env={"A": "1"},
                    skills=("s",),
                    file="/f/x.toml",
                    line=2,
                ),
            ),
            source="/f/x.toml",
        ),
    ),
    "no default": (
        'default = "NONE"\n' + PROGRAM + 'cwd = "/abs"\n',
        Configuration(
            default=None,
            environments=(Declared("a", program="true", cwd="/abs", file="/f/x.toml", line=2),),
            source="/f/x.toml",
        ),
    ),
    "an inline array, and ids that differ in case": (
        'environments = [{ id = "a", program = "x" },\n'
        '{ id = "A", program = "y" }, { id = "Local", program = "z" }]\n',
        Configuration(
            environments=(
                Declared("a", program="x", file="/f/x.toml", line=1),
                Declared("A", program="y", file="/f/x.toml", line=2),
                Declared("Local", program="z", file="/f/x.toml", line=2),
            ),
            source="/f/x.toml",
        ),
    ),
    "tokens": (
        at("wss://127.0.0.1:1")
        + 'auth_bearer_token = "t"\n'
        + "".join(
            f'[[environments]]\nid = "{id}"\nurl = "ws://{host}:1"\nauth_bearer_token = "t"\n'
            for id, host in (("b", "LOCALHOST"), ("c", "[::1]"), ("d", "127.8.9.1"))
        ),
        Configuration(
            environments=(
                Declared("a", url="wss://127.0.0.1:1", token="t", file="/f/x.toml", line=1),
                Declared("b", url="ws://LOCALHOST:1", token="t", file="/f/x.toml", line=5),
                Declared("c", url="ws://[::1]:1", token="t", file="/f/x.toml", line=9),
                Declared("d", url="ws://127.8.9.1:1", token="t", file="/f/x.toml", line=13),
            ),
            source="/f/x.toml",
        ),
    ),
    "the longest id": (
        named("a" * 64),
        Configuration(
            environments=(Declared("a" * 64, program="true", file="/f/x.toml", line=1),), source="/f/x.toml"
        ),
    ),
}

# Keys that the reference does not know.
OURS: dict[str, tuple[str, list[str]]] = {
    "token file of a program": (
        PROGRAM + 'auth_bearer_token_file = "token"\n',
        ["4: environment `a` auth_bearer_token_file requires url; remove auth_bearer_token_file, or set url"],
    ),
    "token file in the clear": (
        FAR + 'auth_bearer_token_file = "token"\n',
        [
            "4: exec-server WebSocket headers require wss:// or a loopback destination; "
            "use wss://, or reach the server through a tunnel on 127.0.0.1",
        ],
    ),
    "token and a file with one": (
        SERVER + 'auth_bearer_token = "t0ken"\nauth_bearer_token_file = "token"\n',
        ["5: auth_bearer_token and auth_bearer_token_file cannot both be set; remove one of them"],
    ),
    "token file with a NUL": (
        SERVER + 'auth_bearer_token_file = "a\\u0000b"\n',
        ["4: auth_bearer_token_file must not contain NUL; remove the \\u0000"],
    ),
    "certificates without TLS": (
        SERVER + 'tls_ca = "ca.pem"\n',
        ["4: environment `a` tls_ca requires a wss:// url; write wss://, or remove tls_ca"],
    ),
    "certificates without a server": (
        PROGRAM + 'tls_ca = "ca.pem"\n',
        ["4: environment `a` tls_ca requires url; remove tls_ca, or set url"],
    ),
    "a key alone": (
        at("wss://h:1") + 'tls_key = "key.pem"\n',
        ["4: environment `a` tls_key requires tls_cert; name the key's certificate, too"],
    ),
    "a file with NUL": (
        at("wss://h:1") + 'tls_ca = "a\\u0000b"\n',
        ["4: environment `a` tls_ca must not contain NUL; remove the \\u0000"],
    ),
}
CERTIFICATES = (
    'default = "a"\n'
    + at("wss://h:1")
    + 'tls_ca = "ca.pem"\ntls_cert = "/c/cert.pem"\ntls_key = "k/key.pem"\n'
    + 'auth_bearer_token_file = "token"\n',
    Configuration(
        default="a",
        environments=(
            Declared(
                "a",
                url="wss://h:1",
                tls_ca="/f/ca.pem",
                tls_cert="/c/cert.pem",
                tls_key="/f/k/key.pem",
                token_file="/f/token",
                file="/f/x.toml",
                line=2,
            ),
        ),
        source="/f/x.toml",
    ),
)


def told(text: str) -> list[str]:
    """What is said about a text, without the name of the file."""
    with pytest.raises(FileInvalid) as raised:
        parse_environments(text, "/f/x.toml")
    lines = str(raised.value).splitlines()
    assert all(line.startswith("/f/x.toml:") for line in lines)
    return [line.removeprefix("/f/x.toml:") for line in lines]


@pytest.mark.parametrize(("text", "words", "expected"), REFUSED.values(), ids=REFUSED)
def test_a_broken_rule_is_told_in_the_words_of_the_reference(
    text: str, words: str, expected: list[str]
) -> None:
    assert told(text) == expected
    assert any(words in line for line in expected)


@pytest.mark.parametrize(("text", "expected"), WRONG_TYPE.values(), ids=WRONG_TYPE)
def test_a_wrong_type_is_told(text: str, expected: list[str]) -> None:
    assert told(text) == expected


@pytest.mark.parametrize(("text", "expected"), (STRICTER | OURS).values(), ids=STRICTER | OURS)
def test_what_could_not_work_is_told_at_once(text: str, expected: list[str]) -> None:
    assert told(text) == expected


@pytest.mark.parametrize(("text", "expected"), TAKEN.values(), ids=TAKEN)
def test_a_correct_file_is_taken(text: str, expected: Configuration) -> None:
    assert parse_environments(text, "/f/x.toml") == expected


def test_a_unix_socket_is_ours_alone(tmp_path: Path) -> None:
    """The reference refuses it: a file that Codex reads as well cannot have one."""
    text = at("unix:/run/box.sock") + 'auth_bearer_token = "t0ken"\n'
    [declared] = parse_environments(text, "/f/x.toml").environments
    assert (declared.url, declared.token) == ("unix:/run/box.sock", "t0ken")
    assert told(at("unix:box.sock")) == [
        "3: environment url `unix:box.sock` is invalid: its path depends on the current directory; "
        "write the whole path: unix:/PATH"
    ]
    for url in ("unix:", "unix://host/box.sock", f"unix:/{'x' * 107}"):
        assert told(at(url)) == [
            f"3: environment url `{url}` is invalid: no path of a socket; write unix:/PATH"
        ]
    words = "environment url `unix:/run/box.sock` must use ws:// or wss://"
    assert words in (reference(tmp_path, text) or "taken")


def test_files_for_tls_are_found_from_the_directory_of_the_file() -> None:
    text, expected = CERTIFICATES
    assert parse_environments(text, "/f/x.toml") == expected


def test_all_mistakes_are_told_at_once() -> None:
    text = (
        'default = "b"\ninclude_locl = false\n\n[[environments]]\nid = 7\nurl = "ftp://x"\n\n'
        '[[environments]]\nid = "a"\nprogram = "x"\nconnect_timeout_sec = -1\nargs = "y"\n\n'
        '[[environments]]\nid = "a"\n'
    )
    assert told(text) == [
        '1: default environment `b` is not configured; write one of "local", "a", "none"',
        "2: unknown field `include_locl`; did you mean `include_local`?",
        '5: `id` must be a string, not an integer; write id = "text"',
        "6: environment url `ftp://x` must use ws:// or wss://; write ws://HOST:PORT, or wss:// for TLS",
        "11: environment `a` connect_timeout_sec requires url; remove connect_timeout_sec, or set url",
        "11: environment `a` connect_timeout_sec must be more than 0 and finite; "
        "write connect_timeout_sec = 10",
        '12: `args` must be an array, not a string; write args = ["text", "text"]',
        f"14: environment `a` must set exactly one of url or program; {ONE_OF_TWO}",
        "15: environment id `a` is duplicated; give each environment an id of its own",
    ]


def test_an_entry_without_a_name_is_told_by_its_number() -> None:
    assert told(PROGRAM + "[[environments]]\n")[1].startswith("4: environment number 2 must set exactly one")


def test_a_control_character_does_not_reach_the_terminal() -> None:
    assert "\x1b" not in "".join(told(named("\\u001b[2J")))


# Secrets


def test_a_token_is_in_no_text(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token, value = "s3cr3t-t0ken", "s3cr3t-value"
    good = parse_environments(
        at("wss://h:1/?key=s3cr3t-query") + f'auth_bearer_token = "{token}"\n', "/f/x.toml"
    )
    program = parse_environments(PROGRAM + f'env = {{ A = "{value}" }}\n', "/f/x.toml")
    texts = [repr(good), repr(good.environments), repr(program), str(program)]
    for bad in (
        FAR + f'auth_bearer_token = "{token}"\n',
        PROGRAM + f'auth_bearer_token = "{token}"\n',
        SERVER + f'auth_bearer_token = "{token}\\n"\n',
        SERVER + f'auth_bearer_token = ["{token}"]\n',
        SERVER + f'auth_bearer_token = "{token}\n',
        SERVER + f'auth_bearer_tokn = "{token}"\n',
        at(f"ws://user:{token}@h:1"),
        at(f"http://user:{token}@h:1"),
        at(f"user:{token}@h:1"),
        at(f"ws://user:{token}/x@h:1"),
        at(f"ws://user:{token}?x@h:1"),
        at(f"ws://h:{token}@p"),
        at(f"ws://[user:{token}@h"),
        at(f"ftp://h?key={token}"),
    ):
        with pytest.raises(FileInvalid) as raised:
            parse_environments(bad, "/f/x.toml")
        texts += [str(raised.value), repr(raised.value), repr(raised.value.mistakes)]
    for text in [*texts, caplog.text]:
        assert "s3cr3t" not in text


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("wss://h:1/p", "wss://h:1/p"),
        ("ws://u:p@h/x", "ws://…@h/x"),
        ("ws://h/?a=b&c", "ws://h/?…"),
        ("ws://h/?a=u@v", "ws://…@v"),
    ],
)
def test_a_url_is_shown_without_what_may_be_secret(url: str, expected: str) -> None:
    assert shown_url(url) == expected


# Environments that were not read from a file


def test_an_environment_made_by_hand_is_checked_by_the_same_rules() -> None:
    check(Declared("a", url="ws://127.0.0.1:1", token="t"))
    check(Declared("a", program="x", args=("y",), env={"A": "1"}, cwd="/"))
    with pytest.raises(SettingInvalid) as raised:
        check(Declared("none", url="ws://far.invalid", token="t", args=("y",), initialize_timeout=0))
    assert [line.partition(";")[0] for line in str(raised.value).splitlines()] == [
        "environment id `none` is reserved",
        "environment `none` args, env, and cwd require program",
        "exec-server WebSocket headers require wss:// or a loopback destination",
        "environment `none` initialize_timeout_sec must be more than 0 and finite",
    ]


# Where it is read


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"OUTFITTER_HOME": "/o", "XDG_CONFIG_HOME": "/x", "HOME": "/h"}, "/o"),
        ({"OUTFITTER_HOME": "", "XDG_CONFIG_HOME": "/x", "HOME": "/h"}, "/x/outfitter"),
        ({"XDG_CONFIG_HOME": "relative", "HOME": "/h"}, "/h/.config/outfitter"),
        ({"HOME": "/h"}, "/h/.config/outfitter"),
    ],
)
def test_the_folder_is_the_first_that_is_named(environ: dict[str, str], expected: str) -> None:
    assert config_home(environ) == expected


def test_without_any_variable_the_folder_is_in_the_home_of_the_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pwd, "getpwuid", lambda _: SimpleNamespace(pw_dir="/home/ada"))
    assert config_home({}) == "/home/ada/.config/outfitter"
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    assert load({}) == Configuration()
    with pytest.raises(SettingInvalid, match="set HOME, XDG_CONFIG_HOME or OUTFITTER_HOME"):
        config_home({})


def test_without_a_file_there_is_this_machine_alone(tmp_path: Path) -> None:
    assert load({"HOME": str(tmp_path)}) == Configuration()
    assert load({"HOME": str(tmp_path), "CODEX_EXEC_SERVER_URL": "ws://h:1"}) == Configuration()


def test_our_file_is_read_and_its_folder_is_where_paths_start(tmp_path: Path) -> None:
    (tmp_path / "environments.toml").write_text(PROGRAM + 'cwd = "w"\n')
    found = load({"OUTFITTER_HOME": str(tmp_path)})
    assert found.source == str(tmp_path / "environments.toml")
    assert [one.cwd for one in found.environments] == [str(tmp_path / "w")]


def test_the_file_of_codex_decides_alone(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder, id in ((ours, "a"), (theirs, "b")):
        folder.mkdir()
        (folder / "environments.toml").write_text(named(id))
    environ = {"OUTFITTER_HOME": str(ours), "CODEX_EXEC_SERVER_URL": "ws://h:1"}
    assert [one.id for one in load(environ).environments] == ["a"]
    assert [one.id for one in load(environ, str(theirs)).environments] == ["b"]


REMOTE = Configuration(
    default="remote",
    include_local=False,
    environments=(Declared("remote", url="ws://h:1", file="CODEX_EXEC_SERVER_URL"),),
    source="CODEX_EXEC_SERVER_URL",
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, Configuration()),
        ("  ", Configuration()),
        (" NoNe ", Configuration(default=None, include_local=False, source="CODEX_EXEC_SERVER_URL")),
        (" ws://h:1 ", REMOTE),
    ],
)
def test_without_a_file_the_variable_of_codex_decides(
    tmp_path: Path, value: str | None, expected: Configuration
) -> None:
    environ = {} if value is None else {"CODEX_EXEC_SERVER_URL": value}
    assert load(environ, str(tmp_path)) == expected


def test_a_variable_that_is_no_url_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        SettingInvalid, match=r"^CODEX_EXEC_SERVER_URL: environment url `garbage` must use ws://"
    ):
        load({"CODEX_EXEC_SERVER_URL": "garbage"}, str(tmp_path))


def unreadable(path: Path) -> str:
    with pytest.raises(FileInvalid) as raised:
        read(str(path))
    text = str(raised.value)
    assert text.startswith(str(path))
    return text.removeprefix(str(path))


def test_what_cannot_be_read_is_told_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "environments.toml"
    path.mkdir()
    assert unreadable(path) == ": cannot be read: is a directory; make it a readable file, or remove it"
    path.rmdir()
    os.mkfifo(path)
    remedy = "make it a readable file, or remove it"
    assert unreadable(path) == f": cannot be read: it is a pipe, not a file; {remedy}"
    path.unlink()
    with terminal() as name:
        path.symlink_to(name)
        assert unreadable(path) == f": cannot be read: it is a device, not a file; {remedy}"
    path.unlink()
    path.touch()
    os.truncate(path, 1 << 40)
    assert unreadable(path) == ": cannot be read: it has more than 1048576 bytes; make it shorter"
    path.unlink()
    path.symlink_to(tmp_path / "gone")
    assert unreadable(path) == ": cannot be read: it is a broken symbolic link; correct or remove the link"
    path.unlink()
    path.write_bytes(b'default = "local"\n# caf\xe9\n')
    assert unreadable(path) == ":2: not UTF-8; save the file as UTF-8"
    assert unreadable(path / "x") == f": cannot be read: not a directory; {remedy}"


# The reference

_OFFLINE = """\
check_for_update_on_startup = false
[features]
plugins = false
remote_plugin = false
apps = false
[analytics]
enabled = false
"""


def reference(home: Path, text: str) -> str | None:
    """What the reference says when it reads this file; None when it takes it."""
    codex_home = home / ".codex"
    codex_home.mkdir()
    (codex_home / "config.toml").write_text(_OFFLINE)
    (codex_home / "environments.toml").write_text(text)
    done = subprocess.run(
        [str(codex_binary()), "app-server"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "CODEX_HOME": str(codex_home)},
        check=False,
    )
    return None if done.returncode == 0 else done.stderr


@pytest.mark.parametrize(("text", "words"), [case[:2] for case in REFUSED.values()], ids=REFUSED)
def test_the_reference_refuses_it_in_these_words(tmp_path: Path, text: str, words: str) -> None:
    assert words in (reference(tmp_path, text) or "taken")


@pytest.mark.parametrize("text", [case[0] for case in WRONG_TYPE.values()], ids=WRONG_TYPE)
def test_the_reference_refuses_the_type_too(tmp_path: Path, text: str) -> None:
    assert "failed to parse environment config" in (reference(tmp_path, text) or "taken")


@pytest.mark.parametrize(
    "text",
    [case[0] for case in (*TAKEN.values(), *STRICTER.values())],
    ids=[*TAKEN, *(f"stricter: {name}" for name in STRICTER)],
)
def test_the_reference_takes_it(tmp_path: Path, text: str) -> None:
    assert reference(tmp_path, text) is None


def test_the_reference_refuses_the_keys_that_are_ours(tmp_path: Path) -> None:
    assert "unknown field `tls_ca`" in (reference(tmp_path, CERTIFICATES[0]) or "taken")


def test_without_a_home_there_is_this_machine_alone() -> None:
    assert load({}) == Configuration()
