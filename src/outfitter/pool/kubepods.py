"""What Kubernetes is asked for, and what its answers mean: jobs, pods and nodes as JSON. Pure.

A slot is a Job with one pod that nobody restarts. Names of fields are those of the API's reference (core/v1
and batch/v1).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..errors import EngineFailed
from ..record import record
from .engine import EXECUTOR_ENDED, NODE_LOST, OUT_OF_MEMORY, Loss, Node
from .remote import keep_command

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .engine import Order

    Json = Mapping[
        str, Any
    ]  # of an object of the API, whose fields we know and whose type nobody has checked

CONTAINER = "keeper"
POOL_LABEL, SLOT_LABEL = "outfitter-pool", "outfitter-slot"
# What the pod is told of itself; `pool.keep` reads and hides it.
POD_ADDRESS, POD_NODE = "OUTFITTER_POD_ADDRESS", "OUTFITTER_POD_NODE"
GPU = "nvidia.com/gpu"
GRACE_SECONDS = 15  # for a keeper to end its server, which may take 10 s
KEPT_SECONDS = 60  # that a job is there after its end, for people to look at
# A container that waits for one of these waits for somebody's help.
_STUCK: tuple[str, ...] = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName")
_STUCK += ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
# Why a pod was disrupted, where that says something of its node.
_OF_A_NODE = ("DeletionByTaintManager", "DeletionByPodGC", "TerminationByKubelet")
_POD_OF_A_NODE = ("NodeLost", "NodeShutdown", "Terminated", "Evicted", "NodeAffinity")
_UNITS = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_UNITS |= {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60}
_SAID = 500  # characters of what Kubernetes says


@record
class PodNow:
    """What is known of a slot's pod: it waits, it runs, it is stuck, or it is gone."""

    name: str
    node: str = ""
    runs: bool = False
    stuck: str = ""
    gone: Loss | None = None


def job_name(order: Order) -> str:
    return f"outfitter-{order.pool_id}-{order.slot_id}"


def job(order: Order, environ: Mapping[str, str]) -> dict[str, Any]:
    """The job of a slot. Raises EngineFailed."""
    shape, name = order.shape, job_name(order)
    if not shape.image:
        raise EngineFailed(
            "Kubernetes runs images: give the pool an `image` in which `outfitter` is installed"
        )
    has = {"cpu": f"{max(1, round(shape.cpus * 1000))}m"} if shape.cpus else {}
    has |= {"memory": str(shape.memory)} if shape.memory else {}
    has |= {GPU: str(math.ceil(shape.gpus))} if shape.gpus else {}
    labels = {"app.kubernetes.io/managed-by": "outfitter", POOL_LABEL: order.pool_id, SLOT_LABEL: name}
    container = {
        "name": CONTAINER,
        "image": shape.image,
        "command": keep_command(order, "", "", environ),
        "stdin": True,  # it stays open when whoever spoke to it goes: a pool comes back with each question
        "env": [_told(POD_ADDRESS, "status.podIP"), _told(POD_NODE, "spec.nodeName")],
        "resources": {"requests": has, "limits": has},
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,  # commands are nobody in the cluster
        "enableServiceLinks": False,
        "shareProcessNamespace": True,  # so that somebody waits for orphans: a keeper does not
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "nodeSelector": dict(shape.labels),
        "containers": [container],
    }
    if order.avoid:
        other = [{"key": "metadata.name", "operator": "NotIn", "values": list(order.avoid)}]
        required = {"nodeSelectorTerms": [{"matchFields": other}]}
        pod["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    spec = {
        "backoffLimit": 0,
        "podReplacementPolicy": "Failed",  # with no failure allowed: never
        "ttlSecondsAfterFinished": KEPT_SECONDS,
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }


def _told(name: str, field: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}}


def slot_of(pod: Json) -> str:
    """The name of the job whose pod it is."""
    return str(pod.get("metadata", {}).get("labels", {}).get(SLOT_LABEL, ""))


def now(pod: Json, *, deleted: bool = False) -> PodNow:
    """What a pod's status means for its slot."""
    status, name = pod.get("status", {}), str(pod.get("metadata", {}).get("name", ""))
    node = str(pod.get("spec", {}).get("nodeName", ""))
    state: Json = next(
        (one.get("state", {}) for one in status.get("containerStatuses", ()) if one.get("name") == CONTAINER),
        {},
    )
    ended = state.get("terminated")
    if deleted or ended is not None or status.get("phase") in ("Failed", "Succeeded"):
        return PodNow(name, node, gone=_loss(status, ended or {}))
    waiting = state.get("waiting", {})
    stuck = waiting.get("reason", "") in _STUCK
    return PodNow(name, node, runs="running" in state, stuck=_said(waiting) if stuck else "")


def _loss(status: Json, ended: Json) -> Loss:
    disrupted: Json = next(
        (one for one in status.get("conditions", ()) if one.get("type") == "DisruptionTarget"), {}
    )
    if ended.get("reason") == "OOMKilled":
        reason = OUT_OF_MEMORY
    elif disrupted.get("reason") in _OF_A_NODE or status.get("reason") in _POD_OF_A_NODE:
        reason = NODE_LOST
    else:
        reason = EXECUTOR_ENDED
    said = [text for text in (_said(disrupted), _said(status), _said(ended)) if text]
    if ended.get("exitCode"):
        said.append(f"exit status {ended['exitCode']}")
    return Loss(reason, "; ".join(said) or "its pod is gone")


def _said(told: Json) -> str:
    """A reason and a message, as Kubernetes has them in many places."""
    parts = (str(told.get(part, "")).strip() for part in ("reason", "message"))
    return ": ".join(part for part in parts if part)[:_SAID]


def node(found: Json) -> Node | None:
    """What a node has for pods; None for one that takes none."""
    spec, status = found.get("spec", {}), found.get("status", {})
    ready = any(
        one.get("type") == "Ready" and one.get("status") == "True" for one in status.get("conditions", ())
    )
    tainted = any(one.get("effect") in ("NoSchedule", "NoExecute") for one in spec.get("taints", ()))
    if not ready or tainted or spec.get("unschedulable"):
        return None
    has, meta = status.get("allocatable", {}), found.get("metadata", {})
    return Node(
        str(meta.get("name", "")),
        quantity(has.get("cpu", "0")),
        int(quantity(has.get("memory", "0"))),
        quantity(has.get(GPU, "0")),
        labels={str(key): str(value) for key, value in meta.get("labels", {}).items()},
    )


def quantity(text: str) -> float:
    """A number as Kubernetes writes it: 4, 3920m, 16374764Ki, 129e6; 0 for what is none."""
    digits = len(text)
    while digits and text[digits - 1].isalpha():
        digits -= 1
    try:
        return float(text[:digits]) * _UNITS.get(text[digits:], 0.0)
    except ValueError:
        return 0.0
