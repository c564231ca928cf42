"""Requests of http/request and what an origin answers: for our server and the reference, side by side."""

from __future__ import annotations

from typing import Any

from .rawhttp import CLOSE, HOLD

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def moved(status: int, to: str, more: bytes = b"") -> list[bytes]:
    head = b"HTTP/1.1 %d Moved\r\nlocation: %b\r\ncontent-length: 0\r\n%b\r\n"
    return [head % (status, to.encode(), more)]


# What the origin answers, by path. `:PORT` is its port.
ANSWERS: dict[str, list[bytes]] = {
    "/ok": [OK],
    "/none": [b"HTTP/1.1 204 No Content\r\n\r\n"],
    "/not-modified": [b"HTTP/1.1 304 Not Modified\r\netag: x\r\n\r\n"],
    "/repeats": [
        b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-b: 2\r\nX-A: 3\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\n",
        b"Content-Length: 0\r\n\r\n",
    ],
    "/not-ascii": [
        b"HTTP/1.1 200 OK\r\nx-a: caf\xc3\xa9\r\nx-b: \xff\r\nx-tab: a\tb\r\nx-empty:\r\n",
        b"x-spaces:   a  b  \r\ncontent-length: 0\r\n\r\n",
    ],
    "/chunked": [
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
        b"4;ext=1\r\ndefg\r\n0\r\ntrailer: x\r\n\r\n",
    ],
    "/chunked-cut": [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n", CLOSE],
    "/chunked-bad": [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n", CLOSE],
    "/cut": [b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc", CLOSE],
    "/close": [b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nuntil the end", CLOSE],
    "/close-plain": [b"HTTP/1.1 200 OK\r\n\r\nuntil the end", CLOSE],
    "/old": [b"HTTP/1.0 200 OK\r\n\r\nold", CLOSE],
    "/gzip": [
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 5\r\n\r\n\x1f\x8bxyz",
    ],
    "/reason": [b"HTTP/1.1 299 Odd Reason Here\r\ncontent-length: 0\r\n\r\n"],
    "/no-reason": [b"HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n"],
    "/continue": [b"HTTP/1.1 100 Continue\r\n\r\n", OK],
    "/early": [b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", OK],
    "/nothing": [CLOSE],
    "/garbage": [b"this is no HTTP\r\n\r\n", CLOSE],
    "/half": [b"HTTP/1.1 200 OK\r\nx-a: ", CLOSE],
    "/bad-length": [b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", CLOSE],
    "/two-lengths": [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nok"],
    "/other-lengths": [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok", CLOSE],
    "/bad-name": [b"HTTP/1.1 200 OK\r\nx a: 1\r\ncontent-length: 0\r\n\r\n", CLOSE],
    "/no-colon": [b"HTTP/1.1 200 OK\r\nbroken\r\ncontent-length: 0\r\n\r\n", CLOSE],
    "/nul": [b"HTTP/1.1 200 OK\r\nx-a: a\0b\r\ncontent-length: 0\r\n\r\n", CLOSE],
    "/bare-lf": [b"HTTP/1.1 200 OK\ncontent-length: 2\n\nok"],
    "/folded": [b"HTTP/1.1 200 OK\r\nx-a: 1\r\n 2\r\ncontent-length: 0\r\n\r\n", CLOSE],
    "/status-700": [b"HTTP/1.1 700 Odd\r\ncontent-length: 0\r\n\r\n"],
    "/status-99": [b"HTTP/1.1 99 Odd\r\ncontent-length: 0\r\n\r\n", CLOSE],
    "/status-404": [b"HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\ngone"],
    "/status-500": [b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n"],
    "/status-401": [b"HTTP/1.1 401 No\r\nwww-authenticate: Basic\r\ncontent-length: 0\r\n\r\n"],
    "/version-9": [b"HTTP/9.9 200 OK\r\ncontent-length: 0\r\n\r\n", CLOSE],
    "/switch": [b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nabc", CLOSE],
    "/hold": [HOLD],
    "/hold-body": [b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc", HOLD],
    "/many-headers": [
        b"HTTP/1.1 200 OK\r\n"
        + b"".join(b"x-%d: 1\r\n" % n for n in range(90))
        + b"content-length: 0\r\n\r\n"
    ],
    "/too-many-headers": [
        b"HTTP/1.1 200 OK\r\n"
        + b"".join(b"x-%d: 1\r\n" % n for n in range(200))
        + b"content-length: 0\r\n\r\n",
        CLOSE,
    ],
    "/long-header": [b"HTTP/1.1 200 OK\r\nx-a: " + b"a" * 60_000 + b"\r\ncontent-length: 0\r\n\r\n"],
    "/length-and-chunked": [
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        CLOSE,
    ],
    "/odd-coding": [b"HTTP/1.1 200 OK\r\ntransfer-encoding: odd\r\n\r\nok", CLOSE],
    **{f"/to-{status}": moved(status, "/final") for status in (300, 301, 302, 303, 304, 305, 307, 308)},
    "/to-absolute": moved(302, "http://127.0.0.1:PORT/final?q=1#frag"),
    "/to-relative": moved(302, "final"),
    "/deep/er/to-above": moved(302, "../final"),
    "/to-query": moved(302, "?q=2"),
    "/to-nowhere": [b"HTTP/1.1 302 Moved\r\ncontent-length: 2\r\n\r\nhi"],
    "/to-empty": moved(302, ""),
    "/to-bad": moved(302, "http://[bad"),
    "/to-ftp": moved(302, "ftp://127.0.0.1/x"),
    "/to-other-host": moved(302, "http://localhost:PORT/final"),
    "/to-other-port": moved(302, "http://127.0.0.1:1/final"),
    "/to-user": moved(302, "http://us:pw@127.0.0.1:PORT/final"),
    "/to-space": moved(302, "/fi nal"),
    "/to-unicode": moved(302, "/fin\u00e4l"),
    "/to-fragment": moved(302, "/final#b"),
    "/loop": moved(302, "/loop"),
    "/step-1": moved(301, "/step-2"),
    "/step-2": moved(307, "/step-3"),
    "/step-3": moved(302, "/final"),
    "/two-locations": moved(302, "/final", b"location: /other\r\n"),
}


def case(url: str = "/echo", method: str = "GET", **more: Any) -> dict[str, Any]:
    """Params; a URL without a scheme is of the origin."""
    return {"method": method, "url": url, "requestId": "r", **more}


def header(name: str, value: str, variable: str | None = None) -> dict[str, Any]:
    return {"name": name, "value": value, **({} if variable is None else {"valueEnvVar": variable})}


def headers(*told: tuple[str, ...], url: str = "/echo", **more: Any) -> dict[str, Any]:
    return case(url, headers=[header(*one) for one in told], **more)


BODY = {"bodyBase64": "aGVsbG8="}
VARIABLES = {"TOKEN": "s3cret", "EMPTY": "", "SPACED": " a b ", "BROKEN": "a\nb", "ODD": "caf\u00e9"}
DENIED = (  # noqa: SIM905
    "OPENAI_API_KEY CODEX_API_KEY CODEX_ACCESS_TOKEN CODEX_CONNECTORS_TOKEN AWS_ACCESS_KEY_ID "
    "AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AZURE_CLIENT_SECRET AZURE_FEDERATED_TOKEN_FILE "
    "GOOGLE_APPLICATION_CREDENTIALS openai_api_key CODEX_EXEC_SERVER_BEARER_TOKEN "
    "CODEX_EXEC_SERVER_TOKEN NODE_REPL_AUTH_TOKEN CODEX_INTERNAL_ORIGINATOR_OVERRIDE LANG"
).split()
ASKED: dict[str, dict[str, Any]] = {
    "plain": case(),
    **{path: case(path) for path in ANSWERS if "hold" not in path},
    **{f"{path} stopped": case(path, redirectPolicy="stop") for path in ANSWERS if path.startswith("/to-3")},
    **{f"{path} with a body": case(path, "POST", **BODY) for path in ANSWERS if path.startswith("/to-3")},
    **{f"{path} HEAD": case(path, "HEAD") for path in ("/echo", "/to-302", "/to-303", "/chunked", "/cut")},
    **{f"{path} PUT": case(path, "PUT", **BODY) for path in ("/to-302", "/to-303", "/to-307")},
    **{
        f"method {method!r}": case(method=method)
        for method in (
            "get",
            "POST",
            "PUT",
            "DELETE",
            "OPTIONS",
            "PATCH",
            "TRACE",
            "FOO",
            "M-SEARCH",
            "a!#$%&'*+-.^_`|~9",
        )
    },
    **{
        f"bad method {method!r}": case(method=method)
        for method in ("", " ", "A B", "GET\r\n", "G\u00c9T", "(", "A:B", "A/B")
    },
    "CONNECT": case(method="CONNECT"),
    "POST with a body": case(method="POST", **BODY),
    "GET with a body": case(**BODY),
    "POST with an empty body": case(method="POST", bodyBase64=""),
    "POST with no body": case(method="POST", bodyBase64=None),
    "PUT without a body": case(method="PUT"),
    "body that is no base64": case(bodyBase64="!!"),
    "body of a number": case(bodyBase64=5),
    # URLs
    **{
        f"url {url!r}": case(url)
        for url in (
            "",
            "x",
            "http://",
            "https://",
            "//127.0.0.1/",
            "/relative-none:",
            "ftp://x/",
            "file:///etc/passwd",
            "HTTP://127.0.0.1:PORT/final",
            "http://127.0.0.1:PORT",
            "http://127.0.0.1:PORT?x=1",
            "http://127.0.0.1:PORT/a b?c d#e f",
            "http://127.0.0.1:PORT/\u00e4?\u00f6",
            "http://127.0.0.1:PORT/%zz",
            "http://127.0.0.1:PORT/a/../b/./c",
            "http://127.0.0.1:PORT//x//y",
            "http://us:pw@127.0.0.1:PORT/final",
            "http://us@127.0.0.1:PORT/final",
            "http://:pw@127.0.0.1:PORT/final",
            "http://u%20s:p%40w@127.0.0.1:PORT/final",
            "http://127.0.0.1:99999/",
            "http://127.0.0.1:0/",
            "http://127.0.0.1:x/",
            "http://127.0.0.1:1/a?b#c",
            "http://[::1",
            "http://[::1]:1/",
            "http://nosuchhost.invalid/",
            "http://exa mple/",
            "data:text/plain,x",
            "javascript:1",
            "http:127.0.0.1:PORT/final",
            "http:/127.0.0.1:PORT/final",
            " http://127.0.0.1:PORT/final ",
            "http://127.0.0.1:PORT/\t\nx",
            "http://127.1:PORT/final",
            "http://0x7f.0.0.1:PORT/final",
            "http://2130706433:PORT/final",
            "http://127.0.0.1:PORT/a\\b",
            "http://127.0.0.1:PORT/'\"<>`{}|^[]",
            "http://127.0.0.1:PORT/?'\"<>`{}|^[]",
            "http://LOCALHOST:PORT/final",
            "http://us:pw@127.0.0.1:1/final",
            "https://127.0.0.1:1/",
            "ws://x/",
            "http://256.1.1.1/",
        )
    },
    # Headers
    "headers": headers(("X-A", "1"), ("x-b", "2"), ("X-A", "3")),
    "repeats apart": headers(("a", "1"), ("b", "2"), ("A", "3"), ("c", "4"), ("b", "5")),
    "own accept": headers(("Accept", "text/html")),
    "own host": headers(("Host", "example.test")),
    "own user-agent": headers(("User-Agent", "me")),
    "own cookie": headers(("Cookie", "a=b"), ("cookie", "c=d")),
    "own connection": headers(("Connection", "close")),
    "own expect": headers(("Expect", "100-continue")),
    "own te": headers(("te", "trailers")),
    "own content-length": headers(("content-length", "5"), method="POST", **BODY),
    "wrong content-length": headers(("content-length", "3"), method="POST", bodyBase64="aGVsbG8="),
    "content-length alone": headers(("content-length", "0")),
    "own transfer-encoding": headers(("transfer-encoding", "chunked"), method="POST", **BODY),
    "own authorization": headers(("Authorization", "x")),
    "authorization and user": headers(("Authorization", "x"), url="http://us:pw@127.0.0.1:PORT/final"),
    "user and headers": headers(("x-a", "1"), url="http://us:pw@127.0.0.1:PORT/final"),
    "bad method and url": case("x", method=""),
    "bad url and header": headers(("", ""), url="x"),
    "host to another host": headers(("host", "example.test"), url="/to-other-host"),
    "two hosts": headers(("host", "a"), ("host", "b")),
    "upgrade": headers(("connection", "upgrade"), ("upgrade", "x"), url="/switch"),
    "empty value": headers(("x-a", "")),
    "value with spaces": headers(("x-a", "  a  b  ")),
    "value with a tab": headers(("x-a", "a\tb")),
    "value beyond ASCII": headers(("x-a", "caf\u00e9")),
    **{f"bad value {value!r}": headers(("A", value)) for value in ("a\nb", "a\rb", "a\0b", "\x7f", "\x1f")},
    **{
        f"bad name {name!r}": headers((name, "v"))
        for name in ("", " ", "a b", "a:b", "\u00e9", "a\n", ":authority", "(", "a\0")
    },
    "name of every sign": headers(("!#$%&'*+-.^_`|~9aZ", "v")),
    "headers null": case(headers=None),
    "headers a map": case(headers={}),
    "headers of texts": case(headers=["x"]),
    "header without a name": case(headers=[{"value": "x"}]),
    "header without a value": case(headers=[{"name": "x"}]),
    "header with a null value": case(headers=[{"name": "x", "value": None}]),
    "header with a null variable": case(headers=[{"name": "x", "value": "y", "valueEnvVar": None}]),
    "header with a number": case(headers=[{"name": "x", "value": 1}]),
    # Variables
    "variable": headers(("Authorization", "Bearer ", "TOKEN")),
    "variable alone": headers(("x-a", "", "TOKEN")),
    "variable with spaces": headers(("x-a", "v", "SPACED")),
    "variable absent": headers(("A", "Bearer ", "ABSENT")),
    "variable empty": headers(("A", "Bearer ", "EMPTY")),
    "variable with a line": headers(("A", "Bearer ", "BROKEN")),
    "variable beyond ASCII": headers(("A", "Bearer ", "ODD")),
    "variable without a name": headers(("A", "Bearer ", "")),
    "variable with an odd name": headers(("A", "Bearer ", "A=B")),
    "variable with a NUL": headers(("A", "Bearer ", "A\0B")),
    "variable in lower case": headers(("A", "Bearer ", "token")),
    "variable and a bad value": headers(("A", "a\nb", "TOKEN")),
    "variable and a bad name": headers(("a b", "x", "ABSENT")),
    "first of two faults": headers(("a b", "x"), ("A", "", "OPENAI_API_KEY")),
    **{f"variable {name}": headers(("A", "", name)) for name in DENIED},
    "variable over a redirect": headers(("Authorization", "Bearer ", "TOKEN"), url="/to-302"),
    "variable to another host": headers(
        ("Authorization", "Bearer ", "TOKEN"), ("x-a", "", "TOKEN"), ("cookie", "a=b"), url="/to-other-host"
    ),
    # Redirects
    "headers over a redirect": headers(
        ("x-a", "1"), ("content-type", "t"), ("accept", "a"), url="/to-302", method="POST", **BODY
    ),
    "headers over a 307": headers(("x-a", "1"), ("content-type", "t"), url="/to-307", method="POST", **BODY),
    "referer of our own": headers(("referer", "http://me/"), url="/to-302"),
    "host over a redirect": headers(("host", "example.test"), url="/to-302"),
    "user over a redirect": case("http://us:pw@127.0.0.1:PORT/to-302?x#y"),
    "policy unknown": case(redirectPolicy="odd"),
    "policy null": case(redirectPolicy=None),
    # Time
    "no time": case(timeoutMs=0),
    "short time": case("/hold", timeoutMs=50),
    "short time for a body": case("/hold-body", timeoutMs=100),
    "enough time": case(timeoutMs=60_000),
    "endless time": case(timeoutMs=(1 << 64) - 1),
    "negative time": case(timeoutMs=-1),
    "time of a text": case(timeoutMs="5"),
    "time null": case(timeoutMs=None),
    "time of a fraction": case(timeoutMs=1.5),
    # Params
    "no method": {"url": "/echo", "requestId": "r"},
    "no url": {"method": "GET", "requestId": "r"},
    "no requestId": {"method": "GET", "url": "/echo"},
    "requestId empty": case(requestId=""),
    "requestId null": case(requestId=None),
    "requestId a number": case(requestId=1),
    "requestId long": case(requestId="r" * 200),
    "method a number": case(method=5),
    "url null": {"method": "GET", "url": None, "requestId": "r"},
    "stream null": case(streamResponse=None),
    "more members": case(more=1),
    "nothing": {},
}
# As `ASKED`, streamed.
STREAMED = {
    f"{name} streamed": {**params, "streamResponse": True}
    for name, params in ASKED.items()
    if name
    in (
        "plain",
        "/chunked",
        "/chunked-cut",
        "/cut",
        "/close",
        "/none",
        "/nothing",
        "/to-302",
        "/garbage",
        "/chunked-bad",
        "/gzip",
        "short time",
        "short time for a body",
        "no time",
        "requestId empty",
        "bad method 'A B'",
        "/echo HEAD",
        "/continue",
        "/hold-body",
    )
}
