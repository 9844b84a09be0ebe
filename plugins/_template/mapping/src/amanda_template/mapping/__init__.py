"""The mapping between the framework and the hub, both ways.

Rules are discovered: the `*.rules` files of this package, and the tables `READ` and
`WRITE` of its modules.
"""

from __future__ import annotations

from amanda.mapping import HubMapping

__all__ = ["MAPPING"]

MAPPING = HubMapping("template-std", "amanda/template", package=__name__)
"""The entry `template-std` of `amanda.mappings`."""
