"""Functions of JAX as graphs: read by tracing, and mapped to the hub set."""

from __future__ import annotations
