"""A tox environment `plugin-NAME` for each folder of plugins/, found, not listed."""

from collections.abc import Iterable
from pathlib import Path

from tox.plugin import impl


@impl
def tox_extend_envs() -> Iterable[str]:
    found = Path(__file__).parent.glob("plugins/[!_]*/pyproject.toml")
    return tuple(sorted(f"plugin-{file.parent.name}" for file in found))
