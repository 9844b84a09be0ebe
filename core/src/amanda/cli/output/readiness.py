"""What `amanda check` found, as the sections of its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amanda.cli.output.sections import Section
from amanda.types import Sym

if TYPE_CHECKING:
    from amanda.api.readiness import Readiness
    from amanda.backend import MemoryEstimate
    from amanda.errors import AmandaError
    from amanda.mapping import Gap, Refusal
    from amanda.types import Dim

__all__ = ["gap_data", "readiness_sections"]


def readiness_sections(found: Readiness, *, full: bool = True) -> list[Section]:
    """Everything that was found; `full` has stubs of rules for gaps."""
    hidden = () if full else ("stub",)
    return [
        _files(found),
        Section("errors", "it cannot be converted", _error_rows(found.error)),
        Section("gaps", "ops without a mapping", [
            {k: v for k, v in gap_data(gap).items() if k not in hidden}
            for gap in found.gaps
        ]),
        Section(
            "refusals",
            "ops that the backend does not take",
            [_refusal_data(refusal) for refusal in found.refusals],
        ),
        *_fallback_sections(found),
        Section(
            "sizes",
            "sizes that are known only when it runs",
            [size._asdict() for size in found.sizes],
        ),
        Section(
            "precision", "element types that change",
            [change._asdict() for change in found.precision],
        ),
        Section("losses", "lost on the way", _loss_rows(found)),
        Section("faults", "faults, by the dictionary of the model", [
            {"kind": p.kind, "op": p.op, "place": p.location or None,
             "message": p.message, "hint": p.hint}
            for p in found.faults
        ]),
        Section("memory", "memory", _memory_rows(found.memory)),
    ]  # fmt: skip


def _files(found: Readiness) -> Section:
    rows = [{"file": file} for file in found.missing_files]
    return Section("missing_files", "missing files", rows)


def _error_rows(error: AmandaError | None) -> list[dict[str, object]]:
    if error is None:
        return []
    problems = list(error.problems)
    return [{"message": error.message, **error.parts(), "problems": problems}]


def gap_data(gap: Gap) -> dict[str, object]:
    return {
        "op": gap.op,
        "where": gap.where,
        "why": list(gap.why),
        "nearest": gap.nearest,
        "stub": gap.stub,
    }


def _refusal_data(refusal: Refusal) -> dict[str, object]:
    return refusal._asdict()


def _fallback_sections(found: Readiness) -> list[Section]:
    pieces = [
        {"backend": piece.backend, "ops": len(piece.ops), "types": _types(piece.ops),
         "why": list(piece.why)}
        for piece in found.pieces
    ]  # fmt: skip
    crossings = [
        {"value": c.value, "from": c.made_by, "to": c.read_by, **_bytes_data(c.bytes)}
        for c in found.crossings
    ]
    return [
        Section("unplaced", "ops that no backend takes",
                [{"why": why} for why in found.unplaced]),
        Section("pieces", "pieces with the fallback", pieces),
        Section("crossings", "values that are copied between backends", crossings),
    ]  # fmt: skip


def _types(labels: tuple[str, ...]) -> str:
    """The op types of a piece, each once."""
    return ", ".join(dict.fromkeys(label.split(" ")[0] for label in labels))


def _bytes_data(size: Dim | None) -> dict[str, object]:
    """A number of bytes, or a formula where it depends on symbolic dims."""
    is_formula = isinstance(size, Sym)
    return {
        "bytes": None if is_formula else size,
        "formula": str(size) if is_formula else None,
    }


def _loss_rows(found: Readiness) -> list[dict[str, object]]:
    rows = [("loss", loss) for report in found.reports for loss in report.losses]
    rows += [
        ("complex numbers", str(port))
        for report in found.reports
        for port in report.changed_ports
    ]
    rows += [("variable", str(port)) for r in found.reports for port in r.state_ports]
    return [{"kind": kind, "what": what} for kind, what in rows]


def _memory_rows(memory: MemoryEstimate | None) -> list[dict[str, object]]:
    if memory is None:
        return []
    peak = {"what": "values at once", **_bytes_data(memory.peak), "at": memory.peak_at}
    rows = [{"what": "weights", **_bytes_data(memory.weights), "at": None}, peak]
    if memory.unknown:
        note = f"values of unknown size, not counted: {memory.unknown}"
        rows.append({"what": note, "bytes": None, "formula": None, "at": None})
    return rows
