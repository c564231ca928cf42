"""Claude Code, unchanged, with `outfitter hook claude` in its settings: its commands get the environment.

The model is scripted and on loopback; everything else is real: the agent, its shells, our hooks, the files.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from outfitter.agents.hooks import BEGIN, END
from tests.support.claude import Call, Run, Say, bash, run_claude, subagent
from tests.support.contracts import allow
from tests.support.tools import claude_binary, program

OUTFITTER = [sys.executable, "-m", "outfitter"]
SECRET = "hush-hush-hush"
# Quotes, a mark of ours, what a shell would expand, and lines.
ODD = f"""it's "$HOME" `id` \\ !x\n{END}\nexport INJECTED=1\n{BEGIN}\n# end"""
TELLS = """#!/bin/sh
echo '{"set": {"TOLD": "by the program"}}'
"""


class Machine:
    """A home with the hooks in Claude Code's settings, and projects."""

    def __init__(self, root: Path, which: str = "claude") -> None:
        self.which = which
        self.root = root
        self.home = root / "home"
        self.home.mkdir()
        self.env = {
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_STATE_HOME": str(self.home / "state"),
            "OURS": "the agent's",
            "GONE": "the agent's",
        }
        done = subprocess.run(
            [*OUTFITTER, "hook", "claude", "--print-settings"], capture_output=True, check=True
        )
        self.settings = json.loads(done.stdout)

    def project(self, name: str, text: str) -> Path:
        folder = self.root / name
        (folder / ".git").mkdir(parents=True)
        (folder / "bin").mkdir()
        (folder / "bin" / "which-one").write_text(f"#!/bin/sh\necho {name}\n")
        (folder / "bin" / "which-one").chmod(0o755)
        self.say(folder, text)
        return folder

    def say(self, folder: Path, text: str) -> None:
        (folder / "outfitter.toml").write_text(text)
        allow(folder, {"HOME": str(self.home), **self.env})

    def run(self, cwd: Path, *calls: Call, resume: Run | None = None, more: Sequence[str] = ()) -> Run:
        args = ["--add-dir", str(self.root), *more]  # where a session's commands may change to
        args += [] if resume is None else ["--resume", resume.session]
        run = run_claude(
            self.home, cwd, *calls, settings=self.settings, args=args, env=self.env, which=self.which
        )
        assert (run.exit_code, run.stderr) == (0, ""), run
        return run

    def files(self, run: Run) -> dict[str, str]:
        """The environment files of a session."""
        folder = self.home / ".claude" / "session-env" / run.session
        return {path.name: path.read_text() for path in sorted(folder.iterdir())}

    def holds(self, text: str) -> list[Path]:
        """Files that the agent keeps with this text in them."""
        found = (path for path in (self.home / ".claude").rglob("*") if path.is_file())
        return [path for path in found if text.encode() in path.read_bytes()]


@pytest.fixture(params=["claude", "claude-next"])
def machine(tmp_path: Path, request: pytest.FixtureRequest) -> Machine:
    claude_binary(request.param)
    return Machine(tmp_path, request.param)


ONE = f"""\
[env]
set = {{ OURS = "one", API_TOKEN = "{SECRET}" }}
unset = ["GONE"]
prepend = {{ PATH = ["bin"] }}
"""
TWO = """\
[env]
set = { ALSO = "two" }
prepend = { PATH = ["bin"] }
"""
PROBE = 'echo "$(which-one) ${OURS-no} ${ALSO-no} ${GONE-no} ${API_TOKEN-no}"'


def test_commands_get_what_the_project_says_and_no_secret_is_written_down(machine: Machine) -> None:
    one = machine.project("one", ONE)
    run = machine.run(one, bash(PROBE), subagent("have a look"), bash(PROBE), Say("looked"))
    assert run.outputs[0] == run.outputs[2] == "one one no no no"  # 1 is the subagent itself
    [hook] = run.hooks
    assert (hook["exit_code"], hook["outcome"]) == (0, "success")
    line = "env: base=launcher, policy=none, provider=project(applied, 4), setup=none"
    assert f"{line}; secrets are not passed to commands: API_TOKEN (" in run.told
    assert SECRET not in run.told
    assert machine.holds(SECRET) == []
    [(name, text)] = machine.files(run).items()
    assert name == "sessionstart-hook-0.sh"
    assert text.startswith(f"{BEGIN}\nunset GONE\nexport OURS='one'\n")
    mode = (machine.home / ".claude" / "session-env" / run.session / name).stat().st_mode
    assert mode & 0o777 == 0o600


def test_another_project_takes_the_place_of_the_first_and_leaves_nothing(machine: Machine) -> None:
    one, two = machine.project("one", ONE), machine.project("two", TWO)
    there, here = "two the agent's two the agent's no", "one one no no no"
    # The agent does not wait for its hook after a change of directory.
    run = machine.run(
        one, bash(f"cd {two}"), bash(PROBE, until=there), bash(f"cd {one}/bin"), bash(PROBE, until=here)
    )
    assert run.outputs[1::2] == [there, here]
    text = "".join(machine.files(run).values())
    assert (text.count(BEGIN), "ALSO" in text) == (1, False)


def test_a_resumed_session_has_it_once_and_after_a_mistake_not_at_all(machine: Machine) -> None:
    one = machine.project("one", ONE)
    first = machine.run(one, bash(PROBE))
    assert first.outputs == ["one one no no no"]
    machine.say(one, TWO)
    again = machine.run(one, bash(PROBE), resume=first)
    assert again.outputs == ["one the agent's two the agent's no"]
    assert again.session == first.session
    text = "".join(machine.files(again).values())
    assert (text.count(BEGIN), text.count(END), "OURS" in text) == (1, 1, False)

    (one / "outfitter.toml").write_text("[env]\nset = 1\n")
    again = machine.run(one, bash(PROBE), resume=first)
    assert again.outputs[0].endswith("the agent's no the agent's no")
    [hook] = again.hooks
    assert (hook["exit_code"], hook["outcome"]) == (0, "success")
    message = json.loads(hook["stdout"])["systemMessage"]
    why = f"the environment of the project was not applied: {one}/outfitter.toml:2: "
    assert message.startswith(f"outfitter: {why}")
    assert message.endswith("(see `outfitter doctor`)")
    assert why in again.told
    assert "".join(machine.files(again).values()) == ""


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_values_arrive_to_the_letter(machine: Machine, shell: str) -> None:
    one = machine.project("one", f"[env]\nset = {{ ODD = {json.dumps(ODD)} }}\n")
    look = bash('printf %s "$ODD" > odd; echo "${INJECTED-no}"')
    # For one session, without a file: claude --settings "$(outfitter hook claude --print-settings)"
    args = ["--settings", json.dumps(machine.settings)]
    env = {**machine.env, "SHELL": program(shell)}
    run = run_claude(machine.home, one, look, settings={}, args=args, env=env, which=machine.which)
    assert run.outputs == ["no"]
    assert (one / "odd").read_text() == ODD


def test_what_is_allowed_while_a_session_runs_reaches_its_next_command(machine: Machine) -> None:
    one = machine.project("one", '[providers]\nuse = ["command"]\ncommand = ["./tells"]\n')
    (one / "tells").write_text(TELLS)
    (one / "tells").chmod(0o755)
    grant = " ".join([*OUTFITTER, "trust", "--yes", str(one)])
    run = machine.run(
        one,
        bash("echo ${TOLD-no}"),
        bash(f"{grant} > granted"),
        bash("sleep 0.1; echo ${TOLD-no}", until="by the program"),
    )
    assert (run.outputs[0], run.outputs[2]) == ("no", "by the program")
    [hook] = run.hooks
    told = json.loads(hook["stdout"])
    blocked = f"is blocked: not trusted: read its files, then type: outfitter trust {one}"
    assert told["systemMessage"] == f"outfitter: command:./tells {blocked}"
    assert f"outfitter trust {one}" in told["hookSpecificOutput"]["additionalContext"]


@pytest.mark.parametrize("how", [("--continue",), ("--continue", "--fork-session")], ids=" ".join)
def test_a_session_that_is_continued_has_what_the_project_says_now(
    machine: Machine, how: tuple[str, ...]
) -> None:
    one = machine.project("one", ONE)
    assert machine.run(one, bash(PROBE)).outputs == ["one one no no no"]
    machine.say(one, TWO)
    run = machine.run(one, bash(PROBE), more=how)
    assert run.outputs == ["one the agent's two the agent's no"]
    (one / "outfitter.toml").write_text("")
    run = machine.run(one, bash(PROBE), more=how)
    assert run.outputs[0].endswith("the agent's no the agent's no")


def test_what_a_policy_withholds_is_not_in_commands(machine: Machine) -> None:
    one = machine.project("one", '[shell_environment_policy]\nexclude = ["GONE"]\n')
    assert machine.run(one, bash("echo ${OURS-no} ${GONE-no}")).outputs == ["the agent's no"]
