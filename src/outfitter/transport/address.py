"""Where a WebSocket server is: a URL becomes the parts that are dialled."""

from __future__ import annotations

from ..errors import SettingInvalid
from ..record import record
from .unix import PREFIX, path_of

LOOPBACK = ("127.0.0.1", "::1", "localhost")


@record
class Address:
    """Where a server is: the parts of a `ws://` or `wss://` URL, or the path of a unix socket."""

    text: str
    host: str
    port: int
    path: str
    secure: bool
    socket_path: str | None = None

    @property
    def loopback(self) -> bool:
        if self.host == "localhost" or self.socket_path is not None:
            return True
        import ipaddress

        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False  # a name, whatever it begins with


def parse_address(url: str) -> Address:
    """Raises SettingInvalid for what cannot be dialled."""
    if url.startswith(PREFIX):
        path = path_of(url)
        return Address(PREFIX + path, "localhost", 80, "/", secure=False, socket_path=path)
    from urllib.parse import urlsplit

    full, url = url, url.partition("?")[0]  # what a text below shows has no query: some put a secret there
    try:
        parts = urlsplit(full)
        port = parts.port
    except ValueError as error:
        raise SettingInvalid(f"`{url}` is not a URL: {error}") from None
    if parts.scheme not in ("ws", "wss") or not parts.hostname:
        raise SettingInvalid(
            f"`{url}` is not a WebSocket URL: write ws://HOST:PORT, wss://HOST:PORT or unix:PATH"
        )
    if parts.username is not None or parts.password is not None:
        # Not repeated in the text: it holds a secret.
        raise SettingInvalid("the URL contains credentials, which could appear in logs: pass a token instead")
    if port == 0:
        raise SettingInvalid(f"`{url}` cannot be used: no server listens on port 0")
    try:
        host = parts.hostname.encode("idna").decode()
    except UnicodeError as error:
        raise SettingInvalid(f"`{url}` is not a URL: its host name is invalid: {error}") from None
    secure = parts.scheme == "wss"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not path.isascii() or not path.isprintable() or " " in path:
        raise SettingInvalid(f"the path of `{url}` must be percent-encoded ASCII")
    shown = f"{parts.scheme}://{parts.netloc}{parts.path}" + ("?…" if parts.query else "")
    return Address(shown, host, port or (443 if secure else 80), path, secure)


def usual_address(url: str) -> Address | None:
    """What `parse_address` gives for `ws://HOST:PORT` of this machine, read without `urllib`; else None."""
    host, _, port = url.removeprefix("ws://").removesuffix("/").rpartition(":")
    host = "::1" if host == "[::1]" else "" if host == "::1" else host
    if not url.startswith("ws://") or host not in LOOPBACK or not port.isascii() or not port.isdecimal():
        return None
    return Address(url, host, int(port), "/", secure=False) if 0 < int(port) < 1 << 16 else None


def upgrade_lines(address: Address, key: str) -> list[str]:
    """The head of a request to become a WebSocket, without the blank line."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    default = 443 if address.secure else 80
    return [
        f"GET {address.path} HTTP/1.1",
        f"Host: {host}" if address.port == default else f"Host: {host}:{address.port}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key}",
        "Sec-WebSocket-Version: 13",
    ]
