"""The primitives that JAX defines, printed as JSON by a process of its own.

`jax.extend.core.primitives` lacks many, such as `stack` and `shard_map`, so these are
the primitives in all modules that the public modules below load. In another process
more modules may be loaded, so that the list would differ.

Pallas and cuDNN are left out: their primitives are in kernels of their own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from typing import Final

__all__ = ["list_primitives"]

_PUBLIC: Final = (
    "jax", "jax.custom_batching", "jax.custom_derivatives", "jax.export",
    "jax.extend.core.primitives", "jax.ffi", "jax.lax", "jax.nn", "jax.numpy",
    "jax.random", "jax.scipy.linalg", "jax.scipy.special", "jax.tree_util",
    "jax.experimental.checkify", "jax.experimental.io_callback",
)  # fmt: skip
_LEFT_OUT: Final = ("jax._src.pallas", "jax._src.cudnn", "jax.experimental.pallas")


def list_primitives() -> dict[str, bool]:
    """The names of the primitives, and whether each has several results."""
    done = subprocess.run(
        [sys.executable, __file__], capture_output=True, text=True, check=True
    )
    found: dict[str, bool] = json.loads(done.stdout)
    return found


def _loaded_primitives() -> dict[str, bool]:
    from jax.extend.core import Primitive

    modules = {n: m for n, m in sys.modules.items() if n.partition(".")[0] == "jax"}
    return {
        value.name: value.multiple_results
        for name in sorted(modules)
        if not name.startswith(_LEFT_OUT)
        for value in vars(modules[name]).values()
        if isinstance(value, Primitive)
    }


if __name__ == "__main__":
    for name in _PUBLIC:
        try:
            import_module(name)
        except ModuleNotFoundError:  # of another version of JAX
            continue
    json.dump(_loaded_primitives(), sys.stdout)
