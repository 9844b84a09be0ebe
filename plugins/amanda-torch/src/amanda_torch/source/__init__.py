"""Graphs of PyTorch's ops as Python source."""

from __future__ import annotations

from amanda_torch.source.source_file import SourceFormat

__all__ = ["SourceFormat"]
