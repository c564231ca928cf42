"""nix, the real one, offline and with a store of its own; and the relatives that are only named."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from outfitter.env.layer import Operation
from outfitter.providers.base import MODES, Context, Detection, Lost, Resolution, Trust
from outfitter.providers.nix import Devbox, Devenv, Nix, mapped
from outfitter.shell.activation import scrub, tool_environment
from tests.support.machine import SECOND
from tests.support.tools import program

LIMIT = 60.0 * SECOND

# A shell without nixpkgs: nix wants bash as the builder, and reads this file in the place of its own.
SETUP = """\
export PATH=/opt/tool/bin:/bin
export XDG_DATA_DIRS=/opt/tool/share
export GREETING='hello there' NIX_SSL_CERT_FILE=/no-cert-file.crt
helper() { true; }
"""
DERIVATION = """\
derivation {
  name = "shell"; inherit system; builder = "/bin/bash"; outputs = [ "out" "dev" ]; stdenv = ./stdenv;
  FROM_PROJECT = import ./value.nix; shellHook = "export HOOKED=1";
}"""
SHELL = f"let system = builtins.currentSystem; in {DERIVATION}\n"
FLAKE = f"""\
{{
  %s
  outputs = {{ self, ... }}:
    let shell = system: {DERIVATION};
    in {{
      devShells.x86_64-linux.default = shell "x86_64-linux";
      devShells.aarch64-linux.default = shell "aarch64-linux";
    }};
}}
"""


class Account:
    """A scratch home, a store in it that needs nobody's permission, and a project."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        (self.project / ".git").mkdir(parents=True)
        self.limit = LIMIT
        self.base = {
            "HOME": str(self.home),
            "PATH": os.path.dirname(shutil.which("nix") or "/usr/bin/nix") + ":/usr/bin:/bin",
            "TERM": "vt100",
            "TMPDIR": str(folder),
        }
        store = self.home / "nix"
        self.config = self.home / ".config/nix/nix.conf"
        self.config.parent.mkdir(parents=True)
        self.config.write_text(
            "build-users-group =\nsandbox = false\n"
            f"store = local?store={store}/store&state={store}/var&log={store}/log\n"
        )

    def write(self, name: str, text: str) -> Path:
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def flake(self, head: str = "") -> Path:
        self.write("stdenv/setup", SETUP)
        self.write("value.nix", '"yes"\n')
        return self.write("flake.nix", FLAKE % head)

    def shell(self, name: str = "shell.nix") -> Path:
        self.write("stdenv/setup", SETUP)
        self.write("value.nix", '"yes"\n')
        return self.write(name, SHELL)

    def found(self, folder: Path | None = None) -> Detection:
        found = Nix().detect(str(folder or self.project))
        assert found is not None
        return found

    def context(self, mode: str = "snapshot", **options: object) -> Context:
        clean, _ = scrub(self.base)
        tool_env = tool_environment(clean)
        return Context(clean, tool_env, str(self.home), mode=mode, timeout=self.limit, options=options)

    def trust(self) -> Trust:
        return Nix().trust(self.found(), self.context())

    def resolve(self, mode: str = "snapshot") -> Resolution:
        return Nix().resolve(self.found(), self.context(mode))

    def git(self, *words: str, cwd: Path | None = None) -> None:
        own = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a"}
        env = {**self.base, **own, "GIT_COMMITTER_EMAIL": "a@b"}
        subprocess.run(["git", *words], cwd=cwd or self.project, env=env, check=True, capture_output=True)

    def pretend(self, script: str, name: str = "nix") -> None:
        """Puts another nix in front of the real one."""
        folder = self.home / "bin"
        folder.mkdir()
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
        self.base["PATH"] = f"{folder}:{self.base['PATH']}"


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return Account(tmp_path)


@pytest.fixture
def nix() -> str:
    return program("nix")


real = pytest.mark.usefixtures("nix")


# Finding it, and trust


def test_a_flake_comes_before_a_shell_and_that_before_a_package(account: Account) -> None:
    below = account.project / "a/b"
    below.mkdir(parents=True)
    assert Nix().detect(str(below)) is None
    for name in ("default.nix", "shell.nix", "flake.nix"):
        path = account.write(name, "")
        assert account.found(below).label == f"nix:{path}"
        assert bool(account.found(below).note) is (name == "default.nix")


def test_trust_is_ours_and_bound_to_what_nix_reads(account: Account) -> None:
    account.write("flake.nix", "1")
    seen = {account.trust().digest}
    for name in ("flake.lock", "shell.nix", "default.nix", "nix/deeper/shell.nix", "flake.nix"):
        account.write(name, "2")
        seen.add(account.trust().digest)
    trust = account.trust()
    assert (trust.state, trust.by, trust.grant) == (
        "untrusted",
        "outfitter",
        f"outfitter trust {account.project}",
    )
    assert all(digest.startswith("sha256:") and len(digest) == 71 for digest in seen)
    assert len(seen) == 6
    account.write("README.md", "not read")
    assert account.trust().digest == trust.digest


def test_the_names_in_the_folders_that_nix_may_list_are_known(account: Account) -> None:
    for name in ("flake.nix", "README.md", "nix/deeper/data"):
        account.write(name, "")
    listed = {path: names for path, names in account.trust().files.items() if path.endswith("/")}
    root = f"{account.project}/"
    assert listed == {
        root: b".git\0README.md\0flake.nix\0nix\0",
        f"{root}nix/": b"deeper\0",
        f"{root}nix/deeper/": b"data\0",
    }
    # A tool that starts each command lists them again each time.
    assert f"{root}nix/deeper" not in Nix().watch(account.found(), account.context())
    assert f"{root}nix/deeper" in Nix().watch(account.found(), account.context("wrap"))


def test_every_file_of_the_language_counts(account: Account) -> None:
    account.write("flake.nix", "")
    deep = "/".join(["d"] * 15) + "/deep.nix"
    account.write(deep, "1")
    before = account.trust()
    assert before.files[f"{account.project}/{deep}"] == b"1"
    account.write(deep, "2")
    assert account.trust().digest != before.digest


@pytest.mark.parametrize("mode", ["snapshot", "wrap"])
@pytest.mark.parametrize(
    ("bound", "most", "told"),
    [
        ("_MOST_FILES", 2, "more than 2 .nix files"),
        ("_MOST_FOLDERS", 2, "more than 2 directories"),
        ("_MOST_NAMES", 5, "more than 5 files and directories"),
        ("_DEEPEST", 2, "directories deeper than 2 levels, as nix/deeper"),
        ("_LARGEST_FILE", 1 << 20, "a .nix file of more than 1 MiB, nix/large.nix"),
    ],
)
def test_beyond_a_bound_nothing_runs_and_nobody_can_allow_it(
    account: Account, monkeypatch: pytest.MonkeyPatch, bound: str, most: int, told: str, mode: str
) -> None:
    for name in ("flake.nix", "nix/one.nix", "nix/deeper/two.nix"):
        account.write(name, "")
    account.write("nix/large.nix", " " * (1 << 20) + " ")
    assert account.trust().state == "untrusted"
    monkeypatch.setattr(f"outfitter.providers.nix.{bound}", most)
    trust = Nix().trust(account.found(), account.context(mode))
    assert (trust.state, trust.may_run, trust.digest, trust.grant) == ("denied", False, "", "")
    assert trust.why == (
        f"nix does not run, because not all of its code can be checked: {account.project} has {told}. Remove "
        "what does not belong there, or have direnv run it, from an .envrc that you allow"
    )


@pytest.mark.parametrize("relative", [Devenv(), Devbox()])
def test_the_relatives_have_the_same_bounds(
    account: Account, monkeypatch: pytest.MonkeyPatch, relative: Devenv | Devbox
) -> None:
    account.write("devenv.nix", "")
    account.write("devbox.json", "")
    found = relative.detect(str(account.project))
    assert found is not None
    monkeypatch.setattr("outfitter.providers.nix._MOST_NAMES", 1)
    trust = relative.trust(found, account.context("capture"))
    assert (trust.state, trust.why[: len(relative.id) + 13]) == ("denied", f"{relative.id} does not run")


def test_the_same_content_has_the_same_digest_in_another_checkout(account: Account) -> None:
    account.flake()
    other = account.project.parent / "worktree"
    shutil.copytree(account.project, other)
    assert Nix().trust(account.found(other), account.context()).digest == account.trust().digest


@pytest.mark.parametrize("kind", ["pipe", "folder", "large"])
def test_a_file_that_is_none_does_not_hold_anyone_up(account: Account, kind: str) -> None:
    account.write("shell.nix", "")
    before = account.trust().digest
    path = account.project / "flake.lock"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(3 << 30)
    digest = account.trust().digest
    assert digest != before
    if kind == "large":
        with path.open("r+b") as file:
            file.write(b"x")
        assert account.trust().digest != digest


# Resolving


@real
@pytest.mark.parametrize("kind", ["flake", "shell"])
def test_a_builds_environment_becomes_a_persons(account: Account, kind: str) -> None:
    # Not known to git, and in a folder whose name nix would read as something else.
    account.project = account.project.rename(account.project.parent / "a b#c?d%20")
    manifest = account.flake() if kind == "flake" else account.shell()
    resolution = account.resolve()
    assert resolution.stderr_tail == ""
    # HOME, TERM and the temporary folders stay whose they are; what only builds need is not there.
    assert resolution.set == {
        "FROM_PROJECT": "yes",
        "GREETING": "hello there",
        "IN_NIX_SHELL": "impure",
        "NIX_BUILD_CORES": resolution.set["NIX_BUILD_CORES"],
        "NIX_STORE": str(account.home / "nix/store"),
        "dontAddDisableDepTrack": "1",
    }
    assert resolution.unset == ()
    assert resolution.operations == (
        Operation("PATH", "prepend", ("/opt/tool/bin", "/bin")),
        Operation("XDG_DATA_DIRS", "prepend", ("/opt/tool/share",)),
    )
    assert resolution.lost == (
        Lost("hook", "shellHook", "capture"),
        Lost("function", "helper", "session"),
    )
    assert resolution.note == "shellHook is not run; it may set more variables"
    assert resolution.producer.startswith("nix 2.")
    # A folder of PATH that a collection of garbage takes away makes it stale, too.
    watched = [manifest, account.project / "value.nix", account.project / "flake.lock", account.config]
    assert {*map(str, watched), "/opt/tool/bin", program("nix")} <= {*resolution.watch}
    assert not (account.project / "flake.lock").exists()


@real
def test_settings_of_a_flake_are_not_followed(account: Account) -> None:
    witness = account.home / "hooked"
    hook = account.write("hook", f"#!/bin/sh\ntouch {witness}\n")
    hook.chmod(0o755)
    account.flake(f'nixConfig.post-build-hook = "{hook}";')
    assert account.resolve().state == "applied"
    assert not witness.exists()


@real
@pytest.mark.parametrize(
    "input",
    [
        "github:NixOS/nixpkgs",
        "nixpkgs",
        "https://example.org/x.tgz",
        "git+https://example.org/x",
        "git+ssh://x/y",
    ],
)
def test_the_network_is_never_tried(account: Account, input: str) -> None:
    traced = account.home / "traced"
    account.pretend(
        f'exec {program("strace")} -f -qq -e trace=connect,sendto -o {traced} {program("nix")} "$@"'
    )
    account.base["HTTPS_PROXY"] = "http://127.0.0.1:1"
    account.flake(f'inputs.far.url = "{input}";')
    resolution = account.resolve()
    assert resolution.state == "failed"
    look = f"`cd {account.project} && nix develop path:.` fetches and builds what is missing"
    assert look in resolution.note
    assert "error:" in resolution.stderr_tail
    assert "AF_INET" not in traced.read_text()
    assert not (account.project / "flake.lock").exists()


@real
def test_an_error_of_the_project_is_told_in_nixs_words(account: Account) -> None:
    account.write("shell.nix", 'throw "out of order"')
    resolution = account.resolve()
    assert (resolution.state, resolution.set) == ("failed", {})
    assert "out of order" in resolution.stderr_tail


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo '[]'", "printed an unexpected answer"),
        ("echo no", "printed an unexpected answer"),
        ("echo '{\"variables\": []}'", "printed an unexpected answer"),
        ("exec sleep 600", "it did not finish within "),
    ],
)
def test_a_nix_that_says_something_else_is_a_failure_with_a_reason(
    account: Account, script: str, words: str
) -> None:
    account.shell()
    account.pretend(f'[ "$1" != --version ] || exec echo nix 9.9\n{script}')
    account.limit = 1.0 * SECOND
    resolution = account.resolve()
    assert (resolution.state, resolution.producer) == ("failed", "nix 9.9")
    assert words in resolution.note


def test_a_machine_without_nix_says_so(account: Account) -> None:
    account.shell()
    account.base["PATH"] = str(account.home)
    resolution = account.resolve()
    assert resolution.state == "missing"
    assert resolution.note.startswith("nix is not installed")


def test_what_later_versions_add_is_passed_over() -> None:
    """As nix 2.18 prints it for a shell with structured attributes (written after its documentation)."""
    said = {
        "PATH": {"type": "exported", "value": "/path-not-set"},
        "NIX_SSL_CERT_FILE": {"type": "exported", "value": "/no-cert-file.crt"},
        "CC": {"type": "exported", "value": "gcc"},
        "dev": {"type": "exported", "value": "/nix/store/x-dev"},
        "outputs": {"type": "exported", "value": "out dev"},
        "envHooks": {"type": "array", "value": ["a", "b"]},
        "env": {"type": "associative", "value": {"A": "b"}},
        "odd": {"type": "exported", "value": ["a"]},
        "shellHook": {"type": "exported", "value": ""},
    }
    assert mapped(said, []) == Resolution("applied", set={"CC": "gcc"})


# What is run


def test_the_plan_is_what_is_run_and_names_the_shell_that_was_asked_for(account: Account) -> None:
    account.flake()
    [argv] = Nix().plan(account.found(), account.context(values=["docs"]))
    assert argv == [
        *("nix", "--extra-experimental-features", "nix-command flakes", "print-dev-env", "--json"),
        *("--offline", "--no-write-lock-file", "--option", "accept-flake-config", "false"),
        *("--option", "download-attempts", "1", "path:.#docs"),
    ]


def test_wrapping_needs_a_path_that_nix_can_write(account: Account) -> None:
    account.project = account.project.rename(account.project.parent / "a#b")
    account.flake()
    account.pretend("echo '{\"variables\": {}}'")
    said = account.resolve("wrap")
    assert (said.state, said.prefix) == ("failed", ())
    assert "nix cannot refer to" in said.note


# Checkouts of git


@real
@pytest.mark.parametrize("state", ["clean", "changed", "staged", "worktree", "shallow", "inner"])
def test_only_what_git_knows_is_copied_into_the_store(account: Account, state: str) -> None:
    """The store can be read by everybody on the machine."""
    account.project.joinpath(".git").rmdir()
    account.project = account.project.rename(account.project.parent / "a b#c?d%20")
    checkout = account.project
    if state == "inner":
        account.project = checkout / "x#y"
        account.project.mkdir()
    account.flake()
    account.git("init", "--quiet", cwd=checkout)
    account.git("add", ".", cwd=checkout)
    if state != "staged":
        account.git("commit", "--quiet", "--message", "one", cwd=checkout)
    if state == "worktree":
        account.git("worktree", "add", "--quiet", str(checkout.parent / "tree"))
        account.project = checkout.parent / "tree"
    if state == "shallow":
        account.git("commit", "--quiet", "--allow-empty", "--message", "two")
        account.git("clone", "--no-local", "--quiet", "--depth", "1", ".", "../clone")
        account.project = checkout.parent / "clone"
    if state == "changed":
        account.write("value.nix", '"changed"')
    account.write(".env", "SECRET=of mine\n")
    said = account.resolve("capture")
    assert said.state == "applied", said.stderr_tail
    assert said.set["FROM_PROJECT"] == ("changed" if state == "changed" else "yes")
    copied = {path.name for path in (account.home / "nix/store").glob("*-source/**/*")}
    assert "flake.nix" in copied
    assert ".env" not in copied


@real
def test_a_flake_that_git_does_not_know_is_told_how_to_be(account: Account) -> None:
    account.project.joinpath(".git").rmdir()
    account.git("init", "--quiet")
    account.flake()
    said = account.resolve()
    assert said.state == "failed"
    assert f"`cd {account.project} && nix develop`" in said.note
    assert "only files that git tracks (`git add --intent-to-add` is enough)" in said.note
    assert str(account.project / ".git/index") in said.watch
    account.git("add", "--intent-to-add", "flake.nix", "value.nix", "stdenv")
    assert account.resolve().state == "applied"


# Capture


@real
@pytest.mark.parametrize("kind", ["flake", "shell"])
def test_a_capture_has_what_the_hook_sets_beside_the_snapshot(account: Account, kind: str) -> None:
    account.base["HTTPS_PROXY"] = "http://proxy.example:1"
    manifest = account.flake() if kind == "flake" else account.shell()
    manifest.write_text(
        manifest.read_text().replace(
            '"export HOOKED=1"', '"export HOOKED=1 HERE=$PWD PROXY=$HTTPS_PROXY TERM=hook; unset LANG; false"'
        )
    )
    account.base["LANG"] = "C.UTF-8"
    snapshot, said = account.resolve(), account.resolve("capture")
    assert said.state == "applied", said.stderr_tail
    assert said.set == {
        **snapshot.set,
        "HOOKED": "1",
        "HERE": str(account.project),
        "PROXY": "http://proxy.example:1",
        "TERM": "hook",
    }
    assert said.unset == ("LANG",)
    assert [(one.variable, one.op, one.values[:1]) for one in said.operations] == [
        ("PATH", "prepend", ("/opt/tool/bin",)),
        ("XDG_DATA_DIRS", "prepend", ("/opt/tool/share",)),
    ]
    # The functions are lost in every mode: a command that nix starts does not have them, either.
    assert said.lost == (Lost("function", "helper", "session"),)
    assert said.note == ""
    assert {*snapshot.watch} == {*said.watch}
    assert [path.name for path in account.home.parent.glob("nix-shell.*")] == []


@real
def test_a_hook_that_ends_its_shell_is_a_failure(account: Account) -> None:
    manifest = account.shell()
    manifest.write_text(manifest.read_text().replace("export HOOKED=1", "echo no way; exit 3"))
    assert account.resolve().state == "applied"
    said = account.resolve("capture")
    assert (said.state, said.set) == ("failed", {})
    assert "it ended with status 3" in said.note
    assert f"`cd {account.project} && nix-shell shell.nix` runs the same shellHook" in said.note
    assert "no way" in said.stderr_tail


@real
@pytest.mark.parametrize("mode", ["capture", "wrap"])
def test_other_modes_do_not_try_the_network_either(account: Account, mode: str) -> None:
    traced = account.home / "traced"
    account.pretend(
        f'exec {program("strace")} -f -qq -A -e trace=connect,sendto -o {traced} {program("nix")} "$@"'
    )
    account.flake()
    said = account.resolve(mode)
    assert said.state == "applied", said.note
    if mode == "wrap":
        env = {**account.base, "LANG": "C.UTF-8"}
        subprocess.run([*said.prefix, "true"], cwd="/", env=env, check=True, capture_output=True)
    assert "AF_INET" not in traced.read_text()


def test_another_mode_is_another_trust(account: Account) -> None:
    account.flake()
    digests = {Nix().trust(account.found(), account.context(mode)).digest for mode in MODES}
    assert len(digests) == 3
    [asked, hooked] = Nix().plan(account.found(), account.context("capture"))
    assert asked[3:5] == ["print-dev-env", "--json"]
    assert hooked[:2] == ["bash", "-c"]
    assert "print-dev-env" in hooked
    wrapping = Nix().plan(account.found(), account.context("wrap"))[1]
    assert wrapping[-3:] == [f"path:{account.project}", "-c", "COMMAND"]


# Relatives


@pytest.mark.parametrize(
    ("provider", "name", "words"),
    [(Devbox(), "devbox.json", "shellenv --init-hook"), (Devenv(), "devenv.nix", "print-dev-env")],
)
def test_relatives_print_text_so_only_a_capture_can_tell(
    account: Account, provider: Devbox | Devenv, name: str, words: str
) -> None:
    assert provider.detect(str(account.project)) is None
    path = account.write(name, "1")
    found = provider.detect(str(account.project))
    assert found is not None
    assert found.files == (str(path),)
    assert provider.trust(found, account.context()).state == "not-needed"
    assert provider.plan(found, account.context()) == []
    note = f'{provider.id} prints no environment: write {provider.id} = "capture" in [providers.modes]'
    assert provider.resolve(found, account.context()) == Resolution(
        "not-applicable", note=note, watch=provider.watch(found, account.context())
    )
    capture = account.context("capture")
    assert provider.resolve(found, capture).state == "missing"
    digest = provider.trust(found, capture).digest
    assert provider.trust(found, capture).files[f"{account.project}/"] == f".git\0{path.name}\0".encode()
    path.write_text("2")
    assert provider.trust(found, capture).digest not in ("", digest)
    account.pretend(
        f'[ "$1" != --version ] || exec echo 1.2.3\n[ "$*" = "{words}" ] || exit 9\n'
        "echo 'export FROM=\"$PWD\" PATH=/opt/tool/bin:$PATH'",
        provider.id,
    )
    capture = account.context("capture")
    assert "eval" in provider.plan(found, capture)[0][2]
    said = provider.resolve(found, capture)
    assert (said.state, said.set) == ("applied", {"FROM": str(account.project)})
    assert [one.values for one in said.operations] == [("/opt/tool/bin",)]
    assert said.producer == f"{provider.id} 1.2.3"
