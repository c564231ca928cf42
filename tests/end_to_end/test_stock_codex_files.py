"""What the stock Codex client does with files works on our server as on the reference: patches, AGENTS.md,
skills, images. Every test runs on both."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

from tests.end_to_end.test_stock_codex import Stage, stage
from tests.support.codex import run_codex
from tests.support.model import Call, Script, apply_patch, exec_command, modelling, view_image

__all__ = ["stage"]  # a fixture


def play(stage: Stage, *steps: Call) -> list[str]:
    """Runs the client through these calls; returns what the model was told about each."""

    def script() -> Script:
        for step in steps:
            yield [step]
        return "done"

    stage.play(script)
    return [output.raw for output in stage.outputs]


# Patches


def test_patch_creates_files_also_in_new_folders(stage: Stage) -> None:
    play(stage, apply_patch("*** Add File: a.txt", "+one", "+two", "*** Add File: new/er/b.txt", "+three"))
    assert (stage.cwd / "a.txt").read_text() == "one\ntwo\n"
    assert (stage.cwd / "new/er/b.txt").read_text() == "three\n"


def test_patch_changes_a_file_and_keeps_its_mode(stage: Stage) -> None:
    script = stage.cwd / "run.sh"
    script.write_text("#!/bin/sh\necho old\n")
    script.chmod(0o755)
    outputs = play(
        stage,
        apply_patch("*** Update File: run.sh", "@@", " #!/bin/sh", "-echo old", "+echo new"),
        exec_command("./run.sh"),
    )
    assert script.read_text() == "#!/bin/sh\necho new\n"
    assert script.stat().st_mode & 0o777 == 0o755
    assert "new\n" in outputs[1]


def test_patch_deletes_and_renames(stage: Stage) -> None:
    (stage.cwd / "old.txt").write_text("same\nline\n")
    (stage.cwd / "gone.txt").write_text("x\n")
    play(
        stage,
        apply_patch(
            "*** Delete File: gone.txt",
            "*** Update File: old.txt",
            "*** Move to: moved/new.txt",
            "@@",
            " same",
            "-line",
            "+changed",
        ),
    )
    assert not (stage.cwd / "gone.txt").exists()
    assert not (stage.cwd / "old.txt").exists()
    assert (stage.cwd / "moved/new.txt").read_text() == "same\nchanged\n"


def test_patch_of_a_missing_file_fails_and_changes_nothing(stage: Stage) -> None:
    [told] = play(stage, apply_patch("*** Update File: nonesuch.txt", "@@", "-a", "+b"))
    assert "nonesuch.txt" in told
    assert list(stage.cwd.iterdir()) == []


def test_patch_leaves_no_temporary_files(stage: Stage) -> None:
    play(stage, *(apply_patch(f"*** Add File: f{number}.txt", "+x") for number in range(3)))
    assert sorted(path.name for path in stage.cwd.iterdir()) == ["f0.txt", "f1.txt", "f2.txt"]


# Instructions and skills


def requests_of(stage: Stage) -> str:
    """Everything the model was told in a run with one command."""

    def script() -> Script:
        yield [exec_command("true")]
        return "done"

    with modelling(script) as model:
        run = run_codex(stage.root / "client", model=model.url, server=stage.tap.url, cwd=stage.cwd)
    assert (run.exit_code, run.message) == (0, "done"), run
    return json.dumps(model.requests)


def test_instructions_of_the_project_reach_the_model(stage: Stage) -> None:
    (stage.cwd / ".git").mkdir()
    (stage.cwd / "AGENTS.md").write_text("Remember the heliotrope rule.\n")
    assert "heliotrope rule" in requests_of(stage)
    assert stage.tap.connections == 1


def test_instructions_above_the_working_directory_are_found(stage: Stage) -> None:
    (stage.cwd / ".git").mkdir()
    (stage.cwd / "AGENTS.md").write_text("Mind the vermilion gate.\n")
    below = stage.cwd / "sub"
    below.mkdir()
    stage.cwd = below
    assert "vermilion gate" in requests_of(stage)


def test_skills_of_the_project_reach_the_model(stage: Stage) -> None:
    # W6
    (stage.cwd / ".git").mkdir()
    skill = stage.cwd / ".agents/skills/celadon"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: celadon\ndescription: glazes pots in green\n---\nBody.\n")
    assert "glazes pots in green" in requests_of(stage)
    assert stage.tap.sent("fs/walk")


# Images


def png() -> bytes:
    """One red point."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return len(data).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")

    header = (1).to_bytes(4, "big") * 2 + bytes((8, 2, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0"))
        + chunk(b"IEND", b"")
    )


def test_image_reaches_the_model(stage: Stage) -> None:
    (stage.cwd / "dot.png").write_bytes(png())

    def script() -> Script:
        yield [view_image(str(stage.cwd / "dot.png"))]
        return "done"

    with modelling(script) as model:
        run = run_codex(stage.root / "client", model=model.url, server=stage.tap.url, cwd=stage.cwd)
    assert (run.exit_code, run.message) == (0, "done"), run
    assert "data:image/png;base64," in json.dumps(model.requests)
    read = [params["path"] for params in stage.tap.sent("fs/readFile")]
    assert Path(stage.cwd / "dot.png").as_uri() in read
