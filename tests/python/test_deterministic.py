"""Session(deterministic=True): the same bits whatever the threads, the batch, the instruction-set level, and the C library's choice of code."""
import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tercel

ROWS = 8
random = np.random.default_rng(7)

UNARY = ["Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish",
         "Log", "Mish", "Reciprocal", "Selu", "Sigmoid", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh"]


def weights(*shape):
    return random.uniform(-1, 1, shape).astype(np.float32)


def model(nodes, inputs, constants, elem=TensorProto.FLOAT):
    """nodes make y; inputs {name: shape without the batch, which "_name" has not}; constants {name: array}"""
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(name, elem, shape if name[0] == "_" else ["n", *shape]) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", elem, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    return made.SerializeToString(), {name: shape for name, shape in inputs.items()}


def conv(channels, size, w, **attributes):
    return model([helper.make_node("Conv", ["x", "w", "b"], ["y"], **attributes)], {"x": (channels, *size)},
                 {"w": weights(*w), "b": weights(w[0])})


def unary(elem, dtype):
    """All functions one after the other on the same operand, side by side."""
    nodes = [helper.make_node(op, ["x"], [op]) for op in UNARY]
    nodes += [helper.make_node("Pow", ["x", "e"], ["Pow"]), helper.make_node("Concat", [*UNARY, "Pow"], ["y"], axis=1)]
    return model(nodes, {"x": (77,)}, {"e": np.array(1.7, dtype)}, elem)


def attention(queries, keys):
    made = model([helper.make_node("Attention", ["q", "k", "v"], ["y"])],
                 {"q": (2, queries, 24), "k": (2, keys, 24), "v": (2, keys, 20)}, {})
    return made


def recurrent(op, gates):
    nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
             helper.make_node(op, ["t", "w", "r", "b"], ["h"], hidden_size=9),
             helper.make_node("Transpose", ["h"], ["y"], perm=[2, 0, 1, 3])]
    return model(nodes, {"x": (6, 5)}, {"w": weights(1, gates * 9, 5), "r": weights(1, gates * 9, 9), "b": weights(1, 2 * gates * 9)})


MODELS = {
    "matmul": model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (300,)}, {"w": weights(300, 37)}),
    "matmul of inputs": model([helper.make_node("MatMul", ["x", "z"], ["y"])], {"x": (5, 70), "z": (70, 19)}, {}),
    "matmul by a column": model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (3, 70)}, {"w": weights(70, 1)}),
    "gemm of inputs": model([helper.make_node("Gemm", ["x", "_w", "b"], ["y"], transB=1, alpha=0.3, beta=0.7)],
                            {"x": (90,), "_w": (33, 90)}, {"b": weights(33)}),
    "conv 3x3, Winograd": conv(24, (26, 26), (32, 24, 3, 3), pads=[1, 1, 1, 1]),
    "conv 3x3, stride 2": conv(12, (15, 17), (10, 12, 3, 3), pads=[1, 1, 1, 1], strides=[2, 2]),
    "conv 1x1 on 7x7": conv(40, (7, 7), (24, 40, 1, 1)),
    "conv 1x1 on 1x1": conv(40, (1, 1), (24, 40, 1, 1)),
    "conv, depthwise": conv(18, (9, 13), (18, 1, 3, 3), pads=[1, 1, 1, 1], group=18),
    "conv, groups": conv(12, (9, 13), (18, 4, 5, 3), group=3),
    "conv 1-d": conv(7, (50,), (5, 7, 9), dilations=[2]),
    "conv_transpose": model([helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2])], {"x": (10, 6, 7)},
                            {"w": weights(10, 6, 3, 3)}),
    "attention, one query": attention(1, 150),
    "attention": attention(70, 300),
    "softmax": model([helper.make_node("Softmax", ["x"], ["y"])], {"x": (3, 131)}, {}),
    "softmax of columns": model([helper.make_node("LogSoftmax", ["x"], ["y"], axis=1)], {"x": (31, 19)}, {}),
    "layer norm": model([helper.make_node("LayerNormalization", ["x", "s", "b"], ["y"])], {"x": (3, 130)},
                        {"s": weights(130), "b": weights(130)}),
    "instance norm": model([helper.make_node("InstanceNormalization", ["x", "s", "b"], ["y"])], {"x": (3, 9, 11)},
                           {"s": weights(3), "b": weights(3)}),
    "mean": model([helper.make_node("ReduceMean", ["x", "a"], ["y"])], {"x": (5, 9000)}, {"a": np.array([2])}),
    "log sum exp": model([helper.make_node("ReduceLogSumExp", ["x", "a"], ["y"])], {"x": (5, 90, 3)}, {"a": np.array([2])}),
    "average pool": model([helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[3, 2], pads=[1, 0, 1, 1])], {"x": (3, 9, 21)}, {}),
    "resize": model([helper.make_node("Resize", ["x", "", "s"], ["y"], mode="cubic")], {"x": (3, 9, 11)},
                    {"s": np.array([1, 1, 1.7, 2.3], np.float32)}),
    "lstm": recurrent("LSTM", 4),
    "gru": recurrent("GRU", 3),
    "functions of f32": unary(TensorProto.FLOAT, np.float32),
    "functions of f64": unary(TensorProto.DOUBLE, np.float64),
    "functions of f16": unary(TensorProto.FLOAT16, np.float16),
    "functions, folded": model([helper.make_node(op, ["c"], [op]) for op in UNARY] +
                               [helper.make_node("Concat", UNARY, ["all"], axis=0), helper.make_node("Add", ["x", "all"], ["y"])],
                               {"x": (len(UNARY) * 50,)}, {"c": weights(50)}),
}


def feeds_of(inputs, dtype, rows):
    made = np.random.default_rng(3)
    return {name: made.uniform(-2, 2, shape if name[0] == "_" else (rows, *shape)).astype(dtype) for name, shape in inputs.items()}


def dtype_of(name):
    return {"functions of f64": np.float64, "functions of f16": np.float16}.get(name, np.float32)


def run(name, rows=None, **options):
    """The result for all rows, or for some."""
    source, inputs = MODELS[name]
    feeds = feeds_of(inputs, dtype_of(name), ROWS)
    if rows is not None:
        feeds = {key: value if key[0] == "_" else np.ascontiguousarray(value[rows]) for key, value in feeds.items()}
    return tercel.Session(source, **options).run(None, feeds)[0]


def same_bits(a, b):
    nan = np.isnan(a) & np.isnan(b)
    return a.shape == b.shape and np.where(nan, 0, a).tobytes() == np.where(nan, 0, b).tobytes()


@pytest.mark.parametrize("name", MODELS)
def test_a_row_is_the_same_alone(name):
    whole = run(name, deterministic=True, threads=2)
    for row in range(ROWS):
        assert same_bits(run(name, slice(row, row + 1), deterministic=True, threads=1), whole[row:row + 1])


@pytest.mark.parametrize("name", MODELS)
def test_default_mode_repeats_itself(name):
    assert same_bits(run(name, threads=2), run(name, threads=2))


def hashes():
    """Of all results, with 1, 2 and 3 threads."""
    found = {}
    for name in MODELS:
        for threads in (1, 2, 3):
            result = run(name, deterministic=True, threads=threads)
            bits = np.where(np.isnan(result), 0, result).tobytes()
            found[f"{name}, {threads} threads"] = hashlib.sha256(bits).hexdigest()
    return found


def hashes_under(**environment):
    """The same in a process of its own."""
    ran = subprocess.run([sys.executable, __file__], env={**os.environ, **environment}, check=True, text=True, stdout=subprocess.PIPE)
    return json.loads(ran.stdout)


@pytest.fixture(scope="module")
def here():
    found = hashes()
    for name in MODELS:
        assert len({found[f"{name}, {threads} threads"] for threads in (1, 2, 3)}) == 1, name
    return found


@pytest.mark.parametrize("level", ["baseline", "avx2", "avx512"])
def test_levels_agree(here, level):
    """A level that the machine lacks is the best it has."""
    assert hashes_under(TERCEL_CPU=level) == here


def test_no_bit_is_the_c_librarys(here):
    """glibc has its functions with and without FMA, and takes what this says the CPU has."""
    masked = ",".join(f"-{name}" for name in ("FMA", "FMA4", "AVX2", "AVX2_Usable", "AVX512F", "AVX512VL", "AVX"))
    assert hashes_under(GLIBC_TUNABLES=f"glibc.cpu.hwcaps={masked}") == here


if __name__ == "__main__":
    json.dump(hashes(), sys.stdout)
