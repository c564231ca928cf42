"""A project with an outfitter.toml, and a user who has something in his environment."""

from __future__ import annotations

from pathlib import Path

from .commandline import User

FILE = """\
[env]
set = { CI = "1", LD_PRELOAD = "/hook.so" }
prepend = { PATH = ["bin"] }

[shell_environment_policy]
exclude = ["AWS_*"]
"""
# An entry twice, one that means the current directory, a folder that is not there.
PATH = "/usr/bin:/bin::/nonexistent:/usr/bin"
SECRETS = {"API_TOKEN": "hush-token", "AWS_PROFILE": "hush-profile", "PLAIN": "hush-plain"}


def make(user: User) -> Path:
    """`project`, in the user's home."""
    folder = user.home / "project"
    (folder / "bin").mkdir(parents=True)
    (folder / "outfitter.toml").write_text(FILE)
    user.allow(folder)
    return folder


def words(text: bytes) -> list[str]:
    """The lines, without what only makes columns of them."""
    return [" ".join(line.split()) for line in text.decode().splitlines()]
