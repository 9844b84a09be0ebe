"""Passes over graphs of the hub set. Each says how much it changed."""

from __future__ import annotations

from amanda_std.passes.drop import drop
from amanda_std.passes.fold import fold
from amanda_std.passes.infer import infer
from amanda_std.passes.share import share

__all__ = ["drop", "fold", "infer", "share"]
