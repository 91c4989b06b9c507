#!/usr/bin/env python3
"""Writes the ONNX files that tests/import/test_onnx.c reads: legal spellings into good/, faults into bad/.

    python make_fixtures.py            (needs the PyPI packages onnx and numpy; deterministic)

bad/expect.tsv lists for each bad file the status and a part of the message that must come.  What the good files must
become stands beside them as text; TERCEL_TEST_UPDATE=1 makes the test write it.
"""
import os

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
GOOD, BAD = os.path.join(HERE, "good"), os.path.join(HERE, "bad")
EXPECT = []


def info(name, shape=(4,), dtype=T.FLOAT):
    return h.make_tensor_value_info(name, dtype, shape)


def const(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def model(nodes, ins=None, outs=None, inits=(), opset=17, ir=8, opsets=None, functions=(), value_infos=(), **kw):
    g = h.make_graph(nodes, "g", [info("x")] if ins is None else ins, [info("y", None)] if outs is None else outs,
                     list(inits), value_info=list(value_infos), **kw)
    m = h.make_model(g, ir_version=ir, functions=list(functions),
                     opset_imports=[h.make_opsetid("", opset)] if opsets is None else opsets)
    m.producer_name, m.producer_version = "fixtures", "1"
    return m


def data_of(m):
    return m if isinstance(m, bytes) else m.SerializeToString(deterministic=True)


def good(name, m):
    with open(os.path.join(GOOD, name + ".onnx"), "wb") as f:
        f.write(data_of(m))


def bad(name, m, status, message):
    with open(os.path.join(BAD, name + ".onnx"), "wb") as f:
        f.write(data_of(m))
    EXPECT.append((name, status, message))


n = h.make_node
W = const("w", np.arange(4, dtype=np.float32))
SOUND = model([n("Mul", ["x", "w"], ["y"])], inits=[W])
INVALID, UNSUPPORTED, OOM = "invalid model", "unsupported", "out of memory"


def tensor(name, dtype, dims, **fields):
    t = T(name=name, data_type=dtype, dims=dims)
    for key, value in fields.items():
        if isinstance(value, (list, tuple)):
            getattr(t, key).extend(value)
        else:
            setattr(t, key, value)
    return t


def external(location, offset=None, length=None):
    t = T(name="w", data_type=T.FLOAT, dims=[4], data_location=T.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            t.external_data.add(key=key, value=str(value))
    return t


# ---- tensors in every legal form --------------------------------------------------------------------------------------


def good_tensors():
    typed = [
        tensor("f32", T.FLOAT, [2], float_data=[1.5, -2]),
        tensor("f64", T.DOUBLE, [2], double_data=[1.5, -2]),
        tensor("i64", T.INT64, [2], int64_data=[1 << 40, -1]),
        tensor("u64", T.UINT64, [2], uint64_data=[1 << 63, 1]),
        tensor("u32", T.UINT32, [2], uint64_data=[1 << 31, 1]),
        tensor("i32", T.INT32, [2], int32_data=[-7, 7]),
        tensor("i16", T.INT16, [2], int32_data=[-7, 7]),
        tensor("i8", T.INT8, [2], int32_data=[-7, 7]),
        tensor("u16", T.UINT16, [2], int32_data=[65535, 7]),
        tensor("u8", T.UINT8, [2], int32_data=[255, 7]),
        tensor("bool", T.BOOL, [3], int32_data=[1, 0, 2]),
        tensor("f16", T.FLOAT16, [2], int32_data=[0x3C00, 0xC000]),
        tensor("bf16", T.BFLOAT16, [2], int32_data=[0x3F80, 0xC000]),
        tensor("f8e4m3fn", T.FLOAT8E4M3FN, [2], int32_data=[0x38, 0xC0]),
        tensor("i4", T.INT4, [3], int32_data=[0x7F, 0x08]),
        tensor("u4", T.UINT4, [3], int32_data=[0x7F, 0x08]),
        tensor("c64", T.COMPLEX64, [1], float_data=[1, -2]),
        tensor("scalar", T.FLOAT, [], float_data=[3]),
        tensor("empty", T.FLOAT, [0, 3]),
        tensor("string", T.STRING, [2], string_data=[b"ab", b""]),
    ]
    nodes = [n("Identity", [t.name], ["out_" + t.name]) for t in typed]
    outs = [h.make_tensor_value_info("out_" + t.name, t.data_type, list(t.dims)) for t in typed]
    good("typed_fields", model(nodes, [], outs, typed, opset=21, ir=10))

    # Numbers of a packed field written one by one: tag 4 (float_data), wire type 5.
    loose = T(name="w", data_type=T.FLOAT, dims=[2]).SerializeToString() + b"\x25\x00\x00\x80\x3f\x25\x00\x00\x00\x40"
    m = model([n("Identity", ["w"], ["y"])], [], [info("y", [2])])
    m.graph.initializer.add().MergeFromString(loose)
    good("unpacked_field", unpack(m, loose))

    # raw_data at each of four alignments: the name in front of it moves it.
    raws = [const("w" * (i + 1), np.arange(3, dtype=np.float32)) for i in range(4)]
    good("raw_data_alignments", model([n("Sum", [r.name for r in raws], ["y"])], [], [info("y", [3])], raws))

    sparse = onnx.SparseTensorProto(dims=[2, 3])
    sparse.values.CopyFrom(const("s", np.array([5, 6], np.float32)))
    sparse.indices.CopyFrom(const("", np.array([[0, 1], [1, 2]], np.int64)))
    m = model([n("Identity", ["s"], ["y"])], [], [info("y", [2, 3])])
    m.graph.sparse_initializer.append(sparse)
    good("sparse_initializer", m)

    good("external_data", model([n("Mul", ["x", "w"], ["y"])], inits=[external("weights.bin", 4, 16)]))
    with open(os.path.join(GOOD, "weights.bin"), "wb") as f:
        f.write(np.arange(8, dtype=np.float32).tobytes())


def unpack(m, loose):
    """The model with its one initializer's bytes as given: protobuf's own writer would pack them again."""
    m = onnx.ModelProto.FromString(m.SerializeToString())
    del m.graph.initializer[:]
    graph = m.graph.SerializeToString(deterministic=True) + b"\x2a" + bytes([len(loose)]) + loose
    m.ClearField("graph")
    return m.SerializeToString(deterministic=True) + b"\x3a" + bytes([len(graph)]) + graph


# ---- graphs in every legal form ----------------------------------------------------------------------------------------


def good_graphs():
    good("sound", SOUND)
    good("nodes_in_any_order", model([n("Relu", ["b"], ["y"]), n("Neg", ["a"], ["b"]), n("Abs", ["x"], ["a"])]))
    good("ir3_initializer_is_input", model([n("Mul", ["x", "w"], ["y"])], [info("x"), info("w")], inits=[W], ir=3, opset=7))
    good("no_opset_before_ir3", model([n("Relu", ["x"], ["y"])], ir=2, opsets=[]))
    good("domain_spelled_out", model([n("Relu", ["x"], ["y"], domain="ai.onnx")]))
    good("declared_shapes", model([n("Reshape", ["x", "s"], ["r"]), n("Relu", ["r"], ["y"])],
                                  [info("x", ["n", 4]), info("s", [2], T.INT64)], value_infos=[info("r", [2, "m"])]))
    good("dims_of_all_kinds", model([n("Relu", ["x"], ["y"])], [info("x", ["batch", None, -1, 3])]))
    good("output_is_input_and_constant", model([], [info("x")], [info("x"), info("w")], [W]))
    good("empty_optionals", model([n("Clip", ["x", "", "w0"], ["y"]), n("MaxPool", ["p"], ["q", ""], kernel_shape=[2])],
                                  [info("x"), info("p", [1, 1, 4])], [info("y", None), info("q", None)],
                                  [const("w0", np.float32(1))]))
    m = model([n("Relu", ["x"], ["y"])])
    m.metadata_props.add(key="character", value="a\nb")
    m.doc_string = "about it"
    good("metadata", m)
    untyped = n("LeakyRelu", ["x"], ["y"], alpha=0.5)
    untyped.attribute[0].ClearField("type")
    good("attribute_without_type", model([untyped], ir=2, opsets=[]))
    good("constant_forms", model(
        [n("Constant", [], ["a"], value=const("", np.ones(2, np.float32))), n("Constant", [], ["b"], value_float=2.0),
         n("Constant", [], ["c"], value_floats=[1.0, 2.0]), n("Constant", [], ["d"], value_int=3),
         n("Constant", [], ["e"], value_ints=[4, 5]), n("Constant", [], ["f"], value_string="s"),
         n("Constant", [], ["g"], value_strings=["s", "t"])], [], [info(k, None, d) for k, d in zip(
             "abcdefg", [T.FLOAT, T.FLOAT, T.FLOAT, T.INT64, T.INT64, T.STRING, T.STRING])]))


def good_subgraphs():
    # Names from outside: x and a of the graph around, w as a constant, b from two levels up.
    inner_then = h.make_graph([n("Add", ["b", "w"], ["it"])], "inner_then", [], [info("it", None)])
    inner_else = h.make_graph([n("Identity", ["a"], ["ie"])], "inner_else", [], [info("ie", None)])
    then = h.make_graph([n("If", ["c"], ["t"], then_branch=inner_then, else_branch=inner_else)], "then", [], [info("t", None)])
    other = h.make_graph([n("Neg", ["x"], ["e"])], "else", [], [info("e", None)])
    good("if_captures", model([n("Abs", ["x"], ["a"]), n("Exp", ["x"], ["b"]),
                               n("If", ["c"], ["y"], then_branch=then, else_branch=other)],
                              [info("x"), info("c", [], T.BOOL)], inits=[W]))
    body = h.make_graph([n("Add", ["v", "step"], ["v2"]), n("Identity", ["cond"], ["cond2"]), n("Neg", ["v2"], ["scan"])], "body",
                        [info("i", [], T.INT64), info("cond", [], T.BOOL), info("v", [4])],
                        [info("cond2", [], T.BOOL), info("v2", None), info("scan", None)])
    good("loop_captures", model([n("Exp", ["x"], ["step"]), n("Loop", ["trips", "", "x"], ["y", "s"], body=body)],
                                [info("x"), info("trips", [], T.INT64)], [info("y", None), info("s", None)]))
    listed = h.make_graph([n("Cast", ["i"], ["f"], to=T.FLOAT), n("Add", ["v", "f"], ["v2"]), n("Identity", ["cond"], ["cond2"])], "listed",
                          [info("i", [1], T.INT64), info("cond", [1], T.BOOL), info("v", [4])],
                          [info("cond2", [1], T.BOOL), info("v2", None)])
    good("loop_counts_in_lists", model([n("Loop", ["trips", "", "x"], ["y"], body=listed)], [info("x"), info("trips", [1], T.INT64)]))
    each = h.make_graph([n("Add", ["e", "b"], ["t"]), n("Mul", ["t", "outside"], ["r"])], "each", [info("e"), info("b")], [info("r", [4])])
    parts = h.make_value_info("s", h.make_sequence_type_proto(h.make_tensor_type_proto(T.FLOAT, [4])))
    mapped = h.make_value_info("y", h.make_sequence_type_proto(h.make_tensor_type_proto(T.FLOAT, None)))
    good("sequence_map", model([n("Exp", ["x"], ["outside"]), n("SequenceMap", ["s", "x"], ["y"], body=each)], [info("x"), parts], [mapped]))
    scan = h.make_graph([n("Add", ["s", "e"], ["s2"]), n("Mul", ["e", "e"], ["o"])], "scan", [info("s", [3]), info("e", [3])],
                        [info("s2", None), info("o", None)])
    good("scan", model([n("Scan", ["s0", "x"], ["y", "z"], body=scan, num_scan_inputs=1, scan_input_axes=[1])],
                       [info("s0", [3]), info("x", [3, 5])], [info("y", None), info("z", None)]))


def good_functions():
    f = h.make_opsetid("f", 1)
    twice = h.make_function("f", "Scale", ["a", "b"], ["r"],
                            [h.make_node("Constant", [], ["k"]), n("Mul", ["a", "k"], ["m"]), n("Clip", ["m", "b"], ["r"])],
                            [h.make_opsetid("", 17)], attributes=["factor"])
    ref = twice.node[0].attribute.add(name="value_float", type=onnx.AttributeProto.FLOAT)
    ref.ref_attr_name = "factor"
    outer = h.make_function("f", "Outer", ["a"], ["r"], [n("Scale", ["a", ""], ["r"], domain="f")], [f],
                            attribute_protos=[h.make_attribute("by", 3.0)])
    passed = outer.node[0].attribute.add(name="factor", type=onnx.AttributeProto.FLOAT)
    passed.ref_attr_name = "by"
    good("functions", model([n("Outer", ["x"], ["t"], domain="f", name="first"), n("Outer", ["t"], ["u"], domain="f", by=5.0),
                             n("Scale", ["u", "low"], ["y"], domain="f", factor=7.0)],
                            opsets=[h.make_opsetid("", 17), f], functions=[twice, outer], inits=[const("low", np.float32(0))]))
    one = h.make_function("f", "Act", ["a"], ["r"], [n("Relu", ["a"], ["r"])], [h.make_opsetid("", 17)])
    two = h.make_function("f", "Act", ["a"], ["r"], [n("Tanh", ["a"], ["r"])], [h.make_opsetid("", 17)])
    one.overload, two.overload = "relu", "tanh"
    m = model([n("Act", ["x"], ["a"], domain="f", overload="tanh"), n("Act", ["a"], ["y"], domain="f", overload="relu")], ir=10,
              opsets=[h.make_opsetid("", 17), f], functions=[one, two])
    good("function_overloads", m)

    # An input that the call leaves out is named in a subgraph of the function.
    then = h.make_graph([n("Clip", ["a", "b", ""], ["t"])], "then", [], [onnx.ValueInfoProto(name="t")])
    other = h.make_graph([n("Neg", ["a"], ["u"])], "else", [], [onnx.ValueInfoProto(name="u")])
    branches = h.make_function("f", "Branches", ["c", "a", "b"], ["r"], [n("If", ["c"], ["r"], then_branch=then, else_branch=other)],
                               [h.make_opsetid("", 17)])
    good("function_input_left_out", model([n("Branches", ["c", "x"], ["y"], domain="f")], [info("x"), info("c", [], T.BOOL)],
                                          opsets=[h.make_opsetid("", 17), f], functions=[branches]))


def good_though_careless():
    good("initializer_twice", model([n("Mul", ["x", "w"], ["y"])], inits=[W, const("w", np.full(4, 2, np.float32))]))
    good("domain_not_imported", model([n("QuickGelu", ["x"], ["y"], domain="com.microsoft")]))
    body = h.make_graph([n("Unsqueeze", ["v", "zero"], ["w"]), n("Identity", ["go"], ["on"])], "body",
                        [info("i", [], T.INT64), info("go", [], T.BOOL), info("v", None)], [info("on", [], T.BOOL), info("w", None)])
    good("loop_changes_rank", model([n("Loop", ["count", "", "x"], ["y"], body=body)],
                                    inits=[const("count", np.array(3)), const("zero", np.array([0]))]))


# ---- old versions --------------------------------------------------------------------------------------------------------


def good_versions():
    image, row = info("x", [1, 3, 4, 4]), info("x", [2, 3, 4])
    good("opset1_add_axis", model([n("Add", ["x", "b"], ["y"], broadcast=1, axis=1)], [image], inits=[const("b", np.ones(3, np.float32))],
                                  opset=1, ir=3))
    good("opset1_reshape_slice_pad", model(
        [n("Reshape", ["x"], ["r"], shape=[3, -1]), n("Slice", ["r"], ["s"], starts=[1], ends=[3], axes=[1]),
         n("Pad", ["s"], ["y"], paddings=[0, 1, 0, 1], value=2.0)], [image], opset=1, ir=3))
    good("opset7_softmax_flattens", model([n("Softmax", ["x"], ["y"], axis=1)], [row], opset=7, ir=3))
    good("opset13_softmax", model([n("Softmax", ["x"], ["y"], axis=1)], [row], opset=13))
    good("opset7_batch_norm", model([n("BatchNormalization", ["x", "s", "s", "s", "s"], ["y"], epsilon=1e-3)], [image],
                                    inits=[const("s", np.ones(3, np.float32))], opset=7, ir=3))
    good("opset9_upsample", model([n("Upsample", ["x", "k"], ["y"], mode="linear")], [image],
                                  inits=[const("k", np.array([1, 1, 2, 2], np.float32))], opset=9))
    good("opset6_clip_cast", model([n("Clip", ["x"], ["c"], min=0.0, max=6.0), n("Cast", ["c"], ["y"], to=T.INT32)], [row],
                                   [info("y", None, T.INT32)], opset=6, ir=3))
    good("opset11_squeeze", model([n("Unsqueeze", ["x"], ["u"], axes=[0]), n("Squeeze", ["u"], ["y"], axes=[0])], [row], opset=11))
    good("opset13_squeeze", model([n("Unsqueeze", ["x", "a"], ["u"]), n("Squeeze", ["u", "a"], ["y"])], [row],
                                  inits=[const("a", np.array([0], np.int64))], opset=13))
    good("opset13_reduce_sum", model([n("ReduceSum", ["x", "a"], ["s"], keepdims=0), n("ReduceMean", ["s"], ["y"], axes=[0])], [row],
                                     inits=[const("a", np.array([1], np.int64))], opset=13))
    good("opset12_gemm", model([n("Gemm", ["x", "w", "b"], ["y"], transB=1, alpha=0.5, beta=2.0)], [info("x", ["n", 4])],
                               inits=[const("w", np.ones((5, 4), np.float32)), const("b", np.ones(5, np.float32))], opset=12))


# ---- faults of the bytes ---------------------------------------------------------------------------------------------------


def bad_bytes():
    sound = data_of(SOUND)
    bad("empty", b"", INVALID, "the file is empty")
    bad("short", b"\x08\x08", INVALID, "a file of 2 bytes is no model")
    bad("text_lfs", b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12\n", INVALID, "Git LFS pointer")
    bad("text_html", b"<!DOCTYPE html><html>404</html>", INVALID, "HTML")
    bad("text_other", b"just some words\nand more\n", INVALID, 'it begins "just some words"')
    bad("format_gguf", b"GGUF" + bytes(20), UNSUPPORTED, "version 0, want 2 or 3")
    bad("format_tflite", b"\x1c\0\0\0TFL3" + bytes(20), UNSUPPORTED, "its format is TFLite")
    bad("format_zip", b"PK\x03\x04" + bytes(20), UNSUPPORTED, "its format is zip")
    bad("format_safetensors", b"\x20\0\0\0\0\0\0\0{\"a\":1}" + b" " * 25, UNSUPPORTED, "its format is safetensors")
    bad("format_graphdef", b"\x0a\x0e\x0a\x01a\x12\x09Const" + bytes(8), UNSUPPORTED, "its format is TensorFlow GraphDef")
    bad("cut_last_byte", sound[:-1], INVALID, "the file was cut or damaged")
    bad("field_number_zero", b"\x02\x00" + sound, INVALID, "field number 0")
    bad("group", b"\x0b" + sound, INVALID, "wire type 3")
    bad("number_too_long", b"\x08" + b"\xff" * 10 + b"\x01" + sound, INVALID, "more than 64 bits")
    bad("wrong_wire_type", b"\x38\x01" + sound, INVALID, "field 7 (graph) has wire type 0, want 2")
    bad("graph_twice", sound + sound, UNSUPPORTED, "field 7 (graph) stands twice")
    bad("no_graph", b"\x08\x08" + b"\x12\x08fixtures" + b"\x42\x02\x10\x11", INVALID, "no graph in it")
    bad("name_with_zero", sound.replace(b"Mul", b"M\0l"), INVALID, "a name with a zero byte")
    nested = b""
    for _ in range(200):  # attribute in node in graph, again and again
        for tag in (b"\x32", b"\x2a", b"\x0a"):
            nested = tag + varint(len(nested)) + nested
    bad("nested_too_deep", b"\x08\x08\x3a" + varint(len(nested)) + nested, INVALID, "nested more than 100 deep")


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


# ---- faults of tensors -------------------------------------------------------------------------------------------------------


def bad_tensors():
    def with_tensor(t):
        return model([n("Mul", ["x", "w"], ["y"])], inits=[t])

    raw = np.arange(4, dtype=np.float32).tobytes()
    bad("raw_data_long", with_tensor(tensor("w", T.FLOAT, [4], raw_data=bytes(64))), INVALID,
        "tensor 'w': its shape and type need 16 bytes, raw_data has 64")
    bad("raw_data_missing", with_tensor(tensor("w", T.FLOAT, [4])), INVALID, "need 16 bytes, raw_data has 0")
    bad("dims_wrap_32_bits", with_tensor(tensor("w", T.FLOAT, [65536, 65536, 1], raw_data=raw)), INVALID, "need 17179869184 bytes")
    bad("dim_huge", with_tensor(tensor("w", T.FLOAT, [2**62], raw_data=raw)), INVALID, "more bytes than a size can count")
    bad("dim_negative", with_tensor(tensor("w", T.FLOAT, [-4], raw_data=raw)), INVALID, "dim 0 is -4")
    bad("rank_9", with_tensor(tensor("w", T.FLOAT, [1] * 8 + [4], raw_data=raw)), UNSUPPORTED, "rank 9, tercel has at most 8")
    bad("typed_field_short", with_tensor(tensor("w", T.FLOAT, [4], float_data=[1, 2])), INVALID, "need 4 numbers, float_data has 2")
    bad("typed_field_wrong", with_tensor(tensor("w", T.FLOAT, [4], int32_data=[1, 2, 3, 4])), INVALID,
        "in int32_data; those of type FLOAT belong in float_data")
    bad("two_fields", with_tensor(tensor("w", T.FLOAT, [4], float_data=[1, 2, 3, 4], raw_data=raw)), INVALID,
        "in float_data and in raw_data")
    bad("data_type_unknown", with_tensor(tensor("w", 99, [4], raw_data=raw)), INVALID, "data type 99 does not exist")
    bad("data_of_float6", with_tensor(tensor("w", 27, [4], raw_data=raw[:4])), INVALID, "need 3 bytes, raw_data has 4")
    bad("strings_in_raw_data", with_tensor(tensor("w", T.STRING, [4], raw_data=raw)), INVALID, "strings can't stand in raw_data")
    bad("external_one_up", with_tensor(external("../weights.bin", length=16)), INVALID, "../weights.bin")
    bad("external_absolute", with_tensor(external("/etc/passwd", length=16)), INVALID, "/etc/passwd")
    bad("external_missing", with_tensor(external("none.bin", length=16)), "input/output error", "none.bin")
    bad("external_offset_negative", with_tensor(external("weights.bin", -16, 16)), INVALID, "offset is '-16'")
    bad("external_offset_word", with_tensor(external("weights.bin", "here", 16)), INVALID, "offset is 'here'")
    bad("external_past_end", with_tensor(external("weights.bin", 20, 16)), INVALID, "16 bytes at offset 20 of 'weights.bin', which has 32")
    bad("external_length_wrong", with_tensor(external("weights.bin", 0, 12)), INVALID, "need 16 bytes, its external data has length 12")
    bad("external_no_location", with_tensor(external(None)), INVALID, "external data without a location")
    with open(os.path.join(BAD, "weights.bin"), "wb") as f:
        f.write(np.arange(8, dtype=np.float32).tobytes())
    sparse = onnx.SparseTensorProto(dims=[2, 3])
    sparse.values.CopyFrom(const("w", np.array([5], np.float32)))
    sparse.indices.CopyFrom(const("", np.array([6], np.int64)))
    m = model([n("Identity", ["w"], ["y"])], [])
    m.graph.sparse_initializer.append(sparse)
    bad("sparse_index_past_end", m, INVALID, "index 6 of a tensor of 6 elements")
    sparse.dims[:] = [1 << 20, 1 << 20]
    m.graph.sparse_initializer[0].CopyFrom(sparse)
    bad("sparse_bomb", m, UNSUPPORTED, "when written out")


# ---- faults of graphs ----------------------------------------------------------------------------------------------------------


def bad_graphs():
    bad("opset_missing", model([n("Relu", ["x"], ["y"])], opsets=[]), INVALID, "imports no operator set (IR version 8)")
    bad("opset_of_domain_missing", model([n("Relu", ["x"], ["y"], domain="other")]), INVALID, "imports no version of domain 'other'")
    bad("opset_zero", model([n("Relu", ["x"], ["y"])], opset=0), INVALID, "version 0")
    bad("opset_too_new", model([n("Relu", ["x"], ["y"])], opset=999), UNSUPPORTED, "version 999 of ai.onnx")
    bad("node_feeds_itself", model([n("Add", ["x", "y"], ["y"], name="loop")]), INVALID, "(a cycle): Add 'loop'")
    bad("cycle_of_two", model([n("Add", ["x", "b"], ["a"], name="one"), n("Relu", ["a"], ["b"], name="two"),
                               n("Neg", ["a"], ["y"])]), INVALID, "(a cycle): Add 'one', Relu 'two'")
    bad("input_undefined", model([n("Add", ["x", "nowhere"], ["y"])]), INVALID, "Add 'y': input 1 is 'nowhere', which nothing defines")
    bad("output_undefined", model([n("Relu", ["x"], ["z"])]), INVALID, "nothing defines its output 'y'")
    bad("defined_twice", model([n("Relu", ["x"], ["y"]), n("Abs", ["x"], ["y"])]), INVALID, "'y' is defined twice")
    bad("input_twice", model([n("Relu", ["x"], ["y"])], [info("x"), info("x")]), INVALID, "input 'x' is listed twice")
    bad("input_without_type", model([n("Relu", ["x"], ["y"])], [onnx.ValueInfoProto(name="x")]), INVALID, "input 'x' has no type")
    seq = h.make_value_info("x", h.make_map_type_proto(T.INT64, h.make_tensor_type_proto(T.FLOAT, [])))
    bad("input_is_map", model([n("Relu", ["x"], ["y"])], [seq]), INVALID, "input 0 ('x') is not a tensor")
    bad("operator_unknown", model([n("Wobble", ["x"], ["y"])]), UNSUPPORTED, "operator Wobble (ai.onnx 17) is not supported")
    bad("operator_too_new", model([n("Gelu", ["x"], ["y"])]), UNSUPPORTED, "does not exist in version 17 of ai.onnx")
    bad("many_unsupported", model([n("Wobble", ["x"], ["a"], name="first"), n("Relu", ["a"], ["b"]), n("Wibble", ["b"], ["c"]),
                                   n("Sum", ["x", "c"], ["y"]), n("LeakyRelu", ["x"], ["z"], beta=1.0)]), UNSUPPORTED,
        "3 things are not supported:|Wobble 'first': operator Wobble|Wibble 'c': operator Wibble|LeakyRelu 'z': attribute 'beta'")
    bad("attribute_unknown", model([n("Relu", ["x"], ["y"], slope=1.0)]), UNSUPPORTED, "Relu 'y': attribute 'slope' is not known")
    bad("attribute_missing", model([n("Concat", ["x", "x"], ["y"])]), INVALID, "Concat 'y': attribute 'axis' is missing")
    bad("attribute_type", model([n("Concat", ["x", "x"], ["y"], axis=1.0)]), INVALID, "attribute 'axis' is float, want int")
    bad("inputs_missing", model([n("Add", ["x"], ["y"])]), INVALID, "Add 'y': 1 inputs, want at least 2")
    bad("inputs_too_many", model([n("Relu", ["x", "x"], ["y"])]), INVALID, "2 inputs, want at most 1")
    bad("input_absent", model([n("Add", ["", "x"], ["y"])]), INVALID, "input 0 is absent, but required")
    bad("concat_axis_wild", model([n("Concat", ["x", "x"], ["y"], axis=9)]), INVALID, "axis")
    bad("reshape_other_size", model([n("Reshape", ["x", "s"], ["y"])], inits=[const("s", np.array([3, -1], np.int64))]), INVALID, "Reshape 'y'")
    bad("declared_rank", model([n("Relu", ["x"], ["r"]), n("Abs", ["r"], ["y"])], value_infos=[info("r", [2, 2])]), INVALID,
        "'r' is declared f32[2, 2], but node 'r' gives f32[4]")
    bad("declared_dtype", model([n("Relu", ["x"], ["y"])], outs=[info("y", [4], T.INT64)]), INVALID,
        "'y' is declared i64[4], but node 'y' gives f32[4]")
    bad("declared_initializer", model([n("Mul", ["x", "w"], ["y"])], [info("x"), info("w", [5])], inits=[W]), INVALID,
        "'w' is declared f32[5], but is f32[4]")
    body = h.make_graph([n("Add", ["x", "nothing"], ["t"])], "t", [], [info("t", None)])
    bad("capture_undefined", model([n("If", ["c"], ["y"], then_branch=body, else_branch=body)], [info("x"), info("c", [], T.BOOL)]),
        INVALID, "its subgraph uses 'nothing', which nothing defines")


def bad_functions():
    f, a = h.make_opsetid("f", 1), h.make_opsetid("", 17)

    def with_functions(*functions, node=n("A", ["x"], ["y"], domain="f")):
        return model([node], opsets=[a, f], functions=list(functions))

    self_call = h.make_function("f", "A", ["x"], ["y"], [n("A", ["x"], ["y"], domain="f")], [f])
    bad("function_calls_itself", with_functions(self_call), INVALID, "function A calls itself")
    to_b = h.make_function("f", "A", ["x"], ["y"], [n("B", ["x"], ["y"], domain="f")], [f])
    to_a = h.make_function("f", "B", ["x"], ["y"], [n("A", ["x"], ["y"], domain="f")], [f])
    bad("functions_call_each_other", with_functions(to_b, to_a), INVALID, "function A calls itself")
    bombs = [h.make_function("f", f"F{i}", ["x"], ["y"],
                             [n(f"F{i + 1}", ["x"], ["t"], domain="f"), n(f"F{i + 1}", ["t"], ["y"], domain="f")], [f]) for i in range(40)]
    bombs.append(h.make_function("f", "F40", ["x"], ["y"], [n("Relu", ["x"], ["y"])], [a]))
    bad("function_bomb", with_functions(*bombs, node=n("F0", ["x"], ["y"], domain="f")), UNSUPPORTED, "inlining the model's functions")
    plain = h.make_function("f", "A", ["x"], ["y"], [n("Relu", ["x"], ["y"])], [a])
    bad("function_attribute_unknown", with_functions(plain, node=n("A", ["x"], ["y"], domain="f", k=1)), INVALID,
        "function A has no attribute 'k'")
    bad("function_inputs_too_many", with_functions(plain, node=n("A", ["x", "x"], ["y"], domain="f")), INVALID, "2 inputs and 1 outputs")
    hollow = h.make_function("f", "A", ["x"], ["y"], [n("Relu", ["x"], ["z"])], [a])
    bad("function_output_undefined", with_functions(hollow), INVALID, "function A: nothing defines its output 'y'")


def good_einsums():
    def einsum(equation, *shapes):
        names = [f"x{i}" for i in range(len(shapes))]
        return model([n("Einsum", names, ["y"], equation=equation)], [info(x, s) for x, s in zip(names, shapes)])

    good("einsum_product", einsum("bhid,bhjd->bhij", ("b", "h", "i", 8), ("b", "h", "j", 8)))
    good("einsum_merged", einsum("abcd,dcbe->ea", ("a", 2, 3, "d"), ("d", 3, 2, 5)))
    good("einsum_general", einsum("...ii,i", ("n", 4, 4), (4,)))


def main():
    for folder in (GOOD, BAD):
        os.makedirs(folder, exist_ok=True)
        for name in os.listdir(folder):
            if not name.endswith(".txt"):
                os.remove(os.path.join(folder, name))
    good_tensors()
    good_graphs()
    good_subgraphs()
    good_functions()
    good_though_careless()
    good_versions()
    good_einsums()
    bad_bytes()
    bad_tensors()
    bad_graphs()
    bad_functions()
    with open(os.path.join(BAD, "expect.tsv"), "w") as f:
        f.writelines("\t".join(row) + "\n" for row in EXPECT)
    print(len(os.listdir(GOOD)), "files in good,", len(os.listdir(BAD)), "in bad")


if __name__ == "__main__":
    main()
