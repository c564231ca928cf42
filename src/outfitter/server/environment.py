"""What commands of this server get as environment, and what the server says about its machine."""

from __future__ import annotations

from .. import VERSION
from ..env.policy import Policy
from ..env.resolve import inherit, resolve
from ..host import facts
from ..protocol.session import CAPABILITIES
from ..protocol.uri import from_path
from .limits import REMEMBERED_POLICIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from hashlib import sha256

    from ..env.policy import Inherited
    from ..env.resolved import Resolved
    from ..protocol.environment import EnvPolicyParams
    from ..protocol.jsontext import Json
else:
    # hashlib brings OpenSSL: five milliseconds before the first handshake.
    try:
        from _sha2 import sha256  # since 3.12
    except ImportError:
        try:
            from _sha256 import sha256
        except ImportError:
            from hashlib import sha256


class Environments:
    """The executor's environment, fixed when the server starts, and what policies make of it."""

    def __init__(self, executor: Mapping[str, str], session_retention: float) -> None:
        self._executor = executor
        self._session_retention = session_retention
        self._inherited: dict[object, Inherited] = {}
        self._login_shell = facts.login_shell()

    def for_ourselves(self) -> dict[str, str]:
        """What our own interpreter needs where its C libraries are not in their usual place."""
        name = "LD_LIBRARY_PATH"
        return {name: self._executor[name]} if name in self._executor else {}

    def resolve(self, policy: EnvPolicyParams | None, request: Mapping[str, str], tty: bool) -> Resolved:
        """The environment of one command. Without a policy it is exactly what the request says."""
        key = None if policy is None else policy.key
        inherited = self._inherited.get(key)
        if inherited is None:
            compiled = None
            if policy is not None:
                compiled = Policy(
                    policy.inherit,
                    policy.ignore_default_excludes,
                    policy.exclude,
                    policy.set,
                    policy.include_only,
                )
            inherited = inherit(compiled, self._executor)
            if len(self._inherited) >= REMEMBERED_POLICIES:
                del self._inherited[next(iter(self._inherited))]
            self._inherited[key] = inherited
        return resolve(inherited, request, self._login_shell if tty else None)

    def info(self) -> Json:
        """environment/info: only what works here is a capability."""
        shell_name, shell_path = facts.command_shell()
        cwd = facts.working_directory()
        temporary = facts.temporary_directories(self._executor, cwd or "/")
        return {
            "shell": {"name": shell_name, "path": shell_path},
            "executorVersion": VERSION,
            "providerId": "sha256:" + sha256(facts.installation()).hexdigest(),
            "cwd": from_path(cwd) if cwd is not None else None,
            "userHomeDir": from_path(facts.home(self._executor)),
            "platformOs": "linux",
            "prependPathDirs": [],
            "temporaryDirectories": [from_path(path) for path in temporary],
            "tempDir": from_path(temporary[0] if temporary else "/tmp"),
            # Ours: a client that knows it need not give up earlier than we do.
            "sessionRetentionMs": int(self._session_retention * 1000),
            "capabilities": CAPABILITIES,
        }
