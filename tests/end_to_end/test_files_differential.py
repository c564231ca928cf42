"""The same requests about files to our server and to the reference, each in a tree of its own.

Answers and what is left of the trees are compared, but for listed differences. Every test also runs with
a second reference server in our place, which proves that it compares what the protocol settles.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import cases, differences, filetrees, texts
from tests.support.compare import Pair, Peer
from tests.support.filetrees import PLANTED_SECONDS, Request, plant, snapshot
from tests.support.servers import serving
from tests.support.wire import Message, Wire, b64


class Trees:
    """Both servers, connected, and the tree of each; its path is as long as the other's."""

    def __init__(self, pair: Pair, scratch: Path) -> None:
        self.pair = pair
        self.peers = (pair.reference, pair.subject)
        self.roots = (scratch / "tree-1", scratch / "tree-2")
        self.planter: Callable[[Path], None] = plant
        self.planted: dict[str, str] = {}

    @property
    def ours(self) -> bool:
        return self.pair.ours

    def plant(self, planter: Callable[[Path], None] = plant) -> None:
        self.planter = planter
        self.plant_again()
        self.planted = snapshot(self.roots[0])

    def plant_again(self) -> None:
        for root in self.roots:
            self.planter(root)

    def placed(self, number: int, params: Any) -> Any:
        return json.loads(json.dumps(params).replace("DIR", self.roots[number].as_uri()))

    def outcome(self, number: int, requests: list[Request]) -> dict[str, Any]:
        """Every answer, and what is not as it was planted."""
        peer, root = self.peers[number], self.roots[number]
        outcome: dict[str, Any] = {}
        for place, (method, params) in enumerate(requests, 1):
            answer = peer.answer(method, self.placed(number, params))
            outcome[f"answer {place}"] = self.shape(number, method, params, answer)
        outcome.update({f"tree {path}": what for path, what in changes(self.planted, snapshot(root)).items()})
        return outcome

    def shape(self, number: int, method: str, params: Message, answer: Message) -> Any:
        """An answer without what differs between trees and runs; an error as code and text."""
        answer = json.loads(json.dumps(answer).replace(str(self.roots[number]), "/TREE"))
        ours = self.ours and number == 1
        if "error" in answer:
            error = differences.without_error_data(answer["error"]) if ours else answer["error"]
            assert error.keys() == {"code", "message"}, error
            text = error["message"] if texts.is_domain(error["message"], method) else "<wording>"
            return [error["code"], text]
        result = answer["result"]
        if method == "fs/getMetadata":
            return metadata_shape(params, result, ours)
        if method == "fs/readDirectory":
            return listing_shape(result, ours)
        return result


def metadata_shape(params: Message, result: Message, ours: bool) -> Message:
    born, changed = result["createdAtMs"], result["modifiedAtMs"]
    if ours or params.get("followSymlinks") is False:
        assert born > 0, result
    else:
        assert born == 0, f"{differences.BIRTH_SOURCE}: the reference changed"
    shape = {name: value for name, value in result.items() if name not in differences.METADATA_OURS}
    shape["createdAtMs"] = "<born>"
    shape["modifiedAtMs"] = changed if changed == PLANTED_SECONDS * 1000 else "<now>"
    if result["isDirectory"]:
        shape["size"] = "<of a directory>"
    return shape


def listing_shape(result: Message, ours: bool) -> Message:
    entries = result["entries"]
    if ours:
        names = [entry["fileName"] for entry in entries]
        assert names == sorted(names), differences.LISTING_SOURCE
        for entry in entries:
            # differences.LISTING_URI_SOURCE: a name that cannot be written as text has a URI.
            assert ("uri" in entry) == ("\ufffd" in entry["fileName"])
            entry.pop(differences.LISTING_URI, None)
    return {"entries": sorted(entries, key=lambda entry: str(entry["fileName"]))}


def changes(before: dict[str, str], after: dict[str, str]) -> dict[str, str]:
    changed = {path: what for path, what in after.items() if before.get(path) != what}
    return changed | dict.fromkeys(before.keys() - after.keys(), "gone")


@pytest.fixture(scope="module", params=["codex", "outfitter"])
def trees(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trees]:
    scratch = tmp_path_factory.mktemp("files")
    home = scratch / "home"
    with serving("codex", home) as reference, serving(request.param, home) as subject:
        pair = Pair(Peer(reference.url), Peer(subject.url), request.param)
        yield Trees(pair, scratch)
        pair.close()


def problems(trees: Trees, case: str, requests: list[Request]) -> list[str]:
    """Where the two differ in this case and no difference is listed, or a listed one is not there."""
    theirs, ours = (trees.outcome(number, requests) for number in (0, 1))
    if any(where.startswith("tree ") for where in (*theirs, *ours)):
        trees.plant_again()
    found = []
    for where in sorted(theirs.keys() | ours.keys()):
        pair = (theirs.get(where), ours.get(where))
        known = differences.in_files(case, where) if trees.ours else None
        if known is not None:
            if not is_so(pair[0], known.reference) or not is_so(pair[1], known.ours):
                found.append(f"{case}: {where}: {known.source} is not so: {pair}")
        elif pair[0] != pair[1]:
            found.append(f"{case}: {where}\n    reference {pair[0]}\n    subject   {pair[1]}")
    return found


def is_so(outcome: Any, listed: Any) -> bool:
    """Whether an answer is as differences write it: an error may be its code alone."""
    if isinstance(outcome, list) and not isinstance(listed, list):
        return bool(outcome[0] == listed)
    return bool(outcome == listed)


def check_all(trees: Trees, cases: dict[str, list[Request]]) -> None:
    found: list[str] = []
    trees.plant()
    for case, requests in cases.items():
        found += problems(trees, case, requests)
    assert not found, f"{len(found)} differences\n" + "\n".join(found[:40])


# One request


ONE_PATH = filetrees.about_one_path()
METHODS = sorted({case.split()[0] for case in ONE_PATH})


@pytest.mark.parametrize("method", METHODS)
def test_request_about_any_kind_of_path_is_answered_alike(trees: Trees, method: str) -> None:
    check_all(trees, {case: requests for case, requests in ONE_PATH.items() if case.split()[0] == method})


COPIES = filetrees.copies()


@pytest.mark.parametrize("source", filetrees.SOURCES)
def test_copy_of_anything_to_anywhere_ends_alike(trees: Trees, source: str) -> None:
    check_all(
        trees, {case: requests for case, requests in COPIES.items() if case.startswith(f"copy `{source}`")}
    )


HANDLES = filetrees.handles()


@pytest.mark.parametrize("mode", ["read", "replace", "replace, nothing written"])
def test_handle_on_any_kind_of_path_goes_alike(trees: Trees, mode: str) -> None:
    check_all(trees, {case: requests for case, requests in HANDLES.items() if case.endswith(f"` {mode}")})


@pytest.mark.parametrize("case", filetrees.DIFFERENT)
def test_deliberate_difference_is_as_listed(trees: Trees, case: str) -> None:
    check_all(trees, {case: filetrees.DIFFERENT[case]})


def test_write_to_a_fifo_that_nobody_reads_fails_at_once(tmp_path: Path) -> None:
    """The reference would never answer, nor anything else after: only ours is asked."""
    plant(tmp_path / "tree")
    fifo = {"path": (tmp_path / "tree/fifo").as_uri(), "dataBase64": b64(b"x")}
    copied = {
        "sourcePath": (tmp_path / "tree/a.txt").as_uri(),
        "destinationPath": (tmp_path / "tree/fifo").as_uri(),
        "recursive": False,
    }
    with serving("outfitter", tmp_path / "home") as server, Wire(server.url) as wire:
        wire.handshake()
        for case, method, params in (
            ("write to a FIFO", "fs/writeFile", fifo),
            ("copy to a FIFO", "fs/copy", copied),
        ):
            known = differences.in_files(case, "answer 1")
            assert known is not None
            assert wire.error(method, params)["code"] == known.ours


def test_differences_name_cases_that_exist() -> None:
    names = {*ONE_PATH, *COPIES, *HANDLES, *filetrees.DIFFERENT, "write to a FIFO", "copy to a FIFO"}
    names |= {f"uri {uri}" for uri in cases.URIS}
    assert {entry.case for entry in differences.FILES} <= names


# Parameters


PARAMETERS = filetrees.parameters()


@pytest.mark.parametrize("method", filetrees.BASES)
def test_parameters_are_decoded_alike(trees: Trees, method: str) -> None:
    trees.plant()
    for name, (of, text) in PARAMETERS.items():
        if of != method:
            continue
        # Both are asked about the same tree: no case changes it.
        placed = text.replace("DIR", trees.roots[0].as_uri())
        trees.pair.compare(cases.request(1, method, placed), case=name)


@pytest.mark.parametrize("stage", ["open", "initialize"])
def test_file_request_before_the_handshake_is_refused_alike(trees: Trees, stage: str) -> None:
    for method, base in filetrees.BASES.items():
        params = "{" + ",".join(f'"{name}":{value}' for name, value in base.items()) + "}"
        kind = "outfitter" if trees.ours else "codex"
        own = Pair(Peer(trees.pair.reference.url, stage), Peer(trees.pair.subject.url, stage), kind)
        own.compare(cases.request(1, method, params.replace("DIR", "file:///tmp")))
        own.close()


def test_path_uris_are_understood_alike(trees: Trees) -> None:
    """Where they lead shows in the canonical path."""
    odd = trees.roots[0].parent / "odd"
    for name in cases.ODD_NAMES:
        (odd / name).mkdir(parents=True, exist_ok=True)
    os.makedirs(os.fsencode(odd) + b"/\xff", exist_ok=True)
    trees.plant(only_a_file)
    found: list[str] = []
    for uri in cases.URIS:
        placed = uri.replace("DIR", odd.as_uri())
        found += problems(trees, f"uri {uri}", [("fs/canonicalize", {"path": placed})])
    assert not found, "\n".join(found)


def test_base64_of_a_write_is_judged_alike(trees: Trees) -> None:
    trees.plant(only_a_file)
    found: list[str] = []
    for text in cases.BASE64:
        found += problems(
            trees,
            f"base64 {text}",
            [
                ("fs/writeFile", {"path": "DIR/f", "dataBase64": text}),
                ("fs/readFile", {"path": "DIR/f"}),
                ("fs/open", {"handleId": "h", "path": "DIR/g", "mode": "replace"}),
                ("fs/writeBlock", {"handleId": "h", "offset": 0, "chunk": text}),
                ("fs/close", {"handleId": "h"}),
                ("fs/readFile", {"path": "DIR/g"}),
            ],
        )
    assert not found, "\n".join(found)


def only_a_file(root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    (root / "f").write_bytes(b"old")


def check(trees: Trees, case: str, requests: list[Request]) -> None:
    found = problems(trees, case, requests)
    assert not found, "\n".join(found)


# Places that refuse even root


REFUSING = [
    "file:///proc",
    "file:///proc/self/status",
    "file:///sys",
    "file:///sys/kernel",
    "file:///dev/full",
]


@pytest.mark.parametrize("place", REFUSING)
def test_place_that_refuses_is_answered_alike(trees: Trees, place: str) -> None:
    trees.plant()
    data = b64(b"x")
    requests: list[Request] = [
        ("fs/writeFile", {"path": f"{place}/new", "dataBase64": data}),
        ("fs/createDirectory", {"path": f"{place}/new"}),
        ("fs/createDirectory", {"path": f"{place}/new/er"}),
        ("fs/createDirectory", {"path": f"{place}/new", "recursive": False}),
        ("fs/copy", {"sourcePath": "DIR/a.txt", "destinationPath": f"{place}/new", "recursive": False}),
        ("fs/copy", {"sourcePath": "DIR/private", "destinationPath": f"{place}/new", "recursive": True}),
        ("fs/remove", {"path": f"{place}/new", "force": False}),
        ("fs/open", {"handleId": "new", "path": f"{place}/new", "mode": "replace"}),
    ]
    if place == "file:///dev/full":
        requests.append(("fs/writeFile", {"path": place, "dataBase64": data}))
    check(trees, place, requests)


def test_file_that_does_not_know_its_size_is_read_alike(trees: Trees) -> None:
    trees.plant()
    for path in ("file:///proc/version", "file:///proc/filesystems", "file:///proc/sys/kernel/ostype"):
        check(
            trees,
            path,
            [
                ("fs/readFile", {"path": path}),
                ("fs/open", {"handleId": "p", "path": path}),
                ("fs/readBlock", {"handleId": "p", "offset": 0, "len": 5}),
                ("fs/readBlock", {"handleId": "p", "offset": 5, "len": 1 << 20}),
                ("fs/close", {"handleId": "p"}),
            ],
        )


# Sizes and numbers


@pytest.mark.parametrize("size", [(2 << 20) - 1, (2 << 20) + 1, 3 * (768 << 10), 20_000_001])
def test_large_file_is_read_alike(trees: Trees, size: int) -> None:
    def one_large(root: Path) -> None:
        only_a_file(root)
        (root / "large").write_bytes(random.Random(size).randbytes(size))

    trees.plant(one_large)
    check(trees, "large", [("fs/readFile", {"path": "DIR/large"})])


def test_folder_at_the_limit_is_listed_and_walked_alike(trees: Trees) -> None:
    if not trees.ours:
        return  # it is large, and shows nothing about the comparison
    # One folder for both: nothing in it changes.
    folder = trees.roots[0].parent / "many"
    folder.mkdir()
    for number in range(50_000):
        os.close(os.open(folder / f"{number:05}", os.O_CREAT | os.O_WRONLY))
    (folder / "dangling").symlink_to("nowhere")  # which does not count
    trees.plant(only_a_file)
    options = {"maxDepth": 1, "maxDirectories": 1, "maxEntries": 50_000, "followDirectorySymlinks": False}
    listed = ("fs/readDirectory", {"path": folder.as_uri()})
    walked = ("fs/walk", {"path": folder.as_uri(), "options": options})
    check(trees, "at the limit", [listed, walked])
    (folder / "one-more").touch()
    check(trees, "above the limit", [listed, walked])


def test_handles_are_counted_alike(trees: Trees) -> None:
    trees.plant()
    opened = [("fs/open", {"handleId": str(number), "path": "DIR/a.txt"}) for number in range(129)]
    failed = ("fs/open", {"handleId": "fails", "path": "DIR/zz"})
    closed = [("fs/close", {"handleId": str(number)}) for number in range(129)]
    check(trees, "handles", [*opened[:127], failed, opened[127], failed, opened[128], opened[0], *closed])


OFFSETS = [0, 1, 5, 2**31, 2**32, 2**62, 2**63 - 2, 2**63 - 1, 2**63, 2**64 - 1]


@pytest.mark.parametrize("offset", OFFSETS)
def test_offset_of_a_block_is_judged_alike(trees: Trees, offset: int) -> None:
    trees.plant()
    check(
        trees,
        "offset",
        [
            ("fs/open", {"handleId": "r", "path": "DIR/a.txt"}),
            ("fs/readBlock", {"handleId": "r", "offset": offset, "len": 2}),
            ("fs/readBlock", {"handleId": "r", "offset": 0, "len": 5}),
            ("fs/open", {"handleId": "w", "path": "DIR/empty", "mode": "replace"}),
            *([] if 2**30 < offset < 2**50 else [write_at(offset)]),  # no files of gigabytes, even with holes
            ("fs/close", {"handleId": "r"}),
            ("fs/close", {"handleId": "w"}),
        ],
    )


def write_at(offset: int) -> Request:
    return ("fs/writeBlock", {"handleId": "w", "offset": offset, "chunk": b64(b"ab")})


# Generated trees


def generated(examples: int) -> settings:
    """The same examples in every run."""
    return settings(max_examples=examples, derandomize=True, deadline=None, database=None)


NAMES = ["a", "b", ".h", "c d", "é", "Z", "~"]
TARGETS = ["a", "b", ".", "..", "../a", "../b", ".h", "nowhere", "a/b", "../../b", "self"]
nodes = st.recursive(
    st.one_of(
        st.just("file"),
        st.just("fifo"),
        st.sampled_from(TARGETS).map(lambda target: f"-> {target}"),
    ),
    lambda inner: st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=20,
)
folders = st.dictionaries(st.sampled_from(NAMES), nodes, max_size=7)


def grow(root: Path, tree: dict[str, Any]) -> None:
    root.mkdir()
    for name, node in tree.items():
        if isinstance(node, dict):
            grow(root / name, node)
        elif node == "fifo":
            os.mkfifo(root / name)
        elif node.startswith("-> "):
            (root / name).symlink_to(node.removeprefix("-> "))
        else:
            (root / name).touch()


def regrow(tree: dict[str, Any]) -> Callable[[Path], None]:
    def planter(root: Path) -> None:
        shutil.rmtree(root, ignore_errors=True)
        grow(root, tree)

    return planter


options = st.fixed_dictionaries(
    {
        "maxDepth": st.sampled_from([0, 1, 2, 3, 64]),
        "maxDirectories": st.sampled_from([1, 2, 3, 4, 6, 10_000]),
        "maxEntries": st.sampled_from([1, 2, 3, 5, 8, 13, 50_000]),
        "followDirectorySymlinks": st.booleans(),
        "pruneHiddenDirectories": st.booleans(),
    }
)


@generated(40)
@given(tree=folders, walks=st.lists(options, min_size=1, max_size=6))
def test_generated_tree_is_walked_alike(trees: Trees, tree: dict[str, Any], walks: list[Message]) -> None:
    trees.plant(regrow(tree))
    requests: list[Request] = [("fs/walk", {"path": "DIR", "options": one}) for one in walks]
    check(trees, "generated walk", [*requests, ("fs/readDirectory", {"path": "DIR"})])


@generated(30)
@given(tree=folders)
def test_generated_tree_is_copied_and_removed_alike(trees: Trees, tree: dict[str, Any]) -> None:
    # To a new place: of what is there already, a link is an error, and what was copied before it is left to
    # the order in which folders are read.
    trees.plant(regrow({"from": tree, "new": {}}))
    check(
        trees,
        "generated copy",
        [
            ("fs/copy", {"sourcePath": "DIR/from", "destinationPath": "DIR/new/er", "recursive": True}),
            ("fs/remove", {"path": "DIR/from"}),
        ],
    )


@generated(20)
@given(tree=folders, other=folders)
def test_generated_trees_merge_alike(trees: Trees, tree: dict[str, Any], other: dict[str, Any]) -> None:
    trees.plant(regrow({"from": of_one_kind(tree), "to": of_one_kind(other)}))
    copy = {"sourcePath": "DIR/from", "destinationPath": "DIR/to", "recursive": True}
    check(trees, "generated merge", [("fs/copy", copy)])


def of_one_kind(tree: dict[str, Any], depth: int = 0) -> dict[str, Any]:
    """The tree with names that say what they are, so that nothing can be in the way of anything else."""
    return {
        f"{name}-{depth}" if isinstance(node, dict) else name: of_one_kind(node, depth + 1)
        if isinstance(node, dict)
        else "file"
        for name, node in tree.items()
    }


# Pipelined requests: whoever waits for whom, it is as if one came after the other


SPOTS = ["p", "q", "q/r", "q/r/s", "q/t"]
spots = st.sampled_from([f"DIR/{spot}" for spot in SPOTS])
steps = st.one_of(
    st.tuples(st.just("fs/writeFile"), spots, st.integers(0, 9)),
    st.tuples(st.sampled_from(["fs/readFile", "fs/readDirectory", "fs/createDirectory", "fs/remove"]), spots),
    st.tuples(st.just("fs/copy"), spots, spots).filter(lambda step: step[1] != step[2]),
    st.tuples(st.just("fs/open"), st.sampled_from("xy"), spots, st.sampled_from(["read", "replace"])),
    st.tuples(st.just("fs/readBlock"), st.sampled_from("xy")),
    st.tuples(st.just("fs/writeBlock"), st.sampled_from("xy"), st.integers(0, 9)),
    st.tuples(st.just("fs/close"), st.sampled_from("xy")),
)


def request_of(step: tuple[Any, ...]) -> Request:
    method, first, *rest = step
    if method == "fs/writeFile":
        return method, {"path": first, "dataBase64": b64(b"%d" % rest[0])}
    if method == "fs/copy":
        return method, {"sourcePath": first, "destinationPath": rest[0], "recursive": True}
    if method == "fs/open":
        return method, {"handleId": first, "path": rest[0], "mode": rest[1]}
    if method == "fs/readBlock":
        return method, {"handleId": first, "offset": 0, "len": 9}
    if method == "fs/writeBlock":
        return method, {"handleId": first, "offset": rest[0] % 3, "chunk": b64(b"%d" % rest[0])}
    if method == "fs/close":
        return method, {"handleId": first}
    return method, {"path": first}


def replaces_unseen(steps: list[tuple[Any, ...]]) -> bool:
    """Whether nobody looks at what is being replaced while it is: there the two differ on purpose (#22)."""
    being: dict[str, str] = {}
    for step in steps:
        if step[0] == "fs/open":
            if step[1] in being or being:
                return False
            being[step[1]] = step[2] if step[3] == "replace" else ""
        elif step[0] == "fs/close":
            being.pop(step[1], None)
        elif being and step[0] not in ("fs/readBlock", "fs/writeBlock"):
            return False
        elif step[0] == "fs/readBlock" and being.get(step[1]):
            return False  # which ends a handle for writing: what it leaves behind differs, too
    return not being


@generated(40)
@given(script=st.lists(steps, min_size=2, max_size=25).filter(replaces_unseen))
def test_pipelined_requests_end_as_if_one_came_after_the_other(
    trees: Trees, script: list[tuple[Any, ...]]
) -> None:
    trees.plant(only_a_file)
    outcomes = []
    for number, peer in enumerate(trees.peers):
        idents = []
        for method, params in map(request_of, script):
            idents.append(peer.wire.request(method, trees.placed(number, params)))
        answers = [
            trees.shape(number, method, params, peer.wire.answer(ident))
            for ident, (method, params) in zip(idents, map(request_of, script), strict=True)
        ]
        for handle in "xy":
            peer.wire.call("fs/close", {"handleId": handle})
        outcomes.append((answers, snapshot(trees.roots[number])))
    assert outcomes[1] == outcomes[0]
