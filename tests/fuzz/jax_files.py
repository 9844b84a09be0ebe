"""Programs of StableHLO, saved executables, and files of the disk cache."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax.export  # not in each child
import jaxlib.mlir.ir  # noqa: F401
import numpy as np
from fuzz.child_seeds import seeds_of_child
from fuzz.graph_files import change_text
from fuzz.readers import Reader
from fuzz.stages import REFUSED, run_stage, try_stages
from proto.proto_mutations import break_bytes

import amanda
import amanda_jax
import amanda_jax.compile.disk_cache
import amanda_jax.compile.stored_program
import amanda_jax.export.saved_program
import amanda_jax.formats.stablehlo.format
from amanda_jax.compile.disk_cache import DiskCache
from amanda_jax.formats.stablehlo.isolated_parser import stop_parser
from amanda_std import ops

__all__ = ["READERS"]

_KEY = "0" * 64


def _dense(x: Any) -> Any:
    weight = np.arange(6, dtype="float32").reshape(3, 2)
    return ops.relu(ops.matmul(x, weight) + np.float32(1))


def _softmax(x: Any) -> Any:
    return ops.softmax(ops.transpose(x, perm=(1, 0)), axes=(-1,))


def _pool(x: Any) -> Any:
    y = ops.reshape(x, [1, 1, 2, 3])
    return ops.max_pool(ops.conv(y, np.ones((1, 1, 1, 2), "float32")), window=(2, 1))


def _choice(x: Any) -> Any:
    return ops.where(x > 0, ops.sort(x, axis=0), ops.cumulative_sum(x, 1))


def _two(x: Any) -> Any:
    return ops.topk(x, 2)


_FUNCTIONS: tuple[Callable[[Any], Any], ...] = (_dense, _softmax, _pool, _choice, _two)


def _graphs() -> list[amanda.Graph]:
    shape = amanda.parse_type("float32[2, 3]")
    hub: Any = amanda.namespace("std")
    return [hub.trace(function, [shape], function.__name__) for function in _FUNCTIONS]


# -- StableHLO -------------------------------------------------------------------------


def _write_programs(folder: Path) -> None:
    for i, graph in enumerate(_graphs()):
        program = amanda.convert(graph, "stablehlo")
        for suffix in ("mlir", "stablehlo"):
            amanda.save(program, folder / f"{i}.{suffix}")


_TEXTS = (
    "%0", "%arg0", "@main", "@f", "tensor<2x3xf32>", "tensor<?xf32>", "tensor<0xi64>",
    "tensor<99999999999x99999999999xf32>", "dense<0.0>", "dense<[1, 2]>", "i1", "f64",
    "dense<\"0xFFFF\">", "[0, 1]", "[-1]", "array<i64: 9, 9>", "stablehlo.add",
    "stablehlo.custom_call @x(%arg0)", "return", "func.func private @f()", "{", "}",
    "(", "#stablehlo<x>", "9223372036854775807", "-1", "stablehlo.while",
    "loc(unknown)", "stablehlo.reshape", "stablehlo.composite", "!stablehlo.token",
    "complex<f32>",
    "tuple<tensor<f32>>", "quant.uniform<i8:f32, 0.1>",
)  # fmt: skip


def _change_program(data: bytes, good: Sequence[bytes], choose: random.Random) -> bytes:
    if data.startswith(b"ML\xefR"):
        return break_bytes(data, choose)
    if choose.random() < 0.5:
        return change_text(data, [g for g in good if g[:2] != b"ML"], choose)
    words = data.split(b" ")
    for _ in range(choose.choice([1, 1, 2, 3])):
        new = choose.choice([choose.choice(words), choose.choice(_TEXTS).encode()])
        words[choose.randrange(len(words))] = new
    return b" ".join(words)


# -- saved executables -----------------------------------------------------------------


def _write_executables(folder: Path) -> None:
    for i, graph in enumerate(_graphs()):
        compiled = amanda.compile(graph, "jax")
        compiled([np.zeros((2, 3), "float32")])
        executable: Any = compiled.executable
        executable.save(folder / f"{i}.saved")


def _change_archive(data: bytes, good: Sequence[bytes], choose: random.Random) -> bytes:
    """The archive differs, or a member of a sound one."""
    if choose.random() < 0.3:
        return break_bytes(data, choose)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    name = choose.choice(list(content))
    if name == "about.json":
        content[name] = change_text(content[name], [content[name]], choose)
    elif choose.random() < 0.1:
        del content[name]
    else:
        content[name] = break_bytes(content[name], choose)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for key, value in content.items():
            archive.writestr(key, value)
    return file.getvalue()


def _restore(path: Path, folder: Path, choose: random.Random) -> str:
    """Load a saved program; it is not called, since its code is the file's."""
    found = run_stage("restore", amanda_jax.load_saved_program, path)
    return REFUSED if found is None else "restored"


# -- the disk cache --------------------------------------------------------------------


def _write_cached(folder: Path) -> None:
    for i, function in enumerate((lambda x: x + 1, lambda x: x * x)):
        compiled = jax.jit(function).lower(np.zeros(3, "float32")).compile()
        disk = DiskCache(folder, 1 << 30, jax.devices("cpu")[0])
        disk.store(_KEY, compiled, {"names": [], "sizes": [1, 2]})
        assert disk.counts["written"] == 1
        disk._path(_KEY).rename(folder / f"{i}.compiled")


def _with_digest(content: bytes) -> bytes:
    module = amanda_jax.compile.disk_cache
    return module.MAGIC + module._digest(content) + b"\n" + content


def _change_cached(data: bytes, good: Sequence[bytes], choose: random.Random) -> bytes:
    """Any bytes; or another header, with the digest of this user, and no program."""
    if choose.random() < 0.5:
        return break_bytes(data, choose)
    header = data.split(b"\n")[2]
    if choose.random() < 0.8:
        header = change_text(header, [header], choose)
    return _with_digest(header + choose.choice([b"\n", b"\n" + data[-200:]]))


def _load_cached(path: Path, folder: Path, choose: random.Random) -> str:
    """A file that is not what was stored is refused, whatever is wrong."""
    disk = DiskCache(folder, 1 << 30, jax.devices("cpu")[0])
    file = path.rename(disk._path(_KEY))
    file.chmod(0o600)
    found = disk.load(_KEY, [((3,), "float32")], 0)
    file.unlink()
    assert (found is None) == bool(disk.counts["refused"])
    return REFUSED if found is None else "loaded"


_programs = cache(partial(seeds_of_child, _write_programs))
_executables = cache(partial(seeds_of_child, _write_executables))
_cached = cache(partial(seeds_of_child, _write_cached))
_reader = partial(Reader, warm=False)

READERS = [
    _reader("stablehlo", 3, _programs, _change_program, try_stages, stop_parser),
    _reader("executable", 1, _executables, _change_archive, _restore, stop_parser),
    _reader("disk-cache", 2, _cached, _change_cached, _load_cached),
]
