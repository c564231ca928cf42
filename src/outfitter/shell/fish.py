"""fish: --no-config keeps every file out. Its options are those of getopt_long."""

from __future__ import annotations

from .call import OURS, Family, ShellCall, Silence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TAKES = "cCpdfDo"
# A beginning that only one has is as good as the whole word.
_LONG_TAKES = (
    *("command", "debug", "debug-level", "debug-output", "debug-stack-frames", "features", "init-command"),
    *("profile", "profile-startup"),
)
_LONG = (
    *(*_LONG_TAKES, "help", "interactive", "login", "no-config", "no-execute", "print-debug-categories"),
    *("print-rusage-self", "private", "version"),
)


class Fish(Family):
    name = "fish"
    maintained = frozenset(("PWD", "OLDPWD", "SHLVL", "_", "umask", "status", "history", "version"))
    supplied = frozenset(("USER",))
    if_fifo = "builtin test -p {}; and command"
    enter = 'builtin test "$PWD" = {0}; or builtin cd -- {0}'

    def read(self, argv: Sequence[str], env: Mapping[str, str]) -> ShellCall:
        call = ShellCall(argv)
        at = 1
        while at < len(argv):
            word = argv[at]
            if word == "--":
                at += 1
                break
            if word[:1] != "-" or word == "-":
                break
            if word[:2] == "--":
                name, equals, _ = word[2:].partition("=")
                name = _whole(name)
                if name == "login":
                    call.asks_login(word, [(at, 0, len(word))])
                elif name == "interactive":
                    call.interactive = True
                elif name == "no-config":
                    call.quiet.add(name)
                at += 1 if equals or name not in _LONG_TAKES else 2
                if name == "command":
                    call.text = min(at, len(argv)) - 1
                continue
            at += 1
            for position in range(1, len(word)):
                letter = word[position]
                if letter == "l":
                    call.asks_login(word, [(at - 1, position, position + 1)])
                elif letter == "i":
                    call.interactive = True
                elif letter == "N":
                    call.quiet.add("no-config")
                if letter in _TAKES:
                    # The value is the rest of the word, or the next one.
                    at += position + 1 == len(word)
                    if letter == "c":
                        call.text = min(at, len(argv)) - 1
                    break
        if call.text < 0 and at < len(argv):
            call.operand = at
        return call

    def silence(self, call: ShellCall, env: Mapping[str, str], login: bool) -> Silence:
        # XDG_CONFIG_HOME and fish_function_path name places that --no-config does not look at.
        silence = Silence(login)
        silence.flags = [] if "no-config" in call.quiet else ["--no-config"]
        return silence

    def quote(self, text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def wrapped(self, call: ShellCall, names: Sequence[str]) -> tuple[list[str], str]:
        # fish has an option for what runs between the startup files and the command: the text stays as it is,
        # and so does the order of what other -C ask for.
        return ["-C", self.prefix(names)], ""

    def prefix(self, names: Sequence[str]) -> str:
        # `builtin`, `set` and `eval` are words of the language: nobody defines functions called so.
        text = "".join(f"${name}" for name in names)
        return f'begin; builtin eval "{text}"; end 2>/dev/null; builtin true'

    def into(self, fifo: str) -> str:
        return f">{fifo}"

    def restore(self, env: Mapping[str, str], cwd: str) -> tuple[str, str]:
        names = self.names(env)
        known = " ".join(self.known(names))
        # -g: to erase a universal variable would be to erase it for good, in all of the user's shells.
        lines = [
            *self.entered(cwd),
            f"for {OURS}N in (builtin set -nx)",
            f"builtin contains -- ${OURS}N {known}; or builtin set -eg ${OURS}N",
            "end",
        ]
        lines += [f"builtin set -gx {name} {self.quote(env[name])}" for name in names]
        return "\n".join(lines) + "\n", ""

    def finish(self, names: Sequence[str]) -> str:
        return f"builtin set -e {' '.join(names)} {OURS}N\n"


def _whole(name: str) -> str:
    if name in _LONG:
        return name
    begun = [long for long in _LONG if long.startswith(name)]
    return begun[0] if len(begun) == 1 else name


FISH = Fish()
