"""Where a variable's value came from."""

from __future__ import annotations

from ..record import record


@record
class Origin:
    """A source of values: `kind` is a stable word, `detail` says which one of its kind.

    `file` and `line` are given where a file says it. `secret`: the source says that its values are.
    """

    kind: str
    detail: str
    file: str | None = None
    line: int | None = None
    secret: bool = False


EXECUTOR = Origin("executor", "from the server's own environment")
LOGIN_SHELL = Origin("login-shell", "from the login shell's snapshot")
SHELL_SNAPSHOT = Origin("shell-snapshot", "from the shell snapshot that the client asked for")
REQUEST_POLICY = Origin("policy", "the request's envPolicy")
POLICY_SET = Origin("policy", "set by envPolicy.set")
REQUEST = Origin("request", "given in the request's env")
RUNTIME = Origin("runtime", "supplied by Outfitter")
# Of variables of the server's own environment, by the word of `serve --origin`.
GIVEN = {"pool": Origin("pool", "set by the pool"), "engine": Origin("engine", "set by the pool's engine")}
TERMINAL = Origin("terminal", "the account's login shell, added because the command has a terminal")
