"""direnv, the real one: allowed before it runs, exact data, and nothing left behind."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from outfitter.env.layer import BASE, PROVIDER, Layer, Operation
from outfitter.env.origin import EXECUTOR, Origin
from outfitter.env.policy import Policy
from outfitter.env.resolve import Rules, Stack
from outfitter.providers.base import Detection, Lost, Resolution
from outfitter.providers.direnv import Direnv
from outfitter.shell.activation import unpack_direnv
from tests.support.machine import SECOND, own_descriptors
from tests.support.tools import program

from .project import PATH, Project, applied

# Leaves a trace if anything of it is ever evaluated.
WITNESS = "touch ran\n"


class Place(Project):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.tool = program("direnv")
        self.direnv = Direnv()

    def run(self, *words: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
        """What a person types: direnv in a shell of theirs."""
        done = subprocess.run(
            [self.tool, *words],
            cwd=cwd or self.root,
            env=env or self.env,
            stdout=subprocess.PIPE,
            check=True,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        return done.stdout

    def allow(self, text: str) -> None:
        self.write(".envrc", text)
        self.run("allow", ".")

    @property
    def found(self) -> Detection:
        found = self.direnv.detect(str(self.root))
        assert found is not None
        return found

    def trusted(self) -> str:
        return self.direnv.trust(self.found, self.context()).state

    def resolve(self, env: dict[str, str] | None = None, timeout: float = 20 * SECOND) -> Resolution:
        return self.direnv.resolve(self.found, self.context(env, timeout=timeout))

    @property
    def ran(self) -> bool:
        return (self.root / "ran").exists()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    before = own_descriptors()
    yield place
    assert place.left_behind() == []
    assert own_descriptors() == before


# Detection


def test_the_nearest_file_upwards_counts(place: Place) -> None:
    outer = place.write(".envrc", "")
    inner = place.write("a/.envrc", "")
    (place.root / "a/b/c").mkdir(parents=True)
    assert place.direnv.detect(str(place.root / "a/b/c")) == Detection(
        str(place.root / "a"), (str(inner),), f"direnv:{inner}"
    )
    inner.unlink()
    assert place.direnv.detect(str(place.root / "a/b/c")) == Detection(
        str(place.root), (str(outer),), f"direnv:{outer}"
    )


def test_the_search_ends_at_a_repository(place: Place) -> None:
    place.write(".envrc", "")
    place.write("clone/.git", "gitdir: elsewhere\n")
    (place.root / "clone/src").mkdir()
    assert place.direnv.detect(str(place.root / "clone/src")) is None
    place.write("clone/.envrc", "")
    assert place.direnv.detect(str(place.root / "clone/src")) is not None


def test_a_pipe_is_no_envrc(place: Place) -> None:
    os.mkfifo(place.root / ".envrc")
    assert place.direnv.detect(str(place.root)) is None


# Trust: read from files, with nothing started


def test_untrusted_until_allowed_and_again_after_an_edit(place: Place) -> None:
    file = place.write(".envrc", WITNESS)
    untrusted = place.direnv.trust(place.found, place.context())
    assert (untrusted.state, untrusted.by, untrusted.grant) == ("untrusted", "direnv", f"direnv allow {file}")
    place.run("allow", ".")
    trusted = place.direnv.trust(place.found, place.context())
    assert (trusted.state, trusted.digest) == ("trusted", untrusted.digest)
    place.write(".envrc", f"{WITNESS}export MORE=1\n")
    edited = place.direnv.trust(place.found, place.context())
    assert edited.state == "untrusted"
    assert edited.digest != trusted.digest
    assert not place.ran


def test_an_edit_within_the_same_second_is_noticed(place: Place) -> None:
    place.allow("export A=1\n")
    before = (place.root / ".envrc").stat()
    place.write(".envrc", "export A=2\n")  # of the same size
    os.utime(place.root / ".envrc", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert place.trusted() == "untrusted"


def test_what_a_person_denied_is_denied(place: Place) -> None:
    place.allow(WITNESS)
    # As direnv 2.33 and later record it; earlier ones only take the grant back.
    import hashlib

    record = hashlib.sha256(f"{place.root}/.envrc\n".encode()).hexdigest()
    folder = place.home / ".local/share/direnv/deny"
    folder.mkdir()
    (folder / record).write_text("")
    assert place.trusted() == "denied"
    (folder / record).unlink()
    assert place.trusted() == "trusted"
    place.run("deny", ".")
    assert place.trusted() in ("untrusted", "denied")


def test_another_worktree_is_another_path_and_not_allowed(place: Place) -> None:
    place.allow(WITNESS)
    git = program("git")
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for words in (
        ["init", "-q"],
        ["add", ".envrc"],
        ["commit", "-qm", "x"],
        ["worktree", "add", "-q", "../other"],
    ):
        subprocess.run([git, *who, *words], cwd=place.root, env=place.env, check=True)
    other = place.direnv.detect(str(place.root.parent / "other"))
    assert other is not None
    assert (Path(other.files[0]).read_text(), place.trusted()) == (WITNESS, "trusted")
    assert place.direnv.trust(other, place.context()).state == "untrusted"


@pytest.mark.parametrize(
    ("settings", "state"),
    [
        ('[whitelist]\nprefix = ["{root}"]\n', "trusted"),
        ('[whitelist]\nexact = ["{root}"]\n', "trusted"),
        ('[whitelist]\nexact = ["{root}/.envrc"]\n', "trusted"),
        ('[whitelist]\nprefix = ["~/../project"]\n', "trusted"),
        ('[whitelist]\nprefix = ["/elsewhere"]\nexact = ["{root}/sub"]\n', "untrusted"),
        ('[whitelist]\nprefix = "{root}"\n', "untrusted"),
        ("[whitelist\n", "untrusted"),
    ],
)
def test_the_whitelist_of_direnv_counts_as_it_does_for_direnv(
    place: Place, settings: str, state: str
) -> None:
    folder = place.home / ".config/direnv"
    folder.mkdir(parents=True)
    (folder / "direnv.toml").write_text(settings.format(root=place.root))
    place.write(".envrc", "export LISTED=1\n")
    assert place.trusted() == state
    # direnv's own word is the same.
    assert (place.resolve().state == "applied") == (state == "trusted")


def test_records_are_looked_for_where_direnv_keeps_them(place: Place) -> None:
    place.env["XDG_DATA_HOME"] = str(place.home / "data")
    place.allow("export A=1\n")
    assert (place.trusted(), place.resolve().set) == ("trusted", {"A": "1"})
    del place.env["XDG_DATA_HOME"]
    assert place.trusted() == "untrusted"


def test_a_folder_reached_through_a_link_is_trusted_as_direnv_does(place: Place) -> None:
    place.allow("export A=1\n")
    link = place.root.parent / "link"
    link.symlink_to(place.root)
    found = place.direnv.detect(str(link))
    assert found is not None
    assert found.root == str(link)
    assert place.direnv.trust(found, place.context()).state == "trusted"
    assert place.direnv.resolve(found, place.context()).set == {"A": "1"}


def test_a_bare_env_file_counts_only_where_both_configurations_say_so(place: Place) -> None:
    file = place.write(".env", "A=1\n")
    assert place.direnv.detect(str(place.root)) is None
    place.direnv = Direnv({"load_dotenv": True})
    assert place.found.files == (str(file),)
    assert place.trusted() == "untrusted"
    folder = place.home / ".config/direnv"
    folder.mkdir(parents=True)
    (folder / "direnv.toml").write_text("[global]\nload_dotenv = true\n")
    place.run("allow", ".env")
    assert (place.trusted(), place.resolve().set) == ("trusted", {"A": "1"})


def test_an_envrc_that_cannot_be_looked_at_is_not_trusted(place: Place) -> None:
    place.allow(f"# {'x' * (1 << 20)}\n")
    trust = place.direnv.trust(place.found, place.context())
    assert (trust.state, trust.digest) == ("untrusted", "")


# Resolution


def test_what_it_exports_is_data(place: Place) -> None:
    place.allow(
        "export PLAIN=1 EMPTY='' LINES_OF=$'a\\nb\\n' QUOTED='\"$HOME\"' UMLAUT=ä\n"
        "PATH_add bin\nunset LANG\necho to stdout\n"
    )
    said = place.resolve()
    origin = Origin("provider", f"direnv:{place.root}/.envrc", f"{place.root}/.envrc")
    assert said.set == {
        "EMPTY": "",
        "LINES_OF": "a\nb\n",
        "PLAIN": "1",
        "QUOTED": '"$HOME"',
        "UMLAUT": "ä",
    }
    assert said.unset == ("LANG",)
    assert said.operations == (Operation("PATH", "prepend", (f"{place.root}/bin",), origin),)
    assert said.lost == ()
    assert said.producer == f"direnv {place.run('version').strip()}"
    assert "to stdout" in said.stderr_tail


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("export PATH=$PATH:/behind", [("append", ("/behind",))]),
        ("export PATH=/usr/bin:/bin", [("remove", ("/usr/local/bin",))]),
        ("export PATH=/bin:/usr/bin", [("replace", ("/bin", "/usr/bin"))]),
        ("path_add MANPATH /man", [("prepend", ("/man",))]),
    ],
)
def test_lists_are_told_as_what_was_done_to_them(
    place: Place, line: str, wanted: list[tuple[str, tuple[str, ...]]]
) -> None:
    place.allow(f"{line}\n")
    assert [(one.op, one.values) for one in place.resolve().operations] == wanted


def test_untrusted_it_fails_and_runs_nothing_even_if_asked(place: Place) -> None:
    place.write(".envrc", WITNESS)
    said = place.resolve()
    assert (said.state, said.set, said.operations) == ("failed", {}, ())
    assert "is blocked" in said.stderr_tail
    assert not place.ran


def test_nothing_to_say_is_nothing_to_do(place: Place) -> None:
    place.allow("# nothing\n")
    said = place.resolve()
    assert (said.state, said.set, said.unset, said.operations) == ("applied", {}, (), ())


def test_a_base_in_which_it_is_loaded_gives_the_same(place: Place) -> None:
    place.allow("export A=1 LANG=de_DE.UTF-8\nunset XDG_TEST\nPATH_add bin\n")
    clean = place.resolve()
    shown = json.loads(place.run("export", "json"))
    loaded = {**place.env, **{name: value for name, value in shown.items() if value is not None}}
    loaded = {name: value for name, value in loaded.items() if shown.get(name, "") is not None}
    assert place.run("export", "json", env=loaded) == ""  # that is what direnv says to it
    context = place.context(loaded)
    assert dict(context.env) == place.env
    again = place.resolve(loaded)
    assert again == clean
    assert applied(again, place.env)["PATH"] == f"{place.root}/bin:{PATH}"


def test_the_path_that_was_watched_is_in_the_list_there_or_not(place: Place) -> None:
    place.write("settings", "1\n")
    place.write(".env", "FROM_FILE=1\n")
    place.allow("watch_file settings absent\ndotenv\n")
    said = place.resolve()
    wanted = {f"{place.root}/{name}" for name in (".envrc", "settings", "absent", ".env")}
    assert wanted <= set(said.watch)
    assert set(place.direnv.watch(place.found, place.context())) <= set(said.watch)
    shown = json.loads(place.run("export", "json"))
    entries = unpack_direnv(shown["DIRENV_WATCHES"])
    assert isinstance(entries, list)
    assert {entry["Path"] for entry in entries} <= set(said.watch)


def test_a_watched_file_that_changes_within_the_second_gives_its_new_value(place: Place) -> None:
    file = place.write(".env", "FROM_FILE=1\n")
    place.allow("dotenv\n")
    assert place.resolve().set == {"FROM_FILE": "1"}
    before = file.stat()
    place.write(".env", "FROM_FILE=2\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_ctime_ns != before.st_ctime_ns  # which is what a watcher sees
    assert place.resolve().set == {"FROM_FILE": "2"}


def test_a_grant_and_its_withdrawal_are_watched(place: Place) -> None:
    place.write(".envrc", "export A=1\n")
    watched = place.direnv.watch(place.found, place.context())
    before = {path for path in watched if os.path.exists(path)}
    place.run("allow", ".")
    granted = {path for path in watched if os.path.exists(path)} - before
    assert [os.path.dirname(path) for path in granted] == [str(place.home / ".local/share/direnv/allow")]


def test_exported_functions_are_told_to_be_lost(place: Place) -> None:
    place.write("lib/.envrc", "from_lib() { :; }\nexport -f from_lib\n")
    place.run("allow", "lib/.envrc")
    place.allow(
        "greet() { echo hello; }\nexport -f greet # for all\n# export -f not_this\nsource_env lib\n"
        "one() { :; }; two() { :; }; declare -fx one two\nexport VALUE=1\n"
    )
    said = place.resolve()
    assert said.set == {"VALUE": "1"}
    assert said.lost == tuple(Lost("function", name, "wrap") for name in ("greet", "one", "two", "from_lib"))
    wrapping = place.direnv.resolve(place.found, place.context(mode="wrap"))
    assert (wrapping.set, wrapping.lost) == ({}, ())
    argv = [*wrapping.prefix, "bash", "-c", "greet"]
    kept = subprocess.run(argv, cwd="/", env=place.env, stdout=subprocess.PIPE, check=True, text=True)
    assert kept.stdout == "hello\n"


def test_tools_get_nothing_but_the_list(place: Place) -> None:
    place.env |= {"CI": "true", "API_TOKEN": "abcdefgh", "EDITOR": "vi"}
    place.allow('export SEEN="${CI-none} ${API_TOKEN-none} ${EDITOR-none} $SHLVL"\n')
    assert place.resolve().set["SEEN"].rsplit(" ", 1)[0] == "none none none"


def test_what_a_project_may_not_set_is_refused_entry_by_entry(place: Place) -> None:
    place.allow(
        "export FINE=1 LD_PRELOAD=/x.so OUTFITTER_X=1 DENIED=1 COLUMNS=7\nunset HOME\n"
        "path_add PYTHONPATH src\nPATH_add bin\n"
    )
    said = place.resolve()
    layers = [
        Layer(BASE, "base", EXECUTOR, {**place.env, "DENIED": "0"}),
        Layer(PROVIDER, "direnv", EXECUTOR, said.set, unset=said.unset, operations=said.operations),
    ]
    stack = Stack(layers, [Policy("all", exclude=("DENIED",))], Rules())
    assert {one.name: one.reason for one in stack.refused} == {
        "COLUMNS": "shell-maintained",
        "DENIED": "denied",
        "HOME": "required",
        "LD_PRELOAD": "code-loading",
        "OUTFITTER_X": "runtime",
        "PYTHONPATH": "code-loading",
    }
    assert stack.values == {**place.env, "FINE": "1", "PATH": f"{place.root}/bin:{PATH}"}


# What goes wrong


def test_the_exit_code_decides_not_the_output(place: Place) -> None:
    place.allow("export A=1\nexit 3\n")
    said = place.resolve()
    assert (said.state, said.set) == ("failed", {})
    assert "status 1" in said.note


def test_an_early_exit_keeps_what_was_exported_as_direnv_does(place: Place) -> None:
    place.allow("export A=1\nexit 0\nexport B=2\n")
    assert place.resolve().set == {"A": "1"}


def test_a_failing_line_in_the_middle_does_not_stop_it(place: Place) -> None:
    place.allow("export A=1\nfalse\nnonsense-command\nexport B=2\n")
    said = place.resolve()
    assert said.set == {"A": "1", "B": "2"}
    assert "nonsense-command" in said.stderr_tail


def test_secrets_are_not_in_what_it_complains_about(place: Place) -> None:
    place.allow("export MY_TOKEN=hunter2hunter2\necho with $MY_TOKEN here\nset -x\nOTHER_SECRET=uvwxyz\n")
    said = place.resolve()
    assert "with [secret:MY_TOKEN] here" in said.stderr_tail
    assert "hunter2" not in said.stderr_tail
    assert "uvwxyz" not in said.stderr_tail


def test_a_hang_fails_and_takes_everything_with_it(place: Place) -> None:
    place.allow("sleep 600 &\nsetsid sleep 600 &\n(trap '' TERM; sleep 600)\n")
    said = place.resolve(timeout=1.0 * SECOND)
    assert said.state == "failed"
    assert "did not finish within" in said.note
    assert place.left_behind() == []


def test_what_is_left_in_the_background_is_ended(place: Place) -> None:
    # With descriptor 3 open, direnv itself waits for it.
    place.allow("sleep 600 3>&- &\nexport A=1\n")
    assert place.resolve().set == {"A": "1"}
    assert place.left_behind() == []


def test_without_direnv_it_is_missing(place: Place, tmp_path: Path) -> None:
    place.allow("export A=1\n")
    said = place.resolve({**place.env, "PATH": str(tmp_path)})
    assert (said.state, said.set) == ("missing", {})
    assert "install it" in said.note


@pytest.mark.parametrize("text", ["[1]", '{"A": 1}', "{", '{"A": ["x"]}', "[" * 100_000])
def test_a_program_that_only_calls_itself_direnv_is_not_believed(
    place: Place, tmp_path: Path, text: str
) -> None:
    place.write(".envrc", "")
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "answer").write_text(text)
    (folder / "direnv").write_text(f"#!/bin/sh\ncat {folder}/answer\n")
    (folder / "direnv").chmod(0o755)
    said = place.resolve({**place.env, "PATH": f"{folder}:{PATH}"})
    assert (said.state, said.set) == ("failed", {})


def test_the_plan_is_what_is_run(place: Place) -> None:
    place.write(".envrc", "")
    assert place.direnv.plan(place.found, place.context()) == [
        [place.tool, "export", "json"],
        [place.tool, "version"],
    ]
