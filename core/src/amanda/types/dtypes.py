"""Element types, all declared in the table below.

Only `DType.numpy` and `DType.of` import numpy.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from amanda.argument_checks import checks_itself
from amanda.errors import InvalidTypeError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["DType", "ElementType", "Quantized"]


class DType:
    """The type of one element. There is one object per type, so `is` compares.

    - `name`: the canonical long name, also `str(dtype)`
    - `kind`: bool, int, uint, float, complex, string, bytes, quantized, handle, unknown
    - `bits`: width of one packed element; 0 if it varies or there is no data (string,
      bytes, handles, unknown)

    >>> DType("f32") is DType("float32") is float32
    True
    >>> DType("int4").bits
    4
    """

    __slots__ = ("_numpy", "_numpy_name", "bits", "kind", "name")

    name: str
    kind: str
    bits: int
    _numpy_name: str | None
    _numpy: Any

    _by_name: ClassVar[dict[str, DType]] = {}
    _by_numpy: ClassVar[dict[Any, DType]] = {}  # cache of `of`

    def __new__(cls, name: object) -> DType:  # noqa: PYI034
        if isinstance(name, DType):
            return name
        found = cls._by_name.get(name) if type(name) is str else None
        if found is None:
            raise InvalidTypeError(
                "no such element type",
                expected=f"one of {', '.join(dtype_names())}, or an alias such as f32",
                got=reprlib.repr(name),
            )
        return found

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a DType cannot be changed ({name})")

    @property
    def numpy(self) -> np.dtype[Any]:
        """The numpy type of an unpacked element; that of the storage for `qint8` etc.

        Raises InvalidTypeError if numpy and ml_dtypes have none.
        """
        if self._numpy is None:
            object.__setattr__(self, "_numpy", _numpy_type(self))
        return self._numpy  # type: ignore[no-any-return]

    @classmethod
    def of(cls, source: Any) -> DType:
        """The element type of an array, of a numpy dtype or of a numpy scalar type.

        A dtype of another array library has the name of the element type after a dot,
        as `torch.float32`. Byte order is ignored; numpy's str, bytes and object types
        are `string`.
        """
        own = getattr(source, "dtype", source)
        if isinstance(own, DType):
            return own
        try:
            return cls._by_numpy[own]
        except (KeyError, TypeError):  # not cached, or not a numpy type
            found = _from_numpy(own)
        if found is not string:  # numpy has a type for each length
            cls._by_numpy[own] = found
        return found

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[type[DType], tuple[str]]:
        return (DType, (self.name,))

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, memo: object) -> DType:
        return self


def dtype_names() -> list[str]:
    """All canonical names, in the order of the table."""
    return [name for name, dtype in DType._by_name.items() if name == dtype.name]


def _numpy_type(dtype: DType) -> np.dtype[Any]:
    import numpy as np

    name = dtype._numpy_name
    if name is not None:
        scalar: Any = getattr(np, name, None)
        if scalar is None:
            import ml_dtypes

            scalar = getattr(ml_dtypes, name, None)
        if scalar is not None:
            found: np.dtype[Any] = np.dtype(scalar)
            return found
    raise InvalidTypeError(f"{dtype} has no numpy type", who=f"dtype {dtype}")


def _from_numpy(source: Any) -> DType:
    import numpy as np

    try:
        given = np.dtype(source)
    except (KeyError, SyntaxError, TypeError, ValueError):  # by the kind of source
        given = None
    if given is not None:
        if given.kind in "SUOT":
            return string
        found = DType._by_name.get(given.name)
        if found is not None and found._numpy_name is not None:
            return found
    elif type(source).__name__ == "dtype":  # of another array library
        found = DType._by_name.get(str(source).rpartition(".")[2])
        if found is not None:
            return found
    raise InvalidTypeError(
        "no element type corresponds to this numpy type",
        got=reprlib.repr(source if given is None else given),
    )


def _declare(
    name: str, kind: str, bits: int, *aliases: str, numpy: str | None = ""
) -> DType:
    """Declare an element type; `numpy` is its name in numpy or ml_dtypes.

    The default is the same name; None if no numpy type can represent it.
    """
    dtype = object.__new__(DType)
    fields = {"name": name, "kind": kind, "bits": bits, "_numpy": None}
    fields["_numpy_name"] = name if numpy == "" else numpy
    for field, value in fields.items():
        object.__setattr__(dtype, field, value)
    for key in (name, *aliases):
        if key in DType._by_name:
            raise InvalidTypeError(f"the element type name {key!r} is given twice")
        DType._by_name[key] = dtype
    return dtype


bool_ = _declare("bool", "bool", 8, "boolean", numpy="bool_")

int1 = _declare("int1", "int", 1)
int2 = _declare("int2", "int", 2, "i2")
int4 = _declare("int4", "int", 4, "i4")
int8 = _declare("int8", "int", 8, "i8")
int16 = _declare("int16", "int", 16, "i16")
int32 = _declare("int32", "int", 32, "i32")
int64 = _declare("int64", "int", 64, "i64")

uint1 = _declare("uint1", "uint", 1, "u1")
uint2 = _declare("uint2", "uint", 2, "u2")
uint3 = _declare("uint3", "uint", 3, "u3", numpy=None)
uint4 = _declare("uint4", "uint", 4, "u4")
uint6 = _declare("uint6", "uint", 6, "u6", numpy=None)
uint8 = _declare("uint8", "uint", 8, "u8")
uint16 = _declare("uint16", "uint", 16, "u16")
uint32 = _declare("uint32", "uint", 32, "u32")
uint64 = _declare("uint64", "uint", 64, "u64")

nf4 = _declare("nf4", "float", 4, numpy=None)
float4_e2m1fn = _declare("float4_e2m1fn", "float", 4, "f4e2m1fn", "float4e2m1")
float6_e2m3fn = _declare("float6_e2m3fn", "float", 6, "f6e2m3fn")
float6_e3m2fn = _declare("float6_e3m2fn", "float", 6, "f6e3m2fn")
float8_e3m4 = _declare("float8_e3m4", "float", 8, "f8e3m4")
float8_e4m3 = _declare("float8_e4m3", "float", 8, "f8e4m3")
float8_e4m3b11fnuz = _declare("float8_e4m3b11fnuz", "float", 8, "f8e4m3b11fnuz")
float8_e4m3fn = _declare("float8_e4m3fn", "float", 8, "f8e4m3fn", "float8e4m3fn")
float8_e4m3fnuz = _declare(
    "float8_e4m3fnuz", "float", 8, "f8e4m3fnuz", "float8e4m3fnuz"
)
float8_e5m2 = _declare("float8_e5m2", "float", 8, "f8e5m2", "float8e5m2")
float8_e5m2fnuz = _declare(
    "float8_e5m2fnuz", "float", 8, "f8e5m2fnuz", "float8e5m2fnuz"
)
float8_e8m0fnu = _declare("float8_e8m0fnu", "float", 8, "f8e8m0fnu", "float8e8m0")
bfloat16 = _declare("bfloat16", "float", 16, "bf16")
float16 = _declare("float16", "float", 16, "f16", "half")
float32 = _declare("float32", "float", 32, "f32", "float")
float64 = _declare("float64", "float", 64, "f64", "double")

bcomplex32 = _declare("bcomplex32", "complex", 32)
complex32 = _declare("complex32", "complex", 32, "c32")
complex64 = _declare("complex64", "complex", 64, "c64")
complex128 = _declare("complex128", "complex", 128, "c128")

string = _declare("string", "string", 0, "str", numpy="object_")
bytes_ = _declare("bytes", "bytes", 0, numpy="object_")

qint8 = _declare("qint8", "quantized", 8, numpy="int8")
quint8 = _declare("quint8", "quantized", 8, numpy="uint8")
qint16 = _declare("qint16", "quantized", 16, numpy="int16")
quint16 = _declare("quint16", "quantized", 16, numpy="uint16")
qint32 = _declare("qint32", "quantized", 32, numpy="int32")

resource = _declare("resource", "handle", 0, numpy=None)
variant = _declare("variant", "handle", 0, numpy=None)
unknown = _declare("unknown", "unknown", 0, numpy=None)


@checks_itself
@dataclass(frozen=True, slots=True, repr=False)
class Quantized:
    """A quantized element type: integers (or small floats) that represent real numbers.

    `real = (stored - zero_point) * scale`. A single scale is per tensor. With `axis`,
    there is one scale per index along it; with `block` too, one per block of that many
    elements along it, and per index of the other axes, in row-major order. Without a
    scale, it is known at run time, or too large for a type and stored separately.

    >>> Quantized("int8", scale=0.5, zero_point=3)
    quantized<int8, float32, scale=0.5, zero_point=3>
    """

    storage: DType
    expressed: DType
    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None
    block: int | None

    kind: ClassVar[str] = "quantized"

    def __init__(
        self,
        storage: DType | str,
        expressed: DType | str = float32,
        scale: float | Sequence[float] = (),
        zero_point: int | Sequence[int] = (),
        axis: int | None = None,
        block: int | None = None,
    ) -> None:
        scales = _numbers(scale, float, "scale")
        zeros = _numbers(zero_point, int, "zero_point")
        if axis is not None and type(axis) is not int:
            raise InvalidTypeError("the axis of a quantized type is an int", got=axis)
        if block is not None and (axis is None or type(block) is not int or block < 1):
            raise InvalidTypeError(
                "a block is a positive count along an axis", got=(axis, block)
            )
        if axis is None and max(len(scales), len(zeros)) > 1:
            raise InvalidTypeError(
                "a quantized type with several scales needs an axis",
                got=f"{len(scales)} scales, {len(zeros)} zero points",
            )
        values = (DType(storage), DType(expressed), scales, zeros, axis, block)
        for name, value in zip(self.__slots__, values, strict=True):
            object.__setattr__(self, name, value)

    @property
    def name(self) -> str:
        return str(self)

    @property
    def bits(self) -> int:
        return self.storage.bits

    @property
    def numpy(self) -> np.dtype[Any]:
        """The numpy type of the storage."""
        return self.storage.numpy

    def __repr__(self) -> str:
        parts = [str(self.storage), str(self.expressed)]
        for name in ("scale", "zero_point"):
            values = getattr(self, name)
            if values:
                text = ", ".join(map(repr, values))
                parts.append(f"{name}={text if len(values) == 1 else f'[{text}]'}")
        if self.axis is not None:
            parts.append(f"axis={self.axis}")
        if self.block is not None:
            parts.append(f"block={self.block}")
        return f"quantized<{', '.join(parts)}>"


ElementType: TypeAlias = DType | Quantized


def _numbers(given: Any, kind: type, what: str) -> tuple[Any, ...]:
    """Convert to a tuple of finite numbers, as equality and text require."""
    is_several = isinstance(given, Sequence) and not isinstance(given, str | bytes)
    values = tuple(given) if is_several else (given,)
    for value in values:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        if not fits or not isfinite(value) or (kind is int and int(value) != value):
            raise InvalidTypeError(
                f"the {what} of a quantized type is finite {kind.__name__}s",
                got=reprlib.repr(value),
            )
    return tuple(map(kind, values))
