"""Write the ops that a library of TensorFlow 0.12 to 1.15 registers, as JSON.

    python3.6 registered_ops.py OUT LIBRARY[,LIBRARY] [ADDED ...]

Runs as a separate process of the Python that the libraries were built for, and in its
syntax; TensorFlow itself is not imported. OUT has the op list of the library,
serialized by itself, before and after the added libraries are loaded, and the errors of
those that cannot be loaded: some require GPU libraries.
"""

import ctypes
import json
import os
import sys
from typing import Any


class Buffer(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("free", ctypes.c_void_p),
    )


def op_list_of_c_api(library: Any) -> bytes:
    """The op list from the C API, which libraries have since 1.3."""
    function = library.TF_GetAllOpList
    function.restype = ctypes.POINTER(Buffer)
    buffer = function().contents
    return ctypes.string_at(buffer.data, buffer.length)


def op_list_of_registry(library: Any) -> bytes:
    """The op list from the C++ registry, whose symbols older libraries export."""
    registry = library._ZN10tensorflow10OpRegistry6GlobalEv
    registry.restype = ctypes.c_void_p
    ops = ctypes.create_string_buffer(4096)  # an OpList, which is smaller
    library._ZN10tensorflow6OpListC1Ev(ops)
    export = library._ZNK10tensorflow10OpRegistry6ExportEbPNS_6OpListE
    export.argtypes = (ctypes.c_void_p, ctypes.c_bool, ctypes.c_void_p)
    export(registry(), True, ops)
    try:
        size = library._ZNK10tensorflow6OpList12ByteSizeLongEv
    except AttributeError:
        size = library._ZNK10tensorflow6OpList8ByteSizeEv
    size.restype = ctypes.c_size_t
    content = ctypes.create_string_buffer(size(ops))
    name = "_ZNK10tensorflow6OpList39InternalSerializeWithCachedSizesToArrayEbPh"
    write = getattr(library, name)
    write.argtypes = (ctypes.c_void_p, ctypes.c_bool, ctypes.c_void_p)
    write(ops, True, content)
    return content.raw


def load(library: Any, file: str) -> None:
    """Load a library of ops.

    Some register ops that the main library has, which is no error if TensorFlow loads
    them; it can since 1.3.
    """
    if not hasattr(library, "TF_LoadLibrary"):
        ctypes.CDLL(file, mode=os.RTLD_LAZY)
        return
    library.TF_NewStatus.restype = ctypes.c_void_p
    library.TF_LoadLibrary.argtypes = (ctypes.c_char_p, ctypes.c_void_p)
    library.TF_GetCode.argtypes = (ctypes.c_void_p,)
    library.TF_Message.argtypes = (ctypes.c_void_p,)
    library.TF_Message.restype = ctypes.c_char_p
    status = library.TF_NewStatus()
    library.TF_LoadLibrary(file.encode(), status)
    if library.TF_GetCode(status):
        raise OSError(library.TF_Message(status).decode())


def main(out: str, library: str, *added: str) -> None:
    mode = os.RTLD_LAZY | os.RTLD_GLOBAL
    parts = [ctypes.CDLL(file, mode=mode) for file in library.split(",")]
    has_c_api = hasattr(parts[-1], "TF_GetAllOpList")
    op_list = op_list_of_c_api if has_c_api else op_list_of_registry
    before = op_list(parts[-1])
    failed = {}
    for file in added:
        try:
            load(parts[-1], file)
        except OSError as error:
            failed[os.path.basename(file)] = str(error)
    after = op_list(parts[-1])
    answer = {"before": before.hex(), "after": after.hex(), "failed": failed}
    with open(out, "w") as stream:
        json.dump(answer, stream)
    os._exit(0)  # these libraries cannot be unloaded


if __name__ == "__main__":
    main(*sys.argv[1:])
