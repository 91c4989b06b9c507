"""Every type that an operator's specification lists: ONNX's node cases again, with other types.  run-tests: seconds=300

The inputs that share a type parameter ("T") are given each type that the schema allows it; a case's answer still holds where only
the width of the floats changes.  What is refused stands in REFUSED with the reason.
"""
import collections
import functools
import warnings

import numpy as np
import onnx
from onnx import helper
from onnx.backend.test.loader import load_node_model_tests

import tercel
from onnx_cases import RANDOM, to_numpy

# (operator, type of input): why no runtime could do that, or why tercel does not.
REFUSED = {
    ("Resize", "complex"): "only nearest neighbours can be copied",
    ("Resize", "string"): "only nearest neighbours can be copied",
    ("GridSample", "complex"): "only nearest neighbours can be copied",
    ("GridSample", "string"): "only nearest neighbours can be copied",
    ("ScatterElements", "complex"): "a reduction has no meaning there",
    ("ScatterElements", "string"): "a reduction has no meaning there",
    ("ScatterND", "complex"): "a reduction has no meaning there",
    ("ScatterND", "string"): "a reduction has no meaning there",
    ("Col2Im", "bool"): "sums of blocks have no meaning there",
    ("Col2Im", "complex"): "sums of blocks have no meaning there",
    ("Col2Im", "string"): "sums of blocks have no meaning there",
    ("Gemm", "int"): "alpha and beta of the cases are fractions",
    ("Gemm", "uint"): "alpha and beta of the cases are fractions",
    ("TfIdfVectorizer", "string"): "the cases' keys are integers",
    ("NonZero", "string"): "no word is empty, so there are more than the case declares",
}

# In f16 a case's answer must fit.
LARGEST = {"float16": 65504}

# The result has the input's type by another rule than a shared parameter; or a case's declared types say otherwise.
BY_ANOTHER_RULE = {"BitCast", "Bernoulli", "DequantizeLinear", "EyeLike", "LinearAttention", "TreeEnsemble", "SequenceInsert",
                   "SplitToSequence", "OptionalGetElement", "OptionalHasElement", "ImageDecoder"}

# Answers that hang on more than the width: rounded to other integers, or sums of bf16 that ONNX's evaluator rounds one by one.
TOLERANCE = {"double": 1e-3, "float": 1e-3, "float16": 1e-2, "bfloat16": 6e-2}


@functools.lru_cache(None)
def element_type(name):
    """'tensor(float16)' as TensorProto.FLOAT16, or None."""
    if not name.startswith("tensor("):
        return None
    text = name[7:-1]
    return getattr(onnx.TensorProto, text.upper(), None)


def retyped(value, elem_type):
    """The array in another type, or None where that makes no sense."""
    dtype, value = np.dtype(helper.tensor_dtype_to_np_dtype(elem_type)), np.asarray(value)
    if elem_type == onnx.TensorProto.STRING:
        return value.astype(np.float64 if value.dtype.kind == "V" else value.dtype).astype(str).astype(object)
    if value.dtype.kind in "OUS":
        return None
    if value.dtype == dtype:
        return value
    wide = value.astype(np.complex128 if value.dtype.kind == "c" else np.float64)
    if wide.dtype.kind == "c" and dtype.kind != "c":
        wide = wide.real
    if dtype.kind == "b":
        return wide != 0
    if "int" in dtype.name:
        wide = np.nan_to_num(wide)
        wide = np.abs(wide) if dtype.name.startswith("u") else wide
    return wide.astype(dtype)


def parameters(schema):
    for constraint in schema.type_constraints:
        yield constraint.type_param_str, [t for t in constraint.allowed_type_strs if element_type(t)]


def formal(items, i):
    return items[min(i, len(items) - 1)]


def variant(case, schema, parameter, elem_type):
    """The case's model and feeds with every input of that type parameter in elem_type, and whether they were floats before; None:
    nothing changes."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    node = model.graph.node[0]
    feeds = dict(zip([i.name for i in model.graph.input], map(to_numpy, case.data_sets[0][0])))
    infos = {i.name: i for i in [*model.graph.input, *model.graph.output]}
    changed, floats = False, True
    for i, name in enumerate(node.input):
        if not name or name not in feeds or isinstance(feeds[name], (list, type(None))) or formal(schema.inputs, i).type_str != parameter:
            continue
        floats = floats and np.asarray(feeds[name]).dtype.kind == "f"
        feeds[name] = retyped(feeds[name], elem_type)
        if feeds[name] is None:
            return None
        infos[name].type.tensor_type.elem_type = elem_type
        changed = True
    for i, name in enumerate(node.output):
        if name and formal(schema.outputs, i).type_str == parameter and infos[name].type.HasField("tensor_type"):
            infos[name].type.tensor_type.elem_type = elem_type
    return (model, feeds, floats) if changed else None


def variants():
    """(operator, type's name, case, model, feeds, whether floats stay floats), one for each operator, parameter, type and set of attributes."""
    seen = set()
    for case in load_node_model_tests():
        nodes = case.model.graph.node
        if len(nodes) != 1 or "expanded" in case.name or case.name in RANDOM or nodes[0].op_type in BY_ANOTHER_RULE:
            continue
        if any(a.HasField("g") for a in nodes[0].attribute):
            continue
        node = nodes[0]
        version = {o.domain: o.version for o in case.model.opset_import}[node.domain]
        schema = onnx.defs.get_schema(node.op_type, version, node.domain)
        for parameter, types in parameters(schema):
            for name in types:
                key = (node.op_type, parameter, name, len(node.input), tuple(sorted(a.name for a in node.attribute)))
                if key in seen:
                    continue
                seen.add(key)
                made = variant(case, schema, parameter, element_type(name))
                if made is not None:
                    yield node.op_type, name[7:-1], case, *made


def differs(got, want, tolerance, largest):
    """By how much an answer is off, or None; only floats of floats are compared."""
    if isinstance(want, (list, type(None))) or np.asarray(want).dtype.kind != "f" or got.shape != want.shape:
        return None
    got, want = got.astype(np.float64), want.astype(np.float64)
    if not np.isfinite(want).all() or np.max(np.abs(want), initial=0) > largest:
        return None
    worst, scale = np.max(np.abs(got - want), initial=0), max(np.max(np.abs(want), initial=0), 1)
    return None if worst <= tolerance * scale else f"off by {worst:.3g} of {scale:.3g}"


def refusal(operator, type_name):
    return next((why for (op, kind), why in REFUSED.items() if op == operator and type_name.startswith(kind)), None)


def sweep():
    counts, problems = collections.Counter(), []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for operator, type_name, case, model, feeds, floats in variants():
            try:
                got = tercel.Session(model.SerializeToString(), threads=1).run(None, feeds)
            except tercel.Error as e:
                if refusal(operator, type_name):
                    counts["refused"] += 1
                else:
                    problems.append(f"{operator} of {type_name} ({case.name}): {e}")
                continue
            counts["run"] += 1
            if type_name not in TOLERANCE or not floats:
                continue
            for g, w in zip(got, map(to_numpy, case.data_sets[0][1])):
                off = differs(g, w, TOLERANCE[type_name], LARGEST.get(type_name, np.inf))
                if off:
                    problems.append(f"{operator} of {type_name} ({case.name}): {off}")
    return counts, problems


def test_types():
    counts, problems = sweep()
    print(f"types: {counts['run']} variants run, {counts['refused']} refused with a reason")
    assert not problems, "\n".join(problems)
    assert counts["run"] > 3500
