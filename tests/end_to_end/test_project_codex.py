"""The stock Codex client, unchanged, in a project with an environment of its own: direnv and a venv.

No wrapper, no word in a prompt, no configuration: the executor finds the project's `.envrc`, which its owner
has allowed, and every command of the client gets what it says.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.codex import run_codex
from tests.support.contracts import Place
from tests.support.model import Output, Script, exec_command, modelling
from tests.support.servers import Server, serving
from tests.support.tools import program
from tests.support.wire import Wire

TEST = """\
import os, sys

def test_interpreter():
    print(f"<{sys.executable} {os.environ.get('PROJECT')}>")
    assert sys.prefix == os.environ["EXPECTED"]
"""
ENVRC = "export PROJECT=app EXPECTED=$PWD/.venv VIRTUAL_ENV=$PWD/.venv\nPATH_add .venv/bin\n"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    (place.home / ".codex").mkdir()
    venv = place.project / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    # Real pytest, without fetching it: the one that runs this.
    [site] = venv.glob("lib/python*/site-packages")
    (site / "ours.pth").write_text(sysconfig.get_path("purelib"))
    script = venv / "bin" / "pytest"
    # The plugins of the other pytest cannot be imported here.
    alone = "os.environ['PYTEST_DISABLE_PLUGIN_AUTOLOAD'] = '1'"
    script.write_text(f"#!{venv}/bin/python\nimport os, pytest, sys\n{alone}\nsys.exit(pytest.main())\n")
    script.chmod(0o755)
    place.write(place.project / "tests" / "test_it.py", TEST)
    place.write(place.project / ".envrc", ENVRC)
    return place


def allow(place: Place) -> None:
    env = {"HOME": str(place.home), "PATH": os.defpath}
    subprocess.run([program("direnv"), "allow", place.project], env=env, check=True, capture_output=True)


@pytest.fixture
def server(place: Place) -> Iterator[Server]:
    with serving("outfitter", place.home, env={"PATH": "/usr/local/bin:/usr/bin:/bin"}) as server:
        yield server


def ask(place: Place, server: Server, *commands: str) -> list[Output]:
    def script() -> Script:
        for command in commands:
            yield [exec_command(command)]
        return "done"

    with modelling(script) as model:
        run = run_codex(place.folder / "client", model=model.url, server=server.url, cwd=place.project)
    assert (run.exit_code, run.message) == (0, "done"), (run, model.outputs)
    return model.outputs


def notice(place: Place) -> str:
    """What the first command says that a blocked `.envrc` concerns."""
    return (
        f"[outfitter] direnv:{place.project}/.envrc is blocked: not trusted: read its files, then type: "
        f"direnv allow {place.project}/.envrc\n"
    )


PYTEST = "pytest -q -s -p no:cacheprovider tests"


def test_pytest_runs_with_the_projects_interpreter(place: Place, server: Server) -> None:  # L2, V1, V5
    allow(place)
    [output] = ask(place, server, PYTEST)
    assert f"<{place.project}/.venv/bin/python app>" in output.text
    assert "1 passed" in output.text


def test_the_reference_does_not_find_it(place: Place) -> None:
    allow(place)
    with serving("codex", place.home, env={"PATH": "/usr/local/bin:/usr/bin:/bin"}) as server:
        [output] = ask(place, server, f"{PYTEST}; echo project=$PROJECT")
    assert "1 passed" not in output.text
    assert "project=\n" in output.text


def test_what_nobody_allowed_is_not_evaluated_and_commands_run_all_the_same(
    place: Place, server: Server
) -> None:  # V3
    place.write(place.project / ".envrc", f"touch {place.folder}/evaluated\n{ENVRC}")
    outputs = ask(place, server, "echo project=$PROJECT", "echo project=$PROJECT")
    # The model is told why, once: a person has to allow it.
    assert outputs[0].text == f"{notice(place)}project=\n"
    assert outputs[1].text == "project=\n"
    assert not (place.folder / "evaluated").exists()


def test_an_edit_during_the_session_is_blocked_until_it_is_allowed_again(
    place: Place, server: Server
) -> None:  # V4
    allow(place)
    edit = f"sed -i s/=app/=edited/ .envrc; HOME={place.home} direnv allow . 2>/dev/null; echo $PROJECT"
    outputs = ask(
        place,
        server,
        "echo $PROJECT",
        "echo '# more' >> .envrc; echo $PROJECT",
        "echo $PROJECT",
        edit,
        "echo $PROJECT",
    )
    assert [output.text for output in outputs] == ["app\n", "app\n", f"{notice(place)}\n", "\n", "edited\n"]


def test_a_venv_alone_is_enough(place: Place, server: Server) -> None:  # V2
    (place.project / ".envrc").unlink()
    [output] = ask(place, server, f"EXPECTED=$PWD/.venv {PYTEST}")
    assert f"<{place.project}/.venv/bin/python None>" in output.text
    assert "1 passed" in output.text


def test_what_is_blocked_stands_in_the_servers_log_once(place: Place, server: Server) -> None:
    ask(place, server, "true", "true")
    log = (place.home / "outfitter.stderr").read_text()
    assert (
        log.count(
            f"direnv:{place.project}/.envrc is blocked: not trusted: read its files, then type: direnv allow"
        )
        == 1
    )


def test_a_user_can_have_notices_in_the_log_alone(place: Place, server: Server) -> None:
    place.user('[notices]\nstock = "log"\n')
    assert [output.text for output in ask(place, server, "echo hi")] == ["hi\n"]
    assert "is blocked" in (place.home / "outfitter.stderr").read_text()


def test_on_a_terminal_it_is_told_on_the_terminal(place: Place, server: Server) -> None:
    def script() -> Script:
        yield [exec_command("echo hi", tty=True)]
        return "done"

    with modelling(script) as model:
        run_codex(place.folder / "client", model=model.url, server=server.url, cwd=place.project)
    [output] = model.outputs
    assert output.text.replace("\r", "") == f"{notice(place)}hi\n"


def test_an_overlay_for_its_thread_reaches_its_commands(place: Place, server: Server) -> None:  # O1
    allow(place)

    def script() -> Script:
        [said] = yield [exec_command("echo $CODEX_THREAD_ID")]
        with Wire(server.url) as wire:
            wire.handshake()
            for thread, value in ((said.text.strip(), "mine"), (str(uuid.uuid4()), "another's")):
                told = {"scope": thread, "producer": "hook:h", "set": {"GIVEN": value, "PROJECT": value}}
                wire.call("environment/overlay/put", told)
        yield [exec_command("echo $GIVEN $PROJECT; test $OUTFITTER_SCOPE = $CODEX_THREAD_ID && echo same")]
        return "done"

    with modelling(script) as model:
        run_codex(place.folder / "client", model=model.url, server=server.url, cwd=place.project)
    assert model.outputs[-1].text == "mine mine\nsame\n"
