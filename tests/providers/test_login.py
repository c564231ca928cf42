"""Asking a login shell: exact values from every shell, a class for every startup file that misbehaves."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outfitter.core.marks import Marks
from outfitter.errors import SettingInvalid
from outfitter.host.tools import capture as host_capture
from outfitter.host.tree import new_nonce
from outfitter.providers.login import PROBES, Capture, capture
from outfitter.shell.snapshot import ListChange, difference
from outfitter.system import LINUX
from tests.support.machine import PROC, SECOND, alive, own_children, own_descriptors
from tests.support.tools import program

from .hostile.corpus import AFTER, CASES, Case

SHORT = 1.0 * SECOND  # for files that never finish
LONG = 20.0 * SECOND  # for the others, on a machine that is busy with something else
SHELLS = ("bash", "dash", "fish", "ksh", "tcsh", "zsh")


class Account:
    """A scratch home and the environment that a capture starts from; every process of it carries a token."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.temporary = folder / "tmp"
        self.home.mkdir()
        self.temporary.mkdir()
        self.token = f"{uuid.uuid4()}"
        self.env = {
            "HOME": str(self.home),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "TMPDIR": str(self.temporary),
            "LANG": "C.UTF-8",
            "TOKEN_OF_THIS_TEST": self.token,
        }

    def write(self, file: str, text: str) -> None:
        path = self.home / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def ask(self, shell: str, probe: str = "loginShell", timeout: float = LONG) -> Capture:
        return capture(program(shell), probe, self.env, str(self.home), timeout=timeout)

    def left_behind(self) -> list[str]:
        """Living processes with the token in their environment, and files where the pipe was."""
        found = os.listdir(self.temporary)
        for entry in os.listdir(f"{PROC}"):
            try:
                if entry.isdigit() and self.token.encode() in Path(f"{PROC}/{entry}/environ").read_bytes():
                    found += [Path(f"{PROC}/{entry}/cmdline").read_text()] if alive(int(entry)) else []
            except OSError:
                continue
        return found


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Account]:
    account = Account(tmp_path)
    before = own_descriptors(), own_children()
    yield account
    assert account.left_behind() == []
    assert (own_descriptors(), own_children()) == before


# Startup files that misbehave


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_hostile_startup_files_get_their_class_and_leave_nothing(account: Account, case: Case) -> None:
    # L9, L10
    if "fish" in case.name:
        program("fish")
    account.write(case.file, case.text.replace("NAP", "4321"))
    limit = SHORT if case.state == "timeout" else LONG
    found = account.ask(case.shell, case.probe, limit)
    assert (found.state, found.stderr_tail if found.state != case.state else "") == (case.state, "")
    assert {name: found.values.get(name) for name in case.values} == case.values
    assert [name for name in case.absent if name in found.values] == []
    # Where `ps` finds what is left, on a busy machine it takes its time.
    assert found.seconds < limit + (1.0 if LINUX else 10.0) * SECOND
    if case.state == "captured":
        assert found.reason == ""
    else:
        assert (found.values, found.reason != "") == ({}, True)


def test_pipe_that_was_replaced_by_a_file_gets_nothing(account: Account) -> None:
    # S6: what was written is looked at through a second link.
    case = next(case for case in CASES if case.name == "pipe-replaced")
    account.write(case.file, case.text)
    assert account.ask("bash").state == "failed"
    assert (account.home / "kept").read_bytes() == b""


def test_home_that_cannot_be_written_is_asked_all_the_same(account: Account) -> None:
    account.write(".bash_profile", "touch ~/new" + AFTER)
    account.home.chmod(0o500)
    try:
        assert account.ask("bash").values["AFTER"] == "1"
    finally:
        account.home.chmod(0o700)


def test_home_that_does_not_exist_is_named(account: Account) -> None:
    nonesuch = f"{account.home}/nonesuch"
    found = capture(program("bash"), "loginShell", account.env, nonesuch, timeout=LONG)
    assert (found.state, found.values) == ("failed", {})
    assert nonesuch in found.reason


def test_failed_capture_names_the_way_to_look(account: Account) -> None:
    account.write(".bash_profile", "exit 3")
    found = account.ask("bash", "loginInteractiveShell")
    bash = program("bash")
    assert found.reason == (
        f"{bash} ended with status 3 before it could report its environment; "
        f"`{bash} -i -l -x -c true` shows which line causes it"
    )


def test_without_marks_the_session_and_all_below_it_are_ended(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_capture, "usable", lambda: False)
    account.write(".bash_profile", "setsid sleep 4321 & set -m; sleep 4321 & sleep 4321")
    assert account.ask("bash", timeout=SHORT).state == "timeout"


# Startup files that behave

# Each file says that it was read, in order, as the shell's own syntax wants it.
SETS = {
    "bash": 'export READ="$READ NAME"\n',
    "dash": 'export READ="$READ NAME"\n',
    "ksh": 'export READ="$READ NAME"\n',
    "zsh": 'export READ="$READ NAME"\n',
    "fish": "set -gx READ (string join '' -- $READ ' NAME')\n",
    "tcsh": 'if (! $?READ) setenv READ ""\nsetenv READ "$READ NAME"\n',
}
FILES = {
    "bash": (".bash_profile", ".bashrc", ".profile"),
    "dash": (".profile", ".shrc"),
    "ksh": (".profile", ".kshrc"),
    "zsh": (".zshenv", ".zprofile", ".zshrc", ".zlogin"),
    "fish": (".config/fish/conf.d/a.fish", ".config/fish/config.fish"),
    "tcsh": (".tcshrc", ".login"),
}
READ = {
    "bash": (".bash_profile", ".bashrc", ".bash_profile"),
    "dash": (".profile", ".shrc", ".profile .shrc"),
    "ksh": (".profile", ".kshrc", ".profile .kshrc"),
    "zsh": (".zshenv .zprofile .zlogin", ".zshenv .zshrc", ".zshenv .zprofile .zshrc .zlogin"),
    "fish": ("a.fish config.fish", "a.fish config.fish", "a.fish config.fish"),
    "tcsh": (".tcshrc .login", ".tcshrc", ".tcshrc .login"),
}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_probe_decides_which_files_are_read(account: Account, shell: str) -> None:
    for file in FILES[shell]:
        account.write(file, SETS[shell].replace("NAME", os.path.basename(file)))
    if shell == "dash":
        account.env["ENV"] = f"{account.home}/.shrc"
    found = [account.ask(shell, probe).values["READ"].strip() for probe in PROBES]
    assert tuple(found) == READ[shell]


PLAIN = r"""
export ONE='two  words' QUOTES="it's \"so\"" LANG=de_DE.UTF-8 ACCENT='é'
unset TOKEN_OF_THIS_TEST
export PATH="$HOME/bin:$PATH"
"""
WELL_BEHAVED: dict[str, tuple[str, str]] = {
    "bash": (".bash_profile", PLAIN),
    "dash": (".profile", PLAIN),
    "ksh": (".profile", PLAIN),
    # S1: PATH through the array that is tied to it.
    "zsh": (
        ".zprofile",
        PLAIN.replace('export PATH="$HOME/bin:$PATH"', "typeset -U path; path=(~/bin $path)"),
    ),
    # L8: a list in fish, still colons outside.
    "fish": (
        ".config/fish/config.fish",
        "set -gx ONE 'two  words'; set -gx QUOTES 'it\\'s \"so\"'; set -gx LANG de_DE.UTF-8\n"
        "set -gx ACCENT é; set -e TOKEN_OF_THIS_TEST; set -gx PATH ~/bin $PATH\n",
    ),
    "tcsh": (
        ".login",
        "setenv ONE 'two  words'; setenv QUOTES 'it'\\''s \"so\"'; setenv LANG de_DE.UTF-8\n"
        "setenv ACCENT é; unsetenv TOKEN_OF_THIS_TEST; set path = (~/bin $path)\n",
    ),
}


@pytest.mark.parametrize("shell", SHELLS)
def test_values_are_exact(account: Account, shell: str) -> None:
    without = account.ask(shell).values
    account.write(*WELL_BEHAVED[shell])
    found = account.ask(shell)
    assert (found.state, found.reason) == ("captured", "")
    expected = {
        **without,
        "ONE": "two  words",
        "QUOTES": 'it\'s "so"',
        "LANG": "de_DE.UTF-8",
        "ACCENT": "é",
        "PATH": f"{account.home}/bin:{without['PATH']}",
    }
    del expected["TOKEN_OF_THIS_TEST"]
    assert found.values == expected


@pytest.mark.parametrize("shell", SHELLS)
def test_shell_without_startup_files_changes_nothing_but_path(account: Account, shell: str) -> None:
    # What the system's own files do to PATH is theirs; the base's folders are all there again.
    account.env["PATH"] = f"/opt/project/bin:{account.env['PATH']}"
    values = account.ask(shell).values
    found = difference(account.env, values, shell)
    assert (found.set, found.unset, set(found.lists) <= {"PATH"}) == ({}, (), True)
    segments = found.lists["PATH"].segments if found.lists else values["PATH"].split(":")
    assert set(account.env["PATH"].split(":")) <= set(segments)


def test_folders_that_a_login_shell_lost_come_after_its_own(account: Account) -> None:
    # L1, L2: as Debian's /etc/profile does it.
    account.env["PATH"] = "/opt/project/bin:/usr/bin:/bin"
    account.write(".bash_profile", "export PATH=/usr/local/bin:/usr/bin/:/bin\n")
    found = difference(account.env, account.ask("bash").values, "bash")
    own = ("/usr/local/bin", "/usr/bin/", "/bin")
    assert found.lists == {"PATH": ListChange(("/opt/project/bin",), (*own, "/opt/project/bin"))}


def test_guard_does_not_keep_startup_files_from_their_work(account: Account) -> None:
    # S2: the base says "already sourced", but has lost what that had brought.
    account.env["__ETC_PROFILE_NIX_SOURCED"] = "1"
    account.write(
        ".bash_profile",
        '[ "$__ETC_PROFILE_NIX_SOURCED" ] && return\n'
        'export __ETC_PROFILE_NIX_SOURCED=1 NIX_PROFILES=/nix PATH="/nix/bin:$PATH"\n',
    )
    found = difference(account.env, account.ask("bash").values, "bash")
    assert found.set == {"NIX_PROFILES": "/nix"}
    assert found.lists["PATH"].segments[0] == "/nix/bin"


def test_shell_has_no_input_no_terminal_and_its_own_session(account: Account) -> None:
    account.write(
        ".bash_profile",
        "export IN=$(readlink /proc/$$/fd/0) OUT=$(readlink /proc/$$/fd/1) AT=$(pwd -P)\n"
        "export OPEN=$(ls /proc/$$/fd | tr '\\n' ' ') LEADS=$(ps -o pid=,sid=,tty= -p $$)\n",
    )
    values = account.ask("bash").values
    pid, session, terminal = values["LEADS"].split()
    assert (values["IN"], values["OUT"], values["AT"]) == ("/dev/null", "/dev/null", str(account.home))
    assert (pid == session, terminal) == (True, "?")


# What is not passed on


def test_program_that_startup_files_left_running_is_ended_and_not_referred_to(account: Account) -> None:
    # S2: an address without anybody there is half of a thing.
    account.env["SSH_AUTH_SOCK"] = "/run/agent"
    account.write(
        ".bash_profile",
        "setsid sleep 4321 &\nexport SSH_AGENT_PID=$! SSH_AUTH_SOCK=/tmp/agent.1" + AFTER,
    )
    found = account.ask("bash")
    assert found.state == "captured"
    assert (found.values["SSH_AUTH_SOCK"], "SSH_AGENT_PID" in found.values) == ("/run/agent", False)
    assert "SSH_AGENT_PID, SSH_AUTH_SOCK" in found.reason


def test_agent_that_was_there_before_is_kept(account: Account) -> None:
    account.env |= {"SSH_AGENT_PID": "1", "SSH_AUTH_SOCK": "/run/agent"}
    found = account.ask("bash")
    assert found.values["SSH_AUTH_SOCK"] == "/run/agent"
    assert (found.values["SSH_AGENT_PID"], found.reason) == ("1", "")


def test_secret_values_are_in_no_text(account: Account) -> None:
    account.env["API_TOKEN"] = "base-0123456789"
    account.write(
        ".bash_profile",
        "export DB_PASSWORD='rc-secret-987654'\n"
        'echo "token $API_TOKEN" >&2; echo "db $DB_PASSWORD" >&2; set -x; OTHER_SECRET=unknown-value\n',
    )
    for end in ("", "exit 3\n", "kill -9 $$\n"):
        with open(account.home / ".bash_profile", "a") as file:
            file.write(end)
        found = account.ask("bash")
        texts = f"{found!r} {found.reason} {found.stderr_tail}"
        assert "token [secret:API_TOKEN]" in found.stderr_tail
        assert [secret for secret in ("base-0123456789", "unknown-value") if secret in texts] == []
        # A value that only the startup files know is known when they have reported it.
        if found.state == "captured":
            assert "db [secret:DB_PASSWORD]" in found.stderr_tail
            assert "rc-secret" not in texts


def test_stderr_is_kept_to_its_last_4_kib(account: Account) -> None:
    account.write(".bash_profile", "seq 100000 >&2; echo last words >&2; exit 3")
    tail = account.ask("bash").stderr_tail
    assert (len(tail), tail[-24:]) == (4096, "\n99999\n100000\nlast words\n"[-24:])


# Shells that cannot be asked (L8)


@pytest.mark.parametrize(
    ("shell", "reason"),
    [
        ("/usr/sbin/nologin", "has no login shell"),
        ("/bin/false", "has no login shell"),
        ("/usr/bin/python3", "is not a supported shell"),
        ("", "is not a supported shell"),
        ("/nonesuch/bash", "cannot be started"),
        ("/etc/bash", "cannot be started"),
    ],
)
def test_shell_that_cannot_be_asked_is_named(account: Account, shell: str, reason: str) -> None:
    found = capture(shell, "loginShell", account.env, str(account.home), timeout=LONG)
    assert (found.state, found.values, reason in found.reason) == ("unsupported", {}, True)


def test_file_that_is_no_program_is_named(account: Account) -> None:
    (account.home / "zsh").write_text("no program")
    shell = f"{account.home}/zsh"
    found = capture(shell, "loginShell", account.env, str(account.home), timeout=LONG)
    assert (found.state, shell in found.reason) == ("unsupported", True)


def test_unknown_probe_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(SettingInvalid, match="loginShell, interactiveShell, loginInteractiveShell"):
        capture("/bin/bash", "none", {}, "/", timeout=1)


def test_environment_that_is_too_large_to_start_with_is_a_failure(account: Account) -> None:
    account.env["BIG"] = "x" * (1 << 18)
    found = account.ask("bash")
    assert (found.state, "larger than the system allows" in found.reason) == ("failed", True)


def test_no_folder_for_the_pipe_is_a_failure_that_says_what_to_do(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "mkdir", full)
    found = account.ask("bash")
    assert (found.state, "TMPDIR" in found.reason) == ("failed", True)


# A server's way


def test_mark_of_a_server_is_on_what_startup_files_start(account: Account) -> None:
    mark = Marks(new_nonce()).new(3)
    account.write(".bash_profile", "export LIMIT=$(setsid grep 'realtime timeout' /proc/self/limits)\n")
    found = capture(program("bash"), "loginShell", account.env, str(account.home), timeout=LONG, mark=mark)
    assert found.values["LIMIT"].split()[3] == str(mark)


def test_captures_do_not_end_each_other(account: Account) -> None:
    from concurrent.futures import ThreadPoolExecutor

    account.write(".bash_profile", "setsid sleep 4321 & sleep 0.1; kill -0 $! && export ALIVE=1")
    work: Callable[[int], Capture] = lambda _: account.ask("bash")  # noqa: E731
    with ThreadPoolExecutor(4) as pool:
        assert [found.values.get("ALIVE") for found in pool.map(work, range(8))] == ["1"] * 8
