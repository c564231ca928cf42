"""What two confinements both allow: for every path the stricter one counts."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from outfitter.core.narrowing import narrowed, strictest, told
from outfitter.core.permissions import PROTECTED, Confinement, Rule, bind, canonical, narrower
from outfitter.protocol.sandbox import SandboxContext
from tests.support.confinements import is_within

ACCESS = st.sampled_from(["read", "write", "deny"])
NAMES = st.sampled_from(["a", "b", *PROTECTED[:2]])
PATHS = st.lists(NAMES, max_size=4).map(lambda parts: "/" + "/".join(parts))
RULES = st.lists(st.builds(Rule, PATHS, ACCESS), max_size=6).map(canonical)
GLOBS = st.lists(st.sampled_from(["/a/*", "/b/**/.env", "/*"]), max_size=2).map(
    lambda one: tuple(sorted(set(one)))
)
OPEN = st.builds(Confinement, st.just(False), st.booleans())


def settled(network: bool, rules: tuple[Rule, ...], globs: tuple[str, ...], depth: int | None) -> Confinement:
    """As `bind` makes them."""
    if rules == (Rule("/", "write"),) and not globs:
        return Confinement(False, network)
    return Confinement(True, network, narrower(rules), globs, depth if globs else None)


CLOSED = st.builds(settled, st.booleans(), RULES, GLOBS, st.one_of(st.none(), st.integers(1, 9)))
CONFINEMENTS = st.one_of(OPEN, CLOSED)


@given(CONFINEMENTS, CONFINEMENTS, PATHS)
@example(
    Confinement(True, False, (Rule("/a", "read"),)), Confinement(True, False, (Rule("/a/a", "read"),)), "/a/a"
)
def test_the_stricter_access_counts_for_every_path(one: Confinement, other: Confinement, path: str) -> None:
    both = narrowed(one, other)
    wanted = strictest(one.access(path), other.access(path))
    # A rule of the one below a writable root of the other is a root of its own, with protected names; and
    # what is denied is not read below either. The result may be stricter there, and never looser.
    assert strictest(both.access(path), wanted) == both.access(path)
    denies = any(rule.access == "deny" for each in (one, other) for rule in each.rules)
    if not denies and not any(f"/{name}" in path for name in PROTECTED):
        assert both.access(path) == wanted


@given(CONFINEMENTS, CONFINEMENTS)
def test_what_comes_of_two_is_within_both(one: Confinement, other: Confinement) -> None:
    both = narrowed(one, other)
    assert is_within(both, one)
    assert is_within(both, other)


@given(CONFINEMENTS, CONFINEMENTS, PATHS)
def test_within_means_that_no_path_is_looser(one: Confinement, other: Confinement, path: str) -> None:
    if is_within(one, other):
        assert strictest(one.access(path), other.access(path)) == one.access(path)
        assert other.network or not one.network


@given(CONFINEMENTS)
def test_a_confinement_is_within_itself_and_narrows_nothing(one: Confinement) -> None:
    assert is_within(one, one)
    assert is_within(one, narrowed(one, one))
    assert is_within(narrowed(one, one), one)


@given(CONFINEMENTS, CONFINEMENTS)
def test_the_order_does_not_matter(one: Confinement, other: Confinement) -> None:
    assert narrowed(one, other) == narrowed(other, one)


@example(
    settled(
        False, canonical([Rule("/", "write"), Rule("/.git", "write"), Rule("/.agents", "read")]), (), None
    )
)
@example(
    settled(
        False,
        canonical([Rule(f"/{name}", "write") for name in ("", *PROTECTED)] + [Rule("/.git/.git", "read")]),
        (),
        None,
    )
)
@given(CONFINEMENTS)
def test_a_confinement_can_be_told_and_bound_again(one: Confinement) -> None:
    assert bind(SandboxContext(told(one)), cwd=None, tmpdir=None) == one


def test_what_is_hidden_by_one_is_hidden_by_both() -> None:
    reading = Confinement(True, True, (Rule("/", "read"),), ("/a/*.env",), 3)
    writing = Confinement(True, False, (Rule("/", "read"), Rule("/a", "write")), ("/b/*",), 5)
    both = narrowed(reading, writing)
    assert both == Confinement(True, False, (Rule("/", "read"),), ("/a/*.env", "/b/*"), 5)
    assert not is_within(reading, writing)
    assert not is_within(writing, reading)


def test_protected_names_survive_where_everything_else_is_writable() -> None:
    writing = Confinement(True, True, narrower((Rule("/", "write"), Rule("/ws", "write"))))
    for both in (narrowed(writing, writing), bind(SandboxContext(told(writing)), cwd=None, tmpdir=None)):
        assert both == writing
        assert both.access("/ws/.git/hooks") == "read"


def test_nothing_confined_is_narrowed_to_the_other() -> None:
    writing = Confinement(True, False, (Rule("/a", "write"),))
    assert narrowed(Confinement(False, True), writing) == writing
    assert narrowed(writing, Confinement(False, True)) == writing
    assert is_within(writing, Confinement(False, True))
    assert not is_within(Confinement(False, False), writing)
