"""`dir()`, completion and `help()` show what is public of every class and every handle, and nothing else."""

from __future__ import annotations

import asyncio
import inspect
import pydoc
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import outfitter
from outfitter import agents, environments, sync
from outfitter.adapters import mcp
from outfitter.client import httpx
from outfitter.client.answers import NetworkDecision, NetworkTarget
from outfitter.client.commands import Starting

from .test_docstrings import HANDLES

# Everything that completion may show. A name that is not here is plumbing.
CLIENT = (
    "attach base call compare download drop_overlay environment explain fail failed files http info lines "
    "offers overlay overlay_event processes put_overlay require resolve run session_id shell shell_argv "
    "start state status upload where"
)
COMPLETED = (
    "args check dropped duration environment exit_code ok output reason returncode sandbox_denied signal "
    "startup stderr stdout text truncated"
)
PROCESS = (
    "close_stdin closed discard end environment exit_code interrupt keep missed pid process_id reason resize "
    "sandbox_denied signal startup stderr stdout terminate tty wait warnings write"
)
FILES = (
    "canonicalize chmod copy download exists list make_directory open read read_lines read_text remove "
    "rename search stat upload walk watch within write"
)
LEASE = "fenced group id node state waited workspace"
POOL = "drain failed id lease map metrics refresh size status"
SHOWN = {
    "Client": f"{CLIENT} aclose",
    "sync.Client": f"{CLIENT} close",
    "Completed": f"{COMPLETED} as_text",
    "CompletedText": COMPLETED,
    "RemoteProcess": PROCESS,
    "OutputReader": "read readline",
    "Transcript": "close closed find take text wait",
    "Output": "data stream",
    "Exited": "code reason sandbox_denied signal",
    "Starting": "close send throw",
    "Files": FILES,
    "FileInfo": "created_ms is_directory is_file is_symlink mode modified_ms size",
    "FolderEntry": "is_directory is_file is_symlink kind link_target mode modified_ms name path size",
    "Walked": "entries errors truncated",
    "Searched": "errors files_searched files_skipped matches truncated",
    "FoundLine": "column end line path start text",
    "RemoteFile": "abandon blocks close mode read_at uri write_at",
    "Watch": "close watch_id",
    "FileChanges": "changes overflow",
    "FileUri": "host local_path path text",
    "Http": "request stream",
    "HttpAnswer": "body header headers status",
    "HttpStream": "close headers status",
    "ProcessInfo": "closed cwd dropped_bytes exit_code exited first_seq next_seq pid process_id program "
    "started_at_ms tty",
    "EnvironmentInfo": "base capabilities cwd home platform provider_id raw session_retention shell_name "
    "shell_path temp_dir temporary_directories version weaker",
    "NetworkTarget": "host port protocol",
    "NetworkDecision": "client decision host method policy_override port process_id protocol reason scope "
    "source timestamp",
    "EnvContract": "author kind login overlays scope startup unset",
    "EnvPolicy": "exclude ignore_default_excludes include_only inherit set",
    "ByContract": "",
    "Sandbox": "confines deny_read domains full_access mode network read_only roots workspace_write writable",
    "Pool": f"{POOL} aclose",
    "sync.Pool": POOL,
    "Lease": f"{LEASE} client lost",
    "PlainLease": LEASE,
    "Outcome": "attempts error index item lease node seconds state value waited",
    "SharedClient": "aclose close do files run shell",
    "SharedFiles": "copy download exists list make_directory read read_lines read_text remove rename stat "
    "upload walk write",
    "Pending": "cancel result",
}


def shown(kind: type) -> set[str]:
    name = kind.__name__
    plain = f"sync.{name}" if kind.__module__ == "outfitter.sync" else name
    return set(SHOWN[plain if plain in SHOWN else name].split())


def public(names: list[str]) -> set[str]:
    return {name for name in names if not name.startswith("_")}


def kinds() -> Iterator[type]:
    yield from HANDLES
    yield Starting
    for module in (outfitter, sync):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) and not issubclass(value, BaseException):
                yield value


@pytest.mark.parametrize(
    "kind", dict.fromkeys(kinds()), ids=lambda kind: f"{kind.__module__}.{kind.__name__}"
)
def test_a_class_shows_what_is_public(kind: type) -> None:
    assert public(dir(kind)) <= shown(kind)
    helped = [name for name, *_ in pydoc.classify_class_attrs(kind) if pydoc.visiblename(name, obj=kind)]
    assert public(helped) <= shown(kind)


def made_by_asyncio(seen: list[object]) -> None:
    async def scenario() -> None:
        async with outfitter.local() as client:
            files = client.files
            seen.extend((client, files, client.http, client.info, client.resolve("/"), outfitter.CONTRACT))
            starting = client.start(["cat"], stdin=True)
            async with starting as process:
                seen.extend((starting, process, process.stdout, outfitter.Transcript(process)))
            done = await client.run(["true"])
            seen.extend((done, done.as_text(), (await client.processes())[0]))
            await files.write("a.txt", "x = 1")
            found = await files.search(".", "x")
            seen.extend((await files.stat("a.txt"), found, found.matches[0]))
            seen.extend((await files.walk("."), (await files.list("."))[0]))
            async with await files.open("a.txt") as file, await files.watch(".") as watch:
                seen.extend((file, watch))
        async with outfitter.Pool("local", size=1) as pool, pool.lease():
            seen.extend((pool, pool.lease()))

    asyncio.run(scenario())


def made_by_plain_calls(seen: list[object]) -> None:
    with sync.local() as client:
        seen.extend((client, client.files, client.http))
        with client.start(["cat"], stdin=True) as process:
            seen.extend((process, process.stdout, sync.Transcript(process)))
        client.files.write("a.txt", "x = 1")
        with client.files.open("a.txt") as file, client.files.watch(".") as watch:
            seen.extend((file, watch))
    with sync.Pool("local", size=1) as pool:
        seen.extend((pool, pool.lease()))
    shared = outfitter.shared("local")
    pending = shared.run(["true"])
    seen.extend((shared, shared.files, pending))
    pending.result()
    shared.close()


@pytest.mark.parametrize("make", [made_by_asyncio, made_by_plain_calls])
def test_a_handle_shows_what_is_public(make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen: list[object] = []
    make(seen)
    wrong = {type(one).__name__: public(dir(one)) ^ shown(type(one)) for one in seen}
    assert {name: names for name, names in wrong.items() if names} == {}


def test_what_callbacks_get_shows_what_is_public() -> None:
    told = NetworkDecision("p", "t", "domain", "deny", "decider", "r", "http", "h", 80, None, "", False)
    for one in (NetworkTarget("http", "h", 80), told, outfitter.Output("stdout", b""), outfitter.Exited(0)):
        assert public(dir(one)) == shown(type(one))


# Errors: what they have more than Python's own says is told in a docstring.

ARGUMENTS: dict[str, tuple[tuple[object, ...], dict[str, object]]] = {
    "LeaseLost": (("silent", "n", "it is gone"), {"fenced_after": 1.0}),
    "LeaseRefused": (("impossible", "no"), {}),
    "DialFailed": (("no",), {"retryable": True}),
    "CapabilityMissing": (("fsWatch", "watch files"), {}),
    "TimedOut": ((1.0,), {}),
    "OutputTooLarge": ((1,), {}),
    "CommandFailed": ((("make",), 2, b"", b""), {}),
    "VariableInvalid": (("no", "A=B"), {}),
    "EnvironmentUnknown": (("biuld", ("build",)), {}),
}
ERRORS = [
    kind
    for kind in (getattr(outfitter, name) for name in outfitter.__all__)
    if inspect.isclass(kind) and issubclass(kind, BaseException)
]


@pytest.mark.parametrize("kind", ERRORS)
def test_every_attribute_of_an_error_is_told(kind: type[BaseException]) -> None:
    plain = (1, "no") if issubclass(kind, outfitter.RequestFailed) else ("no",)
    given, named = ARGUMENTS.get(kind.__name__, (plain, {}))
    own = public(dir(kind(*given, **named))) - set(dir(OSError()))
    told = " ".join(one.__doc__ or "" for one in kind.__mro__ if one.__module__.startswith("outfitter"))
    assert own - set(re.findall(r"`(\w+)`", told)) == set()


# Modules


def test_help_of_the_package_describes_what_is_public_and_nothing_else() -> None:
    told = pydoc.plain(pydoc.render_doc(outfitter))
    # Since Python 3.13, a long signature goes on below.
    described = re.findall(r"^    (?:class |async )?(\w+)\((?:.*\)(?: -> .*)?)?$", told, re.MULTILINE)
    data = told.partition("\nDATA\n")[2].partition("\nVERSION\n")[0]
    described += re.findall(r"^    (\w+) = ", data, re.MULTILINE)
    assert set(described) == set(outfitter.__all__) - {"sync"}


@pytest.mark.parametrize("module", [agents, environments, httpx, mcp])
def test_modules_that_the_guides_import_show_their_public_names(module) -> None:
    assert sorted(dir(module)) == sorted(module.__all__)
