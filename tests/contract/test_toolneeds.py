"""What setups and the tools of providers may do in a sandbox, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from outfitter.contract.file import parse_settings
from outfitter.contract.merge import merge
from outfitter.contract.settings import Settings
from outfitter.contract.toolneeds import NEEDS, for_provider, for_setup
from outfitter.errors import SettingInvalid
from outfitter.providers.registry import OURS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "sandbox.md"


def settings(text: str) -> Settings:
    return merge(parse_settings(f"[sandbox]\n{text}", "/u/config.toml", "user", "/home/me"), None)


CONFINED = settings('providers = "read-only"\nsetup = "workspace-write"\ndeny_read = ["/etc/key"]\n')


def test_nothing_is_confined_unless_somebody_wants_it() -> None:
    assert for_provider("nix", settings(""), "/p", {}, "/home/me") is None
    assert for_setup(settings(""), "/p", {}) is None


def test_a_tool_reads_and_writes_only_its_caches() -> None:
    found = for_provider("direnv", CONFINED, "/p", {}, "/home/me")
    assert found is not None
    assert (found.writable, found.network) == ((), False)
    assert (found.access("/p"), found.access("/etc/key")) == ("read", "deny")
    found = for_provider("mise", CONFINED, "/p", {"XDG_CACHE_HOME": "/c"}, "/home/me")
    assert found is not None
    assert found.writable == ("/c/mise", "/home/me/.local/state/mise")


@pytest.mark.parametrize("id", ["nix", "devbox", "devenv"])
def test_what_cannot_work_is_refused_with_the_reason(id: str) -> None:
    with pytest.raises(
        SettingInvalid, match=f"{id} cannot run in a sandbox, because it talks to nix's daemon"
    ):
        for_provider(id, CONFINED, "/p", {}, "/home/me")


def test_a_setup_writes_its_worktree() -> None:
    found = for_setup(CONFINED, "/p", {"TMPDIR": "/t"})
    assert found is not None
    assert (found.writable, found.network) == (("/p", "/t", "/tmp"), False)
    assert (found.access("/p/.git/hooks"), found.access("/etc/key")) == ("read", "deny")


def test_a_setup_reaches_all_of_the_network_or_nothing() -> None:
    head = 'setup = "workspace-write"\nmode = "workspace-write"\n'
    found = for_setup(settings(f'{head}allow_domain = ["*"]\nallow_write = ["/c"]\n'), "/p", {})
    assert found is not None
    assert (found.network, found.writable) == (True, ("/c", "/p", "/tmp"))
    with pytest.raises(SettingInvalid, match="cannot be limited to some domains"):
        for_setup(settings(f'{head}allow_domain = ["pypi.org"]\n'), "/p", {})


def test_the_page_has_every_provider() -> None:
    table = PAGE.read_text().partition("## Setups and providers")[2].partition("\n## ")[0]
    named = {
        name
        for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    assert named == set(OURS)
    assert set(NEEDS) <= set(OURS)
