"""The options of the backend: `amanda.compile(graph, "jax", ...)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from operator import index
from typing import Any, Final, NamedTuple

from amanda.errors import BackendError
from amanda_jax.cpu_tuning import cores
from amanda_jax.cpu_tuning.steps import STEPS, enabled_steps, excluded_steps
from amanda_std.backends import State

__all__ = ["Settings", "Sizes"]

_ALLOWED: Final = {
    "precision": ("highest", "high", "default"),
    "results": ("numpy", "jax"),
    "fed": ("same", "parts"),
}

_NUMBERS: Final = (
    ("programs", "programs"),
    ("specializations", "programs"),
    ("cache_bytes", "bytes"),
)
"""Options that are numbers, with what they count."""

Sizes = Mapping[str, tuple[int, ...]]
"""The sizes that each dim is padded to, by its name; empty: powers of two."""


class Settings(NamedTuple):
    """The options of `amanda.compile(graph, "jax", ...)`.

    >>> Settings(results="jax").validate().precision
    'highest'
    """

    precision: str = "highest"
    """Of products and convolutions; lower ones are faster on some devices.

    With "highest", each result depends on the elements of its own window or row alone;
    others may use Winograd tiles whose results share their error (step `rows`)."""
    results: str = "numpy"
    """Return arrays of NumPy, or those of JAX, which may still be computing."""
    programs: int = 32
    """How many programs for different shapes or values are kept."""
    specializations: int = 8
    """How many values that decide shapes, or sizes that data decides, get programs of
    their own; beyond that, programs serve several sizes, or Python runs ops."""
    without: tuple[str, ...] = ()
    """Optimization steps to disable: names, or a string with commas."""
    xla: Mapping[str, Any] | str = ""
    """Compiler options of XLA: a mapping, or `name=value, name=value`."""
    deterministic: bool = False
    """The same bits for the same feeds, even where XLA has a faster algorithm."""
    donate: tuple[str, ...] = ()
    """Inputs whose arrays of JAX may be overwritten, and are deleted by a call."""
    cache: str | None = None
    """The folder of the disk cache of compiled programs."""
    cache_bytes: int = 2 << 30
    """The size limit of that folder; the least recently used programs are deleted."""
    observe: Callable[[str, Any], object] | None = None
    """Called with the label and the value of every probe."""
    callbacks: Mapping[str, Callable[..., Any]] | None = None
    """Functions that `host_callback` may call, by name."""
    profile: bool = False
    """Whether ops are to be timed; they are then compiled one by one as well."""
    state: State | None = None
    """The variables to share with other executables: `other.state`."""
    padded: Mapping[str, int] | str | None = None
    """The maximum of sizes that depend on data, by name or type of op: a mapping, or
    `nonzero=128, nms=300`. XLA then runs such ops and what follows, padded, as one
    program on one device."""
    buckets: Mapping[str, Sequence[int]] | str | None = None
    """Dims that are padded, by name, and the sizes that they are padded to: a mapping,
    or `batch=8 16 32, steps=64 128`. Without numbers: powers of two."""
    mesh: Any = None
    """Axes of devices with their sizes, or a `jax.sharding.Mesh`: see `mesh`."""
    shardings: Any = None
    """How arrays are sharded over these axes: by name, pattern, or policy."""
    distributed: Any = False
    """Whether this is one of several processes, or which one."""
    fed: str = "same"
    """What several processes are fed: all the same, or each its part."""

    def validate(self) -> Settings:
        """The same with all values parsed; BackendError for what cannot be."""
        value: dict[str, Any] = self._asdict()
        for key, allowed in _ALLOWED.items():
            if value[key] not in allowed:
                raise BackendError(
                    f"the option {key!r} of backend 'jax' cannot be {value[key]!r}",
                    expected=f"one of {', '.join(allowed)}",
                )
        for key, unit in _NUMBERS:
            if type(value[key]) is not int or value[key] < 1:
                raise BackendError(
                    f"the option {key!r} of backend 'jax' is a number of {unit}",
                    expected="1 or more",
                    got=value[key],
                )
        steps = [step.name for step in STEPS]
        State.expect(self.state)
        without = _names(self.without)
        for name in without:
            if name not in steps:
                raise BackendError(
                    f"backend 'jax' has no optimization step {name!r}",
                    expected=f"some of {', '.join(steps)}",
                )
        self._check_together()
        return self._replace(
            without=without,
            donate=_names(self.donate),
            xla=_name_values(self.xla),
            buckets=_bucket_sizes(self.buckets),
            padded=_size_bounds(self.padded),
        )

    def _check_together(self) -> None:
        """Raise an error for options that exclude each other."""
        if not self.is_distributed and (
            self.shardings is not None or self.fed != "same"
        ):
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
        if self.is_distributed and self.cache is not None:
            raise BackendError(
                "the option 'cache' of backend 'jax' is for one device",
                expected="no mesh, or no cache",
                got=f"cache={str(self.cache)!r} and a mesh",
            )
        if self.bounds:
            self._check_padded()

    def _check_padded(self) -> None:
        """Raise an error for options that a bounded program does not support."""
        given = {
            "mesh": self.mesh is not None,
            "distributed": self.is_distributed and self.mesh is None,
            "buckets": bool(self.sizes),
            "cache": self.cache is not None,
            "donate": bool(_names(self.donate)),
        }
        if any(given.values()):
            raise BackendError(
                "the option 'padded' of backend 'jax' does not go with others that "
                "were given",
                expected=f"none of {', '.join(given)}",
                got=", ".join(name for name, value in given.items() if value),
                hint="leave these out; or leave 'padded' out: the graph is then cut "
                "where data decides a size",
            )

    @property
    def bounds(self) -> Mapping[str, int]:
        """The maximum of sizes that depend on data."""
        return _size_bounds(self.padded) or {}

    @property
    def sizes(self) -> Sizes:
        """The sizes that inputs are padded to."""
        return _bucket_sizes(self.buckets) or {}

    def for_platform(self, platform: str) -> Settings:
        """The same, without steps for other platforms, core counts or precisions."""
        more = excluded_steps(platform, cores.core_count(), self.precision)
        return self._replace(without=(*self.without, *more))

    @property
    def is_distributed(self) -> bool:
        """Whether it runs on several devices, or as one of several processes."""
        return self.mesh is not None or self.distributed not in (None, False, "")

    @property
    def compiler_options(self) -> dict[str, Any]:
        """The options of XLA for this executable alone."""
        options: dict[str, Any] = {}
        if self.deterministic:
            options["xla_gpu_deterministic_ops"] = True
        jaxlib = version("jaxlib").rpartition(".")[0]
        for step in enabled_steps(self.without):
            if step.jaxlib == jaxlib:
                options.update(step.compiler_options)
        return {**options, **_name_values(self.xla)}


def _names(value: tuple[str, ...] | str) -> tuple[str, ...]:
    """Names, given one by one or as a string with commas."""
    return tuple(value.replace(",", " ").split() if isinstance(value, str) else value)


def _name_values(given: Mapping[str, Any] | str, option: str = "xla") -> dict[str, Any]:
    """Values by name; strings of a number or a truth value are converted."""
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
    return {name.strip().lstrip("-"): _parse_value(v.strip()) for name, _, v in pairs}


def _bucket_sizes(value: Any) -> Sizes | None:
    """The sizes that each dim is padded to, by its name, in order."""
    if isinstance(value, str):
        pairs = [part.partition("=") for part in value.split(",")]
        value = {name.strip(): sizes for name, _, sizes in pairs}
    if value is None or not value:
        return None
    mapping = value if isinstance(value, Mapping) else dict.fromkeys(value, ())
    try:
        sizes = {name: _sorted_sizes(each) for name, each in mapping.items()}
    except (TypeError, ValueError):
        sizes = {"": ()}
    if not all(sizes) or any(n < 1 for each in sizes.values() for n in each):
        raise BackendError(
            "the option 'buckets' of backend 'jax' cannot be read",
            expected="{'batch': (8, 16, 32)}, 'batch=8 16 32' or 'batch'",
            got=value,
        )
    return sizes


def _sorted_sizes(value: Any) -> tuple[int, ...]:
    """Sizes in order, given as numbers or as a string."""
    sizes = map(int, value.split()) if isinstance(value, str) else map(index, value)
    return tuple(sorted(sizes))


def _size_bounds(value: Any) -> Mapping[str, int] | None:
    """The maximum size by name or type of op."""
    mapping = _name_values(value, "padded") if isinstance(value, str) else value
    if mapping is None or not mapping:
        return None
    is_valid = isinstance(mapping, Mapping) and all(
        type(bound) is int and bound > 0 for bound in mapping.values()
    )
    if not is_valid:
        raise BackendError(
            "the option 'padded' of backend 'jax' cannot be read",
            expected="{'nonzero': 128} or 'nonzero=128, nms=300'",
            got=value,
        )
    return dict(mapping)


def _parse_value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if text.lstrip("-").isdigit() else text
