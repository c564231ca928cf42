"""outfitter pool status, drain and stop: the pools of this user that run on this machine."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from ...errors import EngineFailed
from ...pool import control
from ..console import say
from ..table import ago, table

Record = dict[str, Any]


def status(name: str | None, flags: dict[str, Any]) -> int:
    """Raises SettingInvalid, EngineFailed."""
    if name is None:
        found = list(_answers(control.known(os.environ)))
    else:
        record = control.named(os.environ, name)
        found = [(record, control.ask(record, control.STATUS))]
    if flags["json"]:
        print(json.dumps([answer for _, answer in found]))
        return 0
    rows = []
    for record, answer in found:
        slots = ", ".join(f"{count} {state}" for state, count in sorted(answer["slots"].items()))
        lost = sum(answer["lost"].values())
        label = record["name"] or record["id"]
        cells = (answer["engine"], slots or "no executors", answer["waiting"], answer["served"], lost)
        rows.append((label, *map(str, cells), ago(record["started"])))
    print(table(("POOL", "ENGINE", "EXECUTORS", "WAITING", "SERVED", "LOST", "STARTED"), rows))
    if name is not None:
        _details(found[0][1])
    return 0


def _answers(records: list[Record]) -> Iterator[tuple[Record, Record]]:
    """Of one that has just ended or is frozen there is none: the others are listed all the same."""
    for record in records:
        try:
            yield record, control.ask(record, control.STATUS)
        except EngineFailed as error:
            say(str(error))


def _details(answer: dict[str, Any]) -> None:
    for node, states in answer["nodes"].items():
        print(f"node {node}: " + ", ".join(f"{count} {state}" for state, count in sorted(states.items())))
    for node, names in answer["mismatched"].items():
        print(f"node {node}: the environment of commands differs in {', '.join(names)}")
    for queue in answer["queue"]:
        for group, count in queue["groups"].items():
            waits = f"{count} wait for {queue['shape']}, the oldest for {queue['oldest_seconds']:.0f} s"
            print(f"group {group or '(none)'}: {waits}")
    for reason, count in answer["lost"].items():
        print(f"lost: {count} {reason}")
    for kept in answer["kept"]:
        print(
            f"kept: {kept['path']} of {kept['lease']} on {kept['node']}, {kept['bytes'] / (1 << 20):.1f} MiB"
        )
    for what in ("failed", "engine_lost"):
        if answer[what]:
            print(f"{what.replace('_', ' ')}: {answer[what]}")


def end(name: str, question: str, flags: dict[str, Any]) -> int:
    """Has a pool drain or stop. Raises SettingInvalid, EngineFailed."""
    answer = control.ask(control.named(os.environ, name), question)
    if flags["json"]:
        print(json.dumps({member: answer[member] for member in ("id", "name", "leased", "waiting")}))
        return 0
    print(f"pool {answer['name'] or answer['id']}: {answer['leased']} leased, {answer['waiting']} waiting")
    return 0
