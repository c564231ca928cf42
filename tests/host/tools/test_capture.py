"""Sourcing a script: exact values when it ends well, a state for every other way to end, and nothing left."""

from __future__ import annotations

import os
import resource
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outfitter.env.redact import Secrets
from outfitter.host.tools.capture import OUTPUT_BYTES, Captured, capture
from tests.support.machine import PROC, SECOND, own_descriptors

SHORT = 1.0 * SECOND  # for scripts that never end
LONG = 20.0 * SECOND


class Shell:
    """A scratch home; every process that starts there carries a token."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.temporary = folder / "tmp"
        self.folder.mkdir()
        self.temporary.mkdir()
        self.token = f"{uuid.uuid4()}"
        self.env = {
            "HOME": str(self.folder),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "TMPDIR": str(self.temporary),
            "KEPT": "before",
            "GONE": "before",
            "CAPTURE_TEST": self.token,
        }

    def source(self, text: str, *, timeout: float = LONG, inline: bool = False, **given: Any) -> Captured:
        script = text
        if not inline:
            path = self.folder / "script.sh"
            path.write_text(text)
            script = str(path)
        return capture(script, cwd=str(self.folder), env=self.env, timeout=timeout, inline=inline, **given)

    def changed(self, result: Captured) -> dict[str, str | None]:
        assert result.env is not None, (result, result.tail)
        names = {*result.env, *self.env} - {"PWD"}
        return {name: result.env.get(name) for name in names if result.env.get(name) != self.env.get(name)}

    def running(self) -> list[int]:
        found = []
        for name in os.listdir(f"{PROC}"):
            if name.isdecimal() and int(name) != os.getpid():
                try:
                    environ = Path(f"{PROC}/{name}/environ").read_bytes()
                except OSError:
                    continue
                if self.token.encode() in environ:
                    found.append(int(name))
        return found


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    assert shell.running() == [], "something that a script started is still there"
    assert os.listdir(shell.temporary) == [], "a pipe was left"


both = pytest.mark.parametrize("inline", [False, True], ids=["file", "text"])


# What it gives


@both
def test_it_gives_the_environment_that_a_script_leaves(shell: Shell, inline: bool) -> None:
    text = "export A=1 B= C=$'two\\nlines' D='$X'; export KEPT=after; unset GONE; local_only=1"
    result = shell.source(text, inline=inline)
    assert (result.state, result.status, result.reason) == ("captured", 0, "")
    assert shell.changed(result) == {
        "A": "1",
        "B": "",
        "C": "two\nlines",
        "D": "$X",
        "KEPT": "after",
        "GONE": None,
    }


def test_bytes_that_are_no_text_come_through(shell: Shell) -> None:
    assert shell.changed(shell.source("export ODD=$'\\xff\\xfe'")) == {"ODD": "\udcff\udcfe"}


def test_a_script_sees_its_own_path_its_arguments_and_where_it_is(shell: Shell) -> None:
    text = 'export SEEN="$0|${BASH_SOURCE[0]}|$#|$1|$PWD"'
    path = f"{shell.folder}/script.sh"
    result = shell.source(text, arguments=["one two", "3"])
    assert shell.changed(result) == {"SEEN": f"{path}|{path}|2|one two|{shell.folder}"}
    assert shell.changed(shell.source(text)) == {"SEEN": f"{path}|{path}|0||{shell.folder}"}


@both
def test_it_has_nothing_to_read_and_no_terminal(shell: Shell, inline: bool) -> None:
    text = 'read -r line; export READ="$?" LINK="$(readlink /proc/self/fd/0)"; [ -t 2 ] && export TTY=1; :'
    assert shell.changed(shell.source(text, inline=inline)) == {"READ": "1", "LINK": "/dev/null"}


def test_a_text_may_be_longer_than_an_argument(shell: Shell) -> None:
    text = "# " + "x" * 300_000 + "\nexport A=1\n"
    assert shell.changed(shell.source(text, inline=True)) == {"A": "1"}


def test_startup_files_are_not_read_and_their_names_are_kept(shell: Shell) -> None:
    trap = shell.folder / "trap"
    trap.write_text("export TRAPPED=1\n")
    for name in (".bashrc", ".bash_profile", ".profile"):
        (shell.folder / name).write_text("export TRAPPED=1\n")
    shell.env.update(BASH_ENV=str(trap), ENV=str(trap), SHELLOPTS="errexit:xtrace")
    result = shell.source("false; export A=1")
    assert shell.changed(result) == {"A": "1"}
    assert result.output == ""


def test_what_it_leaves_in_its_shell_only_is_named(shell: Shell) -> None:
    shell.env["BASH_FUNC_known%%"] = "() { :; }"
    result = shell.source(
        "greet() { :; }; shopt -s expand_aliases; alias ll='ls -l'; umask 077; ulimit -n 99; cd /"
    )
    assert [(one.kind, one.name) for one in result.lost] == [
        ("alias", "ll"),
        ("cwd", "/"),
        ("function", "greet"),
        ("limit", "open files"),
        ("umask", "0077"),
    ]
    assert shell.source("known; export A=1").lost == ()


# Ways to end


@both
@pytest.mark.parametrize(
    ("text", "state", "status"),
    [
        ("exit 0", "captured", 0),
        ("exit 3", "failed", 3),
        ("set -e; false; export A=1", "failed", 1),
        ("set -u; echo $nothing_of_this_name", "failed", None),
        ("false", "failed", 1),
        ("if", "failed", 2),
        ("exec true", "replaced-or-exited", 0),
        ("exec false", "failed", 1),
        ("kill -9 $$", "failed", -9),
        ("kill -TERM $$", "failed", -15),
        ("set -n", "replaced-or-exited", 0),
        ("trap 'exit 4' EXIT", "failed", 4),
        ("trap : EXIT; exit 0", "replaced-or-exited", 0),
        ("nothing-of-this-name", "failed", 127),
    ],
)
def test_every_end_has_a_state(shell: Shell, text: str, state: str, status: int | None, inline: bool) -> None:
    result = shell.source(text, inline=inline)
    assert result.state == state
    assert status is None or result.status == status
    assert (result.env is None) == (state != "captured")
    assert bool(result.reason) == (state != "captured")


@both
@pytest.mark.parametrize(
    "text",
    [
        "export A=1; exit 0",
        "export A=1; set -- x y z; shift 9; :",
        "set -eu -o pipefail; export A=1",
        "set -a -f -C; A=1",
        "IFS=0123456789abcdef/; export A=1",
        "export A=1; exec 0<&- 1>&- 2>&- 3>&- 4</dev/null 5>/dev/null 9>&-",
        "export A=1; exec >/dev/full 2>&1; echo lost; :",
        "trap : EXIT ERR DEBUG RETURN INT TERM; export A=1",
        "trap '' TERM HUP; export A=1; kill $$",
        "shopt -s expand_aliases; alias env=false exec=false trap=false printf=false; export A=1",
        "env() { false; }; printf() { false; }; exit() { false; }; export A=1",
        "export A=1; cd /; set -x",
        "hash -p /nothing env; export A=1; enable -n printf echo",
        "export A=1; (exit 3); sleep 100 & :",
        "export A=1; (setsid sleep 1000 &) ; nohup sleep 1000 >/dev/null 2>&1 & disown",
        "PATH=; A=1; export A",
        "readonly A=1; export A; set -o posix",
    ],
)
def test_a_script_that_ends_well_is_captured_whatever_it_does_to_its_shell(
    shell: Shell, text: str, inline: bool
) -> None:
    result = shell.source(text, inline=inline)
    assert result.state == "captured", (result, result.tail)
    assert result.env is not None
    assert result.env["A"] == "1"


def test_its_own_trap_still_cleans_up(shell: Shell) -> None:
    result = shell.source("trap 'rm -f made' EXIT; touch made; export A=1")
    assert shell.changed(result) == {"A": "1"}
    assert not (shell.folder / "made").exists()


@both
def test_a_script_that_never_ends_is_ended_with_all_it_started(shell: Shell, inline: bool) -> None:
    result = shell.source(
        "trap '' TERM HUP INT; export A=1; (setsid sleep 1000 &); sleep 1000", timeout=SHORT, inline=inline
    )
    assert (result.state, result.status, result.env) == ("timeout", None, None)


def test_too_much_is_refused(shell: Shell) -> None:
    big = "x=$(printf '%0100000d' 0); for i in 1 2 3 4 5 6 7 8 9 10 11; do export BIG$i=$x; done"
    assert shell.source(big).state == "too-large"


def test_without_its_pipe_nothing_is_written_anywhere(shell: Shell) -> None:
    result = shell.source('rm -f "$TMPDIR"/outfitter-*/report; export API_TOKEN=not-for-a-disk')
    assert result.state == "replaced-or-exited"


def test_a_shell_that_is_not_there_is_a_state(shell: Shell) -> None:
    result = shell.source("export A=1", shell="no-such-bash")
    assert (result.state, result.status) == ("not-started", None)
    assert "no-such-bash" in result.reason
    missing = capture("/x", cwd="/no/such/folder", env=shell.env, timeout=LONG)
    assert missing.state == "not-started"


# What it says


def test_output_is_kept_in_its_order_and_passed_on_as_it_comes(shell: Shell) -> None:
    heard: list[bytes] = []
    result = shell.source("echo one; echo two >&2; echo three", log=heard.append)
    assert result.output == b"".join(heard).decode() == "one\ntwo\nthree\n"


def test_of_a_long_output_the_end_is_kept(shell: Shell) -> None:
    result = shell.source("yes abcdefghi | head -c 3000000; echo; echo the end")
    assert result.cut
    assert OUTPUT_BYTES - 100 < len(result.output) <= OUTPUT_BYTES
    assert result.tail.endswith("the end\n")


def test_secret_values_are_in_no_output_and_in_no_repr(shell: Shell) -> None:
    shell.env.update(API_TOKEN="the-old-secret", PIN_OF_MINE="the-other-one")
    result = shell.source(
        "set -x; echo $API_TOKEN $PIN_OF_MINE; export API_TOKEN=the-new-secret; echo $API_TOKEN",
        secrets=Secrets(["PIN_*"]),
    )
    assert result.env is not None
    assert result.env["API_TOKEN"] == "the-new-secret"
    for value in ("the-old-secret", "the-new-secret", "the-other-one"):
        assert value not in result.output + result.tail + repr(result)
    assert "[secret:API_TOKEN] [secret:PIN_OF_MINE]" in result.output


def test_a_listener_that_fails_ends_the_script(shell: Shell) -> None:
    def fail(data: bytes) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        shell.source("echo x; sleep 1000", log=fail)


def test_a_process_without_a_free_descriptor_is_told(shell: Shell) -> None:
    used = len(own_descriptors())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        for free in range(1, 7):
            resource.setrlimit(resource.RLIMIT_NOFILE, (used + free, hard))
            result = shell.source("export A=1", inline=True)
            assert result.state in ("not-started", "captured")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(own_descriptors()) == used


def test_a_variable_that_no_program_can_be_given_is_told_as_such(shell: Shell) -> None:
    result = shell.source("export BIG=$(printf %0200000d 0)\n")
    assert (result.state, result.env) == ("too-large", None)
    assert "too large for a program" in result.reason


def test_secrets_of_a_script_that_never_reports_are_masked_too(shell: Shell) -> None:
    result = shell.source(
        'export MY_TOKEN=made-by-itself-1\necho "has $MY_TOKEN"\nsleep 600\n', timeout=SHORT
    )
    # bash may find the time to say that its child was killed.
    assert (result.state, result.output.splitlines()[0]) == ("timeout", "has [secret:MY_TOKEN]")
    assert "made-by-itself" not in result.output


def test_a_script_that_takes_arguments_for_assignments_is_captured_whole(shell: Shell) -> None:
    result = shell.source("export A=1 ZZ=2\nset -k\n")
    assert (result.state, shell.changed(result)) == ("captured", {"A": "1", "ZZ": "2"})


# A script that was checked


def test_what_was_checked_is_sourced_whatever_is_in_the_file(shell: Shell) -> None:
    checked = b"""#!/bin/bash -e
export A="$0" B="${BASH_SOURCE[0]}" C="$(cd "$(dirname "${BASH_SOURCE}")" && pwd)" D="$LINENO" E="$*"
[ ! -e /proc/$BASHPID/fd/3 ] || export OPEN=1
own() { export F="${BASH_SOURCE[0]}"; }; own
return 0
export G=1
"""
    result = shell.source("touch swapped\nexport A=swapped\n", content=checked, arguments=["x", "y"])
    path = str(shell.folder / "script.sh")
    assert shell.changed(result) == {
        "A": path,
        "B": path,
        "C": str(shell.folder),
        "D": "2",
        "E": "x y",
        "F": path,
    }
    assert not (shell.folder / "swapped").exists()


def test_a_script_that_was_checked_writes_other_scripts_to_the_letter(shell: Shell) -> None:
    """They ask for their own path, not for that of the script that writes them."""
    checked = rb"""
cat >"${BASH_SOURCE%/*}/quoted" <<'EOF'
dirname "${BASH_SOURCE[0]}" "it's"
EOF
cat <<-"END" >"$(dirname "${BASH_SOURCE[0]}")/indented"
	echo $BASH_SOURCE
	END
cat <<EOF >escaped
# ${BASH_SOURCE[0]}
echo \${BASH_SOURCE[0]} \${#BASH_SOURCE[@]}
EOF
cat <<\EOF >lonely
EOF
export LAST="${BASH_SOURCE[0]}" SLASH=\\$BASH_SOURCE
"""
    result = shell.source("", content=checked)
    path = str(shell.folder / "script.sh")
    assert shell.changed(result) == {"LAST": path, "SLASH": f"\\{path}"}
    written = {
        name: (shell.folder / name).read_text() for name in ("quoted", "indented", "escaped", "lonely")
    }
    assert written == {
        "quoted": 'dirname "${BASH_SOURCE[0]}" "it\'s"\n',
        "indented": "echo $BASH_SOURCE\n",
        "escaped": f"# {path}\necho ${{BASH_SOURCE[0]}} ${{#BASH_SOURCE[@]}}\n",
        "lonely": "",
    }


def test_an_empty_script_that_was_checked_does_nothing(shell: Shell) -> None:
    assert shell.changed(shell.source("export A=1\n", content=b"")) == {}
