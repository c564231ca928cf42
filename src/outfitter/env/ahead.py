"""The words of the program in front of a provider's tool (`host.tools.ahead`): what is to be unchanged."""

from __future__ import annotations

from ..record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# In place of a digest: a file that is not there, or a folder with nothing in it but the other files.
ABSENT = "-"
_END = "--"


@record
class Ahead:
    """`files` below `top` with their digests, the words of the `tool`, and `rest`: those of the program
    behind it and of the command."""

    top: str
    files: Mapping[str, str]
    tool: Sequence[str]
    rest: Sequence[str]


def words(frozen: Iterable[Sequence[str]], tool: Sequence[str]) -> list[str]:
    """For the files of several layers, each as the folder at the top, then path and digest in turn."""
    frozen = list(frozen)
    pairs = [word for one in frozen for word in one[1:]]
    return [frozen[0][0], *pairs, _END, str(len(tool)), *tool]


def told(given: Sequence[str]) -> Ahead:
    """What the words mean, and those behind them."""
    end = given.index(_END)
    top, pairs = given[0], given[1:end]
    tool = end + 2
    rest = tool + int(given[end + 1])
    return Ahead(top, dict(zip(pairs[::2], pairs[1::2], strict=True)), given[tool:rest], given[rest:])
