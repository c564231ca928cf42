"""tcsh and csh: -f keeps the user's files out. They cannot put right what a startup file has done."""

from __future__ import annotations

from .call import Family, ShellCall, Silence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Csh(Family):
    maintained = frozenset(
        (
            *("PWD", "OLDPWD", "SHLVL", "_"),
            *("GROUP", "HOST", "HOSTTYPE", "MACHTYPE", "OSTYPE", "VENDOR", "NLSPATH"),
        )
    )
    supplied = frozenset(("HOME", "LOGNAME", "USER"))
    # No functions, no way to ask for the names, and quotes that some texts do not survive.
    repairs = False

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, argv: Sequence[str], env: Mapping[str, str]) -> ShellCall:
        call = ShellCall(argv)
        at = 1
        batch = False
        while at < len(argv) and argv[at][:1] == "-" and len(argv[at]) > 1 and not batch:
            word = argv[at]
            following = at + 1
            if word[:2] == "--":
                if word == "--login":
                    call.asks_login(word, [(at, 0, len(word))])
                at = following
                continue
            for position in range(1, len(word)):
                letter = word[position]
                if letter == "c" and following < len(argv):
                    # Not the first operand: the next word, whatever it is.
                    call.text = following
                    following += 1
                elif letter == "f":
                    call.quiet.add("-f")
                elif letter == "i":
                    call.interactive = True
                elif letter == "b":
                    batch = True
                elif letter == "l":
                    call.asks_login(word, [(at, position, position + 1)])
            at = following
        if call.text < 0 and at < len(argv):
            call.operand = at
        return call

    def silence(self, call: ShellCall, env: Mapping[str, str], login: bool) -> Silence:
        # -l must be the only word. A dash before argv[0] goes together with -f.
        silence = Silence(login and call.login_cuts == [(0, 0, 1)])
        if login and not silence.login:
            silence.notes.append(
                f"{self.name} is not started as a login shell: -l cannot be combined with other flags"
            )
        silence.flags = [] if "-f" in call.quiet else ["-f"]
        return silence


TCSH = Csh("tcsh")
CSH = Csh("csh")
