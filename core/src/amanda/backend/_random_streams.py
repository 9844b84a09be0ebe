"""Streams of random numbers: how often each was drawn from, in calls of an executable.

Random ops without a seed of their own draw keys from a stream, which advances with
every draw: by call, and by iteration of a loop.
"""

from __future__ import annotations

import os
from contextvars import ContextVar, Token
from threading import Lock

from amanda.errors import UsageError

__all__ = ["RandomStreams", "random_streams", "use_random_streams"]


class RandomStreams:
    """The seed of all streams, and a counter of draws for each.

    Without a seed it is taken from the entropy of the operating system.

    >>> streams = RandomStreams(7)
    >>> streams.advance(1), streams.advance(1), streams.advance(2, by=3)
    (0, 1, 0)
    """

    def __init__(self, seed: int | None = None) -> None:
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise UsageError(
                "the seed is not an integer", expected="an int", got=repr(seed)
            )
        self.seed = int.from_bytes(os.urandom(8)) if seed is None else seed % 2**64
        self._counts: dict[int, int] = {}
        self._lock = Lock()

    def copy(self) -> RandomStreams:
        """Streams that draw from here on what these do."""
        twin = RandomStreams(self.seed)
        with self._lock:
            twin._counts = dict(self._counts)
        return twin

    def advance(self, stream: int, by: int = 1) -> int:
        """The number of draws from a stream so far; `by` more are counted."""
        with self._lock:
            count = self._counts.get(stream, 0)
            self._counts[stream] = count + by
        return count


_OUTSIDE_OF_CALLS = RandomStreams()
_in_use: ContextVar[RandomStreams] = ContextVar(
    "amanda_random_streams", default=_OUTSIDE_OF_CALLS
)


def random_streams() -> RandomStreams:
    """The streams of the running call; outside of calls, those of the process."""
    return _in_use.get()


class use_random_streams:  # noqa: N801  read as a verb
    """Context in which `random_streams()` are these."""

    __slots__ = ("_streams", "_token")

    def __init__(self, streams: RandomStreams) -> None:
        self._streams = streams

    def __enter__(self) -> None:
        self._token: Token[RandomStreams] = _in_use.set(self._streams)

    def __exit__(self, *_: object) -> None:
        _in_use.reset(self._token)
