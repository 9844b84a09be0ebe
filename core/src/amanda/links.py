"""What a floor may ask of those above it, which it does not know.

Imports go down only. Where something below has to answer with what stands above, the
package, which is above them all, puts the way there when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["definition"]


def _nowhere(_: Any) -> Any:
    return None


definition: Callable[[Any], Any] = _nowhere
"""The entry of an op in the dictionary of its namespace; None where there is none."""
