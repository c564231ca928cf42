"""What manifests and skills say, decided without a file."""

from __future__ import annotations

import pytest

from outfitter.core.capabilities import (
    Named,
    PluginFace,
    Unusable,
    dependencies,
    face,
    front_matter,
    is_plugin,
    is_plugin_part,
    named,
    newest,
    policy,
    qualified,
    remote_id,
    skill,
)


@pytest.mark.parametrize(
    ("manifest", "found"),
    [
        ('{"mcpServers": "./m.json"}', Named("m.json")),
        ('{"mcpServers": "./a//./b.json"}', Named("a/b.json")),
        ('{"mcpServers": "m.json"}', Named(wrong="path must start with `./`")),
        ('{"mcpServers": "../m.json"}', Named(wrong="path must start with `./`")),
        ('{"mcpServers": "./a/../b"}', Named(wrong="path must remain below the capability root")),
        ('{"mcpServers": "./"}', Named(wrong="path must remain below the capability root")),
        ('{"mcpServers": "./a\\u0000b"}', Named(wrong="path must not have a NUL in it")),
        ('{"mcpServers": "./a\\ud800"}', Named()),
        ('{"mcpServers": "./\\ud83d\\ude00"}', Named("😀")),
        ('{"mcpServers": {"a": {}}}', Named(inline=True)),
        ('{"mcpServers": 5}', Named()),
        ("{}", Named()),
        ("[]", Named()),
        ("not json", Named()),
        ("[" * 100_000, Named()),
    ],
)
def test_file_that_a_manifest_names(manifest: str, found: Named) -> None:
    assert named(manifest, "mcpServers") == found


@pytest.mark.parametrize(
    ("manifest", "found"),
    [
        ("{}", PluginFace("1.0.0", "1.0.0", None)),
        ('{"name": " "}', PluginFace("1.0.0", "1.0.0", None)),
        ('{"name": " a "}', PluginFace(" a ", " a ", None)),
        ('{"name": "a", "interface": {"displayName": " A "}}', PluginFace("a", "A", None)),
        ('{"name": "a", "interface": {"displayName": " "}}', PluginFace("a", "a", None)),
        ('{"name": "a", "mcpServers": {"b": ["ä", 1]}}', PluginFace("a", "a", '{"b":["ä",1]}')),
        ('{"name": "a", "mcpServers": ["x"]}', PluginFace("a", "a", None)),
    ],
)
def test_what_a_manifest_says_of_a_plugin(manifest: str, found: PluginFace) -> None:
    assert face(manifest, "1.0.0") == found


@pytest.mark.parametrize(
    "manifest",
    [
        "",
        "[]",
        "[" * 100_000,
        '{"name": 5}',
        '{"name": null}',
        '{"apps": {}}',
        '{"interface": []}',
        '{"interface": {"displayName": 1}}',
        '{"name": "a\\ud800"}',
        '{"mcpServers": {"\\uDC00": 1}}',
    ],
)
def test_a_manifest_that_cannot_be_used(manifest: str) -> None:
    with pytest.raises(Unusable):
        face(manifest, "1.0.0")


@pytest.mark.parametrize(
    ("versions", "used"),
    [
        ([], None),
        (["1 0", "ä", ""], None),
        (["1.0.0", "10.0.0", "2.0.0"], "10.0.0"),
        (["1.0.0", "local", "zzz"], "local"),
        (["1.0.0", "abc", "abd"], "abd"),
        (["1.0.0-beta.2", "1.0.0-beta.10", "1.0.0-alpha", "0.9.9"], "1.0.0-beta.10"),
        (["1.0.0-1", "1.0.0-a"], "1.0.0-a"),
        (["1.0.0-beta", "1.0.0"], "1.0.0"),
        (["1.0.0", "1.0.0-beta"], "1.0.0"),
        (["1.2", "1.10"], "1.2"),
        (["1.0.0+a", "1.0.0+b"], "1.0.0+b"),
        (["01.0.0", "1.0.0"], "1.0.0"),
        (["zz", "10.0.0", "9.0.0"], "zz"),
    ],
)
def test_one_version_of_a_plugin_is_used(versions: list[str], used: str | None) -> None:
    assert newest(versions) == newest(versions[::-1]) == used


def test_names_of_plugins_are_plain() -> None:
    assert [name for name in ("a", "A-b_1", "", "-", "a b", "ä", ".a", "a@b") if is_plugin_part(name)] == [
        "a",
        "A-b_1",
    ]


def test_name_of_a_plugin_may_have_dots() -> None:
    assert [name for name in ("a.b", ".a", ".", "a+b", "") if is_plugin(name)] == ["a.b"]


def test_front_matter_stands_between_two_lines() -> None:
    assert front_matter("---\na: 1\n---\nbody") == "a: 1"
    assert front_matter("--- \r\na: 1\r\n---\r\nbody") == "a: 1\r"
    for text in ("", "body", "\n---\na\n---", "---\na", "----\na\n----", "---\na\n---x\n"):
        with pytest.raises(Unusable):
            front_matter(text)


def test_skill_has_a_name_and_a_description() -> None:
    said = {"name": " a  b ", "description": "x\ny", "metadata": {"short-description": " s "}}
    assert skill(said, "folder") == {"name": "a b", "description": "x y", "shortDescription": "s"}
    assert skill({"name": "", "description": "d"}, "folder")["name"] == "folder"
    assert skill({"name": "n" * 64, "description": "d"}, "f")["name"] == "n" * 64
    for wrong in (
        None,
        [],
        {"name": "n"},
        {"description": ""},
        {"description": "d", "name": "n" * 65},
        {"description": "d", "metadata": "text"},
    ):
        with pytest.raises(Unusable):
            skill(wrong, "folder")


def test_tools_that_a_skill_needs() -> None:
    nothing = {"description": None, "transport": None, "command": None, "url": None}
    tool = {"type": "mcp", "value": " x  y ", "oauth": {"callback_port": "7"}}
    assert dependencies({"dependencies": {"tools": [tool, {"type": "mcp"}, "x"]}}) == {
        "tools": [{"type": "mcp", "value": "x y", **nothing, "oauthCallbackPort": 7}]
    }
    for port in ("0", "65536", "-1", "x", "٣", "9" * 5000, "0000801234567", ""):
        told = dependencies({"dependencies": {"tools": [{**tool, "oauth": {"callback_port": port}}]}})
        assert told is not None and told["tools"][0]["oauthCallbackPort"] is None
    zeros = {**tool, "oauth": {"callback_port": "0" * 5000 + "80"}}
    told = dependencies({"dependencies": {"tools": [zeros]}})
    assert told is not None and told["tools"][0]["oauthCallbackPort"] == 80
    for said in (
        None,
        {},
        {"dependencies": {}},
        {"dependencies": {"tools": "x"}},
        {"dependencies": {"tools": []}},
    ):
        assert dependencies(said) is None


def test_policy_of_a_skill() -> None:
    assert policy({"policy": {}}) == {"allowImplicitInvocation": None, "products": []}
    said = {"policy": {"allow_implicit_invocation": "false", "products": ["codex", "chatgpt"]}}
    assert policy(said) == {"allowImplicitInvocation": False, "products": ["codex", "chatgpt"]}
    for wrong in (
        None,
        {"policy": "x"},
        {"policy": {"products": "codex"}},
        {"policy": {"products": ["nobody"]}},
        {"policy": {"allow_implicit_invocation": "maybe"}},
        {"policy": {"allow_implicit_invocation": ["true"]}},
        {"policy": {"allow_implicit_invocation": {"true": "true"}}},
        {"policy": {"products": [["codex"], {}]}},
    ):
        assert policy(wrong) is None


def test_skill_of_a_plugin_has_both_names() -> None:
    assert qualified("s", None) == "s"
    assert qualified("s", "p") == "p:s"
    assert len(qualified("s" * 64, "p" * 64)) == 129
    with pytest.raises(Unusable):
        qualified("s" * 64, "p" * 65)


def test_id_of_a_plugin_at_its_service() -> None:
    assert remote_id('{"schema_version": 1, "remote_plugin_id": " r "}') == "r"
    for text in (
        "no",
        "[]",
        '{"schema_version": 2, "remote_plugin_id": "r"}',
        '{"schema_version": 1}',
        '{"schema_version": 1, "remote_plugin_id": "r\\ud800"}',
    ):
        with pytest.raises(Unusable):
            remote_id(text)
