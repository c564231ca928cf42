"""Installed plugins, as far as they are told; the differential tests say what is told of each."""

from __future__ import annotations

from pathlib import Path

from outfitter.core.capabilities import FILE_BYTES, ROOT_BYTES
from outfitter.host.stores import Stores
from outfitter.host.walk import PLAIN


def install(cache: Path, name: str, manifest: str) -> None:
    folder = cache / "shop" / name / "1.0.0/.codex-plugin"
    folder.mkdir(parents=True)
    (folder / "plugin.json").write_text(manifest)


def found(cache: Path) -> tuple[list[str], int]:
    """The ids of the plugins, and how many things could not be read."""
    stores = Stores(str, PLAIN)
    stores.add_plugins(str(cache))
    return [one["id"] for one in stores.plugins], stores.failures


def test_files_of_all_plugins_together_are_limited(tmp_path: Path) -> None:
    fit = ROOT_BYTES // FILE_BYTES
    for number in range(fit + 3):
        install(tmp_path, f"p{number:02}", '{"name": "p"}'.ljust(FILE_BYTES))
    assert found(tmp_path) == ([f"p{number:02}@shop" for number in range(fit + 1)], 1)


def test_links_are_followed_to_plugins_but_not_to_versions(tmp_path: Path) -> None:
    install(tmp_path, "real", '{"name": "p"}')
    (tmp_path / "shop/link").symlink_to(tmp_path / "shop/real")
    (tmp_path / "shop/version").mkdir()
    (tmp_path / "shop/version/local").symlink_to(tmp_path / "shop/real/1.0.0")
    assert found(tmp_path) == (["link@shop", "real@shop"], 0)


def test_no_folder_no_plugins(tmp_path: Path) -> None:
    assert found(tmp_path / "missing") == ([], 0)
