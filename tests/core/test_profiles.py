"""Profiles by name, what older clients have stored, and what a grant adds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.core.permissions import DENY, READ, WRITE, bind
from outfitter.core.profiles import PermissionGrant, decode_older, granted, named, read_only, workspace_write
from outfitter.errors import InvalidParams, SettingInvalid
from outfitter.protocol.sandbox import (
    Disabled,
    Entry,
    External,
    Glob,
    Managed,
    Restricted,
    SandboxContext,
    Special,
    Unrestricted,
    encode_profile,
)
from outfitter.protocol.uri import parse
from tests.core.test_permissions import at, managed, pairs, paths

quick = settings(deadline=None, max_examples=100)
STRENGTH = {DENY: 0, READ: 1, WRITE: 2}


def skip(name: str) -> dict[str, Any]:
    value = {"kind": "project_roots", "subpath": name}
    return {"path": {"type": "special", "value": value}, "access": "read", "missing_path_behavior": "skip"}


def special(kind: str, access: str) -> dict[str, Any]:
    return {"path": {"type": "special", "value": {"kind": kind}}, "access": access}


def test_profiles_by_name_are_what_the_stock_client_sends() -> None:
    assert encode_profile(read_only()) == {
        "type": "managed",
        "file_system": {"type": "restricted", "entries": [special("root", "read")]},
        "network": "restricted",
    }
    assert encode_profile(workspace_write(network=True)) == {
        "type": "managed",
        "file_system": {
            "type": "restricted",
            "entries": [
                special("root", "read"),
                *(special(kind, "write") for kind in ("project_roots", "slash_tmp", "tmpdir")),
                *(skip(name) for name in (".git", ".agents", ".codex", ".aws")),
            ],
        },
        "network": "enabled",
    }


def test_a_context_is_what_the_stock_client_sends() -> None:
    root = parse("file:///ws")
    told = SandboxContext(read_only(), root, (root,)).encode()
    assert told == {
        "permissions": encode_profile(read_only()),
        "cwd": "file:///ws",
        "workspaceRoots": ["file:///ws"],
        "windowsSandboxLevel": "disabled",
        "windowsSandboxProxySettingsMode": "reconcile",
        "useLegacyLandlock": False,
    }


@pytest.mark.parametrize("network", [False, True])
def test_older_names_of_policies(network: bool) -> None:
    assert named("read-only", network=network) == read_only(network=network)
    assert named("workspace-write", network=network) == workspace_write(network=network)
    assert named("danger-full-access", network=network) == Disabled()
    assert named("external-sandbox", network=network) == External(network)
    with pytest.raises(
        SettingInvalid, match="read-only, workspace-write, danger-full-access, external-sandbox"
    ):
        named("other")


X = parse("file:///x")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, Managed(Restricted(), False)),
        ({"network": None, "file_system": None}, Managed(Restricted(), False)),
        ({"network": {"enabled": True}}, Managed(Restricted(), True)),
        ({"network": {"enabled": None}}, Managed(Restricted(), False)),
        (
            {"file_system": {"entries": [special("root", "none")], "glob_scan_max_depth": 2}},
            Managed(Restricted((Entry(Special("root"), DENY),), 2), False),
        ),
        (
            {"file_system": {"read": ["/x"], "write": ["file:///x"]}},
            Managed(Restricted((Entry(X, READ), Entry(X, WRITE))), False),
        ),
        ({"file_system": {"read": None}}, Managed(Restricted(), False)),
    ],
)
def test_the_older_shape_is_read(value: Any, expected: Managed) -> None:
    assert decode_older(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        *([], "x", {"type": "disabled"}, {"file": {}}, {"network": {"enabled": 1}}),
        *({"file_system": one} for one in ({"entries": 1}, {"read": ["x"]}, {"write": "x"})),
    ],
)
def test_what_is_not_understood_of_the_older_shape_is_refused(value: Any) -> None:
    with pytest.raises(InvalidParams):
        decode_older(value)


# Grants


def access(context: SandboxContext, path: str) -> int:
    return STRENGTH[bind(context, cwd="/cwd", tmpdir="/tmp").access(path)]


grants = st.lists(st.tuples(paths, st.sampled_from([READ, WRITE])), max_size=4)


@quick
@given(pairs, grants, paths, st.booleans(), st.booleans())
def test_a_grant_never_lowers(
    pairs: list[tuple[str, str]], grants: list[tuple[str, str]], path: str, network: bool, more: bool
) -> None:
    context = managed(*[at(*pair) for pair in pairs], network=network)
    grant = PermissionGrant(tuple([at(*pair) for pair in grants]), more)
    raised = granted(context, grant)
    assert access(raised, path) >= access(context, path)
    assert isinstance(raised.permissions, Managed)
    assert raised.permissions.network is (network or more)


def test_a_grant_opens_what_was_closed() -> None:
    context = SandboxContext(read_only(), roots=(X,))
    raised = granted(context, PermissionGrant((Entry(Special("project_roots"), WRITE), at("/y", READ)), True))
    assert raised == SandboxContext(
        Managed(Restricted((Entry(Special("root"), READ), Entry(Special("project_roots"), WRITE))), True),
        roots=(X,),
    )
    # Of several places, those that were closed.
    some = managed(at("/x", WRITE), roots=(X, parse("file:///y")))
    assert granted(some, PermissionGrant((Entry(Special("project_roots"), WRITE),))).permissions == Managed(
        Restricted((at("/x", WRITE), at("/y", WRITE))), False
    )


def test_a_grant_leaves_each_kind_as_it_is() -> None:
    grant = PermissionGrant((at("/x", WRITE),), True)
    assert granted(SandboxContext(Disabled()), grant).permissions == Disabled()
    assert granted(SandboxContext(External(False)), grant).permissions == External(True)
    unrestricted = SandboxContext(Managed(Unrestricted(), False))
    assert granted(unrestricted, grant).permissions == Managed(Unrestricted(), True)


@pytest.mark.parametrize("entry", [at("/x", DENY), Entry(Glob("/x"), READ)])
def test_a_grant_takes_nothing_away(entry: Entry) -> None:
    with pytest.raises(SettingInvalid):
        PermissionGrant((entry,))


def test_a_grant_for_another_system_is_refused() -> None:
    with pytest.raises(InvalidParams, match="invalid sandbox permission path URI"):
        granted(managed(), PermissionGrant((Entry(parse("file:///C:/x"), READ),)))
