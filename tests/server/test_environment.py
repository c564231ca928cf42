"""What a server says about its machine, and why a command's environment is what it is."""

from __future__ import annotations

import json
import os
import pwd

import pytest

from outfitter.core.abilities import ABILITIES
from outfitter.system import LINUX
from tests.support.servers import Server
from tests.support.wire import Message, Wire

OURS = {
    "processList": True,
    "processHold": True,
    "processResize": True,
    "processStdinEof": True,
    "processTerminateGrace": True,
    "processSignals": True,
    "environmentExplain": True,
    "environmentContract": True,
}
# A capability that does not work here must be false: clients act on it (X12).
REFERENCES = [
    "networkProxyLaunch",
    "networkProxyReviewDomains",
    "credentialMasking",
    "credentialMaskingCustomProviders",
    "capabilityDiscoverySandbox",
    "fsWatchMissing",
    "capabilityDiscoveryV2",
    "environmentConfigRead",
    "httpHeaderEnvVars",
    "sandboxedFileStreaming",
    "fileWriteStreaming",
    "shellSnapshotV2",
    "windowsMxc",
    "linuxRootWritePreservesDevices",
    "linuxApprovedRootWritePreservesRestrictions",
]
ALL: Message = {
    "inherit": "all",
    "ignoreDefaultExcludes": True,
    "exclude": [],
    "set": {},
    "includeOnly": [],
}


def test_info_tells_where_commands_run(server: Server, wire: Wire) -> None:
    # P6
    info = wire.call("environment/info")
    home = server.home.as_uri()
    shell = info.pop("shell")
    provider = info.pop("providerId")
    capabilities = info.pop("capabilities")
    base = info.pop("base")
    assert (base["kind"], base["host"], base["pid"]) == ("daemon", os.uname().nodename, server.pid)
    assert info == {
        "executorVersion": info["executorVersion"],
        "cwd": home,
        "userHomeDir": home,
        "platformOs": "linux",
        "prependPathDirs": [],
        "temporaryDirectories": ["file:///var/tmp"],
        "tempDir": "file:///var/tmp",
        "sessionRetentionMs": 30000,
        **({} if LINUX else {"weaker": {ability.name: ability.weaker for ability in ABILITIES}}),
    }
    assert os.path.basename(shell["path"]) == shell["name"]
    assert os.access(shell["path"], os.X_OK)
    assert provider.startswith("sha256:")
    assert len(bytes.fromhex(provider.removeprefix("sha256:"))) == 32
    assert {name: capabilities[name] for name in OURS} == OURS
    assert [name for name in REFERENCES if name not in capabilities] == []


def test_initialize_carries_the_same_info(server: Server, wire: Wire) -> None:
    with Wire(server.url) as other:
        assert other.handshake()["environmentInfo"] == wire.call("environment/info")


@pytest.mark.parametrize("params", [None, {}], ids=["null", "empty"])
def test_methods_without_params_take_none(params: Message | None, wire: Wire) -> None:
    assert wire.call("environment/status", params) == {"status": "ready"}


@pytest.mark.parametrize("params", [{"x": 1}, [], 0, "", False])
def test_methods_without_params_refuse_any(params: object, wire: Wire) -> None:
    error = wire.error("environment/status", params)
    assert error["code"] == -32602
    assert "expected unit" in error["message"]


def explain(wire: Wire, **params: object) -> dict[str, Message]:
    result = wire.call("environment/explain", {"env": {}, "envPolicy": None, "tty": False, **params})
    variables: dict[str, Message] = result["variables"]
    return variables


def test_explain_gives_origin_and_rule_of_each_variable(wire: Wire) -> None:
    policy = {**ALL, "ignoreDefaultExcludes": False, "exclude": ["PL*"], "set": {"ADDED": "hush-set"}}
    found = explain(wire, envPolicy=policy, env={"MINE": "hush-mine", "LANG": "hush-lang"})
    assert {
        name: [(event["layer"], event["action"], event["why"]) for event in found[name]["history"]]
        for name in ("SECRET_TOKEN", "PLAIN", "ADDED", "MINE", "LANG")
    } == {
        "SECRET_TOKEN": [("L0", "set", "set"), ("L2", "removed", "default exclude *SECRET*")],
        "PLAIN": [("L0", "set", "set"), ("L2", "removed", "envPolicy.exclude PL*")],
        "ADDED": [("L2", "set", "envPolicy.set")],
        "MINE": [("L7", "set", "set")],
        "LANG": [
            ("L0", "set", "set"),
            ("L2", "kept", 'envPolicy.inherit is "all"'),
            ("L7", "set", "in place of base"),
        ],
    }
    assert found["MINE"]["origin"] == {"kind": "request", "detail": "given in the request's env"}
    assert found["ADDED"]["origin"] == {"kind": "policy", "detail": "set by envPolicy.set"}
    assert [name for name, entry in found.items() if "removed" in entry and name in ("PLAIN", "MINE")] == [
        "PLAIN"
    ]


def test_explain_never_shows_a_value(wire: Wire) -> None:
    # K4
    policy = {**ALL, "set": {"ADDED": "hush-set"}}
    params = {"env": {"MINE": "hush-mine"}, "envPolicy": policy, "tty": True}
    text = json.dumps(wire.call("environment/explain", params))
    assert "ADDED" in text
    assert "MINE" in text
    assert "hush" not in text


def test_explain_agrees_with_what_a_command_gets(wire: Wire) -> None:
    # L6 as well: asked twice, the same set.
    policy = {**ALL, "ignoreDefaultExcludes": False}
    env = {"MINE": "1", "NODE_REPL_AUTH_TOKEN": "never"}
    kept = {
        name for name, entry in explain(wire, envPolicy=policy, env=env).items() if "removed" not in entry
    }
    for process in ("first", "second"):
        wire.start(process, ["/usr/bin/env", "-0"], envPolicy=policy, env=env)
        wire.closed(process)
        names = {line.partition(b"=")[0].decode() for line in wire.output(process).split(b"\0") if line}
        assert names == kept
    # K2
    assert "NODE_REPL_AUTH_TOKEN" not in kept


def test_without_a_policy_a_command_gets_exactly_the_request(wire: Wire) -> None:
    # P2
    env = {"ONLY": "this", "EMPTY": "", **({"odd name=": "x", "": "y"} if LINUX else {})}
    wire.start("p", ["/usr/bin/env", "-0"], env=env)
    wire.closed("p")
    assert wire.output("p") == b"".join(f"{name}={value}\0".encode() for name, value in env.items())


def test_terminal_gets_the_login_shell_unless_told_otherwise(wire: Wire) -> None:
    wire.start("p", ["/usr/bin/env", "-0"], env={}, tty=True)
    wire.closed("p")
    assert wire.output("p") == f"SHELL={pwd.getpwuid(os.getuid()).pw_shell}\0".encode()
    assert explain(wire, tty=True)["SHELL"]["origin"]["kind"] == "terminal"
    wire.start("q", ["/usr/bin/env", "-0"], env={"SHELL": "/bin/mine"}, tty=True)
    wire.closed("q")
    assert wire.output("q") == b"SHELL=/bin/mine\0"
