"""The plugin as a harness author uses it: in a folder of their own, with a pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from outfitter.agents.parity import RULES

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "autoskillit.toml"
BACKENDS, KINDS = 3, 6


def run(folder: Path, *args: str) -> tuple[int, str]:
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *args]
    env = {**os.environ, "PYTHONPATH": "", "COLUMNS": "200"}
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_contract_is_judged_with_no_code(tmp_path: Path) -> None:
    status, said = run(tmp_path, f"--outfitter-contracts={EXAMPLE}")
    assert status == 0
    assert f"{BACKENDS * KINDS * len(RULES)} passed" in said


def test_contract_of_the_project_is_found_and_a_missing_name_is_told(tmp_path: Path) -> None:
    (tmp_path / "outfitter.toml").write_text('[agents.kinds.skill]\nrequires = ["RUN_ID", "TEAM"]\n')
    status, said = run(tmp_path, "--outfitter-contracts")
    assert status == 1
    assert (
        "codex, skill: RUN_ID: required, and no layer sets it; TEAM: required, and no layer sets it" in said
    )
    failed = [line.split(" ")[1] for line in said.splitlines() if line.startswith("FAILED")]
    assert failed == [
        f"::outfitter-contracts::{name}-skill-required" for name in ("codex", "claude", "gemini")
    ]


TEN_LINES = """
import pytest
from outfitter.agents import CommandSpec, Kind, LaunchContract

CONTRACT = LaunchContract("mine", (Kind("skill", requires=("RUN_ID",)),))

def build(order):
    return CommandSpec(CONTRACT, order.backend, order.kind, order.task, base=order.base, extras=order.extras)

@pytest.mark.outfitter(CONTRACT)
def test_launches(outfitter_case):
    outfitter_case.check(build)
"""


def test_builder_of_a_harness_is_judged_in_ten_lines(tmp_path: Path) -> None:
    test = tmp_path / "test_launches.py"
    test.write_text(TEN_LINES)
    status, said = run(tmp_path)
    assert status == 1
    assert "RUN_ID: required, and no layer sets it" in said
    test.write_text(TEN_LINES.replace("extras=order.extras", 'extras={**order.extras, "RUN_ID": "7"}'))
    status, said = run(tmp_path)
    assert (status, f"{BACKENDS * len(RULES)} passed" in said) == (0, True)


@pytest.mark.parametrize("args", [["--outfitter-contracts"], ["--outfitter-contracts=absent.toml"]])
def test_contract_that_cannot_be_read_is_a_usage_error(tmp_path: Path, args: list[str]) -> None:
    status, said = run(tmp_path, *args)
    assert status == pytest.ExitCode.USAGE_ERROR
    assert "cannot read the launch contract" in said


def test_pytest_loads_outfitter_as_it_is() -> None:
    import outfitter.contract.answers as module

    assert type(module.__loader__).__name__ == "SourceFileLoader"


def test_third_partys_backend_is_judged_without_being_named(tmp_path: Path) -> None:
    package = tmp_path / "site"
    info = package / "stranger-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[outfitter.agents]\nstranger = stranger:Stranger\n")
    (package / "stranger.py").write_text(
        "from outfitter.agents import Backend\n"
        "class Stranger(Backend):\n"
        "    name = 'stranger'\n"
        "    program = 'stranger'\n"
        "    denied = ('SECRET_OF_OTHERS_*',)\n"
        "    def argv(self, kind, task):\n"
        "        return ['stranger', *(() if kind == 'resume' else ('--box', task.sandbox)), task.prompt]\n"
        "    def guards(self, argv):\n"
        "        return tuple(word for word in argv if word.startswith(('read', 'work', 'danger')))\n"
    )
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    env = {**os.environ, "PYTHONPATH": str(package), "COLUMNS": "200"}
    done = subprocess.run(
        [*words, f"--outfitter-contracts={EXAMPLE}"], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED ::outfitter-contracts::stranger-skill-resume-keeps-sandbox" in done.stdout
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    assert [line for line in failed if "contracts::stranger-" not in line] == []
