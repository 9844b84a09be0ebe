"""The conformance kit: tests that every backend, format, mapping and tool must pass.

A plug-in inherits a suite and names what to test:

    from amanda.testing import BackendSuite

    class TestFast(BackendSuite):
        backend = "fast"

pytest runs each check as a separate test, and reports at the end how many ran;
`TestFast.run()` does the same without pytest and returns a `SuiteReport`. A check that
does not pass yet is waived with a reason, and fails as soon as it passes:

        xfails = {"serves_threads": "the library has global state, see its issue 12"}
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amanda.testing._backend import BackendSample, BackendSuite
    from amanda.testing._format import FormatSuite
    from amanda.testing._mapping import MappingSample, MappingSuite
    from amanda.testing._plugin import PluginSuite
    from amanda.testing._suite import CheckResult, Suite, SuiteReport, for_each, skip
    from amanda.testing._tool import ToolSample, ToolSuite

__all__ = [
    "BackendSuite",
    "CheckResult",
    "FormatSuite",
    "MappingSample",
    "MappingSuite",
    "PluginSuite",
    "SuiteReport",
    "BackendSample",
    "Suite",
    "ToolSample",
    "ToolSuite",
    "for_each",
    "skip",
]

# Imported on first use: pytest imports this package wherever Amanda is installed.
_HOME = {
    "_backend": ("BackendSuite", "BackendSample"),
    "_format": ("FormatSuite",),
    "_mapping": ("MappingSample", "MappingSuite"),
    "_plugin": ("PluginSuite",),
    "_tool": ("ToolSample", "ToolSuite"),
    "_suite": ("CheckResult", "SuiteReport", "Suite", "for_each", "skip"),
}


def __getattr__(name: str) -> object:
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
