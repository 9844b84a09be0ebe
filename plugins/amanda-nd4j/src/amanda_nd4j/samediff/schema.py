"""The tables of SameDiff's FlatBuffers: the fields of each by their slot.

A field has a kind: `int8` to `float64` and `bool`, `string`, the name of a table, or a
list of one of these. Files of 2018 have other slots, and ops by number only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

__all__ = ["CURRENT", "OF_2018", "SCALARS", "Schema", "Table"]

Table: TypeAlias = tuple[tuple[str, str], ...]
Schema: TypeAlias = Mapping[str, Table]

SCALARS: Final[Mapping[str, str]] = {
    "int8": "b", "bool": "?", "int32": "i", "int64": "q", "float32": "f",
    "float64": "d",
}  # fmt: skip
"""The kinds of numbers, with their codes in `struct`."""


def _table(text: str) -> Table:
    rows = (line.split() for line in text.strip().splitlines())
    return tuple((name, kind) for name, kind in rows)


_PAIR: Final = _table("""
    first int32
    second int32
""")
_CONFIGURATION: Final = _table("""
    id int64
    executionMode int8
    profilingMode int8
    outputMode int8
    timestats bool
    footprintForward int64
    footprintBackward int64
    direction int8
""")

CURRENT: Final[Schema] = {
    "IntPair": _PAIR,
    "FlatConfiguration": _CONFIGURATION,
    "FlatArray": _table("""
        shape [int64]
        buffer [int8]
        dtype int8
        byteOrder int8
        bufferChunks [BufferChunk]
        totalBufferSize int64
        externalDataFilename [string]
        isExternal bool
        appendedDataOffset int64
        appendedDataLength int64
    """),
    "BufferChunk": _table("""
        data [int8]
        chunkIndex int32
    """),
    "FlatProperties": _table("""
        name string
        i [int32]
        l [int64]
        d [float64]
        a [FlatArray]
        b [bool]
        s [string]
        shape [int32]
    """),
    "FlatNode": _table("""
        id int32
        name string
        opType int8
        opNum int64
        properties [FlatProperties]
        input [int32]
        inputPaired [IntPair]
        output [int32]
        extraParams [float64]
        extraInteger [int64]
        extraBools [bool]
        dimensions [int32]
        device int32
        scope_id int32
        scope_name string
        outputNames [string]
        opName string
        outputTypes [int8]
        scalar FlatArray
        controlDeps [string]
        varControlDeps [string]
        controlDepFor [string]
        extraTypes [int8]
        extraStrings [string]
    """),
    "FlatVariable": _table("""
        id IntPair
        name string
        dtype int8
        shape [int64]
        ndarray FlatArray
        device int32
        variabletype int8
        controlDeps [string]
        controlDepForOp [string]
        controlDepsForVar [string]
    """),
    "UpdaterState": _table("""
        paramName string
        updaterStateKeys [string]
        updaterStateValues [FlatArray]
    """),
    "FlatGraph": _table("""
        id int64
        variables [FlatVariable]
        nodes [FlatNode]
        outputs [IntPair]
        configuration FlatConfiguration
        placeholders [string]
        lossVariables [string]
        trainingConfig string
        updaterState [UpdaterState]
        metadataKeys [string]
        metadataValues [string]
    """),
}

OF_2018: Final[Schema] = {
    "IntPair": _PAIR,
    "FlatConfiguration": _CONFIGURATION,
    "FlatArray": CURRENT["FlatArray"][:4],
    "FlatProperties": CURRENT["FlatProperties"][:5],
    "FlatNode": _table("""
        id int32
        name string
        opType int8
        opNum int64
        properties [FlatProperties]
        input [int32]
        inputPaired [IntPair]
        dataType int8
        output [int32]
        extraParams [float64]
        extraInteger [int64]
        dimensions [int32]
        device int32
        scalar float32
        scope_id int32
        scope_name string
    """),
    "FlatVariable": _table("""
        id IntPair
        name string
        shape [int64]
        ndarray FlatArray
        device int32
    """),
    "FlatGraph": CURRENT["FlatGraph"][:5],
}
