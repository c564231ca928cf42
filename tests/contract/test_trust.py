"""Our own grants: bound to content, private, and nobody else's word."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outfitter.contract.settings import EnvSettings, PolicySettings, Settings
from outfitter.contract.trust import Grant, TrustStore, blocked, digest_of, tables_of
from outfitter.env.launches import Kind, LaunchContract
from outfitter.errors import SettingInvalid
from outfitter.providers.base import Trust


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(str(tmp_path / "state"))


def test_a_grant_holds_for_one_content_in_one_place(store: TrustStore) -> None:
    store.grant("nix", "/srv/app", "sha256:1")
    assert store.holds("nix", "/srv/app", "sha256:1")
    assert not store.holds("nix", "/srv/app", "sha256:2")
    assert not store.holds("nix", "/srv/app-worktree", "sha256:1")
    assert not store.holds("conda", "/srv/app", "sha256:1")


def test_a_later_grant_takes_the_place_of_the_former(store: TrustStore) -> None:
    store.grant("nix", "/srv/app", "sha256:1")
    store.grant("nix", "/srv/app", "sha256:2")
    assert not store.holds("nix", "/srv/app", "sha256:1")
    assert [grant.digest for grant in store.all()] == ["sha256:2"]


def test_what_is_revoked_does_not_hold(store: TrustStore) -> None:
    store.grant("nix", "/srv/app", "sha256:1")
    assert (store.revoke("nix", "/srv/app"), store.revoke("nix", "/srv/app")) == (True, False)
    assert not store.holds("nix", "/srv/app", "sha256:1")
    assert list(store.all()) == []


def test_grants_are_private_files(store: TrustStore) -> None:
    store.grant("nix", "/srv/app", "sha256:1")
    path = store.path("nix", "/srv/app")
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.stat(store.folder).st_mode & 0o777 == 0o700
    assert os.listdir(store.folder) == [os.path.basename(path)]


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"-", b'{"provider": 1}', b"\xff" * 40])
def test_a_damaged_grant_is_none(store: TrustStore, damage: bytes) -> None:
    store.grant("nix", "/srv/app", "sha256:1")
    Path(store.path("nix", "/srv/app")).write_bytes(damage)
    assert store.find("nix", "/srv/app") is None
    assert list(store.all()) == []


def test_a_grant_is_the_whole_file_but_for_white_space(store: TrustStore) -> None:
    granted = store.grant("nix", "/srv/app", "sha256:1")
    path = Path(store.path("nix", "/srv/app"))
    whole = path.read_bytes()
    path.write_bytes(b" " + whole + b"\n")
    assert store.find("nix", "/srv/app") == granted
    path.write_bytes(whole + b"{}")
    assert store.find("nix", "/srv/app") is None


told = st.recursive(st.text(max_size=4), lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner))


@given(st.lists(told, max_size=4))
def test_a_digest_is_that_of_the_json_text(told: list[object]) -> None:
    text = json.dumps(told)
    assert digest_of(told) == f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_grant_that_others_may_write_is_none(store: TrustStore, mode: int) -> None:
    store.grant("nix", "/srv/app", "sha256:1")
    os.chmod(store.path("nix", "/srv/app"), mode)
    assert not store.holds("nix", "/srv/app", "sha256:1")


def test_a_link_is_no_grant(store: TrustStore, tmp_path: Path) -> None:
    grant = store.grant("nix", "/srv/app", "sha256:1")
    path = Path(store.path("nix", "/srv/app"))
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert grant.digest == "sha256:1"
    assert store.find("nix", "/srv/app") is None


def test_a_grant_moved_to_another_name_is_none(store: TrustStore) -> None:
    store.grant("nix", "/srv/app", "sha256:1")
    os.rename(store.path("nix", "/srv/app"), store.path("nix", "/srv/other"))
    assert not store.holds("nix", "/srv/other", "sha256:1")


def test_a_store_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingInvalid, match="cannot write the grant"):
        TrustStore(str(tmp_path / "file")).grant("nix", "/srv", "sha256:1")


def test_paths_outside_utf_8_have_grants_too(store: TrustStore) -> None:
    store.grant("nix", "/srv/\udcff", "sha256:1")
    assert store.holds("nix", "/srv/\udcff", "sha256:1")


def test_a_grant_that_cannot_be_taken_back_is_not_said_to_be(store: TrustStore) -> None:
    Path(store.path("nix", "/srv/app")).mkdir(parents=True)  # nothing that could be unlinked
    with pytest.raises(SettingInvalid, match="still valid"):
        store.revoke("nix", "/srv/app")


def test_a_grant_that_cannot_be_kept_leaves_nothing_behind(store: TrustStore) -> None:
    path = Path(store.path("nix", "/srv/app"))
    path.mkdir(parents=True)
    with pytest.raises(SettingInvalid, match="cannot write the grant"):
        store.grant("nix", "/srv/app", "sha256:1")
    assert os.listdir(store.folder) == [path.name]


def test_a_pipe_in_place_of_a_grant_holds_nobody_up(store: TrustStore) -> None:
    os.makedirs(store.folder)
    os.mkfifo(store.path("nix", "/srv/app"), 0o600)
    assert store.find("nix", "/srv/app") is None
    assert list(store.all()) == []


def test_no_list_leaves_out_what_cannot_be_read_now(
    store: TrustStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.grant("nix", "/srv/app", "sha256:1")

    def no_descriptor(path: str, *more: object) -> list[str]:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    for name in ("open", "listdir"):
        with monkeypatch.context() as short:
            short.setattr(os, name, no_descriptor)
            with pytest.raises(SettingInvalid, match=r"cannot read the grants in .*: Too many open files"):
                list(store.all())
    assert len(list(store.all())) == 1


def test_what_is_no_file_is_not_listed(store: TrustStore) -> None:
    Path(store.path("nix", "/srv/app")).mkdir(parents=True)
    assert list(store.all()) == []


def test_only_what_holds_is_listed(store: TrustStore) -> None:
    store.grant("nix", "/srv/app", "sha256:1")
    os.rename(store.path("nix", "/srv/app"), store.path("nix", "/srv/other"))
    assert list(store.all()) == []


# What may run


def test_what_was_allowed_may_run_and_whoever_wants_to_know_is_told(tmp_path: Path) -> None:
    used: list[Grant] = []
    store = TrustStore(str(tmp_path / "state"), used.append)
    before = int(time.time() * 1000)
    granted = store.grant("nix", "/srv/my app", "sha256:1")
    assert before <= granted.granted_ms <= int(time.time() * 1000)
    assert store.trust("nix", "/srv/my app", "sha256:1", "why") == Trust("trusted", "outfitter", "sha256:1")
    assert used == [granted]
    assert store.trust("nix", "/srv/my app", "sha256:2", "why") == Trust(
        "untrusted", "outfitter", "sha256:2", "outfitter trust '/srv/my app'", "why"
    )
    assert used == [granted]


def test_what_was_allowed_in_the_main_checkout_is_offered_in_a_worktree_not_taken(tmp_path: Path) -> None:
    main, tree = tmp_path / "main", tmp_path / "tree"
    (main / ".git" / "worktrees" / "tree").mkdir(parents=True)
    (main / ".git" / "worktrees" / "tree" / "commondir").write_text("../..\n")
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {main}/.git/worktrees/tree\n")
    store = TrustStore(str(tmp_path / "state"))
    store.grant("nix", str(main), "sha256:1")
    typed = f"outfitter trust {tree}"
    offered = f"the same content is allowed in {main}: `{typed}` allows it here too"
    assert store.trust("nix", str(tree), "sha256:1", "why") == Trust(
        "untrusted", "outfitter", "sha256:1", typed, offered
    )
    assert store.trust("nix", str(tree), "sha256:2", "why") == Trust(
        "untrusted", "outfitter", "sha256:2", typed, "why"
    )


# What a project's tables set

PROJECT_FILE = "/srv/app/outfitter.toml"


def settings(**said: object) -> Settings:
    made = Settings()
    for name, value in said.items():
        setattr(made, name, value)
    return made


def digest(name: str, **table: Any) -> str:
    overlay = EnvSettings(**{"file": PROJECT_FILE, **table})
    found = tables_of(settings(overlays={name: ("project", overlay)}))
    assert found is not None
    return found.digest


def test_tables_of_nobody_but_the_project_wait_for_no_word() -> None:
    own = EnvSettings("/home/me/config.toml", set=(("A", "1", 1),))
    assert tables_of(Settings()) is None
    assert tables_of(settings(overlays={"mine": ("user", own)})) is None
    # It takes away, and that is all.
    assert tables_of(settings(project_policy=PolicySettings(PROJECT_FILE, exclude=("A",)))) is None


def test_each_table_of_a_project_that_sets_something_waits() -> None:
    env = EnvSettings(PROJECT_FILE, set=(("A", "1", 2),))
    overlay = EnvSettings(PROJECT_FILE, set=(("B", "2", 9),))
    said = settings(
        project_env=env,
        project_policy=PolicySettings(PROJECT_FILE, set=(("C", "3"),)),
        overlays={"b": ("project", overlay), "a": ("project", overlay), "mine": ("user", overlay)},
    )
    found = tables_of(said)
    assert found is not None
    assert (found.root, found.tables) == (
        "/srv/app",
        (
            ("[env]", env),
            ("[overlays.a]", overlay),
            ("[overlays.b]", overlay),
            ("[shell_environment_policy]", EnvSettings(PROJECT_FILE, set=(("C", "3", 0),))),
        ),
    )


def test_what_launches_of_agents_are_given_waits_with_its_names_filled_in() -> None:
    kinds = (Kind("skill", baseline={"A": "{contract} {kind} {backend}"}), Kind("resume", requires=("A",)))
    found = tables_of(settings(project_launches=(PROJECT_FILE, LaunchContract("mine", kinds))))
    assert found is not None
    given = EnvSettings(PROJECT_FILE, set=(("A", "mine skill {backend}", 0),))
    assert (found.root, found.tables) == ("/srv/app", (("[agents.kinds.skill]", given),))
    renamed = tables_of(settings(project_launches=(PROJECT_FILE, LaunchContract("other", kinds))))
    assert renamed is not None and renamed.digest != found.digest
    assert tables_of(settings(project_launches=(PROJECT_FILE, LaunchContract("mine", kinds[1:])))) is None


TABLE: dict[str, Any] = {
    "set": (("A", "/srv/app/bin", 2),),
    "unset": (("B", 3),),
    "operations": (("PATH", "prepend", ("/srv/app/bin", "/opt"), 4),),
    "kinds": ("skill",),
}


@pytest.mark.parametrize(
    "other",
    [
        {"set": (("A", "/srv/application", 2),)},
        {"set": (("C", "/srv/app/bin", 2),)},
        {"unset": ()},
        {"operations": (("PATH", "append", ("/srv/app/bin", "/opt"), 4),)},
        {"operations": (("PATH", "prepend", ("/opt", "/srv/app/bin"), 4),)},
        {"operations": (("PYTHONPATH", "prepend", ("/srv/app/bin", "/opt"), 4),)},
        {"kinds": ()},
        {"kinds": ("skill", "resume")},
    ],
)
def test_whatever_a_table_does_is_in_its_digest(other: dict[str, Any]) -> None:
    was = digest("more", **TABLE)
    assert digest("more", **TABLE) == was
    assert digest("more", **{**TABLE, **other}) != was
    assert digest("other", **TABLE) != was


def test_the_digest_is_the_same_in_another_checkout_and_on_other_lines() -> None:
    there = digest(
        "more",
        file="/opt/clone/outfitter.toml",
        set=(("A", "/opt/clone/bin", 20),),
        unset=(("B", 30),),
        operations=(("PATH", "prepend", ("/opt/clone/bin", "/opt"), 40),),
        kinds=("skill",),
    )
    assert there == digest("more", **TABLE)


@pytest.mark.parametrize(
    ("trust", "expected"),
    [
        (Trust("untrusted", "outfitter", "", "", "no"), "no"),
        (
            Trust("untrusted", "outfitter", "", "type it", "no"),
            "not trusted: read its files, then type: type it",
        ),
        (Trust("untrusted", "outfitter", "", "type it", "so type it"), "not trusted: so type it"),
    ],
)
def test_what_to_do_is_said_once(trust: Trust, expected: str) -> None:
    assert blocked(trust) == expected
