"""What the engine of Slurm asks for, and what it reads."""

from __future__ import annotations

import pytest

from outfitter.core.shape import Shape
from outfitter.errors import EngineFailed
from outfitter.pool.engine import Node, Order
from outfitter.pool.slurm import nodes, words


def order(**shape: object) -> Order:
    return Order("s1", "pool1234", Shape(**shape), "0.1.0", ("n7", "n8"))  # type: ignore[arg-type]


def test_what_a_job_asks_for() -> None:
    found = words(order(cpus=1.5, memory=(1 << 30) + 1, gpus=2, labels={"fast": "1", "big": "1"}), "long", {})
    assert found == [
        *("srun", "--quiet", "--job-name=outfitter-pool1234", "--ntasks=1", "--unbuffered", "--export=NONE"),
        *("--cpus-per-task=2", "--mem=1025M", "--gres=gpu:2", "--constraint=big&fast", "--exclude=n7,n8"),
        *("--partition=long", "/bin/sh", "-lc", 'exec "$@"', "sh"),
        *("outfitter", "keep-slot", "pool1234", "", "", "2"),
    ]


@pytest.mark.parametrize("wrong", [{"image": "debian"}, {"labels": {"zone": "a"}}])
def test_what_slurm_cannot_do_is_said(wrong: dict[str, object]) -> None:
    with pytest.raises(EngineFailed):
        words(order(**wrong), "", {})


def test_nodes_that_run_jobs_count_once() -> None:
    first = "n1|8|1000|gpu:tesla:2(S:0-1),gpu:1|fast,big|idle"
    table = f"{first}\nn1|8|1000|(null)|(null)|mix-\nn2|4|1|(null)||down*\n"
    assert nodes(first) == (Node("n1", 8.0, 1000 << 20, 3.0, labels={"fast": "1", "big": "1"}),)
    assert [node.name for node in nodes(table)] == ["n1"]
