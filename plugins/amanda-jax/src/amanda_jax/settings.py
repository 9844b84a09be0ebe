"""What an executable can be told when it is compiled."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from operator import index
from typing import Any, Final, NamedTuple

from amanda.errors import BackendError

_ALLOWED: Final = {
    "precision": ("highest", "high", "default"),
    "results": ("numpy", "jax"),
    "fed": ("same", "parts"),
}

STEPS: Final = {
    "algebra": "the same in fewer ops; what is constant or computed twice, once",
    "norms": "norms and factors of channels put into the weights before them",
    "layout": "convolutions with channels behind, on the CPU; their kernels as well",
    "pointwise": "convolutions with kernels of one element as products of matrices",
    "tiles": "convolutions of 3 * 3 in fewer products, as Winograd has it, on the CPU",
    "rows": "tiles along rows alone: larger products, for several cores of a CPU",
    "parts": "convolutions to few channels in parts, on several cores of a CPU",
    "columns": "convolutions with few places as one product of matrices, on the CPU",
    "windows": "the largest of small windows as that of slices, on the CPU",
    "weights": "weights turned for few or uneven rows, on the CPU without `products`",
    "products": "products by the library that is faster for them, on one core",
    "blocks": "what is repeated compiled once, and called once for each layer",
}
"""What is done for speed before XLA sees a graph; `without` leaves some out."""
ON_CPU: Final = (
    "layout", "tiles", "rows", "parts", "columns", "windows", "weights", "products",
)  # fmt: skip
"""Those that are for the CPU alone."""
ON_ONE_CORE: Final = ("products",)
"""Those that are for a process that has one core: with two, Eigen waits for itself."""
ON_CORES: Final = ("rows", "parts")
"""Those that are for a process that has several."""
_FUSED: Final = "xla_cpu_experimental_ynn_fusion_type"
_MEASURED: Final = {"0.10": {_FUSED: "LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION"}}
"""XLA's switches for `products`, by the version of jaxlib that they were measured with:
convolutions by YNNPACK, products by Eigen. On one core it takes 5 to 15 % less time for
them; on two, BERT-base takes 12 % more, GPT-2 5 %, and ResNet-50 3 % less."""


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


Sizes = Mapping[str, tuple[int, ...]]
"""What sizes are padded to, by name; powers of two where there are none."""


class Settings(NamedTuple):
    """The options of `amanda.compile(graph, "jax", ...)`.

    >>> Settings(results="jax").checked().precision
    'highest'
    """

    precision: str = "highest"
    """Of products and convolutions. Others are faster on some devices, and rounder."""
    results: str = "numpy"
    """What a call returns: arrays of numpy, or those of JAX, which may still be on
    their way where such are fed."""
    programs: int = 32
    """How many programs are kept that were made for shapes or values that were fed."""
    without: tuple[str, ...] = ()
    """Steps towards speed that are left out: see `STEPS`. A text of one or more, with
    commas, will do."""
    xla: Mapping[str, Any] | str = ""
    """XLA's own switches for this executable alone: a mapping, or
    `name=value, name=value`. See the README for those that were measured."""
    deterministic: bool = False
    """The same bits for the same feeds, also where XLA knows a faster way."""
    donate: tuple[str, ...] = ()
    """Inputs whose arrays of JAX may be written over, and are gone after a call."""
    cache: str | None = None
    """A folder where compiled programs are kept for the next process: see `kept`."""
    cache_bytes: int = 2 << 30
    """How much that folder may hold; what was not used for longest goes."""
    observe: Callable[[str, Any], object] | None = None
    """Called with the label and the value of every probe."""
    callbacks: Mapping[str, Callable[..., Any]] | None = None
    """Functions that `host_callback` may call, by name."""
    padded: Mapping[str, int] | str | None = None
    """How much there is at most of what data decides, by name or type of op: a mapping,
    or `nonzero=128, nms=300`. XLA then runs such ops and what follows, padded, as one
    program on one device."""
    buckets: Mapping[str, Sequence[int]] | str | None = None
    """Sizes that are padded, by name, and the few that they are padded to: a mapping,
    or `batch=8 16 32, steps=64 128`. Without numbers: powers of two."""
    mesh: Any = None
    """Axes of devices with their sizes, or a `jax.sharding.Mesh`: see `sharding`."""
    shardings: Any = None
    """By which of these axes inputs, weights and results are divided: by name, by
    pattern, or by rule."""
    distributed: Any = False
    """Whether this is one of several processes, or which one: see `distributed`."""
    fed: str = "same"
    """What several processes are fed: all the same, or each its part."""

    def checked(self) -> Settings:
        given: dict[str, Any] = self._asdict()
        for key, allowed in _ALLOWED.items():
            if given[key] not in allowed:
                raise BackendError(
                    f"the option {key!r} of backend 'jax' cannot be {given[key]!r}",
                    expected=f"one of {', '.join(allowed)}",
                )
        for key, counted in (("programs", "programs"), ("cache_bytes", "bytes")):
            if type(given[key]) is not int or given[key] < 1:
                raise BackendError(
                    f"the option {key!r} of backend 'jax' is a number of {counted}",
                    expected="1 or more",
                    got=given[key],
                )
        told = _names(self.without)
        for name in told:
            if name not in STEPS:
                raise BackendError(
                    f"backend 'jax' takes no step {name!r} that could be left out",
                    expected=f"some of {', '.join(STEPS)}",
                )
        self._check_together()
        return self._replace(
            without=told,
            donate=_names(self.donate),
            xla=_switches(self.xla),
            buckets=_buckets(self.buckets),
            padded=_bounds(self.padded),
        )

    def _check_together(self) -> None:
        """An error for options that do not go together."""
        if not self.is_spread and (self.shardings is not None or self.fed != "same"):
            raise BackendError(
                "the options 'shardings' and 'fed' of backend 'jax' are about a mesh",
                expected="mesh={'data': 4}, or distributed=True",
                got="no mesh",
            )
        if self.fed == "parts" and self.buckets is not None:
            raise BackendError(
                "the option 'buckets' of backend 'jax' pads what is whole",
                got="fed='parts'",
                hint="pad the parts before they are fed",
            )
        if self.is_spread and self.cache is not None:
            raise BackendError(
                "the option 'cache' of backend 'jax' is for one device",
                expected="no mesh, or no cache",
                got=f"cache={str(self.cache)!r} and a mesh",
            )
        if self.bounds:
            self._check_padded()

    def _check_padded(self) -> None:
        """An error for what a program with bounds does not do."""
        asked = {
            "mesh": self.mesh is not None,
            "distributed": self.is_spread and self.mesh is None,
            "buckets": bool(self.sizes),
            "cache": self.cache is not None,
            "donate": bool(_names(self.donate)),
        }
        if any(asked.values()):
            raise BackendError(
                "the option 'padded' of backend 'jax' does not go with others that "
                "were given",
                expected=f"none of {', '.join(asked)}",
                got=", ".join(name for name, given in asked.items() if given),
                hint="leave these out; or leave 'padded' out: the graph is then cut "
                "where data decides a size",
            )

    @property
    def bounds(self) -> Mapping[str, int]:
        """How much there is at most of what data decides."""
        return _bounds(self.padded) or {}

    @property
    def sizes(self) -> Sizes:
        """What sizes are padded to."""
        return _buckets(self.buckets) or {}

    def on(self, platform: str) -> Settings:
        """The same, without steps for another platform, or another number of cores."""
        here = ON_ONE_CORE if cores() > 1 else ON_CORES
        left = here if platform == "cpu" else ON_CPU
        return self._replace(without=(*self.without, *left))

    @property
    def is_spread(self) -> bool:
        """Whether it runs on several devices, or as one of several processes."""
        return self.mesh is not None or self.distributed not in (None, False, "")

    @property
    def switches(self) -> dict[str, Any]:
        """What XLA is told for this executable alone."""
        fixed: dict[str, Any] = {}
        if self.deterministic:
            fixed["xla_gpu_deterministic_ops"] = True
        if "products" not in self.without:
            fixed.update(_MEASURED.get(version("jaxlib").rpartition(".")[0], {}))
        return {**fixed, **_switches(self.xla)}


def _names(given: tuple[str, ...] | str) -> tuple[str, ...]:
    """Names, told one by one or as a text with commas."""
    return tuple(given.replace(",", " ").split() if isinstance(given, str) else given)


def _switches(given: Mapping[str, Any] | str, option: str = "xla") -> dict[str, Any]:
    """Values by name; texts that say a number or a truth value as these."""
    if not isinstance(given, str):
        return dict(given)
    pairs = [pair.partition("=") for pair in given.split(",") if pair.strip()]
    for name, equals, value in pairs:
        if not (name.strip() and equals and value.strip()):
            raise BackendError(
                f"the option {option!r} of backend 'jax' cannot be read",
                expected="name=value, name=value",
                got=given,
            )
    return {name.strip().lstrip("-"): _value(v.strip()) for name, _, v in pairs}


def _buckets(given: Any) -> Sizes | None:
    """Names of sizes with the numbers that these are padded to, in order."""
    if isinstance(given, str):
        pairs = [part.partition("=") for part in given.split(",")]
        given = {name.strip(): sizes for name, _, sizes in pairs}
    if given is None or not given:
        return None
    many = given if isinstance(given, Mapping) else dict.fromkeys(given, ())
    try:
        found = {name: _counts(sizes) for name, sizes in many.items()}
    except (TypeError, ValueError):
        found = {"": ()}
    if not all(found) or any(n < 1 for sizes in found.values() for n in sizes):
        raise BackendError(
            "the option 'buckets' of backend 'jax' cannot be read",
            expected="{'batch': (8, 16, 32)}, 'batch=8 16 32' or 'batch'",
            got=given,
        )
    return found


def _counts(given: Any) -> tuple[int, ...]:
    """Sizes in order: numbers, or a text of some."""
    sizes = map(int, given.split()) if isinstance(given, str) else map(index, given)
    return tuple(sorted(sizes))


def _bounds(given: Any) -> Mapping[str, int] | None:
    """Names or types of ops, with how much they give at most."""
    many = _switches(given, "padded") if isinstance(given, str) else given
    if many is None or not many:
        return None
    fine = isinstance(many, Mapping) and all(
        type(most) is int and most > 0 for most in many.values()
    )
    if not fine:
        raise BackendError(
            "the option 'padded' of backend 'jax' cannot be read",
            expected="{'nonzero': 128} or 'nonzero=128, nms=300'",
            got=given,
        )
    return dict(many)


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if text.lstrip("-").isdigit() else text
