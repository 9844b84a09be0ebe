"""Frameworks that a test process must not import; see `tools/test_runs.py`."""

from __future__ import annotations

import os
import sys

for _name in os.environ.get("AMANDA_TEST_WITHOUT", "").split():
    sys.modules.setdefault(_name, None)  # type: ignore[arg-type]  # import fails
