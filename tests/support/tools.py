"""Programs that tests talk to, found where `make tools` put them.

A test that needs a missing one skips with the reason; under CI=true that skip is a failure.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from outfitter.system import LINUX, PLATFORM

ROOT = Path(__file__).resolve().parent.parent.parent
IN_CI = os.environ.get("CI") == "true"


def missing(what: str, remedy: str) -> None:
    """Skips the running test, or fails it under CI, because `what` is not installed."""
    reason = f"{what} is not installed: {remedy}"
    if IN_CI:
        pytest.fail(f"{reason} (a skip is a failure under CI=true)")
    pytest.skip(reason)


# Programs whose builds for Linux end at once without epoll, eventfd or /proc: `make test-portable` has none.
NEED_LINUX = {"caddy", "direnv", "fish", "mise", "nginx", "nix", "node", "uv"}


def needs_linux(what: str) -> None:
    """Skips the running test where calls are forbidden that `what` is built upon."""
    if PLATFORM == "linux" and not LINUX:
        pytest.skip(f"Linux only: {what} for Linux does not start without epoll or /proc")


def codex_binary() -> Path:
    """The native Codex executable, which is the reference server and the stock client."""
    needs_linux("Codex")
    found = sorted((ROOT / ".tools/node_modules/@openai").glob("codex-*/vendor/*/bin/codex"))
    if not found:
        missing("the Codex CLI", "run `make tools`")
    return found[0]


def claude_binary(which: str = "claude") -> Path:
    """Claude Code, as `make tools` installs it: "claude", or "claude-next", which is newer. No other one."""
    needs_linux("Claude Code")
    path = ROOT / ".tools" / which / "package/claude"
    if not path.exists():
        missing(f"Claude Code ({which})", "run `make tools`")
    return path


def gemini() -> list[str]:
    """The words that start Gemini CLI, as `make tools` installs it."""
    path = ROOT / ".tools/gemini/package/bundle/gemini.js"
    if not path.exists():
        missing("Gemini CLI", "run `make tools`")
    return [program("node"), str(path)]


def pyright() -> list[str]:
    """The words that start pyright, as `make tools` installs it."""
    path = ROOT / ".tools/pyright/package/index.js"
    if not path.exists():
        missing("pyright", "run `make tools`")
    return [program("node"), str(path)]


def program(name: str) -> str:
    """The path of a program: one that `make tools` installed, or the system's."""
    if name in NEED_LINUX:
        needs_linux(name)
    path = shutil.which(name, path=f"{ROOT}/.tools/bin:{os.environ.get('PATH', os.defpath)}")
    if path is None:
        missing(name, f"run `make tools`, or install {name} (Debian: apt-get install {name})")
    assert path is not None
    return path
