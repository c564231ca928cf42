"""The built wheel in clean virtual environments: every supported Python that is here, pip, pipx and uv.

`make test-installs` runs it: each takes ten seconds or more.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.machine import SECOND

ROOT = Path(__file__).resolve().parent.parent.parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SECONDS = 300 * SECOND  # for packages that are downloaded


def call(*argv: str | Path, env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        argv, env=env, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT)
    [path] = folder.glob("*.whl")
    return path


def python(version: str) -> str:
    """An interpreter of this version: in PATH, or one that pyenv has."""
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    kept = sorted(str(path) for path in versions.glob(f"{version}.*/bin/python3"))
    for found in (*kept, shutil.which(f"python{version}")):
        if found and subprocess.run([found, "-c", "import ensurepip"], capture_output=True).returncode == 0:
            return found
    pytest.skip(f"Python {version} is not installed here")


def check(outfitter: Path, data: Path, home: Path) -> None:
    """The command works, and its manual page is there."""
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    assert call(outfitter, "-V", env=env).startswith("outfitter, version ")
    assert call(outfitter, "run", "--", "echo", "hello", env=env) == "hello\n"
    assert call(outfitter, "help", "run", env=env).startswith("Usage: outfitter run")
    assert (data / "share" / "man" / "man1" / "outfitter.1").is_file()


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("version", PYTHONS)
def test_pip_installs_it(version: str, wheel: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    call(python(version), "-m", "venv", venv)
    call(venv / "bin" / "python", "-m", "pip", "install", "-q", wheel)
    check(venv / "bin" / "outfitter", venv, tmp_path)


def tool(name: str) -> str:
    """One that `make test-installs` has put beside our interpreter, or any."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if found is None:
        pytest.skip(f"{name} is not installed here")
    return found


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("version", PYTHONS)
def test_pipx_installs_it(version: str, wheel: Path, tmp_path: Path) -> None:
    pipx = tool("pipx")
    folders = {"PIPX_HOME": "home", "PIPX_BIN_DIR": "bin", "PIPX_MAN_DIR": "share/man"}
    env = {**os.environ, **{name: str(tmp_path / folder) for name, folder in folders.items()}}
    call(pipx, "install", "--python", python(version), wheel, env=env)
    check(tmp_path / "bin" / "outfitter", tmp_path, tmp_path)


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("version", PYTHONS)
def test_uv_installs_it(version: str, wheel: Path, tmp_path: Path) -> None:
    uv = tool("uv")
    env = {**os.environ, "UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    call(uv, "tool", "install", "--python", python(version), wheel, env=env)
    check(tmp_path / "bin" / "outfitter", tmp_path / "tools" / "outfitter", tmp_path)
