"""Activations taken out of an environment, bookkeeping and effect together, and what tools get of it."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.shell.activation import (
    BOOKKEEPING,
    TOOL_NAMES,
    bookkeeper,
    scrub,
    tool_environment,
    unpack_direnv,
    unpack_mise,
)

quick = settings(deadline=None, max_examples=100)
NAMES = st.sampled_from(["A", "B", "C", "PATH", "LANG", "VIRTUAL_ENV", "PYTHONPATH"])
VARIABLES = st.dictionaries(NAMES, st.text(alphabet="xy\n é", max_size=4), max_size=5)
BASE = {"HOME": "/home/ada", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


def packed(value: Any) -> str:
    return base64.urlsafe_b64encode(zlib.compress(json.dumps(value).encode())).decode()


def message(data: bytes) -> str:
    """As mise packs it."""
    return base64.b64encode(zlib.compress(data)).decode().rstrip("=")


def diff(before: dict[str, str], after: dict[str, str]) -> dict[str, dict[str, str]]:
    """What direnv records: values that were another or none, on both sides."""
    return {
        "p": {name: value for name, value in before.items() if after.get(name) != value},
        "n": {name: value for name, value in after.items() if before.get(name) != value},
    }


def loaded(before: dict[str, str], after: dict[str, str]) -> dict[str, str]:
    """The environment of a shell in which direnv has made `after` of `before`."""
    inner = {**after, "DIRENV_DIR": "-/p", "DIRENV_FILE": "/p/.envrc", "DIRENV_WATCHES": packed([])}
    return {**inner, "DIRENV_DIFF": packed(diff(before, inner))}


# direnv


@quick
@given(VARIABLES, VARIABLES)
def test_what_direnv_loaded_is_reverted_exactly(before: dict[str, str], after: dict[str, str]) -> None:
    plain = {name: value for name, value in before.items() if name != "VIRTUAL_ENV"}
    clean, told = scrub(loaded(before, after))
    assert clean == plain
    assert {name for name, _ in told} >= {"DIRENV_DIFF", "DIRENV_DIR", "DIRENV_FILE", "DIRENV_WATCHES"}


def test_each_change_is_told_without_its_value() -> None:
    env = loaded({**BASE, "GONE": "hidden1"}, {**BASE, "PATH": "/p/bin:/usr/bin:/bin", "NEW": "hidden2"})
    clean, told = scrub(env)
    assert clean == {**BASE, "GONE": "hidden1"}
    assert told == [
        ("NEW", "removed: direnv loaded it for another shell"),
        ("PATH", "restored to its value from before direnv changed it"),
        ("GONE", "restored to its value from before direnv removed it"),
        *[
            (name, "removed: direnv's bookkeeping of another shell")
            for name in ("DIRENV_DIFF", "DIRENV_DIR", "DIRENV_FILE", "DIRENV_WATCHES")
        ],
    ]


def test_what_was_taken_away_after_direnv_does_not_come_back() -> None:
    # A policy that excludes a name excludes the value from before direnv, too.
    env = loaded({**BASE, "API_TOKEN": "old"}, {**BASE, "API_TOKEN": "new"})
    del env["API_TOKEN"]
    assert scrub(env)[0] == BASE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not base64!",
        packed([]),
        packed({"p": {}}),
        packed({"p": {}, "n": {"A": 1}}),
        packed({"p": {"": "x"}, "n": {}}),
        packed({"p": {}, "n": {}})[:-8],
        base64.urlsafe_b64encode(zlib.compress(b" " * (9 << 20))).decode(),
        base64.urlsafe_b64encode(zlib.compress(b"[" * 100_000)).decode(),
    ],
)
def test_a_record_that_cannot_be_read_changes_nothing_but_is_not_kept(text: str) -> None:
    clean, told = scrub({**BASE, "A": "1", "DIRENV_DIFF": text})
    assert clean == {**BASE, "A": "1"}
    assert told == [
        ("DIRENV_DIFF", "cannot be read, so the variables that direnv loaded stay"),
        ("DIRENV_DIFF", "removed: direnv's bookkeeping of another shell"),
    ]


@given(st.text(max_size=40))
def test_unpacking_never_raises(text: str) -> None:
    unpack_direnv(text)


def test_what_people_set_for_direnv_stays() -> None:
    env = {**BASE, "DIRENV_CONFIG": "/etc/direnv", "DIRENV_BASH": "/bin/bash", "FNM_DIR": "/fnm"}
    assert scrub(env) == (env, [])


# The others


def test_a_virtual_environment_goes_with_its_entry_of_path() -> None:
    clean, told = scrub(
        {**BASE, "PATH": "/v/bin/:/usr/bin:/bin", "VIRTUAL_ENV": "/v", "VIRTUAL_ENV_PROMPT": "v"}
    )
    assert clean == BASE
    assert told == [
        ("VIRTUAL_ENV", "removed: virtualenv's bookkeeping of another shell"),
        ("VIRTUAL_ENV_PROMPT", "removed: virtualenv's bookkeeping of another shell"),
        ("PATH", "without /v/bin/, which VIRTUAL_ENV added"),
    ]


def test_a_virtual_environment_that_is_not_in_path_leaves_path_alone() -> None:
    assert scrub({**BASE, "PATH": "/v/bin2:/w/bin:/usr/bin", "VIRTUAL_ENV": "/v"})[0] == {
        **BASE,
        "PATH": "/v/bin2:/w/bin:/usr/bin",
    }


def test_a_path_of_nothing_else_stays() -> None:
    clean, told = scrub({"PATH": "/v/bin", "VIRTUAL_ENV": "/v"})
    assert clean == {"PATH": "/v/bin"}
    assert told[-1] == ("PATH", "unchanged: it has only entries of activated environments")


def test_conda_goes_with_all_its_entries_but_its_settings_stay() -> None:
    env = {
        **BASE,
        "PATH": "/c/envs/a/bin:/c/bin:/c/condabin:/usr/bin:/bin",
        "CONDA_PREFIX": "/c/envs/a",
        "CONDA_PREFIX_1": "/c",
        "CONDA_SHLVL": "2",
        "CONDA_DEFAULT_ENV": "a",
        "CONDA_PROMPT_MODIFIER": "(a) ",
        "CONDA_EXE": "/c/bin/conda",
        "_CE_M": "",
        "_CE_CONDA": "",
        "CONDA_PKGS_DIRS": "/pkgs",
    }
    assert scrub(env)[0] == {**BASE, "PATH": "/c/condabin:/usr/bin:/bin", "CONDA_PKGS_DIRS": "/pkgs"}


# As mise 2026.9.15 leaves it for: LANG="de", FOO="bar", GONE=false, _.path="./bin".
MISE_DIFF = "eAFrXpyfk9K0xMfRz32h8xJ3fz/XJRmpRamL81LLmxa7+fsvTkosAssuSkldUpBYkjFxrX5JboF+brF+gX5SZh4AesIayw"


def test_mise_goes_with_what_it_loaded_and_put_into_path() -> None:
    env = {
        **BASE,
        "LANG": "de",
        "FOO": "bar",
        "PATH": (
            "/tmp/ms/p/bin:/d/mise/installs/node/20/bin:/d/mise/installs/own/bin:/d/mise/shims:"
            "/d/mise/bin:/usr/bin:/bin"
        ),
        "MISE_SHELL": "bash",
        "__MISE_DIFF": MISE_DIFF,
        "__MISE_SESSION": "y",
        "__MISE_ORIG_PATH": "/d/mise/installs/own/bin:/usr/bin:/bin",
    }
    clean, told = scrub(env)
    wanted = "/d/mise/installs/own/bin:/d/mise/bin:/usr/bin:/bin"
    assert clean == {**BASE, "LANG": "C", "GONE": "here", "PATH": wanted}
    assert told == [
        ("FOO", "removed: mise loaded it for another shell"),
        ("LANG", "restored to its value from before mise changed it"),
        ("GONE", "restored to its value from before mise removed it"),
        *[
            (name, "removed: mise's bookkeeping of another shell")
            for name in ("MISE_SHELL", "__MISE_DIFF", "__MISE_ORIG_PATH", "__MISE_SESSION")
        ],
        ("PATH", "without /tmp/ms/p/bin, which mise added"),
        ("PATH", "without /d/mise/installs/node/20/bin, which mise added"),
        ("PATH", "without /d/mise/shims, which mise added"),
    ]


@pytest.mark.parametrize(
    "text", ["", "x", "!", MISE_DIFF[:-4], message(b"\x01"), message(b"\x81"), message(b"\xdd\xff")]
)
def test_a_record_of_mise_that_cannot_be_read_is_told(text: str) -> None:
    clean, told = scrub({**BASE, "__MISE_DIFF": text})
    assert clean == BASE
    assert told[0] == ("__MISE_DIFF", "cannot be read, so the variables that mise loaded stay")


@quick
@given(
    st.dictionaries(
        st.text(min_size=1, max_size=40), st.sampled_from(["", "x" * 31, "x" * 32, "é" * 200, "x" * 70_000])
    )
)
def test_texts_of_every_size_are_read(values: dict[str, str]) -> None:
    def text(value: str) -> bytes:
        data = value.encode()
        size = len(data)
        if size < 32:
            return bytes([0xA0 | size]) + data
        width = 1 if size < 256 else 2 if size < 65536 else 4
        return bytes([{1: 0xD9, 2: 0xDA, 4: 0xDB}[width]]) + size.to_bytes(width, "big") + data

    pairs = b"".join(text(name) + text(value) for name, value in values.items())
    for head in (b"\xde" + len(values).to_bytes(2, "big"), b"\xdf" + len(values).to_bytes(4, "big")):
        assert unpack_mise(message(head + pairs)) == values
    names = b"".join(text(name) for name in values)
    for head in (b"\xdc" + len(values).to_bytes(2, "big"), b"\xdd" + len(values).to_bytes(4, "big")):
        assert unpack_mise(message(head + names)) == list(values)


@quick
@given(st.binary(max_size=30))
def test_any_message_is_read_or_not(data: bytes) -> None:
    unpack_mise(message(data))


def test_a_message_that_is_nested_too_deeply_is_not_read() -> None:
    assert unpack_mise(message(b"\x91" * 100_000 + b"\xc0")) is None


def test_an_entry_of_mise_without_its_marks_is_the_users() -> None:
    env = {**BASE, "PATH": "/d/mise/installs/node/20/bin:/usr/bin"}
    assert scrub(env) == (env, [])


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("DIRENV_LAYOUT", "direnv"),
        ("__MISE_WATCH", "mise"),
        ("IN_NIX_SHELL", "nix"),
        ("UV_RUN_RECURSION_DEPTH", "uv"),
        ("POETRY_ACTIVE", "poetry"),
        ("PIPENV_ACTIVE", "pipenv"),
        ("HATCH_ENV_ACTIVE", "hatch"),
        ("PDM_RUN_CWD", "pdm"),
        ("PYENV_VERSION", "pyenv"),
        ("PYENV_DIR", "pyenv"),
        ("NVM_BIN", "nvm"),
        ("NVM_INC", "nvm"),
        ("FNM_MULTISHELL_PATH", "fnm"),
        ("PIXI_PROJECT_ROOT", "pixi"),
        ("PYENV_ROOT", ""),
        ("NVM_DIR", ""),
        ("CONDA_CHANNELS", ""),
        ("NIX_PATH", ""),
        ("VIRTUAL_ENVIRONMENT", ""),
    ],
)
def test_bookkeeping_has_its_tool_and_settings_have_none(name: str, tool: str) -> None:
    assert bookkeeper(name) == tool
    assert scrub({name: "1"})[0] == ({} if tool else {name: "1"})


def test_guards_of_startup_files_go() -> None:
    env = {**BASE, "__ETC_PROFILE_NIX_SOURCED": "1", "__HM_SESS_VARS_SOURCED": "1"}
    clean, told = scrub(env)
    assert clean == BASE
    assert [name for name, _ in told] == ["__ETC_PROFILE_NIX_SOURCED", "__HM_SESS_VARS_SOURCED"]


@quick
@given(
    st.dictionaries(
        st.sampled_from([name.replace("*", "X") for all in BOOKKEEPING.values() for name in all]),
        st.text(max_size=3),
    )
)
def test_scrubbing_twice_is_scrubbing_once_and_leaves_the_original_alone(left: dict[str, str]) -> None:
    env = {**BASE, **left}
    before = dict(env)
    clean, _ = scrub(env)
    assert env == before
    assert clean == BASE
    assert scrub(clean) == (clean, [])


# Tools


def test_tools_get_what_is_on_the_list_and_nothing_else() -> None:
    env = {
        **BASE,
        "LC_ALL": "C",
        "XDG_DATA_HOME": "/d",
        "NIX_SSL_CERT_FILE": "/ca",
        "http_proxy": "http://proxy:3128",
        "EDITOR": "vi",
        "LD_PRELOAD": "/x.so",
        "PYTHONPATH": "/x",
        "SSH_CLIENT": "1 2 3",
        "home": "/elsewhere",
    }
    wanted = ("HOME", "PATH", "LANG", "LC_ALL", "XDG_DATA_HOME", "NIX_SSL_CERT_FILE", "http_proxy")
    assert tool_environment(env) == {**{name: env[name] for name in wanted}, "SHLVL": "1"}


@pytest.mark.parametrize(
    "name",
    [
        "CI",
        "GITHUB_ACTIONS",
        "GITLAB_CI",
        "BUILD_NUMBER",
        "RUN_ID",
        "CONTINUOUS_INTEGRATION",
        "TF_BUILD",
        "VERCEL",
    ],
)
def test_nothing_looks_like_a_ci(name: str) -> None:
    assert tool_environment({name: "false"}) == {"SHLVL": "1"}


def test_no_auto_yes_passes() -> None:
    assert tool_environment({"MISE_YES": "1", "MISE_TRUSTED_CONFIG_PATHS": "/"}) == {"SHLVL": "1"}


def test_secrets_do_not_pass_by_a_name_that_would() -> None:
    env = {"XDG_API_TOKEN": "abc", "HTTPS_PROXY": "http://ada:hidden@proxy:3128", "LC_SECRET": "x"}
    assert tool_environment(env) == {"SHLVL": "1"}


def test_every_name_of_the_list_has_a_reason() -> None:
    assert [name for name, why in TOOL_NAMES.items() if not why] == []
