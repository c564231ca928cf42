"""Where a program is looked for: the child's own PATH, and never a directory nobody named."""

from __future__ import annotations

import pytest

from outfitter.core.launch import DEFAULT_PATH, Launch, candidates


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/bin", ["/bin/ls"]),
        ("/usr/bin:/bin", ["/usr/bin/ls", "/bin/ls"]),
        ("bin:/b", ["bin/ls", "/b/ls"]),
        ("", ["ls"]),
        (":/bin:", ["ls", "/bin/ls", "ls"]),
        ("/a b:/\udcff", ["/a b/ls", "/\udcff/ls"]),
    ],
)
def test_a_bare_name_is_looked_for_in_the_path_of_the_child(path: str, expected: list[str]) -> None:
    assert candidates("ls", {"PATH": path}) == expected


def test_without_a_path_the_system_default_is_searched() -> None:
    assert candidates("ls", {"path": "/nowhere"}) == [f"{folder}/ls" for folder in DEFAULT_PATH.split(":")]
    assert all(folder.startswith("/") for folder in DEFAULT_PATH.split(":"))


def test_a_size_makes_it_a_terminal() -> None:
    pipes = Launch("ls", ["ls"], "/", {})
    terminal = Launch("ls", ["ls"], "/", {}, rows=24, cols=80)
    assert [pipes.tty, terminal.tty] == [False, True]


def test_equal_launches_are_equal() -> None:
    assert Launch("ls", ["ls"], "/", {"A": "1"}) == Launch("ls", ["ls"], "/", {"A": "1"})
    assert Launch("ls", ["ls"], "/", {}) != Launch("ls", ["ls"], "/", {}, pipe_stdin=True)
