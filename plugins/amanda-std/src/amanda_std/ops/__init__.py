"""Every op of the hub set, by name: `ops.relu(x)`, `ops.OPS["relu"]`.

Ops are discovered: every module of the packages here that has no leading underscore
declares some. Names are those of the Python array API standard where it has the
function; `if` and `while` are `ops.if_` and `ops.while_`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType, ModuleType

from amanda.errors import NamespaceError
from amanda_std.engine.operation import Operation


def _modules(package: str, paths: list[str]) -> Iterator[ModuleType]:
    for info in iter_modules(paths, f"{package}."):
        if info.name.rpartition(".")[2].startswith("_"):
            continue
        module = import_module(info.name)
        if info.ispkg:
            yield from _modules(info.name, list(module.__path__))
        else:
            yield module


def _declares_ops(module: ModuleType) -> bool:
    ops = (v for v in vars(module).values() if isinstance(v, Operation))
    return any(op.function.__module__ == module.__name__ for op in ops)


THEMES = tuple(filter(_declares_ops, _modules(__name__, __path__)))
"""The modules that declare ops."""


def _collect(themes: tuple[ModuleType, ...]) -> dict[str, Operation]:
    ops: dict[str, Operation] = {}
    declared = (v for t in themes for v in vars(t).values() if isinstance(v, Operation))
    for op in declared:
        if ops.setdefault(op.name, op) is not op:
            raise RuntimeError(f"two ops are named {op.name!r}")
    return ops


OPS: Mapping[str, Operation] = MappingProxyType(_collect(THEMES))


def find(name: str) -> Operation:
    """The op of this name; NamespaceError, with the nearest one, if there is none."""
    if name not in OPS:
        near = get_close_matches(name, OPS, n=1)
        raise NamespaceError(
            f"amanda/std/1 has no op {name!r}",
            hint=f"did you mean {near[0]!r}?" if near else None,
        )
    return OPS[name]


def __getattr__(name: str) -> Operation:
    result = OPS.get(name.removesuffix("_"))
    if result is None:
        raise AttributeError(f"amanda/std/1 has no op {name!r}")
    return result


def __dir__() -> list[str]:
    return [*OPS, "OPS", "find"]
