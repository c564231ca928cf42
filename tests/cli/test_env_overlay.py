"""outfitter env set, unset, overlay: kept for a worktree, or given to a session on a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.servers import Server

from .commandline import User


@pytest.fixture
def repo(user: User) -> Path:
    folder = user.home / "repo"
    (folder / ".git").mkdir(parents=True)
    (folder / "sub").mkdir()
    return folder


def show(user: User, repo: Path, text: str, *flags: str) -> str:
    done = user.run("run", "--cwd", str(repo), *flags, "--", "sh", "-c", f"echo {text}")
    return (done.stdout + done.stderr).decode().strip()


def listed(user: User, repo: Path) -> dict[str, list[str]]:
    told = json.loads(user.run("env", "overlay", "--json", "--dir", str(repo)).stdout)
    return {one["producer"]: [*one["set"], *one["unset"]] for one in told["contributions"]}


def test_what_is_set_holds_for_later_commands_of_the_worktree(user: User, repo: Path) -> None:
    # O1
    assert user.run("env", "set", "--dir", f"{repo}/sub", "A=1", "B=x=y", "C=").returncode == 0
    assert show(user, repo, "[$A] [$B] [${C-unset}]") == "[1] [x=y] []"
    assert show(user, user.home, "${A-unset}") == "unset"
    assert user.run("env", "set", "--dir", str(repo), "A=2").returncode == 0
    assert show(user, repo, "$A $B") == "2 x=y"
    told = json.loads(user.run("env", "explain", "--cwd", str(repo), "--json", "A").stdout)
    assert (told["variables"]["A"]["layer"], told["variables"]["A"]["id"]) == ("L5", "kept:user")


def test_unset_takes_away_and_forget_takes_the_word_back(user: User, repo: Path) -> None:
    # O12
    where = ("--dir", str(repo))
    user.run("env", "set", *where, "A=1")
    assert user.run("env", "unset", *where, "A", "XDG_STATE_HOME").returncode == 0
    assert show(user, repo, "${A-unset} ${XDG_STATE_HOME-unset}") == "unset unset"
    assert user.run("env", "unset", *where, "--forget", "XDG_STATE_HOME").returncode == 0
    assert listed(user, repo) == {"user": ["A"]}
    done = user.run("env", "unset", *where, "--forget", "A", "NEVER")
    assert (done.returncode, done.stderr.decode()) == (
        1,
        f"outfitter: NEVER was neither set nor unset for {repo}\n",
    )
    assert user.run("env", "overlay", *where).stdout.decode() == f"for {repo}:\n  nothing\n"


def test_secrets_and_code_are_refused_with_a_remedy(user: User, repo: Path) -> None:
    done = user.run("env", "set", "--dir", str(repo), "OK=1", "API_TOKEN=hush", "LD_PRELOAD=x")
    assert done.returncode == 1
    assert b"set it on a running server with --on and --scope" in done.stderr
    assert b"see allow_code_loading" in done.stderr
    assert b"hush" not in done.stdout + done.stderr
    assert listed(user, repo) == {"user": ["OK"]}
    files = [path.read_bytes() for path in (user.home / "state").rglob("*") if path.is_file()]
    assert any(b'"contributions"' in data for data in files)
    assert not any(b"hush" in data for data in files)


def test_a_file_is_imported_without_a_shell(user: User, repo: Path) -> None:
    # O11
    file = repo / "env.sh"
    lines = ('export A="$HOME/x"', "B=$(touch ran)", 'export PATH="/x/bin:$PATH"', "unset XDG_STATE_HOME")
    file.write_text("\n".join((*lines, ". ./more", "C=1")))
    done = user.run("env", "overlay", "--dir", str(repo), "--import", str(file))
    assert (done.returncode, done.stderr.decode().splitlines()) == (
        1,
        [
            f"outfitter: {file}:2: `$(` runs a command",
            f"outfitter: {file}:5: it is a command, and commands are not run",
            f"outfitter: {file}:6: its meaning depends on line 5, which was refused",
        ],
    )
    assert show(user, repo, "$A ${PATH%%:*} ${B-none} ${C-none}") == f"{user.home}/x /x/bin none none"
    assert not (repo / "ran").exists()
    assert user.run("env", "overlay", "--dir", str(repo)).stdout.decode().splitlines() == [
        f"for {repo}:",
        f"  file:{file}: A  -XDG_STATE_HOME  prepend PATH",
    ]
    # Again: nothing accumulates, and what is not in it any more is gone.
    file.write_text("export A=${A-}2\n")
    assert user.run("env", "overlay", "--dir", str(repo), "--import", str(file), "--strict").returncode == 1
    assert listed(user, repo) == {f"file:{file}": ["A", "XDG_STATE_HOME"]}
    file.write_text("export D=1\n")
    assert user.run("env", "overlay", "--dir", str(repo), "--import", str(file)).returncode == 0
    assert listed(user, repo) == {f"file:{file}": ["D"]}
    assert user.run("env", "overlay", "--dir", str(repo), "--drop", f"file:{file}").returncode == 0
    assert user.run("env", "overlay", "--dir", str(repo), "--drop", f"file:{file}").returncode == 1


def test_standard_input_is_read_too(user: User, repo: Path) -> None:
    where = ("--dir", str(repo))
    assert user.run("env", "overlay", *where, "--import", "-", input=b"A=1\n").returncode == 0
    assert user.run("env", "set", *where, "B", "C=3", input=b"two words\n").returncode == 0
    assert show(user, repo, '"$A $B $C"') == "1 two words 3"
    done = user.run("env", "set", *where, "B", input=b"")
    assert (done.returncode, done.stderr) == (
        1,
        b"outfitter: B has no value, and standard input has no line for it\n",
    )


def test_named_overlays_are_listed_and_chosen(user: User, repo: Path) -> None:
    # O10
    (repo / "outfitter.toml").write_text('[overlays.rocm]\nset = { GFX = "11" }\n')
    waits = f"the project would change GFX: to see how, and to allow it, type: outfitter trust {repo}"
    assert show(user, repo, "${GFX-none}", "--overlay", "rocm") == f"none\noutfitter: {waits}"
    user.allow(repo)
    told = json.loads(user.run("env", "overlay", "--json", "--dir", str(repo)).stdout)
    assert told["named"] == [{"name": "rocm", "kind": "project", "file": f"{repo}/outfitter.toml"}]
    assert (
        f"named rocm  (project: {repo}/outfitter.toml)".encode()
        in user.run("env", "overlay", "--dir", str(repo)).stdout
    )
    config = user.run("config", "show", "--cwd", str(repo)).stdout.decode()
    assert [line.split() for line in config.splitlines() if line.startswith("overlays")] == [
        ["overlays.rocm.set.GFX", "(hidden)", f"{repo}/outfitter.toml:2"]
    ]
    assert show(user, repo, "${GFX-none}") == "none"
    assert show(user, repo, "${GFX-none}", "--overlay", "rocm") == "11"
    assert b"GFX" in user.run("env", "--cwd", str(repo), "--overlay", "rocm").stdout
    done = user.run("run", "--cwd", str(repo), "--overlay", "cuda", "--", "true")
    assert (done.returncode, b"no overlay is named `cuda` here" in done.stderr) == (125, True)


def test_a_session_on_a_server_takes_secrets_too(user: User, repo: Path, server: Server) -> None:
    there = ("--on", server.url, "--scope", "t")
    assert user.run("env", "set", *there, "API_TOKEN", "A=1", input=b"hush-token\n").returncode == 0
    run = ("run", "--on", server.url, "--cwd", "/")
    text = "echo $API_TOKEN $A $OUTFITTER_SCOPE"
    assert user.run(*run, "--scope", "t", "--", "sh", "-c", text).stdout == b"hush-token 1 t\n"
    assert user.run(*run, "--", "sh", "-c", text).stdout == b"\n"
    assert (
        user.run("env", "overlay", *there).stdout.decode()
        == f"for t on {server.url}:\n  user: A  API_TOKEN\n"
    )
    assert b"hush-token" not in user.run("env", "--cwd", "/", *there, "--values").stdout
    file = repo / "more.sh"
    file.write_text("export B=$A-$API_TOKEN\nexport C=$A-2\n")
    done = user.run("env", "overlay", *there, "--import", str(file))
    assert done.stderr.decode() == f"outfitter: {file}:1: $API_TOKEN has no value here\n"
    assert user.run("env", "unset", *there, "A").returncode == 0
    done = user.run(*run, "--scope", "t", "--", "sh", "-c", "echo ${A-none} ${B-none} $C")
    assert done.stdout == b"none none 1-2\n"
    assert user.run("env", "unset", *there, "--forget", "A", "API_TOKEN").returncode == 0
    assert b"  user:" not in user.run("env", "overlay", *there).stdout
    assert not (user.home / "state" / "outfitter" / "overlays").exists()


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("unset", "--dir", "/dev/null/none", "A"), "/dev/null/none is not a directory"),
        (("overlay", "--import", "/dev/null/none"), "cannot read /dev/null/none"),
        (("set", "=1"), "a name must not be empty"),
        (("set", "--secret", "A=1"), "secrets are never written to disk"),
    ],
)
def test_mistakes_are_told(user: User, args: tuple[str, ...], told: str) -> None:
    done = user.run("env", *args)
    assert (done.returncode, told in done.stderr.decode()) == (1, True), done.stderr
    assert done.stderr.startswith(b"outfitter: ")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("set", "--scope", "t", "A=1"), "add --on to name the server"),
        (("set", "--on", "ws://127.0.0.1:1", "A=1"), "add --scope ID"),
        (("unset", "--on", "ws://127.0.0.1:1", "A"), "add --scope ID"),
        (("overlay", "--on", "ws://127.0.0.1:1"), "add --scope ID"),
    ],
)
def test_flags_that_do_not_go_together_are_a_mistake_of_usage(
    user: User, args: tuple[str, ...], told: str
) -> None:
    done = user.run("env", *args)
    assert (done.returncode, told in done.stderr.decode()) == (2, True), done.stderr


def test_what_a_hook_printed_is_taken_as_its_own(user: User, repo: Path) -> None:
    # O1, O2, O12
    where = ("--dir", str(repo), "--import", "-", "--hook", "stage")

    def said(env: object) -> bytes:
        told = {"hookSpecificOutput": {"hookEventName": "SessionStart", "env": env}, "continue": True}
        return json.dumps(told).encode()

    text = said({"STAGE": "test", "XDG_STATE_HOME": None, "A=B": "1", "NUMBER": 3})
    done = user.run("env", "overlay", *where, input=text)
    assert done.returncode == 1
    assert [line.split(": ")[:3] for line in done.stderr.decode().splitlines()] == [
        ["outfitter", "hook:stage", "A=B"],
        ["outfitter", "hook:stage", "NUMBER"],
    ]
    assert show(user, repo, "$STAGE ${XDG_STATE_HOME-unset}") == "test unset"
    # Again: all of it is replaced.
    assert user.run("env", "overlay", *where, input=said({"OTHER": "1"})).returncode == 0
    assert listed(user, repo) == {"hook:stage": ["OTHER"]}
    done = user.run("env", "overlay", *where, "--strict", input=said({"A=B": "1"}))
    assert done.returncode == 1
    assert listed(user, repo) == {"hook:stage": ["OTHER"]}
    assert user.run("env", "overlay", "--hook", "stage").returncode == 2


def test_a_secret_that_is_part_of_another_value_is_not_kept_either(user: User, repo: Path) -> None:
    # S: what a shell or a file has put together.
    (repo / "outfitter.toml").write_text('[env]\nset = { DB_PASSWORD = "hush-project" }\n')
    user.allow(repo)
    file = repo / "hook.env"
    file.write_text(
        'export MY_TOKEN=hush-file\nexport A=$MY_TOKEN-x\nexport B=b\nexport C="Bearer $GH_TOKEN"\n'
        "export D=db:$DB_PASSWORD\nexport PATH=/opt/$MY_TOKEN/bin:$PATH\n"
    )
    env = {"GH_TOKEN": "hush-shell"}
    done = user.run("env", "overlay", "--dir", str(repo), "--import", str(file), env=env)
    assert done.returncode == 1
    assert b"A: its value contains the secret MY_TOKEN, which is never written to disk" in done.stderr
    assert user.run("env", "set", "--dir", str(repo), "E=Bearer hush-shell", "F=1", env=env).returncode == 1
    assert listed(user, repo) == {f"file:{file}": ["B"], "user": ["F"]}
    files = [path.read_bytes() for path in (user.home / "state").rglob("*") if path.is_file()]
    assert any(b'"contributions"' in data for data in files)
    assert not any(b"hush" in data for data in files)


def test_a_literal_reference_in_path_is_refused_and_doctor_looks_at_the_result(user: User) -> None:
    done = user.run("env", "set", "PATH=/x:$PATH")
    assert (done.returncode, b"`$PATH` is not expanded here" in done.stderr) == (1, True)
    assert user.run("run", "--", "true").returncode == 0
    (user.home / "outfitter.toml").write_text('[env]\nset = { PATH = "/x" }\n')
    assert user.run("trust", "--yes").returncode == 0
    done = user.run("run", "--", "true")
    assert (done.returncode, b"has neither /usr/bin nor /bin" in done.stderr) == (127, True)
    since = f"PATH has neither /usr/bin nor /bin since project ({user.home}/outfitter.toml:2)"
    done = user.run("run", "--", "/bin/true")
    assert (done.returncode, since in done.stderr.decode()) == (0, True)
    told = json.loads(user.run("doctor", "--json").stdout)["checks"]["path.result"]
    assert (told["status"], "outfitter env explain PATH" in told["remediation"]) == ("error", True)
    assert since in str(told)
    done = user.run("run", "--set", "PATH=/usr/bin:$PATH", "--", "/bin/true")
    assert b"PATH of envPolicy is probably a mistake: `$PATH` is not expanded here" in done.stderr
