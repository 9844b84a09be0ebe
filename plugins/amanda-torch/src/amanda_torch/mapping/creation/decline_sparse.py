"""From PyTorch: sparse tensors, which the hub does not have."""

from __future__ import annotations

from typing import Any, Final

from amanda.mapping import Decline

__all__ = ["READ"]

_MAKERS: Final = {
    "to_sparse": ("default", "sparse_dim"),
    "_to_sparse": ("default", "sparse_dim"),
    **{
        f"{prefix}to_sparse_{kind}": ("default",)
        for kind in ("csr", "csc", "bsr", "bsc")
        for prefix in ("", "_")
    },
    "sparse_coo_tensor": ("size", "indices", "indices_size"),
    "_sparse_coo_tensor_unsafe": ("default",),
    "_sparse_coo_tensor_with_dims_and_tensors": ("default",),
    "sparse_csr_tensor": ("crow_col_value", "crow_col_value_size"),
    "sparse_csc_tensor": ("ccol_row_value", "ccol_row_value_size"),
    "sparse_bsr_tensor": ("crow_col_value", "crow_col_value_size"),
    "sparse_bsc_tensor": ("ccol_row_value", "ccol_row_value_size"),
    "sparse_compressed_tensor": ("comp_plain_value", "comp_plain_value_size"),
}
"""Ops that make sparse tensors, and their overloads."""


def decline_sparse(*values: Any, **attributes: Any) -> Any:
    del values, attributes
    raise Decline(
        "its result is a sparse tensor, and tensors of the hub are dense; export the "
        "model with to_dense() instead, and with sparse=False in its layers"
    )


READ: dict[str, Any] = {
    f"aten.{name}.{overload}": decline_sparse
    for name, overloads in _MAKERS.items()
    for overload in overloads
}
