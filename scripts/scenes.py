"""What scripts/terminal-svg records: the first commands of each kind of user."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PROJECT = '[env]\nset = { APP_ENV = "test" }\n'
SHOW = """bash -lc 'which python3; echo "key: ${API_KEY-withheld}"'"""
FIRST = """\
from outfitter import sync

with sync.local() as client:
    done = client.run(["sh", "-c", "echo made it; exit 3"], text=True, timeout=10)
    print(done.exit_code, done.stdout, end="")
"""


class Step(NamedTuple):
    """A caption, and the command below it."""

    caption: str
    command: str


class Scene(NamedTuple):
    """A recording. What the first `foreign` steps print belongs to the machine, and not to Outfitter."""

    title: str
    steps: tuple[Step, ...]
    files: dict[str, str] = {}
    environ: dict[str, str] = {}
    trusted: bool = False
    foreign: int = 0


SCENES = {
    "explain": Scene(
        "Outfitter runs a command and explains its environment",
        (
            Step("An agent's command today: the wrong Python, and a secret:", SHOW),
            Step(
                "The same command in the environment of the project, without the secret:",
                f"outfitter run --explain --default-excludes -- {SHOW}",
            ),
            Step(
                "Where does each variable come from, and which rule took one away?",
                "outfitter env explain --default-excludes PATH APP_ENV API_KEY",
            ),
        ),
        files={"outfitter.toml": PROJECT},
        environ={"API_KEY": "s3cr3t"},
        trusted=True,
        foreign=1,
    ),
    "developer": Scene(
        "First steps with Codex or Claude Code",
        (
            Step(
                "Codex runs its commands through Outfitter from now on (Claude Code: --agent claude):",
                "outfitter init --yes --agent codex",
            ),
            Step("What would the project's files do to a command? Allow it:", "outfitter trust --yes"),
            Step(
                "What an agent's command gets, though it starts a login shell:",
                """outfitter run -- bash -lc 'echo "$APP_ENV: $(command -v python)"'""",
            ),
            Step("Is something wrong? Ask where it came from:", "outfitter env explain APP_ENV"),
        ),
        files={"outfitter.toml": PROJECT},
    ),
    "harness": Scene(
        "First steps with a harness of your own",
        (
            Step("A command, its exit code and its output:", "cat first.py; python first.py"),
            Step("An agent with tools, timeouts and files (examples/agent_loop.py):", "python agent_loop.py"),
            Step(
                "Does every launch of an agent keep the harness's contract?",
                "outfitter contract check --agent codex autoskillit.toml",
            ),
        ),
        files={
            "first.py": FIRST,
            "agent_loop.py": (EXAMPLES / "agent_loop.py").read_text(),
            "autoskillit.toml": (EXAMPLES / "autoskillit.toml").read_text(),
        },
    ),
    "platform": Scene(
        "First steps with a server for others",
        (
            Step(
                "A token, and a server that asks for it:",
                "(umask 077; python -c 'import secrets; print(secrets.token_urlsafe(32))' > token)",
            ),
            Step(
                "With TLS it listens for other machines: docs/howto/tls.md",
                "outfitter serve --ws-auth capability-token --ws-token-file token > url 2>log &",
            ),
            Step(
                "Output streams, and the exit code is yours:",
                'outfitter run --on "$(cat url)" --token-file token -- '
                "sh -c 'echo building; exit 3'; echo $?",
            ),
            Step("Nobody gets in without the token:", 'outfitter run --on "$(cat url)" -- true; echo $?'),
        ),
    ),
    "researcher": Scene(
        "First steps with reproducible environments",
        (
            Step("Record the environment that commands get, and commit the file:", "outfitter env lock"),
            Step("Is it the same, here and on every machine?", "outfitter env check; echo $?"),
            Step(
                "Somebody changes a variable, and allows it:",
                "sed -i s/test/prod/ outfitter.toml; outfitter trust --yes >/dev/null 2>&1; "
                "outfitter env check",
            ),
            Step(
                "One command as events, ended after a minute:",
                "outfitter run --json --timeout 60 -- sh -c 'echo hello'",
            ),
            Step("300 commands, 16 at a time (examples/many_commands.py):", "python many_commands.py"),
        ),
        files={
            "outfitter.toml": PROJECT,
            "many_commands.py": (EXAMPLES / "many_commands.py").read_text(),
        },
        trusted=True,
    ),
}
