"""process/start, once nothing is left to be asked: the launch, its steps, and what the client is told."""

from __future__ import annotations

from ..core.launch import Launch
from ..core.session import FOREVER
from ..core.starting import connect, mask, restore, shell, through, wrap
from ..earlyerrors import FileInvalid
from ..env.layer import REQUESTED, trouble
from ..env.names import TRACEPARENT
from ..host.programs import account
from ..host.spawn import check_words
from ..protocol.process import StartResult
from ..record import replace
from ..refusals import DetachRefused, InvalidParams, MasksUnavailable
from ..shell.look import WRAPPERS, names_shell
from ..shell.names import is_shell
from .call import LATER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..contract.contract import Asked, Ready
    from ..contract.settings import Settings
    from ..core.making import Made
    from ..core.starting import Step
    from ..env.behind import Behind
    from ..env.resolve import Resolved
    from ..host.process import Process
    from ..host.programs import Programs
    from ..protocol.process import DetachedParams, StartParams
    from ..shell.look import Looked
    from ..shell.start import ContractFlag, ShellPlan
    from ..shell.state import ShellState
    from .call import Call, Later
    from .confining import Matched
    from .environment import Environments
    from .network import ManagedNetwork
    from .shells import Reporting, ShellStart

# What masked startup files make good.
_HELPED = ("login-shell", "startup-files")
DEFAULT_ROWS, DEFAULT_COLS = 24, 80  # the reference's fixed size


def asked(call: Call, params: StartParams) -> Asked:
    """What the request says about its environment. Raises InvalidParams."""
    if params.sandbox is not None:
        from ..core.permissions import check_start

        check_start(params.sandbox, params.cwd)
    if params.network is not None:
        from .network import check

        check(params.network)
    try:
        cwd = params.cwd.local_path()
    except ValueError as error:
        raise InvalidParams(
            f"cwd URI `{params.cwd.text}` is not valid on this exec-server host: {error}"
        ) from None
    if not params.argv:
        raise InvalidParams("argv must not be empty")
    environments = call.services.environments
    if params.contract is not None and params.contract.scope is not None:
        from .forks import enter

        enter(call, params.contract.scope)
    return environments.asked(
        cwd, params.env, params.env_policy, params.contract, params.tty, call.principal, params.thread
    )


def start(call: Call, params: StartParams, ready: Ready) -> StartResult | Later:
    """Starts the command. Raises Refused, LaunchFailed, LoginRejected, InvalidParams, EnvironmentTooLarge,
    DetachRefused.
    """
    if ready.asked.snapshot is not None and ready.asked.snapshot.failed:
        ready = _without_snapshot(ready)
    if ready.settings is not None and ready.settings.confines:
        from .composing import composed

        params = composed(params, ready)
    if params.sandbox is not None:
        from . import confining

        protects = _protects(ready, call.services.environments)
        confinement = confining.patterns(call.services, params.sandbox, ready, protects)
        if confinement is not None:
            return confining.matched_first(
                call, params, confinement, lambda call, matched: _made(call, params, ready, matched)
            )
        return _made(call, params, ready)
    return _connected(call, params, ready)


def _made(
    call: Call, params: StartParams, ready: Ready, matched: Matched | None = None
) -> StartResult | Later:
    """Starts the command, in a sandbox; behind a tool whose files are frozen, which cannot be done there."""
    if ready.prefix:
        from .confining import step

        services, resolved = call.services, call.services.environments.contract.environment(ready)
        holds = _behind(resolved)
        launch, _ = _launch(params, ready.asked.cwd, resolved.values, services.programs)
        assert params.sandbox is not None
        confined, confine = step(
            services,
            params.sandbox,
            launch,
            matched,
            isolated=_is_inside(params),
            protects=_protects(ready, services.environments),
        )
        if holds.frozen and confined:
            from .wrapping import made_first

            return made_first(
                call,
                params,
                ready,
                confine(launch)[0],
                holds,
                lambda call, made: _connected(call, params, ready, matched, made),
            )
    return _connected(call, params, ready, matched)


def _is_inside(params: StartParams) -> bool:
    """Whether the proxy is in the sandbox, and nothing else of a network."""
    return params.sandbox is not None and params.network is not None and params.network.enforced


def _connected(
    call: Call,
    params: StartParams,
    ready: Ready,
    matched: Matched | None = None,
    made: Made | None = None,
) -> StartResult | Later:
    """Starts the command, with its proxy if it has one."""
    unattended = None if params.detached is None else _unattended(call, params.detached)
    if params.network is None or params.network.proxy is None:
        return _Start(call, params, ready, made=made).run(unattended, matched)
    from .network import ManagedNetwork

    network = ManagedNetwork(call.services, call.session, params.process_id, params.network.proxy)
    try:
        return _Start(call, params, ready, network, made=made).run(unattended, matched)
    except BaseException:
        network.close()
        raise


class _Start:
    """One start: the launch that was asked for, the steps to the one that happens, and what is told of it."""

    __slots__ = (
        "call",
        "environments",
        "flags",
        "has_shell",
        "inside",
        "kept",
        "launch",
        "made",
        "masked",
        "network",
        "params",
        "ready",
        "report",
        "resolved",
        "said",
        "shell",
    )

    def __init__(
        self,
        call: Call,
        params: StartParams,
        ready: Ready,
        network: ManagedNetwork | None = None,
        *,
        made: Made | None = None,
    ) -> None:
        environments = call.services.environments
        self.inside = _is_inside(params)
        self.made = made  # by a tool, beforehand
        if network is not None:
            ready = network.joined(ready, inside=self.inside)
        self.said = _settings(ready, environments)
        if self.said is not None and self.said.trace_commands and TRACEPARENT not in params.env:
            ready = _traced(call, ready)
        resolved = environments.contract.environment(ready)
        self.launch, self.has_shell = _launch(
            params, ready.asked.cwd, resolved.values, call.services.programs
        )
        self.call, self.params, self.ready, self.network = call, params, ready, network
        self.environments, self.resolved = environments, resolved
        self.kept = _kept(ready)  # what its shell begins with
        self.masked = False  # whether startup files look empty
        self.report: Reporting | None = None  # of a shell, about its startup files
        self.shell: ShellStart | None = None
        self.flags: tuple[ContractFlag, ...] = ()

    def run(self, unattended: float | None, matched: Matched | None) -> StartResult | Later:
        process = self._spawned(unattended, matched)
        call = self.call
        observer = call.services.observer
        if observer is not None:
            from ..observe.observer import StartedCommand

            who = (call.principal, call.channel.address, call.session.id)
            observer.started(StartedCommand(*who, process, self.params.argv, self.launch.cwd, call.span))
        return self._answer(process)

    # From the launch to the command

    def _spawned(self, unattended: float | None, matched: Matched | None) -> Process:
        try:
            steps = self._steps(matched)
            final, notes = through(self.launch, steps) if steps else (self.launch, ())
            for plan in notes:
                self._note(plan)
            process = self.call.session.start(
                self.params.process_id, final, self.shell, unattended, self.network
            )
        except BaseException as error:
            if self.report is not None:
                self.report.fifo.close()
            if isinstance(error, MasksUnavailable):
                self.environments.say(
                    [str(error)]
                )  # each command is refused; who runs the server is told once
            raise
        if self.report is not None and (self.shell is None or not self.shell.reports):
            self.report.fifo.close()
        return process

    def _steps(self, matched: Matched | None) -> list[Step]:
        """In the order of `core.starting`: from the inside out."""
        steps: list[Step] = []
        confined, sandboxed = False, None
        if self.params.sandbox is not None:
            from .confining import step

            services, context = self.call.services, self.params.sandbox
            protects = () if self.said is None else self.said.protects
            confined, sandboxed = step(
                services, context, self.launch, matched, isolated=self.inside, protects=protects
            )
        self.masked = self.said is not None and _masks(self.said, self.params, confined=confined)
        if self.has_shell:
            steps.append(self._shell_step(confined=confined))
        if self.kept is not None and self.params.snapshot is not None:
            steps.append(restore(self.params.snapshot.name, self.kept, len(self.params.argv) - 3))
        if self.made is not None:
            from ..core.making import made

            steps.append(made(self.made))
        elif self.ready.prefix:
            steps.append(_wrapping(self.ready.prefix, self.resolved))
        if self.masked:
            steps.append(mask(self.environments.startup_files(self.launch.env, confined=confined)))
        if self.network is not None and self.inside:
            steps.append(connect(self.network.before))
        if sandboxed is not None:
            steps.append(sandboxed)
        return steps

    def _shell_step(self, *, confined: bool) -> Step:
        from .shells import modes, reporting

        ready, launch = self.ready, self.launch
        check_words(launch)  # to read a text of megabytes for shells in it takes 50 ms
        settings = ready.settings or self.environments.contract.settings(launch.cwd)
        wrapped = bool(ready.prefix) or self.masked or self.kept is not None
        login, startup = modes(settings, self.params.contract, wrapped=wrapped)
        wanted = self.call.session.summaries
        report = self.report = reporting(startup, launch.env, wanted=wanted, confined=confined)
        probe = None if report is None else report.probe
        return shell(login, startup, probe, self.call.services.programs.look, account)

    def _note(self, plan: ShellPlan) -> None:
        """What the step for shells has done."""
        self.flags += tuple([one for one in plan.flags if not self.masked or one.code not in _HELPED])
        if plan.shell:
            from .shells import ShellStart

            reports = self.report if plan.probe else None
            contract, told = self.environments.contract, self.call.session.summaries
            self.shell = ShellStart(plan, self.launch.env, contract, reports, told)

    # What the client is told

    def _answer(self, process: Process) -> StartResult | Later:
        params, resolved, session = self.params, self.resolved, self.call.session
        told = None
        if session.summaries:
            told = self.environments.summary(resolved, session.base, self.shell, self.flags)
        kind = "none" if params.sandbox is None else "linuxSeccomp"  # clients want no other word
        warnings = self.ready.warnings
        if params.contract is not None:
            if params.env and (resolved.refused or "PATH" in params.env):
                warnings = (*warnings, *_not_set(resolved, params.env))
            return StartResult(params.process_id, kind, warnings, told, process.pid)
        result = StartResult(params.process_id, kind, environment=told)
        return self._said_beside(result, process) if warnings or self.flags else result

    def _said_beside(self, result: StartResult, process: Process) -> StartResult | Later:
        """What the protocol of the stock client has no place for: in the log, and as its user wants it."""
        params, call, environments = self.params, self.call, self.environments
        texts = (*self.ready.warnings, *(flag.what for flag in self.flags))
        environments.say(texts)
        if self.said is None or self.said.stock_notices != "stderr":
            return result
        news = environments.news(call.principal, params.thread or call.session.id, texts)
        if not news:
            return result
        call.answer(result)  # before anything that the command says
        process.remark(notice(news, tty=params.tty))
        return LATER


def notice(texts: Iterable[str], *, tty: bool) -> bytes:
    """What a command's stderr begins with: a line for each, that says whose it is."""
    from ..env.explain import shown
    from ..plain import unbroken

    end = "\r\n" if tty else "\n"
    return "".join([f"[outfitter] {unbroken(shown(text))}{end}" for text in texts]).encode()


def _not_set(resolved: Resolved, env: Mapping[str, str]) -> list[str]:
    """What the request asked for and the command does not have, but for what shells set themselves; and a
    PATH that is probably a mistake."""
    from ..env.explain import shown
    from ..env.lists import path_mistake
    from ..plain import unbroken

    found = [
        f"{unbroken(shown(one.name))} is not as the request says: {one.why}"
        for one in resolved.refused
        if one.level == REQUESTED and one.reason != "shell-maintained"
    ]
    if why := path_mistake(env["PATH"]) if "PATH" in env else "":
        found.append(f"PATH of the request is probably a mistake: {unbroken(shown(why))}")
    return found


def _unattended(call: Call, detached: DetachedParams) -> float:
    """How many seconds a command may run without a client. Raises DetachRefused."""
    services = call.services
    asked = FOREVER if detached.for_ms is None else detached.for_ms / 1000
    if not services.retains:
        raise DetachRefused("this connection cannot be resumed, so its commands end with it", 0.0)
    settings = services.sessions.settings
    if settings.max_detached is None or asked <= settings.session_retention:
        return asked
    limit = max(settings.max_detached, settings.session_retention)
    if asked > limit:
        raise DetachRefused(
            f"this server ends a command {limit:g} s after its client has gone: ask for no more "
            f"(--detach-for {limit:g}), or have it started with a larger --max-detached",
            limit,
        )
    return asked


def _without_snapshot(ready: Ready) -> Ready:
    """With a word about a snapshot that could not be taken: its command runs all the same."""
    layer = ready.asked.layer
    assert layer is not None
    return replace(ready, warnings=(*ready.warnings, trouble(layer)))


def _kept(ready: Ready) -> ShellState | None:
    """What a snapshot leaves for the shell; behind a provider's tool a shell begins as the tool leaves it."""
    taken = ready.asked.snapshot
    return None if taken is None or ready.prefix else taken.left


def _traced(call: Call, ready: Ready) -> Ready:
    """With the trace context of the request, as the user wants it."""
    from ..env.traced import traced

    return replace(ready, asked=replace(ready.asked, trace=traced(call.context)))


def _masks(settings: Settings, params: StartParams, *, confined: bool) -> bool:
    """Whether startup files are masked for the command: a sandbox does it for next to nothing."""
    if settings.descendants == "mask" or not confined:
        return settings.descendants == "mask"
    from .shells import modes

    return modes(settings, params.contract)[1] == "enforce"


def _settings(ready: Ready, environments: Environments) -> Settings | None:
    """For a client that says all about its environment the user's word counts, not the project's; and it is
    not told of mistakes in files that it does not use."""
    if ready.settings is not None:
        return ready.settings
    try:
        return environments.contract.settings(None)
    except FileInvalid:
        return None


def _protects(ready: Ready, environments: Environments) -> tuple[str, ...]:
    """What the files of settings keep read-only in a sandbox, too."""
    settings = _settings(ready, environments)
    return () if settings is None else settings.protects


def _wrapping(prefix: tuple[str, ...], resolved: Resolved) -> Step:
    from ..host.tools import ahead
    from ..host.tools.behind import program_words

    return wrap(prefix, program_words(), _behind(resolved), ahead.program_words())


def _behind(resolved: Resolved) -> Behind:
    from ..env.behind import behind

    return behind(resolved)


def _launch(params: StartParams, cwd: str, env: Mapping[str, str], programs: Programs) -> tuple[Launch, bool]:
    """The launch as it was asked for, and whether a shell is in it."""
    rows = cols = 0
    if params.tty:
        rows, cols = DEFAULT_ROWS, DEFAULT_COLS
        if params.size is not None:
            rows, cols = params.size.rows, params.size.cols
    argv = params.argv if params.arg0 is None else [params.arg0, *params.argv[1:]]
    program = params.argv[0]
    found = ""
    concerns = is_shell(program)
    if not concerns:
        looked = programs.look(program, env, cwd)
        if looked is not None:
            found = looked.path
        concerns = _has_shell(params.argv, looked)
    launch = Launch(
        program,
        argv,
        cwd,
        env,
        pipe_stdin=params.pipe_stdin,
        rows=rows,
        cols=cols,
        renamed=params.arg0 is not None,
        found=found,
    )
    return launch, concerns


def _has_shell(argv: list[str], looked: Looked | None) -> bool:
    """Whether a shell is in a command whose first word is none by its name."""
    if len(argv) > 1 and names_shell(argv):
        return True
    name = argv[0].rpartition("/")[2]
    wraps = name in WRAPPERS
    if not wraps and (looked is None or not looked.concerns):
        return False  # as most often
    if looked is not None and not wraps:
        name = looked.name
    if name != "env" or (looked is not None and looked.interpreter):
        return True
    # `env` with nothing but options and variables starts nothing.
    return not all(map(_is_of_env, argv[1:]))


def _is_of_env(word: str) -> bool:
    """Whether a word of `env` is a variable, or an option that is no command: the text of -S is one."""
    if word[:1] == "-":
        return "S" not in word and not word.startswith("--s")
    name, equals, _ = word.partition("=")
    return equals != "" and name.isidentifier()
