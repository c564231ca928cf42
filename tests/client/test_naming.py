"""Errors of servers as callers know them."""

from __future__ import annotations

import errno
import pickle

import pytest

from outfitter import errors
from outfitter.client.naming import file_failure, launch_failure
from outfitter.errors import RequestFailed


@pytest.mark.parametrize(
    ("symbol", "kind", "pythons"),
    [
        ("ENOENT", errors.NotFound, FileNotFoundError),
        ("EACCES", errors.PermissionDenied, PermissionError),
        ("EPERM", errors.PermissionDenied, PermissionError),
        ("EEXIST", errors.AlreadyExists, FileExistsError),
        ("EISDIR", errors.IsADirectory, IsADirectoryError),
        ("ENOTDIR", errors.NotADirectory, NotADirectoryError),
        ("ELOOP", RequestFailed, RequestFailed),
    ],
)
def test_file_error_is_pythons_own_and_names_the_path(
    symbol: str, kind: type[RequestFailed], pythons: type[Exception]
) -> None:
    found = file_failure(RequestFailed(-32603, "no", {"errno": symbol}), "/a/b")
    assert (type(found), isinstance(found, pythons)) == (kind, True)
    assert (found.errno, found.path, str(found)) == (getattr(errno, symbol), "/a/b", "/a/b: no (code -32603)")
    assert found.args == (-32603, "no", {"errno": symbol})
    again = pickle.loads(pickle.dumps(found))
    assert (type(again), str(again), again.errno) == (kind, str(found), found.errno)


@pytest.mark.parametrize(("symbol", "kind"), [("ENOENT", FileNotFoundError), ("ELOOP", OSError)])
def test_every_file_error_can_become_pythons_own(symbol: str, kind: type[OSError]) -> None:
    number = getattr(errno, symbol)
    refused = RequestFailed(-32603, f"no such luck (os error {number})", {"errno": symbol})
    found = file_failure(refused, "/a/b").as_oserror()
    assert (type(found), str(found)) == (kind, f"[Errno {number}] no such luck: '/a/b'")


def test_pythons_own_error_may_name_another_path_and_is_eio_if_nobody_knows() -> None:
    program = launch_failure(RequestFailed(-32603, "no", {"errno": "EACCES", "subject": "program"}), "x", "/")
    assert isinstance(program.as_oserror(), PermissionError)
    assert (program.as_oserror().filename, program.as_oserror("y").filename) == ("x", "y")
    unknown = RequestFailed(-32603, "odd").as_oserror()
    assert (unknown.errno, unknown.strerror, unknown.filename) == (errno.EIO, "odd", None)


def test_the_reference_says_the_number_in_its_text_alone() -> None:
    found = file_failure(RequestFailed(-32603, "Permission denied (os error 13)"), "/a")
    assert (type(found), found.errno) == (errors.PermissionDenied, errno.EACCES)
    assert type(file_failure(RequestFailed(-32004, "gone"), "/a")) is errors.NotFound
    assert type(file_failure(RequestFailed(-32603, "odd (os error x)"), "/a")) is RequestFailed


def test_launch_error_names_the_program_or_the_directory() -> None:
    told = {"errno": "ENOENT", "reason": "there is no program `x`"}
    program = launch_failure(RequestFailed(-32603, "no", {**told, "subject": "program"}), "x", "file:///w")
    assert (type(program), program.program, program.path) == (errors.ProgramNotFound, "x", None)
    place = launch_failure(RequestFailed(-32603, "no", {**told, "subject": "cwd"}), "x", "file:///w")
    assert (type(place), place.program, place.path) == (errors.NotFound, None, "/w")
    other = launch_failure(RequestFailed(-32600, "you may not"), "x", "file:///w")
    assert (type(other), other.program, str(other)) == (RequestFailed, None, "you may not (code -32600)")
