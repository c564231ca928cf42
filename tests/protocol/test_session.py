"""initialize: a name, and perhaps a session to resume; capabilities that claim nothing we lack."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outfitter.errors import InvalidParams
from outfitter.protocol.methods import CAPABILITIES
from outfitter.protocol.session import EnvironmentInfo, InfoResult, InitializeParams

texts = st.text(max_size=10)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"clientName": "c"}, InitializeParams("c")),
        ({"clientName": "", "resumeSessionId": None}, InitializeParams("")),
        ({"clientName": "c", "resumeSessionId": "s", "unknown": 1}, InitializeParams("c", "s")),
    ],
)
def test_a_name_is_enough(params: object, expected: InitializeParams) -> None:
    assert InitializeParams.decode(params) == expected


@pytest.mark.parametrize(
    ("params", "text"),
    [
        (None, "invalid type: null, expected struct InitializeParams"),
        ([], "invalid type: sequence, expected struct InitializeParams"),
        ({}, "missing field `clientName`"),
        ({"clientName": None}, "invalid type: null, expected a string"),
        ({"clientName": 1}, "invalid type: number, expected a string"),
        ({"clientName": "c", "resumeSessionId": 1}, "invalid type: number, expected a string"),
    ],
)
def test_bad_params_are_refused(params: object, text: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        InitializeParams.decode(params)
    assert str(caught.value) == text


@settings(deadline=None, max_examples=30)
@given(texts, st.none() | texts)
def test_what_a_client_sends_a_server_reads(name: str, session_id: str | None) -> None:
    params = InitializeParams(name, session_id)
    assert InitializeParams.decode(params.encode()) == params


def test_every_flag_of_the_reference_is_reported_first_and_in_its_order() -> None:
    info = EnvironmentInfo("sh", "/bin/sh", None, None, None, None, None, None, CAPABILITIES)
    assert list(InfoResult(info).encode()["capabilities"])[:15] == [
        "networkProxyLaunch",
        "networkProxyReviewDomains",
        "credentialMasking",
        "credentialMaskingCustomProviders",
        "capabilityDiscoverySandbox",
        "fsWatchMissing",
        "capabilityDiscoveryV2",
        "environmentConfigRead",
        "httpHeaderEnvVars",
        "sandboxedFileStreaming",
        "fileWriteStreaming",
        "shellSnapshotV2",
        "windowsMxc",
        "linuxRootWritePreservesDevices",
        "linuxApprovedRootWritePreservesRestrictions",
    ]


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("0.1.0", "0.166.0+outfitter.0.1.0"),
        ("0.1.0+mine", "0.166.0+outfitter.0.1.0.mine"),  # one mark for what follows, as versions have it
        (None, None),
    ],
)
def test_the_version_is_told_behind_that_of_the_reference(version: str | None, told: str | None) -> None:
    info = EnvironmentInfo("sh", "/bin/sh", None, None, None, None, version, None, frozenset())
    sent = InfoResult(info).encode()
    assert sent["executorVersion"] == told
    read = InfoResult.decode(sent).info.version
    assert read == (None if version is None else version.replace("+", "."))


def test_the_version_of_the_reference_is_its_own() -> None:
    told = {"shell": {"name": "sh", "path": "/bin/sh"}, "executorVersion": "0.166.0"}
    assert InfoResult.decode(told).info.version == "0.166.0"
