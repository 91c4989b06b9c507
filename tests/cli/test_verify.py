"""tercel build --verify, and what becomes of it.

run-tests: command
"""
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    weights = numpy_helper.from_array(np.linspace(-1, 1, 5 * 4, dtype=np.float32).reshape(5, 4), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"], name="the/product"),
             helper.make_node("Relu", ["m"], ["r"], name="the/relu"),
             helper.make_node("Softmax", ["r"], ["y"], name="the/softmax")]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, ["n", 5])], [value("y", TensorProto.FLOAT, ["n", 4])], [weights])
    path = tmp_path_factory.mktemp("verify") / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_a_right_engine_is_written(tercel, model, tmp_path):
    result = tercel("build", model, "-o", tmp_path / "net.tercel", "--verify", "--shapes", "x=3x5")
    assert result.returncode == 0, result.stderr
    assert re.search(r"verified: 2 steps against their reference kernels, 2 against the file's nodes: all are right", result.stdout)
    assert "the/product + the/relu" in result.stdout
    assert tercel("run", tmp_path / "net.tercel", "--shapes", "x=3x5").returncode == 0


def test_inputs_that_do_not_fit_write_nothing(tercel, model, tmp_path):
    result = tercel("build", model, "-o", tmp_path / "net.tercel", "--verify", "--shapes", "x=3x6")
    assert result.returncode != 0 and "input 0 'x'" in result.stderr and not (tmp_path / "net.tercel").exists()
