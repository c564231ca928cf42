"""Environments worth looking at, told by the code that tells them to people."""

from __future__ import annotations

from typing import Any

from outfitter.env.explain import View, explain, one_line
from outfitter.env.layer import (
    BASE,
    OVERRIDE,
    PROVIDER,
    REQUESTED,
    RUNTIME_LEVEL,
    SESSION,
    SETUP,
    SNAPSHOT,
    Layer,
    Operation,
)
from outfitter.env.origin import EXECUTOR, LOGIN_SHELL, REQUEST, RUNTIME, Origin
from outfitter.env.policy import Policy
from outfitter.env.redact import Secrets
from outfitter.env.resolve import Resolved, resolve

ROOT = "/home/ada/engine"
PROJECT = f"{ROOT}/outfitter.toml"
USER = "/home/ada/.config/outfitter/config.toml"
_THERE = ("/usr/local/bin", "/usr/bin", "/bin", f"{ROOT}/.venv/bin", "/opt/brew/bin", "/home/ada/.cargo/bin")


def told(show: str = "names", **more: Any) -> dict[str, Any]:
    """Every layer at work: something set, removed, refused, dropped and hidden."""
    base = {
        "PATH": "/opt/old/bin:/usr/local/bin:/usr/bin:/bin:/usr/bin/:$PATH",
        "HOME": "/home/ada",
        "USER": "ada",
        "LANG": "en_GB.UTF-8",
        "TERM": "xterm-256color",
        "EDITOR": "vim",
        "SHELL": "/bin/zsh",
        "SHLVL": "2",
        "XDG_RUNTIME_DIR": "/run/user/1000",
        "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/user/1000/bus",
        "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG",
        "AWS_REGION": "eu-west-2",
        "GITHUB_TOKEN": "ghp_0123456789abcdef",
        "DATABASE_URL": "postgres://ada:correct-horse@db/engine",
        "VIRTUAL_ENV": "/home/ada/other/.venv",
        "LS_COLORS": "rs=0:di=01;34:ln=01;36:mh=00:pi=40;33:so=01;35:do=01;35:bd=40;33;01",
    }
    layers = [
        Layer(BASE, "base", EXECUTOR, base, producer="daemon"),
        Layer(
            SNAPSHOT,
            "login-shell",
            LOGIN_SHELL,
            {"MANPATH": "/opt/brew/share/man:", "HOMEBREW_PREFIX": "/opt/brew"},
            operations=[Operation("PATH", "prepend", ("/opt/brew/bin", "/opt/brew/sbin"))],
            producer="/bin/zsh",
            note="loginShell of /bin/zsh",
            cost_ms=131.4,
        ),
        Layer(
            PROVIDER,
            "project",
            Origin("project", "[env]", PROJECT),
            {"ENGINE_MODE": "test", "LD_PRELOAD": "/tmp/x.so", "AWS_PROFILE": "ci", "PYTHONUNBUFFERED": "1"},
            unset=["VIRTUAL_ENV"],
            operations=[
                Operation(
                    "PATH", "prepend", (".venv/bin", "tools"), Origin("project", "[env] prepend", PROJECT, 9)
                )
            ],
            origins={
                "ENGINE_MODE": Origin("project", "[env] set", PROJECT, 4),
                "LD_PRELOAD": Origin("project", "[env] set", PROJECT, 5),
                "AWS_PROFILE": Origin("project", "[env] set", PROJECT, 6),
                "PYTHONUNBUFFERED": Origin("project", "[env] set", PROJECT, 7),
                "VIRTUAL_ENV": Origin("project", "[env] unset", PROJECT, 8),
            },
            root=ROOT,
        ),
        Layer(PROVIDER, "direnv", Origin("direnv", ".envrc"), state="blocked", note="direnv allow"),
        Layer(SETUP, "setup", Origin("setup", "scripts/setup"), state="failed", note="exit status 2"),
        Layer(SESSION, "hook:start", Origin("hook", "hook:start"), {"ENGINE_SESSION": "7f3a", "SHLVL": "9"}),
        Layer(
            OVERRIDE,
            "user",
            Origin("user", "[env]", USER),
            {"EDITOR": "true", "PAGER": "cat"},
            origins={"EDITOR": Origin("user", "[env] set", USER, 12)},
        ),
    ]
    policies = [
        Policy(
            "all",
            True,
            ("AWS_*", "*_TOKEN"),
            (("CI", "1"),),
            name="user:shell_environment_policy",
            source=Origin("policy", "user [shell_environment_policy]", USER),
            places={
                "exclude AWS_*": Origin("policy", "exclude", USER, 3),
                "exclude *_TOKEN": Origin("policy", "exclude", USER, 3),
                "set CI": Origin("policy", "set", USER, 5),
            },
        )
    ]
    request = Layer(REQUESTED, "request", REQUEST, {"ENGINE_MODE": "bench", "NOTE": "a\nb"}, author="user")
    runtime = Layer(RUNTIME_LEVEL, "runtime", RUNTIME, {"NO_COLOR": "1", "PAGER": "less"}, where_unset=True)
    return {**tell(resolve(layers, policies, request, [runtime]), show), **_AROUND, **more}


def tell(resolved: Resolved, show: str = "names") -> dict[str, Any]:
    view = View(Secrets(), show, exists=lambda path: path in _THERE, workspace=ROOT)
    base = {
        "kind": "daemon",
        "pid": 4711,
        "host": "engine.example",
        "user": "ada",
        "startedAtMs": 1_760_000_000_000,
        "variables": 16,
    }
    told = explain(resolved, view, base, "3f9c" * 16, "a17e" * 16)
    told["summary"] = one_line(resolved, "daemon")
    return told


_AROUND: dict[str, Any] = {
    "cwd": ROOT,
    "shell": {"login": "strip", "startup": "enforce", "snapshot": "loginShell"},
    "files": [
        {"path": USER, "kind": "user", "exists": True},
        {"path": PROJECT, "kind": "project", "exists": True},
    ],
    "programs": {
        "python": {
            "path": f"{ROOT}/.venv/bin/python",
            "realPath": "/usr/bin/python3.12",
            "layer": "L3",
            "id": "project",
            "writableByAgent": True,
        },
        "git": {"path": "/usr/bin/git", "layer": "L0", "id": "base"},
        "node": {"path": None},
    },
    "loginShell": {
        "shell": "/bin/bash",
        "state": "captured",
        "seconds": 0.112,
        "differences": [
            {
                "name": "PATH",
                "kind": "changed",
                "secret": False,
                "segmentsRemoved": [f"{ROOT}/.venv/bin", f"{ROOT}/tools"],
                "segmentsAdded": ["/usr/games"],
                "moved": True,
                "file": "/etc/profile",
                "line": 6,
            },
            {"name": "GITHUB_TOKEN", "kind": "added", "secret": True},
            {"name": "LESS", "kind": "added", "secret": False},
        ],
        "programs": {
            "python": {"path": "/usr/bin/python"},
            "git": {"path": "/usr/bin/git"},
            "node": {"path": None},
        },
    },
}
