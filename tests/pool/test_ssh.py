"""Hosts of the engine ssh: how they are written, and which of them gets the next slot."""

from __future__ import annotations

import pytest

from outfitter.core.shape import Shape
from outfitter.errors import EngineFailed, SettingInvalid
from outfitter.pool.engine import Order
from outfitter.pool.ssh import SSH_COMMAND, SshEngine, SshSlot, hosts

ORDER = Order("s1", "pool1234", Shape(), "0.1.0")


def test_hosts_and_their_slots() -> None:
    assert hosts("build1=4, user@build2=8,build3") == {"build1": 4, "user@build2": 8, "build3": 1}


@pytest.mark.parametrize("text", ["", "a,,b", "-oProxyCommand=x", "a=0", "a=many", "a=2000", "=3"])
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(SettingInvalid, match="is no host"):
        hosts(text)


def test_the_host_with_most_room_is_next() -> None:
    engine = SshEngine({"a": 1, "b": 2})
    taken = []
    for _ in range(3):
        taken.append(engine._place(()))
        engine._slots.add(SshSlot(engine, taken[-1], "/tmp/x", ORDER))
    assert sorted(taken) == ["a", "b", "b"] and taken[0] == "b"
    with pytest.raises(EngineFailed, match="all 3 slots of a, b are in use"):
        engine._place(())


def test_a_suspect_host_is_avoided_while_there_is_another() -> None:
    assert SshEngine({"a": 1, "b": 9})._place(("b",)) == "a"
    assert SshEngine({"b": 9})._place(("b",)) == "b"


def test_what_ssh_is_told() -> None:
    command = SshEngine({"a": 1}, {SSH_COMMAND: "ssh -F none"}).command("a", "/tmp/c", ORDER)
    assert command[:3] == ["ssh", "-F", "none"] and "BatchMode=yes" in command
    assert command[-6:] == ["-M", "-S", "/tmp/c", "--", "a", "exec outfitter keep-slot pool1234 a unix: 0"]
