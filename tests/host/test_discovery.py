"""Installed plugins, as far as they are told; the differential tests say what is told of each."""

from __future__ import annotations

from pathlib import Path

from outfitter.core.capabilities import FILE_BYTES, ROOT_BYTES
from outfitter.host.discovery import installed


def install(cache: Path, name: str, manifest: str) -> None:
    folder = cache / "shop" / name / "1.0.0/.codex-plugin"
    folder.mkdir(parents=True)
    (folder / "plugin.json").write_text(manifest)


def test_files_of_all_plugins_together_are_limited(tmp_path: Path) -> None:
    fit = ROOT_BYTES // FILE_BYTES
    for number in range(fit + 3):
        install(tmp_path, f"p{number:02}", '{"name": "p"}'.ljust(FILE_BYTES))
    found, failures = installed(str(tmp_path), str)
    assert [one["id"] for one in found] == [f"p{number:02}@shop" for number in range(fit + 1)]
    assert failures == 1


def test_links_are_followed_to_plugins_but_not_to_versions(tmp_path: Path) -> None:
    install(tmp_path, "real", '{"name": "p"}')
    (tmp_path / "shop/link").symlink_to(tmp_path / "shop/real")
    (tmp_path / "shop/version").mkdir()
    (tmp_path / "shop/version/local").symlink_to(tmp_path / "shop/real/1.0.0")
    found, failures = installed(str(tmp_path), str)
    assert ([one["id"] for one in found], failures) == (["link@shop", "real@shop"], 0)


def test_no_folder_no_plugins(tmp_path: Path) -> None:
    assert installed(str(tmp_path / "missing"), str) == ([], 0)
