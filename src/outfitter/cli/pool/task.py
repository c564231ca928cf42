"""One task of a job file, on the executor that it was given."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from ...errors import ConnectionLost, OutfitterError, TimedOut
from ...pool.lease import SIGNALLED
from .jobs import shown

if TYPE_CHECKING:
    from ...client.client import Client
    from .jobs import Job

Result = dict[str, Any]

_TOO_MANY = "the workspace has too many files to collect from: some that match may be missing"


async def perform(client: Client, job: Job, most: int) -> Result:
    """Runs a task and collects what it wants. Raises OutfitterError if it could not run."""
    for path, text in job.files.items():
        await client.files.write(path, text, parents=True)
    argv = list(job.command) if job.command else client.shell_argv(job.script)
    error = reason = None
    try:
        done = await client.run(
            argv,
            cwd=job.cwd,
            env=job.env,
            input=job.stdin,
            timeout=job.timeout,
            max_output=most + 1,  # by the last byte one sees that there was more
            overflow="tail",
        )
        code, out, err, cut = done.exit_code, done.stdout, done.stderr, done.truncated
        reason = done.reason
    except TimedOut as late:
        code, out, err, cut, error = None, late.stdout, late.stderr, False, str(late)
    cut = cut or max(len(out), len(err)) > most
    out, err = out[-most:], err[-most:]
    if code is not None and code > SIGNALLED:
        await client.status()  # or its node is being ended, and that is what has become of the task
    result: Result = {"exit_code": code, "stdout": shown(out), "stderr": shown(err), "truncated": cut}
    if job.collect:
        result["collected"], whole = await _collect(client, job.collect, most)
        error = error if whole or error is not None else _TOO_MANY
    if reason is not None:
        result["reason"] = reason
    if error is not None:
        result["error"] = error
    return result


async def _collect(client: Client, patterns: tuple[str, ...], most: int) -> tuple[Result, bool]:
    """The files that match, up to so many bytes in all, and whether all were looked at. One that is too large
    is None."""
    found: Result = {}
    try:
        base = client.resolve(None).local_path()
        walked = await client.files.walk(base)
    except ConnectionLost:
        raise
    except OutfitterError:
        return found, True  # the command has removed its workspace; how it ended is told all the same
    for path, kind in sorted(walked.entries):
        name = path.removeprefix(base).lstrip("/")
        if kind != "file" or not any(fnmatchcase(name, pattern) for pattern in patterns):
            continue
        try:
            data = await client.files.read(path, limit=most + 1)
        except ConnectionLost:
            raise
        except OutfitterError:
            continue
        if len(data) > most:
            found[name] = None
        else:
            most -= len(data)
            found[name] = shown(data)
    return found, not walked.truncated
