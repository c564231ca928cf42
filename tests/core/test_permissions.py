"""Profiles bound to an executor: rules in one form, and what they allow."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from outfitter.core.permissions import (
    DENY,
    MINIMAL,
    PROTECTED,
    READ,
    WRITE,
    Confinement,
    Rule,
    bind,
    bind_files,
    canonical,
    check_files,
    check_start,
    covers,
    is_dynamic,
)
from outfitter.errors import InvalidParams, Refused
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
)
from outfitter.protocol.uri import parse

quick = settings(deadline=None, max_examples=100)
FOREIGN, OTHER = parse("file:///C:/x"), parse("file://srv/share")
LINUX = "'file:///C:/x' is invalid on 'linux'"


def at(path: str, access: str) -> Entry:
    return Entry(parse(f"file://{path}"), access)


def managed(*entries: Entry, network: bool = False, depth: int | None = None, **more: Any) -> SandboxContext:
    return SandboxContext(Managed(Restricted(entries, depth), network), **more)


def bound(*entries: Entry, cwd: str | None = "/cwd", tmpdir: str | None = None, **more: Any) -> Confinement:
    return bind(managed(*entries, **more), cwd=cwd, tmpdir=tmpdir)


def rules(*entries: Entry, **more: Any) -> list[tuple[str, str]]:
    return [(rule.path, rule.access) for rule in bound(*entries, **more).rules]


# Values

NAMES = ["a", "b", "ab", ".git", "tmp"]
paths = st.lists(st.sampled_from(NAMES), max_size=4).map(lambda parts: "/" + "/".join(parts))
accesses = st.sampled_from([READ, WRITE, DENY])
pairs = st.lists(st.tuples(paths, accesses), max_size=7)


def model(pairs: list[tuple[str, str]], path: str) -> str:
    """What may be done with a path, found the long way: from the root down, one rule after the other."""
    strong = [pair for pair in pairs if pair[1] != READ or (pair[0], WRITE) not in pairs]
    if ("/", WRITE) in pairs and all(access == WRITE for _, access in strong):
        return WRITE
    parts = [part for part in path.split("/") if part]
    now, root, hidden = DENY, "", False
    for count in range(len(parts) + 1):
        here = "/" + "/".join(parts[:count])
        said = {access for where, access in pairs if where == here}
        if (
            now == WRITE
            and count
            and root == "/" + "/".join(parts[: count - 1])
            and parts[count - 1] in PROTECTED
        ):
            now = READ
        if DENY in said:
            now, hidden = DENY, here != "/"
        elif WRITE in said:
            now, root, hidden = WRITE, here, False
        elif READ in said and not hidden:
            now = READ
    return now


@quick
@example([("/", READ), ("/", WRITE)], "/.git")
@example([("/", READ), ("/a", DENY)], "/a/.git")
@example([("/", WRITE), ("/a", DENY)], "/a/.git/b")
@given(pairs, paths)
def test_access_is_what_the_rules_say(pairs: list[tuple[str, str]], path: str) -> None:
    assert bound(*[at(*pair) for pair in pairs]).access(path) == model(pairs, path)


@quick
@given(pairs, st.randoms(use_true_random=False))
def test_order_and_repetition_change_nothing(pairs: list[tuple[str, str]], chance: random.Random) -> None:
    entries = [at(*pair) for pair in pairs]
    shuffled = entries * 2
    chance.shuffle(shuffled)
    assert bound(*shuffled) == bound(*entries)


@quick
@given(pairs)
def test_rules_bound_again_are_the_same_rules(pairs: list[tuple[str, str]]) -> None:
    first = bound(*[at(*pair) for pair in pairs])
    assume(first.files)
    assert bound(*[at(rule.path, rule.access) for rule in first.rules]) == first
    assert canonical(first.rules) == first.rules


@quick
@given(pairs, pairs)
def test_rules_that_allow_the_same_are_equal(
    pairs: list[tuple[str, str]], more: list[tuple[str, str]]
) -> None:
    """Rules that the others make good for, added, change nothing."""
    first = bound(*[at(*pair) for pair in pairs])
    assume(first.files)  # else there are no protected names
    idle = [
        pair
        for pair in more
        if pair[1] != WRITE and model(pairs, pair[0]) == pair[1] and _leaf(pair[0], pairs)
    ]
    assert bound(*[at(*pair) for pair in pairs + idle]) == first


def _leaf(path: str, pairs: list[tuple[str, str]]) -> bool:
    return not any(covers(path, other) for other, _ in pairs)


@quick
@given(pairs)
@example([("/.git", READ)])
def test_root_write_is_never_wider_than_what_narrows_it(pairs: list[tuple[str, str]]) -> None:
    narrow = [(path, access) for path, access in pairs if access != WRITE and path != "/"]
    assume(narrow)
    confinement = bound(at("/", WRITE), *[at(*pair) for pair in narrow])
    assert confinement.files
    assert not confinement.writes_all
    for path, _ in narrow:
        assert confinement.access(path) != WRITE


@quick
@given(pairs)
def test_what_is_read_and_written_as_a_whole(pairs: list[tuple[str, str]]) -> None:
    confinement = bound(*[at(*pair) for pair in pairs])
    everywhere = [path for path, _ in pairs] + ["/", "/other"]
    if confinement.reads_all:
        assert all(confinement.access(path) != DENY for path in everywhere)
    if confinement.writes_all:
        assert all(confinement.access(path) == WRITE for path in [*everywhere, "/.git"])


# Kinds


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        (Disabled(), Confinement(False, True)),
        (External(True), Confinement(False, True)),
        (External(False), Confinement(False, False)),
        (Managed(Unrestricted(), False), Confinement(False, False)),
        (Managed(Unrestricted(), True), Confinement(False, True)),
        (Managed(Restricted((Entry(Special("root"), WRITE),)), True), Confinement(False, True)),
        (Managed(Restricted(), True), Confinement(True, True)),
    ],
)
def test_each_kind_of_profile(profile: Any, expected: Confinement) -> None:
    confinement = bind(SandboxContext(profile), cwd=None, tmpdir=None)
    assert confinement == expected
    assert confinement.access("/x") == (DENY if confinement.files else WRITE)
    assert confinement.reads_all is confinement.writes_all is not confinement.files


def test_reading_everything_is_not_writing() -> None:
    confinement = bound(Entry(Special("root"), READ))
    assert (confinement.reads_all, confinement.writes_all) == (True, False)
    assert not bound(Entry(Special("root"), READ), at("/x", DENY)).reads_all
    assert not bound(Entry(Special("root"), READ), Entry(Glob("/x/*"), DENY)).reads_all


# Places


def test_workspace_roots_and_what_is_below_them() -> None:
    roots = (parse("file:///w%20s"), parse("file:///b/"))
    below = [Entry(Special("project_roots", path), READ) for path in ("x/y", ".git")]
    assert rules(Entry(Special("project_roots"), WRITE), *below, roots=roots) == [
        ("/b", WRITE),
        ("/b/x/y", READ),
        ("/w s", WRITE),
        ("/w s/x/y", READ),
    ]
    assert rules(Entry(Special("project_roots"), WRITE)) == []


@pytest.mark.parametrize("below", ["/abs", "..", "../b", "a/../b", "./b", "a/.."])
def test_what_leads_out_of_a_root_allows_nothing(below: str) -> None:
    roots = (parse("file:///w/a"),)
    for access in (READ, WRITE):
        assert rules(Entry(Special("project_roots", below), access), roots=roots) == []
    hidden = rules(Entry(Special("root"), READ), Entry(Special("project_roots", below), DENY), roots=roots)
    assert [access for _, access in hidden] == [READ, DENY]


@pytest.mark.parametrize(
    ("tmpdir", "expected"),
    [(None, []), ("", []), ("rel", []), ("/t", [("/t", WRITE)]), ("/a/../t//", [("/t", WRITE)])],
)
def test_the_temporary_folder_is_the_commands(tmpdir: str | None, expected: list[tuple[str, str]]) -> None:
    assert rules(Entry(Special("tmpdir"), WRITE), tmpdir=tmpdir) == expected
    assert rules(Entry(Special("slash_tmp"), WRITE), tmpdir=tmpdir) == [("/tmp", WRITE)]


def test_minimal_adds_and_never_narrows() -> None:
    system = sorted([(path, READ) for path in MINIMAL])
    assert sorted(rules(Entry(Special("minimal"), READ))) == system
    assert sorted(rules(Entry(Special("minimal"), WRITE))) == system
    assert rules(Entry(Special("minimal"), DENY)) == []
    assert rules(Entry(Special("minimal"), READ), Entry(Special("root"), READ)) == [("/", READ)]
    assert not bound(Entry(Special("minimal"), READ), Entry(Special("root"), WRITE)).files
    assert ("/usr", WRITE) in rules(Entry(Special("minimal"), READ), at("/usr", WRITE))
    assert ("/usr", READ) in rules(Entry(Special("minimal"), READ), at("/usr/local", DENY))
    assert ("/usr", READ) not in rules(Entry(Special("minimal"), READ), at("/usr", DENY))


def test_a_place_of_the_future_means_nothing() -> None:
    assert rules(Entry(Special("unknown", None, ":future"), WRITE)) == []


def test_root_may_be_denied_without_hiding_what_is_allowed() -> None:
    assert rules(Entry(Special("root"), DENY), at("/a", READ)) == [("/a", READ)]
    # Below any other place, only writing can be allowed again.
    assert rules(at("/a", DENY), at("/a/b", READ), at("/a/c", WRITE)) == [("/a/c", WRITE)]


# Protected names


@pytest.mark.parametrize("name", PROTECTED)
def test_protected_names_are_lifted_by_a_rule_of_their_own(name: str) -> None:
    plain = bound(at("/w", WRITE))
    assert (plain.access(f"/w/{name}"), plain.access(f"/w/{name}/x")) == (READ, READ)
    assert plain.access(f"/w/sub/{name}") == WRITE
    assert plain.access(f"/w/{name}x") == WRITE
    assert f"/w/{name}" in plain.protected("/w")
    lifted = bound(at("/w", WRITE), at(f"/w/{name}", WRITE))
    assert lifted.access(f"/w/{name}/x") == WRITE
    assert f"/w/{name}" not in lifted.protected("/w")
    below = bound(at("/w", WRITE), at(f"/w/{name}/x", WRITE))
    assert (below.access(f"/w/{name}"), below.access(f"/w/{name}/x")) == (READ, WRITE)
    assert f"/w/{name}" in below.protected("/w")
    hidden = bound(at("/w", WRITE), at(f"/w/{name}", DENY))
    assert hidden.access(f"/w/{name}") == DENY


def test_a_root_below_a_root_protects_its_own() -> None:
    confinement = bound(at("/w", WRITE), at("/w/sub", WRITE))
    assert confinement.writable == ("/w", "/w/sub")
    assert confinement.access("/w/sub/.git") == READ


# Patterns


def test_patterns_are_absolute_and_only_hide() -> None:
    found = bound(
        *[Entry(Glob(text), DENY) for text in ("*.x", "/b/../c/*", "codex-project-roots://*.y", "../u/*")],
        *[Entry(Glob(text), access) for text in ("/z/*", "*.q") for access in (READ, WRITE)],
        roots=(parse("file:///r"), parse("file:///s")),
        depth=3,
    )
    assert found.globs == ("/c/*", "/cwd/*.x", "/r/*.y", "/s/*.y", "/u/*")
    assert (found.rules, found.glob_depth) == ((), 3)
    assert bound(at("/a", READ), depth=3).glob_depth is None


@pytest.mark.parametrize("below", ["/b/*", "../b/*", "./x"])
def test_a_pattern_that_leads_out_of_its_root_hides_the_root(below: str) -> None:
    glob = Entry(Glob(f"codex-project-roots://{below}"), DENY)
    found = bound(Entry(Special("root"), READ), glob, roots=(parse("file:///r"),))
    assert [(rule.path, rule.access) for rule in found.rules] == [("/", READ), ("/r", DENY)]
    assert found.globs == ()


def test_the_contexts_working_directory_goes_before_the_commands() -> None:
    context = managed(Entry(Glob("*.x"), DENY), cwd=parse("file:///theirs"))
    assert bind(context, cwd="/cwd", tmpdir=None).globs == ("/theirs/*.x",)


# Refusals


def refusal(function: Any, *args: Any, **more: Any) -> tuple[type, str]:
    with pytest.raises(Refused) as caught:
        function(*args, **more)
    return type(caught.value), str(caught.value)


ENTRY = f"invalid sandbox permission path URI: {LINUX}"
NEEDS = "file system sandbox context with dynamic permissions requires cwd"


def test_paths_of_another_system_are_refused_in_order() -> None:
    cwd = parse("file:///cwd")
    bad = Entry(FOREIGN, READ)
    told = "is not valid on this exec-server host: 'file://srv/share' is invalid on 'linux'"
    for context, text in (
        (managed(bad, Entry(OTHER, READ), cwd=OTHER, roots=(OTHER,)), ENTRY),
        (managed(cwd=OTHER, roots=(FOREIGN,)), f"sandbox cwd URI `file://srv/share` {told}"),
        (managed(cwd=cwd, roots=(cwd, OTHER)), f"sandbox workspace root URI `file://srv/share` {told}"),
        (SandboxContext(Disabled(), OTHER), f"sandbox cwd URI `file://srv/share` {told}"),
        (SandboxContext(Disabled(), level="mxc"), "native MXC is unavailable on this executor"),
    ):
        assert refusal(check_start, context, cwd) == (InvalidParams, text)
    assert refusal(check_start, managed(), OTHER) == (
        InvalidParams,
        f"sandbox cwd URI `file://srv/share` {told}",
    )
    check_start(managed(at("/x", READ), cwd=cwd, roots=(cwd,)), cwd)


def test_file_requests_are_refused_with_their_own_words() -> None:
    cwd = parse("file:///cwd")
    bad, moving = Entry(FOREIGN, READ), Entry(Special("project_roots"), WRITE)
    root = "file system sandbox workspace root is not native to this exec-server host"
    for context, kind, text in (
        (managed(bad, moving), InvalidParams, NEEDS),
        (managed(moving, roots=(cwd,)), InvalidParams, NEEDS),
        (managed(Entry(Glob("*.x"), READ)), InvalidParams, NEEDS),
        (managed(bad, cwd=FOREIGN), Refused, ENTRY),
        (managed(moving, cwd=FOREIGN, roots=(OTHER,)), Refused, LINUX),
        (managed(cwd=cwd, roots=(cwd, FOREIGN)), Refused, f"{root}: {LINUX}"),
    ):
        assert refusal(bind_files, context) == (kind, text)
    assert refusal(check_files, managed(bad)) == (Refused, ENTRY)
    check_files(managed(cwd=FOREIGN))
    for profile in (Disabled(), External(False), Managed(Unrestricted(), False)):
        assert not bind_files(SandboxContext(profile, FOREIGN, (OTHER,))).files


def test_a_relative_pattern_needs_a_working_directory() -> None:
    context = managed(Entry(Glob("*.x"), DENY))
    assert refusal(bind, context, cwd=None, tmpdir=None) == (InvalidParams, NEEDS)
    assert bind(context, cwd="/", tmpdir=None).globs == ("/*.x",)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (Entry(Special("project_roots"), READ), True),
        (Entry(Glob("x"), READ), True),
        (Entry(Glob("/x"), DENY), False),
        (Entry(Special("tmpdir"), READ), False),
        (at("/x", READ), False),
    ],
)
def test_what_depends_on_a_working_directory(entry: Entry, expected: bool) -> None:
    assert is_dynamic(Managed(Restricted((entry,)), False)) is expected
    assert not is_dynamic(Disabled())


# Remembered


def test_the_same_question_is_answered_once() -> None:
    context = managed(Entry(Special("tmpdir"), WRITE))
    first = bind(context, cwd="/a", tmpdir="/t")
    assert bind(context, cwd="/a", tmpdir="/t") is first
    assert bind(context, cwd="/a", tmpdir="/u") != first
    for number in range(256):
        bind(context, cwd="/a", tmpdir=f"/{number}")
    assert bind(context, cwd="/a", tmpdir="/t") is not first
    assert bind(context, cwd="/a", tmpdir="/t") == first


def test_rules_are_values() -> None:
    assert canonical([Rule("/a", READ), Rule("/a", DENY), Rule("/", READ)]) == (
        Rule("/", READ),
        Rule("/a", DENY),
    )
