"""Makes the helpers of these tests importable, and those of amanda-native's."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "amanda-native" / "tests")]
