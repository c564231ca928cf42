"""MCP servers over HTTP on loopback, made with the `mcp` package; one authorizes its clients itself."""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from mcp_types import JSONRPCMessage
from pydantic import AnyHttpUrl

from .machine import wait_until
from .mcpserver import make


@contextlib.contextmanager
def serving_app(app: Any, listening: socket.socket) -> Iterator[None]:
    """An ASGI application behind this socket, in a thread."""
    config = uvicorn.Config(app, log_level="error", lifespan="on", ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive(), "the application serves")
        yield
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


@contextlib.contextmanager
def web_server(**settings: Any) -> Iterator[str]:
    """The URL of an MCP server; `settings` are of its application."""
    listening = socket.create_server(("127.0.0.1", 0))
    with serving_app(make().streamable_http_app(**settings), listening):
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"


class Kept(EventStore):
    """Keeps all events, so that a client can come back to them."""

    def __init__(self) -> None:
        self._events: list[tuple[str, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        last = int(last_event_id)
        stream_id = self._events[last - 1][0]
        for number, (whose, message) in enumerate(self._events[last:], last + 1):
            if whose == stream_id and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream_id


class Authority(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Grants everything to everybody; `grants` are the kinds that were used."""

    def __init__(self) -> None:
        self.lifetime = 3600
        self.grants: list[str] = []
        self._clients: dict[str, OAuthClientInformationFull] = {}
        self._codes: dict[str, AuthorizationCode] = {}
        self._tokens: dict[str, AccessToken] = {}
        self._refreshes: dict[str, RefreshToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self._clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.grants.append("registration")
        assert client_info.client_id is not None
        self._clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        assert client.client_id is not None
        code = AuthorizationCode(
            code=secrets.token_hex(20),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            **params.model_dump(
                include={"code_challenge", "redirect_uri", "redirect_uri_provided_explicitly"}
            ),
            resource=params.resource,
        )
        self._codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self._codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        self.grants.append("code")
        del self._codes[authorization_code.code]
        return self._grant(authorization_code)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return self._refreshes.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        self.grants.append("refresh")
        return self._grant(refresh_token)

    def _grant(self, by: AuthorizationCode | RefreshToken) -> OAuthToken:
        about = by.model_dump(include={"client_id", "scopes", "resource"})
        access, refresh = secrets.token_hex(20), secrets.token_hex(20)
        self._tokens[access] = AccessToken(token=access, **about)
        self._refreshes[refresh] = RefreshToken(token=refresh, **about)
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=self.lifetime)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self._tokens.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        raise AssertionError("nobody revokes")


@contextlib.contextmanager
def guarded_server() -> Iterator[tuple[str, Authority]]:
    """The URL of an MCP server that wants a token, and who grants it."""
    authority = Authority()
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    settings = AuthSettings(
        issuer_url=AnyHttpUrl(url),
        resource_server_url=AnyHttpUrl(f"{url}/mcp"),
        client_registration_options=ClientRegistrationOptions(enabled=True),
        validate_token_resource=True,
    )
    guarded: MCPServer = make(auth=settings, auth_server_provider=authority)
    with serving_app(guarded.streamable_http_app(), listening):
        yield f"{url}/mcp", authority
