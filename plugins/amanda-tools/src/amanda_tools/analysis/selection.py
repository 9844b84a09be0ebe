"""Options by which tools choose ops, alike for all of them."""

from __future__ import annotations

from collections.abc import Sequence

from amanda.graph import OutputPort
from amanda.instrument import Instrumentation, Selector, Site
from amanda.types import TensorType

__all__ = ["chosen_sites", "is_float_tensor"]


def chosen_sites(
    instrumentation: Instrumentation,
    types: Sequence[str] | str | None,
    names: Sequence[str] | str | None,
    scope: str | None = None,
) -> list[Site]:
    """The ops of some types, names and scope (shell patterns); all without these.

    Ops of constants alone are left out: compilation computes them once."""
    given = [names] if isinstance(names, str) else list(names or ["*"])
    found: dict[str, Site] = {}
    for name in given:
        selector = Selector(types, name=None if name == "*" else name, scope=scope)
        found |= {site.label: site for site in instrumentation.sites(selector)}
    order = [site.label for site in instrumentation.sites()]
    chosen = [found[label] for label in order if label in found]
    return [site for site in chosen if not _is_constant(site)]


def _is_constant(site: Site) -> bool:
    read = [port for port in site.op.inputs if port is not None]
    return bool(read) and all(port.op.is_constant for port in read)


def is_float_tensor(port: OutputPort) -> bool:
    """Whether a value is a tensor of floats."""
    return isinstance(port.type, TensorType) and port.type.dtype.kind == "float"
