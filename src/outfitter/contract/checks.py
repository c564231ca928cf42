"""What `outfitter doctor` looks at: one function for each check, from what was found to a verdict.

Decisions only: what they need is gathered in `doctor`. Names of variables and entries of PATH are told,
values never. Whatever is not in order says exactly what to type or to edit. The ids are stable.
"""

from __future__ import annotations

from shlex import quote

from ..env.lists import leads_somewhere
from ..env.names import is_name, loads_code
from ..env.redact import Secrets
from ..env.resolve import LARGEST_PAIR
from ..record import EMPTY, KW_ONLY, fill, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..formats.toml import Mistake
    from .settings import Settings

STATUSES = ("error", "warning", "ok", "skipped")


@record
class Verdict:
    """What came of one check. `status` is one of `STATUSES`; only "ok" and "skipped" need no `remedy`."""

    status: str
    summary: str
    details: Sequence[str] = ()
    remedy: str = ""


@record
class Check:
    """One check. `needs` are the parts of what is gathered that `decide` takes, in their order."""

    id: str
    needs: tuple[str, ...]
    decide: Callable[..., Verdict]

    @property
    def category(self) -> str:
        return self.id.partition(".")[0]


# What is gathered


@record
class Configured:
    """The configuration in force; the defaults when there are `mistakes`. `file` is the user's own."""

    settings: Settings
    mistakes: Sequence[Mistake] = ()
    file: str = ""

    def __post_init__(self) -> None:
        fill(self, file=self.file or "config.toml")


@record
class Given:
    """The environment we were started in, and what a command gets of it.

    `removed` are the names that the policy takes away, by its rule; `from_base` those that a command gets as
    they were. No command can be started at all: for its size, says `problem`, or because the project's
    environment is not there, says `refused`. No repr: it holds values.
    """

    base: Mapping[str, str]
    values: Mapping[str, str]
    _: KW_ONLY
    removed: Mapping[str, Sequence[str]] = EMPTY
    from_base: Sequence[str] = ()
    problem: str = ""
    refused: str = ""

    def __repr__(self) -> str:
        return f"Given({len(self.base)} variables, {len(self.values)} for a command)"


@record
class Providers:
    """The project's environment: `layers` are (id, state, note) of what holds or should, `others` are
    (provider, file) of what was found and does not hold. `declared`: the configuration has a word on it.
    `refused`: why no command is started without it."""

    layers: Sequence[tuple[str, str, str]] = ()
    others: Sequence[tuple[str, str]] = ()
    _: KW_ONLY
    declared: bool = False
    refused: str = ""


@record
class Login:
    """What a login shell makes of a command's environment: `values` when `state` is "captured".

    `places` tells file and line by variable, and `programs` the path of each program here and there.
    """

    shell: str
    state: str
    values: Mapping[str, str]
    _: KW_ONLY
    reason: str = ""
    places: Mapping[str, tuple[str, int]] = EMPTY
    programs: Mapping[str, tuple[str | None, str | None]] = EMPTY

    def __repr__(self) -> str:
        return f"Login({self.shell!r}, {self.state!r})"

    def place(self, name: str) -> str:
        known = self.places.get(name)
        return "" if known is None else f" ({known[0]}:{known[1]})"


@record
class Shells:
    """The shell that SHELL names, the account's, and the one that clients are told to use; links followed."""

    variable: str | None
    account: str
    named: str


@record
class Place:
    """A file or folder of ours. `mode` is None when it is not there; `usable` says that we can use it."""

    path: str
    mode: int | None
    _: KW_ONLY
    ours: bool = True
    usable: bool = True
    size: int = 0


@record
class Codex:
    """Codex's config.toml: what it says about environments, None when it is not there."""

    path: str
    says: Sequence[str] | None
    _: KW_ONLY
    imported: bool = False
    mistakes: Sequence[str] = ()


# Configuration


def config_files(configured: Configured) -> Verdict:
    if configured.mistakes:
        first = configured.mistakes[0]
        place = first.file if first.line is None else f"{first.file}:{first.line}"
        remedy = first.remedy if first.remedy.endswith("?") else f"{first.remedy}."
        return Verdict(
            "error",
            f"{_count(configured.mistakes, 'mistake')} in the configuration: no command is started with it",
            [str(mistake) for mistake in configured.mistakes],
            f"Edit {place}: {remedy} `outfitter config show` tells when all is right.",
        )
    read = [f"{kind}: {path}" for path, kind, exists in configured.settings.files if exists]
    return Verdict("ok", f"{_count(read, 'file')} read" if read else "no files: the defaults hold", read)


def config_ignored(configured: Configured) -> Verdict:
    ignored = configured.settings.ignored
    if not ignored:
        return Verdict("ok", "everything that is written counts")
    files = sorted({str(source) for _, _, source in ignored})
    return Verdict(
        "warning",
        f"{_count(ignored, 'setting')} of the project would loosen something, and does not count",
        [f"{source}: {setting} = {value}" for setting, value, source in ignored],
        f"Remove it at {', '.join(files)}, or, if you want it, write it into {configured.file}.",
    )


# PATH

_EMPTY = "is empty, which means the current directory"
_RELATIVE = "is relative: another folder in every directory"
_LITERAL = "is text that nobody expanded"


def path_segments(given: Given, folders: frozenset[str]) -> Verdict:
    """`folders` are the entries that exist."""
    path = given.base.get("PATH", "")
    if not leads_somewhere(path):
        return Verdict(
            "error",
            "PATH is not set, or has no absolute entry: shells then search lists of their own",
            remedy="Start it with a PATH: `PATH=/usr/local/bin:/usr/bin:/bin outfitter ...`.",
        )
    wrong, harmless = [], []
    seen: set[str] = set()
    segments = path.split(":")
    for place, segment in enumerate(segments):
        key = segment.rstrip("/") or segment[:1]
        about = f"PATH[{place}] {segment}".rstrip()
        if not segment:
            wrong.append(f"{about} {_EMPTY}")
        elif "$" in segment:
            wrong.append(f"{about} {_LITERAL}")
        elif not segment.startswith("/"):
            wrong.append(f"{about} {_RELATIVE}")
        elif key in seen:
            harmless.append(f"{about} is there twice")
        elif segment not in folders:
            harmless.append(f"{about} does not exist")
        seen.add(key)
    details = [*wrong, *harmless]
    if wrong:
        return Verdict(
            "warning",
            f"{_count(wrong, 'entry')} of PATH {_are(wrong)} not what somebody meant; commands do not get "
            f"{'it' if len(wrong) == 1 else 'them'}",
            details,
            "Correct the line of your startup file that adds to PATH "
            '(PATH="/folder:$PATH", in double quotes, without a colon at the end), and log in again.',
        )
    rest = f", {len(harmless)} without effect" if harmless else ""
    return Verdict("ok", f"{_count(segments, 'entry')}{rest}", details)


def path_login_shell(configured: Configured, given: Given, login: Login | None) -> Verdict:
    if login is None:
        return _not_asked()
    if login.state != "captured":
        return Verdict(
            "warning",
            f"{login.shell} gave no answer: {login.state}",
            [login.reason],
            f"Run `{login.shell} -l -c true` and correct what it complains about.",
        )
    # Only the first of two equal entries is ever searched.
    before, after = (
        list(dict.fromkeys(values.get("PATH", "").split(":"))) for values in (given.values, login.values)
    )
    place = login.place("PATH")
    lost = [
        f"PATH[{index}] {entry} is lost in a login shell{place}"
        for index, entry in enumerate(before)
        if entry not in after
    ]
    kept = [entry for entry in before if entry in after]
    moved = []
    if kept != [entry for entry in after if entry in kept]:
        moved.append(f"PATH is in another order{place}")
    elif kept and after[: after.index(kept[0])] and not lost:
        moved.append(f"PATH[0] is {after[0]} in a login shell{place}")
    filtered = sorted({name for names in given.removed.values() for name in names})
    back = [
        f"{name}, which the policy removes, comes back{login.place(name)}"
        for name in filtered
        if name in login.values
    ]
    details = [*lost, *moved, *back]
    if not details:
        return Verdict("ok", f"a login shell ({login.shell}) leaves PATH and the policy alone")
    said = [f"loses {_count(lost, 'entry')} of PATH"] if lost else []
    if moved:
        said.append("changes the order of PATH")
    if back:
        said.append(f"brings back {_count(back, 'variable')} that the policy removes")
    summary = f"a login shell {' and '.join(said)}"
    startup = configured.settings.startup
    if startup != "report":
        how = "runs no startup files" if startup == "enforce" else "puts it right afterwards"
        return Verdict(
            "warning",
            f"{summary}; Outfitter {how}",
            details,
            f"Nothing to do for commands of Outfitter. For programs that start login shells themselves: let "
            f'{_first(login, "PATH")} keep what is there (PATH="$PATH:/folder"), or correct PATH after it.',
        )
    return Verdict(
        "error",
        f"{summary}, and so do commands that ask for one",
        details,
        f'Write startup = "enforce" under [shell] in {configured.file}.',
    )


def path_programs(configured: Configured, login: Login | None) -> Verdict:
    if login is None:
        return _not_asked()
    if login.state != "captured":
        return Verdict("skipped", "the login shell gave no answer: see path.login-shell")
    differ = [
        f"{name} is {here or 'not found'}, in a login shell {there or 'not found'}"
        for name, (here, there) in login.programs.items()
        if here != there
    ]
    same = [f"{name} is {here}" for name, (here, there) in login.programs.items() if here and here == there]
    if not differ:
        return Verdict("ok", f"{_count(same, 'program')} the same in a login shell", same)
    names = [line.partition(" ")[0] for line in differ]
    return Verdict(
        "warning",
        f"{', '.join(names)}: another one in a login shell",
        [*differ, *same],
        "If the one of the login shell is right, start from it: write snapshot = "
        f'"loginShell" under [shell] in {configured.file}. Otherwise correct what path.login-shell names.',
    )


# Shells


def shell_agreement(configured: Configured, shells: Shells) -> Verdict:
    told = [f"account: {shells.account}", f"named to clients: {shells.named}"]
    if shells.variable is not None:
        told.insert(0, f"SHELL: {shells.variable}")
    if shells.variable is not None and shells.variable != shells.account:
        return Verdict(
            "warning",
            "SHELL is not the shell of the account",
            told,
            f"Write `export SHELL={shells.account}`, or change the account: `chsh -s {shells.variable}`.",
        )
    if shells.named != shells.account:
        return Verdict(
            "warning",
            "clients are told another shell than the account's, because they cannot write commands for that",
            told,
            f"Write set = {{ SHELL = {_quoted(shells.named)} }} under [env] in {configured.file}.",
        )
    return Verdict("ok", f"{shells.account} everywhere", told)


def shell_modes(configured: Configured) -> Verdict:
    settings = configured.settings
    told = [
        f"shell.{name} = {getattr(settings, name)} ({settings.sources[f'shell.{name}']})"
        for name in ("startup", "login", "snapshot")
    ]
    if settings.startup == "enforce":
        return Verdict("ok", "startup files of shells do not run", told)
    source = settings.sources["shell.startup"]
    after = "are repaired afterwards" if settings.startup == "repair" else "are only reported"
    return Verdict(
        "warning",
        f"startup files of shells run; what they change {after}",
        told,
        f'Write startup = "enforce" at {source}, unless you rely on startup files.',
    )


def shell_bash_env(configured: Configured, given: Given) -> Verdict:
    present = [
        name for name in sorted(given.base) if name in ("BASH_ENV", "ENV") or name.startswith("BASH_FUNC_")
    ]
    reach = [name for name in present if name in given.values]
    if not reach:
        return Verdict("ok", "nothing runs before the text of a command", _kept_away(present))
    unset = " ".join(name for name in reach if is_name(name))
    first = f"Run `unset {unset}` where it is started, or write" if unset else "Write"
    return Verdict(
        "warning",
        f"{_names(reach)}: shells run code of theirs before, or instead of, what a command says",
        reach,
        f"{first} {_exclude(reach)} in {configured.file}.",
    )


def shell_shlvl(given: Given) -> Verdict:
    if given.base.get("SHLVL", "0") not in ("", "0"):
        return Verdict("ok", "SHLVL is set")
    return Verdict(
        "warning",
        "SHLVL is not set: a bash whose input is a socket then reads ~/.bashrc",
        ["commands with a contract get SHLVL=1; those of a client with a policy of its own do not"],
        "Start it with SHLVL=1: `SHLVL=1 outfitter serve ...`, or Environment=SHLVL=1 in its unit file.",
    )


# Where the environment comes from


def base_launch(configured: Configured, given: Given, parent: str) -> Verdict:
    """`parent` is the name of the program that started us, if it is an init; else empty."""
    snapshot = configured.settings.snapshot
    base = given.base
    signs = []
    if "SHLVL" not in base and "TERM" not in base:
        signs.append("neither TERM nor SHLVL is set")
    if "SHLVL" not in base and "INVOCATION_ID" in base:
        signs.append("INVOCATION_ID is set, as for systemd's services")
    if "SHLVL" not in base and parent:
        signs.append(f"started by {parent}")
    if not signs:
        return Verdict("ok", "started from a shell: what it had is what commands start from")
    if snapshot != "none":
        return Verdict("ok", f"not started from a shell; the snapshot ({snapshot}) makes up for it", signs)
    return Verdict(
        "warning",
        "started by a service or a desktop: what your shell sets up is missing",
        signs,
        f'Write snapshot = "loginShell" under [shell] in {configured.file}.',
    )


def base_stale_activation(configured: Configured, given: Given, cwd: str) -> Verdict:
    base = given.base
    path = base.get("PATH", "").split(":")
    stale: list[tuple[str, str]] = []
    active: list[tuple[str, str]] = []
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if folder := base.get(name, "").rstrip("/"):
            there = f"{folder}/bin" in path
            (active if there else stale).append((name, "its bin folder is not in PATH"))
    if "DIRENV_DIFF" in base:
        folder = base.get("DIRENV_DIR", "").removeprefix("-")
        here = bool(folder) and (cwd == folder or cwd.startswith(f"{folder}/"))
        (active if here else stale).append(("DIRENV_DIFF", "direnv loaded it for another folder"))
    for name in sorted(base):
        if name in ("__MISE_DIFF", "__MISE_ORIG_PATH"):
            there = any("/mise/" in entry for entry in path)
            (active if there else stale).append((name, "no folder of mise is in PATH"))
        elif name.startswith(("__ETC_PROFILE_NIX", "__NIX", "__HM_SESS")):
            there = any("/nix/" in entry or "/.nix-profile/" in entry for entry in path)
            (active if there else stale).append((name, "says that nix is set up, and PATH has nothing of it"))
    if not stale:
        names = [name for name, _ in active]
        return Verdict("ok", f"active: {_names(names)}" if names else "nothing was activated", names)
    names = [name for name, _ in stale]
    listed = ", ".join(map(_quoted, names))
    return Verdict(
        "warning",
        f"left over from an activation that is not in effect: {_names(names)}",
        [f"{name}: {why}" for name, why in stale],
        f"Start it from a fresh shell, or write unset = [{listed}] under [env] in {configured.file}.",
    )


# Policy


def policy_effect(given: Given) -> Verdict:
    details = [f"{rule}: {', '.join(sorted(names))}" for rule, names in given.removed.items()]
    count = sum(map(len, given.removed.values()))
    if not count:
        return Verdict("ok", f"all of {_count(given.base, 'variable')} are passed on")
    return Verdict("ok", f"{count} of {_count(given.base, 'variable')} are kept from commands", details)


# People's own choices, on every desktop: they start a program when somebody asks for an editor or a pager.
_USUAL = frozenset(
    ("EDITOR", "VISUAL", "PAGER", "MANPAGER", "LESSOPEN", "LESSCLOSE", "BROWSER", "GIT_EDITOR", "GIT_PAGER")
) | {"XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_DIRS"}


def policy_code_loading(configured: Configured, given: Given) -> Verdict:
    found = sorted(name for name in given.from_base if loads_code(name))
    # These have a check of their own.
    found = [name for name in found if name not in ("BASH_ENV", "ENV") and name[:10] != "BASH_FUNC_"]
    usual = [name for name in found if name in _USUAL]
    risky = [name for name in found if name not in _USUAL]
    if not risky:
        return Verdict("ok", "nothing unusual makes programs load code", usual)
    return Verdict(
        "warning",
        f"{_names(risky)}: can make any program that a command starts run other code",
        [*risky, *(f"{name} (usual)" for name in usual)],
        f"If commands do not need {'it' if len(risky) == 1 else 'them'}, write {_exclude(risky)} "
        f"in {configured.file}.",
    )


def secrets_visible(configured: Configured, given: Given) -> Verdict:
    secrets = Secrets(configured.settings.secret_names)
    found = sorted(name for name, value in given.values.items() if secrets.holds(name, value))
    if not found:
        return Verdict("ok", "no variable of a command looks like a secret")
    return Verdict(
        "warning",
        f"{_count(found, 'variable')} of commands {_look(found)} like {_a_secret(found)}: {_names(found)}",
        found,
        f"Write {_exclude(found)} in {configured.file}, except for those that commands need.",
    )


# Limits and names

_MUCH = 0.8


def limits_size(configured: Configured, given: Given) -> Verdict:
    if given.problem:
        return Verdict(
            "error",
            "no command can be started",
            [given.problem],
            "Unset the variable that is named, or put its content into a file and the path into it.",
        )
    if given.refused:
        return Verdict("skipped", "no command can be started: see providers.present")
    limit = configured.settings.total_bytes
    sizes = {name: _bytes(name) + _bytes(value) + 2 for name, value in given.values.items()}
    total = sum(sizes.values())
    largest = max(sizes, key=lambda name: sizes[name], default="")
    details = [f"largest: {largest}, {sizes[largest]} bytes of {LARGEST_PAIR}"] if largest else []
    summary = f"{total} of {limit} bytes"
    if total > _MUCH * limit or (largest and sizes[largest] > _MUCH * LARGEST_PAIR):
        return Verdict(
            "warning",
            f"{summary}: little room is left",
            details,
            f"Unset {largest}, or put its content into a file and the path into the variable.",
        )
    return Verdict("ok", summary, details)


def names_odd(configured: Configured, given: Given) -> Verdict:
    odd = sorted(name for name in given.values if not is_name(name) and not name.startswith("BASH_FUNC_"))
    if not odd:
        return Verdict("ok", "every shell passes all names on")
    listed = ", ".join(map(_quoted, odd))
    return Verdict(
        "warning",
        f"{_count(odd, 'name')} that dash drops: under `sh -c` the variable is gone",
        odd,
        f"Give the variable a name of letters, digits and _, or write unset = [{listed}] under [env] "
        f"in {configured.file}.",
    )


# Files of ours

_KEY_SIZE = 32


def key_file(key: Place) -> Verdict:
    if key.mode is None:
        return Verdict("ok", "made when the first fingerprint is")
    if not key.ours or key.size != _KEY_SIZE:
        what = f"does not have {_KEY_SIZE} bytes" if key.ours else "belongs to somebody else, or is a link"
        return Verdict(
            "warning",
            f"the key {what}: fingerprints do not match from one process to the next",
            [key.path],
            f"Run `rm {quote(key.path)}`: a new one is made.",
        )
    path = quote(key.path)
    if key.mode & 0o077:
        return Verdict(
            "warning",
            "others can read the key: it is not used, and fingerprints do not match each other",
            [f"{key.path}, mode {key.mode & 0o777:o}"],
            f"Run `chmod 600 {path}`, or `rm {path}` if others may have read it.",
        )
    return Verdict("ok", "private", [key.path])


def state_folder(state: Place) -> Verdict:
    path = quote(state.path)
    if not state.usable:
        missing = state.mode is None
        what = "cannot be made" if missing else "cannot be written to"
        return Verdict(
            "warning",
            f"the folder for our state {what}: commands left running on a server are not remembered",
            [state.path],
            f"Run `mkdir -p -m 700 {path}`, or set OUTFITTER_HOME to a folder that is yours."
            if missing
            else f"Run `chmod 700 {path}`, or set OUTFITTER_HOME to a folder that is yours.",
        )
    if state.mode is None:
        return Verdict("ok", "made when it is needed", [state.path])
    if not state.ours or state.mode & 0o022:
        return Verdict(
            "error",
            "others can change our state",
            [f"{state.path}, mode {state.mode & 0o777:o}"],
            f"Run `chmod 700 {path}`."
            if state.ours
            else f"Run `sudo chown $(id -u) {path} && chmod 700 {path}`.",
        )
    return Verdict("ok", "ours, and writable", [state.path])


# Others' files


def codex_config(configured: Configured, codex: Codex) -> Verdict:
    if codex.mistakes:
        return Verdict(
            "warning",
            "Codex's configuration cannot be read",
            codex.mistakes,
            f"Correct {codex.path}; Codex does not read it either.",
        )
    if codex.says is None:
        return Verdict("ok", "there is none")
    if not codex.says:
        return Verdict("ok", "says nothing about environments", [codex.path])
    if codex.imported:
        return Verdict("ok", "imported", [codex.path])
    return Verdict(
        "warning",
        f"{' and '.join(codex.says)} of Codex {'does' if len(codex.says) == 1 else 'do'} not hold here",
        [codex.path],
        f"Write codex = true under [import] in {configured.file}; "
        "`outfitter config import-codex` prints what that means.",
    )


def providers_present(found: Providers) -> Verdict:
    if found.refused:
        return Verdict(
            "error",
            "no command can be started: what the project requires is not there",
            found.refused.split("\n"),
            "Do what is said above; `outfitter trust` shows what would be run.",
        )
    details = [f"{id}: {state}" + (f" ({note})" if note else "") for id, state, note in found.layers]
    details += [f"{file} ({id}): detected, not used" for id, file in found.others]
    states = [state for _, state, _ in found.layers]
    # What is not installed does not matter where another one holds: of several the first that is there does.
    bad = ("blocked", "failed") if "applied" in states else ("blocked", "failed", "missing")
    wrong = [(id, state, note) for id, state, note in found.layers if state in bad]
    if wrong:
        return Verdict(
            "warning",
            ", ".join(f"{id.partition(':')[0]}: {state}" for id, state, _ in wrong),
            details,
            "Do what is said above; `outfitter trust` shows what would be run.",
        )
    applied = [id for id, state, _ in found.layers if state == "applied"]
    if applied:
        return Verdict("ok", f"applied: {', '.join(applied)}", details)
    if found.others and found.declared:
        tools = list(dict.fromkeys(id for id, _ in found.others))
        return Verdict(
            "warning",
            f"{', '.join(tools)}: detected, not used",
            details,
            f"Write use = [{_quoted(tools[0])}] under [providers] in outfitter.toml; "
            "`outfitter trust` shows what that runs, and allows it.",
        )
    return Verdict("ok", "the project has no environment of its own that would have to be applied", details)


CHECKS = (
    Check("config.files", ("configured",), config_files),
    Check("config.ignored", ("configured",), config_ignored),
    Check("path.segments", ("given", "folders"), path_segments),
    Check("path.login-shell", ("configured", "given", "login"), path_login_shell),
    Check("path.programs", ("configured", "login"), path_programs),
    Check("shell.agreement", ("configured", "shells"), shell_agreement),
    Check("shell.modes", ("configured",), shell_modes),
    Check("shell.bash-env", ("configured", "given"), shell_bash_env),
    Check("shell.shlvl", ("given",), shell_shlvl),
    Check("base.launch", ("configured", "given", "parent"), base_launch),
    Check("base.stale-activation", ("configured", "given", "cwd"), base_stale_activation),
    Check("policy.effect", ("given",), policy_effect),
    Check("policy.code-loading", ("configured", "given"), policy_code_loading),
    Check("secrets.visible", ("configured", "given"), secrets_visible),
    Check("limits.size", ("configured", "given"), limits_size),
    Check("names.odd", ("configured", "given"), names_odd),
    Check("key.file", ("key",), key_file),
    Check("state.folder", ("state",), state_folder),
    Check("codex.config", ("configured", "codex"), codex_config),
    Check("providers.present", ("providers",), providers_present),
)


# Words


def _not_asked() -> Verdict:
    return Verdict("skipped", "the login shell was not asked")


def _kept_away(names: Sequence[str]) -> list[str]:
    return [f"{name} is kept from commands" for name in names]


def _first(login: Login, name: str) -> str:
    known = login.places.get(name)
    return "the startup file" if known is None else f"{known[0]}:{known[1]}"


def _exclude(names: Sequence[str]) -> str:
    listed = ", ".join(map(_quoted, names))
    return f"exclude = [{listed}] under [shell_environment_policy]"


def _quoted(text: str) -> str:
    """As TOML has it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


_FEW = 4


def _names(names: Sequence[str]) -> str:
    more = len(names) - _FEW
    return ", ".join(names[:_FEW]) + (f" and {more} more" if more > 0 else "")


def _count(things: Sequence[object] | Mapping[str, str], word: str) -> str:
    number = len(things)
    plural = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{number} {word if number == 1 else plural}"


def _are(things: Sequence[object]) -> str:
    return "is" if len(things) == 1 else "are"


def _look(things: Sequence[object]) -> str:
    return "looks" if len(things) == 1 else "look"


def _a_secret(things: Sequence[object]) -> str:
    return "a secret" if len(things) == 1 else "secrets"


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))
