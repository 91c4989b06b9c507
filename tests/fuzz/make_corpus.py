#!/usr/bin/env python3
"""Models to begin fuzzing with, too many to keep in the repository: the models of ONNX's conformance cases, and stretches of the real
networks that tools/fetch got.

usage: tests/fuzz/make_corpus.py FOLDER [NETWORK.onnx...]

A stretch is some consecutive nodes with their small weights; where a weight is larger its stretch is left out.
"""
import pathlib
import sys
import warnings

import numpy as np
import onnx
from onnx import helper
from onnx.backend.test.loader import load_node_model_tests

MAX_BYTES = 8000
NODES, STEP = 10, 7


def conformance_models():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for case in load_node_model_tests():
            yield case.name, case.model


def captured(node):
    """Names that a node reads, those in its subgraphs too."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        if attribute.HasField("g"):
            inside = {name for n in attribute.g.node for name in n.output} | {i.name for i in attribute.g.input}
            inside |= {t.name for t in attribute.g.initializer}
            yield from (name for n in attribute.g.node for name in captured(n) if name not in inside)


def stretches(model):
    """Models of NODES nodes each, cut out of a network whose values have types."""
    graph = model.graph
    infos = {info.name: info for info in [*graph.input, *graph.value_info, *graph.output]}
    weights = {t.name: t for t in graph.initializer}
    for first in range(0, len(graph.node), STEP):
        nodes = graph.node[first:first + NODES]
        made = {name for node in nodes for name in node.output if name}
        read = dict.fromkeys(name for node in nodes for name in captured(node) if name not in made)
        if not all(name in weights or name in infos for name in read):
            continue
        inputs = [infos[name] for name in read if name not in weights]
        outputs = [helper.make_empty_tensor_value_info(name) for name in nodes[-1].output if name]
        kept = [weights[name] for name in read if name in weights]
        if sum(t.ByteSize() for t in kept) < MAX_BYTES and outputs:
            part = helper.make_graph(nodes, "stretch", inputs, outputs, kept)
            yield first, helper.make_model(part, opset_imports=model.opset_import, ir_version=model.ir_version)


def network_models(path):
    model = onnx.load(path, load_external_data=False)
    try:
        model = onnx.shape_inference.infer_shapes(model)
    except (onnx.shape_inference.InferenceError, ValueError):
        return
    for first, part in stretches(model):
        yield f"{path.stem}-{first}", part


def main(folder, networks):
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    sources = [conformance_models(), *(network_models(path) for path in networks)]
    for name, model in (pair for source in sources for pair in source):
        data = model.SerializeToString()
        if len(data) <= MAX_BYTES:
            (folder / f"{name}.onnx").write_bytes(data)
            count += 1
    print(f"{folder}: {count} models")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]), [pathlib.Path(argument) for argument in sys.argv[2:]])
