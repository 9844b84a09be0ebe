"""A program that is parsed without end is refused after some processor time."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import amanda
from amanda.errors import LimitError

pytest.importorskip("jax")

from amanda_jax.formats.stablehlo import isolated_parser

PARSER = """
import sys
from amanda_jax.formats.stablehlo.parser_process import _limit_time

print("ready", flush=True)
sys.stdin.readline()
_limit_time(0.1)
while True:
    pass
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs such a timer")
def test_a_program_that_is_parsed_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "endless_parser.py").write_text(PARSER)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(isolated_parser, "_MODULE", "endless_parser")
    isolated_parser.stop_parser()
    path = tmp_path / "model.mlir"
    path.write_text("module {}")
    with pytest.raises(LimitError, match="takes too long to parse"):
        amanda.load(path)
    isolated_parser.stop_parser()
