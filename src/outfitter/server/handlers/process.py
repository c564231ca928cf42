"""process/*: the requests of a session's processes."""

from __future__ import annotations

from ...contract.contract import Asked, Ready
from ...protocol.process import UNKNOWN_PROCESS, TerminateResult, WriteParams
from ...protocol.results import DONE
from ...refusals import Refused
from .. import starting
from ..call import LATER
from ..limits import LONGEST_GRACE_SECONDS

_DECODING = "decoding"  # the reason not to read on, while a long write is being decoded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...contract.contract import Questions
    from ...protocol.process import (
        HoldParams,
        ReadParams,
        ReadResult,
        ResizeParams,
        SignalParams,
        StartParams,
        StartResult,
        TerminateParams,
        WriteResult,
    )
    from ...protocol.results import Done
    from ..call import Call, Later


def start(call: Call, params: StartParams) -> StartResult | Later:
    services = call.services
    asked = starting.asked(call, params)
    ready: Questions | Ready
    if params.snapshot is None:
        ready = services.environments.contract.next(asked, call.session.base)
    else:
        ready = _snapshot_first(call, params, asked)
    if isinstance(ready, Ready):
        return starting.start(call, params, ready)
    tell = params.process_id if params.contract is not None else None
    services.asking.first(call, ready, lambda: call.run(start, params), params.process_id, tell=tell)
    return LATER


def _snapshot_first(call: Call, params: StartParams, asked: Asked) -> Questions | Ready:
    """As the contract's `next`, for a command whose shell begins with a snapshot."""
    from ..snapshots import for_start

    found = for_start(call, params, asked)
    if not isinstance(found, Asked):
        return found
    return call.services.environments.contract.next(found, call.session.base)


def read(call: Call, params: ReadParams) -> ReadResult | Later:
    session = call.session
    return session.read(session.get(params.process_id), call, params) or LATER


def write(call: Call, params: WriteParams) -> WriteResult | Later:
    if type(params.chunk) is not bytes:
        return _decoded_first(call, params)
    session = call.session
    process = session.processes.get(params.process_id)
    if process is None:
        return UNKNOWN_PROCESS
    result = session.write(process, call, params)
    call.services.pace.wrote()
    return result or LATER


def _decoded_first(call: Call, params: WriteParams) -> Later:
    """Decodes a very long write in a thread. What comes for the process meanwhile waits behind it, and the
    connection is not read on: it brings one of these at a time."""
    process_id, starting, channel = params.process_id, call.session.starting, call.channel
    call.later()
    held: list[Callable[[], None]] = []
    starting[process_id] = held
    channel.hold(_DECODING, True)

    def done(data: bytes, failure: BaseException | None) -> None:
        del starting[process_id]
        if call.open:
            channel.hold(_DECODING, False)
            if failure is not None:
                call.refuse(failure)
            else:
                call.run(write, WriteParams(process_id, data, params.write_id, params.eof))
        for place, one in enumerate(held):
            if process_id in starting:
                starting[process_id] += held[place:]  # behind another of these
                return
            one()

    call.services.workers.run(lambda: params.data, done)
    return LATER


def signal(call: Call, params: SignalParams) -> Done:
    process = call.session.processes.get(params.process_id)
    if process is None:
        return DONE
    if params.signal == "interrupt":
        process.interrupt()
    else:
        import signal as numbers  # only for who sends another one

        process.signal(numbers.Signals[f"SIG{params.signal}"])
    return DONE


def terminate(call: Call, params: TerminateParams) -> TerminateResult:
    process = call.session.processes.get(params.process_id)
    grace = min(params.grace_ms / 1000, LONGEST_GRACE_SECONDS)
    return TerminateResult(process is not None and process.terminate(grace))


def resize(call: Call, params: ResizeParams) -> Done:
    process = call.session.get(params.process_id)
    if not process.resize(params.size.rows, params.size.cols):
        raise Refused(f"process {params.process_id} has no open terminal")
    return DONE


def hold(call: Call, params: HoldParams) -> Done:
    session = call.session
    session.hold(session.get(params.process_id), params.held)
    return DONE
