"""The JSON objects about an environment, as types: docs/reference/env-json.md describes each member.

The objects are plain dicts at run time. In a pair such as `_Event` and `Event`, the first class has the
members that are always present, and the second one adds those that may be absent.
"""

from __future__ import annotations

from typing import Any, TypedDict


class Base(TypedDict):
    kind: str
    pid: int
    host: str
    user: str
    startedAtMs: int
    variables: int


class _Origin(TypedDict):
    kind: str
    detail: str


class Origin(_Origin, total=False):
    file: str
    line: int


class _Event(TypedDict):
    layer: str
    id: str
    action: str
    why: str


class Event(_Event, total=False):
    origin: Origin
    value: str


class _Segment(TypedDict):
    layer: str
    id: str
    op: str


class Segment(_Segment, total=False):
    value: str
    exists: bool
    writableByAgent: bool
    note: str


class _Dropped(TypedDict):
    layer: str
    id: str
    why: str


class Dropped(_Dropped, total=False):
    value: str


class Removed(TypedDict):
    layer: str
    by: str
    why: str


class _Variable(TypedDict):
    layer: str
    id: str
    origin: Origin
    secret: bool
    history: list[Event]


class Variable(_Variable, total=False):
    value: str
    removed: Removed
    segments: list[Segment]
    dropped: list[Dropped]


class _Layer(TypedDict):
    layer: str
    id: str
    title: str
    state: str
    cost: dict[str, float]
    entries: int


class Layer(_Layer, total=False):
    producer: str
    note: str
    prefix: list[str]
    lost: list[dict[str, str]]
    author: str


class Refusal(TypedDict):
    layer: str
    id: str
    name: str
    reason: str
    why: str


class File(TypedDict):
    path: str
    kind: str
    exists: bool


class _Change(TypedDict):
    name: str
    kind: str
    secret: bool


class Change(_Change, total=False):
    segmentsAdded: list[str]
    segmentsRemoved: list[str]
    moved: bool
    before: str
    after: str


class _LoginShell(TypedDict):
    shell: str
    state: str
    seconds: float


class LoginShell(_LoginShell, total=False):
    reason: str
    differences: list[Change]
    programs: dict[str, dict[str, str | None]]


class _Explanation(TypedDict):
    base: Base
    env_fp: str
    contract_fp: str
    summary: str
    cwd: str
    layers: list[Layer]
    variables: dict[str, Variable]
    refused: list[Refusal]
    shell: dict[str, str]
    files: list[File]


class Explanation(_Explanation, total=False):
    """environment/explain."""

    programs: dict[str, dict[str, Any]]  # a program's path, and which entry of PATH leads there
    loginShell: LoginShell


class _Value(TypedDict):
    secret: bool


class Value(_Value, total=False):
    value: str
    digest: str


class Resolution(TypedDict):
    """environment/resolve."""

    base: Base
    env_fp: str
    contract_fp: str
    summary: str
    variables: dict[str, Value]


class BaseAnswer(TypedDict):
    """environment/base."""

    base: Base
    matchesClient: bool
    differences: dict[str, list[str]]


class Contribution(TypedDict):
    """What one producer says, by the names of variables."""

    producer: str
    kind: str
    set: list[str]
    unset: list[str]
    prepend: list[str]
    append: list[str]
    remove: list[str]
    secrets: list[str]


class Rejected(TypedDict):
    producer: str
    name: str
    reason: str
    why: str


class PutAnswer(TypedDict):
    """environment/overlay/put."""

    names: list[str]
    rejected: list[Rejected]


class OverlayAnswer(TypedDict):
    """environment/overlay/list."""

    contributions: list[Contribution]
    withheld: list[str]
    parent: str | None


class EventAnswer(TypedDict):
    """environment/overlay/event."""

    contributions: list[Contribution]
    rerun: list[str]
    reason: str
    lost: list[dict[str, str]]
