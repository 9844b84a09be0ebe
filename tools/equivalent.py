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
_NO_AXES = "no axis is added, no number added or multiplied: the value as it is"
_MATRIX = "the last axis of a matrix is axis 1"
_VECTOR = "the only axis is the first and the last"
_SPARE_WORDS = "more random words than needed are made, and cut off"
_KNOWN_SIZES = "sizes that are known are computed at once, or else in the graph"
_SYMMETRIC = "a sum of two terms in either order"
_BINARY = "two ways to read one value"
EQUIVALENT: list[tuple[str, str, str]] = [
    (r"math\.segment_reduce\.segment_reduce", "if after: always.*", _NO_AXES),
    (r"nn\.activation\.hardmax|tensor\.rearrange\.take"
     r"|tensor\.index_arithmetic\.align_to_axis"
     r"|nn\.adaptive_pooling\.adaptive_avg_pool\.?.*",
     "if rest: always.*", _NO_AXES),
    (r"nn\.unfold\.fold", "if (given|difference): always.*", _NO_AXES),
    (r"vision\.(grid_sample\.affine_grid|space_to_depth\.batch_to_space)",
     "if given: always.*", _NO_AXES),
    (r"math\.reduction\.var", "if correction: always.*", _NO_AXES),
    (r"linalg\.matrices\.matrix_power", "if power: always.*", "one square too many"),
    (r"random\.prng\.(_counter_words|philox_blocks)", "-1 without its sign", _MATRIX),
    (r"random\.distributions\.(_box_muller_transform|_truncated_philox)",
     "-1 without its sign", _MATRIX),
    (r"random\.prng\.random_key|random\.distributions\.random_permutation",
     "axis=0 became -1", _VECTOR),
    (r"ml\.trees\.tree_(leaves|ensemble)", "axis=0 became -1", _VECTOR),
    (r"random\.prng\._philox_words|random\.distributions\._truncated_philox",
     r"FloorDiv became Mult in \(count \+ 3\).*|3 became 4", _SPARE_WORDS),
    (r"random\.distributions\.random_normal",
     r"FloorDiv became Mult in \(count \+ 1\).*|1 became 2", _SPARE_WORDS),
    (r"random\.distributions\._high_bits",
     "7 became 8", "no fraction of a float has eight bits"),
    (r"random\.prng\.size_of", "if isinstance.*always.*", _BINARY),
    (r"random\.distributions\._scalar_of", "if isinstance.*(always|never).*", _BINARY),
    (r"nn\.adaptive_pooling\._window_indices",
     "FloorDiv became Mult in old.*|2 became 3|1 became 2"
     r"|Sub became Add in -\(-.*|FloorDiv became Mult in -.*",
     "windows that are too long are masked"),
    (r"transformer\.scaled_dot_product\._scale_factor"

     r"|vision\.crop\.center_crop_pad|tensor\.dynamic_slice\.dynamic_slice"
     r"|nn\.causal_conv\._with_shape|nn\.local_response_norm\.lrn"
     r"|vision\.resize\._as_shape_argument|signal\.framing\._as_int64",
     r"if .*isinstance\(.*never.*", _KNOWN_SIZES),
    (r"signal\.framing\._as_int64", "if isinstance.*always.*", _BINARY),
    (r"tensor\.rearrange\._stack_integers", "if .*(always|never).*", _KNOWN_SIZES),
    (r"vision\.(grid_sample|resize)\.(_axis_taps|_taps)",
     "return .* in another order", _SYMMETRIC),
    (r"nn\.local_response_norm\.lp_norm", "if p == [12]: never.*", _SHORT_WAY),
    (r"nn\.fused_layers\.swiglu", "if alpha == 1: never.*|1 became 2", _SHORT_WAY),
    (r"transformer\.rotary_embedding\.rotary_embedding",
     "if depth == size: never.*", _SHORT_WAY),
    (r"transformer\.scaled_dot_product\.cast_to", "if dtype_of.*never.*", _SHORT_WAY),
    (r"transformer\.scaled_dot_product\._positions",
     "if not .*offset == 0.*always.*", "an offset of 0 is added"),
    (r"tensor\.index_arithmetic\.as_float64", "if isinstance.*never.*", _BINARY),
    (r"tensor\.saturating_cast\._bound_in",
     "if abs.*never.*|if beyond: always.*|0 became 1",
     "numbers beyond the bound become the limit, and any bound inside will do"),
    (r"linalg\.matrices\.diagonal_matrix",
     "1 became 2", "rows and columns are the same on the diagonal"),
    (r"math\.(segment_reduce\.segment_reduce|histogram\.histogram)",
     "if isinstance.*(always|never).*|[01] became [12]", _BINARY),
    (r"tensor\.index_arithmetic\.unpack_shape_argument",
     "if argument is None.*always.*|Is became IsNot.*", _BINARY),
    (r"signal\.mel\.mel_weights", "1 became 2|2 became 3",
     "an element more, or a divisor where the quotient is not taken"),
    (r"tensor\.saturating_cast\.saturating_cast",
     "if bound != end: always.*", "numbers beyond a limit become the limit twice"),
    (r"tensor\.saturating_cast\.saturating_cast",
     "if dtype.kind == 'float': never.*",
     "limits of a float are beyond those of the integers"),
    (r"math\.binary_special\.(sinc|divide_no_nan)",
     "1.0 became 2.0", "the divisor where the quotient is not taken"),
    (r"math\.reduction\.as_float", "if not isinstance.*always.*", _BINARY),
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
    (r"math\.reduction\.sum_to", "if not axes: never.*", _SHORT_WAY),
    (r"math\.reduction\.sum_to", "True became False", "the result is reshaped"),
    (r"math\.reduction\._was_broadcast",
     "And became Or.*", "sizes that broadcast differ only where one is 1"),
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
    (r"signal\.fourier\._transform", "2 became 3", "no type has three bytes"),
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
    (r".*\._layer_norm", ".*scale.ndim.*", "where the result goes"),
    (r"tensor\.manipulation\.pad", "if not any.*never.*", _SHORT_WAY),
    (r"tensor\.indexing\.gather", ".*object.*", _INFERRED),
    (r"tensor\.indexing\.gather_nd", "if not batch_dims.*never.*", _SHORT_WAY),
    (r"tensor\.scatter\.scatter_elements|.*\.places\.scatter_elements",
     "True became False",
     "indices in full do as well"),
    (r"nn\.convolution\.channels_first", "y.astype.*", _SHORT_WAY),
    (r"nn\.convolution\._depthwise", "[wx].astype.*|4 became 5", "the other is wide"),
    (r"nn\.convolution\.output_sizes", ".*", _INFERRED),
    (r"nn\.pooling\._pad_for_windows", ".*", "what is padded too much is never read"),
    (r"vision\.non_max_suppression\._intersection_over_union",
     r"BitAnd.*(areas|own) > 0\)|-1 without.*|[12] became.*", _NO_MATTER),
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
