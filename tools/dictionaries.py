"""Makes the data files of namespaces/: the op dictionaries, for all versions.

    python tools/dictionaries.py onnx                  from the installed onnx
    python tools/dictionaries.py tensorflow FOLDER     from FOLDER/tensorflow.jsonl

onnx has the history of its operators inside. TensorFlow's is extracted from each of its
releases elsewhere; FOLDER (without it, $AMANDA_TEST_DATA/namespace-data) holds what
came out: a header, then a line per op with what it was from which release on. Run it
with amanda-core installed; data files are never edited by hand.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from amanda.dictionary import Attr, Deprecation, OpDef, Port, parse_signature
from amanda.dictionary.datafile import GONE, Block, Header, packed
from amanda.dictionary.literals import float32_of
from amanda.dictionary.model import Body
from amanda.dictionary.names import version_key
from amanda.dictionary.patterns import Pattern
from amanda.dictionary.signature import terms
from amanda.tensors import FunctionRef, Tensor
from amanda.types import (
    DType,
    MapType,
    OptionalType,
    SequenceType,
    Shape,
    Sym,
    TensorType,
    Type,
)
from amanda.types.dtypes import all_names

HERE = Path(__file__).resolve().parent.parent
PACKAGE = HERE / "namespaces" / "src" / "amanda_namespaces"

Made = tuple[Header, list[Block]]
_ORDER = {name: i for i, name in enumerate(all_names())}


# -- what all have in common -----------------------------------------------------------


def history(
    steps: Iterable[tuple[str, OpDef | None]], *, always: bool = False
) -> tuple[tuple[str, str], ...]:
    """Versions and definitions; one that is as before counts only `always`."""
    found: list[tuple[str, str]] = []
    for version, entry in steps:
        text = GONE if entry is None else terms(entry)
        if entry is not None and parse_signature(entry.name + text) != entry:
            raise SystemExit(f"{entry.name} of {version} cannot be read back: {text}")
        if always or not found or found[-1][1] != text:
            found.append((version, text))
    return tuple(found)


def ordered(patterns: Iterable[Pattern]) -> tuple[Pattern, ...]:
    """Element types in the order of their table, then other types by their text."""

    def place(pattern: Pattern) -> tuple[int, str]:
        if isinstance(pattern, DType):
            return _ORDER[pattern.name], ""
        return len(_ORDER), str(pattern)

    return tuple(sorted(set(patterns), key=place))


# -- ONNX ------------------------------------------------------------------------------

_ONNX_KINDS = {"sparse_tensor": "sparse", "type_proto": "type"}
_ONNX_TYPES = {
    "float8e4m3fn": "float8_e4m3fn",
    "float6e2m3": "float6_e2m3fn",
    "float6e3m2": "float6_e3m2fn",
}
_BRANCH, _LOOP = Body("0", "outputs"), Body("inputs", "outputs + 1")
_SCAN = Body("inputs", "outputs")
# What the schema of an op with a body says in words only. (Scan of opset 8 has one more
# input, the lengths of the sequences.)
_BODIES: Mapping[tuple[str, str], Body] = {
    ("If", "then_branch"): _BRANCH,
    ("If", "else_branch"): _BRANCH,
    ("Loop", "body"): _LOOP,
    ("Scan", "body"): _SCAN,
    ("SequenceMap", "body"): _SCAN,
}


def from_onnx() -> dict[str, Made]:
    """The vocabularies of the installed onnx, by file."""
    import onnx
    from onnx import defs

    newest = {"": defs.onnx_opset_version(), "ai.onnx.ml": defs.onnx_ml_opset_version()}
    schemas: dict[str, dict[str, list[Any]]] = {}
    for schema in defs.get_all_schemas_with_history():
        schemas.setdefault(schema.domain, {}).setdefault(schema.name, []).append(schema)
    made = {}
    for domain, ops in schemas.items():
        name = domain.removeprefix("ai.") if domain else "onnx"
        since = max(schema.since_version for found in ops.values() for schema in found)
        last = max(newest.get(domain, 1), since)
        head = Header(
            namespace=f"amanda/{name}",
            versions=tuple(str(version) for version in range(1, last + 1)),
            source=f"onnx {onnx.__version__}",
            hints=("onnx:",),
            domains=("", "ai.onnx") if not domain else (domain,),
            deprecated=True,
            reference="onnx:ref",
        )
        made[name] = head, [onnx_block(op, found) for op, found in ops.items()]
    return made


def onnx_block(name: str, schemas: Sequence[Any]) -> Block:
    ordered_schemas = sorted(schemas, key=lambda schema: schema.since_version)
    steps = [(str(s.since_version), onnx_entry(s)) for s in ordered_schemas]
    doc = doc_line(ordered_schemas[-1].doc or "")
    return Block(name, doc, history(steps, always=True))


def onnx_entry(schema: Any) -> OpDef:
    """An operator schema as an entry."""
    constraints = {t.type_param_str: t for t in schema.type_constraints}
    variables = [
        Attr(name, "type", allowed=ordered(map(onnx_type, t.allowed_type_strs)))
        for name, t in sorted(constraints.items())
    ]
    traits = set()
    if str(schema.support_level).endswith("EXPERIMENTAL"):
        traits.add("experimental")
    if str(schema.node_determinism).endswith(".NonDeterministic"):
        traits.add("nondeterministic")
    if schema.has_function or schema.has_context_dependent_function:
        traits.add("function")
    return OpDef(
        schema.name,
        tuple(onnx_port(port, constraints) for port in schema.inputs),
        tuple(onnx_port(port, constraints) for port in schema.outputs),
        tuple(onnx_attr(schema, name) for name in sorted(schema.attributes)),
        tuple(variables),
        frozenset(traits),
        Deprecation(schema.since_version) if schema.deprecated else None,
    )


def onnx_port(port: Any, constraints: Mapping[str, Any]) -> Port:
    text = port.type_str
    kind = text if text in constraints else onnx_type(text)
    option = str(port.option).rpartition(".")[2]
    if option == "Variadic":
        form = "many" if port.is_homogeneous else "each"
        return Port(
            port.name, kind, "many" if form == "many" else "each", port.min_arity
        )
    return Port(port.name, kind, "optional" if option == "Optional" else "one")


def onnx_type(text: str) -> Pattern:
    """`seq(tensor(float))` and its like as a pattern."""
    outer, _, inner = text.rstrip(")").partition("(")
    if not inner:
        return DType(_ONNX_TYPES.get(outer, outer))
    inner += ")" * (inner.count("("))
    if outer == "map":
        key, _, value = inner.partition(",")
        return MapType(DType(key), whole(onnx_type(value.strip())))
    part = onnx_type(inner)
    if outer == "tensor":
        return part
    return SequenceType(whole(part)) if outer == "seq" else OptionalType(whole(part))


def whole(pattern: Pattern) -> Type:
    return TensorType(pattern) if isinstance(pattern, DType) else pattern


def onnx_attr(schema: Any, name: str) -> Attr:
    from onnx import helper

    given = schema.attributes[name]
    kind = str(given.type).rpartition(".")[2].lower()
    is_list = kind.endswith("s") and kind not in _ONNX_KINDS
    kind = kind.removesuffix("s") if is_list else kind
    kind = _ONNX_KINDS.get(kind, kind) + ("[]" if is_list else "")
    default = None
    if given.default_value.type:
        default = plain(helper.get_attribute_value(given.default_value))
    body = _BODIES.get((schema.name, name))
    if body is _SCAN and (schema.name, schema.since_version) == ("Scan", 8):
        body = Body("inputs - 1", "outputs")
    return Attr(name, kind, given.required, default, body=body)


def plain(value: Any) -> Any:
    """bytes as text, lists as tuples."""
    if isinstance(value, bytes):
        return value.decode()
    return value if isinstance(value, str | int | float) else tuple(map(plain, value))


def doc_line(text: str) -> str:
    """The first sentence, without marks.

    >>> doc_line("\\nRelu takes *one* input.\\nMore follows.")
    'Relu takes one input.'
    """
    words = re.sub(r"<[^>]*>|[*`]|\$\$?", "", text.strip().partition("\n\n")[0])
    words = " ".join(words.split())
    sentence = re.match(r".*?[.:](?= [A-Z]|$)", words)
    line = sentence[0] if sentence else words
    return line if len(line) <= 200 else f"{line[:197].rpartition(' ')[0]} ..."


# -- TensorFlow ------------------------------------------------------------------------

_TF_KINDS = {"type": "dtype", "func": "function"}
_TF_TRAITS = {
    "aggregate": "aggregate",
    "commutative": "commutative",
    "distributed": "distributed",
    "stateful": "stateful",
    "uninitialized_input": "uninitialized_input",
}
_FEEDBACK = {"NextIteration", "RefNextIteration"}
# element types by their number in protocol buffers, as far as defaults need them
_TF_NUMBERS = {3: DType("int32"), 4: DType("uint8")}


def from_tensorflow(folder: Path) -> dict[str, Made]:
    """The vocabulary of TensorFlow's releases, from what was extracted from them."""
    lines = (folder / "tensorflow.jsonl").read_text(encoding="utf-8").splitlines()
    versions: list[str] = json.loads(lines[0])["versions"]
    head = Header(
        namespace="amanda/tensorflow",
        versions=tuple(sorted(versions, key=version_key)),
        source=f"the libraries of TensorFlow {versions[0]} to {versions[-1]}",
        recorded=True,
        hints=("_",),
    )
    blocks = []
    for line in lines[1:]:
        name, steps = json.loads(line)
        entries = [(versions[i], tf_entry(name, found)) for i, found in steps]
        blocks.append(Block(name, "", history(entries)))
    return {"tensorflow": (head, blocks)}


def tf_entry(name: str, found: Mapping[str, Any] | None) -> OpDef | None:
    """An OpDef of TensorFlow as an entry.

    Left out is `full_type`, notes of TensorFlow's own type inference.
    """
    if found is None:
        return None
    inputs = found.get("inputs", ())
    told = {
        port[key]: key
        for port in inputs
        for key in ("type_attr", "number_attr", "type_list_attr")
        if key in port
    }
    attrs = [tf_attr(attr, row, attr in told) for attr, row in found.get("attrs", ())]
    traits = {trait for key, trait in _TF_TRAITS.items() if found.get(key)}
    if name in _FEEDBACK:
        traits.add("feedback")
    deprecated = None
    if row := found.get("deprecation"):
        deprecated = Deprecation(row["version"], row.get("explanation", ""))
    return OpDef(
        name,
        tuple(map(tf_port, inputs)),
        tuple(map(tf_port, found.get("outputs", ()))),
        tuple(attr for attr in attrs if attr.name not in told),
        tuple(attr for attr in attrs if attr.name in told),
        frozenset(traits),
        deprecated,
    )


def tf_port(row: Mapping[str, Any]) -> Port:
    ref = bool(row.get("ref"))
    if "type_list_attr" in row:
        return Port(row["name"], row["type_list_attr"], "list", ref=ref)
    kind = row["type_attr"] if "type_attr" in row else DType(row["type"])
    if "number_attr" in row:
        return Port(row["name"], kind, "count", 0, row["number_attr"], ref)
    return Port(row["name"], kind, ref=ref)


def tf_attr(name: str, row: Mapping[str, Any], is_variable: bool) -> Attr:
    kind, is_list = re.sub(r"list\((\w+)\)", r"\1", row["type"]), "(" in row["type"]
    read = _TF_VALUES[kind]
    kind = "type" if is_variable and kind == "type" else _TF_KINDS.get(kind, kind)
    default = row.get("default")
    if default is not None:
        default = tuple(map(read, default)) if is_list else read(default)
    allowed = [read(value) for value in row.get("allowed", ())]
    return Attr(
        name,
        kind + ("[]" if is_list else ""),
        default is None,
        default,
        ordered(allowed) if kind in ("dtype", "type") else tuple(allowed),
        row.get("min"),
    )


def tf_shape(row: Mapping[str, Any]) -> Shape:
    dims = row["shape"]
    if dims is None:
        return Shape(None)
    return Shape([Sym.unknown() if dim < 0 else dim for dim in dims])


def tf_tensor(row: Mapping[str, Any]) -> Tensor:
    """A TensorProto of integers, in bytes or as text."""
    if "tensor_text" in row:
        fields = [(k, v) for k, v in row["tensor_text"]]
        dims = [int(dict(dim)["size"]) for k, d in fields if k == "tensor_shape"
                for _, dim in d]  # fmt: skip
        numbers = [int(value) for key, value in fields if key == "int_val"]
        return tensor_of(DType("uint8"), dims, numbers)
    dtype, dims, numbers = DType("int32"), [], []
    for number, value in wire(bytes.fromhex(row["tensor"])):
        if number == 1:
            dtype = _TF_NUMBERS[value]
        elif number == 2:
            dims = [size for _, dim in wire(value) for _, size in wire(dim)]
        elif number == 7:
            numbers = list(varints(value))
    return tensor_of(dtype, dims, numbers)


def tensor_of(dtype: DType, dims: Sequence[int], numbers: Iterable[int]) -> Tensor:
    width = dtype.bits // 8
    content = b"".join(number.to_bytes(width, "little") for number in numbers)
    return Tensor.from_buffer(content, dtype, tuple(dims))


def varints(data: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


def wire(data: bytes) -> Iterator[tuple[int, Any]]:
    """Numbers and contents of the fields of a small protobuf message."""
    at = 0
    while at < len(data):
        number, kind = data[at] >> 3, data[at] & 7
        size = data[at + 1]
        if kind == 0:
            yield number, size
            at += 2
        else:
            yield number, data[at + 2 : at + 2 + size]
            at += 2 + size


_TF_VALUES: Mapping[str, Callable[[Any], Any]] = {
    "bool": bool,
    "float": lambda value: float32_of(float(value)),
    "func": lambda value: FunctionRef(value["func"]),
    "int": int,
    "shape": tf_shape,
    "string": str,
    "tensor": tf_tensor,
    "type": DType,
}


# -- the files -------------------------------------------------------------------------


def save(made: Mapping[str, Made], folder: Path = PACKAGE) -> None:
    """Writes the files, the index and the manifest that lists the versions."""
    index_file = folder / "index.json"
    index = json.loads(index_file.read_text(encoding="utf-8"))
    for name, (head, blocks) in made.items():
        data = packed(head, blocks)
        (folder / f"{name}.ops").write_bytes(data)
        index["namespaces"][head.namespace] = {
            "file": f"{name}.ops",
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
            "source": head.source,
            "versions": list(head.versions),
            "ops": len(blocks),
            "newest": sum(block.steps[-1][1] != GONE for block in blocks),
        }
        print(f"{name}.ops: {len(blocks)} ops, {len(data):,} bytes")
    index["namespaces"] = dict(sorted(index["namespaces"].items()))
    index_file.write_text(index_text(index), encoding="utf-8")
    manifest = folder / "amanda-plugin.toml"
    manifest.write_text(manifest_text(index["namespaces"]), encoding="utf-8")


def index_text(index: Mapping[str, Any]) -> str:
    """JSON with a list on one line, so that a new version changes one line."""
    text = json.dumps(index, indent=2)
    lists = re.compile(r"\[\s+([^\]]*?)\s+\]")
    return lists.sub(lambda m: "[" + re.sub(r",\s+", ", ", m[1]) + "]", text) + "\n"


def manifest_text(namespaces: Mapping[str, Mapping[str, Any]]) -> str:
    parts = [
        "# What amanda-namespaces brings; written by tools/dictionaries.py.\n"
        "manifest = 1\n"
    ]
    for path, row in namespaces.items():
        name = path.removeprefix("amanda/")
        versions = ", ".join(json.dumps(version) for version in row["versions"])
        parts.append(
            f'[namespaces."{name}"]\n'
            f'doc = "{row["newest"]} ops, from {row["source"]}"\n'
            f"versions = [{versions}]\n"
            'tier = "beta"\n'
        )
    return "\n".join(parts)


def raw_folder() -> Path:
    root = os.environ.get("AMANDA_TEST_DATA")
    if root is None:
        raise SystemExit("name the folder, or set AMANDA_TEST_DATA")
    return Path(root) / "namespace-data"


def main(arguments: Sequence[str]) -> None:
    match arguments:
        case ["onnx"]:
            save(from_onnx())
        case ["tensorflow"]:
            save(from_tensorflow(raw_folder()))
        case ["tensorflow", folder]:
            save(from_tensorflow(Path(folder)))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
