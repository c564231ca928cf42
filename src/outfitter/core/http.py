"""What a request of http/request becomes on the wire, and after each redirect. Nothing is sent here.

The texts are the reference's. None has a header's value in it, which may be a secret of this machine.
"""

from __future__ import annotations

from ..errors import HttpFailed, InvalidParams
from ..protocol.base64 import encode
from ..record import quick_record
from .url import OtherScheme, Url, UrlInvalid, parse, unquoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Headers = list[tuple[bytes, bytes]]

REDIRECTS = 10  # the reference's
MAX_HEADERS = 100  # of an answer: the reference's
# Headers of one request, and bytes of all of them: no server takes more.
MAX_SENT_HEADERS, MAX_SENT_BYTES = 256, 256 << 10
MAX_URL = 65_534  # the reference's library takes no longer one
# Variables of this machine that no header may have: the reference's.
DENIED = frozenset(
    (
        "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN",
        "OPENAI_FEDERATION_RULE_ID",
        "OPENAI_IDENTITY_TOKEN_FILE",
        "OPENAI_WORKLOAD_IDENTITY_CONTEXT",
        "OPENAI_API_KEY",
        "CODEX_API_KEY",
        "CODEX_ACCESS_TOKEN",
        "CODEX_CONNECTORS_TOKEN",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AZURE_CLIENT_SECRET",
        "AZURE_FEDERATED_TOKEN_FILE",
        "GOOGLE_APPLICATION_CREDENTIALS",
    )
)
_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_CONTROLS = bytes([*range(9), *range(10, 32), 127])
_VISIBLE = bytes([9, *range(32, 127)])
# What another host must not see, and what belongs to a body that is not sent again.
_SENSITIVE = frozenset((b"authorization", b"cookie", b"cookie2", b"proxy-authorization", b"www-authenticate"))
_OF_BODY = frozenset((b"content-type", b"content-length", b"content-encoding", b"transfer-encoding"))


@quick_record
class HttpRequest:
    """A request, ready to be sent. `headers` are the client's, those of a name together."""

    hidden = ("headers", "body", "url")  # they may be secret

    method: str
    url: Url
    headers: Headers
    body: bytes

    def wire_headers(self, cookie: bytes | None = None, proxy: bytes | None = None) -> Headers:
        """All headers, in the reference's order; `proxy` is what a proxy wants to know."""
        names = {name for name, _ in self.headers}
        told = list(self.headers)
        if cookie is not None and b"cookie" not in names:
            told.append((b"cookie", cookie))
        if b"accept" not in names:
            told.append((b"accept", b"*/*"))
        if proxy is not None and b"proxy-authorization" not in names:
            told.append((b"proxy-authorization", proxy))
        if b"host" not in names:
            told.append((b"host", self.url.authority.encode()))
        if self.body and names.isdisjoint((b"content-length", b"transfer-encoding")):
            told.append((b"content-length", b"%d" % len(self.body)))
        return told

    def redirected(self, status: int, location: str | None) -> HttpRequest | None:
        """The request to which an answer leads; None when the answer is the last. Raises HttpFailed."""
        if status not in (301, 302, 303, 307, 308) or location is None:
            return None
        try:
            url = parse(location, self.url)
        except OtherScheme as error:
            raise HttpFailed(
                f"http/request failed: redirect target uses unsupported URL scheme: {error}"
            ) from None
        except UrlInvalid:
            return None
        method, headers, body = self.method, self.headers, self.body
        if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
            method, body = "GET", b""
            headers = [one for one in headers if one[0] not in _OF_BODY]
        elsewhere = url.origin != self.url.origin
        if elsewhere:
            headers = [one for one in headers if one[0] not in _SENSITIVE]
        headers = [one for one in headers if one[0] != b"referer"]
        if not (self.url.scheme == "https" and url.scheme == "http"):
            headers.append((b"referer", (self.url.origin + "/" if elsewhere else self.url.referer).encode()))
        return HttpRequest(method, url, headers, body)


def prepare(
    method: str,
    url: str,
    headers: Sequence[tuple[str, str, str | None]],
    body: bytes,
    variables: Mapping[str, str],
) -> HttpRequest:
    """The request that params ask for. Raises InvalidParams."""
    if not (method and _TOKEN.issuperset(method)):
        raise InvalidParams("http/request method is invalid: invalid HTTP method")
    place = _url(url)
    found: Headers = []
    if headers:
        found = _grouped([_header(*one, variables) for one in headers])
        size = sum([len(name) + len(value) for name, value in found])
        if len(found) > MAX_SENT_HEADERS or size > MAX_SENT_BYTES:
            raise InvalidParams(
                f"http/request takes at most {MAX_SENT_HEADERS} headers of {MAX_SENT_BYTES} bytes: send fewer"
            )
    if (place.user or place.password) and not any(name == b"authorization" for name, _ in found):
        known = encode(b"%b:%b" % (unquoted(place.user), unquoted(place.password)))
        found.insert(0, (b"authorization", b"Basic " + known))
    return HttpRequest(method, place, found, _as_long_as_told(body, found))


# URLs as they were read: clients ask the same ones again and again, and reading one takes as long as all else
# that is done for a request. When there are more than a client of many services has, all are forgotten.
_URLS, _LONGEST_KEPT = 256, 1024
_urls: dict[str, Url] = {}


def _url(text: str) -> Url:
    found = _urls.get(text)
    if found is None:
        found = _read(text)
        if len(_urls) >= _URLS:
            _urls.clear()
        if len(text) <= _LONGEST_KEPT:
            _urls[text] = found
    return found


def _read(text: str) -> Url:
    try:
        if len(text) > MAX_URL:
            raise UrlInvalid("URI too long")
        return parse(text)
    except OtherScheme as error:
        raise InvalidParams(f"http/request only supports http and https URLs, got {error}") from None
    except UrlInvalid as error:
        raise InvalidParams(f"http/request url is invalid: {error}") from None


def _header(name: str, value: str, variable: str | None, variables: Mapping[str, str]) -> tuple[bytes, bytes]:
    if not (name and _TOKEN.issuperset(name)):
        raise InvalidParams("http/request header name is invalid: invalid HTTP header name")
    if variable is not None:
        value += _of_machine(name, variable, variables)
    told = value.encode("utf-8", "surrogateescape")
    if told.translate(None, _CONTROLS) != told:
        raise InvalidParams(f"http/request header value is invalid for {name}: failed to parse header value")
    # White space around a value is none of it (RFC 9110, 5.5).
    return name.lower().encode(), told.strip(b" \t")


def _of_machine(name: str, variable: str, variables: Mapping[str, str]) -> str:
    if variable.upper() in DENIED:
        raise InvalidParams(f"http/request header {name} cannot use executor environment variable {variable}")
    found = variables.get(variable)
    if found is None:
        raise InvalidParams(f"http/request header {name} requires executor environment variable {variable}")
    if not found:
        raise InvalidParams(
            f"http/request header {name} requires a non-empty executor environment variable {variable}"
        )
    return found


def _grouped(headers: Headers) -> Headers:
    """The headers of a name stand where the first of them does."""
    if len(dict(headers)) == len(headers):
        return headers
    groups: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        groups.setdefault(name, []).append(value)
    return [(name, value) for name, values in groups.items() for value in values]


def _as_long_as_told(body: bytes, headers: Headers) -> bytes:
    """Who names a length gets no more sent than that."""
    if not (body and headers):
        return body
    told = next((value for name, value in headers if name == b"content-length"), b"")
    return body[: int(told)] if told.isdigit() and len(told) < 19 else body


def shown(headers: Headers) -> list[tuple[str, str]]:
    """The headers of an answer as a client gets them: together, those of visible ASCII alone. Their names are
    in lower case already."""
    return [
        (name.decode("latin-1"), value.decode("ascii"))
        for name, value in _grouped(headers)
        if not value.translate(None, _VISIBLE)
    ]


# Cookies

# A load balancer's marks, so that requests of one server reach the same machine; never anybody's session.
_MARKS = ("__cflb", "__cf_bm", "_cfuvid", "cf_clearance", "__cfruid", "__cfseq", "__cfwaitingroom")
AFFINITY = tuple([(host, name) for host in ("chatgpt.com", "chat.openai.com") for name in _MARKS])
_COOKIES, _COOKIE_BYTES = 64, 4096  # that are kept; the first is many times the marks there are


class Affinity:
    """The cookies that requests of one server share: by (host suffix, name), over https, in memory alone."""

    def __init__(self, allowed: Iterable[tuple[str, str]] = AFFINITY) -> None:
        self._allowed = frozenset(allowed)
        self._kept: dict[tuple[str, str], str] = {}  # by host and name

    def _suffixes(self, url: Url) -> list[str]:
        parts = url.host.split(".")
        return [".".join(parts[at:]) for at in range(len(parts))] if url.scheme == "https" else []

    def keep(self, url: Url, headers: Iterable[tuple[str, str]]) -> None:
        for name, value in headers:
            if name != "set-cookie" or len(value) > _COOKIE_BYTES:
                continue
            pair = value.partition(";")[0]
            cookie, _, content = pair.partition("=")
            if any((one, cookie.strip()) in self._allowed for one in self._suffixes(url)):
                key = url.host, cookie.strip()
                if key in self._kept or len(self._kept) < _COOKIES:
                    self._kept[key] = content.strip()

    def header(self, url: Url) -> bytes | None:
        """The value of a cookie header for a URL."""
        if not self._kept or url.scheme != "https":
            return None
        found = [f"{name}={value}" for (host, name), value in self._kept.items() if host == url.host]
        return "; ".join(found).encode() if found else None
