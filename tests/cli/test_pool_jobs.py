"""tasks.jsonl and results.jsonl."""

from __future__ import annotations

import json
from typing import Any

import pytest

from outfitter.cli.pool.bar import Bar, duration, line, summary
from outfitter.cli.pool.jobs import check, finished, jobs, parse, shown
from outfitter.cli.pool.jobs import line as result_line
from outfitter.errors import FileInvalid, SettingInvalid
from outfitter.pool.tally import PoolStatus


def test_a_task_has_what_its_line_says() -> None:
    text = b'{"id": "a", "command": ["make"], "cpus": 2, "memory": "1GiB", "group": "g", "setup": ["x"], '
    job = parse(text + b'"env": {"A": "b"}}')
    assert (job.id, job.command, job.env) == ("a", ("make",), {"A": "b"})
    assert job.wishes() == {"group": "g", "setup": ("x",), "cpus": 2, "memory": "1GiB"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "no object"),
        ('{"command": ["x"]}', "no `id`"),
        ('{"id": "a"}', "not exactly one"),
        ('{"id": "a", "command": ["x"], "script": "x"}', "not exactly one"),
        ('{"id": "a", "command": []}', "`command` is empty"),
        ('{"id": "a", "command": "x"}', "`command` has a value of another kind"),
        ('{"id": "a", "command": ["x", 1]}', "`command` has a value of another kind"),
        ('{"id": "a", "script": "x", "env": {"A": 1}}', "`env` has a value of another kind"),
        ('{"id": "a", "script": "x", "timeout": true}', "`timeout` has a value of another kind"),
        ('{"id": "a", "script": "x", "comand": 1}', "unknown member `comand`"),
        ('{"id": "a", "script": "x", "memory": "much"}', "memory"),
        ('{"id": "a", "script": "x", "files": {"/etc/x": ""}}', "`files` has a path outside"),
        ('{"id": "a", "script": "x", "files": {"a/../../x": ""}}', "`files` has a path outside"),
        ('{"id": "a", "script": "x", "files": {"file:///etc/x": ""}}', "`files` has a path outside"),
    ],
)
def test_what_is_no_task_is_told(text: str, problem: str) -> None:
    with pytest.raises(SettingInvalid) as caught:
        parse(text.encode())
    assert str(caught.value).startswith(problem)


def test_all_mistakes_of_a_file_are_told_with_their_lines() -> None:
    lines = [b'{"id": "a", "script": "x"}\n', b"\n", b"{}\n", b'{"id": "a", "script": "y"}\n']
    with pytest.raises(FileInvalid) as caught:
        check(lines, "tasks.jsonl")
    assert [(mistake.line, mistake.text) for mistake in caught.value.mistakes] == [
        (3, "no `id`"),
        (4, "the id of line 1"),
    ]
    assert check(lines[:2], "tasks.jsonl") == ["a"]
    assert [(job.id, size) for job, size in jobs(lines[:2])] == [("a", len(lines[0]))]


def test_no_more_mistakes_than_somebody_reads() -> None:
    with pytest.raises(FileInvalid) as caught:
        check([b"{}"] * 1000, "tasks.jsonl")
    assert len(caught.value.mistakes) == 20


def test_results_that_are_there_already() -> None:
    lines = [
        b'{"id": "a", "state": "lost"}',
        b'{"id": "b", "state": "done"}',
        b'{"id": "a", "state": "done"}',
    ]
    assert finished([*lines, b'{"id": "c", "sta', b"[]"]) == {"a": "done", "b": "done"}


@pytest.mark.parametrize("name", ["ä", "\udcff.txt", "\ud800"])
def test_a_result_can_be_written_whatever_is_in_it(name: str) -> None:
    """A file's name in bytes that are no text, say: it must not be the end of the whole run."""
    result = {"id": "a", "collected": {name: "x"}}
    assert json.loads(result_line(result)) == result


def test_output_is_text_or_base64() -> None:
    assert shown("zwölf".encode()) == "zwölf"
    assert shown(b"\xff") == {"base64": "/w=="}


# The bar


def status(**given: Any) -> PoolStatus:
    return {"leased": 64, "slots": {"leased": 64, "starting": 2}, **given}  # type: ignore[return-value, typeddict-item]


def test_the_line_says_how_far_it_is() -> None:
    said = line({"done": 4_110, "failed": 4, "lost": 3}, 10_000, status(), 196.0)
    assert said.startswith(
        "[=========>              ] 4,117/10,000  64 leased  2 starting  4 failed  3 lost  21/s"
    )
    assert said.endswith("  about 5 min")
    assert line({}, 10, status(), 0.0).endswith("] 0/10  64 leased  2 starting  0/s")
    assert line({"done": 10}, 10, status(), 5.0).startswith("[========================] 10/10")


def test_in_a_narrow_terminal_the_bar_gives_way_first() -> None:
    states = {"done": 4_110, "failed": 4, "lost": 3}
    text = "4,117/10,000  64 leased  2 starting  4 failed  3 lost  21/s  about 5 min"
    assert line(states, 10_000, status(), 196.0, len(text) + 7) == f"[=>  ] {text}"
    assert line(states, 10_000, status(), 196.0, len(text) + 6) == text


def test_without_a_terminal_there_is_a_line_every_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    now = [100.0]
    bar = Bar(40, lambda: now[0])
    told = []
    for second in range(100, 131):
        now[0] = second
        bar.count("done")
        bar.draw(status())
        said = capsys.readouterr().err
        told += [(second, said)] if said else []
    assert [second for second, _ in told] == [110, 120, 130]
    assert all(said.count("\n") == 1 and said.endswith("\n") and "\x1b" not in said for _, said in told)
    assert "] 11/40  64 leased" in told[0][1]
    bar.end()
    assert capsys.readouterr().err == "31 tasks in 30 s: 31 done\n"


def test_the_end_is_a_sentence() -> None:
    assert summary({"done": 9_990, "lost": 10}, 500.0) == "10,000 tasks in 8 min: 9,990 done, 10 lost"
    assert summary({}, 0.2) == "0 tasks in 0 s: nothing to do"


@pytest.mark.parametrize(("seconds", "text"), [(59, "59 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h")])
def test_a_duration_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text
