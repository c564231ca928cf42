"""What a Mac does to an environment, on files recorded from documentation (see mac/README.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from outfitter.contract.doctor.mac import (
    LAUNCHD_PATH,
    Mac,
    case,
    homebrew,
    launchd,
    look,
    path_helper,
    private_links,
    python_stub,
)

from .build import FILE, configured, given, seen

RECORDED = str(Path(__file__).with_name("mac"))
HELPED = Mac("/etc/zprofile:7", ["/usr/local/bin", "/usr/bin", "/bin"])


def test_the_recorded_files_are_understood() -> None:
    found = look(RECORDED, {}, "/")
    assert found.helper == "/etc/zprofile:7"
    assert found.own[:2] == ("/usr/local/bin", "/System/Cryptexes/App/usr/bin")
    assert found.own[-2:] == ("/Library/TeX/texbin", "/usr/local/go/bin")  # by the names of their files
    assert (found.brews, found.tools, found.stubs) == ((), False, ())


def test_homebrew_and_tools_are_looked_for(tmp_path: Path) -> None:
    for place in ("opt/homebrew/bin/brew", "Library/Developer/CommandLineTools/here"):
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).touch()
    found = look(str(tmp_path), {}, "/")
    assert (found.brews, found.tools, found.helper, found.own) == (("/opt/homebrew",), True, "", ())


def test_entries_that_path_helper_puts_behind_the_systems_are_named() -> None:
    finding = path_helper(given({"PATH": "/opt/homebrew/bin:/usr/bin:/bin:/last"}), HELPED)
    status, details = seen(finding)
    assert status == "warning"
    assert details == ("/opt/homebrew/bin comes behind the folders of /etc/paths and /etc/paths.d",)
    assert "(/etc/zprofile:7)" in finding.summary and "~/.zprofile" in finding.remedy


@pytest.mark.parametrize("mac", [HELPED, Mac()], ids=["in order", "no helper"])
def test_path_that_path_helper_leaves_alone_is_fine(mac: Mac) -> None:
    assert seen(path_helper(given({"PATH": "/usr/bin:/bin:/mine"}), mac)) == ("ok", ())


def test_homebrew_that_path_lacks_has_its_own_line_as_the_remedy() -> None:
    finding = homebrew(given(), Mac(brews=["/opt/homebrew"]))
    assert seen(finding)[0] == "warning"
    assert 'eval "$(/opt/homebrew/bin/brew shellenv)"' in finding.remedy


def test_of_two_homebrews_the_first_is_named() -> None:
    path = "/usr/local/bin:/opt/homebrew/bin:/usr/bin"
    finding = homebrew(given({"PATH": path}), Mac(brews=["/opt/homebrew", "/usr/local"]))
    assert seen(finding)[0] == "ok"
    assert finding.summary.endswith("programs of /usr/local are found first")


@pytest.mark.parametrize("brews", [[], ["/opt/homebrew"]])
def test_homebrew_that_is_found_or_absent_is_fine(brews: list[str]) -> None:
    assert seen(homebrew(given({"PATH": "/opt/homebrew/bin"}), Mac(brews=brews)))[0] == "ok"


def test_launchds_environment_is_named_as_such() -> None:
    base = given()
    base.base.clear()  # type: ignore[attr-defined]
    base.base.update(PATH=LAUNCHD_PATH, XPC_SERVICE_NAME="application.com.example.editor.1")  # type: ignore[attr-defined]
    finding = launchd(configured(), base, Mac())
    status, details = seen(finding)
    assert (status, len(details)) == ("warning", 2)
    assert "launchd's environment" in finding.summary and FILE in finding.remedy
    assert seen(launchd(configured(snapshot="loginShell"), base, Mac()))[0] == "ok"


def test_terminal_is_not_taken_for_launchd() -> None:
    # Terminal's shells have XPC_SERVICE_NAME=0.
    assert seen(launchd(configured(), given({"XPC_SERVICE_NAME": "0"}), Mac())) == ("ok", ())


def test_stubs_without_the_tools_are_named() -> None:
    finding = python_stub(given(), Mac(tools=False, stubs=["python3", "git"]))
    assert seen(finding)[0] == "warning"
    assert finding.summary.endswith(": python3, git") and "xcode-select --install" in finding.remedy
    assert seen(python_stub(given(), Mac(tools=True, stubs=["python3"])))[0] == "ok"


def test_entries_that_differ_by_case_alone_are_one_folder() -> None:
    base = given({"PATH": "/Users/ada/bin:/usr/bin:/users/Ada/bin:/usr/bin"})
    finding = case(base, Mac(ignores_case=True))
    assert seen(finding) == ("warning", ("/users/Ada/bin is the same folder as an entry before it",))
    assert seen(case(base, Mac()))[0] == "ok"
    assert seen(case(given(), Mac(ignores_case=True)))[0] == "ok"


def test_names_below_private_are_told() -> None:
    finding = private_links(given({"PWD": "/tmp/work"}), Mac(cwd="/private/tmp/work"))
    assert (finding.status, len(finding.details)) == ("ok", 1)
    assert finding.summary.startswith("/tmp/work is /private/tmp/work")
    assert seen(private_links(given({"PWD": "/Users/ada"}), Mac(cwd="/Users/ada"))) == ("ok", ())
