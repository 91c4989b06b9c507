"""Floats of 6 bits: packed in files, cast to and from, as initializers, inputs and outputs; ml_dtypes has the answers."""
import subprocess

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tercel

TYPES = [(TensorProto.FLOAT6E2M3, ml_dtypes.float6_e2m3fn), (TensorProto.FLOAT6E3M2, ml_dtypes.float6_e3m2fn)]


def model(nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, "float6", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)]).SerializeToString()


@pytest.mark.parametrize("elem_type,dtype", TYPES)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 64])
def test_initializer(elem_type, dtype, count):
    values = np.arange(count, dtype=np.uint8).view(dtype)
    initializer = numpy_helper.from_array(values, "w")
    data = model([helper.make_node("Cast", ["w"], ["y"], to=TensorProto.FLOAT)], [], [helper.make_tensor_value_info("y", 1, [count])],
                 [initializer])
    np.testing.assert_array_equal(tercel.Session(data).run(None, {})[0], values.astype(np.float32))


@pytest.mark.parametrize("elem_type,dtype", TYPES)
def test_cast_there_and_back(elem_type, dtype):
    x = np.concatenate([np.linspace(-40, 40, 1001), [np.inf, -np.inf, np.nan, 0.03125, -0.0]]).astype(np.float32)
    narrow = helper.make_tensor_value_info("narrow", elem_type, ["n"])
    down = model([helper.make_node("Cast", ["x"], ["narrow"], to=elem_type)], [helper.make_tensor_value_info("x", 1, ["n"])], [narrow])
    up = model([helper.make_node("Cast", ["narrow"], ["y"], to=1)], [narrow], [helper.make_tensor_value_info("y", 1, ["n"])])
    got = tercel.Session(down).run(None, {"x": x})[0]
    assert got.dtype == dtype
    np.testing.assert_array_equal(got.view(np.uint8), x.astype(dtype).view(np.uint8))
    np.testing.assert_array_equal(tercel.Session(up).run(None, {"narrow": got})[0], got.astype(np.float32))


@pytest.mark.parametrize("elem_type,dtype", TYPES)
def test_files(elem_type, dtype, tmp_path, build):
    values = np.arange(7, dtype=np.uint8).view(dtype)
    info = [helper.make_tensor_value_info(name, elem_type, [7]) for name in "xy"]
    (tmp_path / "model.onnx").write_bytes(model([helper.make_node("Identity", ["x"], ["y"])], info[:1], info[1:]))
    (tmp_path / "input_0.pb").write_bytes(numpy_helper.from_array(values, "x").SerializeToString())
    subprocess.run([build / "tercel", "run", tmp_path / "model.onnx", "--inputs-dir", tmp_path, "--output-dir", tmp_path], check=True)
    tensor = TensorProto.FromString((tmp_path / "output_0.pb").read_bytes())
    assert tensor.data_type == elem_type
    np.testing.assert_array_equal(numpy_helper.to_array(tensor).view(np.uint8), values.view(np.uint8))
