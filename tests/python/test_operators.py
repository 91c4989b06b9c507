"""Operators in Python: what their functions get, what becomes of what they give, and of what they do wrong."""
import gc
import subprocess
import sys
import threading
import weakref

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

import tercel

F = TensorProto.FLOAT


def model(nodes, inputs, outputs, version=1):
    infos = [[helper.make_tensor_value_info(*v) for v in values] for values in (inputs, outputs)]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("test", version)]
    return helper.make_model(helper.make_graph(nodes, "g", *infos), opset_imports=opsets, ir_version=10).SerializeToString()


def node(op, inputs=("x",), outputs=("y",), **attributes):
    return helper.make_node(op, inputs, outputs, "node", domain="test", **attributes)


def unary(op, dtype=F, shape=("n", 3), **attributes):
    return model([node(op, **attributes)], [("x", dtype, shape)], [("y", dtype, None)])


X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


def test_operator_with_attributes():
    ops = tercel.Operators()

    @ops.register("test", "Affine", attributes={"factor": 2.0, "shift": int, "axes": [int], "mode": ("", None)[0], "opt": (float, None)},
                  infer=lambda x, **attributes: x)
    def affine(x, *, factor, shift, axes, mode, opt):
        assert axes == [3, -1] and mode == "" and opt is None
        return x * np.float32(factor) + np.float32(shift)

    session = tercel.Session(unary("Affine", shift=1, axes=[3, -1]), operators=ops)
    assert session.outputs[0].shape == ["n", 3]
    for x in (X, X[:1], X[:0]):
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], x * 2 + 1)
    assert affine(X, factor=1, shift=0, axes=[3, -1], mode="", opt=None) is not None  # the function is as it was
    with pytest.raises(tercel.InvalidModel, match="attribute 'shift' is missing"):
        tercel.Session(unary("Affine", axes=[1]), operators=ops)


def test_shapes_in_symbols():
    ops = tercel.Operators()

    def infer(a, b):
        assert a.dtype == np.float32 and a.shape[1] == 3 and (a.shape[0] == a.shape[0]) and a.shape[0] != b.shape[0]
        return tercel.Spec(a.dtype, (2 * a.shape[0] + 1, b.shape[0] // 2, None))

    @ops.register("test", "Odd", inputs=2, infer=infer, data_dependent=True)
    def odd(a, b):
        return np.zeros((2 * len(a) + 1, len(b) // 2, 7), np.float32)

    session = tercel.Session(model([node("Odd", ["a", "b"])], [("a", F, ["n", 3]), ("b", F, ["m"])], [("y", F, None)]), operators=ops)
    assert session.outputs[0].shape == ["2*n + 1", "floor_div(m, 2)", None]
    assert session.run(None, {"a": X, "b": X[0]})[0].shape == (5, 1, 7)


def test_inputs_are_the_runs_own_memory():
    seen = []
    ops = tercel.Operators()

    @ops.register("test", "Look", infer=lambda x: x)
    def look(x):
        seen.append((x.__array_interface__["data"][0], x.flags.writeable))
        return x

    tercel.Session(unary("Look"), operators=ops).run(None, {"x": X})
    assert seen == [(X.__array_interface__["data"][0], False)]


def test_without_inference():
    ops = tercel.Operators()

    @ops.register("test", "Positive")
    def positive(x):
        return x[x > 3]

    session = tercel.Session(unary("Positive"), operators=ops)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], [4, 5, 6])
    np.testing.assert_array_equal(session.run(None, {"x": X[:1]})[0], [])


@pytest.mark.parametrize("name", ["float64", "float16", "int64", "int8", "uint16", "bool", "complex64", "bfloat16", "float8_e4m3fn",
                                  "int4", "uint4", "float4_e2m1fn"])
def test_element_types(name):
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    ops = tercel.Operators()

    @ops.register("test", "Flip", infer=lambda x: x)
    def flip(x):
        assert x.dtype == dtype
        return x[::-1]

    x = np.array([0, 1, 1, 0, 1]).astype(dtype)
    onnx_type = helper.np_dtype_to_tensor_dtype(dtype)
    (y,) = tercel.Session(unary("Flip", onnx_type, ["n"]), operators=ops).run(None, {"x": x})
    assert y.dtype == dtype and y.tolist() == x[::-1].tolist()


def test_strings():
    ops = tercel.Operators()

    @ops.register("test", "Shout", infer=lambda x: x, data_dependent=True)
    def shout(x):
        return np.array([text.upper() + "!" for text in x], object)

    (y,) = tercel.Session(unary("Shout", TensorProto.STRING, ["n"]), operators=ops).run(None, {"x": np.array(["hé", ""], object)})
    assert y.tolist() == ["HÉ!", "!"]


def test_several_outputs_and_absent_inputs():
    ops = tercel.Operators()

    @ops.register("test", "Split", inputs=(1, 3), outputs=(1, None), infer=lambda x, b=None, c=None: [x, x])
    def split(x, b=None, c=None):
        assert b is None and c is not None
        return [x + c, x - c]

    data = model([node("Split", ["x", "", "x"], ["y", "z"])], [("x", F, ["n"])], [("z", F, None)])
    np.testing.assert_array_equal(tercel.Session(data, operators=ops).run(None, {"x": X[0]})[0], [0, 0, 0])


def failing(**options):
    ops = tercel.Operators()
    return ops, ops.register("test", "Bad", **options)


def same(x):
    return x


@pytest.mark.parametrize("function, error, message", [
    (lambda x: 1 / 0, tercel.InvalidArgument, "test.Bad 'node': ZeroDivisionError: division by zero"),
    (lambda x: x[9], tercel.InvalidArgument, "IndexError: index 9"),
    (lambda x: None, tercel.InvalidArgument, "arrays of object|None"),
    (lambda x: x.astype(np.float64), tercel.InvalidArgument, "output 0 is of f64, want f32"),
    (lambda x: x[:1], tercel.InvalidArgument, "output 0 has another shape"),
    (lambda x: [], tercel.InvalidArgument, "the function gave 0 results"),
    (lambda x: x.fill(1), tercel.InvalidArgument, "read-only"),
])
def test_failures_of_a_run(function, error, message):
    ops, register = failing(infer=same)
    register(function)
    session = tercel.Session(unary("Bad"), operators=ops)
    for _ in range(2):
        with pytest.raises(error, match=message):
            session.run(None, {"x": X})


def test_the_cause_is_kept():
    ops, register = failing(infer=same)

    class Own(Exception):
        pass

    @register
    def fail(x):
        raise Own("no")

    with pytest.raises(tercel.Error, match="Own: no") as caught:
        tercel.Session(unary("Bad"), operators=ops).run(None, {"x": X})
    assert isinstance(caught.value.__cause__, Own)


@pytest.mark.parametrize("infer, message", [
    (lambda x: 1 / 0, "ZeroDivisionError"),
    (lambda x: "f32", "infer gave str for output 0, want a tercel.Spec"),
    (lambda x: [], "infer gave 0 results"),
    (lambda x: tercel.Spec(x.dtype, (-3,)), "its infer gives dim 0 of output 0 as -3|dims"),
    (lambda x: tercel.Spec(x.dtype, (1,) * 9), "rank 9"),
    (lambda x: tercel.Spec(x.dtype, (2**40, 2**40)), "too large"),
    (lambda x: tercel.Spec("M8[s]", (1,)), "datetime"),
    (lambda x: tercel.Spec(x.dtype, (x.shape[0] - -1,)), "want a number from 0"),
])
def test_failures_of_inference(infer, message):
    ops, register = failing(infer=infer)
    register(lambda x: x)
    with pytest.raises(tercel.Error, match=message):
        tercel.Session(unary("Bad"), operators=ops)


def test_keeping_an_input_is_an_error():
    kept = []
    ops, register = failing(infer=same)

    @register
    def keep(x):
        kept.append(x)
        return x

    with pytest.raises(tercel.InvalidArgument, match="kept an input"):
        tercel.Session(unary("Bad"), operators=ops).run(None, {"x": X})


def test_registering():
    ops = tercel.Operators()
    ops.register("test", "Op", versions=(1, 2))(same)
    with pytest.raises(tercel.InvalidArgument, match="already"):
        ops.register("test", "Op", versions=(2, None))(same)
    with pytest.raises(tercel.InvalidArgument, match="REPLACES"):
        ops.register("", "Relu")(same)
    with pytest.raises(tercel.InvalidArgument, match="attribute 'a'"):
        ops.register("test", "Attr", attributes={"a": dict})
    ops.register("", "Relu", infer=same, replaces=True)(lambda x: x + np.float32(10))
    relu = model([helper.make_node("Relu", ["x"], ["y"])], [("x", F, ["n", 3])], [("y", F, ["n", 3])])
    np.testing.assert_array_equal(tercel.Session(relu, operators=ops).run(None, {"x": X})[0], X + 10)
    np.testing.assert_array_equal(tercel.Session(relu).run(None, {"x": X})[0], X)
    with pytest.raises(tercel.Unsupported, match="registered for versions 1 to 2"):
        tercel.Session(model([node("Op")], [("x", F, [3])], [("y", F, [3])], version=3), operators=ops)
    with pytest.raises(TypeError):
        tercel.Session(relu, operators=ops._set)  # neither None nor an Operators


def test_pure_operators_are_folded():
    calls = []
    ops = tercel.Operators()

    @ops.register("test", "Pure", infer=same, pure=True)
    def pure(x):
        calls.append(1)
        return x + np.float32(1)

    constant = helper.make_node("Constant", [], ["c"], value=helper.make_tensor("c", F, [2], [1, 2]))
    nodes = [constant, node("Pure", ["c"], ["p"]), helper.make_node("Add", ["x", "p"], ["y"])]
    session = tercel.Session(model(nodes, [("x", F, [2])], [("y", F, [2])]), operators=ops)
    del calls[:]
    np.testing.assert_array_equal(session.run(None, {"x": np.array([1, 1], np.float32)})[0], [3, 4])
    assert not calls


def test_inside_a_branch_and_in_the_profile():
    ops = tercel.Operators()
    ops.register("test", "Twice", infer=same)(lambda x: 2 * x)
    empty = helper.make_tensor_value_info
    branches = {f"{name}_branch": helper.make_graph([body], name, [], [empty(out, F, None)]) for name, body, out in (
        ("then", node("Twice", ["x"], ["t"]), "t"), ("else", helper.make_node("Neg", ["x"], ["e"]), "e"))}
    data = model([helper.make_node("If", ["c"], ["y"], **branches)], [("c", TensorProto.BOOL, []), ("x", F, ["n"])], [("y", F, None)])
    session = tercel.Session(data, operators=ops, profile=True)
    np.testing.assert_array_equal(session.run(None, {"c": np.array(True), "x": X[0]})[0], [2, 4, 6])
    np.testing.assert_array_equal(session.run(None, {"c": np.array(False), "x": X[0]})[0], [-1, -2, -3])
    assert ("test.Twice", "custom") in {(row["op"], row["tactic"]) for row in session.profile()}
    assert "test.Twice" in session.graph() and "custom" in session.plan()


def test_several_threads():
    ops = tercel.Operators()
    ops.register("test", "Twice", infer=same)(lambda x: 2 * x)
    session = tercel.Session(unary("Twice"), operators=ops, threads=2)
    wrong = []

    def work(number):
        for n in range(50):
            x = np.full((1 + (n + number) % 5, 3), number, np.float32)
            if not np.array_equal(session.run(None, {"x": x})[0], 2 * x):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_session_keeps_its_functions_and_lets_them_go():
    class Scale:
        def __call__(self, x):
            return x * np.float32(3)

    def build():
        ops, function = tercel.Operators(), Scale()
        ops.register("test", "Scale", infer=same)(function)
        session = tercel.Session(unary("Scale"), operators=ops)
        function.session = session  # a cycle through C
        return session, weakref.ref(function)

    session, function = build()
    gc.collect()
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], X * 3)
    del session
    gc.collect()
    assert function() is None


def test_dims_die_with_their_call():
    dims = []
    ops = tercel.Operators()

    def infer(x):
        dims.append(x.shape[0])
        return x

    ops.register("test", "Op", infer=infer)(same)
    tercel.Session(unary("Op"), operators=ops)
    with pytest.raises(tercel.InvalidArgument, match="inference is over"):
        dims[0] + 1


def test_the_example(source, tmp_path):
    shapes = [("a", F, ["n", 2]), ("b", F, ["m", 2])]
    far = helper.make_node("Haversine", ["a", "b"], ["km"], domain="example")
    graph = helper.make_graph([far], "g", [helper.make_tensor_value_info(*v) for v in shapes], [helper.make_tensor_value_info("km", F, None)])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("example", 1)]
    path = tmp_path / "distances.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())
    result = subprocess.run([sys.executable, source / "examples/custom_op.py", path], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert [line.split()[:3] for line in result.stdout.splitlines()][:2] == [["Paris", "0", "6484"], ["Nairobi", "6484", "0"]]
