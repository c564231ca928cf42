"""Contexts of a sandbox, sound and broken, for process/start and fs/*: what both servers are asked."""

from __future__ import annotations

import json
from typing import Any

Json = Any  # test data is whatever JSON holds

FOREIGN, OTHER = "file:///C:/x", "file://srv/share"
ROOT = {"type": "special", "value": {"kind": "root"}}
LEVEL = {"windowsSandboxLevel": "disabled"}
DISABLED: dict[str, Json] = {"permissions": {"type": "disabled"}, **LEVEL}


def managed(files: Json, network: Json = "restricted", **more: Json) -> dict[str, Json]:
    permissions = {"type": "managed", "file_system": files, "network": network}
    return {"permissions": permissions, **LEVEL, **more}


def restricted(*entries: Json, **more: Json) -> dict[str, Json]:
    return managed({"type": "restricted", "entries": list(entries)}, **more)


def entry(path: Json, access: Json = "read", **more: Json) -> dict[str, Json]:
    return {"path": path, "access": access, **more}


def special(kind: str, access: str = "read", **more: Json) -> dict[str, Json]:
    return entry({"type": "special", "value": {"kind": kind, **more}}, access)


def at(uri: str, access: str = "read") -> dict[str, Json]:
    return entry({"type": "path", "path": uri}, access)


def glob(pattern: str, access: str = "deny") -> dict[str, Json]:
    return entry({"type": "glob_pattern", "pattern": pattern}, access)


ODD: list[Json] = [0, 1, -1, 1.5, True, None, "", "x", [], {}, {"x": None}, [1]]
URIS: list[Json] = [
    *(1, None, True, [], {}, "", "x", "/native", "http://x", "file:///x?y", "file:///x#y", "file:///a%00b"),
    *(
        FOREIGN,
        OTHER,
        "file:///c|/x",
        "file:///%00/bad/path/eA",
        "file:///w%20s",
        "file:/x",
    ),
]


def named(name: str) -> list[Json]:
    """Ways to write one of some names, most of them wrong."""
    odd = [name.upper(), name.capitalize(), {name: None}, {name: 1}, {name: {}}, {name: None, "x": None}]
    return [name, *ODD, *odd, {"x": 1}, [name]]


def contexts() -> dict[str, Json]:
    """Name → context. The name is the context's own text, unless that says too little."""
    found: list[Json] = [1, "x", True, 1.5, {}, {"permissions": {}}, DISABLED]
    found += [
        {"permissions": one, **LEVEL} for one in (*ODD, {"network": {"enabled": True}, "file_system": {}})
    ]
    found += [{"permissions": {"type": one, "network": "enabled"}, **LEVEL} for one in named("external")]
    found += [{"permissions": {"type": "external", "network": one}, **LEVEL} for one in named("enabled")]
    found += [managed({"type": "unrestricted"}, one) for one in named("restricted")]
    found += [managed(one) for one in ODD]
    found += [managed({"type": one, "entries": []}) for one in named("restricted")]
    found += [managed({"type": "restricted", "entries": one}) for one in ODD]
    found += [managed({"type": "restricted", "entries": [one]}) for one in ODD]
    depths = [*ODD, 2, 2**63, 2**64 - 1, 2**64, -(2**63), 1.0, "1"]
    found += [managed({"type": "restricted", "entries": [], "glob_scan_max_depth": one}) for one in depths]
    found += [restricted(one) for one in _entries()]
    found += _outer()
    found += _order()
    return {json.dumps(one): one for one in found}


def _entries() -> list[Json]:
    found: list[Json] = [{}, {"path": ROOT}, {"access": "read"}, entry(ROOT, x=1)]
    found += [entry(one) for one in ODD]
    found += [entry(ROOT, one) for one in (*named("read"), *named("none"), "write", "deny")]
    found += [entry(ROOT, missing_path_behavior=one) for one in named("skip")]
    found += [entry({"type": one, "path": "file:///x"}) for one in (*named("path"), 2, 3, 2**64 - 1)]
    found += [entry({"type": "path", "path": one}) for one in URIS]
    found += [entry({"type": "path"}), entry({"type": "glob_pattern"}), entry({"type": "special"})]
    found += [entry({"type": "glob_pattern", "pattern": one}) for one in ODD]
    found += [entry({"type": "special", "value": one}) for one in (*ODD, "root", ":root")]
    kinds = (*named("root"), "minimal", "tmpdir", "slash_tmp", "unknown", 2, 5, 6)
    found += [entry({"type": "special", "value": {"kind": one}}) for one in kinds]
    found += [special("unknown", path=one) for one in ODD]
    found += [special("unknown", path=":future", subpath=one) for one in ODD]
    for kind in ("project_roots", "current_working_directory"):
        found += [special(kind, subpath=one) for one in ODD]
    return found


def _outer() -> list[Json]:
    found: list[Json] = [{**DISABLED, "unknown": one} for one in ODD]
    for name in ("cwd", "userHomeDir"):
        found += [{**DISABLED, name: one} for one in URIS]
    for name in ("workspaceRoots", "temporaryDirectories"):
        found += [{**DISABLED, name: one} for one in (*ODD, ["x"], [1], [FOREIGN], ["file:///x"])]
    found += [{**DISABLED, "useLegacyLandlock": one} for one in ODD]
    found += [
        {**DISABLED, "windowsSandboxLevel": one} for one in (*named("mxc"), "restricted-token", "elevated")
    ]
    found += [
        {**DISABLED, "windowsSandboxProxySettingsMode": one} for one in (*named("reconcile"), "preserve")
    ]
    found += [{**DISABLED, "sandboxOverride": one} for one in named("noOverride")]
    found += [{**DISABLED, "policyContext": one} for one in ODD]
    found += [{**DISABLED, "policyContext": {"cwd": one}} for one in URIS]
    found += [{**DISABLED, "policyContext": {"workspaceRoots": one}} for one in (*ODD, ["x"], [FOREIGN])]
    return found


def _order() -> list[Json]:
    """More than one mistake: the first in the order of the message counts, and then the first of a profile's
    paths, of its working directory, of its roots."""
    bad, roots = at(FOREIGN), special("project_roots", "write")
    return [
        {"windowsSandboxLevel": "x", "permissions": {"type": "x"}},
        {"permissions": {"type": "x"}, "windowsSandboxLevel": "x"},
        {"cwd": "x", "permissions": {"type": "x"}},
        {"permissions": {"type": "external", "network": 1}, "cwd": 1},
        {"permissions": {"network": "x", "file_system": 1, "type": "managed"}, **LEVEL},
        {"permissions": {"file_system": 1, "network": "x", "type": "managed"}, **LEVEL},
        {"permissions": {"network": "x", "type": "managed"}, **LEVEL},
        managed({"type": "restricted", "glob_scan_max_depth": 0, "entries": 1}),
        managed({"type": "restricted", "entries": 1, "glob_scan_max_depth": 0}),
        managed({"glob_scan_max_depth": 0, "type": "restricted"}),
        restricted({"access": "x", "path": "y"}),
        restricted({"path": "y", "access": "x"}),
        restricted({"access": "x"}),
        restricted(entry(ROOT), entry("x"), entry("y")),
        restricted(bad, cwd=FOREIGN, workspaceRoots=[OTHER]),
        restricted(bad, at(OTHER)),
        restricted(entry(ROOT), cwd=FOREIGN, workspaceRoots=[OTHER]),
        restricted(entry(ROOT), workspaceRoots=["file:///x", OTHER, FOREIGN]),
        restricted(roots, bad),
        restricted(roots, workspaceRoots=[FOREIGN]),
        restricted(roots, cwd=FOREIGN, workspaceRoots=[OTHER]),
        restricted(roots, cwd="file:///tmp", workspaceRoots=[OTHER]),
        restricted(roots, cwd=FOREIGN, policyContext={"workspaceRoots": [OTHER]}),
        restricted(roots, cwd=FOREIGN, policyContext={"cwd": "file:///tmp"}),
        restricted(roots, cwd="file:///tmp", policyContext={"cwd": OTHER}),
        restricted(roots, workspaceRoots=[FOREIGN], policyContext={"cwd": "file:///tmp"}),
        restricted(special("minimal"), cwd=OTHER, workspaceRoots=[FOREIGN]),
        managed({"type": "unrestricted"}, cwd=FOREIGN, workspaceRoots=[OTHER]),
        *(restricted(glob(one)) for one in ("*.x", "", "/tmp/no/*.x", "codex-project-roots://*.x")),
        *(restricted(glob(one, "read")) for one in ("*.x", "/tmp/no/*.x")),
        restricted(special("current_working_directory")),
        restricted(bad, windowsSandboxLevel="mxc"),
    ]


# A list in place of an object is refused: the reference takes it for the members in their order.
SEQUENCES: dict[str, Json] = {
    "context": [],
    "entry": restricted([]),
    "a place by its members": restricted(entry(["special", {"kind": "root"}])),
    "a special one by its members": restricted(entry({"type": "special", "value": ["root"]})),
    "policy": {**DISABLED, "policyContext": ["file:///tmp"]},
    "profile": {"permissions": ["disabled"], **LEVEL},
}
