#!/usr/bin/env python3
"""Give ONNX's conformance cases to other runtimes, by the same comparison that tercel gets, and write what came of each.

    python tests/conformance/measure_peers.py [-k TEXT] > tests/conformance/peers.tsv

needs onnxruntime and openvino beside what tests/requirements.txt names.  Every case runs in a process of its own, so that a
crash or a hang is one case that failed.  The file has a line a case; its cells: pass, random (its numbers can't be compared; it has
the right shapes, types and means), fail (wrong answer), refused (the model was not taken), crash, hang.
"""
import argparse
import ctypes
import os
import select
import signal
import sys
import warnings

import ml_dtypes
import numpy as np
import onnx
import onnx.reference
import onnxruntime
import openvino
from onnx import helper, numpy_helper
from onnx_cases import RANDOM, alike, cases, feed, same

SECONDS = 60


def to_ort(array, data_type):
    """An array as a tensor of ONNX Runtime; elements that numpy has no type for are written into its memory."""
    if array.dtype.isbuiltin == 1:
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(array.shape, data_type)
    packed = numpy_helper.from_array(array).raw_data
    ctypes.memmove(value.data_ptr(), packed, len(packed))
    return value


def from_ort(value):
    """A tensor of ONNX Runtime as an array; elements that numpy has no type for are taken from its memory."""
    if not value.is_tensor():
        return value.numpy()
    kind = helper.tensor_dtype_to_np_dtype(value.element_type())
    if kind.isbuiltin == 1:
        return value.numpy()
    tensor = onnx.TensorProto(data_type=value.element_type(), dims=value.shape())
    tensor.raw_data = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return numpy_helper.to_array(tensor)


def onnxruntime_runner(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    tensors = {info.name: info.type.tensor_type.elem_type for info in [*model.graph.input, *model.graph.output]}

    def run(inputs):
        if not all(isinstance(array, np.ndarray) for array in inputs.values()) or 0 in tensors.values() or any(
                kind == onnx.TensorProto.STRING for kind in tensors.values()):
            return session.run(None, inputs)
        values = {name: to_ort(array, tensors[name]) for name, array in inputs.items()}
        return [from_ort(value) for value in session.run_with_ort_values(None, values)]

    return run


OPENVINO_NARROW = {
    "bfloat16": openvino.Type.bf16, "float8_e4m3fn": openvino.Type.f8e4m3, "float8_e5m2": openvino.Type.f8e5m2,
    "float8_e8m0fnu": openvino.Type.f8e8m0, "float4_e2m1fn": openvino.Type.f4e2m1, "int4": openvino.Type.i4,
    "uint4": openvino.Type.u4, "uint2": openvino.Type.u2,
}


def to_openvino(array):
    kind = OPENVINO_NARROW.get(array.dtype.name)
    if kind is None:
        return array
    tensor = openvino.Tensor(kind, openvino.Shape(array.shape))
    packed = numpy_helper.from_array(array).raw_data
    ctypes.memmove(tensor.data.ctypes.data, packed, len(packed))
    return tensor


def from_openvino(tensor):
    """Elements that numpy has no type for are taken from its memory."""
    for name, kind in OPENVINO_NARROW.items():
        if tensor.element_type == kind:
            data_type = helper.np_dtype_to_tensor_dtype(np.dtype(getattr(ml_dtypes, name)))
            proto = onnx.TensorProto(data_type=data_type, dims=list(tensor.shape))
            proto.raw_data = ctypes.string_at(tensor.data.ctypes.data, tensor.byte_size)
            return numpy_helper.to_array(proto)
    return tensor.str_data if tensor.element_type == openvino.Type.string else tensor.data


def openvino_runner(model):
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model.SerializeToString()), "CPU",
                                  {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})
    request = compiled.create_infer_request()

    def run(inputs):
        named = [next(name for name in port.names if name in inputs) for port in compiled.inputs]
        request.infer({i: to_openvino(inputs[name]) for i, name in enumerate(named)})
        return [from_openvino(request.get_output_tensor(i)) for i in range(len(compiled.outputs))]

    return run


def reference_runner(model):
    evaluator = onnx.reference.ReferenceEvaluator(model)
    return lambda inputs: evaluator.run(None, inputs)


PEERS = {
    f"onnxruntime {onnxruntime.__version__}": onnxruntime_runner,
    f"openvino {openvino.__version__.split('-')[0]}": openvino_runner,
    f"onnx.reference {onnx.__version__}": reference_runner,
}


def judge(runner, case):
    try:
        run = runner(case.model)
    except Exception:  # each has exceptions of its own for what it does not support
        return "refused"
    try:
        for inputs, outputs in case.sets:
            got = run(feed(case, inputs))
            if len(got) != len(outputs):
                return "fail"
            for g, w in zip(got, outputs):
                g = g if g is None or isinstance(g, (list, dict)) else np.asarray(g)
                (alike if case.name in RANDOM else same)(g, w, case, "")
    except Exception:
        return "fail"
    return "random" if case.name in RANDOM else "pass"


def judge_apart(runner, case):
    """The same in a process of its own."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        os.write(write, judge(runner, case).encode())
        os._exit(0)
    os.close(write)
    ready, _, _ = select.select([read], [], [], SECONDS)
    word = os.read(read, 16).decode() if ready else "hang"
    os.close(read)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return word or "crash"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", default="", metavar="TEXT", help="only cases whose name holds TEXT")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print("kind", "name", *PEERS, sep="\t", flush=True)
    for case in cases():
        if arguments.k in case.name:
            print(case.kind, case.name, *(judge_apart(runner, case) for runner in PEERS.values()), sep="\t", flush=True)


if __name__ == "__main__":
    sys.exit(main())
