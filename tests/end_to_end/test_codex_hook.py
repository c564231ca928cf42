"""The stock Codex client and a project's environment: a server of ours that it starts, and its own hooks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from outfitter.agents.hooks import codex_environments
from tests.support.codex import Run, run_codex
from tests.support.model import Model, Script, exec_command, modelling

OUTFITTER = [sys.executable, "-m", "outfitter"]
TELLS = """#!/bin/sh
echo '{"set": {"TOLD": "by it"}, "path": [{"var": "PATH", "op": "prepend", "value": "'"$PWD"'/bin"}]}'
"""
# Not one of them waits for a person to look at the hooks first.
UNASKED = ("--dangerously-bypass-hook-trust",)


class Machine:
    """A project with a provider that is trusted, and a home for Codex."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.project = root / "project"
        (self.project / ".git").mkdir(parents=True)
        self.home.mkdir()
        self.say('[providers]\nuse = ["command"]\ncommand = ["./tells"]\n\n[env]\nset = { OURS = "1" }\n')
        self.script(self.project / "tells", TELLS)
        self.script(self.project / "bin" / "which-one", "#!/bin/sh\necho project\n")
        # As an installation has it: the name alone is found.
        self.script(root / "bin" / "outfitter", f'#!/bin/sh\nexec {" ".join(OUTFITTER)} "$@"\n')
        self.env = {
            "PATH": f"{root}/bin:{os.environ['PATH']}",
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(self.home / "state"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
        }
        self.outfitter("trust", "--yes", str(self.project))

    @staticmethod
    def script(path: Path, text: str) -> None:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def say(self, text: str) -> None:
        (self.project / "outfitter.toml").write_text(text)

    def outfitter(self, *words: str) -> str:
        done = subprocess.run(
            [*OUTFITTER, *words], capture_output=True, check=True, env=self.env, cwd=self.home
        )
        return done.stdout.decode()

    def run(self, tables: str = "", environments: str | None = None) -> tuple[Run, Model]:
        def script() -> Script:
            # In its own processes Codex reads output and errors in any order.
            yield [exec_command('echo "$(which-one 2>/dev/null) ${TOLD-no} ${OURS-no}"')]
            return "done"

        with modelling(script) as model:
            run = run_codex(
                self.home,
                model=model.url,
                cwd=self.project,
                env=self.env,
                tables=tables,
                environments=environments,
                args=UNASKED,
            )
        assert (run.exit_code, run.message) == (0, "done"), (run, model.outputs)
        return run, model


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def context(model: Model) -> list[str]:
    """What our hook has told the model."""
    texts = [
        part["text"]
        for item in model.requests[0]["input"]
        if item["type"] == "message" and item["role"] == "developer"
        for part in item["content"]
    ]
    return [text for text in texts if text.startswith("env: ")]


def test_a_server_that_codex_starts_gives_commands_the_environment(machine: Machine) -> None:
    written = machine.outfitter("hook", "codex", "--print-environments")
    assert written == codex_environments(sys.executable, ["-m", "outfitter"])
    for text in (written, codex_environments("outfitter")):
        _, model = machine.run(environments=text)
        assert [output.text for output in model.outputs] == ["project by it 1\n"]


def test_the_hook_tells_the_model_what_there_is_and_how_to_get_it(machine: Machine) -> None:
    _, model = machine.run(machine.outfitter("hook", "codex", "--print-config"))
    [line] = context(model)
    assert line.startswith("env: base=launcher, policy=none, provider=command:./tells(applied, 2)+project(")
    assert line.endswith("; to apply it to a command: `outfitter run -- CMD`")


def test_this_version_takes_no_variables_from_a_hook(machine: Machine) -> None:
    """So --env is not for it: it takes nothing at all then. When this fails, rewrite the guide."""
    tables = machine.outfitter("hook", "codex", "--print-config", "--env")
    assert "hook codex --env" in tables
    _, model = machine.run(tables)
    assert context(model) == []
    assert [output.text for output in model.outputs] == [" no no\n"]


def test_a_mistake_keeps_no_session_from_starting(machine: Machine) -> None:
    tables = machine.outfitter("hook", "codex", "--print-config")
    machine.say("[env]\nset = 1\n")
    _, model = machine.run(tables)
    [line] = context(model)
    assert line.startswith("env: the environment of the project was not applied: ")
    assert json.dumps(line).endswith('(see `outfitter doctor`)"')
