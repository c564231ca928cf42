"""What this product can do on each kind of system, and what is weaker where Linux's own calls are missing.

One table. `docs/topics/platforms.md` shows it, `environment/info` and `outfitter doctor` tell what is weaker
on their machine, and what is refused is refused in these words.
"""

from __future__ import annotations

from ..record import record


@record
class Ability:
    """`linux` and `portable` are the ways to it; `weaker` is what is missing without Linux, for a person.

    Without a `portable` way it is refused there.
    """

    name: str
    what: str
    linux: str
    portable: str
    weaker: str


ABILITIES = (
    Ability(
        "loop",
        "wait for many descriptors",
        "epoll, eventfd",
        "`selectors`: kqueue or poll; a pipe",
        "with poll, each wait takes longer the more descriptors there are",
    ),
    Ability(
        "start",
        "start a program",
        "posix_spawn with a directory, every signal set back",
        "`subprocess`: fork, or vfork",
        "a start takes longer; children have the server's own limit on open files; a variable with = in its "
        "name is refused",
    ),
    Ability(
        "exit",
        "notice the end of a child",
        "pidfd_open",
        "a thread that waits for each child",
        "a signal can reach another process that was given the number of one that ended a moment ago",
    ),
    Ability(
        "tree",
        "end a command's whole tree",
        "a mark in RLIMIT_RTTIME, which children inherit",
        "process groups, parents, and OUTFITTER_MARK in the environment, as `ps` shows them",
        "missed is a process that left its group, lost its parents, and dropped or hides its environment; "
        "ended is also what a build daemon, say, starts with a command's environment; "
        "commands see OUTFITTER_MARK; a look takes 20 ms instead of 1",
    ),
    Ability(
        "orphans",
        "adopt what a command left behind",
        "a child subreaper",
        "none: the system's first process has them",
        "they are found by their mark alone",
    ),
    Ability(
        "watch",
        "watch folders",
        "inotify",
        "watchfiles, from the extra outfitter[watch]; looks for paths that are missing",
        "changes come some 0.1 s later, a rename is a removal and a creation, what came and went at once is "
        "not told; paths that are missing are looked for five times a second; without the extra, folders are "
        "not watched",
    ),
    Ability(
        "races",
        "close races by descriptors",
        "O_PATH, O_TMPFILE, renameat2, /proc/self/fd",
        "O_NOFOLLOW, temporary names, link(2)",
        "to go through a folder needs the permission to read it; a killed server can leave a temporary file; "
        "a file whose content is replaced loses its extended attributes",
    ),
    Ability(
        "metadata",
        "metadata without waiting for a disk",
        "statx, openat2 with RESOLVE_CACHED",
        "stat in a thread",
        "each look takes a thread's turn; not every system tells when a file was made",
    ),
    Ability(
        "peer",
        "know the user at the other end",
        "SO_PEERCRED, sock_diag",
        "LOCAL_PEERCRED or getpeereid; `lsof` for TCP on this machine",
        "a connection over TCP without a token, or to the proxy of a command without a sandbox, is looked up "
        "for some 50 ms, and refused where there is no `lsof`: listen on unix:PATH, or use tokens",
    ),
    Ability(
        "memory-files",
        "files in memory",
        "memfd_create, sealed",
        "temporary files of our own user",
        "what was checked can be changed by programs of the same user until it runs",
    ),
    Ability(
        "privacy",
        "hide the server's memory and environment from its commands",
        "prctl(PR_SET_DUMPABLE), a wiped /proc/PID/environ",
        "what the system does by itself",
        "a command of the same user may see the server's environment with `ps`",
    ),
    Ability(
        "limits",
        "hold a server and all its commands together to limits",
        "control groups",
        "",
        "--cgroup needs Linux's control groups: leave it out here; --limits holds each process by itself, "
        "not all of them together",
    ),
    Ability(
        "mask",
        "mask startup files",
        "a mount namespace",
        "",
        "to mask startup files needs Linux's mount namespaces",
    ),
    Ability(
        "frozen",
        "freeze a project's files while its tools read them",
        "a mount namespace with an overlay",
        "",
        "the files that a provider or a setup reads can be changed between the check and the read",
    ),
    Ability(
        "sandbox",
        "confine commands",
        "bubblewrap, namespaces, seccomp",
        "",
        "a sandbox needs Linux (namespaces and seccomp), and none is built for this system yet: run the "
        "command on a Linux executor, or without a sandbox",
    ),
    Ability(
        "run-as",
        "run commands as another user",
        "credentials per thread",
        "",
        "--run-as needs Linux: start the server as that user here",
    ),
    Ability(
        "upgrade",
        "replace a running server by its next version",
        "execve with descriptors of processes and sealed memory",
        "",
        "a server can replace itself on Linux only: end it with SIGUSR1, which waits for its sessions, and "
        "start the next",
    ),
    Ability(
        "keyring",
        "keep secrets of a setup for other processes of the user",
        "the kernel's keyring",
        "",
        "a setup whose environment has secrets runs again in each process",
    ),
)
_BY_NAME = {ability.name: ability for ability in ABILITIES}


def refusal(name: str) -> str:
    """Why an ability is not to be had, and what to do instead."""
    ability = _BY_NAME[name]
    assert not ability.portable, "it has another way"
    return ability.weaker
