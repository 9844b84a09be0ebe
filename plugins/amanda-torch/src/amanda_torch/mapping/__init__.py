"""The mapping between PyTorch and the hub."""

from __future__ import annotations

from amanda.mapping import HubMapping

__all__ = ["MAPPING"]

MAPPING = HubMapping("torch-std", "amanda/torch", package=__name__)
"""The entry `torch-std` of `amanda.mappings`."""
