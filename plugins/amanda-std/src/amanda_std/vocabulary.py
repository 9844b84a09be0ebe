"""The dictionary of the hub set, derived from the operations: nothing is told twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from amanda.errors import NamespaceError
from amanda_std import NAMESPACE

if TYPE_CHECKING:
    from amanda.dictionary import Attr, OpDef, Port
    from amanda_std.kinds import Kind, Param
    from amanda_std.operation import Operation

VERSION = "1"

_KINDS = {bool: "bool", int: "int", float: "float", str: "string"}


class Std:
    """`amanda/std/1`: op types and their entries."""

    name = NAMESPACE

    def __contains__(self, op_type: object, /) -> bool:
        from amanda_std.ops import OPS

        return op_type in OPS

    def __getitem__(self, op_type: str, /) -> OpDef:
        from amanda_std.ops import find

        return entry(find(op_type))

    def __iter__(self) -> Iterator[str]:
        from amanda_std.ops import OPS

        return iter(sorted(OPS))

    def __len__(self) -> int:
        from amanda_std.ops import OPS

        return len(OPS)

    def signature(self, op_type: str) -> Any:
        """What the mapping engine asks; None where there is no such op."""
        from amanda_std.side import SIDE

        return SIDE.signature(op_type)


class StdVocabulary:
    """All versions of the hub set: there is one."""

    def versions(self) -> Sequence[str]:
        return [VERSION]

    def at(self, version: str) -> Std:
        if version != VERSION:
            raise NamespaceError(
                f"there is no version {version} of amanda/std", expected=VERSION
            )
        return Std()


VOCABULARY = StdVocabulary()


@cache
def entry(operation: Operation) -> OpDef:
    """The dictionary entry that the form of an op amounts to."""
    from amanda.dictionary import Attr, OpDef
    from amanda_std.kinds import BODY, HOST

    form = operation.form
    ports = [_port(p) for p in form.params if p.role != BODY]
    hosts = [Attr(p.name, "sparse", False) for p in form.params if p.role == HOST]
    bodies = [Attr(p.name, "graph") for p in form.params if p.role == BODY]
    shared = [p.kind for p in form.params if p.role == "tensor" and p.kind.shared]
    variables = [_variable("T", shared[0])] if shared else []
    variables += [
        _variable(_own(p.name), p.kind)
        for p in form.params
        if p.role == "tensor" and not p.kind.shared
    ]
    return OpDef(
        operation.name,
        inputs=tuple(ports),
        outputs=_outputs(operation),
        attrs=(*hosts, *bodies, *(_attr(k, v) for k, v in form.attributes.items())),
        variables=tuple(variables),
        traits=frozenset({"commutative"} if operation.commutative else ()),
        since=VERSION,
        doc=operation.doc,
    )


def _own(name: str) -> str:
    """The type variable of a tensor whose element type is its own."""
    return f"T_{name}"


def _port(param: Param) -> Port:
    from amanda.dictionary import Port
    from amanda.types import int64
    from amanda_std.kinds import HOST

    if param.role == HOST:
        return Port(param.name, int64, "optional")
    type_ = "T" if param.kind.shared else _own(param.name)
    if param.variadic:
        return Port(param.name, type_, "many" if param.kind.shared else "each")
    return Port(param.name, type_, "optional" if param.optional else "one")


def _outputs(operation: Operation) -> tuple[Port, ...]:
    from amanda.dictionary import Port

    form = operation.form
    names = (
        ["y"] if len(form.results) == 1 else [f"y{i}" for i in range(len(form.results))]
    )
    rows = zip(names, form.results, strict=True)
    return tuple(
        Port(name, _result_type(kind), "each" if form.varies else "one")
        for name, kind in rows
    )


def _result_type(kind: Kind) -> Any:
    if kind.attribute is not None:
        return kind.attribute
    if kind.dtype is not None:
        return kind.dtype
    return "T" if kind.shared else "V"


def _variable(name: str, kind: Kind) -> Attr:
    from amanda.dictionary import Attr
    from amanda.types import DType
    from amanda.types.dtypes import all_names

    allowed = tuple(
        dtype for dtype in map(DType, all_names()) if dtype.kind in kind.kinds
    )
    return Attr(name, "dtype", allowed=allowed)


def _attr(name: str, default: Any) -> Attr:
    """An attribute; one whose default does not tell its kind takes any value."""
    from amanda.dictionary import Attr
    from amanda_std.kinds import REQUIRED

    if name == "dtype":
        return Attr(name, "dtype", default is REQUIRED)
    kind = _KINDS.get(type(default), "sparse")
    if default is REQUIRED:
        return Attr(name, "sparse")
    return Attr(name, kind, False, default)
