"""What path_helper makes of PATH, as its manual page says."""

from __future__ import annotations

from outfitter.shell.pathhelper import folders, moved_back
from outfitter.shell.startup import assignments

OWN = folders("/usr/local/bin\n/usr/bin\n\n/bin\n", "/usr/local/go/bin\n/usr/bin\n")


def test_folders_are_listed_once_in_their_order() -> None:
    assert OWN == ["/usr/local/bin", "/usr/bin", "/bin", "/usr/local/go/bin"]


def test_only_those_in_front_of_its_own_are_moved_back() -> None:
    assert moved_back("/a:/usr/bin:/b:/bin:/c", OWN) == ["/a", "/b"]
    assert moved_back("/usr/bin:/bin:/c", OWN) == []
    assert moved_back("", OWN) == []


def test_a_line_that_runs_it_or_homebrew_changes_path() -> None:
    text = 'if true; then\n eval `/usr/libexec/path_helper -s`\nfi\neval "$(/usr/local/bin/brew shellenv)"\n'
    assert assignments(text, "zsh") == [(2, "PATH"), (4, "PATH")]
    assert assignments('eval "$(tool init)"', "bash") == []
