"""A keeper at the end of somebody's pipe: requests are JSON lines on its input, answers on its output.

    {"serve": CARD, "shape": SHAPE}     {"endpoint": ENDPOINT} or {"failed": TEXT, "retryable": BOOL}
    {"stop": {"keep": BOOL}}            {"stopped": STOPPED}, and the keeper ends

Each line has a "number", which its answer repeats. The first line that it says is {"outfitter": VERSION}. At
the end of its input it ends, with its server: that is how it notices that its pool is gone.
"""

from __future__ import annotations

import json
import os
import sys

from .. import VERSION
from ..core.shape import Shape
from ..errors import EngineFailed
from .carried import heard, told
from .engine import Card
from .keeper import Keeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# What engines put into the environment of what they start: nothing of it is for commands.
_OF_ENGINES = ("SLURM", "SRUN", "SSH_", "SBATCH")
_MORE = ("TMPDIR", "PMI_FD", "PMI_RANK", "PMI_SIZE", "PMIX_RANK", "GPU_DEVICE_ORDINAL")
_PEER = "SLURM_SRUN_COMM_HOST"
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


def main(args: list[str]) -> int:
    """`outfitter keep-slot POOL NODE LISTEN GPUS`; LISTEN is a URL, or empty for the address that leads to
    whoever has started the step of a job."""
    pool_id, node, listen, gpus = args
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # nothing else may be said there
    keeper = None
    try:
        node = node or os.environ.get("SLURMD_NODENAME", "") or os.uname().nodename
        if not listen:
            address = address_towards(os.environ.get(_PEER, ""))
            listen = f"{'ws' if address.startswith('127.') else 'wss'}://{address}:0"
        environ = without_engines(os.environ, gpus=gpus != "0")
        keeper = Keeper(pool_id, node=node, listen=listen, environ=environ, watches=True)
        _say(answers, {"outfitter": VERSION})
        for line in sys.stdin.buffer:
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


def _answer(keeper: Keeper, asked: Mapping[str, dict[str, object]]) -> dict[str, object]:
    if "stop" in asked:
        return {"stopped": told(keeper.stop(keep=bool(asked["stop"].get("keep"))))}
    try:
        endpoint = keeper.serve(heard(Card, asked["serve"]), heard(Shape, asked["shape"]))
    except EngineFailed as error:
        return {"failed": str(error), "retryable": error.retryable}
    return {"endpoint": told(endpoint)}


def _say(answers: object, what: dict[str, object]) -> None:
    print(json.dumps(what), file=answers, flush=True)  # type: ignore[call-overload]
