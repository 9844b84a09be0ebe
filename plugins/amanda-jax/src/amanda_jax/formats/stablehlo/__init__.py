"""StableHLO: a format, a mapping from the hub, and a backend."""

from __future__ import annotations
