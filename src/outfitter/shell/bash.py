"""bash: --noprofile and --norc keep its files out, BASH_ENV must not reach it."""

from __future__ import annotations

from ..env.names import MARK
from .call import END, OURS, RARE, Family, ShellCall, Silence, flags, prompts_that_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Long options come before the bundles, and one dash is enough for them.
_LONG = frozenset(
    (
        *("debug", "debugger", "dump-po-strings", "dump-strings", "help", "init-file", "login", "noediting"),
        *("noprofile", "norc", "posix", "pretty-print", "protected", "rcfile", "restricted", "verbose"),
        *("version", "wordexp"),
    )
)
_TAKE_A_FILE = ("init-file", "rcfile")

# Holds the options that were on when the startup files were done.
_OPTIONS = OURS + "O"
# Holds what is exported, and then the exported functions as `declare -Fx` prints them.
_LIST = OURS + "L"
# Is set if `builtin` is what it should be.
_BUILTIN = OURS + "B"

# bash exports these by itself,
_EXPORTED = ("PWD", "OLDPWD", "SHLVL")
# and these are readonly. IFS is not taken from the environment.
_READONLY = ("SHELLOPTS", "BASHOPTS", "UID", "EUID", "PPID")
# A number that bash counts by itself, until it is unset.
_COUNTING = frozenset(
    ("SECONDS", "RANDOM", "SRANDOM", "LINENO", "HISTCMD", "EPOCHSECONDS", "BASH_SUBSHELL", "BASHPID")
)


class Bash(Family):
    name = "bash"
    maintained = frozenset((*_EXPORTED, *_READONLY, "_", "IFS"))
    if_fifo = "[[ -p {} ]] && \\builtin command"
    enter = '\\builtin [ "$PWD" = {0} ] || \\builtin cd -- {0}'
    # ${!name@a} says "rx" for what is readonly and exported; before bash 4.4 it is an error, which ends no
    # more than the subshell.
    readonly = (
        f'$(IFS="\n"; \\builtin set -f +eu; for {OURS}N in $(\\builtin compgen -e); do '
        f'[[ ${{!{OURS}N@a}} == *r* ]] && \\builtin printf "%s " "${OURS}N"; done)'
    )
    helpers = (_OPTIONS, _BUILTIN)

    def read(self, argv: Sequence[str], env: Mapping[str, str]) -> ShellCall:
        call = ShellCall(argv)
        call.posix = "POSIXLY_CORRECT" in env or argv[0].rpartition("/")[2].lstrip("-") == "sh"
        at = 1
        while at < len(argv) and argv[at][:1] == "-":
            word = argv[at]
            name = word[2:] if word[1:2] == "-" else word[1:]
            if name not in _LONG:
                break
            if name == "login":
                call.asks_login(word, [(at, 0, len(word))])
            elif name in ("noprofile", "norc"):
                call.quiet.add(name)
            elif name == "posix":
                call.posix = True
            at += 1
            if name in _TAKE_A_FILE:
                call.fresh += argv[at : at + 1]
                at += 1
        command = stdin = False
        found, at = flags(argv, at, takes="oO")
        for flag in found:
            # bash does not look at the sign of these three.
            if flag.name == "c":
                command = True
            elif flag.name == "l":
                call.asks_login(flag.word, flag.cuts)
            elif flag.name == "s":
                stdin = True
            elif flag.name == "i":
                call.interactive = flag.on
            elif flag.name == "x" or (flag.name == "o" and flag.value == "xtrace"):
                call.trace = flag.on
            elif flag.name == "o" and flag.value == "posix":
                call.posix = flag.on
        call.operands_from(at, command, stdin)
        return call

    def reads(self, call: ShellCall, env: Mapping[str, str], login: bool) -> bool:
        if login or call.may_interact or "BASH_ENV" in env:
            return True
        # `bash -c` reads ~/.bashrc if it believes to be started by sshd or rshd: SSH_CLIENT is set or stdin
        # is a socket, and it is no shell inside a shell.
        level = env.get("SHLVL", "")
        return call.text >= 0 and not (level.isdecimal() and int(level[:9]) >= 1)

    def silence(self, call: ShellCall, env: Mapping[str, str], login: bool) -> Silence:
        silence = Silence(login)
        # A script reads nothing but BASH_ENV. Long options may stand first always, and only there.
        if login or call.operand < 0 or call.interactive:
            silence.flags = [f"--{name}" for name in ("noprofile", "norc") if name not in call.quiet]
        if login:
            silence.notes.append("bash reads ~/.bash_logout if the command ends with `exit`")
        silence.notes += [f"{file} is not read, although a flag names it" for file in call.fresh]
        silence.withheld = ["BASH_ENV"] if "BASH_ENV" in env else []
        if call.posix and call.may_interact and "ENV" in env:
            silence.withheld.append("ENV")
        # Run before each prompt, hence before what is typed.
        if call.may_prompt and "PROMPT_COMMAND" in env:
            silence.withheld.append("PROMPT_COMMAND")
        # SHELLOPTS and BASHOPTS set options, which is no code; but xtrace makes PS4 code.
        trace = call.trace or "xtrace" in env.get("SHELLOPTS", "").split(":")
        silence.withheld += prompts_that_run(call, env, trace)
        return silence

    def prefix(self, names: Sequence[str]) -> str:
        # A function `builtin` does not survive; all others do. If `unset` is one too, POSIX mode helps: there
        # the special builtins win over functions, and an assignment, which no function can stand in for, is
        # enough to enter it. Left of ||, `set -e` does not look at what fails, but behind `builtin` it does.
        # The last `true` is for $_, which would hold the text.
        text = "".join(f"${{{name}-}}" for name in names)
        return (
            f"{{ {_OPTIONS}=:${{BASHOPTS-}}:$SHELLOPTS:; "
            f"\\unset -f builtin; \\builtin eval {_BUILTIN}=1; "
            f"[[ ${{{_BUILTIN}-}} ]] || "
            "{ POSIXLY_CORRECT=1; \\unset -f builtin; \\unset POSIXLY_CORRECT; }; "
            f'\\builtin set +eu; \\builtin eval "{text}"; \\builtin true; }} >/dev/null 2>&1 || '
            "\\builtin true"
        )

    def quick_probe(self, path: str, mark: str, names: Sequence[str], env: Mapping[str, str]) -> str | None:
        # Whether a function that was exported has changed only its text tells, which is bash's own affair.
        if any(name.startswith("BASH_FUNC_") for name in env):
            return None
        fifo = self.quote(path)
        # A tenth of what it takes to start a program. What is no name passes through bash unchanged.
        return (
            f"\\builtin export -n {' '.join(names)}\n"
            f"[[ -p {fifo} ]] && {{ \\builtin export -p; \\builtin declare -Fx; "
            f"\\builtin printf '%s=%s\\0' {END} {self.quote(mark)}; }} {self.into(fifo)}\n"
        )

    def restore(self, env: Mapping[str, str], cwd: str) -> tuple[str, str]:
        names = self.names(env)
        words = " ".join(names)
        # One that is disabled would leave the command without what is taken away here, and put back below.
        lines = ["\\builtin enable declare export compgen mapfile", *self.entered(cwd)]
        # Until they are exported again below, what is exported does not belong there. A name that stands for
        # another is one no more, and a number is a text. A list cannot become one, nor can bash before 4.3
        # do any of this: then all are taken away, of which what is readonly stays.
        lines.append(
            f"\\builtin declare +nxaAilcut {_OPTIONS} {_BUILTIN} {' '.join(_EXPORTED)} IFS {words} || "
            f'\\builtin eval "${{{RARE}-}}"'
        )
        marked = f"[[ ${{{MARK}+x}} ]] && \\builtin"  # descendants are known by it, where nothing else tells
        lines.append(f"{marked} declare +x {MARK}")
        counting = " ".join([name for name in names if name in _COUNTING])
        if counting:
            lines.append(f"\\builtin command unset -v {counting}")
        lines += self._taken_away(env)
        # Behind `command` an error, as for a readonly variable, is not the end of the shell in POSIX mode;
        # the other names are exported all the same.
        kept = " ".join([*_EXPORTED, *(name for name in _READONLY if name in env)])
        pairs = " ".join([f"{name}={self.quote(env[name])}" for name in names])
        lines += [f"\\builtin command export {kept} {pairs}", f"{marked} export {MARK}"]
        return "\n".join(lines) + "\n", self._rare(words, env)

    def _taken_away(self, env: Mapping[str, str]) -> list[str]:
        listing = "{ \\builtin compgen -e; \\builtin declare -Fx; }"
        read = "\\builtin mapfile -t"  # line by line, so that neither IFS nor globbing matters
        ours = "" if "TMPDIR" in env else "${TMPDIR+x}"
        return [
            # To fork costs more than all of the rest. Without: a here-document is a file that has no name any
            # more, which may be in memory, and can be written through /proc. It must not be a pipe, which is
            # full before a long list ends: bash takes none if it is to behave as 5.0 did.
            f"[[ -w /dev/shm && ! ${{BASH_COMPAT+x}}{ours} && ${_OPTIONS} != *:compat* ]] && "
            "{ \\builtin command export TMPDIR=/dev/shm BASH_COMPAT=50 && "
            f'{{ {listing} >|/proc/self/fd/8; {read} -u 8 {_LIST}; }} 8<<<""; '
            "\\builtin unset -v TMPDIR BASH_COMPAT; }",
            # What carries this text is always there.
            f'[[ ${{{_LIST}-}} ]] || {read} {_LIST} <<<"$({listing})"',
            f'[[ "${{{_LIST}[@]: -1}}" == "declare -fx "* ]] && \\builtin eval "${{{RARE}-}}"',
            # -n is for names that stand for each other, which can be nothing else any more. What is readonly
            # stays, but nobody inherits it.
            f'\\builtin command unset -n "${{{_LIST}[@]}}"',
            f'\\builtin command unset -v "${{{_LIST}[@]}}" || \\builtin export -n "${{{_LIST}[@]}}"',
        ]

    def _rare(self, words: str, env: Mapping[str, str]) -> str:
        """Takes away lists, and the export of functions: all that is set again anyway, and what is listed."""
        functions = [
            name[len("BASH_FUNC_") : -2]
            for name in env
            if name.startswith("BASH_FUNC_") and name.endswith("%%")
        ]
        return (
            f"\\builtin command unset -v {words}\n"
            f'for {OURS}N in "${{{_LIST}[@]}}"; do case ${OURS}N in '
            f'("declare -fx "*) {OURS}N=${{{OURS}N#declare -fx }}; '
            f"case ${OURS}N in ({'|'.join(map(self.quote, functions)) or OURS}) ;; "
            f'(*) \\builtin export -nf "${OURS}N" ;; esac ;; esac; done\n'
            f'{_LIST}=("${{{_LIST}[@]##declare -fx *}}")\n'
        )

    def finish(self, names: Sequence[str]) -> str:
        # POSIX mode leaves these behind it as it likes.
        options = "expand_aliases inherit_errexit interactive_comments shift_verbose sourcepath"
        lines = [
            f"[[ ${{{_BUILTIN}-}} ]] || for {OURS}N in {options}; do if [[ ${_OPTIONS} == *:${OURS}N:* ]]; "
            f'then \\builtin shopt -s "${OURS}N"; else \\builtin shopt -u "${OURS}N"; fi; done',
            f"[[ ${_OPTIONS} == *:errexit:* ]] && \\builtin set -e",
            f"[[ ${_OPTIONS} == *:nounset:* ]] && \\builtin set -u",
            f"\\builtin unset -v {_OPTIONS} {_BUILTIN} {OURS}N {_LIST} {RARE} {' '.join(names)}",
            "\\builtin true\n",
        ]
        return "\n".join(lines)


BASH = Bash()
