"""A client's words about environments: the library, the plain calls and the wire give the same answers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import outfitter
import outfitter.sync
from outfitter import CONTRACT, CapabilityMissing, EnvContract, EnvPolicy, RequestFailed
from outfitter.client.environment import INHERIT_ALL, wire_policy
from outfitter.env.fingerprint import value_digest
from outfitter.protocol.environment import BaseParams
from outfitter.protocol.wishes import EnvPolicyParams
from outfitter.record import replace
from tests.support.contracts import PATH, Place, environment_of, variables, wait_for
from tests.support.servers import serving
from tests.support.tools import program
from tests.support.wire import Wire

PROJECT = '[env]\nset = { FROM_PROJECT = "hush-project" }\nprepend = { PATH = ["bin"] }\n'
USER = """\
[shell_environment_policy]
ignore_default_excludes = false

[env]
set = { FROM_USER = "hush-user" }
"""
BASE = {"KEPT": "hush-kept", "A_TOKEN": "hush-token"}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.user(USER)
    place.says(PROJECT)
    return place


def expected(place: Place, **more: str) -> dict[str, str]:
    return {
        **place.environ(),
        "KEPT": "hush-kept",
        "FROM_PROJECT": "hush-project",
        "FROM_USER": "hush-user",
        "PATH": f"{place.project}/bin:{PATH}",
        "SHLVL": "1",
        **more,
    }


# Commands


def test_words_are_shown_as_they_are_written() -> None:
    assert repr(CONTRACT) == "CONTRACT"
    assert EnvContract() == EnvContract("user", (), None, None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"set": {"CI": "1", "TZ": "UTC"}},
        {"set": ["CI"]},
        {"exclude": "DEPLOY_TOKEN"},
        {"include_only": "PATH"},
    ],
    ids=str,
)
def test_a_policy_takes_no_text_and_no_dict_for_a_list(wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"^`{next(iter(wrong))}` is a list"):
        EnvPolicy(**wrong)
    with pytest.raises(TypeError, match=r"^`unset` is a list, not str"):
        EnvContract(unset="DEPLOY_TOKEN")


def test_a_command_gets_the_contract_unless_something_else_is_said(place: Place) -> None:
    async def scenario() -> None:
        async with outfitter.local(environment=place.environ(**BASE)) as client:
            here = str(place.project)
            assert await environment_of(client, cwd=here) == expected(place)
            assert await environment_of(client, cwd=here, policy=CONTRACT) == expected(place)
            mine = await environment_of(
                client, cwd=here, env={"MINE": "1"}, contract=EnvContract(unset=("FROM_USER", "KEPT"))
            )
            wanted = expected(place, MINE="1")
            assert mine == {name: wanted[name] for name in wanted if name not in ("FROM_USER", "KEPT")}
            model = EnvContract("model")
            refused = await environment_of(
                client, cwd=here, env={"LD_PRELOAD": "x", "A_TOKEN": "y"}, contract=model
            )
            assert refused == expected(place)
            policy = EnvPolicy("none", True, (), (("SET", "1"),), ())
            assert await environment_of(client, cwd=here, policy=policy) == {
                "SET": "1",
                "FROM_PROJECT": "hush-project",
                "FROM_USER": "hush-user",
                "PATH": f"{place.project}/bin",
            }
            assert await environment_of(client, cwd=here, policy=None, env={"ONLY": "1"}) == {"ONLY": "1"}

    wait_for(scenario())


def test_a_server_without_contracts_is_asked_for_everything(place: Place) -> None:
    async def scenario() -> None:
        async with outfitter.local(environment=place.environ()) as client:
            assert client.info is not None
            client._session.info = replace(
                client.info, capabilities=frozenset({"environmentExplain"})
            )  # what such a server says
            assert wire_policy(client._session, CONTRACT, None) == (INHERIT_ALL, None)
            policy = EnvPolicyParams("core", True, (), (), ())
            assert wire_policy(client._session, EnvPolicy("core"), None) == (policy, None)
            assert wire_policy(client._session, None, None) == (None, None)
            with pytest.raises(CapabilityMissing):
                await client.run(["true"], contract=EnvContract(login="strip"))
            with pytest.raises(CapabilityMissing):
                await client.base(BaseParams("client", 1, {}))
            client._session.info = replace(client.info, capabilities=frozenset())
            for call in (client.environment(), client.explain(), client.compare("/", "/")):
                with pytest.raises(CapabilityMissing):
                    await call

    wait_for(scenario())


def test_summaries_come_with_a_command_when_they_were_asked_for(place: Place) -> None:
    place.profile("export ADDED=hush-added\n")

    async def scenario() -> None:
        argv, report = [program("bash"), "-lc", ":"], EnvContract(startup="report")
        here = str(place.project)
        async with outfitter.local(environment=place.environ(**BASE), summaries=True) as client:
            done = await client.run(argv, cwd=here, contract=report)
            told = await client.environment(cwd=here)
            assert (done.environment["base"], done.environment["fp"]) == ("launcher", told["env_fp"])
            assert done.environment["shell"]["startup"] == "report"
            assert "ADDED" in [change["name"] for change in done.startup["changes"]]
            assert "hush" not in json.dumps([done.environment, done.startup])
            process = await client.start(argv, cwd=here, contract=report)
            assert process.environment == done.environment
            async for _ in process:
                pass
            assert process.startup == done.startup
        async with outfitter.local(environment=place.environ(**BASE)) as client:
            done = await client.run(argv, cwd=here, contract=report)
            assert (done.environment, done.startup) == (None, None)

    wait_for(scenario())


def test_refusals_are_errors_with_their_words(place: Place) -> None:
    place.says('[shell]\nlogin = "reject"\n')

    async def scenario() -> None:
        async with outfitter.local(environment=place.environ()) as client:
            here = str(place.project)
            with pytest.raises(RequestFailed, match="not allowed here") as caught:
                await client.run([program("bash"), "-lc", ":"], cwd=here)
            assert caught.value.code == -32600
            with pytest.raises(RequestFailed, match="the variable BIG is too large"):
                await client.run(["true"], cwd=here, env={"BIG": "x" * 131_072})
            with pytest.raises(RequestFailed, match="the variable BIG is too large"):
                await client.explain(cwd=here, env={"BIG": "x" * 131_072})
            place.says("nonsense")
            with pytest.raises(RequestFailed, match=str(place.project_file)):
                await client.run(["true"], cwd=here)
            assert (await client.run(["true"], cwd=str(place.elsewhere))).exit_code == 0

    wait_for(scenario())


# Bases


def test_a_client_says_whose_environment_commands_start_from(place: Place) -> None:
    async def scenario() -> None:
        async with outfitter.local(environment=place.environ(**BASE)) as client:
            there = str(place.elsewhere)
            told = await client.base(BaseParams("client", os.getpid(), {"PATH": "/x", "MINE": "1"}))
            assert told["base"]["kind"] == "client"
            assert told["differences"]["onlyClient"] == ["MINE"]
            found = await environment_of(client, cwd=there)
            assert found == {"PATH": "/x", "MINE": "1", "FROM_USER": "hush-user", "SHLVL": "1"}
            assert (await client.explain(cwd=there))["base"] == told["base"]
            digests = {"KEPT": value_digest(b"k", "KEPT", "hush-kept")}
            told = await client.base(BaseParams("daemon", os.getpid(), None, b"k", digests))
            assert told["base"]["kind"] == "launcher"
            assert "KEPT" not in told["differences"]["onlyServer"] + told["differences"]["changed"]
            assert (await environment_of(client, cwd=there))["KEPT"] == "hush-kept"

    wait_for(scenario())


def test_the_repr_of_what_is_sent_has_no_value() -> None:
    assert "hush" not in repr(BaseParams("client", 1, {"A": "hush"}))


# The same through every door


def comparable(told: dict[str, Any]) -> dict[str, Any]:
    """Without what differs between two servers of the same environment."""
    told = json.loads(json.dumps(told))
    for key in ("pid", "startedAtMs", "kind"):
        told["base"].pop(key)
    # Whose base it is, is one of the inputs.
    told.pop("contract_fp")
    told["summary"] = told["summary"].partition(",")[2]
    for layer in told.get("layers", ()):
        layer.pop("cost", None)  # which only `explain` tells
        layer.pop("producer", None)
    for entry in told["variables"].values():
        for part in (entry, *entry.get("history", ())):
            if part.get("id") == "base":
                part.pop("origin", None)
    if "loginShell" in told:
        told["loginShell"].pop("seconds")
    return told


def test_library_plain_calls_and_wire_give_the_same_answers(place: Place) -> None:
    place.profile("export FROM_PROFILE=hush-profile\n")
    here, there = str(place.project), str(place.elsewhere)
    question: dict[str, Any] = {
        "cwd": here,
        "env": {"MINE": "hush-mine", "MY_KEY": "hush-key"},
        "show": "values",
    }
    explained = {**question, "programs": ("env",), "login": True, "contract": EnvContract("model", ("LANG",))}
    found: list[list[Any]] = []

    async def library(client: outfitter.Client) -> None:
        found.append(
            [
                comparable(await client.environment(**question)),
                comparable(await client.explain(**explained)),
                await client.compare(here, there),
                await environment_of(client, cwd=here),
            ]
        )

    def plain(client: outfitter.sync.Client) -> None:
        found.append(
            [
                comparable(client.environment(**question)),
                comparable(client.explain(**explained)),
                client.compare(here, there),
                variables(client.run(["/usr/bin/env", "-0"], cwd=here).stdout),
            ]
        )

    async def scenario(url: str) -> None:
        async with outfitter.local(environment=place.environ(**BASE)) as client:
            await library(client)
        async with outfitter.connect(url) as client:
            await library(client)

    with serving("outfitter", place.home, env=place.environ(**BASE)) as server:
        wait_for(scenario(server.url))
        with outfitter.sync.local(environment=place.environ(**BASE)) as client:
            plain(client)
        with outfitter.sync.connect(server.url) as client:
            plain(client)
        with Wire(server.url) as wire:
            wire.handshake()
            params = {
                "cwd": place.project.as_uri(),
                "env": question["env"],
                "envPolicy": None,
                "show": "values",
            }
            asked = {**params, "contract": {"author": "model", "unset": ["LANG"]}}
            both = [
                {**params, "env": {}, "contract": {}, "cwd": path.as_uri()}
                for path in (place.project, place.elsewhere)
            ]
            wire.start("p", ["/usr/bin/env", "-0"], cwd=params["cwd"], env={}, contract={})
            wire.closed("p")
            found.append(
                [
                    comparable(wire.call("environment/resolve", {**params, "contract": {}})),
                    comparable(
                        wire.call("environment/explain", {**asked, "programs": ["env"], "login": True})
                    ),
                    wire.call("environment/diff", {"a": both[0], "b": both[1]})["differences"],
                    variables(wire.output("p")),
                ]
            )
    assert len(found) == 5
    for other in found[1:]:
        assert other == found[0]
    resolved, told, differences, child = found[0]
    assert child == expected(place)
    assert resolved["variables"]["MINE"]["value"] == "hush-mine"
    assert told["variables"]["LANG"]["removed"]["by"] == "request"
    assert [(one["name"], one["reason"]) for one in told["refused"]] == [("MY_KEY", "denied")]
    assert "hush-key" not in json.dumps(found)
    assert "hush-token" not in json.dumps(found)
    assert [one["name"] for one in differences] == ["FROM_PROJECT", "PATH"]
