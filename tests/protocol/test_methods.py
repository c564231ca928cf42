"""The method table: every name is served, every handler has a row, and each row reads its own params."""

from __future__ import annotations

from importlib import import_module
from inspect import isfunction

import pytest

from outfitter.errors import InvalidParams
from outfitter.protocol.methods import CAPABILITIES, METHODS
from outfitter.protocol.results import Result
from outfitter.protocol.session import REFERENCE_FLAGS


def test_every_row_has_a_handler_and_every_handler_a_row() -> None:
    named: dict[str, set[str]] = {}
    for method in METHODS.values():
        module, _, name = method.handler.partition(".")
        named.setdefault(module, set()).add(name)
    for module, names in named.items():
        loaded = import_module(f"outfitter.server.handlers.{module}")
        public = {
            name
            for name, value in vars(loaded).items()
            if isfunction(value) and value.__module__ == loaded.__name__ and not name.startswith("_")
        }
        assert public - {"native", "doing", "confined", "summary"} == names, module


def test_flags_follow_from_the_rows() -> None:
    assert {flag for method in METHODS.values() for flag in method.flags} == CAPABILITIES
    assert CAPABILITIES & set(REFERENCE_FLAGS) == {
        "fsWatchMissing",
        "fileWriteStreaming",
        "networkProxyLaunch",
        "sandboxedFileStreaming",
        "capabilityDiscoverySandbox",
        "capabilityDiscoveryV2",
        "environmentConfigRead",
        "httpHeaderEnvVars",
        "shellSnapshotV2",
    }


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_result_is_a_type_that_a_client_can_read(name: str) -> None:
    result = METHODS[name].result
    assert issubclass(result, Result)
    if result.__name__ != "Done":
        with pytest.raises(InvalidParams):
            result.decode("not an object")


def test_a_row_is_found_by_its_own_name() -> None:
    assert [name for name, method in METHODS.items() if method.name != name] == []


FAMILIES = {
    "process": "exec",
    "initialize": "initialize",
    "fs": "filesystem",
    "server": "server",
    "capabilityRoots": "capability discovery",
    "capabilities": "capability discovery",
    "environmentConfig": "environment config",
    "http": "http",
}


def test_families_are_what_the_handshake_refusals_call_them() -> None:
    assert {name: method.family for name, method in METHODS.items() if name.startswith("environment/")} == {
        "environment/info": "environment info",
        "environment/status": "environment status",
        "environment/resolve": "environment info",
        "environment/explain": "environment info",
        "environment/diff": "environment info",
        "environment/base": "environment info",
        "environment/overlay/put": "environment info",
        "environment/overlay/list": "environment info",
        "environment/overlay/drop": "environment info",
        "environment/overlay/event": "environment info",
    }
    others = {name: method.family for name, method in METHODS.items() if not name.startswith("environment/")}
    assert others == {name: FAMILIES[name.partition("/")[0]] for name in others}


@pytest.mark.parametrize("name", sorted(METHODS))
def test_bad_params_are_refused_by_every_row(name: str) -> None:
    with pytest.raises(InvalidParams):
        METHODS[name].decode("not an object")


def test_what_the_reference_lacks_on_purpose_is_lacking_here() -> None:
    absent = {"process/kill", "process/closeStdin", "process/resizePty", "fs/symlink", "environment/shutdown"}
    assert absent & set(METHODS) == set()
