"""fs/* with a sandbox, over the wire: each method under one profile, and what it must not tell."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.support.profiles import at, context, hidden, read_only, special, workspace_write
from tests.support.servers import Server, serving
from tests.support.wire import Message, Wire, b64

READ_ONLY = (-32603, "Read-only file system (os error 30)")
MISSING = (-32004, "No such file or directory (os error 2)")
DENIED = (-32600, "Permission denied (os error 13)")
NAMES = ["a", "b", "deep/c", "secret/key", "top.env"]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path.resolve() / "work"
    for name in NAMES:
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(f"needle in {name}\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("needle outside\n")
    (work / "link").symlink_to(tmp_path.resolve() / "outside" / "file")
    return work


class Confined:
    """Requests with one context."""

    def __init__(self, wire: Wire, sandbox: Message) -> None:
        self.wire = wire
        self.sandbox = sandbox

    def call(self, method: str, path: Path, **params: Any) -> Any:
        return self.wire.call(method, {"path": path.as_uri(), "sandbox": self.sandbox, **params})

    def refused(self, method: str, path: Path, **params: Any) -> tuple[int, str]:
        error = self.wire.error(method, {"path": path.as_uri(), "sandbox": self.sandbox, **params})
        return error["code"], error["message"]


def partly(work: Path) -> Message:
    """Of all files only those of the work can be seen, and of these two are masked."""
    return context(at(work, "write"), at(work / "secret", "deny"), hidden(f"{work}/**/*.env"))


def walk_options(**options: Any) -> Message:
    return {
        "maxDepth": 8,
        "maxDirectories": 100,
        "maxEntries": 1000,
        "followDirectorySymlinks": True,
        **options,
    }


def test_a_handle_is_opened_under_the_sandbox_and_used_without_it(wire: Wire, work: Path) -> None:
    files = Confined(wire, partly(work))
    assert files.call("fs/open", work / "a", handleId="r") == {"handleId": "r"}
    block = wire.call("fs/readBlock", {"handleId": "r", "offset": 0, "len": 6})
    assert block == {"chunk": b64(b"needle"), "eof": False}
    files.call("fs/open", work / "new", handleId="w", mode="replace")
    wire.call("fs/writeBlock", {"handleId": "w", "offset": 0, "chunk": b64(b"text")})
    assert not (work / "new").exists()
    for ident in ("r", "w"):
        wire.call("fs/close", {"handleId": ident})
    assert (work / "new").read_text() == "text"
    files.call("fs/open", work / "new", handleId="u", mode="update")
    wire.call("fs/writeBlock", {"handleId": "u", "offset": 2, "chunk": b64(b"X")})
    wire.call("fs/close", {"handleId": "u"})
    assert (work / "new").read_text() == "teXt"
    assert files.refused("fs/open", work / "secret" / "key", handleId="x") == DENIED
    assert files.refused("fs/open", work / "link", handleId="x") == MISSING
    assert files.refused("fs/open", work / ".git" / "x", handleId="x", mode="replace") == READ_ONLY


def test_a_large_file_is_streamed_from_under_the_sandbox(wire: Wire, work: Path) -> None:
    content = bytes(range(256)) * (24 << 10)  # 6 MiB: sent block by block
    (work / "large").write_bytes(content)
    answer = Confined(wire, partly(work)).call("fs/readFile", work / "large")
    assert base64.b64decode(answer["dataBase64"]) == content


def test_a_walk_shows_what_can_be_seen(wire: Wire, work: Path) -> None:
    result = Confined(wire, partly(work)).call("fs/walk", work.parent, options=walk_options())
    prefix = len(work.parent.as_uri()) + 1
    told = [entry["path"][prefix:] for entry in result["entries"]]
    assert told == ["work", "work/a", "work/b", "work/deep", "work/secret", "work/top.env", "work/deep/c"]
    secret = (work / "secret").as_uri()
    assert result["errors"] == [{"path": secret, "message": "Permission denied (os error 13)"}]


def test_a_large_walk_in_a_process_of_its_own_shows_no_more(server: Server, wire: Wire, work: Path) -> None:
    for number in range(2100):
        (work / "deep" / f"{number:04}").touch()
    files = Confined(wire, partly(work))
    options = walk_options(maxEntries=50_000, followDirectorySymlinks=False)
    result = files.call("fs/walk", work.parent, options=options)
    paths = [entry["path"] for entry in result["entries"]]
    assert len(paths) == 2107
    assert not result["truncated"]
    assert not [path for path in paths if "outside" in path or path.endswith("key")]
    assert files.refused("fs/walk", work.parent / "outside", options=options) == MISSING


def test_a_search_finds_what_can_be_read(wire: Wire, work: Path) -> None:
    files = Confined(wire, partly(work))
    result = files.call("fs/search", work, pattern="needle")
    found = [Path(match["path"]).name for match in result["matches"]]
    assert found == ["a", "b", "c"]
    denied = [(Path(error["path"]).name, error["message"]) for error in result["errors"]]
    assert denied == [("secret", DENIED[1]), ("top.env", DENIED[1])]
    assert files.refused("fs/search", work.parent / "outside", pattern="needle") == MISSING
    assert files.call("fs/search", work.parent, pattern="outside")["matches"] == []


def test_a_search_reads_no_ignore_file_that_is_hidden(wire: Wire, work: Path) -> None:
    (work.parent / ".git").mkdir()
    (work.parent / ".gitignore").write_text("a\n")
    result = Confined(wire, partly(work)).call("fs/search", work, pattern="in a$")
    assert len(result["matches"]) == 1


def test_a_watch_tells_nothing_of_what_is_hidden(wire: Wire, work: Path) -> None:
    files = Confined(wire, partly(work))
    assert files.call("fs/watch", work.parent, watchId="w", debounceMs=0) == {"watching": True}
    for path in (work.parent / "outside" / "new", work / "secret" / "new", work / "top.env", work / "x.env"):
        path.write_text("changed")
    (work.parent / "seen-by-nobody").mkdir()
    (work / "made").mkdir()
    (work / "made" / "seen").write_text("new")
    seen = (work / "made" / "seen").as_uri()

    def told() -> list[str]:
        notices = [one["params"] for one in wire.notices if one["method"] == "fs/changed"]
        return [change["path"] for one in notices for change in one["changes"]]

    wire.until(lambda _: seen in told())
    below = {path.removeprefix(work.parent.as_uri()) for path in told()}
    assert below == {"/work/made", "/work/made/seen"}
    assert files.refused("fs/watch", work.parent / "outside", watchId="x") == MISSING
    assert files.refused("fs/watch", work / "secret", watchId="x") == DENIED


def test_a_file_that_is_watched_is_told_by_its_name(wire: Wire, work: Path) -> None:
    files = Confined(wire, context(at(work / "a", "read")))
    assert files.call("fs/watch", work / "a", watchId="w", debounceMs=0) == {"watching": True}
    (work / "b").write_text("changed")
    (work / "a").write_text("changed")
    notice = wire.until(lambda one: one["method"] == "fs/changed")["params"]
    assert [change["path"] for change in notice["changes"]] == [(work / "a").as_uri()]


def test_names_and_modes_change_only_where_that_is_allowed(wire: Wire, work: Path) -> None:
    sandbox = workspace_write(work)
    files = Confined(wire, sandbox)
    files.call("fs/chmod", work / "a", mode=0o600)
    assert (work / "a").stat().st_mode & 0o777 == 0o600
    assert files.refused("fs/chmod", work / "a", mode=0o4755) == (
        -32600,
        "Operation not permitted (os error 1)",
    )
    assert files.refused("fs/chmod", work.parent / "outside", mode=0o600) == READ_ONLY
    move = {"sourcePath": (work / "a").as_uri(), "sandbox": sandbox}
    error = wire.error("fs/rename", {**move, "destinationPath": (work / ".git").as_uri()})
    assert (error["code"], error["message"]) == READ_ONLY
    wire.call("fs/rename", {**move, "destinationPath": (work / "moved").as_uri()})
    assert (work / "moved").exists()


def test_metadata_is_the_same_by_heart(wire: Wire, work: Path) -> None:
    """The second answer needs no look at the disk; what is masked is never answered so."""
    for sandbox in (read_only(work), partly(work)):
        files = Confined(wire, sandbox)
        first = files.call("fs/getMetadata", work / "a")
        assert files.call("fs/getMetadata", work / "a") == first
        assert first == wire.call("fs/getMetadata", {"path": (work / "a").as_uri()})
    for _ in range(2):
        assert files.refused("fs/getMetadata", work / "secret" / "key") == DENIED
        assert files.refused("fs/getMetadata", work.parent / "outside") == MISSING
        assert files.call("fs/getMetadata", work / "top.env")["size"] == 0


@pytest.mark.parametrize("path", ["/proc/self/environ", "/proc/self/root/etc/passwd", "/sys/kernel/notes"])
def test_the_servers_own_process_is_not_read(wire: Wire, work: Path, path: str) -> None:
    files = Confined(wire, read_only(work))
    for method in ("fs/readFile", "fs/getMetadata", "fs/canonicalize"):
        for _ in range(2):
            assert files.refused(method, Path(path)) == DENIED


def test_a_temporary_folder_is_the_servers(server: Server, wire: Wire, work: Path, tmp_path: Path) -> None:
    with (
        serving("outfitter", tmp_path / "home", env={"TMPDIR": str(work)}) as other,
        Wire(other.url) as there,
    ):
        there.handshake()
        files = Confined(there, context(special("tmpdir", "read")))
        assert files.call("fs/readFile", work / "a") == {"dataBase64": b64(b"needle in a\n")}
        assert len(files.call("fs/search", work, pattern="needle")["matches"]) == 5
        assert files.refused("fs/readFile", work.parent / "outside" / "file") == MISSING


def test_what_the_server_keeps_for_itself_is_denied(tmp_path: Path) -> None:
    token, home = tmp_path / "token", tmp_path / "home"
    token.write_text("a-secret-of-the-server-that-is-long-enough\n")
    token.chmod(0o600)
    flags = ("--ws-auth", "capability-token", "--ws-token-file", str(token))
    headers = {"Authorization": f"Bearer {token.read_text().strip()}"}
    with serving("outfitter", home, *flags) as server, Wire(server.url, headers=headers) as wire:
        wire.handshake()
        files = Confined(wire, read_only(tmp_path))
        assert files.refused("fs/readFile", token) == DENIED
        result = files.call("fs/search", tmp_path, pattern="a-secret")
        assert result["matches"] == []
        wire.call("fs/readFile", {"path": token.as_uri()})


def test_a_file_with_other_names_is_not_written_where_links_are_strict(tmp_path: Path, work: Path) -> None:
    (work / "hard").hardlink_to(work.parent / "outside" / "file")
    flags = ("--sandbox-strict-links",)
    with serving("outfitter", tmp_path / "home", *flags) as server, Wire(server.url) as wire:
        wire.handshake()
        files = Confined(wire, workspace_write(work))
        refused = files.refused("fs/writeFile", work / "hard", dataBase64="")
        assert refused == (-32600, "Operation not permitted (os error 1)")
        files.call("fs/writeFile", work / "a", dataBase64="")
    assert (work / "hard").read_text() == "needle outside\n"


def test_names_that_an_operator_protects_are_not_written(tmp_path: Path, work: Path) -> None:
    (work / "sub/.git/hooks").mkdir(parents=True)
    flags = ("--sandbox-protect", "usual")
    with serving("outfitter", tmp_path / "home", *flags) as server, Wire(server.url) as wire:
        wire.handshake()
        files = Confined(wire, workspace_write(work))
        for name in (".vscode/tasks.json", ".mcp.json", ".claude/agents/a.md", "sub/.git/hooks/pre-commit"):
            assert files.refused("fs/writeFile", work / name, dataBase64="") == READ_ONLY, name
        exists = (-32603, "File exists (os error 17)")  # as an empty one is there
        assert files.refused("fs/createDirectory", work / ".idea", recursive=False) == exists
        files.call("fs/writeFile", work / "sub/.git/HEAD", dataBase64="")


def test_who_is_not_confined_is_answered_as_ever(wire: Wire, work: Path) -> None:
    for permissions in ({"type": "disabled"}, {"type": "external", "network": "enabled"}):
        sandbox = {"permissions": permissions, "windowsSandboxLevel": "disabled"}
        Confined(wire, sandbox).call("fs/readFile", Path("/proc/self/environ"))
