"""Shells behind other programs, each with the real program: their startup files do not run, or it is said.

What is planned is started as it is; no server takes part.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outfitter.errors import LoginRejected
from outfitter.host.programs import Programs, account
from outfitter.shell.chain import arrange
from outfitter.shell.look import WRAPPERS
from outfitter.shell.start import ShellPlan
from outfitter.shell.wrappers import Account
from tests.support.tools import program

SECONDS = 30
NOBODY = 65534
# What every startup file does: it says that it ran, and undoes the contract.
STARTUP = 'echo "$0" >>"$LOG"; export PATH=/evil/bin:$PATH SECRET_TOKEN=back; cd /\n'
CSH = 'echo csh >>"$LOG"; setenv SECRET_TOKEN back\n'
FISH = "echo fish >>$LOG; set -gx SECRET_TOKEN back\n"
FILES = {
    **dict.fromkeys((".profile", ".bash_profile", ".bashrc", ".zshenv", ".zprofile", ".zshrc"), STARTUP),
    **dict.fromkeys((".kshrc", "env.sh"), STARTUP),
    ".tcshrc": CSH,
    ".config/fish/config.fish": FISH,
}
SHOW = "/usr/bin/env -0"
# Every row of the table, with its options: the words in front of `bash -lc TEXT`.
ROWS = {
    "env": ["env"],
    "env with assignments": ["env", "GIVEN=1", "BASH_ENV=$HOME/env.sh"],
    "env -u": ["env", "-u", "OTHER"],
    "env -uNAME": ["env", "-uOTHER", "--unset=ELSE"],
    "env -i": ["env", "-i", "HOME=$HOME", "PATH=$PATH", "LOG=$LOG"],
    "env -": ["env", "-", "HOME=$HOME", "PATH=$PATH", "LOG=$LOG"],
    "env -C": ["env", "-C", "/usr"],
    "env --chdir": ["env", "--chdir=/usr", "--ignore-signal=PIPE", "--"],
    "env long, shortened": ["env", "--ignore-env", "HOME=$HOME", "PATH=$PATH", "LOG=$LOG"],
    "nice": ["nice"],
    "nice -n": ["nice", "-n", "5"],
    "nice -5": ["nice", "-5"],
    "nice long": ["nice", "--adjustment=3"],
    "ionice": ["ionice", "-c", "3"],
    "ionice attached": ["ionice", "-c2", "-n7", "-t"],
    "timeout": ["timeout", "60"],
    "timeout with options": ["timeout", "-s", "KILL", "-k5", "--preserve-status", "--foreground", "1m"],
    "nohup": ["nohup"],
    "setsid": ["setsid", "-w"],
    "stdbuf": ["stdbuf", "-oL", "-e", "0"],
    "time": ["time", "-p", "-o", "/dev/null"],
    "time with a format": ["time", "--format=%e", "--output=/dev/null"],
    "chrt": ["chrt", "-b", "0"],
    "taskset": ["taskset", "-c", "0-1023"],
    "a chain": ["nice", "-n1", "env", "A=1", "timeout", "60", "setsid", "-w", "env", "B=2"],
    "busybox env": ["busybox", "env", "A=1"],
    "busybox timeout": ["busybox", "timeout", "60"],
}
# The rows that are about accounts: as root, who is asked for no password.
AS_ROOT = {
    "sudo": (["sudo", "-n", "HOME=$HOME", "LOG=$LOG"], ["new-environment"]),
    "sudo -u": (["sudo", "-u", "root", "HOME=$HOME", "LOG=$LOG", "GIVEN=1"], ["new-environment"]),
    "runuser -u": (["runuser", "-u", "root", "--", "env", "HOME=$HOME"], ["new-environment"]),
}
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root, who is asked for no password")


class Home:
    """A scratch HOME full of startup files, and an environment that knows it."""

    def __init__(self, folder: Path, uid: int) -> None:
        self.folder = folder / "home"
        self.log = folder / "log"
        self.cwd = folder / "project"
        self.cwd.mkdir()
        self.uid = uid
        for name, text in FILES.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.log.touch()
        if uid != os.getuid():
            for path in (folder, *folder.rglob("*")):
                os.chown(path, uid, uid)
        self.env = {
            "HOME": str(self.folder),
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "LOG": str(self.log),
            "LANG": "C.UTF-8",
            "SHLVL": "1",
            "SHELL": "/bin/bash",
            "OTHER": "1",
            "BASH_ENV": f"{self.folder}/env.sh",
        }
        self.programs = Programs()

    def account(self) -> Account:
        if self.uid == os.getuid():
            return account()
        return Account(pwd.getpwuid(self.uid).pw_name, self.uid, "/bin/sh")

    def written(self, words: list[str]) -> list[str]:
        for name, value in self.env.items():
            words = [word.replace(f"${name}", value) for word in words]
        return words

    def plan(self, *argv: str, login: str = "strip", startup: str = "enforce") -> ShellPlan | None:
        return arrange(
            argv[0],
            self.written(list(argv)),
            login=login,
            startup=startup,
            env=self.env,
            cwd=str(self.cwd),
            look=self.programs.look,
            account=self.account,
        )

    def run(self, plan: ShellPlan, **more: Any) -> tuple[dict[str, str], subprocess.CompletedProcess[bytes]]:
        """What the command printed as its environment."""
        given: dict[str, Any] = {"stdin": subprocess.DEVNULL, "start_new_session": True}
        if self.uid != os.getuid():
            given.update(user=self.uid, group=self.uid, extra_groups=[])
        done = subprocess.run(
            plan.argv,
            executable=plan.program or None,
            cwd=self.cwd,
            env=plan.environment(self.env),
            capture_output=True,
            timeout=SECONDS,
            check=False,
            **{**given, **more},
        )
        printed = done.stdout.decode(errors="replace").split("\0")
        return dict(pair.split("=", 1) for pair in printed if "=" in pair), done

    def ran(self) -> list[str]:
        return self.log.read_text().split()


@pytest.fixture(params=["as we are", "as an ordinary user"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Home]:
    if request.param == "as we are":
        yield Home(tmp_path, os.getuid())
    elif os.getuid() != 0:
        pytest.skip("we are an ordinary user already")
    else:
        # The folders of tests are closed to other users.
        with tempfile.TemporaryDirectory() as folder:
            yield Home(Path(folder), NOBODY)


@pytest.fixture
def own(tmp_path: Path) -> Home:
    return Home(tmp_path, os.getuid())


def enforced(home: Home, plan: ShellPlan | None, **more: Any) -> dict[str, str]:
    """The plan was needed, and nothing that a startup file does is to be seen."""
    assert plan is not None
    shown, done = home.run(plan, **more)
    assert shown, done
    assert (home.ran(), shown.get("SECRET_TOKEN"), "/evil/bin" in shown["PATH"]) == ([], None, False)
    return shown


def loud(home: Home, *argv: str, **more: Any) -> bool:
    """Whether the same words do run startup files if nobody looks at them: else a test shows nothing."""
    asked = ShellPlan(home.written(list(argv)), "", startup="report", withheld=("BASH_ENV",))
    home.run(asked, **more)
    found = home.ran() != []
    home.log.write_text("")
    return found


@pytest.mark.parametrize("row", ROWS)
def test_a_shell_behind_a_program_reads_nothing(home: Home, row: str) -> None:
    words = ROWS[row]
    program(words[0])
    assert loud(home, *words, "bash", "-lc", SHOW)
    plan = home.plan(*words, "bash", "-lc", SHOW)
    shown = enforced(home, plan)
    assert plan is not None
    assert (plan.shell, plan.login_asked, plan.login, plan.flags) == ("bash", True, False, ())
    assert plan.through[0] == words[0]
    for word in home.written(words[1:]):
        name, equals, value = word.partition("=")
        if equals and name.isidentifier() and name != "BASH_ENV":
            assert shown[name] == value  # what was asked for is still there
    with pytest.raises(LoginRejected):
        home.plan(*words, "bash", "-lc", SHOW, login="reject")


def test_every_row_of_the_table_is_tried_here() -> None:
    tried = {words[0] for words in ROWS.values()} | {words[0] for words, _ in AS_ROOT.values()}
    assert tried | {"script", "su", "xargs"} == WRAPPERS


@pytest.mark.parametrize("shell", ["sh", "dash", "ksh", "zsh", "fish", "tcsh"])
def test_every_shell_is_seen_behind_a_program(home: Home, shell: str) -> None:
    program(shell)
    flags = "-c" if shell in ("fish", "tcsh") else "-lc"
    assert loud(home, "nice", shell, flags, SHOW)
    enforced(home, home.plan("nice", shell, flags, SHOW))


@pytest.mark.parametrize(
    "text",
    [
        "bash -lc '/usr/bin/env -0'",
        "-i HOME=$HOME PATH=$PATH LOG=$LOG bash -lc '/usr/bin/env -0'",
        'A=1 nice bash --login -c "/usr/bin/env\\_-0"',
    ],
)
@pytest.mark.parametrize("flag", ["-S", "--split-string", "-vS", "attached"])
def test_the_text_of_env_is_taken_apart_as_env_does(home: Home, text: str, flag: str) -> None:
    words = ["env", f"-S{text}"] if flag == "attached" else ["env", flag, text]
    assert loud(home, *words)
    enforced(home, home.plan(*words))


def test_what_env_would_expand_is_flagged(own: Home) -> None:
    plan = own.plan("env", "-S", "bash -lc ${TEXT}")
    assert plan is not None
    assert [flag.code for flag in plan.flags] == ["unseen"]
    assert plan.argv == ["env", "-S", "bash -lc ${TEXT}"]


def test_a_name_that_env_gives_a_shell_does_not_make_it_a_login_shell(own: Home) -> None:
    words = ["env", "-a", "-bash", "bash", "-c", SHOW]
    plan = own.plan(*words)
    assert plan is not None
    assert plan.argv == ["env", "-a", "bash", "bash", "--noprofile", "--norc", "-c", SHOW]
    if subprocess.run(["env", "-a", "x", "true"], capture_output=True, check=False).returncode == 0:
        assert loud(own, *words)
        enforced(own, plan)


def test_the_shells_of_xargs_read_nothing(home: Home) -> None:
    one = home.cwd / "one"
    one.write_text("one\n")
    words = ["xargs", "-n1", "-a", str(one), "bash", "-lc", SHOW]
    assert loud(home, *words)
    enforced(home, home.plan(*words))


@pytest.mark.parametrize("flags", [["-qec"], ["-q", "--command"], ["-q", "-e", "-c"]])
def test_the_shell_in_the_command_of_script_reads_nothing(home: Home, flags: list[str]) -> None:
    words = ["script", *flags, f"bash -lc '{SHOW}'", "/dev/null"]
    assert loud(home, *words)
    enforced(home, home.plan(*words))


def test_what_keeps_an_interactive_ksh_quiet_reaches_it_in_the_command_of_script(home: Home) -> None:
    """It has no flag for that, but a variable, and the shell of script is between us and it."""
    program("ksh")
    home.env["ENV"] = f"{home.folder}/env.sh"
    words = ["script", "-qec", f"ksh -ic '{SHOW}'", "/dev/null"]
    assert loud(home, *words)
    assert enforced(home, home.plan(*words))["ENV"] == "/dev/null"


def test_the_shell_that_script_starts_by_itself_reads_nothing(home: Home) -> None:
    words = ["script", "-q", "/dev/null"]
    typed = home.cwd / "typed"
    typed.write_text("exit\n")
    with typed.open() as stdin:
        assert loud(home, *words, stdin=stdin)
    plan = home.plan(*words)
    assert plan is not None
    assert (plan.shell, plan.interactive, plan.flags) == ("bash", True, ())
    with typed.open() as stdin:
        home.run(plan, stdin=stdin)
    assert home.ran() == []


def test_a_text_of_script_that_is_more_than_a_command_is_flagged(own: Home) -> None:
    words = ["script", "-qec", "cd /; bash -lc 'env'", "/dev/null"]
    plan = own.plan(*words)
    assert plan is not None
    assert [flag.code for flag in plan.flags] == ["login-shell"]
    with pytest.raises(LoginRejected):
        own.plan(*words, login="reject")


# Accounts


@needs_root
@pytest.mark.parametrize("row", AS_ROOT)
def test_an_account_s_own_commands_are_seen(own: Home, row: str) -> None:
    words, codes = AS_ROOT[row]
    program(words[0])
    assert loud(own, *words, "bash", "-lc", SHOW)
    plan = own.plan(*words, "bash", "-lc", SHOW)
    enforced(own, plan)
    assert plan is not None
    assert ([flag.code for flag in plan.flags], plan.through[0]) == (codes, words[0])


@needs_root
@pytest.mark.parametrize("name", ["su", "runuser"])
@pytest.mark.parametrize(
    "words", [["-", "root", "-c", SHOW], ["-l", "-c", SHOW], ["--login", "root", "-c", SHOW]]
)
def test_su_to_oneself_starts_no_login_shell(own: Home, name: str, words: list[str]) -> None:
    plan = own.plan(name, *words)
    assert plan is not None
    codes = [flag.code for flag in plan.flags]
    assert (plan.login_asked, plan.login, codes) == (True, False, ["new-environment"])
    assert not {"-", "-l", "--login"}.intersection(plan.argv)
    shown, _ = own.run(plan)
    assert shown["OTHER"] == "1"  # a login shell's would be gone
    with pytest.raises(LoginRejected):
        own.plan(name, *words, login="reject")


@needs_root
def test_a_shell_in_the_text_of_su_reads_nothing(own: Home) -> None:
    words = ["su", "-m", "-c", f"bash -lc '{SHOW}'"]
    assert loud(own, *words)
    enforced(own, own.plan(*words))


@pytest.mark.parametrize(
    "words", [["sudo", "-n", "-u", "$USER", "bash", "-lc", SHOW], ["su", "-", "$USER", "-c", SHOW]]
)
@pytest.mark.parametrize("home", ["as an ordinary user" if os.getuid() == 0 else "as we are"], indirect=True)
def test_an_ordinary_user_is_seen_behind_what_asks_for_a_password(home: Home, words: list[str]) -> None:
    program(words[0])
    home.env["USER"] = home.account().name
    plan = home.plan(*words)
    assert plan is not None
    assert ([flag.code for flag in plan.flags], plan.login_asked, plan.login) == (
        ["new-environment"],
        True,
        False,
    )
    home.run(plan)
    assert home.ran() == []


class Asker(Home):
    """An ordinary user whom neither sudo nor su asks for a password: by files of `/etc` that are mounted for
    its commands alone."""

    NAME, UID = "asker", 4321
    ETC = {
        "passwd": f"root:x:0:0::/root:/bin/sh\n{NAME}:x:{UID}:{UID}::$HOME:/bin/bash\n",
        "sudoers": f"{NAME} ALL=(ALL) NOPASSWD:SETENV: ALL\n",
        **{
            f"pam.d/{name}": "".join(
                f"{kind} required pam_permit.so\n" for kind in ("auth", "account", "session")
            )
            for name in ("sudo", "su", "su-l")
        },
    }
    ENTER = """\
for file in passwd sudoers pam.d/sudo pam.d/su pam.d/su-l; do
    [ ! -e /etc/$file ] || mount --bind "$1/$file" /etc/$file || exit 99
done
shift
exec setpriv --reuid 4321 --regid 4321 --clear-groups -- "$@"
"""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, self.UID)
        for path in self.folder.rglob("*"):
            if path.is_file():  # a login shell of su has no LOG
                path.write_text(path.read_text().replace("$LOG", str(self.log)))
        self.etc = folder / "etc"
        for name, text in self.ETC.items():
            path = self.etc / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("$HOME", str(self.folder)))
            path.chmod(0o440 if name == "sudoers" else 0o644)

    def account(self) -> Account:
        return Account(self.NAME, self.UID, "/bin/bash")

    def run(self, plan: ShellPlan, **more: Any) -> tuple[dict[str, str], subprocess.CompletedProcess[bytes]]:
        words = [plan.program or plan.argv[0], *plan.argv[1:]]
        argv = ["unshare", "-m", "sh", "-c", self.ENTER, "sh", str(self.etc), *words]
        entered = ShellPlan(argv, "", startup="report", withheld=plan.withheld, added=plan.added)
        return super().run(entered, user=None, group=None, extra_groups=None, **more)


@pytest.fixture
def asker() -> Iterator[Asker]:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        asker = Asker(Path(folder))
        _, done = asker.run(ShellPlan(["id", "-un"], "", startup="report"))
        if done.stdout != b"asker\n":
            pytest.skip(f"needs mounts of its own: {done.stderr.decode().strip()}")
        yield asker


@needs_root
@pytest.mark.parametrize(
    "words",
    [
        ["sudo", "-n", "-u", "asker", "bash", "-lc", SHOW],
        ["sudo", "-u", "asker", "GIVEN=1", "nice", "bash", "-lc", SHOW],
        ["sudo", "-E", "-u", "#4321", "env", "GIVEN=1", "zsh", "-lc", SHOW],
        ["su", "asker", "-c", f"bash -lc '{SHOW}'"],
        ["su", "-", "asker", "-c", SHOW],
        ["su", "-m", "asker", "-c", f"env bash -lc '{SHOW}'"],
        ["nice", "sudo", "-n", "-u", "asker", "su", "asker", "-c", f"bash -lc '{SHOW}'"],
    ],
    ids=str,
)
def test_an_ordinary_user_behind_what_asks_for_no_password(asker: Asker, words: list[str]) -> None:
    program("sudo")
    assert loud(asker, *words)
    plan = asker.plan(*words)
    shown = enforced(asker, plan)
    assert plan is not None
    assert {flag.code for flag in plan.flags} == {"new-environment"}
    assert shown["HOME"] == str(asker.folder)
    if any("GIVEN=1" in word for word in words):
        assert shown["GIVEN"] == "1"
    with pytest.raises(LoginRejected):
        asker.plan(*words, login="reject")


@needs_root
def test_runuser_starts_nothing_for_an_ordinary_user(asker: Asker) -> None:
    words = ["runuser", "-u", "asker", "--", "bash", "-lc", SHOW]
    assert not loud(asker, *words)
    plan = asker.plan(*words)
    assert plan is not None
    shown, done = asker.run(plan)
    assert (shown, asker.ran(), done.returncode) == ({}, [], 1)
    assert b"may not be used by non-root users" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["sudo", "-u", "daemon", "bash", "-lc", SHOW],
        ["su", "daemon", "-c", SHOW],
        ["su", "-", "daemon"],
        ["runuser", "-u", "daemon", "bash", "-lc", SHOW],
    ],
)
def test_another_account_is_flagged_and_left_alone(home: Home, words: list[str]) -> None:
    plan = home.plan(*words)
    assert plan is not None
    assert ([flag.code for flag in plan.flags], plan.argv) == (["other-user"], words)


def test_sudo_is_about_another_account_for_an_ordinary_user(tmp_path: Path) -> None:
    home = Home(tmp_path, NOBODY if os.getuid() == 0 else os.getuid())
    plan = home.plan("sudo", "bash", "-lc", SHOW)
    assert plan is not None
    assert [flag.code for flag in plan.flags] == ["other-user"]


@pytest.mark.parametrize("words", [["sudo", "-i"], ["sudo", "--login", "env"], ["sudo", "-nis"]])
def test_a_login_shell_of_sudo_cannot_be_helped_and_is_flagged(own: Home, words: list[str]) -> None:
    if os.getuid():
        words = [words[0], "-u", own.account().name, *words[1:]]
    plan = own.plan(*words)
    assert plan is not None
    assert [flag.code for flag in plan.flags] == ["new-environment", "login-shell"]
    with pytest.raises(LoginRejected):
        own.plan(*words, login="reject")


@pytest.mark.parametrize(
    "words",
    [["env", "--unheard-of", "bash", "-lc", "x"], ["timeout", "-Z", "5", "bash"], ["nice", "-n"]],
)
def test_an_option_that_is_not_known_is_flagged_and_the_words_stay(own: Home, words: list[str]) -> None:
    plan = own.plan(*words)
    assert plan is not None
    assert ([flag.code for flag in plan.flags], plan.argv) == (["unknown-option"], words)


@pytest.mark.parametrize(
    "words", [["env"], ["nice"], ["env", "A=1"], ["ionice", "-p", "1"], ["env", "ls", "-l"]]
)
def test_a_program_with_no_shell_behind_it_is_none_of_our_business(own: Home, words: list[str]) -> None:
    assert own.plan(*words) is None


@pytest.mark.parametrize("login", ["strip", "reject"])
def test_a_login_shell_behind_a_program_that_is_not_in_the_table_is_flagged(own: Home, login: str) -> None:
    words = ["strace", "-f", "-o", "/dev/null", "bash", "-lc", SHOW]
    plan = own.plan(*words, login=login)
    assert plan is not None
    assert ([flag.code for flag in plan.flags], plan.argv, plan.shell) == (["unseen"], words, "")
    for other in (
        ["grep", "-r", "bash", "-l"],
        ["git", "grep", "bash", "src"],
        ["strace", "bash", "-c", "x"],
    ):
        assert own.plan(*other, login=login) is None


# Files


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_shell_is_known_by_its_file(home: Home, link: Callable[[str, Path], None]) -> None:
    other = home.cwd / "innocent"
    try:
        link(os.path.realpath("/bin/bash"), other)
    except OSError:
        pytest.skip("a hard link across file systems, or not ours to make")
    try:
        assert loud(home, str(other), "-lc", SHOW)
        enforced(home, home.plan(str(other), "-lc", SHOW))
        enforced(home, home.plan("./innocent", "-lc", SHOW))
        enforced(home, home.plan("nice", "./innocent", "-lc", SHOW))
    finally:
        other.unlink()  # a file with many names counts as no shell: none is to be left behind


def test_a_link_in_path_is_followed(home: Home) -> None:
    os.symlink("/bin/bash", home.cwd / "innocent")
    home.env["PATH"] = f"{home.cwd}:{home.env['PATH']}"
    enforced(home, home.plan("env", "innocent", "-lc", SHOW))


def test_busybox_is_a_shell_only_if_told_so(home: Home) -> None:
    busybox = program("busybox")
    assert loud(home, busybox, "sh", "-lc", SHOW)
    plan = home.plan(busybox, "sh", "-lc", SHOW)
    enforced(home, plan)
    assert plan is not None
    assert plan.shell == "dash"
    assert home.plan(busybox, "ls", "-l") is None
    os.symlink(busybox, home.cwd / "sh")
    enforced(home, home.plan(str(home.cwd / "sh"), "-lc", SHOW))


@pytest.mark.parametrize(
    "line",
    [
        "#!/bin/bash -l",
        "#! /bin/bash --login",
        "#!/usr/bin/env -S bash -l",
        "#!/usr/bin/env zsh",
        "#!/bin/zsh",
        "#!/bin/sh -l",
        "#!/usr/bin/env fish",
        "#!/usr/bin/tcsh",
    ],
)
@pytest.mark.parametrize("front", [[], ["nice"], ["env", "A=1"]])
def test_a_script_s_own_shell_reads_nothing(home: Home, line: str, front: list[str]) -> None:
    program(line.removesuffix(" -l").rpartition(" ")[2].rpartition("/")[2].removeprefix("--login") or "bash")
    script = home.cwd / "a script"
    # fish has no $1.
    script.write_text(f"{line}\n{SHOW} ARGS=" + ("$argv[1]" if "fish" in line else '"$1"') + "\n")
    script.chmod(0o755)
    assert loud(home, *front, str(script), "one two")
    shown = enforced(home, home.plan(*front, str(script), "one two"))
    assert shown["ARGS"] == "one two"
    home.env["PATH"] = f"{home.cwd}:{home.env['PATH']}"
    enforced(home, home.plan(*front, "a script", "one two"))


def test_the_interpreter_of_a_script_may_be_a_script(home: Home) -> None:
    outer, inner = home.cwd / "outer", home.cwd / "inner"
    inner.write_text('#!/bin/bash -l\n. "$1"\n')
    outer.write_text(f"#!{inner}\n{SHOW}\n")
    for script in (outer, inner):
        script.chmod(0o755)
    assert loud(home, str(outer))
    enforced(home, home.plan(str(outer)))


def test_other_scripts_are_left_alone(own: Home) -> None:
    script = own.cwd / "script"
    script.write_text("#!/usr/bin/python3\n")
    script.chmod(0o755)
    assert own.plan(str(script)) is None
    script.write_text("#!/bin/sh -e\n")
    plan = own.plan(str(script))
    assert plan is not None
    assert (plan.argv, plan.program, plan.changed) == ([str(script)], "", False)


def test_a_script_that_changes_is_read_again(own: Home) -> None:
    script = own.cwd / "script"
    script.write_text("#!/usr/bin/python3\n")
    script.chmod(0o755)
    assert own.plan(str(script)) is None
    script.write_text(f"#!/bin/bash -l\n{SHOW}\n")
    enforced(own, own.plan(str(script)))


# What is configured otherwise


@pytest.mark.parametrize("startup", ["repair", "report"])
def test_startup_files_can_be_put_right_behind_what_keeps_the_environment(own: Home, startup: str) -> None:
    plan = own.plan("nice", "env", "bash", "-lc", SHOW, login="allow", startup=startup)
    assert plan is not None
    assert (plan.startup, plan.login, plan.notes) == (startup, True, ())
    shown, _ = own.run(plan)
    assert own.ran()  # they ran
    assert ("SECRET_TOKEN" in shown) == (startup == "report")
    # No value of a variable is in argv, which everybody sees.
    assert not any(own.env["LOG"] in word for word in plan.argv)


@pytest.mark.parametrize("front", [["env", "A=1"], ["env", "-i", "PATH=$PATH"], ["stdbuf", "-o0"]])
def test_where_the_environment_is_another_one_they_are_kept_out(own: Home, front: list[str]) -> None:
    plan = own.plan(*front, "bash", "-lc", SHOW, login="allow", startup="repair")
    assert plan is not None
    assert plan.startup == "enforce"
    assert "repair is not possible" in plan.notes[0]
    enforced(own, plan)


def test_an_interactive_sh_behind_env_gets_what_keeps_its_file_out(home: Home) -> None:
    program("ksh")
    words = ["env", "-i", "HOME=$HOME", "PATH=$PATH", "LOG=$LOG", "ksh", "-ic", SHOW]
    assert loud(home, *words)
    enforced(home, home.plan(*words))
