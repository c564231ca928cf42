"""What the program behind a provider's tool (`host.tools.behind`) reports: the environment and the command.

Whoever reads it may not trust who wrote it: a tool in a sandbox can write anything there.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LARGEST = 6 << 20  # the kernel takes no more arguments and variables than that


def encode(env: Mapping[str, str], command: Sequence[str], folder: str, umask: int) -> bytes:
    variables = [f"{name}={value}" for name, value in env.items()]
    words = [folder, f"{umask:o}", str(len(command)), *command, *variables]
    return "\0".join(words).encode("utf-8", "surrogateescape")


def decode(data: bytes) -> tuple[dict[str, str], list[str], str, int]:
    """The environment, the command, its folder and its umask. Raises ValueError."""
    if len(data) > LARGEST:
        raise ValueError(f"it has more than {LARGEST} bytes")
    words = data.decode("utf-8", "surrogateescape").split("\0")
    if len(words) < 3 or words[0][:1] != "/":
        raise ValueError("it does not begin with a folder")
    umask, count = int(words[1], 8), int(words[2])
    if not 0 <= umask <= 0o777 or not 0 <= count <= len(words) - 3:
        raise ValueError("it has numbers that cannot be")
    env = {}
    for word in words[3 + count :]:
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise ValueError("it has a variable without a name or a value")
        env[name] = value
    return env, words[3 : 3 + count], words[0], umask
