#!/usr/bin/env python3
"""Makes tests/conformance/contrib: cases of operators that ONNX has none of, most of com.microsoft, with the outputs of ONNX Runtime.

usage: make_contrib_cases.py [OUT]      OUT: normally tests/conformance/contrib

Needs PyPI's onnx, onnxruntime and numpy; deterministic.  Each case is a folder as `tercel test` reads it: model.onnx,
test_data_set_0/input_I.pb and output_I.pb.  ONNX Runtime runs on the CPU, without optimization.
"""
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T, helper as h, numpy_helper

F = np.float32
RNG = np.random.default_rng(7)


def normal(*shape, scale=1.0):
    return (RNG.standard_normal(shape) * scale).astype(F)


def integers(low, high, shape, dtype):
    return RNG.integers(low, high, shape).astype(dtype)


def scalar(value, dtype=F):
    return np.asarray(value, dtype)


class Case:
    """inputs: arrays, None where absent; constants: indices of those that are initializers.  like: nodes from i0, i1, ... to o0, ... that
    ONNX Runtime runs instead, where it has the operator on other devices only (consts: their constants).  nodes: a case of
    more than one node, likewise."""

    def __init__(self, name, op, inputs, outputs=1, constants=(), domain="com.microsoft", wanted=None, like=None, consts=None,
                 version=20, nodes=None, **attrs):
        self.name, self.inputs, self.constants = name, inputs, constants
        names = [f"i{k}" if a is not None else "" for k, a in enumerate(inputs)]
        outs = [f"o{k}" if wanted is None or k in wanted else "" for k in range(outputs)]
        node = h.make_node(op, names, outs, domain=domain, **attrs)
        feeds = [k for k, a in enumerate(inputs) if a is not None and k not in constants]
        graph = h.make_graph(
            nodes or [node], name,
            [h.make_tensor_value_info(names[k], h.np_dtype_to_tensor_dtype(inputs[k].dtype), inputs[k].shape)
             for k in feeds],
            [h.make_empty_tensor_value_info(o) for o in outs if o],
            [numpy_helper.from_array(inputs[k], names[k]) for k in constants])
        self.model = h.make_model(graph, ir_version=8, producer_name="make_contrib_cases",
                                  opset_imports=[h.make_opsetid("", version), h.make_opsetid("com.microsoft", 1)])
        self.feeds = {names[k]: inputs[k] for k in feeds}
        self.like = onnx.ModelProto.FromString(self.model.SerializeToString())
        if like:
            del self.like.graph.node[:]
            self.like.graph.node.extend(like)
            self.like.graph.initializer.extend(numpy_helper.from_array(a, k) for k, a in (consts or {}).items())

    def write(self, out):
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = ort.InferenceSession(self.like.SerializeToString(), options, providers=["CPUExecutionProvider"])
        results = session.run(None, self.feeds)
        # Declared outputs get their types, as files have them; shapes are left to inference.
        for value, result in zip(self.model.graph.output, results):
            value.CopyFrom(h.make_tensor_value_info(value.name, h.np_dtype_to_tensor_dtype(result.dtype), None))
        data = os.path.join(out, self.name, "test_data_set_0")
        os.makedirs(data, exist_ok=True)
        with open(os.path.join(out, self.name, "model.onnx"), "wb") as f:
            f.write(self.model.SerializeToString(deterministic=True))
        named = zip((o.name for o in self.model.graph.output), results)
        for kind, arrays in (("input", self.feeds.items()), ("output", named)):
            for k, (name, array) in enumerate(arrays):
                with open(os.path.join(data, f"{kind}_{k}.pb"), "wb") as f:
                    f.write(numpy_helper.from_array(array, name).SerializeToString(deterministic=True))


def activations():
    x, b = normal(2, 3, 8), normal(8)
    yield Case("bias_gelu", "BiasGelu", [x, b])
    yield Case("fast_gelu", "FastGelu", [x])
    yield Case("fast_gelu_bias", "FastGelu", [x, b])
    yield Case("gelu", "Gelu", [x])
    yield Case("quick_gelu", "QuickGelu", [x])
    yield Case("quick_gelu_alpha", "QuickGelu", [x], alpha=0.7)
    skip = normal(2, 3, 8)
    yield Case("bias_add", "BiasAdd", [x, b, skip], like=[n("Add", ["i0", "i1"], ["s"]), n("Add", ["s", "i2"], ["o0"])])
    yield Case("bias_split_gelu", "BiasSplitGelu", [x, b],
               like=[n("Add", ["i0", "i1"], ["s"]), n("Split", ["s"], ["l", "r"], axis=-1, num_outputs=2),
                     n("Gelu", ["r"], ["g"]), n("Mul", ["l", "g"], ["o0"])])
    scores = normal(2, 3, 4, 5)
    for name, shape, axis in (("inner", (2, 1, 1, 5), 3), ("outer", (1, 1, 4, 5), 2)):
        yield Case("bias_softmax_" + name, "BiasSoftmax", [scores, normal(*shape)], axis=axis, is_inner_broadcast=int(name == "inner"),
                   like=[n("Add", ["i0", "i1"], ["s"]), n("Flatten", ["s"], ["f"], axis=axis), n("Softmax", ["f"], ["p"]),
                         n("Shape", ["s"], ["t"]), n("Reshape", ["p", "t"], ["o0"])])


def n(op, inputs, outputs, **attrs):
    return h.make_node(op, inputs, outputs, **attrs)


def ms(op, inputs, outputs, **attrs):
    return h.make_node(op, inputs, outputs, domain="com.microsoft", **attrs)


def products():
    yield Case("fused_matmul", "FusedMatMul", [normal(2, 5, 3), normal(2, 4, 5)], transA=1, transB=1, alpha=0.5)
    yield Case("fused_matmul_batch", "FusedMatMul", [normal(3, 2, 5), normal(2, 5, 4)], transBatchA=1)
    yield Case("fused_gemm", "FusedGemm", [normal(3, 5), normal(5, 4), normal(4)], activation="LeakyRelu",
               activation_alpha=0.2, alpha=0.5, beta=2.0)
    yield Case("fused_matmul_activation", "FusedMatMulActivation", [normal(3, 5), normal(5, 4)], activation="LeakyRelu",
               activation_alpha=0.2, alpha=0.5,
               like=[ms("FusedMatMul", ["i0", "i1"], ["s"], alpha=0.5), n("LeakyRelu", ["s"], ["o0"], alpha=0.2)])
    yield Case("gemm_fast_gelu", "GemmFastGelu", [normal(2, 3, 5), normal(5, 4), normal(4)],
               like=[n("MatMul", ["i0", "i1"], ["s"]), ms("FastGelu", ["s", "i2"], ["o0"])])
    x, w, b = normal(1, 4, 6, 7), normal(6, 2, 3, 3), normal(6)
    last, first = [0, 2, 3, 1], [0, 3, 1, 2]
    yield Case("nhwc_fused_conv", "NhwcFusedConv", [x.transpose(last).copy(), w, b, normal(1, 4, 5, 6)], activation="Relu", group=2,
               like=[n("Transpose", ["i0"], ["x"], perm=first), n("Transpose", ["i3"], ["z"], perm=first),
                     ms("FusedConv", ["x", "i1", "i2", "z"], ["y"], activation="Relu", group=2),
                     n("Transpose", ["y"], ["o0"], perm=last)])
    yield Case("fused_conv_relu", "FusedConv", [x, w, b], activation="Relu", group=2, pads=[1, 1, 1, 1])
    yield Case("fused_conv_clip", "FusedConv", [x, w], activation="Clip", activation_params=[-0.5, 0.75], group=2,
               kernel_shape=[3, 3], strides=[2, 1])
    yield Case("fused_conv_sum", "FusedConv", [x, w, b, normal(1, 6, 4, 5)], activation="HardSigmoid",
               activation_params=[0.3, 0.4], group=2)


def norms():
    x, skip, gamma, beta, bias = normal(2, 3, 8), normal(2, 3, 8), normal(8), normal(8), normal(8)
    yield Case("skip_layer_norm", "SkipLayerNormalization", [x, skip, gamma, beta, bias], 4, wanted=(0, 3))
    yield Case("skip_layer_norm_plain", "SkipLayerNormalization", [x, skip[:1], gamma], epsilon=1e-3)
    yield Case("skip_simplified_layer_norm", "SkipSimplifiedLayerNormalization", [x, skip, gamma, bias], 4, wanted=(0, 3))
    yield Case("simplified_layer_norm", "SimplifiedLayerNormalization", [x, gamma], domain="", epsilon=1e-6)
    image, scale, shift, skip4, bias6 = normal(2, 3, 4, 6), normal(6), normal(6), normal(2, 6), normal(6)
    last, first = [0, 2, 3, 1], [0, 3, 1, 2]
    group = [n("Transpose", ["x"], ["p"], perm=first), n("GroupNormalization", ["p", "i1", "i2"], ["q"], num_groups=3, epsilon=1e-4),
             n("Transpose", ["q"], ["y"], perm=last), ms("QuickGelu", ["y"], ["o0"], alpha=1.0)]
    yield Case("group_norm", "GroupNorm", [image, scale, shift], groups=3, activation=1, epsilon=1e-4, version=21,
               like=[n("Identity", ["i0"], ["x"])] + group)
    yield Case("skip_group_norm", "SkipGroupNorm", [image, scale, shift, skip4, bias6], 2, groups=3, activation=1, epsilon=1e-4,
               version=21,
               like=[n("Unsqueeze", ["i3", "axes"], ["s"]), n("Add", ["i0", "s"], ["t"]), n("Add", ["t", "i4"], ["x"]),
                     n("Identity", ["x"], ["o1"])] + group, consts={"axes": np.array([1, 2])})
    ids, segments = integers(0, 10, (2, 4), np.int32), integers(0, 2, (2, 4), np.int32)
    words, places, kinds = normal(10, 8), normal(6, 8), normal(2, 8)
    mask = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)
    yield Case("embed_layer_norm", "EmbedLayerNormalization",
               [ids, segments, words, places, kinds, gamma, beta, mask], 2)
    yield Case("embed_layer_norm_plain", "EmbedLayerNormalization", [ids, None, words, places, None, gamma, beta], 2)


def attention():
    x, w, b = normal(2, 4, 8), normal(8, 24, scale=0.3), normal(24, scale=0.1)
    mask = np.array([[1, 1, 1, 0], [1, 1, 1, 1]], np.int32)
    yield Case("attention", "Attention", [x, w, b], num_heads=2)
    yield Case("attention_causal", "Attention", [x, w, b], 2, num_heads=2, unidirectional=1)
    yield Case("attention_mask", "Attention", [x, w, b, mask], num_heads=2)
    yield Case("attention_lengths", "Attention", [x, w, b, np.array([3, 4], np.int32)], num_heads=2)
    yield Case("attention_starts", "Attention", [x, w, b, np.array([4, 3, 1, 0], np.int32)], num_heads=2)
    yield Case("attention_past", "Attention", [x, w, b, None, normal(2, 2, 2, 3, 4)], 2, num_heads=2, unidirectional=1)
    yield Case("attention_sizes", "Attention", [x, normal(8, 28, scale=0.3), normal(28, scale=0.1), None, None,
                                                normal(2, 2, 4, 4)], num_heads=2, qkv_hidden_sizes=[8, 8, 12])
    u8, i8 = integers(0, 255, (2, 4, 8), np.uint8), integers(-90, 90, (8, 24), np.int8)
    yield Case("qattention", "QAttention", [u8, i8, b, scalar(0.02), scalar(0.01), None, scalar(120, np.uint8),
                                            scalar(0, np.int8)], num_heads=2, constants=(1,))
    yield Case("qattention_mask", "QAttention", [u8, i8, b, scalar(0.02), scalar(0.01), np.array([3, 4], np.int32),
                                                 scalar(120, np.uint8), scalar(0, np.int8)], num_heads=2, constants=(1,))
    q, k, v = normal(2, 4, 8), normal(2, 6, 8), normal(2, 6, 8)
    yield Case("multi_head", "MultiHeadAttention", [q, k, v], num_heads=2)
    yield Case("multi_head_bias", "MultiHeadAttention", [q, k, v, normal(24)], num_heads=2, scale=0.3)
    yield Case("multi_head_mask", "MultiHeadAttention",
               [q, k, v, None, np.array([[1, 1, 1, 1, 0, 0], [1] * 6], np.int32), normal(2, 2, 4, 6)], num_heads=2)
    yield Case("multi_head_lengths", "MultiHeadAttention", [q, k, v, None, np.array([4, 6], np.int32)], num_heads=2)
    yield Case("multi_head_past", "MultiHeadAttention",
               [q, normal(2, 4, 8), normal(2, 4, 8), None, None, None, normal(2, 2, 3, 4), normal(2, 2, 3, 4)], 3,
               num_heads=2)
    qkv, kv = normal(2, 4, 2, 3, 4), normal(2, 6, 2, 2, 4)
    yield Case("multi_head_packed", "MultiHeadAttention", [qkv], num_heads=2, consts={"rows": np.array([0, 0, -1])},
               like=[n("Split", ["i0"], ["a", "b", "c"], axis=3, num_outputs=3)] +
                    [n("Reshape", [p, "rows"], [p + "r"]) for p in "abc"] +
                    [ms("MultiHeadAttention", ["ar", "br", "cr"], ["o0"], num_heads=2)])
    yield Case("multi_head_packed_keys", "MultiHeadAttention", [q, kv], num_heads=2, consts={"rows": np.array([0, 0, -1])},
               like=[n("Split", ["i1"], ["b", "c"], axis=3, num_outputs=2)] +
                    [n("Reshape", [p, "rows"], [p + "r"]) for p in "bc"] +
                    [ms("MultiHeadAttention", ["i0", "br", "cr"], ["o0"], num_heads=2)])
    yield Case("multi_head_by_heads", "MultiHeadAttention", [q, normal(2, 2, 6, 4), normal(2, 2, 6, 4)], num_heads=2)


def grouped():
    angles = normal(16, 8)
    cos, sin = np.cos(angles), np.sin(angles)
    heads = dict(num_heads=4, kv_num_heads=2)

    def new(tokens):
        return [normal(2, tokens, 64), normal(2, tokens, 32), normal(2, tokens, 32)]

    def lengths(last, total):
        return [np.array(last, np.int32), scalar(total, np.int32)]

    def past(tokens):
        return [normal(2, 2, tokens, 16), normal(2, 2, tokens, 16)]

    yield Case("group_query_first", "GroupQueryAttention", new(5) + [None, None] + lengths([4, 4], 5), 3, **heads)
    yield Case("group_query_rotary", "GroupQueryAttention", new(5) + past(0) + lengths([4, 4], 5) + [cos, sin], 3,
               do_rotary=1, **heads)
    yield Case("group_query_next", "GroupQueryAttention", new(1) + past(6) + lengths([6, 6], 7) + [cos, sin], 3,
               do_rotary=1, rotary_interleaved=1, **heads)
    yield Case("group_query_window", "GroupQueryAttention", new(6) + [None, None] + lengths([5, 5], 6), 3,
               local_window_size=3, **heads)
    yield Case("group_query_softcap", "GroupQueryAttention", new(1) + past(4) + lengths([4, 4], 5), 3, softcap=0.8,
               scale=0.5, **heads)
    yield Case("group_query_sinks", "GroupQueryAttention", new(5) + [None, None] + lengths([4, 3], 5) + [None] * 4 + [normal(4)], 3,
               **heads)
    yield Case("group_query_smooth", "GroupQueryAttention", new(1) + past(4) + lengths([4, 4], 5), 3, smooth_softmax=1,
               softcap=2.0, **heads)
    yield Case("group_query_window_next", "GroupQueryAttention", new(1) + past(6) + lengths([6, 6], 7), 3, local_window_size=4,
               **heads)
    yield Case("group_query_bias", "GroupQueryAttention",
               new(5) + [None, None] + lengths([4, 4], 5) + [None] * 3 + [normal(1, 4, 5, 5)], 3, **heads)
    yield Case("group_query_packed", "GroupQueryAttention",
               [normal(2, 3, 128), None, None, None, None] + lengths([2, 2], 3), 3, **heads)
    x, cos, sin = normal(2, 3, 16), cos[:, :4].copy(), sin[:, :4].copy()
    yield Case("rotary", "RotaryEmbedding", [x, np.array([[0, 1, 2], [5, 6, 7]]), cos, sin])
    yield Case("rotary_offset", "RotaryEmbedding", [x, np.array([3]), cos, sin], interleaved=1)
    yield Case("rotary_part", "RotaryEmbedding", [normal(2, 2, 3, 12), np.array([1]), cos, sin], num_heads=2,
               rotary_embedding_dim=8)


def blocks():
    k, n, size = 40, 6, 16
    count = -(-k // size)
    a, scales = normal(3, k), np.abs(normal(n * count, scale=0.1)) + F(0.01)
    for bits in (4, 8):
        b = integers(0, 255, (n, count, size * bits // 8), np.uint8)
        zeros = integers(0, 255, (n * -(-count * bits // 8),), np.uint8)
        attrs = dict(K=k, N=n, bits=bits, block_size=size)
        yield Case(f"matmul_nbits_{bits}", "MatMulNBits", [a, b, scales], constants=(1, 2), **attrs)
        yield Case(f"matmul_nbits_{bits}_zeros", "MatMulNBits", [a, b, scales, zeros, None, normal(n)],
                   constants=(1, 2, 3), **attrs)


    attrs = dict(K=k, N=n, bits=4, block_size=size)
    b, zeros = integers(0, 255, (n, count, size // 2), np.uint8), normal(n, count) + F(8)
    yield Case("matmul_nbits_4_float_zeros", "MatMulNBits", [a, b, scales, zeros], constants=(1, 2, 3), **attrs)
    groups = RNG.permutation(np.arange(k) // size).astype(np.int32)
    yield Case("matmul_nbits_groups", "MatMulNBits", [a, b, scales, None, groups], constants=(1, 2, 4), **attrs)
    for kind in (0, 1):
        blob, absmax = integers(0, 255, (32 * 8 // 2,), np.uint8), np.abs(normal(32 * 8 // 16))
        yield Case(f"matmul_bnb4_{kind}", "MatMulBnb4", [normal(3, 32), blob, absmax], constants=(1, 2), K=32, N=8, block_size=16,
                   quant_type=kind)
    ids = np.array([[3, 0, 4], [4, 2, 1]])
    for bits in (4, 8):
        table, scale = integers(0, 255, (5, 48 * bits // 8), np.uint8), normal(5, 3)
        zeros = integers(0, 255, (5, -(-3 * bits // 8)), np.uint8)
        attrs = dict(bits=bits, block_size=16, quantize_axis=1, gather_axis=0)
        yield Case(f"gather_block_quantized_{bits}", "GatherBlockQuantized", [table, ids, scale], constants=(0, 2), **attrs)
        yield Case(f"gather_block_quantized_{bits}_zeros", "GatherBlockQuantized", [table, ids, scale, zeros], constants=(0, 2, 3),
                   **attrs)


def recurrent():
    steps, size, hidden = 6, 5, 4
    for name, ways in (("forward", 1), ("bidirectional", 2)):
        scales = [np.full(ways, 0.01, F), np.zeros(ways, np.int8), np.full(ways, 0.02, F), np.zeros(ways, np.int8)]
        weights = [integers(-90, 90, (ways, n, 4 * hidden), np.int8) for n in (size, hidden)]
        yield Case(f"dynamic_quantize_lstm_{name}", "DynamicQuantizeLSTM",
                   [normal(steps, 1, size)] + weights + [normal(ways, 8 * hidden), None, None, None, None] + scales, 3,
                   constants=(1, 2), hidden_size=hidden, direction=name)


def quantized():
    a, b = integers(0, 255, (3, 8), np.uint8), integers(-128, 127, (8, 5), np.int8)
    columns = np.abs(normal(5, scale=0.02)) + F(0.001)
    yield Case("matmul_integer_to_float", "MatMulIntegerToFloat",
               [a, b, scalar(0.02), scalar(0.03), scalar(100, np.uint8), scalar(3, np.int8), normal(5)])
    yield Case("matmul_integer_to_float_columns", "MatMulIntegerToFloat", [a, b, scalar(0.02), columns])
    yield Case("dynamic_quantize_matmul", "DynamicQuantizeMatMul",
               [normal(3, 8), b, columns, integers(-3, 3, (5,), np.int8), normal(5)])
    yield Case("qgemm", "QGemm", [a, scalar(0.02), scalar(100, np.uint8), b, scalar(0.03), scalar(3, np.int8),
                                  integers(-900, 900, (5,), np.int32), scalar(0.2), scalar(128, np.uint8)], alpha=0.5)
    yield Case("qgemm_float", "QGemm", [a, scalar(0.02), scalar(100, np.uint8), b.T.copy(), scalar(0.03),
                                        scalar(3, np.int8)], transB=1)
    x, y = integers(0, 255, (2, 3, 4, 4), np.uint8), integers(0, 255, (3, 1, 4), np.uint8)
    xq, yq = [scalar(0.05), scalar(110, np.uint8)], [scalar(0.03), scalar(90, np.uint8)]
    out = [scalar(0.07), scalar(128, np.uint8)]
    yield Case("qlinear_add", "QLinearAdd", [x] + xq + [y] + yq + out)
    yield Case("qlinear_mul", "QLinearMul", [x] + xq + [y] + yq + out)
    yield Case("qlinear_sigmoid", "QLinearSigmoid", [x] + xq + [scalar(1 / 256), scalar(0, np.uint8)])
    yield Case("qlinear_leaky_relu", "QLinearLeakyRelu", [x] + xq + out, alpha=0.2)
    yield Case("qlinear_softmax", "QLinearSoftmax", [x] + xq + [scalar(1 / 256), scalar(0, np.uint8)], axis=-1, opset=13)
    yield Case("qlinear_global_average_pool", "QLinearGlobalAveragePool", [x] + xq + out)
    for opset, axis in ((11, 1), (11, 3), (13, 1)):
        yield Case(f"qlinear_softmax_{opset}_{axis}", "QLinearSoftmax", [x] + xq + [scalar(1 / 256), scalar(0, np.uint8)], axis=axis,
                   opset=opset)
    last = x.transpose(0, 2, 3, 1).copy()
    window = dict(kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
    yield Case("qlinear_average_pool", "QLinearAveragePool", [x] + xq + out, **window)
    yield Case("qlinear_average_pool_last", "QLinearAveragePool", [last] + xq + out, channels_last=1, count_include_pad=1, **window)
    yield Case("qlinear_average_pool_ceil", "QLinearAveragePool", [x] + xq + [scalar(0.0712), scalar(128, np.uint8)],
               kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    weights = integers(-128, 127, (4, 3, 2, 2), np.int8)
    yield Case("qlinear_conv_last", "QLinearConv",
               [last] + xq + [weights, np.abs(normal(4, scale=0.01)) + F(0.001), np.zeros(4, np.int8)] + out +
               [integers(-900, 900, (4,), np.int32)], constants=(3, 4, 5, 8), channels_last=1, pads=[1, 1, 0, 0])
    yield Case("nhwc_max_pool", "NhwcMaxPool", [last], **window)
    yield Case("qlinear_reduce_mean", "QLinearReduceMean", [x] + xq + out, axes=[1, 3], keepdims=0, consts={"axes": np.array([1, 3])},
               like=[n("DequantizeLinear", ["i0", "i1", "i2"], ["x"]), n("ReduceMean", ["x", "axes"], ["m"], keepdims=0),
                     n("QuantizeLinear", ["m", "i3", "i4"], ["o0"])])
    for dtype, wide in ((np.int8, T.INT32), (np.uint8, T.UINT32)):
        yield Case(f"reduce_sum_integer_{np.dtype(dtype).name}", "ReduceSumInteger", [integers(-100, 100, (2, 3, 4), np.int8).astype(dtype)],
                   axes=[0, 2], keepdims=1, consts={"axes": np.array([0, 2])},
                   like=[n("Cast", ["i0"], ["x"], to=T.INT64), n("ReduceSum", ["x", "axes"], ["s"]), n("Cast", ["s"], ["o0"], to=wide)])
    yield Case("qlinear_concat", "QLinearConcat", out + [x] + xq + [x[:, :1]] + yq, axis=1)
    yield Case("qlinear_where", "QLinearWhere", [x > 128, x] + xq + [y] + yq + out)
    words = integers(0, 65535, (2, 5), np.uint16)
    yield Case("dequantize_u16", "DequantizeLinear", [words, scalar(0.01), scalar(30000, np.uint16)])
    yield Case("quantize_u16", "QuantizeLinear", [normal(2, 5), scalar(0.0001), scalar(30000, np.uint16)])


def moves():
    x = normal(2, 3, 4)
    yield Case("cdist", "CDist", [normal(4, 3), normal(5, 3)], metric="euclidean")
    yield Case("cdist_squared", "CDist", [normal(4, 3), normal(5, 3)], metric="sqeuclidean")
    yield Case("expand_dims", "ExpandDims", [x, scalar(-2, np.int32)], constants=(1,))
    yield Case("gather_nd", "GatherND", [x, np.array([[0, 2], [1, 1]])])
    yield Case("grid_sample", "GridSample", [normal(1, 2, 4, 5), RNG.uniform(-1.2, 1.2, (1, 3, 3, 2)).astype(F)], align_corners=1,
               padding_mode="border", mode="bilinear")
    yield Case("is_all_finite", "IsAllFinite", [x, np.array([1, np.inf], F)], consts={"no": np.array(False)},
               like=[n("Identity", ["no"], ["o0"])])
    yield Case("is_all_finite_nan_only", "IsAllFinite", [x, np.array([1, np.inf], F)], isnan_only=1, consts={"yes": np.array(True)},
               like=[n("Identity", ["yes"], ["o0"])])
    yield Case("matmul_integer_16", "MatMulInteger16", [integers(-9999, 9999, (3, 4), np.int16), integers(-9999, 9999, (4, 2), np.int16)])
    yield Case("pad", "Pad", [x, np.array([0, 1, 0, 0, 0, 2]), scalar(0.5)])
    yield Case("pad_reflect", "Pad", [x, np.array([0, 1, 0, 0, 0, 2])], mode="reflect")
    yield Case("range", "Range", [scalar(2.0), np.array([9], F), scalar(1.5)])
    yield Case("range_plain", "Range", [scalar(2, np.int32), scalar(5, np.int32)])
    yield Case("torch_embedding", "TorchEmbedding", [normal(5, 3), np.array([[4, 0], [1, 1]])],
               like=[n("Gather", ["i0", "i1"], ["o0"])])
    yield Case("trilu", "Trilu", [x, scalar(1, np.int64)], upper=0)
    yield Case("unfold", "UnfoldTensor", [normal(2, 7, 3)], dim=1, size=3, step=2)
    yield Case("unique", "Unique", [np.array([2, 1, 1, 3, 2], F)], 3)
    a, b = normal(2, 3, 2), normal(3, 2)
    for name, sign in (("complex_mul", 1.0), ("complex_mul_conj", -1.0)):
        yield Case(name, "ComplexMul" + ("Conj" if sign < 0 else ""), [a, b], consts={"sign": np.array([1, sign], F)},
                   like=[n("Mul", ["i1", "sign"], ["b"]), n("Split", ["i0"], ["ar", "ai"], axis=-1, num_outputs=2),
                         n("Split", ["b"], ["br", "bi"], axis=-1, num_outputs=2)] +
                        [n("Mul", [p, q], [p + q]) for p in ("ar", "ai") for q in ("br", "bi")] +
                        [n("Sub", ["arbr", "aibi"], ["r"]), n("Add", ["arbi", "aibr"], ["i"]), n("Concat", ["r", "i"], ["o0"], axis=-1)])
    yield Case("inverse", "Inverse", [normal(2, 3, 5, 5)])


def embedded():
    ids, segments = integers(0, 10, (2, 4), np.int32), integers(0, 2, (2, 4), np.int32)
    mask = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)
    tables = [integers(0, 255, shape, np.uint8) for shape in ((10, 8), (6, 8), (2, 8), (8,), (8,))]
    scales = [scalar(0.01 * (k + 1)) for k in range(5)]
    zeros = [scalar(100 + k, np.uint8) for k in range(5)]
    yield Case("qembed_layer_norm", "QEmbedLayerNormalization", [ids, segments] + tables + [mask] + scales + zeros, 2)


def of_tensorflow():
    """What tf2onnx writes."""
    x = normal(2, 3, 5, 6)
    boxes = np.array([[0, 0, 1, 1], [0.2, 0.1, 0.7, 0.9], [-0.3, 0.5, 0.5, 1.2], [0.9, 0.8, 0.1, 0.2]], F)
    for name, size in (("", [3, 4]), ("_point", [1, 1])):
        yield Case("crop_and_resize" + name, "CropAndResize", [x, boxes, np.array([0, 1, 1, 0], np.int32), np.array(size, np.int32)],
                   constants=(3,), extrapolation_value=-1.5)
    yield Case("conv_transpose_dynamic_pads", "ConvTransposeWithDynamicPads",
               [normal(1, 4, 3, 3), normal(4, 2, 3, 3), np.array([1, 0, 1, 2]), normal(2)], constants=(2,), strides=[2, 2])


def regions():
    """Of ONNX itself, which has no case of it."""
    corners = np.sort(RNG.uniform(-2, 12, (6, 2, 2)), axis=1).reshape(6, 4)
    rois = np.concatenate([integers(0, 2, (6, 1), F), corners.astype(F)], axis=1)
    yield Case("max_roi_pool", "MaxRoiPool", [normal(2, 3, 10, 12), rois], domain="", pooled_shape=[3, 4],
               spatial_scale=0.5)


def lists():
    """Sequences and optionals of ONNX itself, by what comes out of them again; Scan of version 8; GlobalLpPool."""
    x, y = normal(2, 3), normal(2, 3)
    yield Case("sequence_erase", "", [x, y, scalar(-2, np.int64)], 2, domain="", nodes=[
        n("SequenceConstruct", ["i0", "i1", "i0"], ["s"]), n("SequenceErase", ["s", "i2"], ["t"]), n("SequenceLength", ["t"], ["o0"]),
        n("ConcatFromSequence", ["t"], ["o1"], axis=1)])
    yield Case("sequence_empty", "", [x, y, scalar(0, np.int64)], 2, domain="", nodes=[
        n("SequenceEmpty", [], ["e"]), n("SequenceInsert", ["e", "i0"], ["s"]), n("SequenceInsert", ["s", "i1", "i2"], ["t"]),
        n("SequenceAt", ["t", "i2"], ["o0"]), n("ConcatFromSequence", ["t"], ["o1"], axis=-1, new_axis=1)])
    yield Case("optional", "", [x], 2, domain="", nodes=[
        n("Optional", ["i0"], ["p"]), n("OptionalHasElement", ["p"], ["o0"]), n("OptionalGetElement", ["p"], ["o1"])])
    for p in (1, 2, 3):
        yield Case(f"global_lp_pool_{p}", "GlobalLpPool", [normal(2, 3, 4, 5)], domain="", p=p)
    values = [h.make_tensor_value_info(name, T.FLOAT, [2]) for name in ("a", "b", "c", "d")]
    body = h.make_graph([n("Add", ["a", "b"], ["c"]), n("Mul", ["c", "b"], ["d"])], "body", values[:2], values[2:])
    for name, lengths, more in (("plain", None, {}), ("lengths", np.array([3, 1, 2]), {}), ("reverse", None, {"directions": [1]})):
        yield Case("scan_8_" + name, "Scan", [lengths, normal(3, 2), normal(3, 4, 2)], 2, domain="", version=8, body=body,
                   num_scan_inputs=1, **more)


GROUPS = (activations, products, norms, attention, grouped, blocks, quantized, recurrent, regions, moves, lists, embedded, of_tensorflow)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "contrib")
    ort.set_default_logger_severity(4)
    for group in GROUPS:
        for case in group():
            try:
                case.write(out)
            except Exception as e:
                sys.exit(f"{case.name}: {e}")


if __name__ == "__main__":
    main()
