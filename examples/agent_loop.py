"""An agent: a model asks for commands and files, and this loop runs them until the model is done.

The model here is a script, so that the program runs without a network. Put a real one in its place.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import outfitter

TURNS = 20  # then the agent is going round in circles
SECONDS = 60.0  # for a command, unless the model asks for less
SHOWN = 10_000  # characters of a result that the model gets to see


class ScriptedModel:
    """Answers as a model would: with the name and the arguments of a tool, or with its last words."""

    def __init__(self) -> None:
        self.script = iter(SCRIPT)

    async def reply(self, conversation: list[str]) -> dict[str, Any]:
        return next(self.script)


SCRIPT: list[dict[str, Any]] = [
    {"tool": "list_files", "path": "."},
    {"tool": "run_command", "command": "sh check.sh", "seconds": 0.5},
    {"tool": "read_file", "path": "greet.sh"},
    {"tool": "read_file", "path": "ready"},
    {"tool": "write_file", "path": "greet.sh", "text": 'echo "hello, $1"\n'},
    {"tool": "run_command", "command": "sh check.sh"},
    {"say": "greet.sh waited for a file that nobody makes; it does not wait any more."},
]


class Tools:
    """What the model may do. A tool returns text for the model, also when something went wrong."""

    def __init__(self, client: outfitter.Client, folder: Path) -> None:
        self.client = client
        self.folder = folder
        # The model's words decide what runs: it gets no variable that could be a secret.
        self.policy = outfitter.EnvPolicy("core", ignore_default_excludes=False)
        self.contract = outfitter.EnvContract("model")

    async def run_command(self, command: str, seconds: float = SECONDS) -> str:
        try:
            done = await self.client.shell(
                command,
                cwd=self.folder,
                policy=self.policy,
                contract=self.contract,
                timeout=min(seconds, SECONDS),
                merge=True,
                max_output=SHOWN,
                overflow="ends",
            )
        except outfitter.TimedOut as error:
            return f"{error}; it had printed: {error.stdout.decode(errors='replace') or 'nothing'}"
        return f"exit code {done.exit_code}\n{done.text}"

    async def read_file(self, path: str) -> str:
        return (await self.client.files.read(self.folder / path, limit=SHOWN)).decode(errors="replace")

    async def write_file(self, path: str, text: str) -> str:
        await self.client.files.write(self.folder / path, text, parents=True)
        return f"{len(text)} characters written"

    async def list_files(self, path: str) -> str:
        entries = await self.client.files.list(self.folder / path)
        return "\n".join(sorted(f"{one.name}/" if one.is_directory else one.name for one in entries))

    async def use(self, tool: str, arguments: dict[str, Any]) -> str:
        known: dict[str, Callable[..., Awaitable[str]]] = {
            "run_command": self.run_command,
            "read_file": self.read_file,
            "write_file": self.write_file,
            "list_files": self.list_files,
        }
        call = known.get(tool)
        if call is None:
            return f"there is no tool {tool}: use one of {', '.join(known)}"
        try:
            return await call(**arguments)
        except FileNotFoundError as error:  # outfitter.NotFound is one
            return f"no such file: {Path(str(getattr(error, 'path', error))).name}"
        except outfitter.OutfitterError as error:
            return f"that did not work: {error}"


async def work(model: ScriptedModel, tools: Tools, task: str) -> str:
    conversation = [task]
    for _ in range(TURNS):
        wanted = await model.reply(conversation)
        if "say" in wanted:
            return str(wanted["say"])
        tool = wanted.pop("tool")
        result = await tools.use(tool, wanted)
        conversation += [f"{tool} {wanted}", result]
        print(f"> {tool} {' '.join(str(value).strip() for value in wanted.values())}")
        print("".join(f"  {line}\n" for line in result.splitlines()), end="")
    return f"no result after {TURNS} turns"


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "greet.sh").write_text('until [ -e ready ]; do sleep 1; done\necho "hello, $1"\n')
        (folder / "check.sh").write_text('[ "$(sh greet.sh you)" = "hello, you" ] && echo passed\n')
        async with outfitter.local() as client:
            print(await work(ScriptedModel(), Tools(client, folder), "make check.sh pass"))


asyncio.run(main())
