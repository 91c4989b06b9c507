"""Legal but unusual files, as exporters and tools write them: each gives the right answer."""
import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

import tercel

node = helper.make_node
X = np.array([-1, 2, -3, 4], np.float32)


def info(name, shape=(4,), dtype=T.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def const(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def model(nodes, inputs=None, outputs=None, initializers=(), opsets=(("", 17),), ir=8, functions=(), **fields):
    graph = helper.make_graph(nodes, "g", [info("x")] if inputs is None else inputs, outputs or [onnx.ValueInfoProto(name="y")],
                              list(initializers), **fields)
    return helper.make_model(graph, ir_version=ir, opset_imports=[helper.make_opsetid(*o) for o in opsets], functions=list(functions))


def run(made, optimize=True, **feeds):
    session = tercel.Session(made.SerializeToString(), optimize=optimize, threads=1)
    return session.run(None, feeds or {"x": X})


def same(made, want, **feeds):
    """With and without the optimizer; want: one array or a list of them."""
    for optimize in (True, False):
        got = run(made, optimize, **feeds)
        for g, w in zip(got, want if isinstance(want, list) else [want], strict=True):
            w = np.asarray(w)
            assert g.shape == w.shape and g.dtype == w.dtype
            np.testing.assert_allclose(g, w, rtol=1e-6)


# ---- order and names -------------------------------------------------------------------------------------------------------------


def test_nodes_in_any_order():
    same(model([node("Add", ["b", "a"], ["y"]), node("Neg", ["a"], ["b"]), node("Abs", ["x"], ["a"])]), np.zeros(4, np.float32))


def test_capture_defined_after_its_user():
    branch = helper.make_graph([node("Add", ["late", "x"], ["t"])], "then", [], [info("t", None)])
    made = model([node("If", ["c"], ["y"], then_branch=branch, else_branch=branch), node("Exp", ["x"], ["late"])],
                 initializers=[const("c", np.array(True))])
    same(made, np.exp(X) + X)


def test_nodes_share_a_name_and_have_none():
    same(model([node("Neg", ["x"], ["a"], name="n"), node("Abs", ["a"], ["b"], name="n"), node("Relu", ["b"], ["y"])]), np.abs(X))


def test_unused_parts():
    made = model([node("Relu", ["x"], ["y"]), node("Exp", ["x"], ["nobody"]), node("Split", ["x"], ["", "half"], axis=0)],
                 [info("x"), info("spare", [7])], initializers=[const("unused", np.zeros(3)), const("", np.ones(2)), const("", np.ones(2))])
    made.graph.value_info.extend([info("no such value"), info("nobody", [4]), info("nobody", [4])])
    same(made, np.maximum(X, 0), x=X, spare=np.zeros(7, np.float32))


def test_names_of_any_kind():
    names = ["a b", "ß/ü", "%1", '"', "a\\b", "0", "if", "x" * 3000]
    nodes = [node("Neg", [a], [b]) for a, b in zip(["x", *names], [*names, "y"])]
    same(model(nodes), -X if len(nodes) % 2 else X)


def test_initializer_given_twice():
    """The later one counts, as in ONNX Runtime."""
    same(model([node("Mul", ["x", "w"], ["y"])], initializers=[const("w", np.float32(2)), const("w", np.float32(3))]), 3 * X)


@pytest.mark.parametrize("ir", [3, 8])
def test_initializers_that_are_inputs(ir):
    made = model([node("Mul", ["x", "w"], ["y"])], [info("x"), info("w")], initializers=[const("w", X)], ir=ir)
    assert [i.name for i in tercel.Session(made.SerializeToString()).inputs] == ["x"]
    same(made, X * X)


def test_input_is_output_and_output_twice():
    made = model([node("Identity", ["x"], ["i"]), node("Relu", ["i"], ["r"])],
                 outputs=[onnx.ValueInfoProto(name=name) for name in ("x", "i", "r", "r", "w")], initializers=[const("w", X)])
    same(made, [X, X, np.maximum(X, 0), np.maximum(X, 0), X])


# ---- versions ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ir", range(3, 15))
def test_ir_versions(ir):
    same(model([node("Relu", ["x"], ["y"])], ir=ir), np.maximum(X, 0))


def test_domain_that_is_not_imported():
    """As in ONNX Runtime the newest version is taken; a model without any import is refused (bad/opset_missing)."""
    made = model([node("QuickGelu", ["x"], ["q"], domain="com.microsoft", alpha=1.0), node("Neg", ["q"], ["y"])])
    same(made, -X / (1 + np.exp(-X)))
    same(model([node("Relu", ["x"], ["y"])], opsets=[("com.microsoft", 1)]), np.maximum(X, 0))


def test_function_takes_the_versions_of_the_model():
    function = helper.make_function("f", "Twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("f", 1)])
    same(model([node("Twice", ["x"], ["y"], domain="f")], opsets=[("", 17), ("f", 1)], functions=[function]), 2 * X)


# ---- absent inputs and outputs -----------------------------------------------------------------------------------------------------


def test_empty_optional_inputs_and_outputs():
    nodes = [node("Clip", ["x", "", "high"], ["c"]), node("Dropout", ["c", "", ""], ["d", ""]), node("TopK", ["d", "k"], ["", "y"])]
    same(model(nodes, initializers=[const("high", np.float32(3)), const("k", np.array([2]))]), np.array([3, 1]))


def function_with_branch(op_in_branch):
    """f(a, b?): the branch of an If in it names the input that may be left out."""
    then = helper.make_graph([op_in_branch], "then", [], [onnx.ValueInfoProto(name="t")])
    other = helper.make_graph([node("Neg", ["a"], ["u"])], "else", [], [onnx.ValueInfoProto(name="u")])
    nodes = [node("ReduceSum", ["a"], ["s"], keepdims=0), node("Greater", ["s", "s"], ["no"]), node("Not", ["no"], ["yes"]),
             node("If", ["yes"], ["r"], then_branch=then, else_branch=other)]
    return helper.make_function("f", "F", ["a", "b"], ["r"], nodes, [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)])


OPSETS = (("", 17), ("f", 1))


@pytest.mark.parametrize("inputs", [["x"], ["x", ""]])
def test_function_input_left_out_and_named_in_a_subgraph(inputs):
    function = function_with_branch(node("Clip", ["a", "", "b"], ["t"]))
    same(model([node("F", inputs, ["y"], domain="f")], opsets=OPSETS, functions=[function]), X)
    same(model([node("F", ["x", "x"], ["y"], domain="f")], [info("x", [])], opsets=OPSETS, functions=[function]), np.float32(3),
         x=np.float32(3))


def test_function_input_left_out_and_handed_on():
    inner = helper.make_function("f", "G", ["a", "b"], ["r"], [node("Clip", ["a", "b"], ["r"])], [helper.make_opsetid("", 17)])
    outer = function_with_branch(node("G", ["a", "b"], ["t"], domain="f"))
    same(model([node("F", ["x"], ["y"], domain="f")], opsets=OPSETS, functions=[inner, outer]), X)


def test_function_input_left_out_but_needed():
    function = function_with_branch(node("Add", ["a", "b"], ["t"]))
    with pytest.raises(tercel.InvalidModel, match="Add 'F/t'|input 1 is absent|want at least 2"):
        run(model([node("F", ["x"], ["y"], domain="f", name="F")], opsets=OPSETS, functions=[function]))


# ---- sizes and forms ----------------------------------------------------------------------------------------------------------------


def test_dims_of_zero():
    empty = np.zeros((0, 3), np.float32)
    nodes = [node("Concat", ["x", "e"], ["c"], axis=0), node("ReduceSum", ["c", "axes"], ["s"], keepdims=0),
             node("MatMul", ["c", "w"], ["m"]), node("Add", ["m", "s"], ["y"])]
    made = model(nodes, [info("x", ["n", 3])], initializers=[const("e", empty), const("axes", np.array([0])),
                                                             const("w", np.ones((3, 3), np.float32))])
    same(made, empty, x=empty)
    same(made, np.full((1, 3), 4, np.float32), x=np.ones((1, 3), np.float32))


def test_scalars():
    nodes = [node("Add", ["x", "one"], ["a"]), node("ReduceMax", ["a"], ["m"], keepdims=0), node("Shape", ["m"], ["s"]),
             node("Expand", ["m", "s"], ["y"])]
    same(model(nodes, [info("x", [])], initializers=[const("one", np.float32(1))]), np.float32(3), x=np.float32(2))


def test_sparse_initializer():
    made = model([node("Add", ["x", "w"], ["y"])])
    sparse = made.graph.sparse_initializer.add(dims=[4])
    sparse.values.CopyFrom(const("w", np.array([5, 6], np.float32)))
    sparse.indices.CopyFrom(const("", np.array([1, 3])))
    same(made, X + np.array([0, 5, 0, 6], np.float32))


def test_metadata_and_unknown_fields():
    made = model([node("Relu", ["x"], ["y"], doc_string="why")])
    made.metadata_props.add(key="k", value="v")
    made.graph.metadata_props.add(key="k", value="v")
    made.graph.node[0].metadata_props.add(key="k", value="v")
    data = made.SerializeToString() + b"\xfa\x7f\x03abc"  # field 2047: somebody's extension
    assert tercel.Session(data).metadata == {"k": "v"}


# ---- loops --------------------------------------------------------------------------------------------------------------------------


def loop(body_nodes, carried_in, carried_out, count=2):
    body = helper.make_graph([*body_nodes, node("Identity", ["go"], ["on"])], "body", [info("i", [], T.INT64), info("go", [], T.BOOL), carried_in],
                             [info("on", [], T.BOOL), carried_out])
    return node("Loop", ["count", "", "start"], ["y"], body=body), const("count", np.array(count))


def test_loop_whose_value_grows_in_rank():
    made_loop, count = loop([node("Unsqueeze", ["v", "zero"], ["w"])], info("v", None), info("w", None), 3)
    made = model([node("Neg", ["x"], ["start"]), made_loop], initializers=[count, const("zero", np.array([0]))])
    same(made, -X.reshape(1, 1, 1, 4))


def test_loop_whose_value_grows_in_size():
    made_loop, count = loop([node("Concat", ["v", "x"], ["w"], axis=0)], info("v", ["n"]), info("w", ["m"]), 3)
    same(model([node("Neg", ["x"], ["start"]), made_loop], initializers=[count]), np.concatenate([-X, X, X, X]))


def value(name, kind):
    return helper.make_value_info(name, kind)


TENSOR = helper.make_tensor_type_proto(T.FLOAT, None)
SEQUENCE = helper.make_sequence_type_proto(TENSOR)


@pytest.mark.parametrize("held", ["sequence", "tensor"])
@pytest.mark.parametrize("given, count", [(False, 1), (False, 3), (True, 0), (True, 3), (False, 0)])
def test_loop_from_an_optional(held, given, count):
    """It starts as an optional and goes on as the sequence or tensor that it holds."""
    kind = SEQUENCE if held == "sequence" else TENSOR
    empty = node("SequenceEmpty", [], ["e"], dtype=T.FLOAT) if held == "sequence" else node("Identity", ["nothing"], ["e"])
    longer = node("SequenceInsert", ["s", "x"], ["w"]) if held == "sequence" else node("Concat", ["s", "x"], ["w"], axis=0)
    some = helper.make_graph([node("OptionalGetElement", ["v"], ["g"])], "some", [], [value("g", kind)])
    none = helper.make_graph([empty], "none", [], [value("e", kind)])
    body = [node("OptionalHasElement", ["v"], ["has"]), node("If", ["has"], ["s"], then_branch=some, else_branch=none), longer]
    made_loop, trips = loop(body, value("v", helper.make_optional_type_proto(kind)), value("w", kind), count)
    made_loop.output[0] = "last"
    start = [node("SequenceConstruct", ["x"], ["q"]) if held == "sequence" else node("Identity", ["x"], ["q"]),
             node("Optional", ["q"], ["start"])] if given else [node("Optional", [], ["start"], type=kind)]
    end = node("ConcatFromSequence", ["last"], ["y"], axis=0) if held == "sequence" else node("Neg", ["last"], ["y"])
    made = model([*start, made_loop, end], opsets=(("", 18),), initializers=[trips, const("nothing", np.zeros(0, np.float32))])
    if given or count > 0:
        parts = np.concatenate([X] * (count + given))
        same(made, parts if held == "sequence" else -parts)
    else:
        with pytest.raises(tercel.InvalidArgument, match="'last' stays an empty optional"):
            run(made)


def test_scan_keeps_the_shape_of_its_state():
    body = helper.make_graph([node("Concat", ["s", "e"], ["w"], axis=0), node("Identity", ["e"], ["o"])], "body",
                             [info("s", None), info("e", None)], [info("w", None), info("o", None)])
    made = model([node("Scan", ["x", "rows"], ["y", "z"], body=body, num_scan_inputs=1)], [info("x"), info("rows", [3, 4])])
    with pytest.raises(tercel.InvalidModel, match=r"state 0 is f32\[4\], but its body makes it f32\[8\]"):
        run(made)


# ---- operands that broadcast one way only ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes, opset", [
    ([node("PRelu", ["x", "big"], ["y"])], 17),
    ([node("Gemm", ["column", "x", "big"], ["y"])], 17),
    ([node("DequantizeLinear", ["bytes", "three"], ["y"], axis=0)], 17),
    ([node("Add", ["x", "big"], ["y"], broadcast=1)], 6),
])
def test_operand_that_is_too_large(nodes, opset):
    made = model(nodes, [info("x", [1, 4])], opsets=(("", opset),), initializers=[
        const("big", np.ones((3, 4), np.float32)), const("column", np.ones((1, 1), np.float32)), const("bytes", np.zeros((1, 4), np.int8)),
        const("three", np.ones(3, np.float32))])
    with pytest.raises(tercel.InvalidModel, match=r"\[3, 4\], want \[1, 4\]|rank"):
        run(made, x=X.reshape(1, 4))


# ---- what a file declares -------------------------------------------------------------------------------------------------------------


def declared(shape, dtype=T.FLOAT, output=False):
    made = model([node("Relu", ["x"], ["r"], name="first"), node("Abs", ["r"], ["y"], name="last")], [info("x", [2, 3])])
    if output:
        made.graph.output[0].CopyFrom(info("y", shape, dtype))
    else:
        made.graph.value_info.append(info("r", shape, dtype))
    return made


@pytest.mark.parametrize("output", [False, True])
@pytest.mark.parametrize("shape, dtype, words", [
    ([2, 3], T.INT64, r"i64\[2, 3\], but node '{node}' gives f32\[2, 3\]"),
    ([6], T.FLOAT, r"f32\[6\], but node '{node}' gives f32\[2, 3\]"),
    ([2, 4], T.FLOAT, r"f32\[2, 4\], but node '{node}' gives f32\[2, 3\]"),
    (["n", 2], T.FLOAT, r"f32\[n, 2\], but node '{node}' gives f32\[2, 3\]"),
    (["n", "n"], T.FLOAT, r"f32\[n, n\], but node '{node}' gives f32\[2, 3\]"),
])
def test_contradictions(shape, dtype, output, words):
    name, producer = ("y", "last") if output else ("r", "first")
    with pytest.raises(tercel.InvalidModel, match=f"'{name}' is declared " + words.format(node=producer)):
        run(declared(shape, dtype, output))


@pytest.mark.parametrize("shape", [None, ["n", "m"], ["n", 3], [None, None], [-1, 3]])
def test_declarations_that_say_less(shape):
    x = np.ones((2, 3), np.float32)
    for output in (False, True):
        same(declared(shape, output=output), x, x=x)
