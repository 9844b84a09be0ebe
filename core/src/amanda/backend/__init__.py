"""Backends: their protocol, and what the core does around each call of one.

A backend compiles a graph of its own namespace. `Compiled` then checks the feeds of
each call, names the results, and copies results that share memory with feeds or each
other.
"""

from __future__ import annotations

from amanda.argument_checks import check_arguments
from amanda.backend._compiled import Compiled
from amanda.backend._dim_names import (
    SeparateDims,
    separate_dims,
    shares_unchecked_dims,
    warn_of_shared_dims,
)
from amanda.backend._executable_cache import ExecutableCache, cache_key
from amanda.backend._explicit_state import fill_state
from amanda.backend._fallback import (
    Crossing,
    OpRange,
    PlacementReport,
    SplitBackend,
    SplitExecutable,
    plan_pieces,
    split_graph,
    unsupported_ops_error,
)
from amanda.backend._feeds import (
    SharedDimError,
    feed_error,
    feed_faults,
    feeds_by_key,
)
from amanda.backend._guarded import GuardedBackend
from amanda.backend._implementations import (
    Implementation,
    function_name,
    implementation_lines,
    input_dtypes,
)
from amanda.backend._lowering import Lowered, lower_for_backend, stable_form
from amanda.backend._memory import MemoryEstimate, estimate_memory, type_bytes
from amanda.backend._partition import Piece, extract_graph, partition
from amanda.backend._profile import OpLabel, OpTime, Profile, op_label, typical_run
from amanda.backend._protocols import (
    Backend,
    DynamicSize,
    Executable,
    FeedSlot,
    Key,
    PrecisionChange,
    consumes,
    refusals,
)
from amanda.backend._random_streams import (
    RandomStreams,
    random_streams,
    use_random_streams,
)
from amanda.backend._state import Cell, State
from amanda.backend._targets import fed_parameter, parameter_key, target_of
from amanda.backend._value_lookup import ValueLookup

__all__ = [
    "Backend",
    "Cell",
    "Compiled",
    "Crossing",
    "DynamicSize",
    "MemoryEstimate",
    "OpRange",
    "PrecisionChange",
    "estimate_memory",
    "plan_pieces",
    "type_bytes",
    "Executable",
    "ValueLookup",
    "ExecutableCache",
    "GuardedBackend",
    "Key",
    "Lowered",
    "OpLabel",
    "OpTime",
    "SplitBackend",
    "Piece",
    "PlacementReport",
    "Profile",
    "RandomStreams",
    "SeparateDims",
    "SharedDimError",
    "FeedSlot",
    "Implementation",
    "SplitExecutable",
    "State",
    "consumes",
    "extract_graph",
    "cache_key",
    "lower_for_backend",
    "stable_form",
    "fed_parameter",
    "fill_state",
    "function_name",
    "implementation_lines",
    "input_dtypes",
    "feed_error",
    "feed_faults",
    "feeds_by_key",
    "op_label",
    "parameter_key",
    "partition",
    "random_streams",
    "refusals",
    "separate_dims",
    "shares_unchecked_dims",
    "split_graph",
    "unsupported_ops_error",
    "use_random_streams",
    "target_of",
    "typical_run",
    "warn_of_shared_dims",
]

check_arguments(globals())
