"""Bessel functions that JAX does not have, by the approximations of Cephes.

Near 0: quotients of polynomials, and Chebyshev series for k0 and k1. Beyond 5, and 2:
asymptotic expansions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax.numpy as jnp
from jax.scipy import special

__all__ = ["KERNELS"]

_J0_P_OVER: Final = (
    7.96936729297347051624e-04, 8.28352392107440799803e-02, 1.23953371646414299388e00,
    5.44725003058768775090e00, 8.74716500199817011941e00, 5.30324038235394892183e00,
    9.99999999999999997821e-01,
)  # fmt: skip

_J0_P_UNDER: Final = (
    9.24408810558863637013e-04, 8.56288474354474431428e-02, 1.25352743901058953537e00,
    5.47097740330417105182e00, 8.76190883237069594232e00, 5.30605288235394617618e00,
    1.00000000000000000218e00,
)  # fmt: skip

_J0_Q_OVER: Final = (
    -1.13663838898469149931e-02, -1.28252718670509318512e00,
    -1.95539544257735972385e01, -9.32060152123768231369e01,
    -1.77681167980488050595e02, -1.47077505154951170175e02,
    -5.14105326766599330220e01, -6.05014350600728481186e00,
)  # fmt: skip

_J0_Q_UNDER: Final = (
    1.0, 6.43178256118178023184e01, 8.56430025976980587198e02,
    3.88240183605401609683e03, 7.24046774195652478189e03, 5.93072701187316984827e03,
    2.06209331660327847417e03, 2.42005740240291393179e02,
)  # fmt: skip

_J0_NEAR_OVER: Final = (
    -4.79443220978201773821e09, 1.95617491946556577543e12, -2.49248344360967716204e14,
    9.70862251047306323952e15,
)  # fmt: skip

_J0_NEAR_UNDER: Final = (
    1.0, 4.99563147152651017219e02, 1.73785401676374683123e05,
    4.84409658339962045305e07, 1.11855537045356834862e10, 2.11277520115489217587e12,
    3.10518229857422583814e14, 3.18121955943204943306e16, 1.71086294081043136091e18,
)  # fmt: skip

_J1_P_OVER: Final = (
    7.62125616208173112003e-04, 7.31397056940917570436e-02, 1.12719608129684925192e00,
    5.11207951146807644818e00, 8.42404590141772420927e00, 5.21451598682361504063e00,
    1.00000000000000000254e00,
)  # fmt: skip

_J1_P_UNDER: Final = (
    5.71323128072548699714e-04, 6.88455908754495404082e-02, 1.10514232634061696926e00,
    5.07386386128601488557e00, 8.39985554327604159757e00, 5.20982848682361821619e00,
    9.99999999999999997461e-01,
)  # fmt: skip

_J1_Q_OVER: Final = (
    5.10862594750176621635e-02, 4.98213872951233449420e00, 7.58238284132545283818e01,
    3.66779609360150777800e02, 7.10856304998926107277e02, 5.97489612400613639965e02,
    2.11688757100572135698e02, 2.52070205858023719784e01,
)  # fmt: skip

_J1_Q_UNDER: Final = (
    1.0, 7.42373277035675149943e01, 1.05644886038262816351e03,
    4.98641058337653607651e03, 9.56231892404756170795e03, 7.99704160447350683650e03,
    2.82619278517639096600e03, 3.36093607810698293419e02,
)  # fmt: skip

_J1_NEAR_OVER: Final = (
    -8.99971225705559398224e08, 4.52228297998194034323e11, -7.27494245221818276015e13,
    3.68295732863852883286e15,
)  # fmt: skip

_J1_NEAR_UNDER: Final = (
    1.0, 6.20836478118054335476e02, 2.56987256757748830383e05,
    8.35146791431949253037e07, 2.21511595479792499675e10, 4.74914122079991414898e12,
    7.84369607876235854894e14, 8.95222336184627338078e16, 5.32278620332680085395e18,
)  # fmt: skip

_Y0_NEAR_OVER: Final = (
    1.55924367855235737965e04, -1.46639295903971606143e07, 5.43526477051876500413e09,
    -9.82136065717911466409e11, 8.75906394395366999549e13, -3.46628303384729719441e15,
    4.42733268572569800351e16, -1.84950800436986690637e16,
)  # fmt: skip

_Y0_NEAR_UNDER: Final = (
    1.0, 1.04128353664259848412e03, 6.26107330137134956842e05,
    2.68919633393814121987e08, 8.64002487103935000337e10, 2.02979612750105546709e13,
    3.17157752842975028269e15, 2.50596256172653059228e17,
)  # fmt: skip

_Y1_NEAR_OVER: Final = (
    1.26320474790178026440e09, -6.47355876379160291031e11, 1.14509511541823727583e14,
    -8.12770255501325109621e15, 2.02439475713594898196e17, -7.78877196265950026825e17,
)  # fmt: skip

_Y1_NEAR_UNDER: Final = (
    1.0, 5.94301592346128195359e02, 2.35564092943068577943e05,
    7.34811944459721705660e07, 1.87601316108706159478e10, 3.88231277496238566008e12,
    6.20557727146953693363e14, 6.87141087355300489866e16, 3.97270608116560655612e18,
)  # fmt: skip

_K0_NEAR: Final = (
    1.37446543561352307156e-16, 4.25981614279661018399e-14,
    1.03496952576338420167e-11, 1.90451637722020886025e-09,
    2.53479107902614945675e-07, 2.28621210311945178607e-05,
    1.26461541144692592338e-03, 3.59799365153615016266e-02,
    3.44289899924628486886e-01, -5.35327393233902768720e-01,
)  # fmt: skip

_K0_FAR: Final = (
    5.30043377268626276149e-18, -1.64758043015242134646e-17,
    5.21039150503902756861e-17, -1.67823109680541210385e-16,
    5.51205597852431940784e-16, -1.84859337734377901440e-15,
    6.34007647740507060557e-15, -2.22751332699166985548e-14,
    8.03289077536357521100e-14, -2.98009692317273043925e-13,
    1.14034058820847496303e-12, -4.51459788337394416547e-12,
    1.85594911495471785253e-11, -7.95748924447710747776e-11,
    3.57739728140030116597e-10, -1.69753450938905987466e-09,
    8.57403401741422608519e-09, -4.66048989768794782956e-08,
    2.76681363944501510342e-07, -1.83175552271911948767e-06,
    1.39498137188764993662e-05, -1.28495495816278026384e-04,
    1.56988388573005337491e-03, -3.14481013119645005427e-02, 2.44030308206595545468e00,
)  # fmt: skip

_K1_NEAR: Final = (
    -7.02386347938628759343e-18, -2.42744985051936593393e-15,
    -6.66690169419932900609e-13, -1.41148839263352776110e-10,
    -2.21338763073472585583e-08, -2.43340614156596823496e-06,
    -1.73028895751305206302e-04, -6.97572385963986435018e-03,
    -1.22611180822657148235e-01, -3.53155960776544875667e-01,
    1.52530022733894777053e00,
)  # fmt: skip

_K1_FAR: Final = (
    -5.75674448366501715755e-18, 1.79405087314755922667e-17,
    -5.68946255844285935196e-17, 1.83809354436663880070e-16,
    -6.05704724837331885336e-16, 2.03870316562433424052e-15,
    -7.01983709041831346144e-15, 2.47715442448130437068e-14,
    -8.97670518232499435011e-14, 3.34841966607842919884e-13,
    -1.28917396095102890680e-12, 5.13963967348173025100e-12,
    -2.12996783842756842877e-11, 9.21831518760500529508e-11,
    -4.19035475934189648750e-10, 2.01504975519703286596e-09,
    -1.03457624656780970260e-08, 5.74108412545004946722e-08,
    -3.50196060308781257119e-07, 2.40648494783721712015e-06,
    -1.93619797416608296024e-05, 1.95215518471351631108e-04,
    -2.85781685962277938680e-03, 1.03923736576817238437e-01, 2.72062619048444266945e00,
)  # fmt: skip


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    return jnp.polyval(jnp.asarray(coefficients, x.dtype), x)


def _quotient(x: Any, over: Sequence[float], under: Sequence[float]) -> Any:
    return _polynomial(x, over) / _polynomial(x, under)


_ZEROS_OF_J0: Final = (5.78318596294678452118, 30.4712623436620863991)
_ZEROS_OF_J1: Final = (14.6819706421238932572, 49.2184563216946036703)
"""Squares of the first two zeros."""
_P: Final = {0: (_J0_P_OVER, _J0_P_UNDER), 1: (_J1_P_OVER, _J1_P_UNDER)}
_Q: Final = {0: (_J0_Q_OVER, _J0_Q_UNDER), 1: (_J1_Q_OVER, _J1_Q_UNDER)}


def _far(x: Any, order: int) -> tuple[Any, Any]:
    """The functions of the first and of the second kind from 5 on."""
    x = jnp.maximum(x, 5)
    ratio = 5 / x
    p = _quotient(ratio * ratio, *_P[order])
    q = ratio * _quotient(ratio * ratio, *_Q[order])
    angle = x - (0.25 + 0.5 * order) * math.pi
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    scale = jnp.sqrt(2 / math.pi / x)
    return (p * cosine - q * sine) * scale, (p * sine + q * cosine) * scale


def _j0_near(x: Any) -> Any:
    square = jnp.minimum(x * x, 25)
    low, high = _ZEROS_OF_J0
    value = _quotient(square, _J0_NEAR_OVER, _J0_NEAR_UNDER)
    return (square - low) * (square - high) * value


def _j1_near(x: Any) -> Any:
    square = jnp.minimum(x * x, 25)
    low, high = _ZEROS_OF_J1
    value = _quotient(square, _J1_NEAR_OVER, _J1_NEAR_UNDER)
    return value * jnp.minimum(x, 5) * (square - low) * (square - high)


def _j0(x: Any) -> Any:
    x = jnp.abs(x)
    return jnp.where(x <= 5, _j0_near(x), _far(x, 0)[0])


def _j1(x: Any) -> Any:
    size = jnp.abs(x)
    found = jnp.where(size <= 5, _j1_near(size), _far(size, 1)[0])
    return jnp.where(x < 0, -found, found)


def _y0(x: Any) -> Any:
    square = jnp.minimum(x * x, 25)
    near = _quotient(square, _Y0_NEAR_OVER, _Y0_NEAR_UNDER)
    near = near + 2 / math.pi * jnp.log(x) * _j0_near(x)
    return jnp.where(x <= 5, near, _far(x, 0)[1])


def _y1(x: Any) -> Any:
    square = jnp.minimum(x * x, 25)
    near = x * _quotient(square, _Y1_NEAR_OVER, _Y1_NEAR_UNDER)
    rest = jnp.where(x == 0, -math.inf, _j1_near(x) * jnp.log(x) - 1 / x)
    return jnp.where(x <= 5, near + 2 / math.pi * rest, _far(x, 1)[1])


def _chebyshev(x: Any, coefficients: Sequence[float]) -> Any:
    """A Chebyshev series with half of its constant, as in Cephes."""
    last = before = jnp.zeros_like(x)
    now = jnp.full_like(x, coefficients[0])
    for each in coefficients[1:]:
        before, last = last, now
        now = x * last - before + each
    return (now - before) / 2


def _scaled_k0(x: Any) -> Any:
    near = _chebyshev(jnp.minimum(x * x, 4) - 2, _K0_NEAR)
    near = near - jnp.log(x / 2) * special.i0(jnp.minimum(x, 2))
    far = _chebyshev(8 / jnp.maximum(x, 2) - 2, _K0_FAR) / jnp.sqrt(x)
    return jnp.where(x <= 2, near * jnp.exp(jnp.minimum(x, 2)), far)


def _scaled_k1(x: Any) -> Any:
    near = _chebyshev(jnp.minimum(x * x, 4) - 2, _K1_NEAR) / x
    rest = jnp.log(x / 2) * special.i1(jnp.minimum(x, 2))
    near = near + jnp.where(x == 0, 0, rest)
    far = _chebyshev(8 / jnp.maximum(x, 2) - 2, _K1_FAR) / jnp.sqrt(x)
    found = jnp.where(x <= 2, near * jnp.exp(jnp.minimum(x, 2)), far)
    return jnp.where(x < 0, math.nan, found)


def _k0(x: Any) -> Any:
    return _scaled_k0(x) * jnp.exp(-x)


def _k1(x: Any) -> Any:
    return _scaled_k1(x) * jnp.exp(-x)


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "j0": _j0,
    "j1": _j1,
    "y0": _y0,
    "y1": _y1,
    "k0": _k0,
    "k1": _k1,
    "k0e": _scaled_k0,
    "k1e": _scaled_k1,
}
"""For float32 and float64."""
