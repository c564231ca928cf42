"""outfitter setup: allowed first, run once for all commands, shown without a secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.machine import KEYRING

from .commandline import Terminal, User

SCRIPT = """echo preparing
echo ran >> "$OUTFITTER_WORKTREE/../count"
export MY_ROOT="$OUTFITTER_WORKTREE" PATH="$PWD/bin:$PATH"
greet() { :; }
"""


@pytest.fixture
def project(user: User) -> Path:
    folder = user.home / "project"
    (folder / ".git").mkdir(parents=True)
    (folder / "outfitter.toml").write_text('[setup]\nscript = "setup.sh"\ninputs = ["*.lock"]\n')
    (folder / "setup.sh").write_text(SCRIPT)
    return folder


def runs(project: Path) -> int:
    count = project.parent / "count"
    return len(count.read_text().splitlines()) if count.exists() else 0


def seen(user: User, project: Path) -> str:
    """What a command sees of it."""
    done = user.run("run", "--cwd", str(project), "--", "sh", "-c", "echo ${MY_ROOT-nothing} ${PATH%%:*}")
    return done.stdout.decode().split()[0]


def test_it_is_one_more_entry_of_what_is_trusted(user: User, project: Path) -> None:
    done = user.run("trust", str(project))
    assert done.returncode == 1
    lines = done.stdout.decode().splitlines()
    assert lines[0] == f"setup  {project}  untrusted (outfitter)"
    assert f"  runs   bash {project}/setup.sh" in lines
    assert user.run("trust", "--yes", str(project)).returncode == 0
    [grant] = json.loads(user.run("trust", "--list", "--json").stdout)["grants"]
    assert (grant["provider"], grant["root"]) == ("setup", str(project))
    assert user.run("trust", "--revoke", str(project)).returncode == 0


def test_what_would_run_cannot_hide_from_a_terminal(user: User, project: Path) -> None:
    (project / "outfitter.toml").write_text('[setup]\nrun = "evil\\u001b[2K\\r; true\\nmore"\n')
    done = user.run("trust", str(project))
    assert b"\x1b" not in done.stdout
    assert b"evil\\x1b[2K\\r; true\n         more" in done.stdout


def test_nothing_runs_until_it_is_allowed(user: User, project: Path) -> None:
    done = user.run("setup", str(project))
    assert (done.returncode, runs(project)) == (1, 0)
    assert done.stdout.decode().splitlines()[0] == f"setup  {project}  blocked"
    assert f"outfitter trust {project}" in done.stdout.decode()
    assert b"the setup has not run here yet" in user.run("setup", "--log", str(project)).stderr
    assert seen(user, project) == "nothing"


def test_it_runs_once_and_every_command_gets_what_it_exports(user: User, project: Path) -> None:
    user.run("trust", "--yes", str(project))
    assert seen(user, project) == str(project)
    done = user.run("setup", str(project))
    assert (done.returncode, runs(project), done.stderr) == (0, 1, b"")
    text = done.stdout.decode()
    assert "applied" in text
    assert "  exports  MY_ROOT, PATH\n" in text
    assert "  lost     function greet\n" in text
    assert ", exit code 0\n" in text
    again = user.run("setup", "--again", str(project))
    assert (again.returncode, runs(project), again.stderr) == (0, 2, b"  | preparing\n")
    assert user.run("setup", "--log", str(project)).stdout == b"preparing\n"
    assert seen(user, project) == str(project)
    assert runs(project) == 2


def test_exports_of_ordinary_commands_never_stay(user: User, project: Path) -> None:
    user.run("trust", "--yes", str(project))
    user.run("run", "--cwd", str(project), "--", "bash", "-c", "export MY_ROOT=changed OTHER=1")
    done = user.run("run", "--cwd", str(project), "--", "sh", "-c", "echo $MY_ROOT ${OTHER-none}")
    assert done.stdout.decode() == f"{project} none\n"


def test_its_state_is_told_without_running_it(user: User, project: Path) -> None:
    def state() -> str:
        done = user.run("setup", "--status", "--json", str(project))
        told = json.loads(done.stdout)
        assert (done.returncode == 0) == (told["state"] == "applied")
        assert isinstance(told["state"], str)
        return told["state"]

    assert state() == "blocked"
    user.run("trust", "--yes", str(project))
    assert (state(), runs(project)) == ("new", 0)
    told = json.loads(user.run("setup", "--json", str(project)).stdout)
    assert (told["state"], told["last"]["exitCode"], told["last"]["exports"]) == (
        "applied",
        0,
        ["MY_ROOT", "PATH"],
    )
    assert state() == "applied"
    (project / "new.lock").touch()
    assert (state(), runs(project)) == ("stale", 1)


def test_a_failure_is_shown_and_stays(user: User, project: Path) -> None:
    (project / "setup.sh").write_text("echo not found >&2; echo ran >> ../count; exit 9\n")
    user.run("trust", "--yes", str(project))
    done = user.run("setup", str(project))
    assert (done.returncode, done.stderr) == (1, b"  | not found\n")
    assert "it ended with status 9" in done.stdout.decode()
    assert "exit code 9" in done.stdout.decode()
    assert (user.run("setup", str(project)).returncode, runs(project)) == (1, 1)
    assert seen(user, project) == "nothing"
    (project / "outfitter.toml").write_text(
        '[setup]\nscript = "setup.sh"\nrequired = true\ninputs = ["*.lock"]\n'
    )
    refused = user.run("run", "--cwd", str(project), "--", "true")
    assert refused.returncode == 125
    assert f"outfitter setup --again {project}" in refused.stderr.decode()
    assert user.run("setup", str(project)).returncode == 1


def test_no_secret_is_shown_or_kept(user: User, project: Path) -> None:
    (project / "setup.sh").write_text("export API_TOKEN=s3cret-value-9; echo $API_TOKEN\n")
    user.run("trust", "--yes", str(project))
    for flags in ((), ("--again", "--json"), ("--log",)):
        done = user.run("setup", *flags, str(project))
        assert done.returncode == 0
        assert b"s3cret" not in done.stdout + done.stderr
    shown = user.run("run", "--cwd", str(project), "--", "sh", "-c", "echo ${#API_TOKEN}")
    assert shown.stdout == b"14\n"
    files = [path.read_bytes() for path in (user.home / "state").rglob("*") if path.is_file()]
    assert any(b'"withheld": ["API_TOKEN"]' in data for data in files)
    assert not any(b"s3cret" in data for data in files)


@KEYRING
def test_one_that_exports_a_secret_runs_once_for_all_commands(user: User, project: Path) -> None:
    (project / "setup.sh").write_text(SCRIPT + "export API_TOKEN=s3cret-value-9\n")
    user.run("trust", "--yes", str(project))
    for _ in range(3):
        done = user.run("run", "--cwd", str(project), "--", "sh", "-c", "echo ${#API_TOKEN}")
        assert done.stdout == b"14\n"
    assert runs(project) == 1
    status = user.run("setup", "--status", str(project)).stdout.decode()
    assert "secret   API_TOKEN: kept in the kernel's keyring for a day, not written to disk\n" in status


def test_at_a_terminal_its_output_comes_while_it_runs(user: User, project: Path, screen: Terminal) -> None:
    (project / "setup.sh").write_text(
        "echo preparing; until [ -e ../go ]; do sleep 0.02; done; echo $OUTER_TOKEN; export MY_ROOT=1\n"
    )
    user.run("trust", "--yes", str(project))
    popen = screen.start(user, "setup", str(project), env={"OUTER_TOKEN": "s3cret-value-9"})
    screen.until(b"  | preparing")
    (project.parent / "go").touch()
    code, shown = screen.rest(popen)
    assert code == 0
    assert b"  | [secret:OUTER_TOKEN]" in shown
    assert b"applied" in shown


def test_without_a_declaration_there_is_nothing_to_do(user: User, project: Path) -> None:
    (project / "outfitter.toml").unlink()
    done = user.run("setup", str(project))
    assert done.returncode == 0
    assert b"no setup is declared here" in done.stderr
    assert user.run("setup", "--json", str(project)).stdout == b'{"state": "none"}\n'


def test_flags_that_contradict_each_other_are_refused(user: User, project: Path) -> None:
    assert user.run("setup", "--status", "--again", str(project)).returncode == 2


def test_one_that_could_not_be_run_again_is_no_success(user: User, project: Path) -> None:
    user.run("trust", "--yes", str(project))
    assert user.run("setup", str(project)).returncode == 0
    [lock] = (user.home / "state/outfitter/setups").glob("*.lock")
    lock.unlink()
    lock.mkdir()
    done = user.run("setup", "--again", str(project))
    assert (done.returncode, runs(project)) == (1, 1)
    assert b"  failed\n  cannot write the result of the setup" in done.stdout
