"""Launch contracts as tests: one for each backend, kind of launch and rule.

`pytest --outfitter-contracts` collects them with no code. A harness that builds its commands itself has
them judged by a test of its own:

    def test_launches(outfitter_case):
        outfitter_case.check(my_builder)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..env.launches import LaunchContract
    from .backends.base import Backend
    from .parity import Build, Judgement

OPTION = "--outfitter-contracts"
_PACKAGE = __name__.partition(".")[0]


class Case:
    """One rule for one backend and one kind of launch."""

    def __init__(
        self, contract: LaunchContract, backends: Mapping[str, Backend], backend: str, kind: str, rule: str
    ) -> None:
        self.contract = contract
        self.backend = backend
        self.kind = kind
        self.rule = rule
        self._backends = backends

    def __str__(self) -> str:
        return f"{self.backend}-{self.kind}-{self.rule}"

    def judge(self, build: Build | None = None, extras: Mapping[str, str] | None = None) -> Judgement:
        """What the rule says. `build` makes the harness's command, `extras` are what it always passes."""
        from . import parity

        one = {self.backend: self._backends[self.backend]}
        found = parity.judge(self.contract, one, extras=extras or {}, with_=build or parity.build)
        return next(each for each in found if (each.kind, each.rule) == (self.kind, self.rule))

    def check(self, build: Build | None = None, *, extras: Mapping[str, str] | None = None) -> None:
        """Fails the test, naming what breaks the rule; skips it where the backend has no such launch."""
        __tracebackhide__ = True
        told = self.judge(build, extras)
        if told.skipped:
            pytest.skip(f"{self.backend}, {self.kind}: {told.skipped}")
        if not told.ok:
            pytest.fail(f"{self.backend}, {self.kind}: {told.wrong}", pytrace=False)


def cases(contract: LaunchContract) -> Iterator[Case]:
    from . import parity
    from .backends import registered

    backends = registered()
    for backend, kind, rule in parity.cases(contract, backends):
        yield Case(contract, backends, backend, kind, rule)


# What pytest asks


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    _leave_alone(pluginmanager)
    text = "judge every agent by the launch contract in FILE (default: [agents] of outfitter.toml)"
    group = parser.getgroup("outfitter")
    group.addoption(OPTION, nargs="?", const="", default=None, metavar="FILE", dest="contracts", help=text)
    parser.addini("outfitter_contract", "file with the launch contract, from the root folder")


def _leave_alone(pluginmanager: pytest.PytestPluginManager) -> None:
    """Has pytest load Outfitter as it is.

    Pytest parses and rewrites every module of a package that brings a plugin. Ours have nothing for it; and
    where two threads import at the same time, as a server in a thread does, parsing fails at random in
    Python 3.11 (SystemError: AST constructor recursion depth mismatch).
    """
    hook = getattr(pluginmanager, "rewrite_hook", None)
    marked, known = getattr(hook, "_must_rewrite", None), getattr(hook, "_marked_for_rewrite_cache", None)
    if isinstance(marked, set) and isinstance(known, dict):
        marked.discard(_PACKAGE)
        known.clear()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "outfitter_case" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("outfitter")
        contract = marker.args[0] if marker is not None else _contract(metafunc.config)
        found = list(cases(contract))
        metafunc.parametrize("outfitter_case", found, ids=[str(case) for case in found])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "outfitter(contract): the launch contract of a test's outfitter_case")


def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    if config.getoption("contracts") is not None:
        parent = _Contracts.from_parent(session, name="outfitter-contracts")
        items += parent.collect()


@pytest.fixture(scope="session")
def outfitter_contract(request: pytest.FixtureRequest) -> LaunchContract:
    """The project's launch contract."""
    return _contract(request.config)


class _Contracts(pytest.Collector):
    def collect(self) -> list[pytest.Item]:
        return [_Item.from_parent(self, name=str(case), case=case) for case in cases(_contract(self.config))]


class _Item(pytest.Item):
    def __init__(self, *, case: Case, **more: object) -> None:
        super().__init__(**more)  # type: ignore[arg-type]
        self._case = case

    def runtest(self) -> None:
        self._case.check()

    def reportinfo(self) -> tuple[str, None, str]:
        return "outfitter-contracts", None, f"contract {self._case.contract.name}: {self._case}"


def _contract(config: pytest.Config) -> LaunchContract:
    from ..errors import FileInvalid
    from ..formats.launchfile import PROJECT_FILE, parse_contract

    named = config.getoption("contracts") or config.getini("outfitter_contract")
    path = config.rootpath / (named or PROJECT_FILE)
    try:
        return parse_contract(path.read_text(), str(path))
    except OSError as error:
        what = f"cannot read the launch contract {path}: {error.strerror}"
        raise pytest.UsageError(f"{what}; name a file with {OPTION}=FILE or outfitter_contract") from None
    except FileInvalid as error:
        raise pytest.UsageError(str(error)) from None
