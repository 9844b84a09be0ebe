"""The process of `isolated_parser`: reads requests as lines, and answers them."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

import amanda
from amanda.errors import AmandaError, FormatError, LimitError
from amanda_jax.formats.stablehlo.isolated_parser import GRAPH, GROWTH, PROGRAM, TEXT

_MEMORY: Final = 512 << 20
_MEMORY_PER_BYTE: Final = 40
_SECONDS: Final = 4
"""Processor time; some damaged artifacts are parsed without end."""
_SECONDS_PER_BYTE: Final = 2e-5


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "wb") as nothing:  # MLIR and plug-ins may print
        os.dup2(nothing.fileno(), 1)
    from amanda_jax.formats.stablehlo.mlir_types import context

    with context():
        _send(answers, b"ready")
        start = _address_space()
        for line in sys.stdin.buffer:
            answer = _answer(json.loads(line))
            answer[GROWTH] = _address_space() - start
            _send(answers, json.dumps(answer).encode())


def _send(answers: BinaryIO, line: bytes) -> None:
    answers.write(line + b"\n")
    answers.flush()


def _answer(request: dict[str, str]) -> dict[str, Any]:
    folder, name = Path(request["folder"]), request["name"]
    content = (folder / PROGRAM).read_bytes()
    _limit_memory(_MEMORY + _MEMORY_PER_BYTE * len(content))
    _limit_time(_SECONDS + _SECONDS_PER_BYTE * len(content))
    try:
        return _VERBS[request["verb"]](content, name, folder)
    except AmandaError as error:
        return {"error": _fields(error)}
    except MemoryError:
        return {"error": _fields(LimitError(f"{name} needs too much memory"))}
    except Exception as error:  # noqa: BLE001 - the bindings raise errors of many types
        got = f"{type(error).__name__}: {error}"[:500]
        return {
            "error": _fields(FormatError(f"{name} is no StableHLO program", got=got))
        }
    finally:
        _limit_time(0)


def _limit_time(seconds: float) -> None:
    """End the process by SIGPROF after this much processor time; 0: never."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _limit_memory(size: int) -> None:
    """Limit the address space to `size` bytes beyond what is in use."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        used = _address_space()
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        limit = used + size
        if hard != resource.RLIM_INFINITY:
            limit = min(limit, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def _address_space() -> int:
    """Bytes of address space in use; 0 where the system does not say."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _fields(error: AmandaError) -> dict[str, Any]:
    names = ("message", "who", "where", "expected", "got", "hint")
    found = {name: _text(getattr(error, name)) for name in names}
    return {
        "kind": type(error).__name__,
        "problems": [str(problem) for problem in error.problems],
        **found,
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _parse(content: bytes, name: str) -> Any:
    from amanda_jax.formats.stablehlo.format import parse_module

    return parse_module(content, name)


def _read(content: bytes, name: str, folder: Path) -> dict[str, Any]:
    from jaxlib.mlir import ir

    from amanda_jax.formats.stablehlo.reading import read_module

    with ir.Location.unknown():
        graph = read_module(_parse(content, name))
    amanda.save(graph, folder / GRAPH)
    return {}


def _print(content: bytes, name: str, folder: Path) -> dict[str, Any]:
    text = _parse(content, name).operation.get_asm(enable_debug_info=True)
    (folder / TEXT).write_text(text, encoding="utf-8")
    return {}


def _check(content: bytes, name: str, _: Path) -> dict[str, Any]:
    from amanda_jax.formats.stablehlo.reading import walk_operations

    module = _parse(content, name)
    calls = {
        (
            str(op.attributes["call_target_name"].value),
            len(op.operands),
            len(op.results),
        )
        for op in walk_operations(module.operation)
        if op.name == "stablehlo.custom_call"
    }
    return {"calls": sorted(calls)}


_VERBS: Final = {"read": _read, "print": _print, "check": _check}

if __name__ == "__main__":
    main()
