"""Checks of distributions of plug-ins."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from amanda.errors import PluginMissingError
from amanda.host import PluginEntry, PluginInfo
from amanda.testing._suite import Suite, for_each, skip

_LISTING = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from amanda.host import Host
host = Host(only=None)
host.plugins()
for entry in host.entries():
    entry.state, entry.manifest
print(json.dumps([name for name in json.loads(sys.argv[2]) if name in sys.modules]))
"""


class PluginSuite(Suite):
    """Checks of a distribution: metadata, manifest, lazy imports."""

    dist: ClassVar[str]
    """The name of the distribution."""

    def info(self) -> PluginInfo:
        for info in self.host().plugins():
            if info.dist == self.dist:
                return info
        raise PluginMissingError(f"no plug-in {self.dist!r} is installed")

    def entries(self) -> Mapping[str, PluginEntry]:
        return {f"{entry.kind}/{entry.name}": entry for entry in self.info().entries}

    def check_has_no_fault(self) -> None:
        info = self.info()
        assert info.state in ("found", "loaded", "slow"), f"{info.state}: {info.why}"

    def check_says_which_core_it_is_for(self) -> None:
        from importlib.metadata import requires

        from packaging.requirements import Requirement

        needs = [Requirement(text) for text in requires(self.dist) or ()]
        core = [need for need in needs if need.name == "amanda-core"]
        assert core, "requires no amanda-core"
        assert any(need.specifier for need in core), (
            "takes any amanda-core; name a range"
        )

    def check_is_listed_without_import(self) -> None:
        assert imported_by_listing(self.modules()) == []

    def check_is_typed(self) -> None:
        for module in self.modules():
            spec = find_spec(module)
            places = list(spec.submodule_search_locations or ()) if spec else []
            is_typed = any(Path(place, "py.typed").is_file() for place in places)
            assert is_typed or not places, f"{module} has no py.typed"

    def check_tells_what_it_takes(self) -> None:
        wanted = {
            "formats": ("suffixes", "objects", "directories"),
            "mappings": ("from",),
        }
        for title, entry in self.entries().items():
            fields = wanted.get(entry.kind)
            fine = fields is None or any(field in entry.manifest for field in fields)
            assert fine, f"amanda-plugin.toml says nothing of {title}"

    @for_each("entries")
    def check_loads(self, case: str) -> None:
        self.host().load(self.entries()[case])

    def check_is_usable_here(self) -> None:
        info = self.host().probe(self.dist)
        assert info.state in ("usable", "slow"), f"{info.state}: {info.why}"

    def modules(self) -> list[str]:
        """The top-level modules of its entry points."""
        return top_modules(self.info().entries)


def top_modules(entries: tuple[PluginEntry, ...]) -> list[str]:
    """The top-level modules of installed entries."""
    values = [entry.value for entry in entries if entry.value]
    return sorted({value.partition(":")[0].partition(".")[0] for value in values})


def imported_by_listing(modules: list[str]) -> list[str]:
    """Those of the modules that are imported by listing all plug-ins."""
    command = [
        sys.executable,
        "-c",
        _LISTING,
        json.dumps(sys.path),
        json.dumps(modules),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)
    return found


def expect_chosen(suite: Suite, kind: str, name: str) -> PluginEntry:
    """Check that an entry can be chosen, and that listing does not import it."""
    entry = suite.host().find(kind, name)
    assert not entry.fault, entry.fault
    modules = [m for m in top_modules((entry,)) if m != "amanda"]
    assert imported_by_listing(modules) == [] if modules else True
    return entry


def expect_lazy(entry: PluginEntry, libraries: tuple[str, ...]) -> None:
    """Check that importing the entry imports none of these modules."""
    if not libraries:
        skip("no library is named that must be imported late")
    code = (
        "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
        "import importlib; importlib.import_module(sys.argv[2]); "
        "print([n for n in json.loads(sys.argv[3]) if n in sys.modules])"
    )
    module = entry.value.partition(":")[0]
    command = [sys.executable, "-c", code, json.dumps(sys.path), module]
    done = subprocess.run(
        [*command, json.dumps(libraries)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]", f"importing {module} imports {done.stdout}"
