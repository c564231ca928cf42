"""outfitter rendezvous and outfitter enrol as click sees them."""

from __future__ import annotations

from typing import Any

import click

from ..flags import DIALS_OUT, END_WITH_STDIN, JSON, JSON_FIRST, Flag
from ..options import has

_ROLES = ("execute", "use", "execute-pool", "use-pool")  # as `relay.authority` has them

_STORE = Flag("--store", "text", "What the service remembers: a file, or postgresql://... .", "FILE|URL")


@click.group("rendezvous")
def rendezvous_group() -> None:
    """Host the service that remote executors dial."""


@rendezvous_group.command("serve")
@has(
    Flag(
        "--listen",
        "text",
        "Listen on ws://IP:PORT or wss://IP:PORT. Port 0 means any free port; the first line printed is the "
        "URL of the registry.",
        "URL",
        "ws://127.0.0.1:0",
    ),
    Flag("--url", "text", "How others reach the service, if a proxy is in front: https://HOST/PATH.", "URL"),
    _STORE,
    Flag(
        "--instance",
        "text",
        "Where other services on the same store reach this one (without TLS, in a network of their own).",
        "HOST:PORT",
        "",
    ),
    Flag("--tls-cert", "text", "For wss://: the certificate and its chain (PEM).", "FILE"),
    Flag("--tls-key", "text", "For wss://: the private key of the certificate (PEM).", "FILE"),
    Flag("--metrics", "flag", "Answer GET /metrics, for Prometheus, to this user on this machine."),
    Flag(
        "--metrics-token-file",
        "text",
        "With --metrics: answer whoever shows a token of this file (one a line) instead, from anywhere.",
        "FILE",
    ),
    END_WITH_STDIN,
    Flag("--log-level", "text", "Write a log to stderr.", choices=("debug", "info", "warning")),
    JSON_FIRST,
)
def rendezvous_serve_command(**flags: Any) -> int:
    """Run the registry and the rendezvous.

    Executors and their users meet here. The service sees who connects to whom, and ciphertext.
    """
    from .rendezvous import serve

    return serve(flags)


@rendezvous_group.command("code")
@has(
    Flag(
        "--role",
        "text",
        "What the code is for: to be the executor, or to use it; and the same for all executors of a pool.",
        initial="use",
        choices=_ROLES,
    ),
    Flag("--name", "text", "Whom the code is for, for the list.", "NAME"),
    _STORE,
    JSON,
)
@click.argument("environment", metavar="ENVIRONMENT")
def rendezvous_code_command(environment: str, **flags: Any) -> int:
    """Print a one-time code for an environment.

    The environment is made if it does not exist. The code works once, for 15 minutes: `outfitter enrol URL
    --code CODE`.
    """
    from .rendezvous import code

    return code(environment, flags)


@rendezvous_group.command("list")
@has(_STORE, JSON)
def rendezvous_list_command(**flags: Any) -> int:
    """List environments, who may use them, and when they were last seen."""
    from .rendezvous import list_all

    return list_all(flags)


@rendezvous_group.command("audit")
@has(
    _STORE,
    Flag("--limit", "count", "How many, the newest first.", "N", 100),
    JSON,
)
def rendezvous_audit_command(**flags: Any) -> int:
    """Show who did what, and when.

    Who has enrolled, registered, connected, been refused and been revoked: 100,000 rows and 90 days are kept.
    """
    from .rendezvous import audit

    return audit(flags)


@rendezvous_group.command("revoke")
@has(_STORE, JSON)
@click.argument("principal", metavar="PRINCIPAL")
def rendezvous_revoke_command(principal: str, **flags: Any) -> int:
    """End what somebody may do.

    `outfitter rendezvous list` shows who there is.
    """
    from .rendezvous import revoke

    return revoke(principal, flags)


@rendezvous_group.command("rotate")
@has(
    Flag(
        "--role",
        "text",
        "Which of your tokens: that of the executor, or that of a user.",
        initial="use",
        choices=_ROLES,
    ),
    JSON,
)
@click.argument("url", metavar="URL")
@click.argument("environment", metavar="ENVIRONMENT")
def rendezvous_rotate_command(url: str, environment: str, **flags: Any) -> int:
    """Exchange your token for a new one.

    The old one works for ten minutes more. The file that `outfitter enrol` wrote gets the new one. An
    executor that runs reads it there.
    """
    from .enrol import rotate

    return rotate(url, environment, flags)


@rendezvous_group.command("key")
@has(JSON)
def rendezvous_key_command(**flags: Any) -> int:
    """Print your key as a user of remote executors.

    The key is made if there is none. The owner of an executor adds it to the file of
    `outfitter serve --authorized-harnesses`.
    """
    from .enrol import key

    return key(flags)


@click.command("forward")
@has(
    Flag("--connect", "text", "The server that the streams go to: ws://HOST:PORT or wss://HOST:PORT.", "URL"),
    *DIALS_OUT,
    Flag("--log-level", "text", "Write a log to stderr.", choices=("debug", "info", "warning")),
    JSON_FIRST,
)
def forward_command(**flags: Any) -> int:
    """Make an exec-server that listens reachable through a relay.

    Messages are passed on and not looked at. The server must not ask for a token.
    """
    for option in ("connect", "remote"):
        if flags[option] is None:
            raise click.UsageError(f"--{option} is needed")
    from .forward import forward

    return forward(flags)


@click.command("enrol")
@has(
    Flag("--code", "text", "The one-time code; `-` reads it from standard input.", "CODE", "-"),
    JSON,
)
@click.argument("url", metavar="URL")
def enrol_command(url: str, **flags: Any) -> int:
    """Exchange a one-time code for a token of this user.

    URL is what `outfitter rendezvous serve` prints. The token is kept in a private file.
    """
    from .enrol import enrol

    return enrol(url, flags)


@click.command("up")
@has(
    Flag("--environment", "text", "What the executor is called.", "ID", "here"),
    Flag("--listen", "text", "Where the rendezvous listens.", "URL", "ws://127.0.0.1:0"),
    Flag("--store", "text", "The file that the rendezvous keeps its state in.", "FILE"),
    Flag(
        "--json",
        "flag",
        "Print JSON lines: url, pid and more once the executor is connected, then what the command printed.",
    ),
)
def up_command(**flags: Any) -> int:
    """Try remote executors on one machine.

    Hosts a rendezvous, enrols this machine, serves, and runs a command through it. Each step is shown as the
    command that you would type. Ctrl-C ends all of it.
    """
    from .up import up

    return up(flags)
