"""What a registry grants: rights, codes, tokens, authorizations and tickets."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qsl, urlsplit

import pytest

from outfitter.errors import SettingInvalid
from outfitter.protocol.registry import (
    EXECUTE,
    EXECUTE_POOL,
    PROFILE,
    USE,
    USE_POOL,
    ConnectParams,
    KeyObject,
    RegisterParams,
    ValidateAnswer,
    ValidateParams,
)
from outfitter.relay import authority as rules
from outfitter.relay.authority import Authority, NotGranted
from outfitter.relay.keys import Keys
from outfitter.relay.store import SqliteStore


def key() -> KeyObject:
    public = Keys().public
    return KeyObject(public.x25519, public.mlkem)


EXECUTOR, HARNESS, OTHER = key(), key(), key()


class Place:
    """A registry in memory, with the executor of `box` and a user of it; `now` is its clock."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.store = SqliteStore(":memory:")
        self.authority = Authority(self.store, lambda: self.now, "wss://relay.example/base/", "one")
        self.executor, self.user = self.token("box", EXECUTE), self.token("box", USE)

    def token(self, environment_id: str, role: str) -> str:
        return self.authority.enrol(self.authority.code("somebody", environment_id, role)).token

    def principal(self, token: str) -> str:
        return self.authority.principal_of(token)

    def register(self, token: str | None = None, *, kept: bool = False) -> str:
        params = RegisterParams(PROFILE, EXECUTOR, kept)
        return self.authority.register(token or self.executor, "box", params).registration_id

    def online(self) -> str:
        registration = self.register()
        self.authority.attached("box")
        return registration

    def connect(self, token: str | None = None) -> str:
        return self.authority.connect(token or self.user, "box", ConnectParams(HARNESS)).authorization

    def validate(self, registration: str, authorization: str, key: KeyObject = HARNESS) -> bool:
        params = ValidateParams(registration, key, authorization)
        return self.authority.validate(self.executor, "box", params).valid

    def admits(self, url: str, **changes: str) -> bool:
        asked = {**dict(parse_qsl(urlsplit(url).query)), **changes}
        environment_id = asked.get("environment", "box")
        said = (asked["role"], asked["registration"], asked["principal"], asked["sig"])
        return self.authority.admission(environment_id, *said) is not None

    def holder(self, url: str) -> str | None:
        """The service that a ticket leads to."""
        asked = dict(parse_qsl(urlsplit(url).query))
        said = (asked["role"], asked["registration"], asked["principal"], asked["sig"])
        return self.authority.admission("box", *said)


@pytest.fixture
def place() -> Iterator[Place]:
    made = Place()
    yield made
    made.store.close()


def refusal(what: object, *args: object) -> tuple[int, str]:
    with pytest.raises(NotGranted) as caught:
        what(*args)  # type: ignore[operator]
    return caught.value.status, caught.value.code


def test_a_code_works_once(place: Place) -> None:
    code = place.authority.code("ada", "box", USE)
    assert place.authority.enrol(code).environment_id == "box"
    assert refusal(place.authority.enrol, code) == (403, "code_refused")
    assert refusal(place.authority.enrol, "guessed") == (403, "code_refused")


def test_a_code_expires(place: Place) -> None:
    late, early = place.authority.code("ada", "box", USE), place.authority.code("ada", "box", USE)
    place.now += rules.CODE_SECONDS - 1
    place.authority.enrol(early)
    place.now += 1
    assert refusal(place.authority.enrol, late) == (403, "code_refused")


@pytest.mark.parametrize(("environment_id", "role"), [("a/b", USE), ("", USE), ("box", "admin")])
def test_a_code_is_for_something(environment_id: str, role: str, place: Place) -> None:
    with pytest.raises(SettingInvalid):
        place.authority.code("ada", environment_id, role)


def test_nothing_that_admits_is_kept_as_it_is(place: Place) -> None:
    code = place.authority.code("ada", "box", USE)
    place.online()
    authorization = place.connect()
    kept = "\n".join(place.store._db.iterdump())
    for secret in (code, authorization, place.user, place.executor):
        assert secret not in kept


def test_rights_are_for_one_environment_and_one_role(place: Place) -> None:
    place.online()
    other = place.token("other", EXECUTE)
    register = RegisterParams(PROFILE, EXECUTOR)
    validate = ValidateParams("r", HARNESS, "a")
    unknown = (404, "environment_not_found")
    assert refusal(place.authority.register, place.user, "box", register) == unknown
    assert refusal(place.authority.register, other, "box", register) == unknown
    assert refusal(place.authority.validate, place.user, "box", validate) == unknown
    assert refusal(place.authority.connect, place.executor, "box", ConnectParams(HARNESS)) == unknown
    assert refusal(place.authority.connect, "no token", "box", ConnectParams(HARNESS)) == (
        401,
        "unauthorized",
    )


def test_who_may_not_cannot_tell_whether_an_environment_exists_or_is_online(place: Place) -> None:
    stranger = place.token("other", USE)

    def said(environment_id: str) -> tuple[int, str, str]:
        with pytest.raises(NotGranted) as caught:
            place.authority.connect(stranger, environment_id, ConnectParams(HARNESS))
        return caught.value.status, caught.value.code, str(caught.value)

    before = said("box")
    place.online()
    assert before == said("box") == said("nothing-of-that-name")


def test_a_harness_is_told_that_the_executor_is_away(place: Place) -> None:
    assert refusal(place.connect) == (409, "environment_offline")
    place.register()
    assert refusal(place.connect) == (409, "environment_offline")
    place.authority.attached("box")
    place.connect()
    place.authority.detached("box")
    assert refusal(place.connect) == (409, "environment_offline")


def test_a_harness_hears_whether_the_executor_s_key_is_kept(place: Place) -> None:
    place.online()
    asked = ConnectParams(HARNESS)
    assert not place.authority.connect(place.user, "box", asked).kept
    place.register(kept=True)
    assert place.authority.connect(place.user, "box", asked).kept
    place.register()
    assert not place.authority.connect(place.user, "box", asked).kept


def test_an_authorization_is_used_once(place: Place) -> None:
    registration, authorization = place.online(), place.connect()
    asked = ValidateParams(registration, HARNESS, authorization)
    who = place.principal(place.user)
    assert place.authority.validate(place.executor, "box", asked) == ValidateAnswer(True, who)
    assert place.authority.validate(place.executor, "box", asked) == ValidateAnswer(False)


def test_an_authorization_is_for_its_key_registration_and_time(place: Place) -> None:
    registration, authorization = place.online(), place.connect()
    assert not place.validate(registration, authorization, OTHER)
    assert not place.validate("another", authorization)
    assert not place.validate(registration, "another")
    assert place.validate(registration, authorization)  # those attempts did not use it up
    late = place.connect()
    place.now += rules.AUTHORIZATION_SECONDS
    assert not place.validate(registration, late)


def test_an_authorization_of_an_older_registration_is_worth_nothing(place: Place) -> None:
    old, authorization = place.online(), place.connect()
    new = place.register()
    assert not place.validate(old, authorization)
    assert not place.validate(new, authorization)


def test_another_executor_s_registration_cannot_be_asked_about(place: Place) -> None:
    registration, authorization = place.online(), place.connect()
    second = place.token("box", EXECUTE)
    asked = ValidateParams(registration, HARNESS, authorization)
    assert not place.authority.validate(second, "box", asked).valid


def test_a_ticket_admits_until_the_next_registration(place: Place) -> None:
    told = place.authority.register(place.executor, "box", RegisterParams(PROFILE, EXECUTOR))
    assert told.url.startswith("wss://relay.example/base/cloud/environment/box/rendezvous?role=environment&")
    assert place.admits(told.url) and place.admits(told.url)
    place.register()
    assert not place.admits(told.url)


def test_a_ticket_that_was_changed_admits_nobody(place: Place) -> None:
    place.online()
    url = place.authority.connect(place.user, "box", ConnectParams(HARNESS)).url
    assert place.admits(url)
    executor = place.principal(place.executor)
    for change in (
        {"role": "environment"},
        {"role": "environment", "principal": executor},
        {"principal": executor},
        {"role": "else"},
        {"environment": "other"},
        {"registration": "x"},
        {"sig": ""},
        {"sig": "0" * 64},
        {"sig": "ü"},
    ):
        assert not place.admits(url, **change)


def test_another_service_on_the_store_admits_the_same(place: Place) -> None:
    place.online()
    url = place.authority.connect(place.user, "box", ConnectParams(HARNESS)).url
    place.authority = Authority(place.store, lambda: place.now, "wss://relay.example", "two")
    assert place.holder(url) == "one"
    place.authority.detached("box")  # this one never had it
    assert place.holder(url) == "one"
    place.authority.attached("box")
    assert place.holder(url) == "two"
    place.authority.forget_attachments()
    assert place.holder(url) == ""


def test_an_old_token_works_for_a_while_beside_the_new_one(place: Place) -> None:
    told = place.authority.rotate(place.user)
    assert told.grace == rules.GRACE_SECONDS and told.token not in (place.user, repr(told))
    assert place.principal(told.token) == place.principal(place.user)
    again = place.authority.rotate(place.user)  # the first answer was lost
    place.now += rules.GRACE_SECONDS
    assert refusal(place.principal, place.user) == (401, "unauthorized")
    assert place.principal(told.token) == place.principal(again.token)


def test_an_old_token_is_not_kept_alive_by_rotating_it(place: Place) -> None:
    place.authority.rotate(place.user)
    place.now += rules.GRACE_SECONDS - 1
    place.authority.rotate(place.user)
    place.now += 1
    assert refusal(place.principal, place.user) == (401, "unauthorized")


def test_tokens_of_one_principal_are_bounded(place: Place) -> None:
    for _ in range(15):
        place.authority.rotate(place.user)
    assert refusal(place.authority.rotate, place.user) == (429, "too_many_tokens")


def test_who_was_revoked_may_nothing(place: Place) -> None:
    registration, authorization = place.online(), place.connect()
    url = place.authority.connect(place.user, "box", ConnectParams(HARNESS)).url
    user, executor = place.principal(place.user), place.principal(place.executor)
    place.now += 5
    assert place.authority.revoke(user) == []
    assert refusal(place.connect) == (401, "unauthorized")
    assert not place.admits(url)
    assert not place.validate(registration, authorization)
    assert refusal(place.authority.rotate, place.user) == (401, "unauthorized")
    assert refusal(place.authority.revoke, user) == (404, "principal_not_found")
    assert (place.authority.revoked_since(1005.0), place.authority.revoked_since(1005.1)) == ([user], [])
    own = place.authority.register(place.executor, "box", RegisterParams(PROFILE, EXECUTOR)).url
    place.authority.attached("box")
    another = place.authority.connect(place.token("box", USE), "box", ConnectParams(HARNESS)).url
    assert place.admits(own) and place.admits(another)
    assert place.authority.revoke(executor) == ["box"]
    assert not place.admits(own) and not place.admits(another)


def test_the_list_shows_who_may_what_and_nobody_who_was_revoked(place: Place) -> None:
    place.online()
    shown = [(one["environment"], one["role"], one["online"]) for one in place.authority.overview()]
    assert shown == [("box", "execute", True), ("box", "use", True)]
    place.authority.revoke(place.principal(place.user))
    assert [one["role"] for one in place.authority.overview()] == ["execute"]
    assert place.authority.overview()[0]["lastSeen"] == place.now


def test_what_happens_is_recorded(place: Place) -> None:
    place.online()
    place.validate("r", "guessed")
    what = [one for (one,) in place.store.rows("SELECT what FROM audit ORDER BY rowid")]
    assert what[:4] == ["code made", "enrolled"] * 2
    assert what[4:] == ["registered", "refused"]


def test_rights_to_a_pool_are_for_its_environments_alone(place: Place) -> None:
    node, driver = place.token("cluster", EXECUTE_POOL), place.token("cluster", USE_POOL)
    params = RegisterParams(PROFILE, EXECUTOR, False)
    url = place.authority.register(node, "cluster.p1-s1", params).url
    assert place.admits(url, environment="cluster.p1-s1")
    place.authority.attached("cluster.p1-s1")
    told = place.authority.connect(driver, "cluster.p1-s1", ConnectParams(HARNESS))
    assert place.admits(told.url, environment="cluster.p1-s1")
    asked = ValidateParams(told.registration_id, HARNESS, told.authorization)
    assert place.authority.validate(node, "cluster.p1-s1", asked).valid
    for other in ("cluster", "cluster.p1.s1", "clusters.p1", "other.p1", "box"):
        assert refusal(place.authority.register, node, other, params)[0] == 404
    assert refusal(place.authority.register, driver, "cluster.p1-s1", params)[0] == 404
    assert refusal(place.authority.connect, node, "cluster.p1-s1", ConnectParams(HARNESS))[0] == 404
    assert refusal(place.authority.register, place.executor, "box.p1", params)[0] == 404
    assert not place.admits(url.replace("role=environment", "role=harness"), environment="cluster.p1-s1")


def test_executors_of_a_pool_register_as_often_as_its_users_connect(place: Place) -> None:
    node, params = place.token("cluster", EXECUTE_POOL), RegisterParams(PROFILE, EXECUTOR, False)
    for number in range(rules.RATES["connect"].burst):
        place.authority.register(node, f"cluster.p1-s{number}", params)
    assert refusal(place.authority.register, node, "cluster.p1-s1", params)[0] == 429


def test_what_executors_of_a_pool_leave_is_forgotten(place: Place) -> None:
    node, params = place.token("cluster", EXECUTE_POOL), RegisterParams(PROFILE, EXECUTOR, False)
    for name in ("cluster.there", "cluster.gone"):
        place.authority.register(node, name, params)
    place.register()
    place.authority.attached("cluster.there")
    place.now += 3601
    place.authority.prune()
    found = place.store.rows("SELECT environment FROM registrations ORDER BY environment")
    assert found == [("box",), ("cluster.there",)]
