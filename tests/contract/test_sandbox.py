"""The sandbox of a command: whose word counts, and what a project takes away."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.contract.file import parse_settings
from outfitter.contract.merge import merge
from outfitter.contract.sandbox import Word, compose, said
from outfitter.contract.settings import SANDBOX_MODES, FileSettings, Settings, Source
from outfitter.core.protecting import HOW, MOST, listed
from outfitter.core.sandbox import Sandbox
from outfitter.errors import FileInvalid
from tests.support.confinements import is_within

PROJECT, USER = "/srv/app/outfitter.toml", "/home/me/.config/outfitter/config.toml"


def read(text: str, kind: str) -> FileSettings:
    return parse_settings(text, PROJECT if kind == "project" else USER, kind, "/home/me")


def settings(user: str = "", project: str = "") -> Settings:
    return merge(read(user, "user"), read(project, "project"))


def mistakes(text: str, kind: str = "project") -> list[str]:
    with pytest.raises(FileInvalid) as caught:
        read(text, kind)
    return [f"{one.text}; {one.remedy}" for one in caught.value.mistakes]


def asked(sandbox: Sandbox) -> Word:
    return Word(sandbox, {"mode": "--sandbox"})


# The files


def test_paths_start_at_the_file_and_patterns_of_the_user_at_the_command() -> None:
    text = 'mode = "read-only"\nallow_write = ["cache", "/var/x/"]\ndeny_read = ["**/.env", "/etc/key"]\n'
    theirs = read(f"[sandbox]\n{text}", "project").sandbox
    assert theirs is not None
    assert theirs.sandbox == Sandbox.read_only(
        writable=["/srv/app/cache", "/var/x"], deny_read=["/srv/app/**/.env", "/etc/key"]
    )
    assert theirs.source("allow_write /var/x") == Source(PROJECT, 3, "project")
    mine = read('[sandbox]\ndeny_read = ["**/.env", "~/.ssh"]\n', "user").sandbox
    assert mine is not None
    assert mine.sandbox == Sandbox.full_access(deny_read=["**/.env", "/home/me/.ssh"])


def test_names_of_both_files_stay_read_only_and_confine_nothing_by_themselves() -> None:
    both = settings('[sandbox]\nprotect = [".idea", "usual"]\n', '[sandbox]\nprotect = ["**/a/", ".idea"]\n')
    assert both.protects == listed([".idea", "usual", "**/a"])
    assert both.user_sandbox is not None and not both.user_sandbox.sandbox.confines
    assert both.project_sandbox is not None
    assert both.project_sandbox.source("protect **/a") == Source(PROJECT, 2, "project")
    assert settings('[sandbox]\nmode = "read-only"\n').protects == ()


def test_what_is_no_name_below_a_writable_place_is_refused() -> None:
    assert mistakes('[sandbox]\nprotect = ["../x"]\n') == [
        f"`sandbox.protect` has '../x', which is no name; {HOW}"
    ]
    many = [f"n{number}" for number in range(MOST + 1)]
    assert mistakes(f"[sandbox]\nprotect = {many}\n") == [
        f"`sandbox.protect` has more than {MOST} names; keep fewer of them"
    ]


def test_no_part_of_a_directorys_own_name_is_a_wildcard() -> None:
    theirs = parse_settings(
        '[sandbox]\ndeny_read = ["**/.env", "key"]\n', "/srv/a[1]/outfitter.toml", "project", None
    ).sandbox
    assert theirs is not None
    assert theirs.deny_read == ("/srv/a[[]1[]]/**/.env", "file:///srv/a%5B1]/key")


def test_mistakes_say_what_to_write() -> None:
    assert mistakes('[sandbox]\nallow_write = ["x"]\n') == [
        '`sandbox.allow_write` needs `sandbox.mode`; write mode = "workspace-write"'
    ]
    assert mistakes('[sandbox]\nmode = "read-only"\nallow_write = ["~/x", "$X", ""]\n') == [
        "`sandbox.allow_write` has a path in a home directory; use directories of the project, or move it to "
        "your own config.toml",
        "`sandbox.allow_write` has a path that starts with $, which is not expanded; write the path itself",
        "`sandbox.allow_write` has an empty path, or one with a NUL; write a path, or remove the entry",
    ]
    assert mistakes('[sandbox]\ndeny_read = ["/**/x"]\n') == [
        "`sandbox.deny_read` has a pattern for the whole file system; begin it with a directory"
    ]
    [domain] = mistakes('[sandbox]\nmode = "read-only"\nallow_domain = ["https://pypi.org"]\n')
    assert "is not a domain; write example.com" in domain


def test_a_user_without_a_home_has_no_paths_in_it() -> None:
    with pytest.raises(FileInvalid, match="HOME is not set"):
        parse_settings('[sandbox]\ndeny_read = ["~/.ssh"]\n', USER, "user", None)


def test_a_file_without_a_word_about_commands_has_none() -> None:
    both = settings('[sandbox]\nsetup = "workspace-write"\n')
    assert (both.user_sandbox, both.confined_setup, both.confined_providers) == (
        None,
        "workspace-write",
        "off",
    )
    assert said(both.user_sandbox) is None


# Putting them together


def test_setups_and_providers_are_only_confined_further_by_a_project() -> None:
    mine = '[sandbox]\nsetup = "workspace-write"\n'
    theirs = '[sandbox]\nsetup = "off"\nproviders = "read-only"\n'
    both = settings(mine, theirs)
    assert (both.confined_setup, both.confined_providers) == ("workspace-write", "read-only")
    assert both.ignored == (("sandbox.setup", "off", Source(PROJECT, 2, "project")),)
    assert both.sources["sandbox.providers"] == Source(PROJECT, 3, "project")


def test_what_a_project_says_in_vain_is_named() -> None:
    mine = '[sandbox]\nmode = "workspace-write"\nallow_write = ["/var/cache"]\nallow_domain = ["*.org"]\n'
    theirs = (
        '[sandbox]\nmode = "full-access"\nallow_write = ["build", "/var/cache/x", "/etc"]\n'
        'allow_domain = ["pypi.org", "pypi.com"]\n'
    )
    both = settings(mine, theirs)
    assert [(setting, value) for setting, value, _ in both.ignored] == [
        ("sandbox.mode", "full-access"),
        ("sandbox.allow_write", "/etc"),
        ("sandbox.allow_domain", "pypi.com"),
    ]
    assert both.sources["sandbox.mode"] == Source(USER, 2, "user")
    assert settings("", theirs).ignored == ()


def test_a_request_takes_the_place_of_the_users_word() -> None:
    both = settings('[sandbox]\nmode = "read-only"\n')
    mine = compose(None, both, cwd="/srv/app", tmpdir=None)
    assert (mine.mode, mine.confinement.writable, mine.domains) == ("read-only", (), ())
    told = compose(asked(Sandbox.workspace_write()), both, cwd="/srv/app", tmpdir="/t")
    assert told.confinement.writable == ("/srv/app", "/t", "/tmp")
    full = compose(asked(Sandbox.full_access()), both, cwd="/srv/app", tmpdir=None)
    assert (full.confinement.files, full.domains) == (False, None)


def test_a_project_confines_what_nobody_else_confines() -> None:
    both = settings("", '[sandbox]\nmode = "workspace-write"\nallow_domain = ["pypi.org"]\n')
    told = compose(None, both, cwd="/srv/app", tmpdir=None)
    assert (told.asked, told.confinement.writable, told.domains) == (
        None,
        ("/srv/app", "/tmp"),
        ("pypi.org",),
    )
    # And no word of it is left of where less was asked for.
    told = compose(asked(Sandbox.read_only()), both, cwd="/srv/app", tmpdir=None)
    assert (told.confinement.writable, told.domains) == ((), ())


def test_without_any_word_nothing_is_confined() -> None:
    told = compose(None, settings(), cwd="/srv/app", tmpdir=None)
    assert (told.confinement.files, told.confinement.network, told.domains) == (False, True, None)


PATHS = st.sampled_from(["/srv", "/srv/app", "/srv/app/build", "/var/cache", "/srv/app/.git"])
DOMAINS = st.sampled_from(["pypi.org", "*.org", "example.com", "*"])
TABLES = st.builds(
    lambda mode, writes, domains, hidden: (
        f'[sandbox]\nmode = "{mode}"\nallow_write = {writes}\n'
        f"allow_domain = {domains}\ndeny_read = {hidden}\n"
    ),
    st.sampled_from(SANDBOX_MODES),
    st.lists(PATHS, max_size=2),
    st.lists(DOMAINS, max_size=2),
    st.lists(st.sampled_from(["/etc/key", "/srv/app/*.env"]), max_size=2),
)


@given(TABLES, TABLES)
def test_a_project_never_adds_to_what_was_asked_for(mine: str, theirs: str) -> None:
    alone = compose(None, settings(mine), cwd="/srv/app", tmpdir="/t")
    both = compose(None, settings(mine, theirs), cwd="/srv/app", tmpdir="/t")
    assert is_within(both.confinement, alone.confinement)
    if alone.domains is not None:
        assert both.domains is not None
        assert is_within_domains(both.domains, alone.domains)


def is_within_domains(inner: tuple[str, ...], outer: tuple[str, ...]) -> bool:
    from outfitter.core.sandbox import domain_covers

    return all(any(domain_covers(wide, one) for wide in outer) for one in inner)
