"""What an agent CLI is to Outfitter: how it is called, and what must never reach it.

A backend says nothing about contracts and makes no command by itself; `agents.spec` does. Another one is a
file like those beside this, and is registered by the entry point group `outfitter.agents`.
"""

from __future__ import annotations

from ...errors import SettingInvalid
from ...record import KW_ONLY, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

READ_ONLY, WORKSPACE_WRITE, FULL_ACCESS = "read-only", "workspace-write", "danger-full-access"
SANDBOXES = (READ_ONLY, WORKSPACE_WRITE, FULL_ACCESS)


@record
class Task:
    """What an agent is to do, in words that every backend understands.

    `cwd` is where it works, `add_dirs` where else it may. `sandbox` is one of SANDBOXES. `session` is the id
    of a stored session for a resume, and "" means the last one. `home` is the agent's own folder of
    configuration and sessions. `args` are handed to the agent as they are.
    """

    prompt: str
    _: KW_ONLY
    cwd: str
    model: str | None = None
    add_dirs: tuple[str, ...] = ()
    sandbox: str = WORKSPACE_WRITE
    session: str = ""
    home: str | None = None
    args: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.sandbox not in SANDBOXES:
            raise SettingInvalid(f"sandbox `{self.sandbox}` is none of {', '.join(SANDBOXES)}")


class Backend:
    """One agent CLI. `denied` are names, or prefixes with `*`, that it never inherits from its caller."""

    name = ""
    program = ""
    denied: tuple[str, ...] = ()
    home_variable = ""

    # Every backend answers

    def argv(self, kind: str, task: Task) -> list[str]:
        """The command line, its program first."""
        raise NotImplementedError

    def guards(self, argv: Sequence[str]) -> tuple[str, ...]:
        """What a command line says about sandbox and approvals, in one form: a resume must say the same."""
        raise NotImplementedError

    # Most need no answer of their own

    def why_not(self, kind: str) -> str | None:
        """Why this agent cannot be launched so; None where it can."""
        return None

    def env(self, task: Task) -> dict[str, str]:
        """Variables of its own that the task needs."""
        return {self.home_variable: task.home} if task.home and self.home_variable else {}

    def session(self, event: Mapping[str, object]) -> str | None:
        """The id of the session, where an event of its output (a line of JSON) says it."""
        return None

    def plugins(self) -> list[str]:
        """The names of plugins that it has installed."""
        return []

    def skill_mistakes(self, text: str) -> list[str]:
        """What is wrong with the text of a skill, for this agent."""
        return []


def options(argv: Sequence[str], *names: str, many: bool = False) -> list[str]:
    """Every value of an option in a command line: the word behind it, what is behind `=`, or the rest of a
    word that begins with its letter. An option that is there twice may mean its last value, or both. One that
    takes `many` values has all words up to the next option."""
    found = []
    words = before_prompt(argv)
    for place, word in enumerate(words):
        if word in names:
            found += _values(words[place + 1 :]) if many else ["".join(words[place + 1 : place + 2])]
        for name in names:
            if name.startswith("--") and word.startswith(f"{name}="):
                found.append(word[len(name) + 1 :])
                found += _values(words[place + 1 :]) if many else []
            elif not name.startswith("--") and word.startswith(name) and word != name:
                found.append(word[len(name) :].removeprefix("="))
    return found


def _values(words: Sequence[str]) -> list[str]:
    """The words before the next option."""
    ends = [place for place, word in enumerate(words) if word.startswith("-")]
    return list(words[: ends[0]] if ends else words)


def before_prompt(argv: Sequence[str]) -> Sequence[str]:
    """The words up to `--`, which are no prompt."""
    return argv[: argv.index("--")] if "--" in argv else argv


def text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None
