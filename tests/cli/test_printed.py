"""What a provider's tool printed on stderr is shown though it ended well: by env, explain, doctor and run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.tools import program

from .commandline import User
from .project import words

# bash goes on after a command that is not there, and direnv ends with status 0.
ENVRC = """export A=1 API_TOKEN=hush-hush-hush
nosuchcommand
printf '\\033[31mcoloured\\033[0m and \\a ringing %s\\n' "$API_TOKEN" >&2
"""
ERROR = "./.envrc:2: nosuchcommand: command not found"
RINGING = "coloured and \\x07 ringing [secret:API_TOKEN]"


@pytest.fixture
def folder(user: User) -> Path:
    return allowed(user, ENVRC)


def allowed(user: User, text: str) -> Path:
    folder = user.home / "project"
    folder.mkdir()
    (folder / ".envrc").write_text(text)
    subprocess.run([program("direnv"), "allow"], cwd=folder, env=user.env(), check=True)
    return folder


def test_env_shows_it_below_the_layer(user: User, folder: Path) -> None:
    lines = words(user.run("env", "--cwd", "project").stdout)
    place = lines.index(f"printed: {ERROR}")
    assert lines[place - 1].startswith(f"L3 direnv:{folder}/.envrc")
    assert lines[place + 1] == f"printed: {RINGING}"
    told = json.loads(user.run("env", "--cwd", "project", "--json").stdout)
    [layer] = [one for one in told["layers"] if one["layer"] == "L3"]
    assert layer == {
        "id": f"direnv:{folder}/.envrc",
        "layer": "L3",
        "state": "applied",
        "said": f"{ERROR}\n{RINGING}",
    }


def test_explain_has_it_with_the_layer(user: User, folder: Path) -> None:
    told = json.loads(user.run("env", "explain", "--cwd", "project", "--json").stdout)
    [layer] = [one for one in told["layers"] if one["layer"] == "L3"]
    assert layer["said"] == f"{ERROR}\n{RINGING}"
    assert f"printed: {ERROR}" in words(user.run("env", "explain", "--cwd", "project").stdout)


def test_run_tells_it_as_an_event_of_its_own(user: User, folder: Path) -> None:
    done = user.run("run", "--json", "--cwd", "project", "--", "printenv", "A")
    first, *rest = [json.loads(line) for line in done.stdout.splitlines()]
    assert first == {
        "event": "provider",
        "id": f"direnv:{folder}/.envrc",
        "layer": "L3",
        "state": "applied",
        "said": f"{ERROR}\n{RINGING}",
    }
    assert rest == [
        {"event": "output", "stream": "stdout", "text": "1\n"},
        {"event": "exited", "exitCode": 0},
    ]
    done = user.run("run", "--explain", "--cwd", "project", "--", "true")
    assert f"direnv:{folder}/.envrc printed: {ERROR}" in words(done.stderr)


def test_doctor_warns_of_an_error_and_not_of_a_word(user: User, folder: Path) -> None:
    def check() -> dict[str, object]:
        report = json.loads(user.run("doctor", "--no-login", "--json", "--cwd", "project").stdout)
        found: dict[str, object] = report["checks"]["providers.present"]
        return found

    found = check()
    assert found["status"] == "warning"
    assert found["summary"] == f"direnv:{folder}/.envrc: applied, but it printed an error"
    assert f"direnv:{folder}/.envrc printed: {ERROR}" in found["details"]  # type: ignore[operator]
    (folder / ".envrc").write_text("export A=1\necho welcome >&2\n")
    subprocess.run([program("direnv"), "allow"], cwd=folder, env=user.env(), check=True)
    found = check()
    assert found["status"] == "ok"
    assert f"direnv:{folder}/.envrc printed: welcome" in found["details"]  # type: ignore[operator]


def test_a_tool_that_says_much_is_shown_by_its_end(user: User) -> None:
    allowed(user, "seq -f 'line %g of many' 2000 >&2\n")
    lines = [line for line in words(user.run("env", "--cwd", "project").stdout) if "printed" in line]
    assert len(lines) == 11
    assert lines[-1] == "printed: line 2000 of many"
    done = user.run("run", "--json", "--cwd", "project", "--", "true")
    said = json.loads(done.stdout.splitlines()[0])["said"]
    assert len(said) <= 1000
    assert said.endswith("line 2000 of many")


def test_what_a_failed_one_printed_is_shown_too(user: User) -> None:
    folder = allowed(user, "echo boom >&2; exit 3\n")
    lines = words(user.run("env", "--cwd", "project").stdout)
    assert any(line.startswith(f"L3 direnv:{folder}/.envrc (direnv): failed") for line in lines)
    assert "printed: boom" in lines
    done = user.run("run", "--json", "--cwd", "project", "--", "true")
    assert json.loads(done.stdout.splitlines()[0])["state"] == "failed"


def test_what_the_configuration_calls_secret_is_masked_too(user: User) -> None:
    folder = allowed(user, 'export APP_DSN=hush-hush-hush\necho "at $APP_DSN" >&2\n')
    (folder / "outfitter.toml").write_text('[names]\nsecret = ["*_DSN"]\n')
    for args in (("run", "--json"), ("run", "--explain"), ("env",), ("env", "--json"), ("env", "explain")):
        command = ("--", "true") if args[0] == "run" else ()
        done = user.run(*args, "--cwd", "project", *command)
        output = done.stdout + done.stderr
        assert b"at [secret:APP_DSN]" in output, args
        assert b"hush" not in output, args
