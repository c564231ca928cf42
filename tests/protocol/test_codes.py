"""Every error has its place: a code on the wire, or a reason why no peer is ever answered with it."""

from __future__ import annotations

import pytest

from outfitter import errors
from outfitter.env.launches import Violation
from outfitter.errors import (
    FileFailed,
    HostUnsupported,
    InvalidParams,
    LaunchFailed,
    Malformed,
    MethodUnknown,
    OutfitterError,
    Refused,
    SessionAttached,
)
from outfitter.formats.document import Mistake
from outfitter.protocol import codes

ANSWERED: list[tuple[OutfitterError, tuple[int, str, dict[str, str]]]] = [
    (
        Malformed("trailing characters at column 3"),
        (
            -32600,
            "failed to parse JSON-RPC message: trailing characters at column 3",
            {"error": "malformed-message"},
        ),
    ),
    (Refused("unknown session id x"), (-32600, "unknown session id x", {"error": "refused"})),
    (errors.VariableInvalid("env: A", "A"), (-32602, "env: A", {"error": "variable-invalid"})),
    (InvalidParams("missing field `a`"), (-32602, "missing field `a`", {"error": "invalid-params"})),
    (
        MethodUnknown("fs/rename"),
        (-32601, "exec-server stub does not implement `fs/rename` yet", {"error": "method-unknown"}),
    ),
    (
        SessionAttached("s"),
        (-32010, "session s is already attached to another connection", {"error": "session-attached"}),
    ),
    (
        errors.Draining("2026-01-01T00:00:00Z"),
        (
            -32600,
            "this exec-server has been draining since 2026-01-01T00:00:00Z and takes no new sessions: use "
            "another one, or try again when it has been started again",
            {"error": "draining"},
        ),
    ),
    (
        errors.OperatorOnly("uid:7", "drain this server"),
        (
            -32600,
            "only an operator may drain this server, and you are uid:7: connect as the server's own user, or "
            "start it with --operator uid:7",
            {"error": "operator-only"},
        ),
    ),
    (LaunchFailed("no"), (-32603, "no", {"error": "launch-failed"})),
    (
        LaunchFailed("no", "ENOENT", "program"),
        (-32603, "no", {"error": "launch-failed", "errno": "ENOENT", "reason": "program"}),
    ),
    (FileFailed("no", "ENOENT"), (-32004, "no", {"error": "file-failed", "errno": "ENOENT"})),
    (FileFailed("no", "EACCES"), (-32600, "no", {"error": "file-failed", "errno": "EACCES"})),
    (FileFailed("no", "EISDIR"), (-32603, "no", {"error": "file-failed", "errno": "EISDIR"})),
    (FileFailed("too many"), (-32603, "too many", {"error": "file-failed"})),
    (HostUnsupported("no cgroup"), (-32603, "no cgroup", {"error": "host-unsupported"})),
    (
        errors.EnvironmentTooLarge("BIG", 200_000, None, 131_071),
        (
            codes.INVALID_PARAMS,
            "the variable BIG is too large: 200000 bytes, a program can get at most 131071; remove the "
            "variable, or put its content into a file",
            {"error": "environment-too-large"},
        ),
    ),
    (
        errors.EnvironmentTooLarge("BIG", 900_000, 1_100_000, 1_048_576),
        (
            codes.INVALID_PARAMS,
            "the environment is too large: 1100000 bytes, the limit is 1048576; the largest variable is BIG "
            "with 900000 bytes; remove it, or raise total_bytes under [limits]",
            {"error": "environment-too-large"},
        ),
    ),
    (
        errors.LimitExceeded("`processId`", 257, 256, "bytes", "use a shorter one"),
        (
            codes.INVALID_PARAMS,
            "`processId`: 257 bytes, at most 256 are allowed; use a shorter one",
            {"error": "limit-exceeded"},
        ),
    ),
    (
        errors.LoginRejected("bash", "-lc"),
        (codes.INVALID_REQUEST, str(errors.LoginRejected("bash", "-lc")), {"error": "login-rejected"}),
    ),
    (
        errors.HttpFailed("http/request failed: too many redirects"),
        (-32603, "http/request failed: too many redirects", {"error": "http-failed"}),
    ),
    (
        errors.AddressRefused("169.254.169.254", "169.254.0.0/16"),
        (
            -32602,
            "http/request failed: this exec-server does not connect to 169.254.169.254, which is in "
            "169.254.0.0/16: use another address, or have an operator allow it with --http-allow",
            {"error": "address-refused"},
        ),
    ),
    (
        errors.SandboxUnavailable("bubblewrap is not installed"),
        (
            -32602,
            "sandbox intent cannot be enforced on this executor: bubblewrap is not installed",
            {"error": "sandbox-unavailable"},
        ),
    ),
    (
        errors.MasksUnavailable("EPERM"),
        (codes.INVALID_REQUEST, str(errors.MasksUnavailable("EPERM")), {"error": "masks-unavailable"}),
    ),
    (
        errors.ProviderBlocked("nix", "/srv", "outfitter trust /srv", "it was edited"),
        (
            codes.INVALID_REQUEST,
            "nix is required in /srv and may not run (it was edited): read its files, then type: "
            "outfitter trust /srv",
            {"error": "provider-blocked"},
        ),
    ),
    (
        errors.ProviderFailed("nix", "/srv", "it ended with 1", "error: no flake\n"),
        (
            codes.INVALID_REQUEST,
            "nix is required in /srv and failed: it ended with 1; it printed: error: no flake",
            {"error": "provider-failed"},
        ),
    ),
    (
        errors.OverlayRefused("hook:h", ("hook:h: A: a value is a string",)),
        (
            codes.INVALID_PARAMS,
            "nothing from hook:h was added: hook:h: A: a value is a string; correct this, or leave out "
            "`strict`",
            {"error": "overlay-refused"},
        ),
    ),
    (
        errors.LaunchRefused("a command", "skill", (Violation("missing", "A", "no layer sets it"),)),
        (
            codes.INVALID_PARAMS,
            "a command cannot be launched as `skill`: A: no layer sets it",
            {"error": "launch-refused"},
        ),
    ),
    (
        errors.OverlayUnknown("rocm", ("msvc",)),
        (
            codes.INVALID_REQUEST,
            "no overlay is named `rocm` here: add [overlays.rocm], or use one of: `msvc`",
            {"error": "overlay-unknown"},
        ),
    ),
    (
        errors.ScopeUnknown("thread/tests"),
        (
            codes.INVALID_REQUEST,
            "this server has no scope `thread/tests`: a name with `/` is a fork, and forks are lost when "
            "the server restarts; fork `thread` again, or choose a name without `/`",
            {"error": "scope-unknown"},
        ),
    ),
    (
        errors.QuotaReached("sessions in use", 128, "close one"),
        (
            codes.INVALID_REQUEST,
            "you already have 128 sessions in use, your share of this exec-server: close one",
            {"error": "quota-reached"},
        ),
    ),
    (
        errors.DetachRefused("this server ends a command 60 s after its client has gone", 60.0),
        (
            codes.INVALID_REQUEST,
            "this server ends a command 60 s after its client has gone",
            {"error": "detach-refused"},
        ),
    ),
    (
        errors.Exhausted("no descriptor is left", "EMFILE"),
        (codes.INTERNAL, "no descriptor is left", {"error": "exhausted", "errno": "EMFILE"}),
    ),
    (
        errors.OverlaysFull("scopes", 256),
        (
            codes.INVALID_REQUEST,
            "the limit of 256 scopes is reached: free some with environment/overlay/drop",
            {"error": "overlays-full"},
        ),
    ),
    (
        errors.OverlaysFull("scopes", 256, 127),
        (
            codes.INVALID_REQUEST,
            "you already have 127 scopes, your share of the 256 of this exec-server: free some with "
            "environment/overlay/drop",
            {"error": "overlays-full"},
        ),
    ),
    (
        errors.SetupBlocked("/srv", "outfitter trust /srv"),
        (
            codes.INVALID_REQUEST,
            "the setup of /srv is required and may not run: read its files, then type: outfitter trust /srv",
            {"error": "setup-blocked"},
        ),
    ),
    (
        errors.SetupFailed("/srv", "it ended with status 3", "/state/setups/1.log", "no such package"),
        (
            codes.INVALID_REQUEST,
            "the setup of /srv is required and failed: it ended with status 3; its output is in "
            "/state/setups/1.log; fix it, then type: outfitter setup --again /srv",
            {"error": "setup-failed"},
        ),
    ),
    (
        errors.FileInvalid([Mistake("/srv/outfitter.toml", 3, "`x` is not known", "remove it")]),
        (
            codes.INVALID_REQUEST,
            str(errors.FileInvalid([Mistake("/srv/outfitter.toml", 3, "`x` is not known", "remove it")])),
            {"error": "file-invalid"},
        ),
    ),
]

# Bases that nothing raises, errors that end the connection instead, and errors of our own side.
NEVER_ANSWERED = {
    errors.OutfitterError,
    errors.ProtocolError,
    errors.LocalProtocolError,
    errors.RemoteProtocolError,
    errors.ConnectionLost,
    errors.Disconnected,
    errors.SessionExpired,
    errors.LeaseLost,
    errors.LeaseRefused,
    errors.EngineFailed,
    errors.RequestFailed,
    errors.NotFound,
    errors.ProgramNotFound,
    errors.PermissionDenied,
    errors.AlreadyExists,
    errors.IsADirectory,
    errors.NotADirectory,
    errors.CommandFailed,
    errors.SettingInvalid,
    errors.AdapterMissing,
    errors.ContractViolated,
    errors.CapabilityMissing,
    errors.DialFailed,
    errors.EnvironmentReplaced,
    errors.EnvironmentUnknown,
    errors.FileChanged,
    errors.OutputLost,
    errors.OutputTooLarge,
    errors.Overloaded,
    errors.TimedOut,
}

CLASSES = {
    value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, OutfitterError)
}


@pytest.mark.parametrize(("error", "expected"), ANSWERED, ids=lambda value: type(value).__name__)
def test_an_error_leaves_with_its_code_text_and_slug(error: OutfitterError, expected: object) -> None:
    assert codes.of(error) == expected


def test_every_error_class_is_answered_or_never_leaves() -> None:
    answered = {type(error) for error, _ in ANSWERED}
    assert answered | NEVER_ANSWERED == CLASSES
    assert answered & NEVER_ANSWERED == set()


def test_every_refusal_is_answered() -> None:
    assert {kind for kind in CLASSES if issubclass(kind, Refused)} <= {type(error) for error, _ in ANSWERED}


def test_slugs_are_unique() -> None:
    slugs = [kind.slug for kind in CLASSES]
    assert sorted(slugs) == sorted(set(slugs))


def test_the_docstring_draws_every_class() -> None:
    assert errors.__doc__ is not None
    assert [kind.__name__ for kind in CLASSES if kind.__name__ not in errors.__doc__] == []


def test_the_codes_are_those_of_the_protocol() -> None:
    assert [
        codes.INVALID_REQUEST,
        codes.METHOD_NOT_FOUND,
        codes.INVALID_PARAMS,
        codes.INTERNAL,
        codes.NOT_FOUND,
        codes.SESSION_ATTACHED,
    ] == [-32600, -32601, -32602, -32603, -32004, -32010]
