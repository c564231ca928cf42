"""What holds for all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings

from outfitter.system import LINUX

# `make test-engines` runs these: they need PostgreSQL, Ray, sshd or Slurm.
collect_ignore = [] if os.environ.get("OUTFITTER_ENGINES") else ["engines"]
# `make test-installs` runs these: they build virtual environments.
collect_ignore += [] if os.environ.get("OUTFITTER_INSTALLS") else ["installs"]
# `make test-portable` runs these: they need a system without Linux's own abilities.
collect_ignore += ["portable"] if LINUX else []

# On a busy machine an example may take any time to be made up or tried: that says nothing about what is
# tested, and each test has a time limit of its own.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

pytest_plugins = ["tests.support.portable", "tests.support.confining", "tests.support.fuzzing"]

# The files that take longest, the longest first. Side by side, a file's tests stay together: one of these
# that came last would have to be waited for.
LONG = (
    "end_to_end/test_faults.py",
    "end_to_end/test_upgrade.py",
    "end_to_end/test_chaos.py",
    "end_to_end/test_claude_hook.py",
    "cli/test_cp.py",
    "end_to_end/test_files_differential.py",
    "end_to_end/test_sandbox_codex.py",
    "end_to_end/test_stock_codex.py",
    "cli/test_ps_attach.py",
    "cli/test_run_elsewhere.py",
    "providers/test_mise.py",
    "client/test_over_every_way.py",
    "end_to_end/test_differential.py",
    "end_to_end/test_files_and_mounts.py",
    "end_to_end/test_sandbox_differential.py",
    "agents/backends/test_flags.py",
    "cli/test_env_overlay.py",
    "server/test_watching.py",
    "end_to_end/test_stock_codex_files.py",
    "providers/test_python.py",
    "end_to_end/test_robustness.py",
    "cli/test_trust.py",
    "cli/test_operating.py",
    "providers/test_wrapping.py",
    "server/test_files.py",
    "web/test_page_in_browser.py",
    "cli/test_hook.py",
    "end_to_end/test_contract_codex.py",
    "pool/test_pool.py",
    "end_to_end/test_client_loss.py",
    "cli/test_setup.py",
    "end_to_end/test_project_codex.py",
    "end_to_end/test_startup_files.py",
)


@pytest.fixture(scope="session", autouse=True)
def own_state() -> Iterator[None]:
    """What servers and pools in this process keep is not the state of whoever runs the tests. Its path is
    short: sockets live in it."""
    with (
        TemporaryDirectory(prefix="os", dir="/tmp", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.delenv("OUTFITTER_HOME", raising=False)
        patch.setenv("XDG_STATE_HOME", folder)
        yield


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        places = {f"tests/{name}": place for place, name in enumerate(LONG)}
        items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(LONG)))
