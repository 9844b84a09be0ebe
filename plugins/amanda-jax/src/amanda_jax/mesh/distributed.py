"""Multi-process execution by `jax.distributed`: several processes share one mesh."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amanda.errors import BackendError

__all__ = ["join", "parse_distributed"]

_FORM: Final = "HOST:PORT,PROCESSES,PROCESS"


def parse_distributed(given: Any) -> dict[str, Any] | None:
    """The arguments of `jax.distributed.initialize`, empty where it finds them out;
    None for one process.

    >>> parse_distributed("10.0.0.1:9000,2,1")["process_id"]
    1
    """
    if given is None or given is False or given == "":
        return None
    if given is True:
        return {}
    if isinstance(given, Mapping):
        return dict(given)
    address, *numbers = [part.strip() for part in str(given).split(",")]
    _, colon, port = address.rpartition(":")
    if not (
        colon and port.isdecimal() and len(numbers) == 2
        and all(number.isdecimal() for number in numbers)
        and int(numbers[1]) < int(numbers[0])
    ):  # fmt: skip
        raise BackendError(
            "the option 'distributed' of backend 'jax' cannot be read",
            expected=f"true, or {_FORM} with processes counted from 0, such as "
            f"10.0.0.1:9000,2,0, or a dict for jax.distributed.initialize",
            got=repr(given),
        )
    count, number = map(int, numbers)
    return {
        "coordinator_address": address,
        "num_processes": count,
        "process_id": number,
    }


def join(given: Any) -> bool:
    """Make this process one of several, unless it is already; return whether it is one.

    It has to be called before JAX is used for anything else."""
    settings = parse_distributed(given)
    if settings is None:
        return False
    import jax

    if jax.distributed.is_initialized():
        return True
    try:
        jax.distributed.initialize(**settings)
    except (RuntimeError, TypeError, ValueError) as error:
        raise BackendError(
            "this process cannot be one of several",
            got=f"{type(error).__name__}: {' '.join(str(error).split())}",
            hint=f"name the processes: distributed={_FORM!r}; and compile with it "
            f"before JAX is used, or call jax.distributed.initialize first of all",
        ) from error
    return True
