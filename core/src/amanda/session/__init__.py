"""Sessions: a graph that is run again and again, as far as something changed."""

from __future__ import annotations

from amanda.session._session import NonFiniteValue, RunStatistics, Session

__all__ = ["NonFiniteValue", "RunStatistics", "Session"]
