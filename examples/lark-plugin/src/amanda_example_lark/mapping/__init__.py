"""The mapping between Lark and the hub. Rules and functions beside this are found."""

from __future__ import annotations

from amanda.mapping import HubMapping

__all__ = ["MAPPING"]

MAPPING = HubMapping("lark-std", "example/lark", package=__name__)
"""The entry `lark-std` of `amanda.mappings`."""
