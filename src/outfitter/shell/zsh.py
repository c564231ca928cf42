"""zsh: -f keeps the user's files out, but /etc/zsh/zshenv is always read. It can pass for sh and ksh."""

from __future__ import annotations

from .call import OURS, Family, ShellCall, Silence, flags, prompts_that_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# An error, as for a readonly variable, would end the evaluation.
_IN_ANY_CASE = "always { TRY_BLOCK_ERROR=0 }"


class Zsh(Family):
    name = "zsh"
    # To assign one of the last five is to become another user.
    maintained = frozenset(
        ("PWD", "OLDPWD", "SHLVL", "_", "IFS", "PPID", "LINENO", "UID", "EUID", "GID", "EGID", "USERNAME")
    )
    supplied = frozenset(("HOME", "LOGNAME"))
    if_fifo = "[[ -p {} ]] && builtin command"
    # -q: the hooks of a directory change have had their turn.
    enter = '[[ "$PWD" == {0} ]] || builtin cd -q -- {0}'
    readonly = "${(kj: :)parameters[(R)*readonly*export*]}"

    def read(self, argv: Sequence[str], env: Mapping[str, str]) -> ShellCall:
        call = ShellCall(argv)
        emulated = argv[0].rpartition("/")[2].lstrip("-")
        if argv[1:2] == ["--emulate"]:
            # It must be the first option.
            call.at = min(3, len(argv))
            emulated = argv[2] if len(argv) > 2 else ""
        # The way zsh tells: by the first letter, an "r" for "restricted" aside.
        call.posix = emulated.removeprefix("r")[:1] in ("s", "b", "k")
        command = stdin = False
        found, at = flags(argv, call.at, takes="o", attached=True, last="b")
        for flag in found:
            name, on = self._option(flag.name, flag.on, flag.value)
            if name == "c":
                command = True
            elif name == "login":
                if on:
                    call.asks_login(flag.word, flag.cuts)
            elif name == "rcs":
                if on:
                    call.loud_cuts += flag.cuts
                else:
                    call.quiet.add("-f")
            elif name == "interactive":
                call.interactive = on
            elif name == "shinstdin":
                stdin = on
            elif name == "xtrace":
                call.trace = on
        call.operands_from(at, command, stdin)
        return call

    def _option(self, name: str, on: bool, value: str | None) -> tuple[str, bool]:
        """The option's own name, and whether it is switched on: -f, +o rcs and --no-rcs are the same."""
        if name == "o":
            long = value or ""
        elif name[:2] == "--":
            long = name[2:].replace("-", "_")
        else:
            letters = {"l": "login", "i": "interactive", "s": "shinstdin", "x": "xtrace", "f": "norcs"}
            long = letters.get(name, name)
        long = long.lower().replace("_", "")
        if long[:2] == "no" and long != "notify":
            return long[2:], not on
        return long, on

    def silence(self, call: ShellCall, env: Mapping[str, str], login: bool) -> Silence:
        if call.posix:
            # There -f means something else, and nothing keeps a login shell from ~/.profile.
            silence = Silence(False)
            if login:
                silence.notes.append(
                    "zsh as sh or ksh is not started as a login shell: it would read ~/.profile"
                )
            if call.may_interact and "ENV" in env:
                silence.withheld.append("ENV")
            silence.withheld += prompts_that_run(call, env, call.trace)
            return silence
        # ZDOTDIR says where files are that are not read now; FPATH where functions are once someone asks for
        # them; MODULE_PATH is not taken from the environment; prompts substitute only if an option says so.
        silence = Silence(login)
        silence.flags = [] if "-f" in call.quiet else ["-f"]
        silence.cuts = call.loud_cuts
        silence.notes.append("zsh always reads /etc/zsh/zshenv")
        return silence

    def reads(self, call: ShellCall, env: Mapping[str, str], login: bool) -> bool:
        return not call.posix or login or call.may_interact

    def prefix(self, names: Sequence[str]) -> str:
        # A function `builtin` does not survive; one of the two gets rid of it, whichever is a function too.
        # No options and no aliases of the startup files have a meaning where the text is read.
        text = "".join(f"${{{name}-}}" for name in names)
        return (
            "{ { \\unset -f builtin; \\unfunction builtin; } >/dev/null; "
            f'() {{ \\builtin emulate -LR zsh -o no_aliases; \\builtin eval "{text}"; }}; '
            "\\builtin true; } 2>/dev/null || \\builtin true"
        )

    def restore(self, env: Mapping[str, str], cwd: str) -> tuple[str, str]:
        names = self.names(env)
        known = "|".join(self.known(names))
        lines = [
            *self.entered(cwd),
            f"for {OURS}N in ${{(k)parameters[(R)*export*]}}; do case ${OURS}N in ({known}|{OURS}*) ;; "
            f"(*) {{ builtin unset -v ${OURS}N }} {_IN_ANY_CASE} ;; esac; done",
            # A number or a list under a name that should hold a text.
            f"for {OURS}N in {' '.join(map(self.quote, names))}; do case $parameters[${OURS}N] in "
            f"(''|scalar*|*special*|*readonly*) ;; (*) builtin unset -v ${OURS}N ;; esac; done",
        ]
        # +U: a PATH without its repetitions is another PATH.
        lines += [
            f"{{ builtin typeset -gx +U {name}={self.quote(env[name])} }} {_IN_ANY_CASE}" for name in names
        ]
        return "\n".join(lines) + "\n", ""

    def finish(self, names: Sequence[str]) -> str:
        return f"builtin unset -v {' '.join(names)} {OURS}N\nbuiltin true\n"


ZSH = Zsh()
