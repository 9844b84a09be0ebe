"""Which mutations were tried, in a file, so that a run goes on where it ended."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fuzz.workers import BATCH, Batch

__all__ = ["Progress"]


class Progress:
    """The batches of a range that were tried; in a file, if one is named."""

    def __init__(self, file: Path | None = None) -> None:
        self.outcomes: Counter[str] = Counter()
        self._file = file
        self._ranges: list[tuple[int, int]] = []
        if file is not None and file.exists():
            for line in file.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                self._ranges.append((row["first"], row["end"]))
                self.outcomes.update(row["outcomes"])

    def missing(self, first: int, count: int) -> Iterator[tuple[int, int]]:
        """The parts of a range that were not tried yet, in batches."""
        at, end = first, first + count
        for start, stop in [*sorted(self._ranges), (end, end)]:
            while at < min(start, end):
                size = min(BATCH, start - at, end - at)
                yield at, at + size
                at += size
            at = max(at, stop)

    def add(self, batch: Batch) -> None:
        self._ranges.append((batch.first, batch.end))
        self.outcomes.update(batch.outcomes)
        if self._file is not None:
            row = {"first": batch.first, "end": batch.end, "outcomes": batch.outcomes}
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    def table(self) -> str:
        """The number of each outcome, a line for each reader."""
        readers: dict[str, Counter[str]] = {}
        for key, number in self.outcomes.items():
            reader, _, outcome = key.partition(" ")
            readers.setdefault(reader, Counter())[outcome] += number
        rows = [
            f"{reader:12} {counts.total() - counts['repeated']:>9,} "
            + ", ".join(f"{outcome} {n:,}" for outcome, n in counts.most_common())
            for reader, counts in sorted(readers.items())
        ]
        total = sum(n for key, n in self.outcomes.items() if "repeated" not in key)
        return "\n".join([*rows, f"{'all':12} {total:>9,}"])
