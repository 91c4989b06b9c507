"""Gradient (ai.onnx.preview.training) against differences of the function itself, in f64."""
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tercel

node = helper.make_node
TRAINING = "ai.onnx.preview.training"


def make_model(nodes, constants, shapes, wanted):
    inputs = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, list(shape)) for name, shape in shapes.items()]
    outputs = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, None) for name in wanted]
    initializers = [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in constants.items()]
    return helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, initializers), ir_version=9,
                             opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(TRAINING, 1)])


def load(tmp_path, model):
    onnx.save(model, tmp_path / "model.onnx")
    return tercel.Session(str(tmp_path / "model.onnx"))


UNARY = "Neg Exp Log Sqrt Reciprocal Tanh Sigmoid Softplus Sin Cos Abs Relu Identity".split()
CASES = [([node(op, ["a"], ["t"]), node("Mul", ["t", "t"], ["y"])], {}, {"a": (2, 3)}) for op in UNARY]
CASES += [([node(op, ["a", "b"], ["y"])], {}, {"a": (1, 3), "b": (2, 2, 1)}) for op in "Add Sub Mul Div Pow".split()]
CASES += [([node("Gemm", ["a", "b", "c"], ["t"], transA=ta, transB=tb, alpha=0.5, beta=2.0), node("Exp", ["t"], ["y"])], {},
           {"a": (4, 2) if ta else (2, 4), "b": (3, 4) if tb else (4, 3), "c": (3,)}) for ta in (0, 1) for tb in (0, 1)]
CASES += [
    ([node("MatMul", ["a", "b"], ["t"]), node("Tanh", ["t"], ["y"])], {}, {"a": (2, 3, 4), "b": (4, 2)}),
    ([node("ReduceMean", ["a", "axes"], ["t"], keepdims=0), node("Mul", ["t", "t"], ["y"])], {"axes": [-1, 0]}, {"a": (2, 3, 4)}),
    ([node("ReduceSum", ["a"], ["t"], keepdims=0), node("Sin", ["t"], ["y"])], {}, {"a": (2, 2)}),
    ([node("Transpose", ["a"], ["t"], perm=[1, 2, 0]), node("Reshape", ["t", "s"], ["u"]), node("Mul", ["u", "b"], ["y"])],
     {"s": [6, 4]}, {"a": (2, 3, 4), "b": (6, 4)}),
    ([node("Greater", ["a", "b"], ["g"]), node("Where", ["g", "a", "b"], ["t"]), node("Mul", ["t", "t"], ["y"])], {},
     {"a": (3, 4), "b": (4,)}),
]


@pytest.mark.parametrize("nodes, constants, shapes", CASES, ids=lambda v: "-".join(n.op_type for n in v) if isinstance(v, list) else "")
def test_against_differences(tmp_path, nodes, constants, shapes):
    names = list(shapes)
    gradient = node("Gradient", names, ["d_" + name for name in names], domain=TRAINING, xs=names, y="y")
    session = load(tmp_path, make_model(nodes + [gradient], constants, shapes, ["y"] + ["d_" + name for name in names]))
    random = np.random.default_rng(1)
    feeds = {name: random.uniform(0.3, 1.5, shape) for name, shape in shapes.items()}
    results = session.run(None, feeds)
    step = 1e-6
    for name, got in zip(names, results[1:]):
        want = np.empty(shapes[name])
        for place in np.ndindex(want.shape):
            moved = []
            for sign in (1, -1):
                changed = feeds[name].copy()
                changed[place] += sign * step
                moved.append(session.run(None, {**feeds, name: changed})[0].sum())
            want[place] = (moved[0] - moved[1]) / (2 * step)
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


def test_refused(tmp_path):
    shapes = {"a": (2, 2), "b": (2, 2)}
    gradient = node("Gradient", ["a"], ["d"], domain=TRAINING, xs=["a"], y="y")
    with pytest.raises(tercel.Unsupported, match="the derivative of pointwise 'y'"):
        load(tmp_path, make_model([node("Mod", ["a", "b"], ["y"], fmod=1), gradient], {}, shapes, ["d"]))
    other = node("Gradient", ["b"], ["d"], domain=TRAINING, xs=["a"], y="y")
    with pytest.raises(tercel.Unsupported, match="y is not computed anew"):
        load(tmp_path, make_model([node("Exp", ["a"], ["y"]), other], {}, shapes, ["d"]))


def test_second_derivative(tmp_path):
    first = node("Gradient", ["a"], ["d"], domain=TRAINING, xs=["a"], y="y")
    second = node("Gradient", ["a"], ["dd"], domain=TRAINING, xs=["a"], y="d")
    session = load(tmp_path, make_model([node("Sin", ["a"], ["y"]), first, second], {}, {"a": (3,)}, ["dd"]))
    a = np.array([0.1, 0.7, 2.0])
    np.testing.assert_allclose(session.run(None, {"a": a})[0], -np.sin(a), rtol=1e-12)
