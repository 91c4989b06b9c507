#!/usr/bin/env python3
"""Write ONNX's conformance cases as files, so that `tercel test` runs them without Python.

    python tests/conformance/export_cases.py DIR      then: tercel test DIR

DIR/KIND/NAME/model.onnx with test_data_set_N/input_I.pb and output_I.pb beside it, and DIR/index.tsv with the tolerances.
"""
import pathlib
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx_cases import cases, feed


def to_proto(value, info):
    kind = info.type.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.from_list(value, info.name)
    if kind == "optional_type":
        return numpy_helper.from_optional(value, info.name)
    array = np.asarray(value)
    if array.dtype.kind in "US":
        array = array.astype(object)
    if array.dtype == object:
        flat = [text if isinstance(text, bytes) else str(text).encode() for text in array.reshape(-1)]
        return helper.make_tensor(info.name, TensorProto.STRING, array.shape, flat)
    return numpy_helper.from_array(array, info.name)


def export(case, root):
    folder = root / case.kind / case.name
    infos = {info.name: info for info in case.model.graph.input}
    for number, (inputs, outputs) in enumerate(case.sets):
        data = folder / f"test_data_set_{number}"
        data.mkdir(parents=True)
        for i, (name, value) in enumerate(feed(case, inputs).items()):
            (data / f"input_{i}.pb").write_bytes(to_proto(value, infos[name]).SerializeToString())
        for i, (value, info) in enumerate(zip(outputs, case.model.graph.output)):
            (data / f"output_{i}.pb").write_bytes(to_proto(value, info).SerializeToString())
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())


def export_all(all_cases, root):
    root.mkdir(parents=True, exist_ok=True)
    lines = ["kind\tname\trtol\tatol"]
    for case in all_cases:
        export(case, root)
        lines.append(f"{case.kind}\t{case.name}\t{case.rtol}\t{case.atol}")
    (root / "index.tsv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    export_all(cases(), pathlib.Path(sys.argv[1]))
