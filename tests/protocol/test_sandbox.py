"""Contexts of a sandbox: what a client sends, read and written again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.errors import InvalidParams, LimitExceeded
from outfitter.protocol.filesystem import (
    ChmodParams,
    CopyParams,
    CreateDirectoryParams,
    FileParams,
    OpenParams,
    PathParams,
    RemoveParams,
    RenameParams,
    WalkParams,
    WriteFileParams,
)
from outfitter.protocol.sandbox import (
    DENY,
    READ,
    WRITE,
    Disabled,
    Entry,
    External,
    Glob,
    Managed,
    Restricted,
    SandboxContext,
    Special,
    Unrestricted,
    decode_profile,
    encode_profile,
)
from outfitter.protocol.search import SearchParams
from outfitter.protocol.uri import FileUri, parse
from outfitter.protocol.watching import WatchParams
from tests.support import contexts
from tests.support.contexts import DISABLED, LEVEL, ROOT, at, entry, managed, restricted, special

quick = settings(deadline=None, max_examples=100)

names = st.text("abz.-_ é%", min_size=1, max_size=5).filter(lambda name: name not in (".", ".."))
uris = st.lists(names, max_size=4).map(lambda parts: parse("file:///" + "/".join(parts).replace("%", "%25")))
subpaths = st.none() | names
specials = st.one_of(
    st.sampled_from(["root", "minimal", "tmpdir", "slash_tmp"]).map(Special),
    st.builds(Special, st.just("project_roots"), subpaths),
    st.builds(Special, st.just("unknown"), subpaths, names),
)
places = st.one_of(uris, st.builds(Glob, names), specials)
accesses = st.sampled_from([READ, WRITE, DENY])
entries = st.builds(Entry, places, accesses, st.booleans())
files = st.one_of(
    st.just(Unrestricted()),
    st.builds(Restricted, st.lists(entries, max_size=6).map(tuple), st.none() | st.integers(1, 2**64 - 1)),
)
profiles = st.one_of(
    st.just(Disabled()), st.builds(External, st.booleans()), st.builds(Managed, files, st.booleans())
)
sandboxes = st.builds(
    SandboxContext,
    profiles,
    st.none() | uris,
    st.lists(uris, max_size=3).map(tuple),
    st.booleans(),
    st.sampled_from(["disabled", "restricted-token", "elevated", "mxc"]),
)


def wire(value: Any) -> Any:
    """What comes out at the other end."""
    return json.loads(json.dumps(value))


@quick
@given(sandboxes)
def test_a_context_comes_back_as_it_was(context: SandboxContext) -> None:
    assert SandboxContext.decode(wire(context.encode())) == context


@quick
@given(profiles)
def test_a_profile_keeps_its_kind(profile: Any) -> None:
    again = decode_profile(wire(encode_profile(profile)))
    assert again == profile
    assert type(again) is type(profile)


@quick
@given(sandboxes)
def test_the_same_words_are_the_same_object(context: SandboxContext) -> None:
    told = context.encode()
    first = SandboxContext.decode(wire(told))
    assert SandboxContext.decode(wire(told)) is first
    assert SandboxContext.decode({**wire(told), "more": 1}) == first


def test_true_is_not_one() -> None:
    # Equal for Python, and not for a client.
    SandboxContext.decode({**DISABLED, "useLegacyLandlock": True})
    with pytest.raises(InvalidParams, match="invalid type: number, expected a boolean"):
        SandboxContext.decode({**DISABLED, "useLegacyLandlock": 1})


def test_contexts_are_forgotten_again() -> None:
    first = SandboxContext.decode({**DISABLED, "x": -1})
    for number in range(256):
        SandboxContext.decode({**DISABLED, "x": number})
    again = SandboxContext.decode({**DISABLED, "x": -1})
    assert again == first
    assert again is not first


def test_a_context_in_use_is_not_forgotten() -> None:
    first = SandboxContext.decode({**DISABLED, "x": -1})
    for number in range(512):
        SandboxContext.decode({**DISABLED, "x": number})
        assert SandboxContext.decode({**DISABLED, "x": -1}) is first


def test_a_long_context_is_read_and_not_remembered() -> None:
    told = {**DISABLED, "x": "x" * (64 << 10)}
    first, again = SandboxContext.decode(told), SandboxContext.decode(wire(told))
    assert first == again == SandboxContext(Disabled())
    assert first is not again


def test_every_context_is_read_or_refused() -> None:
    taken = 0
    for context in contexts.contexts().values():
        try:
            read = SandboxContext.decode(context)
        except InvalidParams as error:
            assert str(error)
        else:
            assert SandboxContext.decode(read.encode()) == read
            taken += 1
    assert taken > 100


REFUSED: list[tuple[Any, str]] = [
    (LEVEL, "missing field `permissions`"),
    ({"permissions": {"type": "disabled"}}, "missing field `windowsSandboxLevel`"),
    ({"permissions": {"type": "external"}, **LEVEL}, "missing field `network`"),
    ({"permissions": {"type": "managed"}, **LEVEL}, "missing field `file_system`"),
    (
        {"permissions": {"type": "bogus"}, **LEVEL},
        "unknown variant `bogus`, expected one of `managed`, `disabled`, `external`",
    ),
    (
        restricted(entry(ROOT, "readwrite")),
        "unknown variant `readwrite`, expected one of `read`, `write`, `deny`, `none`",
    ),
    (
        restricted(special("bogus_kind")),
        "unknown variant `bogus_kind`, expected one of `root`, `minimal`, `current_working_directory`, "
        "`project_roots`, `tmpdir`, `slash_tmp`, `unknown`",
    ),
    (
        {"permissions": {"type": "external", "network": "Restricted"}, **LEVEL},
        "unknown variant `Restricted`, expected `restricted` or `enabled`",
    ),
    (
        {**DISABLED, "windowsSandboxLevel": "RestrictedToken"},
        "unknown variant `RestrictedToken`, expected one of `disabled`, `restricted-token`, `elevated`, "
        "`mxc`",
    ),
    (
        managed({"type": "restricted", "entries": [], "glob_scan_max_depth": 0}),
        "invalid value: integer `0`, expected a nonzero usize",
    ),
    (restricted(at("/native")), "invalid URI: relative URL without a base"),
    ({**DISABLED, "cwd": "/native"}, "invalid URI: relative URL without a base"),
    ({**DISABLED, "workspaceRoots": ["/native"]}, "invalid URI: relative URL without a base"),
    (
        restricted(entry(":root")),
        'invalid type: string ":root", expected internally tagged enum ExecFileSystemPath',
    ),
    ({"permissions": {"network": {"enabled": True}, "file_system": {}}, **LEVEL}, "missing field `type`"),
]


@pytest.mark.parametrize(("context", "text"), REFUSED)
def test_mistakes_are_named_with_the_references_words(context: Any, text: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        SandboxContext.decode(context)
    assert str(caught.value) == text


def test_an_alias_and_another_word_for_deny() -> None:
    context = SandboxContext.decode(restricted(special("current_working_directory", "none", subpath="x")))
    assert context == SandboxContext(
        Managed(Restricted((Entry(Special("project_roots", "x"), DENY),)), False)
    )


def test_a_policy_context_replaces_the_roots_and_the_working_directory() -> None:
    own: dict[str, Any] = {"cwd": "file:///a", "workspaceRoots": ["file:///a"]}

    def read(policy: Any) -> tuple[FileUri | None, tuple[FileUri, ...]]:
        context = SandboxContext.decode({**DISABLED, **own, "policyContext": policy})
        return context.cwd, context.roots

    a, b = parse("file:///a"), parse("file:///b")
    assert read(None) == (a, (a,))
    assert read({}) == (a, ())
    assert read({"cwd": "file:///b"}) == (b, ())
    assert read({"workspaceRoots": ["file:///b"]}) == (a, (b,))


def test_too_many_entries_and_roots_are_refused() -> None:
    SandboxContext.decode(restricted(*[entry(ROOT)] * 256))
    for context in (restricted(*[entry(ROOT)] * 257), {**DISABLED, "workspaceRoots": ["file:///x"] * 1025}):
        with pytest.raises(LimitExceeded):
            SandboxContext.decode(context)


PATH = {"path": "file:///x"}
PAIR = {"sourcePath": "file:///x", "destinationPath": "file:///y"}
OPTIONS = {"maxDepth": 1, "maxDirectories": 2, "maxEntries": 3, "followDirectorySymlinks": False}
REQUESTS: list[tuple[Any, dict[str, Any]]] = [
    (PathParams, PATH),
    (FileParams, PATH),
    (WriteFileParams, {**PATH, "dataBase64": "YQ=="}),
    (CreateDirectoryParams, PATH),
    (RemoveParams, PATH),
    (CopyParams, {**PAIR, "recursive": True}),
    (RenameParams, PAIR),
    (ChmodParams, {**PATH, "mode": 0o600}),
    (WalkParams, {**PATH, "options": OPTIONS}),
    (OpenParams, {**PATH, "handleId": "h"}),
    (SearchParams, {**PATH, "pattern": "x"}),
    (WatchParams, {**PATH, "watchId": "w"}),
]


@pytest.mark.parametrize(("params", "members"), REQUESTS, ids=[one.__name__ for one, _ in REQUESTS])
def test_every_request_about_a_path_carries_its_context(params: Any, members: dict[str, Any]) -> None:
    context = restricted(entry(ROOT), cwd="file:///x")
    read = params.decode({**members, "sandbox": context})
    assert read.sandbox == SandboxContext.decode(context)
    assert params.decode(wire(read.encode())) == read
    assert params.decode(members).sandbox is params.decode({**members, "sandbox": None}).sandbox is None
    assert "sandbox" not in params.decode(members).encode()
    wrongs: list[Any] = [5, {}, [], {"permissions": {"type": "other"}, **LEVEL}]
    for wrong in wrongs:
        with pytest.raises(InvalidParams):
            params.decode({**members, "sandbox": wrong})
