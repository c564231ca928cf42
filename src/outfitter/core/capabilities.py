"""What a folder of capabilities offers: skills and plugins, by the rules of those who write them. Pure.

A skill is a folder with SKILL.md, which may have `agents/openai.yaml` beside it; a plugin has a manifest in
one of three places. What a file says is decided here; who reads the files is `host.discovery`.
"""

from __future__ import annotations

from json import dumps, loads

from ..record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
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
_LONGEST_NAME = 64  # characters; a skill with a longer one is left out, as the reference does
_LONGEST_QUALIFIED = 129  # the same with the name of its plugin: two such names and a colon
REMOTE = ".codex-remote-plugin-install.json"  # beside the versions of a plugin that came from a service
REMOTE_BYTES, _REMOTE_ID = 16 << 10, 1024  # of that file, of the id in it: services write a line
INSTALLED = 1024  # plugins; ours, because each of them is a walk. The reference has no limit


def _json(text: str) -> Any:
    """The value of a file. Raises ValueError, also for half a surrogate pair: no client can read one in an
    answer, and no path can have it. Raises RecursionError."""
    value = loads(text)
    if "\\ud" in text.lower():
        dumps(value, ensure_ascii=False).encode()
    return value


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
        said = _json(manifest)
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
    if "\0" in value:
        return Named(wrong="path must not have a NUL in it")
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
        said = _json(manifest)
    except (ValueError, RecursionError):
        raise Unusable("its manifest is no JSON") from None
    if not isinstance(said, dict):
        raise Unusable("its manifest is no table")
    shown = _typed(said, "interface", dict) or {}
    _typed(said, "apps", str)
    name = said.get("name", "")
    if not isinstance(name, str):
        raise Unusable("its name is no text")
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


def is_plugin(name: str) -> bool:
    """Whether a folder's name can be that of a plugin: it may have dots, too."""
    return name[:1] != "." and is_plugin_part(name.replace(".", ""))


_VERSION = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.+")


def newest(names: Iterable[str]) -> str | None:
    """The version that is used of those installed: one under development, or else the latest."""
    found = [name for name in names if name and _VERSION.issuperset(name)]
    if "local" in found:
        return "local"
    numbers = {name: _semver(name) for name in found}
    best = ""
    for name in sorted(found):
        mine, other = numbers[name], numbers.get(best)
        if not best or (name > best if mine is None or other is None else mine >= other):
            best = name
    return best or None


def _semver(text: str) -> tuple[Any, ...] | None:
    """As semver.org orders them; None for what is none."""
    text, _, build = text.partition("+")
    core, dash, before = text.partition("-")
    parts = core.split(".")
    if len(parts) != 3 or not all(map(_is_number, parts)) or (dash and not all(before.split("."))):
        return None
    labels = [(0, int(one), "") if one.isdigit() else (1, 0, one) for one in before.split(".")]
    return *map(int, parts), not dash, labels if dash else [], build


def _is_number(text: str) -> bool:
    return text.isdigit() and (text == "0" or text[0] != "0") and len(text) < 19


def remote_id(text: str) -> str:
    """The id of a plugin at its service. Raises Unusable."""
    try:
        said = _json(text)
    except (ValueError, RecursionError):
        said = None
    ident = (
        said.get("remote_plugin_id") if isinstance(said, dict) and said.get("schema_version") == 1 else None
    )
    if not isinstance(ident, str) or not ident.strip() or len(ident.encode()) > _REMOTE_ID:
        raise Unusable("it does not say which plugin of its service it is")
    return ident.strip()


def qualified(name: str, plugin: str | None) -> str:
    """The name of a skill of a plugin. Raises Unusable."""
    name = name if plugin is None else f"{plugin}:{name}"
    if len(name) > _LONGEST_QUALIFIED:
        raise Unusable(f"its name has more than {_LONGEST_QUALIFIED} characters")
    return name


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
            told["oauthCallbackPort"] = None if port is None else _port(port)
            listed.append(told)
    return {"tools": listed} if listed else None


def _port(text: str) -> int | None:
    digits = text.lstrip("0")
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= 5
    return int(digits) if is_number and int(digits) < 65_536 else None


PRODUCTS = ("codex", "chatgpt", "atlas")
_SWITCHES = ("false", "true")


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
        "allowImplicitInvocation": None if implicit is None else implicit == "true",
        "products": products,
    }


def _table(said: Any, key: str) -> dict[str, Any] | None:
    found = said.get(key) if isinstance(said, dict) else None
    return found if isinstance(found, dict) else None
