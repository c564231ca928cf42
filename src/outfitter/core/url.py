"""URLs of http and https, read as browsers and the reference read them (the WHATWG URL Standard).

Who spells an address in an odd way (`http:\\0x7f.1`) gets the address that is judged: there is one reader.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

from ..record import record

PORTS = {"http": 80, "https": 443}
_CONTROLS = "".join(map(chr, range(33)))
_SCHEME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789+-.")
# What is written with %, besides controls and all beyond ASCII: in a path, in a query, in a fragment.
_PATH, _QUERY, _FRAGMENT = frozenset(' "#<>?`{}'), frozenset(" \"#<>'"), frozenset(' "<>`')
_FORBIDDEN = frozenset("\0\t\n\r #/:<>?@[\\]^|%\x7f") | frozenset(map(chr, range(33)))
_DOTS = {".": ".", "%2e": ".", "..": "..", ".%2e": "..", "%2e.": "..", "%2e%2e": ".."}


class UrlInvalid(ValueError):
    """In the reference's words."""


class OtherScheme(UrlInvalid):
    """It is a URL, but not of http or https; its text is the scheme."""


@record
class Url:
    """`host` is canonical, with the brackets of IPv6; `port` is None for the scheme's own."""

    hidden = ("password",)

    scheme: str
    user: str
    password: str
    host: str
    port: int | None
    path: str
    query: str | None = None
    fragment: str | None = None

    @property
    def authority(self) -> str:
        return self.host if self.port is None else f"{self.host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def target(self) -> str:
        """What stands in a request."""
        return self.path if self.query is None else f"{self.path}?{self.query}"

    @property
    def text(self) -> str:
        """All of it but user and password, for people."""
        told = self.origin + self.target
        return told if self.fragment is None else f"{told}#{self.fragment}"

    @property
    def referer(self) -> str:
        return self.origin + self.target


def parse(text: str, base: Url | None = None) -> Url:
    """Raises UrlInvalid. What is relative is joined to `base`."""
    text = text.strip(_CONTROLS).translate({9: None, 10: None, 13: None})
    scheme, colon, rest = text.partition(":")
    scheme = scheme.lower()
    if not (colon and scheme[:1].isalpha() and _SCHEME.issuperset(scheme)):
        if base is None:
            raise UrlInvalid("relative URL without a base")
        return _relative(text, base)
    if scheme not in PORTS:
        raise OtherScheme(scheme)
    if base is not None and scheme == base.scheme and rest[:2].replace("\\", "/") != "//":
        return _relative(rest, base)
    return _absolute(scheme, rest.lstrip("/\\"))


def _absolute(scheme: str, rest: str) -> Url:
    end = min((found for mark in "/\\?#" if (found := rest.find(mark)) >= 0), default=len(rest))
    user_info, at, place = rest[:end].rpartition("@")
    user, _, password = user_info.partition(":") if at else ("", "", "")
    if place.startswith("["):
        inside, closed, port = place[1:].partition("]")
        if not closed or (port and not port.startswith(":")):
            raise UrlInvalid("invalid IPv6 address")
        host = _six(inside)
        port = port[1:]
    else:
        name, _, port = place.partition(":")
        if not name:
            raise UrlInvalid("empty host")
        host = _host(name)
    return _rest(Url(scheme, user, password, host, _port(port, scheme), "/"), rest[end:], "")


def _port(text: str, scheme: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or int(text[:9]) > 65535:
        raise UrlInvalid("invalid port number")
    port = int(text)
    return None if port == PORTS[scheme] else port


def _six(text: str) -> str:
    try:
        return f"[{IPv6Address(text)}]"
    except ValueError:
        raise UrlInvalid("invalid IPv6 address") from None


def _host(text: str) -> str:
    host = unquoted(text).decode("utf-8", "replace")
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii")
        except UnicodeError:
            raise UrlInvalid("invalid international domain name") from None
    host = host.lower()
    if not _FORBIDDEN.isdisjoint(host):
        raise UrlInvalid("invalid international domain name")
    parts = host.split(".")
    if parts[-1] == "" and len(parts) > 1:
        parts.pop()
    if parts[-1].isdigit() or _number(parts[-1]) is not None:
        return _four(parts)
    return host


def _number(text: str) -> int | None:
    try:
        if text[:2] == "0x":
            return int(text[2:] or "0", 16)
        if not text.isdigit():
            return None
        return int(text, 8 if text[0] == "0" else 10)
    except ValueError:
        return None


def _four(parts: list[str]) -> str:
    numbers = [_number(part) for part in parts]
    found = [number for number in numbers if number is not None]
    if len(parts) > 4 or len(found) < len(parts) or any(number > 255 for number in found[:-1]):
        raise UrlInvalid("invalid IPv4 address")
    if found[-1] >= 256 ** (5 - len(found)):
        raise UrlInvalid("invalid IPv4 address")
    whole = found[-1] + sum([number << (8 * (3 - place)) for place, number in enumerate(found[:-1])])
    return str(IPv4Address(whole))


def _relative(text: str, base: Url) -> Url:
    start = text.replace("\\", "/")
    if start.startswith("//"):
        return _absolute(base.scheme, text.lstrip("/\\"))
    if not text or text[0] == "#":
        return _rest(_at(base, base.path, base.query), text, None)
    if text[0] == "?":
        return _rest(_at(base, base.path, None), text, None)
    if start[0] == "/":
        return _rest(base, text, "")
    return _rest(base, text, base.path.rpartition("/")[0] + "/")


def _at(base: Url, path: str, query: str | None) -> Url:
    return Url(base.scheme, base.user, base.password, base.host, base.port, path, query)


def _rest(url: Url, text: str, folder: str | None) -> Url:
    """A URL with path, query and fragment of a text; the path begins in `folder`, None keeps the old one."""
    text, marked, fragment = text.partition("#")
    path, asked, query = text.partition("?")
    new = url.path if folder is None else _path(folder + path)
    return Url(
        url.scheme,
        url.user,
        url.password,
        url.host,
        url.port,
        new,
        quoted(query, _QUERY) if asked else url.query if folder is None else None,
        quoted(fragment, _FRAGMENT) if marked else None,
    )


def _path(text: str) -> str:
    parts = text.replace("\\", "/").removeprefix("/").split("/")
    kept: list[str] = []
    for place, part in enumerate(parts):
        dots = _DOTS.get(part.lower(), "")
        if dots == ".." and kept:
            kept.pop()
        if not dots:
            kept.append(quoted(part, _PATH))
        elif place == len(parts) - 1:
            kept.append("")
    return "/" + "/".join(kept)


def quoted(text: str, marks: frozenset[str]) -> str:
    return "".join(
        [
            one
            if " " <= one <= "~" and one not in marks
            else "".join([f"%{byte:02X}" for byte in one.encode("utf-8", "replace")])
            for one in text
        ]
    )


def unquoted(text: str) -> bytes:
    """What stands for bytes as % and two digits becomes these bytes."""
    first, *others = text.encode("utf-8", "replace").split(b"%")
    found = [first]
    for one in others:
        try:
            found.append(bytes.fromhex(one[:2].decode("ascii")) + one[2:] if len(one) > 1 else b"%" + one)
        except ValueError:
            found.append(b"%" + one)
    return b"".join(found)
