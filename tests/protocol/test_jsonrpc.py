"""Messages are told apart by their members alone; what cannot be read keeps its id where it shows one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.errors import Malformed
from outfitter.protocol import jsonrpc
from outfitter.protocol.jsonrpc import Notice, Reply, Request

quick = settings(deadline=None, max_examples=60)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
idents = texts | st.integers(-(2**63), 2**63 - 1)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def malformed(data: str | bytes) -> tuple[str, int | str]:
    """Why a message was refused, and the id under which that is answered."""
    with pytest.raises(Malformed) as caught:
        jsonrpc.parse(data)
    return caught.value.detail, caught.value.request_id


# Kinds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"id":1,"method":"m"}', Request(1, "m")),
        ('{"id":1,"method":"m","params":null}', Request(1, "m")),
        ('{"id":1,"method":"m","params":{"a":[]}}', Request(1, "m", {"a": []})),
        ('{"method":"m","id":1,"params":[1]}', Request(1, "m", [1])),
        ('{"method":"m"}', Notice("m")),
        ('{"method":"m","params":{"a":1}}', Notice("m", {"a": 1})),
        ('{"id":1,"result":null}', Reply(1)),
        ('{"id":1,"result":{"a":1}}', Reply(1, result={"a": 1})),
        (
            '{"error":{"code":-1,"message":"no"},"id":"a"}',
            Reply("a", error={"code": -1, "message": "no"}),
        ),
        (
            '{"error":{"code":-1,"message":"no","data":[]},"id":-1}',
            Reply(-1, error={"code": -1, "message": "no", "data": []}),
        ),
    ],
)
def test_a_message_is_classified_by_its_members(text: str, message: object) -> None:
    assert jsonrpc.parse(text) == message
    assert jsonrpc.parse(text.encode()) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"jsonrpc":"2.0","id":1,"method":"m"}', Request(1, "m")),
        ('{"jsonrpc":7,"method":"m","x":{}}', Notice("m")),
        ('{"id":1,"method":"m","result":2,"error":3}', Request(1, "m")),
        ('{"method":"m","result":2}', Notice("m")),
        ('{"id":1,"result":2,"error":3}', Reply(1, result=2)),
        ('{"method":"m","trace":17}', Notice("m")),
    ],
)
def test_other_members_are_never_looked_at(text: str, message: object) -> None:
    assert jsonrpc.parse(text) == message


@pytest.mark.parametrize("text", ["[]", '[{"id":1,"method":"m"}]', "1", '"text"', "null", "true"])
def test_batches_and_scalars_are_malformed(text: str) -> None:
    assert malformed(text) == ("expected a JSON-RPC object", -1)


def test_an_object_of_no_kind_is_malformed() -> None:
    assert malformed("{}") == ("missing field `error`", -1)
    assert malformed('{"id":5,"params":{}}') == ("missing field `error`", 5)
    assert malformed('{"id":"five"}') == ("missing field `error`", "five")


@pytest.mark.parametrize("method", ["null", "1", "{}", "[]", "true"])
def test_a_method_is_a_string(method: str) -> None:
    assert malformed(f'{{"id":5,"method":{method}}}') == ("invalid type: `method` must be a string", 5)


@pytest.mark.parametrize(
    "error",
    ["null", "1", "{}", '{"code":1}', '{"message":"m"}', '{"code":"1","message":"m"}',
     '{"code":1.0,"message":"m"}', '{"code":true,"message":"m"}', '{"code":1,"message":null}'],
)  # fmt: skip
def test_an_error_needs_a_code_and_a_message(error: str) -> None:
    assert malformed(f'{{"id":5,"error":{error}}}') == (
        "invalid `error`: expected an object with `code` and `message`",
        5,
    )


# Ids


@quick
@given(idents)
def test_every_string_and_64_bit_integer_is_an_id(ident: int | str) -> None:
    text = json.dumps(ident)
    assert jsonrpc.parse(f'{{"id":{text},"method":"m"}}') == Request(ident, "m")
    assert jsonrpc.parse(f'{{"id":{text},"result":1}}') == Reply(ident, result=1)


@pytest.mark.parametrize("ident", ["", 0, -1, 2**63 - 1, -(2**63)])
def test_the_edges_of_ids_are_ids(ident: int | str) -> None:
    assert jsonrpc.parse(json.dumps({"id": ident, "method": "m"})) == Request(ident, "m")


@pytest.mark.parametrize(
    "ident",
    ["null", "true", "false", "1.5", "1.0", "1e2", "{}", "[]", str(2**63), str(-(2**63) - 1), "9" * 100],
)
@pytest.mark.parametrize("rest", ['"method":"m"', '"result":1', '"error":{"code":1,"message":"m"}'])
def test_other_ids_are_malformed(ident: str, rest: str) -> None:
    assert malformed(f'{{"id":{ident},{rest}}}') == (
        "data did not match any variant of untagged enum RequestId",
        -1,
    )


def test_a_reply_needs_an_id() -> None:
    assert malformed('{"result":1}') == ("data did not match any variant of untagged enum RequestId", -1)


# Trace


@pytest.mark.parametrize(
    "trace",
    [
        {},
        {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
        {"traceparent": None, "tracestate": None},
        {"tracestate": "a=b", "unknown": [1]},
        {"traceparent": "not a trace at all"},
    ],
)
def test_a_trace_is_carried_as_it_is(trace: dict[str, object]) -> None:
    text = json.dumps({"id": 1, "method": "m", "trace": trace})
    assert jsonrpc.parse(text) == Request(1, "m", None, trace)


def test_a_null_trace_is_none() -> None:
    assert jsonrpc.parse('{"id":1,"method":"m","trace":null}') == Request(1, "m")


@pytest.mark.parametrize("trace", ["1", '"text"', "[]", "false", '{"traceparent":1}', '{"tracestate":{}}'])
def test_a_trace_of_another_type_is_malformed(trace: str) -> None:
    assert malformed(f'{{"id":9,"method":"m","trace":{trace}}}') == (
        "invalid type: `trace` must be an object of strings",
        9,
    )


# The id of a message that cannot be read


@pytest.mark.parametrize(
    ("text", "ident"),
    [
        ('{"id":7,"method":"m","params":{"a":NaN}}', 7),
        ('{"id":-7,"method":"m","params":', -7),
        ('  {\n"id" : "seven" ,"method":"\\ud800"}', "seven"),
        ('{"id":"","method":}', ""),
        ('{"id":"h\u00e9llo","method":"m"}x', "h\u00e9llo"),
        ('{"id":7,"params":' + "[" * 128 + "]" * 128 + "}", 7),
        ('{"id":7,"params":[' + "1," * 262_144 + "1]}", 7),
    ],
)
def test_a_leading_id_survives_what_follows_it(text: str, ident: int | str) -> None:
    assert malformed(text)[1] == ident


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        '{"method":"m","id":7,"params":NaN}',
        '{"id":7',
        '{"id":7.5,"method":}',
        '{"id":null,"method":}',
        '{"id":"es\\u0063aped","method":}',
        '{"id":' + "9" * 30 + ',"method":}',
        '{"id":"' + "x" * 300 + '","method":}',
        '[{"id":7,"method":}]',
    ],
)
def test_an_id_that_is_not_plain_to_see_is_unknown(text: str) -> None:
    assert malformed(text)[1] == -1


def test_a_message_with_two_ids_has_none() -> None:
    assert malformed('{"id":1,"id":2,"method":"m"}') == ("duplicate JSON object key `id`", -1)


def test_only_ascii_digits_are_an_id() -> None:
    assert malformed('{"id":\u0663,"method":"m"}')[1] == -1


def test_a_refusal_can_be_sent() -> None:
    detail, ident = malformed('{"\\ud800":1,"\\ud800":2}')
    jsonrpc.parse(jsonrpc.error(ident, -32600, detail))


def test_a_number_too_long_for_any_field_makes_no_message_unreadable() -> None:
    text = '{"id":1,"method":"m","params":' + "1" * 5000 + "}"
    assert jsonrpc.parse(text) == Request(1, "m", float("inf"))


# Bytes


@pytest.mark.parametrize(
    ("data", "place"), [(b"\xff", 0), (b'{"id":"\xc3("}', 7), (b'{"a":"\xed\xa0\x80"}', 6)]
)
def test_what_is_not_utf_8_is_malformed(data: bytes, place: int) -> None:
    assert malformed(data) == (f"invalid UTF-8 at byte {place}", -1)


@quick
@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,id methodresult1\\', max_size=40))
def test_anything_is_a_message_or_malformed(data: bytes | str) -> None:
    try:
        message = jsonrpc.parse(data)
    except Malformed:
        return
    assert isinstance(message, Request | Notice | Reply)


# What we send


def test_messages_have_the_member_order_of_the_reference() -> None:
    assert [
        jsonrpc.request(1, "m", {"a": 1}),
        jsonrpc.request("x", "m", None, {"traceparent": "t"}),
        jsonrpc.request(2, "m", {"a": 1, "chunk": b"AAAA"}),
        jsonrpc.request(3, "m", {"chunk": b"AAAA"}, {"traceparent": "t"}),
        jsonrpc.notice("m", {}),
        jsonrpc.result(1, {}),
        jsonrpc.result('"', [1]),
        jsonrpc.result_text(-5, '{"a":1}'),
        jsonrpc.error(1, -32600, "no"),
        jsonrpc.error("x", -32603, "no", {"errno": "ENOENT"}),
    ] == [
        b'{"id":1,"method":"m","params":{"a":1}}',
        b'{"id":"x","method":"m","params":null,"trace":{"traceparent":"t"}}',
        b'{"id":2,"method":"m","params":{"a":1,"chunk":"AAAA"}}',
        b'{"id":3,"method":"m","params":{"chunk":"AAAA"},"trace":{"traceparent":"t"}}',
        b'{"method":"m","params":{}}',
        b'{"id":1,"result":{}}',
        b'{"id":"\\"","result":[1]}',
        b'{"id":-5,"result":{"a":1}}',
        b'{"error":{"code":-32600,"message":"no"},"id":1}',
        b'{"error":{"code":-32603,"message":"no","data":{"errno":"ENOENT"}},"id":"x"}',
    ]


@quick
@given(idents, texts, values)
def test_what_is_sent_is_read_back(ident: int | str, text: str, value: object) -> None:
    sent = [
        jsonrpc.request(ident, text, value),
        jsonrpc.notice(text, value),
        jsonrpc.result(ident, value),
        jsonrpc.error(ident, -32600, text),
    ]
    assert [jsonrpc.parse(data) for data in sent] == [
        Request(ident, text, value),
        Notice(text, value),
        Reply(ident, result=value),
        Reply(ident, error={"code": -32600, "message": text}),
    ]
    assert b"\n" not in b"".join(sent)  # one message is one line on stdio


# What a server reads


def large(params: str) -> bytes:
    return f'{{"id":7,"method":"m","params":{params}}}'.encode()


def test_a_request_may_be_as_large_as_it_says() -> None:
    exact = large(json.dumps("x" * (jsonrpc.LARGEST_REQUEST - len(large('""')))))
    assert len(exact) == jsonrpc.LARGEST_REQUEST
    assert isinstance(jsonrpc.parse_request(exact), Request)
    assert isinstance(jsonrpc.parse_request(exact.decode()), Request)


@pytest.mark.parametrize("form", ["bytes", "text", "pieces"])
def test_a_larger_request_is_refused_without_being_read(form: str) -> None:
    data = large("[" * jsonrpc.LARGEST_REQUEST)
    sent = {"bytes": data, "text": data.decode(), "pieces": (data[:9000], data[9000:])}[form]
    with pytest.raises(Malformed) as refused:
        jsonrpc.parse_request(sent)  # type: ignore[arg-type]
    assert refused.value.request_id == 7
    assert str(refused.value.detail) == (
        f"message of {len(data)} bytes: above 4194304 only one base64 text may stand, without escapes "
        "(`dataBase64`, `chunk`); send less at a time"
    )


def test_a_larger_request_may_be_one_base64_text() -> None:
    blob = "QUJD" * (jsonrpc.LARGEST_REQUEST // 3)
    data = large(f'{{"path":"p","dataBase64":"{blob}"}}')
    for sent in (data, data.decode(), (data[:9000], data[9000:])):
        message = jsonrpc.parse_request(sent)  # type: ignore[arg-type]
        assert isinstance(message, Request)
        assert b"".join(message.params["dataBase64"].decode()) == b"ABC" * (len(blob) // 4)
    with pytest.raises(Malformed):
        jsonrpc.parse_request(data.replace(b"QUJD", b"QU\\u004aD", 1))


def test_a_request_has_a_limit_of_members() -> None:
    def params(count: int) -> bytes:
        return large("{" + ",".join(f'"k{n}":1' for n in range(count)) + "}")

    most = jsonrpc.REQUEST_MEMBERS - 3  # id, method, params
    assert isinstance(jsonrpc.parse_request(params(most)), Request)
    with pytest.raises(Malformed, match="exceeds the limit of 32768 objects, lists and members"):
        jsonrpc.parse_request(params(most + 1))
    assert isinstance(jsonrpc.parse(params(most + 1)), Request)  # a client reads what it asked for
