"""Startup files that misbehave, each with what must come of asking a shell that reads them.

`NAP` in a text becomes a number of seconds longer than any test. `$REPORT` is the path of the pipe, which a
startup file can find in its own command line.
"""

from __future__ import annotations

from typing import NamedTuple

CAPTURED, TIMEOUT, REPLACED = "captured", "timeout", "replaced-or-exited"
FAILED, TOO_LARGE = "failed", "too-large"

_FILES = {
    "bash": ".bash_profile",
    "zsh": ".zshenv",
    "fish": ".config/fish/config.fish",
    "dash": ".profile",
    "ksh": ".profile",
    "tcsh": ".tcshrc",
}


class Case(NamedTuple):
    """`text` is what the startup file does; `values` are among the captured ones, `absent` are not."""

    name: str
    text: str
    state: str
    values: dict[str, str] = {}
    absent: tuple[str, ...] = ()
    shell: str = "bash"
    probe: str = "loginShell"

    @property
    def file(self) -> str:
        return _FILES[self.shell]


AFTER = "\nexport AFTER=1\n"
REACHED = {"AFTER": "1"}
_REPORT = 'REPORT=${BASH_EXECUTION_STRING##*>|}; [ -p "$REPORT" ] || exit 99\n'


def _fine(name: str, text: str, absent: tuple[str, ...] = (), **values: str) -> Case:
    """Trouble that does not keep the shell from what follows in its file."""
    return Case(name, text + AFTER, CAPTURED, {**REACHED, **values}, absent)


CASES = [
    # Output, and what is kept open
    _fine("banners", 'echo "Welcome!"; printf "A=1\\0B=2\\0"; echo "You have mail" >&2'),
    _fine("background-keeps-stdout", "sleep NAP & sleep NAP >/dev/null &"),
    _fine("background-left-the-session", 'setsid sleep NAP & (setsid sh -c "(setsid sleep NAP &)")'),
    _fine("background-ignores-signals", '(trap "" TERM HUP INT; setsid sleep NAP) &'),
    _fine("many-escapes", "for i in $(seq 60); do (setsid sleep NAP &) ; done"),
    _fine("coprocess", "coproc sleep NAP"),
    _fine("stdout-elsewhere", "exec >/dev/null"),
    _fine("descriptors-closed", "exec 0<&- 1>&- 2>&- 3>&-"),
    _fine("stdout-flood", "head -c 20000000 /dev/zero"),
    _fine("stderr-flood", "head -c 20000000 /dev/zero >&2"),
    _fine("background-flood", "yes & yes >&2 &"),
    Case("endless-stderr", "yes >&2", TIMEOUT),
    # Names that are taken
    _fine("functions", "env() { exit 7; }; printf() { exit 7; }; exec() { :; }; sh() { exit 7; }"),
    _fine("functions-for-builtins", "builtin() { :; }; command() { :; }; exec() { :; }; test() { :; }"),
    _fine(
        "aliases",
        "shopt -s expand_aliases; alias exec=: env=: printf=: builtin=: command=: sh=: test=: '['=:",
    ),
    # Options
    _fine("noclobber", "exec 3>&-; set -o noclobber"),
    _fine("nounset", "set -u"),
    _fine("errexit", "set -e"),
    _fine("posix", "set -o posix"),
    _fine("no-globbing", "set -f; IFS=/-0"),
    _fine("trace", "set -xv"),
    Case("errexit-and-a-failing-line", "set -e; false" + AFTER, FAILED),
    Case("noexec", "set -n" + AFTER, REPLACED),
    Case("assignments-anywhere", AFTER + "set -k", CAPTURED, REACHED),
    # Ends and replacements
    Case("exit-0", "export BEFORE=1; exit 0", REPLACED),
    Case("exit-3", "exit 3", FAILED),
    Case("exec-zsh", "exec zsh", REPLACED),
    Case("exec-fish", "exec fish", REPLACED),
    Case("exec-true", "exec true", REPLACED),
    Case("exec-itself-for-ever", "exec bash -l", TIMEOUT),
    _fine("exec-fish-if-interactive-not-asked", "case $- in *i*) exec fish ;; esac"),
    Case(
        "exec-fish-if-interactive",
        "case $- in *i*) exec fish ;; esac" + AFTER,
        REPLACED,
        probe="loginInteractiveShell",
    ),
    Case("return", "export BEFORE=1; return" + AFTER, CAPTURED, {"BEFORE": "1"}, ("AFTER",)),
    Case("exit-in-an-alarm", "trap 'exit 4' DEBUG", FAILED),
    Case("killed", "kill -9 $$", FAILED),
    Case("group-killed", "kill -9 0", FAILED),
    Case("stopped", "kill -STOP $$", TIMEOUT),
    _fine("exit-trap-prints", "trap 'echo bye; env -0' EXIT"),
    _fine("exit-trap-sleeps", "trap 'sleep NAP' EXIT"),
    # Waiting
    Case("sleep", "sleep NAP", TIMEOUT),
    Case("deaf-sleep", "trap '' TERM HUP INT; sleep NAP; sleep NAP", TIMEOUT),
    Case("waits-for-background", "setsid sleep NAP & wait", TIMEOUT),
    _fine("reads-stdin", "read x"),
    _fine("reads-terminal", "read x </dev/tty"),
    _fine("asks-for-a-password", 'read -s -p "Password: " x; read -s -p "Again: " x </dev/tty'),
    _fine("stty", "stty -echo; stty sane; stty size </dev/tty"),
    Case("stty-interactive", "stty -echo" + AFTER, CAPTURED, REACHED, probe="loginInteractiveShell"),
    _fine("opts-out", '[ "$OUTFITTER_RESOLVING_ENVIRONMENT" = 1 ] || sleep NAP'),
    # Data
    Case("much-in-one-variable", "export BIG=$(head -c 2097152 /dev/zero | tr '\\0' x)" + AFTER, FAILED),
    Case(
        "much-in-many-variables",
        "X=$(head -c 100000 /dev/zero | tr '\\0' x); for i in $(seq 20); do export BIG$i=$X; done",
        TOO_LARGE,
    ),
    _fine(
        "strange-values",
        "export LINES_='a\n\nb\n' EQUALS='=a=b=' EMPTY= RAW=$'\\xff\\xfe' MARK='__CAPTURE_END=1' SP=' '",
        LINES_="a\n\nb\n",
        EQUALS="=a=b=",
        EMPTY="",
        RAW="\udcff\udcfe",
        MARK="__CAPTURE_END=1",
        SP=" ",
    ),
    Case(
        "strange-names",
        '[ "$AGAIN" ] || exec env AGAIN=1 "MY-VAR=1" "A.B=2" "=nameless" "1=3" '
        'bash -l -c "$BASH_EXECUTION_STRING"',
        CAPTURED,
        {"MY-VAR": "1", "A.B": "2", "1": "3"},
        ("",),
    ),
    _fine("exported-function", "f() { echo hello; }; export -f f"),
    _fine("path-unset", "unset PATH", ("PATH",)),
    _fine("path-empty", "PATH=", PATH=""),
    _fine("home-unset", "unset HOME", ("HOME",)),
    _fine("no-environment", "for x in $(compgen -e); do unset $x; done", ("HOME", "PATH")),
    _fine("preloads-what-is-not-there", "export LD_PRELOAD=/nonesuch.so", LD_PRELOAD="/nonesuch.so"),
    # Places
    _fine("elsewhere", "cd /; export OLDPWD"),
    _fine("nowhere", 'mkdir "$HOME/d"; cd "$HOME/d"; rmdir "$HOME/d"'),
    _fine("umask", "umask 777"),
    Case("huge", "A=1 # comment\n" * 60_000 + AFTER, CAPTURED, REACHED),
    Case("no-more-processes", "ulimit -c 0; ulimit -t 60" + AFTER, CAPTURED, REACHED),
    # The pipe itself
    Case("pipe-removed", _REPORT + 'rm "$REPORT"', FAILED),
    Case("pipe-replaced", _REPORT + 'rm "$REPORT"; : >"$REPORT"; ln "$REPORT" "$HOME/kept"', FAILED),
    Case("pipe-directory-replaced", _REPORT + 'rm "$REPORT"; mkdir -p "$REPORT/a/b"', FAILED),
    _fine("pipe-gets-garbage", _REPORT + 'echo garbage >"$REPORT"', ("garbage",)),
    _fine("pipe-gets-variables", _REPORT + 'printf "PATH=/evil\\0X=1\\0" >"$REPORT"', ("X",)),
    Case("pipe-gets-a-flood", _REPORT + 'head -c 3000000 /dev/zero >"$REPORT"', TOO_LARGE),
    Case("pipe-gets-a-flood-behind", _REPORT + '(yes >"$REPORT") & sleep NAP', TOO_LARGE),
    Case("pipe-read-by-another", _REPORT + 'exec 9<"$REPORT"; kill -9 $$', FAILED),
    # Other shells
    Case("zsh-noclobber", "setopt noclobber nounset errexit" + AFTER, CAPTURED, REACHED, shell="zsh"),
    Case(
        "zsh-names",
        "alias -g env=: exec=: ; alias sh=: '/bin/sh'=: ; exec() { : }; builtin() { : }; command() { : }"
        + AFTER,
        CAPTURED,
        REACHED,
        shell="zsh",
    ),
    Case("zsh-exec-fish", "[[ -o interactive ]] && exec fish\nexec fish", REPLACED, shell="zsh"),
    Case("zsh-exit", "exit", REPLACED, shell="zsh"),
    Case("zsh-background", "(sleep NAP &) ; sleep NAP &!" + AFTER, CAPTURED, REACHED, shell="zsh"),
    Case("zsh-path-unset", "unset PATH path" + AFTER, CAPTURED, REACHED, ("PATH",), shell="zsh"),
    Case("zsh-sleep", "sleep NAP", TIMEOUT, shell="zsh", probe="interactiveShell"),
    Case(
        "fish-names",
        "function env; end; function sh; end; function command; end; function printf; end; set -gx AFTER 1",
        CAPTURED,
        REACHED,
        shell="fish",
    ),
    # `exit` ends only the file in fish 3; so it is killed.
    Case("fish-killed", "kill -9 $fish_pid", FAILED, shell="fish"),
    Case("fish-exec-bash", "exec bash", REPLACED, shell="fish"),
    Case("fish-sleep", "sleep NAP", TIMEOUT, shell="fish", probe="loginInteractiveShell"),
    Case("fish-background", "sleep NAP &; set -gx AFTER 1", CAPTURED, REACHED, shell="fish"),
    Case("fish-path-gone", "set -e PATH; set -gx AFTER 1", CAPTURED, REACHED, shell="fish"),
    Case("dash-exit", "exit 1", FAILED, shell="dash"),
    Case("dash-noclobber", "set -Cu" + AFTER, CAPTURED, REACHED, shell="dash"),
    Case("dash-background", "sleep NAP & setsid sleep NAP &" + AFTER, CAPTURED, REACHED, shell="dash"),
    Case("ksh-names", "alias exec=: env=: sh=:; set -C" + AFTER, CAPTURED, REACHED, shell="ksh"),
    Case("ksh-exit", "exit", REPLACED, shell="ksh"),
    Case("ksh-assignments-anywhere", AFTER + "set -k", CAPTURED, REACHED, shell="ksh"),
    Case(
        "tcsh-names",
        "set noclobber; alias env true; alias exec true; alias sh true; setenv AFTER 1",
        CAPTURED,
        REACHED,
        shell="tcsh",
    ),
    # `exit` ends only the file here, too.
    Case("tcsh-killed", "kill -9 $$", FAILED, shell="tcsh"),
    Case("tcsh-exec", "exec zsh", REPLACED, shell="tcsh"),
    Case("tcsh-sleep", "onintr -; sleep NAP", TIMEOUT, shell="tcsh"),
]
