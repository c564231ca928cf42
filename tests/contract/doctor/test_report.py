"""The examination of a real machine: files, folders and a login shell of the test's own."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outfitter.cli import environmentchecks
from outfitter.contract.base import base_of
from outfitter.contract.config import Configuration
from outfitter.contract.contract import Contract
from outfitter.contract.doctor import mac
from outfitter.contract.doctor.report import CHECKS, examine
from outfitter.contract.setup.plan import make_plan
from outfitter.contract.setup.setups import trust_of
from outfitter.host import facts

DOCS = Path(__file__).resolve().parents[3] / "docs" / "reference" / "doctor.md"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def environ(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home), "PATH": "/usr/bin:/bin", "SHLVL": "1", "TERM": "dumb", **more}


def at_login(home: Path, text: str) -> Path:
    """A startup file that the account's login shell reads."""
    name = Path(facts.login_shell()).name
    if name not in ("bash", "sh", "dash", "ksh", "zsh"):
        pytest.skip(f"the login shell of this account is {name}")
    file = home / (".zprofile" if name == "zsh" else ".profile")
    file.write_text(text)
    return file


def looked(home: Path, cwd: Path | None = None, *, login: bool = False, **more: str) -> dict[str, Any]:
    checks: dict[str, Any] = examine(environ(home, **more), str(cwd or home), login=login)["checks"]
    return checks


def test_the_report_has_every_check_in_its_documented_shape(home: Path) -> None:
    report = examine(environ(home), str(home), login=False)
    assert report["schemaVersion"] == 1
    assert report["overallStatus"] in ("ok", "warning", "error")
    assert list(report["checks"]) == [check.id for check in CHECKS]
    for ident, check in report["checks"].items():
        assert list(check) == ["category", "status", "summary", "details", "remediation", "durationMs"]
        assert check["category"] == ident.split(".")[0]
        assert (check["remediation"] is not None) == (check["status"] in ("warning", "error"))
    json.dumps(report)


def test_the_page_has_every_check_and_no_other() -> None:
    text = DOCS.read_text()
    documented = re.findall(r"^\| `([a-z-]+\.[a-z-]+)` \|", text, re.MULTILINE)
    assert [name for name in documented if name.startswith("mac.")] == [check.id for check in mac.CHECKS]
    everywhere = [name for name in documented if not name.startswith("mac.")]
    checks = (*CHECKS, *environmentchecks.CHECKS)
    assert everywhere == [check.id for check in checks if check.category != "mac"]


def test_nothing_is_written(home: Path) -> None:
    looked(home)
    assert list(home.iterdir()) == []


def test_mistakes_of_files_are_an_error_and_the_rest_is_still_looked_at(home: Path) -> None:
    (home / "outfitter.toml").write_text('[shell]\nstartup = "sometimes"\n')
    report = examine(environ(home, VIRTUAL_ENV="/gone"), str(home), login=False)
    assert report["overallStatus"] == "error"
    assert f"{home}/outfitter.toml:2" in report["checks"]["config.files"]["details"][0]
    assert report["checks"]["base.stale-activation"]["status"] == "warning"


def test_the_policy_and_what_a_project_may_not_loosen_are_taken_from_the_files(home: Path) -> None:
    config = home / ".config" / "outfitter"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('[shell_environment_policy]\nexclude = ["AWS_*"]\n')
    (home / "outfitter.toml").write_text('[shell]\nstartup = "report"\n')
    checks = looked(home, AWS_A="1", AWS_B="2")
    [line] = checks["policy.effect"]["details"]
    assert line.endswith("exclude AWS_*: AWS_A, AWS_B")
    assert checks["config.ignored"]["status"] == "warning"


def test_a_login_shell_that_replaces_path_is_named_with_file_and_line(home: Path) -> None:
    profile = at_login(home, "# mine\n\nPATH=/usr/bin:/bin\nexport GITHUB_TOKEN=never-shown\n")
    config = home / ".config" / "outfitter"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('[shell_environment_policy]\nexclude = ["*_TOKEN"]\n')
    tools = home / "tools"
    tools.mkdir()
    (tools / "git").write_text("#!/bin/sh\n")
    (tools / "git").chmod(0o700)
    report = examine(
        environ(home, PATH=f"{tools}:/usr/bin:/bin", GITHUB_TOKEN="never-shown"), str(home), login=True
    )
    details = report["checks"]["path.login-shell"]["details"]
    assert details[0].startswith(f"PATH[0] {tools} is lost in a login shell (")
    assert re.search(rf"\((/etc/profile|{re.escape(str(profile))}):\d+\)$", details[0])
    wanted = f"GITHUB_TOKEN, which the policy removes, comes back ({profile}:4)"
    assert wanted in details
    programs = report["checks"]["path.programs"]
    assert programs["status"] == "warning"
    assert programs["details"][0].startswith(f"git is {tools}/git, but ")
    assert "never-shown" not in json.dumps(report)


def test_a_login_shell_that_does_not_come_back_is_a_warning(home: Path) -> None:
    at_login(home, "exit 3\n")
    checks = looked(home, login=True)
    assert checks["path.login-shell"]["status"] == "warning"
    assert checks["path.programs"]["status"] == "skipped"


def test_the_key_and_the_state_folder_are_looked_at(home: Path) -> None:
    state = home / ".local" / "state" / "outfitter"
    state.mkdir(parents=True, mode=0o700)
    key = state / "key"
    key.write_bytes(bytes(32))
    key.chmod(0o644)
    checks = looked(home)
    assert checks["key.file"]["remediation"].startswith(f"Run `chmod 600 {key}`")
    assert checks["state.folder"]["status"] == "ok"
    key.chmod(0o600)
    state.chmod(0o777)
    checks = looked(home)
    assert checks["key.file"]["status"] == "ok"
    assert checks["state.folder"]["status"] == "error"


def test_a_codex_policy_is_found_and_an_imported_one_is_in_order(home: Path) -> None:
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(
        'model = "x"\n[shell_environment_policy]\ninherit = "core"\n'
    )
    assert looked(home)["codex.config"]["status"] == "warning"
    config = home / ".config" / "outfitter"
    config.mkdir(parents=True)
    (config / "config.toml").write_text("[import]\ncodex = true\n")
    assert looked(home)["codex.config"]["status"] == "ok"


def allow_setup(home: Path) -> None:
    contract = Contract(base_of("launcher", environ(home)), Configuration(environ(home)), "/bin/sh")
    settings = contract.settings(str(home))
    use = contract.setups.use(str(home), settings)
    assert use is not None
    state = trust_of(contract.projects.store, use, make_plan(use.declared))
    contract.projects.store.grant("setup", use.worktree, state.digest)


def test_a_setup_that_would_run_is_told_and_not_run(home: Path) -> None:
    (home / "outfitter.toml").write_text('[setup]\nrun = "touch ran"\nrequired = true\n')
    found = looked(home)
    assert found["providers.present"]["status"] == "error"
    assert "may not run" in found["providers.present"]["details"][0]
    assert found["limits.size"]["status"] == "skipped"
    allow_setup(home)
    found = looked(home)
    assert found["providers.present"]["status"] == "ok"
    assert found["providers.present"]["details"] == [f"setup:{home}: new (it runs before the first command)"]
    assert not (home / "ran").exists()


def test_what_the_project_requires_and_lacks_is_not_about_sizes(home: Path) -> None:
    (home / "outfitter.toml").write_text('[providers]\nuse = ["python"]\nrequired = ["python"]\n')
    found = looked(home)
    assert found["providers.present"]["status"] == "error"
    assert "python is required" in found["providers.present"]["details"][0]
    assert found["limits.size"]["status"] == "skipped"


def test_a_provider_that_does_not_exist_is_a_mistake_of_the_file(home: Path) -> None:
    (home / "outfitter.toml").write_text('[providers]\nuse = ["pyhton"]\n')
    found = looked(home)["config.files"]
    assert found["details"] == [
        f"{home}/outfitter.toml:2: no provider is named `pyhton`; did you mean `python`?"
    ]
    assert found["remediation"].startswith(f"Edit {home}/outfitter.toml:2: did you mean `python`? `outf")


def test_providers_are_looked_for_up_to_the_top_of_the_repository(home: Path) -> None:
    (home / ".envrc").touch()
    root = home / "repo"
    (root / "src").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "mise.toml").touch()
    (root / ".venv" / "bin").mkdir(parents=True)
    (root / ".venv" / "pyvenv.cfg").touch()
    found = looked(home, root / "src")["providers.present"]
    assert found["details"][0].startswith(f"mise:{root}/mise.toml: missing (mise is not installed")
    assert found["details"][1].startswith(f"python:{root}: ")
    (root / "outfitter.toml").write_text("[providers]\nuse = []\n")
    found = looked(home, root / "src")["providers.present"]
    assert found["details"] == [
        f"{root}/mise.toml (mise): detected, not used",
        f"{root}/.venv/pyvenv.cfg (python): detected, not used",
    ]


def test_an_environment_that_is_too_large_is_told_and_the_shell_not_asked(home: Path) -> None:
    checks = looked(home, login=True, BIG="x" * 200_000)
    assert checks["limits.size"]["status"] == "error"
    assert checks["path.login-shell"]["status"] == "skipped"


def test_a_secret_in_path_is_masked(home: Path) -> None:
    checks = looked(home, PATH="/usr/bin:no/hunter2-hunter2/bin", API_TOKEN="hunter2-hunter2")
    assert "[secret:API_TOKEN]" in checks["path.segments"]["details"][0]


# Without SHELL, PATH and HOME: of them, folders and the shell are told.
_NAMES = st.sampled_from(
    (
        "BASH_ENV",
        "LD_PRELOAD",
        "API_TOKEN",
        "VIRTUAL_ENV",
        "DIRENV_DIFF",
        "DIRENV_DIR",
        "__MISE_DIFF",
        "CONDA_PREFIX",
        "A.B",
        "EDITOR",
        "INVOCATION_ID",
        "LANG",
        "BASH_FUNC_x%%",
    )
)
_VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=6).map(
    lambda text: f"val-{text}-ue"
)


@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
@given(st.dictionaries(_NAMES, _VALUES, max_size=8))
def test_no_value_is_ever_told(home: Path, values: dict[str, str]) -> None:
    report = examine(environ(home, **values), str(home), login=False)
    told = json.dumps(report, ensure_ascii=False)
    assert "val-" not in told


def test_the_examination_does_not_change_our_own_environment(home: Path) -> None:
    before = dict(os.environ)
    looked(home)
    assert dict(os.environ) == before
