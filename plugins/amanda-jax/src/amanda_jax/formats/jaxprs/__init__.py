"""The format `jax` (functions, by tracing) and the mapping of jaxprs to the hub."""

from __future__ import annotations
