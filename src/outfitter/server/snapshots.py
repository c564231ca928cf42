"""The snapshot of a shell that a client asks for: taken once for its session, then part of its commands.

What startup files export is a layer below the policies, as the login shell's own snapshot is; so it undoes
nothing. Functions, aliases and options come with the command (`shell.state`). Nothing is written to a disk.
"""

from __future__ import annotations

from ..contract.contract import Questions, Ready
from ..contract.toolneeds import confining
from ..core.permissions import DENY, Confinement, bind
from ..core.protecting import keeping
from ..core.snapshots import ASKED_ID, SnapshotCache, Taken, start_of
from ..errors import FileInvalid, InvalidParams
from ..host import facts
from ..host.privatefifo import IN_SIGHT
from ..host.tools.within import Within
from ..protocol.sandbox import Disabled
from ..record import replace
from ..shell.state import SHELLS
from ..stdlib import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..contract.contract import Asked, Contract
    from ..contract.settings import Settings
    from ..protocol.process import StartParams
    from ..protocol.wishes import ContractParams, ShellSnapshotParams
    from .call import Call

_REPORTS = IN_SIGHT["TMPDIR"]
_HIDDEN = f"the command's sandbox hides {_REPORTS}, through which its shell would report: let it be read"
_LOGIN = "-lc"  # how the stock client starts a login shell; what is started otherwise has no snapshot


def for_start(call: Call, params: StartParams, asked: Asked) -> Asked | Questions:
    """A request with its snapshot, or what must be done to have one. Raises InvalidParams, FileInvalid."""
    wanted, argv = params.snapshot, params.argv
    assert wanted is not None
    if len(argv) < 3 or argv[:2] != [wanted.path, _LOGIN]:
        return asked
    return joined(call, wanted, asked, params.contract, params)


def joined(
    call: Call,
    wanted: ShellSnapshotParams,
    asked: Asked,
    said: ContractParams | None,
    params: StartParams | None = None,
) -> Asked | Questions:
    """What is asked, with a snapshot, or what must be done to have one. `params` say which sandbox it is for.

    Raises InvalidParams, FileInvalid.
    """
    if wanted.name not in SHELLS:
        raise InvalidParams(f"shell snapshots are unsupported for shell `{wanted.name}`")
    contract, session = call.services.environments.contract, call.session
    settings = _settings(contract, asked)
    if settings is None or not _may(settings, said):
        return asked
    lower = contract.lower(asked, session.base)
    if params is not None and settings.confines and not asked.exact:
        from .composing import composed

        params = composed(params, Ready(asked, lower, settings))
    start = start_of(lower.values, asked.env, asked.unset)
    confinement = None if params is None else _confinement(params, asked.cwd, start.get("TMPDIR"))
    if confinement is not None:
        confinement = keeping(confinement, settings.protects)
    own = contract.left if session.base is None and confinement is None and not asked.exact else None
    if own is not None and wanted.path == facts.login_shell():
        return replace(asked, snapshot=Taken(None, own))  # its variables are in layer 1 already
    key = _key(wanted, asked.cwd, confinement, start)
    known = session.snapshots = session.snapshots or SnapshotCache()
    now = call.services.loop.time
    taken = known.find(key, now())
    if taken is not None:
        # With "repair" a person wants functions, aliases and options of startup files, and no variables.
        alone = settings.startup == "repair" and not taken.failed
        return replace(asked, snapshot=Taken(None, taken.left) if alone else taken)
    within = Within(confining(confinement, contract.state_folder))
    hidden = confinement is not None and confinement.access(_REPORTS) == DENY

    def ask(mark: int | None) -> None:
        from ..contract.snapshot import take_asked

        shell, seconds = (wanted.name, wanted.path), settings.snapshot_timeout
        with within:
            found = take_asked(*shell, asked.cwd, start, seconds, mark, unable=_HIDDEN if hidden else "")
        known.arrive(key, Taken(*found), now())

    return Questions((ASKED_ID, session.id, key), f"the startup files of {wanted.path}", ask)


def _key(
    wanted: ShellSnapshotParams, cwd: str, confinement: Confinement | None, start: Mapping[str, str]
) -> str:
    """Stands for all that a snapshot depends on; what is in it does not show."""
    parts = (wanted.scope_id, wanted.name, wanted.path, cwd, confinement, sorted(start.items()))
    return sha256(repr(parts).encode("utf-8", "surrogateescape")).hexdigest()


def _settings(contract: Contract, asked: Asked) -> Settings | None:
    """For a client that says all about its environment the user's word counts; None if nobody can read it."""
    if not asked.exact:
        return contract.settings(asked.cwd)
    try:
        return contract.settings(None)
    except FileInvalid:
        return None


def _may(settings: Settings, said: ContractParams | None) -> bool:
    """Whether startup files may have a say. A person who keeps them out keeps them out of snapshots, too; and
    a request that says what becomes of them means those of its own shell."""
    if said is not None and (said.startup is not None or said.login is not None):
        return False
    if settings.login == "reject" or settings.descendants == "mask":
        return False
    return settings.startup != "enforce" or settings.sources["shell.startup"].kind == "default"


def _confinement(params: StartParams, cwd: str, tmpdir: str | None) -> Confinement | None:
    """What the command may do: its startup files may do no more. Raises InvalidParams."""
    context = params.sandbox
    isolated = params.network is not None and params.network.enforced
    if context is None or (isinstance(context.permissions, Disabled) and not isolated):
        return None
    bound = bind(context, cwd=cwd, tmpdir=tmpdir)
    network = bound.network and not isolated  # its proxy is not there yet
    return Confinement(False, network) if bound.writes_all else replace(bound, network=network)
