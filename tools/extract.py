"""Extract raw data from packages of old releases of frameworks.

    python -m tools.extract tensorflow RAW PYTHON     0.12 to 1.2, and contrib to 1.15
    python -m tools.extract torch RAW                 1.0 to 1.6
    python -m tools.extract onnx RAW PYTHON ...       schemas as released
    python -m tools.extract keras RAW                 kinds of arguments, operations
    python -m tools.extract jaxlib RAW                StableHLO and CHLO

RAW is the output folder, with files of raw data (see
`amanda_dictionaries_dev.raw_data`). PYTHON is an interpreter that the packages were
built for; it loads their libraries, in a separate process. Members of packages are read
through pip's client, and never imported.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tools.wheels import Wheel, wheels

from amanda.dictionary import version_key
from amanda_dictionaries_dev import first_sentence, read_raw_data

HERE = Path(__file__).resolve().parent
Table = Mapping[str, Any]


def main(what: str, folder: str, *rest: str) -> None:
    EXTRACTORS[what](Path(folder), *rest)


def write(file: Path, tables: Mapping[str, Table], **header: Any) -> None:
    """Write raw data: the ops of each version, by name, and further header fields."""
    versions = sorted(tables, key=version_key)
    steps: dict[str, list[list[Any]]] = {}
    for index, version in enumerate(versions):
        for name in {*steps, *tables[version]}:
            row = tables[version].get(name)
            before = steps.setdefault(name, [])
            if row != (before[-1][1] if before else None):
                before.append([index, row])
    head = {"format": 1, "versions": versions, **header}
    lines = [
        _json_line(head),
        *(_json_line([name, steps[name]]) for name in sorted(steps)),
    ]
    file.write_text("".join(lines), encoding="utf-8")
    counts = f"{len(versions)} versions, {len(steps)} ops"
    print(f"{file.name}: {counts}, {file.stat().st_size:,} bytes")


def _before(versions: Iterable[str], limit: str) -> list[str]:
    """
    >>> _before(["1.10.0", "1.9.0", "2.0.0"], "2.0.0")
    ['1.9.0', '1.10.0']
    """
    known = sorted(versions, key=version_key)
    return [v for v in known if version_key(v) < version_key(limit)]


def _json_line(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":")) + "\n"


# -- TensorFlow ------------------------------------------------------------------------


def tensorflow(folder: Path, python: str) -> None:
    """Ops of contrib, from its libraries and from generated Python wrappers.

    Most ops are in both, which must agree. Before 1.3 the main library is read in the
    same way, since it lists more ops than the wrappers.
    """
    core: dict[str, Table] = {}
    contrib: dict[str, Table] = {}
    found = wheels("tensorflow", ("3.6", "3.5"))
    for version in _before(found, "2.0.0"):
        before, added = _registered_ops(found[version], python)
        generated = _generated_ops(found[version])
        contrib[version] = _merge_contrib(before, added, generated)
        counts = len(before), len(added), len(generated), len(contrib[version])
        print(version, found[version].filename, *counts, flush=True)
        if version in _before(found, "1.3.0"):
            core[version] = before
    write(folder / "tensorflow.more.jsonl", core)
    write(folder / "tensorflow.contrib.jsonl", contrib)


def _registered_ops(wheel: Wheel, python: str) -> tuple[Table, Table]:
    """The ops of the main library, and those of the contrib libraries."""
    from amanda_dictionaries_dev.tensorflow.registered_ops import parse_op_list

    libraries, added = _libraries(wheel.archive.namelist())
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, content in wheel.read([*libraries, *added]).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        files = [[str(folder / name) for name in part] for part in (libraries, added)]
        answer = _query_libraries(
            python, folder / "answer.json", ",".join(files[0]), *files[1]
        )
    before, after = (
        {
            name: _drop_defaults(row)
            for name, row in parse_op_list(bytes.fromhex(answer[key])).items()
        }
        for key in ("before", "after")
    )
    return before, {name: row for name, row in after.items() if name not in before}


def _libraries(members: Iterable[str]) -> tuple[list[str], list[str]]:
    """The main library of a wheel, after its dependencies, and those of contrib."""
    names = [name for name in members if name.endswith((".so", ".so.1"))]
    contrib = [name for name in names if "/contrib/" in name]
    main = [name for name in names if "/python/_pywrap_tensorflow" in name]
    main = [name for name in main if name not in contrib]
    dependencies = [name for name in names if "libtensorflow_framework" in name]
    # of two main libraries, the one with the longer name loads the other
    libraries = [*dependencies, max(main, key=len)]
    return libraries, [name for name in contrib if "wrap" not in name]


def _query_libraries(
    python: str, out: Path, libraries: str, *added: str
) -> dict[str, Any]:
    paths = ":".join(str(Path(file).parent) for file in libraries.split(","))
    done = subprocess.run(
        [python, HERE / "registered_ops.py", out, libraries, *added],
        env={**os.environ, "LD_LIBRARY_PATH": paths},
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{libraries}: {done.stderr.decode()[-1000:]}")
    answer: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    for name, message in answer["failed"].items():
        print(f"  {name} cannot be loaded: {message[-100:]}")
    return answer


def _drop_defaults(row: Any) -> Any:
    """Drop fields with default values, such as empty lists and False."""
    if isinstance(row, Mapping):
        fields = {key: _drop_defaults(value) for key, value in row.items()}
        required = {"allowed", "default", "min", "shape"}
        return {
            k: v for k, v in fields.items() if v not in (False, [], "") or k in required
        }
    return [_drop_defaults(item) for item in row] if isinstance(row, list) else row


def _generated_ops(wheel: Wheel) -> dict[str, tuple[Any, str]]:
    """The ops of contrib's generated wrappers, with documentation."""
    from amanda_dictionaries_dev.tensorflow import generated_wrappers
    from amanda_dictionaries_dev.tensorflow.extractor import doc_lines
    from amanda_dictionaries_dev.tensorflow.registered_ops import parse_op_list

    found = {}
    files = [
        name
        for name in wheel.archive.namelist()
        if "/contrib/" in name and Path(name).match("gen_*.py")
    ]
    for content in wheel.read(files).values():
        source = content.decode()
        lines = doc_lines(generated_wrappers.read_docs(source))
        for name, row in parse_op_list(generated_wrappers.read_op_list(source)).items():
            found[name] = _drop_defaults(row), lines.get(name, "")
    return found


def _merge_contrib(
    before: Table, added: Table, generated: Mapping[str, tuple[Any, str]]
) -> Table:
    for name, (row, _) in generated.items():
        for table in (before, added):
            if name in table and table[name] != row:
                raise SystemExit(f"{name}: {row} in Python, {table[name]} in a library")
    files = {name: row for name, (row, _) in generated.items() if name not in before}
    docs = {name: line for name, (_, line) in generated.items() if line}
    return {
        name: {**row, "doc": docs[name]} if name in docs else row
        for name, row in {**files, **added}.items()
    }


# -- PyTorch ---------------------------------------------------------------------------


def torch(folder: Path) -> None:
    """The operators of aten in releases that raw data lacks or has incompletely.

    They come from headers if these declare all of them. Otherwise they are schemas
    among the strings of libraries (`pytorch_aten.jsonl`) that have a C++ function,
    named as in the nearest releases.
    """
    from amanda_dictionaries_dev.torch.releases import is_operator, match_overload_names
    from amanda_dictionaries_dev.torch.schemas import number_overloads, overload_name

    releases = wheels("torch")
    strings = read_raw_data(folder / "pytorch_aten.jsonl").tables()
    tables: dict[str, Table] = {
        version: _declared_schemas(releases[version]) for version in _DECLARED
    }
    named = [
        {overload_name(name): row for name, row in tables[version].items()}
        for version in ("1.3.1", "1.5.0")
    ]
    unnamed: dict[str, Table] = {
        "1.2.0": {overload_name(name): row for name, row in tables["1.2.0"].items()}
    }
    for version in ("1.0.0", "1.0.1", "1.1.0", "1.4.0"):
        known = _functions(releases[version])
        rows = number_overloads(strings[version])
        operators = {n: row for n, row in rows.items() if is_operator(n, row, known)}
        print(f"{version}: {len(operators)} of {len(rows)} are operators")
        unnamed[version] = operators
    for version, table in unnamed.items():
        tables[version] = {
            _registered_name(name): row
            for name, row in match_overload_names(table, named).items()
        }
    write(folder / "pytorch_aten.more.jsonl", tables)


_DECLARED = ("1.2.0", "1.3.0", "1.3.1", "1.5.0", "1.5.1", "1.6.0")


def _registered_name(called: str) -> str:
    """
    >>> _registered_name("aten.add.Tensor"), _registered_name("aten.t.default")
    ('aten::add.Tensor', 'aten::t')
    """
    return called.replace(".", "::", 1).removesuffix(".default")


def _declared_schemas(wheel: Wheel) -> Table:
    """The schemas declared in a header; duplicate names are numbered."""
    from amanda_dictionaries_dev.torch.releases import parse_schema, read_declarations

    names = [
        n for n in wheel.archive.namelist() if n.endswith("/RegistrationDeclarations.h")
    ]
    found: dict[str, Any] = {}
    for name, schema in read_declarations(wheel.read(names[:1])[names[0]].decode()):
        numbered = (name, *(f"{name}.default_{i}" for i in range(2, 100)))
        found[next(each for each in numbered if each not in found)] = parse_schema(
            schema
        )
    return found


def _functions(wheel: Wheel) -> set[Any]:
    from amanda_dictionaries_dev.torch.releases import read_functions

    names = [n for n in wheel.archive.namelist() if re.search(_HEADERS, n)]
    return {
        function
        for name, content in wheel.read(names).items()
        for function in read_functions(
            content.decode(), methods="Tensor" in Path(name).name
        )
    }


_HEADERS = re.compile(
    r"ATen/(core/)?(Tensor|TensorMethods|TensorBody|Type|Functions|TypeDefault|"
    r"NativeFunctions|TypeExtendedInterface|LegacyTHDispatcher)\.h$"
)


# -- ONNX ------------------------------------------------------------------------------


def onnx(folder: Path, *pythons: str) -> None:
    """The schemas of each opset, from the last release with it as the newest."""
    interpreters = {_python_version(python): python for python in pythons}
    tables: dict[str, Table] = {}
    docs: dict[str, str] = {}
    releases_used: dict[str, str] = {}
    releases = wheels("onnx", tuple(sorted(interpreters, key=version_key)))
    for release in sorted(releases, key=version_key):
        if "rc" in release or version_key(release) < version_key("1.2.3"):
            continue  # older libraries have no defaults
        wheel = releases[release]
        answer = _read_schemas(wheel, interpreters[wheel.python])
        last = answer["opsets"][""]
        known = [each for each in answer["schemas"] if not each["domain"]]
        print(
            release, wheel.filename, f"opset {last}, {len(known)} schemas", flush=True
        )
        docs |= {each["name"]: first_sentence(each["doc"]) for each in known}
        opsets = range(1, last + 1) if not tables else (last,)
        tables |= {str(opset): _schemas_of_opset(opset, known) for opset in opsets}
        releases_used |= {str(opset): release for opset in opsets}
    for table in tables.values():
        for name, row in table.items():
            row["doc"] = docs[name]
    write(folder / "onnx.released.jsonl", tables, releases=releases_used)


def _python_version(python: str) -> str:
    """The version of a Python interpreter."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], capture_output=True, check=True)
    return done.stdout.decode().strip()


def _read_schemas(wheel: Wheel, python: str) -> dict[str, Any]:
    """Read the schemas of the library in a wheel, in a separate process."""
    names = [name for name in wheel.archive.namelist() if ".so" in Path(name).name]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, content in wheel.read(names).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        out = folder / "answer.json"
        command = [python, str(HERE / "released_schemas.py"), str(out)]
        paths = f"{folder / 'onnx' / '.libs'}:{folder / 'onnx.libs'}"
        environment = {**os.environ, "LD_LIBRARY_PATH": paths}
        subprocess.run([*command, folder / "onnx"], env=environment, check=True)
        answer: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return answer


def _schemas_of_opset(
    opset: int, schemas: Iterable[Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """The newest schema of each op in an opset, as rows."""
    found: dict[str, Mapping[str, Any]] = {}
    for each in sorted(schemas, key=lambda each: int(each["since"])):
        if each["since"] <= opset:
            found[each["name"]] = each
    return {name: _schema_row(each) for name, each in found.items()}


def _schema_row(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema as a row, without default fields."""
    row = {"since": schema["since"], "types": schema["types"]}
    if schema["deprecated"]:
        row["deprecated"] = True
    if schema["support"] != "common":
        row["support"] = schema["support"]
    for key, least in zip(("inputs", "outputs"), schema["least"], strict=True):
        row[key] = [dict(port) for port in schema[key]]
        for index, port in enumerate(row[key]):
            if (
                "min" in port and port["min"] is None
            ):  # the minimum is for all ports together
                port["min"] = max(0, least - index)
    row["attrs"] = {name: _attribute(attr) for name, attr in schema["attrs"].items()}
    return row


def _attribute(attr: Mapping[str, Any]) -> dict[str, Any]:
    from onnx import AttributeProto, helper

    row: dict[str, Any] = {"type": attr["type"], "required": attr["required"]}
    proto = AttributeProto.FromString(base64.b64decode(attr["default"]))
    if proto.type:
        value = helper.get_attribute_value(proto)
        items = value if isinstance(value, list) else [value]
        items = [each.decode() if isinstance(each, bytes) else each for each in items]
        row["default"] = items if isinstance(value, list) else items[0]
    elif proto.ListFields() and proto.ListFields()[0][0].name != "name":
        raise SystemExit(f"a default without a type: {proto}")
    return row


# -- Keras -----------------------------------------------------------------------------


def keras(folder: Path) -> None:
    """Kinds of arguments from docstrings, for the layers in `keras_layers.jsonl`, and
    operations of Keras 3."""
    from amanda_dictionaries_dev.keras.class_sources import (
        read_classes,
        read_operations,
    )

    releases = wheels("keras", ("3.9", "3.11"))
    tables: dict[str, Table] = {}
    operations: dict[str, Table] = {}
    for version, rows in read_raw_data(folder / "keras_layers.jsonl").tables().items():
        wheel = releases[version]
        names = [
            name
            for name in wheel.archive.namelist()
            if "/layers/" in name and name.endswith(".py") and "_test" not in name
        ]
        found: dict[str, Any] = {}
        for content in wheel.read(names).values():
            for name, kinds in read_classes(content.decode()):
                if kinds and name in rows:
                    found[name] = found.get(name, {}) | kinds
        tables[version] = found
        count = sum(map(len, found.values()))
        print(version, wheel.filename, f"{len(rows)} layers, {count} kinds", flush=True)
        if names := [n for n in wheel.archive.namelist() if _has_operations(n)]:
            sources = (text.decode() for text in wheel.read(names).values())
            operations[version] = read_operations(sources)
    write(folder / "keras_kinds.jsonl", tables)
    write(folder / "keras_operations.jsonl", operations)


def _has_operations(name: str) -> bool:
    """Whether a member of a wheel is a source of `keras.ops`.

    >>> _has_operations("keras/src/ops/numpy.py"), _has_operations("keras/ops/nn.py")
    (True, False)
    """
    folder, _, file = name.rpartition("/")
    return folder.endswith("/src/ops") and not file.endswith("_test.py")


# -- StableHLO -------------------------------------------------------------------------


def jaxlib(folder: Path) -> None:
    """The dialects of each version, from the last jaxlib with this version."""
    tables: dict[str, dict[str, Table]] = {"stablehlo": {}, "chlo": {}}
    releases_used: dict[str, str] = {}
    releases = wheels("jaxlib", ("3.11",))
    for release in sorted(releases, key=version_key):
        if version_key(release) < version_key("0.4.24"):
            continue  # its bindings have no results
        answer = _read_bindings(releases[release])
        version = answer["version"]
        for name, table in tables.items():
            table[version] = answer[name]
        releases_used[version] = release
        counts = ", ".join(f"{len(answer[name])} {name}" for name in tables)
        print(release, releases[release].filename, version, counts, flush=True)
    for name, table in tables.items():
        write(folder / f"{name}.jsonl", table, releases=releases_used)


def _read_bindings(wheel: Wheel) -> dict[str, Any]:
    """Read the dialects of a wheel's bindings, in a separate process."""
    names = [n for n in wheel.archive.namelist() if re.match(_OF_BINDINGS, n)]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, content in wheel.read(names).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        out = folder / "answer.json"
        script = HERE / "dialect_definitions.py"
        subprocess.run([sys.executable, script, out, folder], check=True)
        answer: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return answer


_OF_BINDINGS = re.compile(r"jaxlib/(mlir/|(__init__|version)\.py$|[^/]*\.so)")


EXTRACTORS: Mapping[str, Callable[..., None]] = {
    "jaxlib": jaxlib,
    "keras": keras,
    "onnx": onnx,
    "tensorflow": tensorflow,
    "torch": torch,
}

if __name__ == "__main__":
    main(*sys.argv[1:])
