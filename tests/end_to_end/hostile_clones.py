"""Clones whose files try to run code, or to decide where data goes, before anybody has allowed anything.

In a file's text, MARK is the path of the file that must never come to be, ROOT the clone's folder. EVIL is a
script that makes the mark. A file that begins with `#!` is executable, one that begins with `->` is a link.
All files are tracked by git.
"""

from __future__ import annotations

from typing import NamedTuple

EVIL = "#!/bin/sh\n: > MARK\n"
PROGRAMS = ("git", "ls", "make", "python3", "node", "cargo", "sh", "env")
# What runs in each of them; those that are not installed do not matter.
COMMANDS = ("git status", "ls", "make -n", "python3 -c pass", "sh -c :", "perl -e 0", "tar -cf /dev/null .")
MORE = ("node -e 0", "cargo --version")


class Clone(NamedTuple):
    """`bites` is a command that does run the clone's code where the variables of `given` are set."""

    name: str
    files: dict[str, str]
    given: dict[str, str] = {}
    bites: str = ""
    commands: tuple[str, ...] = COMMANDS
    overlays: tuple[str, ...] = ()
    below: str = "."


def programs(folder: str) -> dict[str, str]:
    """A folder of programs in place of the usual ones."""
    return {f"{folder}/{name}": EVIL for name in PROGRAMS}


_GITDIR = {
    "evil/HEAD": "ref: refs/heads/main\n",
    "evil/objects/keep": "",
    "evil/refs/keep": "",
    "evil/config": "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = ROOT/evil/run\n\tworktree = ROOT\n",
    "evil/run": EVIL,
}
_GITCONFIG = "[core]\n\tfsmonitor = ROOT/evil/run\n"
_PREFIX = {
    ".conda/conda-meta/history": "",
    **programs(".conda/bin"),
}
_VENV = {"pyvenv.cfg": "home = /usr/bin\nversion = 3.11.0\n", "bin/python": EVIL, "bin/python3": EVIL}

# What a variable would do, with the files that it needs: (name, value, files, what proves it).
_NAMES: tuple[tuple[str, str, dict[str, str], str], ...] = (
    ("GIT_DIR", "ROOT/evil", _GITDIR, "git status"),
    ("HOME", "ROOT/evil", {"evil/.gitconfig": _GITCONFIG, "evil/run": EVIL}, "git status"),
    ("XDG_CONFIG_HOME", "ROOT/evil", {"evil/git/config": _GITCONFIG, "evil/run": EVIL}, "git status"),
    ("GIT_CONFIG_GLOBAL", "ROOT/evil/c", {"evil/c": _GITCONFIG, "evil/run": EVIL}, "git status"),
    ("GIT_CONFIG_SYSTEM", "ROOT/evil/c", {"evil/c": _GITCONFIG, "evil/run": EVIL}, ""),
    ("GIT_CONFIG_PARAMETERS", "'core.fsmonitor'='ROOT/evil/run'", {"evil/run": EVIL}, "git status"),
    ("GIT_EXEC_PATH", "ROOT/evil", {"evil/git-log": EVIL}, ""),
    ("GIT_SSH_COMMAND", "ROOT/evil/run", {"evil/run": EVIL}, ""),
    ("GIT_EXTERNAL_DIFF", "ROOT/evil/run", {"evil/run": EVIL}, ""),
    ("GIT_PAGER", "ROOT/evil/run", {"evil/run": EVIL}, ""),
    ("GIT_TEMPLATE_DIR", "ROOT/evil", {"evil/hooks/post-checkout": EVIL}, ""),
    ("GIT_TRACE", "MARK", {}, "git status"),
    ("GIT_INDEX_FILE", "ROOT/evil/index", {}, ""),
    ("MAKEFILES", "ROOT/evil/m", {"evil/m": "X := $(shell : > MARK)\n"}, "make -n"),
    ("MAKEFLAGS", "--eval=X:=$(shell\\ :\\ >\\ MARK)", {}, ""),
    (
        "TAR_OPTIONS",
        "--checkpoint=1 --checkpoint-action=exec=ROOT/evil/run",
        {"evil/run": EVIL},
        "tar -cf x .git",
    ),
    ("PERLLIB", "ROOT/evil", {"evil/strict.pm": "open(F, '>', 'MARK'); 1;\n"}, "perl -Mstrict -e 0"),
    ("PERL5LIB", "ROOT/evil", {"evil/strict.pm": "open(F, '>', 'MARK'); 1;\n"}, "perl -Mstrict -e 0"),
    ("PERL5OPT", "-MEvil -IROOT/evil", {"evil/Evil.pm": "open(F, '>', 'MARK'); 1;\n"}, ""),
    ("PATH", "ROOT/evil:/usr/bin:/bin", programs("evil"), "git status"),
    ("RIPGREP_CONFIG_PATH", "ROOT/evil/rg", {"evil/rg": "--pre=ROOT/evil/run\n", "evil/run": EVIL}, ""),
    ("npm_config_script_shell", "ROOT/evil/run", {"evil/run": EVIL}, ""),
    ("PIP_INDEX_URL", "http://evil.example/simple", {}, ""),
    ("PIP_CONFIG_FILE", "ROOT/evil/pip", {"evil/pip": "[global]\n"}, ""),
    ("GOFLAGS", "-toolexec=ROOT/evil/run", {"evil/run": EVIL}, ""),
    ("CARGO_HOME", "ROOT/evil", {"evil/config.toml": "[alias]\nb = 'run'\n"}, ""),
    ("RUSTUP_TOOLCHAIN", "ROOT/evil", {"evil/bin/cargo": EVIL, "evil/bin/rustc": EVIL}, ""),
    ("RUSTC_WRAPPER", "ROOT/evil/run", {"evil/run": EVIL}, ""),
    ("RUSTC_WORKSPACE_WRAPPER", "ROOT/evil/run", {"evil/run": EVIL}, ""),
    ("CC", "ROOT/evil/run", {"evil/run": EVIL}, ""),
    ("GCC_EXEC_PREFIX", "ROOT/evil/", {"evil/cc1": EVIL}, ""),
    ("JAVA_HOME", "ROOT/evil", {"evil/bin/java": EVIL}, ""),
    ("JAVA_TOOL_OPTIONS", "-javaagent:ROOT/evil/a.jar", {}, ""),
    ("MAVEN_OPTS", "-javaagent:ROOT/evil/a.jar", {}, ""),
    ("DOTNET_STARTUP_HOOKS", "ROOT/evil/a.dll", {}, ""),
    ("LUA_INIT_5_4", "@ROOT/evil/l", {"evil/l": "io.open('MARK', 'w')"}, ""),
    ("PYTHONPATH", "ROOT/evil", {"evil/sitecustomize.py": "open('MARK', 'w')\n"}, "python3 -c pass"),
    ("PYTHONHOME", "ROOT/evil", {}, ""),
    ("PYTHONSTARTUP", "ROOT/evil/s.py", {"evil/s.py": "open('MARK', 'w')\n"}, ""),
    ("PYTHONPYCACHEPREFIX", "ROOT/evil", {}, ""),
    ("PYTHONBREAKPOINT", "evil.run", {}, ""),
    ("PYTEST_ADDOPTS", "-p evil", {"evil.py": "open('MARK', 'w')\n"}, ""),
    (
        "NODE_OPTIONS",
        "--require=ROOT/evil/r.js",
        {"evil/r.js": "require('fs').writeFileSync('MARK', '')\n"},
        "node -e 0",
    ),
    ("NODE_PATH", "ROOT/evil", {"evil/x/index.js": ""}, ""),
    ("RUBYOPT", "-r ROOT/evil/r.rb", {"evil/r.rb": "File.write('MARK', '')\n"}, ""),
    ("KUBECONFIG", "ROOT/evil/k", {"evil/k": "exec: x\n"}, ""),
    ("AWS_CONFIG_FILE", "ROOT/evil/a", {"evil/a": "[default]\ncredential_process = ROOT/evil/run\n"}, ""),
    ("DOCKER_HOST", "tcp://evil.example:2375", {}, ""),
    ("HTTPS_PROXY", "http://evil.example:8080", {}, ""),
    ("SSL_CERT_FILE", "ROOT/evil/pem", {"evil/pem": "-"}, ""),
    ("SSH_AUTH_SOCK", "ROOT/evil/sock", {}, ""),
    ("LESS", "+!ROOT/evil/run", {"evil/run": EVIL}, ""),
    ("LESSOPEN", "|ROOT/evil/run %s", {"evil/run": EVIL}, ""),
    ("PAGER", "ROOT/evil/run", {"evil/run": EVIL}, ""),
    ("EDITOR", "ROOT/evil/run", {"evil/run": EVIL}, ""),
    ("VIMINIT", ":!ROOT/evil/run", {"evil/run": EVIL}, ""),
    ("SHELL", "ROOT/evil/run", {"evil/run": EVIL}, ""),
    ("BASH_ENV", "ROOT/evil/run", {"evil/run": EVIL}, "bash -c :"),
    ("ENV", "ROOT/evil/run", {"evil/run": EVIL}, ""),
    ("ZDOTDIR", "ROOT/evil", {"evil/.zshenv": ": > MARK\n"}, ""),
    ("LD_PRELOAD", "ROOT/evil/l.so", {}, ""),
    ("LD_LIBRARY_PATH", "ROOT/evil", {"evil/libc.so.6": ""}, ""),
    (
        "MISE_TRUSTED_CONFIG_PATHS",
        "ROOT",
        {"mise.toml": "[env]\nA = \"{{ exec(command=': > MARK') }}\"\n"},
        "",
    ),
    ("DIRENV_CONFIG", "ROOT/evil", {"evil/direnvrc": ": > MARK\n", ".envrc": ":\n"}, ""),
    ("TMPDIR", "ROOT/evil", {"evil/keep": ""}, ""),
)


def _toml(name: str, value: str) -> str:
    return f"{{ {name} = '''{value}''' }}"


def _env(name: str, value: str, files: dict[str, str], bites: str) -> Clone:
    table = f"[env]\nset = {_toml(name, value)}\n"
    more = MORE if name.startswith(("NODE", "npm", "CARGO", "RUST", "PATH")) else ()
    commands = (*COMMANDS, *more)
    return Clone(f"env-{name}", {"outfitter.toml": table, **files}, {name: value}, bites, commands)


# The same few, each of which is seen to bite above, by every other way that a file has.
_WAYS = ("GIT_DIR", "HOME", "MAKEFILES", "PYTHONPATH", "GIT_CONFIG_GLOBAL", "NODE_OPTIONS", "BASH_ENV")
_FEW = {name: (value, files) for name, value, files, _ in _NAMES if name in _WAYS}
_FEW_FILES = {path: text for _, files in _FEW.values() for path, text in files.items()}
_FEW_TOML = "{ " + ", ".join(f"{name} = '''{value}'''" for name, (value, _) in _FEW.items()) + " }"
_FEW_JSON = "{" + ", ".join(f'"{name}": "{value}"' for name, (value, _) in _FEW.items()) + "}"
_FEW_LINES = "".join(f"{name}={value}\n" for name, (value, _) in _FEW.items())
_FEW_EXPORTS = "".join(f"export {name}={value}\n" for name, (value, _) in _FEW.items())


def _way(name: str, files: dict[str, str], below: str = ".", overlays: tuple[str, ...] = ()) -> Clone:
    every = {**_FEW_FILES, **programs("evil/bin"), **files}
    return Clone(name, every, commands=(*COMMANDS, *MORE), overlays=overlays, below=below)


def _venv(folder: str, **more: str) -> dict[str, str]:
    return {**{f"{folder}/{name}": text for name, text in _VENV.items()}, **programs(f"{folder}/bin"), **more}


def _uses(provider: str, more: str = "") -> str:
    return f'[providers]\nuse = ["{provider}"]\n{more}\n'


def _interpreter(path: str) -> str:
    return f'{{"python.defaultInterpreterPath": "{path}"}}'


CLONES = (
    *(_env(*one) for one in _NAMES),
    # Tables of outfitter.toml
    _way("policy-set", {"outfitter.toml": f"[shell_environment_policy]\nset = {_FEW_TOML}\n"}),
    _way("overlay", {"outfitter.toml": f"[overlays.dev]\nset = {_FEW_TOML}\n"}, overlays=("dev",)),
    _way("path-in-front", {"outfitter.toml": '[env]\nprepend = { PATH = ["evil/bin"] }\n'}),
    _way("path-behind", {"outfitter.toml": '[env]\nappend = { PATH = ["evil/bin"] }\n'}),
    _way(
        "path-taken-away",
        {
            "outfitter.toml": '[env]\nremove = { PATH = ["/usr/bin", "/bin"] }\n'
            'append = { PATH = ["evil/bin"] }\n'
        },
    ),
    _way(
        "path-by-policy", {"outfitter.toml": '[shell_environment_policy]\nset = { PATH = "ROOT/evil/bin" }\n'}
    ),
    _way("unset", {"outfitter.toml": '[env]\nunset = ["HOME", "LANG"]\n'}),
    _way("from-a-folder-below", {"outfitter.toml": f"[env]\nset = {_FEW_TOML}\n", "a/b/c": ""}, below="a/b"),
    _way("in-a-folder-below", {"a/outfitter.toml": f"[env]\nset = {_FEW_TOML}\n"}, below="a"),
    _way("python-elsewhere", {"outfitter.toml": _uses("python", 'python = ["evil"]'), **_venv("evil")}),
    _way(
        "conda-elsewhere",
        {"outfitter.toml": _uses("conda", 'conda = ["evil"]'), "evil/conda-meta/history": ""},
    ),
    _way("command", {"outfitter.toml": _uses("command", 'command = ["./run"]'), "run": EVIL}),
    _way("command-by-a-shell", {"outfitter.toml": _uses("command", 'command = ["sh", "run"]'), "run": EVIL}),
    _way("setup-script", {"outfitter.toml": '[setup]\nscript = "run"\n', "run": EVIL}),
    _way("setup-run", {"outfitter.toml": '[setup]\nrun = ": > MARK"\n'}),
    _way(
        "setup-of-codex",
        {
            "outfitter.toml": '[setup]\nfrom = "codex"\n',
            ".codex/environments/environment.toml": 'version = 1\n[setup]\nscript = ": > MARK"\n',
        },
    ),
    _way(
        "setup-of-devcontainer",
        {
            "outfitter.toml": '[setup]\nfrom = "devcontainer"\n',
            ".devcontainer/devcontainer.json": '{"postCreateCommand": ": > MARK"}',
        },
    ),
    # Files of other tools
    _way("dotenv", {"outfitter.toml": _uses("dotenv", 'dotenv = [".env"]'), ".env": _FEW_LINES}),
    _way(
        "dotenv-path",
        {"outfitter.toml": _uses("dotenv", 'dotenv = [".env"]'), ".env": "PATH=ROOT/evil/bin\n"},
    ),
    _way(
        "dotenv-link", {"outfitter.toml": _uses("dotenv", 'dotenv = [".env"]'), ".env": "->/etc/os-release"}
    ),
    _way(
        "devcontainer",
        {
            "outfitter.toml": _uses("devcontainer", 'devcontainer = ["inside"]'),
            ".devcontainer/devcontainer.json": f'{{"containerEnv": {{"A": "1"}}, "remoteEnv": {_FEW_JSON}}}',
        },
    ),
    _way(
        "devcontainer-in-the-root",
        {
            "outfitter.toml": _uses("devcontainer", 'devcontainer = ["inside"]'),
            ".devcontainer.json": '{"remoteEnv": {"PATH": "ROOT/evil/bin:${containerEnv:PATH}"}}',
        },
    ),
    _way(
        "devcontainer-takes-away",
        {
            "outfitter.toml": _uses("devcontainer", 'devcontainer = ["inside"]'),
            ".devcontainer/devcontainer.json": '{"remoteEnv": {"HOME": null, "LANG": null}}',
        },
    ),
    _way("conda-programs", _PREFIX),
    _way("conda-variables", {**_PREFIX, ".conda/etc/conda/env_vars.d/a.json": _FEW_JSON}),
    _way("conda-state", {**_PREFIX, ".conda/conda-meta/state": f'{{"env_vars": {_FEW_JSON}}}'}),
    _way("conda-scripts", {**_PREFIX, ".conda/etc/conda/activate.d/a.sh": ": > MARK\n"}),
    _way(
        "conda-scripts-captured",
        {
            **_PREFIX,
            ".conda/etc/conda/activate.d/a.sh": ": > MARK\n",
            "outfitter.toml": _uses("conda", 'modes = { conda = "capture" }'),
        },
    ),
    _way("venv", _venv(".venv")),
    _way("venv-by-another-name", _venv("venv")),
    _way("venv-by-a-third-name", _venv("env")),
    _way("venv-above", {**_venv(".venv"), "a/b/pyproject.toml": ""}, below="a/b"),
    _way("venv-link", {**_venv("evil"), ".venv": "->evil"}),
    _way("venv-of-uv", {**_venv(".venv"), "uv.lock": "", "pyproject.toml": '[project]\nname = "a"\n'}),
    _way(
        "venv-of-a-uv-workspace",
        {
            **_venv(".venv"),
            "pyproject.toml": '[tool.uv.workspace]\nmembers = ["a"]\n',
            "a/pyproject.toml": '[project]\nname = "a"\n',
        },
        below="a",
    ),
    _way(
        "venv-of-poetry",
        {**_venv(".venv"), "poetry.lock": "", "poetry.toml": "[virtualenvs]\nin-project = true\n"},
    ),
    _way(
        "venvs-of-poetry",
        {"poetry.lock": "", "poetry.toml": '[virtualenvs]\npath = "evil"\n', **_venv("evil/a")},
    ),
    _way("venv-of-pdm", {**_venv(".venv"), "pdm.lock": "", ".pdm-python": "ROOT/.venv/bin/python"}),
    _way("venv-of-pdm-elsewhere", {**_venv("evil"), "pdm.lock": "", ".pdm-python": "ROOT/evil/bin/python"}),
    _way("venv-of-pipenv", {**_venv(".venv"), "Pipfile": ""}),
    _way("venv-named-by-pipenv", {"Pipfile": "", ".venv": "evil", **_venv("evil")}),
    _way("venv-of-hatch", {"hatch.toml": '[envs.default]\npath = "evil"\n', **_venv("evil")}),
    _way(
        "site-packages",
        _venv(".venv", **{".venv/lib/python3.11/site-packages/a.pth": "import os; open('MARK','w')\n"}),
    ),
    _way(
        "vscode",
        {
            ".vscode/settings.json": _interpreter("${workspaceFolder}/evil/bin/python"),
            **_venv("evil"),
        },
    ),
    _way(
        "vscode-relative",
        {".vscode/settings.json": _interpreter("evil/bin/python"), **_venv("evil")},
    ),
    _way(
        "vscode-conda",
        {
            ".vscode/settings.json": _interpreter("${workspaceFolder}/.conda/bin/python"),
            **_PREFIX,
            ".conda/bin/python": EVIL,
        },
    ),
    _way("vscode-terminal", {".vscode/settings.json": f'{{"terminal.integrated.env.linux": {_FEW_JSON}}}'}),
    _way("direnv", {".envrc": f": > MARK\n{_FEW_EXPORTS}"}),
    _way("direnv-required", {".envrc": f": > MARK\n{_FEW_EXPORTS}", "outfitter.toml": _uses("direnv")}),
    _way(
        "mise", {"mise.toml": "[env]\nA = \"{{ exec(command=': > MARK') }}\"\n[hooks]\nenter = ': > MARK'\n"}
    ),
    _way("mise-path", {"mise.toml": '[env]\n_.path = ["evil/bin"]\n_.source = "run"\n', "run": ": > MARK\n"}),
    _way("mise-local", {".config/mise/config.toml": "[env]\n_.file = 'e'\n", "e": _FEW_LINES}),
    _way("tool-versions", {".tool-versions": "nodejs path:ROOT/evil\npython path:ROOT/evil\n"}),
    _way(
        "tool-versions-of-asdf",
        {
            "outfitter.toml": _uses("versions"),
            ".tool-versions": "nodejs path:ROOT/evil\npython path:evil\n",
        },
    ),
    _way("python-version", {".python-version": "../../../../../../ROOT/evil\n"}),
    _way("nvmrc", {".nvmrc": "../../../../../../ROOT/evil\n", ".node-version": "ROOT/evil\n"}),
    _way("ruby-version", {".ruby-version": "../../../../../../ROOT/evil\n"}),
    _way("flake", {"flake.nix": '{ outputs = _: builtins.exec ["sh" "-c" ": > MARK"]; }\n'}),
    _way("shell-nix", {"shell.nix": 'with import <nixpkgs> {}; mkShell { shellHook = ": > MARK"; }\n'}),
    _way("devenv", {"devenv.nix": '{ enterShell = ": > MARK"; }\n', "devenv.yaml": ""}),
    _way("devbox", {"devbox.json": '{"shell": {"init_hook": [": > MARK"]}}'}),
    _way(
        "pixi",
        {
            "pixi.toml": '[workspace]\nname = "a"\n[activation]\nscripts = ["run"]\n',
            "run": ": > MARK\n",
            ".pixi/envs/default/conda-meta/history": "",
            **programs(".pixi/envs/default/bin"),
        },
    ),
    _way("node-modules", {"package.json": "{}", **programs("node_modules/.bin")}),
    _way("npmrc", {".npmrc": "script-shell=ROOT/evil/bin/sh\nnode-options=--require=ROOT/evil/r.js\n"}),
    _way(
        "git-hooks", {".githooks/post-checkout": EVIL, ".gitmodules": "", ".gitattributes": "* filter=evil\n"}
    ),
    _way("codex-configuration", {".codex/config.toml": f"[shell_environment_policy]\nset = {_FEW_TOML}\n"}),
    _way(
        "user-files-in-the-clone",
        {
            "outfitter/config.toml": f"[env]\nset = {_FEW_TOML}\n",
            ".outfitter.toml": f"[env]\nset = {_FEW_TOML}\n",
        },
    ),
)
