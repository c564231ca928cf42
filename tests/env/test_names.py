"""Names that mean more than their value."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.env.names import REQUIRED, SHELL_MAINTAINED, is_agents, is_name, is_runtime, loads_code

from . import model

quick = settings(deadline=None, max_examples=100)


@quick
@given(st.text(alphabet="AZaz_09.-=%\u00e9\u0661\n ", max_size=4) | st.text(max_size=3))
def test_a_name_is_what_every_shell_passes_on(name: str) -> None:
    assert is_name(name) is (re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) is not None)


def test_a_keyword_is_a_name_like_any_other() -> None:
    assert is_name("if") and is_name("None")


def test_the_names_of_the_rules_are_known() -> None:
    assert [name for name in model.CODE_LOADING if not loads_code(name)] == []
    assert [start for start in model.CODE_LOADING_START if not loads_code(f"{start}X")] == []
    assert set(model.SHELL_MAINTAINED) <= SHELL_MAINTAINED
    assert frozenset(model.REQUIRED) == REQUIRED


@pytest.mark.parametrize(
    "name", ["BASH_FUNC_ls%%", "DYLD_INSERT_LIBRARIES", "GIT_CONFIG_KEY_0", "CARGO_TARGET_X_RUNNER"]
)
def test_a_family_of_names_loads_code(name: str) -> None:
    assert loads_code(name)


@pytest.mark.parametrize(
    "name", ["PATH", "HOME", "LANG", "TERM", "NO_COLOR", "bash_env", "MY_LD_PRELOAD", ""]
)
def test_ordinary_names_load_none(name: str) -> None:
    assert not loads_code(name)


def test_ours_are_ours_but_for_the_folder_of_the_users_files() -> None:
    names = ["OUTFITTER_SESSION", "__OUTFITTER_X", "OUTFITTER_HOME", "OUTFITTER", "outfitter_x", "RUNTIME_X"]
    assert [name for name in names if is_runtime(name)] == ["OUTFITTER_SESSION", "__OUTFITTER_X"]


def test_an_agent_s_own_are_known_by_their_whole_name() -> None:
    own = ["CODEX_THREAD_ID", "CLAUDECODE", "GEMINI_CLI"]
    names = [*own, "CODEX_HOME", "CODEX_WORKTREE_PATH", "CLAUDE_CONFIG_DIR", "GEMINI_API_KEY"]
    assert [name for name in names if is_agents(name)] == own
