"""What is read of files that TensorFlow generates, and the dictionary of contrib."""

from __future__ import annotations

import pytest

from amanda.errors import PluginMissingError
from amanda_dictionaries_dev.tensorflow import generated_wrappers
from amanda_dictionaries_dev.tensorflow.contrib import ContribExtractor
from amanda_dictionaries_dev.tensorflow.registered_ops import parse_op_list

OP = 'name: "Echo" input_arg { name: "x" type: DT_FLOAT } is_stateful: true'
TEXT = f'''
def echo(x, name=None):
  r"""Says it again.

  Args:
    x: A `Tensor` of type `float32`.
  """
  return _op_def_lib.apply_op("Echo", x=x, name=name)

def _InitOpDefLibrary():
  pass

_InitOpDefLibrary.op_list_ascii = """op {{ {OP} }}
"""
'''
LATER = '''
def echo(x, name=None):
  r"""Says it again."""
  _, _, _op = _op_def_lib._apply_op_helper("Echo", x=x, name=name)

_op_def_lib = _InitOpDefLibrary({content!r})
'''


def serialized() -> bytes:
    op_def_pb2 = pytest.importorskip("tensorflow.core.framework.op_def_pb2")
    op = op_def_pb2.OpDef(name="Echo", is_stateful=True)
    op.input_arg.add(name="x", type=1)
    content: bytes = op_def_pb2.OpList(op=[op]).SerializeToString()
    return content


def test_generated_files_of_all_releases() -> None:
    """Definitions as text, before 1.3, and serialized."""
    content = serialized()
    for source in (TEXT, LATER.format(content=content)):
        assert generated_wrappers.read_op_list(source) == content
        assert generated_wrappers.read_docs(source)["Echo"].startswith("Says it again.")
    (row,) = parse_op_list(content).values()
    assert row["stateful"] is True
    assert row["inputs"] == [{"name": "x", "ref": False, "type": "float32"}]


def test_other_files() -> None:
    with pytest.raises(ValueError, match="this file has no op definitions"):
        generated_wrappers.read_op_list("x = 1")


def test_no_installed_tensorflow_has_contrib() -> None:
    with pytest.raises(PluginMissingError, match="with contrib is installed"):
        ContribExtractor().installed_ops()
    assert ContribExtractor().extract(None) is None
