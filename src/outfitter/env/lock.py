"""The lock of an environment, `outfitter.lock`: what it was made of, so that a change is noticed elsewhere.

It has names, layers, versions of tools, and a digest of each value; no value itself but the entries of lists,
which are folders. Folders of the project and of the home are written with `.` and `~`, so that two machines
can have the same lock where they have the same environment. One thing to a line, in order: the same
environment and the same salt give the same bytes. A lock says which layers it covers: those of the project
are the same on every machine that has the project, the others are not.

The digests are keyed with a salt that stands in the lock, because whoever compares needs it. That makes two
locks of one value look different, and no more: a value that can be guessed (a port, a user's name) can be
found by whoever has the lock. So secret variables have no digest at all; of them only the presence is locked.
"""

from __future__ import annotations

from ..errors import SettingInvalid
from ..record import KW_ONLY, record
from .diff import diff_digests
from .explain import decisive, secret_pairs, shown
from .fingerprint import value_digest
from .layer import BASE, OVERRIDE, POLICY, PROVIDER, SETUP
from .names import SHELL_MAINTAINED
from .pattern import Patterns, fold
from .redact import mask_pairs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .redact import Secrets
    from .resolve import Resolved

SHORTEST_SALT = 16
EVERY_LEVEL = tuple(range(BASE, OVERRIDE + 1))  # what a request does not bring
PROJECT_LEVELS = (PROVIDER, SETUP)  # what a project brings along, wherever it is

# What is another one in every session, terminal or boot: not locked, besides what shells keep themselves.
VOLATILE = (
    # the terminal
    *("TERM*", "COLORTERM", "TTY", "WINDOWID", "LC_TERMINAL*", "VTE_VERSION", "WT_*", "ITERM_*", "KITTY_*"),
    *("ALACRITTY_*", "KONSOLE_*", "GNOME_TERMINAL_*", "WEZTERM_*", "TMUX*", "STY", "ZELLIJ*", "GPG_TTY"),
    # the connection
    *("SSH_*", "SSH2_*", "MOSH_*"),
    # the login and the desktop
    *("XDG_SESSION_*", "XDG_RUNTIME_DIR", "XDG_SEAT*", "XDG_VTNR", "XDG_ACTIVATION_TOKEN", "DBUS_*"),
    *("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "SESSION_MANAGER", "DESKTOP_STARTUP_ID", "MAIL"),
    # the service manager
    *("INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_*", "MANAGERPID*", "NOTIFY_SOCKET", "LISTEN_*"),
    "MEMORY_PRESSURE_*",
    # the editor or the agent that it was asked from
    *("VSCODE_*", "CURSOR_*", "INSIDE_EMACS", "CLAUDE*", "CODEX_*"),
    # ours
    "OUTFITTER_*",
)


@record
class LockedLayer:
    """A layer and its state. `digest` stands for what it was made from, where that is known."""

    layer: str
    id: str
    state: str
    digest: str = ""


@record
class LockedVariable:
    """A variable and the layer it comes from. It is `secret`, has a `digest`, or is a list of `segments`."""

    layer: str
    id: str
    _: KW_ONLY
    secret: bool = False
    digest: str | None = None
    segments: tuple[str, ...] | None = None


@record
class Lock:
    """What `outfitter.lock` says. `levels` are the layers that are locked, `only` the patterns of names:
    empty means all names."""

    salt: bytes
    levels: tuple[int, ...]
    layers: tuple[LockedLayer, ...]
    tools: dict[str, str]
    variables: dict[str, LockedVariable]
    only: tuple[str, ...] = ()


@record
class Drift:
    """One thing that is not as it is locked.

    `subject` is "variable", "layer" or "tool". `kind` is "missing", "added", "changed", "layer-order",
    "layer-state", "layer-inputs" or "tool-version". `detail` says more where no value is given away.
    """

    subject: str
    kind: str
    name: str
    detail: str = ""

    def __str__(self) -> str:
        said = f"{self.subject} {shown(self.name)}: {self.kind}"
        return f"{said} ({shown(self.detail)})" if self.detail else said


def build(
    resolved: Resolved,
    *,
    salt: bytes,
    secrets: Secrets,
    tools: Mapping[str, str] | None = None,
    home: str | None = None,
    project: str | None = None,
    volatile: Iterable[str] = (),
    levels: Iterable[int] = EVERY_LEVEL,
    only: Iterable[str] = (),
) -> Lock:
    """The lock of an environment: of what a request would be put on top of, so resolve without one.

    `tools` are versions, or paths, by name. `volatile` are more patterns of names that are not locked.
    `levels` are the layers to lock: with PROJECT_LEVELS, without what differs from machine to machine anyway.
    `only` are patterns of the names to lock; empty means all. To compare with a lock, build with its `salt`,
    `levels` and `only`. Raises SettingInvalid for a salt of less than 16 bytes.
    """
    if len(salt) < SHORTEST_SALT:
        raise SettingInvalid(
            f"the salt of a lock needs at least {SHORTEST_SALT} random bytes; got {len(salt)}"
        )
    left_out = Patterns((*VOLATILE, *volatile))
    covered, only = frozenset(levels), tuple(only)
    wanted = Patterns(only)
    history, lists = resolved.history()
    pairs = secret_pairs(history, resolved, secrets)
    hidden = {name for name, _ in pairs}
    portable = _Portable(home, project)
    variables: dict[str, LockedVariable] = {}
    for name in sorted(resolved.values):
        if name in SHELL_MAINTAINED or left_out.match(fold(name)) is not None:
            continue
        if only and wanted.match(fold(name)) is None:
            continue
        event = decisive(history[name])
        layer = (f"L{event.level}", portable.text(event.layer))
        if name in lists and name not in hidden:
            entries = tuple(
                mask_pairs(portable.entry(one.value), pairs)
                for one in lists[name].segments
                if one.level in covered
            )
            if entries:
                variables[name] = LockedVariable(*layer, segments=entries)
        elif event.level in covered:
            value = resolved.values[name]
            if name in hidden or mask_pairs(value, pairs) != value:
                variables[name] = LockedVariable(*layer, secret=True)
            else:
                digest = value_digest(salt, name, portable.text(value))
                variables[name] = LockedVariable(*layer, digest=digest)
    return Lock(
        salt,
        tuple(sorted(covered)),
        tuple(_layers(resolved, covered, portable)),
        {name: portable.text(text) for name, text in sorted((tools or {}).items())},
        variables,
        only,
    )


def _layers(resolved: Resolved, covered: frozenset[int], portable: _Portable) -> list[LockedLayer]:
    """Those that a request does not bring, lowest first; the policies are layer 2."""
    # The version of a provider's tool is its machine's: another one may give the project the same.
    ours = BASE in covered
    found = [
        (
            one.level,
            LockedLayer(
                one.name,
                portable.text(one.id),
                one.state,
                one.digest if ours or one.level != PROVIDER else "",
            ),
        )
        for one in resolved.layers
        if one.level <= OVERRIDE
    ]
    found += [
        (POLICY, LockedLayer("L2", portable.text(one.name), "applied")) for one in resolved.stack.policies
    ]
    # Sorting keeps the order inside a layer.
    return [one for place, one in sorted(found, key=lambda pair: pair[0]) if place in covered]


class _Portable:
    """Writes folders of the project and of the home in a way that holds on another machine."""

    def __init__(self, home: str | None, project: str | None) -> None:
        known = [(project, "."), (home, "~")]  # a project in the home is a project first
        self._folders = [(folder.rstrip("/"), mark) for folder, mark in known if folder and folder.strip("/")]

    def entry(self, path: str) -> str:
        for folder, mark in self._folders:
            if path == folder or path.startswith(folder + "/"):
                return mark + path[len(folder) :]
        return path

    def text(self, value: str) -> str:
        """Any value; each part between colons may be a path."""
        return ":".join([self.entry(part) for part in value.split(":")])


# Comparing


def check(lock: Lock, current: Lock) -> list[Drift]:
    """What is not as it is locked: variables, layers, tools. `current` must be built with the lock's salt."""
    return [*_variables(lock, current), *_layer_drift(lock, current), *_tool_drift(lock.tools, current.tools)]


def _variables(lock: Lock, current: Lock) -> list[Drift]:
    found = []
    kinds = {"added": "added", "removed": "missing", "changed": "changed"}
    for one in diff_digests(_digests(lock), _digests(current), ignore=()):
        detail = ""
        if one.kind == "changed":
            was, now = lock.variables[one.name].segments, current.variables[one.name].segments
            if was is not None and now is not None:
                gone = [f"-{entry}" for entry in was if entry not in now]
                new = [f"+{entry}" for entry in now if entry not in was]
                detail = " ".join([*gone, *new]) or "in another order"
        found.append(Drift("variable", kinds[one.kind], one.name, detail))
    return found


def _digests(lock: Lock) -> dict[str, str | None]:
    # A colon is in no entry, and a digest has none.
    return {
        name: one.digest if one.segments is None else ":".join(("list", *one.segments))
        for name, one in lock.variables.items()
    }


def _layer_drift(lock: Lock, current: Lock) -> list[Drift]:
    before = {(one.layer, one.id): one for one in lock.layers}
    after = {(one.layer, one.id): one for one in current.layers}
    found = []
    for key, was in before.items():
        now = after.get(key)
        if now is None:
            found.append(Drift("layer", "missing", was.id, was.layer))
        elif now.state != was.state:
            found.append(Drift("layer", "layer-state", was.id, f"{was.state}, now {now.state}"))
        elif now.digest and was.digest and now.digest != was.digest:
            found.append(Drift("layer", "layer-inputs", was.id, "its inputs changed"))
    found += [Drift("layer", "added", one.id, one.layer) for key, one in after.items() if key not in before]
    order = [key for key in before if key in after]
    order_now = [key for key in after if key in before]
    for (_, was_id), (_, now_id) in zip(order, order_now, strict=True):
        if was_id != now_id:
            found.append(Drift("layer", "layer-order", was_id, f"replaced by {now_id}"))
            break
    return found


def _tool_drift(before: Mapping[str, str], after: Mapping[str, str]) -> list[Drift]:
    found = []
    for name in sorted({*before, *after}):
        if name not in after:
            found.append(Drift("tool", "missing", name, before[name]))
        elif name not in before:
            found.append(Drift("tool", "added", name, after[name]))
        elif before[name] != after[name]:
            found.append(Drift("tool", "tool-version", name, f"{before[name]}, now {after[name]}"))
    return found
