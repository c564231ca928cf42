"""Commands whose environment a provider's tool has made before they start, and not in front of each."""

from __future__ import annotations

from ..record import EMPTY, KW_ONLY, record, replace
from .starting import check_name, refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .launch import Launch
    from .starting import Note, Step

_WITH_UMASK = ("/bin/sh", "-c", 'umask "$1"; shift; exec "$@"', "sh")


@record
class Made:
    """What a tool has made of the environment that it was `given`. `umask` is None if it has left that alone.
    With a `failure` it has made nothing, and has ended with `code`."""

    given: Mapping[str, str]
    env: Mapping[str, str] = EMPTY
    cwd: str = ""
    umask: int | None = None
    _: KW_ONLY
    failure: str = ""
    code: int = 0
    hidden = ("given", "env")


def made(by: Made) -> Step:
    """A tool has made the environment of the command before. What was withheld or added meanwhile holds all
    the same. Raises InvalidParams."""

    def step(launch: Launch) -> tuple[Launch, Note | None]:
        check_name(launch)
        if by.code:
            return refused(launch, by.failure, by.code), None
        kept = {name: value for name, value in launch.env.items() if by.given.get(name) != value}
        withheld = [name for name in by.given if name not in launch.env]
        env = {name: value for name, value in {**by.env, **kept}.items() if name not in withheld}
        launch = replace(launch, env=env, cwd=by.cwd, found="")
        if by.umask is not None:
            argv = [*_WITH_UMASK, f"{by.umask:o}", launch.program, *launch.argv[1:]]
            launch = replace(launch, program=argv[0], argv=argv)
        return launch, None

    return step
