"""What tests of the XLA backend share: a count of compilations, XLA without oneDNN."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import jax
import pytest


class _Log(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += "Finished XLA compilation" in record.getMessage()


@contextmanager
def _logged_compilations() -> Iterator[_Log]:
    """Counts what JAX logs as compiled meanwhile."""
    log, logger = _Log(), logging.getLogger("jax._src.dispatch")
    logger.addHandler(log)
    propagate, logger.propagate = logger.propagate, False
    try:
        with jax.log_compiles():
            yield log
    finally:
        logger.propagate = propagate
        logger.removeHandler(log)


@pytest.fixture
def without_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA's own convolutions and products, even where amanda-onednn is installed."""
    from amanda_jax.cpu_tuning import packed_weights

    monkeypatch.setattr(packed_weights, "xla_kernels", lambda: None)


@pytest.fixture
def compilation_log():
    """A context that counts what JAX logs as compiled meanwhile."""
    return _logged_compilations
