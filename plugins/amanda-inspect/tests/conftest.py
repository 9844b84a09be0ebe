"""Tests import the modules of this folder: networks, and backends with faults."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
collect_ignore = ["networks.py", "planted.py", "planted_faults"]
