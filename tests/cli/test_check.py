"""tercel check: all that is wrong with a file and what is suspicious, with what to do, for readers and for programs.

run-tests: command
"""
import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

value = helper.make_tensor_value_info
node = helper.make_node


def model(nodes, inputs=(("x", [2, 3]),), outputs=("y",), initializers=(), opsets=(("", 17),), infos=(), functions=(),
          kind=TensorProto.FLOAT):
    graph = helper.make_graph(nodes, "g", [value(name, kind, dims) for name, dims in inputs],
                              [value(name, kind, None) for name in outputs], list(initializers), value_info=list(infos))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(*opset) for opset in opsets], ir_version=8,
                             functions=list(functions))


@pytest.fixture
def check(tercel, tmp_path):
    """check(model) -> (exit status, rows, text)."""

    def call(proto, *options):
        path = tmp_path / "model.onnx"
        path.write_bytes(proto if isinstance(proto, bytes) else proto.SerializeToString())
        text = tercel("check", path, *options)
        parsed = json.loads(tercel("check", path, "--json", *options).stdout)
        assert parsed["runs"] == (text.returncode == 0)
        assert all(set(row) == {"level", "kind", "op", "node", "message", "advice"} for row in parsed["rows"])
        return text.returncode, parsed["rows"], text.stdout

    return call


def rows_of(rows, level, kind=None):
    return [row for row in rows if row["level"] == level and kind in (None, row["kind"])]


def test_a_sound_model_has_no_rows(check):
    status, rows, text = check(model([node("Relu", ["x"], ["y"])]))
    assert (status, rows) == (0, [])
    assert "tercel runs it (0 errors, 0 warnings, 0 notes)" in text


def test_everything_at_once(check):
    weights = numpy_helper.from_array(np.ones((2, 3), np.float32), "w")
    missing = TensorProto(name="far", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    missing.external_data.add(key="location", value="none.bin")
    status, rows, text = check(model(
        [node("Wobble", ["x"], ["a"], name="one"), node("Wobble", ["a"], ["b"], name="two"),
         node("Blink", ["x"], ["c"], name="three", domain="acme"), node("Relu", ["x"], ["d"], name="four", slope=1.0),
         node("Concat", ["x", "w"], ["e"], name="five", axis=7), node("Add", ["x", "nowhere"], ["f"], name="six"),
         node("Relu", ["x"], ["h"], name="seven"), node("Relu", ["x"], ["h"], name="eight"), node("Add", ["x", "far"], ["y"])],
        initializers=[weights, missing], opsets=(("", 17), ("acme", 3)), outputs=("y", "gone"), infos=[value("d", TensorProto.FLOAT, [9])]))
    assert status == 1
    errors = [(row["kind"], row["op"], row["node"]) for row in rows_of(rows, "error")]
    assert sorted(errors) == sorted([
        ("operator", "Wobble", "one"), ("operator", "Wobble", "two"), ("operator", "acme.Blink", "three"),
        ("attribute", "Relu", "four"), ("node", "Concat", "five"), ("name", "Add", "six"), ("name", "Relu", "eight"),
        ("weight", "", ""), ("name", "", "")])
    assert "error: Wobble 'one', 'two': operator Wobble (ai.onnx 17)" in text
    assert all("--plugin" in row["advice"] for row in rows_of(rows, "error", "operator"))


def test_load_says_how_many_more(tercel, tmp_path):
    names = [f"a_node_with_quite_a_long_name_{i}" for i in range(100)]
    onnx.save(model([node("Wobble", ["x"], [name]) for name in names] + [node("Relu", ["x"], ["y"])]), tmp_path / "m.onnx")
    result = tercel("run", tmp_path / "m.onnx")
    assert result.returncode == 3
    assert "100 things are not supported: " in result.stderr and "more: `tercel check` lists them" in result.stderr
    listed = tercel("check", tmp_path / "m.onnx")
    assert listed.returncode == 3 and "'a_node_with_quite_a_long_name_2' and 97 more: operator Wobble" in listed.stdout


def test_declared_against_inferred(check):
    proto = model([node("Relu", ["x"], ["a"], name="first"), node("Relu", ["a"], ["y"])], infos=[value("a", TensorProto.FLOAT, [3, 2])])
    status, rows, _ = check(proto)
    (row,) = rows_of(rows, "error", "shape")
    assert status == 1 and row["node"] == "first"
    assert "'a' is declared f32[3, 2], but node 'first' gives f32[2, 3]" in row["message"]


def test_cycles_leave_the_rest_to_be_seen(check):
    status, rows, _ = check(model([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Wobble", ["b"], ["y"])]))
    assert status == 1
    assert [row["kind"] for row in rows_of(rows, "error")] == ["name", "operator"]


def test_what_is_ignored(check):
    proto = model([node("Relu", ["x"], ["y"])])
    proto.training_info.add().algorithm.name = "sgd"
    proto.graph.quantization_annotation.add(tensor_name="y")
    status, rows, text = check(proto)
    assert status == 0
    assert [row["message"] for row in rows_of(rows, "warning", "ignored")] == ["training_info is ignored",
                                                                             "quantization_annotation is ignored"]
    assert "-> export with QuantizeLinear and DequantizeLinear" in text


def test_fields_that_are_newer(check):
    graph_field_30 = bytes([0xf2, 0x01, 0x01, 0x61])
    proto = model([node("Relu", ["x"], ["y"])])
    graph = proto.graph.SerializeToString() + graph_field_30
    proto.ClearField("graph")
    _, rows, _ = check(proto.SerializeToString() + b"\x3a" + bytes([len(graph)]) + graph)
    assert [row["message"] for row in rows_of(rows, "warning", "ignored")] == ["field 30 of GraphProto is not known, and ignored"]


def test_what_is_unused(check):
    unused = numpy_helper.from_array(np.ones(4, np.float32), "w")
    function = helper.make_function("acme", "F", ["a"], ["b"], [node("Relu", ["a"], ["b"])], [helper.make_opsetid("", 17)])
    proto = model([node("Relu", ["x"], ["y"], name="n"), node("Relu", ["x"], ["z"], name="n")], inputs=(("x", [2]), ("spare", [1])),
                  initializers=[unused], opsets=(("", 17), ("nobody", 1)), functions=[function],
                  infos=[value("ghost", TensorProto.FLOAT, [1])])
    status, rows, _ = check(proto)
    assert status == 0
    messages = [row["message"] for row in rows]
    for part in ("input that nothing uses: 'spare'", "initializer that nothing uses: 'w'", "function that no node calls: 'F'",
                 "domain 'nobody' is imported, but no node is of it", "node whose results nothing uses: 'n'",
                 "node that has the name of another one: 'n'", "declared value that no node makes: 'ghost'"):
        assert sum(part in message for message in messages) == 1, (part, messages)


def test_versions(check):
    _, rows, _ = check(model([node("Relu", ["x"], ["y"])], opsets=(("", 999),)))
    assert [row["kind"] for row in rows_of(rows, "error")] == ["version"]
    proto = model([node("Relu", ["x"], ["y"])], opsets=(("", 6),))
    proto.ir_version = 99
    status, rows, _ = check(proto)
    assert status == 0
    assert len(rows_of(rows, "warning", "version")) == 1 and len(rows_of(rows, "note", "version")) == 1
    _, rows, _ = check(model([node("Gelu", ["x"], ["y"])]))
    assert "does not exist in version 17" in rows[0]["message"] and "introduced" in rows[0]["advice"]


def test_reference_kernels_and_random_numbers(check):
    status, rows, text = check(model([node("Det", ["x"], ["d"]), node("RandomNormalLike", ["d"], ["y"])], inputs=(("x", [64, 64]),)))
    assert status == 0
    assert len(rows_of(rows, "note", "random")) == 1
    plain = [row for row in rows if row["kind"] == "kernel"]
    assert plain and "reference kernel" in plain[0]["message"], text


def test_results_that_no_memory_holds(check):
    shape = numpy_helper.from_array(np.array([1 << 20, 1 << 20, 3]), "shape")
    status, rows, _ = check(model([node("Expand", ["x", "shape"], ["y"])], inputs=(("x", [3]),), initializers=[shape]))
    assert status == 0
    assert ["activations need 12 TiB" in row["message"] for row in rows_of(rows, "warning", "shape")] == [True]


def test_data_dependent_shapes(check):
    _, rows, _ = check(model([node("NonZero", ["x"], ["i"]), node("Cast", ["i"], ["y"], to=TensorProto.FLOAT)]))
    assert [row["op"] for row in rows_of(rows, "note", "dynamic")] == ["nonzero"]


def test_subgraphs_and_functions(check):
    bad = helper.make_graph([node("Wobble", ["x"], ["t"], name="inner")], "then", [], [value("t", TensorProto.FLOAT, None)])
    good = helper.make_graph([node("Relu", ["x"], ["e"])], "else", [], [value("e", TensorProto.FLOAT, None)])
    function = helper.make_function("acme", "F", ["a"], ["b"], [node("Wibble", ["a"], ["b"], name="deep")], [helper.make_opsetid("", 17)])
    condition = numpy_helper.from_array(np.array(True), "c")
    proto = model([node("If", ["c"], ["p"], then_branch=bad, else_branch=good), node("F", ["x"], ["y"], name="call", domain="acme")],
                  initializers=[condition], opsets=(("", 17), ("acme", 1)), functions=[function])
    _, rows, _ = check(proto)
    assert [(row["op"], row["node"]) for row in rows_of(rows, "error")] == [("Wobble", "inner"), ("Wibble", "call/deep")]


def test_errors_only_and_files_that_are_none(check, tercel, tmp_path):
    proto = model([node("Relu", ["x"], ["y"])], opsets=(("", 6),))
    assert check(proto, "--errors")[1] == []
    status, rows, _ = check(b"\x00\x01\x02 no model at all")
    assert status == 1 and [row["kind"] for row in rows] == ["file"]
    result = tercel("check", tmp_path / "none.onnx")
    assert result.returncode == 1 and "none.onnx" in result.stderr
