"""Layer 4: run once per worktree and content, allowed first, and no secret of it on any disk."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from outfitter.contract import privatefile
from outfitter.contract.config import Configuration
from outfitter.contract.settings import Settings
from outfitter.contract.setup.plan import make_plan
from outfitter.contract.setup.runs import SetupFiles
from outfitter.contract.setup.setups import RETRY_SECONDS, Setups, SetupUse, trust_of
from outfitter.contract.trust import TrustStore
from outfitter.contract.worktree import source_tree
from outfitter.env.layer import BASE, PROVIDER, SESSION, Layer
from outfitter.env.origin import Origin
from outfitter.env.resolve import Rules, Stack
from outfitter.errors import FileInvalid, SettingInvalid, SetupBlocked, SetupFailed
from outfitter.host import keyring
from outfitter.host.tools.capture import Captured, capture
from tests.support.machine import KEYRING, PROC, SECOND, wait_until
from tests.support.tools import program

HERE = Origin("test", "here")
SECRET = "s3cret-value-0"
ONCE = 'echo ran >> "$COUNT"\n'


class Site:
    """A project, a user's state, and the processes that look at them: one `Setups` each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.state = folder / "state"
        self.project = folder / "project"
        self.count = folder / "count"
        for path in (self.home, self.project / ".git"):
            path.mkdir(parents=True)
        self.env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "COUNT": str(self.count),
            "SESSION_WORD": "seen",
        }
        self.store = TrustStore(str(self.state))
        self.setups = self.process()

    def process(self) -> Setups:
        """As another process would have it: nothing but the files in common."""
        return Setups(TrustStore(str(self.state)), str(self.state), str(self.home))

    def write(self, name: str, text: str, at: Path | None = None) -> Path:
        path = (at or self.project) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def script(self, text: str, more: str = "", *, count: bool = True) -> None:
        self.write("setup.sh", (ONCE if count else "") + text + "\n")
        self.write("outfitter.toml", f'[setup]\nscript = "setup.sh"\n{more}')

    def lower(self, *layers: Layer) -> Stack:
        return Stack([Layer(BASE, "base", HERE, self.env), *layers], (), Rules())

    def use(self, at: Path | None = None) -> SetupUse:
        directory = str(at or self.project)
        settings = Configuration({"HOME": str(self.home)}).settings(directory)
        use = self.setups.use(directory, settings)
        assert use is not None
        return use

    def allow(self, at: Path | None = None) -> None:
        use = self.use(at)
        self.store.grant("setup", use.worktree, make_plan(use.declared).digest)

    def layer(
        self,
        setups: Setups | None = None,
        *,
        at: Path | None = None,
        lower: Stack | None = None,
        again: bool = False,
    ) -> Layer:
        """What the next command gets."""
        setups = setups or self.setups
        directory = str(at or self.project)
        settings = Configuration({"HOME": str(self.home)}).settings(directory)
        use = setups.use(directory, settings)
        assert use is not None
        lower = lower or self.lower()
        if again or setups.pending(use):
            setups.again = again
            setups.run(use, lower, settings)
            assert not setups.pending(use)
        return setups.layer(use)

    def runs(self) -> int:
        return len(self.count.read_text().splitlines()) if self.count.exists() else 0

    def record(self) -> dict[str, object]:
        [path] = (self.state / "setups").glob("*.json")
        assert path.stat().st_mode & 0o777 == 0o600
        told = json.loads(path.read_text())
        assert isinstance(told, dict)
        return told

    def kept(self) -> bytes:
        """Every byte of the state folder, names and all."""
        found = b""
        for path in sorted(self.state.rglob("*")):
            found += str(path).encode()
            found += path.read_bytes() if path.is_file() else b""
        return found


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def values(site: Site, layer: Layer) -> dict[str, str]:
    """What is on top of what there was."""
    after = Stack([*site.lower().layers, layer], (), Rules())
    assert after.refused == []
    return {name: value for name, value in after.values.items() if site.env.get(name) != value}


# Declared, allowed, run


def test_without_a_declaration_there_is_none(site: Site) -> None:
    site.write("outfitter.toml", "")
    settings = Configuration({"HOME": str(site.home)}).settings(str(site.project))
    assert site.setups.use(str(site.project), settings) is None
    site.write("outfitter.toml", "[setup]\n")
    settings = Configuration({"HOME": str(site.home)}).settings(str(site.project))
    assert site.setups.use(str(site.project), settings) is None


def test_what_it_exports_is_layer_4(site: Site) -> None:
    site.script('export A="$SESSION_WORD" PATH="$PWD/bin:$PATH"; unset COUNT; f() { :; }; umask 077')
    site.allow()
    layer = site.layer()
    assert (layer.name, layer.state, layer.producer) == ("L4", "applied", "setup")
    assert values(site, layer) == {
        "A": "seen",
        "PATH": f"{site.project}/bin:{site.env['PATH']}",
        "OUTFITTER_WORKTREE": str(site.project),
        "OUTFITTER_SOURCE_TREE": str(site.project),
    }
    assert layer.unset == ("COUNT",)
    assert [(one.variable, one.op) for one in layer.operations] == [("PATH", "prepend")]
    assert "function f" in layer.note
    assert layer.origin.file == f"{site.project}/setup.sh"


def test_nothing_runs_before_it_is_allowed(site: Site) -> None:
    site.script("export A=1")
    layer = site.layer()
    assert (layer.state, layer.values, site.runs()) == ("blocked", {}, 0)
    assert layer.note == f"not trusted: read its files, then type: outfitter trust {site.project}"
    site.allow()
    assert (site.layer().state, site.runs()) == ("applied", 1)


def test_a_grant_that_the_machine_could_not_read_is_read_later(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.script("export A=1")
    site.allow()
    clock, passed = time.monotonic, 0.0
    monkeypatch.setattr(time, "monotonic", lambda: clock() + passed)

    def no_descriptor(path: str, most: int) -> bytes:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    with monkeypatch.context() as short:
        short.setattr(privatefile, "read", no_descriptor)
        assert site.layer().state == "blocked"
    passed += RETRY_SECONDS + 1
    assert (site.layer().state, site.runs()) == ("applied", 1)


def test_an_edited_script_asks_again(site: Site) -> None:
    site.script("export A=1")
    site.allow()
    site.layer()
    site.script("export A=2")
    assert (site.layer().state, site.runs()) == ("blocked", 1)
    site.allow()
    assert (site.layer().values["A"], site.runs()) == ("2", 2)
    site.store.revoke("setup", str(site.project))
    assert site.layer().state == "blocked"


def test_commands_may_stand_in_the_declaration(site: Site) -> None:
    site.write("outfitter.toml", "[setup]\nrun = '''\nexport A=1\nexport B=$A$A\n'''\n")
    site.allow()
    layer = site.layer()
    assert (layer.values["A"], layer.values["B"]) == ("1", "11")


def test_many_commands_run_it_once_and_get_the_same(site: Site) -> None:
    site.script("export A=1")
    site.allow()
    assert len({id(site.layer()) for _ in range(20)}) == 1
    assert site.runs() == 1


def test_a_warm_look_reads_no_file_and_starts_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.script("export A=1", 'inputs = ["*.lock"]\n')
    site.write("a.lock", "1")
    site.allow()
    site.layer()
    use = site.use()

    def refuse(*args: object, **given: object) -> int:
        raise AssertionError("opened")

    monkeypatch.setattr(os, "open", refuse)
    assert not site.setups.pending(use)
    assert site.setups.layer(use).values["A"] == "1"


@pytest.mark.parametrize("name", ["OUTFITTER_WORKTREE", "OUTFITTER_SOURCE_TREE"])
def test_no_other_layer_says_where_the_worktree_is(site: Site, name: str) -> None:
    for level in (PROVIDER, SESSION):
        stack = site.lower(Layer(level, "other", HERE, {name: "/elsewhere"}))
        assert [one.reason for one in stack.refused] == ["runtime"]
    site.script(f"export {name}=/elsewhere")
    site.allow()
    assert site.layer().values[name] == str(site.project)


# Inputs decide


def test_a_changed_input_runs_it_again_at_once(site: Site) -> None:
    site.script('export A="$(cat some.lock 2>/dev/null)"', 'inputs = ["some.lock"]\n')
    site.allow()
    assert site.layer().values["A"] == ""
    for number, text in enumerate("abcde", 2):  # of the same size, within the same second
        site.write("some.lock", text)
        assert (site.layer().values["A"], site.runs()) == (text, number)


def test_a_touched_input_does_not(site: Site) -> None:
    site.script("export A=1", 'inputs = ["some.lock"]\n')
    path = site.write("some.lock", "same")
    site.allow()
    layer = site.layer()
    os.utime(path, (1, 1))
    assert site.layer() is layer
    path.unlink()
    site.write("some.lock", "same")
    assert site.layer() is layer
    assert site.runs() == 1


def test_a_wildcard_sees_files_come_and_go(site: Site) -> None:
    site.script('export A="$(echo packages/*/lock)"', 'inputs = ["packages/*/lock"]\n')
    site.write("packages/a/lock", "1")
    site.allow()
    assert site.layer().values["A"] == "packages/a/lock"
    new = site.write("packages/b/lock", "1")
    assert site.layer().values["A"] == "packages/a/lock packages/b/lock"
    new.unlink()
    assert site.layer().values["A"] == "packages/a/lock"
    site.write("packages/a/other", "is none")
    site.layer()
    assert site.runs() == 3
    assert list(site.record()["inputs"]) == ["packages/a/lock"]  # type: ignore[call-overload]


def test_other_layers_below_do_not_run_it_again(site: Site) -> None:
    site.script('export PATH="/setup/bin:$PATH"')
    site.allow()
    layer = site.layer()
    site.env["PATH"] = "/new/bin:/usr/bin:/bin"
    more = site.lower(Layer(PROVIDER, "other", HERE, {"OTHER": "1"}))
    assert site.layer(lower=more) is layer
    assert site.runs() == 1
    assert values(site, layer)["PATH"] == "/setup/bin:/new/bin:/usr/bin:/bin"


def test_a_setup_that_writes_its_inputs_runs_once(site: Site) -> None:
    site.script("date +%N%N > made.lock", 'inputs = ["*.lock"]\n')
    site.allow()
    for _ in range(3):
        layer = site.layer()
    assert site.runs() == 1
    assert "made.lock" in layer.note
    assert site.layer(site.process()).state == "applied"
    assert site.runs() == 1


@pytest.mark.parametrize(
    ("pattern", "make", "says"),
    [
        ("sub", "mkdir sub", "for a directory, write sub/*"),
        ("pipe", "mkfifo pipe", "not a file"),
        ("many/*", "mkdir many; cd many; seq 1001 | xargs touch", "more than 1000 inputs"),
    ],
)
def test_inputs_that_cannot_be_are_told(site: Site, pattern: str, make: str, says: str) -> None:
    subprocess.run(["sh", "-c", make], cwd=site.project, check=True)
    site.script("export A=1", f'inputs = ["{pattern}"]\n')
    site.allow()
    layer = site.layer()
    assert (layer.state, site.runs()) == ("failed", 0)
    assert says in layer.note


# Once, across processes


def test_another_process_takes_what_the_first_has_made_of_it(site: Site) -> None:
    site.script("export A=$'two\\nlines' PATH=\"/x:$PATH\"; unset HOME")
    site.allow()
    first, second = site.layer(), site.layer(site.process())
    assert site.runs() == 1
    assert (second.values, second.unset, second.operations) == (first.values, first.unset, first.operations)
    assert second.state == "applied"


def test_a_failure_is_remembered_and_not_repeated(site: Site) -> None:
    site.script("echo what went wrong; exit 7", 'inputs = ["some.lock"]\n')
    site.allow()
    for setups in (site.setups, site.setups, site.process()):
        layer = site.layer(setups)
        assert (layer.state, layer.values, site.runs()) == ("failed", {}, 1)
        assert "it ended with status 7" in layer.note
        assert f"outfitter setup --again {site.project}" in layer.note
    assert (site.record()["exitCode"], site.record()["state"]) == (7, "failed")
    site.layer(again=True)
    assert site.runs() == 2
    site.write("some.lock", "new")
    site.layer()
    assert site.runs() == 3


def test_what_another_process_has_mended_is_seen(site: Site) -> None:
    site.script('[ -e "$HOME/fine" ] || exit 1; export A=1')
    site.allow()
    assert site.layer().state == "failed"
    (site.home / "fine").touch()
    assert site.layer().state == "failed"
    assert site.layer(site.process(), again=True).state == "applied"
    assert (site.layer().values["A"], site.runs()) == ("1", 2)


def test_the_record_says_what_was_done(site: Site) -> None:
    site.script("export A=1 API_TOKEN=abcdefgh; echo hello", 'inputs = ["none.lock"]\n')
    site.allow()
    site.layer()
    told = site.record()
    assert (told["state"], told["exitCode"], told["outcome"]) == ("applied", 0, "captured")
    assert (told["names"], told["set"], told["withheld"]) == (
        ["API_TOKEN", "A"][::-1],
        {"A": "1"},
        ["API_TOKEN"],
    )
    assert told["inputs"] == {"none.lock": None}
    assert told["producer"] == "setup.sh"
    assert site.setups.place(site.use()).read_log(100) == "hello\n"


DRIVER = """
import sys
from outfitter.contract.config import Configuration
from outfitter.contract.setup.setups import Setups
from outfitter.contract.trust import TrustStore
from outfitter.env.layer import BASE, Layer
from outfitter.env.origin import Origin
from outfitter.env.resolve import Rules, Stack
import json, os

state, project, env = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
settings = Configuration({"HOME": env["HOME"]}).settings(project)
setups = Setups(TrustStore(state), state, env["HOME"])
use = setups.use(project, settings)
lower = Stack([Layer(BASE, "base", Origin("test", "here"), env)], (), Rules())
print("ready", flush=True)
sys.stdin.readline()
setups.run(use, lower, settings)
layer = setups.layer(use)
print(layer.state, layer.values.get("A"), flush=True)
"""


def start(site: Site) -> subprocess.Popen[str]:
    args = [sys.executable, "-c", DRIVER, str(site.state), str(site.project), json.dumps(site.env)]
    process = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("more", [":", "date +%N > made.lock"], ids=["plain", "writes its inputs"])
def test_processes_that_come_at_once_run_it_once(site: Site, more: str) -> None:
    site.script(f"sleep 0.3; export A=$$; {more}", 'inputs = ["*.lock"]\n')
    site.allow()
    started = [start(site) for _ in range(4)]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = {process.communicate()[0] for process in started}
    assert len(said) == 1
    assert said.pop().startswith("applied ")
    assert site.runs() == 1


def test_one_that_is_killed_in_the_middle_runs_again(site: Site) -> None:
    site.script('echo $$ > "$HOME/pid"; [ -e "$HOME/quick" ] || sleep 1000; export A=1')
    site.allow()
    process = start(site)
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    wait_until(lambda: (site.home / "pid").exists() and (site.home / "pid").read_text() != "", "it runs")
    assert site.setups.status(site.use()).state == "running"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    script = int((site.home / "pid").read_text())
    wait_until(lambda: not Path(f"{PROC}/{script}").exists(), "the script ends with it", 10 * SECOND)
    assert site.setups.status(site.use()).state == "interrupted"
    (site.home / "quick").touch()
    assert (site.layer().values["A"], site.runs()) == ("1", 2)


# Ways to fail


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("exec true", "replaced-or-exited"),
        ("false", "failed"),
        ("sleep 1000", "timeout"),
        ("x=$(printf '%0100000d' 0); for i in 1 2 3 4 5 6 7 8 9 10 11; do export B$i=$x; done", "too-large"),
    ],
)
def test_a_script_that_misbehaves_leaves_no_layer_and_a_word(site: Site, text: str, outcome: str) -> None:
    site.script(f"export A=1; {text}", "timeout = 1\n" if outcome == "timeout" else "")
    site.allow()
    layer = site.layer()
    assert (layer.state, layer.values, layer.operations) == ("failed", {}, ())
    assert site.record()["outcome"] == outcome
    assert site.record()["set"] == {}


def test_one_that_is_killed_is_tried_again_soon(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    # As a server does with everything of a session that ends: that says nothing about the next time.
    site.script('[ -e "$HOME/fine" ] || kill -9 $$; export A=1')
    site.allow()
    layer = site.layer()
    assert (layer.state, site.runs()) == ("failed", 1)
    assert "signal 9 ended it" in layer.note
    assert site.setups.status(site.use()).state == "interrupted"
    (site.home / "fine").touch()
    clock = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: clock() + 2)
    assert (site.layer().values["A"], site.runs()) == ("1", 2)


def test_what_cannot_be_kept_holds_for_this_process(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.script("export A=1")
    site.allow()

    def full(self: SetupFiles, text: str) -> None:
        raise SettingInvalid("no space left")

    monkeypatch.setattr(SetupFiles, "write_log", full)
    for _ in range(3):
        layer = site.layer()
    assert (layer.values["A"], site.runs()) == ("1", 1)
    assert "no space left" in layer.note


def test_one_that_cannot_be_started_leaves_no_record_and_is_tried_again_later(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.script("export A=1")
    site.allow()
    path, site.env["PATH"] = site.env["PATH"], "/nowhere"  # no bash is there
    layer = site.layer()
    assert (layer.state, site.runs()) == ("failed", 0)
    assert list((site.state / "setups").glob("*.json")) == []  # else it would have been cut off
    assert site.setups.status(site.use()).state == "new"
    site.env["PATH"] = path
    clock = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: clock() + 9)
    assert site.layer().state == "failed"
    monkeypatch.setattr(time, "monotonic", lambda: clock() + 11)
    assert (site.layer().state, site.runs()) == ("applied", 1)


def test_inputs_that_it_makes_unreadable_are_told_at_the_next_look(site: Site) -> None:
    site.script("rm made.lock; mkdir made.lock; export A=1", 'inputs = ["made.lock"]\n')
    site.write("made.lock", "1")
    site.allow()
    use = site.use()
    site.setups.run(use, site.lower(), Settings())
    assert site.setups.layer(use).values["A"] == "1"
    later = site.layer()
    assert later.state == "failed" and "for a directory, write " in later.note


def test_what_did_not_run_has_its_cost_in_milliseconds(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.script("export A=1")
    clock = iter(range(5_000, 6_000))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    layer = site.layer()
    assert layer.state == "blocked"
    assert layer.cost_ms in [seconds * 1000 for seconds in range(1, 9)]


def test_what_ran_has_its_cost_in_milliseconds(site: Site) -> None:
    site.script("export A=1")
    site.allow()
    layer = site.layer()
    [kept] = [json.loads(path.read_text()) for path in (site.state / "setups").glob("*.json")]
    assert round(layer.cost_ms / 1000, 3) == kept["seconds"] > 0


def test_commands_can_insist_on_it(site: Site) -> None:
    site.script("echo the reason; exit 3", "required = true\n")
    with pytest.raises(SetupBlocked, match=f"outfitter trust {site.project}"):
        site.layer()
    site.allow()
    for setups in (site.setups, site.process()):
        with pytest.raises(SetupFailed, match="it ended with status 3") as caught:
            site.layer(setups)
        assert caught.value.tail == "the reason\n"
        assert Path(caught.value.log).read_text() == "the reason\n"
    site.script("export A=1", "required = true\n")
    site.allow()
    assert site.layer().values["A"] == "1"


def test_a_script_that_is_not_there_is_told(site: Site) -> None:
    site.write("outfitter.toml", '[setup]\nscript = "setup.sh"\n')
    layer = site.layer()
    assert layer.state == "failed"
    assert "has no setup.sh" in layer.note
    site.script("export A=1")
    site.allow()
    assert site.layer().state == "applied"


def test_a_shell_that_is_not_there_is_not_remembered(site: Site) -> None:
    site.script("export A=1")
    site.allow()
    path = site.env["PATH"]
    site.env["PATH"] = "/nowhere"
    assert site.layer().state == "failed"
    site.env["PATH"] = path
    assert site.layer(site.process()).state == "applied"


# Secrets


def test_no_secret_is_on_any_disk(site: Site) -> None:
    site.env.update(OUTER_TOKEN="outer-secret-1", PLAIN_NAME="told-by-provider-2")
    site.script(
        f"set -x; export API_TOKEN={SECRET} URL=postgres://me:{SECRET}@host/db NAME_OF_IT=x{SECRET}y\n"
        "export MY_PIN=pin-value-3\n"
        'export PATH="/opt/$API_TOKEN/bin:$PATH" COPY="$OUTER_TOKEN" OTHER="$PLAIN_NAME" FINE=fine\n'
        'env; echo "$API_TOKEN" "$MY_PIN"'
    )
    site.write("outfitter.toml", '[setup]\nscript = "setup.sh"\n[names]\nsecret = ["*_PIN"]\n')
    site.allow()
    told = Layer(
        PROVIDER, "p", HERE, {"PLAIN_NAME": "told-by-provider-2"}, secrets=frozenset(("PLAIN_NAME",))
    )
    layer = site.layer(lower=site.lower(told))
    assert layer.values["API_TOKEN"] == SECRET
    assert layer.values["COPY"] == "outer-secret-1"
    hidden = {"API_TOKEN", "URL", "NAME_OF_IT", "MY_PIN", "PATH", "COPY", "OTHER"}
    assert layer.secrets == hidden
    assert site.record()["set"] == {"FINE": "fine"}
    assert set(site.record()["withheld"]) == hidden  # type: ignore[call-overload]
    kept = site.kept()
    assert b"FINE" in kept
    for value in (SECRET, "outer-secret-1", "told-by-provider-2", "pin-value-3"):
        assert value.encode() not in kept
    assert SECRET not in repr(layer) + layer.note


def test_with_secrets_each_process_runs_it_for_itself_and_once(site: Site) -> None:
    site.script(f"export API_TOKEN={SECRET}")
    site.allow()
    layer = site.layer()
    other = site.process()
    second = site.layer(other)
    assert (second.values["API_TOKEN"], site.runs()) == (SECRET, 2)
    assert "run again: API_TOKEN is secret" in second.note
    for _ in range(3):  # the other's run is no news
        assert site.layer() is layer
        assert site.layer(other) is second
    assert site.runs() == 2


@KEYRING
def test_processes_without_a_server_share_secrets_in_the_keyring(site: Site) -> None:
    site.script(f'export API_TOKEN={SECRET} PLAIN=p PATH="/opt/{SECRET}/bin:$PATH:/usr/games"')
    site.allow()
    first, second = site.process(), site.process()
    first.shares_secrets = second.shares_secrets = True
    layer = site.layer(first)
    later = site.layer(second)
    assert site.runs() == 1
    assert values(site, later) == values(site, layer)
    assert later.secrets == layer.secrets == {"API_TOKEN", "PATH"}
    assert (later.values["API_TOKEN"], later.values["PLAIN"]) == (SECRET, "p")
    assert SECRET.encode() not in site.kept()
    # A server has its own in its memory, and takes what is there.
    assert site.layer(site.process()).values["API_TOKEN"] == SECRET
    assert site.runs() == 1
    # Another run has other secrets; those of this one are no longer meant.
    site.layer(site.process(), again=True)
    assert site.layer(second, again=False) is later
    assert "run again" in site.layer(site.process()).note
    keyring.forget(f"outfitter:setup:{second.place(site.use()).name}")


def test_secrets_that_were_handed_over_spare_a_run(site: Site) -> None:
    site.script(f'export API_TOKEN={SECRET} PLAIN=p PATH="/opt/{SECRET}/bin:$PATH:/usr/games"')
    site.allow()
    first, unused, second = site.process(), site.process(), site.process()
    layer = site.layer(first)
    # Through a version that nobody has asked for it, as JSON.
    unused.left.update(json.loads(json.dumps(first.secrets)))
    second.left.update(json.loads(json.dumps(unused.secrets)))
    later = site.layer(second)
    assert (values(site, later), later.secrets, later.note) == (
        values(site, layer),
        layer.secrets,
        layer.note,
    )
    assert (site.runs(), second.left) == (1, {})
    assert second.secrets == first.secrets
    # What was told of another run is nothing.
    third = site.process()
    third.left.update({name: {**told, "run": "another"} for name, told in first.secrets.items()})
    assert "run again: API_TOKEN, PATH is secret" in site.layer(third).note


def test_a_setup_without_secrets_hands_nothing_over(site: Site) -> None:
    site.script("export PLAIN=p")
    site.allow()
    first = site.process()
    site.layer(first)
    assert first.secrets == {}


def test_a_log_is_bounded(site: Site) -> None:
    site.script("yes | head -c 3000000; echo; echo the end")
    site.allow()
    site.layer()
    [path] = (site.state / "setups").glob("*.log")
    assert path.stat().st_size < 1 << 21
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text().endswith("the end\n")


# Worktrees


def git(*args: str, at: Path) -> None:
    own = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "HOME": str(at)}
    who = ["-c", "user.name=x", "-c", "user.email=x@y", "-c", "commit.gpgsign=false"]
    subprocess.run(
        [program("git"), *who, *args],
        cwd=at,
        env={"PATH": "/usr/bin:/bin", **own},
        check=True,
        capture_output=True,
    )


@pytest.fixture
def repository(site: Site) -> Path:
    """The main checkout, committed, with a linked worktree beside it at `project-2`."""
    (site.project / ".git").rmdir()
    git("init", "-q", at=site.project)
    site.script('export A="$OUTFITTER_WORKTREE|$OUTFITTER_SOURCE_TREE"')
    site.write("inner/outfitter.toml", '[setup]\nrun = "export A=$OUTFITTER_SOURCE_TREE"\n')
    git("add", ".", at=site.project)
    git("commit", "-qm", "x", at=site.project)
    linked = site.folder / "project-2"
    git("worktree", "add", "-q", str(linked), at=site.project)
    return linked


def test_each_worktree_is_set_up_once_and_knows_where_it_comes_from(site: Site, repository: Path) -> None:
    site.allow()
    site.allow(repository)
    assert site.layer().values["A"] == f"{site.project}|{site.project}"
    assert site.layer(at=repository).values["A"] == f"{repository}|{site.project}"
    for at in (site.project, repository, repository):
        site.layer(at=at)
    assert site.runs() == 2


@pytest.mark.parametrize("same_process", [True, False])
def test_a_worktree_that_was_made_again_is_set_up_again(
    site: Site, repository: Path, same_process: bool
) -> None:
    site.allow(repository)
    site.layer(at=repository)
    git("worktree", "remove", "--force", str(repository), at=site.project)
    git("worktree", "add", "-q", "-f", str(repository), "project-2", at=site.project)
    setups = site.setups if same_process else site.process()
    status = setups.status(site.use(repository))
    assert (status.state, "made again" in status.note) == ("new", True)
    site.layer(setups, at=repository)
    assert site.runs() == 2
    site.layer(site.process(), at=repository)
    assert (site.runs(), setups.status(site.use(repository)).state) == (2, "applied")


def test_a_repository_that_is_begun_later_is_no_other_worktree(site: Site) -> None:
    (site.project / ".git").rmdir()
    site.script("export A=1")
    site.allow()
    site.layer()
    git("init", "-q", at=site.project)
    site.layer(site.process())
    assert site.runs() == 1


def test_a_grant_of_the_main_checkout_is_offered_and_not_taken(site: Site, repository: Path) -> None:
    site.allow()
    layer = site.layer(at=repository)
    assert (layer.state, site.runs()) == ("blocked", 0)
    assert f"the same content is allowed in {site.project}" in layer.note
    assert f"outfitter trust {repository}" in layer.note
    use = site.use(repository)
    assert trust_of(site.store, use, make_plan(use.declared)).state == "untrusted"
    site.write("setup.sh", "other\n", at=repository)
    assert "allowed in" not in site.layer(at=repository).note


def test_a_project_below_the_checkout_has_its_own_source_folder(site: Site, repository: Path) -> None:
    inner = repository / "inner"
    site.allow(inner)
    assert site.layer(at=inner).values["A"] == f"{site.project}/inner"


def test_a_bare_repository_has_no_main_checkout(site: Site, repository: Path) -> None:
    git("clone", "-q", "--bare", str(site.project), str(site.folder / "bare.git"), at=site.folder)
    linked = site.folder / "of-bare"
    git("worktree", "add", "-q", str(linked), at=site.folder / "bare.git")
    assert source_tree(str(linked)) == str(linked)


@pytest.mark.parametrize(
    "text", ["", "gitdir:", "gitdir: /nowhere\n", "nonsense\n", "gitdir: a\nb\n", "gitdir: \0"]
)
def test_a_broken_link_is_a_plain_checkout(site: Site, text: str) -> None:
    (site.project / ".git").rmdir()
    (site.project / ".git").write_text(text)
    assert source_tree(str(site.project)) == str(site.project)


# Other tools' files

CODEX = """version = 1
name = "web"

[setup]
script = "export A=all B=$CODEX_WORKTREE_PATH C=$CODEX_SOURCE_TREE_PATH"

[setup.darwin]
script = "export A=darwin"

[cleanup]
script = "rm -rf /"

[[actions]]
name = "Run"
icon = "run"
command = "npm start"
"""


def test_the_script_of_codex_runs_with_its_variables(site: Site) -> None:
    site.write("outfitter.toml", '[setup]\nfrom = "codex"\n')
    site.write(".codex/environments/environment.toml", CODEX)
    site.allow()
    project = str(site.project)
    found = values(site, site.layer())
    assert (found["A"], found["B"], found["C"]) == ("all", project, project)
    assert (found["CODEX_WORKTREE_PATH"], found["CODEX_SOURCE_TREE_PATH"]) == (project, project)
    site.write(".codex/environments/environment.toml", f'{CODEX}\n[setup.linux]\nscript = "export A=linux"\n')
    assert site.layer().state == "blocked"
    site.allow()
    assert site.layer().values["A"] == "linux"


def test_one_of_several_is_chosen_by_its_name(site: Site) -> None:
    for name in ("one", "two"):
        site.write(
            f".codex/environments/{name}.toml", f'name = "The {name}"\n[setup]\nscript = "export A={name}"\n'
        )
    site.write("outfitter.toml", '[setup]\nfrom = "codex"\n')
    assert "choose one with `name`: one, two" in site.layer().note
    for name in ("two", "The two"):
        site.write("outfitter.toml", f'[setup]\nfrom = "codex"\nname = "{name}"\n')
        site.allow()
        assert site.layer().values["A"] == "two"
    site.write("outfitter.toml", '[setup]\nfrom = "codex"\nname = "three"\n')
    assert "no Codex environment is named `three`" in site.layer().note


def test_a_file_of_codex_without_a_script_is_nothing_to_run(site: Site) -> None:
    site.write("outfitter.toml", '[setup]\nfrom = "codex"\nrequired = true\n')
    site.write(".codex/environments/environment.toml", 'version = 1\nname = "x"\n[setup]\nscript = ""\n')
    assert site.layer().state == "not-applicable"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("version = 2\n", "only 1 is supported"),
        ("[setup]\nscripts = 1\n", "unknown field `scripts`"),
        ("[setup.beos]\nscript = ''\n", "unknown field `beos`"),
        ("[setup]\nscript = 1\n", "script"),
        ("extra = 1\n", "unknown field `extra`"),
        ("[setup\n", "not valid TOML"),
    ],
)
def test_what_is_wrong_with_a_file_of_codex_is_told(site: Site, text: str, says: str) -> None:
    site.write("outfitter.toml", '[setup]\nfrom = "codex"\n')
    path = site.write(".codex/environments/environment.toml", text)
    layer = site.layer()
    assert layer.state == "failed"
    assert says in layer.note
    assert str(path) in layer.note
    with pytest.raises(FileInvalid):
        make_plan(site.use().declared)


def test_the_commands_of_a_devcontainer_run_in_their_order(site: Site) -> None:
    site.write("outfitter.toml", '[setup]\nfrom = "devcontainer"\n')
    site.write(
        ".devcontainer/devcontainer.json",
        """{
          // comments and all
          "image": "x",
          "postCreateCommand": {"a": "echo object-a >> log", "b": ["sh", "-c", "echo object-b >> log"]},
          "onCreateCommand": "echo string $0 >> ${containerWorkspaceFolder}/log; export NOT_KEPT=1",
          "updateContentCommand": ["sh", "-c", "echo array \\"$1\\" >> log", "x",
                                   "it's ${localWorkspaceFolder}"],
          "postStartCommand": "echo never >> log",
        }""",
    )
    site.allow()
    layer = site.layer()
    assert layer.state == "applied", layer.note
    assert "NOT_KEPT" not in layer.values
    lines = (site.project / "log").read_text().splitlines()
    assert lines[:2] == ["string /bin/sh", f"array it's {site.project}"]
    assert sorted(lines[2:]) == ["object-a", "object-b"]


@pytest.mark.parametrize(
    "command",
    ['"exit 5"', '["sh", "-c", "exit 5"]', '{"a": "true", "b": "exit 5", "c": "true"}'],
)
def test_one_that_fails_fails_the_setup(site: Site, command: str) -> None:
    site.write("outfitter.toml", '[setup]\nfrom = "devcontainer"\n')
    site.write(".devcontainer.json", f'{{"onCreateCommand": {command}, "postCreateCommand": "touch on"}}')
    site.allow()
    assert site.layer().state == "failed"
    assert site.record()["exitCode"] == 5
    assert not (site.project / "on").exists()


@pytest.mark.parametrize("command", ["1", "[]", '["a", 1]', '{"a": {}}', '{"a": [1]}'])
def test_a_command_of_another_kind_is_refused_by_its_line(site: Site, command: str) -> None:
    site.write("outfitter.toml", '[setup]\nfrom = "devcontainer"\n')
    site.write(".devcontainer.json", f'{{\n"postCreateCommand": {command}}}')
    with pytest.raises(SettingInvalid, match=r"devcontainer\.json:2: postCreateCommand"):
        make_plan(site.use().declared)


# The declaration


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('script = "a"\nrun = "b"', "cannot be used together"),
        ('script = "a"\nfrom = "codex"', "cannot be used together"),
        ('run = "a"\nname = "x"', "needs `setup.from`"),
        ('script = "/etc/x"', "not a path inside the project"),
        ('script = "../x"', "not a path inside the project"),
        ('script = "~/x"', "not a path inside the project"),
        ('inputs = ["a/../../b"]', "not a path inside the project"),
        ('inputs = ["**/x"]', "not a path inside the project"),
        ('run = " "', "is empty"),
        ('inputs = ["a"]\nrequired = true', "has nothing to run; write `script`, `run` or `from`"),
        ('from = "make"', "an unknown value"),
        ("timeout = 0", "more than 0"),
        ("timeout = 100000", "at most 86400 seconds"),
        ('command = "x"', "unknown field `command`"),
    ],
)
def test_mistakes_are_told(site: Site, text: str, says: str) -> None:
    site.write("outfitter.toml", f"[setup]\n{text}\n")
    with pytest.raises(FileInvalid, match=says):
        Configuration({"HOME": str(site.home)}).settings(str(site.project))


def test_it_is_not_for_the_users_own_file(site: Site) -> None:
    site.write(".config/outfitter/config.toml", '[setup]\nrun = "x"\n', at=site.home)
    with pytest.raises(FileInvalid, match="only allowed in a project's"):
        Configuration({"HOME": str(site.home)}).settings(str(site.project))


# A state folder that is full, or that nobody may write to


def test_a_log_that_cannot_be_kept_does_not_make_it_run_again(site: Site) -> None:
    site.script("export MADE=1")
    site.allow()
    Path(SetupFiles(str(site.state), str(site.project)).log).mkdir(parents=True)  # nothing can take its place
    first = site.layer()
    assert (first.state, first.values["MADE"]) == ("applied", "1")
    assert "cannot write the result" in first.note
    assert (site.layer(site.process()).state, site.runs()) == ("applied", 1)


def test_what_is_kept_holds_where_nobody_can_lock_it(site: Site) -> None:  # V7
    site.script("export MADE=1")
    site.allow()
    site.layer()
    lock = Path(SetupFiles(str(site.state), str(site.project)).lock)
    lock.unlink()
    lock.mkdir()
    later = site.layer(site.process())
    assert (later.state, later.values["MADE"], site.runs()) == ("applied", "1", 1)
    site.script("export MADE=2")
    site.allow()
    assert site.layer(site.process()).state == "failed"


def test_a_script_that_is_swapped_before_its_start_does_not_run(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.script("export A=good")
    site.allow()

    def swapped(*args: Any, **more: Any) -> Captured:
        site.script("export A=evil")
        return capture(*args, **more)

    monkeypatch.setattr("outfitter.host.tools.capture.capture", swapped)
    settings = Configuration({"HOME": str(site.home)}).settings(str(site.project))
    site.setups.run(site.use(), site.lower(), settings)
    assert site.setups.layer(site.use()).values["A"] == "good"
    assert site.runs() == 1
    # The file is another one now, which nobody has allowed.
    assert site.layer().state == "blocked"
