"""A client's words about overlays: async and plain calls, near and far, say the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import outfitter
import outfitter.sync
from outfitter import CapabilityMissing, EnvContract, RequestFailed
from outfitter.record import replace
from tests.support.contracts import Place
from tests.support.servers import serving
from tests.support.tools import program

SHOW = [program("sh"), "-c", "echo ${A-none} ${B-none} ${OUTFITTER_SCOPE-none}"]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.user('[overlays.rocm]\nset = { A = "named" }\n')
    return place


@pytest.fixture(params=["server", "local"])
def client(
    request: pytest.FixtureRequest, place: Place, monkeypatch: pytest.MonkeyPatch
) -> Iterator[outfitter.sync.Client]:
    if request.param == "local":
        for name, value in place.environ().items():
            monkeypatch.setenv(name, value)
        with outfitter.sync.local() as client:
            yield client
        return
    with (
        serving("outfitter", place.home, env=place.environ(), cwd=place.elsewhere) as server,
        outfitter.sync.connect(server.url) as client,
    ):
        yield client


def show(client: outfitter.sync.Client, place: Place, **contract: Any) -> str:
    done = client.run(SHOW, cwd=str(place.project), contract=EnvContract(**contract))
    return done.stdout.decode().strip()


def test_a_session_is_put_read_forked_and_dropped(client: outfitter.sync.Client, place: Place) -> None:
    # O1, O5, O8, O10
    told = client.put_overlay(
        "t", "hook:h", set={"A": "1", "N": None}, unset=["M"], append={"PATH": ["/x"]}, secrets=["A"]
    )
    assert told == {"names": ["A", "M", "N", "PATH"], "rejected": []}
    client.put_overlay("t", "user", set={"B": "2"}, order=["hook:h", "user"])
    client.put_overlay("t", "user", set={"C": "3"}, merge=True)
    found: Any = client.overlay("t")["contributions"]
    assert [(one["producer"], one["set"]) for one in found] == [("hook:h", ["A"]), ("user", ["B", "C"])]
    assert show(client, place, scope="t") == "1 2 t"
    assert show(client, place, overlays=("rocm",)) == "named none none"
    client.overlay_event("t", "fork", to="sub", unset=["B"])
    assert show(client, place, scope="sub") == "1 none sub"
    assert client.overlay_event("t", "clear")["rerun"] == ["hook:h"]
    assert show(client, place, scope="t") == "none 2 t"
    assert client.drop_overlay("t", "user", ["B"]) is True
    assert (show(client, place, scope="t"), client.drop_overlay("t", "nobody:x")) == ("none none t", False)
    assert show(client, place, scope="sub") == "1 none sub"


def test_refusals_are_errors_or_answers(client: outfitter.sync.Client) -> None:
    # O2
    rejected: Any = client.put_overlay("t", "hook:h", set={"LD_PRELOAD": "x"})["rejected"]
    assert [(one["producer"], one["name"]) for one in rejected] == [("hook:h", "LD_PRELOAD")]
    with pytest.raises(RequestFailed, match="nothing from hook:h was added"):
        client.put_overlay("t", "hook:h", set={"LD_PRELOAD": "x"}, strict=True)


def test_a_server_that_keeps_none_is_not_asked(tmp_path: Path) -> None:
    async def ask() -> None:
        async with outfitter.local() as client:
            assert client.info is not None
            client._session.info = replace(
                client.info, capabilities=client.info.capabilities - {"environmentOverlay"}
            )
            for contract in (EnvContract(scope="t"), EnvContract(overlays=("rocm",))):
                with pytest.raises(CapabilityMissing, match="keep overlays"):
                    await client.run(["true"], contract=contract)
            with pytest.raises(CapabilityMissing):
                await client.overlay("t")
            done = await client.run(["true"], cwd=str(tmp_path), contract=EnvContract())
            assert done.exit_code == 0

    asyncio.run(ask())
