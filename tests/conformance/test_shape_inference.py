"""What tercel's inference knows of shapes and types beside what onnx.shape_inference (data propagation on) knows.  run-tests: seconds=120

All of ONNX's conformance cases, once with the shapes their inputs have and once with a symbol for each dim, and the fetched networks:
of every value of a graph tercel must know at least what onnx does, from inputs and constants alone (what the file declares of other
values is taken out).  With symbols, the cases are run too: what was inferred must come true.  As a program it lists every difference:

    PYTHONPATH=build/release/python python tests/conformance/test_shape_inference.py [part of a name]
"""
import collections
import csv
import os
import pathlib
import re
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import tercel
from test_onnx_backend import RANDOM, cases

# Where onnx and tercel differ and tercel is right: by operator, or by case where the operator says too little.
SAME_SIZE = "two names for one size: the operator wants both to be equal"
ZERO_FOR_OPEN = "onnx multiplies by a free dim as if it were 0"
DIFFERENCES = {
    "Attention": ZERO_FOR_OPEN,
    "MaxUnpool": SAME_SIZE,
    "Einsum": "a dim of 1 is broadcast (onnx's own reference does so), which the first operand's dim alone doesn't tell",
    "SequenceMap": "onnx takes over a name that only the body's declaration knows; tercel keeps the input's",
    "test_loop13_seq": "the body declares a sequence of scalars and puts lists into it",
}
# What tercel refuses with a symbol for every dim, and why that is no loss.
REFUSED = {
    "CausalConvWithState": "a weight without known channels and kernel: weights are constants",
    "Scan": "version 8 with a batch of unknown size; versions since 9 have no batch",
}


def with_outputs(model, symbolic):
    """The model with every value of its graph as an output of unknown type; dims of inputs made symbols, if so wished."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    names = dict.fromkeys([o.name for o in graph.output] + [name for node in graph.node for name in node.output if name])
    del graph.value_info[:], graph.output[:]
    for name in names:
        graph.output.add(name=name)
    given = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    for i, info in enumerate(graph.input if symbolic else ()):
        tensor = describe(info.type)[1]
        if info.name not in given and tensor is not None:
            for k, dim in enumerate(tensor.shape.dim):
                dim.dim_param = f"d{i}_{k}"
    return made


def describe(kind):
    """onnx's type as (kind of tercel.Node, the tensor type in it)."""
    name = {"tensor_type": "tensor", "sequence_type": "sequence", "optional_type": "optional"}.get(kind.WhichOneof("value"))
    if name == "optional" and kind.optional_type.elem_type.HasField("sequence_type"):
        return "optional_sequence", kind.optional_type.elem_type.sequence_type.elem_type.tensor_type
    if name in ("sequence", "optional"):
        return name, getattr(kind, f"{name}_type").elem_type.tensor_type
    return name, kind.tensor_type if name else None


def what_lacks(node, kind):
    """In what tercel's node falls behind onnx's type; None: in nothing."""
    name, tensor = describe(kind)
    if name is None:
        return None
    if node.kind != name:
        return f"a {node.kind}, onnx: a {name}"
    element = TensorProto.DataType.Name(tensor.elem_type).lower() if tensor.elem_type else ""
    if f"({element}" not in node.type:
        return f"{node.type}, onnx: {element}"
    if not tensor.HasField("shape"):
        return None
    dims = [d.dim_value if d.HasField("dim_value") else d.dim_param for d in tensor.shape.dim]
    known = f"{node.shape}, onnx: {dims}"
    if node.shape is None or len(node.shape) != len(dims):
        return known
    for ours, theirs in zip(node.shape, dims):
        if isinstance(theirs, int) and theirs >= 0 and ours != theirs:  # some files have -1 for what is open
            return known
        # Names of the form unk__0 are made up by onnx and say only "open".
        if isinstance(theirs, str) and theirs and not theirs.startswith("unk__") and ours != theirs and not isinstance(ours, int):
            return known
    return None


def compare(model, symbolic):
    """A session with every value as an output, how many values onnx told something of, and pairs (producing node, what lacks)."""
    opened = with_outputs(model, symbolic)
    inferred = onnx.shape_inference.infer_shapes(opened, check_type=True, strict_mode=False, data_prop=True).graph
    session = tercel.Session(opened.SerializeToString(), threads=1, optimize=False)
    types = {v.name: v.type for v in [*inferred.value_info, *inferred.output]}
    producers = {name: node for node in opened.graph.node for name in node.output}
    lacks = []
    for node in session.outputs:
        lack = what_lacks(node, types[node.name]) if node.name in types else None
        if lack:
            lacks.append((producers[node.name].op_type, f"'{node.name}' is {lack}"))
    return session, sum(types[name].WhichOneof("value") is not None for name in types), lacks


FUNCTIONS = {"floor_div": lambda a, b: a // b if b else 0, "min": min, "max": max}


def dims_of(value):
    return [dim for v in value for dim in dims_of(v)] if isinstance(value, list) else np.shape(value)


def what_fails(session, model, inputs):
    """Runs with real inputs: where an inferred shape is not what comes out; None where it comes true."""
    given = {t.name for t in model.graph.initializer}
    infos = list(model.graph.input)
    if len(inputs) < len(infos):  # none for initializers that are inputs, too
        infos = [info for info in infos if info.name not in given]
    pairs = [(info.name, v) for info, v in zip(infos, inputs) if info.name not in given]
    sizes = dict(FUNCTIONS)
    for node, (_, value) in zip(session.inputs, pairs):
        if node.kind == "tensor" and node.shape is not None:
            sizes.update({d: n for d, n in zip(node.shape, np.shape(value)) if isinstance(d, str)})
    if any(node.kind != "tensor" for node in session.inputs):
        return None  # elements of a sequence may differ
    try:
        results = session.run(None, dict(pairs))
    except tercel.Error as error:
        return f"the run fails: {error}"
    for node, value in zip(session.outputs, results):
        if node.kind != "tensor" or node.shape is None:
            continue
        shape = [eval(d, {}, sizes) if isinstance(d, str) and "?" not in d else d for d in node.shape]
        fits = len(shape) == value.ndim and all(w is None or isinstance(w, str) or w == n for w, n in zip(shape, value.shape))
        if not fits:
            return f"'{node.name}' of {node.shape} becomes {value.shape}"
    return None


def not_supported(case):
    """Cases that tercel does not run at all are test_onnx_backend's matter."""
    try:
        tercel.Session(case.model.SerializeToString(), threads=1, optimize=False)
    except tercel.Unsupported:
        return True
    return False


def check_case(case, symbolic):
    """What is wrong with the case, as a list of texts, and the number of values compared."""
    operators = {node.op_type for node in case.model.graph.node}
    try:
        session, count, lacks = compare(case.model, symbolic)
    except tercel.Unsupported as error:
        excused = (symbolic and operators & REFUSED.keys()) or not_supported(case)
        return [] if excused else [f"refused: {error}"], 0
    wrong = [text for operator, text in lacks if operator not in DIFFERENCES and case.name not in DIFFERENCES]
    if symbolic and case.name not in RANDOM and case.kind != "light":
        for inputs, _ in case.sets:
            failure = what_fails(session, case.model, inputs)
            wrong += [failure] if failure else []
    return wrong, count


@pytest.fixture(scope="module")
def all_cases():
    return list(cases())


@pytest.mark.parametrize("symbolic", [False, True], ids=["numbers", "symbols"])
def test_conformance_cases(all_cases, symbolic):
    wrong, values = {}, 0
    for case in all_cases:
        failures, count = check_case(case, symbolic)
        values += count
        if failures:
            wrong[f"{case.kind}/{case.name}"] = failures
    print(f"\nshape inference: {len(all_cases)} cases, {values} values, {len(wrong)} cases in which onnx knows more")
    assert not wrong


def networks():
    with open(pathlib.Path(__file__).parent.parent / "models/models.tsv", encoding="utf-8") as file:
        return [row["file"] for row in csv.DictReader(file, delimiter="\t") if row["file"].endswith(".onnx")]


@pytest.mark.parametrize("file", networks())
def test_networks(fetched, file):
    _, count, lacks = compare(onnx.load(fetched(file)), False)
    assert count > 0 and not [text for operator, text in lacks if operator not in DIFFERENCES]


def main(part):
    for symbolic in (False, True):
        total = collections.Counter()
        for case in cases():
            if part not in case.name:
                continue
            failures, count = check_case(case, symbolic)
            total.update(cases=1, values=count, behind=bool(failures))
            for failure in failures:
                print(case.kind, case.name, failure, sep="\t")
        print("symbols" if symbolic else "numbers", dict(total))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
