"""Puts the plug-in template into the distribution, so that `amanda plugin new` has it.

The template lives beside the plug-ins, where it is tested like one. A wheel built from
the repository takes it from there; an sdist carries it within the package, where a
wheel built from that sdist finds it like any other file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HELD_AT = {"wheel": "amanda/_template", "sdist": "src/amanda/_template"}
LEFT_OUT = {"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", "dist"}


class TemplateHook(BuildHookInterface[Any]):
    """hatchling calls `initialize` before it collects files."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        template = Path(self.root).parent / "plugins" / "_template"
        if version == "editable" or not template.is_dir():
            return
        held_at = HELD_AT[self.target_name]
        for file in sorted(template.rglob("*")):
            place = file.relative_to(template)
            if file.is_file() and not LEFT_OUT.intersection(place.parts):
                build_data["force_include"][str(file)] = f"{held_at}/{place.as_posix()}"
