"""The stock Codex client, unchanged and with its defaults, gets the environment contract from our server.

It starts every command as `bash -lc`, so on its own exec-server the startup files of the executor's account
have the last word: over PATH, over what its policy left out, over the working directory. Where a claim is
a comparison, both servers are asked the same, and what the reference does wrong is asserted, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.codex import run_codex
from tests.support.contracts import allow
from tests.support.model import Output, Script, exec_command, modelling
from tests.support.servers import Server, environment, serving
from tests.support.tap import Message, tapping

# The client's own settings: the executor has this variable, and commands are not to have it.
EXCLUDE = 'shell_environment_policy.exclude = ["DEMO_TOKEN"]\n'
PROBE = """\
echo "tool=$(which-one) active=$ACTIVE_ENV token=${DEMO_TOKEN-<unset>} cwd=$PWD"
"""
# What the shell keeps itself.
NOT_COMPARED = {"PWD", "OLDPWD", "SHLVL", "_"}


class Executor:
    """The account that commands run in: a curated PATH in its environment, and startup files that differ."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.work = root / "work"
        self.work.mkdir()
        (self.home / ".codex").mkdir(parents=True)
        for name in ("project", "base"):
            folder = root / name / "bin"
            folder.mkdir(parents=True)
            (folder / "which-one").write_text(f"#!/bin/sh\necho {name}\n")
            (folder / "which-one").chmod(0o755)
        self.path = f"{root}/project/bin:/usr/bin:/bin"
        self.env = {"PATH": self.path, "ACTIVE_ENV": "project", "DEMO_TOKEN": "the executor's"}
        # What an environment manager's block in a profile does, and a habit of some.
        self.write(
            ".bash_profile",
            f"export PATH='{root}/base/bin':$PATH ACTIVE_ENV=base DEMO_TOKEN=reintroduced\n"
            "greet() { echo hello $1; }\n"
            "cd /\n",
        )

    def write(self, name: str, text: str) -> None:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def configure(self, text: str) -> None:
        """Writes the configuration of the account's user."""
        self.write(".config/outfitter/config.toml", text)

    def says(self, text: str) -> None:
        """What the project's file says, which the user has allowed."""
        self.write(str(self.work / "outfitter.toml"), text)
        allow(self.work, environment(self.home, self.env))

    @contextlib.contextmanager
    def serving(self, kind: str, *args: str) -> Iterator[Server]:
        with serving(kind, self.home, *args, env=self.env) as server:
            yield server

    def told(self, probed: str, cwd: Path | str | None = None) -> str:
        """What PROBE prints when `probed` has been found."""
        where = cwd or self.work
        return {
            "contract": f"tool=project active=project token=<unset> cwd={where}\n",
            "startup files": f"tool=base active=base token=reintroduced cwd={where}\n",
        }[probed]


@pytest.fixture
def executor(tmp_path: Path) -> Executor:
    return Executor(tmp_path)


class Client:
    """One run of the client: what its commands printed, and what it sent to start them."""

    def __init__(self, outputs: list[Output], starts: list[Message], answers: list[Message]) -> None:
        self.outputs = outputs
        self.starts = starts
        self.answers = answers

    @property
    def texts(self) -> list[str]:
        return [output.text for output in self.outputs]


def play(
    executor: Executor, server: Server, script: Callable[[], Script], config: str = EXCLUDE, *args: str
) -> Client:
    """The stock client, through this script to its end."""
    with tapping(server.port) as tap:
        with modelling(script) as model:
            run = run_codex(
                executor.root / "client",
                model=model.url,
                server=tap.url,
                cwd=executor.work,
                config=config,
                args=args,
            )
        assert (run.exit_code, run.message) == (0, "done"), (run, model.outputs)
        assert tap.connections == 1
        return Client(model.outputs, tap.sent("process/start"), tap.answers("process/start"))


def ask(
    executor: Executor, server: Server, *commands: str, config: str = EXCLUDE, feature: str = ""
) -> Client:
    """The stock client runs these commands, one after another."""

    def script() -> Script:
        for command in commands:
            yield [exec_command(command)]
        return "done"

    enabled = ("-c", f"features.{feature}=true") if feature else ()
    return play(executor, server, script, config, *enabled)


def variables(path: Path) -> dict[str, str]:
    entries = path.read_text().rstrip("\0").split("\0")
    return dict(entry.split("=", 1) for entry in entries)


# Nothing is set up but the executor's environment: L1, L5, L7


def test_the_curated_environment_is_intact_under_a_login_shell_where_the_reference_loses_it(
    executor: Executor,
) -> None:
    found = {}
    for kind in ("outfitter", "codex"):
        with executor.serving(kind) as server:
            client = ask(executor, server, PROBE)
        [start] = client.starts
        assert start["argv"][1:] == ["-lc", PROBE]
        assert "DEMO_TOKEN" in start["envPolicy"]["exclude"]
        [found[kind]] = client.texts
    assert found == {"outfitter": executor.told("contract"), "codex": executor.told("startup files", "/")}


def test_path_is_the_executors_to_the_letter(executor: Executor) -> None:
    with executor.serving("outfitter") as server:
        assert ask(executor, server, 'echo "$PATH"').texts == [f"{executor.path}\n"]
    with executor.serving("codex") as server:
        [path] = ask(executor, server, 'echo "$PATH"').texts
    assert path.startswith(f"{executor.root}/base/bin:")


def test_the_same_command_gets_the_same_environment_every_time(executor: Executor) -> None:  # L6
    with executor.serving("outfitter") as server:
        client = ask(executor, server, *(f"env -0 > {number}" for number in range(3)))
    # What the client numbers its commands with.
    own = {name for name, value in client.starts[0]["env"].items() if client.starts[1]["env"][name] != value}
    seen = []
    for number in range(3):
        found = variables(executor.work / str(number))
        seen.append({name: value for name, value in found.items() if name not in own | NOT_COMPARED})
    assert seen[0] == seen[1] == seen[2]
    assert (seen[0]["PATH"], "DEMO_TOKEN" in seen[0]) == (executor.path, False)


def test_without_login_shells_the_client_is_no_way_around_it_either(executor: Executor) -> None:  # L11
    executor.write(
        "bash_env", f"PATH='{executor.root}/base/bin':$PATH ACTIVE_ENV=base DEMO_TOKEN=reintroduced\n"
    )
    executor.env["BASH_ENV"] = str(executor.home / "bash_env")
    config = "allow_login_shell = false\n" + EXCLUDE
    found = {}
    for kind in ("outfitter", "codex"):
        with executor.serving(kind) as server:
            client = ask(executor, server, PROBE, config=config)
        assert client.starts[0]["argv"][1:] == ["-c", PROBE]
        [found[kind]] = client.texts
    assert found == {"outfitter": executor.told("contract"), "codex": executor.told("startup files")}


def test_in_its_snapshot_mode_the_client_gets_what_startup_files_left_within_the_contract(
    executor: Executor,
) -> None:
    executor.write(".bash_profile", (executor.home / ".bash_profile").read_text() + "echo x >>~/count\n")
    with executor.serving("outfitter") as server:
        client = ask(executor, server, "greet you", PROBE, feature="shell_snapshot_v2")
    scopes = {start["shellSnapshot"]["scopeId"] for start in client.starts}
    assert [len(scopes), *client.texts] == [
        1,
        "hello you\n",
        f"tool=base active=base token=<unset> cwd={executor.work}\n",
    ]
    assert (executor.home / "count").read_text() == "x\n"


# The executor's configuration


def test_repair_lets_startup_files_run_and_puts_right_what_they_changed(executor: Executor) -> None:
    executor.configure('[shell]\nstartup = "repair"\n')
    with executor.serving("outfitter") as server:
        client = ask(executor, server, PROBE, "greet you", "env -0 > environment")
    assert client.texts == [executor.told("contract"), "hello you\n", ""]
    found = variables(executor.work / "environment")
    overlay = client.starts[2]["env"]
    expected = {**executor.env, **overlay, "HOME": str(executor.home)}
    for name in ("DEMO_TOKEN", *client.starts[2]["envPolicy"]["exclude"]):
        expected.pop(name, None)
    assert {name: found.get(name) for name in expected} == expected
    assert [name for name in found if name.startswith("__OUTFITTER") or name == "DEMO_TOKEN"] == []


def test_report_leaves_everything_to_the_startup_files_and_says_so(executor: Executor) -> None:
    executor.configure('[shell]\nstartup = "report"\n')
    with executor.serving("outfitter", "--log-level", "debug") as server:
        assert ask(executor, server, PROBE).texts == [executor.told("startup files", "/")]
    log = (executor.home / "outfitter.stderr").read_text()
    assert "startup files of bash changed " in log
    assert "reintroduced" not in log


def test_a_login_shell_that_the_executor_rejects_is_an_error_that_the_model_reads(
    executor: Executor,
) -> None:  # L4
    executor.configure("allow_login_shell = false\n")
    with executor.serving("outfitter") as server:
        client = ask(executor, server, PROBE)
    [output] = client.outputs
    assert "login" in output.raw
    assert "tool=" not in output.raw
    assert client.answers[0]["error"]["data"]["error"] == "login-rejected"


def test_the_executors_policy_holds_beside_the_clients(executor: Executor) -> None:
    executor.configure(
        '[shell_environment_policy]\nexclude = ["ACTIVE_*"]\nset = { EXTRA = "from the user" }\n'
    )
    with executor.serving("outfitter") as server:
        client = ask(executor, server, 'echo "${ACTIVE_ENV-<unset>} ${DEMO_TOKEN-<unset>} $EXTRA"')
    assert client.texts == ["<unset> <unset> from the user\n"]


def test_a_configuration_that_changes_holds_from_the_next_command_on(executor: Executor) -> None:
    def script() -> Script:
        yield [exec_command(PROBE)]
        executor.configure('[env]\nset = { ACTIVE_ENV = "changed" }\n')
        yield [exec_command(PROBE)]
        return "done"

    with executor.serving("outfitter") as server:
        client = play(executor, server, script)
    before = executor.told("contract")
    assert client.texts == [before, before.replace("active=project", "active=changed")]


# A project's file, found from the command's directory: L2


def test_a_projects_file_is_applied_to_the_commands_of_its_folder(executor: Executor) -> None:
    executor.says('[env]\nset = { PROJECT_VAR = "two words" }\nprepend = { PATH = ["bin"] }\n')
    (executor.work / "bin").mkdir()
    (executor.work / "bin" / "which-one").write_text("#!/bin/sh\necho the folder\n")
    (executor.work / "bin" / "which-one").chmod(0o755)
    below = executor.work / "deep" / "below"
    below.mkdir(parents=True)
    text = 'echo "$(which-one) / ${PROJECT_VAR-<unset>} / $PATH"'

    def script() -> Script:
        yield [exec_command(text)]
        yield [exec_command(text, workdir=str(below))]
        yield [exec_command(text, workdir=str(executor.home))]
        return "done"

    with executor.serving("outfitter") as server:
        client = play(executor, server, script)
    inside = f"the folder / two words / {executor.work}/bin:{executor.path}\n"
    outside = f"project / <unset> / {executor.path}\n"
    assert client.texts == [inside, inside, outside]


def test_a_projects_file_brings_back_nothing_that_the_client_leaves_out(executor: Executor) -> None:
    executor.says('[env]\nset = { DEMO_TOKEN = "the project\'s", BASH_ENV = "evil", OTHER = "kept" }\n')
    with executor.serving("outfitter") as server:
        client = ask(executor, server, 'echo "${DEMO_TOKEN-<unset>} ${BASH_ENV-<unset>} $OTHER"')
    assert client.texts == ["<unset> <unset> kept\n"]


def test_a_mistake_in_a_projects_file_is_told_where_the_command_would_have_run(executor: Executor) -> None:
    executor.says("[env]\nprepnd = {}\n")
    with executor.serving("outfitter") as server:
        [output] = ask(executor, server, PROBE).outputs
    assert f"{executor.work}/outfitter.toml:2: unknown field `prepnd`" in output.raw
