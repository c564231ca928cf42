"""One configuration file: everything it can say, every rule with its words, all mistakes at once."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.contract.file import MAX_DOTS, parse_settings
from outfitter.contract.schema import KEYS
from outfitter.contract.settings import EnvSettings, FileSettings, PolicySettings, Source
from outfitter.errors import FileInvalid
from outfitter.record import replace
from tests.support.tools import codex_binary

FILE = "/srv/app/outfitter.toml"
HOME = "/home/me"

EVERYTHING = """\
[shell_environment_policy]
inherit = "core"
ignore_default_excludes = false
exclude = ["AWS_*",
           "GCP_*"]
include_only = ["PATH"]
allow_from = ["L3", "L5"]

[shell_environment_policy.set]
CI = "1"

[shell]
login = "reject"
startup = "repair"
snapshot = "loginShell"
snapshot_timeout = 2

[env]
set = { A = "1", B = "" }
unset = ["C", "BASH_FUNC_x%%"]
prepend = { PATH = ["bin", "~/bin", "/opt/x/"], CLASSPATH = ["../jars", "."] }
append.MANPATH = ["man"]
remove = { PATH = ["/old"] }

[names]
lists = ["CLASSPATH"]
secret = ["*_DSN"]
allow_code_loading = { project = ["PYTHONPATH"] }

[limits]
total_bytes = 4096

[daemon]
environment = "merge"

[import]
codex = "codex.toml"
"""


def parse(text: str, kind: str = "project", home: str | None = HOME) -> FileSettings:
    return parse_settings(text, FILE, kind, home)


def mistakes(text: str, kind: str = "project", home: str | None = HOME) -> list[str]:
    """Each as "LINE: TEXT; REMEDY"."""
    try:
        parse(text, kind, home)
    except FileInvalid as error:
        assert {mistake.file for mistake in error.mistakes} == {FILE}
        return [str(mistake).removeprefix(f"{FILE}:") for mistake in error.mistakes]
    return []


def at(line: int, kind: str = "user") -> Source:
    return Source(FILE, line, kind)


def test_user_file_can_say_all_of_it() -> None:
    said = parse(EVERYTHING, "user")
    lines, said = said.lines, replace(said, lines={})
    assert said == FileSettings(
        FILE,
        "user",
        login="reject",
        startup="repair",
        snapshot="loginShell",
        snapshot_timeout=2.0,
        policy=PolicySettings(
            FILE,
            inherit="core",
            ignore_default_excludes=False,
            exclude=("AWS_*", "GCP_*"),
            set=(("CI", "1"),),
            include_only=("PATH",),
            rules={
                "inherit": at(2),
                "ignore_default_excludes": at(3),
                "exclude": at(4),
                "exclude AWS_*": at(4),
                "exclude GCP_*": at(5),
                "include_only": at(6),
                "include_only PATH": at(6),
                "set": at(9),
                "set CI": at(10),
            },
        ),
        allow_from=("L3", "L5"),
        env=EnvSettings(
            FILE,
            set=(("A", "1", 19), ("B", "", 19)),
            unset=(("C", 20), ("BASH_FUNC_x%%", 20)),
            operations=(
                ("PATH", "remove", ("/old",), 23),
                ("PATH", "prepend", ("/srv/app/bin", "/home/me/bin", "/opt/x"), 21),
                ("CLASSPATH", "prepend", ("/srv/jars", "/srv/app"), 21),
                ("MANPATH", "append", ("/srv/app/man",), 22),
            ),
        ),
        list_names=("CLASSPATH",),
        secret_names=("*_DSN",),
        allow_code_loading=(("project", ("PYTHONPATH",)),),
        total_bytes=4096,
        daemon_environment="merge",
        import_codex="/srv/app/codex.toml",
    )
    settings = ("shell.login", "names.lists.CLASSPATH", "limits.total_bytes", "import.codex")
    assert [lines[setting] for setting in settings] == [13, 26, 31, 37]


def test_empty_file_says_nothing() -> None:
    assert parse("") == FileSettings(FILE, "project")
    tables = (
        "[shell_environment_policy]\n[shell]\n[env]\nset = {}\nprepend = { PATH = [] }\n[names]\n[limits]\n"
    )
    said = parse(tables)
    assert (said.policy, said.env, said.login) == (None, None, None)


@pytest.mark.parametrize(("flag", "login"), [("true", "allow"), ("false", "reject")])
def test_word_of_codex_for_login(flag: str, login: str) -> None:
    said = parse(f"\nallow_login_shell = {flag}\n")
    assert (said.login, said.source("shell.login")) == (login, at(2, "project"))


def test_filters_are_excludes_and_includes() -> None:
    said = parse(
        '[shell_environment_policy]\n[shell_environment_policy.filters]\n"A*" = "exclude"\nP = "include"\n'
    )
    assert said.policy == PolicySettings(
        FILE,
        exclude=("A*",),
        include_only=("P",),
        rules={
            "exclude": at(2, "project"),
            "exclude A*": at(3, "project"),
            "include_only": at(2, "project"),
            "include_only P": at(4, "project"),
        },
    )


def test_rule_that_says_nothing_is_still_said() -> None:
    policy = parse("[shell_environment_policy]\nexclude = []\n").policy
    assert policy == PolicySettings(FILE, rules={"exclude": at(2, "project")})


# Mistakes

_NAME = "a name has letters, digits and _, and does not start with a digit"
_POSSIBLE = "a name must not be empty and must not contain '=' or NUL"
_MOVE = "move it to your own config.toml"


def foreign(setting: str) -> str:
    return f"{setting} is not allowed in a project's file; {_MOVE}"


_INSIDE = '`providers.devcontainer` has no effect; write at most devcontainer = ["inside", "FILE"]'
WRONG: dict[str, tuple[str, list[str]]] = {
    "unknown table": ("[shel]\n", ["1: unknown field `shel`; did you mean `shell`?"]),
    "unknown key": (
        "[limits]\nbytes = 1\n",
        ["2: unknown field `bytes`; did you mean `total_bytes`?"],
    ),
    "choice": (
        '[shell]\nlogin = "hush"\n',
        ['2: `shell.login` has an unknown value; write one of "allow", "strip", "reject"'],
    ),
    "two words for login": (
        'allow_login_shell = false\n[shell]\nlogin = "reject"\n',
        ["1: `allow_login_shell` and `shell.login` mean the same; keep one of them"],
    ),
    "two forms of filters": (
        "[shell_environment_policy]\nexclude = []\ninclude_only = []\nfilters = {}\n",
        [
            "2: `exclude` cannot be used with `filters`; write the rule in `filters`, or remove `filters`",
            "3: `include_only` cannot be used with `filters`; write the rule in `filters`, or remove "
            "`filters`",
        ],
    ),
    "filters": (
        '[shell_environment_policy.filters]\nA = "hush"\na = "exclude"\n',
        [
            '2: `shell_environment_policy.filters` has an unknown action; write "exclude" or "include"',
            "3: `shell_environment_policy.filters` has `a` twice, in different case; "
            "case is ignored: keep one of them",
        ],
    ),
    "user's keys": (
        '[shell_environment_policy]\nallow_from = ["L3"]\n[shell]\nsnapshot = "none"\nsnapshot_timeout = 1\n'
        "[names]\nallow_code_loading = {}\n[daemon]\n[import]\ncodex = true\n",
        [
            f"2: {foreign('`shell_environment_policy.allow_from`')}",
            f"4: {foreign('`shell.snapshot`')}",
            f"5: {foreign('`shell.snapshot_timeout`')}",
            f"7: {foreign('`names.allow_code_loading`')}",
            f"8: {foreign('[daemon]')}",
            f"9: {foreign('[import]')}",
        ],
    ),
    "values": (
        '[env.set]\n"A.B" = "1"\nC = "hush\\u0000"\nD = 1\nPATH = "bin:$PATH"\n"" = "x"\n',
        [
            f"2: `env.set` has `A.B`, which is not a name; {_NAME}",
            "3: `env.set.C` contains a NUL; remove the \\u0000",
            "4: `set.D` must be a string, not an integer; put its value in quotes",
            "5: `env.set.PATH` has an entry that starts with $, which is not expanded; "
            "use `prepend` or `append` to add to PATH",
            f"6: `env.set` has ``, which is not a name; {_NAME}",
        ],
    ),
    "values of the policy": (
        '[shell_environment_policy]\nset = { "A B" = "hush" }\n',
        [f"2: `shell_environment_policy.set` has `A B`, which is not a name; {_NAME}"],
    ),
    "set and unset": (
        '[env]\nset = { A = "1", B = 2 }\nunset = ["C",\n"A"]\n',
        [
            "2: `set.B` must be a string, not an integer; put its value in quotes",
            "4: `A` is both in `set` and in `unset`; remove it from one of them",
        ],
    ),
    "unset": (
        '[env]\nunset = ["", "A=B"]\n',
        [f"2: `env.unset` has an entry that is not a name; {_POSSIBLE}"] * 2,
    ),
    "one mistake beside another": (
        '[env]\nunset = [1, ""]\nappend.PATH = [1, ":"]\n'
        '[shell_environment_policy.filters]\nA = "hush"\nB = 1\n',
        [
            '2: `unset` must contain only strings, not an integer; write unset = ["text", "text"]',
            f"2: `env.unset` has an entry that is not a name; {_POSSIBLE}",
            '3: `PATH` must contain only strings, not an integer; write PATH = ["text", "text"]',
            "3: `PATH` has an entry with a colon, which separates entries; write several entries",
            '5: `shell_environment_policy.filters` has an unknown action; write "exclude" or "include"',
            "6: `filters.B` must be a string, not an integer; put its value in quotes",
        ],
    ),
    "no list": (
        '[env]\nprepend = { HOME = ["x"], "A-B" = [] }\n',
        [
            "2: `HOME` is not a list variable; add it to `lists` of [names]",
            f"2: `A-B` is not a list variable; {_NAME}",
        ],
    ),
    "entries": (
        '[env.prepend]\nPATH = [\n"",\n"a:b",\n"~/bin",\n"~",\n"$HOME/bin",\n"n\\u0000"]\nMANPATH = "x"\n',
        [
            '3: `PATH` has an empty entry; write "." for the directory of this file',
            "4: `PATH` has an entry with a colon, which separates entries; write several entries",
            f"5: `PATH` has an entry in a home directory; use directories of the project, or {_MOVE}",
            f"6: `PATH` has an entry in a home directory; use directories of the project, or {_MOVE}",
            "7: `PATH` has an entry that starts with $, which is not expanded; write the path itself",
            "8: `PATH` has an entry with a NUL; remove the \\u0000",
            '9: `MANPATH` must be an array, not a string; write MANPATH = ["text", "text"]',
        ],
    ),
    "names": (
        '[names]\nlists = ["A", "9"]\nsecret = ["", "A"]\n',
        [
            f"2: `names.lists` has an entry that is not a name; {_NAME}",
            "3: `names.secret` has an empty pattern; write a name, or * for any part",
        ],
    ),
    "limit": (
        "[limits]\ntotal_bytes = 2097153\n",
        ["2: `limits.total_bytes` must be a whole number from 1 to 2097152; write total_bytes = 1048576"],
    ),
    "half a byte": (
        "[limits]\ntotal_bytes = 1.5\n",
        ["2: `limits.total_bytes` must be a whole number from 1 to 2097152; write total_bytes = 1048576"],
    ),
    "more than a provider reads": (
        '[providers]\npython = ["a",\n"hush"]\nconda = ["p", "hush"]\ndevcontainer = ["outside", "f", "g"]\n',
        [
            '3: entry 2 of `providers.python` has no effect; write at most python = ["DIRECTORY"]',
            '4: entry 2 of `providers.conda` has no effect; write at most conda = ["PREFIX", "ask"]',
            f"5: entry 1 of {_INSIDE}",
            f"5: entry 3 of {_INSIDE}",
        ],
    ),
    "type of a table": (
        "env = 1\n",
        ["1: `env` must be a table, not an integer; write a table: env = { … }"],
    ),
    "not TOML": (
        "[env\n",
        ["1: not valid TOML: expected ']' at the end of a table declaration at column 5; close the bracket"],
    ),
}


@pytest.mark.parametrize(("text", "told"), WRONG.values(), ids=WRONG)
def test_mistakes_are_told_with_line_and_remedy(text: str, told: list[str]) -> None:
    assert mistakes(text) == told


@pytest.mark.parametrize("text", [text for text, _ in WRONG.values()], ids=WRONG)
def test_no_value_is_in_a_mistake(text: str) -> None:
    assert "hush" not in "".join(mistakes(text))


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "301"])
def test_snapshot_takes_some_time_and_not_forever(seconds: str) -> None:
    assert mistakes(f"[shell]\nsnapshot_timeout = {seconds}\n", "user") == [
        "2: `shell.snapshot_timeout` must be more than 0 and at most 300 seconds; "
        "write snapshot_timeout = 10.0"
    ]


def test_mistakes_of_the_users_own_keys() -> None:
    text = (
        '[shell_environment_policy]\nallow_from = ["L3", "L6"]\n'
        '[names.allow_code_loading]\nproject = ["A B"]\n"" = []\nx = "PYTHONPATH"\n[import]\ncodex = 1\n'
    )
    assert mistakes(text, "user") == [
        '2: `shell_environment_policy.allow_from` has an unknown entry; write one of "L3", "L4", "L5"',
        f"4: `names.allow_code_loading.project` has an entry that is not a name; {_NAME}",
        '5: `names.allow_code_loading` has a producer without a name; write project = ["NAME"]',
        '6: `x` must be an array, not a string; write x = ["text", "text"]',
        "8: `import.codex` must be a boolean or a path; write codex = true",
    ]


@pytest.mark.parametrize("kind", ["user", "project"])
def test_modes_of_providers_are_checked_with_their_line(kind: str) -> None:
    text = '[providers.modes]\nnix = "capture"\ndirenv = "wrap"\nelsewhere = "wrap"\n'
    said = parse_settings(text, FILE, kind, HOME)
    assert said.provider_modes == {"nix": "capture", "direnv": "wrap", "elsewhere": "wrap"}
    assert said.source("providers.modes.direnv") == Source(FILE, 3, kind)
    with pytest.raises(FileInvalid) as raised:
        parse_settings('[providers.modes]\nconda = "wrap"\nnix = "session"\n', FILE, kind, HOME)
    first, second = raised.value.mistakes
    assert (first.line, second.line) == (2, 3)
    assert first.text.startswith("the provider `conda` has no mode `wrap` (`conda run` writes a script")
    assert first.remedy == 'write "snapshot" or "capture" in [providers.modes]'
    assert second.remedy == 'write one of "snapshot", "capture", "wrap"'


def test_home_must_be_known_where_it_is_used() -> None:
    text = '[env]\nprepend = { PATH = ["~/bin"] }\n[import]\ncodex = "~/codex.toml"\n'
    assert mistakes(text, "user") == []
    assert mistakes(text, "user", None) == [
        "2: `PATH` has an entry in a home directory, but HOME is not set; write the whole path",
        "4: `import.codex` is in a home directory, but HOME is not set; write codex = true, or a whole path",
    ]


def test_key_of_very_many_parts_is_refused_before_it_costs_anything() -> None:
    deep = ".".join(["a"] * 20_000)
    assert mistakes(f"\n{deep} = 1\n") == [
        f"2: a line with more than {MAX_DOTS} dots; write it as several lines"
    ]


_KEYS = st.sampled_from(
    [*filter(None, KEYS), *(key.name for keys in KEYS.values() for key in keys), "PATH", "bogus"]
)
_VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["all", "strip", "exclude"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS | st.text(), inner, max_size=3),
    max_leaves=12,
)


def written(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ",".join(f"{written(str(key))}={written(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return f"[{','.join(map(written, value))}]"
    if isinstance(value, str):
        text = value.encode("utf-8", "replace").decode()
        return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, float):
        return (
            repr(value).replace("e", ".0e") if "e" in repr(value) and "." not in repr(value) else repr(value)
        )
    return str(value)


@given(st.dictionaries(_KEYS, _VALUES, max_size=6), st.sampled_from(["user", "project", "codex"]))
def test_any_file_is_read_or_refused_with_places(tables: dict[str, object], kind: str) -> None:
    text = "".join(f"{key} = {written(value)}\n" for key, value in tables.items())
    try:
        tomllib.loads(text)
    except (tomllib.TOMLDecodeError, ValueError):
        return
    for mistake in mistakes(text, kind):
        line, _, rest = mistake.partition(": ")
        assert 1 <= int(line) <= len(tables)
        assert "; " in rest


# Codex's own file

CODEX = """\
model = "some"
allow_login_shell = false
[shell_environment_policy]
inherit = "core"
experimental_use_profile = true
set = { "A.B" = "1" }
[projects."/srv/app"]
trust_level = "trusted"
[env]
set = { A = "1" }
unset = ["A"]
[shell]
login = 1
"""


def test_of_a_codex_file_only_the_environment_of_commands_is_read() -> None:
    said = parse(CODEX, "codex")
    assert said == FileSettings(
        FILE,
        "codex",
        login="reject",
        policy=PolicySettings(
            FILE,
            inherit="core",
            set=(("A.B", "1"),),
            rules={"inherit": at(4, "codex"), "set": at(6, "codex"), "set A.B": at(6, "codex")},
        ),
        lines=said.lines,
    )


REFERENCE = {
    "all of it": (CODEX, True),
    "inherit": ('[shell_environment_policy]\ninherit = "some"\n', False),
    "flag": ('allow_login_shell = "no"\n', False),
    "exclude": ('[shell_environment_policy]\nexclude = "A"\n', False),
    "set": ("[shell_environment_policy]\nset = { A = 1 }\n", False),
    "filters": ('[shell_environment_policy]\nfilters = { "A*" = "exclude", B = "include" }\n', True),
    "action": ('[shell_environment_policy]\nfilters = { "A*" = "omit" }\n', False),
    "two forms": ('[shell_environment_policy]\nexclude = []\nfilters = { A = "include" }\n', False),
    "case": ('[shell_environment_policy]\nfilters = { A = "include", a = "include" }\n', False),
}


@pytest.mark.parametrize(("text", "is_taken"), REFERENCE.values(), ids=REFERENCE)
def test_codex_file_is_taken_when_codex_takes_it(tmp_path: Path, text: str, is_taken: bool) -> None:
    assert (mistakes(text, "codex") == []) is is_taken
    (tmp_path / "config.toml").write_text(text)
    done = subprocess.run(
        [str(codex_binary()), "features", "list"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CODEX_HOME": str(tmp_path)},
        check=False,
    )
    assert (done.returncode == 0) is is_taken, done.stderr


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (
            f"exclude = {['A'] * 513}",
            "2: `exclude`: 513 patterns, at most 512 are allowed; join some of them with `*`",
        ),
        (
            f"include_only = {['*' + 'A' * 256]}",
            "2: a pattern of `include_only`: 257 bytes, at most 256 are allowed; shorten it with `*`",
        ),
        (
            "filters = {" + ", ".join(f'"*{"A" * 200}{number}" = "exclude"' for number in range(6)) + "}",
            "2: all patterns with wildcards of `filters`: 1212 characters, at most 1024 are allowed; "
            "use fewer",
        ),
    ],
)
def test_patterns_of_a_project_have_limits_and_those_of_its_user_none(rule: str, told: str) -> None:
    text = f"[shell_environment_policy]\n{rule}\n"
    assert mistakes(text) == [told]
    assert parse(text, "user").policy is not None
