"""Who may import whom: the layer table as data, checked against every import statement.

When a new arrow is right, change the table in the same commit and say why.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.portable.site.lacking_names import LACKING, lacks

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "outfitter"

# `record`, `log`, `loop`, `plain`, `stdlib` and `system` belong to no layer: like `errors`, they know nothing
# of Outfitter. `loop` is there so that everything with effects is written against one interface, asyncio's
# or ours.
GROUND = {
    "earlyerrors",
    "refusals",
    "errors",
    "record",
    "log",
    "loop",
    "pace",
    "plain",
    "stdlib",
    "system",
    "VERSION",
}
GROUND |= {"openers", "places", "VERSION"}
# Tables and readers: what shells do, and how files are written.
READERS = {"shell", "formats"}
LAYERS: dict[str, set[str]] = {
    "earlyerrors": set(),
    "refusals": {"earlyerrors", "record"},
    "errors": {"earlyerrors", "refusals"},
    "record": set(),
    "log": set(),
    "openers": set(),
    "places": {"earlyerrors", "system"},
    "plain": set(),
    "stdlib": set(),
    "system": set(),
    "anypoll": set(),
    "loop": {"anypoll", "log", "stdlib", "system"},
    "pace": {"loop", "system"},
    "protocol": GROUND,
    "env": GROUND,
    "shell": GROUND | {"env"},
    "formats": GROUND | {"env"},
    "core": GROUND | READERS | {"protocol", "env"},
    "transport": GROUND | {"protocol"},
    "host": GROUND | READERS | {"env", "core"},
    "providers": GROUND | READERS | {"env", "core", "host"},
    "contract": GROUND | READERS | {"env", "core", "host", "providers"},
    # Launch contracts can be checked with nothing running; `agents.running` needs a client.
    "agents": GROUND | READERS | {"env", "core", "client"},
    "web": GROUND | {"env"},
    # A URL names any carrier, a relay among them; of `observe` it has the trace context of its requests.
    "client": GROUND | {"protocol", "core", "transport", "relay", "observe"},
    # A broker runs with no host and no server; the executor's end is given its server.
    "relay": GROUND | {"protocol", "core", "transport"},
    # What the plain client is built on.
    "blocking": GROUND | {"core", "client", "twins"},
    "twins": set(),
    # Above `local`: this machine is one of the environments.
    "environments": GROUND | {"formats", "protocol", "core", "transport", "client", "local"},
    # The command line joins pools and environments: a named pool is one for `--on`.
    "pool": GROUND
    | {"formats", "env", "protocol", "core", "transport", "host", "client", "relay", "local", "environments"}
    | {"observe", "blocking"},
    # Watching changes nothing: an observer knows what goes over the wire, and no more.
    "observe": GROUND | {"protocol"},
    "server": GROUND
    | READERS
    | {"protocol", "env", "core", "transport", "host", "providers", "contract", "observe"},
}
# Composition lives at the edge: these may import everything.
EDGE = {"__init__", "__main__", "adapters", "local", "opening", "sharing", "sync", "cli"}

# What pure code may not touch, from the standard library.
EFFECTS = {
    "asyncio",
    "os",
    "socket",
    "select",
    "time",
    "random",
    "secrets",
    "subprocess",
    "threading",
    "signal",
}
# What pure code may take from `stdlib`, which also has sockets, signals and threads.
PURE_NAMES = {"OrderedDict", "deque", "encode_basestring_ascii", "heapify", "heappop", "heappush"}
PURE_NAMES |= {"json_encoder", "json_scanner", "sha1", "sha256"}
PURE = ("earlyerrors", "refusals", "errors", "record", "plain", "protocol", "env", "shell", "formats", "core")

FILES = sorted(PACKAGE.rglob("*.py"))


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(parsed(path)))


@pytest.fixture(scope="module", autouse=True)
def trees_are_forgotten() -> Iterator[None]:
    yield
    parsed.cache_clear()
    nodes.cache_clear()


def unit_of(path: Path) -> str:
    part = path.relative_to(PACKAGE).parts[0]
    return part.removesuffix(".py")


def ours(path: Path, node: ast.ImportFrom) -> tuple[str, ...] | None:
    """The parts of a module below the package, however it is written; None if it is somebody else's."""
    named = tuple(node.module.split(".")) if node.module else ()
    if node.level == 0:
        return named[1:] if named[0] == PACKAGE.name else None
    here = path.relative_to(PACKAGE).parts[:-1]
    assert node.level <= len(here) + 1, f"{path}:{node.lineno} leaves the package"
    return here[: len(here) - node.level + 1] + named


def imports(path: Path) -> list[tuple[int, str, bool]]:
    """Line, module and whether it is ours, for each import; ours as its unit ("protocol")."""
    found = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name.split(".")[0], False) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parts = ours(path, node)
            if parts is None:
                found.append((node.lineno, (node.module or "").split(".")[0], False))
            elif parts:
                found.append((node.lineno, parts[0], True))
            else:
                found += [(node.lineno, alias.name, True) for alias in node.names]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_follow_the_layer_table(path: Path) -> None:
    unit = unit_of(path)
    if unit in EDGE:
        return
    allowed = LAYERS[unit] | {unit}
    wrong = [
        f"line {line}: {module}" for line, module, ours in imports(path) if ours and module not in allowed
    ]
    assert not wrong, f"{unit} may import {sorted(allowed)}"


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if unit_of(path) in PURE],
    ids=lambda path: str(path.relative_to(PACKAGE)),
)
def test_pure_code_touches_nothing(path: Path) -> None:
    wrong = [
        f"line {line}: {module}" for line, module, ours in imports(path) if not ours and module in EFFECTS
    ]
    assert not wrong


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if unit_of(path) in PURE],
    ids=lambda path: str(path.relative_to(PACKAGE)),
)
def test_pure_code_takes_only_what_is_pure_from_stdlib(path: Path) -> None:
    taken = {
        alias.name
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and node.level and node.module == "stdlib"
        for alias in node.names
    }
    assert taken <= PURE_NAMES


def test_private_modules_are_named_in_one_place() -> None:
    private = {
        (unit_of(path), module)
        for path in FILES
        for _, module, ours in imports(path)
        if not ours and module.startswith("_") and module != "__future__"
    }
    # The others are in its table.
    assert private == {("stdlib", "_json"), ("stdlib", "_operator"), ("stdlib", "_thread")}


def test_every_file_has_a_layer() -> None:
    assert {unit_of(path) for path in FILES} <= set(LAYERS) | EDGE


def test_no_drawer_for_odds_and_ends() -> None:
    assert not [path for path in FILES if path.stem in ("utils", "util", "misc", "common", "helpers")]


# Modules of ours that a module imports, TYPE_CHECKING included, as dotted names below the package.


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


def arrows(path: Path) -> set[str]:
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and (parts := ours(path, node)) is not None:
            module = ".".join(parts)
            for alias in node.names:
                inner = f"{module}.{alias.name}" if module else alias.name
                found.add(inner if inner in MODULES else module)
    return (found & set(MODULES)) - {module_of(path), ""}


def test_no_module_needs_itself() -> None:
    left = {name: arrows(path) for name, path in MODULES.items()}
    while free := [name for name, needs in left.items() if not needs & set(left)]:
        for name in free:
            del left[name]
    # What is left needs something that is left: a circle, or what leads into one.
    assert left == {}


def sources(folder: str) -> dict[str, str]:
    return {module_of(path): path.read_text() for path in FILES if unit_of(path) == folder}


def test_one_module_builds_internal_errors() -> None:
    assert [name for name, path in MODULES.items() if "internal-error" in path.read_text()] == [
        "protocol.codes"
    ]


def test_the_loop_has_a_whole_interface() -> None:
    hits = [name for name, path in MODULES.items() if re.search(r"getattr\(\S*loop", path.read_text())]
    assert hits == []


def test_no_json_is_written_in_the_server() -> None:
    for name, source in sources("server").items():
        assert "dumps(" not in source, name
        texts = [
            node.value
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
        ]
        assert not [text for text in texts if ('{"' if isinstance(text, str) else b'{"') in text], name


# The sync client is the async one again, by its own names; environments.toml's Configuration is public.
TWINS = {"Client", "Files", "Http", "HttpStream", "RemoteFile", "RemoteProcess", "Watch", "Configuration"}
TWINS |= {"OutputReader", "Transcript"}
TWINS |= {"Order", "Outcome"}  # a pool's, of a slot and of a task; the others stay inside their packages
TWINS |= {"ExecutorTransport"}  # httpx and httpx2 each have one
TWINS |= {"CachedLookup", "MissingWatch", "Sealed", "Spawner"}  # of Linux, and of every Unix


def test_no_two_classes_share_a_name() -> None:
    places: dict[str, list[str]] = {}
    for name, path in MODULES.items():
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(name)
    assert {name for name, modules in places.items() if len(modules) > 1} == TWINS


# Packages that Outfitter fits into. Only the module for one imports it, so nobody pays for what is not used.
PEERS = {
    "anyio": {"adapters.mcp"},
    "httpx": {"client.httpx"},
    "httpx2": {"client.httpx2", "adapters.mcp"},
    "mcp": {"adapters.mcp"},
    "mcp_types": {"adapters.mcp"},
    "watchfiles": {"host.portable.notifier"},
}


def test_each_peer_is_imported_by_its_own_module() -> None:
    found: dict[str, set[str]] = {}
    for name, path in MODULES.items():
        for _, module, ours in imports(path):
            if not ours and module in PEERS:
                found.setdefault(module, set()).add(name)
    assert found == PEERS


def test_nothing_below_imports_an_adapter() -> None:
    assert [
        name for name, path in MODULES.items() if any(one.startswith("adapters.") for one in arrows(path))
    ] == []


# Who chooses between Linux's way and the portable one, or refuses what has one way only.
CHOOSERS = {
    "contract.doctor.platform",
    "cli.base",
    "cli.upgrade",
    "host.tools.ahead",
    "host.watch.awaiting",
    "host.cgroup",
    "host.filecalls",
    "host.tools.frozen",
    "host.guard",
    "host.identity",
    "host.keyring",
    "host.limits",
    "host.lookup",
    "host.masks",
    "host.memoryfiles",
    "host.watch.notifying",
    "host.sandbox.bubblewrap",
    "host.sandbox.landlocked",
    "host.unix",
    "loop",
    "pace",
    "pool.child",
    "pool.local",
    "pool.template",
    "server.environment",
    "server.listen",
    "server.seenfiles",
    "server.services",
    "server.sessions",
    "transport.caller",
    "transport.unix",
}


def test_one_module_asks_which_system_this_is() -> None:
    asks = re.compile(r"sys\.platform|\bimport platform\b|hasattr\((os|select|signal|socket|resource|fcntl),")
    assert [name for name, path in MODULES.items() if asks.search(path.read_text())] == ["system"]


def test_the_kind_of_system_is_chosen_by_in_few_places() -> None:
    assert {name for name, path in MODULES.items() if re.search(r"\bLINUX\b", path.read_text())} == {
        *CHOOSERS,
        "system",
    }


# Modules for Linux, beside those of the sandbox: whoever uses one has asked, or was chosen by who has.
FOR_LINUX = {
    "cli.copying",
    "host.descendants",
    "host.exits",
    "host.tools.freezing",
    "host.tools.layout",
    "host.linuxfiles",
    "host.orphans",
    "host.reexec",
    "host.sealed",
    "host.spawn",
    "host.starter",
    "host.starters",
    "host.statx",
}


def test_what_python_lacks_on_a_mac_is_named_by_modules_for_linux_or_by_who_asks() -> None:
    found = {name: lacked(path) for name, path in MODULES.items() if not name.startswith("host.sandbox.")}
    # `stdlib` looks a name up when one of these modules imports it.
    aside = {*CHOOSERS, "stdlib", "system"}
    named = {name: names for name, names in found.items() if names and name not in aside}
    assert set(named) == FOR_LINUX, named


def lacked(path: Path) -> set[str]:
    """What a module names of Python's own that is not there on a Mac."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module, names = node.value.id, [node.attr]
        elif isinstance(node, ast.ImportFrom):
            module, names = node.module or "", [alias.name for alias in node.names]
        else:
            continue
        if module in LACKING:
            found |= {f"{module}.{name}" for name in names if lacks(module, name)}
    return found


def test_a_name_that_is_lacking_is_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "import os\nfrom signal import SIGPWR, SIGTERM\nos.pipe2(os.O_CLOEXEC)\nos.EFD_CLOEXEC\n"
    )
    assert lacked(module) == {"os.pipe2", "os.EFD_CLOEXEC", "signal.SIGPWR"}
