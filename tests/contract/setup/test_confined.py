"""A setup in a sandbox, where a person wants one: it writes its worktree and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.setup.test_setups import Site
from tests.support.sandboxes import elsewhere


@pytest.fixture
def site() -> Iterator[Site]:
    """Outside of /tmp, which a setup may write."""
    with elsewhere() as folder:
        one = Site(folder)
        configure(one, "")
        yield one


def configure(site: Site, more: str) -> None:
    folder = site.home / ".config" / "outfitter"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(f'[sandbox]\nsetup = "workspace-write"\n{more}')


def test_it_exports_and_writes_its_worktree_and_nothing_else(site: Site) -> None:
    outside = site.folder / "outside"
    site.script(
        f"echo made > made; echo x > {outside} || export CLOSED=yes; echo x > .git/hook || export KEPT=yes",
        count=False,
    )
    site.allow()
    layer = site.layer()
    assert layer.state == "applied"
    assert (layer.values["CLOSED"], layer.values["KEPT"]) == ("yes", "yes")
    assert (site.project / "made").read_text() == "made\n"
    assert not outside.exists()
    assert sorted(path.name for path in site.project.iterdir()) == [
        ".git",
        "made",
        "outfitter.toml",
        "setup.sh",
    ]


def test_a_setup_that_fails_in_it_fails_as_any_other(site: Site) -> None:
    site.script(f"echo x > {site.folder}/outside || exit 3", count=False)
    site.allow()
    layer = site.layer()
    assert layer.state == "failed"
    assert "Read-only file system" in site.setups.place(site.use()).read_log(4096)


def test_it_reaches_no_network(site: Site) -> None:
    script = "import socket; socket.create_connection(('127.0.0.1', 9))"
    site.script(f'python3 -c "{script}" 2>err; grep -q "not permitted" err && export NET=no', count=False)
    site.allow()
    assert site.layer().values["NET"] == "no"


def test_what_cannot_be_confined_as_wanted_does_not_run(site: Site) -> None:
    configure(site, 'mode = "workspace-write"\nallow_domain = ["pypi.org"]\n')
    site.script("export X=1")
    site.allow()
    layer = site.layer()
    assert layer.state == "failed"
    assert "cannot be limited to some domains" in layer.note
    assert site.runs() == 0
