"""Who changed a variable: the file and the line of a shell's startup files, as far as their text tells."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from outfitter.contract.startup import changes, effective, places, whole_value
from outfitter.env.fingerprint import value_digest
from outfitter.shell.start import ShellPlan

KEY = b"k" * 32


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def plan(shell: str = "bash", *, login: bool = True, interactive: bool = False) -> ShellPlan:
    return ShellPlan([shell], shell, startup="report", login=login, interactive=interactive)


def found(home: Path, shell: str = "bash", env: dict[str, str] | None = None, **how: Any) -> dict[str, Any]:
    """The places below the scratch home: this machine's own files are not what is tested."""
    every = places(plan(shell, **how), {"HOME": str(home), **(env or {})})
    return {name: several[-1] for name, several in every.items() if several[-1][0].startswith(str(home))}


# Places


def test_the_last_assignment_counts_in_the_order_of_the_files(home: Path) -> None:
    rc = write(home / ".bashrc", "export B=rc\nexport C=rc\n")
    profile = write(
        home / ".bash_profile",
        'export A=1\nif true; then\n  export A=2\nfi\nexport B=1\n. "$HOME/.bashrc"\nC=3\n',
    )
    assert found(home) == {"A": (profile, 3), "B": (rc, 1), "C": (profile, 7)}


@pytest.mark.parametrize("written", ["~/more", "$HOME/more", "${HOME}/more", '"$HOME/more"', "{absolute}"])
def test_files_that_are_read_by_others_are_followed(home: Path, written: str) -> None:
    more = write(home / "more", "export A=1\n")
    write(home / ".bash_profile", "source " + written.replace("{absolute}", more) + "\n")
    assert found(home) == {"A": (more, 1)}


def test_two_files_on_one_line_are_both_followed(home: Path) -> None:
    one, two = write(home / "one", "export A=1\n"), write(home / "two", "export B=1\n")
    write(home / ".bash_profile", f". {one}; . {two}\n")
    assert found(home) == {"A": (one, 1), "B": (two, 1)}


@pytest.mark.parametrize("written", ["$DIR/more", "more", "`pwd`/more", "$(pwd)/more"])
def test_what_only_a_shell_could_tell_is_not_guessed(
    home: Path, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home / "more", "export A=1\n")
    write(home / ".bash_profile", f". {written}\n")
    monkeypatch.chdir(home)
    assert found(home) == {}
    write(home / ".bash_profile", "")
    assert found(home, env={"BASH_ENV": "more"}, login=False) == {}


def test_files_that_read_each_other_are_read_once(home: Path) -> None:
    one = write(home / "one", f". {home}/two\nexport A=1\n")
    two = write(home / "two", f". {home}/one\nexport B=1\n")
    write(home / ".bash_profile", f". {one}\n")
    assert found(home) == {"A": (one, 2), "B": (two, 2)}


def test_an_endless_chain_is_followed_so_far(home: Path) -> None:
    for number in range(200):
        write(home / f"f{number}", f"export N{number}=1\n. {home}/f{number + 1}\n")
    write(home / ".bash_profile", f". {home}/f0\n")
    assert 32 < len(found(home)) < 100


@pytest.mark.parametrize("kind", ["pipe", "folder", "binary", "nothing"])
def test_what_is_no_text_does_not_hold_anybody_up(home: Path, kind: str) -> None:
    path = home / "more"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "binary":
        path.write_bytes(bytes(range(256)) * 2000)
    profile = write(home / ".bash_profile", f". {path}\nexport A=1\n")
    assert found(home)["A"] == (profile, 2)


def test_each_shell_has_its_files(home: Path) -> None:
    profile = write(home / ".profile", "export A=1\n")
    zshenv = write(home / ".zshenv", "export A=1\npath=(/x $path)\n")
    zprofile = write(home / ".zprofile", "export B=1\n")
    fish = write(home / ".config/fish/config.fish", "set -gx A 1\n")
    part = write(home / ".config/fish/conf.d/a.fish", "set -gx B 1\nset -gx A 0\n")
    assert found(home, "dash") == {"A": (profile, 1)}
    assert found(home, "dash", login=False) == {}
    assert found(home, "zsh") == {"A": (zshenv, 1), "PATH": (zshenv, 2), "B": (zprofile, 1)}
    assert found(home, "zsh", login=False) == {"A": (zshenv, 1), "PATH": (zshenv, 2)}
    assert found(home, "fish") == {"A": (fish, 1), "B": (part, 1)}


def test_bash_env_is_a_startup_file(home: Path) -> None:
    file = write(home / "env.sh", "export A=1\n")
    assert found(home, env={"BASH_ENV": file, "SHLVL": "1"}, login=False) == {"A": (file, 1)}


def test_every_line_that_changes_a_variable_is_known_in_order(home: Path) -> None:
    rc = write(home / ".bashrc", 'PATH="$PATH:/rc"\nexport PATH\n')
    text = 'export PATH="$HOME/bin:$PATH"\n. ~/.bashrc\nPATH=/last:$PATH\n'
    profile = write(home / ".bash_profile", text)
    every = places(plan(), {"HOME": str(home)})["PATH"]
    assert [one for one in every if one[0].startswith(str(home))] == [(profile, 1), (rc, 1), (profile, 3)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('PATH="/a:/b"', "/a:/b"),
        ("  export PATH=/a:/b; export X=1", "/a:/b"),
        ("PATH='/a b' # c", "/a b"),
        ("PATH=/a", "/a"),
        ('PATH="/a:$PATH"', None),
        ("PATH=$(x)", None),
        ("PATH=`x`", None),
        ("path=(/a $path)", None),
        ("fish_add_path /a", None),
        ("PATH=", None),
    ],
)
def test_a_line_that_gives_a_whole_value_is_told_from_one_that_adds(text: str, value: str | None) -> None:
    assert whole_value(text) == value


def test_a_branch_that_was_not_taken_is_not_blamed(home: Path) -> None:
    text = 'if x; then\n PATH="/a:/b"\nelse\n PATH="/games"; export PATH\nfi\nPATH=$HOME/bin:$PATH\n'
    profile = write(home / ".profile", text)
    places = [(profile, 2), (profile, 4), (profile, 6)]
    assert [place for place, _ in effective(places, f"{home}/bin:/a:/b")] == [places[0], places[2]]
    assert [place for place, _ in effective(places, f"{home}/bin:/games")] == places[1:]
    # A file that is gone says nothing against its lines; and somebody has to be named.
    assert effective([("/nonesuch", 3)], "/x") == [(("/nonesuch", 3), "")]
    assert effective(places[:1], "/x") == [(places[0], ' PATH="/a:/b"')]


# Changes


def test_a_change_with_several_places_has_all_of_them(home: Path) -> None:
    profile = write(home / ".profile", "export A=1\nexport B=1\nA=$A:2\n")
    given = {"HOME": str(home), "PATH": "/bin"}
    told = changes(given, {**given, "A": "1:2", "B": "1"}, plan("dash"), b"key")
    assert [(one["name"], one["line"], one.get("places")) for one in told] == [
        ("A", 3, [{"file": profile, "line": 1}, {"file": profile, "line": 3}]),
        ("B", 2, None),
    ]


def test_changes_are_told_by_name_kind_digests_and_place(home: Path) -> None:
    profile = write(home / ".bash_profile", "export ADDED=hush-1\nexport CHANGED=hush-2\nunset GONE\n")
    given = {
        "HOME": str(home),
        "CHANGED": "hush-0",
        "GONE": "hush-3",
        "KEPT": "hush-4",
        "SHLVL": "0",
        "_": "x",
    }
    left = {
        "HOME": str(home),
        "ADDED": "hush-1",
        "CHANGED": "hush-2",
        "KEPT": "hush-4",
        "SHLVL": "1",
        "PWD": "/",
    }
    told = changes(given, left, plan(), KEY)

    def digest(name: str, value: str) -> str:
        return value_digest(KEY, name, value)[:16]

    assert told == [
        {"name": "ADDED", "kind": "added", "after": digest("ADDED", "hush-1"), "file": profile, "line": 1},
        {
            "name": "CHANGED",
            "kind": "changed",
            "before": digest("CHANGED", "hush-0"),
            "after": digest("CHANGED", "hush-2"),
            "file": profile,
            "line": 2,
        },
        {"name": "GONE", "kind": "removed", "before": digest("GONE", "hush-3"), "file": profile, "line": 3},
    ]
    assert "hush" not in repr(told)


def test_a_change_that_no_text_tells_of_has_no_place(home: Path) -> None:
    write(home / ".bash_profile", 'eval "$(printf "export %s=1" ADDED)"\n')
    told = changes({"HOME": str(home)}, {"HOME": str(home), "ADDED": "1"}, plan(), KEY)
    assert [sorted(one) for one in told] == [["after", "kind", "name"]]


def test_what_shells_keep_themselves_is_no_change(home: Path) -> None:
    env = {"HOME": str(home)}
    assert changes(env, {**env, "PWD": "/", "OLDPWD": "/", "SHLVL": "2", "_": "x"}, plan(), KEY) == []
    assert changes(env, {**env, "LOGNAME": "me"}, plan("zsh"), KEY) == []
    assert changes(env, env, plan(), KEY) == []


def test_names_that_are_no_text_are_told_all_the_same(home: Path) -> None:
    told = changes({}, {"A\udcff": "\udcfe"}, plan(), KEY)
    assert [one["name"] for one in told] == ["A\\xff"]


def test_a_file_is_read_again_when_it_has_changed(home: Path) -> None:
    profile = home / ".bash_profile"
    write(profile, "export A=1\n")
    assert found(home) == {"A": (str(profile), 1)}
    assert found(home) == {"A": (str(profile), 1)}
    write(profile, "\nexport B=1\n")
    assert found(home) == {"B": (str(profile), 2)}
    # The same file for another shell is another text.
    assert found(home, "dash") == {}


def test_so_much_is_read_and_no_more(home: Path) -> None:
    write(home / "large", "# nothing\n" * 30_000)
    write(home / ".bash_profile", f"export A=1\n. {home}/large\nexport B=1\n. {home}/more\n")
    write(home / "more", "export C=1\n")
    for _ in range(2):
        assert sorted(found(home)) == ["A", "B"]
