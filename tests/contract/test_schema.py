"""The schema that editors get says what the parser takes: the same keys, choices and bounds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outfitter.contract.file import parse_settings
from outfitter.contract.merge import merge
from outfitter.contract.schema import ADDRESS, KEYS, json_schema
from outfitter.contract.selection import check_names
from outfitter.errors import FileInvalid

SCHEMA = json_schema()


def keys() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Table, key and schema of each value in the schema."""
    for name, value in SCHEMA["properties"].items():
        if "properties" in value:
            assert value["additionalProperties"] is False
            yield from ((name, key, inner) for key, inner in value["properties"].items())
        else:
            yield "", name, value


VALUES = {f"{table}.{key}".strip("."): (table, key, value) for table, key, value in keys()}


def mistakes(text: str) -> list[str]:
    kind = "project" if text.startswith("[setup]") else "user"  # the one table that is not a user's
    try:
        parse_settings(text, "/home/me/config.toml", kind, "/home/me")
    except FileInvalid as error:
        return [mistake.text for mistake in error.mistakes]
    return []


def written(table: str, key: str, value: object) -> str:
    head = f"[{table}]\n" if table else ""
    if table == "sandbox" and key.startswith("allow_"):
        head += 'mode = "workspace-write"\n'  # they need one, as the schema says
    if table == "setup" and key not in ("script", "run", "from"):
        head += 'from = "codex"\n'  # the same
    return f"{head}{key} = {toml(value)}\n"


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value)


def right(schema: dict[str, Any]) -> Iterator[object]:
    """Values that a schema allows, with all its choices and bounds."""
    if "enum" in schema:
        yield from schema["enum"]
    kinds = schema.get("type", [])
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        if kind == "boolean":
            yield from (True, False)
        elif kind == "string":
            yield from (text for text in ("PATH", "*_X", "some text", "*.example.com") if fits(schema, text))
        elif kind == "number":
            yield from (schema["maximum"], schema["exclusiveMinimum"] + 0.001)
        elif kind == "integer":
            yield from (schema["maximum"], schema["minimum"])
        elif kind == "array":
            yield []
            if "prefixItems" in schema:
                firsts = [one.get("const", "some text") for one in schema["prefixItems"]]
                yield from (firsts[:1], firsts)
            else:
                yield list(right(schema["items"]))
        elif kind == "object" and "properties" in schema:
            yield {}
            for key, inner in schema["properties"].items():
                for value in right(inner):
                    yield {key: value}
        elif kind == "object":
            yield {}
            for value in right(schema["additionalProperties"]):
                yield {"PATH": value}


def wrong(schema: dict[str, Any]) -> Iterator[object]:
    """Values that it does not."""
    if "enum" in schema:
        yield from ("bogus", schema["enum"][0].upper() + "x", 1, True)
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    yield from (
        value
        for kind, value in {
            "boolean": True,
            "string": "x",
            "integer": 1,
            "array": ["x"],
            "object": {},
        }.items()
        if kinds and kind not in kinds and not (kind == "integer" and "number" in kinds)
    )
    yield from (
        text for text in ("", "9", "a=b", "a:b", "n\0l") if "string" in kinds and not fits(schema, text)
    )
    if "maximum" in schema:
        yield from (schema["maximum"] + 1, 0, -1)
    if "array" in kinds:
        yield from ([item] for item in wrong(schema["items"]))
    for place, one in enumerate(schema.get("prefixItems", ())):
        if "const" in one:
            yield [*(each.get("const", "x") for each in schema["prefixItems"][:place]), "bogus"]
    if "maxItems" in schema:
        yield [*(each.get("const", "x") for each in schema["prefixItems"]), "x"]
    if "object" in kinds and "properties" in schema:
        yield {"bogus": 1}
        for key, inner in schema["properties"].items():
            yield from ({key: value} for value in wrong(inner))
    elif "object" in kinds:
        yield from ({"PATH": value} for value in wrong(schema["additionalProperties"]))
        pattern = schema["propertyNames"]["pattern"]
        yield from (
            {name: next(right(schema["additionalProperties"]))}
            for name in ("", "9", "a b")
            if not re.search(pattern, name)
        )


def fits(schema: dict[str, Any], text: str) -> bool:
    return re.search(schema.get("pattern", ""), text) is not None


def test_it_is_a_schema_of_the_draft_that_it_names() -> None:
    assert SCHEMA["$schema"] == ADDRESS == "https://json-schema.org/draft/2020-12/schema"
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA
    assert SCHEMA["additionalProperties"] is False


def test_it_has_the_keys_of_the_parser_and_no_other() -> None:
    assert [(table, key) for table, key, _ in VALUES.values()] == [
        (table, key.name) for table, keys in KEYS.items() for key in keys
    ]


@pytest.mark.parametrize("setting", VALUES)
def test_what_it_allows_is_taken(setting: str) -> None:
    table, key, schema = VALUES[setting]
    values = list(right(schema))
    assert values
    assert {str(value): found for value in values if (found := mistakes(written(table, key, value)))} == {}


@pytest.mark.parametrize("setting", VALUES)
def test_what_it_forbids_is_refused(setting: str) -> None:
    table, key, schema = VALUES[setting]
    values = list(wrong(schema))
    assert values
    assert [value for value in values if not mistakes(written(table, key, value))] == []


@pytest.mark.parametrize("table", KEYS)
def test_other_keys_are_refused_as_it_says(table: str) -> None:
    assert mistakes(written(table, "bogus", 1)) == ["unknown field `bogus`"]


@pytest.mark.parametrize("setting", VALUES)
def test_default_is_a_value_that_it_allows(setting: str) -> None:
    table, key, schema = VALUES[setting]
    if "default" in schema:
        assert mistakes(written(table, key, schema["default"])) == []


def test_what_does_not_go_together_is_in_it() -> None:
    assert SCHEMA["not"]["required"] == ["allow_login_shell", "shell"]
    assert mistakes('allow_login_shell = true\n[shell]\nlogin = "allow"\n')
    assert SCHEMA["properties"]["shell_environment_policy"]["not"]["required"] == ["filters"]
    assert mistakes("[shell_environment_policy]\nfilters = {}\ninclude_only = []\n")
    assert {"required": ["run"]} in SCHEMA["properties"]["setup"]["anyOf"]
    assert mistakes("[setup]\nrequired = true\n") == ["[setup] has nothing to run"]
    assert mistakes("[setup]\n") == []


PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "configuration.md").read_text()


def test_example_of_the_page_is_taken() -> None:
    example = PAGE.partition("```toml\n")[2].partition("```")[0]
    assert mistakes(example) == []


DOTTED = ("limits", "daemon", "notices", "trace", "import", "providers", "sandbox", "setup")


def test_page_has_every_key_and_choice() -> None:
    words = {
        word
        for table, keys in KEYS.items()
        for key in keys
        for word in (
            key.name if table not in DOTTED else f"{table}.{key.name}",
            *key.choices,
        )
    }
    text = re.sub(r"^```.*?^```", "", PAGE, flags=re.DOTALL | re.MULTILINE)
    quoted = set(re.findall(r"`([^`]+)`", text)) | set(re.findall(r'"(\w+)"', text))
    assert words - quoted == set()


def test_the_sample_has_every_key_and_every_line_of_it_counts() -> None:
    sample = PAGE.partition("## All keys")[2].partition("```toml\n")[2].partition("```")[0]
    said = parse_settings(sample, "/u/config.toml", "user", "/u")
    settings = merge(said, None)
    check_names(settings)  # no provider is configured and not used
    assert set(settings.provider_options) <= set(settings.providers or ())
    assert set(settings.required_providers) <= set(settings.providers or ())
    assert set(settings.provider_modes) <= set(settings.providers or ())
    tables = set(KEYS) - {"", "setup"}
    assert {table for table in tables if f"[{table}" in sample} == tables
