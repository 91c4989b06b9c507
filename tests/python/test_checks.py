"""tercel.check: the findings of a model as Python objects."""
import onnx
import pytest
from onnx import TensorProto, helper

import tercel


def model(*nodes):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(list(nodes), "g", [value("x", TensorProto.FLOAT, [2])], [value("y", TensorProto.FLOAT, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_sound_model(tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(model(helper.make_node("Relu", ["x"], ["y"])), path)
    found = tercel.check(path)
    assert found.runs and found == [] and str(found) == ""


def test_all_errors_at_once():
    found = tercel.check(model(helper.make_node("Wobble", ["x"], ["a"], name="one"),
                               helper.make_node("Relu", ["x"], ["b"], name="two", slope=1.0),
                               helper.make_node("Add", ["a", "b"], ["y"])).SerializeToString())
    assert not found.runs
    assert [(error.kind, error.op, error.node) for error in found.errors] == [("operator", "Wobble", "one"), ("attribute", "Relu", "two")]
    assert str(found).startswith("error: Wobble 'one': operator Wobble (ai.onnx 17) is not supported -> export ")


def test_operators_of_ones_own():
    operators = tercel.Operators()

    @operators.register("", "Wobble")
    def wobble(x):
        return x

    proto = model(helper.make_node("Wobble", ["x"], ["y"])).SerializeToString()
    assert not tercel.check(proto).runs
    assert tercel.check(proto, operators=operators).runs


def test_no_file():
    with pytest.raises(tercel.IOFailure, match="none.onnx"):
        tercel.check("none.onnx")
