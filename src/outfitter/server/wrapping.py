"""Commands in a sandbox behind a provider's tool that makes their environment (the mode `wrap`).

In a sandbox nobody can make a mount namespace, so the tool's files cannot be frozen there. The tool runs
first, in a sandbox of its own with the same rules, inside a namespace where its files are frozen. The command
then starts in its sandbox with the environment that the tool has left.
"""

from __future__ import annotations

import os

from ..contract.contract import Questions
from ..core.making import Made
from ..errors import LaunchFailed
from ..record import replace
from .call import LATER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..contract.contract import Ready
    from ..core.launch import Launch
    from ..core.permissions import Confinement
    from ..env.behind import Behind
    from ..protocol.process import StartParams
    from .call import Call, Handler, Later

_SECONDS = 300.0  # nix may have something to build; others take a second
_REPORT = 3  # the number of a child's first descriptor
_FAILED = 126  # as for a program that cannot be executed


def made_first(
    call: Call, params: StartParams, ready: Ready, launch: Launch, holds: Behind, begin: Handler
) -> Later:
    """Has the tool run in a thread, confined as `launch` is; then `begin` gets what it made."""
    confinement = launch.confinement
    assert confinement is not None
    if params.network is not None and params.network.enforced:
        confinement = replace(confinement, network=False)  # its proxy is the command's alone
    services, made = call.services, []
    own = services.own_files

    def ask(mark: int | None) -> None:
        made.append(_made(ready, launch.cwd, launch.env, holds, confinement, own, mark))

    tell = params.process_id if params.contract is not None else None
    questions = Questions(object(), "the tool that makes its environment", ask)
    services.asking.first(call, questions, lambda: call.run(begin, made[0]), params.process_id, tell=tell)
    return LATER


def _made(
    ready: Ready,
    cwd: str,
    given: Mapping[str, str],
    holds: Behind,
    confinement: Confinement,
    own: tuple[str, ...],
    mark: int | None,
) -> Made:
    """What the tools leave for a command. Raises LaunchFailed."""
    from ..env.report import LARGEST, decode
    from ..host.memoryfiles import memory_file
    from ..host.sandbox.tools import confining
    from ..host.tools.ahead import NotAsChecked, checked
    from ..host.tools.behind import REPORT, program_words
    from ..host.tools.frozen import FrozenFiles
    from ..host.tools.tool import run_tool
    from ..host.tools.within import Within

    limit = None if ready.settings is None else ready.settings.provider_timeout
    digests = [pair for one in holds.frozen for pair in zip(one[1::2], one[2::2], strict=True)]
    try:
        files = {path: checked(path, digest) for path, digest in digests}
    except NotAsChecked as error:
        raise LaunchFailed(str(error), what=f"{error}. Nothing was run: try again") from None
    argv = [*ready.prefix, *program_words(), REPORT, str(_REPORT), *holds.words, "true"]
    report = memory_file("report")
    try:
        frozen = FrozenFiles(holds.frozen[0][0], files, required=True)
        with Within(confining(confinement, own[0], own[1:]), frozen):
            ran = run_tool(
                argv, cwd, holds.given(given), timeout=limit or _SECONDS, mark=mark, descriptors=(report,)
            )
        said = os.pread(report, LARGEST + 1, 0)
    finally:
        os.close(report)
    if ran.outcome == "not-started":
        raise LaunchFailed(ran.failure, what=f"{argv[0]} was not started: {ran.failure}")
    try:
        if said:
            env, _, folder, mask = decode(said)
            return Made(given, env, folder, mask if mask != _umask() else None)
        why = "" if ran.outcome == "exited" else f"outfitter: {argv[0]} did not finish ({ran.outcome})\n"
    except ValueError as error:
        why = f"outfitter: what {argv[0]} has left cannot be read: {error}\n"
    code = _FAILED if ran.code is None or ran.outcome != "exited" else ran.code
    return Made(given, failure=ran.stderr.decode(errors="replace") + why, code=code % 256 or _FAILED)


def _umask() -> int:
    """Ours; to ask the other way would change it for all threads."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        return next((int(line.split()[1], 8) for line in file if line.startswith("Umask:")), 0o022)
