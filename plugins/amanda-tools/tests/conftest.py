"""Tests import the modules of this folder: models of three namespaces."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
collect_ignore = ["tool_samples.py"]
