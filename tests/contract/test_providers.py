"""Layer 3: asked when it must be and only then, trusted first, and honest about what it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from outfitter.contract.contract import Asked, Contract
from outfitter.errors import ProviderBlocked, ProviderFailed, SettingInvalid
from outfitter.providers import registry
from outfitter.providers.base import Trust
from tests.support.contracts import Place
from tests.support.notes import Notes


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Notes:
    provider = Notes()
    monkeypatch.setitem(registry._made, "notes", provider)
    return provider


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.says('[providers]\nuse = ["notes"]\n')
    place.write(place.project / "notes", "NOTED=1\n")
    return place


def resolved(place: Place, contract: Contract) -> dict[str, str]:
    return contract.resolve(Asked(str(place.project), {})).values


def test_what_it_says_is_layer_3_with_its_origin(place: Place, notes: Notes) -> None:
    outcome = place.contract().resolve(Asked(str(place.project), {}))
    assert outcome.values["NOTED"] == "1"
    assert outcome.values["PATH"].startswith(f"{place.project}/bin:")
    [layer] = [layer for layer in outcome.layers if layer.level == 3]
    assert (layer.id, layer.producer, layer.state) == (
        f"notes:{place.project}/notes",
        "notes",
        "applied",
    )
    assert layer.origin.file == f"{place.project}/notes"


def test_many_commands_ask_once(place: Place, notes: Notes) -> None:
    contract = place.contract()
    stacks = {id(contract.stack(Asked(str(place.project), {}))) for _ in range(20)}
    assert (len(notes.asked), len(stacks)) == (1, 1)


def test_an_edit_is_noticed_at_once_and_asked_about_once(place: Place, notes: Notes) -> None:
    # Section 9, item 11: within the same second, and with the same size.
    contract = place.contract()
    for text in "12345":
        place.write(place.project / "notes", f"NOTED={text}\n")
        assert [resolved(place, contract)["NOTED"] for _ in range(3)] == [text] * 3
    assert len(notes.asked) == 5


def test_a_file_that_comes_and_one_that_goes_are_noticed(place: Place, notes: Notes) -> None:
    contract = place.contract()
    resolved(place, contract)
    place.write(place.project / "notes.local", "")
    assert contract.questions(Asked(str(place.project), {})) is not None
    resolved(place, contract)
    (place.project / "notes.local").unlink()
    assert contract.questions(Asked(str(place.project), {})) is not None


def test_without_its_files_there_is_no_layer(place: Place, notes: Notes) -> None:
    (place.project / "notes").unlink()
    assert "NOTED" not in resolved(place, place.contract())
    assert notes.asked == []


def test_elsewhere_it_does_not_hold(place: Place, notes: Notes) -> None:
    place.write(place.elsewhere / "notes", "NOTED=1\n")
    assert "NOTED" not in place.contract().resolve(Asked(str(place.elsewhere), {})).values


def test_what_nobody_allowed_does_not_run(place: Place, notes: Notes) -> None:
    notes.word = Trust("untrusted", "outfitter", "sha256:1")
    contract = place.contract()
    outcome = contract.resolve(Asked(str(place.project), {}))
    [layer] = [layer for layer in outcome.layers if layer.level == 3]
    assert (notes.asked, "NOTED" in outcome.values, layer.state) == ([], False, "blocked")
    assert f"outfitter trust {place.project}" in layer.note


def test_a_grant_is_noticed_and_an_edit_takes_it_away(place: Place, notes: Notes) -> None:
    notes.word = Trust("untrusted", "outfitter", "sha256:1")
    contract = place.contract()
    assert "NOTED" not in resolved(place, contract)
    contract.projects.store.grant("notes", str(place.project), "sha256:1")
    assert resolved(place, contract)["NOTED"] == "1"
    notes.word = Trust("untrusted", "outfitter", "sha256:2")
    place.write(place.project / "notes", "NOTED=changed\n")
    assert "NOTED" not in resolved(place, contract)


def test_the_word_of_another_store_is_not_ours_to_give(place: Place, notes: Notes) -> None:
    notes.word = Trust("untrusted", "direnv", "sha256:1", grant="direnv allow")
    contract = place.contract()
    contract.projects.store.grant("notes", str(place.project), "sha256:1")
    assert "NOTED" not in resolved(place, contract)


@pytest.mark.parametrize("state", ["missing", "failed", "not-applicable"])
def test_what_did_not_work_is_a_layer_without_effect(place: Place, notes: Notes, state: str) -> None:
    notes.state = state
    outcome = place.contract().resolve(Asked(str(place.project), {}))
    [layer] = [layer for layer in outcome.layers if layer.level == 3]
    assert (layer.state, layer.note, dict(layer.values)) == (state, "write it down", {})


def test_a_required_one_that_failed_stops_the_command(place: Place, notes: Notes) -> None:
    place.says('[providers]\nuse = ["notes"]\nrequired = ["notes"]\n')
    notes.state = "failed"
    with pytest.raises(ProviderFailed, match="write it down; it said: no pencil"):
        resolved(place, place.contract())


def test_a_required_one_that_is_blocked_says_what_to_type(place: Place, notes: Notes) -> None:
    place.says('[providers]\nuse = ["notes"]\nrequired = ["notes"]\n')
    notes.word = Trust("untrusted", "outfitter", "sha256:1")
    with pytest.raises(ProviderBlocked, match=f"outfitter trust {place.project}"):
        resolved(place, place.contract())


def test_an_unknown_one_is_a_mistake_that_names_the_known(place: Place) -> None:
    place.says('[providers]\nuse = ["nonesuch"]\n')
    with pytest.raises(SettingInvalid, match=r"there is no provider `nonesuch`; there are: .*direnv"):
        resolved(place, place.contract())


def test_it_starts_from_what_the_policy_left_without_other_activations(place: Place, notes: Notes) -> None:
    place.user('[shell_environment_policy]\nexclude = ["AWS_*"]\n')
    contract = place.contract(AWS_REGION="x", MISE_SHELL="bash", CI="1", API_TOKEN="hush", KEPT="1")
    resolved(place, contract)
    context = notes.contexts[-1]
    assert "AWS_REGION" not in context.env and "MISE_SHELL" not in context.env
    assert context.env["KEPT"] == "1"
    assert not {"CI", "API_TOKEN", "KEPT"} & set(context.tool_env)
    assert "hush" not in repr(context)


def test_code_loading_and_denied_names_are_refused(place: Place, notes: Notes) -> None:
    place.user('[shell_environment_policy]\nexclude = ["AWS_*"]\n')
    place.write(place.project / "notes", "LD_PRELOAD=/x AWS_REGION=y NOTED=1\n")
    outcome = place.contract().resolve(Asked(str(place.project), {}))
    assert {(one.name, one.reason) for one in outcome.refused} == {
        ("LD_PRELOAD", "code-loading"),
        ("AWS_REGION", "denied"),
    }
    assert outcome.values["NOTED"] == "1"


def test_an_exact_environment_asks_nobody(place: Place, notes: Notes) -> None:
    asked = Asked(str(place.project), {"ONLY": "1"}, contract=False, author="client")
    assert place.contract().resolve(asked).values == {"ONLY": "1"}
    assert notes.asked == []


def test_two_bases_are_asked_about_apart(place: Place, notes: Notes) -> None:
    contract = place.contract()
    resolved(place, contract)
    other = place.base("client", MORE="1")
    assert contract.questions(Asked(str(place.project), {}), other) is not None


def test_what_another_project_activated_is_taken_back(place: Place, notes: Notes) -> None:
    # S2: never half of it.
    other = f"{place.folder}/other/.venv"
    stale = {"VIRTUAL_ENV": other, "PATH": f"{other}/bin:/usr/bin:/bin", "MISE_SHELL": "bash"}
    outcome = place.contract(**stale).resolve(Asked(str(place.project), {}))
    assert not {"VIRTUAL_ENV", "MISE_SHELL"} & set(outcome.values)
    assert outcome.values["PATH"] == f"{place.project}/bin:/usr/bin:/bin"
    history, _ = outcome.history()
    assert [(event.level, event.action) for event in history["VIRTUAL_ENV"]] == [(0, "set"), (1, "unset")]


def test_without_a_provider_the_base_stays_as_it_is(place: Place, notes: Notes) -> None:
    contract = place.contract(VIRTUAL_ENV="/venv", PATH="/venv/bin:/bin")
    values = contract.resolve(Asked(str(place.elsewhere), {})).values
    assert (values["VIRTUAL_ENV"], values["PATH"]) == ("/venv", "/venv/bin:/bin")


def test_auto_takes_the_outermost_one_and_stacks_nothing(
    place: Place, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = Notes()
    inner.id, inner.rank = "inner", 2
    monkeypatch.setitem(registry._made, "inner", inner)
    monkeypatch.setattr(registry, "OURS", {"inner": ("", ""), "notes": ("", "")})
    place.says('[providers]\nuse = ["auto"]\n')
    assert resolved(place, place.contract())["NOTED"] == "1"
    assert (len(notes.asked), len(inner.asked)) == (1, 0)
