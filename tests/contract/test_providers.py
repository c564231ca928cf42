"""Layer 3: asked when it must be and only then, trusted first, and honest about what it lacks."""

from __future__ import annotations

import subprocess
import time
from copy import copy
from pathlib import Path

import pytest

from outfitter.cli.colour import Paint
from outfitter.cli.env.text import overview
from outfitter.contract import answers, freshness
from outfitter.contract.contract import Asked, Contract, Questions
from outfitter.contract.freshness import RESTLESS_SECONDS
from outfitter.contract.providers import AGAIN_SECONDS, QUICK_SECONDS, UNWATCHED_SECONDS
from outfitter.contract.selection import Use
from outfitter.contract.settings import Settings
from outfitter.env.layer import PROVIDER, Layer
from outfitter.env.policy import Policy
from outfitter.env.resolve import Rules, Stack
from outfitter.errors import FileInvalid, ProviderBlocked, ProviderFailed
from outfitter.providers import registry
from outfitter.providers.base import Context, Detection, Lost, Resolution, Trust
from outfitter.record import replace
from tests.support.contracts import Place, allow_suggestions
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


def test_one_that_failed_sets_nothing_whatever_it_says(place: Place, notes: Notes) -> None:
    notes.state, notes.prefix = "failed", ("/bin/tool",)
    outcome = place.contract().resolve(Asked(str(place.project), {}))
    [layer] = [layer for layer in outcome.layers if layer.level == 3]
    assert (layer.state, layer.values, layer.prefix) == ("failed", {}, ())
    assert "HALF" not in outcome.values


def test_many_commands_ask_once(place: Place, notes: Notes) -> None:
    contract = place.contract()
    stacks = {id(contract.ready(Asked(str(place.project), {})).stack) for _ in range(20)}
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
    assert isinstance(contract.next(Asked(str(place.project), {})), Questions)
    resolved(place, contract)
    (place.project / "notes.local").unlink()
    assert isinstance(contract.next(Asked(str(place.project), {})), Questions)


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
    with pytest.raises(ProviderFailed, match="write it down; it printed: no pencil"):
        resolved(place, place.contract())


def test_a_required_one_that_is_blocked_says_what_to_type(place: Place, notes: Notes) -> None:
    place.says('[providers]\nuse = ["notes"]\nrequired = ["notes"]\n')
    notes.word = Trust("untrusted", "outfitter", "sha256:1")
    with pytest.raises(ProviderBlocked, match=f"outfitter trust {place.project}"):
        resolved(place, place.contract())


def test_one_that_the_project_requires_and_that_is_not_there_stops_the_command(
    place: Place, notes: Notes
) -> None:
    place.says('[providers]\nuse = ["notes"]\nrequired = ["notes"]\n')
    (place.project / "notes").unlink()
    why = rf"notes is required in {place.project} .*none of its files were found.*outfitter.toml:3"
    for _ in range(2):
        with pytest.raises(ProviderFailed, match=why):
            resolved(place, place.contract())
    place.says('[providers]\nuse = []\nrequired = ["notes"]\n')
    with pytest.raises(ProviderFailed, match=r"notes is required"):
        resolved(place, place.contract())
    # A word of the user is for every folder there is, and most have nothing of it.
    place.says("")
    place.user('[providers]\nuse = ["notes"]\nrequired = ["notes"]\n')
    assert "NOTED" not in resolved(place, place.contract())


def test_one_that_is_required_is_not_replaced_by_another_that_was_found(place: Place) -> None:
    place.says('[providers]\nrequired = ["versions"]\n')
    place.write(place.project / ".ruby-version", "3\n")
    place.write(place.project / ".venv" / "pyvenv.cfg", "home = /usr/bin\n")
    place.write(place.project / ".venv" / "bin" / "python", "")
    with pytest.raises(ProviderFailed, match=r"versions is required .*a different provider is active here"):
        resolved(place, place.contract())


def test_one_that_is_named_and_missing_is_told_with_each_command(place: Place) -> None:
    place.write(place.project / "uv.lock", "")
    asked = Asked(str(place.project), {})
    place.says("")
    assert place.contract().ready(asked).warnings == ()
    place.says('[providers]\nuse = ["python"]\n')
    asked = Asked(str(place.project), {})
    [told] = place.contract().ready(asked).warnings
    assert told.startswith(f"python:{place.project} is missing: uv has not created {place.project}/.venv yet")


def test_unknown_ones_are_mistakes_at_their_lines(place: Place, notes: Notes) -> None:
    place.says(
        '[providers]\nuse = ["nonesuch", "notes", "drenv"]\nrequired = ["pyhton"]\n'
        'modes = { nxi = "capture" }\n'
    )
    with pytest.raises(FileInvalid) as caught:
        resolved(place, place.contract())
    file = f"{place.project}/outfitter.toml"
    first, *others = str(caught.value).splitlines()
    assert first.startswith(f"{file}:2: no provider is named `nonesuch`; write one of `command`, ")
    assert others == [
        f"{file}:2: no provider is named `drenv`; did you mean `direnv`?",
        f"{file}:3: no provider is named `pyhton`; did you mean `python`?",
        f"{file}:4: no provider is named `nxi`; did you mean `nix`?",
    ]


def test_one_that_must_be_told_what_is_meant_says_so(place: Place) -> None:
    place.says('[providers]\nuse = ["dotenv", "command"]\n')
    with pytest.raises(
        FileInvalid, match=r"outfitter.toml:2: `dotenv` detects nothing by itself; write dotenv = "
    ):
        resolved(place, place.contract())
    place.says('[providers]\nuse = ["dotenv"]\ndotenv = [".env"]\n')
    resolved(place, place.contract())


@pytest.mark.parametrize("use", ["", 'use = ["auto"]\n', 'use = ["auto", "dotenv", "devcontainer"]\n'])
def test_what_is_named_for_one_is_used_and_once(place: Place, use: str) -> None:
    place.says(f'[providers]\n{use}dotenv = [".env"]\ndevcontainer = ["inside"]\n')
    place.write(place.project / ".env", "FROM_DOTENV=1\n")
    place.write(place.project / ".devcontainer/devcontainer.json", '{"remoteEnv": {"FROM_CONTAINER": "1"}}')
    allow_suggestions(place.contract(), place.project)
    outcome = place.contract().resolve(Asked(str(place.project), {}))
    assert {"FROM_DOTENV", "FROM_CONTAINER"} <= set(outcome.values)
    layers = [layer.producer for layer in outcome.layers if layer.level == PROVIDER and layer.id != "project"]
    assert layers == ["devcontainer", "dotenv"] or layers == ["dotenv", "devcontainer"]


def test_the_dialect_of_env_files_can_be_configured(place: Place) -> None:
    place.write(place.project / ".env", "A=x\nB=${A}/y\n")
    for dialect, wanted in (("", None), ("literal", "${A}/y"), ("expand-braces", "x/y")):
        chosen = f'dotenv_dialect = "{dialect}"\n' if dialect else ""
        place.says(f'[providers]\ndotenv = [".env"]\n{chosen}')
        allow_suggestions(place.contract(), place.project)
        assert resolved(place, place.contract()).get("B") == wanted
    # The user may choose for all projects.
    place.says('[providers]\ndotenv = [".env"]\n')
    place.user('[providers]\ndotenv_dialect = "expand-braces"\n')
    assert resolved(place, place.contract())["B"] == "x/y"


@pytest.mark.parametrize("use", ["", '[providers]\nuse = ["auto"]\n'])
@pytest.mark.parametrize("sign", ["REMOTE_CONTAINERS", "CODESPACES"])
def test_a_container_says_itself_that_its_file_counts(place: Place, use: str, sign: str) -> None:
    place.says(use)
    place.write(place.project / ".devcontainer/devcontainer.json", '{"remoteEnv": {"FROM_CONTAINER": "1"}}')
    allow_suggestions(place.contract(**{sign: "true"}), place.project)
    inside = place.contract(**{sign: "true"}).resolve(Asked(str(place.project), {}))
    assert inside.values["FROM_CONTAINER"] == "1"
    # Anywhere else there is not even a word about it.
    outside = place.contract().resolve(Asked(str(place.project), {}))
    assert [layer for layer in outside.layers if layer.producer == "devcontainer"] == []


def test_settings_of_an_editor_without_an_interpreter_are_not_mentioned(place: Place) -> None:
    place.says("")
    place.write(place.project / ".vscode/settings.json", "{}")
    outcome = place.contract().resolve(Asked(str(place.project), {}))
    assert [layer for layer in outcome.layers if layer.producer == "vscode"] == []
    place.says('[providers]\nuse = ["vscode"]\n')
    outcome = place.contract().resolve(Asked(str(place.project), {}))
    assert [layer.state for layer in outcome.layers if layer.producer == "vscode"] == ["not-applicable"]


def test_who_has_asdf_is_not_told_that_mise_is_missing(place: Place) -> None:
    place.says("")
    place.write(place.project / ".tool-versions", "ruby 3.1.0\n")
    (place.home / ".asdf/installs/ruby/3.1.0/bin").mkdir(parents=True)
    outcome = place.contract(PATH="/usr/bin:/bin").resolve(Asked(str(place.project), {}))
    layers = {layer.producer: layer.state for layer in outcome.layers if layer.level == PROVIDER}
    assert layers == {"versions": "applied"}


@pytest.mark.parametrize(
    ("line", "setting"),
    [
        ('dotenv = [".env"]', "dotenv"),
        ('dotenv_dialect = "literal"', "dotenv_dialect"),
        ('modes = { dotenv = "snapshot" }', "modes.dotenv"),
    ],
)
def test_what_is_said_for_one_that_is_not_used_is_a_mistake(place: Place, line: str, setting: str) -> None:
    place.says(f'[providers]\nuse = ["direnv"]\n{line}\n')
    with pytest.raises(FileInvalid) as caught:
        resolved(place, place.contract())
    assert str(caught.value) == (
        f"{place.project}/outfitter.toml:3: `providers.{setting}` has no effect: `dotenv` is not in `use`; "
        "add it there, or remove this line"
    )
    # What the user says for all projects is no mistake in one that uses something else.
    place.says('[providers]\nuse = ["direnv"]\n')
    place.user(f"[providers]\n{line}\n")
    resolved(place, place.contract())


def test_what_is_ignored_of_one_is_shown_to_people(place: Place) -> None:
    place.says('[providers]\nuse = ["dotenv"]\ndotenv = [".env"]\n')
    place.write(place.project / ".env", "PATH=/x\n")
    told = answers.explain(place.contract(), Asked(str(place.project), {}))()
    note = f"PATH in {place.project}/.env, line 1, is ignored: set it under [env] in outfitter.toml"
    assert f"    note: {note}" in list(overview(told, Paint(False)))


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
    assert isinstance(contract.next(Asked(str(place.project), {}), other), Questions)


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


def test_clients_with_different_policies_do_not_make_it_ask_in_turns(place: Place, notes: Notes) -> None:
    contract = place.contract(AWS_REGION="x")
    policies = [Policy("all", True, ("AWS_*",), (), ()), Policy("core", True, (), (), ())]
    for _ in range(3):
        for number, policy in enumerate(policies):
            asked = Asked(str(place.project), {}, lambda policy=policy: policy, key=number)  # type: ignore[misc]
            assert contract.resolve(asked).values["NOTED"] == "1"
    assert len(notes.asked) == 2


def test_settings_that_are_not_about_it_do_not_make_it_ask_again(place: Place, notes: Notes) -> None:
    contract = place.contract()
    first = resolved(place, contract)
    place.user('[names]\nsecret = ["NOTHING_OF_THIS"]\n')
    assert (resolved(place, contract), len(notes.asked)) == (first, 1)
    place.user('[providers]\nmodes = { notes = "snapshot" }\n')
    assert (resolved(place, contract), len(notes.asked)) == (first, 2)
    assert (resolved(place, contract), len(notes.asked)) == (first, 2)


def answered(place: Place) -> tuple[Contract, Use, Stack, Settings]:
    """A contract whose provider has answered, what was asked, and settings that may be changed."""
    contract = place.contract()
    resolved(place, contract)
    settings = contract.settings(str(place.project))
    [use] = contract.uses(str(place.project), settings)
    [known] = contract.projects._known[use.key]
    return contract, use, known.lower, copy(settings)


@pytest.mark.parametrize(("name", "value"), [("confined_providers", "on"), ("freeze", "off")])
def test_answer_of_a_tool_that_saw_more_is_not_taken_for_one_that_may_see_less(
    name: str, value: str, place: Place, notes: Notes
) -> None:
    contract, use, lower, other = answered(place)
    setattr(other, name, value)
    assert contract.projects.answers([use], lower, other) is use


def test_options_that_are_others_make_it_ask_again(place: Place, notes: Notes) -> None:
    contract, use, lower, other = answered(place)
    other.provider_options = {"notes": {"pencil": "red"}}
    assert contract.projects.answers([use], lower, other) is use
    contract.projects.ask(use, lower, other)
    assert notes.contexts[-1].options == {"pencil": "red"}


def test_who_starts_from_the_same_is_known_by_sight_the_next_time(place: Place, notes: Notes) -> None:
    contract = place.contract()
    resolved(place, contract)
    settings = contract.settings(str(place.project))
    [use] = contract.uses(str(place.project), settings)
    [known] = contract.projects._known[use.key]
    lower, same = Stack(known.lower.layers, (), Rules()), copy(settings)
    assert lower.values == known.lower.values
    [layer] = contract.projects.answers([use], lower, same)  # type: ignore[misc]
    assert layer is known.layer
    [now] = contract.projects._known[use.key]
    assert (now.lower, now.settings) == (lower, same)
    assert (now.lower is lower, now.settings is same) == (True, True)
    assert len(notes.asked) == 1


def test_what_it_took_is_told_in_milliseconds(
    place: Place, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    resolve = notes.resolve

    def slow(found: Detection, context: Context) -> Resolution:
        nonlocal now
        now += 0.25
        return resolve(found, context)

    monkeypatch.setattr(notes, "resolve", slow)
    outcome = place.contract().resolve(Asked(str(place.project), {}))
    assert [layer.cost_ms for layer in outcome.layers if layer.level == 3] == [250.0]


def test_one_that_was_found_without_a_file_has_an_origin_without_one(place: Place, notes: Notes) -> None:
    notes.detect = lambda directory: Detection(directory, (), "notes:here")  # type: ignore[method-assign]
    notes.state = "missing"
    outcome = place.contract().resolve(Asked(str(place.project), {}))
    [layer] = [layer for layer in outcome.layers if layer.level == 3]
    assert (layer.id, layer.state, layer.origin.file) == ("notes:here", "missing", None)


def test_one_that_writes_its_own_inputs_is_not_asked_for_ever(place: Place, notes: Notes) -> None:
    resolve = notes.resolve

    def restless(found: Detection, context: Context) -> Resolution:
        place.write(place.project / "notes.local", str(len(notes.asked)))
        return resolve(found, context)

    notes.resolve = restless  # type: ignore[method-assign]
    contract = place.contract()
    assert [resolved(place, contract)["NOTED"] for _ in range(3)] == ["1"] * 3
    assert len(notes.asked) == 2


@pytest.mark.parametrize("name", ["notes", "busy"])
def test_a_file_that_never_rests_keeps_no_command_from_its_answer(
    place: Place, notes: Notes, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    resolve, stamp = notes.resolve, freshness.stamp

    def asked(found: Detection, context: Context) -> Resolution:
        assert len(notes.asked) < 4
        return replace(resolve(found, context), watch=[str(place.project / "busy")])

    def restless(path: str) -> freshness.Stamp:
        young = time.time_ns()
        return (1, young, young, young) if path == str(place.project / name) else stamp(path)

    monkeypatch.setattr(notes, "resolve", asked)
    monkeypatch.setattr(freshness, "stamp", restless)
    contract = place.contract()
    assert [resolved(place, contract)["NOTED"] for _ in range(2)] == ["1"] * 2


@pytest.mark.parametrize(
    ("writes", "soon", "later"),
    [(False, UNWATCHED_SECONDS - 5, UNWATCHED_SECONDS + 5), (True, 0, RESTLESS_SECONDS + 1)],
)
def test_one_whose_inputs_cannot_be_watched_is_asked_again_later(
    place: Place, notes: Notes, monkeypatch: pytest.MonkeyPatch, writes: bool, soon: float, later: float
) -> None:
    resolve = notes.resolve

    def unwatched(found: Detection, context: Context) -> Resolution:
        if writes:
            place.write(place.project / "notes.local", str(len(notes.asked)))
        return replace(resolve(found, context), watch=())

    notes.resolve = unwatched  # type: ignore[method-assign]
    contract = place.contract()
    resolved(place, contract)
    asked = len(notes.asked)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + soon)
    resolved(place, contract)
    assert len(notes.asked) == asked
    monkeypatch.setattr(time, "monotonic", lambda: now + later)
    resolved(place, contract)
    assert len(notes.asked) > asked


@pytest.mark.parametrize(
    ("state", "seconds", "again"),
    [
        ("blocked", 0.0, True),
        ("failed", 0.0, True),
        ("failed", 2 * QUICK_SECONDS, False),
        ("missing", 0.0, True),
        ("not-applicable", 0.0, True),
    ],
)
def test_a_refusal_that_may_be_the_machine_s_is_looked_at_again(
    place: Place, notes: Notes, monkeypatch: pytest.MonkeyPatch, state: str, seconds: float, again: bool
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    looks: list[str] = []
    trust, resolve = notes.trust, notes.resolve

    def refused(found: Detection, context: Context) -> Trust:
        looks.append("trust")
        return (
            Trust("untrusted", why="no descriptor is left") if state == "blocked" else trust(found, context)
        )

    def failing(found: Detection, context: Context) -> Resolution:
        nonlocal now
        now += seconds  # that the tool took
        answer = resolve(found, context)
        return answer if state == "blocked" else replace(answer, state=state, note="no descriptor is left")

    monkeypatch.setattr(notes, "trust", refused)
    monkeypatch.setattr(notes, "resolve", failing)
    contract = place.contract()
    assert "NOTED" not in resolved(place, contract)
    first = len(looks)
    now += AGAIN_SECONDS - 1
    assert "NOTED" not in resolved(place, contract)
    assert len(looks) == first
    now += 2
    assert "NOTED" not in resolved(place, contract)
    assert (len(looks) > first) == again


def test_what_is_edited_while_it_runs_is_trusted_anew(place: Place, notes: Notes) -> None:
    resolve = notes.resolve

    def edited(found: Detection, context: Context) -> Resolution:
        place.write(place.project / "notes", "NOTED=edited\n")
        notes.word = Trust("untrusted", "outfitter", "sha256:2")
        return resolve(found, context)

    notes.resolve = edited  # type: ignore[method-assign]
    outcome = place.contract().resolve(Asked(str(place.project), {}))
    assert [layer.state for layer in outcome.layers if layer.level == 3] == ["blocked"]


@pytest.mark.parametrize("state", ["missing", "not-applicable"])
def test_what_has_nothing_to_say_leaves_the_word_to_the_next(
    place: Place, notes: Notes, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = Notes()
    inner.id, inner.rank = "inner", 2
    monkeypatch.setitem(registry._made, "inner", inner)
    monkeypatch.setattr(registry, "known", lambda: ["inner", "notes"])
    place.says('[providers]\nuse = ["auto"]\n')
    notes.state = state
    outcome = place.contract().resolve(Asked(str(place.project), {}))
    assert outcome.values["NOTED"] == "1"
    assert [layer.state for layer in outcome.layers if layer.level == 3] == [state, "applied"]


@pytest.mark.parametrize(("word", "raises"), [("fail", True), ("warn", False), ("without", False)])
def test_the_policy_on_failure_decides(place: Place, notes: Notes, word: str, raises: bool) -> None:  # V6
    place.says(f'[providers]\nuse = ["notes"]\non_failure = "{word}"\n')
    notes.state = "failed"
    if raises:
        with pytest.raises(ProviderFailed, match="write it down; it printed: no pencil"):
            resolved(place, place.contract())
        notes.word = Trust("untrusted", "outfitter", "sha256:1")
        with pytest.raises(ProviderBlocked):
            resolved(place, place.contract())
    else:
        assert "NOTED" not in resolved(place, place.contract())


def test_a_project_cannot_make_failures_matter_less(place: Place, notes: Notes) -> None:
    place.user('[providers]\non_failure = "fail"\n')
    place.says('[providers]\nuse = ["notes"]\non_failure = "without"\n')
    notes.state = "failed"
    with pytest.raises(ProviderFailed):
        resolved(place, place.contract())


def test_nobody_is_asked_where_none_is_used(place: Place, notes: Notes) -> None:
    place.write(place.project / ".envrc", "")
    place.says("[providers]\nuse = []\n")
    outcome = place.contract().resolve(Asked(str(place.project), {}))
    assert [layer.id for layer in outcome.layers if layer.level == 3] == []


def test_what_nobody_named_is_found_and_told(place: Place) -> None:
    place.project_file.unlink()
    place.write(place.project / ".envrc", "export A=1\n")
    outcome = place.contract().resolve(Asked(str(place.project), {}))
    [layer] = [layer for layer in outcome.layers if layer.level == 3]
    assert (layer.producer, layer.state in ("blocked", "missing")) == ("direnv", True)


def test_a_change_is_told_once_by_name_and_without_values(place: Place, notes: Notes) -> None:  # 9.12
    contract = place.contract()

    def told() -> tuple[str, ...]:
        return contract.ready(Asked(str(place.project), {})).warnings

    place.write(place.project / "notes", "KEPT=1 CHANGED=1 GONE=1\n")
    assert told() == ()
    place.write(place.project / "notes", "KEPT=1 CHANGED=hush-hush NEW=1\n")
    [text] = told()
    assert text == f"notes:{place.project}/notes has changed: +NEW ~CHANGED -GONE"
    assert told() == ()
    notes.state = "failed"
    place.write(place.project / "notes.local", "")
    news = told()
    assert "has changed: applied became failed -KEPT -CHANGED -NEW -PATH" in news[-1]


def test_what_is_lost_is_told_with_what_would_keep_it(place: Place, notes: Notes) -> None:
    resolve = notes.resolve

    def lossy(found: Detection, context: Context) -> Resolution:
        return replace(resolve(found, context), lost=(Lost("function", "greet", "wrap"),))

    notes.resolve = lossy  # type: ignore[method-assign]
    told = answers.explain(place.contract(), Asked(str(place.project), {}))()
    [layer] = [layer for layer in told["layers"] if layer["layer"] == "L3"]  # type: ignore[attr-defined]
    assert layer["lost"] == [{"kind": "function", "name": "greet", "keptBy": "wrap"}]
    text = "\n".join(overview(told, Paint(False)))
    assert "does not keep function greet (kept by the mode wrap)" in text


def test_what_the_main_checkout_allowed_is_offered_in_a_worktree_and_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    place.write(place.project / "give.sh", '#!/bin/sh\necho \'{"set": {"GIVEN": "1"}}\'\n')
    (place.project / "give.sh").chmod(0o755)
    place.says('[providers]\nuse = ["command"]\ncommand = ["./give.sh"]\n')
    (place.project / ".git").rmdir()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(place.project)]
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["commit", "-qm", "1"],
        ["worktree", "add", "-q", "../other"],
    ):
        subprocess.run([*git, *words], check=True, env=place.environ(), capture_output=True)
    contract = place.contract()

    def layer(folder: Path) -> Layer:
        resolved = contract.resolve(Asked(str(folder), {}))
        [layer] = [layer for layer in resolved.layers if layer.level == 3]
        return layer

    worktree = tmp_path / "other"
    assert "the same content is allowed" not in layer(worktree).note
    settings = contract.settings(str(place.project))
    [use] = contract.uses(str(place.project), settings)
    context = contract.projects.context(use, contract.lower(Asked(str(place.project), {})).values, settings)
    contract.projects.store.grant("command", str(place.project), contract.projects.trust(use, context).digest)
    assert layer(place.project).state == "applied"
    # Another process: nothing of the worktree has changed, so this one would not look again.
    contract = place.contract()
    found = layer(worktree)
    assert (found.state, found.note) == (
        "blocked",
        f"not trusted: the same content is allowed in {place.project}: "
        f"`outfitter trust {worktree}` allows it here too",
    )
    place.write(worktree / "give.sh", "#!/bin/sh\necho other\n")
    assert "the same content is allowed" not in layer(worktree).note
