"""What Kubernetes is asked for, and what its recorded answers mean."""

from __future__ import annotations

from typing import Any

import pytest

from outfitter.core.shape import Shape
from outfitter.errors import EngineFailed
from outfitter.pool.engine import EXECUTOR_ENDED, NODE_LOST, OUT_OF_MEMORY, Loss, Node, Order
from outfitter.pool.kubepods import PodNow, job, node, now, quantity, slot_of
from outfitter.pool.remote import NODE_COMMAND
from tests.support.kubecluster import recorded


def order(*avoid: str, **shape: Any) -> Order:
    return Order("s1", "pool1234", Shape(**{"image": "registry.example/o:1", **shape}), "0.1.0", avoid)


def test_what_a_job_asks_for() -> None:
    wanted = order("n7", cpus=1.5, memory=1 << 30, gpus=1, labels={"disk": "ssd"})
    found = job(wanted, {NODE_COMMAND: "/opt/o"})
    labels = {
        "app.kubernetes.io/managed-by": "outfitter",
        "outfitter-pool": "pool1234",
        "outfitter-slot": "outfitter-pool1234-s1",
    }
    assert found["metadata"] == {"name": "outfitter-pool1234-s1", "labels": labels}
    spec = found["spec"]
    assert (spec["backoffLimit"], spec["podReplacementPolicy"], spec["ttlSecondsAfterFinished"]) == (
        0,
        "Failed",
        60,
    )
    assert spec["template"]["metadata"]["labels"] == labels
    pod = spec["template"]["spec"]
    assert (pod["restartPolicy"], pod["automountServiceAccountToken"]) == ("Never", False)
    assert pod["nodeSelector"] == {"disk": "ssd"}
    (terms,) = pod["affinity"]["nodeAffinity"].values()
    assert terms == {
        "nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n7"]}]}
        ]
    }
    (container,) = pod["containers"]
    has = {"cpu": "1500m", "memory": "1073741824", "nvidia.com/gpu": "1"}
    assert container["resources"] == {"requests": has, "limits": has}
    assert container["command"] == ["/opt/o", "keep-slot", "pool1234", "", "", "1"]
    assert (container["stdin"], "stdinOnce" in container) == (True, False)


def test_a_pool_without_an_image_is_told_so() -> None:
    with pytest.raises(EngineFailed, match="give the pool an `image`"):
        job(order(image=""), {})


def pod(state: str) -> dict[str, Any]:
    meta = {"name": "p-1", "labels": {"outfitter-slot": "outfitter-pool1234-s1"}}
    return {"metadata": meta, "spec": {"nodeName": "node-a"}, "status": recorded("pods")[state]}


@pytest.mark.parametrize(
    ("state", "meaning"),
    [
        ("pending", PodNow("p-1", "node-a")),
        ("creating", PodNow("p-1", "node-a")),
        ("running", PodNow("p-1", "node-a", runs=True)),
        ("tainted", PodNow("p-1", "node-a", runs=True)),
        ("succeeded", PodNow("p-1", "node-a", gone=Loss(EXECUTOR_ENDED, "Completed"))),
        ("failed", PodNow("p-1", "node-a", gone=Loss(EXECUTOR_ENDED, "Error; exit status 137"))),
        ("out-of-memory", PodNow("p-1", "node-a", gone=Loss(OUT_OF_MEMORY, "OOMKilled; exit status 137"))),
        (
            "no-image",
            PodNow("p-1", "node-a", stuck='ImagePullBackOff: Back-off pulling image "registry.example/none"'),
        ),
    ],
)
def test_what_the_states_of_a_pod_mean(state: str, meaning: PodNow) -> None:
    assert now(pod(state)) == meaning
    assert slot_of(pod(state)) == "outfitter-pool1234-s1"


def test_a_pod_that_goes_with_its_node() -> None:
    evicted = now(pod("evicted")).gone
    assert evicted is not None and evicted.reason == NODE_LOST and "low on resource" in evicted.detail
    deleted = now(pod("tainted"), deleted=True).gone
    assert deleted is not None and deleted.reason == NODE_LOST and "NoExecute" in deleted.detail
    assert now({}, deleted=True) == PodNow("", gone=Loss(EXECUTOR_ENDED, "its pod is gone"))


def test_nodes_that_take_pods() -> None:
    found = [node(one) for one in recorded("nodes")["items"]]
    labels = {"kubernetes.io/arch": "amd64", "kubernetes.io/hostname": "node-a", "disk": "ssd"}
    assert found == [Node("node-a", 7.91, 32789620 << 10, 2.0, labels=labels), None, None, None]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("4", 4.0),
        ("3920m", 3.92),
        ("2Ki", 2048.0),
        ("129e6", 129e6),
        ("1.5Gi", 1.5 * 2**30),
        ("x", 0.0),
        ("", 0.0),
    ],
)
def test_numbers_as_kubernetes_writes_them(text: str, number: float) -> None:
    assert quantity(text) == pytest.approx(number)
