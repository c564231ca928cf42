"""Answers about an environment: complete, true to what a command gets, without values unless asked for."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import outfitter
from outfitter.contract import answers
from outfitter.contract.contract import Asked, Contract
from outfitter.env.policy import Policy
from outfitter.host import facts
from outfitter.protocol.wishes import EnvPolicyParams
from tests.support.contracts import PATH, Place, environment_of, values_in, wait_for
from tests.support.tools import program

SECRET = "hush-0123456789"
OTHER = "hush-abcdefghij"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Where the account's shell is bash, whoever runs this."""
    monkeypatch.setattr(facts, "login_shell", lambda: program("bash"))
    return Place(tmp_path)


class Full:
    """A place where every layer there is speaks."""

    USER = """\
[shell]
snapshot = "loginShell"

[shell_environment_policy]
exclude = ["BY_USER_POLICY"]
set = { FROM_USER_POLICY = "hush-user-policy" }

[env]
set = { FROM_USER = "hush-user", LD_PRELOAD = "" }
append = { PATH = ["/from/user"] }
"""
    PROJECT = """\
[shell_environment_policy]
ignore_default_excludes = false
exclude = ["BY_PROJECT_POLICY"]

[env]
set = { FROM_PROJECT = "hush-project", BASH_ENV = "hush-refused" }
unset = ["BY_PROJECT"]
prepend = { PATH = ["bin"] }
"""
    PROFILE = "export FROM_PROFILE=hush-profile PATH=/from/profile:/usr/bin:/bin BY_USER_POLICY=hush-back\n"
    BASE = {
        name: f"hush-{name.lower()}"
        for name in ("KEPT", "BY_USER_POLICY", "BY_PROJECT_POLICY", "BY_POLICY", "BY_PROJECT", "BY_REQUEST")
    } | {"PATH": f"/from/base::{PATH}", "A_TOKEN": SECRET}
    POLICY = ("all", True, ("BY_POLICY",), (("FROM_POLICY", "hush-policy"),), ())
    ENV = {"FROM_REQUEST": "hush-request", "LANG": "hush-lang", "MY_PASSWORD": OTHER}

    def __init__(self, place: Place) -> None:
        place.user(self.USER)
        place.says(self.PROJECT)
        place.profile(self.PROFILE)
        self.place = place
        self.contract = place.contract("launcher", **self.BASE)
        self.contract.prepare()
        self.asked = Asked(
            str(place.project),
            self.ENV,
            lambda: Policy(*self.POLICY),
            key="policy",
            unset=("BY_REQUEST", "FROM_NOBODY"),
            tty=True,
        )


@pytest.fixture
def full(place: Place) -> Full:
    return Full(place)


def question(place: Place, env: dict[str, str] | None = None, **more: Any) -> Asked:
    return Asked(str(place.project), env or {}, **more)


def names(explained: dict[str, Any]) -> set[str]:
    """The variables that a command has, of all that are explained."""
    return {name for name, entry in explained["variables"].items() if "removed" not in entry}


# Complete


def test_every_variable_of_every_layer_is_known(full: Full) -> None:
    told: Any = answers.explain(full.contract, full.asked)()
    variables = told["variables"]
    # None without a layer, an origin and a history; none that came from nowhere.
    assert [
        name
        for name, entry in variables.items()
        if not entry["layer"] or not entry["id"] or not entry["origin"]["kind"] or not entry["history"]
    ] == []
    assert {name: f"{entry['layer']} {entry['id']}" for name, entry in variables.items()} == {
        "A_TOKEN": "L2 project:shell_environment_policy",
        "BASH_ENV": "L3 project",
        "BY_POLICY": "L2 envPolicy",
        "BY_PROJECT": "L3 project",
        "BY_PROJECT_POLICY": "L2 project:shell_environment_policy",
        "BY_REQUEST": "L7 request",
        "BY_USER_POLICY": "L2 user:shell_environment_policy",
        "CODEX_HOME": "L0 base",
        "FROM_NOBODY": "L7 request",
        "FROM_POLICY": "L2 envPolicy",
        "FROM_PROFILE": "L1 login-shell",
        "FROM_PROJECT": "L3 project",
        "FROM_REQUEST": "L7 request",
        "FROM_USER": "L6 user",
        "FROM_USER_POLICY": "L2 user:shell_environment_policy",
        "HOME": "L0 base",
        "KEPT": "L0 base",
        "LANG": "L7 request",
        "LD_PRELOAD": "L6 user",
        "MY_PASSWORD": "L7 request",
        "PATH": "L6 user",
        "SHELL": "L8 terminal",
        "TMPDIR": "L0 base",
    }
    assert {entry["layer"] for entry in told["layers"]} == {f"L{level}" for level in range(9)}
    assert [(entry["layer"], entry["id"]) for entry in told["layers"] if entry["state"] == "applied"] == [
        ("L0", "base"),
        ("L1", "login-shell"),
        ("L2", "user:shell_environment_policy"),
        ("L2", "project:shell_environment_policy"),
        ("L2", "envPolicy"),
        ("L3", "project"),
        ("L6", "user"),
        ("L7", "request"),
        ("L8", "terminal"),
    ]
    assert [(entry["name"], entry["reason"]) for entry in told["refused"]] == [("BASH_ENV", "code-loading")]
    # The policy looks at what the login shell brings.
    assert variables["BY_USER_POLICY"]["removed"]["layer"] == "L2"
    # Without a policy of its own a request gets what every command needs.
    told = answers.explain(full.contract, question(full.place, full.ENV, tty=True))()
    assert set(told["variables"]) == set(variables) - {"FROM_POLICY", "FROM_NOBODY"} | {"SHLVL"}
    assert told["variables"]["SHLVL"]["id"] == "runtime"


def test_every_segment_of_path_has_its_layer(full: Full) -> None:
    told: Any = answers.explain(full.contract, full.asked)()
    segments = told["variables"]["PATH"]["segments"]
    assert [(segment["value"], segment["layer"], segment["id"]) for segment in segments] == [
        (f"{full.place.project}/bin", "L3", "project"),
        ("/from/profile", "L1", "login-shell"),
        ("/usr/bin", "L0", "base"),
        ("/bin", "L0", "base"),
        ("/from/base", "L0", "base"),
        ("/usr/local/bin", "L0", "base"),
        ("/from/user", "L6", "user"),
    ]
    assert segments[0]["exists"] is False
    assert segments[0]["writableByAgent"] is True


def test_explain_resolve_and_the_real_child_agree(full: Full) -> None:
    told: Any = answers.explain(full.contract, full.asked, "secrets")()
    resolved: Any = answers.resolve(full.contract, full.asked, "secrets")()

    async def scenario() -> None:
        async with outfitter.local(environment=full.contract.base.values) as client:
            child = await environment_of(
                client,
                cwd=str(full.place.project),
                env=full.ENV,
                policy=outfitter.EnvPolicy(*full.POLICY),
                contract=outfitter.EnvContract(unset=full.asked.unset),
            )
            child["SHELL"] = told["variables"]["SHELL"]["value"]  # it has no terminal: those print otherwise
            assert names(told) == set(resolved["variables"]) == set(child)
            assert {name: entry["value"] for name, entry in resolved["variables"].items()} == child
            assert {name: told["variables"][name]["value"] for name in child} == child
            segments = told["variables"]["PATH"]["segments"]
            assert ":".join(segment["value"] for segment in segments) == child["PATH"]

    wait_for(scenario())


@pytest.mark.parametrize("who", ["contract", "stock", "exact"])
def test_explain_agrees_with_the_child_whoever_asks(place: Place, who: str) -> None:
    path = "/a::relative:/usr/bin:/usr/bin/:/bin"
    policy = EnvPolicyParams("all", False, ("L*",), (("SET", "1"),), ()) if who == "stock" else None
    params = {
        "env": {"MINE": "1", "NODE_REPL_AUTH_TOKEN": "never", "PATH": path},
        "envPolicy": None if policy is None else policy.encode(),
        "contract": {} if who == "contract" else None,
        "cwd": "file:///",
    }

    async def scenario() -> None:
        async with outfitter.local(environment=place.environ(A_KEY="1", PWD="/x", SHLVL="2")) as client:
            told = await client.call("environment/explain", params)
            resolved = await client.call("environment/resolve", {**params, "show": "secrets"})
            start = {"processId": "p", "argv": ["/usr/bin/env", "-0"], "tty": False}
            await client.call("process/start", {**start, **params})
            page: Any = {"closed": False, "nextSeq": 1}
            while not page["closed"]:
                page = await client.call(
                    "process/read", {"processId": "p", "afterSeq": page["nextSeq"] - 1, "waitMs": 10000}
                )
            process = await client.attach("p")
            printed = b"".join([event.data async for event in process if isinstance(event, outfitter.Output)])
            child = dict(pair.split("=", 1) for pair in printed.decode().split("\0")[:-1])
            assert names(told) == set(child)
            assert {name: entry["value"] for name, entry in resolved["variables"].items()} == child
            segments = told["variables"]["PATH"]["segments"]
            assert ":".join(segment["value"] for segment in segments) == child["PATH"]
            # PATH as it was said, but for a client with a contract.
            assert child["PATH"] == ("/a:/usr/bin:/bin" if who == "contract" else path)

    wait_for(scenario())


# Values


def test_no_value_is_told_unless_it_is_asked_for(full: Full) -> None:
    # K4
    for answer in (
        answers.explain(full.contract, full.asked, programs=("env", "no-such-program"))(),
        answers.resolve(full.contract, full.asked, digest_key=b"k" * 32)(),
        answers.compare(full.contract, full.asked, question(full.place))(),
        answers.compare(full.contract, question(full.place), full.asked)(),
    ):
        assert "hush" not in json.dumps(answer)
    # What is told of PATH are its folders.
    told = answers.explain(full.contract, full.asked)()
    assert {value[:1] for value in values_in(told)} <= {"/", ""}


def test_values_are_told_without_secrets(full: Full) -> None:
    env = {**full.ENV, "COMMAND": f"curl -u me:{OTHER} x", "URL": "https://me:hush-pass@host/"}
    asked = question(full.place, env)
    for answer in (
        answers.explain(full.contract, asked, "values")(),
        answers.resolve(full.contract, asked, "values")(),
    ):
        variables: Any = answer["variables"]
        assert variables["FROM_REQUEST"]["value"] == "hush-request"
        assert OTHER not in json.dumps(answer)
        assert "hush-pass" not in json.dumps(answer)
        # Neither where it is part of something else.
        assert variables["COMMAND"]["value"] == "curl -u me:[secret:MY_PASSWORD] x"
        assert variables["COMMAND"]["secret"] is False
        assert variables["MY_PASSWORD"]["secret"] is True
        assert variables["URL"]["secret"] is True


def test_a_secret_that_a_policy_took_away_is_one_in_other_values(full: Full) -> None:
    asked = question(full.place, {"COMMAND": f"curl {SECRET}"})
    for answer in (
        answers.explain(full.contract, asked, "values")(),
        answers.resolve(full.contract, asked, "values")(),
    ):
        variables: Any = answer["variables"]
        assert variables["COMMAND"]["value"] == "curl [secret:A_TOKEN]"


def test_secrets_are_told_to_who_asks_for_secrets(full: Full) -> None:
    told: Any = answers.explain(full.contract, full.asked, "secrets")()
    assert told["variables"]["MY_PASSWORD"]["value"] == OTHER
    resolved: Any = answers.resolve(full.contract, full.asked, "secrets")()
    assert resolved["variables"]["MY_PASSWORD"]["value"] == OTHER


def test_users_and_projects_names_are_secret(place: Place) -> None:
    place.user('[names]\nsecret = ["MINE"]\n')
    place.says('[names]\nsecret = ["THEIRS"]\n')
    asked = question(place, {"MINE": SECRET, "THEIRS": SECRET, "PLAIN": "1"})
    told: Any = answers.resolve(place.contract(), asked, "values")()
    assert {name: told["variables"][name] for name in ("MINE", "THEIRS", "PLAIN")} == {
        "MINE": {"secret": True},
        "THEIRS": {"secret": True},
        "PLAIN": {"secret": False, "value": "1"},
    }


def test_digests_tell_equal_values_without_them(place: Place) -> None:
    contract = place.contract()

    def digests(env: dict[str, str], key: bytes) -> dict[str, str]:
        told: Any = answers.resolve(contract, question(place, env), digest_key=key)()
        return {name: entry["digest"] for name, entry in told["variables"].items()}

    one, other = digests({"A": SECRET}, b"k"), digests({"A": "else"}, b"k")
    assert one["HOME"] == other["HOME"]
    assert one["A"] != other["A"]
    assert one["A"] != digests({"A": SECRET}, b"other key")["A"]


def test_bytes_that_are_no_text_are_told_all_the_same(place: Place) -> None:
    contract = place.contract(ODD="\udcff", **{"NAME\udcfe": "1"}, PATH=f"{place.folder}/\udcff:{PATH}")
    for answer in (
        answers.explain(contract, question(place), "values", programs=("env",))(),
        answers.resolve(contract, question(place), "values")(),
    ):
        variables: Any = json.loads(json.dumps(answer).encode())["variables"]
        assert variables["ODD"]["value"] == "\\xff"
        assert variables["NAME\\xfe"]["value"] == "1"


# The rest of an explanation


def test_it_says_where_it_was_asked_and_which_files_spoke(place: Place) -> None:
    place.says('[shell]\nlogin = "reject"\n')
    told: Any = answers.explain(place.contract("daemon"), question(place))()
    assert told["cwd"] == str(place.project)
    assert told["shell"] == {"login": "reject", "startup": "enforce", "snapshot": "none"}
    assert told["files"] == [
        {"path": str(place.user_file), "kind": "user", "exists": False},
        {"path": str(place.project_file), "kind": "project", "exists": True},
    ]
    assert told["base"]["kind"] == "daemon"
    assert told["base"]["pid"] == os.getpid()
    assert told["summary"].startswith("env: base=daemon, policy=none")
    assert (told["env_fp"], told["contract_fp"]) == place.contract().fingerprints(
        place.contract().resolve(question(place))
    )


def test_programs_are_looked_up_where_the_command_would_find_them(place: Place) -> None:
    place.says('[env]\nprepend = { PATH = ["bin"] }\n')
    tool = place.project / "bin/tool"
    place.write(tool, "")
    tool.chmod(0o755)
    told: Any = answers.explain(place.contract(), question(place), programs=("tool", "env", "no-such"))()
    assert told["programs"]["tool"] == {
        "path": str(tool),
        "layer": "L3",
        "id": "project",
        "writableByAgent": True,
    }
    assert told["programs"]["env"]["id"] == "base"
    assert told["programs"]["no-such"] == {"path": None}


def test_programs_are_looked_up_in_a_path_that_is_secret(place: Place) -> None:
    place.user('[names]\nsecret = ["PATH"]\n')
    told: Any = answers.explain(place.contract(), question(place), programs=("env",))()
    assert told["programs"]["env"]["path"].endswith("/env")
    assert "layer" not in told["programs"]["env"]


# Another base, another directory


def test_another_base_is_explained_as_what_it_is(place: Place) -> None:
    contract, theirs = place.contract(A="server"), place.base("client", A="client")
    told: Any = answers.explain(contract, question(place), "values", base=theirs)()
    assert told["base"]["kind"] == "client"
    assert told["variables"]["A"]["value"] == "client"
    assert told["variables"]["A"]["origin"]["kind"] == "client"
    resolved: Any = answers.resolve(contract, question(place), "values", base=theirs)()
    assert resolved["variables"]["A"]["value"] == "client"
    assert resolved["base"]["kind"] == "client"


def test_comparison_names_what_differs(place: Place) -> None:
    place.says(
        f'[env]\nset = {{ A = "1", MY_TOKEN = "{SECRET}" }}\nprepend = {{ PATH = ["/opt/{SECRET}"] }}\n'
    )
    contract = place.contract(A="0")
    there = Asked(str(place.elsewhere), {})
    assert answers.compare(contract, there, question(place))() == {
        "differences": [
            {"name": "A", "kind": "changed", "secret": False},
            {"name": "MY_TOKEN", "kind": "added", "secret": True},
            {"name": "PATH", "kind": "changed", "secret": False, "segmentsAdded": ["/opt/[secret:MY_TOKEN]"]},
        ]
    }
    assert answers.compare(contract, there, there)() == {"differences": []}


def test_comparison_takes_the_base_of_each(place: Place) -> None:
    contract, theirs = place.contract(A="server"), place.base("client", A="client")
    found: Any = answers.compare(contract, question(place), question(place), base_b=theirs)()
    assert [one["name"] for one in found["differences"]] == ["A"]
    both: Any = answers.compare(contract, question(place), question(place), base_a=theirs, base_b=theirs)()
    assert both == {"differences": []}


# What a login shell would make of it


def ask_login(contract: Contract, place: Place, env: dict[str, str]) -> Any:
    return answers.explain(contract, question(place, env), programs=("env",), login=True)()["loginShell"]


def test_a_login_shell_is_asked_what_it_would_make_of_it(place: Place) -> None:
    place.profile(f"export A=2 PATH=/from/profile:/usr/bin MY_TOKEN={SECRET}\nunset GONE\n")
    told = ask_login(place.contract(), place, {"A": "1", "GONE": "1"})
    assert (told["state"], told["shell"]) == ("captured", program("bash"))
    assert told["differences"] == [
        {"name": "A", "kind": "changed", "secret": False},
        {"name": "GONE", "kind": "removed", "secret": False},
        {"name": "MY_TOKEN", "kind": "added", "secret": True},
        {
            "name": "PATH",
            "kind": "changed",
            "secret": False,
            "segmentsAdded": ["/from/profile"],
            "segmentsRemoved": ["/usr/local/bin", "/bin"],
        },
    ]
    assert told["programs"] == {"env": {"path": "/usr/bin/env"}}
    assert place.pipes() == []


def test_a_login_shell_that_gives_no_answer_says_why(place: Place) -> None:
    place.profile("exit 3\n")
    told = ask_login(place.contract(), place, {})
    assert told["state"] == "failed"
    assert "ended with status 3" in told["reason"]
    assert "differences" not in told


def test_what_waits_for_a_login_shell_has_resolved_before(place: Place) -> None:
    # It runs in a thread: what the contract remembers belongs to the loop.
    contract = place.contract()
    wait = answers.explain(contract, question(place, {"A": "1"}), login=True)
    place.says("nonsense")
    told: Any = wait()
    assert told["variables"]["A"]["layer"] == "L7"
    assert told["loginShell"]["state"] == "captured"
