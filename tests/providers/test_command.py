"""A program that prints JSON: trusted by content, and taken exactly or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outfitter.env.layer import Operation
from outfitter.env.origin import Origin
from outfitter.host.tools.tool import Ran, run_tool
from outfitter.providers.base import Detection, Lost, Resolution, Trust
from outfitter.providers.command import Command
from outfitter.record import replace
from tests.support.machine import SECOND, own_descriptors

from .project import LONG, PATH, Project

NAME = "./tools/environment"


class Place(Project):
    """A project whose program is a shell script."""

    argv: tuple[str, ...] = (NAME,)

    def script(self, text: str) -> None:
        self.write(NAME, f"#!/bin/sh\n{text}\n", 0o755)

    def prints(self, value: object) -> None:
        self.write("answer", value if isinstance(value, str) else json.dumps(value))
        self.script("cat answer")

    @property
    def provider(self) -> Command:
        return Command({"values": self.argv})

    @property
    def found(self) -> Detection:
        found = self.provider.detect(str(self.root))
        assert found is not None
        return found

    def trust(self) -> Trust:
        return self.provider.trust(self.found, self.context())

    def resolve(self, timeout: float = LONG) -> Resolution:
        return self.provider.resolve(self.found, self.context(timeout=timeout))

    def refused(self, value: object) -> str:
        """What is said about an answer that cannot be used."""
        self.prints(value)
        said = self.resolve()
        assert (said.state, said.set, said.unset, said.operations) == ("failed", {}, (), ())
        return said.note


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    before = own_descriptors()
    yield place
    assert place.left_behind() == []
    assert own_descriptors() == before


# Which program


def test_without_a_configured_program_there_is_none(place: Place) -> None:
    place.script("")
    for options in ({}, {"values": ()}, {"values": [""]}, {"values": "x"}, {"values": [NAME, 1]}):
        assert Command(options).detect(str(place.root)) is None


def test_a_program_of_the_project_is_looked_for_upwards(place: Place) -> None:
    place.script("")
    (place.root / "a/b").mkdir(parents=True)
    file = f"{place.root}/tools/environment"
    assert place.provider.detect(str(place.root / "a/b")) == Detection(
        str(place.root), (file,), f"command:{NAME}"
    )
    place.write("a/.git", "")
    assert place.provider.detect(str(place.root / "a/b")) is None


def test_a_program_of_the_system_runs_in_the_projects_folder(place: Place) -> None:
    place.write("outfitter.toml", "")
    (place.root / "a").mkdir()
    place.argv = ("sh", "-c", 'printf "{\\"set\\": {\\"WHERE\\": \\"%s\\"}}" "$PWD"')
    found = place.provider.detect(str(place.root / "a"))
    assert found == Detection(str(place.root), (), "command:sh")
    assert place.provider.resolve(found, place.context()).set == {"WHERE": str(place.root)}


# Trust


def test_trust_is_asked_for_by_content_and_arguments(place: Place) -> None:
    place.script("echo {}")
    first = place.trust()
    assert (first.state, first.by, first.digest[:7]) == ("untrusted", "outfitter", "sha256:")
    assert place.trust() == first
    place.argv = (NAME, "--more")
    assert place.trust().digest != first.digest
    place.argv = (NAME,)
    place.script("echo {} ")
    assert place.trust().digest != first.digest
    place.script("echo {}")
    assert place.trust() == first


def test_arguments_do_not_run_into_each_other(place: Place) -> None:
    place.script("")
    digests = set()
    for argv in ((NAME, "a", "b"), (NAME, "ab"), (NAME, "a b"), (NAME, "", "ab")):
        place.argv = argv
        digests.add(place.trust().digest)
    assert len(digests) == 4


def test_a_script_for_an_interpreter_is_part_of_the_content(place: Place) -> None:
    script = place.write("environment.py", "print('{}')\n")
    place.argv = ("python3", "environment.py")
    first = place.trust().digest
    assert str(script) in place.provider.watch(place.found, place.context())
    place.write("environment.py", "print('{ }')\n")
    assert place.trust().digest != first


def test_a_program_that_is_not_there_cannot_be_trusted(place: Place) -> None:
    place.argv = ("no-such-program-anywhere",)
    trust = place.trust()
    assert (trust.state, trust.by, trust.digest) == ("untrusted", "", "")
    assert "does not exist" in trust.why
    assert place.resolve().state == "missing"


def test_a_file_that_may_not_be_executed_is_not_run(place: Place) -> None:
    place.write(NAME, "#!/bin/sh\ntouch ran\n", 0o644)
    assert "chmod +x" in place.trust().why
    assert place.resolve().state == "missing"


def test_nothing_runs_before_it_is_asked_to(place: Place) -> None:
    place.script("touch ran; echo {}")
    context = place.context()
    place.trust()
    tool = f"{place.root}/tools/environment"
    assert place.provider.plan(place.found, context) == [[tool]]
    assert place.provider.watch(place.found, context) == [tool]
    assert not (place.root / "ran").exists()
    assert place.resolve().state == "applied"
    assert (place.root / "ran").exists()


# What it says


def test_the_whole_answer(place: Place) -> None:
    place.prints(
        {
            "set": {
                "PLAIN": "x",
                "EMPTY": "",
                "GONE": None,
                "KEPT": {"value": "abcdefgh", "secret": True, "source": "/vault"},
                "ALSO_GONE": {"value": None},
                "MANPATH": "/man",
            },
            "unset": ["LANG"],
            "path": [
                {"var": "PATH", "op": "prepend", "value": "/p/bin"},
                {"var": "PATH", "op": "remove", "value": ["/bin", "/usr/bin"]},
            ],
            "lost": [
                {"kind": "function", "name": "greet"},
                {"kind": "hook", "name": "x", "kept_by": "capture"},
            ],
            "watch": ["lock", "/etc/hosts"],
            "producer": "own 1.0",
        }
    )
    said = place.resolve()
    origin = Origin("provider", f"command:{NAME}", place.found.files[0])
    assert said.state == "applied"
    assert said.set == {"PLAIN": "x", "EMPTY": "", "KEPT": "abcdefgh"}
    assert said.unset == ("GONE", "ALSO_GONE", "LANG")
    assert said.operations == (
        Operation("MANPATH", "prepend", ("/man",), origin),
        Operation("PATH", "prepend", ("/p/bin",), origin),
        Operation("PATH", "remove", ("/bin", "/usr/bin"), origin),
    )
    assert said.origins == {"KEPT": Origin("provider", f"command:{NAME}", "/vault")}
    assert said.secrets == {"KEPT"}
    assert said.lost == (Lost("function", "greet", "wrap"), Lost("hook", "x", "capture"))
    assert said.watch == (f"{place.root}/tools/environment", f"{place.root}/lock", "/etc/hosts")
    assert said.producer == "own 1.0"


def test_a_whole_path_is_told_as_what_was_done_to_it(place: Place) -> None:
    place.prints({"set": {"PATH": f"/p/bin:{PATH}"}})
    assert [(one.op, one.values) for one in place.resolve().operations] == [("prepend", ("/p/bin",))]


def test_an_empty_object_is_nothing_to_do(place: Place) -> None:
    place.prints({})
    said = place.resolve()
    assert (said.state, said.set, said.unset, said.producer) == ("applied", {}, (), NAME)


@pytest.mark.parametrize(
    ("answer", "field"),
    [
        ({"variables": {}}, "variables: unknown field"),
        ({"set": {"A": 1}}, "set.A: is a number: write it as a string"),
        ({"set": {"A": 1.5}}, "set.A: is a number"),
        ({"set": {"A": True}}, "set.A: is a boolean"),
        ({"set": {"A": ["x"]}}, "set.A: is a list"),
        ({"set": {"A": {"value": "x", "hidden": True}}}, "set.A.hidden: unknown field"),
        ({"set": {"A": {"secret": True}}}, "set.A.value: is missing"),
        ({"set": {"A": {"value": "x", "secret": "yes"}}}, "set.A.secret: is text"),
        ({"set": ["A=1"]}, "set: is a list, not an object"),
        ({"set": None}, "set: is null"),
        ({"set": {"A": "x"}, "unset": ["A"]}, "unset[0]: A is also in `set`"),
        ({"unset": "A"}, "unset: is text, not a list"),
        ({"unset": [None]}, "unset[0]: is null"),
        ({"path": [{"var": "PATH", "op": "insert", "value": "/x"}]}, "path[0].op: must be one of"),
        ({"path": [{"var": "PATH", "value": "/x"}]}, "path[0].op: is null"),
        ({"path": [{"op": "prepend", "value": "/x"}]}, "path[0].var: is null"),
        ({"path": [{"var": "PATH", "op": "prepend", "value": [1]}]}, "path[0].value: is a number"),
        ({"path": [{"var": "PATH", "op": "prepend", "value": "/x", "at": 1}]}, "path[0].at: unknown field"),
        ({"path": ["/x"]}, "path[0]: is text, not an object"),
        ({"lost": [{"kind": "function"}]}, "lost[0].name: is null"),
        ({"lost": [{"kind": "f", "name": "x", "kept_by": "magic"}]}, "lost[0].kept_by: must be one of"),
        ({"watch": [{"path": "/x"}]}, "watch[0]: is an object"),
        ({"producer": 1}, "producer: is a number"),
        ('{"set": {"A": "\\ud800"}}', "set.A: contains half a character"),
        ('{"set": {"A": "hunter2", "A": "2"}}', "a name is listed twice"),
        ("[]", "printed a list"),
        ("", "line 1, column 1"),
        ('{"set": {"A": "hunter2"}', "is not JSON"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_what_cannot_be_used_is_refused_by_its_field(place: Place, answer: object, field: str) -> None:
    note = place.refused(answer)
    assert field in note
    assert "hunter2" not in note


def test_bytes_that_are_no_text_are_refused(place: Place) -> None:
    place.script('printf \'{"set": {"A": "\\377"}}\'')
    assert "not UTF-8" in place.resolve().note


def test_all_mistakes_are_told_at_once(place: Place) -> None:
    note = place.refused({"set": {"A": 1, "B": 2}, "more": 1})
    assert all(text in note for text in ("set.A", "set.B", "more"))
    assert note.startswith(f"{NAME} printed something that cannot be used")
    many = place.refused({"set": dict.fromkeys([f"N{number}" for number in range(30)], 1)})
    assert many.endswith("; and 10 more")


# What goes wrong


def test_the_exit_code_counts(place: Place) -> None:
    place.script('echo "{}"; echo "no luck" >&2; exit 3')
    said = place.resolve()
    assert (said.state, said.stderr_tail) == ("failed", "no luck\n")
    assert said.note == f"{NAME} ended with status 3; what it printed is not used"


def test_a_program_that_cannot_be_started_says_why(place: Place) -> None:
    place.write(NAME, "#!/no/such/interpreter\n", 0o755)
    said = place.resolve()
    assert said.state == "failed"
    assert "was not started" in said.note


def test_a_hang_fails_and_takes_everything_with_it(place: Place) -> None:
    place.script("sleep 600 & setsid sleep 600 & sleep 600")
    said = place.resolve(1.0 * SECOND)
    assert said.state == "failed"
    assert "did not finish" in said.note


def test_secrets_are_not_in_what_it_complains_about(place: Place) -> None:
    place.prints({"set": {"DIARY": {"value": "hunter2hunter2", "secret": True}, "A_TOKEN": "uvwxyzuvwxyz"}})
    place.script("cat answer; echo hunter2hunter2 and uvwxyzuvwxyz >&2")
    assert place.resolve().stderr_tail == "[secret:DIARY] and [secret:A_TOKEN]\n"


def test_it_gets_what_tools_get(place: Place) -> None:
    place.env |= {"CI": "true", "API_TOKEN": "abcdefgh"}
    place.script('printf \'{"set": {"SEEN": "%s %s"}}\' "${CI-none}" "${API_TOKEN-none}"')
    assert place.resolve().set == {"SEEN": "none none"}


# What was allowed is what runs


GOOD, EVIL = """echo '{"set": {"A": "good"}}'""", """touch swapped; echo '{"set": {"A": "evil"}}'"""


def swapping(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody puts another program in place of the one that was checked, at the last moment."""

    def swapped(*args: Any, **more: Any) -> Ran:
        place.write("other", f"#!/bin/sh\n{EVIL}\n", 0o755)
        os.replace(place.root / "other", place.root / NAME)
        return run_tool(*args, **more)

    monkeypatch.setattr("outfitter.providers.command.run_tool", swapped)


@pytest.mark.parametrize("argv", [(NAME,), ("sh", "tools/environment"), ("env", "sh", NAME)])
def test_a_program_that_is_swapped_before_its_start_does_not_run(
    place: Place, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...]
) -> None:
    place.argv = argv
    place.script(GOOD)
    context = replace(place.context(), granted=place.trust().digest)
    swapping(place, monkeypatch)
    said = place.provider.resolve(place.found, context)
    assert (said.state, said.set) == ("applied", {"A": "good"})
    assert not (place.root / "swapped").exists()


def test_a_program_that_was_swapped_after_it_was_allowed_does_not_run(place: Place) -> None:
    place.script(GOOD)
    context = replace(place.context(), granted=place.trust().digest)
    place.script(EVIL)
    said = place.provider.resolve(place.found, context)
    assert (said.state, said.set) == ("failed", {})
    assert said.note == f"{NAME} has changed since it was allowed: type `outfitter trust {place.root}`"
    assert not (place.root / "swapped").exists()


def test_a_program_finds_itself_and_its_project(place: Place) -> None:
    place.script("""printf '{"set": {"A": "%s %s"}}' "$OUTFITTER_PROGRAM" "$PWD" """)
    assert place.resolve().set == {"A": f"{place.root}/{NAME[2:]} {place.root}"}
    place.argv = ("sh", NAME)
    assert place.resolve().set == {"A": f"{place.root}/{NAME[2:]} {place.root}"}


def test_a_program_from_elsewhere_runs_where_it_is(place: Place, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("""#!/bin/sh\nprintf '{"set": {"A": "%s"}}' "$0"\n""")
    elsewhere.chmod(0o755)
    place.argv = (str(elsewhere),)
    assert place.resolve().set == {"A": str(elsewhere)}
    # A link in the project to what is not of it, such as an interpreter in an environment.
    (place.root / "link").symlink_to(elsewhere)
    place.argv = ("./link",)
    assert place.resolve().set == {"A": f"{place.root}/link"}
