"""Asks the command line about a project: where each variable comes from, what was left out, what differs."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = """
[env]
set = { CI = "1", LD_PRELOAD = "/tmp/hook.so" }
prepend = { PATH = ["bin"] }

[shell_environment_policy]
exclude = ["AWS_*"]
"""


def outfitter(folder: Path, *args: str) -> None:
    environ = {"HOME": f"{folder}/home", "PATH": "/usr/bin:/bin:/usr/bin", "AWS_PROFILE": "production"}
    command = [sys.executable, "-m", "outfitter", *args]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True)
    text = (done.stdout + done.stderr).replace(str(folder), "/project")
    print(f"$ outfitter {' '.join(args)}")
    print(re.sub(r"(?<=\S) {2,}", "  ", text), end="")  # columns are as wide as the folder's name
    print(f"exit status {done.returncode}\n")


with tempfile.TemporaryDirectory() as scratch:
    folder = Path(scratch).resolve()
    (folder / "bin").mkdir()
    (folder / "outfitter.toml").write_text(PROJECT)
    outfitter(folder, "trust", "--yes")
    outfitter(folder, "env")
    outfitter(folder, "env", "explain", "PATH", "AWS_PROFILE", "LD_PRELOAD")
    outfitter(folder, "env", "diff", "/", "here")
    outfitter(folder, "env", "export", "--format", "shell", "--changed")
