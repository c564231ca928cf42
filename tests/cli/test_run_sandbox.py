"""outfitter run --sandbox as a person sees it: what works, what fails, and the last line."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.sandboxes import elsewhere

from .commandline import Completed, User


@pytest.fixture
def place() -> Iterator[Path]:
    """A workspace outside of /tmp, with a file to read."""
    with elsewhere() as folder:
        (folder / "work").mkdir()
        (folder / "work" / "a").write_text("hello\n")
        yield folder / "work"


def run(user: User, place: Path, *args: str) -> Completed:
    return user.run("run", "--cwd", str(place), *args)


def last(done: Completed) -> str:
    return done.stderr.decode().splitlines()[-1]


def test_what_is_allowed_is_as_without(user: User, place: Path) -> None:
    done = run(user, place, "--sandbox", "read-only", "--", "sh", "-c", "cat a; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"hello\n", b"")
    done = run(user, place, "--sandbox", "workspace-write", "--", "sh", "-c", "echo new > b && cat b")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"new\n", b"")
    assert (place / "b").read_text() == "new\n"


def test_a_denied_write_names_the_flag_and_keeps_the_status(user: User, place: Path) -> None:
    outside = place.parent / "outside"
    script = f"echo x > {outside}; exit 7"
    done = run(user, place, "--sandbox", "workspace-write", "--", "sh", "-c", script)
    assert done.returncode == 7
    assert last(done) == (
        f"outfitter: the sandbox denied a write to {outside}: --allow-write {place.parent} would allow it"
    )
    assert not outside.exists()
    done = run(
        user,
        place,
        *("--sandbox", "workspace-write", "--allow-write", str(place.parent), "--", "sh", "-c", script),
    )
    assert (done.returncode, done.stderr, outside.read_text()) == (7, b"", "x\n")


def test_names_of_the_projects_file_stay_read_only(user: User, place: Path) -> None:
    (place / "sub/hooks").mkdir(parents=True)
    (place / "outfitter.toml").write_text('[sandbox]\nprotect = [".vscode", "**/hooks"]\n')
    script = "mkdir .vscode; touch .vscode/a; touch sub/hooks/a; touch sub/a; ls -A sub/hooks"
    done = run(user, place, "--sandbox", "workspace-write", "--", "sh", "-c", script)
    assert done.stdout == b""
    assert (sorted(place.rglob("a")), done.stderr.count(b"cannot touch")) == (
        [place / "a", place / "sub/a"],
        2,
    )
    free = run(user, place, "--", "touch", ".vscode-free", "sub/hooks/a")  # nothing is confined by it
    assert (free.returncode, (place / "sub/hooks/a").exists()) == (0, True)


def test_a_program_that_is_not_there_has_the_usual_status(user: User, place: Path) -> None:
    assert run(user, place, "--sandbox", "read-only", "--", "nonesuch").returncode == 127
    assert run(user, place, "--sandbox", "read-only", "--", "./a").returncode == 126


@pytest.mark.parametrize("mode", ["read-only", "workspace-write"])
def test_without_a_place_for_its_own_files_it_says_what_to_set(user: User, place: Path, mode: str) -> None:
    full = {"OUTFITTER_HOME": "/proc/nowhere"}
    done = user.run("run", "--cwd", str(place), "--sandbox", mode, "--", "true", env=full)
    assert done.returncode == 125
    assert last(done).endswith("set to a folder that its user can write")


def test_a_directory_in_which_nothing_can_be_made_is_named(user: User) -> None:
    done = run(user, Path("/proc"), "--sandbox", "workspace-write", "--", "true")
    assert (done.returncode, "/proc/.agents" in last(done)) == (125, True)


def test_the_flag_for_the_workspace_is_the_other_mode(user: User, place: Path) -> None:
    done = run(user, place, "--sandbox", "read-only", "--", "touch", "b")
    assert done.returncode == 1
    assert last(done).endswith(f"a write to {place}/b: --sandbox workspace-write would allow it")


def test_a_protected_name_is_named(user: User, place: Path) -> None:
    (place / ".git").mkdir()
    (place / ".git" / "config").write_text("[core]\n")
    done = run(user, place, "--sandbox", "workspace-write", "--", "touch", ".git/x")
    assert last(done).endswith(f".git is protected; --allow-write {place}/.git would allow it")
    command = ["--sandbox", "workspace-write", "--allow-write", f"{place}/.git", "--", "touch", ".git/x"]
    assert run(user, place, *command).returncode == 0
    assert (place / ".git" / "x").exists()


def test_a_hidden_file_is_named(user: User, place: Path) -> None:
    (place / "b.env").write_text("KEY=1\n")
    done = run(user, place, "--sandbox", "read-only", "--deny-read", "*.env", "--", "cat", "a", "b.env")
    assert (done.returncode, done.stdout) == (1, b"hello\n")
    assert f"the sandbox denied reading {place}/b.env: leave out" in last(done)


def test_a_network_that_is_not_there_names_the_flag(user: User, place: Path) -> None:
    script = "import socket; socket.create_connection(('127.0.0.1', 9))"
    done = run(user, place, "--sandbox", "read-only", "--", "python3", "-c", script)
    assert done.returncode == 1
    assert "denied" in last(done)


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"reached\n")

    def log_message(self, *_: object) -> None:
        pass


def test_a_domain_is_reached_if_it_is_allowed_and_named_if_not(user: User, place: Path) -> None:
    fetch = "import sys, urllib.request as r\nprint(r.urlopen(sys.argv[1]).read().decode(), end='')"
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/"
            base = ("--sandbox", "read-only", "--allow-domain")
            done = run(user, place, *base, "127.0.0.1", "--", "python3", "-c", fetch, url)
            assert (done.returncode, done.stdout, done.stderr) == (0, b"reached\n", b"")
            done = run(user, place, *base, "example.org", "--", "python3", "-c", fetch, url)
            assert (done.returncode, done.stdout) == (1, b"")
            assert last(done) == (
                "outfitter: the sandbox denied the connection to 127.0.0.1: "
                "--allow-domain 127.0.0.1 would allow it"
            )
            # The user's file says the same for commands that say nothing.
            user.config.mkdir(parents=True)
            (user.config / "config.toml").write_text(
                '[sandbox]\nmode = "read-only"\nallow_domain = ["127.0.0.1"]\n'
            )
            done = run(user, place, "--", "python3", "-c", fetch, url)
            assert (done.returncode, done.stdout, done.stderr) == (0, b"reached\n", b"")
            # And a project takes it away.
            (place / "outfitter.toml").write_text('[sandbox]\nmode = "read-only"\n')
            assert run(user, place, "--", "python3", "-c", fetch, url).returncode == 1
        finally:
            server.shutdown()
            serving.join()


def test_no_flag_is_advised_for_what_a_project_takes_away(user: User, place: Path) -> None:
    (place / "outfitter.toml").write_text('[sandbox]\nmode = "read-only"\nallow_domain = ["a.example"]\n')
    (place / "out").mkdir()
    see = "allows it, and something else takes it away; see `outfitter sandbox explain`"
    asked = ("--sandbox", "workspace-write", "--allow-write", "out", "--allow-domain", "b.example")
    for flag, *command in (
        ("--sandbox workspace-write", "touch", "b"),
        ("--allow-write", "touch", "out/b"),
        ("--allow-domain", "python3", "-c", "import sys; sys.exit('Could not resolve host: b.example')"),
    ):
        assert last(run(user, place, *asked, "--", *command)).endswith(f": {flag} {see}")


def test_a_terminal_works_and_json_has_no_other_lines(user: User, place: Path) -> None:
    done = run(user, place, "--tty", "--sandbox", "read-only", "--", "sh", "-c", "test -t 0 && touch b")
    assert done.returncode == 1
    assert last(done).endswith("--sandbox workspace-write would allow it")
    done = run(user, place, "--json", "--sandbox", "read-only", "--", "touch", "b")
    assert {line[:9] for line in done.stdout.splitlines()} == {b'{"event":'}
    assert last(done).startswith("outfitter: the sandbox denied a write")


def test_a_shell_in_it_reports_what_its_startup_files_changed(user: User, place: Path) -> None:
    (user.home / ".bash_profile").write_text("export FROM_PROFILE=1\n")
    flags = ("--startup", "report", "--login", "allow", "--explain", "--sandbox", "read-only")
    done = run(user, place, *flags, "--", "bash", "-lc", 'echo "$FROM_PROFILE"')
    assert done.stdout == b"1\n"
    assert "FROM_PROFILE" in done.stderr.decode()


# The files


def test_the_users_file_confines_commands_that_ask_for_nothing(user: User, place: Path) -> None:
    user.config.mkdir(parents=True)
    (user.config / "config.toml").write_text('[sandbox]\nmode = "read-only"\n')
    done = run(user, place, "--", "touch", "b")
    assert (done.returncode, (place / "b").exists()) == (1, False)
    assert last(done).startswith("outfitter: the sandbox of the configuration denied something")
    assert run(user, place, "--sandbox", "workspace-write", "--", "touch", "b").returncode == 0
    assert (
        run(user, place, "--sandbox", "full-access", "--", "touch", str(place.parent / "c")).returncode == 0
    )


def test_a_projects_file_takes_away_and_never_adds(user: User, place: Path) -> None:
    (place / "b.env").write_text("KEY=1\n")
    (place / "outfitter.toml").write_text(
        f'[sandbox]\nmode = "workspace-write"\nallow_write = ["{place.parent}"]\ndeny_read = ["*.env"]\n'
    )
    outside = place.parent / "outside"
    done = run(user, place, "--", "sh", "-c", f"cat a b.env; touch b {outside}")
    assert (done.returncode, done.stdout) == (0, b"hello\n")  # nobody asked for less than the project allows
    outside.unlink()
    done = run(user, place, "--sandbox", "workspace-write", "--", "sh", "-c", f"touch c {outside}")
    assert (done.returncode, (place / "c").exists(), outside.exists()) == (1, True, False)
    done = run(user, place, "--sandbox", "read-only", "--", "touch", "d")
    assert (done.returncode, (place / "d").exists()) == (1, False)
    # Not even who asks for everything gets more than the project leaves.
    done = run(user, place, "--sandbox", "full-access", "--", "cat", "b.env")
    assert (done.returncode, done.stdout) == (1, b"")
