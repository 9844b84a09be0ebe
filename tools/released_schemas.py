"""Write all operator schemas of one release of onnx as JSON, from its library alone.

    python3.6 released_schemas.py OUT FOLDER

Runs as a separate process of the Python that the library was built for, and in its
syntax; nothing else of onnx is imported. FOLDER is that of the onnx package. OUT has
the opsets of the release, and its schemas, with attribute defaults in base64.
"""

import base64
import json
import os
import sys
from typing import Any


def first_attribute(thing: Any, *names: str) -> Any:
    """The first existing attribute, since releases use different names."""
    return next((getattr(thing, name) for name in names if hasattr(thing, name)), None)


def member_name(value: Any) -> str:
    """The name of an enum member, in lower case."""
    return str(value).split(".")[-1].lower()


def port(given: Any) -> "dict[str, Any]":
    row = {"name": given.name, "type": first_attribute(given, "type_str", "typeStr")}
    option = member_name(given.option)
    if option != "single":
        row["option"] = option
    if option == "variadic":
        if first_attribute(given, "is_homogeneous", "isHomogeneous") is False:
            row["homogeneous"] = False
        row["min"] = first_attribute(given, "min_arity", "minArity")
    return row


def attribute(given: Any) -> "dict[str, Any]":
    row = {"type": member_name(given.type), "required": bool(given.required)}
    content = first_attribute(given, "_default_value", "default_value")
    if not isinstance(content, bytes):
        content = content.SerializeToString()
    row["default"] = base64.b64encode(content).decode()
    return row


def schema(given: Any) -> "dict[str, Any]":
    return {
        "domain": given.domain,
        "name": given.name,
        "since": given.since_version,
        "deprecated": bool(first_attribute(given, "deprecated")),
        "support": member_name(given.support_level),
        "inputs": [port(each) for each in given.inputs],
        "outputs": [port(each) for each in given.outputs],
        "attrs": {n: attribute(a) for n, a in sorted(given.attributes.items())},
        "types": {
            each.type_param_str: sorted(set(each.allowed_type_strs))
            for each in given.type_constraints
        },
        "least": [given.min_input, given.min_output],
        "doc": given.doc or "",
    }


def main(out: str, folder: str) -> None:
    sys.path.insert(0, folder)
    import onnx_cpp2py_export as library  # type: ignore[import-not-found, unused-ignore]

    defs = library.defs
    answer = {
        "opsets": {each: last for each, (_, last) in defs.schema_version_map().items()},
        "schemas": [schema(each) for each in defs.get_all_schemas_with_history()],
    }
    with open(out, "w") as stream:
        json.dump(answer, stream)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
