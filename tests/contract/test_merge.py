"""Putting the files together: a project only tightens, the user's file wins over an imported one."""

from __future__ import annotations

from itertools import product

import pytest

from outfitter.contract.merge import merge
from outfitter.contract.settings import (
    DEFAULT,
    LOGINS,
    SETTINGS,
    STARTUPS,
    EnvSettings,
    FileSettings,
    PolicySettings,
    Settings,
    Source,
)


def user(**said: object) -> FileSettings:
    return FileSettings("/u", "user", **said)  # type: ignore[arg-type]


def project(**said: object) -> FileSettings:
    return FileSettings("/p", "project", **said)  # type: ignore[arg-type]


def codex(**said: object) -> FileSettings:
    return FileSettings("/c", "codex", **said)  # type: ignore[arg-type]


def plain(settings: Settings) -> dict[str, object]:
    return {name: getattr(settings, name) for name in vars(Settings())}


def test_without_files_everything_is_the_default() -> None:
    settings = merge(None, None)
    assert plain(settings) == plain(Settings()) == plain(merge(user(), project(), codex()))
    assert settings.sources == dict.fromkeys(SETTINGS, DEFAULT)
    assert (settings.login, settings.startup, settings.snapshot) == ("strip", "enforce", "none")
    assert (settings.user_policy, settings.project_policy) == (None, None)


@pytest.mark.parametrize(("mine", "theirs"), list(product((None, *LOGINS), LOGINS)))
def test_project_counts_for_login_when_it_is_stricter(mine: str | None, theirs: str) -> None:
    said = user(login=mine, lines={"shell.login": 3})
    settings = merge(said, project(login=theirs, lines={"shell.login": 7}))
    before = mine or "strip"
    stricter = max(before, theirs, key=LOGINS.index)
    assert settings.login == stricter
    if stricter == before:
        assert settings.sources["shell.login"] == (Source("/u", 3, "user") if mine else DEFAULT)
    else:
        assert settings.sources["shell.login"] == Source("/p", 7, "project")
    ignored = (("shell.login", theirs, Source("/p", 7, "project")),)
    assert settings.ignored == (() if theirs == stricter else ignored)


@pytest.mark.parametrize(("mine", "theirs"), list(product((None, *STARTUPS), (None, *STARTUPS))))
def test_login_that_nobody_sets_follows_the_startup_that_holds(mine: str | None, theirs: str | None) -> None:
    settings = merge(user(startup=mine), project(startup=theirs))
    assert settings.startup == max(mine or "enforce", theirs or "report", key=STARTUPS.index)
    assert settings.login == ("strip" if settings.startup == "enforce" else "allow")
    assert settings.sources["shell.login"] == DEFAULT


def test_own_word_about_login_wins_over_the_imported_one() -> None:
    imported = codex(login="reject", lines={"shell.login": 2})
    settings = merge(user(), None, imported)
    assert (settings.login, settings.sources["shell.login"]) == ("reject", Source("/c", 2, "codex"))
    settings = merge(user(login="allow", lines={"shell.login": 5}), None, imported)
    assert (settings.login, settings.sources["shell.login"]) == ("allow", Source("/u", 5, "user"))


def rules(file: str, kind: str, **lines: int) -> dict[str, Source]:
    return {rule.replace("__", " "): Source(file, line, kind) for rule, line in lines.items()}


def test_imported_policy_fills_what_the_own_one_does_not_say() -> None:
    own = PolicySettings(
        "/u", exclude=("A",), set=(), rules=rules("/u", "user", exclude=1, exclude__A=2, set=3)
    )
    imported = PolicySettings(
        "/c",
        inherit="core",
        exclude=("B",),
        set=(("X", "1"),),
        include_only=("P",),
        rules=rules(
            "/c",
            "codex",
            inherit=1,
            exclude=2,
            exclude__B=2,
            set=3,
            set__X=3,
            include_only=4,
            include_only__P=4,
        ),
    )
    settings = merge(user(policy=own), None, codex(policy=imported))
    # An empty list is a word too.
    assert settings.user_policy == PolicySettings(
        "/u",
        inherit="core",
        exclude=("A",),
        set=(),
        include_only=("P",),
        rules={
            **rules("/c", "codex", inherit=1, include_only=4, include_only__P=4),
            **rules("/u", "user", exclude=1, exclude__A=2, set=3),
        },
    )
    sources = settings.sources
    assert sources["shell_environment_policy.inherit"] == Source("/c", 1, "codex")
    assert sources["shell_environment_policy.exclude"] == Source("/u", 1, "user")
    assert sources["shell_environment_policy.ignore_default_excludes"] == DEFAULT


def test_policies_of_user_and_project_stay_apart() -> None:
    mine = PolicySettings("/u", exclude=("A",), rules=rules("/u", "user", exclude=1))
    theirs = PolicySettings("/p", inherit="none", rules=rules("/p", "project", inherit=1))
    settings = merge(user(policy=mine), project(policy=theirs))
    assert (settings.user_policy, settings.project_policy) == (mine, theirs)
    assert settings.sources["shell_environment_policy.inherit"] == DEFAULT


def test_entry_of_a_rule_falls_back_on_its_key() -> None:
    policy = PolicySettings("/u", rules=rules("/u", "user", exclude=1, exclude__A=2))
    assert policy.source("exclude A").line == 2
    assert policy.source("exclude B") == Source("/u", 1, "user")
    assert policy.source("set X") == policy.source("inherit") == DEFAULT


def test_names_of_both_files_count_each_with_its_place() -> None:
    settings = merge(
        user(
            list_names=("A", "B"),
            secret_names=("*_DSN",),
            allow_code_loading=(("project", ("PYTHONPATH",)),),
            lines={
                "names.lists": 1,
                "names.lists.A": 1,
                "names.lists.B": 2,
                "names.secret.*_DSN": 3,
                "names.allow_code_loading.project": 4,
            },
        ),
        project(list_names=("B", "C"), lines={"names.lists": 1, "names.lists.B": 8, "names.lists.C": 9}),
    )
    assert settings.list_names == {"A", "B", "C"}
    assert settings.secret_names == ("*_DSN",)
    assert settings.allow_code_loading == {"project": frozenset({"PYTHONPATH"})}
    assert [str(settings.sources[f"names.lists.{name}"]) for name in "ABC"] == ["/u:1", "/u:2", "/p:9"]
    assert str(settings.sources["names.lists"]) == "/u:1"
    assert str(settings.sources["names.secret.*_DSN"]) == "/u:3"
    assert str(settings.sources["names.allow_code_loading.project"]) == "/u:4"


@pytest.mark.parametrize(
    ("mine", "theirs", "holds"),
    [(None, 5, 5), (10, 5, 5), (5, 10, 5), (None, 2 << 20, 1 << 20), (7, None, 7)],
)
def test_smaller_limit_holds(mine: int | None, theirs: int | None, holds: int) -> None:
    settings = merge(user(total_bytes=mine), project(total_bytes=theirs))
    assert settings.total_bytes == holds
    assert bool(settings.ignored) == (theirs is not None and theirs > holds)


def test_the_rest_is_taken_as_it_is() -> None:
    mine = EnvSettings("/u", set=(("A", "1", 2),))
    theirs = EnvSettings("/p", unset=(("B", 3),))
    settings = merge(
        user(
            env=mine,
            snapshot="loginShell",
            snapshot_timeout=2.5,
            daemon_environment="merge",
            allow_from=("L3",),
            import_codex=True,
            lines={"shell.snapshot": 4, "import.codex": 5},
        ),
        project(env=theirs),
        files=[("/u", "user", True)],
    )
    assert (settings.user_env, settings.project_env) == (mine, theirs)
    assert (settings.snapshot, settings.snapshot_timeout) == ("loginShell", 2.5)
    assert (settings.daemon_environment, settings.allow_from) == ("merge", {"L3"})
    assert settings.files == (("/u", "user", True),)
    assert (settings.sources["shell.snapshot"].line, settings.sources["import.codex"].line) == (4, 5)


def test_the_projects_modes_go_over_the_users() -> None:
    settings = merge(
        user(provider_modes={"nix": "capture", "direnv": "wrap"}, lines={"providers.modes.nix": 2}),
        project(provider_modes={"direnv": "snapshot"}, lines={"providers.modes.direnv": 5}),
    )
    assert settings.provider_modes == {"nix": "capture", "direnv": "snapshot"}
    assert str(settings.sources["providers.modes.nix"]) == "/u:2"
    assert str(settings.sources["providers.modes.direnv"]) == "/p:5"


def test_a_project_cannot_choose_what_starts_every_command() -> None:
    theirs = project(provider_modes={"direnv": "wrap", "nix": "capture"}, lines={"providers.modes.direnv": 5})
    settings = merge(user(), theirs)
    assert settings.provider_modes == {"nix": "capture"}
    assert [(name, value, str(source)) for name, value, source in settings.ignored] == [
        ("providers.modes.direnv", "wrap", "/p:5")
    ]
    settings = merge(user(provider_modes={"direnv": "wrap"}), theirs)  # a person has
    assert settings.provider_modes == {"direnv": "wrap", "nix": "capture"}
    assert settings.ignored == ()


def test_values_of_variables_are_in_no_repr() -> None:
    env = EnvSettings("/u", set=(("A", "hush", 2),))
    policy = PolicySettings("/u", set=(("A", "hush"),), rules=rules("/u", "user", set=1, set__A=1))
    said = user(env=env, policy=policy)
    for thing in (env, policy, said, merge(said, None)):
        assert "hush" not in repr(thing)


@pytest.mark.parametrize(
    ("use", "options", "used"),
    [
        (None, (), None),
        (None, ("python", "nix"), None),
        (None, ("dotenv",), ("auto", "dotenv")),
        (None, ("devcontainer",), ("auto", "devcontainer")),
        (None, ("dotenv", "command"), ("command", "auto", "dotenv")),
        (("auto",), ("dotenv",), ("auto", "dotenv")),
        (("dotenv", "auto"), ("dotenv",), ("dotenv", "auto")),
        (("auto", "dotenv", "dotenv"), ("dotenv",), ("auto", "dotenv")),
        (("direnv",), ("dotenv",), ("direnv",)),
        ((), ("dotenv",), ()),
    ],
)
def test_naming_what_is_meant_is_enough_to_use_a_provider(
    use: tuple[str, ...] | None, options: tuple[str, ...], used: tuple[str, ...] | None
) -> None:
    said = project(providers=use, provider_options={id: {"values": ("x",)} for id in options})
    assert merge(None, said).providers == used


def test_an_empty_list_takes_the_users_word_back() -> None:
    mine = user(provider_options={"dotenv": {"values": (".env",)}})
    assert merge(mine, project(provider_options={"dotenv": {"values": ()}})).providers is None
    assert merge(mine, None).providers == ("auto", "dotenv")


def test_options_of_providers_have_their_place() -> None:
    said = project(provider_options={"nix": {"values": ("ci",)}}, lines={"providers.nix": 4})
    assert merge(None, said).sources["providers.nix"] == Source("/p", 4, "project")
