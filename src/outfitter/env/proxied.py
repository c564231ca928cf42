"""The variables that lead programs to the proxy of the managed network, as a layer.

They are of the runtime's level: no request and no project can point a command elsewhere by accident. In a
sandbox there is no elsewhere.
"""

from __future__ import annotations

from .layer import RUNTIME_LEVEL, Layer
from .origin import Origin

# In a sandbox ports can always be the same: its network is its own.
HTTP_PORT, SOCKS_PORT = 3128, 1080

_HTTP = (
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "http_proxy",
    "https_proxy",
    "WS_PROXY",
    "WSS_PROXY",
    "ws_proxy",
    "wss_proxy",
    "YARN_HTTP_PROXY",
    "YARN_HTTPS_PROXY",
    "npm_config_http_proxy",
    "npm_config_https_proxy",
    "npm_config_proxy",
    "NPM_CONFIG_HTTP_PROXY",
    "NPM_CONFIG_HTTPS_PROXY",
    "NPM_CONFIG_PROXY",
    "BUNDLE_HTTP_PROXY",
    "BUNDLE_HTTPS_PROXY",
    "PIP_PROXY",
    "DOCKER_HTTP_PROXY",
    "DOCKER_HTTPS_PROXY",
)
_SOCKS = ("ALL_PROXY", "all_proxy", "FTP_PROXY", "ftp_proxy")
_NONE = ("NO_PROXY", "no_proxy", "npm_config_noproxy", "NPM_CONFIG_NOPROXY", "BUNDLE_NO_PROXY")
_LOCAL = "localhost,127.0.0.1,::1,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16"
_ORIGIN = Origin("network", "leads to the proxy of the managed network")


def proxied(http: int, socks: int | None, *, local: bool) -> Layer:
    """The layer for a proxy at these ports. `local`: the command may listen and connect on its own loopback,
    so that addresses of such networks do not go through the proxy."""
    plain = f"http://127.0.0.1:{http}"
    values = dict.fromkeys(_HTTP, plain)
    values |= dict.fromkeys(_SOCKS, plain if socks is None else f"socks5h://127.0.0.1:{socks}")
    values |= dict.fromkeys(_NONE, _LOCAL if local else "")
    values |= {
        "ELECTRON_GET_USE_PROXY": "true",
        "NODE_USE_ENV_PROXY": "1",
        "CODEX_NETWORK_PROXY_ACTIVE": "1",
        "CODEX_NETWORK_ALLOW_LOCAL_BINDING": "1" if local else "0",
    }
    return Layer(RUNTIME_LEVEL, "network", _ORIGIN, values)
