"""What a folder of capabilities offers: skills and plugins, by the rules of those who write them. Pure.

A skill is a folder with SKILL.md, which may have `agents/openai.yaml` beside it; a plugin has a manifest in
one of three places. What a file says is decided here; who reads the files is `host.discovery`.
"""

from __future__ import annotations

from json import dumps, loads

from ..record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SKILL = "SKILL.md"
METADATA = "agents/openai.yaml"  # beside it
MANIFESTS = (".codex-plugin/plugin.json", ".claude-plugin/plugin.json", ".cursor-plugin/plugin.json")
MCP_CONFIG = ".mcp.json"  # of a plugin that names none
APPS_CONFIG = ".app.json"  # the same, of a plugin that is installed
# The reference's: of the scan of a root, of one file, of all files of a root, of a request.
DEPTH, DIRECTORIES, ENTRIES = 6, 2000, 20_000
FILE_BYTES, ROOT_BYTES = 1 << 20, 16 << 20
ROOTS = 128
INSTALLED = 1024  # plugins; ours, because each of them is a walk. The reference has no limit
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


class Unusable(Exception):
    """What a skill or a plugin says about itself cannot be used."""


@record
class PluginFace:
    """What a plugin is called: in the names of its skills, and by people."""

    name: str
    display_name: str
    inline: str | None  # its MCP servers, where the manifest itself has them


def face(manifest: str, folder: str) -> PluginFace:
    """What a manifest says of an installed plugin. Raises Unusable."""
    try:
        said = loads(manifest)
    except (ValueError, RecursionError):
        raise Unusable("its manifest is no JSON") from None
    if not isinstance(said, dict):
        raise Unusable("its manifest is no table")
    shown = _typed(said, "interface", dict) or {}
    _typed(said, "apps", str)
    name = _typed(said, "name", str) or ""
    name = name if name.strip() else folder
    display_name = (_typed(shown, "displayName", str) or "").strip() or name
    servers = said.get("mcpServers")
    inline = dumps(servers, separators=(",", ":"), ensure_ascii=False) if isinstance(servers, dict) else None
    return PluginFace(name, display_name, inline)


def _typed(said: dict[str, Any], key: str, kind: type) -> Any:
    value = said.get(key)
    if value is not None and not isinstance(value, kind):
        raise Unusable(f"`{key}` of its manifest is of another type")
    return value


def is_plugin_part(name: str) -> bool:
    """Whether a folder's name can be that of a plugin or of where it came from."""
    return name.isascii() and name.replace("-", "").replace("_", "").isalnum()


def newest(versions: list[str]) -> str | None:
    """The version that is used of those installed: one under development, or else the latest."""
    best = None
    for version in versions:
        plain = version.replace("-", "").replace("_", "").replace("+", "").replace(".", "")
        if not (plain.isascii() and plain.isalnum()):
            continue
        if version == "local":
            return version
        if best is None or _is_later(version, best):
            best = version
    return best


def _is_later(one: str, other: str) -> bool:
    first, second = _precedence(one), _precedence(other)
    return one > other if first is None or second is None else first > second


def _precedence(version: str) -> tuple[object, ...] | None:
    """What a semantic version is ordered by; None for any other text."""
    release, dash, before = version.partition("+")[0].partition("-")
    numbers = release.split(".")
    if len(numbers) != 3 or not all(map(str.isdecimal, numbers)):
        return None
    parts = [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in before.split(".")]
    return (*map(int, numbers), not dash, parts)


# Skills


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
