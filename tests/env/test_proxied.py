"""The variables that lead to a proxy."""

from __future__ import annotations

from outfitter.env.layer import REQUESTED, RUNTIME_LEVEL, Layer
from outfitter.env.origin import REQUEST
from outfitter.env.proxied import HTTP_PORT, SOCKS_PORT, proxied
from outfitter.env.resolve import Rules, Stack


def test_every_program_is_led_to_the_proxy() -> None:
    layer = proxied(HTTP_PORT, SOCKS_PORT, local=False)
    values = dict(layer.values)
    assert (layer.level, layer.id, len(values)) == (RUNTIME_LEVEL, "network", 34)
    assert values["HTTPS_PROXY"] == values["https_proxy"] == values["PIP_PROXY"] == "http://127.0.0.1:3128"
    assert values["ALL_PROXY"] == values["ftp_proxy"] == "socks5h://127.0.0.1:1080"
    assert values["NO_PROXY"] == values["npm_config_noproxy"] == ""
    assert values["CODEX_NETWORK_ALLOW_LOCAL_BINDING"] == "0"


def test_without_socks_everything_goes_through_http() -> None:
    assert proxied(8, None, local=False).values["ALL_PROXY"] == "http://127.0.0.1:8"


def test_local_networks_may_be_reached_directly() -> None:
    values = proxied(8, 9, local=True).values
    assert values["NO_PROXY"].split(",")[:3] == ["localhost", "127.0.0.1", "::1"]
    assert values["CODEX_NETWORK_ALLOW_LOCAL_BINDING"] == "1"


def test_no_request_points_elsewhere() -> None:
    request = Layer(REQUESTED, "request", REQUEST, {"HTTP_PROXY": "http://x", "NO_PROXY": "*"})
    stack = Stack((), (), Rules(tidy=False, total=None))
    values = stack.resolve(request, (proxied(8, 9, local=False),)).values
    assert (values["HTTP_PROXY"], values["NO_PROXY"]) == ("http://127.0.0.1:8", "")
