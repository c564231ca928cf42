"""Each check's verdict, from what was found to what to do."""

from __future__ import annotations

import re

import pytest

from outfitter.contract.checks import (
    CHECKS,
    STATUSES,
    Codex,
    Configured,
    Given,
    Login,
    Place,
    Providers,
    Shells,
    Verdict,
    base_launch,
    base_stale_activation,
    codex_config,
    config_files,
    config_ignored,
    key_file,
    limits_size,
    names_odd,
    path_login_shell,
    path_programs,
    path_segments,
    policy_code_loading,
    policy_effect,
    providers_present,
    secrets_visible,
    shell_agreement,
    shell_bash_env,
    shell_modes,
    shell_shlvl,
    state_folder,
)
from outfitter.contract.file import parse_settings
from outfitter.contract.settings import Settings, Source
from outfitter.env.resolve import LARGEST_PAIR
from outfitter.formats.toml import Mistake
from outfitter.record import replace

FILE = "/home/ada/.config/outfitter/config.toml"


def configured(**settings: object) -> Configured:
    made = Settings()
    for name, value in settings.items():
        setattr(made, name, value)
    return Configured(made, (), FILE)


def given(base: dict[str, str] | None = None, **more: object) -> Given:
    base = {"PATH": "/usr/bin:/bin", "HOME": "/home/ada", "SHLVL": "1", "TERM": "xterm", **(base or {})}
    return Given(base, dict(base), from_base=list(base), **more)  # type: ignore[arg-type]


def login(path: str, **values: str) -> Login:
    return Login("/bin/bash", "captured", {"PATH": path, **values}, places={"PATH": ("/etc/profile", 7)})


def seen(verdict: Verdict) -> tuple[str, tuple[str, ...]]:
    """Status and details; what is not in order has a remedy, as a sentence."""
    assert verdict.status in STATUSES
    assert verdict.summary
    assert (verdict.status in ("error", "warning")) == bool(verdict.remedy)
    assert not verdict.remedy or verdict.remedy.endswith(".")
    return verdict.status, verdict.details


def test_ids_are_unique_and_say_their_category() -> None:
    ids = [check.id for check in CHECKS]
    assert len(ids) == len(set(ids))
    assert [check.category for check in CHECKS] == [ident.split(".")[0] for ident in ids]


# Configuration


def test_mistakes_in_a_file_are_an_error_with_file_and_line() -> None:
    mistake = Mistake(FILE, 3, "`shell.login` has a value that does not exist", 'write "strip"')
    verdict = config_files(Configured(Settings(), [mistake], FILE))
    assert seen(verdict) == ("error", (str(mistake),))
    assert f"{FILE}:3" in verdict.remedy


def test_no_files_are_in_order() -> None:
    assert seen(config_files(configured())) == ("ok", ())


def test_settings_of_a_project_that_do_not_count_are_told_with_their_line() -> None:
    source = Source("/repo/outfitter.toml", 2, "project")
    verdict = config_ignored(configured(ignored=(("shell.startup", "report", source),)))
    assert seen(verdict) == ("warning", ("/repo/outfitter.toml:2: shell.startup = report",))
    assert "/repo/outfitter.toml:2" in verdict.remedy and FILE in verdict.remedy


# PATH (P9)


@pytest.mark.parametrize(
    ("path", "status", "detail"),
    [
        ("/usr/bin:", "warning", "PATH[1] is empty, which means the current directory"),
        ("bin:/usr/bin", "warning", "PATH[0] bin is relative: another folder in every directory"),
        ("/usr/bin:$PATH", "warning", "PATH[1] $PATH is text that nobody expanded"),
        ("/usr/bin:/usr/bin/", "ok", "PATH[1] /usr/bin/ is there twice"),
        ("/usr/bin:/opt/gone", "ok", "PATH[1] /opt/gone does not exist"),
    ],
)
def test_entries_of_path_that_nobody_meant_are_told(path: str, status: str, detail: str) -> None:
    assert seen(path_segments(given({"PATH": path}), frozenset({"/usr/bin"}))) == (status, (detail,))


@pytest.mark.parametrize("base", [{"PATH": ""}, {"PATH": "bin"}])
def test_a_path_that_leads_nowhere_is_an_error(base: dict[str, str]) -> None:
    assert seen(path_segments(given(base), frozenset())) == ("error", ())


# A login shell (L1, L5, P7)


def test_what_a_login_shell_loses_is_told_with_file_and_line() -> None:
    verdict = path_login_shell(configured(), given({"PATH": "/x/bin:/usr/bin"}), login("/usr/bin:/bin"))
    assert seen(verdict) == ("warning", ("PATH[0] /x/bin is lost in a login shell (/etc/profile:7)",))
    assert "/etc/profile:7" in verdict.remedy


def test_another_order_of_path_is_told() -> None:
    verdict = path_login_shell(configured(), given({"PATH": "/x:/usr/bin"}), login("/usr/bin:/x"))
    assert seen(verdict) == ("warning", ("PATH is in another order (/etc/profile:7)",))


def test_something_in_front_of_path_is_told() -> None:
    verdict = path_login_shell(configured(), given({"PATH": "/x:/usr/bin"}), login("/sys:/x:/usr/bin"))
    assert seen(verdict) == ("warning", ("PATH[0] is /sys in a login shell (/etc/profile:7)",))


def test_something_behind_path_or_twice_in_it_is_in_order() -> None:
    found = login("/x:/usr/bin:/x:/games")
    verdict = path_login_shell(configured(), given({"PATH": "/x:/usr/bin"}), found)
    assert seen(verdict) == ("ok", ())


def test_a_filtered_variable_that_comes_back_is_told_by_name() -> None:
    found = login("/usr/bin:/bin", GITHUB_TOKEN="never-shown")
    found = replace(found, places={"GITHUB_TOKEN": ("/home/ada/.profile", 3)})
    verdict = path_login_shell(configured(), given(removed={"exclude *": ["GITHUB_TOKEN"]}), found)
    wanted = "GITHUB_TOKEN, which the policy removes, comes back (/home/ada/.profile:3)"
    assert seen(verdict) == ("warning", (wanted,))


def test_it_is_an_error_where_startup_files_are_only_reported() -> None:
    verdict = path_login_shell(
        configured(startup="report"), given({"PATH": "/x:/usr/bin"}), login("/usr/bin")
    )
    assert seen(verdict)[0] == "error"
    assert 'startup = "enforce"' in verdict.remedy and FILE in verdict.remedy


def test_a_login_shell_without_an_answer_is_a_warning_with_its_reason() -> None:
    found = Login("/bin/zsh", "timeout", {}, reason="it waits")
    assert seen(path_login_shell(configured(), given(), found)) == ("warning", ("it waits",))
    assert seen(path_programs(configured(), found)) == ("skipped", ())


def test_without_asking_both_checks_are_skipped() -> None:
    assert seen(path_login_shell(configured(), given(), None))[0] == "skipped"
    assert seen(path_programs(configured(), None))[0] == "skipped"


def test_programs_that_differ_are_told_with_both_paths() -> None:
    found = login("/usr/bin")
    found = replace(
        found,
        programs={
            "python": ("/x/bin/python", "/usr/bin/python"),
            "node": (None, "/opt/node"),
            "git": ("/usr/bin/git", "/usr/bin/git"),
        },
    )
    assert seen(path_programs(configured(), found)) == (
        "warning",
        (
            "python is /x/bin/python, in a login shell /usr/bin/python",
            "node is not found, in a login shell /opt/node",
            "git is /usr/bin/git",
        ),
    )


# Shells


def test_shells_that_agree_are_in_order() -> None:
    assert seen(shell_agreement(configured(), Shells("/bin/zsh", "/bin/zsh", "/bin/zsh")))[0] == "ok"
    assert seen(shell_agreement(configured(), Shells(None, "/bin/zsh", "/bin/zsh")))[0] == "ok"


def test_shells_that_disagree_are_told() -> None:  # L12
    verdict = shell_agreement(configured(), Shells("/bin/zsh", "/bin/bash", "/bin/bash"))
    assert seen(verdict)[0] == "warning"
    assert "`export SHELL=/bin/bash`" in verdict.remedy and "`chsh -s /bin/zsh`" in verdict.remedy
    assert (
        seen(shell_agreement(configured(), Shells("/usr/bin/fish", "/usr/bin/fish", "/bin/bash")))[0]
        == "warning"
    )


def test_startup_files_that_run_are_told_with_the_setting() -> None:
    assert seen(shell_modes(configured()))[0] == "ok"
    for startup in ("report", "repair"):
        own = configured(startup=startup)
        own.settings.sources["shell.startup"] = Source(FILE, 4, "user")
        verdict = shell_modes(own)
        assert seen(verdict)[0] == "warning"
        assert f"{FILE}:4" in verdict.remedy


def test_variables_that_run_code_before_a_command_are_told() -> None:  # K6, L11
    base = {"BASH_ENV": "x", "BASH_FUNC_ls%%": "() { :; }", "ENV": "y"}
    verdict = shell_bash_env(configured(), given(base))
    assert seen(verdict) == ("warning", ("BASH_ENV", "BASH_FUNC_ls%%", "ENV"))
    assert "`unset BASH_ENV ENV`" in verdict.remedy
    assert 'exclude = ["BASH_ENV", "BASH_FUNC_ls%%", "ENV"]' in verdict.remedy


def test_those_that_the_policy_removes_do_no_harm() -> None:
    verdict = shell_bash_env(configured(), Given({"BASH_ENV": "x"}, {}))
    assert seen(verdict) == ("ok", ("BASH_ENV is kept from commands",))


@pytest.mark.parametrize(("value", "status"), [("1", "ok"), ("0", "warning"), (None, "warning")])
def test_a_missing_shlvl_is_told(value: str | None, status: str) -> None:
    base = {} if value is None else {"SHLVL": value}
    assert seen(shell_shlvl(Given(base, base)))[0] == status


# Where it comes from


def test_a_service_is_offered_the_snapshot() -> None:
    service = Given({"INVOCATION_ID": "1"}, {})
    verdict = base_launch(configured(), service, "systemd")
    assert seen(verdict)[0] == "warning"
    assert 'snapshot = "loginShell"' in verdict.remedy and FILE in verdict.remedy
    assert seen(base_launch(configured(snapshot="loginShell"), service, "systemd"))[0] == "ok"


def test_a_terminal_below_systemd_is_no_service() -> None:
    assert seen(base_launch(configured(), given({"INVOCATION_ID": "1"}), "systemd")) == ("ok", ())


@pytest.mark.parametrize(
    ("base", "stale"),
    [
        ({"VIRTUAL_ENV": "/v", "PATH": "/v/bin:/bin"}, False),
        ({"VIRTUAL_ENV": "/v"}, True),
        ({"CONDA_PREFIX": "/c/"}, True),
        ({"DIRENV_DIFF": "x", "DIRENV_DIR": "-/repo"}, False),
        ({"DIRENV_DIFF": "x", "DIRENV_DIR": "-/other"}, True),
        ({"__MISE_DIFF": "x"}, True),
        ({"__MISE_DIFF": "x", "PATH": "/h/.local/share/mise/installs/a/bin:/bin"}, False),
        ({"__ETC_PROFILE_NIX_SOURCED": "1"}, True),
        ({"__ETC_PROFILE_NIX_SOURCED": "1", "PATH": "/nix/var/x/bin"}, False),
    ],
)
def test_an_activation_whose_effect_is_missing_is_stale(base: dict[str, str], stale: bool) -> None:  # S2
    verdict = base_stale_activation(configured(), given(base), "/repo/src")
    assert seen(verdict)[0] == ("warning" if stale else "ok")
    if stale:
        [name] = [name for name in base if name in verdict.remedy]
        assert f'unset = ["{name}"]' in verdict.remedy


# Policy, secrets, limits


def test_the_effect_of_the_policy_is_told_by_rule() -> None:
    verdict = policy_effect(given(removed={"exclude AWS_*": ["AWS_B", "AWS_A"]}))
    assert seen(verdict) == ("ok", ("exclude AWS_*: AWS_A, AWS_B",))


def test_code_loading_names_are_told_but_for_the_usual_ones() -> None:
    assert seen(policy_code_loading(configured(), given({"EDITOR": "vi"}))) == ("ok", ("EDITOR",))
    verdict = policy_code_loading(configured(), given({"LD_PRELOAD": "x", "PAGER": "cat"}))
    assert seen(verdict) == ("warning", ("LD_PRELOAD", "PAGER (usual)"))
    assert 'exclude = ["LD_PRELOAD"]' in verdict.remedy


def test_secrets_that_commands_get_are_told_by_name() -> None:
    base = {"API_TOKEN": "never-shown", "MY_THING": "never-shown", "DB": "postgres://a:never-shown@h/d"}
    verdict = secrets_visible(configured(secret_names=("MY_*",)), given(base))
    assert seen(verdict) == ("warning", ("API_TOKEN", "DB", "MY_THING"))
    assert "never-shown" not in repr(verdict)
    assert seen(secrets_visible(configured(), given()))[0] == "ok"


def test_an_environment_that_is_almost_too_large_is_a_warning() -> None:
    assert seen(limits_size(configured(), given()))[0] == "ok"
    verdict = limits_size(configured(), given({"BIG": "x" * (LARGEST_PAIR - 100)}))
    assert seen(verdict)[0] == "warning"
    assert "Unset BIG" in verdict.remedy
    assert seen(limits_size(configured(total_bytes=100), given({"LONG": "x" * 90})))[0] == "warning"


def test_an_environment_that_is_too_large_is_an_error() -> None:
    assert seen(limits_size(configured(), Given({}, {}, problem="BIG is too large"))) == (
        "error",
        ("BIG is too large",),
    )


def test_what_the_project_requires_and_lacks_is_an_error_of_its_own() -> None:
    why = "python is required in /r and failed: make it"
    verdict = providers_present(Providers(refused=why))
    assert seen(verdict) == ("error", (why,))
    assert verdict.remedy.startswith("Do what is said above")
    assert limits_size(configured(), Given({}, {}, refused=why)).status == "skipped"


def test_names_that_dash_drops_are_told() -> None:
    assert seen(names_odd(configured(), given({"A.B": "1", "BASH_FUNC_f%%": "x"}))) == ("warning", ("A.B",))


# Files


@pytest.mark.parametrize(
    ("key", "status"),
    [
        (Place("/k", None), "ok"),
        (Place("/k", 0o600, size=32), "ok"),
        (Place("/k", 0o644, size=32), "warning"),
        (Place("/k", 0o600, size=5), "warning"),
        (Place("/k", 0o600, size=32, ours=False), "warning"),
    ],
)
def test_the_key_must_be_private_and_whole(key: Place, status: str) -> None:
    assert seen(key_file(key))[0] == status


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (Place("/s", None), "ok"),
        (Place("/s", None, usable=False), "warning"),
        (Place("/s", 0o700), "ok"),
        (Place("/s", 0o500, usable=False), "warning"),
        (Place("/s", 0o777), "error"),
        (Place("/s", 0o700, ours=False), "error"),
    ],
)
def test_the_state_folder_must_be_ours_and_writable(state: Place, status: str) -> None:
    assert seen(state_folder(state))[0] == status


def test_a_codex_policy_that_is_not_imported_is_told() -> None:
    says = ["[shell_environment_policy]"]
    verdict = codex_config(configured(), Codex("/c", says))
    assert seen(verdict) == ("warning", ("/c",))
    assert "codex = true" in verdict.remedy and FILE in verdict.remedy
    assert seen(codex_config(configured(), Codex("/c", says, imported=True)))[0] == "ok"
    assert seen(codex_config(configured(), Codex("/c", [])))[0] == "ok"
    assert seen(codex_config(configured(), Codex("/c", None)))[0] == "ok"
    assert seen(codex_config(configured(), Codex("/c", (), mistakes=["/c:1: no"]))) == (
        "warning",
        ("/c:1: no",),
    )


def test_providers_are_told_with_their_states() -> None:
    blocked = ("direnv:/r/.envrc", "blocked", "not trusted: direnv allow /r")
    verdict = providers_present(Providers([blocked], [("python", "/r/.venv/pyvenv.cfg")]))
    assert seen(verdict) == (
        "warning",
        (
            "direnv:/r/.envrc: blocked (not trusted: direnv allow /r)",
            "/r/.venv/pyvenv.cfg (python): detected, not used",
        ),
    )
    assert verdict.summary == "direnv: blocked"
    verdict = providers_present(Providers([("python:/r", "applied", "")]))
    assert (verdict.status, verdict.summary) == ("ok", "applied: python:/r")


def test_what_is_not_installed_is_a_warning_unless_another_one_holds() -> None:
    missing = ("python:/r", "missing", "uv has not made /r/.venv yet: `uv sync` makes it")
    verdict = providers_present(Providers([missing]))
    assert (verdict.status, verdict.summary) == ("warning", "python: missing")
    assert "`uv sync` makes it" in verdict.details[0]
    assert providers_present(Providers([missing, ("versions:/r", "applied", "")])).status == "ok"


def test_what_is_there_and_not_named_is_a_warning_where_others_are() -> None:
    verdict = providers_present(Providers([], [("direnv", "/r/.envrc")], declared=True))
    assert verdict.summary == "direnv: detected, not used"
    assert 'use = ["direnv"] under [providers]' in verdict.remedy
    assert providers_present(Providers([])).status == "ok"


def test_what_a_remedy_says_to_write_can_be_written() -> None:
    odd = {"A.B": "1", 'Q"': "1", "LD_PRELOAD": "x", "BASH_ENV": "x", "MY_TOKEN": "x", "VIRTUAL_ENV": "/v"}
    found = login("/usr/bin")
    found = replace(found, programs={"python": ("/a", "/b")})
    verdicts = [
        names_odd(configured(), given(odd)),
        policy_code_loading(configured(), given(odd)),
        secrets_visible(configured(), given(odd)),
        shell_bash_env(configured(), given(odd)),
        base_stale_activation(configured(), given(odd), "/"),
        base_launch(configured(), Given({}, {}), ""),
        path_programs(configured(), found),
        path_login_shell(configured(startup="report"), given({"PATH": "/x"}), found),
        shell_agreement(configured(), Shells(None, "/usr/bin/fish", "/bin/bash")),
        codex_config(configured(), Codex("/c", ["x"])),
    ]
    for verdict in verdicts:
        said = re.search(r"[Ww]rite (\w+ = .+?) under \[(\w+)\]", verdict.remedy)
        assert said is not None, verdict.remedy
        parse_settings(f"[{said[2]}]\n{said[1]}\n", FILE, "user", "/home/ada")
