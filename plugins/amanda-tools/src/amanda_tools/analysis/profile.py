"""The tool `profile`: the time of each op and of each op of the model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from amanda import compile
from amanda.errors import UsageError
from amanda.instrument import Instrumentation, Observation, Report, Tool
from amanda_tools.pictures import Bar, draw_bars

__all__ = ["Profile"]

_SHOWN = 30


class Profile(Tool):
    """The time of each op, measured one after the other on a backend.

    Needs feeds: `data=` of `amanda.apply`, or those of the command line. `backend` is
    one that measures ops, such as numpy, jax or onnxruntime. `trace` names a file for
    Chrome's trace event format. Times are milliseconds; the memory is what an op
    allocates, where the backend knows.
    """

    name = "profile"
    namespace = None

    def __init__(self, *, backend: str = "numpy", trace: str | None = None) -> None:
        self.backend = backend
        self.trace = trace

    def instrument(self, instrumentation: Instrumentation) -> None:
        """Run the model on the first of the example inputs, and record the times."""
        if not instrumentation.data:
            raise UsageError(
                "a profile needs feeds to run the model on",
                hint="amanda.apply(graph, Profile(), data=[feeds]), or "
                "`amanda instrument FILE --tool profile --random SEED`",
            )
        compiled = compile(
            instrumentation.graph, self.backend, host=instrumentation.host, profile=True
        )
        found = compiled.profile(instrumentation.data[0])
        report = instrumentation.report
        for each in found.ops:
            name, kind, sources = each.label
            origin = ", ".join(source for source in sources if source != name)
            row = Observation(self.name, name, kind, origin, (), "", 0, 1)
            report.facts.append(row._replace(key="ms", value=each.seconds * 1e3))
            if each.memory is not None:
                report.facts.append(row._replace(key="bytes", value=each.memory))
        report.summary["ms of the ops"] = found.seconds * 1e3
        report.summary["ms of a call"] = found.call * 1e3
        report.summary["measured"] = found.how
        self._by_source: Mapping[str, float] = found.by_source()
        if self.trace is not None:
            text = json.dumps(found.trace())
            Path(self.trace).write_text(text, encoding="utf-8")

    def picture(self, report: Report) -> str | None:
        """The slowest ops of the model, as bars."""
        del report
        rows = list(self._by_source.items())[:_SHOWN]
        return draw_bars(
            [Bar(name, seconds, f"{seconds * 1e3:.3g} ms") for name, seconds in rows]
        )
