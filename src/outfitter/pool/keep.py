"""A keeper at the end of somebody's pipe: requests are JSON lines on its input, answers on its output.

    {"serve": CARD, "shape": SHAPE}     {"endpoint": ENDPOINT} or {"failed": TEXT, "retryable": BOOL}
    {"prepare": CARD, "shape": SHAPE}   the same, of the next server
    {"stop": {"keep": BOOL}}            {"stopped": STOPPED}, and the keeper ends

Each line has a "number", which its answer repeats. The first line that it says is {"outfitter": VERSION}. At
the end of its input it ends, with its server: that is how it notices that its pool is gone. Where the input
stays open, as in a pod, it ends when it has had no server for a while.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from .. import VERSION
from ..core.shape import Shape
from ..errors import EngineFailed
from .carried import heard, told
from .child import ready
from .engine import STARVED, Card
from .keeper import Keeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

ALONE_SECONDS = 120.0  # without a server and without a question: longer than a pool takes to ask again
_LINE_BYTES = 1 << 20  # of a question, which has a pool's variables in it
# What engines put into the environment of what they start: nothing of it is for commands.
_OF_ENGINES = ("SLURM", "SRUN", "SSH_", "SBATCH", "OUTFITTER_POD_", "KUBERNETES_SERVICE_", "KUBERNETES_PORT")
_MORE = ("TMPDIR", "PMI_FD", "PMI_RANK", "PMI_SIZE", "PMIX_RANK", "GPU_DEVICE_ORDINAL")
_PEER = "SLURM_SRUN_COMM_HOST"
_POD_ADDRESS, _POD_NODE = "OUTFITTER_POD_ADDRESS", "OUTFITTER_POD_NODE"  # see kubepods
_GPUS = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")


def without_engines(environ: Mapping[str, str], *, gpus: bool = False) -> dict[str, str]:
    """The node's own environment."""
    hidden = _MORE if gpus else (*_MORE, *_GPUS)
    return {
        name: value
        for name, value in environ.items()
        if not name.startswith(_OF_ENGINES) and name not in hidden
    }


def address_towards(peer: str) -> str:
    """Where a peer reaches this node: the address that leads to the peer. Raises EngineFailed."""
    import socket

    try:
        family, kind, _, _, there = socket.getaddrinfo(peer, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as asking:
            asking.connect(there)  # nothing is sent: the kernel chooses a way
            address = str(asking.getsockname()[0])
    except OSError as error:
        raise EngineFailed(f"no way leads from this node to {peer or 'the pool'}: {error}") from None
    return f"[{address}]" if ":" in address else address


def listening(environ: Mapping[str, str]) -> str:
    """Where servers of this node listen, if nobody says: at the pod's address, or at the one that leads to
    whoever has started the step of a job. Raises EngineFailed."""
    pod = environ.get(_POD_ADDRESS, "")
    if pod:
        return f"wss://{f'[{pod}]' if ':' in pod else pod}:0"
    address = address_towards(environ.get(_PEER, ""))
    return f"{'ws' if address.startswith('127.') else 'wss'}://{address}:0"


def main(args: list[str]) -> int:
    """`outfitter keep-slot POOL NODE LISTEN GPUS`; NODE and LISTEN may be empty."""
    pool_id, node, listen, gpus = args
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # nothing else may be said there
    keeper = None
    try:
        told = (os.environ.get(name, "") for name in (_POD_NODE, "SLURMD_NODENAME"))
        node = node or next(filter(None, told), os.uname().nodename)
        listen = listen or listening(os.environ)
        environ = without_engines(os.environ, gpus=gpus != "0")
        signal.signal(signal.SIGTERM, _end)
        chosen = _GPUS if {_PEER, _POD_NODE} & os.environ.keys() else ()  # ssh sets none
        keeper = Keeper(pool_id, node=node, listen=listen, environ=environ, of_engine=chosen, watches=True)
        keeper.starved = _starve
        _say(answers, {"outfitter": VERSION})
        for line in lines(0, lambda: keeper.pid == 0):
            asked = json.loads(line)
            _say(answers, {"number": asked.get("number"), **_answer(keeper, asked)})
            if "stop" in asked:
                return 0
    except EngineFailed as error:
        _say(answers, {"failed": str(error), "retryable": error.retryable})
    finally:
        if keeper is not None:
            keeper.stop()
    return 1


def _starve() -> None:
    """Its last words are how the pool hears of it; its slot is over in any case."""
    print(f"outfitter: {STARVED}", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)


def _end(number: int, frame: object) -> None:
    """In order, as at the end of the input. A second signal must not end the end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


def lines(fd: int, alone: Callable[[], bool], seconds: float = ALONE_SECONDS) -> Iterator[bytes]:
    """What is asked, until the end of the input, or until nobody has asked for so long while `alone`."""
    kept, waited, step = b"", 0.0, min(seconds, 10.0)
    while waited < seconds:
        if not ready(fd, step):
            waited = waited + step if alone() else 0.0
            continue
        waited = 0.0
        piece = os.read(fd, 1 << 16)
        *whole, kept = (kept + piece).split(b"\n")
        yield from whole
        if not piece or len(kept) > _LINE_BYTES:
            return


def _answer(keeper: Keeper, asked: Mapping[str, dict[str, object]]) -> dict[str, object]:
    if "stop" in asked:
        return {"stopped": told(keeper.stop(keep=bool(asked["stop"].get("keep"))))}
    begin, card = (keeper.prepare, asked["prepare"]) if "prepare" in asked else (keeper.serve, asked["serve"])
    try:
        endpoint = begin(heard(Card, card), heard(Shape, asked["shape"]))
    except EngineFailed as error:
        return {"failed": str(error), "retryable": error.retryable}
    return {"endpoint": told(endpoint)}


def _say(answers: object, what: dict[str, object]) -> None:
    print(json.dumps(what), file=answers, flush=True)  # type: ignore[call-overload]
