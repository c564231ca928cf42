"""Messages for the differential tests, by name: envelopes, parameters, path URIs, base64.

They are text, not values: how a number is written or a key repeated is what is tested.
"""

from __future__ import annotations

import json
from typing import Any

STATUS = '"method":"environment/status"'


def status(members: str) -> str:
    """A status request with these members after the method."""
    return "{" + STATUS + ("," + members if members else "") + "}"


def nested(depth: int, kind: str = "list") -> str:
    opening, closing = ("[", "]") if kind == "list" else ('{"a":', "}")
    return opening * depth + ("" if kind == "list" else "1") + closing * depth


def values(total: int) -> str:
    """A status request of exactly `total` JSON values."""
    return status('"id":1,"x":[' + ",".join(["1"] * (total - 4)) + "]")


def short(text: str) -> str:
    """A text as part of a name; the length keeps two of a kind apart."""
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)})"


# Envelopes: one message each. A bytes value goes in a binary frame.

IDS = [
    "0", "-0", "-1", "7", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
    "-9223372036854775809", "1.0", "1e0", "1E2", "1.5", "-1.5", "null", "true", "false", "[]", "{}", "[1]",
    '""', '"x"', '"é"', '"\\u0000"', '"\\ud83d\\ude00"', '"\\ud800"', '"1"', '"' + "i" * 5000 + '"',
    "01", "+1", "0x1", "1e400", "--1", "1_0", "1" * 5000,
]  # fmt: skip

ENVELOPES: dict[str, str | bytes] = {
    **{f"id {short(one)}": status(f'"id":{one}') for one in IDS},
    # members
    "no members": "{}",
    "no method": '{"id":1}',
    "no method, params": '{"id":1,"params":{}}',
    "method null": '{"id":1,"method":null}',
    "method number": '{"id":1,"method":5}',
    "method list": '{"id":1,"method":["environment/status"]}',
    "method empty": '{"id":1,"method":""}',
    "method unknown": '{"id":1,"method":"no/such"}',
    "method unknown, odd text": '{"id":1,"method":"a`b\\u0000\\n\\u00e9"}',
    "method in another case": '{"id":1,"method":"Environment/Status"}',
    "method name escaped": '{"id":1,"m\\u0065thod":"environment/status"}',
    "method value escaped": '{"id":1,"method":"environment\\/status"}',
    "initialized as a request": '{"id":1,"method":"initialized"}',
    "jsonrpc 2.0": status('"id":1,"jsonrpc":"2.0"'),
    "jsonrpc 1": status('"id":1,"jsonrpc":1'),
    "result next to method": status('"id":1,"result":5'),
    "error next to method": status('"id":1,"error":5'),
    "unknown member": status('"id":1,"x":{"y":[1,null]}'),
    "empty member name": status('"id":1,"":1'),
    "case of id": status('"ID":1'),
    # trace
    "trace null": status('"id":1,"trace":null'),
    "trace empty": status('"id":1,"trace":{}'),
    "trace list": status('"id":1,"trace":[]'),
    "trace positional": status('"id":1,"trace":["a","b"]'),
    "trace string": status('"id":1,"trace":"x"'),
    "trace number": status('"id":1,"trace":5'),
    "trace members null": status('"id":1,"trace":{"traceparent":null,"tracestate":null}'),
    "trace parent number": status('"id":1,"trace":{"traceparent":5}'),
    "trace state list": status('"id":1,"trace":{"tracestate":[]}'),
    "trace unknown member": status('"id":1,"trace":{"x":1}'),
    "trace nonsense": status('"id":1,"trace":{"traceparent":"nonsense","tracestate":"="}'),
    "trace proper": status(
        '"id":1,"trace":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}'
    ),
    # duplicate keys
    "duplicate id": status('"id":1,"id":1'),
    "duplicate method": status('"id":1,"method":"environment/status"'),
    "duplicate id, escaped": status('"id":1,"\\u0069d":2'),
    "duplicate unknown": status('"id":1,"x":1,"x":1'),
    "duplicate in params": '{"id":1,"method":"no/such","params":{"a":1,"a":2}}',
    "duplicate deep in unknown": status('"id":1,"x":[{"a":{"b":1,"b":1}}]'),
    "same key in two objects": status('"id":1,"x":{"a":1},"y":{"a":1}'),
    # depth: the message itself is one level
    **{
        f"{kind} depth {depth}": status(f'"id":1,"x":{nested(depth - 1, kind)}')
        for kind in ("list", "map")
        for depth in (126, 127, 128, 129)
    },
    "depth 128 in params": '{"id":1,"method":"no/such","params":' + nested(127) + "}",
    "depth 1000 unclosed": "[" * 1000,
    # numbers
    **{
        f"number {short(one)}": status(f'"id":1,"x":{one}')
        for one in (
            "1e400", "-1e400", "1e-400", "123456789012345678901234567890", "1" * 400, "9" * 5000,
            "1." + "0" * 5000, "0.1", "-0.0", "1E+5",
            "01", "1.", ".5", "+1", "1e", "1e+", "-", "NaN", "Infinity", "-Infinity", "0x10", "1_000",
        )
    },
    # strings
    **{
        f"string {one[1:20]}": status(f'"id":1,"x":{one}')
        for one in (
            '"\\ud800"', '"\\udc00"', '"\\ud83d\\ude00"', '"\\ud800\\u0041"', '"\\ud800x"',
            '"\\udc00\\ud800"',
            '"\\x41"', '"\\u00g0"', '"\\u00"', '"\\"', '"\\/\\b\\f\\n\\r\\t\\\\"', '"\\v"', '"\x7f"',
            '"\u2028"',
            '"\U0001f600"', "'single'",
        )
    },
    "control tab in string": status('"id":1,"x":"a\tb"'),
    "control newline in string": status('"id":1,"x":"a\nb"'),
    "control nul in string": status('"id":1,"x":"a\x00b"'),
    "lone surrogate in a key": status('"id":1,"\\ud800":1'),
    "lone surrogate in method": '{"id":1,"method":"\\ud800"}',
    # whitespace, ends, other values
    "whitespace around": " \t\r\n" + status('"id":1') + " \t\r\n",
    "whitespace inside": '{ "id" :\n1 ,\t' + STATUS + "\r}",
    "form feed before": "\f" + status('"id":1'),
    "vertical tab after": status('"id":1') + "\v",
    "no-break space before": "\u00a0" + status('"id":1'),
    "nul after": status('"id":1') + "\x00",
    "trailing word": status('"id":1') + "x",
    "trailing brace": status('"id":1') + "}",
    "trailing comma": status('"id":1') + ",",
    "two objects": status('"id":1') + status('"id":2'),
    "two lines": status('"id":1') + "\n" + status('"id":2'),
    "comma before the end": status('"id":1,'),
    "comma first": "{," + STATUS + "}",
    "no comma": '{"id":1 ' + STATUS + "}",
    "no colon": '{"id" 1,' + STATUS + "}",
    "comment": "/* */" + status('"id":1'),
    "unclosed": '{"id":1,' + STATUS,
    "unclosed string": '{"id":1,"method":"environment',
    "single quotes": "{'id':1,'method':'environment/status'}",
    "bare key": '{id:1,"method":"environment/status"}',
    "byte order mark": "\ufeff" + status('"id":1'),
    "byte order mark, binary": b"\xef\xbb\xbf" + status('"id":1').encode(),
    "empty": "",
    "empty, binary": b"",
    "space": " ",
    "null": "null",
    "true": "true",
    "number": "5",
    "string": '"x"',
    "empty list": "[]",
    "batch": "[" + status('"id":1') + "]",
    "positional request": '[1,"environment/status"]',
    "word": "nope",
    "half a word": "tru",
    "binary": status('"id":1').encode(),
    "binary, not UTF-8": status('"id":1,"x":"?"').encode().replace(b"?", b"\xff"),
    "binary, encoded surrogate": status('"id":1,"x":"?"').encode().replace(b"?", b"\xed\xa0\x80"),
    "binary, overlong": status('"id":1,"x":"?"').encode().replace(b"?", b"\xc0\xaf"),
    "binary, UTF-16": status('"id":1').encode("utf-16"),
    # counts
    "values at the limit": values(262_144),
    "values above the limit": values(262_145),
    # notifications
    "initialized again": '{"method":"initialized"}',
    "initialized, params null": '{"method":"initialized","params":null}',
    "initialized, params number": '{"method":"initialized","params":5}',
    "initialized, params list": '{"method":"initialized","params":[1]}',
    "initialized, trace": '{"method":"initialized","trace":5}',
    "initialized, result": '{"method":"initialized","result":5}',
    "initialized, unknown member": '{"method":"initialized","x":{"y":1}}',
    "initialized, duplicate unknown member": '{"method":"initialized","x":1,"x":1}',
    "unknown notification": '{"method":"no/such"}',
    "known method as notification": "{" + STATUS + "}",
    "notification of the server": '{"method":"process/closed","params":{"processId":"x","seq":1}}',
    "method number, no id": '{"method":5}',
    # answers from the client
    "response": '{"id":1,"result":{}}',
    "response null": '{"id":1,"result":null}',
    "response, string id": '{"id":"x","result":1}',
    "response without id": '{"result":1}',
    "response, id null": '{"id":null,"result":1}',
    "response, id float": '{"id":1.5,"result":1}',
    "response and error": '{"id":1,"result":1,"error":{"code":1,"message":"x"}}',
    "error": '{"id":1,"error":{"code":1,"message":"x"}}',
    "error, id -1": '{"id":-1,"error":{"code":1,"message":"x"}}',
    "error, data": '{"id":1,"error":{"code":1,"message":"x","data":[1]}}',
    "error, unknown member": '{"id":1,"error":{"code":1,"message":"x","y":1}}',
    "error empty": '{"id":1,"error":{}}',
    "error null": '{"id":1,"error":null}',
    "error string": '{"id":1,"error":"x"}',
    "error positional": '{"id":1,"error":[1,"x",null]}',
    "error without message": '{"id":1,"error":{"code":1}}',
    "error, message null": '{"id":1,"error":{"code":1,"message":null}}',
    "error, code string": '{"id":1,"error":{"code":"1","message":"x"}}',
    "error, code float": '{"id":1,"error":{"code":1.0,"message":"x"}}',
    "error, code large": '{"id":1,"error":{"code":9223372036854775808,"message":"x"}}',
    "error without id": '{"error":{"code":1,"message":"x"}}',
    "error, id null": '{"id":null,"error":{"code":1,"message":"x"}}',
}  # fmt: skip

# What random edits of a message are made of, and where they begin.

EDIT_STARTS = [
    status('"id":1'),
    status('"id":"a","trace":{"traceparent":"x"},"params":null'),
    '{"id":1,"method":"process/read","params":{"processId":"none","afterSeq":10}}',
    '{"id":-5,"method":"no/such","params":[1,2.5e3,"\\u00e9",{"a":true}]}',
    '{"method":"initialized","params":{}}',
    '{"id":1,"result":{"a":[null]}}',
]
EDIT_PIECES = [
    "", " ", "\t", "{", "}", "[", "]", '"', ":", ",", "0", "1", "-", ".", "e", "+", "\\", "\\u", "d800",
    "null", "true", '"id"', '"id":2,', '"method"', "é", "\x00", "\x1f", "\u2028", "/",
]  # fmt: skip

# Parameters: for each method, base values and what replaces one member at a time. All JSON text.

MISSING = "<missing>"
STRING = [MISSING, "null", "5", "true", "[]", "{}", '""']
UNSIGNED = [
    MISSING, "null", "0", "-0", "-1", "1.0", "1e2", "18446744073709551615", "18446744073709551616", '"5"',
    "true", "[]",
]  # fmt: skip
FLAG = [MISSING, "null", "0", '"true"', "[]", "true"]
LIST = [MISSING, "null", '"true"', "{}", "[1]", "[null]", "[[]]", "[]"]
MAP = [MISSING, "null", "[]", '"x"', '{"A":1}', '{"A":null}', '{"A":"1","A":"2"}', "{}"]
POLICY = (
    '{"inherit":"none","ignoreDefaultExcludes":false,"exclude":[],"set":{},"includeOnly":[]}'  # all required
)
POLICIES = [
    "null", "{}", "[]", '"none"', POLICY, POLICY.replace("}", ',"x":1}', 1).replace("{,", "{"),
    *(
        POLICY.replace(old, new)
        for old, new in (
            ('"none"', '"None"'), ('"none"', "null"), ('"none"', '{"none":null}'), ('"inherit":"none",', ""),
            ("false", "null"), ("false", "0"), ('"ignoreDefaultExcludes":false,', ""),
            ('"exclude":[]', '"exclude":null'), ('"exclude":[]', '"exclude":[5]'), ('"exclude":[],', ""),
            ('"set":{}', '"set":null'), ('"set":{}', '"set":{"A":null}'), ('"set":{},', ""),
            ('"includeOnly":[]', '"includeOnly":null'), (',"includeOnly":[]', ""),
        )
    ),
]  # fmt: skip

BASES: dict[str, dict[str, str]] = {
    "initialize": {"clientName": '"test"', "resumeSessionId": "null"},
    "process/start": {
        "processId": '"PROCESS"',
        "argv": '["/bin/true"]',
        "cwd": '"file:///tmp"',
        "env": "{}",
        "tty": "false",
    },
    "process/read": {"processId": '"none"'},
    "process/write": {"processId": '"none"', "chunk": '"YQ=="', "writeId": '"1"'},
    "process/signal": {"processId": '"none"', "signal": '"interrupt"'},
    "process/terminate": {"processId": '"none"'},
}
REPLACED: dict[str, dict[str, list[str]]] = {
    "initialize": {
        "clientName": STRING,
        "resumeSessionId": [MISSING, "5", "[]", '""', '"nope"', '"00000000-0000-4000-8000-000000000001"'],
        "x": ["1"],
    },
    "process/start": {
        "processId": ["5", "null", MISSING, "[]"],
        "argv": LIST,
        "cwd": STRING,
        "env": MAP,
        "tty": [MISSING, "null", "0", '"true"'],
        "envPolicy": POLICIES,
        "pipeStdin": FLAG,
        "arg0": ["null", "5", '"zero"', "[]"],
        "metadata": [
            "null", "{}", "[]", "5", '{"toolCallId":null}', '{"toolCallId":5}', '{"toolCallId":"x"}',
            '{"threadId":"x"}', '{"threadId":null}', '{"threadId":5}', '{"x":1}',
            '{"threadId":"00000000-0000-4000-8000-000000000001"}',
        ],
        "enforceManagedNetwork": ["null", "0", "false"],
        "sandbox": ["null"],
        "shellSnapshot": [
            "null", "{}", '"s"', "5", "true", '{"scopeId":"s"}', '{"shell":{"name":"bash","path":"/x"}}',
            *(
                '{"scopeId":"s","shell":{"name":"bash","path":"/x"}}'.replace(old, new)
                for old, new in (
                    ("", ""), ('"s"', "5"), ('"s"', "null"), ('"s"', '""'), ('"s"', '"s","scopeId":"t"'),
                    ('"bash"', "5"), ('"bash"', "null"), ('"bash"', '"fish"'), ('"/x"', "null"),
                    ('"/x"', '""'),
                    ('{"name":"bash","path":"/x"}', "null"), ('{"name":"bash","path":"/x"}', '"bash"'),
                    ('"/x"', '"/x","y":1'), ('"s"', '"s","y":{}'),
                )
            ),
        ],
        "managedNetwork": ["null"],
        "networkProxy": ["null"],
        "x": ["{}"],
    },
    "process/read": {
        "processId": STRING,
        "afterSeq": UNSIGNED,
        "maxBytes": UNSIGNED,
        "waitMs": UNSIGNED,
        "x": ["1"],
    },
    "process/write": {
        "processId": STRING,
        "chunk": [*STRING, '"YQ"', '"*"'],
        "writeId": STRING,
        "x": ["1"],
    },
    "process/signal": {
        "processId": STRING,
        "signal": [*STRING, '"kill"', '"Interrupt"', '{"interrupt":null}', '{"interrupt":1}',
        '{"kill":null}'],
        "x": ["1"],
    },
    "process/terminate": {"processId": STRING, "x": ["1"]},
}  # fmt: skip
WHOLE = [MISSING, "null", "{}", "[]", "5", '"x"', "true", "[null]", '{"x":1}']
NO_PARAMETERS = ["environment/info", "environment/status"]


def request(ident: int, method: str, params: str) -> str:
    rest = "" if params == MISSING else f',"params":{params}'
    return f'{{"id":{ident},"method":{json.dumps(method)}{rest}}}'


def parameters() -> dict[str, tuple[str, str]]:
    """Name of the case → method and params text, where PROCESS stands for a fresh process id."""
    cases = {}
    for method in [*BASES, *NO_PARAMETERS]:
        for whole in WHOLE:
            cases[f"{method} params {whole}"] = (method, whole)
    for method, members in REPLACED.items():
        for member, replacements in members.items():
            for text in replacements:
                params = {**BASES[method], member: text}
                joined = ",".join(f'"{name}":{value}' for name, value in params.items() if value != MISSING)
                cases[f"{method} {member} {text}"] = (method, "{" + joined + "}")
    return cases


# Working directories, as URIs. DIR stands for the URI of a scratch directory that holds ODD_NAMES.

ODD_NAMES = [
    "a",
    "a/b",
    "sp ace",
    "%zz",
    "ümlaut",
    "x%2Fy",
    "C:",
    "semi;colon",
    "q?mark",
    "h#ash",
    "back\\slash",
]
URIS = [
    "DIR", "DIR/", "DIR//a", "DIR/a/", "DIR/./a", "DIR/a/..", "DIR/a/../a/b", "DIR/a/%2e%2e/a", "DIR/%2E/a",
    "DIR/a/.%2e", "DIR/sp ace", "DIR/sp%20ace", "DIR/%zz", "DIR/%25zz", "DIR/ümlaut", "DIR/%C3%BCmlaut",
    "DIR/%c3%bcmlaut", "DIR/x%2Fy", "DIR/x%252Fy", "DIR/a%2Fb", "DIR/a%2fb", "DIR/C:", "DIR/semi;colon",
    "DIR/q?mark", "DIR/q%3Fmark", "DIR/h#ash", "DIR/h%23ash", "DIR/back\\slash", "DIR/back%5Cslash",
    "DIR/a\\b", "DIR/%FF", "DIR/none", "DIR/a\tb", "DIR/a\n/b", " DIR ", "\tDIR", "DIR/a%00b", "DIR/%00",
    "DIR?",
    "DIR#", "DIR?x=1", "DIR#x", "", " ", "/tmp", "tmp", "./tmp", "../tmp", "file:", "file:/", "file://",
    "file:///", "file:////", "file:/tmp", "file:tmp", "file:./tmp", "FILE:///tmp", "File:/tmp",
    "file://localhost/tmp", "file://LOCALHOST/tmp", "file://localhost", "file://host/tmp", "file://host",
    "file://127.0.0.1/tmp", "file://user@localhost/tmp", "file://localhost:80/tmp", "file://%6cocalhost/tmp",
    "file:////tmp", "file://///tmp", "file:\\\\\\tmp", "file:\\tmp", "file:///C:/x", "file:///c:/x",
    "file:///C|/x", "file:///C:", "file:///C:x", "file:///tmp/C:/x", "file:C:/x", "file:///%43:/x",
    "file:///tmp/../../..", "file:///..", "file:///tmp/../etc", "file:///%2e%2e/etc", "http://x/", "http:/x",
    "https://localhost/tmp", "ftp:///tmp", "data:,x", "mailto:a@b", "file+x:///tmp", "://tmp", "1file:///tmp",
    "file//tmp", "file:///tmp%", "file:///tmp%2", "file:///%", "f\tile:///tmp", "file:///t\tmp",
    "file:C:/..", "file:/c|", "file:///c|", "file:c|/..", "file:///C:/../a", "file:/c|/a/../..", "file:/./c|",
    "file:/a/../C:/..", "file://c|/../a", "file:////C:/..", "file:/a/C:/../..", "file:///tmp/c:/..",
    "file:///tmp/c|/..", "file:///../c|", "file:////../c|", "file:/..//c|", "file:/.//C:", "file://h/c|",
    "file://h//c|", "file://h/a/../C:", "file://h//../c|", "file:/C:/..//", "file:C:/../c|",
    "file:///%00/bad/path/L3RtcA", "//tmp", "//localhost/tmp", "\\\\host\\x", "file:///tmp\u00ad",
    "DIR/a%2F..", "DIR/none%2F..", "DIR/none/%2F..",
    "file://ümlaut/tmp", "file://///C:", "file:c|", "file:///c|", "file://exa mple/tmp",
    "file://[::1]/tmp", "file://[/tmp", "file://host:port/tmp", "\ufefffile:///tmp",
]  # fmt: skip
URI_PIECES = [
    "a", "b", "/", "/", "//", ".", "..", "%2e", "%2E%2e", "%2F", "%5C", "\\", "%", "%zz", "%20", " ", "\t",
    "?",
    "#", ":", "C:", "c|", ";", "sp ace", "ümlaut", "%FF", "@", "~", "|", "^", "`", "{", "}", "<", "[",
]  # fmt: skip

# Bytes

BASE64 = [
    "", "YQ==", "YWI=", "YWJj", "YQ", "YQ=", "YQ===", "YR==", "YWJ=", "=", "==", "====", "Y", "YWJjZ",
    "YQ==YQ==",
    " YQ==", "YQ== ", "YQ\n==", "YQ==\n", "Y-_=", "_-8=", "+/8=", "*", "YQ=*", "Y=Q=", "é", "YWI=\u0000",
    "YWJjYQ==",
    "Zg=", "Zm9=", "//==", "/w==", "AA==", "AB==", "AAA=", "AAB=",
]  # fmt: skip
BASE64_ALPHABET = [*"AQgwYZ09+/==-_* ", "\n"]


def shown(text: Any) -> str:
    """A case's text as part of a test's name."""
    return json.dumps(text)[1:-1][:40]
