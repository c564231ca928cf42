"""Why no sandbox can be made here, and what to do: a sandbox in a container needs what the container lets it
have. Which flag that is depends on who made the container."""

from __future__ import annotations

import os

from ...record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# What an engine leaves in its containers.
_ENGINES = {
    "/run/.containerenv": "podman",
    "/.dockerenv": "docker",
    "/var/run/secrets/kubernetes.io": "kubernetes",
}
# What lets a sandbox be made, and what lets it have a view of its own processes.
_ALLOW = {
    "docker": "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined",
    "podman": "podman run --security-opt seccomp=unconfined",
    "kubernetes": "a securityContext with seccompProfile and appArmorProfile of type Unconfined",
}
_UNMASK = {
    "docker": "--security-opt systempaths=unconfined",
    "podman": "--security-opt unmask=ALL",
    "kubernetes": "procMount: Unmasked (and hostUsers: false in the pod)",
}
# What a unit of systemd must not have for the latter, as it mounts something on /proc.
_UNIT = "or the service of systemd without ProtectKernelTunables=, ProtectKernelLogs= and ProtectHostname="
# Settings of the kernel, each with the value that forbids, the one that allows, and whether root may anyhow.
_SETTINGS = {
    "user.max_user_namespaces": ("0", "10000", False),
    "kernel.unprivileged_userns_clone": ("0", "1", True),
    "kernel.apparmor_restrict_unprivileged_userns": ("1", "0", True),
}
_SETFCAP = 31


@record
class Around:
    """What surrounds the server. `engine` made the container, if it is one that leaves a trace. `off` are
    settings of the kernel that forbid user namespaces, as they should be."""

    root: bool = False
    engine: str = ""
    filtered: bool = False  # by a filter of system calls
    maps_root: bool = True  # whether it may be root in a user namespace
    off: tuple[str, ...] = ()


def around(read: Callable[[str], str] | None = None) -> Around:
    """Looks. `read` gives the text of a file, or an empty one."""
    read = read or _text
    fields = dict([line.split(":\t", 1) for line in read("/proc/self/status").splitlines() if ":\t" in line])
    root = os.geteuid() == 0
    off = [
        f"{name}={right}"
        for name, (wrong, right, spares_root) in _SETTINGS.items()
        if read(f"/proc/sys/{name.replace('.', '/')}").strip() == wrong and not (root and spares_root)
    ]
    return Around(
        root,
        next((engine for path, engine in _ENGINES.items() if os.path.exists(path)), ""),
        fields.get("Seccomp") == "2",
        not root or bool(int(fields.get("CapEff", "0"), 16) >> _SETFCAP & 1),
        tuple(off),
    )


def why(said: str, place: Around) -> str:
    """What bubblewrap said, what is the matter, and what to do."""
    text = " ".join(said.split())[-300:].replace("bwrap: ", "").replace(": ", ", ")
    head = f"bubblewrap cannot make a sandbox here ({text})"
    if place.off:
        settings = " ".join(place.off)
        return f"{head}: allow user namespaces (sysctl -w {settings}), or by an AppArmor profile for bwrap"
    if "uid map" in said and not place.maps_root:
        return (
            f"{head}: root lacks CAP_SETFCAP. Start the container with --cap-add SETFCAP, or as another user "
            "(--user 1000)"
        )
    if place.engine or place.filtered:
        return f"{head}: what surrounds the server forbids namespaces or mounts. {_start(place)}"
    return f"{head}: see whether `unshare --user true` works. {_start(place)}"


def _start(place: Around) -> str:
    """How the container should have been started."""
    engines = [place.engine] if place.engine else list(_ALLOW)
    ways = "; or ".join([f"{_ALLOW[one]} {_UNMASK[one]}" for one in engines])
    rest = "--privileged allows more than is needed, --cap-add SYS_ADMIN not enough"
    return f"Start its container with {ways}. {rest}"


def unmask(place: Around) -> str:
    """What gives a sandbox a view of its own processes."""
    engines = [place.engine] if place.engine else list(_UNMASK)
    text = "Start the container with " + ", or ".join([f"{one}: {_UNMASK[one]}" for one in engines])
    return text if place.engine else f"{text}; {_UNIT}"


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
