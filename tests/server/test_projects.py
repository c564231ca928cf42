"""Commands in projects, through the real client and server: wrapped by a tool, and after a setup."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from pathlib import Path

import pytest

import outfitter
from outfitter.contract.contract import Asked
from outfitter.providers import registry
from tests.support.contracts import PATH, Place, environment_of, variables, wait_for
from tests.support.machine import running, wait_gone, wait_until
from tests.support.notes import Notes
from tests.support.servers import serving
from tests.support.tools import program


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# A tool that starts the commands itself


@pytest.fixture
def wrapped(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    notes = Notes()
    notes.prefix = ("/usr/bin/env", "WRAPPED=1")
    monkeypatch.setitem(registry._made, "notes", notes)
    place.says('[providers]\nuse = ["notes"]\n')
    place.write(place.project / "notes", "")
    return place


def test_a_wrapper_starts_the_command_with_its_arguments_as_they_are(wrapped: Place) -> None:
    arguments = ["a b", "", "it's", "--help", "two\nlines", "$HOME"]

    async def scenario() -> None:
        async with outfitter.local(environment=wrapped.environ()) as client:
            argv = ["sh", "-c", 'echo $WRAPPED; printf "%s|" "$@"', "name", *arguments]
            done = await client.run(argv, cwd=str(wrapped.project))
            assert done.stdout.decode() == "1\n" + "".join(f"{one}|" for one in arguments)
            assert (await client.run(["sh", "-c", "exit 7"], cwd=str(wrapped.project))).exit_code == 7

    wait_for(scenario())


@pytest.mark.parametrize("startup", ["enforce", "repair", "report"])
def test_a_shell_behind_a_wrapper_reads_no_startup_files(wrapped: Place, startup: str) -> None:
    wrapped.profile("export WRAPPED=no\n")
    wrapped.user(f'[shell]\nstartup = "{startup}"\n')

    async def scenario() -> None:
        async with outfitter.local(environment=wrapped.environ()) as client:
            done = await client.run(["bash", "-lc", "echo $WRAPPED"], cwd=str(wrapped.project))
            assert done.stdout == b"1\n"

    wait_for(scenario())


def test_what_a_wrapper_cannot_keep_is_refused(wrapped: Place) -> None:
    async def scenario() -> None:
        async with outfitter.local(environment=wrapped.environ()) as client:
            with pytest.raises(outfitter.RequestFailed, match="arg0 is lost"):
                await client.start(["sh"], arg0="-sh", cwd=str(wrapped.project))

    wait_for(scenario())


ENVRC = """\
export SECRET_TOKEN=hush-back BASH_ENV=/hush LD_AUDIT=/hush OUTFITTER_SCOPE=hush PYTHONPATH=/from/envrc
export GIVEN=hush OVERRIDDEN=hush NEW=1 CUT=hush
unset HOME
PATH_add bin
"""


@pytest.mark.parametrize("mode", ["snapshot", "capture", "wrap"])
def test_no_mode_brings_back_what_a_layer_refused(place: Place, mode: str) -> None:
    direnv = program("direnv")
    place.user(
        '[shell_environment_policy]\nexclude = ["SECRET_*"]\n'
        '[env]\nset = { OVERRIDDEN = "by the user", LD_LIBRARY_PATH = "/mine" }\nunset = ["CUT"]\n'
        f'[providers]\nmodes = {{ direnv = "{mode}" }}\n'
        '[names]\nallow_code_loading = { direnv = ["PYTHONPATH"] }\n'
    )
    place.write(place.project / ".envrc", ENVRC)
    environ = place.environ(SECRET_TOKEN="hush-base", PATH=f"{os.path.dirname(direnv)}:{PATH}")
    subprocess.run([direnv, "allow", str(place.project)], env=environ, check=True)

    async def scenario() -> None:
        async with outfitter.local(environment=environ) as client:
            ran = await client.run(["env", "-0"], cwd=str(place.project), env={"GIVEN": "by the request"})
            seen = variables(ran.stdout)
            told = await client.explain(cwd=str(place.project), env={"GIVEN": "by the request"})
        assert {name for name in seen if "hush" in seen[name] or name.startswith("__OUTFITTER")} == set()
        assert (seen["OVERRIDDEN"], seen["GIVEN"], seen["NEW"]) == ("by the user", "by the request", "1")
        assert (seen["LD_LIBRARY_PATH"], seen["PYTHONPATH"]) == ("/mine", "/from/envrc")
        assert (seen["HOME"], "CUT" in seen) == (str(place.home), False)
        assert seen["PATH"].split(":")[0] == str(place.project / "bin")
        refused = {one["name"]: one["why"] for one in told["refused"] if one["layer"] == "L3"}
        assert {"SECRET_TOKEN", "BASH_ENV", "LD_AUDIT", "OUTFITTER_SCOPE"} <= set(refused)
        assert ("taken away again behind the tool" in refused["SECRET_TOKEN"]) == (mode == "wrap")

    wait_for(scenario())


def test_a_command_that_is_not_there_is_told_behind_a_wrapper(wrapped: Place) -> None:
    async def scenario() -> None:
        async with outfitter.local(environment=wrapped.environ()) as client:
            ran = await client.run(["not-there"], cwd=str(wrapped.project))
            assert ran.exit_code == 127
            assert ran.stderr == b"outfitter: not-there: No such file or directory\n"

    wait_for(scenario())


def test_a_project_cannot_have_its_commands_started_by_a_tool(place: Place) -> None:
    direnv = program("direnv")
    place.says('[providers]\nmodes = { direnv = "wrap" }\n')
    place.write(place.project / ".envrc", "export SECRET_TOKEN=1 MADE=1\n")
    environ = place.environ(PATH=f"{os.path.dirname(direnv)}:{PATH}")
    subprocess.run([direnv, "allow", str(place.project)], env=environ, check=True)

    async def scenario() -> None:
        async with outfitter.local(environment=environ) as client:
            [layer] = [
                one
                for one in (await client.explain(cwd=str(place.project)))["layers"]
                if one["id"].startswith("direnv")
            ]
            assert "prefix" not in layer
            assert (await environment_of(client, cwd=str(place.project)))["MADE"] == "1"

    wait_for(scenario())


def test_elsewhere_nothing_is_wrapped(wrapped: Place) -> None:
    async def scenario() -> None:
        async with outfitter.local(environment=wrapped.environ()) as client:
            assert "WRAPPED" not in await environment_of(client, cwd=str(wrapped.elsewhere))

    wait_for(scenario())


# A setup


def set_up(place: Place, script: str, *, more: str = "", trusted: bool = True) -> None:
    place.says(f'[setup]\nscript = "setup.sh"\n{more}')
    place.write(place.project / "setup.sh", script)
    if trusted:
        trust(place)


def trust(place: Place) -> None:
    from outfitter.contract.setup.plan import make_plan
    from outfitter.contract.setup.setups import PROVIDER, trust_of

    contract = place.contract()
    use = contract.setups.use(str(place.project), contract.settings(str(place.project)))
    assert use is not None
    found = trust_of(contract.setups.store, use, make_plan(use.declared))
    contract.setups.store.grant(PROVIDER, use.worktree, found.digest)


def test_a_setup_runs_before_the_first_command_and_once(place: Place) -> None:  # W1, W2, W3
    set_up(place, 'echo ran >> "$OUTFITTER_WORKTREE/log"\nexport MADE=here PATH="$PWD/made:$PATH"\n')

    async def scenario() -> None:
        async with outfitter.local(environment=place.environ()) as client:
            found = await asyncio.gather(*(environment_of(client, cwd=str(place.project)) for _ in range(4)))
            for one in found:
                assert one["MADE"] == "here"
                assert one["PATH"].startswith(f"{place.project}/made:")
                assert one["OUTFITTER_WORKTREE"] == one["OUTFITTER_SOURCE_TREE"] == str(place.project)
            assert "MADE" not in await environment_of(client, cwd=str(place.elsewhere))

    wait_for(scenario())
    wait_for(scenario())  # another executor of the same user finds what the first has done
    assert (place.project / "log").read_text() == "ran\n"


def test_a_setup_sees_what_providers_and_configuration_give(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:  # W4
    monkeypatch.setitem(registry._made, "notes", Notes())
    place.write(place.project / "notes", "NOTED=1\n")
    place.user('[env]\nset = { MINE = "2" }\n')
    more = '[providers]\nuse = ["notes"]\n[env]\nset = { OURS = "3" }\n'
    set_up(place, 'export SEEN="$NOTED $MINE $OURS" NOTED=refined\n', more=more)
    values = place.contract().resolve(Asked(str(place.project), {})).values
    assert (values["SEEN"], values["NOTED"]) == ("1 2 3", "refined")


def test_what_a_command_exports_is_not_kept(place: Place) -> None:
    set_up(place, "export MADE=here\n")

    async def scenario() -> None:
        async with outfitter.local(environment=place.environ()) as client:
            await client.run(["bash", "-c", "export LATER=1"], cwd=str(place.project))
            assert "LATER" not in await environment_of(client, cwd=str(place.project))

    wait_for(scenario())


def test_a_setup_that_failed_is_told_and_one_that_must_not_stops_the_command(place: Place) -> None:
    set_up(place, "echo cannot do it\nfalse\nexit 3\n")

    async def scenario() -> None:
        async with outfitter.local(environment=place.environ()) as client:
            process = await client.start(["true"], cwd=str(place.project))
            [warning] = process.warnings
            assert "failed" in warning and "3" in warning
            place.says('[setup]\nscript = "setup.sh"\nrequired = true\n')
            trust(place)
            with pytest.raises(outfitter.RequestFailed) as caught:
                await client.start(["true"], cwd=str(place.project))
            assert caught.value.data["error"] == "setup-failed"

    wait_for(scenario())


def test_a_setup_that_nobody_allowed_does_not_run(place: Place) -> None:
    set_up(place, f"touch {place.folder}/ran\n", trusted=False)

    async def scenario() -> None:
        async with outfitter.local(environment=place.environ()) as client:
            process = await client.start(["true"], cwd=str(place.project))
            [warning] = process.warnings
            assert f"outfitter trust {place.project}" in warning

    wait_for(scenario())
    assert not (place.folder / "ran").exists()


def test_a_setup_ends_with_a_server_that_is_killed_before_its_first_command(tmp_path: Path) -> None:
    place = Place(tmp_path)
    seconds = f"61{os.getpid()}"
    set_up(place, f"setsid sleep {seconds} &\nsleep {seconds}\n")
    with serving("outfitter", place.home, env=place.environ()) as server:

        async def scenario() -> None:
            async with outfitter.connect(server.url) as client:
                begun = asyncio.create_task(client.run(["true"], cwd=str(place.project)))
                await asyncio.to_thread(wait_until, lambda: len(running(f"sleep {seconds}")) == 2, "it runs")
                left = running(f"sleep {seconds}")
                os.kill(server.pid, signal.SIGKILL)
                await asyncio.to_thread(wait_gone, left)
                begun.cancel()

        wait_for(scenario())
