"""outfitter rendezvous as an operator uses it: metrics, and what has happened."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from outfitter.cli.relay.enrol import enrol
from outfitter.cli.relay.rendezvous import audit, code
from outfitter.cli.relay.watching import metrics_gate
from outfitter.errors import SettingInvalid
from outfitter.relay.authority import Authority
from outfitter.relay.known import Known
from outfitter.relay.limits import AUDIT_SECONDS
from outfitter.relay.reach import token_file
from outfitter.relay.store import SqliteStore
from tests.support.relays import Rendezvous, meeting


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("tokens") / "token"
    file.write_text("a-token-of-the-scraper-with-many-characters\n")
    file.chmod(0o600)
    return str(file)


@pytest.fixture(scope="module")
def open_to_tokens(tmp_path_factory: pytest.TempPathFactory, secret: str) -> Iterator[Rendezvous]:
    with meeting(tmp_path_factory.mktemp("service"), "--metrics", "--metrics-token-file", secret) as one:
        yield one


def get(url: str, **headers: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_metrics_are_for_who_has_the_token(open_to_tokens: Rendezvous, secret: str) -> None:
    url = f"{open_to_tokens.url}/metrics"
    token = Path(secret).read_text().strip()
    status, text = get(url, Authorization=f"Bearer {token}", Host="relay.example")
    assert status == 200 and "outfitter_relay_registrations_total 0\n" in text
    assert get(url) == (401, "send a token of --metrics-token-file")
    assert get(url, Authorization="Bearer wrong")[0] == 401
    assert get(f"{open_to_tokens.url}/readyz")[0] == 200


def test_metrics_without_a_token_are_for_the_own_user_at_an_address(tmp_path: Path) -> None:
    with meeting(tmp_path, "--metrics") as service:
        assert get(f"{service.url}/metrics")[0] == 200
        status, text = get(f"{service.url}/metrics", Host="rebound.example")
        assert status == 403 and "--metrics-token-file" in text


@pytest.mark.parametrize(
    ("flags", "wrong"),
    [
        ({"metrics": True, "metrics_token_file": None, "url": "https://relay.example"}, "behind a proxy"),
        ({"metrics": False, "metrics_token_file": "file", "url": None}, "needs --metrics"),
    ],
)
def test_settings_that_would_open_them_to_strangers_are_refused(flags: dict[str, object], wrong: str) -> None:
    with pytest.raises(SettingInvalid, match=wrong):
        metrics_gate(flags)


def test_the_audit_is_shown_newest_first_and_steers_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "store")
    store, now = SqliteStore(path), 1000.0
    authority = Authority(store, lambda: now, "ws://x")
    code = authority.code("evil\x1b[2J\nname", "box", "use")
    now += 1
    principal = authority.enrol(code).principal
    flags = {"store": path, "limit": 10, "json": True}
    assert audit(flags) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [(one["what"], one["principal"], one["environment"], one["at"]) for one in shown] == [
        ("enrolled", principal, "box", 1001.0),
        ("code made", "", "box", 1000.0),
    ]
    assert shown[0]["name"] == "evil\x1b[2J\nname"
    audit({**flags, "json": False, "limit": 1})
    text = capsys.readouterr().out
    assert "\x1b" not in text and len(text.splitlines()) == 2 and "enrolled" in text
    store.close()


def test_the_store_forgets_what_is_old_what_has_expired_and_what_is_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, now = SqliteStore(":memory:"), 1000.0
    authority = Authority(store, lambda: now, "ws://x")
    authority.code("a", "box", "use")
    now += AUDIT_SECONDS + 1
    for number in range(5):
        authority.record("", "something", "box", str(number))
        now += 1
    authority.prune()
    assert store.rows("SELECT * FROM codes") == []
    assert [one["detail"] for one in authority.audit(9)] == ["4", "3", "2", "1", "0"]
    monkeypatch.setattr("outfitter.relay.authority.AUDIT_ROWS", 2)
    authority.prune()
    assert [one["detail"] for one in authority.audit(9)] == ["4", "3"]
    store.close()


def test_who_is_enrolled_for_a_pool_hears_what_it_is_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OUTFITTER_HOME", str(tmp_path / "user"))
    with meeting(tmp_path / "service") as service:
        store = str(tmp_path / "service" / "store.sqlite")
        for role in ("execute-pool", "use-pool"):
            code("cluster", {"store": store, "name": "", "role": role, "json": False})
            enrol(service.url, {"code": capsys.readouterr().out.split()[-1], "json": False})
    said = capsys.readouterr().out
    assert f'in pools.toml:\n  relay = "{service.url}/cluster"\n' in said
    known = Known(str(tmp_path / "user" / "relay"))
    assert token_file(known, service.url, "cluster.p1-s1", "use").endswith("cluster.use-pool.token")
    assert token_file(known, service.url, "other.p1", "use").endswith("other.p1.use.token")


def test_a_code_is_not_used_up_where_its_token_cannot_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "user"
    place.write_text("no folder")
    monkeypatch.setenv("OUTFITTER_HOME", str(place))
    with meeting(tmp_path / "service") as service:
        store = str(tmp_path / "service" / "store.sqlite")
        code("box", {"store": store, "name": "", "role": "use", "json": False})
        flags = {"code": capsys.readouterr().out.split()[-1], "json": False}
        with pytest.raises(SettingInvalid, match="cannot be written"):
            enrol(service.url, flags)
        place.unlink()
        enrol(service.url, flags)
        assert [one.name for one in (place / "relay").iterdir() if one.is_file()] == []
        assert [one.name for one in (place / "relay").glob("*/*")] == ["box.use.token"]
