"""Operators that draw at random, by the properties of what they draw.  Seeds are fixed; bounds are four standard deviations."""
import numpy as np
import onnx
from onnx import TensorProto, helper

import tercel

node = helper.make_node


def run(tmp_path, nodes, feeds, outputs):
    inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for name, v in feeds.items()]
    results = [helper.make_tensor_value_info(name, dtype, None) for name, dtype in outputs.items()]
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, results), ir_version=10,
                              opset_imports=[helper.make_opsetid("", 22)])
    onnx.save(model, tmp_path / "model.onnx")
    return tercel.Session(str(tmp_path / "model.onnx")).run(None, feeds)


def test_dropout(tmp_path):
    """Ratio and mode as inputs: known only in the run."""
    x = np.random.default_rng(1).uniform(1, 2, (100, 100)).astype(np.float32)
    nodes = [node("Dropout", ["x", "r", "t"], ["y", "m"], seed=3)]
    feeds = {"x": x, "r": np.array(0.25, np.float32), "t": np.array(True)}
    y, mask = run(tmp_path, nodes, feeds, {"y": TensorProto.FLOAT, "m": TensorProto.BOOL})
    assert abs(mask.mean() - 0.75) < 0.018
    np.testing.assert_allclose(y, np.where(mask, x / 0.75, 0), rtol=1e-6)
    feeds["t"] = np.array(False)
    y, mask = run(tmp_path, nodes, feeds, {"y": TensorProto.FLOAT, "m": TensorProto.BOOL})
    assert mask.all() and (y == x).all()


def test_bernoulli(tmp_path):
    p = np.array([0, 0.25, 0.5, 1], np.float16).repeat(10000)
    (y,) = run(tmp_path, [node("Bernoulli", ["p"], ["y"], dtype=TensorProto.INT8, seed=5.0)], {"p": p}, {"y": TensorProto.INT8})
    shares = y.reshape(4, -1).mean(axis=1)
    assert shares[0] == 0 and shares[3] == 1
    assert abs(shares[1] - 0.25) < 0.018 and abs(shares[2] - 0.5) < 0.02


def test_multinomial(tmp_path):
    logits = np.log(np.array([[1, 2, 5], [8, 0, 8]], np.float32), where=[[1, 1, 1], [1, 0, 1]], out=np.full((2, 3), -np.inf, np.float32))
    nodes = [node("Multinomial", ["x"], ["y"], sample_size=20000, seed=2.0)]
    (y,) = run(tmp_path, nodes, {"x": logits}, {"y": TensorProto.INT32})
    counts = np.stack([np.bincount(row, minlength=3) for row in y]) / 20000
    np.testing.assert_allclose(counts, [[0.125, 0.25, 0.625], [0.5, 0, 0.5]], atol=0.015)
    assert counts[1][1] == 0


def test_uniform_and_normal(tmp_path):
    """Of a shape of their own, and of another tensor's: mean, deviation, range and element type."""
    x = np.zeros((100, 100), np.float32)
    nodes = [node("RandomUniform", [], ["a"], shape=[100, 100], low=-1.0, high=3.0, seed=1.0),
             node("RandomUniformLike", ["x"], ["b"], low=-1.0, high=3.0, dtype=TensorProto.DOUBLE, seed=2.0),
             node("RandomNormal", [], ["c"], shape=[100, 100], mean=2.0, scale=0.5, seed=3.0),
             node("RandomNormalLike", ["x"], ["d"], mean=2.0, scale=0.5, seed=4.0)]
    types = {"a": TensorProto.FLOAT, "b": TensorProto.DOUBLE, "c": TensorProto.FLOAT, "d": TensorProto.FLOAT}
    a, b, c, d = run(tmp_path, nodes, {"x": x}, types)
    assert [v.dtype for v in (a, b, c, d)] == [np.float32, np.float64, np.float32, np.float32]
    for uniform in (a, b):
        assert uniform.shape == (100, 100) and uniform.min() >= -1 and uniform.max() < 3
        assert abs(uniform.mean() - 1) < 0.047 and abs(uniform.std() - 4 / 12**0.5) < 0.03
    for normal in (c, d):
        assert normal.shape == (100, 100)
        assert abs(normal.mean() - 2) < 0.02 and abs(normal.std() - 0.5) < 0.015
        assert 0.66 < (abs(normal - 2) < 0.5).mean() < 0.71


def test_seeds(tmp_path):
    nodes = [node("RandomNormal", [], ["a"], shape=[1000], seed=1.0), node("RandomNormal", [], ["b"], shape=[1000], seed=1.0),
             node("RandomNormal", [], ["c"], shape=[1000]), node("RandomNormal", [], ["d"], shape=[1000])]
    a, b, c, d = run(tmp_path, nodes, {}, dict.fromkeys("abcd", TensorProto.FLOAT))
    assert (a == b).all() and (a != c).any() and (c != d).any()
