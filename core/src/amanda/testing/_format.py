"""Checks of formats."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

import amanda
from amanda.errors import AmandaError, FormatError, PluginBrokenError, UsageError
from amanda.graph import Graph
from amanda.host import PluginEntry
from amanda.testing._plugin import expect_chosen, expect_lazy
from amanda.testing._samples import SAMPLES
from amanda.testing._suite import Suite, for_each, skip

_CUTS = 24
_FLIPS = 60
_NOISE = 40


class FormatSuite(Suite):
    """Checks of the format of this name.

    A format that supports any graph is tested with those of the suite; a format of one
    namespace overrides `samples`, and a format that only reads `documents`.
    """

    format: ClassVar[str]
    late: ClassVar[tuple[str, ...]] = ()
    """Libraries that importing the format must not import."""

    def samples(self) -> Mapping[str, Callable[[], Graph]]:
        """Functions that build graphs to write, by name."""
        if "namespace" in self._entry().manifest:
            raise UsageError(
                f"format {self.format!r} takes graphs of its own namespace only",
                hint="override samples() with some",
            )
        return SAMPLES

    def documents(self) -> Mapping[str, Path]:
        """Files to read, for a format that does not write."""
        return {}

    def _entry(self) -> PluginEntry:
        return self.host().find("formats", self.format)

    def _writes(self) -> bool:
        return callable(getattr(self.host().load(self._entry()), "write", None))

    def writable_graphs(self) -> Mapping[str, Callable[[], Graph]]:
        """The graphs to write; none for a format that only reads."""
        return self.samples() if self._writes() else {}

    def read(self) -> list[str]:
        return list(self.writable_graphs()) or list(self.documents())

    def suffix(self) -> str:
        suffixes = self._entry().manifest.get("suffixes", ())
        return str(suffixes[0]) if suffixes else ""

    def _save_case(self, case: str, name: str = "saved") -> Path:
        """A file of the sample or document `case`."""
        if not self._writes():
            return self.documents()[case]
        path = self.folder / f"{name}{self.suffix()}"
        self._save(self.samples()[case](), path)
        return path

    def _save(self, graph: Graph, path: Path) -> None:
        amanda.save(graph, path, self.format, host=self.host())

    def _load(self, path: Path) -> Graph:
        return amanda.load(path, self.format, host=self.host())

    # The checks

    def check_is_chosen_by_name(self) -> None:
        expect_chosen(self, "formats", self.format)

    def check_imports_its_library_late(self) -> None:
        expect_lazy(self._entry(), self.late)

    @for_each("read")
    def check_is_recognised(self, case: str) -> None:
        if not self.suffix():
            skip("the manifest names no suffix")
        assert isinstance(amanda.load(self._save_case(case), host=self.host()), Graph)

    @for_each("writable_graphs")
    def check_gives_back_what_it_was_given(self, case: str) -> None:
        graph = self.samples()[case]()
        read = self._load(self._save_case(case))
        assert read.difference(graph) is None, read.difference(graph)
        assert not read.check(), read.check()

    @for_each("writable_graphs")
    def check_writes_the_same_bytes_every_time(self, case: str) -> None:
        one, other = self._save_case(case, "one"), self._save_case(case, "other")
        assert one.read_bytes() == other.read_bytes(), (
            "two saves of equal graphs differ"
        )
        again = self.folder / f"again{self.suffix()}"
        self._save(self._load(one), again)
        assert again.read_bytes() == one.read_bytes(), "a save of what was read differs"

    @for_each("writable_graphs")
    def check_leaves_the_graph_as_it_was(self, case: str) -> None:
        graph = self.samples()[case]()
        copy = graph.clone()
        self._save(graph, self.folder / f"saved{self.suffix()}")
        assert graph.difference(copy) is None, graph.difference(copy)

    @for_each("writable_graphs")
    def check_leaves_nothing_else_behind(self, case: str) -> None:
        path = self._save_case(case)
        self._save(self.samples()[case](), path)
        assert [each.name for each in self.folder.iterdir()] == [path.name]

    def check_refuses_a_missing_file(self) -> None:
        path = self.folder / f"nothing{self.suffix()}"
        _expect_refusal(lambda: self._load(path), "a missing file")

    def check_refuses_an_empty_file(self) -> None:
        path = self.folder / f"empty{self.suffix()}"
        path.touch()
        _expect_refusal(lambda: self._load(path), "an empty file")

    def check_refuses_noise(self) -> None:
        noise = random.Random(0)  # the same in every run
        path = self.folder / f"noise{self.suffix()}"
        for _ in range(_NOISE):
            path.write_bytes(noise.randbytes(noise.randrange(1, 400)))
            self._survives(path, "noise")

    @for_each("read")
    def check_survives_truncation(self, case: str) -> None:
        whole = self._save_case(case).read_bytes()
        path = self.folder / f"cut{self.suffix()}"
        for i in range(_CUTS):
            path.write_bytes(whole[: len(whole) * i // _CUTS])
            self._survives(path, f"a file cut to {i}/{_CUTS}")

    @for_each("read")
    def check_survives_damage(self, case: str) -> None:
        whole = self._save_case(case).read_bytes()
        damage = random.Random(0)
        path = self.folder / f"damaged{self.suffix()}"
        for _ in range(_FLIPS):
            content = bytearray(whole)
            place = damage.randrange(len(content))
            content[place] ^= 1 << damage.randrange(8)
            path.write_bytes(content)
            self._survives(path, f"a bit flipped at byte {place}")

    def _survives(self, path: Path, what: str) -> None:
        """Read a file, or raise an error of Amanda; other exceptions are faults."""
        try:
            self._load(path)
        except PluginBrokenError as error:
            raise AssertionError(f"{what}: {error.got or error}") from error
        except AmandaError:
            return


def _expect_refusal(action: Callable[[], object], what: str) -> None:
    try:
        action()
    except FormatError:
        return
    raise AssertionError(f"{what} was read")
