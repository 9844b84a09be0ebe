"""Mutants of `mutate.py` that are equivalent to the original, with the reason.

A row names a function and as few of its changes as possible, since a wider one could
hide what samples miss.
"""

from __future__ import annotations

__all__ = ["EQUIVALENT"]

_LIBRARY = "what scipy and numpy do with half precision by themselves"
_SHORT_WAY = "a short way to what the long way gives too"
_SIGNS = "a sign is its own inverse"
_READS_HALF = "LAPACK reads the lower half only"
_OTHERS = "matters to other libraries: amanda-jax has the test"
_INFERRED = "met by inference only: test_inferred_types_fit"
_PRECISION = "more digits than are asked for"
_NO_MATTER = "any such number will do"
EQUIVALENT: list[tuple[str, str, str]] = [
    (".*", r".*\.astype\('int6.* left out", "numpy's places have 64 bits"),
    (".*", "[12] became [23] in itemsize", "there is no such width"),
    (r"math\.arithmetic\.truncate_quotient",
     "if a.dtype.kind == 'u': never.*", _SHORT_WAY),
    (r"math\.arithmetic\.truncate_quotient", "0 became 1", "nothing is divided by 0"),
    (r"math\.arithmetic\.truncate_quotient",
     "up.astype.*", "a bool is added as the number it is"),
    (r"math\.elementary\.call_scipy_special", "x.astype.*", _LIBRARY),
    (r"math\.special\._call_scipy",
     "0 became 1|x.astype.*", "all have one type; " + _LIBRARY),
    (r"math\.special\.polygamma", ".*'fd'.*|x.astype.*", _LIBRARY),
    (r"math\.bits\._bit_width", "if isinstance.*never.*", _SHORT_WAY),
    (r"math\.bits\.bitcast", "if min.*always.*|8 became 9", _SHORT_WAY),
    (r"math\.reduction\._accumulation_type",
     "2 became 3", "no element type has three bytes"),
    (r"math\.reduction\._axis",
     ".*always taken", "numpy takes one axis as well as a tuple"),
    (r"math\.reduction\._extreme_by_kernel",
     "if 0 not in kept: always.*", "nothing is filled"),
    (r"math\.cumulative\._scan", "if x.shape.*never.*", _SHORT_WAY),
    (r"linalg\.accumulation\.accumulate_wide", "if np_ is.*|[12] became.*", _OTHERS),
    (r"linalg\.accumulation\.accumulate_wide", ".*y.dtype == kept.*|y.astype.*",
     "numpy keeps the element type: " + _OTHERS),
    (r"linalg\.matrices\.cholesky|linalg\.factorizations\.eigh",
     "Add became Sub in low.*|1 became 2", _READS_HALF),
    (r"linalg\.matrices\.call_lapack", "2 became 3", "no type has three bytes"),
    (r"linalg\.matrices\.triangular_solve", "if b.*always.*", _SHORT_WAY),
    (r"linalg\.factorizations\.qr|"
     r"linalg\.factorizations\.eigh|linalg\.factorizations\.svd",
     "Mult became Div.*", _SIGNS),
    (r"linalg\.factorizations\._column_signs",
     ".*", "any weights that no vector is across"),
    (r"linalg\.factorizations\.lu", "if not x.*never.*", _SHORT_WAY),
    (r"nn\.window_reduction\._reduce_axis", r".*count \* many.*",
     "the faster of two ways"),
    (r"nn\.window_reduction\._padded_span", "if not any.*never.*", _SHORT_WAY),
    (r"text\.regex\._compile_pattern", "if may_backtrack.*always.*",
     "linear matching finds the same"),
    (r"math\.complex_numbers\.complex_type", ".*unknown.*", _INFERRED),
    (r"signal\.fourier\._transform", ".*itemsize.*|2 became 3|x.astype.*", _LIBRARY),
    (r"signal\.fourier\._transform", "1 became 2", _NO_MATTER),
    (r"tensor\.shape\.astype", ".*always taken|And became Or.*|NotEq became Eq.*",
     "the real part of a real number is it itself"),
    (r".*\._matmul", ".*out is not None.*|In became NotIn in a.dtype.char.*",
     "where the result goes"),
    (r".*\._matmul", "(if|And|LtE|In) .*a.dtype.kind in 'fV'.*|LtE .*itemsize.*",
     "numpy and ml_dtypes add up in float32 by themselves"),
    (r".*\._matmul", "[ab].astype.*|.*y.dtype is.*|y.astype.*|2 became 3", _SHORT_WAY),
    (r".*\._(sum|mean)", "2 became 3|y.astype.*|if axes == .*never.*", _SHORT_WAY),
    (r".*\._mean", "if is_small.*never.*", _LIBRARY),
    (r".*\._stack", "if xs.*always.*|0 became 1", _SHORT_WAY),
    (r".*\._softmax", ".*never.*|0 became 1", _SHORT_WAY),
    (r".*\._layer_norm", ".*scale.ndim.*", "where the result goes"),
    (r"tensor\.manipulation\.pad", "if not any.*never.*", _SHORT_WAY),
    (r"tensor\.indexing\.gather", ".*object.*", _INFERRED),
    (r"tensor\.indexing\.gather_nd", "if not batch_dims.*never.*", _SHORT_WAY),
    (r"tensor\.scatter\.scatter_elements|.*\.places\.scatter_elements",
     "True became False",
     "indices in full do as well"),
    (r"nn\.convolution\.channels_first", "if .*(always|never) taken|Eq became NotEq.*",
     _SHORT_WAY),
    (r"nn\.convolution\.channels_first", "1 became 2|y.astype.*", _SHORT_WAY),
    (r"nn\.convolution\._depthwise", "[wx].astype.*|4 became 5", "the other is wide"),
    (r"nn\.convolution\.output_sizes", ".*", _INFERRED),
    (r"nn\.pooling\._pad_for_windows", ".*", "what is padded too much is never read"),
    (r"vision\.non_max_suppression\._intersection_over_union",
     "BitAnd.*|-1 without.*|[12] became.*", _NO_MATTER),
    (r"vision\.non_max_suppression\.nms|vision\.non_max_suppression\.soft_nms",
     ".*astype\\('float64'\\) left out", _PRECISION),
    (r"vision\.non_max_suppression\.nms", "0.0 became 1.0", _NO_MATTER),
    (r"control\.stacking\.empty_rows|control\.stacking\._is_static",
     ".*", "of bodies that are graphs"),
    (r"control\.stacking\.stack_rows",
     "0 became 1|1 became 2|.*never.*", "refuses, or is told"),
    (r"control\.loops\.loop",
     "(True became False|0 became 1)", "a round that is not counted"),
    (r"containers\.sequences\.sequence_insert",
     "1 became 2", "refuses less: test_diagnostics.py"),
    (r"text\.strings\.map_strings", "if dtype is object.*never.*", _SHORT_WAY),
    (r"text\.strings\.string_split", "1 became 2", _NO_MATTER),
    (r"text\.strings\._parse_bool", ".*always.*", "refuses less: test_diagnostics.py"),
    (r"text\.strings\._format_number",
     "if .*(never|always) taken|Eq became.*|0 became 1",
     "Python's own text of the number"),
    (r"control\.state\.variable", ".*", "of a running executable: test_effects.py"),
    (r".*\.linear\.(lu|triangular_solve)", r"if not [xb]\.size: never.*",
     "JAX makes nothing of nothing by itself"),
    (r".*\.kernels\.bits\.bitcast", "if 'c' in .*always.*", _SHORT_WAY),
    (r".*\.special\.call|.*\.fourier\.dft", "2 became 3",
     "no type has three bytes"),
    (r".*\.fourier\.dft", "0 became 1", "JAX reads the last part where there is one"),
]  # fmt: skip
"""Regular expressions of functions and changes, with the reason."""
