"""The public names: each can be imported, and nothing else is promised."""

from __future__ import annotations

import subprocess
import sys

import outfitter
from outfitter import sync


def test_every_public_name_is_there() -> None:
    assert [name for name in outfitter.__all__ if not hasattr(outfitter, name)] == []


def test_names_are_sorted_and_unique() -> None:
    assert sorted(set(outfitter.__all__)) == sorted(outfitter.__all__)


def test_dir_shows_what_is_public() -> None:
    assert sorted(dir(outfitter)) == sorted([*outfitter.__all__, "__version__"])
    assert sorted(dir(sync)) == sorted(sync.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(outfitter, "no_such_name")


def test_serving_does_not_import_what_is_slow() -> None:
    """Each of these costs a launcher more than the interpreter's own start-up modules."""
    slow = {"asyncio", "typing", "re", "json", "logging", "dataclasses", "enum", "inspect", "click", "socket"}
    # Who does not want to watch does not pay for it.
    slow |= {
        f"outfitter.observe.{name}" for name in ("observer", "watchers", "audit", "metrics", "traces", "otlp")
    }
    slow |= {"outfitter.server.observed", "opentelemetry"}
    slow |= {"outfitter.pool", "outfitter.core.leases"}
    slow |= {"array", "collections"}  # 3 ms before the first command
    code = (
        "import sys; sys.argv = ['outfitter', 'serve', '--listen', 'nowhere']\n"
        "from outfitter.cli.main import main\n"
        "assert main() == 1\n"
        "import outfitter.server.server, outfitter.server.auth\n"
        "import outfitter.transport.listener, outfitter.transport.websocket\n"
        "import outfitter.server.handlers.process\n"
        f"print(sorted(set(sys.modules) & {slow!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_server_loads_what_most_never_need_with_its_first_use() -> None:
    """Each is for a client, a shell, a policy or a file that may never come."""
    code = (
        "import sys\n"
        "def loaded(*names): return [name for name in names if f'outfitter.{name}' in sys.modules]\n"
        "import outfitter.cli.serve, outfitter.server.auth, outfitter.transport.listener\n"
        "print(loaded('transport.websocket', 'transport.base', 'protocol.websocket', 'refusals', 'errors'))\n"
        "import outfitter.server.server, outfitter.server.handlers.process, outfitter.server.upgrading\n"
        "print(loaded('shell.start', 'server.shells', 'contract.merge', 'contract.layers', 'env.policy',\n"
        "    'contract.overlays', 'env.overlay', 'host.privatefifo', 'errors', 'protocol.environment',\n"
        "    'protocol.listing'))\n"
        "print([name for name in ('collections', 'math', 'mmap') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "[]", "[]"]
