"""Modules of readers whose framework is not installed are not collected."""

from __future__ import annotations

from importlib.util import find_spec

_NEEDS = {"jax_files.py": "jax", "nd4j_files.py": "amanda_nd4j"}

collect_ignore = [name for name, need in _NEEDS.items() if find_spec(need) is None]
