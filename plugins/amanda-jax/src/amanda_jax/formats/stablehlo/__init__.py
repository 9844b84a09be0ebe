"""Programs of StableHLO: files and graphs of them, and graphs compiled to them."""

from __future__ import annotations
