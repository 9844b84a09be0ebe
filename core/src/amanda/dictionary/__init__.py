"""Op dictionaries: the ops of each version of each framework, with their definitions.

    names.py           names of namespaces: parsing, ordering, resolving
    op_definition.py   an op definition: ports, attributes, type variables
    type_patterns.py   types of values, as far as definitions state them
    literals.py        attribute values as text
    signature.py       a definition as one line of text, and back
    binary.py          a definition as a protobuf message, and back
    attributes.py      checks and conversions of attribute values
    datafile.py        the data file of a dictionary history
    history.py         all versions of a dictionary, and the dictionary of one
    folder.py          a folder of data files, with an index of digests
    differences.py     how two dictionaries differ
    call_layout.py     arguments that may be inputs or attributes
    call_signature.py  what the mapping engine needs to know of an op type
    port_binding.py    which port each input and output of an op belongs to
    op_checker.py      validation of one op
    validation.py      validation of a graph
    call_arguments.py  binding of call arguments to ports and attributes
    op_builder.py      adding checked ops to a graph
    defaults.py        attributes with default values: filled in, or stripped

`amanda plugins` and the like need names alone, so all else is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from amanda.argument_checks import check_member
from amanda.dictionary.names import (
    Name,
    Namespace,
    NamespaceProvider,
    Span,
    newest_version,
    parse_name,
    parse_span,
    resolve_name,
    version_key,
)

if TYPE_CHECKING:
    from amanda.dictionary.attributes import attribute_fault, cast_value
    from amanda.dictionary.binary import decode_op_def, encode_op_def
    from amanda.dictionary.call_layout import CallLayout, OpInputs
    from amanda.dictionary.call_signature import REQUIRED, Signature
    from amanda.dictionary.datafile import (
        GONE,
        DictionaryHeader,
        OpHistory,
        argument_docs,
        definition_steps,
        definition_text,
        encode_data_file,
    )
    from amanda.dictionary.differences import Difference, OpChange
    from amanda.dictionary.folder import INDEX_FILE, DictionaryFolder
    from amanda.dictionary.history import Dictionary, DictionaryHistory
    from amanda.dictionary.literals import format_literal, round_to_float32
    from amanda.dictionary.op_builder import add_constant, add_op
    from amanda.dictionary.op_checker import get_checker
    from amanda.dictionary.op_definition import (
        Attr,
        BodyArity,
        Deprecation,
        EnumMember,
        OpDef,
        Port,
        PortForm,
    )
    from amanda.dictionary.port_binding import PortBinding, bind_ports, type_faults
    from amanda.dictionary.signature import (
        format_attr,
        format_definition,
        parse_signature,
    )
    from amanda.dictionary.type_patterns import (
        TypePattern,
        format_pattern,
        parse_dtype_name,
    )
    from amanda.dictionary.validation import (
        Problem,
        ValidationResult,
        cast_attributes,
        check_graph,
        location_of,
        validate,
    )

__all__ = [
    "GONE",
    "INDEX_FILE",
    "REQUIRED",
    "Attr",
    "BodyArity",
    "CallLayout",
    "Deprecation",
    "Dictionary",
    "DictionaryFolder",
    "DictionaryHeader",
    "DictionaryHistory",
    "Difference",
    "EnumMember",
    "Name",
    "Namespace",
    "NamespaceProvider",
    "OpChange",
    "OpDef",
    "OpHistory",
    "OpInputs",
    "argument_docs",
    "Port",
    "PortBinding",
    "PortForm",
    "Problem",
    "Signature",
    "Span",
    "TypePattern",
    "ValidationResult",
    "add_constant",
    "add_op",
    "attribute_fault",
    "cast_attributes",
    "cast_value",
    "bind_ports",
    "check_graph",
    "decode_op_def",
    "definition_steps",
    "definition_text",
    "encode_data_file",
    "encode_op_def",
    "format_attr",
    "format_definition",
    "format_literal",
    "format_pattern",
    "get_checker",
    "location_of",
    "newest_version",
    "parse_dtype_name",
    "parse_name",
    "parse_signature",
    "parse_span",
    "resolve_name",
    "round_to_float32",
    "type_faults",
    "validate",
    "version_key",
]

_LATE = {
    "attributes": ("attribute_fault", "cast_value"),
    "binary": (
        "decode_op_def",
        "encode_op_def",
    ),
    "call_layout": ("CallLayout", "OpInputs"),
    "call_signature": (
        "REQUIRED",
        "Signature",
    ),
    "datafile": (
        "GONE",
        "DictionaryHeader",
        "OpHistory",
        "argument_docs",
        "definition_steps",
        "definition_text",
        "encode_data_file",
    ),
    "differences": (
        "Difference",
        "OpChange",
    ),
    "folder": (
        "INDEX_FILE",
        "DictionaryFolder",
    ),
    "history": (
        "Dictionary",
        "DictionaryHistory",
    ),
    "literals": (
        "format_literal",
        "round_to_float32",
    ),
    "op_builder": (
        "add_constant",
        "add_op",
    ),
    "op_checker": ("get_checker",),
    "op_definition": (
        "Attr",
        "BodyArity",
        "Deprecation",
        "EnumMember",
        "OpDef",
        "Port",
        "PortForm",
    ),
    "port_binding": (
        "PortBinding",
        "bind_ports",
        "type_faults",
    ),
    "signature": (
        "format_attr",
        "format_definition",
        "parse_signature",
    ),
    "type_patterns": (
        "TypePattern",
        "format_pattern",
        "parse_dtype_name",
    ),
    "validation": (
        "Problem",
        "ValidationResult",
        "cast_attributes",
        "check_graph",
        "location_of",
        "validate",
    ),
}
_HOME = {name: module for module, names in _LATE.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'amanda.dictionary' has no attribute {name!r}")
    home = import_module(f"amanda.dictionary.{_HOME[name]}")
    value: object = check_member(getattr(home, name))
    globals()[name] = value  # found without this function the next time
    return value


for _name in __all__:
    if _name in globals():
        globals()[_name] = check_member(globals()[_name])
