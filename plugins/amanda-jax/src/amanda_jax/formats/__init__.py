"""Formats and mappings of JAX: jaxprs and StableHLO."""
