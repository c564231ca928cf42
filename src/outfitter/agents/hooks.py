"""What agents' hooks are told and say: the JSON both ways, and our part of Claude Code's environment file.

Agents speak nearly the same JSON. What differs is in one function per agent; nothing else knows which it is.
Our part of an environment file lies between two marks, which no value can imitate, and is replaced whole.
"""

from __future__ import annotations

from ..env.explain import decisive, secret_pairs, shown
from ..env.export import export
from ..env.layer import OVERRIDE, POLICY, PROVIDER, SNAPSHOT, complains, suggestions, trouble
from ..env.names import SHELL_MAINTAINED
from ..env.redact import mask_pairs
from ..errors import SettingInvalid
from ..plain import is_text, unbroken
from ..record import KW_ONLY, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..env.redact import Secrets
    from ..env.resolve import Resolved

    Json = dict[str, object]

# Claude Code puts the text of all environment files in front of every command, in one argument, which can
# have 131,071 bytes on Linux. The other half is for the command and for other hooks.
LARGEST_BLOCK = 64 << 10
BEGIN = "# >>> outfitter hook >>>"
END = "# <<< outfitter hook <<<"
_GONE = (
    "[outfitter] the variables of this session are old: Outfitter, which sets them for each project, is not "
    "installed any more; remove ~/.claude/session-env, or start a new session"
)
# A model reads it, and a tool that failed may have said a lot.
LONGEST_LINE = 1000


# What an agent says


@record
class Heard:
    """A hook's input. `cwd` is where commands run from now on; `source` is why a session starts.

    `session` is the session's id, or "" for one that could be no name of a folder.
    """

    event: str
    cwd: str
    source: str = ""
    session: str = ""


def hear(text: str) -> Heard:
    """Reads a hook's input; what is not known is left alone. Raises SettingInvalid."""
    from json import loads

    try:
        said = loads(text)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise SettingInvalid("the hook's input is not a JSON object")
    event, cwd = said.get("hook_event_name"), said.get("new_cwd", said.get("cwd"))
    if not isinstance(event, str) or not isinstance(cwd, str) or not event or not cwd or "\0" in cwd:
        raise SettingInvalid("the hook's input has no hook_event_name, or no cwd")
    source, session = said.get("source"), said.get("session_id")
    named = isinstance(session, str) and session.isascii() and session.replace("-", "").isalnum()
    return Heard(event, cwd, source if isinstance(source, str) else "", str(session) if named else "")


# What there is to be said


@record
class Difference:
    """What commands have to get beyond what the agent has itself.

    `withheld` are names whose values are secret, or hold a secret: no hook may write those down.
    """

    set: dict[str, str]
    unset: tuple[str, ...]
    withheld: tuple[str, ...]


def difference(resolved: Resolved, own: Mapping[str, str], secrets: Secrets) -> Difference:
    """What the project, its setup, the session and the user make of the agent's `own` environment, and what a
    policy takes out of it.

    Other names are the agent's business.
    """
    names: dict[str, None] = {}
    for layer in resolved.layers:
        # Taking another project's activation back belongs to a provider's answer.
        if PROVIDER <= layer.level <= OVERRIDE or (layer.level == SNAPSHOT and layer.id == "activation"):
            names.update(dict.fromkeys((*layer.values, *layer.unset)))
            names.update(dict.fromkeys(one.variable for one in layer.operations))
    values = resolved.values
    if resolved.stack.policies:
        for name, events in resolved.history()[0].items():
            # A shell that starts without PATH has one of its own; one that is running would find nothing.
            if name in own and name not in values and name != "PATH" and decisive(events).level == POLICY:
                names[name] = None
    names = dict.fromkeys(name for name in names if name not in SHELL_MAINTAINED)
    changed = [name for name in sorted(names) if values.get(name) != own.get(name)]
    hidden = secret_pairs(resolved.history()[0], resolved, secrets) if changed else []
    secret = {name for name, _ in hidden}
    found = {name: values[name] for name in changed if name in values}
    withheld = [name for name in found if name in secret or mask_pairs(found[name], hidden) != found[name]]
    for name in withheld:
        del found[name]
    return Difference(found, tuple(name for name in changed if name not in values), tuple(withheld))


def troubles(resolved: Resolved) -> list[str]:
    """A line for each layer that is not there although it should be: with the command that grants it.

    And one for each project whose suggestions wait for a person.
    """
    wrong = [
        trouble(layer)
        for layer in resolved.layers
        if layer.level >= PROVIDER and layer.state in ("blocked", "failed", "stale")
    ]
    return [plain_line(line) for line in (*wrong, *suggestions(resolved.layers))]


def remarks(resolved: Resolved, unused: Sequence[tuple[str, str]]) -> list[str]:
    """A line for each layer that is there but whose tool printed an error, and one for what is not used.

    `unused` are (provider, file) of what was found beside the provider that is active.
    """
    found = [
        plain_line(f"{layer.id} is applied, but it printed an error: {_last_complaint(layer.said)}")
        for layer in resolved.layers
        if layer.level == PROVIDER and layer.state == "applied" and complains(layer.said)
    ]
    if unused:
        several = ", ".join(f"{id} ({file})" for id, file in unused)
        found.append(
            plain_line(
                f"found and not used: {several}; list all that shall apply in `use` under [providers] in "
                "outfitter.toml"
            )
        )
    return found


def _last_complaint(said: str) -> str:
    return next((line for line in reversed(said.split("\n")) if complains(line)), "")


def told_withheld(names: Sequence[str]) -> str:
    """What is not there because it is secret, and what to do; empty when there is nothing."""
    if not names:
        return ""
    return plain_line(
        f"secrets are not passed to commands: {', '.join(names)} (`outfitter run -- CMD` passes them to one "
        f"command)"
    )


def plain_line(text: str) -> str:
    """One line that moves no cursor and is not too long."""
    clean = unbroken(shown(text), " ")
    return clean if len(clean) <= LONGEST_LINE else f"{clean[: LONGEST_LINE - 3]}..."


@record
class Answer:
    """What a hook says. `context` is for the model, `message` for the person, both may be empty.

    `env` is for agents that take variables from the answer itself; `watch` are files upon whose change the
    agent shall ask again.
    """

    context: str = ""
    message: str = ""
    _: KW_ONLY
    env: Mapping[str, str] | None = None
    watch: Sequence[str] = ()


def claude_answer(event: str, answer: Answer) -> Json:
    """As Claude Code takes it: a context when a session starts, files to watch whenever it asks."""
    said: Json = {}
    if answer.context and event in ("SessionStart", "Setup"):
        said["additionalContext"] = answer.context
    if event in ("SessionStart", "CwdChanged", "FileChanged"):
        said["watchPaths"] = list(answer.watch)
    return _enveloped(event, answer.message, said)


def codex_answer(event: str, answer: Answer) -> Json:
    """As Codex takes it: one field too many, and it takes nothing."""
    said: Json = {}
    if event in ("SessionStart", "SubagentStart"):
        if answer.context:
            said["additionalContext"] = answer.context
        if answer.env is not None and event == "SessionStart":
            said["env"] = {name: value for name, value in answer.env.items() if is_text(value)}
    return _enveloped(event, answer.message, said)


def _enveloped(event: str, message: str, said: Json) -> Json:
    whole: Json = {}
    if message:
        whole["systemMessage"] = message
    if said:
        whole["hookSpecificOutput"] = {"hookEventName": event, **said}
    return whole


# Claude Code's environment file


def block(change: Difference, program: str = "") -> tuple[str, list[tuple[str, str]]]:
    """Our part of the file, empty when there is nothing to say; and what is not in it: (name, why).

    A session keeps its file: when `program`, which writes it, is there no more, its commands say so. Raises
    SettingInvalid when it would be too large: half an environment is worse than none.
    """
    values = {name: value for name, value in change.set.items() if is_text(value)}
    # The file is read as UTF-8.
    left_out = [(name, "its bytes are not UTF-8") for name in change.set if name not in values]
    text, more = export(values, "claude", unset=change.unset)
    if not text:
        return "", left_out + more
    # Inside quotes, where alone a line can begin so: the value stays the same, and is not a mark of ours.
    text = text.replace("\n#", "\n''#")
    if program:
        there = f"[ -x {_in_quotes(program)} ]" if "/" in program else f"command -v {program} >/dev/null 2>&1"
        text += f"{there} || printf '%s\\n' {_in_quotes(_GONE)} >&2\n"
    size = len(text.encode())
    if size > LARGEST_BLOCK:
        raise SettingInvalid(
            f"the environment adds {size} bytes to Claude Code's own, more than the {LARGEST_BLOCK} that "
            f"fit in front of a command; run commands with `outfitter run -- CMD`"
        )
    return f"{BEGIN}\n{text}{END}\n", left_out + more


def _in_quotes(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def with_block(text: str, new: str) -> str:
    """A file's text with our part replaced by another; what others wrote stays as it is, where it is."""
    lines = text.split("\n")
    kept: list[str] = []
    place = None
    inside = False
    for line in lines:
        if line == BEGIN and not inside:
            inside = True
            place = len(kept) if place is None else place
        elif not inside:
            kept.append(line)
        elif line == END:
            inside = False
    if place is None:
        if not new:
            return text
        # At the end, which is behind the last line's own.
        kept = kept if kept[-1] else kept[:-1]
        place = len(kept)
        kept.append("")
    ours = new.split("\n")[:-1]
    return "\n".join((*kept[:place], *ours, *kept[place:]))


def has_block(text: str) -> bool:
    return text.startswith(f"{BEGIN}\n") or f"\n{BEGIN}\n" in text


# What a person pastes


def claude_settings(command: str) -> Json:
    """For Claude Code's settings.json."""
    return {
        "hooks": {
            event: [{"hooks": [{"type": "command", "command": command}]}]
            for event in ("SessionStart", "CwdChanged", "FileChanged")
        }
    }


def codex_config(command: str) -> str:
    """For Codex's config.toml."""
    return f"""\
[[hooks.SessionStart]]
[[hooks.SessionStart.hooks]]
type = "command"
command = {_quoted(command)}
"""


def codex_environments(program: str, before: Sequence[str] = ()) -> str:
    """For Codex's environments.toml: commands run through a server of ours that Codex starts."""
    args = ", ".join(map(_quoted, (*before, "serve", "--listen", "stdio")))
    return f"""\
default = "outfitter"
include_local = false

[[environments]]
id = "outfitter"
program = {_quoted(program)}
args = [{args}]
"""


def _quoted(text: str) -> str:
    """As a string of TOML."""
    from json import dumps

    return dumps(text, ensure_ascii=False)
