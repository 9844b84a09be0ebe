"""Models that fail are reduced to small ones that fail in the same way.

A test says whether a model fails: on a backend (`RunTest`), in a conversion
(`ConversionTest`), by a program (`ScriptTest`); `IsolatedTest` runs it in a process of
its own, since models under test may crash, and their loops become endless.
"""

from __future__ import annotations

from amanda.argument_checks import check_arguments
from amanda_inspect.reduction.failures import Failure, Test
from amanda_inspect.reduction.isolation import IsolatedTest, ScriptTest
from amanda_inspect.reduction.reducer import Reduction, find_failing_op, reduce
from amanda_inspect.reduction.running import ConversionTest, RunTest
from amanda_inspect.reduction.search import Step

__all__ = [
    "ConversionTest",
    "Failure",
    "IsolatedTest",
    "Reduction",
    "RunTest",
    "ScriptTest",
    "Step",
    "Test",
    "find_failing_op",
    "reduce",
]

check_arguments(globals())
