"""What commands of this server get as environment, and what the server says about its machine."""

from __future__ import annotations

from .. import VERSION
from ..contract.base import base_of
from ..contract.contract import Asked, contract_of
from ..env.lists import LIST_NAMES
from ..host import facts
from ..log import warn
from ..protocol.fields import MAX_SET_NAMES_BYTES, check_names
from ..protocol.methods import CAPABILITIES
from ..protocol.session import EnvironmentInfo
from ..protocol.uri import from_path, parse
from ..refusals import LimitExceeded
from ..stdlib import sha256
from ..system import LINUX, PLATFORM_OS
from .settings import OWN_FILES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..contract.base import Base
    from ..env.policy import Policy
    from ..env.resolve import Resolved
    from ..protocol.environment import BaseParams
    from ..protocol.jsontext import Json
    from ..protocol.wishes import ContractParams, EnvPolicyParams
    from ..shell.start import ContractFlag
    from .shells import ShellStart

_TOLD = 4096  # a few causes for each thread that a server has at a time; an older one is told again
_REMEMBERED = 256  # warnings that are not said again; then all are forgotten


class Environments:
    """The executor's environment, fixed when the server starts, and what requests make of it."""

    def __init__(self, executor: Mapping[str, str], session_retention: float, kind: str = "daemon") -> None:
        self._executor = executor
        self._session_retention = session_retention
        self.contract = contract_of(kind, executor)
        self._said: set[str] = set()
        # What clients without a place for it were told, by thread: the oldest first.
        self._told: dict[tuple[str, str, str], None] = {}

    def for_ourselves(self) -> dict[str, str]:
        """What our own interpreter needs where its C libraries are not in their usual place."""
        name = "LD_LIBRARY_PATH"
        return {name: self._executor[name]} if name in self._executor else {}

    def for_file_work(self, own_files: tuple[str, ...]) -> dict[str, str]:
        """What our own programs need that work with files for others: also what a sandbox has to know."""
        env = {**self.for_ourselves(), OWN_FILES: "\n".join(own_files)}
        if self.tmpdir is not None:
            env["TMPDIR"] = self.tmpdir
        return env

    @property
    def tmpdir(self) -> str | None:
        """Where the executor has its temporary files, if it says so."""
        return self._executor.get("TMPDIR")

    def say(self, warnings: Iterable[str]) -> None:
        """What is wrong with a project's environment, in the log: once, as long as it is the same."""
        for text in warnings:
            if text not in self._said:
                if len(self._said) >= _REMEMBERED:
                    self._said.clear()
                self._said.add(text)
                warn("server", "%s", text)

    def news(self, principal: str, thread: str, texts: Iterable[str]) -> list[str]:
        """Those that a thread has not been told yet; from now on it has."""
        found = []
        for text in texts:
            key = (principal, thread, text)
            if key not in self._told:
                if len(self._told) >= _TOLD:
                    del self._told[next(iter(self._told))]
                self._told[key] = None
                found.append(text)
        return found

    # For commands

    def asked(
        self,
        cwd: str,
        env: Mapping[str, str],
        policy: EnvPolicyParams | None,
        contract: ContractParams | None,
        tty: bool,
        principal: str,
        thread: str | None = None,
    ) -> Asked:
        """A request's words as the contract reads them; a scope is looked for among the principal's own.

        `thread` is the agent's: the scope of a client that knows none, if somebody has given it something.
        """
        if contract is not None or policy is not None:
            _check_lists(env)
        compiled = None if policy is None else lambda: _policy(policy)
        key = None if policy is None else policy.key
        if contract is None:
            scope = None
            if thread is not None and compiled is not None and self.contract.knows_scope(principal, thread):
                scope = thread
            return Asked(
                cwd,
                env,
                compiled,
                key=key,
                contract=False,
                author="client",
                tty=tty,
                scope=scope,
                principal=principal,
            )
        return Asked(
            cwd,
            env,
            compiled,
            key=key,
            author=contract.author,
            unset=contract.unset,
            tty=tty,
            scope=contract.scope,
            principal=principal,
            overlays=contract.overlays,
            kind=contract.kind or "",
        )

    def summary(
        self,
        resolved: Resolved,
        base: Base | None,
        shell: ShellStart | None,
        flags: Sequence[ContractFlag] = (),
    ) -> Json:
        """What goes with a command's answer: fingerprints and states, no names and no values."""
        from ..env.explain import summary

        env_fp, contract_fp = self.contract.fingerprints(resolved)
        told = summary(resolved, (base or self.contract.base).kind, env_fp, contract_fp)
        if shell is not None:
            told["shell"] = shell.summary()
        if flags:
            told["flags"] = [{"code": flag.code, "what": flag.what} for flag in flags]
        return told

    def base_of(self, params: BaseParams) -> Base | None:
        """The base that a client brings along; None for our own."""
        if params.env is None:
            return None
        values = params.env if params.rule == "client" else {**self._executor, **params.env}
        return base_of(params.rule, values, params.pid)

    def differences(self, params: BaseParams) -> dict[str, list[str]]:
        """The names in which a client's environment differs from ours, as it told it."""
        from ..env.explain import shown
        from ..env.fingerprint import value_digest
        from ..env.names import SHELL_MAINTAINED

        if params.env is not None:
            key, theirs = b"", {name: value_digest(b"", name, value) for name, value in params.env.items()}
        else:
            key, theirs = params.digest_key, params.digests or {}
        ours = {name: value_digest(key, name, value) for name, value in self._executor.items()}
        names = sorted({*ours, *theirs} - SHELL_MAINTAINED)
        return {
            "onlyClient": [shown(name) for name in names if name not in ours],
            "onlyServer": [shown(name) for name in names if name not in theirs],
            "changed": [
                shown(name)
                for name in names
                if name in ours and name in theirs and ours[name] != theirs[name]
            ],
        }

    def startup_files(self, env: Mapping[str, str], *, confined: bool) -> tuple[str, ...]:
        """The startup files that there are for a command with this environment. Who confines it looks for
        them later, when nobody waits."""
        from ..shell.startup import all_startup_files

        homes = [home for home in (env.get("HOME", ""), self.contract.home) if home.startswith("/")]
        files = all_startup_files(homes, env)
        if confined:
            return tuple(files)
        from ..host.masks import existing

        return existing(files)

    # About this machine

    def info(self) -> EnvironmentInfo:
        """environment/info: only what works here is a capability."""
        shell_name, shell_path = facts.command_shell()
        cwd = facts.working_directory()
        temporary = [from_path(path) for path in facts.temporary_directories(self._executor, cwd or "/")]
        return EnvironmentInfo(
            shell_name,
            shell_path,
            cwd=None if cwd is None else parse(from_path(cwd)),
            home=parse(from_path(facts.home(self._executor))),
            temp_dir=parse(temporary[0] if temporary else "file:///tmp"),
            platform=PLATFORM_OS,
            weaker=() if LINUX else _weaker(),
            version=VERSION,
            # A client that knows it need not give up earlier than we do.
            session_retention=self._session_retention,
            capabilities=CAPABILITIES,
            provider_id="sha256:" + sha256(facts.installation()).hexdigest(),
            temporary_directories=tuple(temporary),
            base=self.contract.base.describe(),
        )


def _weaker() -> tuple[tuple[str, str], ...]:
    from ..core.abilities import ABILITIES

    return tuple((ability.name, ability.weaker) for ability in ABILITIES)


# Entries of PATH and all other lists in one request: people have a few dozen. So many take 30 ms.
MAX_ENTRIES = 8192


def _check_lists(env: Mapping[str, str]) -> None:
    """Raises LimitExceeded where lists of a request have more entries than anybody's."""
    entries = sum([env[name].count(":") for name in LIST_NAMES.intersection(env)])
    if entries > MAX_ENTRIES:
        raise LimitExceeded(
            "the lists in `env` (PATH and others)", entries, MAX_ENTRIES, "entries", "send fewer"
        )


def _policy(policy: EnvPolicyParams) -> Policy:
    """Compiled. Raises LimitExceeded."""
    from ..env.pattern import check as check_patterns
    from ..env.policy import Policy

    check_patterns(policy.exclude, "envPolicy.exclude")
    check_patterns(policy.include_only, "envPolicy.includeOnly")
    check_names(dict(policy.set), "envPolicy.set", MAX_SET_NAMES_BYTES)
    return Policy(
        policy.inherit, policy.ignore_default_excludes, policy.exclude, policy.set, policy.include_only
    )
