"""environmentConfig/read: what this machine's files say to Codex, for a Codex that runs elsewhere."""

from __future__ import annotations

import os

from ...contract import codexlayers
from ...errors import FileFailed, InvalidParams, SettingInvalid
from ...places import codex_file
from ...protocol.configuration import ConfigResult, LayerResult, LayersResult, check_paths
from ...protocol.uri import from_path
from ..files import FileWork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...contract.codexlayers import CodexLayer
    from ...protocol.configuration import ConfigParams
    from ..call import Call, Later


def read(call: Call, params: ConfigParams) -> Later:
    check_paths(params)
    try:
        cwd = params.cwd.local_path()
    except ValueError as error:
        raise InvalidParams(str(error)) from None
    contract = call.services.environments.contract
    environ, home = contract.base.values, contract.home
    try:
        codex_home = os.path.dirname(codex_file(environ))
    except SettingInvalid:
        codex_home = os.path.join(home, ".codex")

    def look() -> ConfigResult:
        try:
            config = codexlayers.config(environ, cwd, params.config_paths)
            required = codexlayers.requirements(params.requirements_paths)
        except codexlayers.ConfigUnreadable as error:
            raise FileFailed(f"failed to load executor-local config: {error}", "EIO") from None
        return ConfigResult(
            from_path(home), from_path(codex_home), os.uname().nodename, _layers(*config), _layers(*required)
        )

    return call.feature(FileWork).run(call, look)


def _layers(found: list[CodexLayer], index: int) -> LayersResult:
    return LayersResult([LayerResult(one.source, from_path(one.folder), one.toml) for one in found], index)
