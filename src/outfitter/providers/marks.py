"""What gives a project away: the names that each provider's `detect` looks for, below a folder.

In a table of its own, so that a folder without any of them costs no import of a provider.
"""

from __future__ import annotations

# By provider, outermost first: outer tools usually call the inner ones. Providers that a project configures
# before they find anything (`command`, `dotenv`) are only ever named.
MARKS: dict[str, tuple[str, ...]] = {
    "direnv": (".envrc",),
    "mise": (
        *("mise.toml", "mise.local.toml", ".mise.toml", ".mise.local.toml"),
        *("mise/config.toml", "mise/config.local.toml", ".mise/config.toml", ".mise/config.local.toml"),
        *(".config/mise.toml", ".config/mise.local.toml"),
        *(".config/mise/mise.toml", ".config/mise/mise.local.toml"),
        *(".config/mise/config.toml", ".config/mise/config.local.toml"),
        *("mise/conf.d", ".mise/conf.d", ".config/mise/conf.d"),
        ".tool-versions",
    ),
    "devenv": ("devenv.nix", "devenv.yaml", "devenv.lock"),
    "devbox": ("devbox.json", "devbox.lock"),
    "nix": ("flake.nix", "shell.nix", "default.nix"),
    "pixi": ("pixi.toml", "pixi.lock", ".pixi/envs"),
    "conda": ("environment.yml", "environment.yaml", "conda-lock.yml", ".conda/conda-meta/history"),
    "python": (
        *(".venv/pyvenv.cfg", "venv/pyvenv.cfg", "env/pyvenv.cfg"),
        *("uv.lock", "uv.toml", "poetry.lock", "poetry.toml", "pdm.lock", "pdm.toml", ".pdm-python"),
        *("Pipfile", "Pipfile.lock", "hatch.toml", "pyproject.toml"),
    ),
    "versions": (".tool-versions", ".python-version", ".ruby-version", ".nvmrc", ".node-version"),
    "vscode": (".vscode/settings.json",),
    # Those below .devcontainer/NAME are several: which one is meant is for somebody to say.
    "devcontainer": (".devcontainer/devcontainer.json", ".devcontainer.json"),
}
