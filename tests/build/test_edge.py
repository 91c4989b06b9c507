"""The build without components: it is small, it runs networks, and it says what it was built without.

run-tests: edge
"""
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper


@pytest.fixture
def tercel(build):
    return lambda *arguments: subprocess.run([build / "tercel", *map(str, arguments)], capture_output=True, text=True)


def save(path, nodes, inputs, outputs, initializers=(), opsets=(("", 20),)):
    graph = helper.make_graph(nodes, "test", inputs, outputs, list(initializers))
    opsets = [helper.make_opsetid(*opset) for opset in opsets]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


def value(name, dtype, shape=None):
    return helper.make_tensor_value_info(name, dtype, shape)


def test_stripped_library_is_under_3_mb(build, tmp_path):
    stripped = tmp_path / "libtercel.so"
    subprocess.run(["strip", "-o", stripped, build / "libtercel.so"], check=True)
    assert stripped.stat().st_size < 3_000_000


def test_a_network_runs(tercel, tmp_path):
    random = np.random.default_rng(1)
    x, w = random.standard_normal((1, 3, 8, 8), np.float32), random.standard_normal((4, 3, 3, 3), np.float32)
    model = save(tmp_path / "net.onnx", [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Relu", ["c"], ["r"]),
                                         helper.make_node("GlobalAveragePool", ["r"], ["y"])],
                 [value("x", TensorProto.FLOAT, x.shape)], [value("y", TensorProto.FLOAT, [1, 4, 1, 1])],
                 [numpy_helper.from_array(w, "w")])
    np.save(tmp_path / "x.npy", x)
    result = tercel("run", model, "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path)
    assert result.returncode == 0, result.stderr
    got = numpy_helper.to_array(onnx.load_tensor(tmp_path / "output_0.pb"))
    windows = np.lib.stride_tricks.sliding_window_view(x[0], (3, 3), (1, 2))
    want = np.maximum(np.einsum("cijkl,mckl->mij", windows, w), 0).mean((1, 2))
    np.testing.assert_allclose(got.reshape(4), want, rtol=1e-5)


LEFT_OUT = {
    "TERCEL_IMAGES": (helper.make_node("ImageDecoder", ["x"], ["y"]), TensorProto.UINT8, TensorProto.UINT8),
    "TERCEL_UNICODE": (helper.make_node("RegexFullMatch", ["x"], ["y"], pattern="a+"), TensorProto.STRING, TensorProto.BOOL),
    "TERCEL_ML": (helper.make_node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", offset=[1.0], scale=[2.0]), TensorProto.FLOAT,
                  TensorProto.FLOAT),
}


@pytest.mark.parametrize("option", LEFT_OUT)
def test_left_out_operators_are_named(tercel, tmp_path, option):
    node, input_type, output_type = LEFT_OUT[option]
    model = save(tmp_path / "net.onnx", [node], [value("x", input_type, [4])], [value("y", output_type)],
                 opsets=[("", 20), ("ai.onnx.ml", 1)])
    result = tercel("run", model)
    assert result.returncode != 0
    assert node.op_type in result.stderr and f"build it with -D{option}=ON" in result.stderr


def test_pictures_as_inputs_are_refused(tercel, tmp_path):
    model = save(tmp_path / "net.onnx", [helper.make_node("Identity", ["x"], ["y"])], [value("x", TensorProto.FLOAT, [1, 3, 1, 1])],
                 [value("y", TensorProto.FLOAT, [1, 3, 1, 1])])
    (tmp_path / "x.ppm").write_bytes(b"P6 1 1 255\n\1\2\3")
    result = tercel("run", model, "--input", f"x={tmp_path / 'x.ppm'}")
    assert result.returncode != 0 and "build it with -DTERCEL_IMAGES=ON" in result.stderr
