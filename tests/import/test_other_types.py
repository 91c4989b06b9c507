"""Operators on types that take another way than numbers do, against numpy."""
import numpy as np
import pytest
from onnx import TensorProto, helper

import tercel


def run(op, feeds, elem_type, opset, shapes=None, **attributes):
    inputs = [helper.make_tensor_value_info(k, TensorProto.STRING if v.dtype == object else helper.np_dtype_to_tensor_dtype(v.dtype),
                                            shapes or v.shape) for k, v in feeds.items() if v is not None]
    node = helper.make_node(op, [k if v is not None else "" for k, v in feeds.items()], ["y"], **attributes)
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", elem_type, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return tercel.Session(model.SerializeToString()).run(None, {k: v for k, v in feeds.items() if v is not None})[0]


WORDS = np.array([["a", "bc", ""], ["d", "ef", "ghi"]], object)


def test_where_of_strings():
    condition, other = np.array([[True], [False]]), np.array(["x", "yz", "w"], object)
    got = run("Where", {"c": condition, "x": WORDS, "z": other}, TensorProto.STRING, 16)
    assert got.tolist() == np.where(condition, WORDS, other).tolist()
    got = run("Where", {"c": condition, "x": WORDS, "z": other[:0].reshape(0, 1, 1)}, TensorProto.STRING, 16)
    assert got.shape == (0, 2, 3)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_where_of_complex_numbers(dtype):
    x = np.arange(6).reshape(2, 3).astype(dtype) * (1 - 2j)
    condition = np.array([[True, False, True], [False, True, False]])
    got = run("Where", {"c": condition, "x": x, "z": np.array(3j, dtype)}, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), 16)
    np.testing.assert_array_equal(got, np.where(condition, x, dtype(3j)))


def test_resize_of_strings():
    feeds = {"x": WORDS, "roi": None, "scales": np.array([2, 2], np.float32)}
    got = run("Resize", feeds, TensorProto.STRING, 19, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    assert got.tolist() == WORDS.repeat(2, 0).repeat(2, 1).tolist()
    with pytest.raises(tercel.Error, match="copying only"):
        run("Resize", feeds, TensorProto.STRING, 19, mode="linear")


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
def test_shrink_of_integers(dtype):
    x = np.array([0, 1, 2, 3, 100], dtype)
    x = np.concatenate([x, (-x.astype(np.int64)).astype(dtype)]) if dtype.startswith("i") else x
    got = run("Shrink", {"x": x}, helper.np_dtype_to_tensor_dtype(x.dtype), 9, lambd=1.5, bias=1.0)
    wide = x.astype(np.float64)
    np.testing.assert_array_equal(got, np.where(wide < -1.5, wide + 1, np.where(wide > 1.5, wide - 1, 0)).astype(dtype))


def test_rms_norm_has_the_scales_type():
    random = np.random.default_rng(5)
    x, scale = random.standard_normal((4, 7)).astype(np.float16), random.standard_normal(7).astype(np.float32)
    got = run("RMSNormalization", {"x": x, "s": scale}, TensorProto.FLOAT, 23)
    wide = x.astype(np.float64)
    want = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5) * scale
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
