"""sh, dash and ksh: -c reads nothing, but a login shell cannot be had without its files.

`sh` may be any of them, or bash: nothing is used here that only one of them knows.
"""

from __future__ import annotations

from .call import OURS, Family, ShellCall, Silence, flags, prompts_that_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def _names(builtin: str, body: str) -> str:
    """A substitution that does `body` for each variable that `export -p` or `readonly -p` prints, as $1.

    What they print is commands; a value may hold lines that look like more of them. Only the shell itself
    reads them right: so it does, with another meaning of the first word. Nothing of that gets out of the
    subshell. A zsh called sh needs to be told that words of the language may have another meaning.
    """
    return (
        '$(\\set +eu; \\command test "${ZSH_VERSION-}" && \\unsetopt posixaliases; '
        f"{OURS}name() {{ {body}; }}; \\command alias {builtin}={OURS}name; "
        f'\\eval "$(\\{builtin} -p)")'
    )


class Posix(Family):
    maintained = frozenset(
        ("PWD", "OLDPWD", "SHLVL", "_", "IFS", "PPID", "OPTIND", "LINENO", "A__z", "_AST_FEATURES")
    )
    if_fifo = "\\command test -p {} && \\command"
    enter = '\\command test "$PWD" = {0} || \\command cd -- {0}'
    readonly = _names("readonly", '\\command printf "%s " "${1%%=*}"')

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, argv: Sequence[str], env: Mapping[str, str]) -> ShellCall:
        call = ShellCall(argv)
        call.posix = True
        command = stdin = False
        found, at = flags(argv, 1, takes="oORA" if self.name == "ksh" else "oO", attached=self.name == "ksh")
        for flag in found:
            if flag.name == "c":
                command = True
            elif flag.name == "s":
                stdin = True
            elif flag.name == "i":
                call.interactive = flag.on
            elif flag.name == "l" or self._option(flag.name, flag.value).startswith("login"):
                call.asks_login(flag.word, flag.cuts)
            elif flag.name == "x" or flag.value == "xtrace":
                call.trace = flag.on
            elif self.name == "ksh" and (flag.name == "E" or self._option(flag.name, flag.value) == "rc"):
                # ENV or ~/.kshrc is read although the shell is not interactive.
                call.interactive = call.interactive or flag.on
        call.operands_from(at, command, stdin)
        return call

    def _option(self, name: str, value: str | None) -> str:
        """The name that `--name` or `-o name` is about."""
        if name == "o":
            return value or ""
        return name[2:] if name[:2] == "--" else ""

    def reads(self, call: ShellCall, env: Mapping[str, str], login: bool) -> bool:
        return login or call.may_interact

    def silence(self, call: ShellCall, env: Mapping[str, str], login: bool) -> Silence:
        silence = Silence(False)
        if login:
            silence.notes.append(
                f"{self.name} is not started as a login shell: it would read /etc/profile and ~/.profile"
            )
        if call.may_interact:
            if self.name == "dash":
                silence.withheld += ["ENV"] if "ENV" in env else []
            else:
                # Without ENV a ksh, which sh may be, would read ~/.kshrc; ksh93's +E is an error elsewhere.
                silence.added.append(("ENV", "/dev/null"))
                silence.notes.append(f"ENV is set to /dev/null, so that {self.name} does not read ~/.kshrc")
        silence.withheld += prompts_that_run(call, env, call.trace)
        return silence

    def prefix(self, names: Sequence[str]) -> str:
        # Special builtins (unset, eval, export, :) win over functions here; the others need `command`, so a
        # function of that name does not survive. Left of ||, `set -e` does not look at what fails.
        text = "".join(f"${{{name}-}}" for name in names)
        return f'{{ \\unset -f command; \\eval "{text}"; \\: ; }} 2>/dev/null || \\:'

    def restore(self, env: Mapping[str, str], cwd: str) -> tuple[str, str]:
        names = self.names(env)
        known = "|".join(self.known(names))
        lines = self.entered(cwd)
        unset = (
            f"case ${{1%%=*}} in ({known}|{OURS}*) ;; "
            '(*) \\command printf "\\\\\\\\command unset -v %s\\n" "${1%%=*}" ;; esac'
        )
        lines.append(f'\\eval "{_names("export", unset)}"')
        # Behind `command` an error, as for a readonly variable, is not the end of the shell.
        lines += [f"\\command export {name}={self.quote(env[name])}" for name in names]
        return "\n".join(lines) + "\n", ""

    def finish(self, names: Sequence[str]) -> str:
        return f"\\unset -v {' '.join(names)}\n\\:\n"


SH = Posix("sh")
DASH = Posix("dash")
KSH = Posix("ksh")
