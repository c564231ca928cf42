"""Workspaces on a node: made, held, given up, and swept when whoever held them was killed.

    ROOT/POOL/LEASE/{work,tmp,home,run} held by an flock on LEASE, which ends with its keeper and its server
    ROOT/POOL/kept/LEASE                somebody wants to look at it; nobody removes it
    ROOT/.gone-N                        given up: a lease is over when this name has been given

A workspace is renamed before it is removed, so that nobody finds half of one. No asyncio here.
"""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess

from ..errors import EngineFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Where an engine has disks for such things, the first that is set: an operator's word, Slurm's, Ray's.
ROOTS = ("OUTFITTER_POOL_ROOT", "SLURM_TMPDIR", "RAY_TMPDIR")
FOLDERS = ("work", "tmp", "home", "run")
# Sockets live in workspaces, and a path of one has 107 bytes; so many are left to those who make them.
LONGEST_PATH = 80
# A command that finds no room fails in ways that look like its own fault: below this nothing new begins.
LEAST_FREE_BYTES, LEAST_FREE_PART, ENOUGH_FREE_BYTES = 1 << 30, 0.05, 10 << 30
REMOVERS = 4  # at a time, on a keeper: a disk is not quicker with more
SWEPT = 1000  # trees that one sweep removes: a command line takes as many names, and the next sweep the rest
SIZED = 100_000  # entries of a kept tree that are counted: a third of a second
REMOVE_SECONDS = 10.0  # that the end of a keeper waits for them; the next keeper's sweep does the rest
_KEPT, _GONE, _LOCK = "kept", ".gone-", ".lock"
# When the disk has nothing else to do. Made writable only if it has to be: most trees are.
_REMOVE = 'ionice -c 3 -p $$; rm -rf -- "$@" || { chmod -R u+rwX -- "$@"; rm -rf -- "$@"; }'
_IDLE = ("nice", "-n", "19", "sh", "-c", _REMOVE, "sh")


def root_of(environ: Mapping[str, str]) -> str:
    """Where workspaces are on this node. Not made here."""
    for name in ROOTS:
        if os.path.isabs(environ.get(name, "")):
            return os.path.join(environ[name], f"outfitter-{os.getuid()}")
    return f"/tmp/outfitter-{os.getuid()}"


class Workspace:
    """One that this process holds."""

    def __init__(self, path: str, held: int) -> None:
        self.path = path
        self.held = held

    @property
    def work(self) -> str:
        return f"{self.path}/work"

    @property
    def socket(self) -> str:
        """Where a server can listen; it locks the directory of its socket, which is one of its own."""
        return f"{self.path}/run/s"

    def variables(self, home: str) -> dict[str, str]:
        """What leads commands to it; with `home` "node" the home of the node's user stays theirs."""
        found = {"TMPDIR": f"{self.path}/tmp"}
        return found if home == "node" else {**found, "HOME": f"{self.path}/home"}

    def let_go(self) -> None:
        held, self.held = self.held, -1
        if held >= 0:
            os.close(held)


class Workspaces:
    """Those of one pool on this node. Raises EngineFailed where they cannot be made."""

    def __init__(self, root: str, pool_id: str) -> None:
        self.root = root = os.path.realpath(root)
        self.pool = f"{root}/{pool_id}"
        self._removers: list[subprocess.Popen[bytes]] = []
        try:
            os.makedirs(root, mode=0o700, exist_ok=True)
            said = os.lstat(root)
            if not stat.S_ISDIR(said.st_mode) or said.st_uid != os.getuid() or said.st_mode & 0o022:
                raise EngineFailed(
                    f"{root} is not a directory that only this user can write: remove it, or set {ROOTS[0]}"
                )
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._lock = os.open(f"{root}/{_LOCK}", flags, 0o600)
        except OSError as error:
            raise EngineFailed(f"cannot make workspaces in {root}: {error.strerror}") from None

    def make(self, lease_id: str) -> Workspace:
        """A new one, held by this process. Raises EngineFailed."""
        path = f"{self.pool}/{lease_id}"
        if len(os.fsencode(f"{path}/work")) > LONGEST_PATH:
            raise EngineFailed(
                f"{path}/work has more than {LONGEST_PATH} characters, and sockets in it would have too long "
                f"names: set {ROOTS[0]} to a shorter path on the node"
            )
        made = Workspace(path, -1)
        try:
            self._check_room()
            # A sweep looks at no workspace between its first name and its lock.
            fcntl.flock(self._lock, fcntl.LOCK_SH)
            try:
                os.makedirs(self.pool, mode=0o700, exist_ok=True)
                os.mkdir(path, 0o700)
                made.held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                fcntl.flock(made.held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            finally:
                fcntl.flock(self._lock, fcntl.LOCK_UN)
            for name in FOLDERS:
                os.mkdir(f"{path}/{name}", 0o700)
        except OSError as error:
            made.let_go()  # what there is of it is for the next sweep
            raise EngineFailed(f"cannot make the workspace {path}: {error.strerror}") from None
        return made

    def _check_room(self) -> None:
        found = os.statvfs(self.root)
        free, all_of_it = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
        if free < max(LEAST_FREE_BYTES, min(ENOUGH_FREE_BYTES, LEAST_FREE_PART * all_of_it)):
            raise EngineFailed(
                f"only {free >> 20} MiB are free in {self.root}: make room, or set {ROOTS[0]} to another disk"
            )

    def give_up(self, workspace: Workspace, *, keep: bool = False) -> str:
        """The lease is over when this returns; what was in the workspace is removed later, or kept at the
        path that is returned. Raises OSError."""
        kept = ""
        if keep:
            kept = f"{self.pool}/{_KEPT}/{os.path.basename(workspace.path)}"
            try:
                os.makedirs(os.path.dirname(kept), mode=0o700, exist_ok=True)
            except OSError:  # no room is left on the disk: a folder that only its server used needs none
                os.rename(f"{workspace.path}/run", os.path.dirname(kept))
            os.rename(workspace.path, kept)
        else:
            self._remove(workspace.path)
        workspace.let_go()
        return kept

    def _remove(self, path: str) -> None:
        gone = self._renamed(path)
        try:
            for name in FOLDERS:  # nothing was left in it, as often
                os.rmdir(f"{gone}/{name}")
            os.rmdir(gone)
        except OSError:
            self._remove_later([gone])

    def _renamed(self, path: str) -> str:
        gone = f"{self.root}/{_GONE}{os.getpid()}-{os.urandom(6).hex()}"
        os.rename(path, gone)
        return gone

    def _remove_later(self, gone: list[str]) -> None:
        self._removers = [one for one in self._removers if one.poll() is None]
        if len(self._removers) >= REMOVERS:
            self._removers.pop(0).wait()  # whoever makes more than a disk removes waits for it
        self._removers.append(
            subprocess.Popen(
                [*_IDLE, *gone],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        )

    def sweep(self) -> int:
        """Removes what nobody holds any more, of any pool of this user; returns how many workspaces."""
        left = [
            f"{self.root}/{name}"
            for name in os.listdir(self.root)
            if name.startswith(_GONE) and not _lives(name.removeprefix(_GONE).partition("-")[0])
        ]
        fcntl.flock(self._lock, fcntl.LOCK_EX)  # held by others for as long as a directory takes to be made
        try:
            found = [gone for path in list(self._workspaces()) if (gone := self._sweep(path))]
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)
        if found or left:
            self._remove_later([*left, *found][:SWEPT])
        return len(found)

    def _workspaces(self) -> Iterator[str]:
        for pool in os.listdir(self.root):
            if pool.startswith(".") or not os.path.isdir(f"{self.root}/{pool}"):
                continue
            leases = os.listdir(f"{self.root}/{pool}")
            yield from (f"{self.root}/{pool}/{lease}" for lease in leases if lease != _KEPT)

    def _sweep(self, path: str) -> str:
        """The new name of a workspace whose lock is free."""
        try:
            held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return ""  # gone meanwhile, or nothing of ours
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            gone = self._renamed(path)
            _rmdir(os.path.dirname(path))
            return gone
        except OSError:
            return ""  # somebody holds it
        finally:
            os.close(held)

    def close(self) -> None:
        """Waits for what is being removed, not for ever, and leaves no empty directory of this pool."""
        for one in self._removers:
            try:
                one.wait(REMOVE_SECONDS)
            except subprocess.TimeoutExpired:
                pass  # the next sweep finds it
        self._removers.clear()
        fcntl.flock(self._lock, fcntl.LOCK_EX)  # not between another keeper's two directories
        _rmdir(self.pool)
        os.close(self._lock)


def tree_bytes(path: str) -> int:
    """What the files of a tree have, as far as one looks."""
    found, left, folders = 0, SIZED, [path]
    while folders and left > 0:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    left -= 1
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        found += entry.stat(follow_symlinks=False).st_size
        except OSError:
            continue  # somebody still removes things, or nobody may look
    return found


def sweep(root: str) -> None:
    """Removes what nobody holds any more; returns when that is done. Makes nothing, where all is gone."""
    if not os.path.isdir(root):
        return
    there = Workspaces(root, "")
    there.sweep()
    there.close()


def _lives(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except PermissionError:
        return True  # another user's
    except (OSError, ValueError):
        return False
    return True


def _rmdir(path: str) -> None:
    try:
        os.rmdir(path)
    except OSError:
        pass  # something is in it, or somebody else was quicker
