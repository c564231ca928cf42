"""The JSON objects about an environment, as types: docs/reference/env-json.md describes each member.

The objects are plain dicts at run time. Where the package has a class of the same name, the type ends in
`Document`: an `env.origin.Origin` is sent as an `OriginDocument`.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class BaseDocument(TypedDict):
    kind: str
    pid: int
    host: str
    user: str
    startedAtMs: int
    variables: int


class OriginDocument(TypedDict):
    kind: str
    detail: str
    file: NotRequired[str]
    line: NotRequired[int]


class EventDocument(TypedDict):
    layer: str
    id: str
    action: str
    why: str
    origin: NotRequired[OriginDocument]
    value: NotRequired[str]


class SegmentDocument(TypedDict):
    layer: str
    id: str
    op: str
    value: NotRequired[str]
    exists: NotRequired[bool]
    writableByAgent: NotRequired[bool]
    note: NotRequired[str]


class DroppedDocument(TypedDict):
    layer: str
    id: str
    why: str
    value: NotRequired[str]


class Removed(TypedDict):
    layer: str
    by: str
    why: str


class Variable(TypedDict):
    layer: str
    id: str
    origin: OriginDocument
    secret: bool
    history: list[EventDocument]
    value: NotRequired[str]
    removed: NotRequired[Removed]
    segments: NotRequired[list[SegmentDocument]]
    dropped: NotRequired[list[DroppedDocument]]


class WaitingDocument(TypedDict):
    """The variables that a layer would change, and what a person types to allow it."""

    names: list[str]
    grant: str


class LayerDocument(TypedDict):
    layer: str
    id: str
    title: str
    state: str
    cost: dict[str, float]
    entries: int
    producer: NotRequired[str]
    note: NotRequired[str]
    awaits: NotRequired[WaitingDocument]
    said: NotRequired[str]
    prefix: NotRequired[list[str]]
    lost: NotRequired[list[dict[str, str]]]
    author: NotRequired[str]


class RefusalDocument(TypedDict):
    layer: str
    id: str
    name: str
    reason: str
    why: str


class File(TypedDict):
    path: str
    kind: str
    exists: bool


class Change(TypedDict):
    name: str
    kind: str
    secret: bool
    segmentsAdded: NotRequired[list[str]]
    segmentsRemoved: NotRequired[list[str]]
    moved: NotRequired[bool]
    before: NotRequired[str]
    after: NotRequired[str]


class LoginShell(TypedDict):
    shell: str
    state: str
    seconds: float
    reason: NotRequired[str]
    differences: NotRequired[list[Change]]
    programs: NotRequired[dict[str, dict[str, str | None]]]


class LaunchDocument(TypedDict):
    """The kind of launch that a command belongs to: which contracts are enforced, and what is broken."""

    kind: str
    enforcedBy: list[str]
    overlays: list[str]
    violations: list[str]


class Explanation(TypedDict):
    """environment/explain."""

    base: BaseDocument
    env_fp: str
    contract_fp: str
    summary: str
    cwd: str
    layers: list[LayerDocument]
    variables: dict[str, Variable]
    refused: list[RefusalDocument]
    shell: dict[str, str]
    launch: NotRequired[LaunchDocument]
    files: list[File]
    programs: NotRequired[dict[str, dict[str, Any]]]  # a program's path, and which entry of PATH leads there
    loginShell: NotRequired[LoginShell]


class Value(TypedDict):
    secret: bool
    value: NotRequired[str]
    digest: NotRequired[str]


class ResolutionDocument(TypedDict):
    """environment/resolve."""

    base: BaseDocument
    env_fp: str
    contract_fp: str
    summary: str
    layers: list[LayerState]
    variables: dict[str, Value]


class BaseAnswer(TypedDict):
    """environment/base."""

    base: BaseDocument
    matchesClient: bool
    differences: dict[str, list[str]]


class ContributionDocument(TypedDict):
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


class LayerState(TypedDict):
    id: str
    layer: str
    state: str
    said: NotRequired[str]


class ShellDocument(TypedDict):
    """How a shell was started; `through` are the programs in front of it."""

    name: str
    loginAsked: bool
    login: bool
    startup: str
    changed: bool
    withheld: list[str]
    notes: list[str]
    through: NotRequired[list[str]]


class FlagDocument(TypedDict):
    """Something by which the contract may not hold for all of a command: a stable code, and a sentence."""

    code: str
    what: str


class EnvironmentSummary(TypedDict):
    """`environment` of a process/start's answer: no values, and no names but in what a tool printed."""

    base: str
    fp: str
    contractFp: str
    layers: list[LayerState]
    rejected: int
    stale: bool
    shell: NotRequired[ShellDocument]
    flags: NotRequired[list[FlagDocument]]


class PlaceDocument(TypedDict):
    file: str
    line: int


class StartupChange(TypedDict):
    name: str
    kind: str
    before: NotRequired[str]
    after: NotRequired[str]
    file: NotRequired[str]
    line: NotRequired[int]
    places: NotRequired[list[PlaceDocument]]


class StartupReport(ShellDocument):
    """`environment` of process/exited: what the startup files of a shell changed."""

    reported: NotRequired[bool]
    changes: NotRequired[list[StartupChange]]
    readonly: NotRequired[list[str]]


class PutAnswer(TypedDict):
    """environment/overlay/put."""

    names: list[str]
    rejected: list[Rejected]


class OverlayAnswer(TypedDict):
    """environment/overlay/list."""

    contributions: list[ContributionDocument]
    withheld: list[str]
    parent: str | None


class EventAnswer(TypedDict):
    """environment/overlay/event."""

    contributions: list[ContributionDocument]
    rerun: list[str]
    reason: str
    lost: list[dict[str, str]]
