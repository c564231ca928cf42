"""What a folder of capabilities offers: skills and plugins, by the rules of those who write them. Pure.

A skill is a folder with SKILL.md, which may have `agents/openai.yaml` beside it; a plugin has a manifest in
one of three places. What a file says is decided here; who reads the files is `host.discovery`.
"""

from __future__ import annotations

from json import loads

from ..record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SKILL = "SKILL.md"
METADATA = "agents/openai.yaml"  # beside it
MANIFESTS = (".codex-plugin/plugin.json", ".claude-plugin/plugin.json", ".cursor-plugin/plugin.json")
MCP_CONFIG = ".mcp.json"  # of a plugin that names none
# The reference's: of the scan of a root, of one file, of all files of a root, of a request.
DEPTH, DIRECTORIES, ENTRIES = 6, 2000, 20_000
FILE_BYTES, ROOT_BYTES = 1 << 20, 16 << 20
ROOTS = 128
_LONGEST_NAME = 64  # characters; a skill with a longer one is left out, as the reference does


# Plugins


@record
class Named:
    """A file that a manifest names: its path below the plugin, or why it is ignored; both are empty where
    the manifest says nothing, and `inline` is True where it holds the content itself."""

    path: str = ""
    wrong: str = ""
    inline: bool = False


def named(manifest: str, key: str) -> Named:
    """What a manifest says under `mcpServers` or `apps`."""
    try:
        said = loads(manifest)
    except (ValueError, RecursionError):
        return Named()
    value = said.get(key) if isinstance(said, dict) else None
    if isinstance(value, dict):
        return Named(inline=True)
    if not isinstance(value, str):
        return Named()
    if not value.startswith("./"):
        return Named(wrong="path must start with `./`")
    parts = [part for part in value.split("/") if part not in ("", ".")]
    if not parts or ".." in parts:
        return Named(wrong="path must remain below the capability root")
    return Named("/".join(parts))


# Skills


class Unusable(Exception):
    """What a skill says about itself cannot be used."""


def front_matter(text: str) -> str:
    """The lines between the first two `---` of a SKILL.md. Raises Unusable."""
    lines = text.split("\n")
    if lines[0].rstrip() == "---":
        for place, line in enumerate(lines[1:], 1):
            if line.rstrip() == "---":
                return "\n".join(lines[1:place])
    raise Unusable("it has no front matter")


def skill(said: Any, folder: str) -> dict[str, Any]:
    """Name and descriptions of a skill, of what its front matter says. Raises Unusable."""
    if not isinstance(said, dict):
        raise Unusable("its front matter is no table")
    name = _line(said.get("name")) or folder
    description = _line(said.get("description"))
    more = said.get("metadata", {})
    if not isinstance(more, dict):
        raise Unusable("its metadata is no table")
    short = _line(more.get("short-description"))
    if not description:
        raise Unusable("it has no description")
    if len(name) > _LONGEST_NAME:
        raise Unusable(f"its name has more than {_LONGEST_NAME} characters")
    return {"name": name, "description": description, "shortDescription": short or None}


def _line(value: object) -> str | None:
    """A text as one line, as the reference shows it."""
    return " ".join(value.split()) if isinstance(value, str) else None


_TOOL = ("type", "value", "description", "transport", "command", "url")


def dependencies(said: Any) -> dict[str, Any] | None:
    """The tools that a skill needs, of its metadata."""
    found = _table(said, "dependencies")
    tools = found.get("tools") if found is not None else None
    if not isinstance(tools, list):
        return None
    listed = []
    for tool in tools:
        if isinstance(tool, dict) and _line(tool.get("type")) and _line(tool.get("value")):
            told: dict[str, Any] = {key: _line(tool.get(key)) or None for key in _TOOL}
            oauth = tool.get("oauth")
            port = _line(oauth.get("callback_port")) if isinstance(oauth, dict) else None
            fits = port is not None and port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 65_536
            told["oauthCallbackPort"] = int(port) if port is not None and fits else None
            listed.append(told)
    return {"tools": listed} if listed else None


PRODUCTS = ("codex", "chatgpt", "atlas")
_SWITCHES = {"true": True, "false": False}


def policy(said: Any) -> dict[str, Any] | None:
    """Who may use a skill, and whether without being asked to; None where it says nothing that is known."""
    found = _table(said, "policy")
    if found is None:
        return None
    implicit, products = found.get("allow_implicit_invocation"), found.get("products", [])
    known = isinstance(products, list) and all(one in PRODUCTS for one in products)
    if not known or (implicit is not None and implicit not in _SWITCHES):
        return None
    return {
        "allowImplicitInvocation": None if implicit is None else _SWITCHES[implicit],
        "products": products,
    }


def _table(said: Any, key: str) -> dict[str, Any] | None:
    found = said.get(key) if isinstance(said, dict) else None
    return found if isinstance(found, dict) else None
