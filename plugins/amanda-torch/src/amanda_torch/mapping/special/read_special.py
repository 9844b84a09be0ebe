"""From PyTorch: special functions of floats; integers become float32."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from amanda_std import ops
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.elementwise.read_arithmetic import binary
from amanda_torch.mapping.elementwise.read_unary import of_floats
from amanda_torch.mapping.type_promotion import as_float, number, promote

__all__ = ["READ"]


def read_polygamma(n: int, x: Any) -> Any:
    x = as_float(x)
    return ops.digamma(x) if n == 0 else ops.polygamma(np.int64(n), x)


def read_multivariate_lgamma(x: Any, p: int) -> Any:
    x = as_float(x)
    total: Any = number(p * (p - 1) / 4 * math.log(math.pi), x.dtype)
    for j in range(p):
        total = total + ops.lgamma(x - number(j / 2, x.dtype))
    return total


def read_entropy(x: Any) -> Any:
    """-x * log(x), 0 at 0 and -inf below."""
    x = as_float(x)
    zero = number(0, x.dtype)
    found = ops.where(ops.greater(x, zero), ops.negative(x) * ops.log(x),
                      number(float("-inf"), x.dtype))  # fmt: skip
    found = ops.where(ops.equal(x, zero), zero, found)
    return ops.where(ops.isnan(x), x, found)


def read_spherical_j0(x: Any) -> Any:
    x = as_float(x)
    small = ops.less(ops.abs(x), number(0.5, x.dtype))
    square = x * x
    near = number(1, x.dtype)
    series: Any = near
    for k in range(6, 0, -1):
        series = near - square / number((2 * k) * (2 * k + 1), x.dtype) * series
    safe = ops.where(small, near, x)
    far = ops.where(ops.isinf(x), number(0, x.dtype), ops.sin(safe) / safe)
    return ops.where(small, series, far)


_AIRY_FAR = (
    (3.46538101525629032477e-01, 1.20075952739645805542e01, 7.62796053615234516538e01,
     1.68089224934630576269e02, 1.59756391350164413639e02, 7.05360906840444183113e01,
     1.40264691163389668864e01, 9.99999999999999995305e-01),
    (5.67594532638770212846e-01, 1.47562562584847203173e01, 8.45138970141474626562e01,
     1.77318088145400459522e02, 1.64234692871529701831e02, 7.14778400825575695274e01,
     1.40959135607834029598e01, 1.00000000000000000470e00),
)  # fmt: skip
"""A quotient of polynomials of 1 / zeta for positive numbers (Cephes)."""
_AIRY_SINE = (
    (-1.31696323418331795333e-01, -6.26456544431912369773e-01,
     -6.93158036036933542233e-01, -2.79779981545119124951e-01,
     -4.91900132609500318020e-02, -4.06265923594885404393e-03,
     -1.59276496239262096340e-04, -2.77649108155232920844e-06,
     -1.67787698489114633780e-08),
    (1.0, 1.33560420706553243746e01, 3.26825032795224613948e01,
     2.67367040941499554804e01,
     9.18707402907259625840e00, 1.47529146771666414581e00, 1.15687173795188044134e-01,
     4.40291641615211203805e-03, 7.54720348287414296618e-05,
     4.51850092970580378464e-07),
)  # fmt: skip
_AIRY_COSINE = (
    (1.97339932091685679179e-02, 3.91103029615688277255e-01, 1.06579897599595591108e00,
     9.39169229816650230044e-01, 3.51465656105547619242e-01, 6.33888919628925490927e-02,
     5.85804113048388458567e-03, 2.82851600836737019778e-04, 6.98793669997260967291e-06,
     8.11789239554389293311e-08, 3.41551784765923618484e-10),
    (1.0, 9.30892908077441974853e00, 1.98352928718312140417e01,
     1.55646628932864612953e01,
     5.47686069422975497931e00, 9.54293611618961883998e-01, 8.64580826352392193095e-02,
     4.12656523824222607191e-03, 1.01259085116509135510e-04, 1.17166733214413521882e-06,
     4.91834570062930015649e-09),
)  # fmt: skip
_AIRY_LIMIT, _AIRY_SCALE = 2.09, 5.64189583547756286948e-01
_AIRY_AT_0 = (0.355028053887817239260, -0.258819403792806798405)
"""The value and the derivative."""


def _quotient(x: Any, rows: Sequence[Sequence[float]]) -> Any:
    return _horner(x, rows[0]) / _horner(x, rows[1])


def _horner(x: Any, coefficients: Sequence[float]) -> Any:
    total: Any = number(0, x.dtype)
    for each in coefficients:
        total = total * x + number(each, x.dtype)
    return total


def read_airy(x: Any) -> Any:
    """The Airy function Ai: a power series near 0, asymptotic quotients beyond it."""
    x = as_float(x)
    limit = number(_AIRY_LIMIT, x.dtype)
    size = ops.maximum(ops.abs(x), limit)
    root, third = ops.sqrt(size), number(2 / 3, x.dtype)
    zeta = third * size * root
    z, scale = ops.reciprocal(zeta), number(_AIRY_SCALE, x.dtype) / ops.sqrt(root)
    half = number(0.5, x.dtype)
    right = half * scale * ops.exp(ops.negative(zeta)) * _quotient(z, _AIRY_FAR)
    angle, square = zeta + number(math.pi / 4, x.dtype), z * z
    sine = number(1, x.dtype) + square * _quotient(square, _AIRY_SINE)
    cosine = z * _quotient(square, _AIRY_COSINE)
    left = scale * (ops.sin(angle) * sine - ops.cos(angle) * cosine)
    found = ops.where(ops.less(x, number(0, x.dtype)), left, right)
    found = ops.where(ops.less(ops.abs(x), limit), _airy_series(x, limit), found)
    return ops.where(ops.isinf(x), number(math.nan, x.dtype), found)


def _airy_series(x: Any, limit: Any) -> Any:
    x = ops.clip(x, ops.negative(limit), limit)
    cube, one = x * x * x, number(1, x.dtype)
    f: Any = one
    g: Any = one
    for k in range(20, 0, -1):
        f = one + cube * f / number(3 * k * (3 * k - 1), x.dtype)
        g = one + cube * g / number(3 * k * (3 * k + 1), x.dtype)
    value, slope = (number(each, x.dtype) for each in _AIRY_AT_0)
    return value * f + slope * x * g


def _polynomial(
    first: Callable[[Any], Any], step: Callable[[Any, Any, Any, Any], Any],
    change: Callable[[Any], Any] = lambda x: x,
) -> Callable[..., Any]:  # fmt: skip
    """A rule for polynomials P_n by P_0 = 1, P_1, and a step to P_(k + 1).

    `step(k, x, P_k, P_(k - 1))`; 0 for a negative n.
    """

    def read(x: Any, n: Any) -> Any:
        x, n = promote(x, n, floating=True)
        total = x + ops.zeros_like(n)
        order = ops.trunc(n + ops.zeros_like(x))
        x = change(total)
        one, zero = ops.ones_like(x), ops.zeros_like(x)
        start = first(x)
        found = ops.where(ops.less(order, one), one, start)

        def body(k: Any, last: Any, now: Any, found: Any) -> Any:
            following = step(k, x, now, last)
            k = k + number(1, x.dtype)
            return k, now, following, ops.where(ops.equal(order, k), following, found)

        highest = ops.max(ops.where(ops.isfinite(order), order, zero))
        found = ops.while_(
            lambda k, *_: ops.less(k, highest), body, number(1, x.dtype), one, start,
            found,
        )[3]  # fmt: skip
        return ops.where(ops.less(order, zero), zero, found)

    return read


def _by_two_x(_k: Any, x: Any, now: Any, last: Any) -> Any:
    return x * now * number(2, x.dtype) - last


def _hermite_step(k: Any, x: Any, now: Any, last: Any) -> Any:
    return number(2, x.dtype) * (x * now - k * last)


def _probabilist_step(k: Any, x: Any, now: Any, last: Any) -> Any:
    return x * now - k * last


def _laguerre_step(k: Any, x: Any, now: Any, last: Any) -> Any:
    one = number(1, x.dtype)
    return ((k + k + one - x) * now - k * last) / (k + one)


def _legendre_step(k: Any, x: Any, now: Any, last: Any) -> Any:
    one = number(1, x.dtype)
    return ((k + k + one) * x * now - k * last) / (k + one)


def _double(x: Any) -> Any:
    return x * number(2, x.dtype)


def _less_one(x: Any) -> Any:
    return _double(x) - number(1, x.dtype)


def _more_one(x: Any) -> Any:
    return _double(x) + number(1, x.dtype)


def _identity(x: Any) -> Any:
    return x


_CHEBYSHEV = {"t": _identity, "u": _double, "v": _less_one, "w": _more_one}
"""The first polynomial of each kind."""


def _names(*names: str) -> str:
    """Names of an op, with those in the module `special`."""
    return " ".join(f"{n} special_{n}" for n in names)


_POLYNOMIALS: dict[str, Any] = {
    **{f"chebyshev_polynomial_{kind}": _polynomial(first, _by_two_x)
       for kind, first in _CHEBYSHEV.items()},
    **{f"shifted_chebyshev_polynomial_{kind}":
       _polynomial(first, _by_two_x, _less_one)
       for kind, first in _CHEBYSHEV.items()},
    "hermite_polynomial_h": _polynomial(_double, _hermite_step),
    "hermite_polynomial_he": _polynomial(_identity, _probabilist_step),
    "laguerre_polynomial_l":
        _polynomial(lambda x: number(1, x.dtype) - x, _laguerre_step),
    "legendre_polynomial_p": _polynomial(_identity, _legendre_step),
}  # fmt: skip


def _with_scalars(name: str) -> str:
    """An op with the overloads where one argument is a number."""
    return f"{name} {name}.n_scalar {name}.x_scalar"


_FLOAT_FUNCTIONS: dict[str, Any] = {
    _names("erf"): ops.erf,
    _names("erfc"): ops.erfc,
    "special_erfcx": ops.erfcx,
    _names("erfinv"): ops.erfinv,
    "lgamma special_gammaln": ops.lgamma,
    "digamma special_digamma special_psi": ops.digamma,
    "special_ndtr": ops.ndtr,
    "special_ndtri": ops.ndtri,
    "special_log_ndtr": ops.log_ndtr,
    "i0 special_i0 special_modified_bessel_i0": ops.i0,
    "special_i0e": ops.i0e,
    "special_i1 special_modified_bessel_i1": ops.i1,
    "special_i1e": ops.i1e,
    "special_bessel_j0": ops.j0,
    "special_bessel_j1": ops.j1,
    "special_bessel_y0": ops.y0,
    "special_bessel_y1": ops.y1,
    "special_modified_bessel_k0": ops.k0,
    "special_modified_bessel_k1": ops.k1,
    "special_scaled_modified_bessel_k0": ops.k0e,
    "special_scaled_modified_bessel_k1": ops.k1e,
}

READ = torch_functions(
    {
        **{name: of_floats(op) for name, op in _FLOAT_FUNCTIONS.items()},
        "igamma special_gammainc": binary(ops.gammainc, floating=True),
        "igammac special_gammaincc": binary(ops.gammaincc, floating=True),
        "special_zeta special_zeta.self_scalar special_zeta.other_scalar":
            binary(ops.zeta, floating=True),
        "polygamma special_polygamma": read_polygamma,
        "mvlgamma special_multigammaln": read_multivariate_lgamma,
        "special_airy_ai": read_airy,
        "special_entr": read_entropy,
        "special_spherical_bessel_j0": read_spherical_j0,
        **{_with_scalars(f"special_{name}"): rule
           for name, rule in _POLYNOMIALS.items()},
    }
)  # fmt: skip
