"""Fuzz tests run in a process of their own where JAX is loaded, which forks badly.

Modules of readers whose framework is not installed are not collected.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

_NEEDS = {"jax_files.py": "jax", "nd4j_files.py": "amanda_nd4j"}

_SETTINGS = {k: v for k, v in os.environ.items() if k.startswith("AMANDA_FUZZ_")}

collect_ignore = [name for name, need in _NEEDS.items() if find_spec(need) is None]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test in a fresh process if this one has JAX with its threads."""
    if sys.modules.get("jax") is None:
        return None
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", pyfuncitem.nodeid]
    timeout = pyfuncitem.config.getoption("timeout", None)
    if timeout is not None:
        command.append(f"--timeout={timeout}")
    done = subprocess.run(
        command, cwd=pyfuncitem.config.rootpath, env={**os.environ, **_SETTINGS},
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"exit code {done.returncode}, see its output"
    return True
