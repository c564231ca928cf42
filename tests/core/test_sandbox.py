"""`outfitter.Sandbox`: what it asks for, and how that is said on the wire."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.core.sandbox import (
    Sandbox,
    common_domains,
    context,
    domain,
    domain_covers,
    hidden_below,
    profile,
)
from outfitter.errors import SettingInvalid
from outfitter.host.sandbox.globs import matcher
from outfitter.protocol.sandbox import Disabled, Glob, Managed, SandboxContext, Unrestricted, encode_profile
from outfitter.protocol.uri import FileUri, from_path, parse


def uri(path: str) -> FileUri:
    return parse(from_path(path))


CWD = uri("/ws")


def entry(path: object, access: str, **more: str) -> dict[str, object]:
    return {"path": path, "access": access, **more}


def special(kind: str, **more: str) -> dict[str, object]:
    return {"type": "special", "value": {"kind": kind, **more}}


ROOT = special("root")


def test_read_only_says_that_everything_is_read() -> None:
    assert encode_profile(profile(Sandbox.read_only(), CWD)) == {
        "type": "managed",
        "file_system": {"type": "restricted", "entries": [entry(ROOT, "read")]},
        "network": "restricted",
    }


def test_workspace_write_says_what_the_stock_client_says() -> None:
    sandbox = Sandbox.workspace_write(writable=["/var/cache"], deny_read=["/etc/shadow", "**/.env"])
    told = encode_profile(profile(sandbox, CWD))
    assert told == {
        "type": "managed",
        "file_system": {
            "type": "restricted",
            "entries": [
                entry(ROOT, "read"),
                entry(special("project_roots"), "write"),
                entry(special("slash_tmp"), "write"),
                entry(special("tmpdir"), "write"),
                *(
                    entry(special("project_roots", subpath=name), "read", missing_path_behavior="skip")
                    for name in (".git", ".agents", ".codex", ".aws")
                ),
                entry({"type": "path", "path": "file:///var/cache"}, "write"),
                entry({"type": "path", "path": "file:///etc/shadow"}, "deny"),
                entry({"type": "glob_pattern", "pattern": "**/.env"}, "deny"),
            ],
        },
        "network": "restricted",
    }


def test_domains_need_the_network_and_the_whole_network_no_domains() -> None:
    assert encode_profile(profile(Sandbox.read_only(domains=["pypi.org"]), CWD))["network"] == "enabled"  # type: ignore[index, call-overload]
    with pytest.raises(SettingInvalid, match="leave `domains` out"):
        Sandbox.read_only(domains=["pypi.org"], network=True)


def test_full_access_confines_only_what_it_says() -> None:
    full = Sandbox.full_access()
    assert (full.confines, full.network, profile(full, CWD)) == (False, True, Disabled())
    limited = Sandbox.full_access(domains=["pypi.org"])
    assert (limited.confines, limited.network) == (True, False)
    assert profile(limited, CWD) == Managed(Unrestricted(), True)
    hiding = encode_profile(profile(Sandbox.full_access(deny_read=["/a"]), CWD))
    assert hiding == {
        "type": "managed",
        "file_system": {
            "type": "restricted",
            "entries": [entry(ROOT, "write"), entry({"type": "path", "path": "file:///a"}, "deny")],
        },
        "network": "enabled",
    }


def test_the_workspace_is_the_directory_unless_roots_are_named() -> None:
    cwd = uri("/ws")
    assert context(Sandbox.workspace_write(), cwd).roots == (cwd,)
    roots = context(Sandbox.workspace_write(roots=["/a", "/b"]), cwd).roots
    assert roots == (uri("/a"), uri("/b"))


def test_a_pattern_hides_in_a_directory_whose_name_has_wildcards() -> None:
    hiding = Sandbox.read_only(deny_read=["*.env", "/etc/*", "key"])
    told = context(hiding, uri("/srv/a[1]*"))
    places = [one.place for one in told.permissions.files.entries[1:]]  # type: ignore[union-attr]
    assert places == [Glob("/srv/a[[]1[]][*]/**/*.env"), Glob("/etc/*"), uri("/srv/a[1]*/key")]
    plain = context(hiding, uri("/srv/a"))
    assert plain.permissions.files.entries[1].place == Glob("*.env")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "folder", ["/srv/a", "/srv/a[1]", "/srv/a]", "/srv/a*?", "/srv/{a,b}[c]", "/srv/a\\[b", "/srv/{a,b}\\"]
)
def test_what_is_hidden_in_a_directory_does_not_depend_on_its_name(folder: str) -> None:
    for path, shown in (("*.env", "x.env"), ("./*.env", "a/x.env"), ("*.env", "a/b/.env"), ("a/*", "a/x")):
        assert matcher([hidden_below(folder, path)])(f"{folder}/{shown}")
    for path, shown in (("*.env", "x.en"), ("a/*.env", "b/a/x.env")):
        assert not matcher([hidden_below(folder, path)])(f"{folder}/{shown}")
    hiding = Sandbox.read_only(deny_read=[hidden_below(folder, "keys/")])
    *_, entry = context(hiding, uri("/elsewhere")).permissions.files.entries  # type: ignore[union-attr]
    assert entry.place.local_path() == f"{folder}/keys"


def test_a_context_reads_back_as_it_was_written() -> None:
    for sandbox in (Sandbox.read_only(), Sandbox.workspace_write(writable=["/x y"]), Sandbox.full_access()):
        told = context(sandbox, uri("/ws"))
        assert SandboxContext.decode(told.encode()) == told


def test_relative_paths_start_at_the_directory_of_the_command() -> None:
    sandbox = Sandbox.workspace_write(writable=["../cache", "file:///C:/x"], deny_read=["key"], roots=["."])
    told = context(sandbox, uri("/srv/app"))
    entries = told.permissions.files.entries  # type: ignore[union-attr]
    assert [one.place for one in entries[-3:]] == [
        parse("file:///srv/cache"),
        parse("file:///C:/x"),
        parse("file:///srv/app/key"),
    ]
    with pytest.raises(SettingInvalid, match="use a file: URI"):
        context(sandbox, parse("file:///C:/work"))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Sandbox("strict"),
        lambda: Sandbox.workspace_write(writable=[""]),
        lambda: Sandbox.workspace_write(deny_read=["a\0b"]),
        lambda: Sandbox.workspace_write(writable="/tmp"),
        lambda: Sandbox.workspace_write(domains=["https://pypi.org"]),
        lambda: Sandbox.workspace_write(domains=["pypi.org/simple"]),
        lambda: Sandbox.workspace_write(domains=["a.*.org"]),
        lambda: Sandbox.workspace_write(domains=["*."]),
        lambda: Sandbox.workspace_write(domains=[""]),
    ],
)
def test_mistakes_are_refused(make: object) -> None:
    with pytest.raises(SettingInvalid):
        make()  # type: ignore[operator]


def test_a_domain_has_one_form() -> None:
    assert [domain(text) for text in ("PyPI.org", "pypi.org.", "*.A.b", "*")] == [
        "pypi.org",
        "pypi.org",
        "*.a.b",
        "*",
    ]


# Strictness of domains

LABELS = st.sampled_from(["a", "b"])
NAMES = st.lists(LABELS, min_size=1, max_size=4).map(".".join)
PATTERNS = st.one_of(
    st.just("*"), NAMES, NAMES.map(lambda name: f"*.{name}"), NAMES.map(lambda name: f"**.{name}")
)


def matches(pattern: str, name: str) -> bool:
    if pattern == "*":
        return True
    if pattern.startswith("**."):
        return name == pattern[3:] or name.endswith(pattern[2:])
    if pattern.startswith("*."):
        return name.endswith(pattern[1:]) and name != pattern[2:]
    return name == pattern


@given(PATTERNS, PATTERNS, NAMES)
def test_a_pattern_that_covers_another_matches_all_of_its_names(wide: str, narrow: str, name: str) -> None:
    if domain_covers(wide, narrow) and matches(narrow, name):
        assert matches(wide, name)


@given(PATTERNS, NAMES)
def test_a_pattern_covers_the_names_it_matches(pattern: str, name: str) -> None:
    assert domain_covers(pattern, name) == matches(pattern, name)


@given(st.lists(PATTERNS, max_size=4), st.lists(PATTERNS, max_size=4), NAMES)
def test_common_domains_are_exactly_those_of_both(one: list[str], other: list[str], name: str) -> None:
    def among(patterns: object) -> bool:
        return any(matches(pattern, name) for pattern in patterns)  # type: ignore[attr-defined]

    assert among(common_domains(one, other)) == (among(one) and among(other))
