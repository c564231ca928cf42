"""Real shells with startup files that undo everything: kept out, put right, or reported.

What is planned is started as it is; no server takes part.
"""

from __future__ import annotations

import fcntl
import os
import pty
import socket
import subprocess
import termios
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from outfitter.shell.start import Probe, Seen, ShellPlan, maintained, prepare, seen
from tests.support.tools import program

SECONDS = 30
PATH = "/opt/project/bin:/usr/bin:/bin"

# What a startup file does, by the language it is written in. Each says that it ran.
POSIX = """
echo "$0" >>"$LOG"
export PATH=/from/startup:/bin FILTERED=back ADDED='two
export LINES=1'
unset REMOVED
cd /
hello() { echo "hello $1"; }
"""
FISH = """
echo fish >>$LOG
set -gx PATH /from/startup /bin
set -gx FILTERED back
set -gx ADDED 'two
lines'
set -e REMOVED
cd /
function hello; echo hello $argv; end
"""
CSH = "echo csh >>$LOG\nsetenv PATH /from/startup:/bin\nsetenv FILTERED back\nunsetenv REMOVED\ncd /\n"
FILES = {
    ".bash_profile": POSIX,
    ".bashrc": POSIX,
    ".profile": POSIX,
    ".kshrc": POSIX,
    ".zshenv": POSIX,
    ".zprofile": POSIX,
    ".zshrc": POSIX,
    ".zlogin": POSIX,
    ".tcshrc": CSH,
    ".login": CSH,
    ".cshdirs": CSH,
    "env.sh": POSIX,
    ".config/fish/config.fish": FISH,
    ".config/fish/conf.d/a.fish": FISH,
}
SHELLS = ("bash", "sh", "dash", "ksh", "zsh", "fish", "tcsh")
REPAIRED = [
    (shell, flags)
    for shell in ("bash", "sh", "dash", "ksh", "zsh", "fish")
    for flags in ("-lc", "-ic", "-ilc", "-c")
    # These read nothing: that they are left alone is no matter of this file.
    if flags != "-c" or shell in ("bash", "zsh", "fish")
]


class Home:
    """A scratch HOME full of startup files, a directory to work in, and an environment that knows both."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "home"
        self.log = folder / "log"
        self.cwd = folder / "a project's"
        self.cwd.mkdir()
        for name, text in FILES.items():
            self.write(name, text)
        self.env = {
            "HOME": str(self.folder),
            "PATH": PATH,
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "LOG": str(self.log),
            "REMOVED": "still here",
            "SSH_CLIENT": "192.0.2.1 1 2",
            "BASH_ENV": f"{self.folder}/env.sh",
            "ENV": f"{self.folder}/env.sh",
            "ZDOTDIR": str(self.folder),
        }

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def plan(
        self,
        *argv: str,
        login: str = "allow",
        startup: str = "enforce",
        probe: Probe | None = None,
        path: str = "",
    ) -> ShellPlan:
        made = prepare(
            path or argv[0],
            argv,
            login=login,
            startup=startup,
            env=self.env,
            cwd=str(self.cwd),
            probe=probe,
        )
        assert made is not None
        return made

    def ran(self) -> list[str]:
        """What the startup files that ran have said."""
        return self.log.read_text().split() if self.log.exists() else []


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def probe(tmp_path: Path) -> Iterator[Listener]:
    listener = Listener(tmp_path / "a 'probe'")
    yield listener
    listener.close()


class Listener:
    """The reading end of a probe's FIFO. It is open for writing too: so it never ends, and opens at once."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self.probe = Probe(str(path), "5ca1ab1e")

    def heard(self) -> Seen | None:
        report = b""
        while True:
            try:
                report += os.read(self._fd, 65536)
            except BlockingIOError:
                return seen(report, self.probe.mark)

    def close(self) -> None:
        os.close(self._fd)


def encoded(env: Mapping[str, str]) -> dict[bytes, bytes]:
    return {name.encode(): value.encode("utf-8", "surrogateescape") for name, value in env.items()}


def run(
    plan: ShellPlan, home: Home, stdin: str = "null", path: str = "", before: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[bytes]:
    """Starts what is planned in a session of its own, behind the words in `before`."""
    ours = theirs = -1
    take_terminal = None
    if stdin == "null":
        theirs = os.open(os.devnull, os.O_RDONLY)
    elif stdin == "pipe":
        theirs, ours = os.pipe()
    elif stdin == "socket":
        one, other = socket.socketpair()
        theirs, ours = one.detach(), other.detach()
    else:
        ours, theirs = pty.openpty()

        def take_terminal() -> None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    try:
        return subprocess.run(
            [*before, *plan.argv],
            executable=None if before else program(path or plan.argv[0]),
            env=encoded(plan.environment(home.env)),
            cwd=home.cwd,
            stdin=theirs,
            capture_output=True,
            start_new_session=True,
            preexec_fn=take_terminal,
            timeout=SECONDS,
            check=False,
        )
    finally:
        os.close(theirs)
        if ours >= 0:
            os.close(ours)


def variables(printed: bytes) -> dict[str, str]:
    """What `env -0` has printed."""
    pairs = printed.decode("utf-8", "surrogateescape").split("\0")[:-1]
    return dict(pair.split("=", 1) for pair in pairs)


def compared(shell: str, env: Mapping[str, str]) -> dict[str, str]:
    own = maintained(shell) - {"HOME"}
    return {name: value for name, value in env.items() if name not in own}


# Kept out


@pytest.mark.parametrize("stdin", ["null", "pipe", "socket", "tty"])
@pytest.mark.parametrize("flags", ["-c", "-lc", "-ic", "-ilc"])
@pytest.mark.parametrize("shell", SHELLS)
def test_no_file_below_home_is_opened_before_the_command(
    home: Home, tmp_path: Path, shell: str, flags: str, stdin: str
) -> None:
    program(shell)
    trace = tmp_path / "trace"
    plan = home.plan(shell, flags, "/usr/bin/env -0")
    tracing = (program("strace"), "-f", "-qq", "-e", "trace=open,openat,execve", "-o", str(trace))
    result = run(plan, home, stdin, before=tracing)
    assert result.returncode == 0, result.stderr
    assert compared(shell, variables(result.stdout)) == compared(shell, plan.environment(home.env))
    opened = []
    for line in trace.read_text(errors="replace").splitlines():
        if 'execve("/usr/bin/env"' in line:
            break
        # A history is no code; ksh opens its own also for -ic.
        if f'"{home.folder}' in line and "/.sh_history" not in line:
            opened.append(line)
    else:
        pytest.fail("the command was not traced")
    assert opened == []
    assert home.ran() == []


@pytest.mark.parametrize("shell", SHELLS)
def test_without_the_plan_these_files_do_run(home: Home, shell: str) -> None:
    # Else the tests above would prove nothing.
    asked = ShellPlan([shell, "-ic", "/usr/bin/env -0"], shell, startup="report")
    result = run(asked, home)
    assert variables(result.stdout)["FILTERED"] == "back"
    assert home.ran() != []


@pytest.mark.parametrize("login", ["allow", "strip"])
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_called_with_a_dash_reads_nothing(home: Home, shell: str, login: str) -> None:
    plan = home.plan(f"-{shell}", "-c", "/usr/bin/env -0", path=shell, login=login)
    result = run(plan, home, path=shell)
    assert compared(shell, variables(result.stdout)) == compared(shell, plan.environment(home.env))
    assert home.ran() == []


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_runs_without_startup_files(home: Home, shell: str) -> None:
    (home.cwd / "script").write_text("/usr/bin/env -0\n")
    plan = home.plan(shell, "script", "-l")
    result = run(plan, home)
    assert compared(shell, variables(result.stdout)) == compared(shell, plan.environment(home.env))
    assert home.ran() == []


@pytest.mark.parametrize("flags", [(), ("-i",), ("-l",)], ids=" ".join)
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_on_a_terminal_runs_nothing_of_its_own(
    home: Home, tmp_path: Path, shell: str, flags: tuple[str, ...]
) -> None:
    home.env.update(
        PROMPT_COMMAND='echo prompt >>"$LOG"', PS1='$(echo PS1 >>"$LOG")', PS2="`echo PS2 >>$LOG`"
    )
    plan = home.plan(shell, *flags)
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        plan.argv,
        executable=program(shell),
        env=encoded(plan.environment(home.env)),
        cwd=home.cwd,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    os.write(ours, f"/usr/bin/env -0 >'{tmp_path}/variables'\nexit\n".encode())
    try:
        while os.read(ours, 4096):
            pass
    except OSError:  # EIO: it is gone
        pass
    assert child.wait(SECONDS) == 0
    os.close(ours)
    found = compared(shell, variables((tmp_path / "variables").read_bytes()))
    # The size of the terminal, which zsh and tcsh look up.
    found = {name: value for name, value in found.items() if name not in ("COLUMNS", "LINES")}
    assert found == compared(shell, plan.environment(home.env))
    assert home.ran() == []


def test_a_trace_does_not_run_what_ps4_says(home: Home) -> None:
    home.env["PS4"] = "$(echo PS4 >>$LOG)+ "
    for shell in ("bash", "dash", "ksh"):
        plan = home.plan(shell, "-xc", "echo done")
        assert run(plan, home).stdout == b"done\n"
    assert home.ran() == []


# Put right


COMMAND = "hello you\n/bin/pwd\n/usr/bin/env -0"


@pytest.mark.parametrize(("shell", "flags"), REPAIRED)
def test_repair_restores_everything_and_keeps_functions(
    home: Home, probe: Listener, shell: str, flags: str
) -> None:
    every = bytes(range(1, 256)).decode("utf-8", "surrogateescape")
    home.env.update(EVERY=every, QUOTES="it's \"$(x)\" `y` \\ \\' $HOME\n#\n", EMPTY="", SECRET="s3cret")
    plan = home.plan(shell, flags, COMMAND, "zero", "a b", startup="repair", probe=probe.probe)
    assert not any("s3cret" in word for word in plan.argv)
    result = run(plan, home)
    assert result.returncode == 0, result.stderr
    said, directory, printed = result.stdout.split(b"\n", 2)
    assert (said, directory.decode()) == (b"hello you", str(home.cwd))
    assert compared(shell, variables(printed)) == compared(shell, home.env)
    assert home.ran() != []
    report = probe.heard()
    assert report is not None
    assert (report.env["PATH"], report.env["FILTERED"]) == ("/from/startup:/bin", "back")
    assert "REMOVED" not in report.env
    assert report.env["SECRET"] == "s3cret"
    assert report.env["ADDED"].startswith("two\n")


@pytest.mark.parametrize("shell", ["bash", "sh", "dash", "ksh", "zsh", "fish"])
def test_repair_does_not_mind_a_terminal(home: Home, probe: Listener, shell: str) -> None:
    plan = home.plan(shell, "-ic", COMMAND, startup="repair", probe=probe.probe)
    result = run(plan, home, "tty")
    assert result.returncode == 0, result.stderr
    said, directory, printed = result.stdout.split(b"\n", 2)
    assert (said, directory.decode()) == (b"hello you", str(home.cwd))
    assert compared(shell, variables(printed)) == compared(shell, home.env)
    assert probe.heard() is not None


HOSTILE = """
set -e; set -u; set -f; IFS=:
readonly FIXED=startup; export FIXED
cd() { echo wrong; }
command() { echo wrong; }
"""
FUNCTIONS = ["export", "unset", "eval", "builtin", "printf", "compgen", "typeset", "declare", "set", "test"]
HOSTILE_ALIASES = "alias " + " ".join(
    f"{name}='echo wrong'"
    for name in ("cd", "export", "unset", "eval", "command", "builtin", "readonly", "set")
)


def hostile(shell: str) -> str:
    if shell == "fish":
        return "function cd; echo wrong; end\nfunction test; echo wrong; end\nset -gx NUMBER 1 2\n"
    text = POSIX + HOSTILE
    if shell in ("bash", "zsh"):
        text += "export NUMBER=3; typeset -i NUMBER; LIST=(1 2)\n"
        text += "shopt -s expand_aliases nocasematch; export lower=1\n" if shell == "bash" else ""
        text += "setopt ksh_arrays sh_word_split; typeset -U path PATH\n" if shell == "zsh" else ""
        text += "public() { :; }; export -f public\n" if shell == "bash" else ""
        text += "".join(f"{name}() {{ echo wrong; }}\n" for name in FUNCTIONS)
    return text + HOSTILE_ALIASES + "\n"


@pytest.mark.parametrize("shell", ["bash", "sh", "dash", "ksh", "zsh", "fish"])
def test_repair_is_not_stopped_by_functions_aliases_options_or_types(
    home: Home, probe: Listener, shell: str
) -> None:
    for name in (".bash_profile", ".profile", ".zshenv"):
        home.write(name, hostile(shell))
    home.write(".config/fish/config.fish", FISH + hostile("fish"))
    for name in ("BASH_ENV", "ENV", "ZDOTDIR"):
        del home.env[name]
    home.env.update(FIXED="given", NUMBER="three", LIST="one", LOWER="2", PATH=f"{PATH}:/bin")
    text = "\n".join(("hello $status" if shell == "fish" else "hello $?", "/bin/pwd", "/usr/bin/env -0"))
    result = run(home.plan(shell, "-lc", text, startup="repair", probe=probe.probe), home)
    assert result.returncode == 0, result.stderr
    said, directory, printed = result.stdout.split(b"\n", 2)
    assert (said, directory.decode()) == (b"hello 0", str(home.cwd))
    # What is readonly cannot be changed back; so it is told.
    fixed = {} if shell == "fish" else {"FIXED": "startup"}
    assert compared(shell, variables(printed)) == compared(shell, {**home.env, **fixed})
    report = probe.heard()
    assert report is not None
    assert report.readonly == tuple(fixed)


@pytest.mark.parametrize("target", ["bash", "zsh", "ksh", "dash"])
def test_sh_may_be_any_of_them(home: Home, probe: Listener, tmp_path: Path, target: str) -> None:
    sh = tmp_path / "sh"
    sh.symlink_to(program(target))
    quiet = home.plan(str(sh), "-ilc", "/usr/bin/env -0")
    result = run(quiet, home)
    assert compared(target, variables(result.stdout)) == compared(target, quiet.environment(home.env))
    assert home.ran() == []
    repaired = home.plan(str(sh), "-lc", COMMAND, startup="repair", probe=probe.probe)
    result = run(repaired, home)
    said, directory, printed = result.stdout.split(b"\n", 2)
    assert (said, directory.decode()) == (b"hello you", str(home.cwd))
    assert compared(target, variables(printed)) == compared(target, home.env)
    report = probe.heard()
    assert report is not None
    assert report.env["FILTERED"] == "back"


def of_bash(home: Home, profile: str) -> None:
    """The one startup file that bash reads, with this text."""
    home.write(".bash_profile", profile)
    del home.env["BASH_ENV"]


# Each leaves bash with something else than a text under a name, or with a name that is for something else.
DISGUISES = {
    "a number": "declare -i GIVEN=3",
    "a number without a value": "unset GIVEN; declare -i GIVEN",
    "a list": "unset GIVEN; GIVEN=(1 2)",
    "a list without a first": "unset GIVEN; declare -ax GIVEN=([5]=1)",
    "a table": "unset GIVEN; declare -A GIVEN=([0]=1)",
    "small letters": "declare -l GIVEN",
    "capitals": "declare -ux GIVEN",
    "not exported": "declare +x GIVEN",
    "without a value": "unset GIVEN; export GIVEN",
    "another's name": "unset GIVEN; declare -n GIVEN=PATH",
    "a name for nothing": "unset GIVEN; declare -n GIVEN=NOTHING; export GIVEN",
    "a name for a part of a list": "unset GIVEN; PARTS=(1 2); declare -nx GIVEN=PARTS[1]",
    "another has its name": "declare -n OTHER=GIVEN; OTHER=4",
    "a name for itself": "unset GIVEN; declare -nx GIVEN=OTHER; declare -nx OTHER=GIVEN",
    "a trap": "declare -tx GIVEN",
}


@pytest.mark.parametrize("options", ["", "set -eu; IFS=GE; shopt -s nocasematch extglob"])
@pytest.mark.parametrize("flags", [(), ("--posix",)], ids=" ".join)
@pytest.mark.parametrize("disguise", DISGUISES)
def test_bash_gets_back_what_was_no_longer_a_text(
    home: Home, probe: Listener, disguise: str, flags: tuple[str, ...], options: str
) -> None:
    of_bash(home, f"{DISGUISES[disguise]}; {options}\n")
    home.env["GIVEN"] = "Given [$(x)] 7"
    told = home.plan("bash", *flags, "-lc", "/usr/bin/env -0", startup="repair", probe=probe.probe)
    alone = home.plan("bash", *flags, "-lc", "/usr/bin/env -0", startup="repair")
    for plan in (told, alone):
        result = run(plan, home)
        assert result.returncode == 0, result.stderr
        assert compared("bash", variables(result.stdout)) == compared("bash", home.env)
    assert probe.heard() is not None


@pytest.mark.parametrize("words", ["export", "declare", "export declare", "compgen", "eval unset"])
def test_builtins_that_are_disabled_do_not_cost_the_environment(home: Home, words: str) -> None:
    of_bash(home, f"export PATH=/elsewhere\nenable -n {words}\n")
    result = run(home.plan("bash", "-lc", "/usr/bin/env -0", startup="repair"), home)
    found = compared("bash", variables(result.stdout))
    if "eval" in words:  # nothing can be put right then; but nothing is lost either
        assert found["PATH"] == "/elsewhere"
        found["PATH"] = home.env["PATH"]
    assert {name: found.get(name) for name in home.env if name in found} == {
        name: value for name, value in compared("bash", home.env).items() if name in found
    }
    assert set(compared("bash", home.env)) <= set(found)


@pytest.mark.parametrize(
    ("profile", "forks"),
    [
        ("export PATH=/elsewhere; unset REMOVED; hello() { :; }; OWN=1; cd /", False),
        ("export ADDED=1", False),
        ("export ADDED=1; set -o noclobber -o posix -o nounset", False),
        ("hello() { :; }; export -f hello", False),
        ("declare -i LANG", False),
        ("declare -ax LANG", False),
        # Where a list cannot be had without one, as everywhere without /dev/shm.
        ("export ADDED=1 TMPDIR=/nowhere", True),
        ("export ADDED=1; readonly TMPDIR", True),
        ("export ADDED=1; BASH_COMPAT=4.4", True),
        ("export ADDED=1; shopt -s compat43", True),
    ],
)
def test_bash_forks_for_a_repair_only_where_it_must(
    home: Home, tmp_path: Path, profile: str, forks: bool
) -> None:
    of_bash(home, profile)
    trace = tmp_path / "trace"
    tracing = (program("strace"), "-f", "-qq", "-e", "trace=clone,clone3,fork,vfork", "-o", str(trace))
    started = []
    # What /etc/profile starts is not counted.
    for plan in (
        home.plan("bash", "-lc", "exec /usr/bin/env -0", startup="repair"),
        home.plan("bash", "-lc", "exec /usr/bin/env -0", startup="report"),
    ):
        result = run(plan, home, before=tracing)
        started.append(sum("clone" in line or "fork" in line for line in trace.read_text().splitlines()))
        if plan.startup == "repair":
            assert compared("bash", variables(result.stdout)) == compared("bash", home.env)
    assert (started[0] > started[1]) == forks


@pytest.mark.parametrize("given", [False, True], ids=["", "TMPDIR in the contract"])
@pytest.mark.parametrize(
    ("profile", "tmpdir", "compat"),
    [
        ("", "", ""),
        ("TMPDIR=/nowhere", "set /nowhere", ""),
        ("TMPDIR=/nowhere; BASH_COMPAT=4.4", "set /nowhere", "compat44"),
        ("export TMPDIR=/nowhere", "", ""),
        ("shopt -s compat43", "", "compat43"),
    ],
)
def test_what_bash_lists_with_is_left_as_it_was(
    home: Home, profile: str, tmpdir: str, compat: str, given: bool
) -> None:
    of_bash(home, f"export ADDED=1; {profile}")
    if given:
        home.env["TMPDIR"] = "/given"
        tmpdir = "set /given"
    text = (
        'echo "${TMPDIR+set }${TMPDIR-}"; shopt -s | grep -o "compat[0-9]*" || echo; '
        "echo /proc/self/fd/*; echo ${!__OUTFITTER*}; exec /usr/bin/env -0"
    )
    result = run(home.plan("bash", "-lc", text, startup="repair"), home)
    lines = result.stdout.split(b"\n", 4)
    assert [line.decode() for line in lines[:2]] == [tmpdir, compat]
    # The fourth is that of the folder.
    assert lines[2].decode().split() == [f"/proc/self/fd/{number}" for number in range(4)]
    assert lines[3] == b""
    assert compared("bash", variables(lines[4])) == compared("bash", home.env)


def test_a_list_that_no_pipe_holds_is_taken_away(home: Home) -> None:
    of_bash(home, "for ((i = 0; i < 5000; i++)); do export A_NAME_THAT_IS_NOT_SHORT_$i=1; done")
    result = run(home.plan("bash", "-lc", "exec /usr/bin/env -0", startup="repair"), home)
    assert compared("bash", variables(result.stdout)) == compared("bash", home.env)


def test_thousands_of_names_are_restored(home: Home) -> None:
    home.env.update({f"A_RATHER_LONG_NAME_{number}": "" for number in range(6000)})
    of_bash(home, "export ADDED=1 A_RATHER_LONG_NAME_7=1; unset A_RATHER_LONG_NAME_5999\n")
    plan = home.plan("bash", "-lc", "/usr/bin/env -0", startup="repair")
    assert compared("bash", variables(run(plan, home).stdout)) == compared("bash", home.env)


@pytest.mark.parametrize("name", ["bash", "sh"])
def test_what_bash_looked_for_in_vain_leaves_nothing_behind(home: Home, name: str) -> None:
    # A write that must fail is how it looks.
    for file in (".bash_profile", ".profile"):
        home.write(file, "".join(f"f{n}() {{ echo {'x' * 5000}; }}; export -f f{n}\n" for n in range(30)))
    del home.env["BASH_ENV"]
    plan = home.plan(name, "-lc", "echo out; echo err >&2; declare -Fx", path="bash", startup="repair")
    result = run(plan, home, path="bash")
    assert (result.stdout, result.stderr) == (b"out\n", b"err\n")


@pytest.mark.parametrize(
    "options",
    [
        "shopt -s expand_aliases extglob; shopt -u sourcepath; set -e -o pipefail",
        "shopt -u extglob; shopt -s nocasematch; set -u -C -f",
    ],
)
@pytest.mark.parametrize("functions", [(), ("builtin",), ("unset", "builtin")], ids=" ".join)
@pytest.mark.parametrize("name", ["bash", "sh"])
def test_the_options_of_bash_stay_as_the_startup_files_left_them(
    home: Home, name: str, functions: tuple[str, ...], options: str
) -> None:
    text = f"{options}\n"
    if name == "bash":  # as sh it does not let functions be called so
        text += "".join(f"{function}() {{ :; }}\n" for function in functions)
    home.write(".profile", text)
    home.write(".bash_profile", text)
    del home.env["BASH_ENV"]
    shown = "\\shopt; \\set -o"
    plain = ShellPlan([name, "-lc", shown], "bash", startup="report")
    repaired = home.plan(name, "-lc", shown, path="bash", startup="repair")
    assert run(repaired, home, path="bash").stdout == run(plain, home, path="bash").stdout


def test_functions_that_bash_was_given_stay_exported_and_others_do_not(home: Home) -> None:
    home.write(".bash_profile", "f() { echo startup; }; export -f f; hello() { echo $1; }")
    del home.env["BASH_ENV"]
    home.env["BASH_FUNC_given%%"] = "() {  echo given\n}"
    home.env["A.B"] = "no identifier"
    plan = home.plan("bash", "-lc", "f; given; /usr/bin/env -0", startup="repair")
    said, given, printed = run(plan, home).stdout.split(b"\n", 2)
    assert (said, given) == (b"startup", b"given")
    assert compared("bash", variables(printed)) == compared("bash", home.env)


def test_universal_variables_of_fish_are_not_erased(home: Home) -> None:
    stored = "# This file contains fish universal variable definitions.\n# VERSION: 3.0\n"
    stored += "SETUVAR --export REMOVED:2\nSETUVAR --export UNIVERSAL:1\n"
    home.write(".config/fish/fish_variables", stored)
    home.write(".config/fish/conf.d/a.fish", "")
    plan = home.plan("fish", "-c", "/usr/bin/env -0", startup="repair")
    found = compared("fish", variables(run(plan, home).stdout))
    # The note of the plan says that this one stays.
    assert found == compared("fish", {**home.env, "UNIVERSAL": "1"})
    assert (home.folder / ".config/fish/fish_variables").read_text() == stored


@pytest.mark.parametrize("shell", ["bash", "dash", "ksh", "zsh", "fish"])
def test_an_environment_larger_than_one_variable_is_restored(home: Home, shell: str) -> None:
    home.env.update({f"LARGE_{number}": "'x\\\n" * 12_000 for number in range(4)})
    result = run(home.plan(shell, "-lc", "/usr/bin/env -0", startup="repair"), home)
    assert compared(shell, variables(result.stdout)) == compared(shell, home.env)


# The command is what was asked for


TEXTS = [
    "",
    "exit 7",
    'echo $?; echo $#; echo "$0" "$@"',
    "exec /bin/sh -c 'exit 3'",
    "cat <<E\n$0 it's\nE",
    "set -e\nfalse\necho no",
    "echo a # the end",
    "# nothing",
    "trap 'echo bye' EXIT; exit 4",
    "kill -TERM $$",
    "echo a; echo (",
    "if true; then",
    "echo 'open",
    "nosuchcommand",
    'set -u; echo "$nosuchvariable"; echo no',
    'read line; echo "[$line]"',
    "echo $PWD; umask; ulimit -n",
    'echo "[$_]" | /bin/grep -c OUTFITTER',
    "set",
]


def outcome(result: subprocess.CompletedProcess[bytes], text: str) -> tuple[int, list[bytes]]:
    lines = result.stdout.split(b"\n")
    if text == "set":
        # Nothing of ours is left, but in the text that the shell was given.
        lines = [line for line in lines if b"__OUTFITTER" in line and b"EXECUTION_STRING=" not in line]
    return result.returncode, lines


@pytest.mark.parametrize("startup", ["repair", "report"])
@pytest.mark.parametrize("shell", ["bash", "dash", "ksh", "zsh"])
def test_a_command_does_what_it_does_alone(home: Home, probe: Listener, shell: str, startup: str) -> None:
    for name in FILES:
        home.write(name, "")
    for text in TEXTS:
        plain = ShellPlan([shell, "-lc", text, "zero", "a b", "*"], shell, startup="report")
        planned = home.plan(shell, "-lc", text, "zero", "a b", "*", startup=startup, probe=probe.probe)
        assert planned.changed
        expected, found = run(plain, home), run(planned, home)
        probe.heard()  # a pipe that nobody reads fills up
        assert outcome(found, text) == outcome(expected, text), (text, found.stderr, expected.stderr)
        assert (found.stderr == b"") == (expected.stderr == b""), (text, found.stderr, expected.stderr)


FISH_TEXTS = [
    "exit 7",
    "echo $status $argv",
    "exec /bin/sh -c 'exit 3'",
    "echo a # the end",
    "echo a (",
    "if true",
    "nosuchcommand",
    'read line; echo "[$line]"',
    "set -n | string match '__OUTFITTER*'",
]


@pytest.mark.parametrize("startup", ["repair", "report"])
def test_a_command_of_fish_does_what_it_does_alone(home: Home, probe: Listener, startup: str) -> None:
    for name in FILES:
        home.write(name, "")
    for text in FISH_TEXTS:
        plain = ShellPlan(["fish", "-lc", text, "a b", "*"], "fish", startup="report")
        planned = home.plan("fish", "-lc", text, "a b", "*", startup=startup, probe=probe.probe)
        expected, found = run(plain, home), run(planned, home)
        assert (found.returncode, found.stdout, found.stderr) == (
            expected.returncode,
            expected.stdout,
            expected.stderr,
        ), text


# Reported


@pytest.mark.parametrize(("shell", "flags"), REPAIRED)
def test_a_report_says_what_the_startup_files_changed(
    home: Home, probe: Listener, shell: str, flags: str
) -> None:
    plan = home.plan(shell, flags, "/usr/bin/env -0", startup="report", probe=probe.probe)
    result = run(plan, home)
    assert result.returncode == 0, result.stderr
    report = probe.heard()
    assert report is not None
    reported = compared(shell, report.env)
    # It is what the command gets, too.
    assert reported == compared(shell, variables(result.stdout))
    changed = {name for name in {*reported, *home.env} if reported.get(name) != home.env.get(name)}
    assert changed == {"PATH", "FILTERED", "ADDED", "REMOVED"}


@pytest.mark.parametrize("startup", ["repair", "report"])
@pytest.mark.parametrize("shell", ["bash", "sh", "dash", "ksh", "zsh", "fish"])
def test_a_probe_that_nobody_has_set_up_changes_nothing(
    home: Home, tmp_path: Path, shell: str, startup: str
) -> None:
    status = "$status" if shell == "fish" else "$?"
    for path in (tmp_path / "nothing", tmp_path / "nowhere" / "at all"):
        plan = home.plan(
            shell, "-lc", f"hello {status}; exit 5", startup=startup, probe=Probe(str(path), "m")
        )
        result = run(plan, home)
        assert (result.returncode, result.stdout, result.stderr) == (5, b"hello 0\n", b"")
        assert not path.exists()


@pytest.mark.parametrize("startup", ["repair", "report"])
@pytest.mark.parametrize("shell", ["bash", "sh", "dash", "ksh", "zsh"])
def test_a_pipe_that_nobody_reads_any_more_does_not_hold_up_the_command(
    home: Home, tmp_path: Path, shell: str, startup: str
) -> None:
    # As when the server has died.
    path = tmp_path / "pipe"
    os.mkfifo(path)
    plan = home.plan(
        shell, "-lc", "hello $?; /usr/bin/env -0; exit 5", startup=startup, probe=Probe(str(path), "m")
    )
    result = run(plan, home)
    said, _, printed = result.stdout.partition(b"\n")
    assert (result.returncode, said, result.stderr) == (5, b"hello 0", b"")
    found = compared(shell, variables(printed))
    assert found["PATH"] == (PATH if startup == "repair" else "/from/startup:/bin")
    assert not [name for name in found if name.startswith("__OUTFITTER")]
