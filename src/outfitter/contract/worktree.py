"""Which worktree a folder belongs to, and which one that was made from. Files are read; git is not run."""

from __future__ import annotations

import os

from ..providers.files import is_repository, read, upwards

_LARGEST = 16 << 10  # each of git's files that are read here is one line


def worktree_root(directory: str) -> str:
    """The nearest folder upwards that is a checkout or has an outfitter.toml; else the directory itself."""
    here = os.path.realpath(directory)
    for folder in upwards(here, beyond=True):
        if os.access(os.path.join(folder, "outfitter.toml"), os.F_OK) or is_repository(folder):
            return folder
    return here


def source_tree(worktree: str) -> str:
    """The same folder in the main checkout; the folder itself in a plain checkout, or outside of any.

    A linked worktree has a `.git` file that names its folder in the repository, which has a `commondir`. A
    bare repository has no main checkout.
    """
    for folder in upwards(worktree):
        link = os.path.join(folder, ".git")
        if not is_repository(folder):
            continue
        repository = _admin(link, folder)
        common = (
            None if repository is None else _pointed(os.path.join(repository, "commondir"), "", repository)
        )
        if common is None or os.path.basename(common) != ".git":
            return worktree
        main = os.path.dirname(common)
        found = os.path.normpath(os.path.join(main, os.path.relpath(worktree, folder)))
        return found if os.path.isdir(main) else worktree
    return worktree


def identity(worktree: str) -> str:
    """What tells a worktree from one that was at the same path before, and from one that will be.

    The inodes of its root and, of a linked one, of its folder in the repository, and when they were created.
    Where a file system does not know that, an inode that is used again makes two of them look the same.
    """
    from ..host.lookup import statx_at

    found = []
    for path in (worktree, _admin(os.path.join(worktree, ".git"), worktree)):
        try:
            if path is not None:
                found.append(f"{os.stat(path).st_ino}.{statx_at(None, path, follow=True).created_ms}")
        except OSError:
            found.append("gone")
    return "-".join(found)


def _admin(link: str, folder: str) -> str | None:
    """The folder in the repository that a linked worktree's `.git` file names."""
    return _pointed(link, "gitdir:", folder)


def _pointed(path: str, word: str, base: str) -> str | None:
    """The path that a file of git's names; None when it is none of them."""
    data = read(path, _LARGEST)
    if data is None:
        return None
    text = os.fsdecode(data).rstrip("\r\n")
    if not text.startswith(word) or "\n" in text or "\0" in text:
        return None
    named = text.removeprefix(word).lstrip(" ")
    return os.path.normpath(os.path.join(base, named)) if named else None
