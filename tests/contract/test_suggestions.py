"""What a project's files set waits for a person's word, and everybody is told so."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from pathlib import Path

import pytest

from outfitter.contract import privatefile
from outfitter.contract.contract import Asked, Contract
from outfitter.contract.providers import AGAIN_SECONDS, effects_digest
from outfitter.contract.trust import tables_of
from outfitter.env.explain import one_line, summary
from outfitter.env.names import HARMLESS
from outfitter.providers.base import Resolution
from tests.support.contracts import PATH, Place

FILE = """\
[env]
set = { A = "1", NO_COLOR = "1" }
unset = ["LANG"]
prepend = { PATH = ["bin"] }

[shell_environment_policy]
set = { B = "2", FORCE_COLOR = "1" }

[overlays.more]
set = { C = "3" }
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def got(place: Place, contract: Contract) -> dict[str, str | None]:
    asked = Asked(str(place.project), {}, overlays=("more",))
    values = contract.resolve(asked).values
    return {name: values.get(name) for name in ("A", "B", "C", "NO_COLOR", "FORCE_COLOR", "LANG", "PATH")}


def test_nothing_but_the_harmless_arrives_until_it_is_allowed(place: Place) -> None:
    place.says(FILE, trusted=False)
    contract = place.contract()
    assert got(place, contract) == {
        "A": None,
        "B": None,
        "C": None,
        "NO_COLOR": "1",
        "FORCE_COLOR": "1",
        "LANG": "C.UTF-8",
        "PATH": f"{PATH}:{place.project}/bin",
    }
    place.trust()
    assert got(place, contract) == {
        "A": "1",
        "B": "2",
        "C": "3",
        "NO_COLOR": "1",
        "FORCE_COLOR": "1",
        "LANG": None,
        "PATH": f"{place.project}/bin:{PATH}",
    }


@pytest.mark.parametrize("table", ["env", "shell_environment_policy", "overlays.more"])
def test_a_change_in_any_table_waits_again(place: Place, table: str) -> None:
    place.says(FILE)
    contract = place.contract()
    before = got(place, contract)
    head = f"[{table}]\nset = {{ "
    place.says(FILE.replace(head, f'{head}HOME = "/evil", '), trusted=False)
    assert got(place, contract)["A"] is None
    # What is back to what was allowed is allowed; a comment is no change of it.
    place.says(f"# all as it was\n{FILE}", trusted=False)
    assert got(place, contract) == before


def test_a_grant_that_the_machine_could_not_read_is_read_later(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.says(FILE)
    contract = place.contract()
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with monkeypatch.context() as short:
        short.setattr(privatefile, "read", _no_descriptor)
        assert got(place, contract)["A"] is None
    now += AGAIN_SECONDS + 1
    assert got(place, contract)["A"] == "1"


def test_so_is_one_for_what_a_provider_reads(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.says('[providers]\nuse = ["dotenv"]\ndotenv = [".env"]\n')
    place.write(place.project / ".env", "A=1\n")
    contract = place.contract()
    [use] = contract.uses(str(place.project), contract.settings(str(place.project)))
    digest = effects_digest(str(place.project), Resolution("applied", set={"A": "1"}))
    contract.projects.store.grant("dotenv", use.found.root, digest)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    asked = Asked(str(place.project), {})
    with monkeypatch.context() as short:
        short.setattr(privatefile, "read", _no_descriptor)
        assert "A" not in contract.resolve(asked).values
    now += AGAIN_SECONDS + 1
    assert contract.resolve(asked).values["A"] == "1"


def _no_descriptor(path: str, most: int) -> bytes:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)


def test_a_grant_that_is_taken_back_counts_at_once(place: Place) -> None:
    place.says(FILE)
    contract = place.contract()
    assert got(place, contract)["A"] == "1"
    assert contract.projects.store.revoke("project", str(place.project))
    assert got(place, contract)["A"] is None


def test_what_waits_is_told_in_one_line_with_what_to_type(place: Place) -> None:
    place.says(FILE, trusted=False)
    contract = place.contract()
    ready = contract.ready(Asked(str(place.project), {}))
    assert ready.warnings == (
        "the project would change B, A, LANG, PATH: to see how, and to allow it, type: "
        f"outfitter trust {place.project}",
    )
    resolved = contract.environment(ready)
    assert "provider=project:shell_environment_policy(applied, 0, 1 waiting for trust)" in one_line(
        resolved, "x"
    )
    told = summary(resolved, "x", "", "")["layers"]
    assert isinstance(told, list)
    waiting = {one["id"]: one["awaits"] for one in told if "awaits" in one}
    grant = f"outfitter trust {place.project}"
    assert waiting == {"project": grant, "project:shell_environment_policy": grant}
    place.trust()
    assert contract.ready(Asked(str(place.project), {})).warnings == ()


def test_where_failures_are_not_told_this_is_not_either(place: Place) -> None:
    place.user('[providers]\non_failure = "without"\n')
    place.says(FILE, trusted=False)
    assert place.contract().ready(Asked(str(place.project), {})).warnings == ()


def test_the_harmless_alone_waits_for_nobody(place: Place) -> None:
    place.says('[env]\nset = { NO_COLOR = "1" }\nappend = { PATH = ["bin"] }\n', trusted=False)
    ready = place.contract().ready(Asked(str(place.project), {}))
    assert ready.warnings == ()


def test_many_names_are_not_all_told(place: Place) -> None:
    place.says("[env]\n" + "".join(f'set.N{number} = "1"\n' for number in range(10)), trusted=False)
    [line] = place.contract().ready(Asked(str(place.project), {})).warnings
    assert line.startswith("the project would change N0, N1, N2, N3, N4, N5, N6, N7 and 2 more: ")


@pytest.mark.parametrize("name", HARMLESS)
def test_the_harmless_neither_run_nor_lead_anywhere(name: str) -> None:
    from outfitter.env.lists import LIST_NAMES
    from outfitter.env.names import REQUIRED, loads_code

    assert not loads_code(name)
    assert name not in LIST_NAMES
    assert name not in REQUIRED


def test_the_same_content_has_the_same_digest_in_another_worktree(place: Place, tmp_path: Path) -> None:
    place.says(FILE)
    other = Place(tmp_path / "elsewhere")
    other.says(FILE, trusted=False)
    digests = []
    for one in (place, other):
        tables = tables_of(one.contract().settings(str(one.project)))
        assert tables is not None
        digests.append(tables.digest)
    assert digests[0] == digests[1]


def test_a_worktree_is_told_that_its_main_checkout_is_allowed(place: Place) -> None:
    def git(*words: str) -> None:
        own = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *own, *words], cwd=place.project, check=True, capture_output=True)

    git("init", "-q")
    place.says(FILE)
    git("add", "outfitter.toml")
    git("commit", "-qm", "a")
    linked = place.folder / "linked"
    git("worktree", "add", "-q", str(linked))
    contract = place.contract()
    assert "A" not in contract.resolve(Asked(str(linked), {})).values
    tables = tables_of(contract.settings(str(linked)))
    assert tables is not None
    trust = contract.projects.store.trust("project", tables.root, tables.digest)
    assert f"the same content is allowed in {place.project}" in trust.why
