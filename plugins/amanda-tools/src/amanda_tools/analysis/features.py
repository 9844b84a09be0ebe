"""The tools `features` and `dump`: values of inner layers, as results or in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from amanda.backend import type_bytes
from amanda.errors import UsageError
from amanda.instrument import Instrumentation, Report, Tool, Unobserved
from amanda.tensors import Tensor
from amanda_tools.analysis.selection import chosen_sites

__all__ = ["Dump", "Features"]

FORMATS: Final = ("npz", "safetensors")


class Features(Tool):
    """The outputs of chosen ops, whole, as further results of the model.

    `names`, `types` and `scope` choose ops, by shell patterns. The report has the
    values of the last run; the instrumented model, saved, has them as results.
    """

    name = "features"

    def __init__(
        self,
        *,
        names: Sequence[str] | str | None = None,
        types: Sequence[str] | str | None = None,
        scope: str | None = None,
    ) -> None:
        if names is None and types is None and scope is None:
            raise UsageError(
                f"the tool {self.name} observes chosen ops",
                expected="one of names, types and scope",
            )
        self.names, self.types, self.scope = names, types, scope

    def instrument(self, instrumentation: Instrumentation) -> None:
        """Observe the outputs of the chosen ops."""
        sites = chosen_sites(instrumentation, self.types, self.names, self.scope)
        if not sites:
            raise UsageError(
                f"the tool {self.name} finds no such op",
                got=f"names={self.names}, types={self.types}, scope={self.scope}",
                hint="`amanda show FILE` lists the ops",
            )
        for site in sites:
            for index, value in enumerate(site.outputs):
                site.observe(f"output {index}" if index else "output", value)


class Dump(Features):
    """The outputs of chosen ops in files: `folder/run-0001.npz` for the first run.

    `names`, `types` and `scope` choose ops. `format` is npz or safetensors. Ops are
    left out, with a note in the report, from where a run would write more than
    `max_bytes`.
    """

    name = "dump"

    def __init__(
        self,
        *,
        folder: str | Path,
        format: str = "npz",
        max_bytes: int = 1 << 28,
        names: Sequence[str] | str | None = None,
        types: Sequence[str] | str | None = None,
        scope: str | None = None,
    ) -> None:
        super().__init__(names=names or ("*" if not (types or scope) else None),
                         types=types, scope=scope)  # fmt: skip
        if format not in FORMATS:
            raise UsageError(
                f"values cannot be written as {format!r}", expected=" or ".join(FORMATS)
            )
        self.folder, self.format = Path(folder), format
        self.max_bytes = max_bytes

    def instrument(self, instrumentation: Instrumentation) -> None:
        """Observe the outputs of the chosen ops, up to the bound."""
        total = 0
        sites = chosen_sites(instrumentation, self.types, self.names, self.scope)
        for site in sites:
            for index, port in enumerate(site.op.outputs):
                key = f"output {index}" if index else "output"
                size = type_bytes(port.type)
                total += size if isinstance(size, int) else 0
                if total > self.max_bytes:
                    instrumentation.not_observed(site, key, self._excess())
                else:
                    site.observe(key, site.outputs[index])

    def _excess(self) -> str:
        return f"it would exceed max_bytes={self.max_bytes:,}"

    def after_run(self, report: Report) -> None:
        """Write the values of a run; the file is replaced atomically."""
        from amanda.files import replace_file, write_safetensors

        arrays: dict[str, Any] = {}
        total = 0
        for row in report.select(tool=self.name):
            array = np.asarray(row.value)
            total += array.nbytes
            if total > self.max_bytes:
                note = Unobserved(self.name, row.op, row.key, self._excess())
                if note not in report.unobserved:
                    report.unobserved.append(note)
                continue
            suffix = row.key.removeprefix("output").replace(" ", ".")
            arrays[f"{row.op}{suffix}"] = array
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"run-{report.runs:04}.{self.format}"
        with replace_file(path) as file:
            if self.format == "npz":
                np.savez(file, **arrays)
            else:
                tensors = {name: Tensor.of(array) for name, array in arrays.items()}
                write_safetensors(tensors, file)

    def conclude(self, report: Report) -> Mapping[str, Any]:
        """Where the files are."""
        return {"files": f"{self.folder}: {report.runs}"}
