"""The tercel command under test, and small models to give it."""
import subprocess

import onnx
import pytest
from onnx import TensorProto, helper


@pytest.fixture(scope="session")
def tercel(build):
    """tercel("run", "net.onnx", ...) runs the command: a CompletedProcess with text."""
    program = build / "tercel"

    def call(*arguments, **options):
        return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=120,
                              stdin=subprocess.DEVNULL, **options)

    return call


def save(path, nodes, inputs, outputs, initializers=(), opset=17, metadata=None):
    graph = helper.make_graph(nodes, "test", inputs, outputs, list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    for key, value in (metadata or {}).items():
        model.metadata_props.add(key=key, value=value)
    onnx.save(model, path)
    return path


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """A folder of models: relu.onnx (f32 [n, 4]), identity_TYPE.onnx, picture.onnx (f32 [1, 3, 8, 12] through Identity), and
    pair.onnx (a + b)."""
    folder = tmp_path_factory.mktemp("models")
    value = helper.make_tensor_value_info
    save(folder / "relu.onnx", [helper.make_node("Relu", ["x"], ["y"])], [value("x", TensorProto.FLOAT, ["n", 4])],
         [value("y", TensorProto.FLOAT, ["n", 4])], metadata={"purpose": "test", "long": "first line\nsecond line"})
    save(folder / "pair.onnx", [helper.make_node("Add", ["a", "b"], ["sum"])],
         [value("a", TensorProto.FLOAT, [2]), value("b", TensorProto.FLOAT, [2])], [value("sum", TensorProto.FLOAT, [2])])
    save(folder / "picture.onnx", [helper.make_node("Identity", ["image"], ["y"])],
         [value("image", TensorProto.FLOAT, [1, 3, 8, 12])], [value("y", TensorProto.FLOAT, [1, 3, 8, 12])])
    for name in ("FLOAT", "DOUBLE", "FLOAT16", "INT64", "INT8", "UINT8", "BOOL", "STRING", "COMPLEX64"):
        kind = getattr(TensorProto, name)
        save(folder / f"identity_{name}.onnx", [helper.make_node("Identity", ["x"], ["y"])], [value("x", kind, [2, 3])],
             [value("y", kind, [2, 3])])
    return folder
