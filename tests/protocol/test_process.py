"""process/*: what each params object must hold, and notices that are exact JSON for any process id."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from outfitter.core.output import Chunk
from outfitter.errors import InvalidParams
from outfitter.protocol.fields import Fields
from outfitter.protocol.listing import AttachParams
from outfitter.protocol.process import (
    HoldParams,
    Notices,
    ReadParams,
    ReadResult,
    ResizeParams,
    SignalParams,
    StartParams,
    TerminalSize,
    TerminateParams,
    WriteParams,
)
from outfitter.protocol.processnotices import ExitedNotice
from outfitter.protocol.sandbox import Disabled, SandboxContext
from outfitter.protocol.uri import FileUri
from outfitter.protocol.wishes import EnvPolicyParams, ShellSnapshotParams
from tests.protocol.test_wishes import policies

quick = settings(deadline=None, max_examples=60)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
unsigned = st.integers(0, 2**64 - 1)

START: dict[str, Any] = {
    "processId": "p",
    "argv": ["true"],
    "cwd": "file:///tmp",
    "env": {"A": "1"},
    "tty": False,
}
POLICY: dict[str, Any] = {
    "inherit": "core",
    "ignoreDefaultExcludes": False,
    "exclude": ["A*"],
    "set": {"B": "2"},
    "includeOnly": [],
}


def refusal(decode: Callable[[Any], object], params: object) -> str:
    with pytest.raises(InvalidParams) as caught:
        decode(params)
    return str(caught.value)


def start(**members: object) -> StartParams:
    return StartParams.decode({**START, **members})


def start_refusal(**members: object) -> str:
    return refusal(StartParams.decode, {**START, **members})


# Start


def test_the_least_start_has_the_documented_defaults() -> None:
    assert StartParams.decode(START) == StartParams("p", ["true"], FileUri("", "/tmp"), {"A": "1"}, False)


def test_every_optional_member_of_start_may_be_null_but_the_flags() -> None:
    nulls = dict.fromkeys(
        (
            "envPolicy",
            "arg0",
            "shellSnapshot",
            "metadata",
            "sandbox",
            "managedNetwork",
            "networkProxy",
            "size",
        )
    )
    assert start(**nulls) == StartParams.decode(START)
    for flag in ("pipeStdin", "enforceManagedNetwork"):
        assert start_refusal(**{flag: None}) == "invalid type: null, expected a boolean"


def test_every_member_of_start_is_read() -> None:
    params = start(
        processId="",
        argv=[],
        tty=True,
        envPolicy=POLICY,
        pipeStdin=True,
        arg0="zero",
        size={"rows": 1, "cols": 65535},
        metadata={"toolCallId": "call", "threadId": "67e55044-10b1-426f-9247-bb680e5fe0c8"},
    )
    assert params == StartParams(
        "",
        [],
        FileUri("", "/tmp"),
        {"A": "1"},
        True,
        EnvPolicyParams("core", False, ("A*",), (("B", "2"),), ()),
        True,
        "zero",
        TerminalSize(1, 65535),
        "call",
        None,
        thread_id="67e55044-10b1-426f-9247-bb680e5fe0c8",
    )


@pytest.mark.parametrize("name", sorted(START))
def test_each_required_member_of_start_is_required(name: str) -> None:
    params = {key: value for key, value in START.items() if key != name}
    assert refusal(StartParams.decode, params) == f"missing field `{name}`"
    assert start_refusal(**{name: None}).startswith("invalid type: null, expected ")


@pytest.mark.parametrize("name", sorted(POLICY))
def test_each_member_of_a_policy_is_required(name: str) -> None:
    policy = {key: value for key, value in POLICY.items() if key != name}
    assert start_refusal(envPolicy=policy) == f"missing field `{name}`"
    assert start_refusal(envPolicy={**POLICY, name: None}).startswith("invalid type: null, expected ")


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"cwd": "/tmp"}, "invalid URI: relative URL without a base"),
        ({"argv": "true"}, 'invalid type: string "true", expected a sequence'),
        ({"argv": ["a", 1]}, "invalid type: number, expected a string"),
        ({"env": {"A": 1}}, "invalid type: number, expected a string"),
        ({"tty": 0}, "invalid type: number, expected a boolean"),
        ({"arg0": 1}, "invalid type: number, expected a string"),
        ({"envPolicy": []}, "invalid type: sequence, expected struct ExecEnvPolicy"),
        (
            {"envPolicy": {**POLICY, "inherit": "All"}},
            "unknown variant `All`, expected one of `core`, `all`, `none`",
        ),
        ({"metadata": {"toolCallId": 1}}, "invalid type: number, expected a string"),
        ({"metadata": {"threadId": "x"}}, "invalid metadata.threadId: expected a UUID"),
        ({"size": {"rows": 1}}, "missing field `cols`"),
        ({"shellSnapshot": {"scopeId": ""}}, "shell snapshot scope must be non-empty and at most 256 bytes"),
        (
            {"shellSnapshot": {"scopeId": "é" * 129}},
            "shell snapshot scope must be non-empty and at most 256 bytes",
        ),
        ({"shellSnapshot": {"scopeId": "s"}}, "missing field `shell`"),
        ({"shellSnapshot": {"scopeId": "s", "shell": {"name": "sh"}}}, "missing field `path`"),
        ({"sandbox": {}}, "missing field `permissions`"),
        ({"managedNetwork": 1}, "invalid type: number, expected struct ManagedNetworkSandboxContext"),
    ],
)
def test_a_bad_member_of_start_is_refused(members: dict[str, object], text: str) -> None:
    assert start_refusal(**members) == text


def test_the_thread_is_the_metadatas_or_the_one_that_commands_are_told() -> None:
    one, other = "0" * 32, "1" * 32
    told = {"A": "1", "CODEX_THREAD_ID": other}
    assert start(metadata={"threadId": one}, env=told).thread == one
    assert start(metadata={"threadId": None}, env=told).thread == other
    assert start(env=told).thread == other
    assert start(env={"CODEX_THREAD_ID": "mine"}).thread is None
    assert start().thread is None


def test_a_snapshot_names_its_scope_and_its_shell() -> None:
    asked = {"scopeId": "s" * 256, "shell": {"name": "sh", "path": "/bin/sh"}}
    params = start(shellSnapshot=asked)
    assert params.snapshot == ShellSnapshotParams("s" * 256, "sh", "/bin/sh")
    assert params.encode()["shellSnapshot"] == asked
    assert start(shellSnapshot=None).snapshot is None
    assert "shellSnapshot" not in start().encode()


@pytest.mark.parametrize("name", ["name", "path"])
def test_the_shell_of_a_snapshot_has_a_name_and_a_path(name: str) -> None:
    shell = {"name": "sh", "path": "/bin/sh"}
    del shell[name]
    assert start_refusal(shellSnapshot={"scopeId": "s", "shell": shell}) == f"missing field `{name}`"


DISABLED = {"permissions": {"type": "disabled"}, "windowsSandboxLevel": "disabled"}


@pytest.mark.parametrize("name", ["enforceManagedNetwork", "managedNetwork", "networkProxy"])
def test_what_says_nothing_about_the_network_is_none(name: str) -> None:
    said: dict[str, object] = {"enforceManagedNetwork": False, "managedNetwork": None, "networkProxy": None}
    assert start(**{name: said[name]}).network is None
    assert start(**said).network is None


def test_a_sandbox_is_read_and_written() -> None:
    params = start(sandbox=DISABLED)
    assert params.sandbox == SandboxContext(Disabled())
    assert StartParams.decode(params.encode()) == params


# Sizes


@pytest.mark.parametrize(("rows", "cols"), [(0, 80), (24, 0), (65536, 80), (24, 65536)])
def test_a_terminal_side_fits_an_unsigned_short_and_is_not_zero(rows: int, cols: int) -> None:
    params = {"processId": "p", "size": {"rows": rows, "cols": cols}}
    assert refusal(ResizeParams.decode, params) == (
        "terminal size must be between 1 and 65535 rows and columns"
    )


@pytest.mark.parametrize("side", [-1, 1.0])
def test_a_terminal_side_is_a_plain_integer(side: float) -> None:
    with pytest.raises(InvalidParams, match=r"^invalid number$"):
        TerminalSize.decode(Fields({"rows": side, "cols": 80}, "TerminalSize"))


@pytest.mark.parametrize("params", [{"processId": "p"}, {"processId": "p", "size": None}])
def test_a_resize_needs_a_size(params: object) -> None:
    assert refusal(ResizeParams.decode, params) == "invalid type: null, expected struct TerminalSize"


# The small ones


def test_absent_and_null_cursors_mean_from_the_beginning() -> None:
    nulls = {"processId": "p", "afterSeq": None, "maxBytes": None, "waitMs": None, "graceMs": None}
    for params in ({"processId": "p"}, nulls):
        assert [
            ReadParams.decode(params),
            AttachParams.decode(params),
            TerminateParams.decode(params),
        ] == [ReadParams("p", 0, None, 0), AttachParams("p", 0), TerminateParams("p", 0)]


def test_a_read_of_zero_bytes_is_not_a_read_without_limit() -> None:
    assert ReadParams.decode({"processId": "p", "maxBytes": 0}) == ReadParams("p", 0, 0, 0)


@pytest.mark.parametrize("name", ["afterSeq", "maxBytes", "waitMs"])
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-1, "invalid number"),
        (1.0, "invalid number"),
        (2**64, "invalid number"),
        ("5", 'invalid type: string "5", expected u64'),
    ],
)
def test_cursors_are_unsigned(name: str, value: object, text: str) -> None:
    assert refusal(ReadParams.decode, {"processId": "p", name: value}) == text


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"processId": "p", "chunk": "QQ==", "writeId": ""}, "writeId must not be empty"),
        ({"processId": "p", "chunk": "*", "writeId": "w"}, "Invalid symbol 42, offset 0."),
        ({"processId": "p", "chunk": "QQ", "writeId": "w"}, "Invalid padding"),
        ({"processId": "p", "chunk": "QR==", "writeId": "w"}, "Invalid last symbol 82, offset 1."),
        ({"processId": "p", "chunk": None, "writeId": "w"}, "invalid type: null, expected a string"),
        ({"processId": "p", "writeId": "w"}, "missing field `chunk`"),
        ({"processId": "p", "chunk": ""}, "missing field `writeId`"),
        ({"chunk": "", "writeId": "w"}, "missing field `processId`"),
        (
            {"processId": "p", "chunk": "", "writeId": "w", "eof": None},
            "invalid type: null, expected a boolean",
        ),
    ],
)
def test_a_bad_write_is_refused(params: object, text: str) -> None:
    assert refusal(WriteParams.decode, params) == text


def test_the_only_signal_is_interrupt() -> None:
    assert SignalParams.decode({"processId": "p", "signal": "interrupt"}) == SignalParams("p")
    assert SignalParams.decode({"processId": "p", "signal": {"interrupt": None}}) == SignalParams("p")
    assert refusal(SignalParams.decode, {"processId": "p", "signal": "kill"}) == (
        "unknown variant `kill`, expected `interrupt`"
    )


@pytest.mark.parametrize(
    "params",
    [
        StartParams,
        ReadParams,
        WriteParams,
        SignalParams,
        TerminateParams,
        ResizeParams,
        HoldParams,
        AttachParams,
    ],
)
@pytest.mark.parametrize("value", [None, [], "p", 1])
def test_params_are_an_object(params: Any, value: object) -> None:
    assert refusal(params.decode, value).startswith("invalid type: ")


# Both ends agree

sizes = st.builds(TerminalSize, st.integers(1, 65535), st.integers(1, 65535))
starts = st.builds(
    StartParams,
    texts,
    st.lists(texts, max_size=3),
    st.just(FileUri("", "/tmp/a%20b")),
    st.dictionaries(texts, texts, max_size=3),
    st.booleans(),
    st.none() | policies,
    st.booleans(),
    st.none() | texts,
    st.none() | sizes,
    st.none() | texts,
)
requests = st.one_of(
    starts,
    st.builds(ReadParams, texts, unsigned, st.none() | unsigned, unsigned),
    st.builds(WriteParams, texts, st.binary(max_size=20), texts.filter(bool), st.booleans()),
    st.builds(SignalParams, texts),
    st.builds(TerminateParams, texts, unsigned),
    st.builds(ResizeParams, texts, sizes),
    st.builds(HoldParams, texts, st.booleans()),
    st.builds(AttachParams, texts, unsigned),
)


@quick
@given(requests)
def test_what_a_client_sends_a_server_reads(params: Any) -> None:
    assert type(params).decode(json.loads(json.dumps(params.encode()))) == params


def test_what_only_we_know_is_sent_only_when_asked_for() -> None:
    assert [
        WriteParams("p", b"A", "w").encode(),
        TerminateParams("p").encode(),
        set(StartParams("p", ["a"], FileUri("", "/"), {}, False).encode()),
    ] == [
        {"processId": "p", "chunk": "QQ==", "writeId": "w"},
        {"processId": "p"},
        {"processId", "argv", "cwd", "env", "tty", "envPolicy", "pipeStdin", "arg0"},
    ]


# What a server answers

READ: dict[str, Any] = {
    "chunks": [{"seq": 1, "stream": "stdout", "chunk": "QQ=="}],
    "nextSeq": 3,
    "exited": True,
    "exitCode": 0,
    "closed": False,
}


def test_every_member_of_a_read_is_read() -> None:
    assert ReadResult.decode({**READ, "failure": "f", "sandboxDenied": True}) == ReadResult(
        [(1, "stdout", b"A")], 3, True, 0, False, "f", True
    )
    assert ReadResult.decode({**READ, "exitCode": None}).exit_code is None


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"chunks": {}}, "invalid type: map, expected a sequence"),
        ({"chunks": None}, "invalid type: null, expected a sequence"),
        ({"exitCode": "0"}, 'invalid type: string "0", expected i32'),
        ({"exitCode": True}, "invalid type: boolean `true`, expected i32"),
        ({"exitCode": 0.5}, "invalid type: number, expected i32"),
    ],
)
def test_an_odd_answer_to_a_read_is_refused(members: dict[str, object], text: str) -> None:
    assert refusal(ReadResult.decode, {**READ, **members}) == text


# Notices

hostile = st.lists(
    st.sampled_from(['"', "%", "%d", "%b", "%%s", "\\", "\n", "\0", "é", "\u2028", "\U0001f600", "}", "p"]),
    max_size=8,
).map("".join)


@quick
@given(hostile | texts, unsigned, st.sampled_from([b"stdout", b"stderr", b"pty"]), st.binary(max_size=50))
@example('%(seq)d"},"x":{"%', 1, b"pty", b"")
def test_an_output_notice_is_the_wire_shape(process_id: str, seq: int, stream: bytes, data: bytes) -> None:
    parts = Notices(process_id).output(Chunk(seq, stream, data))
    assert json.loads(b"".join(parts)) == {
        "method": "process/output",
        "params": {
            "processId": process_id,
            "seq": seq,
            "stream": stream.decode(),
            "chunk": base64.b64encode(data).decode(),
        },
    }


@quick
@given(hostile | texts, unsigned, st.integers(-(2**31), 2**31 - 1))
def test_exit_and_close_notices_are_the_wire_shapes(process_id: str, seq: int, exit_code: int) -> None:
    notices = Notices(process_id)
    assert [json.loads(notices.exited(seq, exit_code)), json.loads(notices.closed(seq))] == [
        {
            "method": "process/exited",
            "params": {"processId": process_id, "seq": seq, "exitCode": exit_code, "sandboxDenied": False},
        },
        {"method": "process/closed", "params": {"processId": process_id, "seq": seq}},
    ]


def test_signal_is_told_where_there_is_one() -> None:
    told = json.loads(Notices("p").exited(3, 137, b"{}", signal=9))["params"]
    assert (told["signal"], told["environment"]) == (9, {})
    assert ExitedNotice.decode(told) == ExitedNotice("p", 3, 137, False, {}, 9)
    assert ReadResult.decode({**READ, "signal": 9}).signal == 9
    answer = ReadResult([], 2, True, 137, True, signal=9)
    assert ReadResult.decode(json.loads(answer.wire())) == answer
    assert "signal" not in json.loads(ReadResult([], 2, True, 137, True).wire())


@quick
@given(hostile)
def test_notices_are_one_line_of_ascii(process_id: str) -> None:
    notices = Notices(process_id)
    for message in (
        b"".join(notices.output(Chunk(1, b"stdout", b"\n"))),
        notices.exited(2, 0),
        notices.closed(3),
    ):
        assert message.isascii()
        assert b"\n" not in message
