"""mise, the real one: what is evaluated and when, whose word counts, and what its answers mean.

On machines that are not x86_64 it runs in an emulator (see scripts/tools).
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.env.layer import Operation
from outfitter.env.origin import Origin
from outfitter.providers.base import Context, Detection, Lost, Trust
from outfitter.providers.mise import Mise, not_installed, unset_names
from outfitter.shell.activation import scrub, tool_environment
from tests.support.machine import SECOND
from tests.support.tools import ROOT, missing, needs_linux, program

MISE = ROOT / ".tools/bin/mise"
LIMIT = 60.0 * SECOND
pytestmark = pytest.mark.timeout(600 * SECOND)  # it is asked several times, and slow on a busy machine
PATH = f"{MISE.parent}:/usr/bin:/bin"


class Account:
    """A scratch home with projects in it, and mise as a person there would use it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        self.witness = folder / "evaluated"
        self.home.mkdir()
        (self.project / ".git").mkdir(parents=True)
        self.limit = LIMIT
        self.base = {"HOME": str(self.home), "PATH": PATH, "LANG": "C.UTF-8"}

    def write(self, name: str, text: str) -> Path:
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def template(self) -> str:
        """A file that leaves a trace when it is evaluated."""
        return f"""[env]\nX = "{{{{ exec(command='touch {self.witness}; echo x') }}}}"\n"""

    def context(self, mode: str = "snapshot", **more: str) -> Context:
        """As the contract makes it of an environment."""
        clean, _ = scrub({**self.base, **more})
        return Context(clean, tool_environment(clean), str(self.home), mode=mode, timeout=self.limit)

    def found(self, folder: Path | None = None) -> Detection:
        found = Mise().detect(str(folder or self.project))
        assert found is not None
        return found

    def trust(self, folder: Path | None = None, **more: str) -> Trust:
        return Mise().trust(self.found(folder), self.context(**more))

    def grant(self, command: str) -> None:
        """A person types what we have proposed."""
        subprocess.run(
            ["/bin/sh", "-c", command], env=self.base, cwd=self.home, check=True, capture_output=True
        )

    def records(self) -> dict[str, str]:
        folder = self.home / ".local/state/mise/trusted-configs"
        return {path.name: os.readlink(path) for path in folder.iterdir() if path.is_symlink()}

    def record(self, path: Path) -> None:
        """As `mise trust` does in its paranoid mode, but for the name, which only mise can make up."""
        folder = self.home / ".local/state/mise/trusted-configs"
        folder.mkdir(parents=True, exist_ok=True)
        link = folder / f"{path.parent.name}-{path.name}"
        link.symlink_to(path)
        Path(f"{link}.hash").write_text(hashlib.sha256(path.read_bytes()).hexdigest())


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return Account(tmp_path)


@pytest.fixture
def mise() -> None:
    needs_linux("mise")
    if not MISE.exists():
        missing("mise", "run `make tools`")


real = pytest.mark.usefixtures("mise")


# Finding it


@pytest.mark.parametrize(
    "name",
    [
        "mise.toml",
        ".mise.toml",
        "mise.local.toml",
        "mise/config.toml",
        ".mise/config.toml",
        ".config/mise.toml",
        ".config/mise/config.toml",
        ".config/mise/conf.d/one.toml",
        ".tool-versions",
    ],
)
def test_every_place_of_a_configuration_is_found_from_below(account: Account, name: str) -> None:
    path = account.write(name, "")
    below = account.project / "a/b"
    below.mkdir(parents=True)
    assert account.found(below) == Detection(str(account.project), (str(path),), f"mise:{path}")


def test_a_repository_ends_the_search(account: Account) -> None:
    (account.project.parent / "mise.toml").write_text("")
    assert Mise().detect(str(account.project)) is None


# Trust, without any process


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".tool-versions", "node 20\n"),
        ("mise.toml", '[tools]\nnode = "20"\npython = ["3.11", "3.12"]\n'),
        ("mise.toml", 'min_version = "2024.1.1"\n'),
        ("mise.toml", '[tools]\nnode = "20"\n[tasks]\nbuild = "make"\n[tasks.test]\nrun = ["x", "y"]\n'),
    ],
)
def test_names_of_versions_need_no_trust(account: Account, name: str, text: str) -> None:
    account.write(name, text)
    assert account.trust().state == "not-needed"


@pytest.mark.parametrize(
    ("name", "text"), [(".tool-versions", "node path:./tools\n"), ("mise.toml", '[tools]\nnode = "path:x"\n')]
)
def test_a_folder_in_place_of_a_version_needs_trust(account: Account, name: str, text: str) -> None:
    account.write(name, text)
    assert account.trust().state == "untrusted"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".tool-versions", 'node {{ exec(command="x") }}\n'),
        ("mise.toml", '[tools]\nnode = "{{ env.X }}"\n'),
        ("mise.toml", '[tools]\nnode = {version = "20", postinstall = "x"}\n'),
        ("mise.toml", '[env]\nA = "literal"\n'),
        ("mise.toml", "[settings]\nparanoid = false\n"),
        ("mise.toml", "[hooks]\n"),
        ("mise.toml", '[tasks.a]\nrun = "{{ env.X }}"\n'),
        ("mise.toml", '[[tasks]]\nrun = "x"\n'),
        ("mise.toml", "not TOML"),
        ("mise.toml", "a = " + "[" * 5000),
    ],
)
def test_everything_else_does(account: Account, name: str, text: str) -> None:
    path = account.write(name, text)
    trust = account.trust()
    assert (trust.state, trust.by) == ("untrusted", "mise")
    assert trust.grant == f"mise trust {shlex.quote(str(path))}"
    assert trust.why == f"{path} is not trusted in mise"


def test_trust_is_bound_to_content(account: Account) -> None:
    path = account.write("mise.toml", '[env]\nA = "1"\n')
    account.record(path)
    before = account.trust()
    path.write_text('[env]\nA = "2"\n')
    after = account.trust()
    assert (before.state, after.state) == ("trusted", "untrusted")
    assert before.digest.startswith("sha256:")
    assert before.digest != after.digest
    assert after.why == f"{path} changed after it was trusted in mise"


@pytest.mark.parametrize(
    "name",
    ["mise.toml", ".mise.local.toml", ".config/mise.toml", ".config/mise/config.toml", "mise/conf.d/a.toml"],
)
def test_a_path_that_mise_trusts_counts_until_the_file_changes(account: Account, name: str) -> None:
    path = account.write(name, "[env]\n")
    folder = account.home / ".local/state/mise/trusted-configs"
    folder.mkdir(parents=True)
    (folder / "project-1").symlink_to(account.project)
    assert account.trust().state == "trusted"
    # To start commands itself mise has to compare content.
    assert Mise().trust(account.found(), account.context("wrap")).state == "untrusted"
    path.write_text("[env]\nA = 1\n")
    os.utime(path, ns=(0, 0))  # as `tar` and `cp -p` do: the time of the content says nothing
    trust = account.trust()
    assert trust.state == "untrusted"
    assert trust.why == f"{path} changed after it was trusted in mise"
    # A second `mise trust` would do nothing.
    assert trust.grant == f"MISE_PARANOID=1 mise trust {shlex.quote(str(path))}"


def test_trust_in_a_folder_is_not_trust_in_those_below(account: Account) -> None:
    account.write("below/mise.toml", "[env]\n")
    folder = account.home / ".local/state/mise/trusted-configs"
    folder.mkdir(parents=True)
    (folder / "project-1").symlink_to(account.project)
    assert account.trust(account.project / "below").state == "untrusted"


@real
def test_a_plain_mise_trust_is_enough(account: Account) -> None:
    path = account.write("mise.toml", '[env]\nA = "1"\n')
    assert account.trust().grant == f"mise trust {shlex.quote(str(path))}"
    account.grant(account.trust().grant)
    resolution = Mise().resolve(account.found(), account.context())
    assert (resolution.state, dict(resolution.set)) == ("applied", {"A": "1"}), resolution.note
    path.write_text(account.template())
    assert account.trust().state == "untrusted"
    assert Mise().resolve(account.found(), account.context()).state == "failed"
    assert not account.witness.exists()
    account.grant(account.trust().grant)
    resolution = Mise().resolve(account.found(), account.context())
    assert resolution.state == "applied", resolution.note


@real
def test_what_mise_takes_without_asking_needs_no_word(account: Account) -> None:
    account.write(
        "mise.toml", '[tools]\n[tasks]\nbuild = "make"\n[tasks.test]\nrun = "x"\nenv = { A = "b" }\n'
    )
    assert account.trust().state == "not-needed"
    assert Mise().resolve(account.found(), account.context()).state == "applied"


def test_a_worktree_with_changed_content_is_blocked(account: Account) -> None:
    git = [program("git"), "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(account.project)]
    (account.project / ".git").rmdir()
    account.record(account.write("mise.toml", '[env]\nA = "1"\n'))
    worktree = account.project.parent / "worktree"
    for command in (
        ["init", "-q"],
        ["add", "mise.toml"],
        ["commit", "-q", "-m", "x"],
        ["worktree", "add", "-q", str(worktree)],
    ):
        subprocess.run([*git, *command], env=account.base, check=True, capture_output=True)
    same = account.trust(worktree)
    (worktree / "mise.toml").write_text(account.template())
    changed = account.trust(worktree)
    assert account.trust().state == "trusted"
    # The same content has the same digest: who asks may say so. mise itself wants to be told again.
    assert (same.state, same.digest) == ("untrusted", account.trust().digest)
    assert (changed.state, changed.digest == same.digest) == ("untrusted", False)


def test_files_above_the_repository_count_because_mise_reads_them(account: Account) -> None:
    path = account.write("mise.toml", '[env]\nA = "1"\n')
    above = account.project.parent / "mise.toml"
    above.write_text('[tools]\nnode = "20"\n')
    account.record(path)
    assert account.trust().state == "trusted"  # which names versions only
    above.write_text("[env]\n")
    assert account.trust().grant == f"mise trust {above}"


def test_variants_count_when_their_environment_is_chosen(account: Account) -> None:
    account.record(account.write("mise.toml", "[env]\n"))
    variant = account.write("mise.dev.toml", "[env]\n")
    found = account.found()
    tools = {**account.base, "MISE_ENV": "dev"}
    assert account.trust().state == "trusted"
    assert str(variant) in Mise().trust(found, Context(tools, tools, str(account.home))).grant


def test_what_mise_was_told_to_ignore_is_denied(account: Account) -> None:
    path = account.write("mise.toml", "[env]\n")
    account.record(path)
    folder = account.home / ".local/state/mise/ignored-configs"
    folder.mkdir()
    (folder / "x").symlink_to(path)
    assert account.trust().state == "denied"


def test_trust_by_path_in_the_environment_is_refused(account: Account) -> None:
    account.record(account.write("mise.toml", "[env]\n"))
    trust = account.trust(MISE_TRUSTED_CONFIG_PATHS="/")
    assert (trust.state, trust.may_run, trust.grant) == ("denied", False, "")
    assert "MISE_TRUSTED_CONFIG_PATHS" in trust.why
    resolution = Mise().resolve(account.found(), account.context(MISE_TRUSTED_CONFIG_PATHS="/"))
    assert (resolution.state, resolution.producer) == ("failed", "")  # nothing was asked


@pytest.mark.parametrize("kind", ["pipe", "folder", "gigabytes", "link to itself"])
def test_a_file_that_is_none_does_not_hold_anyone_up(account: Account, kind: str) -> None:
    path = account.project / "mise.toml"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "gigabytes":
        with path.open("wb") as file:
            file.truncate(3 << 30)
    else:
        path.symlink_to(path)
        account.write(".tool-versions", "")
    trust = account.trust()
    assert trust.may_run is (kind == "link to itself")  # which is not there for anyone


# Evaluating


@real
@pytest.mark.parametrize("name", ["CI", "BUILD_NUMBER"])
def test_nothing_is_evaluated_for_an_untrusted_file_whatever_looks_like_a_ci(
    account: Account, name: str
) -> None:
    account.write("mise.toml", account.template())
    (account.home / ".config/mise").mkdir(parents=True)
    (account.home / ".config/mise/config.toml").write_text('[settings]\ntrusted_config_paths = ["/"]\n')
    more = {name: "false", "MISE_YES": "1"}
    # mise itself would.
    subprocess.run(
        [MISE, "env", "--json"], env=account.base | more, cwd=account.project, check=True, capture_output=True
    )
    account.witness.unlink()
    context = account.context(**more)
    trust = Mise().trust(account.found(), context)
    resolution = Mise().resolve(account.found(), context)
    assert (trust.state, resolution.state) == ("untrusted", "failed")
    assert not account.witness.exists()


@real
def test_mise_refuses_as_well_what_became_dangerous_after_it_was_looked_at(account: Account) -> None:
    """The settings and records of its user would let it: they do not count for files without trust."""
    path = account.write("mise.toml", '[tools]\nnode = "20"\n')
    account.grant(f"mise trust {account.project}")
    (account.home / ".config/mise").mkdir(parents=True)
    (account.home / ".config/mise/config.toml").write_text('[settings]\ntrusted_config_paths = ["/"]\n')

    class Late(Mise):
        def trust(self, found: Detection, context: Context) -> Trust:
            trust = super().trust(found, context)
            path.write_text(account.template())
            return trust

    resolution = Late().resolve(account.found(), account.context())
    assert resolution.state == "failed"
    assert "are not trusted" in resolution.stderr_tail
    assert "tracking config" not in resolution.stderr_tail
    assert not account.witness.exists()


@real
@pytest.mark.parametrize("how", ["", "MISE_PARANOID=1 "])
def test_mise_compares_the_record_once_more(account: Account, how: str) -> None:
    path = account.write("mise.toml", account.template())
    account.grant(how + account.trust().grant)
    path.write_text(account.template() + "# later\n")

    class Mistaken(Mise):
        def trust(self, found: Detection, context: Context) -> Trust:
            return Trust("trusted")

    assert Mistaken().resolve(account.found(), account.context()).state == "failed"
    assert not account.witness.exists()


@real
def test_what_mise_writes_is_what_is_read(account: Account) -> None:
    path = account.write("mise.toml", account.template())
    account.grant(f"MISE_PARANOID=1 {account.trust().grant}")
    assert list(account.records().values()) == [str(path)]
    assert account.trust().state == "trusted"
    assert not account.witness.exists()


@real
def test_values_come_with_their_files_and_false_takes_away(account: Account) -> None:
    path = account.write(
        "mise.toml",
        account.template() + 'PLAIN = "a b"\nEMPTY = ""\nLINES = """one\nunset HOME\nit\'s"""\nGONE = false\n'
        'HIDDEN = {value = "hidden value", redact = true}\n'
        '_.path = ["./bin"]\n_.source = "./set.sh"\n_.file = ".env"\n'
        '[shell_alias]\nll = "ls -l"\n[hooks]\nenter = "echo hello"\n',
    )
    account.grant(f"MISE_PARANOID=1 {account.trust().grant}")
    script = account.write("set.sh", "echo noise; export SOURCED=1\n")
    dotenv = account.write(".env", "DOTTED=1\n")
    found = account.found()
    resolution = Mise().resolve(found, account.context(GONE="there", CI="1"))
    assert resolution.note == ""
    assert resolution.set == {
        "X": "x",
        "PLAIN": "a b",
        "EMPTY": "",
        "LINES": "one\nunset HOME\nit's",
        "HIDDEN": "hidden value",
        "SOURCED": "1",
        "DOTTED": "1",
    }
    assert resolution.unset == ("GONE",)
    assert resolution.operations == (Operation("PATH", "prepend", (str(account.project / "bin"),)),)
    assert resolution.secrets == {"HIDDEN"}
    assert resolution.origins == {
        name: Origin("provider", found.label, str(source))
        for name, source in {
            "X": path,
            "PLAIN": path,
            "EMPTY": path,
            "LINES": path,
            "HIDDEN": path,
            "SOURCED": script,
            "DOTTED": dotenv,
        }.items()
    }
    assert resolution.lost == (Lost("alias", "ll", "session"), Lost("hook", "enter", "session"))
    assert resolution.producer == "mise 2026.9.15"
    assert "hidden value" not in repr(resolution)
    # What is there, what is read on the way, and what is not there yet.
    hashes = [name for name in resolution.watch if name.endswith(".hash")]
    assert len(hashes) == 1
    expected = [
        path,
        script,
        dotenv,
        account.project / ".tool-versions",
        account.project.parent / "mise.toml",
    ]
    assert {*map(str, expected), str(MISE)} <= {*resolution.watch}


@real
def test_versions_that_are_not_installed_are_missing(account: Account) -> None:
    account.write(".tool-versions", "node 20\npython 3.11.1\n")
    installs = account.home / ".local/share/mise/installs"
    (installs / "node/20.0.0/bin").mkdir(parents=True)
    (account.home / ".config/mise").mkdir(parents=True)
    # What the user wants everywhere is no matter of this project.
    (account.home / ".config/mise/config.toml").write_text('[tools]\ngo = "1.22"\n[env]\nMINE = "1"\n')
    resolution = Mise().resolve(account.found(), account.context())
    assert resolution.state == "missing"
    assert resolution.note == (
        f"not installed: python@3.11.1; `mise -C {account.project} install` installs them"
    )
    assert str(installs / "python/3.11.1") in resolution.watch
    (installs / "python/3.11.1/bin").mkdir(parents=True)
    resolution = Mise().resolve(account.found(), account.context())
    assert (resolution.state, resolution.set) == ("applied", {"MINE": "1"})
    entries = (str(installs / "node/20.0.0/bin"), str(installs / "python/3.11.1/bin"))
    assert resolution.operations == (Operation("PATH", "prepend", entries),)


def test_a_tool_with_its_owner_s_name_is_a_plugin_for_mise() -> None:
    assert not_installed("/p", ["helm/helm@3", "aqua:helm/helm@3", "node@20"]) == (
        "not installed: helm/helm@3, aqua:helm/helm@3, node@20; `mise -C /p install` installs them; for "
        "mise, helm/helm is the repository of a plugin: write `helm`, if that is meant"
    )


# Tools that misbehave


def pretend(account: Account, script: str) -> None:
    """Puts another mise in front of the real one."""
    folder = account.home / "bin"
    folder.mkdir()
    (folder / "mise").write_text(f'#!/bin/sh\n[ "$1" != --version ] || exec echo 1.2.3\n{script}\n')
    (folder / "mise").chmod(0o755)
    account.base["PATH"] = f"{folder}:{PATH}"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo '[]'", "printed an unexpected answer"),
        ("echo 'no JSON'", "printed an unexpected answer"),
        ('echo \'{"PATH": {"value": 1}}\'', "printed an unexpected answer"),
        ("case $* in *bash*) echo 'echo hello';; *) echo '{}';; esac", "printed an unexpected answer"),
        ("echo oh no >&2; exit 3", "mise gave no environment"),
        ("exec sleep 600", "it did not finish within 1 s"),
    ],
)
def test_a_mise_that_says_something_else_is_a_failure_with_a_reason(
    account: Account, script: str, words: str
) -> None:
    account.write(".tool-versions", "")
    pretend(account, script)
    if "sleep" in script:
        account.limit = 1.0 * SECOND
    resolution = Mise().resolve(account.found(), account.context())
    assert (resolution.state, resolution.producer) == ("failed", "mise 1.2.3")
    assert words in resolution.note
    assert resolution.stderr_tail == ("oh no\n" if "oh no" in script else "")


def test_a_machine_without_mise_says_so(account: Account) -> None:
    account.write(".tool-versions", "node 20\n")
    account.base["PATH"] = "/usr/bin:/bin:."
    resolution = Mise().resolve(account.found(), account.context())
    assert resolution.state == "not-applicable"  # asdf may be meant
    assert resolution.note == "mise is not installed; .tool-versions is asdf's file, too"
    account.write("mise.toml", '[tools]\nnode = "20"\n')
    resolution = Mise().resolve(account.found(), account.context())
    assert resolution.state == "missing"
    assert resolution.note.startswith("mise is not installed")


def test_nothing_that_trusts_by_itself_is_asked(account: Account) -> None:
    account.write("mise.toml", "")
    found, context = account.found(), account.context()
    words = [" ".join(argv[1:2]) for argv in Mise().plan(found, context)]
    assert words == ["ls", "env", "env", "env", "config"]


# Commands that mise starts


@real
@pytest.mark.parametrize("name", ["CI", "BUILD_NUMBER", "MISE_YES"])
def test_where_mise_would_trust_by_itself_it_starts_no_command(account: Account, name: str) -> None:
    account.record(account.write("mise.toml", '[env]\nX = "1"\n'))
    said = Mise().resolve(account.found(), account.context("wrap", **{name: "false"}))
    assert (said.state, said.prefix) == ("failed", ())
    assert said.note.startswith(f"with {name} in the environment, `mise exec` would evaluate untrusted files")


def test_to_start_commands_mise_wants_a_record_of_every_file(account: Account) -> None:
    account.write(".tool-versions", "node 20\n")
    assert account.trust().state == "not-needed"
    assert Mise().trust(account.found(), account.context("wrap")).state == "untrusted"


# The shell format


def test_only_names_that_are_taken_away_are_read_from_the_shell_format() -> None:
    text = "unset A\nexport B=x\nexport C='unset D\nexport E'\\''\nunset F'\nunset G\nexport H='a'\\!'b'\n"
    assert unset_names(text) == ["A", "G"]


@pytest.mark.parametrize(
    "text",
    [
        *("", "echo x", "unset", "unset A B", "unset A;x", "unset  A", "export A", "export =x"),
        *("export A=$(x)", "export A='x", "export A=x y", "export A=`x`", "export A=x;y"),
    ],
)
def test_what_is_not_of_that_grammar_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        unset_names(f"unset B\n{text}\n")


def test_a_backslash_at_the_end_is_refused() -> None:
    with pytest.raises(ValueError, match="plain value"):
        unset_names("export A=\\")


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.sampled_from(["A", "B_1", "C"]), st.none() | st.text())))
def test_quoted_values_are_passed_over_whatever_they_contain(entries: list[tuple[str, str | None]]) -> None:
    lines = [
        f"unset {name}" if value is None else f"export {name}={shlex.quote(value)}" for name, value in entries
    ]
    quoted = "".join(f"{line}\n" for line in lines).replace("'\"'\"'", "'\\''")
    assert unset_names(quoted) == [name for name, value in entries if value is None]
