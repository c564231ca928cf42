"""devcontainer.json: nothing of it holds outside its container; inside, what is left of it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from outfitter.env.layer import Operation
from outfitter.env.origin import Origin
from outfitter.providers.base import Context, Resolution, Trust
from outfitter.providers.devcontainer import Devcontainer

TEXT = """\
{
  // what is fixed when it is made
  "containerEnv": {"FIXED": "1", "LATER": "${containerWorkspaceFolder}/x"},
  "remoteEnv": {
    "PATH": "/opt/x:${containerEnv:PATH}",
    "GONE": null,
    "A": "${containerEnv:FIXED}-${containerEnv:NONE}-${containerEnv:NONE:d}",
    "TOKEN": "${localEnv:TOKEN}", /* another machine's */
    "B": "a $X ${containerWorkspaceFolderBasename}",
    "C": "${devcontainerId}",
  },
}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "app"
    (root / ".devcontainer").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / ".devcontainer/devcontainer.json").write_text(TEXT)
    return root


def resolve(root: Path, *options: str, **env: str) -> Resolution:
    found = Devcontainer().detect(str(root))
    assert found is not None
    given = {"values": options} if options else {}
    context = Context({"PATH": "/bin", "FIXED": "0", "TOKEN": "t", **env}, {}, "/", options=given)
    assert Devcontainer().trust(found, context) == Trust("suggested")
    assert Devcontainer().plan(found, context) == []
    result = Devcontainer().resolve(found, context)
    assert result.watch == found.files
    return result


@pytest.mark.parametrize("env", [{}, {"REMOTE_CONTAINERS": "false"}, {"CODESPACES": ""}])
def test_outside_nothing_applies(root: Path, env: dict[str, str]) -> None:
    result = resolve(root, **env)
    assert (result.state, result.set, result.unset, result.operations) == ("not-applicable", {}, (), ())
    assert 'devcontainer = ["inside"]' in result.note


@pytest.mark.parametrize(
    ("options", "env"), [(("inside",), {}), ((), {"REMOTE_CONTAINERS": "true"}), ((), {"CODESPACES": "true"})]
)
def test_inside_the_rest_applies(root: Path, options: tuple[str, ...], env: dict[str, str]) -> None:
    result = resolve(root, *options, **env)
    file = f"{root}/.devcontainer/devcontainer.json"

    def at(line: int, key: str = "remoteEnv") -> Origin:
        return Origin("provider", f"devcontainer: {key}", file, line)

    assert result == Resolution(
        "applied",
        set={"LATER": f"{root}/x", "A": "0--d", "B": "a $X app"},
        unset=["GONE"],
        operations=[Operation("PATH", "prepend", ("/opt/x",), at(5))],
        origins={"LATER": at(3, "containerEnv"), "GONE": at(6), "A": at(7), "B": at(9)},
        watch=[file],
        producer="devcontainer",
        note="left out, because they refer to something unknown here: "
        "TOKEN (line 8: ${localEnv:TOKEN}), C (line 10: ${devcontainerId})",
    )


def test_of_several_one_must_be_chosen(root: Path) -> None:
    for name in ("api", "web"):
        (root / ".devcontainer" / name).mkdir()
        (root / ".devcontainer" / name / "devcontainer.json").write_text('{"remoteEnv": {"N": "%s"}}' % name)  # noqa: UP031
    (root / ".devcontainer/devcontainer.json").unlink()
    assert resolve(root).state == "not-applicable"
    result = resolve(root, "inside")
    assert (result.state, result.note) == (
        "failed",
        "choose one of .devcontainer/api/devcontainer.json, .devcontainer/web/devcontainer.json: "
        'devcontainer = ["inside", "FILE"]',
    )
    assert resolve(root, "inside", ".devcontainer/web/devcontainer.json").set == {"N": "web"}
    assert resolve(root, "inside", "../x").state == "failed"
    found = Devcontainer().detect(str(root))
    assert found is not None
    assert found.note == "2 configurations were found"


def test_a_file_beside_the_folder_is_found_from_below(root: Path) -> None:
    (root / ".devcontainer/devcontainer.json").rename(root / ".devcontainer.json")
    (root / "sub").mkdir()
    found = Devcontainer().detect(str(root / "sub"))
    assert found is not None
    assert (found.root, found.files) == (str(root), (f"{root}/.devcontainer.json",))
    assert Devcontainer().detect("/proc/self") is None


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("{", ":1: not valid JSON"),
        ("[]", " is not a JSON object"),
        ('{\n"remoteEnv": []}', ":2: remoteEnv must be an object"),
        ('{"remoteEnv": {\n"A": 1}}', ":2: A must be a string or null"),
        ('{"containerEnv": {\n"A": null}}', ":2: A must be a string"),
        ('{"remoteEnv": {"A": "\\ud800"}}', ":1: A must be a string or null"),
    ],
)
def test_mistakes_are_told_with_their_line(root: Path, text: str, note: str) -> None:
    file = root / ".devcontainer/devcontainer.json"
    file.write_text(text)
    result = resolve(root, "inside")
    assert result.state == "failed"
    assert result.note.startswith(f"{file}{note}")
