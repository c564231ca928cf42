"""Which providers commands in a directory use: those that are named, else what is found there.

Whether a project is there is seen by the names of its files alone. A warm look is one stat for each folder on
the way up; a folder in which something came or went is looked at again, and only that one.
"""

from __future__ import annotations

import os

from ..providers import files
from ..providers.marks import MARKS
from ..record import record
from .freshness import Way
from .settings import AUTO, CONFIGURED, DEFAULT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..providers.base import Detection, Provider
    from .settings import Settings, Source

# Directories whose way up is remembered, and folders on those ways; each has a few paths.
REMEMBERED_DIRECTORIES = 1024
REMEMBERED_FOLDERS = 4096
# Providers that must be configured, and what to write.
NEEDS = {"command": 'command = ["./environment.py"]', "dotenv": 'dotenv = [".env"]'}
_GIT = ".git"
_NAMES = tuple(dict.fromkeys((_GIT, *(name for names in MARKS.values() for name in names))))
# Folders below a folder in which marks are looked for, outer ones first.
_INNER = tuple(
    sorted(
        {name[:at] for name in _NAMES for at, letter in enumerate(name) if letter == "/"}
        | {".pixi/envs", "mise/conf.d", ".mise/conf.d", ".config/mise/conf.d"}
    )
)


@record
class Use:
    """One provider in one project. `choice`: one of several; the first that has something is used."""

    provider: Provider
    found: Detection
    required: bool
    choice: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return self.provider.id, self.found.root


class _Folder:
    """The marks of one folder, and the folders whose coming, going or change would change them."""

    __slots__ = ("marks", "way")

    def __init__(self, path: str) -> None:
        access = os.access
        prefix = path if path.endswith("/") else f"{path}/"
        inner = [prefix + name for name in _INNER if access(prefix + name, os.F_OK)]
        self.way = Way([path, *inner])
        here = [name for name in _NAMES if access(prefix + name, os.F_OK)]
        if here:
            from ..providers.files import planted  # most folders have no mark

            here = [name for name in here if not planted(path, prefix + name)]
        self.marks = frozenset(here)


class _Found:
    """What was found for a directory: `uses`, and the marks of the folders on its way up.

    `shared` is a way that others look after; `rest` are the folders that are not on it.
    """

    __slots__ = ("marks", "rest", "settings", "shared", "uses", "way")

    def __init__(
        self, settings: Settings, shared: Way | None, folders: list[tuple[str, _Folder]], uses: list[Use]
    ) -> None:
        self.settings = settings
        self.uses = uses
        self.marks = _marks(folders)
        ways = [folder.way for _, folder in folders]
        self.way = Way.joined(ways)
        self.shared = shared
        self.rest = Way.joined(ways, () if shared is None else shared.paths)

    def holds(self, shared: Way | None) -> bool:
        if shared is not None and shared is self.shared:
            return self.rest.holds()
        return self.way.holds()


class ProviderSelection:
    """The providers in use, by directory."""

    def __init__(self) -> None:
        self._found: dict[str, _Found] = {}
        self._folders: dict[str, _Folder] = {}

    def uses(self, directory: str, settings: Settings, shared: Way | None = None) -> list[Use]:
        """The providers for commands in a directory, in their order. Raises SettingInvalid.

        The same list again while nothing has come or gone. `shared` is a way up that has just been seen
        not to have changed: its folders are not looked at again.
        """
        found = self._found.get(directory)
        if found is None or found.settings is not settings or not found.holds(shared):
            found = self._look(directory, settings, shared, found)
        return found.uses

    def _look(self, directory: str, settings: Settings, shared: Way | None, before: _Found | None) -> _Found:
        folders = self._way(directory)
        if before is not None and before.settings is settings and before.marks == _marks(folders):
            uses = before.uses
        else:
            uses = _chosen(directory, settings, folders)
        found = _Found(settings, shared, folders, uses)
        self._found.pop(directory, None)
        if len(self._found) >= REMEMBERED_DIRECTORIES:
            del self._found[next(iter(self._found))]
        if all(id in MARKS for id in settings.providers or ()):
            self._found[directory] = found
        # else: what configured and foreign providers look for is theirs to know, and they are asked each time
        return found

    def _way(self, directory: str) -> list[tuple[str, _Folder]]:
        """The folders from a directory upwards; one with a `.git` is the last."""
        path = os.path.abspath(directory)
        found = []
        while True:
            folder = self._folders.get(path)
            if folder is None or not folder.way.holds():
                self._folders.pop(path, None)
                if len(self._folders) >= REMEMBERED_FOLDERS:
                    del self._folders[next(iter(self._folders))]
                folder = self._folders[path] = _Folder(path)
            found.append((path, folder))
            above = os.path.dirname(path)
            if above == path or files.is_ceiling(path) or _GIT in folder.marks:
                return found
            path = above


def _marks(folders: list[tuple[str, _Folder]]) -> list[tuple[str, frozenset[str]]]:
    return [(path, folder.marks) for path, folder in folders]


def _chosen(directory: str, settings: Settings, folders: list[tuple[str, _Folder]]) -> list[Use]:
    check_names(settings)
    uses: list[Use] = []
    wanted = (AUTO,) if settings.providers is None else settings.providers
    for id in wanted:
        if id == AUTO:
            foreign = settings.providers is not None and settings.sources["providers.use"] != DEFAULT
            uses += _choices(directory, settings, folders, {*wanted}, foreign=foreign)
        else:
            uses += _use(id, directory, settings)
    return uses


def _choices(
    directory: str, settings: Settings, folders: list[tuple[str, _Folder]], named: set[str], *, foreign: bool
) -> list[Use]:
    """Those that could be meant, outermost first."""
    here: frozenset[str] = frozenset().union(*(folder.marks for _, folder in folders))
    ids = [id for id, marks in MARKS.items() if id not in named and not here.isdisjoint(marks)]
    if foreign:
        from ..providers.registry import known

        ids += [id for id in known() if id not in MARKS and id not in CONFIGURED and id not in named]
    # A file that anybody may have put there does not count: its folder has no mark then.
    roots = {path: folder.marks for path, folder in folders}
    uses = []
    for id in ids:
        for use in _use(id, directory, settings, choice=True):
            marked = roots.get(use.found.root, frozenset())
            if id not in MARKS or not marked.isdisjoint(MARKS[id]):
                uses.append(use)
    return sorted(uses, key=lambda use: use.provider.rank)


def check_names(settings: Settings) -> None:
    """Raises FileInvalid for names that no provider has: one that is required would never be missed."""
    said = [("providers.use", id) for id in settings.providers or () if id != AUTO]
    said += [("providers.allow", id) for id in sorted(settings.allowed_providers or ())]
    said += [("providers.required", id) for id in sorted(settings.required_providers)]
    said += [(f"providers.modes.{id}", id) for id in settings.provider_modes]
    idle = _idle(settings)
    if not said and not idle:
        return
    from ..errors import SettingInvalid
    from ..formats.document import Mistake, refuse
    from ..formats.toml import shown, suggest
    from ..providers.registry import find, known

    mistakes = []
    for setting, id in said:
        try:
            find(id, settings.provider_options.get(id))
        except SettingInvalid:
            source, there = settings.sources.get(setting), tuple(known())
            if id in there or source is None or not source.file:
                raise
            text = f"no provider is named `{shown(id)}`"
            mistakes.append(Mistake(source.file, source.line, text, suggest(id, there)))
        else:
            source = settings.sources["providers.use"]
            lacking = id in NEEDS and "values" not in settings.provider_options.get(id, {})
            if setting == "providers.use" and lacking and source.file:
                text = f"`{id}` detects nothing by itself"
                mistakes.append(Mistake(source.file, source.line, text, f"write {NEEDS[id]} as well"))
    misspelt = {(one.file, one.line) for one in mistakes}
    for setting, id, source in idle:
        if (source.file, source.line) in misspelt:
            continue
        text = f"`{setting}` has no effect: `{id}` is not in `use`"
        mistakes.append(Mistake(source.file, source.line, text, "add it there, or remove this line"))
    refuse(mistakes)


def _idle(settings: Settings) -> list[tuple[str, str, Source]]:
    """What is configured for providers that the same file does not use: somebody expects it to count."""
    used = settings.providers
    if used is None or AUTO in used:
        return []
    file = settings.sources["providers.use"].file
    said = [
        (f"providers.{id}" if key == "values" else f"providers.{id}_{key}", id)
        for id, options in settings.provider_options.items()
        for key in options
    ]
    said += [(f"providers.modes.{id}", id) for id in settings.provider_modes]
    there = [(setting, id, settings.sources.get(setting)) for setting, id in said if id not in used]
    return [
        (setting, id, source) for setting, id, source in there if source is not None and source.file == file
    ]


def _use(id: str, directory: str, settings: Settings, *, choice: bool = False) -> list[Use]:
    from ..providers.files import planted
    from ..providers.registry import find

    provider = find(id, settings.provider_options.get(id))
    if settings.allowed_providers is not None and id not in settings.allowed_providers:
        return []
    detection = provider.detect(directory)
    if detection is None or any(planted(detection.root, path) for path in detection.files):
        return []
    return [Use(provider, detection, id in settings.required_providers, choice)]
