"""conda and pixi: a prefix as data, and what the tools print as the same data.

Neither is in a package index. Prefixes are laid out as conda lays them out. What they print is written down
here in the shape that conda's activation code and pixi's documentation and issues show.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from outfitter.env.layer import Operation
from outfitter.env.origin import Origin
from outfitter.providers.base import Context, Detection, Lost, Resolution
from outfitter.providers.conda import Conda, Pixi, from_conda, from_pixi
from tests.support.machine import SECOND

from .project import LONG

PATH = "/usr/local/bin:/usr/bin:/bin"
STALE = {"CONDA_PREFIX": "/elsewhere", "CONDA_SHLVL": "2", "CONDA_DEFAULT_ENV": "x", "VIRTUAL_ENV": "/y"}

RECORDED_CONDA: dict[str, Any] = {
    "path": {"PATH": ["/opt/envs/dev/bin", "/opt/condabin", "/usr/local/bin", "/usr/bin", "/bin"]},
    "vars": {
        "export": {
            "CONDA_PREFIX": "/opt/envs/dev",
            "CONDA_SHLVL": 1,
            "CONDA_DEFAULT_ENV": "dev",
            "CONDA_PROMPT_MODIFIER": "(dev) ",
            "MY_VAR": "x y",
            "CONDA_EXE": "/opt/bin/conda",
        },
        "unset": ["_CE_M", "_CE_CONDA"],
        "set": {"PS1": "(dev) "},
    },
    "scripts": {"activate": ["/opt/envs/dev/etc/conda/activate.d/gdal.sh"], "deactivate": []},
}
RECORDED_PIXI: dict[str, Any] = {
    "environment_variables": {
        "PATH": f"/srv/app/.pixi/envs/default/bin:{PATH}",
        "CONDA_PREFIX": "/srv/app/.pixi/envs/default",
        "CONDA_SHLVL": "1",
        "CONDA_DEFAULT_ENV": "app",
        "PIXI_EXE": "/opt/pixi",
        "PIXI_PROMPT": "(app) ",
        "PIXI_IN_SHELL": "1",
        "PIXI_PROJECT_ROOT": "/srv/app",
        "ENV_VAR": "value",
    },
}


def context(home: Path | str = "/nobody", *options: str, **env: str) -> Context:
    given = {"values": options} if options else {}
    return Context({"PATH": PATH, **env}, {"PATH": PATH}, str(home), options=given)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "project"
    (root / ".git").mkdir(parents=True)
    return root


def prefix_at(path: Path) -> Path:
    for name in ("bin", "conda-meta", "etc/conda/activate.d", "etc/conda/env_vars.d"):
        (path / name).mkdir(parents=True)
    (path / "conda-meta/history").write_text("")
    return path


def found(provider: Conda | Pixi, directory: Path) -> Detection:
    detection = provider.detect(str(directory))
    assert detection is not None
    return detection


def resolve(project: Path, *options: str) -> Resolution:
    """From files alone, whatever is active in the base."""
    detection = found(Conda(), project)
    assert Conda().trust(detection, context("/home/u", *options)).state == "suggested"
    assert Conda().plan(detection, context("/home/u", *options)) == []
    result = Conda().resolve(detection, context("/home/u", *options))
    assert Conda().resolve(detection, context("/home/u", *options, **STALE)) == result
    return result


# conda, from files


@pytest.mark.parametrize("name", ["environment.yml", "environment.yaml", "conda-lock.yml"])
def test_a_project_of_conda_is_found_and_needs_a_prefix(project: Path, name: str) -> None:
    (project / name).write_text("")
    (project / "sub").mkdir()
    assert found(Conda(), project / "sub").files == (str(project / name),)
    result = resolve(project)
    assert (result.state, result.note) == (
        "not-applicable",
        'no file names the prefix of the project: configure it as conda = ["PREFIX"]',
    )


def test_a_prefix_is_activated_from_its_files(project: Path, tmp_path: Path) -> None:
    (project / "environment.yml").write_text("")
    prefix = prefix_at(tmp_path.resolve() / "envs" / "dev")
    (prefix / "etc/conda/env_vars.d/b.json").write_text('{"A": "package", "B": "b"}')
    (prefix / "etc/conda/env_vars.d/a.json").write_text('{"B": "a"}')
    state = {"version": 1, "env_vars": {"A": "own", "GONE": "***unset***"}}
    (prefix / "conda-meta/state").write_text(json.dumps(state))
    (prefix / "etc/conda/activate.d/z.sh").write_text("exit 1")
    (prefix / "etc/conda/activate.d/z.fish").write_text("")
    result = resolve(project, str(prefix))
    detail = f"conda: {prefix}"
    whole = Origin("provider", detail, f"{prefix}/conda-meta/history")
    assert (result.state, result.set, result.unset) == (
        "applied",
        {"A": "own", "B": "b", "CONDA_PREFIX": str(prefix), "CONDA_DEFAULT_ENV": "dev", "CONDA_SHLVL": "1"},
        (),
    )
    assert result.operations == (Operation("PATH", "prepend", (f"{prefix}/bin",), whole),)
    assert result.lost == (Lost("hook", "etc/conda/activate.d/z.sh", "capture"),)
    assert result.origins["A"].file == f"{prefix}/conda-meta/state"
    assert result.origins["B"].file == f"{prefix}/etc/conda/env_vars.d/b.json"
    assert result.origins["CONDA_PREFIX"] == whole
    assert f"{prefix}/conda-meta/state" in result.watch


def listed(home: Path, *prefixes: Path) -> None:
    (home / ".conda").mkdir(parents=True, exist_ok=True)
    (home / ".conda/environments.txt").write_text("".join(f"{prefix}\n" for prefix in prefixes))


@pytest.mark.parametrize("written", ["name: dev", "name:   dev  # ours", "channels: [x]\nname: 'dev'"])
def test_the_name_of_a_project_is_looked_for_among_condas_own(
    project: Path, tmp_path: Path, written: str
) -> None:
    (project / "environment.yml").write_text(f"{written}\ndependencies:\n  - python\n  - pip: {{name: x}}\n")
    home = tmp_path / "home"
    dev, other = prefix_at(tmp_path / "mini/envs/dev"), prefix_at(tmp_path / "mini/envs/other")
    elsewhere = prefix_at(tmp_path / "not-an-env/dev")
    listed(home, other, elsewhere, dev, tmp_path / "gone/envs/dev", dev)
    here = context(home)
    result = Conda().resolve(found(Conda(), project), here)
    assert (result.state, result.set["CONDA_PREFIX"]) == ("applied", str(dev))
    assert f"{home}/.conda/environments.txt" in result.watch
    second = prefix_at(tmp_path / "other/envs/dev")
    listed(home, dev, second)
    result = Conda().resolve(found(Conda(), project), here)
    assert (result.state, result.note) == (
        "not-applicable",
        f'choose one of {dev}, {second}: configure it as conda = ["PREFIX"]',
    )
    listed(home, other)
    result = Conda().resolve(found(Conda(), project), here)
    assert result.note == 'conda has no environment named dev: create it, or configure conda = ["PREFIX"]'


@pytest.mark.parametrize("written", ["name: ../dev", "name: /x/envs/dev", "name: ..", "name:", "# name: dev"])
def test_a_name_that_leads_elsewhere_is_none(project: Path, tmp_path: Path, written: str) -> None:
    (project / "environment.yml").write_text(f"{written}\n")
    listed(tmp_path / "home", prefix_at(tmp_path / "mini/envs/dev"))
    result = Conda().resolve(found(Conda(), project), context(tmp_path / "home"))
    assert result.note.startswith("no file names the prefix")


def test_a_prefix_in_the_project_needs_no_word(project: Path) -> None:
    prefix = prefix_at(project / ".conda")
    result = resolve(project)
    assert (result.set["CONDA_PREFIX"], result.set["CONDA_DEFAULT_ENV"]) == (str(prefix), str(prefix))


def test_condas_own_prefix_is_its_base(project: Path) -> None:
    prefix = prefix_at(project / ".conda")
    (prefix / "condabin").mkdir()
    (prefix / "condabin/conda").write_text("")
    assert resolve(project).set["CONDA_DEFAULT_ENV"] == "base"


def test_a_relative_prefix_is_the_projects(project: Path) -> None:
    (project / "environment.yml").write_text("")
    prefix = prefix_at(project / "deps")
    assert resolve(project, "deps").set["CONDA_PREFIX"] == str(prefix)


def test_a_prefix_that_is_not_there_is_missing(project: Path) -> None:
    (project / "environment.yml").write_text("")
    result = resolve(project, "~/envs/x")
    assert (result.state, result.note) == (
        "missing",
        "/home/u/envs/x does not exist: run `conda env create -p /home/u/envs/x` in the project",
    )
    assert "/home/u/envs/x/conda-meta/history" in result.watch


def test_what_is_no_prefix_is_told(project: Path) -> None:
    (project / "environment.yml").write_text("")
    (project / "x").mkdir()
    result = resolve(project, "x")
    assert (result.state, result.note) == (
        "failed",
        f"{project}/x is not a conda environment (it has no conda-meta/history)",
    )


@pytest.mark.parametrize("text", ["[]", "{", "[" * 100_000, "\ud800"])
def test_a_state_that_is_no_object_is_told(project: Path, text: str) -> None:
    prefix = prefix_at(project / ".conda")
    (prefix / "conda-meta/state").write_bytes(text.encode("utf-8", "surrogatepass"))
    result = resolve(project)
    assert (result.state, result.set) == ("failed", {})
    assert result.note.startswith(f"{prefix}/conda-meta/state is not a JSON object")


@pytest.mark.parametrize("value", ["1", '"\\ud800"', "null"])
def test_a_value_that_is_no_text_is_told(project: Path, value: str) -> None:
    prefix = prefix_at(project / ".conda")
    (prefix / "conda-meta/state").write_text(f'{{"env_vars": {{"A": {value}}}}}')
    assert resolve(project).state == "failed"


# conda, asked


def test_what_conda_prints_is_mapped() -> None:
    result = from_conda(RECORDED_CONDA, PATH, "/opt/envs/dev")
    origin = Origin("provider", "conda: /opt/envs/dev")
    values = {
        "CONDA_PREFIX": "/opt/envs/dev",
        "CONDA_SHLVL": "1",
        "CONDA_DEFAULT_ENV": "dev",
        "MY_VAR": "x y",
        "CONDA_EXE": "/opt/bin/conda",
    }
    assert (result.state, result.set, result.unset) == ("applied", values, ("_CE_M", "_CE_CONDA"))
    assert result.operations == (
        Operation("PATH", "prepend", ("/opt/envs/dev/bin", "/opt/condabin"), origin),
    )
    assert result.lost == (Lost("hook", "/opt/envs/dev/etc/conda/activate.d/gdal.sh", "capture"),)


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"path": {"PATH": "x"}},
        {"path": {"PATH": [1]}},
        {"path": {"PATH": ["/a"]}, "vars": {"unset": 1}},
        {"path": {"PATH": ["/a"]}, "vars": {"export": {"A": None}}},
        {"path": {"PATH": ["/a"]}, "scripts": {"activate": {}}},
    ],
)
def test_anything_else_from_conda_is_told(document: object) -> None:
    assert from_conda(document, PATH, "/p").state == "failed"


def test_conda_is_asked_when_it_is_trusted(project: Path, tmp_path: Path) -> None:
    prefix = prefix_at(project / ".conda")
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "said").write_text(json.dumps(RECORDED_CONDA))
    fake = tools / "conda"
    fake.write_text(f'#!/bin/sh\n[ "$*" = "shell.posix+json activate {prefix}" ] && exec cat {tools}/said\n')
    fake.chmod(0o755)
    detection = found(Conda(), project)
    asking = Context({**STALE}, {"PATH": f"{tools}:{PATH}"}, "/", options={"values": (".conda", "ask")})
    trust = Conda().trust(detection, asking)
    assert (trust.state, trust.by) == ("untrusted", "outfitter")
    assert Conda().plan(detection, asking) == [["conda", "shell.posix+json", "activate", str(prefix)]]
    result = Conda().resolve(detection, asking)
    assert result.set["MY_VAR"] == "x y"
    fake.write_text("#!/bin/sh\necho no >&2; exit 2\n")
    result = Conda().resolve(detection, asking)
    assert (result.state, result.stderr_tail) == ("failed", "no\n")
    (prefix / "conda-meta/history").write_text("installed something")
    assert Conda().trust(detection, asking).digest != trust.digest


# pixi


def test_what_pixi_prints_is_mapped() -> None:
    result = from_pixi(RECORDED_PIXI, PATH, "/srv/app")
    origin = Origin("provider", "pixi: /srv/app", "/srv/app/pixi.toml")
    assert result == Resolution(
        "applied",
        set={
            "CONDA_PREFIX": "/srv/app/.pixi/envs/default",
            "CONDA_SHLVL": "1",
            "CONDA_DEFAULT_ENV": "app",
            "PIXI_EXE": "/opt/pixi",
            "PIXI_PROJECT_ROOT": "/srv/app",
            "ENV_VAR": "value",
        },
        operations=[Operation("PATH", "prepend", ("/srv/app/.pixi/envs/default/bin",), origin)],
        origins=dict.fromkeys(result.set, origin),
        producer="pixi",
    )


@pytest.mark.parametrize(
    "document", [None, [], {}, {"environment_variables": []}, {"environment_variables": {"A": None}}]
)
def test_anything_else_from_pixi_is_told(document: object) -> None:
    assert from_pixi(document, PATH, "/p").state == "failed"


def test_pixi_is_asked_only_about_what_it_has_made(project: Path) -> None:
    (project / "pixi.toml").write_text("[workspace]\n")
    detection = found(Pixi(), project)
    result = Pixi().resolve(detection, context())
    assert (result.state, result.note) == (
        "missing",
        f"pixi has not created the environment default yet: run `pixi install -e default` in {project}",
    )
    assert Pixi().resolve(detection, context("/", "../x")).state == "failed"


def test_pixi_neither_installs_nor_locks(project: Path, tmp_path: Path) -> None:
    (project / "pixi.lock").write_text("")
    prefix_at(project / ".pixi/envs/test")
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "said").write_text(json.dumps(RECORDED_PIXI))
    fake = tools / "pixi"
    wanted = f"shell-hook --json --frozen --no-install --environment test --manifest-path {project}"
    fake.write_text(f'#!/bin/sh\n[ "$*" = "{wanted}" ] && [ -z "$CONDA_PREFIX" ] && exec cat {tools}/said\n')
    fake.chmod(0o755)
    detection = found(Pixi(), project)
    asking = Context(STALE, {"PATH": f"{tools}:{PATH}"}, "/", options={"values": ("test",)})
    assert Pixi().plan(detection, asking) == [["pixi", *wanted.split()]]
    result = Pixi().resolve(detection, asking)
    assert (result.state, result.set["ENV_VAR"]) == ("applied", "value")


@pytest.mark.parametrize(
    "manifest",
    [
        '[activation]\nscripts = ["setup.sh"]\n',
        '[feature.cuda.activation]\nscripts = ["setup.sh"]\n',
        '[target.linux-64.activation]\nscripts = ["setup.sh"]\n',
        '[feature.a.target.unix.activation]\nscripts = ["setup.sh", 1]\n',
    ],
)
def test_trust_in_pixi_is_bound_to_the_scripts_it_runs(project: Path, manifest: str) -> None:
    (project / "pixi.toml").write_text(manifest)
    (project / "setup.sh").write_text("one")
    detection = found(Pixi(), project)
    before = Pixi().trust(detection, context())
    assert (before.state, before.by) == ("untrusted", "outfitter")
    (project / "setup.sh").write_text("two")
    assert Pixi().trust(detection, context()).digest != before.digest
    assert f"{project}/setup.sh" in Pixi().watch(detection, context())


# Captures


def activating(project: Path, **scripts: str) -> Path:
    """A prefix in the project, with scripts that its activation runs."""
    prefix = prefix_at(project / ".conda")
    (prefix / "conda-meta/state").write_text('{"version": 1, "env_vars": {"MINE": "1"}}')
    for name, text in scripts.items():
        (prefix / f"etc/conda/activate.d/{name}.sh").write_text(text)
    (prefix / "etc/conda/activate.d/other.fish").write_text("exit 1")
    return prefix


def capture(project: Path) -> Resolution:
    return Conda().resolve(found(Conda(), project), context_of("capture"))


def context_of(mode: str) -> Context:
    env = {"PATH": PATH, "LANG": "C.UTF-8"}
    return Context(env, env, "/nobody", mode=mode, timeout=LONG)


def test_a_capture_runs_the_scripts_of_an_activation_in_their_order(project: Path) -> None:
    prefix = activating(
        project,
        a="export FIRST=$MINE$# PATH=$PATH:/opt/late\nexport __ETC_PROFILE_NIX_SOURCED=1 DIRENV_DIFF=x\n",
        b='export SECOND="$FIRST $CONDA_PREFIX"\nunset LANG\nhelper() { :; }\nhidden=1\nfalse\n',
    )
    snapshot = Conda().resolve(found(Conda(), project), context_of("snapshot"))
    assert [(one.name, one.kept_by) for one in snapshot.lost] == [
        ("etc/conda/activate.d/a.sh", "capture"),
        ("etc/conda/activate.d/b.sh", "capture"),
    ]
    said = capture(project)
    assert said.state == "applied", said.note
    assert said.set == {**snapshot.set, "FIRST": "10", "SECOND": f"10 {prefix}"}
    assert said.unset == ("LANG",)
    assert [(one.op, one.values) for one in said.operations] == [
        ("prepend", (f"{prefix}/bin",)),
        ("append", ("/opt/late",)),
    ]
    assert said.lost == (Lost("function", "helper", "session"),)
    assert said.origins["MINE"].file == f"{prefix}/conda-meta/state"
    assert said.origins["FIRST"].file == f"{prefix}/etc/conda/activate.d"
    assert {f"{prefix}/etc/conda/activate.d/{name}.sh" for name in "ab"} <= {*said.watch}


def test_a_capture_is_trusted_for_what_the_scripts_say(project: Path) -> None:
    prefix = activating(project)
    detection = found(Conda(), project)
    assert Conda().trust(detection, context_of("capture")).state == "suggested"
    script = prefix / "etc/conda/activate.d/a.sh"
    script.write_text("export A=1")
    trust = Conda().trust(detection, context_of("capture"))
    assert (trust.state, trust.by, trust.why) == (
        "untrusted",
        "outfitter",
        f"these scripts would run: {script}",
    )
    assert Conda().plan(detection, context_of("capture"))[0][-1] == str(script)
    assert Conda().trust(detection, context_of("snapshot")).state == "suggested"
    script.write_text("export A=2")
    assert Conda().trust(detection, context_of("capture")).digest != trust.digest


def test_a_script_that_ends_its_shell_is_a_failure(project: Path) -> None:
    activating(project, a="export A=1", b="echo out of order >&2\nexit 4")
    said = capture(project)
    assert (said.state, said.set, said.lost) == ("failed", {}, ())
    assert "it ended with status 4" in said.note
    assert said.stderr_tail == "out of order\n"


def test_a_script_that_never_ends_is_a_failure(project: Path) -> None:
    activating(project, a="sleep 600")
    env = {"PATH": PATH}
    context = Context(env, env, "/nobody", mode="capture", timeout=0.5 * SECOND)
    said = Conda().resolve(found(Conda(), project), context)
    assert said.state == "failed"
    assert "did not finish within" in said.note
