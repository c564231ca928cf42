"""The project's own environment."""

from __future__ import annotations

from outfitter.contract.doctor.limits import limits_size
from outfitter.contract.doctor.machine import Given
from outfitter.contract.doctor.providers import Providers, providers_present

from .build import configured, seen


def test_what_the_project_requires_and_lacks_is_an_error_of_its_own() -> None:
    why = "python is required in /r and failed: make it"
    finding = providers_present(Providers(refused=why))
    assert seen(finding) == ("error", (why,))
    assert finding.remedy.startswith("Follow the notes above")
    assert limits_size(configured(), Given({}, {}, refused=why)).status == "skipped"


def test_providers_are_told_with_their_states() -> None:
    blocked = ("direnv:/r/.envrc", "blocked", "not trusted: direnv allow /r")
    finding = providers_present(Providers([blocked], [("python", "/r/.venv/pyvenv.cfg")]))
    assert seen(finding) == (
        "warning",
        (
            "direnv:/r/.envrc: blocked (not trusted: direnv allow /r)",
            "/r/.venv/pyvenv.cfg (python): detected, not used",
        ),
    )
    assert finding.summary == "direnv: blocked"
    finding = providers_present(Providers([("python:/r", "applied", "")]))
    assert (finding.status, finding.summary) == ("ok", "applied: python:/r")


def test_what_is_not_installed_is_a_warning_unless_another_one_holds() -> None:
    missing = ("python:/r", "missing", "uv has not made /r/.venv yet: `uv sync` makes it")
    finding = providers_present(Providers([missing]))
    assert (finding.status, finding.summary) == ("warning", "python: missing")
    assert "`uv sync` makes it" in finding.details[0]
    assert providers_present(Providers([missing, ("versions:/r", "applied", "")])).status == "ok"


def test_what_is_there_and_not_named_is_a_warning_where_others_are() -> None:
    finding = providers_present(Providers([], [("direnv", "/r/.envrc")], declared=True))
    assert finding.summary == "direnv: detected, not used"
    assert 'use = ["direnv"] under [providers]' in finding.remedy
    assert providers_present(Providers([])).status == "ok"


def test_what_waits_for_trust_is_a_warning_with_what_to_type() -> None:
    waiting = ("project", "waiting", "would change A; type: outfitter trust /r")
    finding = providers_present(Providers([("python:/r", "applied", ""), waiting]))
    assert (finding.status, finding.summary) == ("warning", "project: waiting")
    assert "project: waiting (would change A; type: outfitter trust /r)" in finding.details


def test_what_is_configured_and_has_no_effect_is_a_warning() -> None:
    finding = providers_present(
        Providers([("direnv:/r/.envrc", "applied", "")], idle=[("nix", "/r/o.toml:3")])
    )
    assert (finding.status, finding.summary) == ("warning", "nix: configured, not used")
    assert "providers.nix (/r/o.toml:3) has no effect here" in finding.details


def test_an_error_that_a_tool_printed_is_a_warning_and_its_other_words_are_details() -> None:
    layer = ("direnv:/r/.envrc", "applied", "")
    finding = providers_present(
        Providers([layer], said={layer[0]: "hello\n./.envrc:2: x: command not found"})
    )
    assert (finding.status, finding.summary) == (
        "warning",
        "direnv:/r/.envrc: applied, but it printed an error",
    )
    assert finding.details == (
        "direnv:/r/.envrc: applied",
        "direnv:/r/.envrc printed: hello",
        "direnv:/r/.envrc printed: ./.envrc:2: x: command not found",
    )
    finding = providers_present(Providers([layer], said={layer[0]: "hello"}))
    assert (finding.status, len(finding.details)) == ("ok", 2)


def test_files_that_cannot_be_frozen_are_a_warning_unless_the_user_wants_that() -> None:
    note = "its files were checked before and after it ran, not meanwhile: "
    finding = providers_present(Providers([("direnv:/r/.envrc", "applied", f"{note}unshare: no")]))
    assert finding.status == "warning"
    assert finding.summary == (
        "direnv:/r/.envrc: files are checked before and after the tool runs, not meanwhile"
    )
    assert finding.remedy.startswith("Allow user namespaces (")
    finding = providers_present(Providers([("mise:/tmp/x", "applied", f"{note}everybody may write to /tmp")]))
    assert (finding.status, finding.remedy) == (
        "warning",
        "Move the project into a directory of your own, where others cannot write.",
    )
    assert finding.details == (f"mise:/tmp/x: applied ({note}everybody may write to /tmp)",)
    off = ("direnv:/r/.envrc", "applied", f'{note}freeze = "off" (/h/config.toml:2)')
    assert providers_present(Providers([off])).status == "ok"
