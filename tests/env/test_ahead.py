"""The words of the program in front of a provider's tool."""

from __future__ import annotations

from outfitter.env.ahead import ABSENT, Ahead, told, words


def test_words_are_read_as_they_were_written() -> None:
    tool = ["/bin/tool", "--", "exec"]
    frozen = [("/p", "/p/a", "12ab", "/p/b", ABSENT), ("/p/in", "/p/in/c/", "34cd")]
    command = ["deny", "A", "--", "make", "--", "3"]
    assert told([*words(frozen, tool), *command]) == Ahead(
        "/p", {"/p/a": "12ab", "/p/b": ABSENT, "/p/in/c/": "34cd"}, tool, command
    )
