"""outfitter agent and outfitter contract, as a person or a script uses them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from outfitter.agents.backends import registered
from outfitter.agents.parity import RULES
from outfitter.cli.agents.sessions import AgentSession, AgentSessions
from outfitter.errors import SettingInvalid
from outfitter.formats.launchfile import parse_contract
from tests.cli.commandline import OUTFITTER, User
from tests.support.machine import SECOND
from tests.support.servers import serving

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "autoskillit.toml"


@pytest.fixture
def project(user: User) -> Path:
    """The folder that command lines run in is a project with a contract."""
    path = user.home / "outfitter.toml"
    path.write_text(
        '[agents]\nname = "mine"\n[agents.kinds.skill]\nrequires = ["RUN_ID", "TEAM"]\nforbids = ["BAD_*"]\n'
    )
    return path


# check


def test_check_tells_every_broken_rule_and_fails(user: User, project: Path) -> None:
    done = user.run("contract", "check", "--kind", "skill", "--agent", "codex")
    assert done.stdout.decode().splitlines() == [
        "AGENT  KIND   REQUIRED  FORBIDDEN  FRESH  EXTRAS  RESUME-KEEPS-SANDBOX",
        "codex  skill  BROKEN    ok         -      -       -",
        "codex, skill, required: RUN_ID: required, and no layer sets it; "
        "TEAM: required, and no layer sets it",
    ]
    assert (done.returncode, done.stderr) == (1, b"")


def test_check_counts_what_the_harness_passes(user: User, project: Path) -> None:
    done = user.run("contract", "check", "--env", "RUN_ID=1", "--env", "TEAM=2", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["contract"], told["ok"]) == (0, "mine", True)
    assert len(told["results"]) == len(registered()) * 5 * len(RULES)
    assert told["results"][0] == {
        "agent": "codex",
        "kind": "skill",
        "rule": "required",
        "ok": True,
        "names": [],
    }


def test_check_names_a_forbidden_name(user: User, project: Path) -> None:
    sets = ("--env", "RUN_ID=1", "--env", "TEAM=2", "--env", "BAD_IDEA=3")
    done = user.run("contract", "check", "--kind", "skill", "--agent", "claude", *sets)
    assert done.returncode == 1
    told = "claude, skill, forbidden: BAD_IDEA: BAD_* is forbidden: given by the caller for this launch"
    assert told in done.stdout.decode()


def test_check_of_the_example_passes(user: User) -> None:
    assert user.run("contract", "check", str(EXAMPLE)).returncode == 0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "no launch contract: there is no outfitter.toml here"),
        ("[agents]\nnam = 1\n", "outfitter.toml:2: unknown field `nam`; did you mean `name`?"),
    ],
)
def test_check_without_a_contract_says_what_to_do(user: User, text: str | None, told: str) -> None:
    if text is not None:
        (user.home / "outfitter.toml").write_text(text)
    done = user.run("contract", "check")
    assert (done.returncode, done.stdout) == (1, b"")
    assert told in done.stderr.decode()


def test_commands_work_in_a_project_with_a_contract(user: User, project: Path) -> None:
    done = user.run("run", "--", "echo", "hello")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"hello\n", b"")


# diff


def test_diff_of_two_contracts_names_each_difference(user: User, project: Path) -> None:
    other = user.home / "other.toml"
    other.write_text(
        'name = "mine"\n[kinds.skill]\nrequires = ["RUN_ID"]\nset = { A = "1" }\n[kinds.truck]\n'
    )
    done = user.run("contract", "diff", str(project), str(other), "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["differences"] == [
        {"what": "skill.requires", "before": "TEAM", "after": "-"},
        {"what": "skill.forbids", "before": "BAD_*", "after": "-"},
        {"what": "skill.set.A", "before": "-", "after": "1"},
        {"what": "kind truck", "before": "-", "after": "yes"},
    ]
    assert user.run("contract", "diff", str(other), str(other)).returncode == 0


def test_diff_of_two_agents_names_what_each_never_inherits(user: User) -> None:
    done = user.run("contract", "diff", "codex", "claude")
    lines = [re.split(r"\s{2,}", line) for line in done.stdout.decode().splitlines()]
    assert ["program", "codex", "claude"] in lines
    assert ["never inherits", "-", "OPENAI_API_KEY"] in lines
    mixed = user.run("contract", "diff", "codex", str(EXAMPLE))
    assert b"two agents, or two files" in mixed.stderr


# init and list


def test_first_contract_has_what_a_command_has_and_passes(user: User) -> None:
    done = user.run("contract", "init", "--kind", "skill", "--name", "mine", env={"MY_RUN": "1"})
    contract = parse_contract(done.stdout.decode(), "launch.toml")
    assert contract.name == "mine"
    assert "MY_RUN" in contract.kind("skill").requires
    assert not {"PATH", "HOME"} & set(contract.kind("skill").requires)
    (user.home / "launch.toml").write_bytes(done.stdout)
    sets = [word for name in contract.kind("skill").requires for word in ("--env", f"{name}=1")]
    assert user.run("contract", "check", "launch.toml", *sets).returncode == 0


def test_agents_are_listed(user: User) -> None:
    told = json.loads(user.run("agent", "list", "--json").stdout)["agents"]
    assert [one["name"] for one in told] == ["codex", "claude", "gemini"]
    assert "CLAUDE_CODE_*" in told[0]["denied"]
    assert b"CLAUDE_CODE_*" in user.run("agent", "list").stdout


# run


def test_dry_run_shows_the_command_and_where_each_variable_comes_from(user: User, project: Path) -> None:
    leaks = {"CLAUDE_CODE_X": "leak", "MY_TOKEN": "hush-hush-hush"}
    words = ("--kind", "skill", "--env", "RUN_ID=7", "--env", "TEAM=a", "--model", "m", "--add-dir", "/two")
    done = user.run("agent", "run", "codex", *words, "--dry-run", "--json", "--", "fix", "it", env=leaks)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    options = ["--sandbox", "workspace-write", "--model", "m", "--add-dir", "/two"]
    assert told["argv"] == ["codex", "exec", "--json", *options, "--", "fix it"]
    assert (told["agent"], told["kind"], told["contract"], told["cwd"]) == (
        "codex",
        "skill",
        "mine",
        str(user.home),
    )
    given = {"origin": "extra", "detail": "given by the caller for this launch"}
    assert told["variables"]["RUN_ID"] == {**given, "value": "7"}
    assert told["variables"]["MY_TOKEN"]["secret"] is True
    assert told["variables"]["HOME"]["origin"] == "launcher"  # where the environment contract has it from
    assert told["dropped"] == {"CLAUDE_CODE_X": "codex never inherits CLAUDE_CODE_*"}
    shown = user.run("agent", "run", "codex", *words, "--dry-run", "--", "fix", "it", env=leaks)
    assert b"  RUN_ID=7  # given by the caller for this launch" in shown.stdout.splitlines()
    assert b"hush" not in shown.stdout + done.stdout


def test_dry_run_hides_what_a_provider_says_is_secret(user: User, project: Path) -> None:
    (user.home / ".env").write_text("HARMLESS=hush\n")
    with open(user.home / "outfitter.toml", "a") as file:
        file.write('\n[providers]\ndotenv = [".env"]\n')
    assert user.run("trust", "--yes").returncode == 0
    words = ("agent", "run", "codex", "--kind", "skill", "--env", "RUN_ID=7", "--env", "TEAM=a", "--dry-run")
    told = user.run(*words, "--json", "--", "fix", "it")
    assert json.loads(told.stdout)["variables"]["HARMLESS"]["secret"] is True
    shown = user.run(*words, "--", "fix", "it")
    assert b"  HARMLESS=(secret)" in shown.stdout
    assert b"hush" not in told.stdout + shown.stdout


def test_launch_that_breaks_its_contract_starts_nothing(user: User, project: Path) -> None:
    marker = user.home / "started"
    program = user.home / "codex"
    program.write_text(f"#!/bin/sh\ntouch {marker}\n")
    program.chmod(0o755)
    path = {"PATH": f"{user.home}:/usr/bin:/bin"}
    done = user.run("agent", "run", "codex", "--kind", "skill", "--env", "TEAM=a", "--", "go", env=path)
    assert done.returncode == 125
    told = "codex cannot be launched as `skill`: RUN_ID: required, and no layer sets it"
    assert done.stderr.decode() == f"outfitter: {told}\n"
    assert not marker.exists()
    sets = ("--env", "TEAM=a", "--env", "RUN_ID=1")
    assert user.run("agent", "run", "codex", "--kind", "skill", *sets, "--", "go", env=path).returncode == 0
    assert marker.exists()


def test_what_a_project_sets_for_an_agent_waits_for_a_word(user: User, tmp_path: Path) -> None:
    text = '[agents]\nname = "mine"\n[agents.kinds.skill]\nset = {{ NODE_OPTIONS = "{}", NO_COLOR = "1" }}\n'
    path = user.home / "outfitter.toml"
    path.write_text(text.format("--require ./a.js"))
    launch = ("agent", "run", "claude", "--dry-run", "--kind")
    done = user.run(*launch, "skill", "--", "hi")
    assert (done.returncode, done.stdout) == (125, b"")
    assert done.stderr.decode() == (
        "outfitter: the project's contract would set NODE_OPTIONS for the agent: to see how, and to allow "
        f"it, type: outfitter trust {user.home}\n"
    )
    assert user.run(*launch, "interactive", "--", "hi").returncode == 0
    trusted = user.run("trust", "--yes")
    line = "  does   sets NODE_OPTIONS=--require ./a.js, with [agents.kinds.skill]"
    assert line in trusted.stdout.decode().splitlines()
    done = user.run(*launch, "skill", "--", "hi")
    assert (done.returncode, b"  NODE_OPTIONS=--require ./a.js  #" in done.stdout) == (0, True)
    path.write_text(text.format("--require ./other.js"))
    assert user.run(*launch, "skill", "--", "hi").returncode == 125
    named = tmp_path / "named.toml"
    named.write_text(path.read_text())
    assert user.run(*launch, "skill", "--contract", str(named), "--", "hi").returncode == 0


def test_agent_runs_on_a_server_with_what_commands_have_there(user: User, project: Path) -> None:
    program = user.home / "codex"
    program.write_text("#!/bin/sh\nprintenv RUN_ID FROM_THERE OUTFITTER_LAUNCH_KIND\n")
    program.chmod(0o755)
    there = {"PATH": f"{user.home}:/usr/bin:/bin", "FROM_THERE": "yes"}
    sets = ("--env", "RUN_ID=7", "--env", "TEAM=a")
    with serving("outfitter", user.home, env=user.env(there)) as server:
        done = user.run("agent", "run", "codex", "--on", server.url, "--kind", "skill", *sets, "--", "go")
    assert (done.returncode, done.stdout) == (0, b"7\nyes\nskill\n"), done.stderr


def test_agent_starts_from_the_environment_that_is_configured(user: User) -> None:
    user.config.mkdir(parents=True, exist_ok=True)
    (user.config / "config.toml").write_text('[daemon]\nenvironment = "client"\n')
    with serving("outfitter", user.home) as server:
        words = ("agent", "run", "codex", "--on", server.url, "--dry-run", "--", "go")
        done = user.run(*words, env={"MINE": "mine"})
    assert b"\n  MINE=mine  # " in done.stdout


def test_what_an_agent_prints_can_be_told_as_events(user: User) -> None:
    program = user.home / "bin" / "codex"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho hello; exit 3\n")
    program.chmod(0o755)
    done = user.run(
        "agent", "run", "codex", "--json", "--", "x", env={"PATH": f"{program.parent}:/usr/bin:/bin"}
    )
    assert done.returncode == 3, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"event": "output", "stream": "stdout", "text": "hello\n"},
        {"event": "exited", "exitCode": 3},
    ]


def test_agent_can_be_confined_on_the_executor(user: User) -> None:
    program = user.home / "codex"
    program.write_text("#!/bin/sh\ntouch /var/tmp/outfitter-escaped || echo confined\n")
    program.chmod(0o755)
    path = {"PATH": f"{user.home}:/usr/bin:/bin"}
    done = user.run("agent", "run", "codex", "--confine", "workspace-write", "--", "go", env=path)
    assert (done.returncode, done.stdout) == (0, b"confined\n"), done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("cursor",), "no agent is called `cursor`: there are codex, claude, gemini"),
        (("codex", "--kind", "truck"), "has no launch kind `truck`"),
        (("codex", "--contract", "absent.toml"), "cannot read absent.toml: No such file or directory"),
    ],
)
def test_what_cannot_be_launched_is_told(user: User, words: tuple[str, ...], told: str) -> None:
    done = user.run("agent", "run", *words, "--", "go")
    assert (done.returncode, done.stdout) == (125, b"")
    assert told in done.stderr.decode()


def test_what_would_be_launched_is_told_without_what_steers_a_terminal(user: User) -> None:
    folder = user.home / "a\x1b]0;b\x07"
    folder.mkdir()
    (folder / "outfitter.toml").write_text('[agents]\nname = "n\\u001b]0;x\\u0007"\n')
    words = [*OUTFITTER, "agent", "run", "codex", "--dry-run", "--", "go"]
    done = subprocess.run(words, cwd=folder, env=user.env(), capture_output=True, timeout=60 * SECOND)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().splitlines()[:2] == [
        "codex headless (contract n\\x1b]0;x\\x07)",
        f"  cwd  {user.home}/a\\x1b]0;b\\x07",
    ]


def test_a_project_s_file_that_is_none_is_neither_waited_for_nor_read_without_end(user: User) -> None:
    path = user.home / "outfitter.toml"
    os.mkfifo(path)
    done = user.run("agent", "run", "codex", "--dry-run", "--", "go")
    assert (done.returncode, done.stdout) == (125, b"")
    assert f"cannot read {path}: It is a pipe, not a file" in done.stderr.decode()
    path.unlink()
    path.touch()
    os.truncate(path, 1 << 40)
    done = user.run("agent", "run", "codex", "--dry-run", "--", "go")
    assert (done.returncode, done.stdout) == (125, b"")
    assert f"{path} is too large to be a launch contract" in done.stderr.decode()


# Sessions


def session(ident: str, started: float, cwd: str = "/work") -> AgentSession:
    return AgentSession(
        "codex", ident, "local", cwd, "skill", "mine", "read-only", ("sandbox=read-only",), started
    )


def test_session_is_found_by_its_id_or_as_the_last_of_a_folder(tmp_path: Path) -> None:
    sessions = AgentSessions({"XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)})
    assert sessions.find("codex", "local", "", "/work") is None
    for one in (session("a/../b", 1.0), session("b", 3.0), session("c", 2.0), session("d", 9.0, "/other")):
        sessions.add(one)
    assert sessions.find("codex", "local", "a/../b", "/elsewhere") == session("a/../b", 1.0)
    assert sessions.find("codex", "local", "", "/work") == session("b", 3.0)
    assert sessions.find("claude", "local", "b", "/work") is None
    assert sessions.find("codex", "far", "", "/work") is None


def test_session_file_that_is_broken_is_not_one(tmp_path: Path) -> None:
    sessions = AgentSessions({"XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)})
    sessions.add(session("a", 1.0))
    [path] = (tmp_path / "outfitter" / "agents").iterdir()
    assert path.stat().st_mode & 0o077 == 0
    for text in ("", "[]", "{}", '{"guards": 1}', "[" * 10_000):
        path.write_text(text)
        assert sessions.find("codex", "local", "a", "/work") is None


def test_session_that_cannot_be_read_is_not_taken_for_none(tmp_path: Path) -> None:
    sessions = AgentSessions({"XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)})
    sessions.add(session("a", 1.0))
    [path] = (tmp_path / "outfitter" / "agents").iterdir()
    path.unlink()
    path.mkdir()  # so that nobody can read it, root neither
    for ident in ("a", ""):
        with pytest.raises(SettingInvalid, match="cannot read how the session was launched"):
            sessions.find("codex", "local", ident, "/work")


def test_session_of_an_older_version_is_one(tmp_path: Path) -> None:
    sessions = AgentSessions({"XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)})
    sessions.add(session("a", 1.0))
    [path] = (tmp_path / "outfitter" / "agents").iterdir()
    told = json.loads(path.read_text())
    del told["add_dirs"]
    path.write_text(json.dumps(told))
    assert sessions.find("codex", "local", "a", "/work") == session("a", 1.0)


def test_resume_has_the_directories_of_its_launch_and_no_others(user: User) -> None:
    program = user.home / "bin" / "codex"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho \'{"type": "thread.started", "thread_id": "t"}\'; echo "$@"\n')
    program.chmod(0o755)

    def launched(*words: str) -> subprocess.CompletedProcess[bytes]:
        path = {"PATH": f"{program.parent}:/usr/bin:/bin"}
        return user.run("agent", "run", "codex", *words, "--", "go", env=path)

    assert launched("--add-dir", "/one", "--add-dir", "/two").returncode == 0
    again = launched("--kind", "resume").stdout.decode().splitlines()[1]
    assert again == "exec --json --sandbox workspace-write --add-dir /one --add-dir /two resume -- t go"
    wider = launched("--kind", "resume", "--add-dir", "/")
    assert (wider.returncode, wider.stdout) == (125, b"")
    assert b"had sandbox=workspace-write, add-dir=/one, add-dir=/two; this one has" in wider.stderr


def test_resume_of_a_session_that_nobody_knows_says_what_it_may_do(user: User) -> None:
    # One that was launched in a terminal says no id, and the oldest of a thousand are forgotten.
    words = ("agent", "run", "codex", "--kind", "resume", "--session", "unknown", "--dry-run")
    done = user.run(*words, "--", "go")
    told = (
        "outfitter: how this session was launched is not known: it goes on with --sandbox workspace-write\n"
    )
    assert (done.returncode, done.stderr.decode()) == (0, told)
    assert user.run(*words, "--sandbox", "read-only", "--", "go").stderr == b""


# Integrations


def shell(text: str, *args: str, user: User, env: dict[str, str] | None = None) -> int:
    """What a runner does with a line of YAML, where `outfitter` is ours and `python3` notes its words."""
    programs = user.home / "bin"
    programs.mkdir(exist_ok=True)
    for name, line in (("outfitter", f'{shlex.join(OUTFITTER)} "$@"'), ("python3", 'echo "$@" >told')):
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    given = user.env({"PATH": f"{programs}:/usr/bin:/bin", **(env or {})})
    words = [*shlex.split(text), *args] if args else ["sh", "-ec", text]
    return subprocess.run(words, cwd=user.home, env=given, capture_output=True, timeout=60).returncode


def test_commit_that_changes_several_contracts_is_judged_by_each(user: User) -> None:
    [repo] = yaml.safe_load((ROOT / "integrations/pre-commit/pre-commit-config.yaml").read_text())["repos"]
    entry = repo["hooks"][0]["entry"]
    good, bad = "good.toml", "bad.toml"
    (user.home / good).write_text('name = "good"\n[kinds.skill]\nset = { A = "1" }\n')
    (user.home / bad).write_text('name = "bad"\n[kinds.skill]\nrequires = ["A"]\n')
    assert shell(entry, good, good, user=user) == 0
    assert [shell(entry, *files, user=user) for files in ((good, bad), (bad, good), (bad,))] == [1, 1, 1]


def test_action_installs_its_own_version_and_checks(user: User) -> None:
    action = yaml.safe_load((ROOT / "integrations/github-action/action.yml").read_text())
    install, check = action["runs"]["steps"]
    default = {"OUTFITTER_VERSION": action["inputs"]["version"]["default"]}
    path = str(ROOT / "integrations" / "github-action")
    assert shell(install["run"], user=user, env={**default, "GITHUB_ACTION_PATH": path}) == 0
    [*_, installed] = (user.home / "told").read_text().split()
    assert (Path(installed) / "pyproject.toml").samefile(ROOT / "pyproject.toml")
    assert shell(check["run"], user=user, env={"OUTFITTER_CONTRACT": str(EXAMPLE)}) == 0
    assert shell(check["run"], user=user, env={"OUTFITTER_CONTRACT": "none"}) == 1
