"""The Python package: what goes in, what comes out, what is refused."""
import gc
import threading

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

import tercel

F = TensorProto.FLOAT


def make(nodes, inputs, outputs, opset=21):
    """Bytes of a model; inputs and outputs are (name, type, shape) or finished ValueInfoProtos."""
    infos = [[v if not isinstance(v, tuple) else helper.make_tensor_value_info(*v) for v in values] for values in (inputs, outputs)]
    graph = helper.make_graph(nodes, "g", *infos)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10).SerializeToString()


def unary(op, dtype=F, shape=("n", 3)):
    return make([helper.make_node(op, ["x"], ["y"])], [("x", dtype, shape)], [("y", dtype, shape)])


def test_run_as_with_onnxruntime():
    session = tercel.Session(unary("Relu"))
    x = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
    (y,) = session.run(None, {"x": x})
    np.testing.assert_array_equal(y, np.maximum(x, 0))
    assert y.dtype == np.float32
    np.testing.assert_array_equal(session.run(["y", "y"], {"x": x[:1]})[1], np.maximum(x[:1], 0))


def test_inputs_and_outputs_are_described():
    session = tercel.Session(unary("Relu"))
    (x,), (y,) = session.get_inputs(), session.get_outputs()
    assert (x.name, x.type, x.shape, x.dtype) == ("x", "tensor(float)", ["n", 3], np.float32)
    assert (y.name, y.shape) == ("y", ["n", 3])
    assert session.threads >= 1


def test_path_and_metadata(tmp_path):
    (tmp_path / "net.onnx").write_bytes(unary("Abs"))
    session = tercel.Session(tmp_path / "net.onnx", threads=1)
    assert session.threads == 1
    assert session.metadata == {}
    np.testing.assert_array_equal(session.run(None, {"x": [[-1, 2, -3]]})[0], [[1, 2, 3]])


def test_strided_and_foreign_arrays_are_copied_right():
    session = tercel.Session(unary("Neg"))
    x = np.arange(24, dtype=np.float32).reshape(3, 8)
    for view in (x.T, x[:, ::-1][:, :3], np.asfortranarray(x[:, :3])):
        view = view[:, :3]
        np.testing.assert_array_equal(session.run(None, {"x": view})[0], -view)


def test_results_outlive_session_and_later_runs():
    for shape, dims in (((2, 3), ("n", 3)), ((2, 3), (2, 3)), ((40, 1000), (40, 1000))):  # the last one written in place
        session = tercel.Session(unary("Abs", shape=dims))
        first = session.run(None, {"x": np.full(shape, -1, np.float32)})[0]
        session.run(None, {"x": np.full(shape, -2, np.float32)})
        del session
        gc.collect()
        np.testing.assert_array_equal(first, np.ones(shape))


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4"])
def test_narrow_types(name):
    numbers = {"bfloat16": TensorProto.BFLOAT16, "float8_e4m3fn": TensorProto.FLOAT8E4M3FN,
               "float8_e5m2": TensorProto.FLOAT8E5M2, "int4": TensorProto.INT4, "uint4": TensorProto.UINT4}
    there = make([helper.make_node("Cast", ["x"], ["y"], to=numbers[name])], [("x", F, (5,))], [("y", numbers[name], (5,))])
    back = make([helper.make_node("Cast", ["x"], ["y"], to=F)], [("x", numbers[name], (5,))], [("y", F, (5,))])
    x = np.array([0, 1, 2, 3, -4 if name != "uint4" else 15], np.float32)
    (narrow,) = tercel.Session(there).run(None, {"x": x})
    assert narrow.dtype == np.dtype(getattr(ml_dtypes, name))
    np.testing.assert_array_equal(narrow.astype(np.float32), x)
    np.testing.assert_array_equal(tercel.Session(back).run(None, {"x": narrow})[0], x)


def test_sequences_and_optionals():
    seq = helper.make_value_info("s", helper.make_sequence_type_proto(helper.make_tensor_type_proto(F, ["n"])))
    model = make([helper.make_node("SequenceInsert", ["s", "x"], ["t"]), helper.make_node("SequenceLength", ["t"], ["n"])],
                 [seq, ("x", F, ["m"])],
                 [helper.make_value_info("t", helper.make_sequence_type_proto(helper.make_tensor_type_proto(F, None))),
                  ("n", TensorProto.INT64, ())])
    session = tercel.Session(model)
    assert session.inputs[0].type == "seq(tensor(float))"
    a, b = np.ones(2, np.float32), np.zeros(3, np.float32)
    items, count = session.run(None, {"s": [a], "x": b})
    assert count == 2
    np.testing.assert_array_equal(items[0], a)
    np.testing.assert_array_equal(items[1], b)

    optional = helper.make_value_info("o", helper.make_optional_type_proto(helper.make_tensor_type_proto(F, [2])))
    has = tercel.Session(make([helper.make_node("OptionalHasElement", ["o"], ["y"])], [optional], [("y", TensorProto.BOOL, ())]))
    assert has.run(None, {"o": a})[0]
    assert not has.run(None, {"o": None})[0]


def test_strings_pass_through():
    session = tercel.Session(make([helper.make_node("Identity", ["x"], ["y"])], [("x", TensorProto.STRING, ("n",))],
                                  [("y", TensorProto.STRING, ("n",))]))
    assert session.run(None, {"x": np.array(["a", "", "häß"])})[0].tolist() == ["a", "", "häß"]


def test_wrong_calls_are_named():
    session = tercel.Session(unary("Relu"))
    x = np.zeros((1, 3), np.float32)
    for feeds, words in (({}, "input 'x' is missing"), ({"x": x, "z": x}, "no input 'z'"),
                         ({"x": x.astype(np.float64)}, "'x'"), ({"x": x[0]}, "'x'"), ({"x": np.zeros((1, 4), np.float32)}, "'x'")):
        with pytest.raises(tercel.InvalidArgument, match=words):
            session.run(None, feeds)
    with pytest.raises(tercel.InvalidArgument, match="no output 'q'"):
        session.run(["q"], {"x": x})
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], x)  # still good


def test_bad_models_raise():
    with pytest.raises(tercel.InvalidModel, match="Git LFS"):
        tercel.Session(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(tercel.Unsupported, match="Wobble"):
        tercel.Session(unary("Wobble"))
    with pytest.raises(OSError, match="no-such-file"):
        tercel.Session("no-such-file.onnx")
    assert issubclass(tercel.Unsupported, tercel.Error) and issubclass(tercel.InvalidModel, ValueError)


def test_options():
    names = [name for name, about in tercel.passes() if about]
    x = np.full((1, 3), -2, np.float32)
    for options in ({"optimize": False}, {"disable_passes": names}, {"disable_passes": ",".join(names[:1])}, {"dims": {"n": 1}}):
        np.testing.assert_array_equal(tercel.Session(unary("Abs"), **options).run(None, {"x": x})[0], -x)
    assert tercel.Session(unary("Abs"), dims={"n": 4}).inputs[0].shape == [4, 3]


def test_profile_and_texts():
    session = tercel.Session(unary("Exp"), profile=True)
    for _ in range(3):
        session.run(None, {"x": np.zeros((4, 3), np.float32)})
    (row,) = [row for row in session.profile() if row["op"] == "pointwise"]
    assert row["runs"] == 3 and row["total_us"] > 0 and row["tactic"]
    assert "pointwise" in session.graph() and session.plan() and session.memory()["activation_bytes"] >= 0


def test_runs_from_many_threads_at_once():
    session = tercel.Session(unary("Abs"), threads=1)
    failures = []

    def work(number):
        x = np.full((50, 3), -number, np.float32)
        for _ in range(50):
            if not (session.run(None, {"x": x})[0] == number).all():
                failures.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_machine_and_version():
    machine = tercel.machine()
    assert machine["level"] in machine["levels"].split() and machine["num_cpus"] >= 1
    assert tercel.__version__.count(".") == 2
