"""Sessions: repeated runs that compute only what depends on changed feeds."""

from __future__ import annotations

from amanda.argument_checks import check_arguments
from amanda.session._session import NonFiniteValue, RunStatistics, Session

__all__ = ["NonFiniteValue", "RunStatistics", "Session"]

check_arguments(globals())
