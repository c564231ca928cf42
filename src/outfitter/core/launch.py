"""Everything needed to start one program, with no look-ups left to do."""

from __future__ import annotations

from ..record import KW_ONLY, quick_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .permissions import Confinement


@quick_record
class Launch:
    """A program to start: `env` is exact and complete, `argv[0]` is what the program sees.

    `program` is what is looked for: in `env`'s PATH if it has no slash, else relative to `cwd`.
    `rows` and `cols` give it a terminal; without them it gets pipes, and a writable stdin if asked.
    `descriptors` are ours that it gets as 3, 4 and so on. `renamed`: its caller chose `argv[0]`. `masks` are
    files and folders that exist and are to look empty, for it and for all its descendants. `found` is the
    file that `program` means, if somebody has looked for it already.

    `sandboxed`: its caller asked for a sandbox, whatever that means here. `confinement` is what it may do, if
    it is confined; `matched` is what its globs match, if `host.sandbox` has looked for it already.
    Before it runs, `before` is called with the first process of its sandbox; the command
    waits until the second argument was called, and has the network that was made meanwhile.
    """

    program: str
    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    _: KW_ONLY
    pipe_stdin: bool = False
    rows: int = 0
    cols: int = 0
    descriptors: tuple[int, ...] = ()
    renamed: bool = False
    masks: tuple[str, ...] = ()
    found: str = ""
    sandboxed: bool = False
    confinement: Confinement | None = None
    matched: object = None
    before: Callable[[int, Callable[[], None]], None] | None = None

    @property
    def tty(self) -> bool:
        return self.rows > 0


# Where a program without a slash is looked for when the child has no PATH at all. No current directory.
DEFAULT_PATH = "/usr/local/bin:/bin:/usr/bin"

# Folders of PATH that are looked at: people have a few dozen. To look into so many takes 5 ms, twice if the
# program is in none of them.
MAX_FOLDERS = 2048


def candidates(program: str, env: Mapping[str, str]) -> list[str]:
    """The paths to try for a program without a slash, in order; relative ones mean the child's directory."""
    folders = env.get("PATH", DEFAULT_PATH).split(":")[:MAX_FOLDERS]
    return [f"{folder}/{program}" if folder else program for folder in folders]
