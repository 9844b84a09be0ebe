"""Sessions: a graph that is run again and again, as far as something changed."""

from __future__ import annotations

from amanda.session._session import Found, Ran, Session

__all__ = ["Found", "Ran", "Session"]
