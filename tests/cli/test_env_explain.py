"""outfitter env explain: the same as what commands get, and why."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from outfitter.agents.hooks import BEGIN
from tests.support.servers import Server

from .commandline import OUTFITTER, User
from .project import PATH, SECRETS, make, words


@pytest.fixture
def project(user: User) -> Path:
    return make(user)


def explained(user: User, *args: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    done = user.run("env", "explain", "--json", *args, env=env)
    assert (done.returncode, done.stderr) == (0, b"")
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def child(user: User, *args: str, env: dict[str, str] | None = None) -> dict[str, str]:
    """What a command really gets. Warnings may say what of the request it does not."""
    done = user.run("run", *args, "--", "/usr/bin/env", "-0", env=env)
    assert done.returncode == 0
    assert all(line.startswith(b"outfitter: ") for line in done.stderr.splitlines())
    pairs = [entry.partition(b"=") for entry in done.stdout.split(b"\0") if entry]
    return {name.decode(): value.decode("utf-8", "surrogateescape") for name, _, value in pairs}


CASES: dict[str, tuple[str, ...]] = {
    "as it is": (),
    "in a project": ("--cwd", "project"),
    "policy": ("--cwd", "project", "--default-excludes", "--exclude", "PL*", "--set", "A=1"),
    "nothing inherited": ("--inherit", "none", "--set", "PATH=/usr/bin:/usr/bin"),
    "request": ("--cwd", "project", "--env", "PATH=/bin:relative:/usr/bin", "--unset", "PLAIN"),
    "model": ("--cwd", "project", "--author", "model", "--env", "ENV=/hook", "--unset", "HOME"),
}


@pytest.mark.parametrize("args", CASES.values(), ids=CASES)
def test_names_are_exactly_those_of_a_command_and_segments_its_path(
    args: tuple[str, ...], user: User, project: Path
) -> None:
    env = {**SECRETS, "PATH": PATH}
    told = explained(user, *args, env=env)
    real = child(user, *args, env=env)
    present = {name for name, entry in told["variables"].items() if "removed" not in entry}
    assert present == set(real)
    assert ":".join(one["value"] for one in told["variables"]["PATH"]["segments"]) == real["PATH"]


@pytest.mark.parametrize(
    "args",
    [(), ("--default-excludes", "--env", "A=1"), ("--scope", "t", "--unset", "LANG", "--author", "model")],
    ids=["plain", "policy", "contract"],
)
def test_executor_elsewhere_tells_what_its_commands_get(
    args: tuple[str, ...], user: User, server: Server
) -> None:
    told = explained(user, "--on", server.url, *args)
    real = child(user, "--on", server.url, *args)
    assert {name for name, entry in told["variables"].items() if "removed" not in entry} == set(real)
    assert ":".join(one["value"] for one in told["variables"]["PATH"]["segments"]) == real["PATH"]
    assert told["base"]["kind"] == "daemon"
    assert told["base"]["pid"] == server.pid


def test_executor_elsewhere_is_asked_for_its_login_shell(user: User, server: Server) -> None:
    assert (
        explained(user, "--on", server.url, "--login", "--unset", "LANG")["loginShell"]["state"] == "captured"
    )


def test_name_that_means_nothing_is_told_and_nothing_else(user: User) -> None:
    done = user.run("env", "explain", "NONESUCH")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"NONESUCH is neither a variable" in done.stderr


def test_configured_default_is_asked_as_run_would(user: User, server: Server) -> None:
    user.declare(f'default = "build"\n[[environments]]\nid = "build"\nurl = "{server.url}"\n')
    assert explained(user)["base"]["pid"] == server.pid
    assert explained(user, "--on", "local")["base"]["kind"] == "launcher"


def test_object_has_the_documented_members(user: User, project: Path) -> None:
    told = explained(user, "--cwd", "project", env={**SECRETS, "PATH": PATH})
    assert set(told) == {
        *("base", "env_fp", "contract_fp", "layers", "variables", "refused", "summary", "cwd", "shell"),
        *("files", "programs"),
    }
    assert told["cwd"] == str(project)
    removed = told["variables"]["AWS_PROFILE"]
    assert removed["layer"] == "L2"
    assert removed["origin"]["file"] == str(project / "outfitter.toml")
    assert removed["origin"]["line"] == 6
    assert removed["removed"]["why"].endswith("exclude AWS_*")
    assert "hush" not in json.dumps(told)


# For people


def test_path_is_a_ladder_with_the_layer_of_each_segment(user: User, project: Path) -> None:
    args = ("env", "explain", "--cwd", "project", "PATH")
    done = user.run(*args, env={"PATH": PATH})
    assert (done.returncode, done.stderr) == (0, b"")
    file = project / "outfitter.toml"
    assert words(done.stdout) == [
        "PATH from L3 project",
        "L0 base set from the environment that Outfitter was started with",
        "L2 project:shell_environment_policy kept "
        f'project:shell_environment_policy.inherit is "all" ({file})',
        f"* L3 project prepend prepend 1, [env] prepend ({file}:3)",
        f"1 {project}/bin L3 project prepend, writable by the agent",
        "2 /usr/bin L0 base",
        "3 /bin L0 base",
        "4 /nonexistent L0 base does not exist",
        "- (empty) L0 base dropped: empty: it would mean the current directory",
        "- /usr/bin L0 base dropped: duplicate",
    ]


def test_history_says_who_removed_and_who_was_refused(user: User, project: Path) -> None:
    args = ("env", "explain", "--cwd", "project", "AWS_PROFILE", "LD_PRELOAD")
    done = user.run(*args, env=SECRETS)
    assert done.returncode == 0
    file = project / "outfitter.toml"
    rule = "project:shell_environment_policy.exclude AWS_*"
    why = "this variable can make later commands run other code; see allow_code_loading"
    assert words(done.stdout) == [
        f"AWS_PROFILE not set: L2 {rule} ({file}:6)",
        "L0 base set from the environment that Outfitter was started with",
        f"* L2 project:shell_environment_policy removed {rule} ({file}:6)",
        f"LD_PRELOAD not set: L3 project: {why} ({file}:2)",
        f"L3 project refused {why}, [env] set ({file}:2)",
    ]


def test_overview_groups_names_by_layer_and_says_what_is_missing(user: User, project: Path) -> None:
    done = user.run("env", "explain", "--cwd", "project", env=SECRETS)
    text = words(done.stdout)
    assert text[0].startswith(
        "env: base=launcher, policy=project:shell_environment_policy, provider=project("
    )
    assert text[text.index("L3 project: 2") + 1] == "CI PATH"
    assert text[text.index("1 variable removed") + 2] == "AWS_PROFILE"
    assert text[text.index("1 entry refused") + 1].startswith("LD_PRELOAD of L3 project: ")
    assert b"hush" not in done.stdout


def test_program_is_explained_by_the_segment_that_leads_to_it(user: User, project: Path) -> None:
    tool = project / "bin" / "some-tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    done = user.run("env", "explain", "--cwd", "project", "some-tool")
    assert words(done.stdout) == [
        f"some-tool {tool} (entry 1 of PATH, L3 project)",
        "found in a directory that the agent can write to",
    ]
    done = user.run("env", "explain", "--program", "nonesuch")
    assert (done.returncode, done.stdout) == (0, b"nonesuch  is not in PATH\n")


def test_name_that_means_nothing_is_told(user: User) -> None:
    done = user.run("env", "explain", "PATH", "nonesuch")
    assert done.returncode == 1
    assert done.stdout.startswith(b"PATH  from L0 base\n")
    assert done.stderr == b"outfitter: nonesuch is neither a variable nor a program in PATH\n"


def test_mark_of_a_command_is_explained_though_no_layer_has_it(user: User) -> None:
    """Where the system is not Linux commands see it."""
    done = user.run("env", "explain", "OUTFITTER_MARK")
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr.startswith(b"outfitter: OUTFITTER_MARK is not a part of the contract: where ")


def test_only_the_named_are_in_the_object(user: User) -> None:
    told = explained(user, "HOME", "sh")
    assert set(told["variables"]) == {"HOME"}
    assert set(told["programs"]) == {"sh"}


def test_login_shell_is_asked_for_programs_and_changes(user: User) -> None:
    folder = user.home / "profile-bin"
    folder.mkdir()
    for name in (".profile", ".bash_profile", ".zprofile"):  # whichever shell this account has
        (user.home / name).write_text(f"PATH={folder}:$PATH; export PATH ADDED=hush\n")
    tool = folder / "some-tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    assert user.run("env", "explain", "some-tool").returncode == 1
    done = user.run("env", "explain", "--login", "some-tool")
    assert (done.returncode, done.stderr) == (0, b"")
    text = words(done.stdout)
    assert text[text.index("some-tool is not in PATH") + 1] == f"in a login shell: {tool}"
    assert "+ ADDED" in text
    assert f"+ {folder}" in text
    assert b"hush" not in done.stdout


# Values and secrets (K4)


def test_values_are_shown_when_asked_for_and_secrets_only_when_asked_twice(user: User) -> None:
    done = user.run("env", "explain", "--values", "PLAIN", "API_TOKEN", env=SECRETS)
    assert b"hush-plain" in done.stdout
    assert b"hush-token" not in done.stdout
    done = user.run("env", "explain", "--show-secrets", "API_TOKEN", env=SECRETS)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"add --values to confirm" in done.stderr
    done = user.run("env", "explain", "--values", "--show-secrets", "API_TOKEN", env=SECRETS)
    assert b"hush-token" in done.stdout


def test_control_characters_reach_no_terminal(user: User) -> None:
    env = {"RED\x1b[31m": "1", "VALUE": "a\x1b]0;title\x07\nb"}
    for args in ((), ("--values", "VALUE")):
        done = user.run("env", "explain", *args, env=env)
        assert done.returncode == 0
        assert b"\x1b" not in done.stdout
        assert b"\x07" not in done.stdout
    assert user.run("env", "--values", env=env).stdout.count(b"a\\x1b]0;title\\x07\\nb") == 1


# The page


def test_page_is_written_whole_and_may_be_read_by_others_unless_it_has_values(user: User) -> None:
    page = user.home / "page.html"
    done = user.run("env", "explain", "--html", "page.html", env=SECRETS)
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr == b"outfitter: wrote the explanation to page.html\n"
    text = page.read_text()
    assert "API_TOKEN" in text
    assert "hush" not in text
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(page.stat().st_mode) == 0o666 & ~umask
    assert user.run("env", "explain", "--values", "--html", "page.html", env=SECRETS).returncode == 0
    assert "hush-plain" in page.read_text()
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert [path.name for path in user.home.glob("page*")] == ["page.html"]


def test_page_that_cannot_be_written_is_an_error(user: User) -> None:
    done = user.run("env", "explain", "--html", "nonesuch/page.html")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"cannot write" in done.stderr


# Being asked


def test_mistakes_are_usage_errors(user: User) -> None:
    for args in (
        ("env", "--json", "explain"),
        ("env", "nonesuch"),
        ("env", "explain", "--nonesuch"),
        ("env", "explain", "--inherit", "some"),
        ("env", "explain", "--env", "noequals"),
    ):
        assert user.run(*args).returncode == 2, args


def test_mistake_in_an_assignment_does_not_show_its_value(user: User) -> None:
    done = user.run("env", "--env", "=hush")
    assert done.returncode == 2
    assert b"hush" not in done.stderr


def test_folder_that_is_not_there_is_named(user: User) -> None:
    done = user.run("env", "explain", "--cwd", "nonesuch")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == f"outfitter: {user.home}/nonesuch is not a directory\n".encode()


def test_mistake_of_the_projects_file_is_named_with_its_line(user: User, project: Path) -> None:
    (project / "outfitter.toml").write_text("[env]\nnonesuch = 1\n")
    done = user.run("env", "explain", "--cwd", "project")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(f"outfitter: {project}/outfitter.toml:2: ".encode())


def test_reader_that_leaves_is_no_mistake(user: User) -> None:
    popen = subprocess.Popen(
        [*OUTFITTER, "env", "explain", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=user.env(),
    )
    assert popen.stdout is not None
    popen.stdout.close()
    assert popen.stderr is not None
    assert popen.stderr.read() == b""
    popen.stderr.close()
    assert popen.wait() == 0


@pytest.mark.parametrize(
    "args", [("env",), ("env", "explain"), ("env", "explain", "--json", "PATH")], ids=str
)
def test_answer_from_here_needs_nothing_that_is_slow_to_import(
    args: tuple[str, ...], user: User, project: Path
) -> None:
    """They take longer than the answer; see cli.env.asking."""
    script = (
        "import sys; from outfitter.cli.main import main; main();"
        "slow = {'asyncio', 'ssl', 'websockets', 'subprocess', 'pybase64', 'logging'};"
        "print(sorted(slow & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *args], capture_output=True, cwd=project, env=user.env(), check=True
    )
    assert done.stderr == b"[]\n"


def test_what_nobody_has_allowed_is_told_with_what_to_type(user: User) -> None:
    folder = user.home / "clone"
    (folder / ".git").mkdir(parents=True)
    (folder / "outfitter.toml").write_text('[env]\nset = { DATABASE = "x" }\n')
    (folder / ".envrc").write_text("export DATABASE_URL=x\n")
    grant = f"outfitter trust {folder}"
    done = user.run("env", "explain", "--cwd", "clone", "DATABASE")
    why = f"nobody has allowed the files that set it: {grant}"
    assert words(done.stdout)[0] == f"DATABASE not set: L3 project: {why} ({folder}/outfitter.toml:2)"
    done = user.run("env", "explain", "--cwd", "clone", "DATABASE_URL")
    assert done.returncode == 1
    assert done.stderr.startswith(b"outfitter: DATABASE_URL is neither a variable nor a program in PATH; ")
    assert f"direnv:{folder}/.envrc is blocked and may set it: ".encode() in done.stderr
    assert b"direnv allow" in done.stderr
    told = words(user.run("env", "--cwd", "clone").stdout)
    assert f"would change DATABASE: to see how, and to allow it, type: {grant}" in told
    done = user.run("run", "--cwd", "clone", "--", "true")
    assert f"would change DATABASE: to see how, and to allow it, type: {grant}".encode() in done.stderr


@pytest.mark.parametrize(("typed", "meant"), [("PAHT", "PATH"), ("plian", "PLAIN"), ("pyhton3", "python3")])
def test_a_slip_of_the_hand_is_noticed(user: User, typed: str, meant: str) -> None:
    done = user.run("env", "explain", typed, env=SECRETS)
    assert done.returncode == 1
    line = f"outfitter: {typed} is neither a variable nor a program in PATH; did you mean {meant}?\n"
    assert done.stderr.decode() == line


def test_an_anonymous_page_names_neither_host_nor_user(user: User) -> None:
    (user.home / "below").mkdir()
    done = user.run("env", "explain", "--anonymous", "--json", "--html", "page.html", "--cwd", "below")
    told = json.loads(done.stdout)
    assert told["cwd"] == "~/below"
    assert not {"host", "user", "pid"} & set(told["base"])
    page = (user.home / "page.html").read_text()
    assert str(user.home) not in page
    assert "~/below" in page


def test_a_hook_of_an_agent_that_is_gone_is_told(user: User) -> None:
    session = user.home / ".claude/session-env/one"
    session.mkdir(parents=True)
    (session / "sessionstart-hook-0.sh").write_text(f"{BEGIN}\nexport A=1\n")
    said = (
        "agents: 1 session of Claude Code would keep old variables when resumed, because the hook is gone; "
        "type: outfitter doctor"
    )
    assert said in user.run("env", "explain").stdout.decode().splitlines()
    assert b"agents:" not in user.run("env", "explain", "PATH").stdout
    (user.home / ".claude/settings.json").write_text('{"hooks": "outfitter hook claude"}')
    assert b"agents:" not in user.run("env", "explain").stdout
