"""A command as it is really started, whatever stands in front of the shell that it is about.

A command line is taken apart from the outside in (`wrappers`), the shell at its end is started so that it
cannot undo the contract (`start`), and the words are put together again from the inside out. What cannot be
told, or not be helped, is flagged. Pure: who asks brings `look`, which knows the files of this machine.
"""

from __future__ import annotations

from ..errors import LoginRejected
from ..record import replace
from .look import SOURCED, Looked, mentions_shell, names_shell, starts_file
from .names import shell_called
from .start import ContractFlag, ShellPlan, family_of, prepare
from .texts import LONGEST, commands, quotable, quoted, simple_words
from .wrappers import Inner, Unreadable, is_wrapper, unwrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from .look import Look
    from .start import Probe
    from .wrappers import Account

    File = Callable[[str], Looked | None]

_DEEPEST = 16  # wrappers and scripts in front of each other; the kernel follows five scripts
_READS_ALWAYS = ("zsh", "fish", "tcsh", "csh")  # user's files, also without any flag
_BUSYBOX = {"sh": "dash", "ash": "dash", "hush": "dash"}


def arrange(
    program: str,
    argv: Sequence[str],
    *,
    login: str,
    startup: str,
    env: Mapping[str, str],
    cwd: str,
    probe: Probe | None = None,
    look: Look,
    account: Callable[[], Account],
) -> ShellPlan | None:
    """How to start a command so that a shell in it gets `env` and `cwd`; None where nothing is to be done.

    As `start.prepare`, for any command. Raises LoginRejected for a login shell that can be seen and is not
    allowed.
    """
    return _Chain(login, startup, probe, look, account).arrange(program, list(argv), env, cwd, True, 0)


def visible(
    text: str,
    env: Mapping[str, str],
    account: Callable[[], Account],
    file: File = lambda path: None,
    depth: int = 0,
) -> tuple[ContractFlag, ...]:
    """What a command text visibly starts that reads startup files, or leaves the contract otherwise. `file`
    tells what is at a path that it starts."""
    if not mentions_shell(text) and not starts_file(text):
        return ()
    if len(text) > LONGEST:
        return (
            ContractFlag("unseen", f"the command text is longer than {LONGEST // 1024} KiB and was not read"),
        )
    found: dict[ContractFlag, None] = {}
    for words in commands(text):
        for flag in _of_words(words, env, account, file, depth):
            found[flag] = None
    return tuple(found)


def _of_words(
    words: list[str], env: Mapping[str, str], account: Callable[[], Account], file: File, depth: int
) -> Iterator[ContractFlag]:
    """The flags of one command of a text."""
    words, named = _without_builtins(words)
    if not words or depth > _DEEPEST:
        return
    looked = file(words[0]) if "/" in words[0] else None
    if looked is not None and looked.interpreter:
        yield from _of_words([*looked.interpreter, *words], env, account, file, depth + 1)
        return
    name = words[0].rpartition("/")[2]
    if name in ("$SHELL", "${SHELL}"):
        name = env.get("SHELL", "").rpartition("/")[2]
    if name in (".", "source") and len(words) > 1:
        if words[1].rpartition("/")[2].removeprefix(".") in SOURCED:
            yield ContractFlag("startup-files", f"the command text sources {words[1]}")
        return
    if name == "eval":
        yield from visible(" ".join(words[1:]), env, account, file, depth + 1)
        return
    shell = shell_called(name) or ("" if looked is None else looked.shell)
    if shell:
        call = family_of(shell).read([named or words[0], *words[1:]], env)
        if call.login or named == "-":
            yield ContractFlag(
                "login-shell", f"the command text starts a login shell (`{name} {call.login or named}`)"
            )
        elif (call.interactive or shell in _READS_ALWAYS) and not call.quiet:
            yield ContractFlag(
                "startup-files", f"the command text starts {name}, which reads its startup files"
            )
        if call.text > 0:
            yield from visible(words[call.text], env, account, file, depth + 1)
        return
    if not is_wrapper(name):
        return
    try:
        inner = unwrap(name, words, env, "", account)
    except Unreadable as error:
        yield ContractFlag(error.code, error.what)
        return
    yield from (ContractFlag(*flag) for flag in inner.flags)
    if inner.login:
        yield ContractFlag("login-shell", f"the command text starts a login shell (`{' '.join(words[:2])}`)")
    if inner.text >= 0:
        text = inner.argv[inner.text][inner.text_from :]
        yield from visible(text, inner.env, account, file, depth + 1)
    yield from _of_words(list(inner.argv[inner.at :]), inner.env, account, file, depth + 1)


def _without_builtins(words: list[str]) -> tuple[list[str], str]:
    """A command without the shell's own words in front of it, and the argv[0] that they give it."""
    named = ""
    while words:
        if words[0] in ("builtin", "command", "exec", "time", "nohup", "noglob", "coproc"):
            word, words = words[0], words[1:]
            while words and words[0][:1] == "-" and len(words[0]) > 1:
                flag, words = words[0], words[1:]
                if word == "exec" and "l" in flag[1:]:
                    named = "-"
                if word == "exec" and flag[-1:] == "a" and words:
                    named, words = words[0], words[1:]
        else:
            break
    return words, named


class _Chain:
    """One command, from its first word to the shell at its end."""

    def __init__(
        self,
        login: str,
        startup: str,
        probe: Probe | None,
        look: Look,
        account: Callable[[], Account],
    ) -> None:
        self._login = login
        self._startup = startup
        self._probe = probe
        self._look = look
        self._account = account

    def arrange(
        self,
        program: str,
        argv: list[str],
        env: Mapping[str, str],
        cwd: str,
        exact: bool,
        depth: int,
        *,
        applet: bool = False,
    ) -> ShellPlan | None:
        """`exact`: the program gets the environment that was resolved, so what it was can be put right."""
        if depth > _DEEPEST:
            return _flagged(argv, [ContractFlag("unseen", "too many programs are in front of the command")])
        name = program.rpartition("/")[2]
        # Most commands are shells by their names, and need no look.
        looked = None if applet or shell_called(name) else self._look(program, env, cwd)
        if looked is not None and looked.interpreter:
            return self._script(looked, argv, env, cwd, exact, depth)
        shell = (_BUSYBOX.get(name, "") if applet else "") or shell_called(name)
        if not shell and looked is not None:
            shell = looked.shell or shell_called(looked.name)
        if shell:
            return self._shell(program, argv, env, cwd, exact, shell)
        if not is_wrapper(name) and looked is not None:
            name = looked.name
        if is_wrapper(name):
            return self._wrapper(name, argv, env, cwd, exact, depth)
        return _flagged(argv, _suspected(name, argv, env)) if names_shell(argv) else None

    def _shell(
        self, program: str, argv: list[str], env: Mapping[str, str], cwd: str, exact: bool, shell: str
    ) -> ShellPlan | None:
        startup = self._startup
        notes: tuple[str, ...] = ()
        if startup != "enforce" and not exact:
            notes = (
                f"a program in front of {shell} changes its environment: its startup files are kept out "
                f"instead ({startup} is not possible)",
            )
            startup = "enforce"
        plan = prepare(
            program,
            argv,
            login=self._login,
            startup=startup,
            env=env,
            cwd=cwd,
            probe=self._probe if startup != "enforce" else None,
            shell=shell,
        )
        assert plan is not None
        if notes:
            plan = replace(plan, notes=(*notes, *plan.notes))
        return self._with_text(plan, argv, env, cwd)

    def _with_text(self, plan: ShellPlan, argv: list[str], env: Mapping[str, str], cwd: str) -> ShellPlan:
        """The flags of a command text."""
        text = text_of(plan.shell, argv, env)
        flags = self._visible(text, env, cwd) if text else ()
        self._check(plan.shell, flags)
        return replace(plan, flags=(*plan.flags, *flags)) if flags else plan

    def _visible(self, text: str, env: Mapping[str, str], cwd: str) -> tuple[ContractFlag, ...]:
        return visible(text, env, self._account, lambda path: self._look(path, env, cwd))

    def _check(self, shell: str, flags: Sequence[ContractFlag]) -> None:
        """A login shell that can be seen is one that can be refused."""
        if self._login == "reject":
            for flag in flags:
                if flag.code == "login-shell":
                    raise LoginRejected(shell, flag.what, in_text=True)

    def _script(
        self, looked: Looked, argv: list[str], env: Mapping[str, str], cwd: str, exact: bool, depth: int
    ) -> ShellPlan | None:
        """A script is started as the kernel would start it, so that its shell can be given flags."""
        words = [*looked.interpreter, looked.path, *argv[1:]]
        plan = self.arrange(words[0], words, env, cwd, exact, depth + 1)
        if plan is None:
            return None
        if plan.argv == words and not plan.program:
            return replace(plan, argv=argv, changed=False)
        return replace(plan, program=plan.program or words[0], changed=True)

    def _wrapper(
        self, name: str, argv: list[str], env: Mapping[str, str], cwd: str, exact: bool, depth: int
    ) -> ShellPlan | None:
        try:
            inner = unwrap(name, argv, env, cwd, self._account)
        except Unreadable as error:
            what = (
                f"{error.what}: what it starts is as the command says"
                if error.code != "other-user"
                else (f"{error.what}: the contract ends there")
            )
            return _flagged(argv, [ContractFlag(error.code, what)])
        words = list(inner.argv)
        flags = [ContractFlag(*flag) for flag in inner.flags]
        if inner.shell:
            return self._starts_shell(name, inner, words, argv, flags, depth)
        if inner.at >= len(words):
            return _flagged(argv, flags)
        command = words[inner.at :]
        program = command[0]
        if inner.argv0 >= 0:
            command[0] = words[inner.argv0][inner.argv0_from :]
        plan = self.arrange(
            program, command, inner.env, inner.cwd, exact and inner.keeps, depth + 1, applet=inner.applet
        )
        if plan is None:
            return _flagged(argv, flags)
        changed = plan.argv != command or bool(plan.program)
        withheld = [inner.sets[one] for one in plan.withheld if one in inner.sets]
        # What the wrapper takes away or changes, it has to be told; all else is in what it is given.
        added = plan.added if inner.assigns and not inner.keeps else ()
        if changed or withheld or added:
            behind = list(plan.argv)
            if inner.argv0 >= 0 and not plan.program:
                words[inner.argv0] = words[inner.argv0][: inner.argv0_from] + behind[0]
                behind[0] = program
            elif plan.program:
                behind[0] = plan.program
            front = [word for at, word in enumerate(words[: inner.at]) if at not in withheld]
            result = [*front, *(f"{one}={value}" for one, value in added), *behind]
        else:
            result = argv
        return replace(
            plan,
            argv=result,
            program="",
            added=() if added else plan.added,
            changed=result != argv,
            through=(name, *plan.through),
            flags=(*flags, *plan.flags),
        )

    def _starts_shell(
        self,
        name: str,
        inner: Inner,
        words: list[str],
        argv: list[str],
        flags: list[ContractFlag],
        depth: int,
    ) -> ShellPlan | None:
        """A program that starts a shell of its own choice: with a text, or for somebody who types."""
        program = inner.shell
        shell = shell_called(program.rpartition("/")[2])
        withheld = tuple([one for one in ("BASH_ENV",) if one in inner.env])
        login_asked = inner.login != ""
        login = False
        if login_asked:
            if self._login == "reject":
                raise LoginRejected(shell or program, f"{name} {inner.login}")
            if self._login == "strip" and inner.login_words:
                words = [word for at, word in enumerate(words) if at not in inner.login_words]
                cut = len([at for at in inner.login_words if at < inner.text])
                inner = replace(inner, text=inner.text - cut if inner.text >= 0 else -1)
            else:
                login = True
                flags.append(
                    ContractFlag("login-shell", f"{name} {inner.login} starts a login shell of {program}")
                )
        if inner.text >= 0:
            self._text(name, inner, words, flags, depth)
        plan = (
            self.arrange(program, [program, *inner.shell_args], inner.env, inner.cwd, False, depth + 1)
            if (inner.insert >= 0)
            else None
        )
        if plan is not None and plan.shell and plan.changed and quotable(plan.argv):
            # It takes a command in the place of its own: that is the same shell, with our flags.
            words[inner.insert : inner.insert] = ["-c", f"exec {quoted(list(plan.argv))}"]
            withheld = tuple(dict.fromkeys((*withheld, *plan.withheld)))
        elif inner.insert < 0 and not login and (shell in _READS_ALWAYS or inner.text < 0):
            # It cannot be given flags.
            flags.append(
                ContractFlag("startup-files", f"{name} starts {program}, which may read its startup files")
            )
        return ShellPlan(
            words,
            shell,
            startup="enforce",
            login_asked=login_asked,
            login=login,
            interactive=inner.text < 0,
            withheld=withheld,
            added=plan.added if plan is not None else (),
            changed=words != argv,
            through=(name,),
            flags=tuple(flags),
        )

    def _text(self, name: str, inner: Inner, words: list[str], flags: list[ContractFlag], depth: int) -> None:
        """A text that is one plain command is taken for that command; any other is only read."""
        head, text = words[inner.text][: inner.text_from], words[inner.text][inner.text_from :]
        command = simple_words(text)
        if command is not None:
            plan = self.arrange(command[0], command, inner.env, inner.cwd, False, depth + 1)
            if plan is None:
                return
            flags += plan.flags
            # What the shell is to find in its environment, env says: between us and it is another shell.
            env = [word for one in plan.withheld if one in inner.env for word in ("-u", one)]
            env += [f"{one}={value}" for one, value in plan.added]
            behind = [plan.program or plan.argv[0], *plan.argv[1:]]
            behind = ["/usr/bin/env", *env, *behind] if env else behind
            if behind == command:
                return
            if quotable(behind):
                words[inner.text] = head + quoted(behind)
                return
            flags.append(
                ContractFlag("startup-files", f"{name}: the shell in its command may read startup files")
            )
            return
        found = self._visible(text, inner.env, inner.cwd)
        self._check(name, found)
        flags += found


def _suspected(name: str, argv: list[str], env: Mapping[str, str]) -> list[ContractFlag]:
    """A login shell behind a program that is not in the table, as far as words tell: with a text or a script.

    It may be something else, such as words to look for; so it is flagged and never refused.
    """
    for at in range(1, len(argv)):
        shell = shell_called(argv[at].rpartition("/")[2])
        if shell:
            call = family_of(shell).read(argv[at:], env)
            if call.login and call.text >= 0:
                what = f"{name} seems to start a login shell (`{argv[at]} {call.login}`)"
                return [ContractFlag("unseen", what)]
    return []


def text_of(shell: str, argv: Sequence[str], env: Mapping[str, str]) -> str:
    """The command text of a shell's command line; "" if there is none."""
    if len(argv) == 3 and argv[1] in ("-c", "-lc"):
        return argv[2]
    call = family_of(shell).read(list(argv) or [shell], env)
    return argv[call.text] if call.text > 0 else ""


def _flagged(argv: list[str], flags: list[ContractFlag]) -> ShellPlan | None:
    """No shell, but something to be said; None without."""
    return ShellPlan(argv, "", startup="enforce", flags=tuple(flags)) if flags else None
