"""Who sets PATH to what is probably a mistake is named (P9)."""

from __future__ import annotations

import pytest

from outfitter.env.layer import Layer, Operation
from outfitter.env.origin import EXECUTOR, Origin
from outfitter.env.policy import Policy
from outfitter.env.resolve import Rules, Stack

BASE = Layer(0, "base", EXECUTOR, {"PATH": "/usr/bin:/opt::bin:$HOME/bin"})  # doctor looks at that
FILE = Origin("user", "[env] set", "/c.toml", 2)
ENVRC = Origin("provider", "direnv:/p/.envrc", "/p/.envrc")
GONE = (
    "PATH has neither /usr/bin nor /bin since {}, so commands find hardly any program: add to PATH there "
    "instead of replacing it"
)


def told(*layers: Layer, policies: tuple[Policy, ...] = ()) -> tuple[str, ...]:
    return Stack([BASE, *layers], policies, Rules()).path_mistakes


def envrc(op: str, *entries: str, **more: str) -> Layer:
    operations = [Operation("PATH", op, entries)]
    return Layer(3, "direnv:/p/.envrc", ENVRC, operations=operations, root="/p", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("/usr/bin:$PATH", "`$PATH` is not expanded here"),
        ("/usr/bin::/x", "an empty entry means the current directory"),
        ("/usr/bin:x", "`x` is relative"),
    ],
)
def test_an_entry_is_told_with_its_place(value: str, why: str) -> None:
    [line] = told(Layer(6, "user", FILE, {"PATH": value}))
    assert line.startswith(f"PATH of user (/c.toml:2) is probably a mistake: {why}")
    places = {"set PATH": FILE}
    policy = Policy("all", True, (), (("PATH", value),), name="user:policy", places=places)
    [line] = told(policies=(policy,))
    assert line.startswith(f"PATH of user:policy (/c.toml:2) is probably a mistake: {why}")


def test_who_has_taken_the_system_away_is_told() -> None:
    assert told(Layer(6, "user", FILE, {"PATH": "/x"})) == (GONE.format("user (/c.toml:2)"),)
    assert told(envrc("replace", "/x")) == (GONE.format("direnv:/p/.envrc"),)
    assert told(envrc("remove", "/usr/bin")) == (GONE.format("direnv:/p/.envrc"),)
    # Another one who has done it again, or has put it right.
    both = (envrc("replace", "/x"), Layer(6, "user", FILE, {"PATH": "/y"}))
    assert told(*both) == (GONE.format("user (/c.toml:2)"),)
    assert told(envrc("replace", "/x"), Layer(6, "user", FILE, {"PATH": "/usr/bin"})) == ()


def test_what_is_no_mistake_is_not_told() -> None:
    assert told() == ()
    assert told(envrc("prepend", "/x", "bin")) == ()  # it has a folder to start at
    assert told(envrc("remove", "", "bin")) == ()
    assert told(envrc("replace", "/x", awaits="outfitter trust")) == ()  # and is refused
    assert told(envrc("replace", "/x", state="blocked")) == ()
    # Nobody has touched what the executor was started with.
    bare = Layer(0, "base", EXECUTOR, {"PATH": "/opt"})
    assert Stack([bare, envrc("prepend", "/x")], (), Rules()).path_mistakes == ()


def test_a_client_of_the_reference_hears_of_others_mistakes_alone() -> None:
    asked = Policy("all", True, (), (("PATH", "/x:$PATH"),))
    assert len(told(policies=(asked,))) == 2
    rules = Rules(tidy=False, total=None)
    assert Stack([BASE], (asked,), rules).path_mistakes == ()
    [line] = Stack([BASE, envrc("replace", "/x", "")], (asked,), rules).path_mistakes[:1]
    assert line.startswith("PATH of direnv:/p/.envrc is probably a mistake: an empty entry")


def test_an_entry_moves_no_cursor() -> None:
    [line] = told(envrc("append", "$x\n\x1b[1m"))
    assert line.isprintable()
